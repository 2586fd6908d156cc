//! Statistics at the edges of their types.

use super::*;

fn measure<V: Measured>(values: &[V]) -> Measure {
    V::measure(values.iter().copied())
}

#[test]
fn a_range_passes_over_nan_and_orders_zeros() {
    let measured = measure(&[0.0, f64::NAN, -0.0]);
    assert_eq!(f64::from_bits(measured.min).to_bits(), (-0.0_f64).to_bits());
    assert_eq!(f64::from_bits(measured.max).to_bits(), 0.0_f64.to_bits());
    assert_eq!(measured.flags, HAS_RANGE | HAS_SUM | HAS_NAN);
    let measured = measure(&[f64::INFINITY, f64::NEG_INFINITY, 1.0]);
    assert_eq!(
        (f64::from_bits(measured.min), f64::from_bits(measured.max)),
        (f64::NEG_INFINITY, f64::INFINITY)
    );
    assert_eq!(measure(&[f64::NAN]).flags, HAS_SUM | HAS_NAN);
}

#[test]
fn a_sum_that_does_not_fit_is_absent() {
    assert_eq!(measure(&[i64::MAX, 1]).flags, HAS_RANGE);
    assert_eq!(measure(&[i64::MAX, -1]).flags, HAS_RANGE | HAS_SUM);
    assert_eq!(measure(&[u64::MAX]).sum, u64::MAX);
    assert_eq!(measure(&[i128::MAX]).flags, NO_RANGE);
    assert_eq!(measure(&[i128::MAX, 1 - i128::MAX]).sum, 1);
}

#[test]
fn totals_add_up() {
    let block = |values: &[i64]| {
        let m = measure(values);
        let stats = BlockStats {
            flags: m.flags,
            min: m.min,
            max: m.max,
            sum: m.sum,
            first: values[0].stat_bits(),
            last: values[values.len() - 1].stat_bits(),
            ..BlockStats::default()
        };
        TotalStats::of_block(StatKind::Signed, values.len(), &stats)
    };
    let mut total = TotalStats::empty();
    total.add(StatKind::Signed, &block(&[3, -5]));
    total.add(StatKind::Signed, &block(&[i64::MAX, 2]));
    let mut bytes = Vec::new();
    total.write(&mut bytes);
    let total = TotalStats::read(&bytes).unwrap();
    let stats = total.to_column_stats(tickstone_model::ColumnType::Int64);
    assert_eq!((stats.min, stats.max), (Some(StatValue::Int(-5)), Some(StatValue::Int(i64::MAX.into()))));
    // The second block's own sum does not fit: none is claimed for the whole.
    assert_eq!((stats.rows, stats.sum), (4, None));
    assert_eq!((total.first, total.last), (3, 2));
}
