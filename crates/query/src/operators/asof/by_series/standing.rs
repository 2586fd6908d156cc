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
#[inline]
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

    /// Finds the row that stands for each of the left rows at `times`: that of `before` where it is none of these.
    fn find_each(
        &mut self,
        times: &[i64],
        strict: bool,
        mut before: Before<'_, '_>,
        mut found: impl FnMut(usize, Found),
    ) -> Result<()> {
        if let [Source { segment, rows, times: Times::Known(known), next }] = &mut self.sources[..] {
            for (place, time) in times.iter().enumerate() {
                *next = Edge::of(*time, strict).before.map_or(known.len(), |edge| gallop(known, *next, edge));
                let last = next.checked_sub(1);
                let row = match last {
                    Some(at) => Some(Found { time: known[at], segment: *segment, row: rows.row(at) }),
                    None => before.row()?,
                };
                row.into_iter().for_each(|row| found(place, row));
            }
            return Ok(());
        }
        for (place, time) in times.iter().enumerate() {
            let row = match self.find(Edge::of(*time, strict))? {
                Some(row) => Some(row),
                None => before.row()?,
            };
            row.into_iter().for_each(|row| found(place, row));
        }
        Ok(())
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

/// The last row of the stretch before, which stands where none of the one at hand does yet.
struct Before<'s, 'a> {
    stretch: Option<&'s mut Stretch<'a>>,
    /// The row, once it was asked for.
    row: Option<Found>,
}

impl Before<'_, '_> {
    fn row(&mut self) -> Result<Option<Found>> {
        if let (Some(stretch), None) = (&mut self.stretch, self.row) {
            self.row = stretch.find(Edge { before: None })?;
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
        strict: bool,
        mut found: impl FnMut(usize, Found),
    ) -> Result<()> {
        let Some(first) = times.first() else { return Ok(()) };
        self.begin(Edge::of(*first, strict));
        let mut at = 0;
        while let Some(time) = times.get(at) {
            self.go_on(Edge::of(*time, strict));
            // So far no later stretch begins.
            let end = self.stretches.get(self.at + 1).map_or(times.len(), |next| {
                at + times[at..].partition_point(|time| !Edge::of(*time, strict).is_after(next.first))
            });
            let (past, rest) = self.stretches.split_at_mut(self.at);
            let Some(stretch) = rest.first_mut() else { return Ok(()) };
            let before = Before { stretch: past.last_mut(), row: None };
            stretch.find_each(&times[at..end], strict, before, |place, row| found(at + place, row))?;
            at = end;
        }
        Ok(())
    }

    /// Begins anew, for left rows from the edge on.
    fn begin(&mut self, edge: Edge) {
        let begun = self.stretches.partition_point(|stretch| edge.is_after(stretch.first));
        self.enter(begun.saturating_sub(1));
    }

    fn enter(&mut self, at: usize) {
        self.at = at;
        if let Some(stretch) = self.stretches.get_mut(at) {
            stretch.rewind();
        }
    }

    /// Goes on to the last stretch that may begin before the edge.
    fn go_on(&mut self, edge: Edge) {
        while self.stretches.get(self.at + 1).is_some_and(|next| edge.is_after(next.first)) {
            self.close_before();
            self.enter(self.at + 1);
        }
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
            let mut stands = None;
            standing
                .find_each(&[time], strict, |_, found| stands = Some((found.segment, found.row)))
                .unwrap();
            stands
        };
        assert_eq!(stands(0, false), None);
        assert_eq!(stands(1, true), None);
        assert_eq!(stands(1, false), Some((0, 0)));
        assert_eq!(stands(4, false), Some((1, 1)));
        assert_eq!(stands(4, true), Some((1, 0)));
        assert_eq!(stands(7, true), Some((0, 2)));
        assert_eq!(stands(i64::MAX, false), Some((2, 2)));
        let mut all = Vec::new();
        let times = [0, 1, 3, 4, 6, 6, 7, 20];
        standing.find_each(&times, false, |at, found| all.push((at, found.time))).unwrap();
        assert_eq!(all, [(1, 1), (2, 2), (3, 4), (4, 6), (5, 6), (6, 7), (7, 9)]);
    }
}
