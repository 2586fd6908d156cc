//! Windows see rows of equal keys in the order in which they came.
//!
//! DataFusion's sort puts rows of equal keys in any order. Where a window goes by time, that of arrival is promised: the
//! rows are numbered where they come from, and their numbers are the last key of the sort.
//!
//! ```text
//! window -> SortExec [symbol, ts]  ->  window -> ProjectionExec -> SortExec [symbol, ts, number] -> NumberedExec
//! ```

use super::exec::{Core, Operator, known, operator};
use super::recompute;
use super::rules::NodeRule;
use super::window::sorted::SortedWindowExec;
use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::equivalence::ProjectionMapping;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, ChildrenPropertiesMode};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;

/// Numbers of an output begin with its own, so far to the left.
const OUTPUT_BITS: u32 = 40;

/// Must run after the rules that look for a sort below a window.
pub(super) const ORDER_OF_ARRIVAL: NodeRule = NodeRule::up("order_of_arrival", |plan| {
    let is_window =
        plan.is::<SortedWindowExec>() || plan.is::<BoundedWindowAggExec>() || plan.is::<WindowAggExec>();
    let [input] = plan.children()[..] else { return Ok(None) };
    match input.downcast_ref::<SortExec>().filter(|_| is_window) {
        Some(sort) => match stable(sort)? {
            Some(sorted) => Arc::clone(plan).replace_children(vec![sorted], recompute()).map(Some),
            None => Ok(None),
        },
        None => Ok(None),
    }
});

/// A sort by time that keeps the order of arrival; `None` where it is none.
fn stable(sort: &SortExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let schema = sort.schema();
    let by_time = |key: &PhysicalSortExpr| matches!(key.expr.data_type(&schema), Ok(DataType::Timestamp(..)));
    if sort.fetch().is_some() || !sort.expr().iter().any(by_time) {
        return Ok(None);
    }
    let numbered = numbered(sort.input())?;
    let width = schema.fields().len();
    let number: Arc<dyn PhysicalExpr> = Arc::new(Column::new(numbered.schema().field(width).name(), width));
    let last = PhysicalSortExpr::new(number, SortOptions::default());
    let keys = LexOrdering::new(sort.expr().iter().cloned().chain([last]));
    let Some(keys) = keys else { return Ok(None) };
    let sorted = SortExec::new(keys, numbered).with_preserve_partitioning(sort.preserve_partitioning());
    let column = |(at, field): (usize, &Arc<Field>)| {
        ProjectionExpr::new(Arc::new(Column::new(field.name(), at)) as _, field.name().clone())
    };
    let columns = schema.fields().iter().enumerate().map(column);
    Ok(Some(Arc::new(ProjectionExec::try_new(columns, Arc::new(sorted))?)))
}

/// The rows with their numbers, given where they come from: nodes that deal rows round mix them.
fn numbered(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if plan.is::<RepartitionExec>() || plan.is::<CoalescePartitionsExec>() {
        let inputs = plan.children().into_iter().map(numbered).collect::<Result<Vec<_>>>()?;
        return Arc::clone(plan).replace_children(inputs, recompute());
    }
    Ok(Arc::new(NumberedExec::new(Arc::clone(plan))?))
}

/// The rows of its input, each with its place among them.
#[derive(Debug, Clone)]
pub(super) struct NumberedExec {
    core: Core,
}

impl NumberedExec {
    fn new(input: Arc<dyn ExecutionPlan>) -> Result<Self> {
        let schema = input.schema();
        let places: Vec<usize> = (0..schema.fields().len()).collect();
        let same = ProjectionMapping::from_indices(&places, &schema)?;
        let number = Arc::new(Field::new("__arrival", DataType::UInt64, false));
        let fields: Vec<Arc<Field>> = schema.fields().iter().cloned().chain([number]).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        let outputs = input.properties().partitioning.partition_count();
        let equivalences = input.equivalence_properties().project(&same, schema);
        let properties = known(equivalences, outputs, input.properties().emission_type);
        Ok(Self { core: Core::new([input], properties) })
    }
}

operator!(NumberedExec);

impl Operator for NumberedExec {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NumberedExec: in order of arrival")
    }

    fn keeps_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn moved(self, known: ChildrenPropertiesMode) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(match known {
            ChildrenPropertiesMode::Keep => self,
            ChildrenPropertiesMode::Recompute => {
                let [input] = self.core.inputs;
                Self::new(input)?
            }
        }))
    }

    fn run(&self, output: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (schema, mut next) = (self.schema(), (output as u64) << OUTPUT_BITS);
        let number = move |batch: Result<RecordBatch>| {
            let batch = batch?;
            let rows = batch.num_rows() as u64;
            let numbers: ArrayRef = Arc::new(UInt64Array::from_iter_values(next..next + rows));
            next += rows;
            let columns = batch.columns().iter().cloned().chain([numbers]).collect();
            Ok(RecordBatch::try_new(Arc::clone(&schema), columns)?)
        };
        Ok(self.stream(self.core.input().execute(output, context)?.map(number)))
    }

    fn effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn statistics(&self, inputs: &[Arc<Statistics>]) -> Statistics {
        self.as_many_rows(inputs)
    }
}
