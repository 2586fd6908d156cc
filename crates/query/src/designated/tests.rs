//! What rows say of the table they come from.

use super::*;
use tickstone_model::{ColumnType, TableSchema};

fn source() -> Schema {
    let table = TableSchema::builder("t")
        .column("ts", ColumnType::Timestamp)
        .column("symbol", ColumnType::Symbol)
        .column("venue", ColumnType::Symbol)
        .column("price", ColumnType::Float64)
        .timestamp("ts")
        .series(["venue", "symbol"])
        .partition_by(PartitionBy::Hour);
    marked_schema(&table.build().expect("a schema"))
}

fn of(schema: &Schema, columns: &[usize]) -> Layout {
    Layout::of(&schema.project(columns).expect("columns of it"))
}

#[test]
fn a_layout_comes_along_with_its_columns() {
    let all = Layout { timestamp: Some(0), series: Some(vec![2, 1]), partition_by: Some(PartitionBy::Hour) };
    assert_eq!(of(&source(), &[0, 1, 2, 3]), all);
    assert_eq!(of(&source(), &[2, 0, 1]), Layout { timestamp: Some(1), series: Some(vec![0, 2]), ..all });
    assert_eq!(of(&source(), &[0, 1]).series, None);
    assert_eq!(of(&source(), &[1, 2, 3]), Layout::default());
}

#[test]
fn what_is_there_twice_or_may_be_null_is_no_layout() {
    assert_eq!(of(&source(), &[0, 1, 2, 0]), Layout::default());
    assert_eq!(of(&source(), &[0, 1, 2, 1]).series, None);
    let fields =
        source().fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect::<Vec<_>>();
    assert_eq!(of(&Schema::new(fields), &[0, 1, 2]), Layout::default());
}
