//! Folds over slices in independent lanes, so that operations need not wait for each other.

/// Lanes of a fold.
const LANES: usize = 16;

pub(super) fn sum<T: Copy + Into<f64>>(values: &[T]) -> f64 {
    lanes(values, 0.0, |held, value| held + value.into(), |a, b| a + b)
}

/// The sum of squared distances from `from`, and the sum of the distances.
pub(super) fn deviations(values: &[f64], from: f64) -> (f64, f64) {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let (mut squares, mut sums) = ([0.0; LANES], [0.0; LANES]);
    for chunk in chunks {
        for lane in 0..LANES {
            let distance = chunk[lane] - from;
            squares[lane] += distance * distance;
            sums[lane] += distance;
        }
    }
    let rest = rest.iter().map(|value| value - from);
    let (square, sum) = rest.fold((0.0, 0.0), |(square, sum), d| (square + d * d, sum + d));
    (squares.into_iter().sum::<f64>() + square, sums.into_iter().sum::<f64>() + sum)
}

/// Folds a slice in lanes, then the lanes.
#[inline]
pub(super) fn lanes<T: Copy, U: Copy>(
    values: &[T],
    start: U,
    fold: impl Fn(U, T) -> U,
    join: impl Fn(U, U) -> U,
) -> U {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let rest = rest.iter().fold(start, |held, value| fold(held, *value));
    if chunks.is_empty() {
        return rest;
    }
    let mut held = [start; LANES];
    for chunk in chunks {
        for lane in 0..LANES {
            held[lane] = fold(held[lane], chunk[lane]);
        }
    }
    held.into_iter().fold(rest, join)
}

/// The sum of products of distances from `from`.
pub(super) fn product(a: &[f64], b: &[f64], from: (f64, f64)) -> f64 {
    sum_of(a, b, |a, b| (a - from.0) * (b - from.1))
}

/// The sum of what `term` makes of each two values.
#[inline]
pub(super) fn sum_of(a: &[f64], b: &[f64], term: impl Fn(f64, f64) -> f64) -> f64 {
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| term(*a, *b)).sum();
    let mut sums = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            sums[lane] += term(a[lane], b[lane]);
        }
    }
    sums.into_iter().sum::<f64>() + rest
}
