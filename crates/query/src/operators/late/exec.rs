//! The operator that reads columns of the rows that are left.

use crate::error::from_arrow;
use crate::scan::{RowFetcher, ScanExec};
use datafusion::arrow::array::{AsArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef, UInt64Type};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_datafusion_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::equivalence::ProjectionMapping;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{Distribution, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    CardinalityEffect, ChildrenPropertiesMode, ReplaceChildrenOptions,
};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, InputDistributionRequirements,
    PlanProperties,
};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;

/// Adds columns of a table to rows of it whose numbers the input has.
#[derive(Debug, Clone)]
pub(crate) struct LateColumnsExec {
    input: Arc<dyn ExecutionPlan>,
    /// The input's column of numbers.
    number: usize,
    /// The columns of the table.
    columns: Arc<[usize]>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl LateColumnsExec {
    /// Rows of `schema`: the columns of the input, of which `number` numbers the rows of a table, and `columns` of that.
    pub(crate) fn try_new(
        input: Arc<dyn ExecutionPlan>,
        number: usize,
        columns: Vec<usize>,
        schema: SchemaRef,
    ) -> Result<Self> {
        let column = |at: usize, field: &Arc<Field>| {
            (Arc::new(Column::new(field.name(), at)) as Arc<dyn PhysicalExpr>, at)
        };
        // The columns of the input keep their places.
        let passed = input.schema();
        let passed = passed.fields().iter().enumerate().map(|(at, field)| column(at, field));
        let mapping: ProjectionMapping = passed.map(|of| (Arc::clone(&of.0), vec![of].into())).collect();
        let equivalences = input.equivalence_properties().project(&mapping, Arc::clone(&schema));
        let partitioning = input.output_partitioning().clone();
        let (emission, bounded) = (input.pipeline_behavior(), input.boundedness());
        let properties = Arc::new(PlanProperties::new(equivalences, partitioning, emission, bounded));
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Self { input, number, columns: columns.into(), properties, metrics })
    }

    /// What it reads.
    fn late_fields(&self) -> impl Iterator<Item = &Arc<Field>> {
        let fields = self.properties.eq_properties.schema().fields();
        fields.iter().skip(fields.len() - self.columns.len())
    }
}

/// The scan that numbers rows.
fn numbering(plan: &Arc<dyn ExecutionPlan>) -> Option<&ScanExec> {
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        let numbers = scan.selected().table.schema().columns().len();
        return scan.projection().contains(&numbers).then_some(scan);
    }
    plan.children().into_iter().find_map(numbering)
}

impl DisplayAs for LateColumnsExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.late_fields().map(|field| field.name().as_str()).collect();
        write!(f, "LateColumnsExec: [{}]", names.join(", "))
    }
}

impl ExecutionPlan for LateColumnsExec {
    fn name(&self) -> &'static str {
        "LateColumnsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::UnspecifiedDistribution])
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
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
        let (input, schema) = (children.swap_remove(0), self.schema());
        if options.children_properties == ChildrenPropertiesMode::Keep {
            let metrics = ExecutionPlanMetricsSet::new();
            return Ok(Arc::new(Self { input, metrics, ..Self::clone(&self) }));
        }
        Ok(Arc::new(Self::try_new(input, self.number, self.columns.to_vec(), schema)?))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, super::super::recompute())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let scan = numbering(&self.input)
            .ok_or_else(|| internal_datafusion_err!("LateColumnsExec has no scan with numbers below it"))?;
        let fields: Vec<Arc<Field>> = self.late_fields().cloned().collect();
        let fetcher = RowFetcher::new(scan, &self.columns, Arc::new(Schema::new(fields)));
        let (schema, number) = (self.schema(), self.number);
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let with_columns = move |batch: Result<RecordBatch>| {
            let batch = batch?;
            let _timer = metrics.elapsed_compute().timer();
            let mut columns = batch.columns().to_vec();
            columns.append(&mut fetcher.fetch(batch.column(number).as_primitive::<UInt64Type>())?);
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            let rows = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options);
            Ok(rows.map_err(from_arrow)?.record_output(&metrics))
        };
        let rows = self.input.execute(partition, context)?.map(with_columns);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        if let Some(input) = inputs.first() {
            statistics.num_rows = input.num_rows;
        }
        Ok(Arc::new(statistics))
    }
}
