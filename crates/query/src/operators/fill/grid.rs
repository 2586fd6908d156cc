//! The grid of buckets and keys, made piece by piece.
//!
//! The input's rows come in order of bucket, then keys, one for each pair; the grid has a row for every
//! pair, in the same order. What is filled is worked out from three row numbers: the row itself, the
//! key's row before it and the key's row after it.

use super::exec::{FillColumn, MAX_FILLED_ROWS, constant};
use crate::functions::bucket::Bucketing;
use crate::operators::key::{KeyIds, KeyReader};
use crate::operators::sample::groups::key_order;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Float64Array, Scalar, TimestampNanosecondArray,
    UInt32Array,
};
use datafusion::arrow::compute::kernels::cmp::not_distinct;
use datafusion::arrow::compute::kernels::zip::zip;
use datafusion::arrow::compute::{cast, take};
use datafusion::arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Float64Type, SchemaRef, TimestampNanosecondType, i256,
};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result;
use std::sync::Arc;

/// No row.
const NONE: u32 = u32::MAX;

pub(super) struct Grid {
    rows: RecordBatch,
    buckets: TimestampNanosecondArray,
    bucketing: Bucketing,
    columns: Vec<Column>,
    schema: SchemaRef,
    /// Key columns, one row a key, in their order.
    keys: Vec<ArrayRef>,
    key_count: usize,
    /// The place among the keys of each input row.
    row_keys: Vec<u32>,
    /// The next row of the same key.
    next_rows: Vec<u32>,
    /// For each key its last row so far and the one to come.
    before: Vec<u32>,
    after: Vec<u32>,
    /// The bucket and key the next row is for, and the next input row.
    bucket: i64,
    key: usize,
    row: usize,
    /// Buckets start before it.
    end: i64,
}

enum Column {
    Null,
    Prev,
    /// Another column, its values in this one's type, and which of them are values of it.
    PrevOf(ArrayRef, ArrayRef, BooleanArray),
    /// The column's values as doubles.
    Linear(Float64Array),
    /// The column's values in units of the last digit of a DECIMAL of this precision and scale; of whole numbers 1.
    LinearUnits(Decimal128Array),
    Constant(Scalar<ArrayRef>),
}

/// Rows of the grid on their way out: everything as row numbers of the input.
struct Piece {
    buckets: Vec<i64>,
    keys: Vec<u32>,
    rows: Vec<Option<u32>>,
    before: Vec<Option<u32>>,
    after: Vec<u32>,
}

impl Grid {
    pub(super) fn try_new(
        rows: RecordBatch,
        keys: usize,
        bucketing: Bucketing,
        (from, to): (Option<i64>, Option<i64>),
        fills: &[FillColumn],
        schema: SchemaRef,
    ) -> Result<Self> {
        let buckets = rows.column(0).as_primitive::<TimestampNanosecondType>().clone();
        // Where buckets count from the first row, that has made the first of them.
        let bucketing = buckets.values().first().map_or(bucketing, |first| bucketing.with_first(*first));
        let first = from.map(|from| bucketing.start(from)).or_else(|| buckets.values().first().copied());
        let last = buckets.values().last().map(|last| last.saturating_add(1));
        // Without rows and without FROM there is no first bucket.
        let (bucket, end) = first.map_or((0, 0), |first| (first, to.or(last).unwrap_or(first)));
        let key_columns = &rows.columns()[1..1 + keys];
        let (row_keys, keys, key_count) = distinct_keys(key_columns, rows.num_rows())?;
        let count = bucketing.count(bucket, end, MAX_FILLED_ROWS / key_count.max(1));
        let Some(_) = count else {
            return exec_err!(
                "FILL would make more than {MAX_FILLED_ROWS} rows ({key_count} keys every {bucketing}): narrow FROM … TO, or take a longer stride"
            );
        };
        let mut after = vec![NONE; key_count];
        let mut next_rows = vec![NONE; rows.num_rows()];
        for (row, key) in row_keys.iter().enumerate().rev() {
            next_rows[row] = after[*key as usize];
            after[*key as usize] = u32::try_from(row).unwrap_or(NONE);
        }
        let values = rows.columns().iter().skip(1 + key_columns.len());
        let columns = values.zip(fills).map(|(values, fill)| {
            Ok(match fill {
                FillColumn::Null => Column::Null,
                FillColumn::Prev => Column::Prev,
                FillColumn::PrevOf(of) => {
                    let others = Arc::clone(rows.column(*of));
                    let made = cast(&others, values.data_type())?;
                    let fits = match values.data_type().is_integer() {
                        true => not_distinct(&cast(&made, others.data_type())?, &others)?,
                        // What has fewer digits after the point rounds.
                        false => (0..made.len())
                            .map(|row| Some(made.is_null(row) == others.is_null(row)))
                            .collect(),
                    };
                    Column::PrevOf(others, made, fits)
                }
                FillColumn::Linear if values.data_type().is_integer() => {
                    let units = cast(values, &DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0))?;
                    Column::LinearUnits(units.as_primitive::<Decimal128Type>().clone())
                }
                FillColumn::Linear if matches!(values.data_type(), DataType::Decimal128(..)) => {
                    Column::LinearUnits(values.as_primitive::<Decimal128Type>().clone())
                }
                FillColumn::Linear => {
                    Column::Linear(cast(values, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
                }
                FillColumn::Constant(expr) => Column::Constant(constant(expr)?.to_scalar()?),
            })
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let before = vec![NONE; key_count];
        Ok(Self {
            rows,
            buckets,
            bucketing,
            columns,
            schema,
            keys,
            key_count,
            row_keys,
            next_rows,
            before,
            after,
            bucket,
            key: 0,
            row: 0,
            end,
        })
    }

    /// At most `rows` further rows, `None` after the last.
    pub(super) fn next(&mut self, rows: usize) -> Result<Option<RecordBatch>> {
        let piece = self.walk(rows);
        if piece.buckets.is_empty() {
            return Ok(None);
        }
        self.fill(piece).map(Some)
    }

    fn walk(&mut self, rows: usize) -> Piece {
        let mut piece = Piece {
            buckets: Vec::with_capacity(rows),
            keys: Vec::with_capacity(rows),
            rows: Vec::with_capacity(rows),
            before: Vec::with_capacity(rows),
            after: Vec::with_capacity(rows),
        };
        while piece.buckets.len() < rows && self.bucket < self.end && self.key_count > 0 {
            let here = self.buckets.values().get(self.row) == Some(&self.bucket)
                && self.row_keys.get(self.row).is_some_and(|key| *key as usize == self.key);
            let row = u32::try_from(self.row).ok().filter(|_| here);
            if let Some(row) = row {
                self.before[self.key] = row;
                self.after[self.key] = self.next_rows[self.row];
                self.row += 1;
            }
            piece.buckets.push(self.bucket);
            piece.keys.push(u32::try_from(self.key).unwrap_or(NONE));
            piece.rows.push(row);
            piece.before.push(Some(self.before[self.key]).filter(|before| *before != NONE));
            piece.after.push(self.after[self.key]);
            self.key += 1;
            if self.key == self.key_count {
                self.key = 0;
                let next = self.bucketing.next(self.bucket);
                self.bucket = if next > self.bucket { next } else { self.end };
            }
        }
        piece
    }

    fn fill(&self, piece: Piece) -> Result<RecordBatch> {
        let buckets = TimestampNanosecondArray::from(piece.buckets.clone());
        let buckets = match self.schema.field(0).data_type() {
            DataType::Timestamp(_, zone) => buckets.with_timezone_opt(zone.clone()),
            _ => buckets,
        };
        let mut columns: Vec<ArrayRef> = vec![Arc::new(buckets)];
        let keys = UInt32Array::from(piece.keys.clone());
        for key in &self.keys {
            columns.push(take(key, &keys, None)?);
        }
        let here = UInt32Array::from(piece.rows.clone());
        let present: BooleanArray = piece.rows.iter().map(|row| Some(row.is_some())).collect();
        let width = columns.len();
        for (values, column) in self.rows.columns()[width..].iter().zip(&self.columns) {
            columns.push(match column {
                Column::Null => take(values, &here, None)?,
                Column::Prev => take(values, &UInt32Array::from(piece.before.clone()), None)?,
                Column::PrevOf(others, made, fits) => {
                    let used = piece.rows.iter().zip(&piece.before).filter(|(row, _)| row.is_none());
                    if let Some(row) =
                        used.filter_map(|(_, before)| *before).find(|row| !fits.value(*row as usize))
                    {
                        let of = crate::error::type_name(values.data_type());
                        let value = ScalarValue::try_from_array(others, row as usize)?;
                        return exec_err!("FILL(PREV(…)) does not fit: {value} is no {of}");
                    }
                    let before = take(made, &UInt32Array::from(piece.before.clone()), None)?;
                    zip(&present, &take(values, &here, None)?, &before)?
                }
                Column::Constant(constant) => zip(&present, &take(values, &here, None)?, constant)?,
                Column::LinearUnits(units) => {
                    let line = cast(&self.exact_line(&piece, units)?, values.data_type())?;
                    zip(&present, &take(values, &here, None)?, &line)?
                }
                Column::Linear(numbers) => {
                    let line = self.line(&piece, numbers, values.data_type())?;
                    zip(&present, &take(values, &here, None)?, &line)?
                }
            });
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }

    /// The rows before and after a row of the grid that is missing, how long after the first it is, and how long these lie
    /// apart, in ns; `None` where one of them is missing.
    fn between(&self, piece: &Piece, index: usize) -> Option<(usize, usize, i64, i64)> {
        let before = piece.before[index]?;
        let after = Some(piece.after[index]).filter(|after| *after != NONE && piece.rows[index].is_none())?;
        let (low, high) = (self.buckets.value(before as usize), self.buckets.value(after as usize));
        Some((before as usize, after as usize, piece.buckets[index] - low, high - low))
    }

    /// The values on the line between the rows before and after, NULL where one of them is missing.
    fn line(&self, piece: &Piece, numbers: &Float64Array, data_type: &DataType) -> Result<ArrayRef> {
        let at = |row: usize| numbers.is_valid(row).then(|| numbers.value(row));
        let value = |index: usize| {
            let (before, after, since, apart) = self.between(piece, index)?;
            let (a, b) = (at(before)?, at(after)?);
            Some(a + (b - a) * (since as f64 / apart as f64))
        };
        let line: Float64Array = (0..piece.buckets.len()).map(value).collect();
        Ok(cast(&line, data_type)?)
    }

    /// The same, exact but for the last digit, which is rounded to the nearest, halves away from zero.
    fn exact_line(&self, piece: &Piece, units: &Decimal128Array) -> Result<Decimal128Array> {
        let at = |row: usize| units.is_valid(row).then(|| i256::from_i128(units.value(row)));
        let value = |index: usize| {
            let (before, after, since, apart) = self.between(piece, index)?;
            let (a, b) = (at(before)?, at(after)?);
            let (since, apart) = (i256::from(since), i256::from(apart));
            // Of 128 and 63 bits: no product overflows.
            let twice = (a * (apart - since) + b * since) * i256::from(2_i64);
            let half = if twice < i256::ZERO { -apart } else { apart };
            ((twice + half) / (apart * i256::from(2_i64))).to_i128()
        };
        let line: Decimal128Array = (0..piece.buckets.len()).map(value).collect();
        Ok(line.with_data_type(units.data_type().clone()))
    }
}

/// The place of each row's key, the keys in order, and how many there are (without key columns one).
fn distinct_keys(columns: &[ArrayRef], rows: usize) -> Result<(Vec<u32>, Vec<ArrayRef>, usize)> {
    if columns.is_empty() {
        return Ok((vec![0; rows], Vec::new(), 1));
    }
    let types: Vec<DataType> = columns.iter().map(|c| c.data_type().clone()).collect();
    let mut ids = KeyIds::try_new(&types)?;
    let mut row_ids = Vec::with_capacity(rows);
    ids.read(columns, rows, &mut KeyReader::new(columns.len()), &mut row_ids)?;
    let mut first_rows = Vec::with_capacity(ids.len());
    for (row, id) in (0..).zip(&row_ids) {
        if *id as usize == first_rows.len() {
            first_rows.push(row);
        }
    }
    let first_rows = UInt32Array::from(first_rows);
    let firsts = columns.iter().map(|c| take(c, &first_rows, None)).collect::<Result<Vec<_>, _>>()?;
    let order = key_order(&firsts)?;
    let keys = firsts.iter().map(|key| take(key, &order, None)).collect::<Result<Vec<_>, _>>()?;
    let mut places = vec![0; ids.len()];
    for (place, id) in (0..).zip(order.values()) {
        places[*id as usize] = place;
    }
    Ok((row_ids.into_iter().map(|id| places[id as usize]).collect(), keys, ids.len()))
}
