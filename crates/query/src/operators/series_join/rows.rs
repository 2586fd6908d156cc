//! Rows of both sides put together by key, and what a join makes of them.

use super::aggregate::Aggregates;
use super::node::Kind;
use super::windows::Windows;
use crate::operators::asof::by_series::NEAR;
use crate::operators::below::batch_of;
use datafusion::arrow::array::{
    Array, ArrayRef, Int64Array, TimestampNanosecondArray, UInt32Array, new_null_array,
};
use datafusion::arrow::buffer::{NullBuffer, ScalarBuffer};
use datafusion::arrow::compute::{cast, interleave, take};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use std::ops::Range;
use std::sync::Arc;
use tickstone_engine::gallop;

/// Stands for no row.
pub(super) const NONE: u32 = u32::MAX;

/// Rows of one side, key after key, each in order of time, equal times as they came.
#[derive(Debug)]
pub(super) struct SideRows {
    pub(super) batch: RecordBatch,
    /// ns since the Unix epoch; the last instant where there is none.
    pub(super) times: ScalarBuffer<i64>,
    /// Where the rows of each key end.
    pub(super) ends: Vec<usize>,
    /// The number of each row in the scan, where that is asked for.
    pub(super) numbers: Option<ScalarBuffer<u64>>,
}

impl SideRows {
    /// Bytes they hold, roughly.
    pub(super) fn size(&self) -> usize {
        self.batch.get_array_memory_size() + self.times.len() * 8 + self.ends.len() * 8
    }
}

/// Rows of both sides: those of the `n`th key on the left match those of the `n`th on the right, and no others.
#[derive(Debug)]
pub(super) struct Matched {
    pub(super) left: SideRows,
    pub(super) right: SideRows,
    /// Rows of a splice that are older were yielded before: they may only stand beside others.
    pub(super) from: i64,
    /// The place of each left row among the left rows of the result; `None` where they stay as they are.
    pub(super) order: Option<Vec<u32>>,
}

impl Matched {
    /// The left and right rows of each key.
    pub(super) fn series(&self) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
        let ranges = |ends: &[usize]| {
            let starts = std::iter::once(0).chain(ends.iter().copied());
            starts.zip(ends.to_vec()).map(|(start, end)| start..end).collect::<Vec<_>>()
        };
        ranges(&self.left.ends).into_iter().zip(ranges(&self.right.ends))
    }
}

/// What a join makes of matched rows.
#[derive(Debug, Clone)]
pub(in crate::operators) struct Shape {
    pub(in crate::operators) kind: Kind,
    /// The right columns of the result, but for a window.
    pub(super) right_columns: Vec<usize>,
    /// Left key columns of a splice that stand for both sides, with the right columns that they stand for.
    pub(super) merged: Vec<(usize, usize)>,
    pub(in crate::operators) aggregates: Arc<Aggregates>,
    pub(super) schema: SchemaRef,
}

/// The result for some matched rows, whose columns are made as they are asked for.
#[derive(Debug)]
pub(super) struct Joined {
    left: RecordBatch,
    right: RecordBatch,
    /// The left row of each row; `None`: they are the rows.
    lefts: Option<Vec<u32>>,
    /// The right row of each row, not of a window.
    rights: Vec<u32>,
    aggregates: Vec<ArrayRef>,
    /// Where keys are merged.
    keys: Option<MergedKeys>,
    /// The time of each row; of a horizon that of its left row.
    pub(super) times: Vec<i64>,
}

/// The key of each row, and the columns of the keys by their places.
type MergedKeys = (Vec<u32>, Vec<(usize, ArrayRef)>);

impl Shape {
    pub(super) fn join(&self, matched: Matched) -> Result<Joined> {
        match &self.kind {
            Kind::Window(window) => {
                let windows = Windows::of(&matched, *window);
                let aggregates = self.aggregates.evaluate(&matched, &windows)?;
                let Matched { left, right, order, .. } = matched;
                let lefts = order.map(|order| inverse(&order));
                let aggregates = match &lefts {
                    None => aggregates,
                    Some(lefts) => {
                        let rows = UInt32Array::from(lefts.clone());
                        let moved = aggregates.iter().map(|of| Ok(take(of, &rows, None)?));
                        moved.collect::<Result<_>>()?
                    }
                };
                let times = match &lefts {
                    None => left.times.to_vec(),
                    Some(lefts) => lefts.iter().map(|row| left.times[*row as usize]).collect(),
                };
                let (left, right) = (left.batch, right.batch);
                Ok(Joined { left, right, lefts, rights: Vec::new(), aggregates, keys: None, times })
            }
            Kind::Horizon { offsets, .. } => Ok(horizon(matched, offsets)),
            Kind::Splice => self.splice(matched),
        }
    }

    /// The rows of both sides in order of time, each with the last row of the other that is not newer. Rows of
    /// equal time are paired in the order they came; what is left of the longer side stands with the last of
    /// the other.
    fn splice(&self, matched: Matched) -> Result<Joined> {
        let rows = matched.left.times.len() + matched.right.times.len();
        let (mut lefts, mut rights) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        let (mut keys, mut times) = (Vec::new(), Vec::with_capacity(rows));
        let (left, right) = (&matched.left.times[..], &matched.right.times[..]);
        for (key, (l, r)) in (0..).zip(matched.series()) {
            let begin = |times: &[i64], rows: &Range<usize>| {
                rows.start + times[rows.clone()].partition_point(|time| *time < matched.from)
            };
            let (mut i, mut j) = (begin(left, &l), begin(right, &r));
            let before = |at: usize, rows: &Range<usize>| if at > rows.start { at as u32 - 1 } else { NONE };
            while i < l.end || j < r.end {
                let leads = match (i < l.end, j < r.end) {
                    (true, true) => left[i].cmp(&right[j]),
                    (true, false) => std::cmp::Ordering::Less,
                    _ => std::cmp::Ordering::Greater,
                };
                times.push(if leads.is_le() { left[i] } else { right[j] });
                i += usize::from(leads.is_le());
                j += usize::from(leads.is_ge());
                lefts.push(before(i, &l));
                rights.push(before(j, &r));
            }
            if !self.merged.is_empty() {
                keys.resize(times.len(), key);
            }
        }
        let columns =
            self.merged.iter().map(|(left, right)| Ok((*left, key_values(&matched, *left, *right)?)));
        let keys = (!self.merged.is_empty())
            .then_some(columns.collect::<Result<Vec<_>>>())
            .transpose()?
            .map(|columns| (keys, columns));
        let (left, right) = (matched.left.batch, matched.right.batch);
        Ok(Joined { left, right, lefts: Some(lefts), rights, aggregates: Vec::new(), keys, times })
    }
}

/// The value of a key column for each key: of a left row where there is one, else of a right row.
fn key_values(matched: &Matched, left: usize, right: usize) -> Result<ArrayRef> {
    let (lefts, rights) = (matched.left.batch.column(left), matched.right.batch.column(right));
    let rows: Vec<(usize, usize)> = matched
        .series()
        .map(|(l, r)| match (l.is_empty(), r.is_empty()) {
            (false, _) => (0, l.start),
            (true, false) => (1, r.start),
            (true, true) => (2, 0),
        })
        .collect();
    if rows.iter().all(|(side, _)| *side == 0) {
        let rows: UInt32Array = rows.iter().map(|(_, row)| *row as u32).collect::<Vec<_>>().into();
        return Ok(take(lefts, &rows, None)?);
    }
    // Values of one dictionary are no values of another: what they stand for is put together, a value a key.
    let plain = match lefts.data_type() {
        DataType::Dictionary(_, values) => values.as_ref(),
        other => other,
    };
    let of_side = |side: usize, column: &ArrayRef| -> Result<ArrayRef> {
        let found = rows.iter().map(|(of, row)| (*of == side).then_some(*row as u32));
        Ok(cast(&take(column, &found.collect::<UInt32Array>(), None)?, plain)?)
    };
    let sides = [of_side(0, lefts)?, of_side(1, rights)?, new_null_array(plain, 1)];
    let sides: Vec<&dyn Array> = sides.iter().map(AsRef::as_ref).collect();
    let places = rows.iter().enumerate().map(|(at, (side, _))| (*side, if *side == 2 { 0 } else { at }));
    Ok(cast(&interleave(&sides, &places.collect::<Vec<_>>())?, lefts.data_type())?)
}

fn horizon(matched: Matched, offsets: &[i64]) -> Joined {
    let count = offsets.len();
    let rows = matched.left.times.len();
    let mut rights = vec![NONE; rows * count];
    let place = |row: usize| matched.order.as_ref().map_or(row, |order| order[row] as usize);
    for (l, r) in matched.series() {
        let right = &matched.right.times[r.clone()];
        for (at, offset) in offsets.iter().enumerate() {
            let mut next = 0;
            for row in l.clone() {
                let time = matched.left.times[row].saturating_add(*offset);
                next = gallop(next..right.len(), NEAR, |at| right[at] <= time);
                if next > 0 {
                    rights[place(row) * count + at] = (r.start + next - 1) as u32;
                }
            }
        }
    }
    let mut lefts: Vec<u32> = vec![0; rows * count];
    let mut times = vec![0; rows * count];
    for row in 0..rows {
        let places = place(row) * count..place(row) * count + count;
        lefts[places.clone()].fill(row as u32);
        times[places].fill(matched.left.times[row]);
    }
    let (left, right) = (matched.left.batch, matched.right.batch);
    Joined { left, right, lefts: Some(lefts), rights, aggregates: Vec::new(), keys: None, times }
}

/// Where each place's row is.
fn inverse(order: &[u32]) -> Vec<u32> {
    let mut rows = vec![0; order.len()];
    order.iter().zip(0..).for_each(|(place, row)| rows[*place as usize] = row);
    rows
}

impl Joined {
    /// How many rows.
    pub(super) fn rows(&self) -> usize {
        self.times.len()
    }

    /// The left row that a row is of.
    pub(super) fn left_row(&self, row: usize) -> usize {
        self.lefts.as_ref().map_or(row, |lefts| lefts[row] as usize)
    }

    /// Bytes it holds, roughly.
    pub(super) fn size(&self) -> usize {
        let held: usize = self.aggregates.iter().map(|of| of.get_array_memory_size()).sum();
        held + self.left.get_array_memory_size()
            + self.right.get_array_memory_size()
            + (self.rights.len() + self.lefts.as_ref().map_or(0, Vec::len)) * 4
            + self.times.len() * 8
    }

    /// Puts the rows in order of time, equal times as they are.
    pub(super) fn sort(&mut self) {
        if self.times.is_sorted() {
            return;
        }
        let mut order: Vec<u32> = (0..self.times.len() as u32).collect();
        order.sort_by_key(|row| self.times[*row as usize]);
        let moved = |of: &[u32]| order.iter().map(|row| of[*row as usize]).collect::<Vec<u32>>();
        self.lefts = self.lefts.take().map(|lefts| moved(&lefts));
        self.rights = moved(&self.rights);
        if let Some((keys, _)) = &mut self.keys {
            *keys = moved(keys);
        }
        self.times = order.iter().map(|row| self.times[*row as usize]).collect();
    }

    /// Some of the rows.
    pub(super) fn batch(&self, shape: &Shape, rows: Range<usize>) -> Result<RecordBatch> {
        let count = rows.len();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(shape.schema.fields().len());
        match &self.lefts {
            None => columns.extend(self.left.columns().iter().map(|column| column.slice(rows.start, count))),
            Some(lefts) => {
                let numbers = numbers(&lefts[rows.clone()]);
                for (at, column) in self.left.columns().iter().enumerate() {
                    let merged = self.keys.as_ref().and_then(|(keys, columns)| {
                        Some((keys, &columns.iter().find(|(of, _)| *of == at)?.1))
                    });
                    columns.push(match merged {
                        None => take(column, &numbers, None)?,
                        Some((keys, values)) => {
                            take(values, &UInt32Array::from(keys[rows.clone()].to_vec()), None)?
                        }
                    });
                }
            }
        }
        match &shape.kind {
            Kind::Window(_) => {
                columns.extend(self.aggregates.iter().map(|of| of.slice(rows.start, count)));
            }
            kind => {
                let numbers = numbers(&self.rights[rows.clone()]);
                for column in &shape.right_columns {
                    columns.push(take(self.right.column(*column), &numbers, None)?);
                }
                if let Kind::Horizon { offsets, .. } = kind {
                    let offset = |row: usize| offsets[row % offsets.len()];
                    let moved = |row: usize| self.times[row].saturating_add(offset(row));
                    columns.push(Arc::new(Int64Array::from_iter_values(rows.clone().map(offset))));
                    columns.push(Arc::new(TimestampNanosecondArray::from_iter_values(rows.map(moved))));
                }
            }
        }
        batch_of(&shape.schema, columns, count)
    }
}

/// Rows as numbers, NULL where there is none.
fn numbers(rows: &[u32]) -> UInt32Array {
    let nulls = rows.contains(&NONE).then(|| rows.iter().map(|row| *row != NONE).collect::<NullBuffer>());
    let rows = rows.iter().map(|row| if *row == NONE { 0 } else { *row });
    UInt32Array::new(rows.collect::<Vec<_>>().into(), nulls)
}
