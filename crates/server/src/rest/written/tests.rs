use super::*;
use proptest::prelude::*;

fn value(text: &str) -> Result<ParameterValue, String> {
    let written = Written::read(text, "no JSON").and_then(Written::parameter);
    written.map_err(|(_, what)| what)
}

#[test]
fn numbers_keep_their_digits() {
    let (decimal, float) = (|digits: &str| ParameterValue::Decimal(digits.into()), ParameterValue::Float);
    for (text, wanted) in [
        ("-9223372036854775808", ParameterValue::Integer(i64::MIN.into())),
        ("18446744073709551615", ParameterValue::Integer(u64::MAX.into())),
        ("18446744073709551616", decimal("18446744073709551616")),
        ("-9223372036854775809", decimal("-9223372036854775809")),
        ("100000000000000000000", decimal("100000000000000000000")),
        ("0.12345678901234567890", decimal("0.1234567890123456789")),
        ("-1.2345678901234567890e-5", decimal("-0.000012345678901234567890").clone()),
        ("123456789012345678.5E3", decimal("123456789012345678500")),
        ("0.1", float(0.1)),
        ("0.30000000000000004", float(0.1 + 0.2)),
        ("1.50", float(1.5)),
        ("1e20", float(1e20)),
        ("-2.5e-300", float(-2.5e-300)),
        // More than a DECIMAL holds.
        ("0.1234567890123456789012345678901234567890", float(0.123_456_789_012_345_68)),
    ] {
        let wanted = match wanted {
            ParameterValue::Decimal(text) => ParameterValue::Decimal(digits(&text).expect("digits")),
            other => other,
        };
        assert_eq!(value(text), Ok(wanted), "{text}");
    }
}

#[test]
fn members_are_given_once() {
    for text in ["{\"a\":1,\"a\":1}", "[{\"b\":{\"a\":null, \"x\":[], \"\\u0061\":2}}]"] {
        assert_eq!(Written::read(text, "no JSON").map_err(|(_, what)| what), Err("a is given twice".into()));
    }
    assert!(Written::read("[{\"a\":1},{\"a\":1}]", "no JSON").is_ok());
    assert!(Written::read("{\"a\":1,}", "no JSON").is_err_and(|(_, what)| what.starts_with("no JSON: ")));
}

/// A value of JSON, with what `serde_json` keeps of it.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("a number of JSON", |x| x.is_finite()).prop_map(Value::from),
        "[\"\\\\,:{}\\[\\] \n\u{e9}a]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::hash_map("[\"\\\\:a-d\u{e9}]{0,3}", inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn same(written: &Written<'_>, value: &Value) -> bool {
    match (&written.kind, value) {
        (Kind::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| same(a, b))
        }
        (Kind::Object(ours), Value::Object(theirs)) => {
            ours.len() == theirs.len()
                && ours.iter().all(|(name, a)| theirs.get(name).is_some_and(|b| same(a, b)))
        }
        (Kind::Text(ours), Value::String(theirs)) => ours == theirs,
        // Not by serde_json, which reads some doubles as those next to them.
        (Kind::Number, Value::Number(number)) => written.text.parse().ok() == number.as_f64(),
        (Kind::Null, Value::Null) => true,
        (Kind::Boolean(ours), Value::Bool(theirs)) => ours == theirs,
        _ => false,
    }
}

proptest! {
    #[test]
    fn it_reads_what_serde_json_reads(value in any_json(), is_pretty: bool) {
        let text = if is_pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        let text = text.expect("JSON");
        let written = Written::read(&text, "no JSON").expect("it is JSON");
        prop_assert!(same(&written, &value), "{text}");
    }
}
