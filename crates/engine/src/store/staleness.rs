//! Staleness: which stretches of time of a materialized view its stored rows do not stand for.
//!
//! ```text
//! a change of the table below ─► mark: its stretches, at its position ─► queries work them out from the table
//! rows of a stretch stored anew, as of a position ─► settle: what was marked up to there ─► queries read the rows
//! ```
//!
//! It is part of the view's state in every snapshot, and in its manifest, so that a query of any snapshot, also after a
//! crash, knows which rows to believe.
//!
//! Invariants:
//! - stretches are apart and ascending; each has the position of the last change in it;
//! - what is frozen, whose rows below were dropped, is never stale.

use crate::codec::{Decoder, Encoder, Malformed};
use crate::tape::change::{decode_range, decode_ranges, encode_range, encode_ranges};
use tickstone_model::{MaterializedView, TimeRange};

/// Most stretches that are told apart.
const STRETCHES_MAX: usize = 4096;

/// A stretch whose rows are to be worked out anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StaleStretch {
    /// Times of rows of the table below (ns since the Unix epoch).
    pub range: TimeRange,
    /// Position of the last change in it.
    pub position: u64,
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Staleness {
    stale: Vec<StaleStretch>,
    frozen: Vec<TimeRange>,
}

impl Staleness {
    /// That of a view made at `position`, of which no row is stored.
    pub(crate) fn all(position: u64) -> Self {
        Self { stale: vec![StaleStretch { range: TimeRange::ALL, position }], frozen: Vec::new() }
    }

    /// Stretches that are to be worked out anew: apart, ascending.
    pub fn stale(&self) -> &[StaleStretch] {
        &self.stale
    }

    /// Stretches whose rows stay as they are, as those of the table below were dropped: apart, ascending.
    pub fn frozen(&self) -> &[TimeRange] {
        &self.frozen
    }

    /// Whether some of a range is stale.
    pub fn is_stale_in(&self, range: TimeRange) -> bool {
        let at = self.stale.partition_point(|stretch| stretch.range.to <= range.from);
        self.stale.get(at).is_some_and(|stretch| stretch.range.overlaps(&range))
    }

    /// The first frozen stretch that meets a range.
    pub fn frozen_in(&self, range: TimeRange) -> Option<TimeRange> {
        let at = self.frozen.partition_point(|frozen| frozen.to <= range.from);
        self.frozen.get(at).copied().filter(|frozen| frozen.overlaps(&range))
    }

    /// Notes a change at `position` within a range, but for what is frozen.
    pub(crate) fn mark(&mut self, range: TimeRange, position: u64) {
        let mut from = range.from;
        let first = self.frozen.partition_point(|frozen| frozen.to <= range.from);
        let frozen: Vec<_> =
            self.frozen[first..].iter().take_while(|frozen| frozen.from < range.to).copied().collect();
        for frozen in frozen {
            self.mark_free(TimeRange::new(from, frozen.from), position);
            from = frozen.to;
        }
        self.mark_free(TimeRange::new(from, range.to), position);
    }

    fn mark_free(&mut self, range: TimeRange, position: u64) {
        if range.is_empty() {
            return;
        }
        let at = self.stale.partition_point(|stretch| stretch.range.to <= range.from);
        // What goes on as it was: rows of the newest bucket.
        if let Some(stretch) = self.stale.get_mut(at).filter(|stretch| stretch.range == range) {
            stretch.position = stretch.position.max(position);
            return;
        }
        self.take_out(range, |_| true);
        let at = self.stale.partition_point(|stretch| stretch.range.to <= range.from);
        let mut marked = StaleStretch { range, position };
        let joins = |other: Option<&StaleStretch>, end: fn(&TimeRange) -> i64, to: i64| {
            other.is_some_and(|other| other.position == position && end(&other.range) == to)
        };
        if joins(self.stale.get(at), |range| range.from, range.to) {
            marked.range.to = self.stale.remove(at).range.to;
        }
        let before = at.checked_sub(1);
        if joins(before.and_then(|before| self.stale.get(before)), |range| range.to, range.from) {
            self.stale[at - 1].range.to = marked.range.to;
        } else {
            self.stale.insert(at, marked);
        }
        if self.stale.len() > STRETCHES_MAX {
            self.coarsen();
        }
    }

    /// Makes neighbours one where nothing between them is frozen.
    fn coarsen(&mut self) {
        let mut coarse: Vec<StaleStretch> = Vec::with_capacity(self.stale.len());
        let mut joined = false;
        for stretch in std::mem::take(&mut self.stale) {
            match coarse.last_mut() {
                Some(last)
                    if !joined
                        && self.frozen_in(TimeRange::new(last.range.to, stretch.range.from)).is_none() =>
                {
                    last.range.to = stretch.range.to;
                    last.position = last.position.max(stretch.position);
                    joined = true;
                }
                _ => {
                    coarse.push(stretch);
                    joined = false;
                }
            }
        }
        self.stale = coarse;
    }

    /// Notes that the rows stored in a range are those of the query as of a position.
    pub(crate) fn settle(&mut self, range: TimeRange, as_of: u64) {
        self.take_out(range, |stretch| stretch.position <= as_of);
    }

    /// Notes that the rows below a range were dropped: those of the view stay as they are.
    pub(crate) fn freeze(&mut self, range: TimeRange) {
        if range.is_empty() {
            return;
        }
        self.take_out(range, |_| true);
        let mut frozen = range;
        self.frozen.retain(|other| {
            let meets = other.from <= frozen.to && frozen.from <= other.to;
            if meets {
                frozen = TimeRange::new(frozen.from.min(other.from), frozen.to.max(other.to));
            }
            !meets
        });
        let at = self.frozen.partition_point(|other| other.from < frozen.from);
        self.frozen.insert(at, frozen);
    }

    /// Takes a range out of the stretches that are `wanted`.
    fn take_out(&mut self, range: TimeRange, wanted: impl Fn(&StaleStretch) -> bool) {
        let first = self.stale.partition_point(|stretch| stretch.range.to <= range.from);
        let last = self.stale.partition_point(|stretch| stretch.range.from < range.to);
        if first >= last {
            return;
        }
        let mut left = Vec::new();
        for stretch in &self.stale[first..last] {
            if !wanted(stretch) {
                left.push(*stretch);
                continue;
            }
            let before = TimeRange::new(stretch.range.from, range.from);
            let after = TimeRange::new(range.to, stretch.range.to);
            let rest = [before, after].into_iter().filter(|rest| !rest.is_empty());
            left.extend(rest.map(|range| StaleStretch { range, ..*stretch }));
        }
        self.stale.splice(first..last, left);
    }

    /// Stretches: count, for each its range and position; frozen ranges.
    pub(crate) fn encode(&self, out: &mut Encoder) {
        out.len(self.stale.len());
        for stretch in &self.stale {
            encode_range(out, stretch.range);
            out.u64(stretch.position);
        }
        encode_ranges(out, &self.frozen);
    }

    /// Reads what [`Self::encode`] wrote.
    pub(crate) fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let stale = (0..input.count(24)?)
            .map(|_| Ok(StaleStretch { range: decode_range(input)?, position: input.u64()? }))
            .collect::<Result<Vec<_>, Malformed>>()?;
        let frozen = decode_ranges(input)?;
        let apart = |a: &TimeRange, b: &TimeRange| a.to <= b.from;
        let sound = stale.iter().all(|stretch| !stretch.range.is_empty())
            && frozen.iter().all(|range| !range.is_empty())
            && stale.windows(2).all(|pair| apart(&pair[0].range, &pair[1].range))
            && frozen.windows(2).all(|pair| apart(&pair[0], &pair[1]));
        if sound {
            Ok(Self { stale, frozen })
        } else {
            Err("stretches of a view that are not apart".to_string())
        }
    }
}

/// The stretches of a view that rows of these times, ascending, mark: apart, ascending.
pub(crate) fn marked_by_times(view: &MaterializedView, times: &[i64]) -> Vec<TimeRange> {
    let mut marked: Vec<TimeRange> = Vec::new();
    let mut left = times;
    while let Some(first) = left.first() {
        let range = view.marked_by(TimeRange::new(*first, first.saturating_add(1)));
        match marked.last_mut() {
            Some(last) if last.to == range.from => last.to = range.to,
            _ => marked.push(range),
        }
        left = &left[left.partition_point(|time| *time < range.to).max(1)..];
    }
    marked
}

#[cfg(test)]
mod tests;
