//! Stored columns to batches of edge types.

use super::condition::kept;
use crate::error::{external, from_arrow};
use arrow_select::concat::concat;
use datafusion::arrow::array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, RecordBatch, RecordBatchOptions, StringArray,
    UInt32Array, UInt64Array,
};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::{FilterBuilder, FilterPredicate};
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef, UInt32Type};
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::physical_plan::metrics::Count;
use std::ops::Range;
use std::sync::Arc;
use tickstone_engine::{Segment, TableSnapshot};
use tickstone_model::values_bytes;

/// What a value without a fixed size may take.
const VALUE_BYTES: usize = 32;

/// Bytes that a row of these columns takes, roughly.
pub(crate) fn row_bytes(schema: &Schema) -> usize {
    let width = |data_type: &DataType| data_type.primitive_width().unwrap_or(VALUE_BYTES);
    schema.fields().iter().map(|field| width(field.data_type())).sum()
}

/// A stretch of adjacent rows of one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// Index among the scan's segments.
    pub(super) segment: usize,
    /// Rows of it.
    pub(super) rows: Range<usize>,
}

/// The columns a scan yields, and how to make them.
#[derive(Debug)]
pub(super) struct Columns {
    schema: SchemaRef,
    columns: Vec<Column>,
    /// The index of the numbers of rows.
    numbers: usize,
    /// Counts the bytes of the values that leave.
    bytes: Count,
}

#[derive(Debug)]
struct Column {
    /// Index in the table; one past its columns are the numbers of rows.
    index: usize,
    /// The symbols by id, for a SYMBOL column.
    symbols: Option<Arc<StringArray>>,
}

impl Columns {
    /// The columns `projection` of `table`; `schema` is theirs. The bytes of their values are counted.
    pub(super) fn new(table: &TableSnapshot, schema: SchemaRef, projection: &[usize], bytes: Count) -> Self {
        let column = |&index: &usize| Column { index, symbols: table.dictionary(index).map(|d| d.values()) };
        let numbers = table.schema().columns().len();
        Self { schema, columns: projection.iter().map(column).collect(), numbers, bytes }
    }

    /// That of the batches.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Bytes of a row, roughly.
    pub(super) fn row_bytes(&self) -> usize {
        row_bytes(&self.schema)
    }

    /// The rows of all pieces, one after the other, in stored types.
    pub(super) fn read(&self, segments: &[Segment], pieces: &[Piece]) -> Result<Vec<ArrayRef>> {
        self.each(|column| match column == self.numbers {
            true => Ok(row_numbers(pieces.iter().map(|of| (of.segment, of.rows.clone())))),
            false => read_column(segments, pieces, column),
        })
    }

    /// Several ranges of rows of one segment, one after the other, in stored types.
    pub(super) fn read_ranges(&self, segment: &Segment, ranges: &[Range<usize>]) -> Result<Vec<ArrayRef>> {
        self.each(|column| segment.read_ranges(column, ranges).map_err(external))
    }

    /// The rows of several stretches of segments, of which some are left, in stored types.
    pub(super) fn read_left(&self, segments: &[Segment], left: &[Left]) -> Result<Vec<ArrayRef>> {
        self.each(|column| {
            let read = |of: &Left| match column == self.numbers {
                true => Ok(of.numbers()),
                false => of.read(segments, column),
            };
            let arrays = left.iter().map(read).collect::<Result<Vec<ArrayRef>>>()?;
            match arrays.as_slice() {
                [array] => Ok(Arc::clone(array)),
                _ => {
                    let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
                    concat(&arrays).map_err(from_arrow)
                }
            }
        })
    }

    fn each(&self, read: impl Fn(usize) -> Result<ArrayRef>) -> Result<Vec<ArrayRef>> {
        crate::wanted::look()?;
        self.indices().map(read).collect()
    }

    /// A batch of columns in stored types.
    pub(super) fn batch(&self, stored: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let columns = self.edge(stored)?;
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options).map_err(from_arrow)
    }

    /// Columns in stored types as the edge shows them.
    pub(super) fn edge(&self, stored: Vec<ArrayRef>) -> Result<Vec<ArrayRef>> {
        self.bytes.add(stored.iter().map(values_bytes).sum());
        let columns = self.columns.iter().zip(stored).map(|(column, array)| match &column.symbols {
            Some(symbols) => symbol_array(&array, symbols),
            None => Ok(array),
        });
        columns.collect()
    }

    /// Counts bytes of values that were read without leaving as columns.
    pub(super) fn count_bytes(&self, bytes: usize) {
        self.bytes.add(bytes);
    }

    /// The columns as indices in the table.
    pub(super) fn indices(&self) -> impl Iterator<Item = usize> {
        self.columns.iter().map(|column| column.index)
    }
}

/// Bits of a row's number that say which row of its segment it is; the segment is above them.
const ROW_BITS: u32 = 40;

/// The number of a row of a segment: those of a scan ascend as its rows lie.
pub(crate) fn row_number(segment: usize, row: usize) -> u64 {
    (segment as u64) << ROW_BITS | row as u64
}

/// Segment and row of a number.
pub(crate) fn numbered_row(number: u64) -> (usize, usize) {
    ((number >> ROW_BITS) as usize, (number & ((1 << ROW_BITS) - 1)) as usize)
}

fn row_numbers(pieces: impl Iterator<Item = (usize, Range<usize>)>) -> ArrayRef {
    let numbers = pieces.flat_map(|(segment, rows)| rows.map(move |row| row_number(segment, row)));
    Arc::new(UInt64Array::from_iter_values(numbers))
}

/// Rows that lie together, on average, for ranges to be quicker to read than all rows and a filter.
const RANGE_ROWS_MIN: usize = 4;

/// Ranges of rows of a segment, of which some are left.
#[derive(Debug)]
pub(super) struct Left {
    /// Index among the scan's segments.
    pub(super) segment: usize,
    /// Ascending, apart.
    ranges: Vec<Range<usize>>,
    /// A bit for each row of the ranges: whether it is left.
    pub(super) bits: BooleanBuffer,
    rows: usize,
    read: Reading,
}

/// How rows that are left are read: in the way that is quickest for so many of them.
#[derive(Debug)]
enum Reading {
    /// All rows are left.
    All,
    /// These, and no others.
    Kept(Vec<Range<usize>>),
    /// All, of which some are picked then.
    Filtered(FilterPredicate),
}

impl Left {
    /// Those rows of ranges of a segment that have a bit.
    pub(super) fn new(segment: usize, ranges: Vec<Range<usize>>, bits: BooleanBuffer) -> Self {
        let rows = bits.count_set_bits();
        let read = if rows == bits.len() {
            Reading::All
        } else if rows >= runs_of(&bits) * RANGE_ROWS_MIN || rows * PICKED < bits.len() {
            Reading::Kept(kept(&ranges, &bits))
        } else {
            let builder = FilterBuilder::new(&BooleanArray::new(bits.clone(), None));
            Reading::Filtered(builder.optimize().build())
        };
        Self { segment, ranges, bits, rows, read }
    }

    /// How many rows are left.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// The numbers of the rows that are left.
    fn numbers(&self) -> ArrayRef {
        row_numbers(kept(&self.ranges, &self.bits).into_iter().map(|rows| (self.segment, rows)))
    }

    /// A column of the rows that are left, in its stored type.
    fn read(&self, segments: &[Segment], column: usize) -> Result<ArrayRef> {
        let segment = &segments[self.segment];
        match &self.read {
            Reading::All => segment.read_ranges(column, &self.ranges).map_err(external),
            Reading::Kept(kept) => read_scattered(segment, column, kept),
            Reading::Filtered(filter) => {
                let all = segment.read_ranges(column, &self.ranges).map_err(external)?;
                filter.filter(&all).map_err(from_arrow)
            }
        }
    }
}

/// How many runs of set bits there are, or one more.
fn runs_of(bits: &BooleanBuffer) -> usize {
    let mut last = false;
    let changes = bits.bit_chunks().iter_padded().map(|word| {
        let before = word << 1 | u64::from(last);
        last = word >> 63 == 1;
        (word ^ before).count_ones() as usize
    });
    changes.sum::<usize>().div_ceil(2)
}

/// Of so many rows one is read: they are picked one by one.
const PICKED: usize = 32;

/// Values of ranges of rows, which may be few and far apart; of a run they may be in any order.
pub(super) fn read_scattered(segment: &Segment, column: usize, ranges: &[Range<usize>]) -> Result<ArrayRef> {
    let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else {
        return segment.read_ranges(column, ranges).map_err(external);
    };
    let rows: usize = ranges.iter().map(ExactSizeIterator::len).sum();
    if rows * PICKED < last.end.saturating_sub(first.start) {
        let rows: Vec<usize> = ranges.iter().cloned().flatten().collect();
        return segment.take(column, &rows).map_err(external);
    }
    segment.read_ranges(column, ranges).map_err(external)
}

/// One stored column over all pieces.
pub(super) fn read_column(segments: &[Segment], pieces: &[Piece], column: usize) -> Result<ArrayRef> {
    let read = |of: &[Piece]| {
        let ranges: Vec<Range<usize>> = of.iter().map(|piece| piece.rows.clone()).collect();
        read_scattered(&segments[of[0].segment], column, &ranges)
    };
    // Neighbours of one segment are read at once, so that no block is decoded twice.
    let follows = |a: &Piece, b: &Piece| a.segment == b.segment && a.rows.end <= b.rows.start;
    let arrays = pieces.chunk_by(follows).map(read).collect::<Result<Vec<_>>>()?;
    match arrays.as_slice() {
        [array] => Ok(Arc::clone(array)),
        _ => {
            let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
            concat(&arrays).map_err(from_arrow)
        }
    }
}

/// Ids and their symbols as the edge shows them; nothing is copied.
fn symbol_array(ids: &ArrayRef, symbols: &Arc<StringArray>) -> Result<ArrayRef> {
    let keys = ids
        .as_any()
        .downcast_ref::<UInt32Array>()
        .ok_or_else(|| internal_datafusion_err!("symbol ids are {}", ids.data_type()))?;
    symbols_by_id(keys, Arc::clone(symbols) as ArrayRef)
}

/// Ids with the symbols they stand for. Arrow looks at ids one by one, which takes longer than decoding them does.
///
/// # Errors
/// Where an id stands for none.
pub(crate) fn symbols_by_id(ids: &UInt32Array, symbols: ArrayRef) -> Result<ArrayRef> {
    let greatest = ids.values().iter().fold(0, |most, id| most.max(*id));
    if (greatest as usize) < symbols.len() {
        // SAFETY: each id, those of NULLs included, is below the number of symbols.
        return Ok(Arc::new(unsafe { DictionaryArray::<UInt32Type>::new_unchecked(ids.clone(), symbols) }));
    }
    Ok(Arc::new(DictionaryArray::<UInt32Type>::try_new(ids.clone(), symbols).map_err(from_arrow)?))
}
