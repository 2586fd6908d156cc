//! Values folded over the frame of each row of a series.
//!
//! A frame is folded from the values that are in it and no others: nothing is ever taken out of a sum
//! again, so that rounding errors do not add up over a series, and a NaN or an infinity is gone when its row
//! has left.

use super::frame::{Frame, place};

/// Frames that are folded at once.
const BLOCK: usize = 256;

/// How two values become one: an associative operation and what changes nothing.
#[derive(Clone, Copy)]
pub(in crate::operators) struct Fold<T, F> {
    pub(in crate::operators) identity: T,
    pub(in crate::operators) join: F,
}

/// The values of one series.
#[derive(Clone, Copy)]
pub(super) struct Values<'a, T> {
    pub(super) values: &'a [T],
    /// Their times; empty where the frame does not ask for them.
    pub(super) times: &'a [i64],
}

impl<T: Copy, F: Fn(T, T) -> T> Fold<T, F> {
    /// Appends to `out` what `finish` makes of the fold of each row's frame and of where that begins and ends.
    pub(super) fn over<U>(
        &self,
        series: Values<'_, T>,
        frame: Frame,
        out: &mut Vec<U>,
        finish: impl Fn(T, usize, usize) -> U,
    ) {
        match frame.short() {
            Some(rows) => self.short(series.values, rows, out, finish),
            None => {
                let mut moving = Moving::new(self, series.values);
                frame.each(series.values.len(), series.times, |start, end| {
                    out.push(finish(moving.to(start, end), start, end));
                });
            }
        }
    }

    /// Folds each frame anew, a block of frames at once: first value with first value, second with second.
    fn short<U>(
        &self,
        values: &[T],
        (from, to): (i64, i64),
        out: &mut Vec<U>,
        finish: impl Fn(T, usize, usize) -> U,
    ) {
        let rows = values.len();
        let width = usize::try_from(to - from + 1).unwrap_or(0);
        let clipped = |row: usize, out: &mut Vec<U>| {
            let (start, end) = (place(row, from, rows), place(row, to.saturating_add(1), rows));
            let folded =
                values[start..end].iter().fold(self.identity, |held, value| (self.join)(held, *value));
            out.push(finish(folded, start, end));
        };
        // Rows whose frame lies whole in the series.
        let first = place(0, from.saturating_neg(), rows);
        let end = place(rows, to.saturating_neg(), rows).max(first);
        (0..first).for_each(|row| clipped(row, out));
        let mut held = [self.identity; BLOCK];
        for row in (first..end).step_by(BLOCK) {
            let begin = place(row, from, rows);
            let held = &mut held[..BLOCK.min(end - row)];
            held.copy_from_slice(&values[begin..begin + held.len()]);
            for next in 1..width {
                let values = &values[begin + next..begin + next + held.len()];
                held.iter_mut().zip(values).for_each(|(held, value)| *held = (self.join)(*held, *value));
            }
            out.extend(
                held.iter().enumerate().map(|(at, value)| finish(*value, begin + at, begin + at + width)),
            );
        }
        (end..rows).for_each(|row| clipped(row, out));
    }
}

/// The fold of a frame that moves on, in constant time a row: the values before `middle` are folded from
/// each of them up to there, those after it into one. When the frame has left the former behind, the
/// latter become them.
pub(in crate::operators) struct Moving<'a, T, F> {
    fold: &'a Fold<T, F>,
    values: &'a [T],
    /// The folds of the values up to `middle`, that from its row before on first.
    backs: Vec<T>,
    middle: usize,
    /// The fold of the values from `middle` to `end`.
    front: T,
    end: usize,
}

impl<'a, T: Copy, F: Fn(T, T) -> T> Moving<'a, T, F> {
    pub(in crate::operators) fn new(fold: &'a Fold<T, F>, values: &'a [T]) -> Self {
        Self { fold, values, backs: Vec::new(), middle: 0, front: fold.identity, end: 0 }
    }

    /// The fold of the values from `start` to `end`; neither may move back.
    #[inline]
    pub(in crate::operators) fn to(&mut self, start: usize, end: usize) -> T {
        for value in &self.values[self.end.min(end)..end] {
            self.front = (self.fold.join)(self.front, *value);
        }
        self.end = end;
        if start > self.middle {
            self.turn(start);
        }
        match self.middle - start {
            0 => self.front,
            back => (self.fold.join)(self.backs[back - 1], self.front),
        }
    }

    #[cold]
    fn turn(&mut self, start: usize) {
        self.backs.clear();
        let mut held = self.fold.identity;
        for value in self.values[start..self.end].iter().rev() {
            held = (self.fold.join)(*value, held);
            self.backs.push(held);
        }
        self.middle = self.end;
        self.front = self.fold.identity;
    }
}
