//! From the logical node to the operator.

use super::aggregate::Aggregates;
use super::node::{Kind, SeriesJoin};
use super::rows::Shape;
use crate::operators::joins::exec::{KeyExprs, Matching, TimeJoinExec, Times};
use crate::operators::node::Node;
use datafusion::common::Column;
use datafusion::error::Result;
use datafusion::physical_expr::aggregate::LoweredAggregate;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// What the planner has made of a node's expressions.
pub(in crate::operators) struct Lowered {
    pub(in crate::operators) times: Times,
    pub(in crate::operators) keys: (KeyExprs, KeyExprs),
    /// Over [`SeriesJoin::pairs`].
    pub(in crate::operators) aggregates: Vec<LoweredAggregate>,
}

/// The operator of a node.
///
/// # Errors
/// For an aggregate that needs its rows in another order than that of time.
pub(in crate::operators) fn operator_of(
    node: &SeriesJoin,
    inputs: [Arc<dyn ExecutionPlan>; 2],
    lowered: Lowered,
) -> Result<TimeJoinExec> {
    let pairs = node.pairs()?;
    let right_columns = node.pairing.right_columns();
    let left_width = node.pairing.left.schema().fields().len();
    let time = node.right_time().and_then(|time| pairs.maybe_index_of_column(&time));
    let aggregates =
        Aggregates::try_new(lowered.aggregates, pairs.inner(), left_width, &right_columns, time)?;
    let place = |column: &Column, side: &datafusion::common::DFSchema| side.maybe_index_of_column(column);
    let merged = node.pairing.merged.iter().filter(|_| node.kind == Kind::Splice).filter_map(|right| {
        let left = node.pairing.keys.iter().find_map(|(left, of)| match (left, of) {
            (left, of) if as_column(of) == Some(right) => as_column(left),
            _ => None,
        })?;
        Some((place(left, node.pairing.left.schema())?, place(right, node.pairing.right.schema())?))
    });
    let shape = Shape {
        kind: node.kind.clone(),
        merged: merged.collect(),
        right_columns,
        aggregates: Arc::new(aggregates),
        schema: Arc::clone(node.output().inner()),
    };
    let schema = Arc::clone(&shape.schema);
    Ok(TimeJoinExec::new(inputs, lowered.times, lowered.keys, Matching::Around(shape), schema))
}

/// The column that a key is, also where it is brought to another type.
fn as_column(key: &datafusion::logical_expr::Expr) -> Option<&Column> {
    match key {
        datafusion::logical_expr::Expr::Column(column) => Some(column),
        datafusion::logical_expr::Expr::Cast(cast) => as_column(&cast.expr),
        _ => None,
    }
}
