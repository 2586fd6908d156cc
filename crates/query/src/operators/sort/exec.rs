//! [`RadixSortExec`], and the rule that puts it in the place of DataFusion's sorts.

use super::once::OnceExec;
use super::radix::{self, Keyed, Narrow, Wide, has_keys, keys_of, values_of};
use crate::arrays::gather::gather;
use crate::error::from_arrow;
use crate::operators::below::batch_of;
use crate::operators::exec::{Core, Operator, operator};
use crate::operators::rules::NodeRule;
use crate::operators::workers;
use crate::scan::row_bytes;
use arrow_select::concat::concat_batches;
use datafusion::arrow::array::{Array, ArrayRef, DynComparator, RecordBatch, make_comparator};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::metrics::BaselineMetrics;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, InputDistributionRequirements};
use futures::{StreamExt, TryStreamExt};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// Fewer rows are sorted by one core.
const CORE_ROWS_MIN: usize = if cfg!(test) { 8 } else { 1 << 15 };
/// Keys that are looked at to find ranges of about as many rows.
const SAMPLES: usize = 256;

/// Must run after all rules that look for sorts.
pub(in crate::operators) const RADIX_SORTS: NodeRule =
    NodeRule::down("RadixSorts", |node| Ok(RadixSortExec::of(node).map(|sort| Arc::new(sort) as _)))
        .of_pipeline();

/// Yields rows in the order of a number and perhaps other keys after it.
#[derive(Debug, Clone)]
pub(crate) struct RadixSortExec {
    core: Core,
    /// DataFusion's nodes, over an input of this kind.
    theirs: Arc<dyn ExecutionPlan>,
    exprs: LexOrdering,
    /// Whether all partitions become one, else each is sorted by itself.
    merged: bool,
}

impl RadixSortExec {
    /// In the place of a sort, or of a merge of sorted partitions; `None` where only the first rows are wanted, or the
    /// first key is no number.
    fn of(node: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let merge = node.downcast_ref::<SortPreservingMergeExec>();
        let below = match merge {
            Some(merge) => merge.fetch().is_none().then(|| merge.input())?,
            None => node,
        };
        let sort = below.downcast_ref::<SortExec>().filter(|sort| sort.fetch().is_none())?;
        if merge.is_some_and(|merge| merge.expr() != sort.expr()) {
            return None;
        }
        let first = sort.expr().first();
        if !has_keys(&first.expr.data_type(&sort.schema()).ok()?) {
            return None;
        }
        // Many partitions become one in a merge only.
        let merged = merge.is_some() || !sort.preserve_partitioning();
        let core = Core::new([Arc::clone(sort.input())], Arc::clone(node.properties()));
        Some(Self { core, theirs: Arc::clone(node), exprs: sort.expr().clone(), merged })
    }

    /// DataFusion's nodes over another input.
    fn theirs_over(&self, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let recompute = super::super::recompute;
        match self.theirs.downcast_ref::<SortPreservingMergeExec>() {
            None => Arc::clone(&self.theirs).replace_children(vec![input], recompute()),
            Some(merge) => {
                let sort = Arc::clone(merge.input()).replace_children(vec![input], recompute())?;
                Arc::clone(&self.theirs).replace_children(vec![sort], recompute())
            }
        }
    }

    async fn sorted(
        self,
        partition: usize,
        context: Arc<TaskContext>,
        baseline: BaselineMetrics,
    ) -> Result<SendableRecordBatchStream> {
        let partitions = self.core.input().output_partitioning().partition_count();
        let inputs = if self.merged { 0..partitions } else { partition..partition + 1 };
        let reading = inputs.clone().map(|input| {
            let rows = self.core.input().execute(input, Arc::clone(&context))?;
            let reservation = self.reservation(&context);
            let (exprs, baseline) = (self.exprs.clone(), baseline.clone());
            Ok(Input::read(rows, exprs, reservation, baseline))
        });
        let reading = reading.collect::<Result<Vec<_>>>()?;
        let read = workers::all(reading).await?;
        let rows: usize = read.iter().map(Input::rows).sum();
        if read.iter().any(|input| input.rest.is_some()) || u32::try_from(rows).is_err() {
            let mut once: Vec<Option<SendableRecordBatchStream>> = (0..partitions).map(|_| None).collect();
            for (at, input) in inputs.zip(read) {
                once[at] = Some(input.again());
            }
            let once = Arc::new(OnceExec::new(self.core.input(), once));
            return self.theirs_over(once)?.execute(partition, context);
        }
        let batch_rows = context.session_config().batch_size().max(1);
        let rows = Arc::new(Rows::new(read, &self.exprs, self.schema())?);
        let most = if self.merged { context.session_config().target_partitions() } else { 1 };
        let ranges = rows.ranges((rows.count / CORE_ROWS_MIN).clamp(1, most.max(1)));
        let sorted = ranges.into_iter().map(|range| {
            let (rows, baseline) = (Arc::clone(&rows), baseline.clone());
            async move {
                let _timer = baseline.elapsed_compute().timer();
                let (order, values) = rows.sorted(&range)?;
                let starts = (0..order.len()).step_by(batch_rows);
                let batches = starts.map(|start| {
                    let some = start..order.len().min(start + batch_rows);
                    let values = values.as_ref().map(|values| values.slice(start, some.len()));
                    rows.batch(&order[some], values.as_ref())
                });
                Ok((batches.collect::<Result<Vec<_>>>()?, rows))
            }
        });
        let sorted = workers::started(sorted);
        let parts =
            futures::stream::iter(sorted).then(std::convert::identity).map_ok(move |(batches, rows)| {
                let baseline = baseline.clone();
                futures::stream::iter(batches).map(move |batch| {
                    // What is held stays accounted for until the last of it has left.
                    let _held = &rows;
                    baseline.record_output(batch.num_rows());
                    Ok(batch)
                })
            });
        Ok(self.stream(parts.try_flatten()))
    }
}

/// The rows of one input, as far as there was memory for them.
struct Input {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    /// The keys of each batch, and which rows have none.
    keys: Vec<(Vec<u64>, ArrayRef)>,
    rest: Option<SendableRecordBatchStream>,
    reservation: MemoryReservation,
}

impl Input {
    async fn read(
        mut rows: SendableRecordBatchStream,
        exprs: LexOrdering,
        reservation: MemoryReservation,
        baseline: BaselineMetrics,
    ) -> Result<Self> {
        let (schema, first) = (rows.schema(), exprs.first().clone());
        let (batches, keys) = (Vec::new(), Vec::new());
        let mut input = Self { schema, batches, keys, rest: None, reservation };
        // The rows, the same in one and in order, and twice their keys and places.
        let row = 3 * row_bytes(&input.schema) + 4 * size_of::<Wide>();
        while let Some(batch) = rows.try_next().await? {
            let _timer = baseline.elapsed_compute().timer();
            crate::wanted::look()?;
            let fits = input.reservation.try_grow(batch.num_rows() * row).is_ok();
            if fits {
                let values = first.expr.evaluate(&batch)?.into_array(batch.num_rows())?;
                let keys = keys_of(&values, first.options.descending);
                let keys =
                    keys.ok_or_else(|| internal_datafusion_err!("no keys of {}", values.data_type()))?;
                input.keys.push((keys, values));
            }
            input.batches.push(batch);
            if !fits {
                input.reservation.free();
                input.rest = Some(rows);
                break;
            }
        }
        Ok(input)
    }

    fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// All rows, those that were read first.
    fn again(self) -> SendableRecordBatchStream {
        let read = futures::stream::iter(self.batches.into_iter().map(Ok));
        let rest = futures::stream::iter(self.rest).flatten();
        Box::pin(RecordBatchStreamAdapter::new(self.schema, read.chain(rest)))
    }
}

/// All rows of all inputs.
struct Rows {
    /// By input.
    batches: Vec<RecordBatch>,
    /// Where the rows of each input begin among all.
    starts: Vec<usize>,
    count: usize,
    /// Rows with a key, by input.
    keyed: AllKeyed,
    /// The column that is the first key, its type, and whether it falls.
    by: (Option<usize>, DataType, bool),
    /// Rows whose first key is NULL.
    nulls: Vec<u32>,
    nulls_first: bool,
    /// Compares rows of two inputs (by the places of both) by the keys after the first.
    compared: Vec<Vec<DynComparator>>,
    schema: SchemaRef,
    _reservations: Vec<MemoryReservation>,
}

/// Rows with their keys, by input.
enum AllKeyed {
    Wide(Vec<Vec<Wide>>),
    /// Less the least key, where none is further from it than 32 bits say.
    Narrow(Vec<Vec<Narrow>>, u64),
}

/// Some of the rows, which are neighbours in the order.
enum Part {
    Nulls,
    /// Those with keys from one to another, both inside, less the least of all where they are narrow.
    Keys(u64, u64),
}

/// Rows in order, with the values of the first key where these are a column.
type InOrder = (Vec<u32>, Option<ArrayRef>);

impl Rows {
    fn new(inputs: Vec<Input>, exprs: &LexOrdering, schema: SchemaRef) -> Result<Self> {
        let count = inputs.iter().map(Input::rows).sum();
        let mut rows = Self {
            batches: Vec::with_capacity(inputs.len()),
            starts: Vec::with_capacity(inputs.len()),
            count,
            keyed: AllKeyed::Wide(Vec::new()),
            by: (None, DataType::Null, exprs.first().options.descending),
            nulls: Vec::new(),
            nulls_first: exprs.first().options.nulls_first,
            compared: Vec::new(),
            schema,
            _reservations: Vec::with_capacity(inputs.len()),
        };
        rows.by.1 = exprs.first().expr.data_type(&rows.schema)?;
        rows.by.0 = exprs.first().expr.downcast_ref::<Column>().map(Column::index);
        let keys = inputs.iter().flat_map(|input| &input.keys).flat_map(|(keys, _)| keys);
        let (least, most) = keys.fold((u64::MAX, 0), |(a, b), key| (a.min(*key), b.max(*key)));
        rows.keyed = match most.saturating_sub(least) <= u64::from(u32::MAX) {
            true => {
                let keyed = keyed(&inputs, &mut rows.nulls, |key, row| Narrow::new(key - least, row));
                AllKeyed::Narrow(keyed, least)
            }
            false => AllKeyed::Wide(keyed(&inputs, &mut rows.nulls, |key, row| (key, row))),
        };
        let mut next = 0;
        for input in inputs {
            rows.starts.push(next);
            next += input.rows();
            rows.batches.push(match input.batches.as_slice() {
                [only] => only.clone(),
                all => concat_batches(&input.schema, all).map_err(from_arrow)?,
            });
            rows._reservations.push(input.reservation);
        }
        rows.compared = rows.comparators(&exprs[1..])?;
        Ok(rows)
    }

    /// For each two inputs what compares their rows by `exprs`.
    fn comparators(&self, exprs: &[PhysicalSortExpr]) -> Result<Vec<Vec<DynComparator>>> {
        if exprs.is_empty() {
            return Ok(Vec::new());
        }
        let of = |batch: &RecordBatch| {
            let values = exprs.iter().map(|by| by.expr.evaluate(batch)?.into_array(batch.num_rows()));
            values.collect::<Result<Vec<ArrayRef>>>()
        };
        let columns = self.batches.iter().map(of).collect::<Result<Vec<_>>>()?;
        let mut all = Vec::with_capacity(columns.len() * columns.len());
        for left in &columns {
            for right in &columns {
                let each = left.iter().zip(right).zip(exprs);
                let each = each.map(|((left, right), by)| make_comparator(left, right, by.options));
                all.push(each.collect::<Result<Vec<_>, _>>().map_err(from_arrow)?);
            }
        }
        Ok(all)
    }

    /// Input and row there.
    fn place(&self, row: u32) -> (usize, usize) {
        let input = self.starts.partition_point(|start| *start <= row as usize) - 1;
        (input, row as usize - self.starts[input])
    }

    /// The order of rows that are equal in the first key.
    fn compare(&self, a: u32, b: u32) -> Ordering {
        let ((left, a), (right, b)) = (self.place(a), self.place(b));
        let compared = &self.compared[left * self.batches.len() + right];
        let orders = compared.iter().map(|compare| compare(a, b));
        orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    /// About so many parts of about as many rows, in order.
    fn ranges(&self, parts: usize) -> Vec<Part> {
        let step = (self.count / SAMPLES).max(1);
        let mut samples = match &self.keyed {
            AllKeyed::Wide(keyed) => every(keyed, step),
            AllKeyed::Narrow(keyed, _) => every(keyed, step),
        };
        samples.sort_unstable();
        let mut edges: Vec<u64> =
            (1..parts).filter_map(|at| samples.get(samples.len() * at / parts).copied()).collect();
        edges.dedup();
        edges.retain(|edge| *edge > 0);
        let mut from = 0;
        let mut ranges = Vec::with_capacity(edges.len() + 2);
        for edge in edges {
            ranges.push(Part::Keys(from, edge - 1));
            from = edge;
        }
        ranges.push(Part::Keys(from, u64::MAX));
        match (self.nulls.is_empty(), self.nulls_first) {
            (true, _) => {}
            (false, true) => ranges.insert(0, Part::Nulls),
            (false, false) => ranges.push(Part::Nulls),
        }
        ranges
    }

    /// The rows of a part in order.
    fn sorted(&self, part: &Part) -> Result<InOrder> {
        crate::wanted::look()?;
        let (from, to) = match part {
            Part::Nulls => {
                let mut rows = self.nulls.clone();
                if !self.compared.is_empty() {
                    rows.sort_by(|a, b| self.compare(*a, *b));
                }
                return Ok((rows, None));
            }
            Part::Keys(from, to) => (*from, *to),
        };
        Ok(match &self.keyed {
            AllKeyed::Wide(keyed) => self.sorted_keys(keyed, (from, to), 0),
            AllKeyed::Narrow(keyed, least) => self.sorted_keys(keyed, (from, to), *least),
        })
    }

    /// The rows with some of the keys in order; `least` was taken off each.
    fn sorted_keys<K: Keyed>(&self, keyed: &[Vec<K>], (from, to): (u64, u64), least: u64) -> InOrder {
        let all = keyed.iter().flatten();
        let keyed: Vec<K> = match (from, to) {
            (0, u64::MAX) => all.copied().collect(),
            (from, to) => all.filter(|row| (from..=to).contains(&row.key())).copied().collect(),
        };
        let mut keyed = radix::sort(keyed);
        if !self.compared.is_empty() {
            let alike = keyed.chunk_by_mut(|a, b| a.key() == b.key()).filter(|alike| alike.len() > 1);
            alike.for_each(|alike| alike.sort_by(|a, b| self.compare(a.row(), b.row())));
        }
        let (column, data_type, descending) = &self.by;
        let keys = keyed.iter().map(|row| row.key() + least);
        let values = column.and_then(|_| values_of(keys, data_type, *descending));
        (keyed.iter().map(|row| row.row()).collect(), values)
    }

    /// Rows; `values` are those of the first key, where it is a column.
    fn batch(&self, rows: &[u32], values: Option<&ArrayRef>) -> Result<RecordBatch> {
        let only = self.schema.fields().len() == 1 && values.is_some();
        let places: Vec<(usize, usize)> =
            if only { Vec::new() } else { rows.iter().map(|row| self.place(*row)).collect() };
        let columns = self.schema.fields().iter().enumerate().map(|(at, field)| {
            if let Some(values) = values.filter(|_| self.by.0 == Some(at)) {
                return Ok(Arc::clone(values));
            }
            let columns: Vec<&ArrayRef> = self.batches.iter().map(|batch| batch.column(at)).collect();
            gather(&columns, &places, field.data_type())
        });
        batch_of(&self.schema, columns.collect::<Result<_>>()?, rows.len())
    }
}

/// The rows with a key, by input; those without one are added to `nulls`.
fn keyed<K>(inputs: &[Input], nulls: &mut Vec<u32>, keyed: impl Fn(u64, u32) -> K) -> Vec<Vec<K>> {
    let mut next = 0;
    let mut of_input = |input: &Input| {
        let mut rows = Vec::with_capacity(input.rows());
        for (keys, values) in &input.keys {
            let missing = values.nulls().filter(|nulls| nulls.null_count() > 0);
            for (row, key) in keys.iter().enumerate() {
                match missing.is_some_and(|nulls| nulls.is_null(row)) {
                    true => nulls.push(next),
                    false => rows.push(keyed(*key, next)),
                }
                next += 1;
            }
        }
        rows
    };
    inputs.iter().map(&mut of_input).collect()
}

/// The keys of every so many rows.
fn every<K: Keyed>(keyed: &[Vec<K>], step: usize) -> Vec<u64> {
    keyed.iter().flat_map(|of| of.iter().step_by(step)).map(|row| row.key()).collect()
}

operator!(RadixSortExec);

impl Operator for RadixSortExec {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RadixSortExec: expr=[{}]", self.exprs)?;
        if self.merged { Ok(()) } else { f.write_str(", each partition") }
    }

    fn distributions(&self) -> InputDistributionRequirements {
        match self.theirs.downcast_ref::<SortPreservingMergeExec>() {
            Some(merge) => merge.input().input_distribution_requirements(),
            None => self.theirs.input_distribution_requirements(),
        }
    }

    fn exprs(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.exprs.iter().map(|by| Arc::clone(&by.expr)).collect()
    }

    fn moved(self, known: ChildrenPropertiesMode) -> Result<Arc<dyn ExecutionPlan>> {
        // Theirs gets its input when it is needed.
        if known == ChildrenPropertiesMode::Keep {
            return Ok(Arc::new(self));
        }
        let theirs = self.theirs_over(Arc::clone(self.core.input()))?;
        let core = Core { properties: Arc::clone(theirs.properties()), ..self.core };
        Ok(Arc::new(Self { core, theirs, ..self }))
    }

    fn run(&self, output: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let baseline = self.core.baseline(output);
        let rows = self.clone().sorted(output, context, baseline);
        Ok(self.stream(futures::stream::once(rows).try_flatten()))
    }
}
