use super::*;
use datafusion::arrow::datatypes::IntervalMonthDayNanoType;
use proptest::prelude::*;

fn instant(ns: i64) -> Expr {
    Expr::Literal(ScalarValue::TimestampNanosecond(Some(ns), None), None)
}

fn interval(months: i32, days: i32, ns: i64) -> Expr {
    let value = IntervalMonthDayNanoType::make_value(months, days, ns);
    Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(value)), None)
}

fn all(times: Times) -> Vec<i64> {
    (0..times.count).map(|place| times.at(place)).collect()
}

/// One after the other.
fn naive(start: i64, end: i64, step: i64, has_end: bool) -> Vec<i64> {
    let inside = |ts: &i64| match (step > 0, has_end) {
        (true, true) => *ts <= end,
        (true, false) => *ts < end,
        (false, true) => *ts >= end,
        (false, false) => *ts > end,
    };
    std::iter::successors(Some(start), |ts| ts.checked_add(step)).take_while(inside).collect()
}

proptest! {
    #[test]
    fn instants_are_those_of_adding_step_by_step(
        start in prop_oneof![-50_i64..50, Just(i64::MIN), Just(i64::MAX)],
        distance in -60_i64..60,
        step in prop_oneof![-9_i64..-1, 1_i64..9],
        has_end: bool,
    ) {
        let end = start.saturating_add(distance);
        let times = Times::of(&[instant(start), instant(end), interval(0, 0, step)], has_end).unwrap();
        prop_assert_eq!(all(times), naive(start, end, step, has_end));
    }
}

#[test]
fn all_instants_there_are_can_be_counted() {
    let times = Times::of(&[instant(i64::MIN), instant(i64::MAX), interval(0, 0, 2)], true).unwrap();
    assert_eq!(times.at(times.count - 1), i64::MAX - 1);
}

#[test]
fn days_are_24_hours_and_months_are_left_alone() {
    let times = Times::of(&[instant(0), instant(i64::MAX), interval(0, 2, 5)], true).unwrap();
    assert_eq!(times.step, 2 * NS_PER_DAY + 5);
    for (months, days, ns) in [(1, 0, 0), (0, 1, -5), (0, -1, 5), (0, 0, 0)] {
        assert_eq!(Times::of(&[instant(0), instant(9), interval(months, days, ns)], true), None);
    }
}
