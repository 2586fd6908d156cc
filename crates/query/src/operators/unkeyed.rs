//! Rows below UNNEST and joins, of which no column is unique and none depends on others.
//!
//! DataFusion 55.2 takes what it knows of UNNEST's input for its output: the key of a GROUP BY stays unique, and decides
//! the columns beside it, though its row is there once for each element. `SELECT DISTINCT` above it then gives equal rows,
//! ORDER BY leaves keys out, and GROUP BY splits groups by columns that it was not told. A node below UNNEST says nothing
//! of keys, so that neither does UNNEST, whatever rule makes it anew.
//!
//! Above a join such a key decides the columns of its own side alone, which DataFusion knows, until the rows are grouped
//! again: of `SELECT DISTINCT g, e FROM (SELECT x AS g FROM t GROUP BY x) CROSS JOIN u` it takes g to decide e, and leaves
//! e out of `ORDER BY g, e`. So the sides of joins say nothing of keys either.
//!
//! [`NoKeys`] puts it there in the whole plan. GROUP BY looks at keys while a statement is being planned: sub-queries and
//! queries of WITH that have `unnest`, or group the rows of a join, are markers, which are planned by [`plan_unkeyed`].

use super::node::{Exprs, Node, node};
use crate::rules::correlated::reads_outer;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, DFSchemaRef, FunctionalDependencies, JoinType};
use datafusion::error::Result;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use sqlparser::ast::{Query, TableFactor};
use std::fmt;
use std::sync::Arc;

/// The rows of an input, of whose columns nothing is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Unkeyed {
    input: LogicalPlan,
    schema: DFSchemaRef,
}

impl Unkeyed {
    fn try_new(input: LogicalPlan) -> Result<Self> {
        let schema = DFSchema::clone(input.schema());
        let schema = schema.with_functional_dependencies(FunctionalDependencies::empty())?;
        Ok(Self { input, schema: Arc::new(schema) })
    }
}

node!(Unkeyed);

impl Node<1> for Unkeyed {
    fn sources(&self) -> [&LogicalPlan; 1] {
        [&self.input]
    }

    fn output(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn exprs(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn passes(&self, _column: usize) -> bool {
        true
    }

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unkeyed")
    }

    fn over(&self, _exprs: Exprs, [input]: [LogicalPlan; 1]) -> Result<Self> {
        Self::try_new(input)
    }

    fn reads(&self, output: &[usize]) -> [Vec<usize>; 1] {
        [output.to_vec()]
    }
}

/// Whether rows have a key that is known, or will be: DISTINCT becomes a grouping later.
fn is_keyed(plan: &LogicalPlan) -> bool {
    !plan.schema().functional_dependencies().is_empty()
        || match plan {
            LogicalPlan::Distinct(_) => true,
            LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Window(_) => plan.inputs().into_iter().any(is_keyed),
            _ => false,
        }
}

/// Whether a row of a side may come several times.
fn multiplies(join_type: JoinType) -> bool {
    matches!(join_type, JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full)
}

fn is_lateral(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => is_lateral(&alias.input),
        other => matches!(other, LogicalPlan::Subquery(_)),
    }
}

/// The rows of a plan that becomes the input of UNNEST.
///
/// # Errors
/// None of its own.
pub(crate) fn unkeyed(input: LogicalPlan) -> Result<LogicalPlan> {
    if !is_keyed(&input) {
        return Ok(input);
    }
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(Unkeyed::try_new(input)?) }))
}

/// A plan in which UNNEST and joins say nothing of keys.
fn without_keys(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut is_changed = false;
    let changed = plan.transform_up_with_subqueries(|plan| match plan {
        LogicalPlan::Unnest(mut unnest) if is_keyed(&unnest.input) => {
            is_changed = true;
            unnest.input = Arc::new(unkeyed(Arc::unwrap_or_clone(unnest.input))?);
            Ok(Transformed::yes(LogicalPlan::Unnest(unnest).recompute_schema()?))
        }
        // Of a sub-query that is still to become a join, the rule for it must see all.
        LogicalPlan::Join(mut join)
            if multiplies(join.join_type)
                && (is_keyed(&join.left) || is_keyed(&join.right))
                && !reads_outer(&join.left)?
                && (is_lateral(&join.right) || !reads_outer(&join.right)?) =>
        {
            is_changed = true;
            join.left = Arc::new(unkeyed(Arc::unwrap_or_clone(join.left))?);
            // A LATERAL query is still to become a join.
            if is_lateral(&join.right) {
                return Ok(Transformed::yes(unkeyed(LogicalPlan::Join(join).recompute_schema()?)?));
            }
            join.right = Arc::new(unkeyed(Arc::unwrap_or_clone(join.right))?);
            Ok(Transformed::yes(LogicalPlan::Join(join).recompute_schema()?))
        }
        plan if is_changed => Ok(Transformed::yes(plan.recompute_schema()?)),
        plan => Ok(Transformed::no(plan)),
    })?;
    Ok(changed.data)
}

/// The plan of a query of WITH or in FROM that has UNNEST, or groups the rows of a join.
///
/// # Errors
/// Those of planning it.
pub(crate) fn plan_unkeyed(
    query: Box<Query>,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let derived = TableFactor::Derived { lateral: false, subquery: query, alias: None, sample: None };
    without_keys(context.plan(derived)?)
}

/// See the file's header.
#[derive(Debug)]
pub(crate) struct NoKeys;

impl AnalyzerRule for NoKeys {
    fn name(&self) -> &str {
        "no_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        without_keys(plan)
    }
}
