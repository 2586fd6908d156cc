//! Functions of one row against what they are defined by, over values that differ in every run.

use super::super::zone::{offset_at, zone_of};
use super::*;
use chrono::{DateTime, Months};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::TimeUnit;
use proptest::prelude::*;
use serde_json::Value;

const INSTANT: DataType = DataType::Timestamp(TimeUnit::Nanosecond, None);
const ZONES: [&str; 5] = ["America/New_York", "Europe/Berlin", "Asia/Tokyo", "Australia/Lord_Howe", "+05:30"];

fn call(name: &str, args: &[ScalarValue]) -> Result<ScalarValue> {
    let tables = [numbers::ALL, any::ALL, texts::ALL, times::ALL, formats::ALL, json::ALL];
    let of = tables.into_iter().flatten().find(|of| of.name == name).expect(name);
    let types: Vec<DataType> = args.iter().map(ScalarValue::data_type).collect();
    let takes = (of.takes)(&types).ok_or_else(|| plan_datafusion_err!("{name} of {types:?}"))?;
    let arrays = args.iter().zip(&takes).map(|(arg, to)| Ok(cast(&arg.to_array()?, to)?));
    let made = (of.value)(&arrays.collect::<Result<Vec<_>>>()?)?;
    assert_eq!(made.data_type(), &(of.gives)(&takes), "{name}");
    ScalarValue::try_from_array(&made, 0)
}

fn text(text: &str) -> ScalarValue {
    ScalarValue::from(text)
}

fn instant(ns: i64) -> ScalarValue {
    ScalarValue::TimestampNanosecond(Some(ns), None)
}

fn ns_of(value: &ScalarValue) -> i64 {
    match value {
        ScalarValue::TimestampNanosecond(Some(ns), None) | ScalarValue::Int64(Some(ns)) => *ns,
        other => panic!("{other:?} is no instant"),
    }
}

fn wall(ns: i64, zone: &str) -> i64 {
    let zone = zone_of(zone).expect(zone);
    ns + offset_at(&zone, DateTime::from_timestamp_nanos(ns).naive_utc()) * 1_000_000_000
}

/// Documents with their depth bounded, no doubles (whose digits have several spellings).
fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z\"\\\\ é\n/~]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let members = prop::collection::vec(("[a-z\"\\\\ é~/]{0,4}", inner.clone()), 0..4);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            members.prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// All that is in a document, by its pointer (RFC 6901).
fn pointers(of: &Value, at: &str, found: &mut Vec<(String, Value)>) {
    if !at.is_empty() {
        found.push((at.to_string(), of.clone()));
    }
    match of {
        Value::Array(elements) => {
            elements.iter().enumerate().for_each(|(place, of)| pointers(of, &format!("{at}/{place}"), found));
        }
        Value::Object(members) => members.iter().for_each(|(key, of)| {
            let key = key.replace('~', "~0").replace('/', "~1");
            pointers(of, &format!("{at}/{key}"), found);
        }),
        _ => {}
    }
}

proptest! {
    #[test]
    fn a_path_leads_where_the_document_says(document in document()) {
        let mut found = Vec::new();
        pointers(&document, "", &mut found);
        for written in [document.to_string(), serde_json::to_string_pretty(&document).expect("sound")] {
            for (path, value) in &found {
                let args = [text(&written), text(path)];
                prop_assert_eq!(call("json_extract", &args).expect(path), text(&value.to_string()));
                let shown = match value {
                    Value::Null => ScalarValue::Utf8(None),
                    Value::String(shown) => text(shown),
                    other => text(&other.to_string()),
                };
                prop_assert_eq!(call("json_extract_string", &args).expect(path), shown);
                prop_assert_eq!(call("json_exists", &args).expect(path), ScalarValue::from(true));
            }
        }
    }

    #[test]
    fn no_text_makes_json_panic(written in "[\\[\\]{}\",:\\\\a0-9 .$/-]{0,24}", path in "[\\[\\]$\\.\"#a0-9/-]{0,8}") {
        for name in ["json_extract", "json_extract_string", "json_type", "json_keys", "json_array_length"] {
            let _ = call(name, &[text(&written), text(&path)]);
        }
        prop_assert!(call("json_valid", &[text(&written)]).is_ok());
    }

    #[test]
    fn a_wall_time_leads_back(ns in -4_000_000_000_i64..8_000_000_000, zone in 0..ZONES.len()) {
        let (ns, zone) = (ns * 1_000_000_000, ZONES[zone]);
        let shown = wall(ns, zone);
        let back = ns_of(&call("to_utc", &[instant(shown), text(zone)]).expect(zone));
        // Of two instants that a clock showed alike it is the first.
        prop_assert_eq!(wall(back, zone), shown);
        prop_assert!(back <= ns);
    }

    #[test]
    fn whole_months_are_those_that_can_be_added(a in any::<i32>(), b in any::<i32>()) {
        let (a, b) = (i64::from(a.min(b)) * 1_000_000_000, i64::from(a.max(b)) * 1_000_000_000);
        let months = ns_of(&call("date_sub", &[text("month"), instant(a), instant(b)]).expect("months"));
        let after = |n: i64| {
            let n = u32::try_from(n).expect("not below 0");
            DateTime::from_timestamp_nanos(a).checked_add_months(Months::new(n)).expect("in range")
        };
        let end = DateTime::from_timestamp_nanos(b);
        prop_assert!(after(months) <= end && after(months + 1) > end, "{months}");
        let back = ns_of(&call("date_sub", &[text("month"), instant(b), instant(a)]).expect("months"));
        prop_assert_eq!(back, -months);
    }

    #[test]
    fn a_format_reads_what_it_wrote(ns in any::<i64>()) {
        let format = text("%Y-%m-%d %H:%M:%S.%n");
        let written = call("strftime", &[instant(ns), format.clone()]).expect("it has a format");
        prop_assert_eq!(ns_of(&call("strptime", &[written, format]).expect("it reads")), ns);
    }

    /// Of the years 1 to 9999, most of which no instant is of.
    #[test]
    fn a_date_is_written_and_read_whatever_its_year(days in -719_162..2_932_897_i32) {
        let date = ScalarValue::Date32(Some(days));
        for (writes, format) in [("strftime", "%d.%m.%Y"), ("to_char", "YYYY-MM-DD")] {
            let written = call(writes, &[date.clone(), text(format)]).expect("it has a format");
            prop_assert_eq!(call(formats::TO_DATE_BY, &[written, text(format)]).expect("it reads"), date.clone());
        }
    }
}

#[test]
fn what_is_wrong_is_said() {
    let said = |name: &str, args: &[ScalarValue]| call(name, args).expect_err(name).to_string();
    let now = instant(0);
    assert!(said("strftime", &[now.clone(), text("%Q")]).contains("'%Q' is no format"));
    assert!(said("strptime", &[text("x"), text("%Y")]).contains("'x' is not of the format '%Y'"));
    assert!(said("to_utc", &[now.clone(), text("Mars")]).contains("there is no time zone 'Mars'"));
    assert!(said("date_diff", &[text("fortnight"), now.clone(), now]).contains("no unit 'fortnight'"));
    assert!(said("json_extract", &[text("{"), text("a")]).contains("is no JSON"));
    assert!(said("json_extract", &[text("{}"), text("$x")]).contains("no path into JSON"));
    assert!(said("regexp_extract", &[text("a"), text("(")]).contains("no regular expression"));
    assert!(
        said("regexp_extract", &[text("a"), text("a"), ScalarValue::from(1_i64)]).contains("has no group 1")
    );
    assert!(said("make_timestamp", &[ScalarValue::from(i64::MAX)]).contains("1677 to 2262"));
}

#[test]
fn in_a_gap_of_spring_the_offset_before_it_counts() {
    // 2024-03-10 02:30 was never shown in New York: at 02:00 clocks went to 03:00.
    let shown = 1_710_037_800_000_000_000;
    let found = call("to_utc", &[instant(shown), text("America/New_York")]).expect("it is a zone");
    assert_eq!(ns_of(&found), shown + 5 * 3_600_000_000_000);
    assert_eq!(INSTANT, found.data_type());
}
