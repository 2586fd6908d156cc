use super::*;
use tickstone_query::arrow::array::{
    BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, DurationMillisecondArray,
    FixedSizeBinaryArray, Float32Array, Int8Array, Int64Array, IntervalMonthDayNanoArray, ListArray,
    NullArray, StringArray, StringViewArray, Time32SecondArray, TimestampSecondArray, UInt64Array,
};
use tickstone_query::arrow::datatypes::{Int32Type, Int64Type, IntervalMonthDayNano};
use tickstone_query::dialect::parse;

fn one(sql: &str) -> Statement {
    parse(sql).expect("SQL").remove(0)
}

#[test]
fn values_of_every_type() {
    let uuid = [0x12, 0x3e, 0x45, 0x67, 0xe8, 0x9b, 0x12, 0xd3, 0xa4, 0x56, 0x42, 0x66, 0x14, 0x17, 0x40, 0];
    let text = |text: &str| ParameterValue::Text(text.to_string());
    let cases: Vec<(ArrayRef, ParameterValue)> = vec![
        (Arc::new(BooleanArray::from(vec![true])), ParameterValue::Boolean(true)),
        (Arc::new(Int8Array::from(vec![-3])), ParameterValue::Integer(-3)),
        (Arc::new(UInt64Array::from(vec![u64::MAX])), ParameterValue::Integer(i128::from(u64::MAX))),
        (Arc::new(Float32Array::from(vec![0.5])), ParameterValue::Float(0.5)),
        (
            Arc::new(Decimal128Array::from(vec![-1_250]).with_precision_and_scale(10, 2).expect("a decimal")),
            ParameterValue::Decimal("-12.50".to_string()),
        ),
        (Arc::new(StringArray::from(vec!["é'"])), text("é'")),
        (
            Arc::new(StringViewArray::from(vec!["a view that is longer than twelve"])),
            text("a view that is longer than twelve"),
        ),
        (Arc::new(["x"].into_iter().collect::<DictionaryArray<Int32Type>>()), text("x")),
        (Arc::new(BinaryArray::from(vec![b"\x00\xff".as_ref()])), ParameterValue::Bytes(vec![0, 255])),
        (
            Arc::new(FixedSizeBinaryArray::try_from_iter([uuid].into_iter()).expect("a uuid")),
            text("123e4567-e89b-12d3-a456-426614174000"),
        ),
        (Arc::new(Date32Array::from(vec![-1])), ParameterValue::Date(-1)),
        (Arc::new(Time32SecondArray::from(vec![61])), ParameterValue::Time(61_000_000_000)),
        (
            Arc::new(TimestampSecondArray::from(vec![-1]).with_timezone("+02:00")),
            ParameterValue::Timestamp(-1_000_000_000),
        ),
        (Arc::new(DurationMillisecondArray::from(vec![-5])), ParameterValue::Duration(-5_000_000)),
        (
            Arc::new(IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(0, 1, 1)])),
            ParameterValue::Duration(86_400_000_000_001),
        ),
        (
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>([Some([Some(1), None])])),
            ParameterValue::List(vec![ParameterValue::Integer(1), ParameterValue::Null]),
        ),
        (Arc::new(NullArray::new(1)), ParameterValue::Null),
        (Arc::new(Int64Array::from(vec![None::<i64>])), ParameterValue::Null),
    ];
    for (column, wanted) in cases {
        assert_eq!(values(&column), Ok(vec![wanted]), "{}", column.data_type());
    }
}

#[test]
fn values_that_no_placeholder_takes() {
    let months: ArrayRef =
        Arc::new(IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(1, 0, 0)]));
    let far: ArrayRef = Arc::new(TimestampSecondArray::from(vec![i64::MAX / 1_000]));
    for column in [months, far] {
        assert!(values(&column).is_err(), "{}", column.data_type());
    }
}

#[test]
fn a_statement_for_each_row() {
    let batch = |numbers: Vec<i64>| {
        let columns: ArrayRef = Arc::new(Int64Array::from(numbers));
        RecordBatch::try_from_iter([("anything", columns)]).expect("a batch")
    };
    let statement = one("SELECT $1");
    let mut bound =
        Bound::new(statement.clone(), Some(vec![batch(vec![1, 2]), batch(vec![]), batch(vec![3])]));
    for number in 1..=3 {
        assert_eq!(bound.next().expect("values"), Some(one(&format!("SELECT {number}"))));
    }
    assert_eq!(bound.next().expect("values"), None);
    assert_eq!(Bound::new(one("SELECT 1"), None).next().expect("none"), Some(one("SELECT 1")));
    assert!(Bound::new(statement.clone(), None).next().is_err());
    assert!(Bound::new(one("SELECT 1"), Some(vec![batch(vec![1])])).next().is_err());
}

#[test]
fn placeholders_with_names_are_filled_by_name() {
    let columns: [(&str, ArrayRef); 2] =
        [("b", Arc::new(Int64Array::from(vec![2]))), ("a", Arc::new(Int64Array::from(vec![1])))];
    let batch = RecordBatch::try_from_iter(columns).expect("a batch");
    let mut bound = Bound::new(one("SELECT :a - :b"), Some(vec![batch]));
    assert_eq!(bound.next().expect("values"), Some(one("SELECT 1 - 2")));
    let columns: [(&str, ArrayRef); 2] =
        [("$2", Arc::new(Int64Array::from(vec![2]))), ("$1", Arc::new(Int64Array::from(vec![1])))];
    let batch = RecordBatch::try_from_iter(columns).expect("a batch");
    let mut bound = Bound::new(one("SELECT $1 - $2"), Some(vec![batch]));
    assert_eq!(bound.next().expect("values"), Some(one("SELECT 1 - 2")));
    assert_eq!(names(&one("SELECT $2, $10, $1")), ["1", "2", "10"]);
}
