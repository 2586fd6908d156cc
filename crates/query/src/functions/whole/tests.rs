use super::*;
use datafusion::arrow::array::BooleanArray;
use datafusion::arrow::datatypes::TimeUnit;
use datafusion::logical_expr::EmitTo;
use proptest::prelude::*;

fn any_number() -> impl Strategy<Value = i64> {
    prop_oneof![
        3 => any::<i64>(),
        2 => -1000_i64..1000,
        1 => Just(i64::MIN),
        1 => Just(i64::MAX),
        1 => Just(-1_i64),
        1 => (0_u32..63).prop_map(|bit| 1_i64 << bit),
    ]
}

proptest! {
    #[test]
    fn totals_are_exact(values in prop::collection::vec(any_number(), 0..2000)) {
        let expected: i128 = values.iter().map(|value| i128::from(*value)).sum();
        prop_assert_eq!(signed_total(&values), expected);
        let values: Vec<u64> = values.into_iter().map(i64::cast_unsigned).collect();
        let expected: i128 = values.iter().map(|value| i128::from(*value)).sum();
        prop_assert_eq!(unsigned_total(&values), expected);
    }

    /// No double is nearer to the quotient: the error of one is exact in 128 bits as long as the sum is small.
    #[test]
    fn a_mean_is_the_nearest_double(sum in any::<i64>(), count in 1_i64..1_000_000) {
        let found = mean(i128::from(sum), count);
        let away = |double: f64| {
            // |double · 2^e · count − sum · 2^e|, with all of it whole.
            let (mantissa, exponent) = parts(double);
            let scale = u32::try_from(-exponent.min(0)).unwrap_or(0);
            let up = u32::try_from(exponent.max(0)).unwrap_or(0);
            if scale > 60 { return None }
            let left = (i128::from(mantissa) << up).checked_mul(i128::from(count))?;
            Some((left - (i128::from(sum) << scale)).unsigned_abs() << (60 - scale))
        };
        if let (Some(ours), Some(above), Some(below)) = (away(found), away(found.next_up()), away(found.next_down())) {
            prop_assert!(ours <= above && ours <= below, "{} / {} = {}", sum, count, found);
        }
    }

    /// Whatever way rows come: at once, in pieces, merged, retracted, by group, filtered.
    #[test]
    fn accumulators_agree(
        rows in prop::collection::vec((prop::option::weighted(0.8, any_number()), 0_usize..3, any::<Option<bool>>()), 0..60),
        cut in 0_usize..60,
        mean: bool,
    ) {
        for of in [DataType::Int64, DataType::UInt64, DataType::Duration(TimeUnit::Nanosecond)] {
            let shape = Shape::new("sum(x)", &of, mean);
            let unsigned = of == DataType::UInt64;
            let array = |rows: &[(Option<i64>, usize, Option<bool>)]| -> ArrayRef {
                let values: Int64Array = rows.iter().map(|row| row.0).collect();
                reread(&(Arc::new(values) as ArrayRef), &of).expect("64 bits")
            };
            let cut = cut.min(rows.len());
            let naive = |rows: &[(Option<i64>, usize, Option<bool>)]| {
                let values = rows.iter().filter_map(|row| row.0).map(|bits| number(bits, unsigned));
                let (sum, count) = values.fold((0, 0), |(sum, count), value| (sum + value, count + 1));
                shape.finish(sum, count).map_err(|error| error.to_string())
            };
            let result = |found: Result<ScalarValue>| found.map_err(|error| error.to_string());
            let mut one = One { shape: shape.clone(), sum: 0, count: 0 };
            one.update_batch(&[array(&rows[..cut])]).expect("whole numbers");
            one.update_batch(&[array(&rows[cut..])]).expect("whole numbers");
            prop_assert_eq!(result(one.evaluate()), naive(&rows));
            let states: Vec<ArrayRef> =
                one.state().expect("a state").iter().map(|value| value.to_array().expect("one value")).collect();
            let mut merged = One { shape: shape.clone(), sum: 0, count: 0 };
            merged.merge_batch(&states).expect("a state");
            prop_assert_eq!(result(merged.evaluate()), naive(&rows));
            one.retract_batch(&[array(&rows[..cut])]).expect("whole numbers");
            prop_assert_eq!(result(one.evaluate()), naive(&rows[cut..]));

            let mut distinct = Distinct::new(shape.clone());
            distinct.update_batch(&[array(&rows)]).expect("whole numbers");
            distinct.retract_batch(&[array(&rows[..cut])]).expect("whole numbers");
            let mut left: Vec<_> = rows[cut..].iter().filter(|row| row.0.is_some()).copied().collect();
            left.sort_by_key(|row| row.0);
            left.dedup_by_key(|row| row.0);
            prop_assert_eq!(result(distinct.evaluate()), naive(&left));

            let groups: Vec<usize> = rows.iter().map(|row| row.1).collect();
            let filter: BooleanArray = rows.iter().map(|row| row.2).collect();
            let mut first = Many::new(shape.clone());
            first.update_batch(&[array(&rows[..cut])], &groups[..cut], Some(&filter.slice(0, cut)), 3).expect("numbers");
            let mut second = Many::new(shape.clone());
            let rest = filter.slice(cut, rows.len() - cut);
            second.update_batch(&[array(&rows[cut..])], &groups[cut..], Some(&rest), 3).expect("numbers");
            let states = second.state(EmitTo::All).expect("a state");
            first.merge_batch(&states, &[0, 1, 2], 3).expect("a state");
            let kept = |group| rows.iter().filter(|row| row.1 == group && row.2 == Some(true)).copied().collect::<Vec<_>>();
            let all: Vec<_> = (0..3).map(|group| naive(&kept(group))).collect();
            match first.evaluate(EmitTo::All) {
                Ok(found) => for (group, expected) in all.into_iter().enumerate() {
                    prop_assert_eq!(ScalarValue::try_from_array(&found, group).expect("a value"), expected.expect("it fits"));
                },
                Err(error) => prop_assert!(all.contains(&Err(error.to_string()))),
            }
        }
    }
}

/// A double as a whole number times a power of two.
fn parts(double: f64) -> (i64, i32) {
    let bits = double.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i32;
    let fraction = (bits & ((1 << 52) - 1)).cast_signed();
    let mantissa = if exponent == 0 { fraction } else { fraction | (1 << 52) };
    let sign = if double.is_sign_negative() { -1 } else { 1 };
    (sign * mantissa, exponent.max(1) - 1075)
}

#[test]
fn what_does_not_fit_says_so() {
    let error = fit("sum(x)", i128::from(i64::MAX) + 1, &DataType::Int64).expect_err("one too many");
    assert!(error.to_string().contains("sum(x) does not fit BIGINT: it is 9223372036854775808"), "{error}");
    let error = fit("sum(x)", i128::from(u64::MAX) + 1, &DataType::UInt64).expect_err("one too many");
    assert!(error.to_string().contains("BIGINT UNSIGNED: it is 18446744073709551616"), "{error}");
    assert_eq!(fit("sum(x)", i128::from(i64::MIN), &DataType::Int64).expect("it fits"), i64::MIN);
    assert_eq!(mean(i128::from(i64::MAX) * 3, 3), 9_223_372_036_854_775_807_f64);
    assert_eq!(mean(1, 3), 1.0 / 3.0);
    assert_eq!(mean(-7, 2), -3.5);
    assert_eq!(mean(0, 5), 0.0);
}
