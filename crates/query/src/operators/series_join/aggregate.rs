//! The aggregates of a WINDOW JOIN.
//!
//! The windows of one key's left rows, in order of time, move over its right rows and never back. sum, avg,
//! count, min, max, vwap, first and last have kernels over that: where windows are short a window is folded
//! anew, where they overlap much the fold moves on in constant time a row. Nothing is ever taken out of a sum
//! again ([`super::windows`]), so that no rounding error outlives its window. Of any other aggregate, and of one that
//! reads left columns too, the accumulator is given the rows of each window: as many steps as the windows have
//! rows together.

use super::kernels::{Counts, extreme, folded, summed, vwap, whole_sums};
use super::rows::Matched;
use super::windows::Windows;
use crate::functions::whole::{finished, mean};
use crate::operators::below::batch_of;
use crate::operators::sample::kernel::accumulator;
use crate::operators::window::fold::Fold;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, UInt32Array, new_null_array,
};
use datafusion::arrow::buffer::{BooleanBuffer, NullBuffer};
use datafusion::arrow::compute::{concat, take};
use datafusion::arrow::datatypes::{
    DataType, Float64Type, Int64Type, Schema, SchemaRef, TimeUnit, UInt64Type,
};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::LoweredAggregate;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::utils::collect_columns;
use std::sync::Arc;

/// Pairs of rows, and left rows, that an accumulator is given at once.
const PAIRS_MAX: usize = 65_536;
const WINDOWS_MAX: usize = 8_192;

/// All aggregates of a join.
#[derive(Debug, Default)]
pub(in crate::operators) struct Aggregates {
    of: Vec<Aggregate>,
    /// What the aggregates without a kernel read: a left column, or a right one.
    columns: Vec<SideColumn>,
    /// Their schema.
    narrow: Option<SchemaRef>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SideColumn {
    Left(usize),
    Right(usize),
}

#[derive(Debug)]
struct Aggregate {
    lowered: LoweredAggregate,
    /// Over the right columns; without a kernel over [`Aggregates::columns`].
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    filter: Option<Arc<dyn PhysicalExpr>>,
    types: Vec<DataType>,
    kernel: Option<Kernel>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kernel {
    Count,
    Sum,
    Mean,
    /// max where the flag says so, else min.
    Extreme(bool),
    Vwap,
    /// last where the flag says so, else first.
    Edge(bool),
}

impl Kernel {
    /// The kernel of an aggregate of right columns; `time` is where their time is among the columns of both.
    fn of(lowered: &LoweredAggregate, types: &[DataType], time: Option<usize>) -> Option<Self> {
        let LoweredAggregate { aggregate, filter, order_bys } = lowered;
        if aggregate.is_distinct() || aggregate.ignore_nulls() || !order_bys.is_empty() {
            return None;
        }
        let result = aggregate.field().data_type().clone();
        let same = types.first() == Some(&result);
        let ordered = matches!(
            result,
            DataType::Float64 | DataType::Int64 | DataType::Timestamp(TimeUnit::Nanosecond, _)
        );
        let added = matches!(result, DataType::Float64 | DataType::Int64 | DataType::UInt64);
        let arguments = aggregate.expressions();
        let by_time = || {
            let last = arguments.last().and_then(|argument| argument.downcast_ref::<Column>());
            time.is_some() && last.map(Column::index) == time && filter.is_none()
        };
        match (aggregate.fun().name(), types) {
            ("count", [_]) => Some(Kernel::Count),
            ("sum", [_]) if same && added => Some(Kernel::Sum),
            ("avg", [DataType::Float64 | DataType::Int64 | DataType::UInt64]) => Some(Kernel::Mean),
            ("min", [_]) if same && ordered => Some(Kernel::Extreme(false)),
            ("max", [_]) if same && ordered => Some(Kernel::Extreme(true)),
            ("vwap", [DataType::Float64, DataType::Float64]) => Some(Kernel::Vwap),
            ("first", [_, _]) if by_time() => Some(Kernel::Edge(false)),
            ("last", [_, _]) if by_time() => Some(Kernel::Edge(true)),
            _ => None,
        }
    }
}

impl Aggregates {
    /// Aggregates over `pairs`, the `left_width` left columns and then the right ones, which are at
    /// `right_columns` of the right side; `time` is where the right side's time is among the columns of both.
    ///
    /// # Errors
    /// For an aggregate that needs its rows in another order than that of time.
    pub(super) fn try_new(
        lowered: Vec<LoweredAggregate>,
        pairs: &Schema,
        left_width: usize,
        right_columns: &[usize],
        time: Option<usize>,
    ) -> Result<Self> {
        let (mut columns, mut of) = (Vec::new(), Vec::with_capacity(lowered.len()));
        let side = |at: usize| match at.checked_sub(left_width) {
            None => SideColumn::Left(at),
            Some(right) => SideColumn::Right(right_columns.get(right).copied().unwrap_or(usize::MAX)),
        };
        for lowered in lowered {
            if lowered.aggregate.order_sensitivity().hard_requires() {
                return plan_err!(
                    "the rows of a WINDOW JOIN are in order of time: {} cannot have them in another",
                    lowered.aggregate.fun().name()
                );
            }
            let mut arguments = lowered.aggregate.expressions();
            arguments.extend(lowered.order_bys.iter().map(|order| Arc::clone(&order.expr)));
            let types =
                arguments.iter().map(|argument| argument.data_type(pairs)).collect::<Result<Vec<_>>>()?;
            let reads: Vec<usize> = arguments
                .iter()
                .chain(&lowered.filter)
                .flat_map(|expr| collect_columns(expr).into_iter().map(|column| column.index()))
                .collect();
            let right_only = reads.iter().all(|at| *at >= left_width);
            let kernel = if right_only { Kernel::of(&lowered, &types, time) } else { None };
            let mut place = |at: usize| match (side(at), kernel) {
                (SideColumn::Right(right), Some(_)) => right,
                (column, _) => columns.iter().position(|known| *known == column).unwrap_or_else(|| {
                    columns.push(column);
                    columns.len() - 1
                }),
            };
            if matches!(kernel, Some(Kernel::Edge(_))) {
                arguments.truncate(1);
            }
            let arguments = arguments.iter().map(|expr| moved(expr, &mut place)).collect::<Result<_>>()?;
            let filter = lowered.filter.as_ref().map(|expr| moved(expr, &mut place)).transpose()?;
            of.push(Aggregate { lowered, arguments, filter, types, kernel });
        }
        let fields = columns.iter().map(|column| {
            let at = match column {
                SideColumn::Left(at) => *at,
                SideColumn::Right(at) => {
                    left_width + right_columns.iter().position(|right| right == at).unwrap_or(usize::MAX)
                }
            };
            pairs.field(at).clone()
        });
        let narrow = Some(Arc::new(Schema::new(fields.collect::<Vec<_>>())));
        Ok(Self { of, columns, narrow })
    }

    /// The expressions that are evaluated.
    pub(in crate::operators) fn exprs(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        self.of.iter().flat_map(|of| of.arguments.iter().chain(&of.filter))
    }

    /// Their names.
    pub(in crate::operators) fn names(&self) -> Vec<&str> {
        self.of.iter().map(|of| of.lowered.aggregate.name()).collect()
    }

    /// The value of each aggregate for each left row.
    pub(super) fn evaluate(&self, matched: &Matched, windows: &Windows) -> Result<Vec<ArrayRef>> {
        let mut others = self.others(matched, windows)?.into_iter();
        let right = &matched.right.batch;
        let each = self.of.iter().map(|of| match of.kernel {
            Some(kernel) => of.by_kernel(kernel, right, windows),
            None => match others.next() {
                Some(values) => Ok(values),
                None => internal_err!("an aggregate was not evaluated"),
            },
        });
        each.collect()
    }

    /// The values of the aggregates without kernels.
    fn others(&self, matched: &Matched, windows: &Windows) -> Result<Vec<ArrayRef>> {
        let others: Vec<&Aggregate> = self.of.iter().filter(|of| of.kernel.is_none()).collect();
        if others.is_empty() {
            return Ok(Vec::new());
        }
        let mut results: Vec<Vec<ArrayRef>> = vec![Vec::new(); others.len()];
        let rows: Vec<(usize, usize)> = windows.rows().collect();
        let mut first = 0;
        while first < rows.len() {
            let (mut end, mut pairs) = (first, 0);
            while end < rows.len() && end - first < WINDOWS_MAX && (end == first || pairs < PAIRS_MAX) {
                pairs += rows[end].1 - rows[end].0;
                end += 1;
            }
            let mut states = others.iter().map(|of| of.accumulator()).collect::<Result<Vec<_>>>()?;
            self.feed(&others, &mut states, matched, (first, &rows[first..end]))?;
            for (state, results) in states.iter_mut().zip(&mut results) {
                results.push(state.evaluate(EmitTo::All)?);
            }
            first = end;
        }
        let joined = results.into_iter().zip(&others).map(|(results, of)| {
            let arrays: Vec<&dyn Array> = results.iter().map(AsRef::as_ref).collect();
            match arrays.as_slice() {
                [] => Ok(new_null_array(of.lowered.aggregate.field().data_type(), 0)),
                arrays => Ok(concat(arrays)?),
            }
        });
        joined.collect()
    }

    /// Gives accumulators the rows of some left rows' windows, the `n`th of which is their group `n`.
    fn feed(
        &self,
        others: &[&Aggregate],
        states: &mut [Box<dyn GroupsAccumulator>],
        matched: &Matched,
        (first, windows): (usize, &[(usize, usize)]),
    ) -> Result<()> {
        let groups = windows.len();
        // One row that does not count tells of all groups, also where none has rows.
        for (of, state) in others.iter().zip(states.iter_mut()) {
            let nothing: Vec<ArrayRef> = of.types.iter().map(|of| new_null_array(of, 1)).collect();
            let none = BooleanArray::from(vec![false]);
            state.update_batch(&nothing, &[groups - 1], Some(&none), groups)?;
        }
        let mut pairs = windows
            .iter()
            .enumerate()
            .flat_map(|(group, (start, end))| (*start..*end).map(move |right| (group, right)));
        loop {
            let some: Vec<(usize, usize)> = pairs.by_ref().take(PAIRS_MAX).collect();
            if some.is_empty() {
                return Ok(());
            }
            let left: UInt32Array =
                some.iter().map(|(group, _)| (first + group) as u32).collect::<Vec<_>>().into();
            let right: UInt32Array = some.iter().map(|(_, right)| *right as u32).collect::<Vec<_>>().into();
            let columns = self.columns.iter().map(|column| {
                Ok(match column {
                    SideColumn::Left(at) => take(matched.left.batch.column(*at), &left, None)?,
                    SideColumn::Right(at) => take(matched.right.batch.column(*at), &right, None)?,
                })
            });
            let Some(narrow) = &self.narrow else { return internal_err!("a WINDOW JOIN without a schema") };
            let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
            let batch = batch_of(narrow, columns, some.len())?;
            let ids: Vec<usize> = some.iter().map(|(group, _)| *group).collect();
            for (of, state) in others.iter().zip(states.iter_mut()) {
                let values = of.values(&batch)?;
                let filter = of.filter(&batch)?;
                state.update_batch(&values, &ids, filter.as_ref(), groups)?;
            }
        }
    }
}

/// An expression with each column at another place.
fn moved(
    expr: &Arc<dyn PhysicalExpr>,
    place: &mut dyn FnMut(usize) -> usize,
) -> Result<Arc<dyn PhysicalExpr>> {
    let replace = |expr: Arc<dyn PhysicalExpr>| {
        Ok(match expr.downcast_ref::<Column>() {
            Some(column) => Transformed::yes(
                Arc::new(Column::new(column.name(), place(column.index()))) as Arc<dyn PhysicalExpr>
            ),
            None => Transformed::no(expr),
        })
    };
    Arc::clone(expr).transform_up(replace).data()
}

impl Aggregate {
    fn accumulator(&self) -> Result<Box<dyn GroupsAccumulator>> {
        accumulator(&self.lowered.aggregate)
    }

    fn values(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let rows = batch.num_rows();
        self.arguments.iter().map(|argument| argument.evaluate(batch)?.into_array(rows)).collect()
    }

    fn filter(&self, batch: &RecordBatch) -> Result<Option<BooleanArray>> {
        let Some(filter) = &self.filter else { return Ok(None) };
        Ok(Some(filter.evaluate(batch)?.into_array(batch.num_rows())?.as_boolean().clone()))
    }

    fn by_kernel(&self, kernel: Kernel, right: &RecordBatch, windows: &Windows) -> Result<ArrayRef> {
        if let Kernel::Edge(last) = kernel {
            return self.edge(last, right, windows);
        }
        let literal = |expr: &Arc<dyn PhysicalExpr>| {
            expr.downcast_ref::<Literal>().is_some_and(|literal| !literal.value().is_null())
        };
        // count(*) counts a literal.
        let of_rows = kernel == Kernel::Count && self.arguments.iter().all(literal);
        let values = if of_rows { Vec::new() } else { self.values(right)? };
        let valid = self.valid(&values, right)?;
        Ok(match (kernel, values.as_slice()) {
            (Kernel::Count, _) => {
                let counts = Counts::new(valid.as_ref());
                Arc::new(Int64Array::from_iter_values(
                    windows.rows().map(|(a, b)| counts.within(a, b) as i64),
                ))
            }
            (Kernel::Sum | Kernel::Mean, [values]) if values.data_type().is_integer() => {
                let sums = match values.data_type() {
                    DataType::UInt64 => whole_sums::<UInt64Type>(values, valid.as_ref(), windows),
                    _ => whole_sums::<Int64Type>(values, valid.as_ref(), windows),
                };
                if kernel == Kernel::Sum {
                    let name = self.lowered.aggregate.name();
                    return finished(name, sums.into_iter(), values.data_type());
                }
                let means = sums.into_iter().map(|(sum, count)| (count > 0).then(|| mean(sum, count)));
                Arc::new(means.collect::<Float64Array>())
            }
            (Kernel::Sum, [values]) => summed(values, valid.as_ref(), windows),
            (Kernel::Mean, [values]) => {
                let fold = Fold { identity: 0.0, join: |a, b| a + b };
                folded::<Float64Type>(values, valid.as_ref(), windows, &fold, |sum, count| sum / count as f64)
            }
            (Kernel::Extreme(largest), [values]) => extreme(values, valid.as_ref(), windows, largest),
            (Kernel::Vwap, [prices, sizes]) => vwap(prices, sizes, valid.as_ref(), windows),
            _ => return internal_err!("{} has no such arguments", self.lowered.aggregate.name()),
        })
    }

    /// Which right rows count; `None` where all do.
    fn valid(&self, values: &[ArrayRef], right: &RecordBatch) -> Result<Option<BooleanBuffer>> {
        let filter = self.filter(right)?.map(|filter| match filter.nulls() {
            Some(nulls) => filter.values() & nulls.inner(),
            None => filter.values().clone(),
        });
        let nulls = values.iter().filter_map(|array| array.logical_nulls());
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0).map(NullBuffer::into_inner);
        Ok(filter.into_iter().chain(nulls).reduce(|a, b| &a & &b))
    }

    /// The value in the first or the last row, NULL or not.
    fn edge(&self, last: bool, right: &RecordBatch, windows: &Windows) -> Result<ArrayRef> {
        let [value] = self.values(right)?.try_into().unwrap_or_else(|_| [new_null_array(&DataType::Null, 0)]);
        let nulls: NullBuffer = windows.rows().map(|(start, end)| start < end).collect();
        let row = |(start, end): (usize, usize)| match (start < end, last) {
            (false, _) => 0,
            (true, true) => end as u32 - 1,
            (true, false) => start as u32,
        };
        let rows = UInt32Array::new(windows.rows().map(row).collect::<Vec<_>>().into(), Some(nulls));
        Ok(take(&value, &rows, None)?)
    }
}
