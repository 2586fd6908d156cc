//! The operator that reads columns of the rows that are left.

use crate::operators::below::batch_of;
use crate::operators::exec::{Core, Operator, operator};
use crate::scan::{RowFetcher, ScanExec};
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef, UInt64Type};
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::equivalence::ProjectionMapping;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, ChildrenPropertiesMode};
use datafusion::physical_plan::metrics::RecordOutput;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;

/// Adds columns of a table to rows of it whose numbers the input has.
#[derive(Debug, Clone)]
pub(crate) struct LateColumnsExec {
    core: Core,
    /// The input's column of numbers.
    number: usize,
    /// The columns of the table.
    columns: Arc<[usize]>,
}

impl LateColumnsExec {
    /// Rows of `schema`: the columns of the input, of which `number` numbers the rows of a table, and `columns` of that.
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        number: usize,
        columns: Arc<[usize]>,
        schema: SchemaRef,
    ) -> Self {
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
        let properties = PlanProperties::new(equivalences, partitioning, emission, bounded);
        Self { core: Core::new([input], properties), number, columns }
    }

    /// What it reads.
    fn late_fields(&self) -> impl Iterator<Item = &Arc<Field>> {
        let fields = self.core.properties.eq_properties.schema().fields();
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

operator!(LateColumnsExec);

impl Operator for LateColumnsExec {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.late_fields().map(|field| field.name().as_str()).collect();
        write!(f, "LateColumnsExec: [{}]", names.join(", "))
    }

    fn keeps_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn moved(self, known: ChildrenPropertiesMode) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(match known {
            ChildrenPropertiesMode::Keep => self,
            ChildrenPropertiesMode::Recompute => {
                let (schema, [input]) = (self.schema(), self.core.inputs);
                Self::new(input, self.number, self.columns, schema)
            }
        }))
    }

    fn run(&self, output: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let fields: Vec<Arc<Field>> = self.late_fields().cloned().collect();
        let late = Arc::new(Schema::new(fields));
        let fetcher = numbering(self.core.input()).map(|scan| RowFetcher::new(scan, &self.columns, late));
        let (schema, number) = (self.schema(), self.number);
        let metrics = self.core.baseline(output);
        let with_columns = move |batch: Result<RecordBatch>| {
            let batch = batch?;
            let _timer = metrics.elapsed_compute().timer();
            let Some(fetcher) = &fetcher else {
                // Of what has no rows, planning may leave no scan.
                return match batch.num_rows() {
                    0 => Ok(RecordBatch::new_empty(Arc::clone(&schema))),
                    _ => internal_err!("LateColumnsExec has rows, and no scan with numbers below it"),
                };
            };
            let mut columns = batch.columns().to_vec();
            columns.append(&mut fetcher.fetch(batch.column(number).as_primitive::<UInt64Type>())?);
            Ok(batch_of(&schema, columns, batch.num_rows())?.record_output(&metrics))
        };
        let rows = self.core.input().execute(output, context)?.map(with_columns);
        Ok(self.stream(rows))
    }

    fn effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn statistics(&self, inputs: &[Arc<Statistics>]) -> Statistics {
        self.as_many_rows(inputs)
    }
}
