//! Sub-queries that read columns of the query around them, in words that DataFusion joins them right for.
//!
//! DataFusion 55.2 makes a join of one: its conditions on outer columns go up into the join's, and its columns come to
//! stand under one alias. Two columns of one name, of two tables of the sub-query, are then one, and a column of the same
//! table inside and outside (`SELECT s IN (SELECT s FROM t) FROM t`) is compared with itself. The rule gives such a column
//! a name of its own below the condition that reads it. An alias around such a condition knows nothing of the columns that
//! come through it then: the rule makes a list of columns of it.
//!
//! Conditions also go up past windows, whose rows are then those of all outer rows together, past HAVING, and past ROLLUP,
//! CUBE and GROUPING SETS, whose row of no key is then lost. All are refused where [`super::dependent`] has no other words
//! for them.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Aggregate, Expr, Filter, LogicalPlan, LogicalPlanBuilder, SubqueryAlias};
use datafusion::optimizer::AnalyzerRule;
use std::collections::HashSet;
use std::sync::Arc;

/// See the file's header.
#[derive(Debug)]
pub(crate) struct Correlated;

impl AnalyzerRule for Correlated {
    fn name(&self) -> &str {
        "correlated"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut names = 0;
        let changed = plan.transform_up_with_subqueries(|plan| {
            check_node(&plan)?;
            if let LogicalPlan::Subquery(of) = &plan {
                check_having(&of.subquery)?;
            }
            match plan {
                LogicalPlan::Filter(filter) if filter.predicate.contains_outer() => {
                    told_apart(filter, &mut names)
                }
                LogicalPlan::SubqueryAlias(alias) if reads_outer(&alias.input)? && is_alone(&alias)? => {
                    let column = |column: Column| {
                        let name = column.name.clone();
                        Expr::Column(column).alias_qualified(Some(alias.alias.clone()), name)
                    };
                    let columns: Vec<Expr> = alias.input.schema().columns().into_iter().map(column).collect();
                    let plan = LogicalPlanBuilder::from(Arc::unwrap_or_clone(alias.input));
                    Ok(Transformed::yes(plan.project(columns)?.build()?))
                }
                other => Ok(Transformed::no(other)),
            }
        })?;
        Ok(changed.data)
    }
}

/// Refuses a sub-query that such a join would be wrong for.
pub(super) fn check(plan: &LogicalPlan) -> Result<()> {
    apply_own(plan, |plan| check_node(plan).map(|()| TreeNodeRecursion::Continue))?;
    check_having(plan)
}

/// Walks a sub-query's own plan, and none of its sub-queries.
pub(super) fn apply_own(
    plan: &LogicalPlan,
    mut f: impl FnMut(&LogicalPlan) -> Result<TreeNodeRecursion>,
) -> Result<()> {
    plan.apply(|plan| match plan {
        LogicalPlan::Subquery(_) => Ok(TreeNodeRecursion::Jump),
        plan => f(plan),
    })?;
    Ok(())
}

fn check_node(plan: &LogicalPlan) -> Result<()> {
    match plan {
        LogicalPlan::Window(window) if reads_outer(&window.input)? => plan_err!(
            "a window in a sub-query that reads columns of the query around it, for each row anew, is not supported"
        ),
        LogicalPlan::Aggregate(Aggregate { input, group_expr, .. })
            if matches!(group_expr[..], [Expr::GroupingSet(_)]) && reads_outer(input)? =>
        {
            plan_err!(
                "ROLLUP, CUBE and GROUPING SETS in a sub-query that reads columns of the query around it, for each row \
                 anew, are not supported"
            )
        }
        _ => Ok(()),
    }
}

/// Whether a condition of a plan reads columns of the query around it; those of its own sub-queries do not count.
pub(crate) fn reads_outer(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    apply_own(plan, |plan| {
        found |= plan.contains_outer_reference();
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Whether no table below an alias has its name.
fn is_alone(alias: &SubqueryAlias) -> Result<bool> {
    let mut alone = true;
    alias.input.as_ref().apply(|plan| {
        alone &= plan.schema().iter().all(|(table, _)| table != Some(&alias.alias));
        Ok(if alone { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(alone)
}

/// Refuses HAVING above an aggregate without groups, which is wrong where no row is found.
fn check_having(plan: &LogicalPlan) -> Result<()> {
    let (mut above, mut is_filtered) = (plan, false);
    loop {
        above = match above {
            LogicalPlan::SubqueryAlias(alias) => &alias.input,
            LogicalPlan::Sort(sort) => &sort.input,
            LogicalPlan::Projection(projection) => &projection.input,
            LogicalPlan::Filter(filter) => {
                is_filtered = true;
                &filter.input
            }
            LogicalPlan::Aggregate(Aggregate { input, group_expr, .. })
                if is_filtered && group_expr.is_empty() && reads_outer(input)? =>
            {
                return plan_err!(
                    "HAVING in a sub-query without GROUP BY that reads columns of the query around it is not supported: \
                     write it outside of the sub-query"
                );
            }
            _ => return Ok(()),
        };
    }
}

/// A condition whose columns have names of their own where others have the same.
fn told_apart(filter: Filter, names: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(filter.input.schema());
    let (asking, rest): (Vec<_>, Vec<_>) =
        split_conjunction_owned(filter.predicate.clone()).into_iter().partition(Expr::contains_outer);
    let outer = outer_columns(&asking)?;
    let mut same: Vec<Column> = Vec::new();
    for column in asking.iter().flat_map(Expr::column_refs) {
        let (table, field) = schema.qualified_field_from_column(column)?;
        let column = Column::from((table, field));
        if !same.contains(&column) && (outer.contains(&column) || is_repeated(&schema, column.name())) {
            same.push(column);
        }
    }
    if same.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    }
    // In the order of their columns, whatever that of the condition.
    same.sort();
    let told: Vec<String> = same
        .iter()
        .map(|_| {
            *names += 1;
            format!("__key_{names}")
        })
        .collect();
    let apart = |expr: Expr| {
        let changed = expr.transform_up(|expr| {
            let Expr::Column(column) = &expr else { return Ok(Transformed::no(expr)) };
            let (table, field) = schema.qualified_field_from_column(column)?;
            let column = Column::from((table, field));
            let place = same.iter().position(|other| *other == column);
            Ok(place.map_or(Transformed::no(expr), |place| {
                Transformed::yes(Expr::Column(Column::new_unqualified(told[place].as_str())))
            }))
        })?;
        Ok(changed.data)
    };
    let asking = asking.into_iter().map(apart).collect::<Result<Vec<_>>>()?;
    let columns: Vec<Expr> = schema.columns().into_iter().map(Expr::Column).collect();
    let copies = same.iter().zip(&told).map(|(column, name)| Expr::Column(column.clone()).alias(name));
    let plan = LogicalPlanBuilder::from(Arc::unwrap_or_clone(filter.input));
    let plan = plan.project(columns.iter().cloned().chain(copies))?;
    let Some(condition) = conjunction(asking.into_iter().chain(rest)) else {
        return plan_err!("a condition has no parts");
    };
    Ok(Transformed::yes(plan.filter(condition)?.project(columns)?.build()?))
}

fn is_repeated(schema: &DFSchema, name: &str) -> bool {
    schema.fields().iter().filter(|field| field.name() == name).count() > 1
}

/// The columns of the query around that conditions read.
fn outer_columns(conditions: &[Expr]) -> Result<HashSet<Column>> {
    let mut columns = HashSet::new();
    for condition in conditions {
        condition.apply(|expr| {
            if let Expr::OuterReferenceColumn(_, column) = expr {
                columns.insert(column.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(columns)
}
