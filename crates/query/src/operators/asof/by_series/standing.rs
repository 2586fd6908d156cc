//! The right rows of one series: which of them stands at a time, asked with times that ascend.
//!
//! Rows come from several segments. Those that overlap in time form a stretch, and stretches follow each
//! other; in a stretch each segment's rows are a source with a place of its own, and of rows with equal times
//! that of the later segment stands.

use crate::error::external;
use crate::scan::Rows;
use datafusion::common::{Result, internal_datafusion_err};
use tickstone_engine::{PartTimes, Segment};

/// How far in time right rows stand: those before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edge {
    /// `None`: all.
    before: Option<i64>,
}

impl Edge {
    /// The edge for a left row at `time`.
    pub(super) fn of(time: i64, strict: bool) -> Self {
        Self { before: if strict { Some(time) } else { time.checked_add(1) } }
    }

    fn is_after(self, time: i64) -> bool {
        self.before.is_none_or(|before| time < before)
    }
}

/// A right row that stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) time: i64,
    pub(super) segment: usize,
    pub(super) row: usize,
}

/// Rows of one segment.
#[derive(Debug)]
pub(super) struct Source<'a> {
    pub(super) segment: usize,
    pub(super) rows: Rows<'a>,
    pub(super) times: Times<'a>,
    /// The place of the first row that does not stand yet.
    next: usize,
}

/// The times of a source.
#[derive(Debug)]
pub(super) enum Times<'a> {
    /// All of them.
    Known(&'a [i64]),
    /// Those of a part, looked at where they are needed; opened with the first look.
    Sought { of: &'a Segment, open: Option<PartTimes<'a>> },
}

impl<'a> Source<'a> {
    pub(super) fn new(segment: usize, rows: Rows<'a>, times: Times<'a>) -> Self {
        Self { segment, rows, times, next: 0 }
    }

    /// Goes on to the first row at or past the edge.
    fn advance(&mut self, edge: Edge) -> Result<()> {
        let Some(before) = edge.before else {
            self.next = self.rows.len();
            return Ok(());
        };
        self.next = match &mut self.times {
            Times::Known(times) => gallop(times, self.next, before),
            Times::Sought { of, open } => {
                let (first, end) = (self.rows.row(0), self.rows.row(0) + self.rows.len());
                let times = look(of, open)?;
                times.lower_bound(&(first + self.next..end), before).map_err(external)? - first
            }
        };
        Ok(())
    }

    /// The last row that stands.
    fn last(&mut self) -> Result<Option<Found>> {
        let Some(at) = self.next.checked_sub(1) else { return Ok(None) };
        let row = self.rows.row(at);
        let time = match &mut self.times {
            Times::Known(times) => times[at],
            Times::Sought { of, open } => look(of, open)?.time(row).map_err(external)?,
        };
        Ok(Some(Found { time, segment: self.segment, row }))
    }
}

fn look<'s, 'a>(of: &'a Segment, open: &'s mut Option<PartTimes<'a>>) -> Result<&'s mut PartTimes<'a>> {
    if open.is_none() {
        *open = of.part_times();
    }
    open.as_mut().ok_or_else(|| internal_datafusion_err!("a part without designated timestamps"))
}

/// The first place from `start` on whose time is not before `before`: most often it is near.
fn gallop(times: &[i64], start: usize, before: i64) -> usize {
    let (mut start, mut step) = (start, 8);
    while start + step < times.len() && times[start + step - 1] < before {
        start += step;
        step *= 2;
    }
    let end = times.len().min(start + step);
    start + times[start..end].partition_point(|time| *time < before)
}

/// Sources that overlap in time.
#[derive(Debug)]
pub(super) struct Stretch<'a> {
    /// No row is before it.
    pub(super) first: i64,
    /// In order of arrival.
    pub(super) sources: Vec<Source<'a>>,
}

impl Stretch<'_> {
    fn rewind(&mut self) {
        self.sources.iter_mut().for_each(|source| source.next = 0);
    }

    /// The row that stands at the edge, of this stretch.
    fn find(&mut self, edge: Edge) -> Result<Option<Found>> {
        let mut best: Option<Found> = None;
        for source in &mut self.sources {
            source.advance(edge)?;
            let found = source.last()?;
            if found.is_some_and(|found| best.is_none_or(|best| found.time >= best.time)) {
                best = found;
            }
        }
        Ok(best)
    }
}

/// All right rows of one series that may stand for some left rows.
#[derive(Debug)]
pub(super) struct Standing<'a> {
    stretches: Vec<Stretch<'a>>,
    /// The last stretch that may begin before the edge.
    at: usize,
    /// The last row of the stretch before, once it was asked for.
    before: Option<Found>,
}

impl<'a> Standing<'a> {
    /// Over stretches in order of time.
    pub(super) fn new(stretches: Vec<Stretch<'a>>) -> Self {
        Self { stretches, at: 0, before: None }
    }

    /// Begins anew, for left rows from the edge on.
    pub(super) fn begin(&mut self, edge: Edge) {
        let begun = self.stretches.partition_point(|stretch| edge.is_after(stretch.first));
        self.enter(begun.saturating_sub(1));
    }

    fn enter(&mut self, at: usize) {
        self.at = at;
        self.before = None;
        if let Some(stretch) = self.stretches.get_mut(at) {
            stretch.rewind();
        }
    }

    /// The row that stands at the edge, which is none before that of the last call.
    pub(super) fn find(&mut self, edge: Edge) -> Result<Option<Found>> {
        while self.stretches.get(self.at + 1).is_some_and(|next| edge.is_after(next.first)) {
            self.close_before();
            self.enter(self.at + 1);
        }
        let Some(stretch) = self.stretches.get_mut(self.at) else { return Ok(None) };
        let found = stretch.find(edge)?;
        if found.is_some() || self.at == 0 {
            return Ok(found);
        }
        if self.before.is_none() {
            self.before = self.stretches[self.at - 1].find(Edge { before: None })?;
        }
        Ok(self.before)
    }

    /// Lets go of the blocks that the stretch before holds decoded.
    fn close_before(&mut self) {
        let Some(stretch) = self.at.checked_sub(1).and_then(|at| self.stretches.get_mut(at)) else { return };
        for source in &mut stretch.sources {
            if let Times::Sought { open, .. } = &mut source.times {
                *open = None;
            }
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
                assert_eq!(gallop(&times, start, before), expected.max(start));
            }
        }
        assert_eq!(gallop(&[], 0, 5), 0);
    }

    #[test]
    fn of_equal_times_the_later_source_stands() {
        let source = |segment, times| Source::new(segment, Rows::Range(0..3), Times::Known(times));
        let sources = vec![source(0, &[1, 4, 6]), source(1, &[2, 4, 5])];
        let last = vec![source(2, &[7, 8, 9])];
        let stretches = vec![Stretch { first: 1, sources }, Stretch { first: 7, sources: last }];
        let mut standing = Standing::new(stretches);
        let mut stands = |time, strict| {
            let edge = Edge::of(time, strict);
            standing.begin(edge);
            standing.find(edge).unwrap().map(|found| (found.segment, found.row))
        };
        assert_eq!(stands(0, false), None);
        assert_eq!(stands(1, true), None);
        assert_eq!(stands(1, false), Some((0, 0)));
        assert_eq!(stands(4, false), Some((1, 1)));
        assert_eq!(stands(4, true), Some((1, 0)));
        assert_eq!(stands(7, true), Some((0, 2)));
        assert_eq!(stands(i64::MAX, false), Some((2, 2)));
    }
}
