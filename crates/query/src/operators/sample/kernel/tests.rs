use super::*;
use crate::operators::sample::rows::Placed;
use datafusion::arrow::array::{AsArray, Float64Array, StringArray};
use datafusion::arrow::datatypes::Float64Type;
use datafusion::common::DataFusionError;
use proptest::prelude::*;

type Row = (Option<f64>, Option<f64>, usize, Option<bool>);

const GROUPS: usize = 3;

fn kernels() -> Vec<Box<dyn Kernel>> {
    let deviation = |root, sample| Box::new(Moments::new(Deviation { root, sample }));
    vec![
        Box::new(Counts::default()),
        Box::new(Sums::new(false, None)),
        Box::new(Sums::new(true, None)),
        extremes::kernel(&DataType::Float64, false).unwrap(),
        extremes::kernel(&DataType::Float64, true).unwrap(),
        deviation(true, true),
        deviation(false, false),
        Box::new(Vwap::default()),
        Box::new(Comoments::default()),
        Box::new(Sums::new(false, Some(Pair::Difference))),
        Box::new(Sums::new(true, Some(Pair::Product))),
        quantiles::kernel(&DataType::Float64, &PARTS).unwrap(),
    ]
}

/// Kernels of two arguments, and the names of their places.
const VWAP: usize = 7;
const CORR: usize = 8;
const DIFFERENCES: usize = 9;
const PRODUCTS: usize = 10;

const PAIRS: [usize; 4] = [VWAP, CORR, DIFFERENCES, PRODUCTS];

const QUANTILES: usize = 11;
const PARTS: [f64; 5] = [0.5, 0.0, 0.9, 0.25, 1.0];

/// What lies above a part of the values.
fn above(part: f64, mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let place = part * values.len().checked_sub(1)? as f64;
    let (low, high) = (values[place.floor() as usize], values[place.ceil() as usize]);
    Some(if low == high || place.fract() == 0.0 { low } else { low + (high - low) * place.fract() })
}

/// What the kernel at this place of [`kernels`] gives of the rows of one group.
fn naive(at: usize, rows: &[(f64, f64)]) -> Option<f64> {
    let values = || rows.iter().map(|row| row.0);
    let total: f64 = values().sum();
    let order = |a: &f64, b: &f64| match (a.is_nan(), b.is_nan()) {
        (false, false) => a.total_cmp(b),
        (a, b) => a.cmp(&b),
    };
    match at {
        0 => Some(rows.len() as f64),
        1 => (!rows.is_empty()).then_some(total),
        2 => (!rows.is_empty()).then(|| total / rows.len() as f64),
        3 => values().min_by(order),
        4 => values().max_by(order),
        5 => (rows.len() > 1).then(|| (spread(values) / (rows.len() - 1) as f64).sqrt()),
        6 => (!rows.is_empty()).then(|| spread(values) / rows.len() as f64),
        CORR => correlation(rows),
        QUANTILES => above(PARTS[0], values().collect()),
        DIFFERENCES => (!rows.is_empty()).then(|| rows.iter().map(|row| row.0 - row.1).sum()),
        PRODUCTS => {
            (!rows.is_empty()).then(|| rows.iter().map(|row| row.0 * row.1).sum::<f64>() / rows.len() as f64)
        }
        _ => {
            let weights: f64 = rows.iter().map(|row| row.1).sum();
            (weights != 0.0).then(|| rows.iter().map(|row| row.0 * row.1).sum::<f64>() / weights)
        }
    }
}

/// The sum of squared distances from the mean.
fn spread<I: Iterator<Item = f64>>(values: impl Fn() -> I) -> f64 {
    let mean = values().sum::<f64>() / values().count() as f64;
    values().map(|value| (value - mean).powi(2)).sum()
}

fn correlation(rows: &[(f64, f64)]) -> Option<f64> {
    let mean = |pick: fn(&(f64, f64)) -> f64| rows.iter().map(pick).sum::<f64>() / rows.len() as f64;
    let (y, x) = (mean(|row| row.0), mean(|row| row.1));
    if y.is_nan() || x.is_nan() || rows.len() < 2 {
        // Without rows there is no mean.
        return (y.is_nan() && x.is_nan() && !rows.is_empty()).then_some(f64::NAN);
    }
    let spreads = (spread(|| rows.iter().map(|row| row.0)), spread(|| rows.iter().map(|row| row.1)));
    let products: f64 = rows.iter().map(|row| (row.0 - y) * (row.1 - x)).sum();
    (spreads.0 != 0.0 && spreads.1 != 0.0).then(|| products / (spreads.0 * spreads.1).sqrt())
}

/// The kernel at this place of [`kernels`], which has been given rows in so many batches.
fn fed(at: usize, batches: &[&[Row]], filtered: bool) -> Box<dyn Kernel> {
    let mut kernel = kernels().swap_remove(at);
    batches.iter().for_each(|rows| feed(kernel.as_mut(), PAIRS.contains(&at), rows, filtered).unwrap());
    kernel
}

fn feed(kernel: &mut dyn Kernel, two: bool, rows: &[Row], filtered: bool) -> Result<()> {
    let column = |pick: fn(&Row) -> Option<f64>| -> ArrayRef {
        Arc::new(rows.iter().map(pick).collect::<Float64Array>())
    };
    let mut values = vec![column(|row| row.0)];
    if two {
        values.push(column(|row| row.1));
    }
    let filter: BooleanArray = rows.iter().map(|row| row.3).collect();
    let mut placed = Placed::default();
    rows.iter().enumerate().for_each(|(row, (_, _, group, _))| placed.push(*group, row + 1));
    let spreads = Spreads::new(2);
    let spreads = spreads.of(if two { &[0, 1] } else { &[0] });
    let filter = filtered.then_some(&filter);
    kernel.grow(GROUPS);
    kernel.update(&Batch { values: &values, filter, rows: &placed.rows(), spreads })
}

fn found(kernel: &mut Box<dyn Kernel>) -> Vec<Option<f64>> {
    let array = kernel.finish().expect("values");
    let array = datafusion::arrow::compute::cast(&array, &DataType::Float64).expect("numbers");
    array.as_primitive::<Float64Type>().iter().collect()
}

fn close(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-9 * (1.0 + b.abs()),
        (a, b) => a.is_none() && b.is_none(),
    }
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let value = prop_oneof![
        8 => (-100_i32..100).prop_map(|n| Some(f64::from(n) / 8.0)),
        1 => Just(None),
        1 => Just(Some(f64::NAN)),
    ];
    let weight = prop_oneof![8 => (0_i32..100).prop_map(|n| Some(f64::from(n))), 1 => Just(None)];
    let run = (0..GROUPS, 1_usize..40);
    prop::collection::vec((run, prop::collection::vec((value, weight, any::<Option<bool>>()), 40)), 0..8)
        .prop_map(|runs| {
            let rows = runs.into_iter().flat_map(|((group, len), rows)| {
                rows.into_iter().take(len).map(move |(value, weight, keep)| (value, weight, group, keep))
            });
            rows.collect()
        })
}

proptest! {
    /// Fed at once, in two batches, or in two kernels that are merged: what a loop over the rows gives.
    #[test]
    fn kernels_are_as_a_loop(rows in rows(), cut in 0_usize..300, filtered: bool) {
        let cut = cut.min(rows.len());
        for at in 0..kernels().len() {
            let expected: Vec<Option<f64>> = (0..GROUPS)
                .map(|group| {
                    let kept = rows.iter().filter(|row| row.2 == group && (!filtered || row.3 == Some(true)));
                    let counted = kept.filter_map(|row| match at {
                        VWAP | CORR | DIFFERENCES | PRODUCTS => Some((row.0?, row.1?)),
                        _ => Some((row.0?, 0.0)),
                    });
                    naive(at, &counted.collect::<Vec<_>>())
                })
                .collect();
            let (before, after) = rows.split_at(cut);
            let mut at_once = fed(at, &[&rows], filtered);
            let mut batches = fed(at, &[before, after], filtered);
            let (mut first, second) = (fed(at, &[before], filtered), fed(at, &[after], filtered));
            first.merge(second, &[0, 1, 2]).expect("the same aggregate");
            let ways = [&mut at_once, &mut batches, &mut first].map(found);
            for (way, found) in ways.iter().enumerate() {
                let same = found.iter().zip(&expected).all(|(a, b)| close(*a, *b));
                prop_assert!(same, "kernel {at}, way {way}: {found:?}, expected {expected:?}");
            }
            for (nth, part) in PARTS.iter().enumerate().filter(|_| at == QUANTILES) {
                let found = first.quantile(nth).expect("finished");
                for group in 0..GROUPS {
                    let kept = rows.iter().filter(|row| row.2 == group && (!filtered || row.3 == Some(true)));
                    let expected = above(*part, kept.filter_map(|row| row.0).collect());
                    let found = found.as_primitive::<Float64Type>().iter().nth(group).flatten();
                    prop_assert!(close(found, expected), "part {part}: {found:?}, expected {expected:?}");
                }
            }
        }
    }
}

fn is_internal<T>(result: Result<T>) -> bool {
    matches!(result, Err(DataFusionError::Internal(_)))
}

#[test]
fn what_does_not_fit_a_kernel_is_an_internal_error() {
    let rows: [Row; 2] = [(Some(1.0), Some(2.0), 0, None), (Some(3.0), None, 1, None)];
    for at in 0..kernels().len() {
        let mut kernel = fed(at, &[&rows], false);
        assert!(
            is_internal(feed(kernel.as_mut(), !PAIRS.contains(&at), &rows, false)) || at == 0,
            "kernel {at}"
        );
        // One of another kind, and one of the same kind over another type.
        let singles = [
            Box::new(Found) as Box<dyn Kernel>,
            extremes::kernel(&DataType::Float32, true).unwrap(),
            quantiles::kernel(&DataType::Float32, &PARTS).unwrap(),
        ];
        for other in singles {
            assert!(is_internal(kernel.merge(other, &[])), "kernel {at}");
        }
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
        let values = vec![texts; if PAIRS.contains(&at) { 2 } else { 1 }];
        let (mut placed, spreads) = (Placed::default(), Spreads::new(2));
        placed.push(0, 2);
        let spreads = spreads.of(&[0, 1]);
        let batch = Batch { values: &values, filter: None, rows: &placed.rows(), spreads };
        assert!(is_internal(kernel.update(&batch)) || at == 0, "kernel {at}");
        assert!(is_internal(kernel.update_ends(&values, &[])), "kernel {at}");
        assert!(is_internal(kernel.count_rows(0, 1)) || at == 0, "kernel {at}");
        assert!(is_internal(kernel.update_block(0, &[None, None])), "kernel {at}");
        assert!(is_internal(kernel.quantile(0)), "kernel {at}");
    }
    let mut ends = ends::kernel(&DataType::Float64, true).unwrap();
    assert!(is_internal(feed(ends.as_mut(), false, &rows, false)));
    assert!(is_internal(ends.merge(ends::kernel(&DataType::Int64, true).unwrap(), &[])));
}

#[test]
fn a_slice_of_any_length_sums_as_a_loop() {
    for length in 0..40 {
        let values: Vec<f64> = (0..length).map(f64::from).collect();
        let total = f64::from(length * (length - 1) / 2);
        assert_eq!(fold::sum(&values), total, "{length} values");
        assert_eq!(
            fold::product(&values, &vec![2.0; values.len()], (0.0, 0.0)),
            2.0 * total,
            "{length} values"
        );
    }
}
