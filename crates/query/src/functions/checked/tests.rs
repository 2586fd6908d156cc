use super::*;
use datafusion::arrow::array::{Int8Array, Int64Array, UInt8Array, UInt64Array};
use proptest::prelude::*;

const ALL: [Operation; 5] =
    [Operation::Add, Operation::Subtract, Operation::Multiply, Operation::ShiftLeft, Operation::ShiftRight];

fn exact(operation: Operation, a: i128, b: i128) -> i128 {
    match operation {
        Operation::Add => a + b,
        Operation::Subtract => a - b,
        Operation::Multiply => a.saturating_mul(b),
        Operation::Negate => -a,
        Operation::Difference => a - b,
        // No type holds it.
        Operation::ShiftLeft | Operation::ShiftRight if b < 0 => i128::MAX,
        Operation::ShiftRight => a >> b.min(127),
        Operation::ShiftLeft => a.saturating_mul(1 << b.min(126)),
    }
}

/// Every two values of 8 bits, signed and not.
#[test]
fn every_two_small_numbers() {
    for operation in ALL {
        for a in i8::MIN..=i8::MAX {
            let left: ArrayRef = Arc::new(Int8Array::from(vec![a]));
            for b in i8::MIN..=i8::MAX {
                let right: ArrayRef = Arc::new(Int8Array::from(vec![b]));
                let found = Checked::new(operation, DataType::Int8).compute(&left, Some(&right)).ok();
                let expected = i8::try_from(exact(operation, a.into(), b.into())).ok();
                let expected = expected.map(|value| Arc::new(Int8Array::from(vec![value])) as ArrayRef);
                assert_eq!(found.as_ref(), expected.as_ref(), "{a} {} {b}", operation.sign());
            }
        }
        for a in u8::MIN..=u8::MAX {
            let left: ArrayRef = Arc::new(UInt8Array::from(vec![a]));
            for b in u8::MIN..=u8::MAX {
                let right: ArrayRef = Arc::new(UInt8Array::from(vec![b]));
                let found = Checked::new(operation, DataType::UInt8).compute(&left, Some(&right)).ok();
                let expected = u8::try_from(exact(operation, a.into(), b.into())).ok();
                let expected = expected.map(|value| Arc::new(UInt8Array::from(vec![value])) as ArrayRef);
                assert_eq!(found.as_ref(), expected.as_ref(), "{a} {} {b}", operation.sign());
            }
        }
    }
}

fn any_number() -> impl Strategy<Value = i64> {
    prop_oneof![
        2 => any::<i64>(),
        2 => -4_i64..4,
        1 => 0_i64..70,
        1 => Just(i64::MIN),
        1 => Just(i64::MAX),
        1 => -4_000_000_000_i64..4_000_000_000,
    ]
}

proptest! {
    #[test]
    fn numbers_of_64_bits(
        rows in prop::collection::vec((prop::option::weighted(0.9, any_number()), prop::option::weighted(0.9, any_number())), 1..20),
        unsigned: bool,
        one_for_all: bool,
    ) {
        let of = if unsigned { DataType::UInt64 } else { DataType::Int64 };
        let number = |value: i64| if unsigned { i128::from(value.cast_unsigned()) } else { i128::from(value) };
        let array = |values: Vec<Option<i64>>| -> ArrayRef {
            match unsigned {
                true => Arc::new(values.into_iter().map(|v| v.map(i64::cast_unsigned)).collect::<UInt64Array>()),
                false => Arc::new(Int64Array::from(values)),
            }
        };
        let mut rows = rows;
        if one_for_all {
            let only = Some(rows[0].1.unwrap_or(3));
            rows.iter_mut().for_each(|row| row.1 = only);
        }
        let right = if one_for_all { vec![rows[0].1] } else { rows.iter().map(|row| row.1).collect() };
        let (left, right) = (array(rows.iter().map(|row| row.0).collect()), array(right));
        for operation in ALL {
            let fits = |value: i128| if unsigned { u64::try_from(value).is_ok() } else { i64::try_from(value).is_ok() };
            let expected: Vec<Option<i128>> = rows.iter().map(|row| Some(exact(operation, number(row.0?), number(row.1?)))).collect();
            let all_fit = expected.iter().flatten().all(|value| fits(*value));
            match Checked::new(operation, of.clone()).compute(&left, Some(&right)) {
                Ok(found) => {
                    prop_assert!(all_fit);
                    let expected = array(expected.iter().map(|value| value.map(|value| value as i64)).collect());
                    prop_assert_eq!(&found, &expected);
                }
                Err(overflow) => {
                    prop_assert!(!all_fit);
                    let of_row = |row: &&(Option<i64>, Option<i64>)| match (row.0, row.1) {
                        (Some(a), Some(b)) => !fits(exact(operation, number(a), number(b))),
                        _ => false,
                    };
                    let first = rows.iter().find(of_row).expect("one does not fit");
                    let values = [first.0, first.1].map(|value| number(value.expect("not NULL")).to_string());
                    prop_assert_eq!(overflow.values, values.to_vec());
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn differences_of_unsigned_numbers_are_signed(a in any_number(), b in any_number()) {
        let [left, right] = [a, b].map(|of| Arc::new(UInt64Array::from(vec![of.cast_unsigned()])) as ArrayRef);
        let found = Checked::new(Operation::Difference, DataType::UInt64).compute(&left, Some(&right)).ok();
        let exact = i128::from(a.cast_unsigned()) - i128::from(b.cast_unsigned());
        let expected = i64::try_from(exact).ok().map(|of| Arc::new(Int64Array::from(vec![of])) as ArrayRef);
        prop_assert_eq!(found.as_ref(), expected.as_ref());
    }
}

#[test]
fn signs() {
    let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(5), None, Some(-i64::MAX)]));
    let negated = Checked::new(Operation::Negate, DataType::Int64).compute(&values, None).expect("they fit");
    assert_eq!(negated.as_ref(), &Int64Array::from(vec![Some(-5), None, Some(i64::MAX)]) as &dyn Array);
    let least: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN]));
    let overflow =
        Checked::new(Operation::Negate, DataType::Int64).compute(&least, None).expect_err("too large");
    assert_eq!(overflow.values, ["-9223372036854775808"]);
}
