//! Windows over rows that come in the order of their partitions and of each partition's order, from any input: the
//! kernels of series in the place of functions that are called row by row.
//!
//! Rows are held until what their results hang on ([`Sight`]) has come, and then until no later one hangs on them. Where
//! there is no memory to hold them, DataFusion's node takes over from the first of them on.

use super::exec::Stage;
use super::frame::Sight;
use super::rule::windows_of;
use super::slices::{Order, evaluated, numbered};
use crate::error::from_arrow;
use crate::operators::TIME_ORDER;
use crate::operators::exec::{Core, Operator, operator};
use crate::operators::reduce::Pieces;
use crate::operators::sort::OnceExec;
use crate::scan::row_bytes;
use arrow_select::concat::concat_batches;
use datafusion::arrow::datatypes::{DataType, Schema, TimeUnit};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{OrderingRequirements, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::BaselineMetrics;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::BoundedWindowAggExec;
use datafusion::physical_plan::{
    EmptyRecordBatchStream, ExecutionPlan, InputDistributionRequirements, InputOrderMode, WindowExpr,
};
use futures::{StreamExt, TryStreamExt};
use std::fmt;
use std::sync::Arc;

/// Rows that are worked on at once, where no result hangs on more.
const ROWS_AT_ONCE: usize = if cfg!(test) { 16 } else { 61_440 };

/// So many times the rows that are held for those to come are waited for, so that a row is worked on about once.
const GROWTH: usize = 7;

/// Adds window functions to rows that come sorted by partition and order.
#[derive(Debug, Clone)]
pub(crate) struct SortedWindowExec {
    core: Core,
    /// DataFusion's node, which has the same input.
    node: Arc<dyn ExecutionPlan>,
    stage: Arc<Stage>,
    sight: Sight,
}

impl SortedWindowExec {
    /// In the place of a node of windows; `None` where its rows do not come sorted, or a function has no kernel.
    pub(super) fn of(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Self>> {
        let bounded = node.downcast_ref::<BoundedWindowAggExec>();
        let sorted = bounded.is_none_or(|node| node.input_order_mode == InputOrderMode::Sorted);
        let Some((windows, input)) = windows_of(node).filter(|_| sorted) else { return Ok(None) };
        let [first, rest @ ..] = windows else { return Ok(None) };
        let (partition, order) = (first.partition_by(), first.order_by());
        if rest.iter().any(|other| other.partition_by() != partition || other.order_by() != order) {
            return Ok(None);
        }
        let schema = input.schema();
        let partition = partition.iter().map(|key| (Arc::clone(key), None)).collect();
        let stage = Stage::new(windows, partition, order_of(order, &schema), (&schema, node.schema()))?;
        let Some(sight) = stage.sight() else { return Ok(None) };
        let core = Core::new([Arc::clone(input)], Arc::clone(node.properties()));
        Ok(Some(Self { core, node: Arc::clone(node), stage: Arc::new(stage), sight }))
    }
}

/// The order of rows that come sorted by `exprs`.
fn order_of(exprs: &[PhysicalSortExpr], schema: &Schema) -> Order {
    let time = |by: &PhysicalSortExpr| {
        let column = by.expr.downcast_ref::<Column>()?.index();
        let field = schema.fields().get(column)?;
        let is_time = matches!(field.data_type(), DataType::Timestamp(TimeUnit::Nanosecond, _));
        let ascends = by.options.descending == TIME_ORDER.descending;
        (is_time && ascends && !field.is_nullable()).then_some(column)
    };
    match exprs {
        [] => Order::Any,
        [by] => time(by).map_or_else(|| Order::Sorted(exprs.to_vec()), Order::Time),
        _ => Order::Sorted(exprs.to_vec()),
    }
}

operator!(SortedWindowExec);

impl Operator for SortedWindowExec {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SortedWindowExec: [{}]", self.stage.functions().collect::<Vec<_>>().join(", "))
    }

    fn distributions(&self) -> InputDistributionRequirements {
        self.node.input_distribution_requirements()
    }

    fn orders(&self) -> Vec<Option<OrderingRequirements>> {
        self.node.required_input_ordering()
    }

    fn keeps_order(&self) -> Vec<bool> {
        self.node.maintains_input_order()
    }

    fn wants_more_outputs(&self) -> Vec<bool> {
        self.node.benefits_from_input_partitioning()
    }

    fn exprs(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        let windows = windows_of(&self.node).map_or(&[][..], |(windows, _)| windows);
        let of_window = |window: &Arc<dyn WindowExpr>| {
            let exprs = window.all_expressions();
            exprs.args.into_iter().chain(exprs.partition_by_exprs).chain(exprs.order_by_exprs)
        };
        windows.iter().flat_map(of_window).collect()
    }

    fn moved(self, known: ChildrenPropertiesMode) -> Result<Arc<dyn ExecutionPlan>> {
        let inputs = self.core.inputs.to_vec();
        let node = Arc::clone(&self.node).replace_children(inputs, ReplaceChildrenOptions::new(known))?;
        if known == ChildrenPropertiesMode::Keep {
            return Ok(Arc::new(Self { node, ..self }));
        }
        Ok(match Self::of(&node)? {
            Some(exec) => Arc::new(exec),
            None => node,
        })
    }

    fn run(&self, output: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.core.input().execute(output, Arc::clone(&context))?;
        let batch_rows = context.session_config().batch_size().max(1);
        let run = Run {
            held: RecordBatch::new_empty(input.schema()),
            input,
            reservation: self.reservation(&context),
            metrics: self.core.baseline(output),
            exec: self.clone(),
            execution: (output, context),
            known: 0,
            arrived: Vec::new(),
            arrived_rows: 0,
            awaited_rows: batch_rows,
            batch_rows,
            ready: None,
            way: Way::Kernels,
        };
        let rows = futures::stream::try_unfold(run, |mut run| async move {
            Ok(run.next().await?.map(|batch| (batch, run)))
        });
        Ok(self.stream(rows))
    }
}

/// One partition of the plan.
struct Run {
    exec: SortedWindowExec,
    execution: (usize, Arc<TaskContext>),
    input: SendableRecordBatchStream,
    /// Rows whose results are not known, behind so many that they hang on.
    held: RecordBatch,
    known: usize,
    /// What has come since.
    arrived: Vec<RecordBatch>,
    arrived_rows: usize,
    /// How many are waited for.
    awaited_rows: usize,
    batch_rows: usize,
    /// Rows that have not been yielded.
    ready: Option<Pieces>,
    way: Way,
    reservation: MemoryReservation,
    metrics: BaselineMetrics,
}

enum Way {
    Kernels,
    /// DataFusion's rows, so many of which were yielded before.
    Theirs(SendableRecordBatchStream, usize),
    Done,
}

impl Run {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(rows) = self.ready.as_mut().and_then(Iterator::next) {
                self.metrics.record_output(rows.num_rows());
                return Ok(Some(rows));
            }
            match &mut self.way {
                Way::Done => return Ok(None),
                Way::Theirs(rows, skipped) => {
                    let Some(batch) = rows.try_next().await? else { return Ok(None) };
                    let skip = (*skipped).min(batch.num_rows());
                    *skipped -= skip;
                    let rows = batch.slice(skip, batch.num_rows() - skip);
                    self.ready = Some(Pieces::new(rows, self.batch_rows, ()));
                }
                Way::Kernels => match self.input.try_next().await? {
                    Some(batch) => self.take(batch)?,
                    None => {
                        self.work(true)?;
                        self.way = Way::Done;
                    }
                },
            }
        }
    }

    fn take(&mut self, batch: RecordBatch) -> Result<()> {
        self.arrived_rows += batch.num_rows();
        self.arrived.push(batch);
        // The rows, the same side by side, and with their results.
        let row = 2 * row_bytes(&self.held.schema()) + row_bytes(&self.exec.schema());
        if self.reservation.try_resize((self.held.num_rows() + self.arrived_rows) * row).is_err() {
            return self.give_up();
        }
        if self.arrived_rows >= self.awaited_rows { self.work(false) } else { Ok(()) }
    }

    /// Leaves what is held, and what comes, to DataFusion's node.
    fn give_up(&mut self) -> Result<()> {
        let schema = self.held.schema();
        let held = std::mem::replace(&mut self.held, RecordBatch::new_empty(Arc::clone(&schema)));
        let held = std::iter::once(held).chain(std::mem::take(&mut self.arrived)).map(Ok);
        let empty: SendableRecordBatchStream = Box::pin(EmptyRecordBatchStream::new(Arc::clone(&schema)));
        let rest = std::mem::replace(&mut self.input, empty);
        let rows = futures::stream::iter(held).chain(rest);
        let rows: SendableRecordBatchStream = Box::pin(RecordBatchStreamAdapter::new(schema, rows));
        let (partition, context) = &self.execution;
        let once = (0..*partition).map(|_| None).chain([Some(rows)]);
        let once = Arc::new(OnceExec::new(self.exec.core.input(), once));
        let node = Arc::clone(&self.exec.node).replace_children(vec![once], super::super::recompute())?;
        self.way = Way::Theirs(node.execute(*partition, Arc::clone(context))?, self.known);
        self.reservation.free();
        Ok(())
    }

    /// Finds the results of all rows that can be known; `last`: no more come.
    fn work(&mut self, last: bool) -> Result<()> {
        crate::wanted::look()?;
        let _timer = self.metrics.elapsed_compute().timer();
        let held = std::iter::once(&self.held).filter(|held| held.num_rows() > 0);
        let rows = concat_batches(&self.held.schema(), held.chain(&self.arrived)).map_err(from_arrow)?;
        self.arrived.clear();
        self.arrived_rows = 0;
        let count = rows.num_rows();
        let ends = self.exec.stage.partition_ends(&rows)?;
        let start = if ends.len() > 1 { ends[ends.len() - 2] } else { 0 };
        let complete = if last { count } else { self.complete(&rows, start)? };
        if complete <= self.known {
            self.held = rows;
            self.awaited_rows = count.max(self.batch_rows);
            return Ok(());
        }
        let found = self.exec.stage.apply(&rows, &ends)?;
        let found = found.slice(self.known, complete - self.known);
        self.ready = Some(Pieces::new(found, self.batch_rows, ()));
        let from = match self.exec.sight.before {
            Some(before) => start.max(complete.saturating_sub(before)).min(complete),
            None => start,
        };
        self.held = rows.slice(from, count - from);
        self.known = complete - from;
        self.awaited_rows = (2 * self.awaited_rows).min(ROWS_AT_ONCE).max(GROWTH * self.known);
        Ok(())
    }

    /// Up to which row results are known, of rows whose last partition begins at `start` and may go on.
    fn complete(&self, rows: &RecordBatch, start: usize) -> Result<usize> {
        let count = rows.num_rows();
        let Some(after) = self.exec.sight.after else { return Ok(start) };
        let seen = count.saturating_sub(after);
        let peers = if self.exec.sight.peers { self.exec.stage.last_peers(rows, start)? } else { count };
        Ok(seen.min(peers).max(start))
    }
}

impl Stage {
    /// Where each partition of rows that come sorted ends.
    fn partition_ends(&self, rows: &RecordBatch) -> Result<Vec<usize>> {
        let count = rows.num_rows();
        if self.keys().next().is_none() || count == 0 {
            return Ok(vec![count]);
        }
        let numbers = numbered(&evaluated(self.keys(), rows)?, count)?;
        let mut ends: Vec<usize> = Vec::new();
        for alike in numbers.chunk_by(|a, b| a == b) {
            ends.push(ends.last().copied().unwrap_or(0) + alike.len());
        }
        Ok(ends)
    }

    /// Where the last rows begin, from `start` on, that are equal in the order.
    fn last_peers(&self, rows: &RecordBatch, start: usize) -> Result<usize> {
        let rows = rows.slice(start, rows.num_rows() - start);
        let exprs: Vec<_> = self.order().collect();
        if exprs.is_empty() || rows.num_rows() == 0 {
            return Ok(start);
        }
        let numbers = numbered(&evaluated(&exprs, &rows)?, rows.num_rows())?;
        let last = numbers.last();
        Ok(start + numbers.partition_point(|number| Some(number) < last))
    }
}
