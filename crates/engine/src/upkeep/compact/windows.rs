//! Stretches of time over several parts, each with about a slice's rows: what is merged at once.
//!
//! Of all rows only their designated timestamps are read to find where stretches end, slice by slice in
//! order of time, so that memory is that of the slices that overlap.

use crate::Result;
use crate::store::snapshot::{PartFile, Segment, Selection, TableSnapshot};
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use std::sync::Arc;
use tickstone_model::TimeRange;

/// One slice of one of the parts.
#[derive(Debug)]
struct SlicePlace {
    /// Index among the parts.
    part: usize,
    slice: usize,
    rows: usize,
    /// Bounds of its times, both inside; whatever, where there are none.
    times: (i64, i64),
}

/// Cuts parts into stretches of time, earliest first.
#[derive(Debug)]
pub(super) struct Windows<'a> {
    table: &'a TableSnapshot,
    parts: &'a [(Arc<PartFile>, Arc<[u32]>)],
    /// By their first times; where there is no designated timestamp, by arrival.
    slices: Vec<SlicePlace>,
    /// Slices whose times were read, or that were given out, so far.
    read: usize,
    /// Times read that belong to a later stretch.
    pending: Vec<i64>,
    from: i64,
    window_rows: usize,
    done: bool,
}

impl<'a> Windows<'a> {
    /// Stretches of at most `slice_rows` rows, as far as instants allow, about equal; parts without the rows
    /// (ascending) that stand beside each.
    ///
    /// # Errors
    /// Where a part cannot be opened.
    pub(super) fn new(
        table: &'a TableSnapshot,
        parts: &'a [(Arc<PartFile>, Arc<[u32]>)],
        slice_rows: usize,
    ) -> Result<Self> {
        let mut slices = Vec::new();
        for (part, (of, _)) in parts.iter().enumerate() {
            slices.extend(of.open()?.slices().iter().enumerate().map(|(slice, found)| SlicePlace {
                part,
                slice,
                rows: found.rows.len(),
                times: found.times.unwrap_or((i64::MIN, i64::MAX)),
            }));
        }
        if table.schema().timestamp().is_some() {
            slices.sort_by_key(|slice| slice.times.0);
        }
        let rows: usize = slices.iter().map(|slice| slice.rows).sum();
        let slice_rows = slice_rows.max(1);
        let window_rows = rows.div_ceil(rows.div_ceil(slice_rows).max(1));
        let (pending, done) = (Vec::new(), rows == 0);
        Ok(Self { table, parts, slices, read: 0, pending, from: i64::MIN, window_rows, done })
    }

    /// The rows of the next stretch, by part and then as they lie there; `None` after the last.
    ///
    /// # Errors
    /// Where a part is damaged.
    pub(super) fn next(&mut self) -> Result<Option<Vec<Segment>>> {
        if self.done {
            return Ok(None);
        }
        if self.table.schema().timestamp().is_none() {
            return self.next_by_arrival().map(Some);
        }
        let to = self.end_of_window()?;
        let window = TimeRange::new(self.from, to);
        self.from = to;
        let mut places: Vec<&SlicePlace> = self
            .slices
            .iter()
            .filter(|slice| slice.times.0 < window.to && slice.times.1 >= window.from)
            .collect();
        places.sort_by_key(|slice| (slice.part, slice.slice));
        let mut segments = Vec::with_capacity(places.len());
        for place in places {
            segments.extend(self.segment(place, window)?);
        }
        Ok(Some(segments))
    }

    fn segment(&self, place: &SlicePlace, window: TimeRange) -> Result<Option<Segment>> {
        let (part, superseded) = &self.parts[place.part];
        self.table.select_slice(part, superseded, (0, place.slice), &Selection::default(), &window)
    }

    /// Whole slices in order of arrival, as many as fit.
    fn next_by_arrival(&mut self) -> Result<Vec<Segment>> {
        let (mut segments, mut rows) = (Vec::new(), 0);
        while let Some(place) = self.slices.get(self.read) {
            if rows > 0 && rows + place.rows > self.window_rows {
                break;
            }
            rows += place.rows;
            segments.extend(self.segment(place, TimeRange::ALL)?);
            self.read += 1;
        }
        self.done = self.read == self.slices.len();
        Ok(segments)
    }

    /// Where the stretch from `self.from` ends.
    fn end_of_window(&mut self) -> Result<i64> {
        loop {
            // Of times before this one all rows were read.
            let next = self.slices.get(self.read).map(|slice| slice.times.0);
            let known = match next {
                Some(next) => self.pending.iter().filter(|ts| **ts < next).count(),
                None => self.pending.len(),
            };
            if known > self.window_rows {
                let to = end_after(&mut self.pending, next, self.window_rows);
                self.pending.retain(|ts| *ts >= to);
                return Ok(to);
            }
            if next.is_none() {
                self.done = true;
                return Ok(i64::MAX);
            }
            self.read_next()?;
        }
    }

    fn read_next(&mut self) -> Result<()> {
        let Some(place) = self.slices.get(self.read) else { return Ok(()) };
        let column = self.table.schema().timestamp().unwrap_or_default();
        if let Some(segment) = self.segment(place, TimeRange::ALL)? {
            let times = segment.read_ranges(column, segment.rows())?;
            if let Some(times) = times.as_primitive_opt::<TimestampNanosecondType>() {
                self.pending.extend_from_slice(times.values());
            }
        }
        self.read += 1;
        Ok(())
    }
}

/// The instant before which at most `rows` of the times lie, all of them known (before `next`); where
/// that would be none, the one after the first instant.
fn end_after(times: &mut [i64], next: Option<i64>, rows: usize) -> i64 {
    let before_next = |ts: &i64| next.is_none_or(|next| *ts < next);
    let known = to_front(times, before_next);
    let known = &mut times[..known];
    let (earlier, instant, later) = known.select_nth_unstable(rows);
    let instant = *instant;
    if earlier.iter().any(|ts| *ts < instant) {
        return instant;
    }
    let after = later.iter().copied().filter(|ts| *ts > instant).min();
    after.or(next).unwrap_or(i64::MAX)
}

/// Brings the times that pass to the front; how many they are.
fn to_front(times: &mut [i64], passes: impl Fn(&i64) -> bool) -> usize {
    let mut kept = 0;
    for at in 0..times.len() {
        if passes(&times[at]) {
            times.swap(kept, at);
            kept += 1;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_ends_between_instants() {
        assert_eq!(end_after(&mut [5, 1, 9, 3, 7], None, 2), 5);
        assert_eq!(end_after(&mut [5, 1, 5, 5, 7], None, 2), 5);
        assert_eq!(end_after(&mut [5, 5, 5, 5, 7], None, 2), 7);
        assert_eq!(end_after(&mut [5, 5, 5, 9, 11], Some(9), 2), 9);
        assert_eq!(end_after(&mut [5, 5, 5], None, 2), i64::MAX);
    }
}
