//! From what a query asks to the exact rows that can answer it: partition by time, series index by
//! symbol, binary search on time, block statistics for other columns.

use super::view::PartView;
use super::{PartFile, Source, TableSnapshot};
use crate::Result;
use crate::part::{BLOCK_ROWS, BlockSummary, ColumnBound, ColumnPoints, ColumnStats, Part, PartTimes};
use crate::recent::Run;
use arrow_array::{Array, ArrayRef, UInt32Array, UInt64Array, make_array};
use arrow_buffer::BooleanBuffer;
use arrow_data::transform::MutableArrayData;
use std::ops::Range;
use std::sync::Arc;
use tickstone_model::{SymbolId, TimeRange};

/// What a query wants of a table; all conditions hold together.
#[derive(Debug, Clone)]
pub struct Selection {
    /// Rows whose designated timestamp lies inside; ignored for a table without one. [`TimeRange::ALL`] is
    /// every row.
    pub time: TimeRange,
    /// For series columns: the ids that match, ascending. A NULL symbol never matches.
    pub series: Vec<(usize, Vec<SymbolId>)>,
    /// Conditions on other columns, used only to pass over blocks that cannot match.
    pub bounds: Vec<ColumnBound>,
    /// Values looked up in other columns (`id = 7`, `id IN (7, 8)`), used only to pass over groups of blocks whose
    /// filters deny them; where a column has no filter, nothing is passed over.
    pub points: Vec<ColumnPoints>,
}

impl Default for Selection {
    fn default() -> Self {
        Self { time: TimeRange::ALL, series: Vec::new(), bounds: Vec::new(), points: Vec::new() }
    }
}

/// The rows of one slice of a part, or of one run, that a selection leaves.
///
/// Row numbers are the segment's own. Within one range of a part the series key is constant and time
/// ascends; a run is one sequence in order of time.
#[derive(Debug, Clone)]
pub struct Segment {
    partition: usize,
    rows: Vec<Range<usize>>,
    times: Option<(i64, i64)>,
    source: SegmentSource,
}

#[derive(Debug, Clone)]
enum SegmentSource {
    /// `entries` are the places in the slice's series index of the ranges of rows, one each.
    Part {
        part: PartView,
        slice: usize,
        entries: Vec<u32>,
    },
    Run {
        run: Arc<Run>,
        chosen: RunRows,
    },
}

/// Which rows of a run.
#[derive(Debug, Clone)]
enum RunRows {
    /// Row `n` of the segment is row `n` of the run.
    All,
    /// Row `n` of the segment is row `rows[n]` of the run.
    Listed(UInt32Array),
}

impl Segment {
    /// Index of its partition in [`TableSnapshot::partitions`].
    pub fn partition(&self) -> usize {
        self.partition
    }

    /// Whether it is in a sealed part.
    pub fn is_part(&self) -> bool {
        matches!(self.source, SegmentSource::Part { .. })
    }

    /// The part it is in, `None` for a run.
    pub(crate) fn part(&self) -> Option<&Part> {
        match &self.source {
            SegmentSource::Part { part, .. } => Some(part.part()),
            SegmentSource::Run { .. } => None,
        }
    }

    /// The rows, as ascending ranges.
    pub fn rows(&self) -> &[Range<usize>] {
        &self.rows
    }

    /// How many rows.
    pub fn row_count(&self) -> usize {
        self.rows.iter().map(ExactSizeIterator::len).sum()
    }

    /// Bounds of the designated timestamps, both inside; not always tight.
    pub fn times(&self) -> Option<(i64, i64)> {
        self.times
    }

    /// The id that a range (by its place in [`Self::rows`]) has in series column `key` (0 is the outermost),
    /// [`NULL_SYMBOL`] for NULL; `None` for a run, whose rows are of any series.
    pub fn series_id(&self, range: usize, key: usize) -> Option<SymbolId> {
        let SegmentSource::Part { part, slice, entries } = &self.source else { return None };
        let entry = *entries.get(range)?;
        Some(part.part().series(*slice).entry(entry as usize).id(key))
    }

    /// Looks at the designated timestamps of the segment without reading them all; `None` for a run, and
    /// where the table has none.
    pub fn part_times(&self) -> Option<PartTimes<'_>> {
        let SegmentSource::Part { part, slice, .. } = &self.source else { return None };
        part.part().times(*slice)
    }

    /// The designated timestamp of a row of a run; `None` for a part, and where the table has none.
    ///
    /// # Panics
    /// Where `row` is not the segment's.
    pub fn run_time(&self, row: usize) -> Option<i64> {
        let SegmentSource::Run { run, chosen } = &self.source else { return None };
        let row = match chosen {
            RunRows::All => row,
            RunRows::Listed(listed) => listed.value(row) as usize,
        };
        run.batch().times().map(|times| times[row])
    }

    /// The blocks that hold `rows` of a column, with what is known of all their rows; `None` for a run.
    ///
    /// # Errors
    /// Where the part is damaged.
    pub fn blocks(&self, column: usize, rows: Range<usize>) -> Result<Option<Vec<BlockSummary>>> {
        let SegmentSource::Part { part, .. } = &self.source else { return Ok(None) };
        part.blocks(column, rows).map(Some)
    }

    /// Those of a part's `rows` that are whole blocks of its columns, the empty range at their start where there are
    /// none; of a run none are.
    pub fn whole_blocks(&self, rows: Range<usize>) -> Range<usize> {
        let SegmentSource::Part { part, slice, .. } = &self.source else { return rows.start..rows.start };
        let slice = &part.part().slices()[*slice].rows;
        let up = |row: usize| slice.end.min(slice.start + (row - slice.start).next_multiple_of(BLOCK_ROWS));
        let (start, end) = (up(rows.start), rows.end - (rows.end - slice.start) % BLOCK_ROWS);
        let end = if rows.end == slice.end { rows.end } else { end };
        if start < end { start..end } else { rows.start..rows.start }
    }

    /// Count, sum, least and largest of the values of several ranges of rows (ascending, apart), read without being
    /// made into an array (see [`Part::reduce`]); `None` for a run, whose arrays are there already.
    ///
    /// # Errors
    /// Where the part is damaged, or the column's type has no range.
    pub fn reduce(&self, column: usize, ranges: &[Range<usize>]) -> Result<Option<ColumnStats>> {
        let SegmentSource::Part { part, .. } = &self.source else { return Ok(None) };
        part.reduce(column, ranges, false).map(Some)
    }

    /// As [`Self::reduce`], without the least and the largest, which takes less time.
    ///
    /// # Errors
    /// As [`Self::reduce`].
    pub fn sum(&self, column: usize, ranges: &[Range<usize>]) -> Result<Option<ColumnStats>> {
        let SegmentSource::Part { part, .. } = &self.source else { return Ok(None) };
        part.reduce(column, ranges, true).map(Some)
    }

    /// One bit for each of `rows`, set where the bound's column is within it (see [`Part::filter`]); `None` for a run.
    ///
    /// # Errors
    /// As [`Self::reduce`], also for a bound of another type.
    pub fn filter(&self, bound: &ColumnBound, rows: Range<usize>) -> Result<Option<BooleanBuffer>> {
        let SegmentSource::Part { part, .. } = &self.source else { return Ok(None) };
        part.filter(bound, rows).map(Some)
    }

    /// Values of a column in stored type.
    ///
    /// # Errors
    /// Where the part is damaged.
    ///
    /// # Panics
    /// Where `column` or `rows` are not the segment's.
    pub fn read(&self, column: usize, rows: Range<usize>) -> Result<ArrayRef> {
        self.read_ranges(column, std::slice::from_ref(&rows))
    }

    /// Values of a column in stored type, of several ranges of rows (ascending, apart), one after the other.
    ///
    /// # Errors
    /// Where the part is damaged.
    ///
    /// # Panics
    /// Where `column` or `ranges` are not the segment's.
    pub fn read_ranges(&self, column: usize, ranges: &[Range<usize>]) -> Result<ArrayRef> {
        match &self.source {
            SegmentSource::Part { part, .. } => part.read_ranges(column, ranges),
            SegmentSource::Run { run, chosen: RunRows::All } => {
                slices(&run.batch().columns()[column], ranges)
            }
            SegmentSource::Run { run, chosen: RunRows::Listed(listed) } => {
                let listed = slices(listed, ranges)?;
                Ok(arrow_select::take::take(&run.batch().columns()[column], &listed, None)?)
            }
        }
    }

    /// Values of a column in stored type, of single rows in any order.
    ///
    /// # Errors
    /// Where the part is damaged.
    ///
    /// # Panics
    /// Where `column` or `rows` are not the segment's.
    pub fn take(&self, column: usize, rows: &[usize]) -> Result<ArrayRef> {
        let (run, rows) = match &self.source {
            SegmentSource::Part { part, .. } => return part.take(column, rows),
            SegmentSource::Run { run, chosen: RunRows::All } => {
                (run, UInt64Array::from_iter_values(rows.iter().map(|row| *row as u64)))
            }
            SegmentSource::Run { run, chosen: RunRows::Listed(listed) } => {
                (run, UInt64Array::from_iter_values(rows.iter().map(|row| u64::from(listed.value(*row)))))
            }
        };
        Ok(arrow_select::take::take(&run.batch().columns()[column], &rows, None)?)
    }
}

/// Rows of an array, one range after the other: not copied where there is one only.
fn slices(array: &dyn Array, ranges: &[Range<usize>]) -> Result<ArrayRef> {
    if let [rows] = ranges {
        return Ok(array.slice(rows.start, rows.len()));
    }
    let data = array.to_data();
    let rows = ranges.iter().map(ExactSizeIterator::len).sum();
    let mut copy = MutableArrayData::new(vec![&data], false, rows);
    for rows in ranges {
        copy.try_extend(0, rows.start, rows.end)?;
    }
    Ok(make_array(copy.freeze()))
}

impl TableSnapshot {
    /// The rows a selection leaves: by partition, then in arrival order of parts and runs, then by
    /// slice. Exact by time and series; by other columns only whole blocks are left out.
    ///
    /// # Errors
    /// Where a part cannot be opened or is damaged.
    pub fn select(&self, selection: &Selection) -> Result<Vec<Segment>> {
        let mut segments = Vec::new();
        let wanted = if self.schema.timestamp().is_some() { selection.time } else { TimeRange::ALL };
        for (index, partition) in self.partitions.within(wanted) {
            for source in partition.sources.iter().filter(|source| overlaps(source.times(), &wanted)) {
                match source {
                    Source::Part(file) => {
                        let superseded = partition.superseded_of(file);
                        for slice in 0..file.open()?.slices().len() {
                            let place = (index, slice);
                            let found = self.select_slice(file, superseded, place, selection, &wanted)?;
                            segments.extend(found);
                        }
                    }
                    Source::Run(run) => segments.extend(self.select_run(run, index, selection, &wanted)),
                }
            }
        }
        Ok(segments)
    }

    /// What a selection leaves of one slice of a part without its superseded rows (ascending); `None` where
    /// that is nothing. The place is that of the partition, and of the slice in the part.
    ///
    /// # Errors
    /// Where the part is damaged.
    pub(crate) fn select_slice(
        &self,
        file: &PartFile,
        superseded: &[u32],
        (partition, index): (usize, usize),
        selection: &Selection,
        wanted: &TimeRange,
    ) -> Result<Option<Segment>> {
        let view = self.view(file)?;
        let part = view.part();
        let Some(slice) = part.slices().get(index).filter(|slice| overlaps(slice.times, wanted)) else {
            return Ok(None);
        };
        let looked_up = point_rows(&view, index, &selection.points)?;
        if looked_up.as_ref().is_some_and(Vec::is_empty) {
            return Ok(None);
        }
        let inside = slice.times.is_none_or(|(first, last)| wanted.contains(first) && wanted.contains(last));
        let (mut rows, mut entries) = (Vec::new(), Vec::new());
        let mut times = part.times(index).filter(|_| !inside);
        let is_plain = looked_up.is_none() && selection.bounds.is_empty() && superseded.is_empty();
        for (entry, held) in self.entries(part, index, selection) {
            let found = match &mut times {
                Some(times) => times.seek(held, *wanted)?,
                None => held,
            };
            if found.is_empty() {
                continue;
            }
            if is_plain {
                rows.push(found);
                entries.push(entry);
                continue;
            }
            let before = rows.len();
            let found = match &looked_up {
                None => vec![found],
                Some(kept) => common(&[found], kept),
            };
            if selection.bounds.is_empty() {
                rows.extend(found);
            } else {
                found.into_iter().for_each(|found| prune(&view, &selection.bounds, found, &mut rows));
            }
            if !superseded.is_empty() {
                let ranges: Vec<Range<usize>> = rows.drain(before..).collect();
                ranges.into_iter().for_each(|range| leave_out(range, superseded, &mut rows));
            }
            entries.resize(rows.len(), entry);
        }
        let source = SegmentSource::Part { part: view.clone(), slice: index, entries };
        let times = slice.times;
        Ok((!rows.is_empty()).then_some(Segment { partition, rows, times, source }))
    }

    /// The series of a slice that the selection names, by place in its index and with their rows, ascending.
    fn entries(&self, part: &Part, slice: usize, selection: &Selection) -> Vec<(u32, Range<usize>)> {
        let index = part.series(slice);
        let numbered = |entry: usize| (entry as u32, index.entry(entry).rows());
        if selection.series.is_empty() {
            return (0..index.len()).map(numbered).collect();
        }
        let series = self.schema.series();
        let first = selection.series.iter().find(|(column, _)| series.first() == Some(column));
        let candidates: Vec<usize> = match first {
            Some((_, ids)) => index.find_all(ids),
            None => (0..index.len()).collect(),
        };
        if first.is_some() && selection.series.len() == 1 {
            return candidates.into_iter().map(numbered).collect();
        }
        let matches = |entry: &usize| {
            selection.series.iter().all(|(column, ids)| {
                let key = series.iter().position(|other| other == column);
                key.is_none_or(|key| ids.binary_search(&index.entry(*entry).id(key)).is_ok())
            })
        };
        candidates.into_iter().filter(matches).map(numbered).collect()
    }

    fn select_run(
        &self,
        run: &Arc<Run>,
        partition: usize,
        selection: &Selection,
        wanted: &TimeRange,
    ) -> Option<Segment> {
        let times = run.batch().times();
        let in_time = match times {
            Some(times) if *wanted != TimeRange::ALL => {
                times.partition_point(|ts| *ts < wanted.from)..times.partition_point(|ts| *ts < wanted.to)
            }
            _ => 0..run.rows(),
        };
        let source = |chosen| SegmentSource::Run { run: Arc::clone(run), chosen };
        let (rows, source) = if selection.series.is_empty() {
            (in_time, source(RunRows::All))
        } else {
            let listed = self.rows_of_series(run, &selection.series, &in_time);
            (0..listed.len(), source(RunRows::Listed(UInt32Array::from(listed))))
        };
        let times = run.times();
        (!rows.is_empty()).then(|| Segment { partition, rows: vec![rows], times, source })
    }

    /// Rows of a run within `in_time` whose series columns have one of the ids each, ascending.
    fn rows_of_series(
        &self,
        run: &Run,
        series: &[(usize, Vec<SymbolId>)],
        in_time: &Range<usize>,
    ) -> Vec<u32> {
        let first = series.iter().find(|(column, _)| self.schema.series().first() == Some(column));
        let in_time = |row: &u32| in_time.contains(&(*row as usize));
        let mut rows: Vec<u32> = match first {
            Some((_, ids)) => {
                let lists = ids.iter().map(|id| run.rows_of_symbol(*id));
                lists.flat_map(|list| list.iter().copied().filter(in_time).collect::<Vec<_>>()).collect()
            }
            None => (0..u32::try_from(run.rows()).unwrap_or(u32::MAX)).filter(in_time).collect(),
        };
        for (column, ids) in series.iter().filter(|condition| first != Some(condition)) {
            let values = run.batch().symbols(*column);
            rows.retain(|row| {
                let row = *row as usize;
                let value = values.filter(|values| values.is_valid(row)).map(|values| values.value(row));
                value.is_some_and(|id| ids.binary_search(&id).is_ok())
            });
        }
        rows.sort_unstable();
        rows
    }
}

fn overlaps(times: Option<(i64, i64)>, wanted: &TimeRange) -> bool {
    times.is_none_or(|(first, last)| first < wanted.to && last >= wanted.from)
}

/// What of `rows` is not superseded (ascending), as ranges.
pub(crate) fn leave_out(rows: Range<usize>, superseded: &[u32], kept: &mut Vec<Range<usize>>) {
    let mut start = rows.start;
    let first = superseded.partition_point(|row| (*row as usize) < rows.start);
    for gone in superseded[first..].iter().map(|row| *row as usize).take_while(|row| *row < rows.end) {
        if start < gone {
            kept.push(start..gone);
        }
        start = gone + 1;
    }
    if start < rows.end {
        kept.push(start..rows.end);
    }
}

/// The rows of a slice that filters do not deny; `None` where no column that is looked up has one.
fn point_rows(part: &PartView, slice: usize, points: &[ColumnPoints]) -> Result<Option<Vec<Range<usize>>>> {
    let mut kept: Option<Vec<Range<usize>>> = None;
    for points in points {
        if let Some(found) = part.point_rows(slice, points)? {
            kept = Some(kept.map_or_else(|| found.clone(), |kept| common(&kept, &found)));
        }
    }
    Ok(kept)
}

/// Rows that are in both lists of ranges (each ascending, apart).
fn common(a: &[Range<usize>], b: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut both = Vec::new();
    for rows in a {
        let first = b.partition_point(|other| other.end <= rows.start);
        let others = b[first..].iter().take_while(|other| other.start < rows.end);
        both.extend(others.map(|other| rows.start.max(other.start)..rows.end.min(other.end)));
    }
    both
}

fn prune(part: &PartView, bounds: &[ColumnBound], rows: Range<usize>, kept: &mut Vec<Range<usize>>) {
    let mut left = vec![rows];
    for bound in bounds {
        left = left.into_iter().flat_map(|rows| part.prune(bound, rows)).collect();
    }
    kept.append(&mut left);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_both() {
        assert_eq!(
            common(&[0..5, 7..9, 20..30], &[3..8, 10..12, 25..26, 28..40]),
            [3..5, 7..8, 25..26, 28..30]
        );
        assert!(common(&[0..5, 7..9], &[]).is_empty());
    }

    #[test]
    fn slices_follow_each_other() {
        let array = UInt32Array::from(vec![Some(0), Some(1), None, Some(3), Some(4), Some(5)]);
        let taken = slices(&array, &[0..2, 2..2, 2..3, 5..6]).unwrap();
        assert_eq!(taken.as_ref(), &UInt32Array::from(vec![Some(0), Some(1), None, Some(5)]) as &dyn Array);
        assert_eq!(slices(&array, &[]).unwrap().len(), 0);
        assert_eq!(slices(&array, std::slice::from_ref(&(1..4))).unwrap().len(), 3);
    }
}
