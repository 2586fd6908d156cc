//! One NaN and one zero: what SQL says of doubles, where DataFusion and Arrow go by their bits.
//!
//! NaN equals itself and is larger than every number, and 0.0 equals -0.0. Arrow's kernels have an order in which a
//! NaN with its sign set is less than every number, and a processor makes such a one of `0.0 / 0.0`. So:
//!
//! - **NaN**: rows that are stored have one (`tickstone_model::with_one_nan`, and the decoders of parts), and so have
//!   frames. What expressions, aggregates and window functions make is brought to it where it is compared, sorted by
//!   or grouped by ([`settle`]): once for `(a - b) / c > 0`, not for each operation. Which columns may hold another
//!   is followed from where they are made ([`fresh`]). What is only yielded is left as it is.
//! - **Zero**: both are kept. They are one where DataFusion compares bits: in the keys of joins, sorts and windows,
//!   in IN, in `CASE x WHEN`, in `nullif`, in DISTINCT. Comparisons and GROUP BY have it so already.
//!
//! The rule runs last of the analyzer's, when types are known. Decision 0012 has the alternatives.

mod fresh;
mod function;
mod settle;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRewriter};
use datafusion::common::{Column, DFSchema, JoinConstraint};
use datafusion::error::Result;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Distinct, Expr, ExprSchemable, Join, LogicalPlan, LogicalPlanBuilder, SortExpr,
};
use datafusion::optimizer::AnalyzerRule;
use fresh::Columns;
use settle::Settle;
use std::ops::Range;
use std::sync::Arc;

/// See the file's header.
#[derive(Debug)]
pub(crate) struct OneNanOneZero;

impl AnalyzerRule for OneNanOneZero {
    fn name(&self) -> &str {
        "one_nan_one_zero"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut pass = Pass { made: vec![Vec::new()] };
        Ok(plan.rewrite_with_subqueries(&mut pass)?.data)
    }
}

/// Goes over a plan from its leaves up.
struct Pass {
    /// For the plan at hand and those above it: the columns with other NaNs of what is below it, queries in its
    /// expressions first, then its inputs.
    made: Vec<Vec<Columns>>,
}

impl TreeNodeRewriter for Pass {
    type Node = LogicalPlan;

    fn f_down(&mut self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        self.made.push(Vec::new());
        Ok(Transformed::no(plan))
    }

    fn f_up(&mut self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let mut below = self.made.pop().unwrap_or_default();
        let inputs = below.split_off(below.len().saturating_sub(plan.inputs().len()));
        let fresh = inputs.iter().flatten().cloned().collect();
        let changed = change(plan, fresh)?;
        let own = match &changed.data {
            LogicalPlan::Distinct(_) => Columns::new(),
            plan => fresh::columns(plan, &inputs),
        };
        if let Some(above) = self.made.last_mut() {
            above.push(own);
        }
        Ok(changed)
    }
}

/// What is known of the rows that expressions are over.
struct Input {
    schema: DFSchema,
    /// Columns that may hold other NaNs than the one.
    fresh: Columns,
}

impl Input {
    fn of(plan: &LogicalPlan, fresh: Columns) -> Self {
        let schema = match plan.inputs().as_slice() {
            [] => DFSchema::clone(plan.schema()),
            [input] => DFSchema::clone(input.schema()),
            inputs => merge_schema(inputs),
        };
        Self { schema, fresh }
    }

    fn is_float(&self, expr: &Expr) -> bool {
        expr.get_type(&self.schema).is_ok_and(|data_type| data_type.is_floating())
    }

    /// The expression as a key: with one zero, where it is a float that may be -0.0.
    fn key(&self, expr: Expr) -> Expr {
        match &expr {
            Expr::Literal(value, _) => {
                let one = datafusion::common::utils::normalize_float_zero_scalar(value.clone());
                Expr::Literal(one, None)
            }
            _ if function::is_zero(&expr) || !self.is_float(&expr) => expr,
            _ => function::one_zero(expr),
        }
    }

    fn sort_key(&self, sort: SortExpr) -> SortExpr {
        SortExpr { expr: self.key(sort.expr), ..sort }
    }
}

fn change(plan: LogicalPlan, fresh: Columns) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::TableScan(_) => Ok(Transformed::no(plan)),
        LogicalPlan::Distinct(Distinct::All(input)) => distinct(input, &fresh),
        plan => change_expressions(plan, fresh),
    }
}

/// Rows that are compared with each other.
fn distinct(input: Arc<LogicalPlan>, fresh: &Columns) -> Result<Transformed<LogicalPlan>> {
    if fresh.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Distinct(Distinct::All(input))));
    }
    let column = |column: Column| match fresh.contains(&column) {
        true => function::one_nan(Expr::Column(column.clone())).alias_qualified(column.relation, column.name),
        false => Expr::Column(column),
    };
    let columns: Vec<Expr> = input.schema().columns().into_iter().map(column).collect();
    let input = LogicalPlanBuilder::from(Arc::unwrap_or_clone(input)).project(columns)?.build()?;
    Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::All(Arc::new(input)))))
}

fn change_expressions(plan: LogicalPlan, fresh: Columns) -> Result<Transformed<LogicalPlan>> {
    let input = Input::of(&plan, fresh);
    let named = named_expressions(&plan);
    let are_keys =
        matches!(plan, LogicalPlan::Sort(_) | LogicalPlan::Join(_) | LogicalPlan::Distinct(Distinct::On(_)));
    let is_compared = !matches!(plan, LogicalPlan::Projection(_));
    let is_ours = matches!(plan, LogicalPlan::Extension(_));
    let has_keys = has_keys(&plan);
    let settled = |expr: Expr, is_named: bool| -> Result<Transformed<Expr>> {
        let name = is_named.then(|| expr.qualified_name());
        let changed = expr.rewrite(&mut Settle::new(&input, is_compared))?;
        Ok(match name {
            Some(name) if changed.transformed => {
                changed.update_data(|expr| match expr.qualified_name() == name {
                    true => expr,
                    false => expr.alias_qualified(name.0, name.1),
                })
            }
            _ => changed,
        })
    };
    let mut at = 0;
    let changed = plan.map_expressions(|expr| {
        let is_named = named.contains(&at);
        at += 1;
        // Our operators compare their keys themselves, but for NaN among those that rows are grouped by.
        if is_ours && !is_aggregate(&expr) && !(has_keys && input.is_float(&expr)) {
            return Ok(Transformed::no(expr));
        }
        if let Expr::GroupingSet(sets) = expr {
            // Each key of the sets is a column.
            return Expr::GroupingSet(sets).map_children(|key| settled(key, is_named));
        }
        let mut changed = settled(expr, is_named)?;
        if are_keys && !is_named && !matches!(changed.data, Expr::Literal(..)) {
            let key = input.key(changed.data.clone());
            changed.transformed |= key != changed.data;
            changed.data = key;
        }
        Ok(changed)
    })?;
    if changed.transformed {
        changed.update_data(on_keys).map_data(LogicalPlan::recompute_schema)
    } else {
        Ok(changed)
    }
}

/// Which expressions of a plan are columns of what it yields.
fn named_expressions(plan: &LogicalPlan) -> Range<usize> {
    match plan {
        LogicalPlan::Projection(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Extension(_) => 0..usize::MAX,
        LogicalPlan::Distinct(Distinct::On(on)) => on.on_expr.len()..on.on_expr.len() + on.select_expr.len(),
        _ => 0..0,
    }
}

/// A join with USING whose keys are no columns any more: names are resolved, it is one with ON.
fn on_keys(plan: LogicalPlan) -> LogicalPlan {
    match plan {
        LogicalPlan::Join(join) => LogicalPlan::Join(Join { join_constraint: JoinConstraint::On, ..join }),
        other => other,
    }
}

/// Whether a node of ours groups rows by keys.
fn has_keys(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Extension(of) if ["SampleBy", "LatestOn"].contains(&of.node.name()))
}

fn is_aggregate(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_aggregate(&alias.expr),
        other => matches!(other, Expr::AggregateFunction(_)),
    }
}
