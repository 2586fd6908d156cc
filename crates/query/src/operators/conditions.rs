//! Conditions: carried down through a plan, but not below an aggregate that gives a row of no rows, nor below a barrier
//! where they may fail; and bracketed so that many of them are a tree of little depth.
//!
//! DataFusion 55.2 carries a condition below an aggregate if all its columns are among the groups': also one without
//! columns, such as `x = 2` over `SELECT 1 AS x, count(*) …`. Below an aggregate without groups, or with an empty set of
//! them (ROLLUP, CUBE), it takes all rows away and the total of none is left.

use super::barrier;
use super::read_twice::node::is_common;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Expr, Filter, LogicalPlan, Operator, lit};
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// DataFusion's rule, which it takes the place of and whose name it has.
#[derive(Debug)]
pub(super) struct CarryDown(PushDownFilter);

impl CarryDown {
    pub(super) fn new() -> Self {
        Self(PushDownFilter::new())
    }
}

impl OptimizerRule for CarryDown {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        // Theirs makes one condition of those that stand over each other, such as one over HAVING.
        let (mut conditions, mut input) = (Vec::new(), &plan);
        while let LogicalPlan::Filter(filter) = input {
            conditions.extend(split_conjunction_owned(filter.predicate.clone()));
            input = &filter.input;
        }
        // Others read the rows too.
        if is_common(input) {
            return Ok(Transformed::no(plan));
        }
        if let Some(carried) = barrier::carried(&conditions, input) {
            return carried.map(Transformed::yes);
        }
        if !has_total(input) {
            return self.0.rewrite(plan, config);
        }
        let (constant, others): (Vec<Expr>, Vec<Expr>) =
            conditions.into_iter().partition(|condition| condition.column_refs().is_empty());
        let (Some(constant), input) = (conjunction(constant), Arc::new(input.clone())) else {
            return self.0.rewrite(plan, config);
        };
        let Some(others) = conjunction(others) else { return Ok(Transformed::no(plan)) };
        let below = self.0.rewrite(LogicalPlan::Filter(Filter::try_new(others, input)?), config)?;
        below.map_data(|below| Ok(LogicalPlan::Filter(Filter::try_new(constant, Arc::new(below))?)))
    }
}

/// Many conditions joined by AND as a tree of little depth: DataFusion hangs one below the other, and working out ten
/// thousand of them calls itself as often.
#[derive(Debug)]
pub(super) struct Balanced;

/// Conditions that may hang one below the other.
const CHAIN_MAX: usize = 64;

impl OptimizerRule for Balanced {
    fn name(&self) -> &str {
        "balanced_conditions"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Filter(filter) if is_chain(&filter.predicate) => {
                let predicate = balanced(split_conjunction_owned(filter.predicate));
                Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)))
            }
            LogicalPlan::Join(mut join) if join.filter.as_ref().is_some_and(is_chain) => {
                join.filter = join.filter.map(|filter| balanced(split_conjunction_owned(filter)));
                Ok(Transformed::yes(LogicalPlan::Join(join)))
            }
            other => Ok(Transformed::no(other)),
        }
    }
}

/// Whether so many conditions hang one below the other, on the left or on the right.
fn is_chain(expr: &Expr) -> bool {
    let depth = |down: fn(&BinaryExpr) -> &Expr| {
        let (mut depth, mut at) = (0, expr);
        while let Expr::BinaryExpr(both) = at
            && both.op == Operator::And
            && depth <= CHAIN_MAX
        {
            (depth, at) = (depth + 1, down(both));
        }
        depth
    };
    depth(|both| &both.left) > CHAIN_MAX || depth(|both| &both.right) > CHAIN_MAX
}

fn balanced(mut conditions: Vec<Expr>) -> Expr {
    if conditions.len() > 2 {
        let right = conditions.split_off(conditions.len() / 2);
        return balanced(conditions).and(balanced(right));
    }
    conditions.into_iter().reduce(Expr::and).unwrap_or_else(|| lit(true))
}

/// Whether a plan is an aggregate that gives a row of no rows.
fn has_total(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Aggregate(aggregate) = plan else { return false };
    match aggregate.group_expr.as_slice() {
        [] => true,
        keys => keys.iter().any(|key| matches!(key, Expr::GroupingSet(_))),
    }
}
