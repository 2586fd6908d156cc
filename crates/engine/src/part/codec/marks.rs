//! Values placed by one bit a row: runs spread over their rows, exceptions put in their places.

use super::simd::{self, Kernel, MARKED_ROWS, PADDING, Simd};
use super::slots::{Plain, Slot, fill, scratch};
use super::{Damage, Decoded, bit};

/// Writes to each row the head of its run: marked rows begin one. `heads` are `runs` values, then [`PADDING`].
pub(super) fn spread<'s, V: Plain>(
    marks: &[u8],
    runs: usize,
    heads: &[V],
    slots: &'s mut [Slot<V>],
) -> Decoded<&'s mut [V]> {
    simd::run(Spread { marks: sound(marks, slots.len(), runs, heads)?, heads, slots })
}

/// The sum of what [`spread`] writes to `rows` rows, without its being written; wraps around.
pub(super) fn sum(marks: &[u8], runs: usize, heads: &[u64], rows: usize) -> Decoded<u64> {
    simd::run(SumSpread { marks: sound(marks, rows, runs, heads)?, heads, rows })
}

/// The marks of `rows` rows, where they are of so many runs and the first row begins one.
fn sound<'a, V>(marks: &'a [u8], rows: usize, runs: usize, heads: &[V]) -> Decoded<&'a [u8]> {
    let marks = marks.get(..rows.div_ceil(MARKED_ROWS)).unwrap_or_default();
    let sound = bit(marks, 0) && count(marks) == runs && heads.len() == runs + PADDING;
    sound.then_some(marks).ok_or(MISMATCH)
}

/// Writes runs one by one: run `n` begins at row `starts[n]`.
pub(super) fn fill_runs<'s, V: Plain>(
    starts: &[u32],
    heads: &[V],
    slots: &'s mut [Slot<V>],
) -> Decoded<&'s mut [V]> {
    if starts.first() != Some(&0) {
        return Err(Damage("runs that do not begin at the first row"));
    }
    let rows = slots.len();
    let ends = starts.iter().skip(1).map(|&start| start as usize).chain([rows]);
    let mut filled = 0;
    for (end, &head) in ends.zip(heads) {
        fill(slots.get_mut(filled..end).ok_or(Damage("runs out of order"))?, head);
        filled = end;
    }
    if filled != rows {
        return Err(MISMATCH);
    }
    // SAFETY: each run was filled from where the one before it ended, the first from row 0, the last to the end.
    Ok(unsafe { slots.assume_init_mut() })
}

const MISMATCH: Damage = Damage("run marks that do not match the runs");

/// Marks that are set.
fn count(marks: &[u8]) -> usize {
    let (words, rest) = marks.as_chunks::<8>();
    let full: u32 = words.iter().map(|word| u64::from_le_bytes(*word).count_ones()).sum();
    full as usize + rest.iter().map(|byte| byte.count_ones() as usize).sum::<usize>()
}

/// Eight rows a step: one addition between steps, and no branch to mispredict whatever the runs.
struct Spread<'a, 's, V> {
    marks: &'a [u8],
    heads: &'a [V],
    slots: &'s mut [Slot<V>],
}

impl<'s, V: Plain> Kernel for Spread<'_, 's, V> {
    type Output = Decoded<&'s mut [V]>;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Self::Output {
        let Self { marks, heads, slots } = self;
        if marks.len() != slots.len().div_ceil(MARKED_ROWS) {
            return Err(MISMATCH);
        }
        let (steps, rest) = slots.as_chunks_mut();
        let (mut begun, mut marks) = (0, marks.iter());
        // The heads from that of the first of eight rows on.
        let mut window = |marks: u8| {
            let first = begun + usize::from(marks & 1);
            begun += marks.count_ones() as usize;
            heads.get(first.wrapping_sub(1)..).and_then(|heads| heads.first_chunk()).ok_or(MISMATCH)
        };
        for (rows, &marks) in steps.iter_mut().zip(&mut marks) {
            simd.spread(marks, window(marks)?, rows);
        }
        if let Some(&marks) = marks.next() {
            let mut rows = scratch();
            simd.spread(marks, window(marks)?, &mut rows);
            rest.copy_from_slice(&rows[..rest.len()]);
        }
        // SAFETY: there are as many marks as steps, and one more where there is a rest: all were written.
        Ok(unsafe { slots.assume_init_mut() })
    }
}

/// As [`Spread`], with sums of each eighth row in place of the rows.
struct SumSpread<'a> {
    marks: &'a [u8],
    heads: &'a [u64],
    rows: usize,
}

impl Kernel for SumSpread<'_> {
    type Output = Decoded<u64>;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Decoded<u64> {
        let Self { marks, heads, rows } = self;
        let (mut begun, mut sums) = (0, [0_u64; MARKED_ROWS]);
        let mut eight = [0; MARKED_ROWS];
        for &marks in marks {
            let first = begun + usize::from(marks & 1);
            begun += marks.count_ones() as usize;
            let window = heads.get(first.wrapping_sub(1)..).and_then(|heads| heads.first_chunk());
            let mut slots = scratch();
            simd.spread(marks, window.ok_or(MISMATCH)?, &mut slots);
            // SAFETY: `spread` writes all of them.
            eight = slots.map(|slot| unsafe { slot.assume_init() });
            for (sum, word) in sums.iter_mut().zip(eight) {
                *sum = sum.wrapping_add(word);
            }
        }
        // Of the last eight those past the block were counted, too.
        let past = marks.len() * MARKED_ROWS - rows;
        let all = |words: &[u64]| words.iter().fold(0_u64, |sum, word| sum.wrapping_add(*word));
        Ok(all(&sums).wrapping_sub(all(&eight[MARKED_ROWS - past..])))
    }
}

/// Puts the first `exceptions` of `found` (then [`PADDING`]) in the marked rows, one after the other.
pub(super) fn put_marked<V: Plain>(
    marks: &[u8],
    exceptions: usize,
    found: &[V],
    values: &mut [V],
) -> Decoded<()> {
    let (steps, past) = marks.split_at_checked(values.len() / MARKED_ROWS).ok_or(ASTRAY)?;
    let rest = values.len() % MARKED_ROWS;
    let last = *past.first().filter(|_| rest > 0).unwrap_or(&0) & ((1 << rest) - 1);
    if count(steps) + last.count_ones() as usize != exceptions
        || count(marks) != exceptions
        || found.len() != exceptions + PADDING
    {
        return Err(ASTRAY);
    }
    simd::run(PutMarked { steps, last, found, values })
}

/// What is wrong with exceptions that have no place.
pub(super) const ASTRAY: Damage = Damage("exceptions past their block");

/// Eight rows a step, as [`Spread`].
struct PutMarked<'a, 'v, V> {
    steps: &'a [u8],
    /// The marks of the rows that are left, fewer than eight.
    last: u8,
    found: &'a [V],
    values: &'v mut [V],
}

impl<V: Plain> Kernel for PutMarked<'_, '_, V> {
    type Output = Decoded<()>;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Decoded<()> {
        let Self { steps, last, found, values } = self;
        let (rows, rest) = values.as_chunks_mut();
        let mut put = 0;
        let mut window = |marks: u8| {
            let first = put;
            put += marks.count_ones() as usize;
            found.get(first..).and_then(|found| found.first_chunk()).ok_or(ASTRAY)
        };
        for (rows, &marks) in rows.iter_mut().zip(steps) {
            simd.expand(marks, window(marks)?, rows);
        }
        let mut eight = [V::default(); MARKED_ROWS];
        eight[..rest.len()].copy_from_slice(rest);
        simd.expand(last, window(last)?, &mut eight);
        rest.copy_from_slice(&eight[..rest.len()]);
        Ok(())
    }
}
