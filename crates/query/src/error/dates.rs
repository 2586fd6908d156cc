//! Dates as people write them in some countries, and no database reads: `08.08.2024`, `08/24/2024`.

/// The call that reads a text with such a date, where it is one; with a time of day behind it or without.
pub(crate) fn read_as(text: &str) -> Option<String> {
    let text = text.trim();
    let (date, time) = text.split_once(' ').map_or((text, None), |(date, time)| (date, Some(time)));
    let separator = date.chars().find(|sign| !sign.is_ascii_digit()).filter(|sign| "./-".contains(*sign))?;
    let parts: Vec<u32> = date.split(separator).map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [first, second, year] = parts.as_slice() else { return None };
    let format = match (first, second) {
        (1..=12, 13..=31) => "%m-%d",
        // Of two that both may be the month, the first is it between slashes.
        (1..=12, 1..=12) if separator == '/' => "%m-%d",
        (1..=31, 1..=12) => "%d-%m",
        _ => return None,
    };
    let of_year = if *year < 100 { "%y" } else { "%Y" };
    let format = format!("{format}-{of_year}").replace('-', &separator.to_string());
    let of_time = match time.map(|time| (time.split(':').count(), time.contains('.'))) {
        None => "",
        Some((2, false)) => " %H:%M",
        Some((3, false)) => " %H:%M:%S",
        Some((3, true)) => " %H:%M:%S%.f",
        _ => return None,
    };
    Some(format!("strptime('{text}', '{format}{of_time}')"))
}

#[cfg(test)]
mod tests {
    use super::read_as;

    #[test]
    fn days_and_months_are_told_apart() {
        for (text, call) in [
            ("08.08.2024", "strptime('08.08.2024', '%d.%m.%Y')"),
            ("08/24/2024", "strptime('08/24/2024', '%m/%d/%Y')"),
            ("24/08/2024", "strptime('24/08/2024', '%d/%m/%Y')"),
            ("08/07/24 9:30", "strptime('08/07/24 9:30', '%m/%d/%y %H:%M')"),
            ("31.12.2024 09:30:00.5", "strptime('31.12.2024 09:30:00.5', '%d.%m.%Y %H:%M:%S%.f')"),
        ] {
            assert_eq!(read_as(text).as_deref(), Some(call));
        }
        for text in ["", "2024-08-08", "32.08.2024", "08.2024", "a.b.c", "08.08.2024 noon"] {
            assert_eq!(read_as(text), None, "{text}");
        }
    }
}
