//! The rows a selection leaves of a table, found once a statement.

use std::sync::Arc;
use tickstone_engine::{Result, Segment, Selection, TableSnapshot};
use tickstone_model::TimeRange;

/// Rows of a snapshot: the table, what was asked, and the exact row ranges that answer it.
#[derive(Debug)]
pub struct Selected {
    /// The table.
    pub table: Arc<TableSnapshot>,
    /// What was asked of it.
    pub selection: Selection,
    /// The row ranges, partition by partition in time, within one in order of arrival.
    pub segments: Arc<[Segment]>,
    /// Rows in all of them.
    pub rows: u64,
}

impl Selected {
    /// Selects rows.
    ///
    /// # Errors
    /// Those of the engine where it cannot read the table's files.
    pub fn new(table: &Arc<TableSnapshot>, selection: Selection) -> Result<Self> {
        let segments: Arc<[Segment]> = table.select(&selection)?.into();
        let rows = segments.iter().map(|segment| segment.row_count() as u64).sum();
        Ok(Self { table: Arc::clone(table), selection, segments, rows })
    }

    /// No rows, for a selection that excludes all without a look at them.
    pub fn nothing(table: &Arc<TableSnapshot>, selection: Selection) -> Self {
        Self { table: Arc::clone(table), selection, segments: Arc::new([]), rows: 0 }
    }

    /// Rows not known yet, for a plan that is kept.
    pub(crate) fn unknown(table: &Arc<TableSnapshot>) -> Self {
        Self::nothing(table, Selection::default())
    }

    /// Whether every row of the table is in it.
    pub fn is_everything(&self) -> bool {
        self.rows == self.table.rows()
    }

    /// Whether the selection leaves one series at most.
    pub fn is_one_series(&self) -> bool {
        let series = self.table.schema().series();
        series
            .iter()
            .all(|column| self.selection.series.iter().any(|(of, ids)| of == column && ids.len() <= 1))
    }

    /// Whether a segment's rows ascend in time as they lie: a run always, a slice of a part where
    /// all its rows are of one series.
    pub fn ascends(&self, segment: &Segment) -> bool {
        !segment.is_part() || segment.rows().len() <= 1 || self.is_one_series()
    }

    /// Bounds of a segment's designated timestamps, both inside; `None` without one.
    pub fn times(&self, segment: &Segment) -> Option<(i64, i64)> {
        let TimeRange { from, to } = self.selection.time;
        segment.times().map(|(first, last)| (first.max(from), last.min(to.saturating_sub(1))))
    }

    /// Bounds of the designated timestamps of all rows, both inside; `None` without one, or rows.
    pub(crate) fn bounds(&self) -> Option<(i64, i64)> {
        let times = self.segments.iter().map(|segment| self.times(segment));
        let wider = |a: (i64, i64), b: (i64, i64)| (a.0.min(b.0), a.1.max(b.1));
        times.collect::<Option<Vec<_>>>()?.into_iter().reduce(wider)
    }

    /// The least designated timestamp of the rows; `None` without one, or rows.
    ///
    /// Looks at the first row of each range that could have it, at no other.
    ///
    /// # Errors
    /// Those of the engine where it cannot read the table's files.
    pub(crate) fn first_time(&self) -> Result<Option<i64>> {
        let bound = |segment: &&Segment| self.times(segment).map_or(i64::MIN, |(first, _)| first);
        let mut segments: Vec<&Segment> =
            self.segments.iter().filter(|segment| segment.row_count() > 0).collect();
        segments.sort_by_key(bound);
        let mut least: Option<i64> = None;
        for segment in segments {
            if least.is_some_and(|least| least <= bound(&segment)) {
                break;
            }
            let mut times = segment.part_times();
            for rows in segment.rows().iter().filter(|rows| !rows.is_empty()) {
                let first = match &mut times {
                    Some(times) => Some(times.time(rows.start)?),
                    None => segment.run_time(rows.start),
                };
                least = least.into_iter().chain(first).min();
            }
        }
        Ok(least)
    }

    /// Whether all rows, as they lie, are in order of time with ties in order of arrival.
    pub fn is_time_ordered(&self) -> bool {
        let mut last = i64::MIN;
        self.table.schema().timestamp().is_some()
            && self.segments.iter().filter(|segment| segment.row_count() > 0).all(|segment| {
                let Some((first, end)) = self.times(segment) else { return false };
                let follows = last <= first && self.ascends(segment);
                last = end;
                follows
            })
    }
}
