//! Operators that make many batches without reading from others give way now and then, as scans do: a query over one
//! of them ends when it is cancelled in the midst of it, and does not keep a thread to itself.
//!
//! Between two batches [`GiveWayExec`] looks. A join that may pair any number of rows before it yields a batch takes
//! those of one side in pieces of a turn each ([`PacedExec`]). Inside a piece the condition of a join looks ([`Heeded`]),
//! which is asked for some thousand pairs of rows at a time, also where none of them fulfils it; and while the table of a
//! hash join is made its keys do, which are worked out once more for each batch. Such keys are no columns to the optimizer,
//! so that the node above says what the join was before ([`GiveWayExec::shown`]).
//!
//! Above a scan of Parquet files, whose reader checks less than it relies on, a panic is an error that names the files.

use super::expr::{InPlace, in_place};
use super::known;
use super::paced::PacedExec;
use super::rules::NodeRule;
use crate::error::QueryError;
use crate::facts;
use crate::paths::ReadFrom;
use crate::wanted;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinType, Result, ScalarValue, Statistics};
use datafusion::datasource::physical_plan::{FileScanConfig, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::DataFusionError;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::EmptyRecordBatchStream;
use datafusion::physical_plan::coop::{CooperativeExec, make_cooperative};
use datafusion::physical_plan::execution_plan::{
    ChildrenPropertiesMode, ReplaceChildrenOptions, SchedulingType,
};
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder, PartitionMode, SortMergeJoinExec,
};
use datafusion::physical_plan::projection::{ProjectionExec, make_with_child};
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{Stream, StreamExt};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Must run after all rules that look for these nodes.
pub(super) const GIVE_WAY: NodeRule = NodeRule::up("give_way", |plan| {
    // DataFusion's own nodes that only yield, above leaves; scans give way by themselves.
    if let Some(leaf) = plan.downcast_ref::<CooperativeExec>() {
        let ours = crate::scan::ScanExec::with_any_condition(leaf.input()).is_some();
        return Ok((!ours).then(|| Arc::new(GiveWayExec::new(Arc::clone(leaf.input()), None)) as _));
    }
    if parquet_scan(plan).is_some() {
        return Ok(Some(Arc::new(GiveWayExec::new(Arc::clone(plan), None))));
    }
    match facts::node(plan.name()).is_some_and(|node| node.is_tireless()) {
        true => Ok(Some(Arc::new(heeding(plan)?))),
        false => Ok(None),
    }
});

/// Yields what its input does, and looks before each batch whether it is wanted and whether its turn is over.
#[derive(Debug, Clone)]
pub(crate) struct GiveWayExec {
    input: Arc<dyn ExecutionPlan>,
    /// The node as it was before its expressions came to look, where that changes what is known of its rows. It is
    /// never run.
    shown: Option<Arc<dyn ExecutionPlan>>,
    /// Whether less is known of its rows than the node below says.
    is_bare: bool,
    properties: Arc<PlanProperties>,
}

impl GiveWayExec {
    /// Above a node, which is `shown` in another form where that says more of its rows.
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, shown: Option<Arc<dyn ExecutionPlan>>) -> Self {
        let properties = PlanProperties::clone(shown.as_ref().unwrap_or(&input).properties());
        let properties = Arc::new(properties.with_scheduling_type(SchedulingType::Cooperative));
        Self { input, shown, is_bare: false, properties }
    }

    /// Above a node that is wrong in what it says of its rows, or a projection of them ([`known`]).
    pub(super) fn bare(input: Arc<dyn ExecutionPlan>) -> Self {
        let of = input.properties();
        let (certain, partitions) = known::certain(&input);
        let properties = PlanProperties::new(certain, partitions, of.emission_type, of.boundedness);
        let properties = Arc::new(properties.with_scheduling_type(SchedulingType::Cooperative));
        Self { input, shown: None, is_bare: true, properties }
    }

    /// The node that gives way; `None` where it stands there for what is known of its rows.
    pub(super) fn giving(&self) -> Option<&Arc<dyn ExecutionPlan>> {
        (!self.is_bare).then(|| self.shown.as_ref().unwrap_or(&self.input))
    }
}

impl DisplayAs for GiveWayExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GiveWayExec")
    }
}

impl ExecutionPlan for GiveWayExec {
    fn name(&self) -> &'static str {
        "GiveWayExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        // No sort is carried below: it would be taken for done there.
        vec![!self.is_bare]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.swap_remove(0);
        if self.is_bare {
            return Ok(Arc::new(Self::bare(input)));
        }
        let below = || input.children().into_iter().map(Arc::clone).collect();
        let shown = self.shown.as_ref().map(|shown| Arc::clone(shown).replace_children(below(), options));
        Ok(Arc::new(Self::new(input, shown.transpose()?)))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, super::recompute())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, context)?;
        let files = parquet_files(&self.input, partition);
        Ok(make_cooperative(Box::pin(GivesWay { rows, files })))
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        // Joins take projections in.
        let below = || make_with_child(projection, &self.input);
        Ok(if self.is_bare { Some(Arc::new(Self::bare(below()?)) as _) } else { None })
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&inputs[0]))
    }
}

struct GivesWay {
    rows: SendableRecordBatchStream,
    /// The Parquet files that they are read from, where they are.
    files: Option<String>,
}

/// The scan of Parquet files that a leaf is.
fn parquet_scan(leaf: &Arc<dyn ExecutionPlan>) -> Option<&FileScanConfig> {
    let (scan, _) = leaf.downcast_ref::<DataSourceExec>()?.downcast_to_file_source::<ParquetSource>()?;
    Some(scan)
}

/// The Parquet files that a leaf reads in a partition, in words; `None` where it reads none.
fn parquet_files(leaf: &Arc<dyn ExecutionPlan>, partition: usize) -> Option<String> {
    let files = parquet_scan(leaf)?.file_groups.get(partition)?.iter();
    let names: Vec<String> =
        files.filter_map(|file| Some(file.extension::<ReadFrom>()?.0.display().to_string())).collect();
    Some(match &names[..] {
        [one] => one.clone(),
        names => format!("one of {}", names.join(", ")),
    })
}

impl Stream for GivesWay {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Err(over) = ready!(wanted::give_way(context)) {
            return Poll::Ready(Some(Err(over)));
        }
        let Some(files) = self.files.clone() else { return self.rows.poll_next_unpin(context) };
        // What it leaves half done goes with it.
        catch_unwind(AssertUnwindSafe(|| self.rows.poll_next_unpin(context))).unwrap_or_else(|panic| {
            self.rows = Box::pin(EmptyRecordBatchStream::new(self.rows.schema()));
            let damaged = QueryError::of_damaged_file(&files, panic.as_ref());
            Poll::Ready(Some(Err(DataFusionError::External(Box::new(damaged)))))
        })
    }
}

impl RecordBatchStream for GivesWay {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}

/// A join that takes the rows it looks up in pieces, where it may pair many and yield few.
fn paced(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let loops = plan.is::<NestedLoopJoinExec>()
        || plan
            .downcast_ref::<HashJoinExec>()
            .is_some_and(|join| join.filter().is_some() || !yields_pairs(join));
    let [left, right] = plan.children()[..] else { return Ok(Arc::clone(plan)) };
    if !loops || right.is::<PacedExec>() {
        return Ok(Arc::clone(plan));
    }
    let sides = vec![Arc::clone(left), Arc::new(PacedExec::new(Arc::clone(right))) as _];
    Arc::clone(plan).replace_children(sides, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep))
}

/// Whether a join yields each pair of rows that it finds: a semi join may find any number of them and yield none.
fn yields_pairs(join: &HashJoinExec) -> bool {
    matches!(join.join_type(), JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full)
}

/// A node that gives way; a join looks while it works on one batch too.
fn heeding(plan: &Arc<dyn ExecutionPlan>) -> Result<GiveWayExec> {
    let plan = &paced(plan)?;
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        let filter = condition(join.filter(), true);
        let join = NestedLoopJoinExecBuilder::from(join).with_filter(filter).build()?;
        return Ok(GiveWayExec::new(Arc::new(join), None));
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let filter = condition(join.filter(), !yields_pairs(join) && !join.null_aware);
        let builder = join.builder().with_filter(filter);
        if *join.partition_mode() != PartitionMode::CollectLeft {
            // Its sides are dealt out by the keys as they are, and it asks for that when it is run.
            return Ok(GiveWayExec::new(builder.build_exec()?, None));
        }
        let looks = |(left, right): &(_, _)| (Heeded::of(Arc::clone(left)), Arc::clone(right));
        let keys = join.on().iter().map(looks).collect();
        return Ok(GiveWayExec::new(builder.with_on(keys).build_exec()?, Some(Arc::clone(plan))));
    }
    if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>()
        && join.filter().is_some()
    {
        let (left, right) = (Arc::clone(join.left()), Arc::clone(join.right()));
        let (filter, on) = (condition(join.filter().as_ref(), false), join.on().to_vec());
        let (options, nulls) = (join.sort_options().to_vec(), join.null_equality());
        let join = SortMergeJoinExec::try_new(left, right, on, filter, join.join_type(), options, nulls)?;
        return Ok(GiveWayExec::new(Arc::new(join), None));
    }
    if let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>() {
        // Of rows that are equal in the order those of the first input come first, as they arrived. DataFusion 55.2 lets
        // inputs take turns, and forgets that it should not where a node gets another input.
        let merge = merge.clone().with_round_robin_repartition(false);
        return Ok(GiveWayExec::new(Arc::new(merge), None));
    }
    Ok(GiveWayExec::new(Arc::clone(plan), None))
}

/// The condition of a join, which looks; with `always`, also where it has none.
fn condition(filter: Option<&JoinFilter>, always: bool) -> Option<JoinFilter> {
    if let Some(filter) = filter {
        let looks = Heeded::of(Arc::clone(filter.expression()));
        return Some(JoinFilter::new(looks, filter.column_indices().to_vec(), Arc::clone(filter.schema())));
    }
    let holds = Literal::new(ScalarValue::Boolean(Some(true)));
    always.then(|| JoinFilter::new(Heeded::of(Arc::new(holds)), Vec::new(), Arc::new(Schema::empty())))
}

/// An expression that looks, each time it is evaluated, whether its statement is wanted.
#[derive(Debug)]
struct Heeded(Arc<dyn PhysicalExpr>);

impl Heeded {
    fn of(expr: Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
        Arc::new(Self(expr))
    }
}

in_place!(Heeded);

impl InPlace for Heeded {
    fn original(&self) -> &Arc<dyn PhysicalExpr> {
        &self.0
    }

    fn work_out(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        wanted::look()?;
        self.0.evaluate(batch)
    }

    fn over(&self, mut below: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Self::of(below.swap_remove(0)))
    }
}
