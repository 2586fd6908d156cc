use super::*;

fn at(text: &str) -> i64 {
    DateTime::parse_from_rfc3339(text).expect("a test's time").timestamp_nanos_opt().expect("in range")
}

fn check(stride: &str, zone: Option<&str>, offset: Option<&str>, ts: &str, start: &str, next: &str) {
    let bucketing = Bucketing::parse(stride, zone, offset).expect("a test's bucketing");
    let (low, high) = bucketing.bucket(at(ts));
    let show = |t: i64| DateTime::from_timestamp_nanos(t).to_rfc3339();
    assert_eq!(
        (show(low), show(high)),
        (show(at(start)), show(at(next))),
        "{stride} {zone:?} {offset:?} {ts}"
    );
}

#[test]
fn buckets_count_from_their_origins() {
    check("7m", None, None, "1970-01-01T00:13:59Z", "1970-01-01T00:07:00Z", "1970-01-01T00:14:00Z");
    check("1m", None, None, "1969-12-31T23:59:59.999Z", "1969-12-31T23:59:00Z", "1970-01-01T00:00:00Z");
    check("1w", None, None, "1970-01-01T00:00:00Z", "1969-12-29T00:00:00Z", "1970-01-05T00:00:00Z");
    check("2w", None, None, "1970-01-06T00:00:00Z", "1969-12-29T00:00:00Z", "1970-01-12T00:00:00Z");
    check("3d", None, None, "1970-01-05T12:00:00Z", "1970-01-04T00:00:00Z", "1970-01-07T00:00:00Z");
    check("1M", None, None, "2024-02-29T12:00:00Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z");
    check("5M", None, None, "1971-01-01T00:00:00Z", "1970-11-01T00:00:00Z", "1971-04-01T00:00:00Z");
    check("1y", None, None, "1969-05-01T00:00:00Z", "1969-01-01T00:00:00Z", "1970-01-01T00:00:00Z");
}

#[test]
fn offsets_move_boundaries() {
    check("1d", None, Some("+09:30"), "2024-08-08T09:00:00Z", "2024-08-07T09:30:00Z", "2024-08-08T09:30:00Z");
    check("1h", None, Some("-00:15"), "2024-08-08T09:50:00Z", "2024-08-08T09:45:00Z", "2024-08-08T10:45:00Z");
    check("1M", None, Some("1d"), "2024-08-01T09:50:00Z", "2024-07-02T00:00:00Z", "2024-08-02T00:00:00Z");
}

#[test]
fn zones_have_days_of_23_and_25_hours() {
    let berlin = Some("Europe/Berlin");
    check("1d", berlin, None, "2024-03-31T12:00:00Z", "2024-03-30T23:00:00Z", "2024-03-31T22:00:00Z");
    check("1d", berlin, None, "2024-10-27T00:30:00Z", "2024-10-26T22:00:00Z", "2024-10-27T23:00:00Z");
    check("1M", berlin, None, "2024-03-31T22:30:00Z", "2024-03-31T22:00:00Z", "2024-04-30T22:00:00Z");
    check("1w", berlin, None, "2024-04-02T00:00:00Z", "2024-03-31T22:00:00Z", "2024-04-07T22:00:00Z");
    check("1h", berlin, None, "2024-03-31T01:30:00Z", "2024-03-31T01:00:00Z", "2024-03-31T02:00:00Z");
    // Midnight is skipped in Beirut on 2021-03-28, and comes twice in Havana on 2021-11-07.
    let beirut = Some("Asia/Beirut");
    check("1d", beirut, None, "2021-03-28T01:00:00Z", "2021-03-27T22:00:00Z", "2021-03-28T21:00:00Z");
    let havana = Some("America/Havana");
    check("1d", havana, None, "2021-11-07T05:30:00Z", "2021-11-07T04:00:00Z", "2021-11-08T05:00:00Z");
}

#[test]
fn hours_go_by_the_clocks_of_a_zone() {
    let york = Some("America/New_York");
    check(
        "1h",
        Some("Asia/Kolkata"),
        None,
        "2024-08-08T10:00:00Z",
        "2024-08-08T09:30:00Z",
        "2024-08-08T10:30:00Z",
    );
    check("12h", york, None, "2024-08-08T10:00:00Z", "2024-08-08T04:00:00Z", "2024-08-08T16:00:00Z");
    // Half a day of 11 and one of 13 hours; an hour that comes twice is two; the bucket of a clock that jumps.
    check("12h", york, None, "2024-03-10T12:00:00Z", "2024-03-10T05:00:00Z", "2024-03-10T16:00:00Z");
    check("12h", york, None, "2024-11-03T12:00:00Z", "2024-11-03T04:00:00Z", "2024-11-03T17:00:00Z");
    check("1h", york, None, "2024-11-03T05:30:00Z", "2024-11-03T05:00:00Z", "2024-11-03T06:00:00Z");
    check("1h", york, None, "2024-11-03T06:30:00Z", "2024-11-03T06:00:00Z", "2024-11-03T07:00:00Z");
    check("2h", york, None, "2024-03-10T07:30:00Z", "2024-03-10T07:00:00Z", "2024-03-10T08:00:00Z");
    check("6h", york, Some("09:30"), "2024-08-08T14:00:00Z", "2024-08-08T13:30:00Z", "2024-08-08T19:30:00Z");
    // Newfoundland put its clocks back at a minute past midnight.
    check(
        "1d",
        Some("America/St_Johns"),
        None,
        "2010-11-07T02:45:00Z",
        "2010-11-07T02:30:00Z",
        "2010-11-08T03:30:00Z",
    );
    // The tables of zones end with 2099.
    check("12h", york, None, "2150-07-01T10:00:00Z", "2150-07-01T04:00:00Z", "2150-07-01T16:00:00Z");
    check("1d", york, None, "2150-07-01T10:00:00Z", "2150-07-01T04:00:00Z", "2150-07-02T04:00:00Z");
}

#[test]
fn a_bucket_begins_where_the_clock_shows_a_multiple_or_jumps_over_one() {
    use chrono::{Offset, TimeZone};
    const MINUTE: i64 = 60 * SECOND;
    let zones = [
        ("America/New_York", "2024-03-10T00:00:00Z"),
        ("America/New_York", "2024-11-03T00:00:00Z"),
        ("Europe/Berlin", "2024-10-27T00:00:00Z"),
        ("Australia/Lord_Howe", "2024-04-06T12:00:00Z"),
        ("Australia/Lord_Howe", "2024-10-05T12:00:00Z"),
        ("America/Havana", "2021-11-07T00:00:00Z"),
        ("America/Sao_Paulo", "2018-02-17T12:00:00Z"),
        ("America/St_Johns", "2010-11-07T00:00:00Z"),
        ("Pacific/Apia", "2011-12-30T00:00:00Z"),
        ("Asia/Kathmandu", "2024-01-01T00:00:00Z"),
    ];
    for (zone, from) in zones {
        let tz: Tz = zone.parse().unwrap();
        let local = |minute: i64| {
            let utc = DateTime::from_timestamp_nanos(minute * MINUTE).naive_utc();
            minute + i64::from(tz.offset_from_utc_datetime(&utc).fix().local_minus_utc()) / 60
        };
        for (stride, offset) in
            [30, 45, 60, 90, 120, 180, 360, 420, 720].iter().flat_map(|s| [(*s, 0), (*s, 570)])
        {
            let offset_text = format!("{}m", offset.max(1));
            let offset_text = Some(offset_text.as_str()).filter(|_| offset > 0);
            let of = Bucketing::parse(&format!("{stride}m"), Some(zone), offset_text).unwrap();
            let floor = |minute: i64| (local(minute) - offset).div_euclid(stride);
            let begins = |minute: &i64| {
                (local(*minute) - offset).rem_euclid(stride) == 0 || floor(*minute) != floor(minute - 1)
            };
            let first = at(from) / MINUTE;
            let starts: Vec<i64> = (first - 3_000..first + 6_000).filter(begins).collect();
            for (start, next) in starts.iter().zip(&starts[1..]) {
                for minute in [*start, (start + next) / 2, next - 1] {
                    let expected = (start * MINUTE, next * MINUTE);
                    assert_eq!(
                        of.bucket(minute * MINUTE + 7),
                        expected,
                        "{stride}m {zone} {offset} {minute}"
                    );
                }
            }
        }
    }
}

#[test]
fn buckets_are_spelled_and_read() {
    for zone in [None, Some("Asia/Beirut"), Some("UTC")] {
        for offset in [None, Some("-00:15")] {
            for stride in ["7m", "100T", "1d", "2w", "1M", "5y"] {
                let bucketing = Bucketing::parse(stride, zone, offset).unwrap();
                assert_eq!(Bucketing::of_spelled(&bucketing.spelled().unwrap()), Some(bucketing));
                let (longest, origin) = bucketing.longest();
                let mut start = bucketing.start(at("1999-12-01T00:00:00Z"));
                for _ in 0..100 {
                    let next = bucketing.next(start);
                    assert!(next - start <= longest);
                    assert!(origin.is_none_or(|of| next - start == longest && (start - of) % longest == 0));
                    start = next;
                }
            }
        }
    }
    assert_eq!(Bucketing::parse("1m", None, None).unwrap().counted_from_first().spelled(), None);
    assert_eq!(Bucketing::parse("90m", None, None).unwrap().longest().1, Some(0));
    assert_eq!(Bucketing::parse("1M", None, None).unwrap().longest().1, None);
}

#[test]
fn buckets_of_whole_buckets() {
    let of = |stride: &str, zone| Bucketing::parse(stride, zone, None).unwrap();
    let york = Some("America/New_York");
    let kinds: Vec<Bucketing> = ["1s", "7s", "1m", "15m", "1h", "1d", "2d", "1w", "1M", "1y"]
        .iter()
        .flat_map(|stride| [of(stride, None), of(stride, york)])
        .collect();
    let mut pairs = 0;
    for (outer, inner) in kinds.iter().flat_map(|outer| kinds.iter().map(move |inner| (outer, inner))) {
        if !outer.consists_of(inner) {
            continue;
        }
        pairs += 1;
        let mut start = outer.start(at("2023-10-28T00:00:00Z"));
        for _ in 0..40 {
            assert_eq!(inner.start(start), start, "{outer} of {inner}");
            start = outer.next(start);
        }
    }
    assert!(pairs > 40);
    assert!(of("1h", None).consists_of(&of("1m", None)) && of("1M", york).consists_of(&of("1d", york)));
    assert!(!of("1m", None).consists_of(&of("7s", None)) && !of("1d", york).consists_of(&of("1d", None)));
}

#[test]
fn a_bucket_holds_its_instant() {
    for zone in [None, Some("Asia/Beirut"), Some("America/Sao_Paulo"), Some("Australia/Lord_Howe")] {
        for stride in ["7m", "1h", "90m", "12h", "24h", "1d", "3d", "1w", "1M", "1y"] {
            let bucketing = Bucketing::parse(stride, zone, None).expect("valid");
            let mut ts = at("1985-01-01T00:00:00Z");
            while ts < at("2030-01-01T00:00:00Z") {
                let (low, high) = bucketing.bucket(ts);
                assert!(low <= ts && ts < high, "{stride} {zone:?} {ts}: {low} {high}");
                assert_eq!(bucketing.start(low), low, "{stride} {zone:?} {ts}");
                ts += 5 * DAY / 7 + 12_345_678_901;
            }
        }
    }
}

#[test]
fn ends_of_time_do_not_overflow() {
    for stride in ["1n", "7m", "1d", "1w", "1M", "100y"] {
        let bucketing = Bucketing::parse(stride, None, Some("+01:00")).expect("valid");
        for ts in [i64::MIN, i64::MIN + 1, i64::MAX - 1, i64::MAX] {
            let (low, _) = bucketing.bucket(ts);
            assert!(low <= ts, "{stride} {ts}: {low}");
        }
    }
}

#[test]
fn nonsense_is_refused() {
    for stride in ["", "0m", "5", "m5", "1x", "-1m", "9999999999999y"] {
        assert!(Bucketing::parse(stride, None, None).is_err(), "{stride}");
    }
    assert!(Bucketing::parse("1d", Some("Mars/Base"), None).is_err());
    assert!(Bucketing::parse("1d", None, Some("1:99")).is_err());
}

#[test]
fn the_ends_of_time_have_buckets() {
    let bucketing = |stride, zone, offset| Bucketing::parse(stride, zone, offset).expect("a bucketing");
    let strides = ["1ns", "7m", "1h", "1d", "3d", "2w", "1M", "5M", "1y"];
    let zones = [None, Some("Europe/Berlin"), Some("America/New_York"), Some("Pacific/Kiritimati")];
    for (stride, zone, offset) in strides.iter().flat_map(|stride| {
        zones.iter().flat_map(move |zone| [None, Some("09:30"), Some("-00:15")].map(|o| (*stride, *zone, o)))
    }) {
        let of = bucketing(stride, zone, offset);
        for away in [0, 1, 309, 1_800, 3_600, 40_000, 86_400, 200_000] {
            for ts in [i64::MIN + away * 1_000_000_000, i64::MAX - away * 1_000_000_000] {
                let (low, high) = of.bucket(ts);
                let holds = low <= ts && (ts < high || high == i64::MAX);
                assert!(holds, "{stride} {zone:?} {offset:?} {ts}: [{low}, {high})");
                // Every instant of a bucket says the same of it.
                let again = of.bucket(low);
                assert_eq!(again, (low, high), "{stride} {zone:?} {offset:?} {ts}");
            }
        }
    }
    let berlin = bucketing("1d", Some("Europe/Berlin"), None);
    let midnight = 9_223_365_600_000_000_000;
    assert_eq!(berlin.start(i64::MAX - 309_000_000_000), midnight);
    assert_eq!(berlin.bucket(midnight - 1).1, midnight);
}

#[test]
fn buckets_may_count_from_the_first_row() {
    let check = |stride: &str, first: &str, ts: &str, start: &str, next: &str| {
        let bucketing =
            Bucketing::parse(stride, Some("Europe/Berlin"), Some("30m")).expect("a test's bucketing");
        assert!(bucketing.counted_from_first().awaits_first() && !bucketing.awaits_first());
        let bucketing = bucketing.counted_from_first().with_first(at(first));
        let (low, high) = bucketing.bucket(at(ts));
        let show = |t: i64| DateTime::from_timestamp_nanos(t).to_rfc3339();
        assert_eq!((show(low), show(high)), (show(at(start)), show(at(next))), "{stride} {first} {ts}");
        assert_eq!(bucketing.start(at(first)), at(first), "{stride} {first}");
    };
    let first = "2024-01-31T10:00:07.5Z";
    check("1m", first, "2024-01-31T10:01:07Z", first, "2024-01-31T10:01:07.5Z");
    check("7m", first, "2024-01-31T10:14:07.5Z", "2024-01-31T10:14:07.5Z", "2024-01-31T10:21:07.5Z");
    check("1d", first, "2024-04-01T10:00:00Z", "2024-03-31T10:00:07.5Z", "2024-04-01T10:00:07.5Z");
    check("1w", first, "2024-02-07T10:00:07Z", first, "2024-02-07T10:00:07.5Z");
    check("1M", first, "2024-02-29T10:00:07Z", first, "2024-02-29T10:00:07.5Z");
    check("1M", first, "2024-03-30T00:00:00Z", "2024-02-29T10:00:07.5Z", "2024-03-31T10:00:07.5Z");
    check("2M", first, "2024-03-31T10:00:07.5Z", "2024-03-31T10:00:07.5Z", "2024-05-31T10:00:07.5Z");
    check(
        "1y",
        "2024-02-29T00:00:00Z",
        "2025-03-01T00:00:00Z",
        "2025-02-28T00:00:00Z",
        "2026-02-28T00:00:00Z",
    );
    check(
        "1s",
        "1969-12-31T23:59:59.5Z",
        "1970-01-01T00:00:00Z",
        "1969-12-31T23:59:59.5Z",
        "1970-01-01T00:00:00.5Z",
    );
}
