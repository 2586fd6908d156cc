//! Names of time zones that PostgreSQL's clients set ("Time Zones" in its manual).

use tickstone_query::arrow::array::timezone::Tz;

/// Most hours that a zone is from UTC.
const HOURS_MAX: u32 = 15;

/// Whether there is such a zone: one of the IANA's database, in any case, hours from UTC, or a name of one's own with them.
pub(super) fn is_known(zone: &str) -> bool {
    let zone = zone.trim().trim_matches('\'');
    let exists =
        |name: &str| name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.parse::<Tz>().is_ok();
    exists(zone) || exists(&zone.to_ascii_uppercase()) || exists(&capitalized(zone)) || is_offset(zone)
}

/// `america/new_york` as `America/New_York`.
fn capitalized(zone: &str) -> String {
    let mut begins = true;
    let letter = |c: char| {
        let made = if begins { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
        begins = !c.is_ascii_alphabetic();
        made
    };
    zone.chars().map(letter).collect()
}

/// `+02:00`, `-5`, `5.5`, `GMT+3`, `<+02>-02`.
fn is_offset(zone: &str) -> bool {
    let named = match zone.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        Some((_, offset)) => offset,
        None => zone.trim_start_matches(|c: char| c.is_ascii_alphabetic()),
    };
    let name = zone.len() - named.len();
    let offset = named.strip_prefix(['+', '-']).unwrap_or(named);
    let (hours, rest) = offset.split_once([':', '.']).unwrap_or((offset, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // A name of one's own has three letters or more.
    (name == 0 || name >= 3)
        && is_number(hours)
        && rest.split(':').all(is_number)
        && hours.parse::<u32>().is_ok_and(|hours| hours <= HOURS_MAX)
}

#[cfg(test)]
mod tests {
    use super::is_known;

    #[test]
    fn zones_that_there_are() {
        for zone in [
            "UTC",
            "utc",
            "Etc/UTC",
            "GMT",
            "Europe/Berlin",
            "europe/berlin",
            "AMERICA/NEW_YORK",
            "Zulu",
            "EST5EDT",
            "Asia/Ho_Chi_Minh",
            "+02:00",
            "-05",
            "2",
            "-3.5",
            "GMT+3",
            "GMT-02:30",
            "<+02>-02",
            "'UTC'",
            "America/Port-au-Prince",
        ] {
            assert!(is_known(zone), "{zone}");
        }
        for zone in
            ["", "Nosuch/Zone", "nosuch", "Europe/", "X+3", "+99", "GMT+", "Europe/Berlin; DROP", "<+02>"]
        {
            assert!(!is_known(zone), "{zone}");
        }
    }
}
