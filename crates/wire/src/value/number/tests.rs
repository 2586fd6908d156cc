use super::*;
use proptest::prelude::*;

#[test]
fn plain_doubles() {
    let check = |text: &str, expect: Option<f64>| assert_eq!(plain_f64(text.as_bytes()), expect, "{text}");
    check("20123.45", Some(20123.45));
    check("-0.00000001", Some(-1e-8));
    check("5", Some(5.0));
    check(".5", Some(0.5));
    check("5,", None);
    check("1e5", None);
    check("0.5", Some(0.5));
    check("00.5", None);
    check("4503599627370497", None);
    check("", None);
    check("-", None);
    check(".", None);
    check("nan", None);
    check("12345678901234567890", None);
    check("9007199254740993", None);
}

#[test]
fn integers_and_their_ends() {
    assert_eq!(parse_i64(b"-9223372036854775808"), Ok(i64::MIN));
    assert_eq!(parse_i64(b"9223372036854775808"), Err(IntegerFault::OutOfRange));
    assert_eq!(parse_u64(b"18446744073709551615"), Ok(u64::MAX));
    assert_eq!(parse_u64(b"18446744073709551616"), Err(IntegerFault::OutOfRange));
    assert_eq!(parse_i64(b"+7"), Ok(7));
    for text in ["", "-", "+", "--1", "+-1", "1.0", "1e3", "12a", "0x10", " 1"] {
        assert_eq!(parse_i64(text.as_bytes()), Err(IntegerFault::NotAnInteger), "{text}");
    }
    assert_eq!(plain_i64(b"1723161253000000000"), Some(1_723_161_253_000_000_000));
    for text in ["1,", "-0", "01", "-01", ""] {
        assert_eq!(plain_i64(text.as_bytes()), None, "{text}");
    }
    assert_eq!((plain_i64(b"0"), plain_u64(b"0"), plain_u64(b"00")), (Some(0), Some(0), None));
    assert_eq!(plain_i64(b"9223372036854775808"), None);
    assert_eq!(plain_u64(b"18446744073709551615"), Some(u64::MAX));
    for text in ["18446744073709551616", "100000000000000000000", "", "-1", "x", "+1", "1,"] {
        assert_eq!(plain_u64(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn decimals_are_exact() {
    assert_eq!(parse_decimal(b"12.345", 10, 3), Ok(12_345));
    assert_eq!(parse_decimal(b"-12.3", 10, 3), Ok(-12_300));
    assert_eq!(parse_decimal(b"12.3400", 10, 2), Ok(1_234));
    assert_eq!(parse_decimal(b"12.345", 10, 2), Err(IntegerFault::OutOfRange));
    assert_eq!(parse_decimal(b"100", 4, 2), Err(IntegerFault::OutOfRange));
    assert_eq!(parse_decimal(b"1e3", 10, 2), Err(IntegerFault::NotAnInteger));
    assert_eq!(parse_decimal(b".", 10, 2), Err(IntegerFault::NotAnInteger));
}

proptest! {
    /// The short way gives the very bits that correct rounding gives.
    #[test]
    fn plain_doubles_round_as_the_long_way(text in "-?[0-9]{0,12}(\\.[0-9]{0,12})?") {
        if let Some(value) = plain_f64(text.as_bytes()) {
            prop_assert_eq!(value.to_bits(), text.parse::<f64>().expect("digits").to_bits());
            prop_assert!(crate::value::is_printed_double(text.as_bytes()));
        }
    }

    #[test]
    fn integers_as_std_reads_them(text in "[-+]?[0-9]{0,21}") {
        prop_assert_eq!(parse_i64(text.as_bytes()).ok(), text.parse::<i64>().ok());
    }

    #[test]
    fn unsigned_integers_as_std_reads_them(text in "[0-9]{1,21}", behind in "([^0-9][0-9a-z,\n]{0,9})?") {
        let plain = plain_u64(format!("{text}{behind}").as_bytes());
        let is_plain = behind.is_empty() && !(text.len() > 1 && text.starts_with('0'));
        let value = text.parse::<u64>().ok().filter(|_| is_plain);
        prop_assert_eq!(plain, value);
    }

    #[test]
    fn no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        let _ = (plain_f64(&bytes), plain_i64(&bytes), plain_u64(&bytes), parse_f64(&bytes), parse_f32(&bytes));
        let _ = (parse_i64(&bytes), parse_u64(&bytes), parse_decimal(&bytes, 38, 10));
    }
}

#[test]
fn numbers_past_the_largest_are_no_infinities() {
    for text in [&b"1e400"[..], b"-1e400", b"+2e308", b"1e999999999"] {
        assert_eq!((parse_f64(text), is_number(text)), (None, true));
    }
    assert_eq!((parse_f32(b"1e39"), parse_f64(b"1e39")), (None, Some(1e39)));
    for text in [&b"inf"[..], b"-Infinity", b"+inf"] {
        assert!(
            parse_f64(text).is_some_and(f64::is_infinite) && parse_f32(text).is_some_and(f32::is_infinite)
        );
    }
    // What is too small is 0.
    assert_eq!((parse_f64(b"1e-400"), parse_f32(b"1e-50")), (Some(0.0), Some(0.0)));
    assert!(!is_number(b"1e") && !is_number(b"x1"));
}
