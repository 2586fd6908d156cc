use super::*;
use crate::ndjson::sample;
use crate::{ColumnPlan, EpochUnit, TimeFormat};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampNanosecondType, UInt32Type};
use arrow_array::{Array, BooleanArray, ListArray};
use proptest::prelude::*;

fn plan() -> Arc<Plan> {
    use ColumnType::*;
    let column = |(name, column_type): (&str, ColumnType)| ColumnPlan {
        source: name.to_string(),
        column_type,
        time: TimeFormat::Epoch(EpochUnit::Millisecond),
        required: name == "ts",
        inferred: false,
    };
    let columns = [
        ("ts", Timestamp),
        ("sym", Symbol),
        ("px", Float64),
        ("id", Int64),
        ("note", Varchar),
        ("up", Boolean),
    ];
    Arc::new(Plan { columns: columns.into_iter().map(column).collect(), fields: Vec::new() })
}

#[test]
fn lines_become_rows() {
    let text = r#"{"ts":1723161253123,"sym":"BTC","px":"1.5","id":7,"note":"a\"b\u20ac\ud83d\ude00","up":true}
 { "sym" : "BTC" , "ts" : "2024-08-08T00:00:00Z", "px": 2, "note": {"a":[1,"}"]}, "other": 1, "up": null }

{"ts":"1723161253124","sym":null,"px":1e3,"note":""}"#;
    let chunk = Parser::new(plan()).parse(text.as_bytes(), false);
    assert_eq!(chunk.bad, vec![]);
    assert_eq!((chunk.rows, chunk.lines, chunk.ignored), (3, 4, vec!["other".to_string()]));
    let times = chunk.columns[0].as_primitive::<TimestampNanosecondType>();
    assert_eq!(
        times.values()[..],
        [1_723_161_253_123_000_000, 1_723_075_200_000_000_000, 1_723_161_253_124_000_000]
    );
    let symbols = chunk.columns[1].as_dictionary::<UInt32Type>();
    assert_eq!((symbols.keys().value(0), symbols.keys().value(1), symbols.is_null(2)), (0, 0, true));
    assert_eq!(chunk.columns[2].as_primitive::<Float64Type>().values()[..], [1.5, 2.0, 1000.0]);
    assert_eq!(
        chunk.columns[3].as_primitive::<Int64Type>().iter().collect::<Vec<_>>(),
        [Some(7), None, None]
    );
    let notes = chunk.columns[4].as_string::<i32>();
    assert_eq!(notes.iter().collect::<Vec<_>>(), [Some("a\"b€😀"), Some(r#"{"a":[1,"}"]}"#), Some("")]);
    let ups: &BooleanArray = chunk.columns[5].as_boolean();
    assert_eq!(ups.iter().collect::<Vec<_>>(), [Some(true), None, None]);
}

#[test]
fn arrays_are_read_and_undone() {
    let column = |(source, column_type): (&str, ColumnType)| ColumnPlan {
        source: source.to_string(),
        column_type,
        time: TimeFormat::Iso,
        required: false,
        inferred: false,
    };
    let types = [("px", ColumnType::parse("DOUBLE[]")), ("tags", ColumnType::parse("VARCHAR[]"))];
    let columns = types.map(|(name, column_type)| column((name, column_type.unwrap()))).to_vec();
    let text = r#"{"px":[1.5, null ,2e1],"tags":["a","b\"c",null]}
{"px":[],"tags":null}
{"px":[1,"x"],"tags":[]}
{"px":[1,[2]]}
{"px":[1,]}
{"px":7}
{"px":"[ 3 ]","tags":[""]}"#;
    let chunk = Parser::new(Arc::new(Plan { columns, fields: Vec::new() })).parse(text.as_bytes(), false);
    assert_eq!((chunk.rows, chunk.bad.len()), (3, 4));
    let fault = Fault::NotA { wanted: ColumnType::parse("DOUBLE[]").unwrap(), fits: ColumnType::Varchar };
    assert_eq!(chunk.bad[0].fault, fault);
    assert_eq!(chunk.bad[0].text, r#"[1,"x"]"#);
    let prices = chunk.columns[0].as_list::<i32>();
    let wanted = [Some(vec![Some(1.5), None, Some(20.0)]), Some(vec![]), Some(vec![Some(3.0)])];
    assert_eq!(prices, &ListArray::from_iter_primitive::<Float64Type, _, _>(wanted));
    let tags = chunk.columns[1].as_list::<i32>();
    assert_eq!((tags.is_null(1), tags.value_length(2)), (true, 1));
    let words = tags.values().as_string::<i32>();
    assert_eq!(words.iter().collect::<Vec<_>>(), [Some("a"), Some("b\"c"), None, Some("")]);
}

#[test]
fn bad_lines_say_where_and_why() {
    let lines = [
        r#"{"ts":1,"px":1.5}"#,
        r#"{"ts":1,"px":"x"}"#,
        r#"{"ts":1,"id":1.5}"#,
        r#"{"px":1}"#,
        r#"{"ts":1,"px":1"#,
        r#"[1,2]"#,
        r#"{"ts":1,"ts":2}"#,
        r#"{"ts":1} x"#,
        r#"{"ts":1,"px":nul}"#,
        r#"{"ts":1,"id":[1}]}"#,
        r#"{"ts":2}"#,
    ];
    let chunk = Parser::new(plan()).parse(lines.join("\n").as_bytes(), false);
    assert_eq!(chunk.rows, 2);
    let found: Vec<(u64, String)> = chunk.bad.iter().map(|bad| (bad.line, bad.fault.to_string())).collect();
    let expected = [
        (1, "is not a DOUBLE"),
        (2, "is not a BIGINT"),
        (3, "is empty, and the designated timestamp cannot be NULL"),
        (4, "is not a JSON object: ',' or '}' is missing"),
        (5, "is not a JSON object: it does not begin with '{'"),
        (6, "is not a JSON object: a key comes twice"),
        (7, "is not a JSON object: text after its closing '}'"),
        (8, "is not a JSON object: a word that is no JSON value"),
        (9, "is not a JSON object: brackets do not match"),
    ];
    assert_eq!(found, expected.map(|(line, fault)| (line, fault.to_string())));
}

#[test]
fn samples_keep_the_order_of_keys() {
    let columns = sample(b"{\"ts\":1723161253123,\"b\":\"x\"}\n{\"a\":1.5,\"b\":null}\nnot json\n", 100);
    let found: Vec<_> = columns.iter().map(|c| (c.name().to_string(), c.conclude().column_type)).collect();
    let expected = [("ts", ColumnType::Timestamp), ("b", ColumnType::Varchar), ("a", ColumnType::Float64)];
    assert_eq!(found, expected.map(|(name, column_type)| (name.to_string(), column_type)));
}

proptest! {
    #[test]
    fn any_bytes(bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'{'), Just(b'"'), Just(b'\n'), Just(b':'), Just(b','), Just(b'}'), Just(b'\\')], 0..200)) {
        let chunk = Parser::new(plan()).parse(&bytes, false);
        prop_assert!(chunk.columns.iter().all(|column| column.len() == chunk.rows));
        let _ = sample(&bytes, 10);
    }

    /// A line of our keys with any bytes in place of the values.
    #[test]
    fn any_values(values in proptest::collection::vec("\\PC{0,8}|[-0-9.e]{0,9}|\"[^\"\n]{0,9}\"|[\\[\\]{}]{0,5}", 4)) {
        let line = format!("{{\"ts\":{},\"sym\":{},\"px\":{},\"note\":{}}}\n", values[0], values[1], values[2], values[3]);
        let chunk = Parser::new(plan()).parse(line.as_bytes(), false);
        prop_assert_eq!(chunk.rows + chunk.bad.len(), 1);
    }
}

#[test]
fn the_first_line_that_is_no_object_is_told() {
    use super::super::first_fault;
    let fault = |text: &str| first_fault(text.as_bytes()).map(|(line, shown, _)| (line, shown));
    assert_eq!(fault("{\"a\": 1}\n\n{}"), None);
    assert_eq!(fault("{\"a\": 1}\n\n{'a': 1}\n"), Some((2, "{'a': 1}".to_string())));
    assert_eq!(fault(" '{\"a\": 1}'\n"), Some((0, "'{\"a\": 1}'".to_string())));
    let (_, _, what) = first_fault(b"{\"a\": 'x'}").expect("a fault");
    assert!(what.contains("double"), "{what}");
}

/// The columns of a plan without times of their own.
fn columns(columns: &[(&str, ColumnType)], inferred: bool) -> Arc<Plan> {
    let column = |(source, column_type): &(&str, ColumnType)| ColumnPlan {
        source: (*source).to_string(),
        column_type: *column_type,
        time: TimeFormat::Epoch(EpochUnit::Millisecond),
        required: false,
        inferred,
    };
    Arc::new(Plan { columns: columns.iter().map(column).collect(), fields: Vec::new() })
}

#[test]
fn columns_within_objects() {
    use ColumnType::{Float64, Timestamp, Varchar};
    let plan = columns(
        &[
            ("data.T", Timestamp),
            ("data.p", Float64),
            ("data.k.o", Float64),
            ("data", Varchar),
            ("s", Varchar),
        ],
        false,
    );
    let text = r#"{"s":"a","data":{"T":1723161253123,"p":"1.5","k":{"o":2,"x":[1]},"q":{}},"other":{"p":7}}
{"data":{"p":2.5,"k":[{"o":1}]},"s":"b"}
{"data":[{"p":3}],"data.p":4}
{"data":null}
{"data":{"p":5},"data.p":6}
{"data":{"p":"x"}}"#;
    let chunk = Parser::new(plan).parse(text.as_bytes(), false);
    let bad: Vec<_> = chunk.bad.iter().map(|bad| (bad.line, bad.field.clone())).collect();
    assert_eq!(bad, [4, 5].map(|line| (line, Some((2, "data.p".to_string())))));
    let doubles =
        |column: usize| chunk.columns[column].as_primitive::<Float64Type>().iter().collect::<Vec<_>>();
    assert_eq!(doubles(1), [Some(1.5), Some(2.5), Some(4.0), None]);
    assert_eq!(doubles(2), [Some(2.0), None, None, None]);
    let times = chunk.columns[0].as_primitive::<TimestampNanosecondType>();
    assert_eq!(times.iter().collect::<Vec<_>>(), [Some(1_723_161_253_123_000_000), None, None, None]);
    assert_eq!(chunk.columns[3].as_string::<i32>().value(2), r#"[{"p":3}]"#);
    assert_eq!(chunk.ignored, ["other"]);
}

#[test]
fn keys_of_no_column_are_faults_where_none_may_be() {
    let plan = columns(&[("e", ColumnType::Varchar)], false);
    let text = b"{\"e\":\"a\"}\n{\"e\":\"b\",\"E\":1}\n{\"e\":\"c\"}\n{\"E\":1}\n{\"\xff\":1}\n";
    let faults = |strict: bool| {
        let chunk = Parser::new(Arc::clone(&plan)).strict(strict).parse(text, false);
        let faults = chunk.bad.iter().map(|bad| (bad.line, bad.fault.to_string())).collect::<Vec<_>>();
        (chunk.rows, faults, chunk.ignored)
    };
    let fault = |line, key: &str| (line, format!("has the key '{key}', which no column takes"));
    assert_eq!(faults(true), (2, vec![fault(1, "E"), fault(3, "E"), fault(4, "\u{fffd}")], vec![]));
    assert_eq!(faults(false), (5, vec![], vec!["E".to_string(), "\u{fffd}".to_string()]));
}

/// A value of an inferred type is the field; an exponent of JSON's is no code.
#[test]
fn inferred_types_take_what_prints_as_it_is() {
    use ColumnType::{Boolean, Float64, Int64};
    let plan = columns(&[("x", Float64), ("n", Int64), ("b", Boolean)], true);
    let text = r#"{"x":1e3,"n":7,"b":true}
{"x":"1e3"}
{"x":0.1234567890123456789}
{"n":"007"}
{"b":"T"}
{"x":"1.50","n":"7","b":"False"}"#;
    let chunk = Parser::new(plan).parse(text.as_bytes(), false);
    let bad: Vec<_> = chunk.bad.iter().map(|bad| bad.line).collect();
    assert_eq!((bad, chunk.rows), (vec![1, 2, 3, 4], 2));
    let fault = Fault::Changed { wanted: Int64 };
    assert_eq!(chunk.bad[2].fault, fault);
}
