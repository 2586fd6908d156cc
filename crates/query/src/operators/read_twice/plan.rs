//! Plans the marker of a query of WITH.

use super::node::common;
use crate::rules::volatile::varies;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::planner::RelationPlannerContext;
use sqlparser::ast::{Query, TableFactor};

/// The plan of a query whose rows are made once, where they would be others each time.
pub(crate) fn plan_common(
    query: Box<Query>,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let input =
        context.plan(TableFactor::Derived { lateral: false, subquery: query, alias: None, sample: None })?;
    if !varies(&input)? {
        return Ok(input);
    }
    Ok(common(input))
}
