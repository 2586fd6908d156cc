//! What is below an operator: a scan, and what becomes of its rows, each by itself, on the way up. Operators that read the
//! rows in the scan's stead ask here.

use super::pieces::PiecesExec;
use super::quick::quick;
use crate::scan::{ScanExec, ScanOrder};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use datafusion::arrow::compute::{filter_record_batch, prep_null_mask_filter};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use std::sync::Arc;

/// What happens to rows above a scan.
#[derive(Debug, Clone)]
pub(super) enum Layer {
    /// Only those stay that this holds for.
    Filter(Arc<dyn PhysicalExpr>),
    /// They become these values, with this schema.
    Project(Vec<Arc<dyn PhysicalExpr>>, SchemaRef),
}

/// A scan and the layers above it.
#[derive(Debug)]
pub(super) struct Below<'a> {
    pub(super) scan: &'a ScanExec,
    /// The plan that is the scan.
    pub(super) plan: &'a Arc<dyn ExecutionPlan>,
    /// The lowest first.
    pub(super) layers: Vec<Layer>,
}

impl<'a> Below<'a> {
    /// What is below an operator with this input; `None` where it is no scan, or more than layers stands between.
    pub(super) fn of(input: &'a Arc<dyn ExecutionPlan>) -> Option<Self> {
        let mut layers = Vec::new();
        let (plan, scan) =
            down(input, &mut layers, &|plan| Some((plan, ScanExec::with_any_condition(plan)?)))?;
        Some(Self { scan, plan, layers })
    }

    /// Whether rows are wanted in no other order than they lie in, and all that fulfil the scan's condition.
    pub(super) fn is_as_it_lies(&self) -> bool {
        *self.scan.order() == ScanOrder::Natural && self.scan.fetch_limit().is_none()
    }

    /// Whether no layer leaves rows out.
    pub(super) fn is_unfiltered(&self) -> bool {
        self.layers.iter().all(|layer| matches!(layer, Layer::Project(..)))
    }

    /// An expression over what the scan yields, for one over the layers.
    pub(super) fn resolve(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let mut resolved = Arc::clone(expr);
        for layer in self.layers.iter().rev() {
            let Layer::Project(exprs, _) = layer else { continue };
            let of_column = |expr: Arc<dyn PhysicalExpr>| {
                let made = expr.downcast_ref::<Column>().and_then(|column| exprs.get(column.index()));
                Ok(match made {
                    Some(made) => Transformed::yes(Arc::clone(made)),
                    None => Transformed::no(expr),
                })
            };
            resolved = resolved.transform_up(of_column).data()?;
        }
        Ok(resolved)
    }

    /// The column of the table that an expression over the layers is.
    pub(super) fn table_column(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
        table_column(expr, self.layers.iter(), self.scan)
    }
}

/// Goes down from `plan` through layers, which are added to `layers`, the lowest first, to what `end` knows; `None` where
/// anything else comes first.
pub(super) fn down<'a, T>(
    plan: &'a Arc<dyn ExecutionPlan>,
    layers: &mut Vec<Layer>,
    end: &dyn Fn(&'a Arc<dyn ExecutionPlan>) -> Option<T>,
) -> Option<T> {
    if let Some(found) = end(plan) {
        return Some(found);
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>().filter(|filter| filter.fetch().is_none()) {
        let found = down(filter.input(), layers, end)?;
        layers.extend(Layer::of_filter(filter));
        return Some(found);
    }
    let pieces = plan.downcast_ref::<PiecesExec>().map(PiecesExec::projection);
    let projection = pieces.or_else(|| plan.downcast_ref::<ProjectionExec>())?;
    let found = down(projection.input(), layers, end)?;
    let exprs = projection.expr().iter().map(|projected| Arc::clone(&projected.expr)).collect();
    layers.push(Layer::Project(exprs, plan.schema()));
    Some(found)
}

/// The column of the table that an expression over layers is; results of windows stand after the columns that they were
/// found for.
pub(super) fn table_column<'a>(
    expr: &Arc<dyn PhysicalExpr>,
    layers: impl DoubleEndedIterator<Item = &'a Layer>,
    scan: &ScanExec,
) -> Option<usize> {
    let mut index = expr.downcast_ref::<Column>()?.index();
    for layer in layers.rev() {
        if let Layer::Project(exprs, _) = layer {
            index = exprs.get(index)?.downcast_ref::<Column>()?.index();
        }
    }
    scan.projection().get(index).copied()
}

impl Layer {
    /// A filter, and the projection that it may have.
    pub(super) fn of_filter(filter: &FilterExec) -> Vec<Self> {
        let mut layers = vec![Self::Filter(Arc::clone(filter.predicate()))];
        if let Some(projection) = filter.projection() {
            let schema = filter.input().schema();
            let column =
                |at: &usize| Arc::new(Column::new(schema.field(*at).name(), *at)) as Arc<dyn PhysicalExpr>;
            layers.push(Self::Project(projection.iter().map(column).collect(), filter.schema()));
        }
        layers
    }

    /// The same in its quick form, of rows of this schema.
    pub(super) fn quick(self, schema: &SchemaRef) -> Result<Self> {
        Ok(match self {
            Layer::Filter(predicate) => Layer::Filter(quick(predicate, schema)?),
            Layer::Project(exprs, to) => {
                let exprs = exprs.into_iter().map(|expr| quick(expr, schema));
                Layer::Project(exprs.collect::<Result<_>>()?, to)
            }
        })
    }

    /// The rows after the layer; `ends` is where each series ends.
    pub(super) fn apply(&self, batch: RecordBatch, ends: &mut [usize]) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let evaluate = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(&batch)?.into_array(rows);
        match self {
            Layer::Filter(predicate) => {
                let held = evaluate(predicate)?;
                let held = held.as_boolean();
                let held = if held.null_count() > 0 { &prep_null_mask_filter(held) } else { held };
                move_ends(ends, held);
                Ok(filter_record_batch(&batch, held)?)
            }
            Layer::Project(exprs, schema) => {
                let columns = exprs.iter().map(evaluate).collect::<Result<Vec<ArrayRef>>>()?;
                batch_of(schema, columns, rows)
            }
        }
    }
}

/// Where each series ends when only the rows `held` are left.
fn move_ends(ends: &mut [usize], held: &BooleanArray) {
    let (mut from, mut kept) = (0, 0);
    for end in ends {
        kept += held.values().slice(from, *end - from).count_set_bits();
        from = *end;
        *end = kept;
    }
}

/// A batch of so many rows.
pub(super) fn batch_of(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}
