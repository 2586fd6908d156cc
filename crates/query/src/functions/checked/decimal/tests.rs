use super::*;
use datafusion::arrow::array::Decimal128Array;
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use proptest::prelude::*;

const OPERATORS: [Operator; 5] =
    [Operator::Plus, Operator::Minus, Operator::Multiply, Operator::Divide, Operator::Modulo];

fn decimals(values: &[Option<i128>], precision: u8, scale: i8) -> ArrayRef {
    let values = Decimal128Array::from(values.to_vec());
    Arc::new(values.with_data_type(DataType::Decimal128(precision, scale)))
}

fn of(operator: Operator, result: DataType) -> CheckedDecimal {
    CheckedDecimal { operator, result, signature: Signature::any(2, Volatility::Immutable) }
}

/// As many digits as there are, or a few, or none.
fn digits(precision: u8) -> impl Strategy<Value = i128> {
    let most = 10_i128.pow(precision.into()) - 1;
    prop_oneof![4 => -most..=most, 2 => -200_i128..200, 1 => Just(most), 1 => Just(-most), 1 => Just(0)]
        .prop_map(move |value| value.clamp(-most, most))
}

fn a_type() -> impl Strategy<Value = (u8, i8)> {
    (1_u8..=38).prop_flat_map(|precision| (Just(precision), 0..=precision.cast_signed().min(19)))
}

fn power(digits: i32) -> i256 {
    i256::from_i128(10).wrapping_pow(digits.unsigned_abs())
}

/// Whether `found`, with `scale` digits after the point, is what the operator gives of `a` and `b`: for a quotient, that
/// none is nearer.
fn is_right(
    operator: Operator,
    (a, s1): (i128, i8),
    (b, s2): (i128, i8),
    (found, scale): (i128, i8),
) -> bool {
    let [a, b, found] = [a, b, found].map(i256::from_i128);
    let [s1, s2, scale] = [s1, s2, scale].map(i32::from);
    let [left, right] =
        [a.wrapping_mul(power(scale.max(s1) - s1)), b.wrapping_mul(power(scale.max(s2) - s2))];
    match operator {
        Operator::Plus => found == left.wrapping_add(right),
        Operator::Minus => found == left.wrapping_sub(right),
        Operator::Multiply => found == a.wrapping_mul(b),
        Operator::Modulo => found == left.wrapping_rem(right),
        _ => {
            let target = a.wrapping_mul(power(scale + s2 - s1));
            let error = found.wrapping_mul(b).wrapping_sub(target).wrapping_abs();
            error.wrapping_mul(i256::from_i128(2)) <= b.wrapping_abs()
        }
    }
}

proptest! {
    #[test]
    fn operators_are_exact_or_refuse(
        (left, right, rows) in (a_type(), a_type()).prop_flat_map(|(left, right)| {
            let row = (prop::option::weighted(0.9, digits(left.0)), prop::option::weighted(0.9, digits(right.0)));
            (Just(left), Just(right), prop::collection::vec(row, 1..8))
        }),
    ) {
        for operator in OPERATORS {
            let types = (DataType::Decimal128(left.0, left.1), DataType::Decimal128(right.0, right.1));
            let result = BinaryTypeCoercer::new(&types.0, &operator, &types.1).get_result_type();
            let result = result.expect("at most 38 digits after the point");
            let DataType::Decimal128(precision, scale) = result else { panic!("{result} is no DECIMAL") };
            let function = of(operator, result.clone());
            for (a, b) in &rows {
                let sides = [decimals(&[*a], left.0, left.1), decimals(&[*b], right.0, right.1)];
                let found = function.compute([&sides[0], &sides[1]], 1, &[None, None]);
                let (Some(a), Some(b)) = (*a, *b) else {
                    prop_assert!(found.expect("NULL").is_null(0));
                    continue;
                };
                match found {
                    Ok(found) => {
                        let found = found.as_primitive::<Decimal128Type>().value(0);
                        prop_assert!(found.unsigned_abs() < 10_u128.pow(precision.into()));
                        let right = is_right(operator, (a, left.1), (b, right.1), (found, scale));
                        prop_assert!(right, "{} {} {} is not {}", a, operator, b, found);
                    }
                    Err(error) if b == 0 && matches!(operator, Operator::Divide | Operator::Modulo) => {
                        prop_assert!(error.to_string().contains("Divide by zero"), "{}", error);
                    }
                    Err(error) => {
                        // It has room neither in 38 digits, nor anywhere.
                        let message = error.to_string();
                        prop_assert!(message.contains("does not fit DECIMAL"), "{}", message);
                        let wide = of(operator, DataType::Decimal256(DECIMAL256_MAX_PRECISION, scale));
                        let wide = wide.compute([&sides[0], &sides[1]], 1, &[None, None]);
                        if let Ok(wide) = wide {
                            let value = wide.as_primitive::<Decimal256Type>().value(0);
                            prop_assert!(decimals::narrowed(value, precision).is_none());
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn one_value_stands_for_all_rows() {
    let function = of(Operator::Multiply, DataType::Decimal128(38, 4));
    let rows = decimals(&[Some(150), None, Some(-200)], 20, 2);
    let one = decimals(&[Some(300)], 20, 2);
    let found = function.compute([&rows, &one], 3, &[None, None]).expect("they fit");
    assert_eq!(&found, &decimals(&[Some(45_000), None, Some(-60_000)], 38, 4));
}
