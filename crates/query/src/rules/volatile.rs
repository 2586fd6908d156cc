//! Expressions that have another value each time they are asked, such as `random() < 0.5`: worked out once for each row
//! of what they stand over.
//!
//! DataFusion 55.2 heeds that where it carries a condition through a projection, and nowhere else: `random() < 0.5` goes
//! below an aggregate, DISTINCT or one side of a join, a key of GROUP BY is worked out anew in a condition above it,
//! `x BETWEEN 1 AND 2` asks for x twice, and two equal scalar sub-queries are one. The rule makes a column of such an
//! expression in a projection of its own, right below what asks for it; has a condition of a join read a column of each
//! side, so that it is one of their pairs; and gives each sub-query a name. It must run where types agree and before
//! keys of windows become columns.

use crate::functions::maybe::maybe;
use crate::named::{change_named, change_unsettled, has};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, TableReference};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Between, Case, InList};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Expr, Filter, Join, LogicalPlan, LogicalPlanBuilder, Projection, SortExpr, Subquery,
};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

/// See the file's header.
#[derive(Debug)]
pub(crate) struct Volatile;

impl AnalyzerRule for Volatile {
    fn name(&self) -> &str {
        "volatile"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut names = 0;
        let changed = plan.transform_up_with_subqueries(|plan| {
            let plan = match has(&plan, is_volatile_query)? {
                true => change_named(plan, |expr| expr.transform_up(|expr| apart(expr, &mut names)))?,
                false => Transformed::no(plan),
            };
            plan.transform_data(|plan| match has(&plan, Expr::is_volatile_node)? {
                true => settled(plan, &mut names),
                false => Ok(Transformed::no(plan)),
            })
        })?;
        Ok(changed.data)
    }
}

/// Whether the rows of a plan may be others each time it runs.
pub(crate) fn varies(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|plan| {
        found |= has(plan, Expr::is_volatile_node)?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn is_volatile_query(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarSubquery(of) if of.outer_ref_columns.is_empty() && varies(&of.subquery).unwrap_or(false))
}

/// A scalar sub-query that equals no other.
fn apart(expr: Expr, names: &mut usize) -> Result<Transformed<Expr>> {
    let Expr::ScalarSubquery(of) = expr else { return Ok(Transformed::no(expr)) };
    if !of.outer_ref_columns.is_empty() || !varies(&of.subquery)? {
        return Ok(Transformed::no(Expr::ScalarSubquery(of)));
    }
    let name = TableReference::bare(next(names));
    let plan = LogicalPlanBuilder::from(of.subquery.as_ref().clone()).alias(name)?.build()?;
    Ok(Transformed::yes(Expr::ScalarSubquery(Subquery { subquery: Arc::new(plan), ..of })))
}

fn next(names: &mut usize) -> String {
    *names += 1;
    format!("__volatile_{names}")
}

fn settled(plan: LogicalPlan, names: &mut usize) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Filter(filter) => filtered(filter, names),
        LogicalPlan::Join(join) => joined(join),
        LogicalPlan::Projection(projection) => projected(projection, names),
        LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) => calculated(plan, names),
        LogicalPlan::Sort(mut sort) => {
            let shown = columns(&sort.input);
            let mut made = Made::default();
            let key = |key: SortExpr| SortExpr { expr: made.key(key.expr, names), ..key };
            sort.expr = sort.expr.into_iter().map(key).collect();
            sort.input = Arc::new(made.below(Arc::unwrap_or_clone(sort.input), names)?);
            let sorted = LogicalPlanBuilder::from(LogicalPlan::Sort(sort)).project(shown)?;
            Ok(Transformed::yes(sorted.build()?))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn columns(plan: &LogicalPlan) -> Vec<Expr> {
    plan.schema().columns().into_iter().map(Expr::Column).collect()
}

/// Columns of a projection that is to come below.
#[derive(Default)]
struct Made(Vec<(Expr, String)>);

impl Made {
    /// The column in the place of an expression, if it is volatile.
    fn column(&mut self, expr: Expr, names: &mut usize) -> Expr {
        if !expr.is_volatile() || expr.contains_outer() {
            return expr;
        }
        let name = next(names);
        self.0.push((expr, name.clone()));
        Expr::Column(Column::new_unqualified(name))
    }

    /// The same of a key, which is one wherever it is written.
    fn key(&mut self, expr: Expr, names: &mut usize) -> Expr {
        match self.0.iter().find(|(known, _)| *known == expr) {
            Some((_, name)) => Expr::Column(Column::new_unqualified(name.as_str())),
            None => self.column(expr, names),
        }
    }

    /// The plan with these columns beside its own.
    fn below(self, plan: LogicalPlan, names: &mut usize) -> Result<LogicalPlan> {
        if self.0.is_empty() {
            return Ok(plan);
        }
        let made = self.0.into_iter().map(|(expr, name)| expr.alias(name));
        let all: Vec<Expr> = columns(&plan).into_iter().chain(made).collect();
        let plan = LogicalPlanBuilder::from(plan).project(all)?.build()?;
        match plan {
            LogicalPlan::Projection(projection) => Ok(projected(projection, names)?.data),
            other => Ok(other),
        }
    }
}

/// A condition is worked out for the rows that fulfil the others.
fn filtered(filter: Filter, names: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let shown = columns(&filter.input);
    let (mut made, mut asked, mut others) = (Made::default(), Vec::new(), Vec::new());
    for condition in split_conjunction_owned(filter.predicate) {
        let is_volatile = condition.is_volatile();
        let condition = made.column(condition, names);
        if is_volatile { asked.push(condition) } else { others.push(condition) }
    }
    let mut plan = Arc::unwrap_or_clone(filter.input);
    if let Some(others) = conjunction(others) {
        plan = LogicalPlanBuilder::from(plan).filter(others)?.build()?;
    }
    let mut plan = LogicalPlanBuilder::from(made.below(plan, names)?);
    if let Some(asked) = conjunction(asked) {
        plan = plan.filter(asked)?;
    }
    Ok(Transformed::yes(plan.project(shown)?.build()?))
}

/// Conditions of a join that are those of pairs of rows.
fn joined(join: Join) -> Result<Transformed<LogicalPlan>> {
    let sides = [&join.left, &join.right].map(|side| side.schema().columns().into_iter().next());
    let Some(filter) = join.filter else { return Ok(Transformed::no(LogicalPlan::Join(join))) };
    let of_pairs = |condition: Expr| match condition.is_volatile() {
        true => maybe(condition, sides.iter().flatten().cloned().map(Expr::Column)),
        false => condition,
    };
    let filter = conjunction(split_conjunction_owned(filter).into_iter().map(of_pairs));
    Ok(Transformed::yes(LogicalPlan::Join(Join { filter, ..join })))
}

/// What is asked for more than once in one expression.
fn projected(projection: Projection, names: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let mut made = Made::default();
    let changed = change_unsettled(LogicalPlan::Projection(projection), |expr| {
        expr.transform_down(|expr| {
            let once = |value: &Expr| value.is_volatile() && !matches!(value, Expr::Column(_));
            Ok(match expr {
                Expr::Between(Between { expr, negated, low, high }) if once(&expr) => {
                    let expr = Box::new(made.column(*expr, names));
                    Transformed::yes(Expr::Between(Between { expr, negated, low, high }))
                }
                Expr::InList(InList { expr, list, negated }) if once(&expr) => {
                    let expr = Box::new(made.column(*expr, names));
                    Transformed::yes(Expr::InList(InList { expr, list, negated }))
                }
                Expr::Case(Case { expr: Some(base), when_then_expr, else_expr }) if once(&base) => {
                    let base = Some(Box::new(made.column(*base, names)));
                    let case = Case { expr: base, when_then_expr, else_expr };
                    Transformed::new(Expr::Case(case), true, TreeNodeRecursion::Jump)
                }
                // What a branch asks for is asked for where the branch is taken.
                Expr::Case(case) => Transformed::new(Expr::Case(case), false, TreeNodeRecursion::Jump),
                other => Transformed::no(other),
            })
        })
    })?;
    if made.0.is_empty() {
        return Ok(Transformed::no(changed.data));
    }
    let LogicalPlan::Projection(above) = changed.data else { return Ok(changed) };
    let below = made.below(Arc::unwrap_or_clone(above.input), names)?;
    Ok(Transformed::yes(LogicalPlanBuilder::from(below).project(above.expr)?.build()?))
}

/// Keys and arguments of aggregates and windows.
fn calculated(plan: LogicalPlan, names: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let shown = matches!(plan, LogicalPlan::Window(_)).then(|| columns(&plan));
    let mut made = Made::default();
    let changed = change_unsettled(plan, |expr| {
        expr.transform_down(|expr| {
            Ok(match expr {
                Expr::WindowFunction(mut call) => {
                    // Keys of windows become columns later.
                    let params = &mut call.params;
                    for part in params.args.iter_mut().chain(params.filter.as_deref_mut()) {
                        *part = made.column(part.clone(), names);
                    }
                    Transformed::new(Expr::WindowFunction(call), true, TreeNodeRecursion::Jump)
                }
                Expr::AggregateFunction(_) => {
                    let keys =
                        matches!(&expr, Expr::AggregateFunction(call) if call.func.name() == "grouping");
                    let call = expr.map_children(|part| {
                        let column = if keys { made.key(part, names) } else { made.column(part, names) };
                        Ok(Transformed::yes(column))
                    })?;
                    Transformed::new(call.data, true, TreeNodeRecursion::Jump)
                }
                expr @ Expr::Alias(_) => Transformed::no(expr),
                expr if expr.is_volatile() => {
                    Transformed::new(made.key(expr, names), true, TreeNodeRecursion::Jump)
                }
                expr => Transformed::new(expr, false, TreeNodeRecursion::Jump),
            })
        })
    })?;
    if made.0.is_empty() {
        return Ok(changed);
    }
    let Some(input) = changed.data.inputs().first().copied().cloned() else { return Ok(changed) };
    let below = made.below(input, names)?;
    let plan = changed.data.with_new_exprs(changed.data.expressions(), vec![below])?;
    let plan = LogicalPlanBuilder::from(plan);
    Ok(Transformed::yes(match shown {
        Some(shown) => plan.project(shown)?.build()?,
        None => plan.build()?,
    }))
}
