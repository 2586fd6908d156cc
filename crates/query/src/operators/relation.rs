//! Turns marker relations into plans: the [`RelationPlanner`] of the dialect.

use crate::dialect::marker::{AsOfMarker, Marker, NbboMarker, planning_error};
use crate::dialect::pivot::{PivotMarker, UnpivotMarker};
use crate::dialect::sample::Sample;
use crate::dialect::series_join::SeriesJoinMarker;
use crate::operators::{asof, latest, nbbo, pivot, read_twice, sample, sampling, series_join, unkeyed};
use crate::rules::meanings;
use datafusion::common::plan_datafusion_err;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, Join, JoinConstraint, JoinOperator, TableFactor,
    TableWithJoins, Value,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The table function that stands for a plan which is already made.
const PLANNED: &str = "__planned";

/// Plans SAMPLE BY, LATEST ON, our joins, nbbo, PIVOT, UNPIVOT, TABLESAMPLE, rows of WITH that are made once and queries
/// that have UNNEST; leaves every other relation to DataFusion.
#[derive(Debug, Default)]
pub(crate) struct Relations {
    /// Plans on their way back into DataFusion's planner, by number; each is taken once.
    planned: Mutex<HashMap<u64, LogicalPlan>>,
    next: AtomicU64,
}

impl Relations {
    fn planned(&self) -> MutexGuard<'_, HashMap<u64, LogicalPlan>> {
        self.planned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A FROM list that is this plan, so that nothing is planned twice.
    pub(crate) fn stash(&self, plan: LogicalPlan) -> Vec<TableWithJoins> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.planned().insert(number, plan);
        let digits = Expr::value(Value::Number(number.to_string(), false));
        let relation = TableFactor::Function {
            lateral: false,
            name: vec![Ident::new(PLANNED)].into(),
            args: vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(digits))],
            with_ordinality: false,
            alias: None,
        };
        vec![TableWithJoins { relation, joins: Vec::new() }]
    }

    fn take(&self, factor: &TableFactor) -> Option<LogicalPlan> {
        let TableFactor::Function { name, args, .. } = factor else { return None };
        let [part] = name.0.as_slice() else { return None };
        if part.as_ident()?.value != PLANNED {
            return None;
        }
        match args.as_slice() {
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))] => match &value.value {
                Value::Number(digits, _) => self.planned().remove(&digits.to_string().parse().ok()?),
                _ => None,
            },
            _ => None,
        }
    }

    /// The plan of a FROM list, qualifiers kept.
    ///
    /// # Errors
    /// Those of DataFusion's planner.
    pub(crate) fn plan_from(
        &self,
        from: Vec<TableWithJoins>,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<LogicalPlan> {
        let mut from = from.into_iter();
        let mut first = from.next().ok_or_else(|| plan_datafusion_err!("FROM is missing"))?;
        for TableWithJoins { relation, joins } in from {
            let relation = if joins.is_empty() { relation } else { nested(relation, joins) };
            first.joins.push(Join {
                relation,
                global: false,
                join_operator: JoinOperator::CrossJoin(JoinConstraint::None),
            });
        }
        let from = if first.joins.is_empty() { first.relation } else { nested(first.relation, first.joins) };
        planned_typed(from, context)
    }
}

/// The marker of a join of ours.
#[allow(clippy::large_enum_variant, reason = "a statement has a handful of them")]
enum JoinMarker {
    AsOf(AsOfMarker),
    Series(SeriesJoinMarker),
}

impl JoinMarker {
    fn read(join: &Join) -> Option<(Self, JoinConstraint)> {
        if let Some((marker, constraint)) = AsOfMarker::read(join) {
            return Some((Self::AsOf(marker), constraint));
        }
        SeriesJoinMarker::read(join).map(|(marker, constraint)| (Self::Series(marker), constraint))
    }
}

fn nested(relation: TableFactor, joins: Vec<Join>) -> TableFactor {
    TableFactor::NestedJoin { table_with_joins: Box::new(TableWithJoins { relation, joins }), alias: None }
}

/// The plan of a relation whose columns have the types that they come to, by which operators above it are made.
pub(super) fn planned_typed(
    relation: TableFactor,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    meanings::typed(context.plan(relation)?)
}

/// The plan of a PIVOT or UNPIVOT.
fn plan_turned(relation: TableFactor, context: &mut dyn RelationPlannerContext) -> Result<RelationPlanning> {
    let planned = |plan, alias| Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))));
    let relation = match PivotMarker::read(relation) {
        Ok(marker) => {
            let alias = marker.alias.clone();
            return planned(pivot::plan::plan_pivot(marker, context)?, alias);
        }
        Err(other) => other,
    };
    match UnpivotMarker::read(*relation) {
        Ok(read) => {
            let marker = read.map_err(planning_error)?;
            let alias = marker.alias.clone();
            planned(pivot::plan::plan_unpivot(marker, context)?, alias)
        }
        Err(other) => Ok(RelationPlanning::Original(other)),
    }
}

impl RelationPlanner for Relations {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let planned = |plan| Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))));
        let mut relation = relation;
        if let Some(sample) = Sample::take(&mut relation).map_err(planning_error)? {
            return planned(sampling::plan_sample(context.plan(relation)?, sample)?);
        }
        match relation {
            TableFactor::Function { .. } => {
                if let Some(plan) = self.take(&relation) {
                    return planned(plan);
                }
                match Marker::read(relation) {
                    Ok(Marker::Sample(marker)) => planned(sample::plan::plan_sample(marker, self, context)?),
                    Ok(Marker::Window(marker)) => {
                        planned(series_join::plan::plan_window(marker, self, context)?)
                    }
                    Ok(Marker::Common(query)) => planned(read_twice::plan::plan_common(query, context)?),
                    Ok(Marker::Unkeyed(query)) => planned(unkeyed::plan_unkeyed(query, context)?),
                    Ok(Marker::Latest(marker)) => planned(latest::plan::plan_latest(marker, self, context)?),
                    Err(other) => Ok(RelationPlanning::Original(other)),
                }
            }
            TableFactor::NestedJoin { mut table_with_joins, alias } => {
                let marker = table_with_joins.joins.last().and_then(JoinMarker::read);
                let Some((marker, constraint)) = marker else {
                    let original = TableFactor::NestedJoin { table_with_joins, alias };
                    return Ok(RelationPlanning::Original(Box::new(original)));
                };
                let Some(join) = table_with_joins.joins.pop() else {
                    return Err(plan_datafusion_err!("ASOF JOIN has no right side"));
                };
                let left = self.plan_from(vec![*table_with_joins], context)?;
                let right = planned_typed(join.relation, context)?;
                let plan = match marker {
                    JoinMarker::AsOf(marker) => {
                        asof::plan::plan_asof(left, right, marker, constraint, context)?
                    }
                    JoinMarker::Series(marker) => {
                        series_join::plan::plan_join(left, right, marker, constraint, context)?
                    }
                };
                Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
            }
            TableFactor::Pivot { .. } | TableFactor::Unpivot { .. } => plan_turned(relation, context),
            other => match NbboMarker::read(&other) {
                Some(read) => {
                    let (marker, alias) = read.map_err(planning_error)?;
                    let plan = nbbo::plan::plan_nbbo(marker, context)?;
                    Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
                }
                None => Ok(RelationPlanning::Original(Box::new(other))),
            },
        }
    }
}
