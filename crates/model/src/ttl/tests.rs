use super::*;

fn day(year: i64, month: i64, day: i64) -> i64 {
    days_from_civil(year, month, day) * DAY
}

#[test]
fn texts_are_read_and_given_back() {
    let check = |text: &str, expect: Option<&str>| {
        assert_eq!(Ttl::parse(text).ok().map(|ttl| ttl.to_string()).as_deref(), expect, "{text}");
    };
    check("30d", Some("30d"));
    check(" 12 Hours ", Some("12h"));
    check("1m", Some("1m"));
    check("1M", Some("1M"));
    check("2 month", Some("2M"));
    check("1 YEAR", Some("1y"));
    check("3600s", Some("3600s"));
    for wrong in ["", "d", "0d", "-1d", "1.5d", "30", "30 moons", "4294967296d", "1d 2h"] {
        check(wrong, None);
    }
}

#[test]
fn the_calendar_is_kept() {
    let check = |text: &str, ts: i64, expect: i64| assert_eq!(Ttl::parse(text).unwrap().before(ts), expect);
    check("1d", day(2024, 3, 1), day(2024, 2, 29));
    check("1M", day(2024, 3, 31) + 5, day(2024, 2, 29) + 5);
    check("1M", day(2024, 1, 15), day(2023, 12, 15));
    check("13M", day(2024, 1, 15), day(2022, 12, 15));
    check("1y", day(2024, 2, 29), day(2023, 2, 28));
    check("5n", 3, -2);
    check("100000y", 0, i64::MIN);
    check("1d", i64::MIN + 3, i64::MIN);
}
