//! Numbers as people write and read them.

use std::time::Duration;

/// Units of memory, the longest name first.
const UNITS: [(&str, u64); 11] = [
    ("KIB", 1 << 10),
    ("MIB", 1 << 20),
    ("GIB", 1 << 30),
    ("TIB", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
];

/// A size in bytes: `256MB`, `1.5 GiB`, `512k`, `1000000`.
pub(crate) fn parse_bytes(text: &str) -> Result<usize, String> {
    let folded = text.trim().to_ascii_uppercase();
    let (number, unit) = UNITS
        .iter()
        .find_map(|(name, unit)| Some((folded.strip_suffix(name)?, *unit)))
        .unwrap_or((folded.strip_suffix('B').unwrap_or(&folded), 1));
    let wrong = || format!("'{text}' is not a size; write it like 256MB or 1.5GiB");
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    let bytes = number * unit as f64;
    if bytes.is_finite() && (0.0..usize::MAX as f64).contains(&bytes) {
        Ok(bytes as usize)
    } else {
        Err(wrong())
    }
}

/// `34,419`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 row`, `34,419 rows`.
pub(crate) fn rows(number: u64) -> String {
    format!("{} {}", count(number), if number == 1 { "row" } else { "rows" })
}

/// `123 ns`, `4.5 µs`, `1.23 ms`, `4.56 s`, `2 min 5 s`.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        s if s < 1e-3 => format!("{:.0} µs", s * 1e6),
        s if s < 0.1 => format!("{:.2} ms", s * 1e3),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 60.0 => format!("{s:.2} s"),
        s => format!("{:.0} min {:.0} s", (s / 60.0).floor(), s % 60.0),
    }
}

/// `2.6 MB`, in powers of a thousand.
pub(crate) fn bytes(bytes: u64) -> String {
    let size = bytes as f64;
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{:.1} kB", size / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", size / 1e6),
        _ => format!("{:.2} GB", size / 1e9),
    }
}

#[cfg(test)]
mod tests;
