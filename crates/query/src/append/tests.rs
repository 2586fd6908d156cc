use super::{AppendRequest, append};
use crate::{Access, Database, DatabaseOptions, ErrorKind};
use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, StringViewArray,
    TimestampMicrosecondArray, TimestampNanosecondArray, TimestampSecondArray, new_null_array,
};
use datafusion::arrow::datatypes::DataType;
use std::sync::Arc;
use tickstone_model::{ColumnType, PartitionBy};

fn database() -> Database {
    Database::in_memory(DatabaseOptions::default()).expect("a database in memory")
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

fn ticks(rows: i64) -> RecordBatch {
    batch(vec![
        ("ts", Arc::new(TimestampMicrosecondArray::from_iter_values(0..rows))),
        (
            "symbol",
            Arc::new(StringViewArray::from_iter_values((0..rows).map(|row| ["A", "B"][row as usize % 2]))),
        ),
        ("price", Arc::new(Float64Array::from_iter_values((0..rows).map(|row| row as f64)))),
    ])
}

fn creating() -> AppendRequest {
    AppendRequest { create: true, ..AppendRequest::new("t") }
}

fn appended(database: &Database, request: &AppendRequest, batch: &RecordBatch) -> crate::Result<u64> {
    append(&Access::of_owner(database), request, &batch.schema(), [Ok(batch.clone())].into_iter())
}

/// Checks that a batch is refused with these words and leaves the table as it was.
fn refused(database: &Database, batch: &RecordBatch, words: &[&str]) {
    let rows = database.engine().snapshot().table("t").map(|table| table.rows());
    let error = appended(database, &creating(), batch).expect_err("it does not fit");
    let text = error.to_string();
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
    assert_eq!(error.kind, ErrorKind::FixRequest);
    assert_eq!(database.engine().snapshot().table("t").map(|table| table.rows()), rows);
}

#[test]
fn a_table_is_made_from_what_comes() {
    let database = database();
    assert_eq!(appended(&database, &creating(), &ticks(10)).expect("it is stored"), 10);
    let snapshot = database.engine().snapshot();
    let schema = snapshot.table("t").expect("it was made").schema();
    assert_eq!((schema.timestamp(), schema.series()), (Some(0), &[1][..]));
    assert_eq!(schema.columns()[1].column_type, ColumnType::Symbol);
    assert_eq!(schema.partition_by(), PartitionBy::Day);
    let missing = appended(&database, &AppendRequest::new("u"), &ticks(1)).expect_err("there is none");
    assert!(missing.hint.is_some_and(|hint| hint.contains("create")));
}

#[test]
fn few_rows_go_to_memory_many_into_parts() {
    let database = database();
    appended(&database, &creating(), &ticks(1_000)).expect("it is stored");
    let parts = || database.engine().snapshot().table("t").map(|table| table.partitions()[0].parts());
    assert_eq!(parts(), Some(0));
    appended(&database, &creating(), &ticks(1 << 18)).expect("it is stored");
    assert_eq!(parts(), Some(1));
    assert_eq!(database.engine().snapshot().table("t").map(|table| table.rows()), Some(1_000 + (1 << 18)));
}

#[test]
fn what_does_not_fit_is_refused_with_its_place() {
    let database = database();
    appended(&database, &creating(), &ticks(3)).expect("it is stored");
    let times = || Arc::new(TimestampNanosecondArray::from(vec![1, 2])) as ArrayRef;
    refused(
        &database,
        &batch(vec![("price", Arc::new(Float64Array::from(vec![1.0])))]),
        &["'ts'", "missing"],
    );
    refused(&database, &batch(vec![("ts", times()), ("x", times())]), &["no column 'x'", "price"]);
    let words = Arc::new(StringArray::from(vec!["1.5", "much"])) as ArrayRef;
    refused(&database, &batch(vec![("ts", times()), ("price", words)]), &["row 2", "'price'", "much"]);
    let none = Arc::new(TimestampNanosecondArray::from(vec![Some(1), None])) as ArrayRef;
    refused(&database, &batch(vec![("ts", none)]), &["row 2", "'ts' is NULL"]);
    let far = Arc::new(TimestampSecondArray::from(vec![1, i64::MAX])) as ArrayRef;
    refused(&database, &batch(vec![("ts", far)]), &["row 2", "TIMESTAMP"]);
    let numbers = Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef;
    refused(&database, &batch(vec![("ts", numbers)]), &["'ts'", "unit"]);
    let truths = Arc::new(BooleanArray::from(vec![true, false])) as ArrayRef;
    refused(&database, &batch(vec![("ts", times()), ("price", truths)]), &["'price'", "BOOLEAN"]);
}

#[test]
fn a_fraction_is_not_cut_off() {
    let database = database();
    let whole = |values: Vec<f64>| {
        let times = TimestampNanosecondArray::from_iter_values(0..values.len() as i64);
        batch(vec![("ts", Arc::new(times)), ("n", Arc::new(Float64Array::from(values)))])
    };
    let ints = batch(vec![
        ("ts", Arc::new(TimestampNanosecondArray::from(vec![0]))),
        ("n", Arc::new(Int64Array::from(vec![7]))),
    ]);
    appended(&database, &creating(), &ints).expect("it is stored");
    assert_eq!(appended(&database, &creating(), &whole(vec![1.0, -2.0])).expect("it fits"), 2);
    refused(&database, &whole(vec![1.0, 2.5]), &["row 2", "'n'", "2.5"]);
}

#[test]
fn a_table_that_cannot_be_filled_is_not_made() {
    let database = database();
    let lists_of_lists =
        new_null_array(&DataType::new_list(DataType::new_list(DataType::Int32, true), true), 1);
    refused(&database, &batch(vec![("v", lists_of_lists)]), &["'v'", "List"]);
    let none = batch(vec![("ts", Arc::new(TimestampNanosecondArray::from(vec![None::<i64>])))]);
    refused(&database, &none, &["row 1", "'ts' is NULL"]);
    assert!(database.engine().snapshot().table("t").is_none());
}

#[test]
fn another_shape_than_the_tables_is_refused() {
    let database = database();
    appended(&database, &creating(), &ticks(1)).expect("it is stored");
    let with = |change: &dyn Fn(&mut AppendRequest)| {
        let mut request = creating();
        change(&mut request);
        appended(&database, &request, &ticks(1))
    };
    assert!(with(&|request| request.timestamp = Some("price".to_string())).is_err());
    assert!(with(&|request| request.series = Some(Vec::new())).is_err());
    assert!(with(&|request| request.partition_by = Some(PartitionBy::Hour)).is_err());
    assert!(with(&|request| request.timestamp = Some("TS".to_string())).is_ok());
}
