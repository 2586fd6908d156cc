//! The rows a scan selects, read by ranges of one series instead of batch by batch: what range reduction
//! works on.

use super::columns::{Columns, Left};
use super::condition::Test;
use super::exec::{ScanExec, ScanOrder};
use super::natural::BLOCK_ROWS;
use super::selected::Selected;
use crate::error::{external, from_arrow};
use datafusion::arrow::array::{
    ArrayRef, AsArray, DictionaryArray, RecordBatch, StringArray, TimestampNanosecondArray, UInt32Array,
};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::datatypes::{Schema, SchemaRef, TimestampNanosecondType};
use datafusion::common::Result;
use datafusion::physical_plan::metrics::Count;
use std::ops::Range;
use std::sync::Arc;
use tickstone_engine::Segment;
use tickstone_engine::part::ColumnStats;
use tickstone_model::NULL_SYMBOL;

/// Rows that one worker takes at once: enough that taking is cheap, few enough that all have work.
const UNIT_ROWS: usize = 64 * BLOCK_ROWS;

/// Some of the rows of one segment.
#[derive(Debug, Clone)]
pub(crate) struct Unit {
    /// Which segment.
    pub(crate) segment: usize,
    /// Ranges of it, by place and with the rows of it that are meant, ascending.
    pub(crate) ranges: Vec<(usize, Range<usize>)>,
}

/// Reads what a scan selects.
#[derive(Debug)]
pub(crate) struct RangeReader {
    selected: Arc<Selected>,
    /// What is read of parts, and of runs.
    narrow: Columns,
    wide: Columns,
    schema: SchemaRef,
    /// What rows must fulfil.
    test: Option<Test>,
    progress: Count,
}

impl RangeReader {
    /// A reader of the columns at these places among those that the scan yields, of parts only the first
    /// `narrow` of them; `None` where rows are wanted in another order than they lie, or not all of them.
    ///
    /// # Errors
    /// Where the condition of the scan cannot be worked out.
    pub(crate) fn new(scan: &ScanExec, places: &[usize], narrow: usize) -> Result<Option<Self>> {
        if *scan.order() != ScanOrder::Natural || scan.fetch_limit().is_some() || scan.filters().is_some() {
            return Ok(None);
        }
        let row_schema = scan.row_schema();
        let fields: Vec<_> = places.iter().map(|place| Arc::clone(&row_schema.fields()[*place])).collect();
        let projection: Vec<usize> = places.iter().map(|place| scan.projection()[*place]).collect();
        let selected = Arc::clone(scan.selected());
        let of_parts = Arc::new(Schema::new(fields[..narrow].to_vec()));
        let schema = Arc::new(Schema::new(fields));
        let bytes = scan.bytes_read();
        let narrow = Columns::new(&selected.table, of_parts, &projection[..narrow], bytes.clone());
        let wide = Columns::new(&selected.table, Arc::clone(&schema), &projection, bytes);
        let (test, progress) = (scan.test()?, scan.begin_reading());
        Ok(Some(Self { selected, narrow, wide, schema, test, progress }))
    }

    /// Whether only values say which rows there are.
    pub(crate) fn has_condition(&self) -> bool {
        self.test.is_some()
    }

    /// All columns.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// All rows, in units of about the same size.
    pub(crate) fn units(&self) -> Vec<Unit> {
        let mut units: Vec<Unit> = Vec::new();
        for (segment, of) in self.selected.segments.iter().enumerate() {
            let mut left = 0;
            for (place, rows) in of.rows().iter().enumerate() {
                let mut start = rows.start;
                while start < rows.end {
                    if left == 0 {
                        units.push(Unit { segment, ranges: Vec::new() });
                        left = UNIT_ROWS;
                    }
                    // Cut where blocks end, so that none is decoded twice.
                    let cut = (start + left).next_multiple_of(BLOCK_ROWS);
                    let end = if rows.end - start <= left { rows.end } else { rows.end.min(cut) };
                    if let Some(unit) = units.last_mut() {
                        unit.ranges.push((place, start..end));
                    }
                    left = left.saturating_sub(end - start);
                    start = end;
                }
            }
        }
        units
    }

    /// Bounds of the times of all rows, both inside; `None` without a designated timestamp, or rows.
    pub(crate) fn bounds(&self) -> Option<(i64, i64)> {
        self.selected.bounds()
    }

    /// A segment.
    pub(crate) fn segment(&self, segment: usize) -> &Segment {
        &self.selected.segments[segment]
    }

    /// The symbols of a column of the series key, one for each of these ranges of a part's segment.
    pub(crate) fn series(&self, unit: &Unit, column: usize) -> Result<ArrayRef> {
        let table = &self.selected.table;
        let key = table.schema().series().iter().position(|series| *series == column).unwrap_or(0);
        let segment = self.segment(unit.segment);
        let id = |place: usize| segment.series_id(place, key).filter(|id| *id != NULL_SYMBOL);
        let ids: UInt32Array = unit.ranges.iter().map(|(place, _)| id(*place)).collect();
        let symbols = table.dictionary(column).map(|dictionary| dictionary.values());
        let symbols = symbols.unwrap_or_else(|| Arc::new(StringArray::new_null(0)));
        Ok(Arc::new(DictionaryArray::try_new(ids, symbols).map_err(from_arrow)?))
    }

    /// Rows of a part's segment, several ranges one after the other.
    pub(crate) fn read(&self, segment: usize, ranges: &[Range<usize>]) -> Result<RecordBatch> {
        Self::read_columns(&self.narrow, self.segment(segment), ranges)
    }

    /// Those rows of a part's segment that fulfil the scan's condition, and which they are; `None` of all.
    pub(crate) fn read_tested(
        &self,
        segment: usize,
        ranges: Vec<Range<usize>>,
    ) -> Result<(RecordBatch, Option<BooleanBuffer>)> {
        self.tested(&self.narrow, segment, ranges)
    }

    /// All columns of rows of a segment, of those that fulfil the scan's condition.
    pub(crate) fn read_wide(&self, segment: usize, rows: Range<usize>) -> Result<RecordBatch> {
        Ok(self.tested(&self.wide, segment, vec![rows])?.0)
    }

    fn tested(
        &self,
        columns: &Columns,
        segment: usize,
        ranges: Vec<Range<usize>>,
    ) -> Result<(RecordBatch, Option<BooleanBuffer>)> {
        let of = self.segment(segment);
        let Some(test) = &self.test else { return Ok((Self::read_columns(columns, of, &ranges)?, None)) };
        let bits = test.rows(of, &ranges)?;
        let left = Left::new(segment, ranges, bits);
        let stored = columns.read_left(&self.selected.segments, std::slice::from_ref(&left))?;
        Ok((columns.batch(stored, left.rows())?, Some(left.bits)))
    }

    fn read_columns(columns: &Columns, of: &Segment, ranges: &[Range<usize>]) -> Result<RecordBatch> {
        let rows = ranges.iter().map(ExactSizeIterator::len).sum();
        columns.batch(columns.read_ranges(of, ranges)?, rows)
    }

    /// Count and sum of the values of rows of a part's segment, read as they are packed; with `range` the least and the
    /// largest, too. `None` for a run.
    pub(crate) fn reduce(
        &self,
        segment: usize,
        column: usize,
        rows: &Range<usize>,
        range: bool,
    ) -> Result<Option<ColumnStats>> {
        let of = self.segment(segment);
        let width =
            self.selected.table.schema().columns()[column].column_type.stored_type().primitive_width();
        self.narrow.count_bytes(rows.len() * width.unwrap_or(0));
        let ranges = std::slice::from_ref(rows);
        if range { of.reduce(column, ranges) } else { of.sum(column, ranges) }.map_err(external)
    }

    /// The designated timestamps of rows of a segment, `None` where the table has none.
    pub(crate) fn times(
        &self,
        segment: usize,
        rows: Range<usize>,
    ) -> Result<Option<TimestampNanosecondArray>> {
        let Some(column) = self.selected.table.schema().timestamp() else { return Ok(None) };
        let times = self.segment(segment).read(column, rows).map_err(external)?;
        Ok(times.as_primitive_opt::<TimestampNanosecondType>().cloned())
    }

    /// Notes that so many rows are done with, read or not.
    pub(crate) fn done(&self, rows: usize) {
        self.progress.add(rows);
    }
}
