//! Plans the marker of LATEST ON.

use super::node::LatestOn;
use crate::dialect::marker::{LatestMarker, place, planning_error};
use crate::error::SqlError;
use crate::operators::relation::Relations;
use crate::operators::sample::plan::designated_column;
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::normalize_col;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::{ExprSchemable, Extension, LogicalPlan, LogicalPlanBuilder};
use sqlparser::ast::SetExpr;
use std::sync::Arc;

/// The plan of FROM … WHERE … LATEST ON.
pub(crate) fn plan_latest(
    marker: LatestMarker,
    relations: &Relations,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let position = marker.position;
    let SetExpr::Select(select) = *marker.query.body else {
        return Err(planning_error(SqlError::new("LATEST ON needs a SELECT", position)));
    };
    let mut input = relations.plan_from(select.from, context)?;
    if let Some(condition) = select.selection {
        let condition = context.sql_to_expr(condition, input.schema())?;
        let condition = normalize_col(condition, &input)?;
        input = LogicalPlanBuilder::from(input).filter(condition)?.build()?;
    }
    let time_ast = match marker.timestamp {
        Some(timestamp) => timestamp,
        None => designated_column(input.schema(), position, "LATEST BY")?,
    };
    let at = place(&time_ast);
    let time = normalize_col(context.sql_to_expr(time_ast, input.schema())?, &input)?;
    let time_type = time.get_type(input.schema())?;
    if !matches!(time_type, DataType::Timestamp(TimeUnit::Nanosecond, _)) {
        return Err(planning_error(
            SqlError::new(format!("LATEST ON needs a timestamp, and this is {time_type}"), at)
                .hint("name the table's designated timestamp"),
        ));
    }
    let keys = marker.keys.into_iter().map(|key| {
        let key = context.sql_to_expr(key, input.schema())?;
        normalize_col(key, &input)
    });
    let keys = keys.collect::<Result<Vec<_>>>()?;
    let node = LatestOn { input, time, keys };
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
}
