//! Which right rows lie in the window of each left row, and values folded over them.

use super::node::Window;
use super::rows::Matched;
use crate::operators::asof::by_series::NEAR;
use crate::operators::window::fold::{Fold, Moving};
use std::ops::Range;
use tickstone_engine::gallop;

/// Windows are folded anew, each on its own, where they have at most so many rows for each row there is.
const ANEW_RATIO: usize = 4;

/// The right rows of each left row's window.
#[derive(Debug)]
pub(super) struct Windows {
    /// From which right row to before which, by left row.
    of: Vec<(u32, u32)>,
    /// The left and the right rows of each key.
    series: Vec<(Range<usize>, Range<usize>)>,
}

impl Windows {
    /// Those around each left row.
    pub(super) fn of(matched: &Matched, window: Window) -> Self {
        let series: Vec<_> = matched.series().collect();
        let mut of = Vec::with_capacity(matched.left.times.len());
        for (l, r) in &series {
            let times = &matched.right.times[r.clone()];
            let (mut start, mut end) = (0, 0);
            for time in &matched.left.times[l.clone()] {
                let low = time.saturating_add(window.low);
                let high = time.saturating_add(window.high);
                start = gallop(start..times.len(), NEAR, |at| times[at] < low);
                end = gallop(end.max(start)..times.len(), NEAR, |at| times[at] <= high);
                // A row at the very start is the last one at or before it.
                let begins = times.get(start) == Some(&low);
                let first = start - usize::from(window.prevailing && !begins && start > 0);
                of.push(((r.start + first) as u32, (r.start + end) as u32));
            }
        }
        Self { of, series }
    }

    /// From which right row to before which, by left row.
    pub(super) fn rows(&self) -> impl Iterator<Item = (usize, usize)> {
        self.of.iter().map(|(start, end)| (*start as usize, *end as usize))
    }

    /// What `finish` makes of the fold of each window's values and of where it begins and ends.
    pub(super) fn fold<T: Copy, U>(
        &self,
        values: &[T],
        fold: &Fold<T, impl Fn(T, T) -> T>,
        finish: impl Fn(T, usize, usize) -> U,
    ) -> Vec<U> {
        let mut out = Vec::with_capacity(self.of.len());
        for (l, r) in &self.series {
            let windows = self.of[l.clone()].iter().map(|(start, end)| (*start as usize, *end as usize));
            let held: usize = windows.clone().map(|(start, end)| end - start).sum();
            if held <= ANEW_RATIO * (l.len() + r.len()) {
                out.extend(windows.map(|(start, end)| {
                    let folded = values[start..end]
                        .iter()
                        .fold(fold.identity, |held, value| (fold.join)(held, *value));
                    finish(folded, start, end)
                }));
            } else {
                let mut moving = Moving::new(fold, &values[r.clone()]);
                out.extend(
                    windows.map(|(start, end)| finish(moving.to(start - r.start, end - r.start), start, end)),
                );
            }
        }
        out
    }
}
