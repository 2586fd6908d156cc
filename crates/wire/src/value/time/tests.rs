use super::*;
use crate::EpochUnit;
use crate::value::{parse_bool, parse_hex, parse_uuid};
use proptest::prelude::*;
use tickstone_model::format_nanos;

fn check(text: &str, expect: Option<&str>) {
    let found = parse_iso(text.as_bytes()).map(format_nanos);
    assert_eq!(found.as_deref(), expect, "{text}");
}

#[test]
fn iso_in_its_shapes() {
    check("2024-08-08", Some("2024-08-08T00:00:00Z"));
    check("2024-08-08T23:54", Some("2024-08-08T23:54:00Z"));
    check("2024-08-08 23:54:01", Some("2024-08-08T23:54:01Z"));
    check("2024-08-08T23:54:01Z", Some("2024-08-08T23:54:01Z"));
    check("2024-08-08T23:54:01.5Z", Some("2024-08-08T23:54:01.5Z"));
    check("2024-08-08T23:54:01.123456789123Z", Some("2024-08-08T23:54:01.123456789Z"));
    check("2024-08-08T23:54:01.123456+02:00", Some("2024-08-08T21:54:01.123456Z"));
    check("2024-08-08T23:54:01-0530", Some("2024-08-09T05:24:01Z"));
    check("2024-08-08 23:54:01 +01", Some("2024-08-08T22:54:01Z"));
    check("2024-08-08 23:54:01 UTC", Some("2024-08-08T23:54:01Z"));
    check("2016-12-31T23:59:60Z", Some("2017-01-01T00:00:00Z"));
    check("1969-12-31T23:59:59.999999999Z", Some("1969-12-31T23:59:59.999999999Z"));
    check("2024-02-29", Some("2024-02-29T00:00:00Z"));
}

#[test]
fn what_is_no_time() {
    for text in [
        "",
        "2024",
        "2024-13-01",
        "2024-00-10",
        "2023-02-29",
        "2024-04-31",
        "2024-08-08T",
        "2024-08-08T24:00",
        "2024-08-08T23:60",
        "2024-08-08T23:54:61",
        "2024-08-08T23:54:",
        "2024-08-08T23:54:01.",
        "2024-08-08x",
        "2024-08-08T23:54:01+2",
        "2024-08-08T23:54:01+25:00",
        "2024-08-08T23:54:01ZZ",
        "1500-01-01",
        "9999-01-01",
        "12345678901234567890",
    ] {
        check(text, None);
    }
}

#[test]
fn epochs_by_unit() {
    let check = |text: &str, unit, expect| assert_eq!(parse_epoch(text.as_bytes(), unit), expect, "{text}");
    check("1723161253", EpochUnit::Second, Some(1_723_161_253_000_000_000));
    check("1633998274.500393", EpochUnit::Second, Some(1_633_998_274_500_393_000));
    check("1723161253123", EpochUnit::Millisecond, Some(1_723_161_253_123_000_000));
    check("-1.5", EpochUnit::Second, Some(-1_500_000_000));
    check("1723161253123456789", EpochUnit::Nanosecond, Some(1_723_161_253_123_456_789));
    check("1723161253123456789", EpochUnit::Second, None);
    check("12x", EpochUnit::Second, None);
    check("", EpochUnit::Second, None);
    assert_eq!(EpochUnit::of_magnitude(1_723_161_253), EpochUnit::Second);
    assert_eq!(EpochUnit::of_magnitude(1_723_161_253_000), EpochUnit::Millisecond);
    assert_eq!(EpochUnit::of_magnitude(1_723_161_253_000_000), EpochUnit::Microsecond);
    assert_eq!(EpochUnit::of_magnitude(1_723_161_253_000_000_000), EpochUnit::Nanosecond);
}

#[test]
fn dates_and_the_rest() {
    assert_eq!(parse_date(b"1970-01-02"), Some(1));
    assert_eq!(parse_date(b"1970-01-02T00:00:00Z"), Some(1));
    assert_eq!(parse_date(b"1970-01-02T00:00:01Z"), None);
    for (text, nanos) in [
        ("09:30", Some(34_200_000_000_000)),
        ("23:59:59.999999999", Some(86_399_999_999_999)),
        ("00:00:00.5", Some(500_000_000)),
        ("24:00", None),
        ("09:30:60", None),
        ("09:30:", None),
        ("09:30:00.", None),
        ("09:30:00.5x", None),
        ("9:30", None),
    ] {
        assert_eq!(parse_time(text.as_bytes()), nanos, "{text}");
    }
    assert_eq!(parse_bool(b"TRUE"), Some(true));
    assert_eq!(parse_bool(b"2"), None);
    let mut bytes = vec![9];
    assert!(parse_hex(b"\\x00ff", &mut bytes) && bytes == [9, 0, 255]);
    assert!(!parse_hex(b"00f", &mut bytes) && !parse_hex(b"0g", &mut bytes) && bytes == [9, 0, 255]);
    let uuid = parse_uuid(b"67e55044-10b1-426f-9247-bb680e5fe0c8");
    assert_eq!(uuid, parse_uuid(b"67e5504410b1426f9247bb680e5fe0c8"));
    assert!(uuid.is_some() && parse_uuid(b"67e55044-10b1-426f-9247_bb680e5fe0c8").is_none());
}

proptest! {
    #[test]
    fn written_instants_are_read_back(ts in any::<i64>()) {
        prop_assume!(ts > i64::MIN + 2_000_000_000);
        prop_assert_eq!(parse_iso(format_nanos(ts).as_bytes()), Some(ts));
    }

    #[test]
    fn no_panic(text in "[-+:TZ. 0-9]{0,36}", bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        for text in [text.as_bytes(), &bytes] {
            let _ = (parse_iso(text), parse_date(text), parse_time(text), parse_epoch(text, EpochUnit::Second));
            let _ = (parse_bool(text), parse_uuid(text), parse_hex(text, &mut Vec::new()));
        }
    }
}

#[test]
fn the_first_and_the_last_nanosecond_are_read() {
    let cases = [
        ("1677-09-21T00:12:43.145224192", Some(i64::MIN)),
        ("1677-09-21T00:12:43.145224193Z", Some(i64::MIN + 1)),
        ("1677-09-21T00:12:43.999999999", Some(-9_223_372_036_000_000_001)),
        ("1677-09-21T01:12:43.145224192+01:00", Some(i64::MIN)),
        ("1677-09-21T00:12:43.145224191", None),
        ("1677-09-21T00:12:43", None),
        ("1969-12-31T23:59:59.999999999", Some(-1)),
        ("1970-01-01", Some(0)),
        ("2262-04-11T23:47:16.854775807", Some(i64::MAX)),
        ("2262-04-11T23:47:16.854775808", None),
    ];
    for (text, wanted) in cases {
        assert_eq!(parse_iso(text.as_bytes()), wanted, "{text}");
    }
    let epoch = |text: &str, unit| parse_epoch(text.as_bytes(), unit);
    assert_eq!(epoch("-9223372036854775808", EpochUnit::Nanosecond), Some(i64::MIN));
    assert_eq!(epoch("-9223372036.854775808", EpochUnit::Second), Some(i64::MIN));
    assert_eq!(epoch("-9223372036.854775809", EpochUnit::Second), None);
    assert_eq!(epoch("9223372036854775807", EpochUnit::Nanosecond), Some(i64::MAX));
    assert_eq!(epoch("9223372036854775808", EpochUnit::Nanosecond), None);
    assert_eq!(epoch("1.5", EpochUnit::Second), Some(1_500_000_000));
    assert_eq!(epoch("-1.5", EpochUnit::Millisecond), Some(-1_500_000));
}
