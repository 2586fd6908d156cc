use super::{Floor, nearest_units};

#[test]
fn floors_are_the_next_value_down() {
    let floor = |text: &str, scale: i8| Floor::of(text, scale).map(|floor| (floor.value, floor.exact));
    assert_eq!(floor("0.125", 2), Some((12, false)));
    assert_eq!(floor("-0.125", 2), Some((-13, false)));
    assert_eq!(floor("0.1200", 2), Some((12, true)));
    assert_eq!(floor("-7", 3), Some((-7_000, true)));
    assert_eq!(floor("1.5e3", 0), Some((1_500, true)));
    assert_eq!(floor("1.5e-3", 2), Some((0, false)));
    assert_eq!(floor("-1e-30", 2), Some((-1, false)));
    assert_eq!(floor("1e300", 0).map(|(value, _)| value >= Floor::PAST), Some(true));
    assert_eq!(
        floor("12345678901234567890123456789012345678", 0),
        Some((12345678901234567890123456789012345678, true))
    );
    assert_eq!(floor("one", 2), None);
}

#[test]
fn the_nearest_unit_is_the_one_that_is_printed() {
    assert_eq!(nearest_units("0.125", 2), Some(13));
    assert_eq!(nearest_units("-0.125", 2), Some(-13));
    assert_eq!(nearest_units("-0.1249999", 2), Some(-12));
    assert_eq!(nearest_units("61500", 2), Some(6_150_000));
    assert_eq!(nearest_units("-10000000000000000000", 18), Some(-10_i128.pow(37)));
    assert_eq!(nearest_units("1e39", 2), None);
}
