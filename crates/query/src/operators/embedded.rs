//! Filters that yield some of their columns, and the projections above them.
//!
//! DataFusion 55.2 carries a projection below a filter and looks up the columns of the condition in it. It takes them for
//! columns that the filter yields, which they are not where it yields some only: `b.s` became `a.s` where both happened to
//! stand at one place, or the plan was refused. Before it looks, such a filter is one that yields all and a projection.

use super::rules::NodeRule;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use std::sync::Arc;

/// Must run right before the rule that carries projections down, which embeds them again.
pub(super) const FILTERS_YIELD_ALL: NodeRule = NodeRule::up("filters_yield_all", |plan| {
    let Some(filter) = plan.downcast_ref::<FilterExec>() else { return Ok(None) };
    let Some(places) = filter.projection().as_ref() else { return Ok(None) };
    let schema = filter.input().schema();
    let column = |&place: &usize| {
        let name = schema.field(place).name();
        ProjectionExpr::new(Arc::new(Column::new(name, place)), name.clone())
    };
    let columns: Vec<ProjectionExpr> = places.iter().map(column).collect();
    let all = FilterExecBuilder::from(filter).apply_projection(None)?.build()?;
    Ok(Some(Arc::new(ProjectionExec::try_new(columns, Arc::new(all))?)))
});
