//! The right rows of one series: which of them stands at a time, asked with times that ascend.
//!
//! Rows come from several segments. Those that overlap in time form a stretch, and stretches follow each
//! other; in a stretch each segment's rows are a source with a place of its own, and of rows with equal times
//! that of the later segment stands. The times of a part are looked at a block at a time, those passed over
//! are not: by the blocks' statistics a place far away is found as if it were near.

use crate::error::external;
use crate::scan::Rows;
use datafusion::common::{Result, internal_datafusion_err, internal_err};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use tickstone_engine::{PartTimes, Segment};

/// Most blocks of times that are held decoded at once, one a segment.
const OPEN_MAX: usize = 512;

/// How far in time right rows stand: those before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edge {
    /// `None`: all.
    before: Option<i64>,
}

impl Edge {
    /// The edge for a left row at `time`.
    fn of(time: i64, strict: bool) -> Self {
        Self { before: if strict { Some(time) } else { time.checked_add(1) } }
    }

    fn is_after(self, time: i64) -> bool {
        self.before.is_none_or(|before| time < before)
    }
}

/// Which right rows may stand for a left row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Whether they must be earlier, not equal.
    pub(super) strict: bool,
    /// How much earlier they may be.
    pub(super) tolerance: Option<i64>,
}

/// A right row that stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) segment: usize,
    pub(super) row: usize,
}

/// The times of parts as far as they are looked at, for all series of a task, since neighbours share blocks.
#[derive(Debug, Default)]
pub(super) struct Looks<'a> {
    open: HashMap<usize, PartTimes<'a>>,
    /// Rows decoded of what is open no more.
    closed: usize,
}

impl<'a> Looks<'a> {
    fn at(&mut self, source: &Source<'a>) -> Result<&mut PartTimes<'a>> {
        if self.open.len() >= OPEN_MAX && !self.open.contains_key(&source.segment) {
            self.closed = self.rows_decoded();
            self.open.clear();
        }
        match self.open.entry(source.segment) {
            Entry::Occupied(open) => Ok(open.into_mut()),
            Entry::Vacant(place) => match source.of.part_times() {
                Some(times) => Ok(place.insert(times)),
                None => internal_err!("a part without times"),
            },
        }
    }

    /// Rows of all blocks decoded.
    pub(super) fn rows_decoded(&self) -> usize {
        self.closed + self.open.values().map(PartTimes::rows_decoded).sum::<usize>()
    }
}

/// Rows of one segment.
#[derive(Debug)]
pub(super) struct Source<'a> {
    segment: usize,
    of: &'a Segment,
    rows: Rows,
    /// The place of the first row that does not stand yet.
    next: usize,
}

impl<'a> Source<'a> {
    /// The rows `rows` of the segment `of`, whose number is `segment`.
    pub(super) fn new(segment: usize, of: &'a Segment, rows: Rows) -> Self {
        Self { segment, of, rows, next: 0 }
    }

    /// Goes on to the first row at or past the edge.
    fn advance(&mut self, edge: Edge, looks: &mut Looks<'a>) -> Result<()> {
        self.next = match (edge.before, &self.rows) {
            (None, rows) => rows.len(),
            (Some(_), Rows::Range(rows)) => {
                lower_bound(looks.at(self)?, rows.start + self.next..rows.end, edge)? - rows.start
            }
            (Some(before), Rows::Listed(rows)) => {
                let is_before = |row: &u32| self.of.run_time(*row as usize).is_some_and(|time| time < before);
                gallop(rows, self.next, is_before)
            }
        };
        Ok(())
    }

    /// The row at the place before the next.
    fn last(&self) -> Option<Found> {
        let at = self.next.checked_sub(1)?;
        Some(Found { segment: self.segment, row: self.rows.row(at) })
    }

    fn time(&self, row: usize, looks: &mut Looks<'a>) -> Result<i64> {
        if !self.of.is_part() {
            let time = self.of.run_time(row);
            return time.ok_or_else(|| internal_datafusion_err!("a run without times"));
        }
        looks.at(self)?.time(row).map_err(external)
    }
}

/// The first of a part's rows at or past the edge.
#[inline]
fn lower_bound(times: &mut PartTimes<'_>, rows: Range<usize>, edge: Edge) -> Result<usize> {
    match edge.before {
        Some(before) => times.lower_bound(&rows, before).map_err(external),
        None => Ok(rows.end),
    }
}

/// The first place from `start` on where `is_before` does not hold: most often it is near.
fn gallop<T>(values: &[T], start: usize, is_before: impl Fn(&T) -> bool) -> usize {
    let (mut start, mut step) = (start, 8);
    while start + step < values.len() && is_before(&values[start + step - 1]) {
        start += step;
        step *= 2;
    }
    let end = values.len().min(start + step);
    start + values[start..end].partition_point(is_before)
}

/// Sources that overlap in time.
#[derive(Debug)]
pub(super) struct Stretch<'a> {
    /// No row is before it.
    first: i64,
    /// In order of arrival.
    sources: Vec<Source<'a>>,
}

impl<'a> Stretch<'a> {
    /// Of sources in order of arrival, none of which begins before `first`.
    pub(super) fn new(first: i64, sources: Vec<Source<'a>>) -> Self {
        Self { first, sources }
    }

    fn rewind(&mut self) {
        self.sources.iter_mut().for_each(|source| source.next = 0);
    }

    /// Finds the row that stands for each of the left rows at `times`: that of `before` where it is none of these.
    fn find_each(
        &mut self,
        times: &[i64],
        limits: Limits,
        mut before: Before<'_, 'a>,
        looks: &mut Looks<'a>,
        mut found: impl FnMut(usize, Found),
    ) -> Result<()> {
        for (place, time) in times.iter().enumerate() {
            let row = match self.find(Edge::of(*time, limits.strict), limits, looks)? {
                Some(row) => Some(row),
                None => before.row(limits, looks)?,
            };
            let fresh = |at: &i64| limits.tolerance.is_none_or(|most| time.saturating_sub(*at) <= most);
            if let Some((_, row)) = row.filter(|(at, _)| fresh(at)) {
                found(place, row);
            }
        }
        Ok(())
    }

    /// [`Self::find_each`] where there is one source, in a part, and the time of the row does not matter.
    fn find_each_alone(
        &mut self,
        times: &[i64],
        limits: Limits,
        mut before: Before<'_, 'a>,
        looks: &mut Looks<'a>,
        mut found: impl FnMut(usize, Found),
    ) -> Result<()> {
        let [source] = &mut self.sources[..] else { return Ok(()) };
        let Rows::Range(rows) = source.rows.clone() else { return Ok(()) };
        let mut next = rows.start + source.next;
        let mut places = times.iter().map(|time| Edge::of(*time, limits.strict)).enumerate();
        // Until the first row of this stretch stands.
        while next == rows.start
            && let Some((place, edge)) = places.next()
        {
            next = lower_bound(looks.at(source)?, next..rows.end, edge)?;
            if next > rows.start {
                found(place, Found { segment: source.segment, row: next - 1 });
            } else if let Some((_, row)) = before.row(limits, looks)? {
                found(place, row);
            }
        }
        let looks = looks.at(source)?;
        for (place, edge) in places {
            next = lower_bound(looks, next..rows.end, edge)?;
            found(place, Found { segment: source.segment, row: next - 1 });
        }
        source.next = next - rows.start;
        Ok(())
    }

    /// Whether [`Self::find_each_alone`] will do.
    fn is_alone(&self, limits: Limits) -> bool {
        let alone = matches!(&self.sources[..], [Source { rows: Rows::Range(_), .. }]);
        alone && limits.tolerance.is_none()
    }

    /// The row that stands at the edge, of this stretch, and its time where that matters.
    fn find(&mut self, edge: Edge, limits: Limits, looks: &mut Looks<'a>) -> Result<Option<(i64, Found)>> {
        let timed = self.sources.len() > 1 || limits.tolerance.is_some();
        let mut best: Option<(i64, Found)> = None;
        for source in &mut self.sources {
            source.advance(edge, looks)?;
            let Some(row) = source.last() else { continue };
            let time = if timed { source.time(row.row, looks)? } else { i64::MAX };
            if best.is_none_or(|(newest, _)| time >= newest) {
                best = Some((time, row));
            }
        }
        Ok(best)
    }
}

/// The last row of the stretch before, which stands where none of the one at hand does yet.
struct Before<'s, 'a> {
    stretch: Option<&'s mut Stretch<'a>>,
    /// The row, once it was asked for.
    row: Option<(i64, Found)>,
}

impl<'a> Before<'_, 'a> {
    fn row(&mut self, limits: Limits, looks: &mut Looks<'a>) -> Result<Option<(i64, Found)>> {
        if let (Some(stretch), None) = (&mut self.stretch, self.row) {
            self.row = stretch.find(Edge { before: None }, limits, looks)?;
        }
        Ok(self.row)
    }
}

/// All right rows of one series that may stand for some left rows.
#[derive(Debug)]
pub(super) struct Standing<'a> {
    stretches: Vec<Stretch<'a>>,
    /// The last stretch that may begin before the edge.
    at: usize,
}

impl<'a> Standing<'a> {
    /// Over stretches in order of time.
    pub(super) fn new(stretches: Vec<Stretch<'a>>) -> Self {
        Self { stretches, at: 0 }
    }

    /// Finds the row that stands for each of the left rows at `times`, which ascend; `found` is told the place
    /// of the left row.
    pub(super) fn find_each(
        &mut self,
        times: &[i64],
        limits: Limits,
        looks: &mut Looks<'a>,
        mut found: impl FnMut(usize, Found),
    ) -> Result<()> {
        let edge = |time: &i64| Edge::of(*time, limits.strict);
        let Some(first) = times.first() else { return Ok(()) };
        let begun = self.stretches.partition_point(|stretch| edge(first).is_after(stretch.first));
        self.enter(begun.saturating_sub(1));
        let mut at = 0;
        while let Some(time) = times.get(at) {
            while self.stretches.get(self.at + 1).is_some_and(|next| edge(time).is_after(next.first)) {
                self.enter(self.at + 1);
            }
            // So far no later stretch begins.
            let end = self.stretches.get(self.at + 1).map_or(times.len(), |next| {
                at + times[at..].partition_point(|time| !edge(time).is_after(next.first))
            });
            let (past, rest) = self.stretches.split_at_mut(self.at);
            let Some(stretch) = rest.first_mut() else { return Ok(()) };
            let before = Before { stretch: past.last_mut(), row: None };
            let found = |place, row| found(at + place, row);
            match stretch.is_alone(limits) {
                true => stretch.find_each_alone(&times[at..end], limits, before, looks, found)?,
                false => stretch.find_each(&times[at..end], limits, before, looks, found)?,
            }
            at = end;
        }
        Ok(())
    }

    fn enter(&mut self, at: usize) {
        self.at = at;
        if let Some(stretch) = self.stretches.get_mut(at) {
            stretch.rewind();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn galloping_finds_every_place() {
        let times: Vec<i64> = (0..100).map(|at| at / 3).collect();
        for start in 0..times.len() {
            for before in times[start]..40 {
                let expected = times.iter().position(|time| *time >= before).unwrap_or(times.len());
                assert_eq!(gallop(&times, start, |time| *time < before), expected.max(start));
            }
        }
        assert_eq!(gallop(&[], 0, |_: &i64| true), 0);
    }
}
