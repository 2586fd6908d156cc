use super::*;
use proptest::prelude::*;

#[test]
fn what_doubles_print_as() {
    for text in [
        "0",
        "-0",
        "1",
        "1.5",
        "1.50",
        "-12.25",
        ".5",
        "-.5",
        "5.",
        "0.1",
        "0.30000000000000004",
        "0.1000000000000000056",
        "100000000000000000000",
        "1e-05",
        "1.5e+16",
        "2.5E10",
        "1.000000000000000056e-01",
        "0.000000000000000000e+00",
        "-1e-7",
        "nan",
        "NaN",
        "-inf",
        "Infinity",
        "1234567890123456800",
        // Half-way between two of so many digits.
        "9.020966046735603e+14",
        "9.020966046735602e+14",
    ] {
        assert!(is_printed_double(text.as_bytes()), "{text}");
    }
    for text in [
        "",
        "-",
        ".",
        "x",
        "+1",
        "007",
        "00.5",
        "1E3",
        "1e3",
        "38259E10",
        "12e+3",
        "INF",
        "NAN",
        "-INF",
        "1e999",
        "0.1234567890123456789",
        "9223372036854775807",
        "1723161253123456789",
        "18446744073709551615.0",
    ] {
        assert!(!is_printed_double(text.as_bytes()), "{text}");
    }
}

#[test]
fn what_integers_print_as() {
    for (text, is) in [
        ("0", true),
        ("7", true),
        ("-7", true),
        ("-0", false),
        ("07", false),
        ("+7", false),
        ("", false),
        ("1.0", false),
    ] {
        assert_eq!(is_printed_integer(text.as_bytes()), is, "{text}");
    }
}

#[test]
fn what_decimals_print_as() {
    for (text, digits) in [
        ("1.50", Some((1, 2))),
        ("-12", Some((2, 0))),
        ("0.1234567890123456789", Some((1, 19))),
        ("07.5", None),
        (".5", None),
        ("1e3", None),
        ("--1", None),
        ("1.5.5", None),
    ] {
        assert_eq!(printed_decimal(text.as_bytes()), digits, "{text}");
    }
}

proptest! {
    /// However a program prints a double, it is one.
    #[test]
    fn printed_doubles_are(value in any::<f64>().prop_filter("finite", |value| value.is_finite()), digits in 0..25_usize) {
        let shortest = format!("{value}");
        prop_assert!(shortest.len() > NUMBER_BYTES_MAX || is_printed_double(shortest.as_bytes()), "{}", shortest);
        let exponent = format!("{value:e}").replace('e', "e+").replace("+-", "-");
        prop_assert!(is_printed_double(exponent.as_bytes()), "{}", exponent);
        // To so many digits that they tell it from other doubles.
        let digits = digits.max(16);
        let long = format!("{value:.digits$e}");
        prop_assert!(is_printed_double(long.as_bytes()), "{}", long);
    }

    /// What is none is not what its value prints as.
    #[test]
    fn others_are_not(text in "-?[0-9]{1,20}(\\.[0-9]{1,20})?") {
        let value: f64 = text.parse().expect("a number");
        let fraction = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        let printed = format!("{value:.fraction$}") == text;
        prop_assert!(!printed || is_printed_double(text.as_bytes()), "{}", text);
        let is_shortest = text.trim_end_matches('0').trim_end_matches('.') == value.to_string();
        let is_shortest = is_shortest || text == value.to_string();
        prop_assert_eq!(is_printed_double(text.as_bytes()), printed || is_shortest, "{}", text);
    }
}
