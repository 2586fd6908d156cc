//! Projections and conditions whose functions may make far more than they read take fewer rows at a time.

use super::expr::{InPlace, in_place};
use super::rules::NodeRule;
use crate::functions::growth::{BROADCAST_BYTES, FREE_BYTES, PIECE_BYTES, growth_of, in_pieces};
use crate::operators::below::batch_of;
use datafusion::arrow::array::{Array, ArrayRef, RecordBatch};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{Stream, StreamExt};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Must run after all rules that look for projections and filters.
pub(super) const IN_PIECES: NodeRule = NodeRule::up("in_pieces", |plan| {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let growth: Vec<_> = projection.expr().iter().map(|of| growth_of(&of.expr)).collect();
        let broadcast = growth.iter().fold(0, |all: u64, (_, bytes)| all.saturating_add(*bytes));
        if growth.iter().any(|(grows, _)| *grows) || broadcast > BROADCAST_BYTES {
            return Ok(Some(Arc::new(PiecesExec::new(projection.clone(), broadcast))));
        }
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>()
        && is_large(filter.predicate())
    {
        let predicate = Arc::clone(filter.predicate()).transform_down(large_in_pieces)?;
        if predicate.transformed {
            let filter = FilterExecBuilder::from(filter).with_predicate(predicate.data);
            return Ok(Some(Arc::new(filter.build()?)));
        }
    }
    Ok(None)
});

/// Of what AND joins, the large ones in pieces. The brackets stay: thousands of conditions one below the other would be
/// as many calls of each other.
fn large_in_pieces(expr: Arc<dyn PhysicalExpr>) -> Result<Transformed<Arc<dyn PhysicalExpr>>> {
    if expr.downcast_ref::<BinaryExpr>().is_some_and(|both| *both.op() == Operator::And) {
        return Ok(Transformed::no(expr));
    }
    let large = is_large(&expr);
    let expr = if large { Piecewise::of(expr) } else { expr };
    Ok(Transformed::new(expr, large, TreeNodeRecursion::Jump))
}

/// Whether working an expression out makes values that are large beside those it is given.
pub(super) fn is_large(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let (grows, broadcast) = growth_of(expr);
    grows || broadcast > BROADCAST_BYTES
}

/// A projection that yields fewer rows at a time where they are large.
#[derive(Debug, Clone)]
pub(crate) struct PiecesExec {
    projection: ProjectionExec,
    /// Bytes of constants in each row.
    broadcast: u64,
    metrics: ExecutionPlanMetricsSet,
}

impl PiecesExec {
    fn new(projection: ProjectionExec, broadcast: u64) -> Self {
        Self { projection, broadcast, metrics: ExecutionPlanMetricsSet::new() }
    }

    /// Bytes of a piece, about. Whoever puts the rows of all partitions together holds a few pieces of each until they
    /// are read.
    fn bytes_max(&self) -> u64 {
        let partitions = self.projection.properties().output_partitioning().partition_count();
        (PIECE_BYTES / partitions.max(1) as u64).max(FREE_BYTES)
    }

    /// What it does.
    pub(crate) fn projection(&self) -> &ProjectionExec {
        &self.projection
    }
}

impl DisplayAs for PiecesExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.projection.fmt_as(format, f)
    }
}

impl ExecutionPlan for PiecesExec {
    fn name(&self) -> &'static str {
        "PiecesExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.projection.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.projection.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.projection.apply_expressions(f)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let replaced = Arc::new(self.projection.clone()).replace_children(children, options)?;
        Ok(match replaced.downcast_ref::<ProjectionExec>() {
            Some(projection) => Arc::new(Self::new(projection.clone(), self.broadcast)),
            None => replaced,
        })
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, super::recompute())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        Ok(Box::pin(Pieces {
            input: self.projection.input().execute(partition, context)?,
            exprs: self.projection.expr().iter().map(|of| Arc::clone(&of.expr)).collect(),
            schema: self.schema(),
            limits: (self.broadcast, self.bytes_max()),
            rest: None,
            metrics: BaselineMetrics::new(&self.metrics, partition),
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.projection.statistics_from_inputs(inputs, args)
    }
}

struct Pieces {
    input: SendableRecordBatchStream,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    schema: SchemaRef,
    /// Bytes of constants in each row, and the most of a piece.
    limits: (u64, u64),
    /// What is left of a batch.
    rest: Option<RecordBatch>,
    metrics: BaselineMetrics,
}

impl Pieces {
    /// The next rows of what is left.
    fn next(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let _timer = self.metrics.elapsed_compute().timer();
        let (rows, columns) = in_pieces(batch, self.limits, |piece| {
            let columns = self.exprs.iter().map(|expr| expr.evaluate(piece)?.into_array(piece.num_rows()));
            columns.collect::<Result<Vec<ArrayRef>>>()
        })?;
        self.rest = (rows < batch.num_rows()).then(|| batch.slice(rows, batch.num_rows() - rows));
        batch_of(&self.schema, columns, rows)
    }
}

impl Stream for Pieces {
    type Item = Result<RecordBatch>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if let Err(over) = ready!(crate::wanted::give_way(context)) {
            return Poll::Ready(Some(Err(over)));
        }
        let batch = match this.rest.take() {
            Some(rest) => rest,
            None => match ready!(this.input.poll_next_unpin(context)) {
                Some(Ok(batch)) => batch,
                ended => return Poll::Ready(ended),
            },
        };
        let made = this.next(&batch);
        Poll::Ready(Some(made.record_output(&this.metrics)))
    }
}

impl RecordBatchStream for Pieces {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// A condition that is found for fewer rows at a time where what it makes on the way is large.
#[derive(Debug)]
struct Piecewise(Arc<dyn PhysicalExpr>);

impl Piecewise {
    fn of(expr: Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
        Arc::new(Self(expr))
    }
}

in_place!(Piecewise);

impl InPlace for Piecewise {
    fn original(&self) -> &Arc<dyn PhysicalExpr> {
        &self.0
    }

    fn work_out(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let (_, broadcast) = growth_of(&self.0);
        let (mut found, mut done) = (Vec::new(), 0);
        while done < batch.num_rows() || found.is_empty() {
            crate::wanted::look()?;
            let rest = batch.slice(done, batch.num_rows() - done);
            let (rows, values) = in_pieces(&rest, (broadcast, PIECE_BYTES), |piece| {
                self.0.evaluate(piece)?.into_array(piece.num_rows())
            })?;
            done += rows;
            found.push(values);
        }
        let found: Vec<&dyn Array> = found.iter().map(AsRef::as_ref).collect();
        Ok(ColumnarValue::Array(concat(&found)?))
    }

    fn over(&self, mut below: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Self::of(below.swap_remove(0)))
    }
}
