//! The right rows of one series: which of them stands at a time, asked with times that ascend: the last before
//! it, the first after it, or the nearer of these.
//!
//! Rows come from several segments. Those that overlap in time form a stretch, and stretches follow each
//! other; in a stretch each segment's rows are a source with a place of its own, and of rows with equal times
//! that of the later segment stands. The times of a part are looked at a block at a time, those passed over
//! are not: by the blocks' statistics a place far away is found as if it were near.

use crate::dialect::marker::Direction;
use crate::error::external;
use crate::operators::asof::node::AsOfOptions;
use crate::scan::{Rows, listed_bounds};
use datafusion::common::{Result, internal_datafusion_err, internal_err};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use tickstone_engine::{PartTimes, Segment, gallop};

/// Rows within which the next edge is sought first.
pub(in crate::operators) const NEAR: usize = 8;
/// Most blocks of times that are held decoded at once, one a segment.
const OPEN_MAX: usize = 512;

/// A place among right rows: after those before a time, before the others. Looking back the last before it
/// stands, looking forward the first past it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edge {
    /// `None`: all.
    before: Option<i64>,
}

impl Edge {
    /// The edge for a left row at `time`.
    fn of(time: i64, options: AsOfOptions) -> Self {
        let equal_is_before = match options.direction {
            Direction::Backward => !options.strict,
            Direction::Forward => options.strict,
            Direction::Nearest => true,
        };
        Self { before: if equal_is_before { time.checked_add(1) } else { Some(time) } }
    }

    fn is_after(self, time: i64) -> bool {
        self.before.is_none_or(|before| time < before)
    }
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
            (Some(_), rows) if self.of.is_part() => place_of(rows, self.next, looks.at(self)?, edge)?,
            (Some(_), Rows::Range(_)) => return internal_err!("adjacent rows of a run"),
            (Some(before), Rows::Listed(rows)) => {
                let is_before =
                    |at: usize| self.of.run_time(rows[at] as usize).is_some_and(|time| time < before);
                gallop(self.next..rows.len(), NEAR, is_before)
            }
        };
        Ok(())
    }

    /// The last row before the edge.
    fn last(&self) -> Option<Found> {
        let at = self.next.checked_sub(1)?;
        Some(Found { segment: self.segment, row: self.rows.row(at) })
    }

    /// The first row past the edge.
    fn first(&self) -> Option<Found> {
        (self.next < self.rows.len()).then(|| Found { segment: self.segment, row: self.rows.row(self.next) })
    }

    fn time(&self, row: usize, looks: &mut Looks<'a>) -> Result<i64> {
        if !self.of.is_part() {
            let time = self.of.run_time(row);
            return time.ok_or_else(|| internal_datafusion_err!("a run without times"));
        }
        looks.at(self)?.time(row).map_err(external)
    }
}

/// The place of the first of a part's rows, from that at `next` on, at or past the edge.
#[inline]
fn place_of(rows: &Rows, next: usize, times: &mut PartTimes<'_>, edge: Edge) -> Result<usize> {
    match rows {
        Rows::Range(rows) => Ok(lower_bound(times, rows.start + next..rows.end, edge)? - rows.start),
        // Rows of the series that are not listed are in order of time too.
        Rows::Listed(rows) => {
            let first = lower_bound(times, listed_bounds(&rows[next..]), edge)?;
            Ok(gallop(next..rows.len(), NEAR, |at| (rows[at] as usize) < first))
        }
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

    /// Finds the row that stands for each of the left rows at `times`: one of the neighbours' where it is none of
    /// these.
    fn find_each(
        &mut self,
        times: &[i64],
        options: AsOfOptions,
        mut around: Around<'_, 'a>,
        looks: &mut Looks<'a>,
        mut found: impl FnMut(usize, Found),
    ) -> Result<()> {
        let timed = self.is_timed(options);
        for (place, time) in times.iter().enumerate() {
            self.advance(Edge::of(*time, options), looks)?;
            let back = match options.direction {
                Direction::Forward => None,
                _ => match self.last(timed, looks)? {
                    Some(row) => Some(row),
                    None => around.last_before(options, looks)?,
                },
            };
            let ahead = match options.direction {
                Direction::Backward => None,
                _ => match self.first(timed, looks)? {
                    Some(row) => Some(row),
                    None => around.first_after(options, looks)?,
                },
            };
            let row = nearer(*time, back, ahead);
            if let Some((_, row)) = row.filter(|(at, _)| options.tolerates(*time, *at)) {
                found(place, row);
            }
        }
        Ok(())
    }

    /// [`Self::find_each`] looking both ways, where there is one source, in a part.
    fn find_each_near(
        &mut self,
        times: &[i64],
        options: AsOfOptions,
        mut around: Around<'_, 'a>,
        looks: &mut Looks<'a>,
        mut found: impl FnMut(usize, Found),
    ) -> Result<()> {
        let [source] = &mut self.sources[..] else { return Ok(()) };
        let (segment, rows) = (source.segment, source.rows.clone());
        let mut open = looks.at(source)?;
        let (mut next, mut neighbours) = (source.next, None);
        for (place, time) in times.iter().enumerate() {
            next = place_of(&rows, next, open, Edge::of(*time, options))?;
            let (back, ahead) = match neighbours {
                Some((of, back, ahead)) if of == next => (back, ahead),
                _ => {
                    let back = if next > 0 {
                        let row = rows.row(next - 1);
                        Some((open.time(row).map_err(external)?, Found { segment, row }))
                    } else {
                        let row = around.last_before(options, looks)?;
                        open = looks.at(source)?;
                        row
                    };
                    let ahead = if next < rows.len() {
                        let row = rows.row(next);
                        Some((open.time(row).map_err(external)?, Found { segment, row }))
                    } else {
                        let row = around.first_after(options, looks)?;
                        open = looks.at(source)?;
                        row
                    };
                    neighbours = Some((next, back, ahead));
                    (back, ahead)
                }
            };
            if let Some((_, row)) = nearer(*time, back, ahead).filter(|(at, _)| options.tolerates(*time, *at))
            {
                found(place, row);
            }
        }
        source.next = next;
        Ok(())
    }

    /// [`Self::find_each`] looking back, where there is one source, in a part, and the time of the row does not
    /// matter.
    fn find_each_back(
        &mut self,
        times: &[i64],
        options: AsOfOptions,
        mut around: Around<'_, 'a>,
        looks: &mut Looks<'a>,
        mut found: impl FnMut(usize, Found),
    ) -> Result<()> {
        let [source] = &mut self.sources[..] else { return Ok(()) };
        let (segment, rows) = (source.segment, source.rows.clone());
        let mut next = source.next;
        let mut places = times.iter().map(|time| Edge::of(*time, options)).enumerate();
        // Until the first row of this stretch stands.
        while next == 0
            && let Some((place, edge)) = places.next()
        {
            next = place_of(&rows, next, looks.at(source)?, edge)?;
            if next > 0 {
                found(place, Found { segment, row: rows.row(next - 1) });
            } else if let Some((_, row)) = around.last_before(options, looks)? {
                found(place, row);
            }
        }
        let looks = looks.at(source)?;
        for (place, edge) in places {
            next = place_of(&rows, next, looks, edge)?;
            found(place, Found { segment, row: rows.row(next - 1) });
        }
        source.next = next;
        Ok(())
    }

    /// [`Self::find_each_back`], looking forward.
    fn find_each_ahead(
        &mut self,
        times: &[i64],
        options: AsOfOptions,
        mut around: Around<'_, 'a>,
        looks: &mut Looks<'a>,
        mut found: impl FnMut(usize, Found),
    ) -> Result<()> {
        let [source] = &mut self.sources[..] else { return Ok(()) };
        let (segment, rows) = (source.segment, source.rows.clone());
        let mut next = source.next;
        let mut within = 0;
        let open = looks.at(source)?;
        for (place, time) in times.iter().enumerate() {
            next = place_of(&rows, next, open, Edge::of(*time, options))?;
            if next == rows.len() {
                break;
            }
            found(place, Found { segment, row: rows.row(next) });
            within = place + 1;
        }
        source.next = next;
        // The last row of this stretch lies behind all others.
        if within < times.len()
            && let Some((_, row)) = around.first_after(options, looks)?
        {
            (within..times.len()).for_each(|place| found(place, row));
        }
        Ok(())
    }

    /// Whether the rows' times matter, not only their order.
    fn is_timed(&self, options: AsOfOptions) -> bool {
        self.sources.len() > 1 || options.tolerance.is_some() || options.direction == Direction::Nearest
    }

    /// Whether its rows are of one segment, a part.
    fn is_alone(&self) -> bool {
        matches!(&self.sources[..], [source] if source.of.is_part())
    }

    fn advance(&mut self, edge: Edge, looks: &mut Looks<'a>) -> Result<()> {
        self.sources.iter_mut().try_for_each(|source| source.advance(edge, looks))
    }

    /// The last row before the edge, of equal times the last to arrive, and its time where that matters.
    fn last(&self, timed: bool, looks: &mut Looks<'a>) -> Result<Option<(i64, Found)>> {
        let mut best: Option<(i64, Found)> = None;
        for source in &self.sources {
            let Some(row) = source.last() else { continue };
            let time = if timed { source.time(row.row, looks)? } else { i64::MAX };
            if best.is_none_or(|(newest, _)| time >= newest) {
                best = Some((time, row));
            }
        }
        Ok(best)
    }

    /// The first row past the edge, of equal times the first to arrive, and its time where that matters.
    fn first(&self, timed: bool, looks: &mut Looks<'a>) -> Result<Option<(i64, Found)>> {
        let mut best: Option<(i64, Found)> = None;
        for source in &self.sources {
            let Some(row) = source.first() else { continue };
            let time = if timed { source.time(row.row, looks)? } else { i64::MIN };
            if best.is_none_or(|(oldest, _)| time < oldest) {
                best = Some((time, row));
            }
        }
        Ok(best)
    }
}

/// The nearer in time of the rows before and after `time`; of equally near ones that before.
#[inline]
fn nearer(time: i64, back: Option<(i64, Found)>, ahead: Option<(i64, Found)>) -> Option<(i64, Found)> {
    match (back, ahead) {
        (Some(back), Some(ahead)) if time.abs_diff(ahead.0) < time.abs_diff(back.0) => Some(ahead),
        (back, ahead) => back.or(ahead),
    }
}

/// The stretches before and after the one at hand: their nearest rows stand where none of its own does.
struct Around<'s, 'a> {
    before: Option<&'s mut Stretch<'a>>,
    after: Option<&'s mut Stretch<'a>>,
    /// Their rows, once they were asked for.
    last_before: Option<(i64, Found)>,
    first_after: Option<(i64, Found)>,
}

impl<'a> Around<'_, 'a> {
    fn last_before(&mut self, options: AsOfOptions, looks: &mut Looks<'a>) -> Result<Option<(i64, Found)>> {
        if let (Some(stretch), None) = (&mut self.before, self.last_before) {
            stretch.advance(Edge { before: None }, looks)?;
            self.last_before = stretch.last(stretch.is_timed(options), looks)?;
        }
        Ok(self.last_before)
    }

    fn first_after(&mut self, options: AsOfOptions, looks: &mut Looks<'a>) -> Result<Option<(i64, Found)>> {
        if let (Some(stretch), None) = (&mut self.after, self.first_after) {
            stretch.rewind();
            self.first_after = stretch.first(stretch.is_timed(options), looks)?;
        }
        Ok(self.first_after)
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
        options: AsOfOptions,
        looks: &mut Looks<'a>,
        mut found: impl FnMut(usize, Found),
    ) -> Result<()> {
        let edge = |time: &i64| Edge::of(*time, options);
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
            let Some((stretch, rest)) = rest.split_first_mut() else { return Ok(()) };
            let (before, after) = (past.last_mut(), rest.first_mut());
            let around = Around { before, after, last_before: None, first_after: None };
            let found = |place, row| found(at + place, row);
            let times = &times[at..end];
            let plain = stretch.is_alone() && options.tolerance.is_none();
            match options.direction {
                Direction::Nearest if stretch.is_alone() => {
                    stretch.find_each_near(times, options, around, looks, found)?
                }
                Direction::Backward if plain => {
                    stretch.find_each_back(times, options, around, looks, found)?
                }
                Direction::Forward if plain => {
                    stretch.find_each_ahead(times, options, around, looks, found)?
                }
                _ => stretch.find_each(times, options, around, looks, found)?,
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
