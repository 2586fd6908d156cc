use super::Floor;

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
