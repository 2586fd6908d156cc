use super::*;
use std::sync::Arc;

fn check(array: ArrayRef, style: TimeStyle, expect: &[&str]) {
    let cells = Cells::new(&array, style).expect("shown");
    let text = |row| {
        let mut text = String::new();
        cells.write(row, &mut text);
        if cells.is_null(row) { "∅".to_string() } else { text }
    };
    assert_eq!((0..array.len()).map(text).collect::<Vec<_>>(), expect);
}

#[test]
fn values_as_text() {
    let doubles =
        vec![Some(1.5), None, Some(100.0), Some(1e300), Some(f64::NAN), Some(-0.00000001), Some(0.0)];
    check(
        Arc::new(Float64Array::from(doubles)),
        TimeStyle::Short,
        &["1.5", "∅", "100", "1e300", "NaN", "-1e-8", "0"],
    );
    let times: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1_723_161_253_500_000_000, 0, -1]));
    check(
        Arc::clone(&times),
        TimeStyle::Short,
        &["2024-08-08T23:54:13.5Z", "1970-01-01T00:00:00Z", "1969-12-31T23:59:59.999999999Z"],
    );
    check(
        times,
        TimeStyle::Full,
        &[
            "2024-08-08T23:54:13.500000000Z",
            "1970-01-01T00:00:00.000000000Z",
            "1969-12-31T23:59:59.999999999Z",
        ],
    );
    let symbols: DictionaryArray<UInt32Type> = vec![Some("a"), None, Some("b")].into_iter().collect();
    check(Arc::new(symbols), TimeStyle::Short, &["a", "∅", "b"]);
}

#[test]
fn arrays_as_json() {
    use arrow_array::builder::{ListBuilder, StringBuilder};
    let doubles = vec![
        Some(vec![Some(1.5), None, Some(f64::INFINITY), Some(100.0), Some(f64::NAN)]),
        None,
        Some(Vec::new()),
    ];
    let doubles = ListArray::from_iter_primitive::<Float64Type, _, _>(doubles);
    let expect = ["[1.5, null, Infinity, 100, NaN]", "∅", "[]"];
    check(Arc::new(doubles.clone()), TimeStyle::Short, &expect);
    check(Arc::new(doubles.slice(1, 2)), TimeStyle::Full, &expect[1..]);
    let mut words = ListBuilder::new(StringBuilder::new());
    words.append_value([Some("a,\"b\"\\"), Some(""), Some("\u{1}\n"), None]);
    check(Arc::new(words.finish()), TimeStyle::Full, &[r#"["a,\"b\"\\", "", "\u0001\n", null]"#]);
}
