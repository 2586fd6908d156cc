use super::*;
use arrow_array::types::UInt32Type;
use arrow_array::{Decimal128Array, Float64Array, StringArray, StringViewArray, TimestampNanosecondArray};

fn schema() -> Arc<TableSchema> {
    let builder = TableSchema::builder("trades")
        .column("ts", ColumnType::Timestamp)
        .column("Symbol", ColumnType::Symbol);
    Arc::new(builder.column("price", ColumnType::Float64).timestamp("ts").build().unwrap())
}

fn dictionaries() -> Vec<Option<Arc<Dictionary>>> {
    vec![None, Some(Arc::default()), None]
}

fn times(count: i64) -> ArrayRef {
    Arc::new(TimestampNanosecondArray::from_iter_values(0..count))
}

#[test]
fn symbols_come_in_any_string_form() {
    let dictionaries = dictionaries();
    let values = [Some("b"), None, Some("a"), Some("b")];
    let keys = UInt32Array::from(vec![Some(3), None, Some(1), Some(3)]);
    // A dictionary with a value nobody uses: it must not become a symbol.
    let unused =
        DictionaryArray::<UInt32Type>::new(keys, Arc::new(StringArray::from(vec!["x", "a", "x", "b"])));
    let forms: [ArrayRef; 3] = [
        Arc::new(StringArray::from_iter(values)),
        Arc::new(StringViewArray::from_iter(values)),
        Arc::new(unused),
    ];
    for form in forms {
        let batch = RecordBatch::try_from_iter([("ts", times(4)), ("symbol", form)]).unwrap();
        let rows = to_rows(&schema(), &dictionaries, &batch).unwrap();
        let ids: Vec<_> = rows.symbols(1).unwrap().iter().collect();
        assert_eq!(ids, [Some(0), None, Some(1), Some(0)]);
        assert_eq!(rows.columns()[2].null_count(), 4, "a missing column is NULL");
    }
    assert_eq!(dictionaries[1].as_ref().unwrap().len(), 2);
    assert_eq!(dictionaries[1].as_ref().unwrap().values().iter().flatten().collect::<Vec<_>>(), ["b", "a"]);
}

#[test]
fn what_does_not_fit_is_named() {
    let check = |columns: Vec<(&str, ArrayRef)>, expect: &str| {
        let batch =
            RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap();
        let error = to_rows(&schema(), &dictionaries(), &batch).unwrap_err().to_string();
        assert_eq!(error, expect);
    };
    check(
        vec![("ts", times(1)), ("venue", times(1))],
        "column 'venue': expected a column of 'trades', found none of that name",
    );
    check(
        vec![("ts", times(1)), ("price", times(1))],
        "column 'price': expected 1 values of Float64, found 1 values of Timestamp(ns)",
    );
    check(
        vec![("ts", times(1)), ("symbol", Arc::new(Float64Array::from(vec![1.0])))],
        "column 'Symbol': expected SYMBOL, found Float64",
    );
    check(
        vec![("price", Arc::new(Float64Array::from(vec![1.0])))],
        "row 1: the designated timestamp 'ts' is NULL",
    );
}

#[test]
fn decimals_of_too_many_digits_are_refused() {
    let decimal = ColumnType::Decimal { precision: 4, scale: 2 };
    let builder = TableSchema::builder("m").column("ts", ColumnType::Timestamp).column("x", decimal);
    let schema = Arc::new(builder.timestamp("ts").build().unwrap());
    let stored = |value: i128| {
        let values = Decimal128Array::from(vec![Some(-9_999), None, Some(value)]);
        let values: ArrayRef = Arc::new(values.with_data_type(DataType::Decimal128(4, 2)));
        let batch = RecordBatch::try_from_iter([("ts", times(3)), ("x", values)]).unwrap();
        to_rows(&schema, &[None, None], &batch).map(|rows| rows.rows())
    };
    assert_eq!(stored(9_999).unwrap(), 3);
    assert_eq!(
        stored(10_000).unwrap_err().to_string(),
        "column 'x': expected values of DECIMAL(4,2), found the 10000 of 10^-2, which has more digits"
    );
    assert!(stored(-10_000).is_err());
}
