use super::*;
use datafusion::arrow::array::{
    DurationMicrosecondArray, DurationMillisecondArray, DurationNanosecondArray, DurationSecondArray,
    IntervalDayTimeArray, IntervalMonthDayNanoArray, IntervalYearMonthArray,
};
use datafusion::arrow::datatypes::{
    Float64Type, Int32Type, Int64Type, IntervalDayTime, IntervalMonthDayNano,
};
use proptest::prelude::*;

fn whole(field: Field, array: &ArrayRef) -> i128 {
    let values = field.of_all(array).expect("it fits");
    match field {
        Field::Nanosecond => values.as_primitive::<Int64Type>().value(0).into(),
        _ => values.as_primitive::<Int32Type>().value(0).into(),
    }
}

fn epoch(array: &ArrayRef) -> f64 {
    Field::Epoch.of_all(array).expect("a double").as_primitive::<Float64Type>().value(0)
}

/// The parts of so many nanoseconds, by adding up what units there are of each, the largest first.
fn parts(nanos: i128, units: &[i128]) -> Vec<i128> {
    let (sign, mut left) = (nanos.signum(), nanos.abs());
    let part = |unit: &i128| {
        let count = left / unit;
        left -= count * unit;
        sign * count
    };
    units.iter().map(part).collect()
}

const SECONDS: i128 = 1_000_000_000;

fn check_time(array: &ArrayRef, of_time: i128) {
    let found = |field| whole(field, array);
    let hour_and_less = parts(of_time, &[3_600 * SECONDS, 60 * SECONDS, SECONDS]);
    assert_eq!([found(Field::Hour), found(Field::Minute), found(Field::Second)].as_slice(), hour_and_less);
    let of_minute = parts(of_time, &[60 * SECONDS, 1])[1];
    assert_eq!(found(Field::Nanosecond), of_minute);
    assert_eq!(found(Field::Microsecond), parts(of_minute, &[1_000])[0]);
    assert_eq!(found(Field::Millisecond), parts(of_minute, &[1_000_000])[0]);
}

/// The two doubles around the quotient are no nearer to it.
fn check_epoch(found: f64, nanos: i128) {
    let away = |seconds: f64| {
        let (whole, fraction) = (seconds.trunc(), seconds.fract());
        // 2^60 times what it is away, in nanoseconds: below a second a double has no more bits than that.
        let scaled = (fraction * 2_f64.powi(60)) as i128;
        ((whole as i128 * SECONDS - nanos) * (1 << 60) + scaled * SECONDS).abs()
    };
    if nanos.abs() >= SECONDS {
        assert!(
            away(found) <= away(found.next_up()) && away(found) <= away(found.next_down()),
            "{nanos}: {found}"
        );
    }
    assert!((found - nanos as f64 / 1e9).abs() <= 1e-15 * (nanos as f64 / 1e9).abs());
}

fn any_units() -> impl Strategy<Value = i64> {
    prop_oneof![
        3 => any::<i64>(),
        3 => -10_000_000_000_i64..10_000_000_000,
        2 => -100_000_000_000_000_i64..100_000_000_000_000,
        1 => Just(i64::MIN),
        1 => Just(i64::MAX),
        1 => Just(0_i64),
    ]
}

proptest! {
    #[test]
    fn fields_of_differences(units in any_units()) {
        let years = 292 * 366 * 86_400_i64;
        let seconds = units % years;
        let all: [(ArrayRef, i128); 4] = [
            (Arc::new(DurationNanosecondArray::from(vec![units])), units.into()),
            (Arc::new(DurationMicrosecondArray::from(vec![units / 1_000])), i128::from(units / 1_000) * 1_000),
            (Arc::new(DurationMillisecondArray::from(vec![units / 1_000_000])), i128::from(units / 1_000_000) * 1_000_000),
            (Arc::new(DurationSecondArray::from(vec![seconds])), i128::from(seconds) * SECONDS),
        ];
        for (array, nanos) in all {
            let days = parts(nanos, &[86_400 * SECONDS, 1]);
            prop_assert_eq!(whole(Field::Day, &array), days[0]);
            prop_assert_eq!(whole(Field::Week, &array), parts(days[0], &[7])[0]);
            prop_assert_eq!(whole(Field::Year, &array), 0);
            prop_assert_eq!(whole(Field::Month, &array), 0);
            check_time(&array, days[1]);
            check_epoch(epoch(&array), nanos);
        }
    }

    #[test]
    fn fields_of_intervals(months in -4_000_i32..4_000, days in -110_000_i32..110_000, nanos in any_units()) {
        let millis = (nanos % 1_000_000_000) as i32;
        let all: [(ArrayRef, i32, i32, i128); 3] = [
            (Arc::new(IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(months, days, nanos)])), months, days, nanos.into()),
            (Arc::new(IntervalDayTimeArray::from(vec![IntervalDayTime::new(days, millis)])), 0, days, i128::from(millis) * 1_000_000),
            (Arc::new(IntervalYearMonthArray::from(vec![months])), months, 0, 0),
        ];
        for (array, months, days, nanos) in all {
            let of_months = parts(months.into(), &[12, 1]);
            prop_assert_eq!(vec![whole(Field::Year, &array), whole(Field::Month, &array)], of_months.clone());
            prop_assert_eq!(whole(Field::Quarter, &array), parts(of_months[1], &[3])[0] + 1);
            prop_assert_eq!(whole(Field::Day, &array), days.into());
            check_time(&array, nanos);
            // A quarter of a day a year.
            let quarters = of_months[0] * 1_461 + of_months[1] * 120 + i128::from(days) * 4;
            check_epoch(epoch(&array), quarters * 21_600 * SECONDS + nanos);
        }
    }
}

#[test]
fn spellings() {
    for (name, field) in [
        ("EPOCH", Field::Epoch),
        ("seconds", Field::Second),
        ("ms", Field::Millisecond),
        ("'minute'", Field::Minute),
        ("Quarter", Field::Quarter),
    ] {
        assert_eq!(Field::of(name), Some(field), "{name}");
    }
    for name in ["dow", "doy", "isoyear", "fortnight", ""] {
        assert_eq!(Field::of(name), None, "{name}");
    }
}
