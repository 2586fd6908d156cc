use super::*;
use arrow_array::{Array, Float64Array, TimestampNanosecondArray};
use tickstone_model::{AlterTable, Column, ColumnType};

fn schema() -> TableSchema {
    let builder =
        TableSchema::builder("t").column("ts", ColumnType::Timestamp).column("x", ColumnType::Float64);
    builder.timestamp("ts").build().unwrap()
}

fn add(name: &str) -> AlterTable {
    AlterTable::AddColumn(Column::new(name, ColumnType::Float64))
}

/// Versions 0 (ts, x), 1 (ts, x, y) since 10, 2 (ts, y) since 20.
fn history() -> History {
    let first = schema();
    let second = first.altered(&add("y")).unwrap();
    let third = second.altered(&AlterTable::DropColumn("x".into())).unwrap();
    History::new(Arc::new(first)).altered(10, Arc::new(second)).altered(20, Arc::new(third))
}

#[test]
fn frames_are_read_with_the_schema_of_their_position() {
    let history = history();
    let version = |position| history.at(position).map(|schema| schema.version());
    assert_eq!((version(5), version(15), version(25)), (Some(0), Some(1), Some(2)));
    assert_eq!(history.columns_of(0).map(|map| map.to_vec()), Some(vec![Some(0), None]));
    assert_eq!(history.columns_of(1).map(|map| map.to_vec()), Some(vec![Some(0), Some(2)]));
    assert_eq!(history.columns_of(2), None);
}

#[test]
fn a_new_name_or_ttl_is_no_new_version() {
    let renamed = schema().altered(&AlterTable::RenameTable("u".into())).unwrap();
    let history = History::new(Arc::new(schema())).altered(10, Arc::new(renamed));
    assert_eq!(history.versions.len(), 1);
    assert_eq!(history.at(5).unwrap().name(), "u");
}

#[test]
fn only_what_nobody_needs_is_forgotten() {
    let mut history = history();
    history.retire(12, TimeRange::new(0, 100));
    history.retire(15, TimeRange::new(0, 50));
    let left = |tape_from, used_from| {
        let pruned = history.pruned(tape_from, used_from)?;
        Some((pruned.versions.len(), pruned.retirements.len()))
    };
    assert_eq!(left(5, 0), None);
    assert_eq!(left(5, u32::MAX), None);
    assert_eq!(left(13, 0), Some((3, 1)));
    assert_eq!(left(13, 1), Some((2, 1)));
    assert_eq!(left(100, 1), Some((2, 0)));
    assert_eq!(left(100, u32::MAX), Some((1, 0)));
    assert!(history.pruned(100, 2).unwrap().at(15).is_none());
}

#[test]
fn a_later_and_wider_retirement_replaces_earlier_ones() {
    let mut history = History::new(Arc::new(schema()));
    history.retire(1, TimeRange::new(0, 10));
    history.retire(2, TimeRange::new(20, 30));
    history.retire(3, TimeRange::new(0, 15));
    assert_eq!(history.retirements.len(), 2);
    assert!(history.is_retired(&TimeRange::new(0, 5), 3));
    assert!(!history.is_retired(&TimeRange::new(0, 5), 4));
    assert!(!history.is_retired(&TimeRange::new(10, 20), 1));
}

#[test]
fn rows_are_fitted_without_a_copy() {
    let times = TimestampNanosecondArray::from(vec![1, 2]);
    let x = Float64Array::from(vec![0.5, 1.5]);
    let batch = RowBatch::new(Arc::new(schema()), vec![Arc::new(times), Arc::new(x)]).unwrap();
    let history = history();
    let fitted = fit_rows(&batch, history.at(25).unwrap());
    assert!(Arc::ptr_eq(&fitted.columns()[0], &batch.columns()[0]));
    assert_eq!((fitted.columns()[1].len(), fitted.columns()[1].null_count()), (2, 2));
}
