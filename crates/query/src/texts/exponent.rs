//! Numbers with exponents, as exact digits.

use std::borrow::Cow;

/// A number as digits alone: `1.5E-3` is `0.0015`. `None` where its exponent is no number that digits have room for.
pub fn without_exponent(text: &str) -> Option<Cow<'_, str>> {
    const PLACES_MAX: i32 = 400;
    let Some((digits, exponent)) = text.split_once(['e', 'E']) else { return Some(text.into()) };
    let exponent = exponent.parse::<i32>().ok().filter(|places| places.abs() <= PLACES_MAX)?;
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", digits.trim_start_matches('+')),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let point = i32::try_from(whole.len()).ok()? + exponent;
    let mut all = format!("{whole}{fraction}");
    let at = match usize::try_from(point) {
        Ok(at) => {
            all.extend(std::iter::repeat_n('0', at.saturating_sub(all.len())));
            at
        }
        Err(_) => {
            let zeros = usize::try_from(point.unsigned_abs()).ok()?;
            all.insert_str(0, &"0".repeat(zeros));
            0
        }
    };
    let (whole, fraction) = all.split_at(at);
    let whole = if whole.is_empty() { "0" } else { whole };
    let point = if fraction.is_empty() { "" } else { "." };
    Some(format!("{sign}{whole}{point}{fraction}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_without_their_exponents() {
        for (text, wanted) in [
            ("1.5E-3", "0.0015"),
            ("0E-10", "0.0000000000"),
            ("-1.25e+2", "-125"),
            ("12e3", "12000"),
            ("1.2345e2", "123.45"),
            ("7", "7"),
        ] {
            assert_eq!(without_exponent(text).as_deref(), Some(wanted), "{text}");
        }
        for wrong in ["1e", "xe5", "1e999", "1e5.5"] {
            assert_eq!(without_exponent(wrong), None, "{wrong}");
        }
    }
}
