//! Sums of blocks of runs: each run's value as often as the run is long, without any row being written.

use super::lane::Same;
use super::plain::{Lanes, summed};
use super::simd::{self, Kernel, PADDING, Simd};
use super::slots::{first, padded, scratch};
use super::value::{Value, take_marks, take_starts};
use super::{Decoded, alp, kind, marks, words};
use crate::part::BLOCK_ROWS;
use crate::part::stats::Measure;

/// Values of runs nearer to 0 than this add up in 64 bits, whatever the runs.
const MOST: u64 = 1 << 52;

/// The sum of a block of runs of `rows` values; `None` where it must be decoded.
pub(in crate::part) fn sum<V: Value>(body: &[u8], tables: &[u8], rows: usize) -> Decoded<Option<Measure>> {
    let Some((&code, mut bytes)) = body.split_first() else { return Ok(None) };
    let mut slots = scratch::<u32, BLOCK_ROWS>();
    let (marked, starts) = match code {
        kind::RUN_MARKS => (Some(take_marks(&mut bytes, rows)?), &mut [][..]),
        kind::RUN_LENGTHS => (None, take_starts(&mut bytes, tables, rows, &mut slots)?),
        _ => return Ok(None),
    };
    let runs = marked.map_or(starts.len(), |(_, runs)| runs);
    let Some((&code, mut bytes)) = bytes.split_first() else { return Ok(None) };
    let powers = match (V::PLAIN, code) {
        (Lanes::Wide { signed: true }, kind::WORDS) => None,
        (Lanes::Decimals, kind::DECIMALS) => match alp::without_exceptions(bytes)? {
            Some((powers, words)) => {
                bytes = words;
                Some(powers)
            }
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    let mut heads = scratch::<u64, { BLOCK_ROWS + PADDING }>();
    let heads = padded(first(&mut heads, runs + PADDING)?, PADDING, |slots| {
        words::decode::<u64, _>(&mut bytes, tables, Same, slots)
    })?;
    // A power of two is above all of them where it is above all of their bits.
    if heads.iter().fold(0, |bits, head| bits | head.wrapping_add(MOST)) >= 2 * MOST {
        return Ok(None);
    }
    let sum = match marked {
        Some((marks, runs)) => marks::sum(marks, runs, heads, rows)?,
        None => simd::run(SumRuns { starts, heads, rows }),
    };
    Ok(Some(summed(powers, i128::from(sum.cast_signed()))))
}

/// The sum of runs that begin at these of so many rows, each its head as often as it is long; wraps around.
struct SumRuns<'a> {
    starts: &'a [u32],
    heads: &'a [u64],
    rows: usize,
}

impl Kernel for SumRuns<'_> {
    type Output = u64;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> u64 {
        let Self { starts, heads, rows } = self;
        let Some((last, ends)) = starts.last().zip(starts.get(1..)) else { return 0 };
        let times = |start: u32, end: u32, head: u64| u64::from(end.wrapping_sub(start)).wrapping_mul(head);
        let runs = starts.iter().zip(ends).zip(heads).map(|((start, end), head)| times(*start, *end, *head));
        let last = times(*last, rows as u32, heads.get(ends.len()).copied().unwrap_or(0));
        runs.fold(last, u64::wrapping_add)
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::{Coder, pieces};
    use super::super::simd;
    use super::super::value::Plan;
    use super::*;
    use crate::part::Density;
    use crate::part::stats::Measured;
    use proptest::prelude::*;

    /// The body of values of which runs are stored once, and whether it is marked.
    fn body<V: Value>(values: &[V]) -> (Vec<u8>, Vec<u8>) {
        let plan = Plan { runs: true, ..V::plan(&[values.to_vec()]) };
        let mut coder = Coder::new(Density::Fast);
        let mut bodies = coder.encode(&[pieces(values, plan)]);
        (bodies.remove(0), coder.tables)
    }

    fn repeated<V: Copy>(lengths: &[usize], value: impl Fn(usize) -> V) -> Vec<V> {
        let rows = lengths.iter().enumerate().flat_map(|(run, &length)| (0..length).map(move |_| run));
        rows.take(BLOCK_ROWS).map(value).collect()
    }

    fn check(lengths: &[usize], far: i64) -> Option<u8> {
        let whole = repeated(lengths, |run| far + (run as i64 * 37) % 101);
        let cents = repeated(lengths, |run| 100.0 + ((run * 37) % 101) as f64 / 100.0);
        let (bytes, tables) = body(&whole);
        simd::with_each_level(|level| {
            let found = sum::<i64>(&bytes, &tables, whole.len()).unwrap();
            let wanted = i64::measure_all(&whole).sum;
            assert!(found.is_none_or(|found| found.sum == wanted), "{level:?}");
            let (bytes, tables) = body(&cents);
            if let Some(found) = sum::<f64>(&bytes, &tables, cents.len()).unwrap() {
                let units: i64 = cents.iter().map(|value| (value * 100.0).round() as i64).sum();
                assert_eq!(f64::from_bits(found.sum), units as f64 / 100.0, "{level:?}");
            }
        });
        sum::<i64>(&bytes, &tables, whole.len()).unwrap().map(|_| bytes[0])
    }

    #[test]
    fn runs_of_every_length_are_summed_so() {
        assert_eq!(check(&[2; 512], 0), Some(kind::RUN_MARKS));
        assert_eq!(check(&[9; 114], -50), Some(kind::RUN_LENGTHS));
        assert_eq!(check(&[300, 1, 700], 1 << 40), Some(kind::RUN_LENGTHS));
        assert_eq!(check(&[2; 300], i64::MAX - 1_000), None, "sums might not fit");
    }

    proptest! {
        #[test]
        fn any_runs(lengths in prop::collection::vec(1_usize..12, 2..400), far in -1_i64 << 53..1 << 53) {
            check(&lengths, far);
        }
    }
}
