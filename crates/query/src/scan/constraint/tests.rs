//! Which filters a scan takes over, and what it makes of them.

use super::*;
use datafusion::arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use datafusion::arrow::compute::cast;
use datafusion::prelude::{col, lit};
use std::sync::Arc;
use tickstone_engine::disk::MemoryDisk;
use tickstone_engine::{Engine, EngineOptions, SystemClock};
use tickstone_model::TableSchema;

/// A table with the symbols a, b, c (ids 0, 1, 2) in its series column.
fn table() -> Arc<TableSnapshot> {
    let options = EngineOptions { background: false, ..EngineOptions::default() };
    let engine = Engine::open_on(Arc::new(MemoryDisk::new()), Arc::new(SystemClock), options).unwrap();
    let schema = TableSchema::builder("t")
        .column("ts", ColumnType::Timestamp)
        .column("sym", ColumnType::Symbol)
        .column("side", ColumnType::Symbol)
        .column("px", ColumnType::Float64)
        .timestamp("ts")
        .build()
        .unwrap();
    engine.create_table(schema.clone()).unwrap();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampNanosecondArray::from(vec![1, 2, 3])),
        Arc::new(StringArray::from(vec!["a", "b", "c"])),
        Arc::new(StringArray::from(vec!["buy", "sell", "buy"])),
        Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0])),
    ];
    let columns = columns.iter().zip(schema.edge().fields()).map(|(c, f)| cast(c, f.data_type()).unwrap());
    let batch = RecordBatch::try_new(Arc::clone(schema.edge()), columns.collect()).unwrap();
    engine.append("t", &batch, None).unwrap();
    Arc::clone(engine.snapshot().table("t").unwrap())
}

fn nanos(value: i64) -> Expr {
    lit(ScalarValue::TimestampNanosecond(Some(value), None))
}

#[track_caller]
fn check(filter: Expr, time: (i64, i64), ids: Option<&[SymbolId]>, exact: bool) {
    let found = Constraint::of(&table(), &filter).unwrap_or_else(|| panic!("{filter} is not used"));
    assert_eq!((found.time.from, found.time.to), time, "{filter}");
    assert_eq!(found.series.get(&1).map(Vec::as_slice), ids, "{filter}");
    assert_eq!(found.exact, exact, "{filter}");
}

const MIN: i64 = i64::MIN;
const MAX: i64 = i64::MAX;

#[test]
fn time_comparisons_are_exact_half_open_ranges() {
    check(col("ts").gt_eq(nanos(5)), (5, MAX), None, true);
    check(col("ts").gt(nanos(5)), (6, MAX), None, true);
    check(col("ts").lt(nanos(5)), (MIN, 5), None, true);
    check(col("ts").lt_eq(nanos(5)), (MIN, 6), None, true);
    check(col("ts").eq(nanos(5)), (5, 6), None, true);
    check(nanos(5).lt(col("ts")), (6, MAX), None, true);
    check(col("ts").between(nanos(2), nanos(4)), (2, 5), None, true);
    check(col("ts").gt(nanos(2)).and(col("ts").lt(nanos(9))), (3, 9), None, true);
    check(col("ts").lt(nanos(2)).or(col("ts").gt(nanos(7))), (MIN, MAX), None, false);
    check(col("ts").gt(nanos(MAX)), (MAX, MAX), None, true);
}

#[test]
fn time_literals_come_in_any_unit_or_as_text() {
    check(col("ts").gt(lit(ScalarValue::TimestampSecond(Some(1), None))), (1_000_000_001, MAX), None, true);
    check(col("ts").lt(lit(ScalarValue::Date32(Some(1)))), (MIN, 86_400_000_000_000), None, true);
    check(col("ts").lt(lit("1970-01-02")), (MIN, 86_400_000_000_000), None, true);
    assert_eq!(Constraint::of(&table(), &col("ts").lt(lit("soon"))), None);
    assert_eq!(Constraint::of(&table(), &col("ts").lt(lit(ScalarValue::Utf8(None)))), None);
}

#[test]
fn a_cast_to_utc_changes_nothing() {
    let utc = |zone: &str| DataType::Timestamp(TimeUnit::Nanosecond, Some(zone.into()));
    let later = lit(ScalarValue::TimestampNanosecond(Some(5), Some("UTC".into())));
    check(datafusion::prelude::cast(col("ts"), utc("UTC")).gt(later.clone()), (6, MAX), None, true);
    let berlin = datafusion::prelude::cast(col("ts"), utc("Europe/Berlin")).gt(later);
    assert_eq!(Constraint::of(&table(), &berlin), None);
}

#[test]
fn series_equality_is_exact() {
    check(col("sym").eq(lit("b")), (MIN, MAX), Some(&[1]), true);
    check(lit("b").eq(col("sym")), (MIN, MAX), Some(&[1]), true);
    check(col("sym").eq(lit("none")), (MIN, MAX), Some(&[]), true);
    check(col("sym").in_list(vec![lit("c"), lit("a"), lit("c")], false), (MIN, MAX), Some(&[0, 2]), true);
    check(col("sym").eq(lit("c")).or(col("sym").eq(lit("a"))), (MIN, MAX), Some(&[0, 2]), true);
    check(col("sym").eq(lit("a")).and(col("sym").eq(lit("b"))), (MIN, MAX), Some(&[]), true);
    check(datafusion::prelude::cast(col("sym"), DataType::Utf8).eq(lit("b")), (MIN, MAX), Some(&[1]), true);
    let dictionary = ScalarValue::Dictionary(Box::new(DataType::UInt32), Box::new(ScalarValue::from("b")));
    check(col("sym").eq(lit(dictionary)), (MIN, MAX), Some(&[1]), true);
}

#[test]
fn what_cannot_be_exact_says_so_or_is_left_alone() {
    // one side unknown: the other still narrows the scan
    check(col("sym").eq(lit("a")).and(col("side").eq(lit("buy"))), (MIN, MAX), Some(&[0]), false);
    let mixed = col("sym").eq(lit("a")).or(col("ts").gt(nanos(3)));
    for filter in [
        mixed,
        col("side").eq(lit("buy")),
        col("sym").not_eq(lit("a")),
        col("sym").gt(lit("a")),
        col("sym").in_list(vec![lit("a")], true),
        col("sym").is_null(),
        col("ts").eq(col("ts")),
    ] {
        assert_eq!(Constraint::of(&table(), &filter), None, "{filter}");
    }
}

#[test]
fn bounds_never_hide_a_nan() {
    let bounds = |filter: Expr| Constraint::of(&table(), &filter).map(|constraint| constraint.bounds);
    assert_eq!(bounds(col("px").gt(lit(2.0))), None);
    assert_eq!(bounds(col("px").lt(lit(2.0))), None);
    let value = Some(StatValue::Float(2.0));
    assert_eq!(bounds(col("px").eq(lit(2.0))), Some(vec![(3, value, value)]));
}
