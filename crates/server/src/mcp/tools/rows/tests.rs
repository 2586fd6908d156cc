use super::*;
use crate::statement::Rows;
use std::sync::Arc;
use tickstone_query::arrow::array::{
    BooleanArray, Decimal128Array, Float64Array, Int64Array, ListArray, RecordBatch, StringArray,
    TimestampNanosecondArray,
};
use tickstone_query::arrow::datatypes::{Field, Float64Type};

const LIMITS: Limits = Limits { rows: 100, bytes: 100_000, cell_chars: 20 };

fn of(columns: Vec<(&str, ArrayRef)>, limits: Limits) -> Grid {
    let batch = RecordBatch::try_from_iter(columns).expect("a batch");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(grid(Rows::of_batch(batch), limits)).expect("rows")
}

#[test]
fn values_in_json() {
    let decimal = Decimal128Array::from(vec![150]).with_precision_and_scale(9, 2).expect("a decimal");
    let list = ListArray::from_iter_primitive::<Float64Type, _, _>([Some([Some(1.5), None])]);
    let long = ListArray::from_iter_primitive::<Float64Type, _, _>([Some([Some(0.123456789); 9])]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("n", Arc::new(Int64Array::from(vec![i64::MAX]))),
        ("x", Arc::new(Float64Array::from(vec![0.1]))),
        ("nan", Arc::new(Float64Array::from(vec![f64::NAN]))),
        ("inf", Arc::new(Float64Array::from(vec![f64::NEG_INFINITY]))),
        ("b", Arc::new(BooleanArray::from(vec![true]))),
        ("s", Arc::new(StringArray::from(vec!["12"]))),
        ("none", Arc::new(StringArray::from(vec![None::<&str>]))),
        ("d", Arc::new(decimal)),
        ("ts", Arc::new(TimestampNanosecondArray::from(vec![1]))),
        ("l", Arc::new(list)),
        ("long", Arc::new(long)),
        ("cut", Arc::new(StringArray::from(vec!["é".repeat(21)]))),
        ("just", Arc::new(StringArray::from(vec!["é".repeat(20)]))),
    ];
    let grid = of(columns, Limits { cell_chars: 20, ..LIMITS });
    let cut = format!("{}…", "é".repeat(20));
    let row = json!([
        i64::MAX,
        0.1,
        "NaN",
        "-inf",
        true,
        "12",
        null,
        "1.50",
        grid.rows[0][8],
        [1.5, null],
        "[0.123456789, 0.1234…",
        cut,
        "é".repeat(20)
    ]);
    assert_eq!(json!(grid.rows[0]), row);
    assert!(grid.rows[0][8].as_str().is_some_and(|ts| ts.starts_with("1970-01-01T00:00:00")), "{grid:?}");
    assert!(grid.note().contains("mcp_cell_chars_max"), "{}", grid.note());
    assert!(!grid.is_cut());
}

#[test]
fn arrays_hold_what_columns_hold() {
    let decimals = Decimal128Array::from(vec![Some(12_345_678_901_234_567_890), None])
        .with_precision_and_scale(38, 20)
        .expect("decimals");
    let list = |values: ArrayRef, ends: Vec<i32>| -> ArrayRef {
        let field = Arc::new(Field::new("item", values.data_type().clone(), true));
        Arc::new(ListArray::new(field, OffsetBuffer::new(ends.into()), values, None))
    };
    let floats: ArrayRef =
        Arc::new(Float64Array::from(vec![Some(f64::NAN), Some(f64::INFINITY), Some(4.836323631564103e227)]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a, b", "12"]));
    let flags: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), None]));
    let nested = list(list(Arc::clone(&floats), vec![0, 1, 1, 3]), vec![0, 3]);
    let columns = vec![
        ("d", list(Arc::new(decimals), vec![0, 2])),
        ("x", list(floats, vec![0, 3])),
        ("s", list(texts, vec![0, 2])),
        ("b", list(flags, vec![0, 2])),
        ("n", nested),
    ];
    let grid = of(columns, Limits { cell_chars: 100, ..LIMITS });
    let row = json!([
        ["0.12345678901234567890", null],
        ["NaN", "inf", 4.836323631564103e227],
        ["a, b", "12"],
        [true, null],
        [["NaN"], [], ["inf", 4.836323631564103e227]]
    ]);
    assert_eq!(json!(grid.rows[0]), row);
}

#[test]
fn rows_and_bytes_have_an_end() {
    let numbers = || -> ArrayRef { Arc::new(Int64Array::from_iter_values(0..1000)) };
    let all = of(vec![("n", numbers())], Limits { rows: 1000, ..LIMITS });
    assert_eq!((all.rows.len(), all.is_cut(), all.note().as_str()), (1000, false, "1000 rows."));
    let some = of(vec![("n", numbers())], Limits { rows: 999, ..LIMITS });
    assert_eq!((some.rows.len(), some.is_cut()), (999, true));
    let few = of(vec![("n", numbers())], Limits { rows: 1000, bytes: 10, ..LIMITS });
    assert_eq!((few.rows.len(), few.is_cut()), (10, true));
    assert!(few.note().contains("mcp_answer_bytes_max"), "{}", few.note());
}

#[test]
fn tables_keep_their_columns() {
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a|b", "c\nd\te"]));
    let grid = of(vec![("x|y", texts)], LIMITS);
    assert_eq!(grid.text(), "| x\\|y |\n| --- |\n| a\\|b |\n| c<br>d e |\n");
}
