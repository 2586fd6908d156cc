//! How values become what a column holds.

use super::*;
use datafusion::arrow::array::{AsArray, Int64Array, StringArray};
use datafusion::arrow::datatypes::{TimestampNanosecondType, UInt32Type};

fn column(column_type: ColumnType) -> Column {
    Column::new("c", column_type)
}

#[test]
fn text_becomes_instants() {
    let text: ArrayRef = Arc::new(StringArray::from(vec![
        "1970-01-01",
        "1970-01-01T00:00:00.000000001Z",
        "1970-01-01 01:00:00+01:00",
    ]));
    let times = cast(&text, &column(ColumnType::Timestamp), 0).unwrap();
    assert_eq!(times.as_primitive::<TimestampNanosecondType>().values().as_ref(), [0, 1, 0]);
}

#[test]
fn text_becomes_symbols() {
    let text: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("a")]));
    let symbols = cast(&text, &column(ColumnType::Symbol), 0).unwrap();
    assert_eq!(symbols.as_dictionary::<UInt32Type>().values().len(), 1);
    assert_eq!(symbols.null_count(), 1);
}

#[test]
fn the_row_that_cannot_be_cast_is_named() {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 300]));
    let error = cast(&numbers, &column(ColumnType::Int8), 10).unwrap_err();
    assert_eq!(error.message, "row 13: the value for column 'c' is no TINYINT");
}

#[test]
fn a_number_is_no_instant() {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    assert!(cast(&numbers, &column(ColumnType::Timestamp), 0).unwrap_err().hint.is_some());
}
