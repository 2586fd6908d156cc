use super::*;
use proptest::prelude::*;

fn exact(values: &[f64]) -> ExactSum {
    let mut sum = ExactSum::default();
    values.iter().for_each(|value| sum.add(*value));
    sum
}

/// The same double, NaN like NaN.
fn same(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan())
}

/// Shewchuk's growing expansion: doubles whose exact sum is that of the values, none of which reaches another.
fn expansion(values: &[f64]) -> Vec<f64> {
    let mut partials: Vec<f64> = Vec::new();
    for value in values {
        let mut x = *value;
        let mut kept = Vec::new();
        for mut y in partials {
            if x.abs() < y.abs() {
                std::mem::swap(&mut x, &mut y);
            }
            let high = x + y;
            let low = y - (high - x);
            if low != 0.0 {
                kept.push(low);
            }
            x = high;
        }
        kept.push(x);
        partials = kept;
    }
    partials
}

fn any_double() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => any::<f64>(),
        4 => (-1_000_000_i32..1_000_000).prop_map(|cents| f64::from(cents) / 100.0),
        2 => (any::<i32>(), -60_i32..60).prop_map(|(number, power)| f64::from(number) * 2_f64.powi(power)),
        1 => Just(f64::MIN_POSITIVE),
        1 => Just(5e-324),
        1 => Just(f64::MAX),
        1 => Just(-0.0),
    ]
}

proptest! {
    /// Whole numbers of the same unit have a sum that 128 bits hold.
    #[test]
    fn sums_of_whole_numbers(values in prop::collection::vec(-(1_i64 << 53)..(1 << 53), 0..300), power in -1000_i32..900) {
        let unit = 2_f64.powi(power);
        let doubles: Vec<f64> = values.iter().map(|value| *value as f64 * unit).collect();
        let total: i128 = values.iter().map(|value| i128::from(*value)).sum();
        // Rounded once: a power of two changes no digit.
        prop_assert_eq!(exact(&doubles).value(), total as f64 * unit);
    }

    /// What is left of the sum when its parts are taken away again is 0, and its value is the nearest double.
    #[test]
    fn a_sum_is_the_nearest_double(values in prop::collection::vec(any_double(), 0..40)) {
        let values: Vec<f64> = values.into_iter().filter(|value| value.abs() < 1e300).collect();
        let sum = exact(&values);
        let value = sum.value();
        let mut left = sum.clone();
        expansion(&values).iter().for_each(|part| left.subtract(*part));
        prop_assert_eq!(left.value(), 0.0);
        // What is rounded off is at most half of the way to the next double on its side, which below a power of two is
        // nearer than above it; just half of the way it was rounded to the even one.
        let parts = sum.parts().expect("finite");
        let Some((_, rest)) = parts.split_first().filter(|(_, rest)| !rest.is_empty()) else { return Ok(()) };
        let next = if rest[0] > 0.0 { value.next_up() } else { value.next_down() };
        let mut past_half = exact(rest);
        past_half.merge(&exact(rest));
        past_half.subtract(next);
        past_half.add(value);
        let past_half = past_half.value() * rest[0].signum();
        prop_assert!(past_half <= 0.0, "{} and {:?} of {:?}", value, rest, values);
        prop_assert!(past_half < 0.0 || value.to_bits() & 1 == 0, "{} is odd, {:?} off, of {:?}", value, rest, values);
    }

    #[test]
    fn order_and_pieces_do_not_matter(
        values in prop::collection::vec(prop_oneof![20 => any_double(), 1 => Just(f64::NAN), 1 => Just(f64::INFINITY)], 0..60),
        cut in 0_usize..60,
        seed: u64,
    ) {
        let cut = cut.min(values.len());
        let mut shuffled = values.clone();
        let mut state = seed | 1;
        for at in (1..shuffled.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            shuffled.swap(at, (state >> 33) as usize % (at + 1));
        }
        let expected = exact(&values).value();
        prop_assert!(same(exact(&shuffled).value(), expected));
        let mut merged = exact(&values[cut..]);
        merged.merge(&exact(&values[..cut]));
        prop_assert!(same(merged.value(), expected));
        let mut bytes = Vec::new();
        merged.write(&mut bytes);
        let mut read = bytes.as_slice();
        let read_back = ExactSum::read(&mut read).expect("what was written");
        prop_assert!(read.is_empty());
        prop_assert!(same(read_back.value(), expected));
        // Rows that leave a window.
        values[..cut].iter().for_each(|value| merged.subtract(*value));
        prop_assert!(same(merged.value(), exact(&values[cut..]).value()));
    }
}

#[test]
fn ends_of_the_range() {
    assert_eq!(exact(&[]).value(), 0.0);
    assert_eq!(exact(&[5e-324, 5e-324, -5e-324]).value(), 5e-324);
    assert_eq!(exact(&[f64::MAX, f64::MAX, -f64::MAX]).value(), f64::MAX);
    assert_eq!(exact(&[f64::MAX, f64::MAX]).value(), f64::INFINITY);
    assert_eq!(exact(&[-f64::MAX, -f64::MAX]).value(), f64::NEG_INFINITY);
    assert_eq!(exact(&[1e300, 1.0, -1e300]).value(), 1.0);
    assert_eq!(exact(&[0.1; 10]).value(), 1.0);
    // Half of the way to the next double above a power of two: the even one.
    assert_eq!(exact(&[f64::MIN_POSITIVE, f64::MIN_POSITIVE, 5e-324]).value(), 2.0 * f64::MIN_POSITIVE);
    assert!(exact(&[f64::INFINITY, f64::NEG_INFINITY]).value().is_nan());
    let mut sum = exact(&[1.0, f64::NAN, 2.0]);
    assert!(sum.value().is_nan());
    sum.subtract(f64::NAN);
    assert_eq!(sum.value(), 3.0);
}
