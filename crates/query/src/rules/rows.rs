//! Rows of values beside those of a sub-query: `(a, b) IN (SELECT x, y …)`, `(a, b) = (SELECT x, y …)`.
//!
//! [`crate::dialect`] has such a sub-query give structs, as `(a, b)` is one. A struct equals another also where both have
//! a NULL; rows of SQL are equal where each pair of values is, differ where one does, and else it is NULL. The rule
//! compares pair by pair: IN as EXISTS, and `=` with a scalar sub-query for each value. It comes before all that goes by
//! comparisons, so that those of rows are as any others.

use super::dependent::{Common, reads_around, same_each_time};
use super::membership::{exists, null, outer};
use crate::dialect::ROW;
use crate::named::{change_named, has};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, TableReference};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Case, InSubquery};
use datafusion::logical_expr::utils::{conjunction, disjunction, merge_schema, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Filter, LogicalPlan, LogicalPlanBuilder, Operator, Projection, Subquery,
    lit,
};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

/// See the file's header.
#[derive(Debug)]
pub(crate) struct Rows {
    /// Has the rows of a plan made once, however often it is read.
    common: Common,
}

impl Rows {
    pub(crate) fn new(common: Common) -> Self {
        Self { common }
    }
}

impl AnalyzerRule for Rows {
    fn name(&self) -> &str {
        "rows"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = plan.transform_up_with_subqueries(|plan| {
            if !has(&plan, is_of_rows)? {
                return Ok(Transformed::no(plan));
            }
            let schema = merge_schema(&plan.inputs());
            let plan = match plan {
                LogicalPlan::Filter(filter) => LogicalPlan::Filter(filtered(filter)?),
                other => other,
            };
            let changed =
                change_named(plan, |expr| expr.transform_down(|expr| read(expr, &schema, self.common)))?;
            Ok(Transformed::yes(changed.data))
        })?;
        Ok(changed.data)
    }
}

fn is_of_rows(expr: &Expr) -> bool {
    match expr {
        Expr::InSubquery(of) => pairs(&of.expr, &of.subquery).is_some(),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq | Operator::NotEq, right }) => {
            matches!(right.as_ref(), Expr::ScalarSubquery(of) if pairs(left, of).is_some())
        }
        _ => false,
    }
}

/// The values of a row and the columns of a sub-query that they are compared with.
fn pairs<'a>(
    row: &'a Expr,
    subquery: &'a Subquery,
) -> Option<(&'a [Expr], &'a [Expr], &'a Arc<LogicalPlan>)> {
    let LogicalPlan::Projection(Projection { expr, input, .. }) = subquery.subquery.as_ref() else {
        return None;
    };
    let LogicalPlan::SubqueryAlias(alias) = input.as_ref() else { return None };
    let [found] = expr.as_slice() else { return None };
    let found = if let Expr::Alias(alias) = found { alias.expr.as_ref() } else { found };
    let (Expr::ScalarFunction(row), Expr::ScalarFunction(found)) = (row, found) else { return None };
    let is_row = alias.alias == TableReference::bare(ROW)
        && row.func.name() == "struct"
        && found.func.name() == "struct"
        && row.args.len() == found.args.len();
    is_row.then_some((row.args.as_slice(), found.args.as_slice(), input))
}

/// Conditions of a list of them, where NULL is as good as false.
fn filtered(filter: Filter) -> Result<Filter> {
    let schema = Arc::clone(filter.input.schema());
    let alone = |part: Expr| match part {
        Expr::InSubquery(of) => Ok(match Within::of(&of, &schema)? {
            Some(within) if of.negated => !within.any(within.equal.clone().is_not_false())?,
            Some(within) => within.any(within.equal.clone())?,
            None => Expr::InSubquery(of),
        }),
        other => Ok(other),
    };
    let parts =
        split_conjunction_owned(filter.predicate).into_iter().map(alone).collect::<Result<Vec<_>>>()?;
    Filter::try_new(conjunction(parts).unwrap_or_else(|| lit(true)), filter.input)
}

/// IN of rows.
struct Within {
    /// The rows of the sub-query.
    rows: Subquery,
    /// Whether one equals the row outside.
    equal: Expr,
    /// Whether that may be NULL.
    has_nulls: bool,
}

impl Within {
    fn of(of: &InSubquery, schema: &DFSchema) -> Result<Option<Self>> {
        let Some((row, found, input)) = pairs(&of.expr, &of.subquery) else { return Ok(None) };
        let mut has_nulls = false;
        let mut equal = Vec::with_capacity(row.len());
        for (x, y) in row.iter().zip(found) {
            has_nulls |= x.nullable(schema)? || y.nullable(input.schema())?;
            equal.push(outer(x.clone(), schema)?.eq(y.clone()));
        }
        let rows = Subquery { subquery: Arc::clone(input), ..of.subquery.clone() };
        Ok(conjunction(equal).map(|equal| Self { rows, equal, has_nulls }))
    }

    fn any(&self, only: Expr) -> Result<Expr> {
        exists(&self.rows, Some(only))
    }
}

fn read(expr: Expr, schema: &DFSchema, common: Common) -> Result<Transformed<Expr>> {
    match expr {
        Expr::InSubquery(of) => {
            let Some(within) = Within::of(&of, schema)? else {
                return Ok(Transformed::no(Expr::InSubquery(of)));
            };
            let mut cases = vec![(Box::new(within.any(within.equal.clone())?), Box::new(lit(!of.negated)))];
            if within.has_nulls {
                cases.push((Box::new(within.any(within.equal.clone().is_null())?), Box::new(null())));
            }
            let case = Case { expr: None, when_then_expr: cases, else_expr: Some(Box::new(lit(of.negated))) };
            Ok(Transformed::yes(Expr::Case(case)))
        }
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Eq | Operator::NotEq), right }) => {
            let made = match right.as_ref() {
                Expr::ScalarSubquery(of) => equal(&left, op, of, common)?,
                _ => None,
            };
            Ok(match made {
                Some(made) => Transformed::yes(made),
                None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
            })
        }
        other => Ok(Transformed::no(other)),
    }
}

/// `(a, b) = (SELECT x, y …)`.
fn equal(row: &Expr, op: Operator, of: &Subquery, common: Common) -> Result<Option<Expr>> {
    let Some((row, found, input)) = pairs(row, of) else { return Ok(None) };
    let rows = match reads_around(input)? {
        true => input.as_ref().clone(),
        // It is read for each value.
        false => same_each_time(input, common)?,
    };
    let each = row.iter().zip(found).map(|(x, y)| {
        let plan = LogicalPlanBuilder::from(rows.clone()).project([y.clone()])?.build()?;
        let y = Expr::ScalarSubquery(Subquery { subquery: Arc::new(plan), ..of.clone() });
        Ok(if op == Operator::Eq { x.clone().eq(y) } else { x.clone().not_eq(y) })
    });
    let each = each.collect::<Result<Vec<Expr>>>()?;
    Ok(if op == Operator::Eq { conjunction(each) } else { disjunction(each) })
}
