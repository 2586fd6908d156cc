//! Plans the markers of WINDOW, HORIZON and SPLICE JOIN.
//!
//! HORIZON and SPLICE JOIN are relations like any other. The aggregates of a WINDOW JOIN stand in the SELECT
//! around it: DataFusion plans that as a GROUP BY all left columns, so that aliases, HAVING, window functions,
//! ORDER BY and LIMIT are its own; then the Aggregate in that plan gives way to the join.

use super::node::{Kind, SeriesJoin, Window};
use super::outside::refuse_right_columns;
use crate::dialect::marker::{place, planning_error, text_of};
use crate::dialect::series_join::{Bound, Offsets, SeriesJoinMarker, SeriesJoinSpec, WindowSelect};
use crate::error::{Position, SqlError};
use crate::functions::stride::interval_nanos;
use crate::functions::stride::{STRIDE_HINT, Stride};
use crate::operators::asof::plan::Sides;
use crate::operators::joins::node::Pairing;
use crate::operators::relation::{Relations, planned_typed};
use datafusion::common::{DFSchema, plan_datafusion_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, LogicalPlanBuilder};
use sqlparser::ast::{self, GroupByExpr, Ident, JoinConstraint, SetExpr, TableFactor};
use std::sync::Arc;

/// Most offsets of one HORIZON JOIN.
const HORIZON_OFFSETS_MAX: usize = 10_000;

fn fail(message: impl Into<String>, position: Position) -> DataFusionError {
    planning_error(SqlError::new(message, position))
}

/// The plan of `left HORIZON JOIN right` and `left SPLICE JOIN right`.
pub(crate) fn plan_join(
    left: LogicalPlan,
    right: LogicalPlan,
    marker: SeriesJoinMarker,
    constraint: JoinConstraint,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    if let SeriesJoinSpec::Window { .. } = marker.spec {
        // The dialect has put every other one into a SELECT of its own.
        return Err(fail("WINDOW JOIN cannot stand here", marker.position));
    }
    Ok(extension(node(left, right, marker, constraint, context)?))
}

fn extension(node: SeriesJoin) -> LogicalPlan {
    LogicalPlan::Extension(Extension { node: Arc::new(node) })
}

fn node(
    left: LogicalPlan,
    right: LogicalPlan,
    marker: SeriesJoinMarker,
    constraint: JoinConstraint,
    context: &mut dyn RelationPlannerContext,
) -> Result<SeriesJoin> {
    let name = (marker.word(), marker.position);
    let sides = Sides::read((&left, &right), constraint, name, context)?;
    let times = sides.as_times(sides.designated(context)?)?;
    let (keys, merged) = sides.keys()?;
    let kind = kind(marker.spec, marker.position, context)?;
    SeriesJoin::try_new(Pairing { left, right, times, keys, merged }, kind, None)
}

fn kind(spec: SeriesJoinSpec, position: Position, context: &mut dyn RelationPlannerContext) -> Result<Kind> {
    match spec {
        SeriesJoinSpec::Splice => Ok(Kind::Splice),
        SeriesJoinSpec::Window { low, high, prevailing } => {
            let at = place(&low.length);
            let (low, high) = (bound(low, context)?, bound(high, context)?);
            if low > high {
                return Err(planning_error(SqlError::new("the window ends before it begins", at).hint(
                    "the earlier end comes first: BETWEEN 5s PRECEDING AND 1s PRECEDING, BETWEEN 1s FOLLOWING AND 5s FOLLOWING",
                )));
            }
            Ok(Kind::Window(Window { low, high, prevailing }))
        }
        SeriesJoinSpec::Horizon { offsets, alias } => {
            let offsets = match offsets {
                Offsets::List(list) => {
                    list.into_iter().map(|offset| nanos(offset, context)).collect::<Result<Vec<i64>>>()?
                }
                Offsets::Range { from, to, step } => {
                    let at = place(&from);
                    let (from, to) = (nanos(from, context)?, nanos(to, context)?);
                    steps(from, to, nanos(step, context)?, at)?
                }
            };
            if offsets.len() > HORIZON_OFFSETS_MAX {
                let message = format!("{} offsets are more than a horizon has", offsets.len());
                let hint = format!("at most {HORIZON_OFFSETS_MAX} (HORIZON_OFFSETS_MAX): take a wider STEP");
                return Err(planning_error(SqlError::new(message, position).hint(hint)));
            }
            Ok(Kind::Horizon { offsets: offsets.into(), alias: alias.value })
        }
    }
}

/// The offsets from `from` to `to`, both inside; past the most there may be only how many there are matters.
fn steps(from: i64, to: i64, step: i64, position: Position) -> Result<Vec<i64>> {
    if step <= 0 {
        return Err(planning_error(SqlError::new("STEP is longer than nothing", position).hint(STRIDE_HINT)));
    }
    if from > to {
        return Err(planning_error(
            SqlError::new("the horizon ends before it begins", position)
                .hint("the earlier offset comes first: RANGE FROM -1s TO 5m STEP 1s"),
        ));
    }
    let count = (i128::from(to) - i128::from(from)) / i128::from(step) + 1;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if count > HORIZON_OFFSETS_MAX {
        let hint = format!("at most {HORIZON_OFFSETS_MAX} (HORIZON_OFFSETS_MAX): take a wider STEP");
        let message = format!("{count} offsets are more than a horizon has");
        return Err(planning_error(SqlError::new(message, position).hint(hint)));
    }
    Ok((0..count).map(|at| from + at as i64 * step).collect())
}

fn bound(bound: Bound, context: &mut dyn RelationPlannerContext) -> Result<i64> {
    let position = place(&bound.length);
    let length = nanos(bound.length, context)?;
    if length < 0 {
        return Err(planning_error(
            SqlError::new("a window's end has no sign", position)
                .hint("PRECEDING and FOLLOWING say on which side it lies"),
        ));
    }
    Ok(if bound.preceding { -length } else { length })
}

/// A fixed length of time with a sign, in nanoseconds.
fn nanos(length: ast::Expr, context: &mut dyn RelationPlannerContext) -> Result<i64> {
    let position = place(&length);
    let refuse =
        || planning_error(SqlError::new("this is no fixed length of time", position).hint(STRIDE_HINT));
    if let Some(written) = text_of(&length) {
        if written == "0" {
            return Ok(0);
        }
        let (text, negative) = match written.strip_prefix('-') {
            Some(text) => (text, true),
            None => (written.as_str(), false),
        };
        let nanos = Stride::parse(text).and_then(Stride::nanos).ok_or_else(refuse)?;
        return Ok(if negative { -nanos } else { nanos });
    }
    let (value, negative) = match context.sql_to_expr(length, &DFSchema::empty())? {
        Expr::Negative(inner) => (*inner, true),
        other => (other, false),
    };
    let Expr::Literal(value, _) = value else { return Err(refuse()) };
    let nanos = interval_nanos(&value).ok_or_else(refuse)?;
    if negative { nanos.checked_neg().ok_or_else(refuse) } else { Ok(nanos) }
}

/// The plan of a SELECT over a WINDOW JOIN.
pub(crate) fn plan_window(
    marker: WindowSelect,
    relations: &Relations,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let position = marker.position;
    let mut query = marker.query;
    let lost = || fail("WINDOW JOIN cannot stand here", position);
    let SetExpr::Select(select) = query.body.as_mut() else { return Err(lost()) };
    let Some(TableFactor::NestedJoin { mut table_with_joins, .. }) =
        std::mem::take(&mut select.from).pop().map(|from| from.relation)
    else {
        return Err(lost());
    };
    let join = table_with_joins.joins.pop().ok_or_else(lost)?;
    let (spec, constraint) = SeriesJoinMarker::read(&join).ok_or_else(lost)?;
    let left = relations.plan_from(vec![*table_with_joins], context)?;
    let right = planned_typed(join.relation, context)?;
    let pairs = node(left, right, spec, constraint, context)?;
    refuse_right_columns(&query, &pairs, context.context_provider()).map_err(planning_error)?;
    let SetExpr::Select(select) = query.body.as_mut() else { return Err(lost()) };
    let columns = pairs.pairing.left.schema().columns();
    let column = |column: &datafusion::common::Column| {
        let mut parts: Vec<Ident> = Vec::new();
        if let Some(relation) = &column.relation {
            parts.extend(relation.to_vec().into_iter().map(|part| Ident::with_quote('"', part)));
        }
        parts.push(Ident::with_quote('"', &column.name));
        match <[Ident; 1]>::try_from(parts) {
            Ok([only]) => ast::Expr::Identifier(only),
            Err(parts) => ast::Expr::CompoundIdentifier(parts),
        }
    };
    select.group_by = GroupByExpr::Expressions(columns.iter().map(column).collect(), Vec::new());
    select.from = relations.stash(extension(pairs));
    let factor = TableFactor::Derived { lateral: false, subquery: query, alias: None, sample: None };
    let grouped = context.plan(factor)?;
    match swap(grouped)? {
        (plan, true) => Ok(plan),
        _ => Err(fail("WINDOW JOIN found nothing to aggregate", position)),
    }
}

/// Goes down single inputs to the Aggregate, which gives way to the join; says whether it was found.
fn swap(plan: LogicalPlan) -> Result<(LogicalPlan, bool)> {
    if let LogicalPlan::Aggregate(aggregate) = plan {
        let node = joined(aggregate.input.as_ref(), aggregate.aggr_expr)?;
        return Ok((extension(node), true));
    }
    let inputs = plan.inputs();
    let [input] = inputs.as_slice() else { return Ok((plan, false)) };
    let (input, found) = swap((*input).clone())?;
    Ok((plan.with_new_exprs(plan.expressions(), vec![input])?, found))
}

/// The join with its aggregates; conditions above it, which read left columns alone, go to its left side.
fn joined(input: &LogicalPlan, aggregates: Vec<Expr>) -> Result<SeriesJoin> {
    let mut conditions = Vec::new();
    let mut below = input;
    while let LogicalPlan::Filter(filter) = below {
        conditions.push(filter.predicate.clone());
        below = filter.input.as_ref();
    }
    let LogicalPlan::Extension(Extension { node }) = below else {
        return Err(plan_datafusion_err!("WINDOW JOIN was lost below its SELECT"));
    };
    let Some(pairs) = node.as_any().downcast_ref::<SeriesJoin>() else {
        return Err(plan_datafusion_err!("WINDOW JOIN was lost below its SELECT"));
    };
    let mut left = pairs.pairing.left.clone();
    for condition in conditions.into_iter().rev() {
        left = LogicalPlanBuilder::from(left).filter(condition)?.build()?;
    }
    let pairing = Pairing { left, ..pairs.pairing.clone() };
    SeriesJoin::try_new(pairing, pairs.kind.clone(), Some(aggregates))
}
