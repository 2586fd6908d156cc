use super::*;

#[test]
fn an_instant_may_leave_out_what_is_small() {
    let check = |text: &str, expect: &str| {
        assert_eq!(parse_instant(text), parse_iso(expect.as_bytes()), "{text}");
        assert!(parse_instant(text).is_some(), "{text}");
    };
    check("2024", "2024-01-01T00:00:00Z");
    check("2024-08", "2024-08-01T00:00:00Z");
    check("2024-08-08", "2024-08-08T00:00:00Z");
    check("2024-08-08T09:30", "2024-08-08T09:30:00Z");
    check(" 2024-08-08 09:30:00.5+01:00 ", "2024-08-08T08:30:00.5Z");
    for text in ["", "yesterday", "2024-13", "20240808", "24-8", "2024-8-8", "1500", "2300"] {
        assert_eq!(parse_instant(text), None, "{text}");
    }
}

#[test]
fn sizes_are_read() {
    let sizes = [
        ("512", Some(512)),
        ("64KB", Some(64 << 10)),
        ("1gib", Some(1 << 30)),
        ("2TB", Some(2 << 40)),
        ("x", None),
        ("", None),
        ("18446744073709551615KB", None),
    ];
    for (text, bytes) in sizes {
        assert_eq!(parse_size(text), bytes, "{text}");
    }
}
