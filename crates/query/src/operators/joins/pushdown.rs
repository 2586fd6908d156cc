//! Pushes conditions on the result of a join by time below it, where the result stays the same:
//!
//! - a condition on left columns picks left rows, so it goes to the left side, but for that of a splice;
//! - one on left key columns alone also picks right rows, by the right side's names; of a splice one on merged key
//!   columns alone goes to both sides. Any other would change which row of the other side is the last;
//! - of ASOF JOIN an upper bound on the left time bounds the right time of rows looked back for, a lower bound that of
//!   rows looked forward for; with a tolerance both do.
//!
//! Conditions on right columns stay above: below they would change which row is the last.
//!
//! Comes after DataFusion's own push-down, which it calls again for both sides, so that one pass of the
//! optimizer brings a condition down to the scan.

use super::node::Pairing;
use crate::dialect::marker::Direction;
use crate::operators::asof::node::AsOfJoin;
use crate::operators::series_join::node::{Kind, SeriesJoin};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    BinaryExpr, Expr, Extension, Filter, LogicalPlan, LogicalPlanBuilder, Operator, UserDefinedLogicalNode,
    binary_expr, lit,
};
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// See the file's header.
#[derive(Debug, Default)]
pub(in crate::operators) struct PushFilterBelowJoin;

impl OptimizerRule for PushFilterBelowJoin {
    fn name(&self) -> &str {
        "push_filter_below_join_by_time"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = &plan else { return Ok(Transformed::no(plan)) };
        // Unused columns may have been cut off in between.
        let (between, below) = match filter.input.as_ref() {
            LogicalPlan::Projection(projection)
                if projection.expr.iter().all(|e| matches!(e, Expr::Column(_))) =>
            {
                (Some(projection), projection.input.as_ref())
            }
            other => (None, other),
        };
        let LogicalPlan::Extension(Extension { node }) = below else { return Ok(Transformed::no(plan)) };
        let Some((mut pushed, kept)) = push(filter, node, config)? else { return Ok(Transformed::no(plan)) };
        if let Some(projection) = between {
            pushed = LogicalPlanBuilder::from(pushed).project(projection.expr.clone())?.build()?;
        }
        if let Some(kept) = kept {
            pushed = LogicalPlanBuilder::from(pushed).filter(kept)?.build()?;
        }
        Ok(Transformed::yes(pushed))
    }
}

/// The join with the conditions below it, and what stays above; `None` where nothing can be pushed, or it is no join.
fn push(
    filter: &Filter,
    node: &Arc<dyn UserDefinedLogicalNode>,
    config: &dyn OptimizerConfig,
) -> Result<Option<(LogicalPlan, Option<Expr>)>> {
    let Some(join) = Join::of(node) else { return Ok(None) };
    let [left, right] = node.inputs()[..] else { return Ok(None) };
    let (mut of_left, mut of_right, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    for part in split_conjunction(&filter.predicate) {
        let columns = part.column_refs();
        let on_left = !columns.is_empty() && columns.iter().all(|c| left.schema().has_column(c));
        let beside = if on_left && !part.is_volatile() { join.beside(part)? } else { None };
        match beside {
            Some(beside) => {
                of_left.push(part.clone());
                of_right.extend(beside);
            }
            None => kept.push(part.clone()),
        }
    }
    if of_left.is_empty() {
        return Ok(None);
    }
    let side = |input: &LogicalPlan, conditions: Vec<Expr>| -> Result<LogicalPlan> {
        let Some(condition) = conjunction(conditions) else { return Ok(input.clone()) };
        let filtered = LogicalPlanBuilder::from(input.clone()).filter(condition)?.build()?;
        let further = PushDownFilter::new();
        Ok(filtered.transform_down(|node| further.rewrite(node, config))?.data)
    };
    let inputs = vec![side(left, of_left)?, side(right, of_right)?];
    let node = node.with_exprs_and_inputs(node.expressions(), inputs)?;
    Ok(Some((LogicalPlan::Extension(Extension { node }), conjunction(kept))))
}

/// A join by time.
enum Join<'a> {
    AsOf(&'a AsOfJoin),
    Around(&'a SeriesJoin),
}

impl<'a> Join<'a> {
    fn of(node: &'a Arc<dyn UserDefinedLogicalNode>) -> Option<Self> {
        let asof = node.as_any().downcast_ref::<AsOfJoin>().map(Self::AsOf);
        asof.or_else(|| node.as_any().downcast_ref::<SeriesJoin>().map(Self::Around))
    }

    /// What a condition on left columns, which goes to the left side, says of the right one; `None` where it stays above.
    fn beside(&self, part: &Expr) -> Result<Option<Vec<Expr>>> {
        Ok(match self {
            Self::AsOf(join) => {
                let by_names = by_right_names(part, &join.pairing.keys)?;
                Some(by_names.into_iter().chain(on_right_time(part, join)).collect())
            }
            Self::Around(join) if join.kind == Kind::Splice => {
                let Pairing { keys, merged, .. } = &join.pairing;
                let is_merged =
                    |right: &Expr| matches!(right, Expr::Column(column) if merged.contains(column));
                let merged: Vec<(Expr, Expr)> =
                    keys.iter().filter(|(_, right)| is_merged(right)).cloned().collect();
                by_right_names(part, &merged)?.map(|on_right| vec![on_right])
            }
            Self::Around(join) => Some(by_right_names(part, &join.pairing.keys)?.into_iter().collect()),
        })
    }
}

/// The condition by the right side's key columns, if it reads left ones alone.
fn by_right_names(part: &Expr, keys: &[(Expr, Expr)]) -> Result<Option<Expr>> {
    let right_name = |column: &Column| {
        keys.iter().find_map(|(left, right)| match (left, right) {
            (Expr::Column(l), Expr::Column(r)) if l == column => Some(r.clone()),
            _ => None,
        })
    };
    if !part.column_refs().iter().all(|column| right_name(column).is_some()) {
        return Ok(None);
    }
    let renamed = part.clone().transform(|expr| {
        Ok(match &expr {
            Expr::Column(column) => match right_name(column) {
                Some(right) => Transformed::yes(Expr::Column(right)),
                None => Transformed::no(expr),
            },
            _ => Transformed::no(expr),
        })
    })?;
    Ok(Some(renamed.data))
}

/// The bound that a comparison of the left time with a constant puts on the right time.
fn on_right_time(part: &Expr, join: &AsOfJoin) -> Option<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = part else { return None };
    let (op, bound) = match (left.as_ref(), right.as_ref()) {
        (time, Expr::Literal(bound, _)) if *time == join.pairing.times.0 => (*op, bound),
        (Expr::Literal(bound, _), time) if *time == join.pairing.times.0 => (op.swap()?, bound),
        _ => return None,
    };
    let time = join.pairing.times.1.clone();
    let direction = join.options.direction;
    let apart = |by: fn(i64, i64) -> Option<i64>| {
        let ScalarValue::TimestampNanosecond(Some(bound), zone) = bound else { return None };
        let bound = by(*bound, join.options.tolerance?)?;
        Some(lit(ScalarValue::TimestampNanosecond(Some(bound), zone.clone())))
    };
    match op {
        // The right time is at most the left's.
        Operator::Lt | Operator::LtEq if direction == Direction::Backward => {
            Some(binary_expr(time, op, lit(bound.clone())))
        }
        Operator::Lt | Operator::LtEq => Some(binary_expr(time, Operator::LtEq, apart(i64::checked_add)?)),
        // It is at least the left's.
        Operator::Gt | Operator::GtEq if direction == Direction::Forward => {
            Some(binary_expr(time, op, lit(bound.clone())))
        }
        Operator::Gt | Operator::GtEq => Some(binary_expr(time, Operator::GtEq, apart(i64::checked_sub)?)),
        _ => None,
    }
}
