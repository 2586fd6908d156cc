use super::*;

fn code<T>(result: Result<T, NoValue>) -> Result<T, &'static str> {
    result.map_err(|(code, _)| code)
}

#[test]
fn instants_and_their_offsets() {
    let noon = 946_728_000 * SECOND;
    for (text, has_zone, wanted) in [
        ("2000-01-01 12:00:00", true, Ok(noon)),
        ("2000-01-01T12:00:00Z", true, Ok(noon)),
        ("2000-01-01 12:00 UTC", true, Ok(noon)),
        ("2000-01-01 14:00:00+02", true, Ok(noon)),
        ("2000-01-01 14:00:00 +0200", true, Ok(noon)),
        ("2000-01-01 07:30:00-04:30", true, Ok(noon)),
        ("2000-01-01 12:53:28.5+00:53:28", true, Ok(noon + SECOND / 2)),
        ("2000-01-01 12:00:00+02", false, Ok(noon)),
        ("2000-01-01", false, Ok(noon - DAY / 2)),
        ("2262-04-11 23:47:16.854775807", false, Ok(i64::MAX)),
        ("2262-04-11 23:47:16.854775807-01", true, Err(OUT_OF_RANGE)),
        ("9999-12-31 23:59:59", false, Err(OUT_OF_RANGE)),
        ("1500-02-28", true, Err(OUT_OF_RANGE)),
        ("infinity", false, Err(OUT_OF_RANGE)),
        ("-Infinity", true, Err(OUT_OF_RANGE)),
        ("2000-13-01", false, Err(INVALID)),
        ("2000-01-01 25:00", false, Err(INVALID)),
        ("2000-01-01 12:00 Europe/Berlin", true, Err(INVALID)),
        ("2000-01-01 12:00+2", true, Err(INVALID)),
        ("xx", false, Err(INVALID)),
        ("", true, Err(INVALID)),
        ("zwölf é", true, Err(INVALID)),
    ] {
        assert_eq!(code(instant(text, has_zone)), wanted, "{text}");
    }
}

#[test]
fn days_and_times_of_day() {
    for (text, wanted) in [
        ("1970-01-02", Ok(1)),
        ("0001-01-01", Ok(FIRST_DAY)),
        ("9999-12-31", Ok(LAST_DAY)),
        ("infinity", Ok(LAST_DAY)),
        ("-infinity", Ok(FIRST_DAY)),
        ("1970-01-02 23:00:00+02", Ok(1)),
        ("1970-01-02 +02", Ok(1)),
        ("1900-02-28", Ok(-25_509)),
        ("1900-02-29", Err(OUT_OF_RANGE)),
        ("0000-01-01", Err(OUT_OF_RANGE)),
        ("1970-02-30", Err(INVALID)),
        ("1970-01", Err(INVALID)),
        ("today", Err(INVALID)),
    ] {
        assert_eq!(code(date(text)), wanted, "{text}");
    }
    for (text, wanted) in [
        ("09:30", Ok(9 * HOUR + 30 * MINUTE)),
        ("23:59:59.999999999", Ok(DAY - 1)),
        ("00:00:01+02:00", Ok(SECOND)),
        ("00:00:01Z", Ok(SECOND)),
        ("24:00:00", Err(OUT_OF_RANGE)),
        ("25:00", Err(OUT_OF_RANGE)),
        ("09:60", Err(OUT_OF_RANGE)),
        ("noon", Err(INVALID)),
        ("9", Err(INVALID)),
    ] {
        assert_eq!(code(time(text)), wanted, "{text}");
    }
}

#[test]
fn lengths_as_drivers_write_them() {
    for (text, wanted) in [
        ("1 hour", Ok(HOUR)),
        ("1:00:00", Ok(HOUR)),
        ("-1 day, 23:00:00", Ok(-HOUR)),
        ("2 days, 0:00:00.000001", Ok(2 * DAY + 1_000)),
        ("0 years 0 mons 1 days 2 hours 3 mins 4.5 secs", Ok(DAY + 2 * HOUR + 3 * MINUTE + 4_500_000_000)),
        ("1.5 hours", Ok(90 * MINUTE)),
        ("5min", Ok(5 * MINUTE)),
        ("90", Ok(90 * SECOND)),
        ("@ 2 weeks ago", Ok(-14 * DAY)),
        ("P1DT2H30M0.5S", Ok(DAY + 150 * MINUTE + SECOND / 2)),
        ("PT-1H", Ok(-HOUR)),
        ("P1W", Ok(7 * DAY)),
        ("100:00", Ok(100 * HOUR)),
        ("1 month", Err("0A000")),
        ("P1Y", Err("0A000")),
        ("P1M", Err("0A000")),
        ("300 years", Err("0A000")),
        ("200000 days", Err(OUT_OF_RANGE)),
        ("00:60", Err(OUT_OF_RANGE)),
        ("", Err(INVALID)),
        ("P", Err(INVALID)),
        ("PT", Err(INVALID)),
        ("hour", Err(INVALID)),
        ("1 hour x", Err(INVALID)),
        ("1:2:3:4", Err(INVALID)),
        ("1 é", Err(INVALID)),
    ] {
        assert_eq!(code(length(text)), wanted, "{text}");
    }
}
