//! The clocks of time zones: by how much they differ from UTC at an instant, or where they show a time.
//!
//! The tables of zones end with 2099. Later years go by the last one before whose days fall on the same weekdays, which
//! is what the rules for daylight saving time are written in.

use chrono::{Datelike, LocalResult, NaiveDate, NaiveDateTime, Offset, TimeZone};
use datafusion::arrow::array::timezone::Tz;
use datafusion::common::exec_datafusion_err;
use datafusion::error::Result;

/// The last year of the tables.
const LAST_YEAR: i32 = 2099;

/// The zone of a name of the IANA database, or of an offset (`+02:00`).
///
/// # Errors
/// Where there is none of the name.
pub(super) fn zone_of(zone: &str) -> Result<Tz> {
    zone.parse().map_err(|_| {
        exec_datafusion_err!(
            "there is no time zone '{zone}'; names are those of the IANA database, such as Europe/Berlin"
        )
    })
}

/// The seconds by which the clocks of a zone are ahead of UTC at a time in UTC.
pub(super) fn offset_at(zone: &impl TimeZone, utc: NaiveDateTime) -> i64 {
    zone.offset_from_utc_datetime(&in_tables(utc)).fix().local_minus_utc().into()
}

/// The same where the clocks of the zone show a time: twice where they are put back over it, never where they are put
/// forward over it.
pub(super) fn offsets_of(zone: &impl TimeZone, local: NaiveDateTime) -> LocalResult<i64> {
    zone.offset_from_local_datetime(&in_tables(local)).map(|offset| offset.fix().local_minus_utc().into())
}

/// The same time of a year that the tables have.
fn in_tables(time: NaiveDateTime) -> NaiveDateTime {
    if time.year() <= LAST_YEAR {
        return time;
    }
    let first_weekday =
        |year| NaiveDate::from_ymd_opt(year, 1, 1).map(|day| (day.weekday(), day.leap_year()));
    let years = (LAST_YEAR - 27..=LAST_YEAR).rev();
    let alike = years.into_iter().find(|year| first_weekday(*year) == first_weekday(time.year()));
    alike.and_then(|year| time.with_year(year)).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daylight_saving_goes_on_after_the_tables() {
        let at = |text: &str| text.parse::<NaiveDateTime>().expect("a test's time");
        let (berlin, york) = (zone_of("Europe/Berlin").unwrap(), zone_of("America/New_York").unwrap());
        for (time, of_berlin, of_york) in [
            ("2099-07-01T00:00:00", 2, -4),
            ("2100-07-01T00:00:00", 2, -4),
            ("2100-01-01T00:00:00", 1, -5),
            // The last Sunday of March, the second one; 2150 begins on a Thursday.
            ("2150-03-29T00:59:59", 1, -4),
            ("2150-03-29T01:00:00", 2, -4),
            ("2150-03-08T06:59:59", 1, -5),
            ("2150-03-08T07:00:00", 1, -4),
            // A leap year, whose 29th of February is one too.
            ("2104-02-29T12:00:00", 1, -5),
            ("2262-04-11T12:00:00", 2, -4),
        ] {
            assert_eq!(offset_at(&berlin, at(time)), of_berlin * 3_600, "{time}");
            assert_eq!(offset_at(&york, at(time)), of_york * 3_600, "{time}");
        }
        assert_eq!(offsets_of(&berlin, at("2150-03-29T02:30:00")), LocalResult::None);
        assert_eq!(offsets_of(&berlin, at("2150-10-25T02:30:00")), LocalResult::Ambiguous(7_200, 3_600));
    }
}
