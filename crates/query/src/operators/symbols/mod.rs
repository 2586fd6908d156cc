//! Groups by symbols: rows are grouped by numbers of their symbols, and groups get the symbols in their place.
//!
//! ```text
//! AggregateExec: by symbol, side      SymbolsExec: [symbol, side]
//!   input                        ->     AggregateExec: the groups of all inputs, by id(symbol), id(side)
//!                                         PartialGroupsExec: those of each
//!                                           input
//! ```
//!
//! Symbols of files, frames and joins come with a dictionary of their own in each stretch of rows. An aggregation would
//! take rows apart into texts and look each up; here a dictionary's symbols are looked up once ([`ids`]), and rows are
//! compared by number.

mod groups;
mod ids;

use super::below::batch_of;
use super::exec::{Core, Operator, known, operator};
use super::shared::Shared;
use crate::arrays::dictionaries::is_symbol;
use crate::settings::has_pipeline;
use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{SchemaRef, UInt32Type};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::execution_plan::{CardinalityEffect, ChildrenPropertiesMode};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::metrics::RecordOutput;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::tree_node::PlanContext;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, InputOrderMode};
use futures::StreamExt;
pub(crate) use groups::PartialGroupsExec;
use ids::{Slot, SymbolId, SymbolIds};
use std::fmt;
use std::sync::Arc;

/// Must run before partitions are dealt out, and after all rules that put something else in the place of an aggregation.
#[derive(Debug)]
pub(super) struct GroupSymbolsById;

impl PhysicalOptimizerRule for GroupSymbolsById {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !has_pipeline(config) {
            return Ok(plan);
        }
        // Whether a node's rows are asked for only as long as a LIMIT is not full.
        let replace = |mut node: PlanContext<bool>| {
            let limits = node.plan.downcast_ref::<GlobalLimitExec>().is_some()
                || node.plan.downcast_ref::<LocalLimitExec>().is_some()
                || node.data && node.plan.downcast_ref::<ProjectionExec>().is_some();
            for child in &mut node.children {
                child.data = limits;
            }
            let aggregate = node.plan.downcast_ref::<AggregateExec>();
            // The first values that are met fill a LIMIT of distinct ones.
            let aggregate = aggregate.filter(|of| !(node.data && of.aggr_expr().is_empty()));
            let by_ids = aggregate.map(by_ids).transpose()?.flatten();
            Ok(match by_ids {
                Some(by_ids) => Transformed::yes(PlanContext::new_default(Arc::new(by_ids))),
                None => Transformed::no(node),
            })
        };
        let node = PlanContext::<bool>::new_default(plan).transform_down(replace).data()?;
        Ok(node.plan)
    }

    fn name(&self) -> &str {
        "group_symbols_by_id"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What takes the place of an aggregation; `None` where it groups by no symbols, or goes by their order.
fn by_ids(last: &AggregateExec) -> Result<Option<SymbolsExec>> {
    let first = match last.mode() {
        AggregateMode::Single | AggregateMode::SinglePartitioned => Some(last),
        AggregateMode::Final | AggregateMode::FinalPartitioned => last
            .input()
            .downcast_ref::<AggregateExec>()
            .filter(|partial| *partial.mode() == AggregateMode::Partial),
        AggregateMode::Partial | AggregateMode::PartialReduce => None,
    };
    let any_order =
        |of: &AggregateExec| *of.input_order_mode() == InputOrderMode::Linear && of.limit_options().is_none();
    let Some(first) = first.filter(|first| any_order(first) && any_order(last)) else { return Ok(None) };
    let (slot, rows, by) = (Slot::default(), first.input().schema(), first.group_expr());
    let types = by.expr().iter().map(|(key, _)| key.data_type(&rows)).collect::<Result<Vec<_>>>()?;
    let columns: Vec<usize> = (0..types.len()).filter(|key| is_symbol(&types[*key])).collect();
    if columns.is_empty() {
        return Ok(None);
    }
    let (mut keys, mut nulls) = (by.expr().to_vec(), by.null_expr().to_vec());
    for &column in &columns {
        let (key, _) = &mut keys[column];
        *key = Arc::new(SymbolId::new(Arc::clone(key), slot.clone()));
        if let Some((null, _)) = nulls.get_mut(column) {
            *null = Arc::new(Literal::new(ScalarValue::UInt32(None)));
        }
    }
    let by = PhysicalGroupBy::new(keys, nulls, by.groups().to_vec(), by.has_grouping_set());
    let like = |of: &AggregateExec, mode, by: PhysicalGroupBy, input: Arc<dyn ExecutionPlan>| {
        let (aggregates, filters) = (of.aggr_expr().to_vec(), of.filter_expr().to_vec());
        AggregateExec::try_new(mode, by, aggregates, filters, input, of.input_schema())
    };
    let last_by = by.as_final();
    let columns: Arc<[usize]> = columns.into();
    let raw = first.group_expr().expr().iter().map(|(key, _)| Arc::clone(key)).collect();
    let groups: Arc<dyn ExecutionPlan> = if *first.mode() == AggregateMode::SinglePartitioned {
        Arc::new(like(first, AggregateMode::SinglePartitioned, by, Arc::clone(first.input()))?)
    } else {
        let partial = like(first, AggregateMode::Partial, by.clone(), Arc::clone(first.input()))?;
        let of_each = PartialGroupsExec::of(&partial, raw, Arc::clone(&columns), &slot);
        match (of_each, last.mode()) {
            (Some(of_each), AggregateMode::Single) => {
                Arc::new(like(last, AggregateMode::Final, last_by, Arc::new(of_each))?)
            }
            (Some(of_each), mode) => Arc::new(like(last, *mode, last_by, Arc::new(of_each))?),
            (None, AggregateMode::Single) => {
                Arc::new(like(first, AggregateMode::Single, by, Arc::clone(first.input()))?)
            }
            (None, mode) => Arc::new(like(last, *mode, last_by, Arc::new(partial))?),
        }
    };
    Ok(Some(SymbolsExec::new(groups, columns, slot, last.schema())))
}

/// Puts symbols in the place of their numbers.
#[derive(Debug, Clone)]
pub(crate) struct SymbolsExec {
    core: Core,
    /// Which columns of the input are numbers of symbols.
    columns: Arc<[usize]>,
    slot: Slot,
    /// What all outputs of an execution go by: it must be there as long as one of them has not begun.
    shared: Shared<Arc<SymbolIds>>,
}

impl SymbolsExec {
    fn new(input: Arc<dyn ExecutionPlan>, columns: Arc<[usize]>, slot: Slot, schema: SchemaRef) -> Self {
        let outputs = input.output_partitioning().partition_count();
        let properties = known(EquivalenceProperties::new(schema), outputs, input.pipeline_behavior());
        Self { core: Core::new([input], properties), columns, slot, shared: Shared::default() }
    }
}

operator!(SymbolsExec);

impl Operator for SymbolsExec {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.schema();
        let names: Vec<&str> =
            self.columns.iter().map(|column| schema.field(*column).name().as_str()).collect();
        write!(f, "SymbolsExec: [{}]", names.join(", "))
    }

    fn moved(self, known: ChildrenPropertiesMode) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(match known {
            ChildrenPropertiesMode::Keep => self,
            ChildrenPropertiesMode::Recompute => {
                let (schema, [input]) = (self.schema(), self.core.inputs);
                Self::new(input, self.columns, self.slot, schema)
            }
        }))
    }

    fn run(&self, output: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let begin = || Ok(self.slot.join(|| SymbolIds::new(self.reservation(&context))));
        let ids = self.shared.join(output, self.core.outputs(), begin)?;
        let (schema, columns) = (self.schema(), Arc::clone(&self.columns));
        let metrics = self.core.baseline(output);
        let with_symbols = move |batch: Result<RecordBatch>| {
            let batch = batch?;
            let _timer = metrics.elapsed_compute().timer();
            let mut arrays: Vec<ArrayRef> = batch.columns().to_vec();
            for column in columns.iter() {
                arrays[*column] = ids.symbols(arrays[*column].as_primitive::<UInt32Type>())?;
            }
            Ok(batch_of(&schema, arrays, batch.num_rows())?.record_output(&metrics))
        };
        let rows = self.core.input().execute(output, context)?.map(with_symbols);
        Ok(self.stream(rows))
    }

    fn effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn statistics(&self, inputs: &[Arc<Statistics>]) -> Statistics {
        self.as_many_rows(inputs)
    }
}

#[cfg(test)]
mod tests;
