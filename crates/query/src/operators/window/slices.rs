//! How the rows of each series fall into the partitions of a window, and in which order.
//!
//! Rows come series by series, each in order of time. Where PARTITION BY has more than the series, the rows of each
//! series are dealt out, which keeps them in order of time; where ORDER BY is more than the time, what is alike so far
//! is sorted: a few rows of one time as a rule. Results are put back where the rows were.

use super::kernel::Rows;
use crate::error::from_arrow;
use crate::operators::below::batch_of;
use crate::operators::key::{KeyIds, KeyReader};
use crate::operators::node::write_list;
use crate::operators::sort::radix::{self, keys_of};
use arrow_select::take::take;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, DynComparator, RecordBatch, UInt32Array, make_comparator,
};
use datafusion::arrow::buffer::ScalarBuffer;
use datafusion::arrow::compute::partition;
use datafusion::arrow::datatypes::{DataType, Schema, TimestampNanosecondType};
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use std::cmp::Ordering;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The order of the rows of a partition.
#[derive(Debug, Clone)]
pub(super) enum Order {
    /// Any.
    Any,
    /// That of this column, the designated timestamp, in which rows come.
    Time(usize),
    /// That in which rows come, whatever it is.
    Sorted(Vec<PhysicalSortExpr>),
    /// Any other.
    By {
        /// What rows are sorted by.
        exprs: Vec<PhysicalSortExpr>,
        /// Whether the first of them is the order in which rows come.
        in_time: bool,
    },
}

/// Partitions of the rows of series.
#[derive(Debug, Clone)]
pub(super) struct Slices {
    /// What PARTITION BY has beside the series.
    pub(super) keys: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) order: Order,
}

/// The rows of a batch by partition.
pub(super) struct Sliced {
    /// The row at each place; `None` where rows are where they were.
    places: Option<Vec<u32>>,
    /// Where each partition ends.
    ends: Vec<usize>,
    /// What frames of RANGE go by: the times, or numbers that are equal where rows are peers.
    times: ScalarBuffer<i64>,
}

impl fmt::Display for Slices {
    /// What is done beside reading series in order of time.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.keys.is_empty() {
            f.write_str(", dealt out by [")?;
            write_list(f, &self.keys)?;
            f.write_str("]")?;
        }
        if let Order::By { exprs, .. } = &self.order {
            f.write_str(", sorted by [")?;
            write_list(f, exprs)?;
            f.write_str("]")?;
        }
        Ok(())
    }
}

impl Slices {
    /// The expressions it goes by.
    pub(super) fn exprs(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        let sorted: &[PhysicalSortExpr] = match &self.order {
            Order::By { exprs, .. } | Order::Sorted(exprs) => exprs,
            Order::Any | Order::Time(_) => &[],
        };
        self.keys.iter().chain(sorted.iter().map(|by| &by.expr))
    }

    /// Whether rows stay where they are.
    pub(super) fn are_series(&self) -> bool {
        self.keys.is_empty() && !matches!(self.order, Order::By { .. })
    }

    /// The rows of a batch, whose series end at `ends`; `ranked` where frames ask which rows are peers.
    pub(super) fn of(&self, batch: &RecordBatch, ends: &[usize], ranked: bool) -> Result<Sliced> {
        let mut sliced = Sliced { places: None, ends: ends.to_vec(), times: ScalarBuffer::from(Vec::new()) };
        if !self.keys.is_empty() {
            sliced.deal(&evaluated(&self.keys, batch)?, batch)?;
        }
        match &self.order {
            Order::Any => {}
            Order::Time(column) => {
                let times = times(batch.column(*column))?;
                sliced.times = match &sliced.places {
                    None => times.clone(),
                    Some(places) => places.iter().map(|row| times[*row as usize]).collect::<Vec<_>>().into(),
                };
            }
            Order::Sorted(exprs) if ranked => {
                let columns = evaluated(exprs.iter().map(|by| &by.expr), batch)?;
                sliced.times = numbered(&columns, batch.num_rows())?.into();
            }
            Order::Sorted(_) => {}
            Order::By { exprs, in_time } => sliced.sort(exprs, *in_time, ranked, batch)?,
        }
        Ok(sliced)
    }
}

impl Sliced {
    /// The rows by partition: of `batch`, whose columns `wanted` are the only ones looked at.
    pub(super) fn batch(&self, batch: &RecordBatch, wanted: &[usize]) -> Result<RecordBatch> {
        let Some(places) = &self.places else { return Ok(batch.clone()) };
        let rows = UInt32Array::from(places.clone());
        let mut columns = batch.columns().to_vec();
        for column in wanted {
            columns[*column] = take(&columns[*column], &rows, None).map_err(from_arrow)?;
        }
        batch_of(&batch.schema(), columns, batch.num_rows())
    }

    /// What kernels go over.
    pub(super) fn rows<'a>(&'a self, batch: &'a RecordBatch) -> Rows<'a> {
        Rows { batch, ends: &self.ends, times: &self.times }
    }

    /// Where each row's result is; `None` where it is at the row's own place.
    pub(super) fn back(&self) -> Option<UInt32Array> {
        let places = self.places.as_ref()?;
        let mut back = vec![0; places.len()];
        for (at, row) in (0..).zip(places) {
            back[*row as usize] = at;
        }
        Some(UInt32Array::from(back))
    }

    /// Deals the rows of each series out by keys, each key's in the order they come.
    fn deal(&mut self, keys: &[ArrayRef], batch: &RecordBatch) -> Result<()> {
        let types: Vec<DataType> = keys.iter().map(|key| key.data_type().clone()).collect();
        let (mut known, mut reader, mut ids) =
            (KeyIds::try_new(&types)?, KeyReader::new(keys.len()), Vec::new());
        known.read(keys, batch.num_rows(), &mut reader, &mut ids)?;
        // Of each key: how many rows of the series at hand it has, then where the next one goes.
        let mut counts = vec![0_u32; known.len()];
        let mut met: Vec<u32> = Vec::new();
        let mut ends = Vec::with_capacity(self.ends.len());
        let mut places: Option<Vec<u32>> = None;
        let mut start = 0;
        for &end in &self.ends {
            let of = &ids[start..end];
            let mut runs = 0;
            for same in of.chunk_by(|a, b| a == b) {
                let count = &mut counts[same[0] as usize];
                if *count == 0 {
                    met.push(same[0]);
                }
                *count += same.len() as u32;
                runs += 1;
            }
            if runs > met.len() {
                let places = places.get_or_insert_with(|| (0..batch.num_rows() as u32).collect());
                let mut next = start as u32;
                for key in &met {
                    let count = &mut counts[*key as usize];
                    (*count, next) = (next, next + *count);
                    ends.push(next as usize);
                }
                for (row, key) in (start as u32..).zip(of) {
                    let at = &mut counts[*key as usize];
                    places[*at as usize] = row;
                    *at += 1;
                }
            } else {
                let mut next = start;
                for same in of.chunk_by(|a, b| a == b) {
                    next += same.len();
                    ends.push(next);
                }
            }
            met.drain(..).for_each(|key| counts[key as usize] = 0);
            start = end;
        }
        (self.ends, self.places) = (ends, places);
        Ok(())
    }

    /// Sorts the rows of each partition.
    fn sort(
        &mut self,
        exprs: &[PhysicalSortExpr],
        in_time: bool,
        ranked: bool,
        batch: &RecordBatch,
    ) -> Result<()> {
        let keys = SortKeys::of(exprs, batch)?;
        let all = || (0..batch.num_rows() as u32).collect::<Vec<u32>>();
        let mut start = 0;
        for &end in &self.ends {
            if in_time {
                keys.sort_peers(start..end, &mut self.places, all);
            } else {
                keys.sort(&mut self.places.get_or_insert_with(all)[start..end]);
            }
            start = end;
        }
        if ranked {
            let row = |at: usize| self.places.as_ref().map_or(at as u32, |places| places[at]);
            let mut rank = 0;
            let ranks = (0..batch.num_rows()).map(|at| {
                rank += i64::from(at == 0 || keys.compare(row(at - 1), row(at)).is_ne());
                rank
            });
            self.times = ranks.collect::<Vec<i64>>().into();
        }
        Ok(())
    }
}

/// What rows are sorted by.
struct SortKeys {
    /// Numbers in the order of the first key, where it has them.
    heads: Option<Vec<u64>>,
    compared: Vec<DynComparator>,
}

impl SortKeys {
    fn of(exprs: &[PhysicalSortExpr], batch: &RecordBatch) -> Result<Self> {
        let columns = evaluated(exprs.iter().map(|by| &by.expr), batch)?;
        let each = columns.iter().zip(exprs);
        let compared = each.clone().map(|(of, by)| make_comparator(of, of, by.options).map_err(from_arrow));
        let heads = each.clone().next().and_then(|(first, by)| head_keys(first, by));
        Ok(Self { heads, compared: compared.collect::<Result<_>>()? })
    }

    fn head(&self, a: u32, b: u32) -> Ordering {
        match (&self.heads, self.compared.first()) {
            (Some(heads), _) => heads[a as usize].cmp(&heads[b as usize]),
            (None, Some(compare)) => compare(a as usize, b as usize),
            (None, None) => Ordering::Equal,
        }
    }

    /// The order of rows whose first keys are equal.
    fn rest(&self, a: u32, b: u32) -> Ordering {
        let orders = self.compared.iter().skip(1).map(|compare| compare(a as usize, b as usize));
        orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    fn compare(&self, a: u32, b: u32) -> Ordering {
        self.head(a, b).then_with(|| self.rest(a, b))
    }

    /// Sorts rows; equal ones stay in the order they come.
    fn sort(&self, rows: &mut [u32]) {
        let Some(heads) = &self.heads else { return rows.sort_by(|a, b| self.compare(*a, *b)) };
        let keyed = radix::sort(rows.iter().map(|row| (heads[*row as usize], *row)).collect());
        let mut from = 0;
        for alike in keyed.chunk_by(|a, b| a.0 == b.0) {
            let rows = &mut rows[from..from + alike.len()];
            rows.iter_mut().zip(alike).for_each(|(row, (_, sorted))| *row = *sorted);
            if self.compared.len() > 1 && !rows.is_sorted_by(|a, b| self.rest(*a, *b).is_le()) {
                rows.sort_by(|a, b| self.rest(*a, *b));
            }
            from += alike.len();
        }
    }

    /// Sorts the rows at some places, which are in order of the first key.
    fn sort_peers(&self, within: Range<usize>, places: &mut Option<Vec<u32>>, all: impl Fn() -> Vec<u32>) {
        let mut from = within.start;
        while from < within.end {
            let row = |at: usize| places.as_ref().map_or(at as u32, |places| places[at]);
            let mut to = from + 1;
            let mut sorted = true;
            while to < within.end && self.head(row(to - 1), row(to)).is_eq() {
                sorted &= self.rest(row(to - 1), row(to)).is_le();
                to += 1;
            }
            if !sorted {
                places.get_or_insert_with(&all)[from..to].sort_by(|a, b| self.rest(*a, *b));
            }
            from = to;
        }
    }
}

/// Numbers in the order of a column's values, where they can be had; of a number without NULLs, as a rule.
fn head_keys(column: &ArrayRef, by: &PhysicalSortExpr) -> Option<Vec<u64>> {
    if column.null_count() > 0 { None } else { keys_of(column, by.options.descending) }
}

/// A number for each row, which is that of the row before where all columns have the same values.
pub(super) fn numbered(columns: &[ArrayRef], rows: usize) -> Result<Vec<i64>> {
    let mut numbers = Vec::with_capacity(rows);
    for (number, rows) in (0..).zip(partition(columns).map_err(from_arrow)?.ranges()) {
        numbers.resize(rows.end, number);
    }
    Ok(numbers)
}

pub(super) fn evaluated<'a>(
    exprs: impl IntoIterator<Item = &'a Arc<dyn PhysicalExpr>>,
    batch: &RecordBatch,
) -> Result<Vec<ArrayRef>> {
    exprs.into_iter().map(|expr| expr.evaluate(batch)?.into_array(batch.num_rows())).collect()
}

fn times(column: &ArrayRef) -> Result<&ScalarBuffer<i64>> {
    let times = column.as_primitive_opt::<TimestampNanosecondType>();
    times
        .map(|times| times.values())
        .ok_or_else(|| internal_datafusion_err!("times are {}", column.data_type()))
}

/// The columns of `input` that an expression reads.
pub(super) fn columns_read(exprs: &[Arc<dyn PhysicalExpr>], input: &Schema) -> Vec<usize> {
    let mut read: Vec<usize> = Vec::new();
    for expr in exprs {
        read.extend(collect_columns(expr).iter().map(|column| column.index()));
    }
    read.sort_unstable();
    read.dedup();
    read.retain(|column| *column < input.fields().len());
    read
}
