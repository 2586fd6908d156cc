use super::*;

#[test]
fn sizes() {
    let check = |text: &str, expect| assert_eq!(parse_bytes(text).ok(), expect, "{text}");
    check("256MB", Some(256_000_000));
    check("1.5 GiB", Some(3 << 29));
    check("512k", Some(512 << 10));
    check("1000", Some(1_000));
    check("7 b", Some(7));
    check("", None);
    check("MB", None);
    check("-1MB", None);
    check("many", None);
    check("1e300GB", None);
}

#[test]
fn numbers_for_people() {
    assert_eq!(
        (count(0), count(999), count(1_000), count(34_419)),
        ("0".into(), "999".into(), "1,000".into(), "34,419".into())
    );
    assert_eq!((rows(1), rows(2_000_000)), ("1 row".into(), "2,000,000 rows".into()));
    assert_eq!(duration(Duration::from_micros(1_234)), "1.23 ms");
    assert_eq!(duration(Duration::from_secs(125)), "2 min 5 s");
    assert_eq!((bytes(12), bytes(2_600_000)), ("12 bytes".into(), "2.6 MB".into()));
}
