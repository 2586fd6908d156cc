//! Search among what ascends.

use std::ops::Range;

/// The first of some places of which `is_before` no longer holds, their end where there is none: it holds of all places
/// up to that one. Steps that double from `step` (at least 1) find one nearby at once.
#[inline]
pub fn gallop(places: Range<usize>, step: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut start, mut step) = (places.start, step);
    while start + step < places.end && is_before(start + step - 1) {
        start += step;
        step *= 2;
    }
    let mut end = places.end.min(start + step);
    while start < end {
        let middle = start + (end - start) / 2;
        if is_before(middle) { start = middle + 1 } else { end = middle }
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_every_place() {
        let values: Vec<i64> = (0..70).map(|at| at / 3).collect();
        for (start, step) in (0..=values.len()).flat_map(|start| [(start, 1), (start, 2), (start, 8)]) {
            for end in start..=values.len() {
                for value in -1..25 {
                    let expected = start + values[start..end].partition_point(|at| *at < value);
                    assert_eq!(gallop(start..end, step, |at| values[at] < value), expected);
                }
            }
        }
        assert_eq!(gallop(0..0, 1, |_| true), 0);
    }
}
