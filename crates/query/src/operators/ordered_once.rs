//! Aggregates in an order that names each expression once: `first_value(x ORDER BY ts, greatest(ts, ts))`.
//!
//! DataFusion 55.2 drops what comes twice when it makes the order, and is handed a column for each as it was written: what
//! becomes the same only while it is simplified ended the statement (a panic in `first_last.rs`). `DISTINCT ON (…) ORDER
//! BY` is such an aggregate. What comes again says nothing, whichever way it goes.

use crate::named::keeping_names;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::collections::HashSet;
use std::sync::Arc;

/// See the file's header. Comes after all that simplifies expressions.
#[derive(Debug)]
pub(super) struct OrderedOnce;

impl OptimizerRule for OrderedOnce {
    fn name(&self) -> &str {
        "ordered_once"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Aggregate(aggregate) = &plan else { return Ok(Transformed::no(plan)) };
        let schema = Arc::clone(aggregate.input.schema());
        keeping_names(plan, |expr| expr.transform_up(|expr| once(expr, &schema)))
    }
}

fn once(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::AggregateFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
    let (mut known, count) = (HashSet::new(), call.params.order_by.len());
    let mut kept = Vec::with_capacity(count);
    for sort in std::mem::take(&mut call.params.order_by) {
        if known.insert(as_computed(sort.expr.clone(), schema)?) {
            kept.push(sort);
        }
    }
    let changed = kept.len() < count;
    call.params.order_by = kept;
    Ok(Transformed::new_transformed(Expr::AggregateFunction(call), changed))
}

/// An expression by the places of its columns, without the names of its parts.
fn as_computed(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let computed = expr.transform_up(|expr| {
        Ok(match expr {
            Expr::Alias(alias) => Transformed::yes(*alias.expr),
            Expr::Column(column) => {
                let place = schema.maybe_index_of_column(&column).map(|place| place.to_string());
                Transformed::yes(Expr::Column(place.map_or(column, Column::new_unqualified)))
            }
            other => Transformed::no(other),
        })
    });
    Ok(computed?.data)
}
