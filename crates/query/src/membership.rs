//! `x IN (SELECT y …)` and `x NOT IN (SELECT y …)` as SQL has them: NULL where x equals no y and x or some y is NULL.
//!
//! DataFusion 55.2 makes a mark join of one below OR, NOT, CASE and the like, whose mark is true or false and never NULL:
//! `NOT` of it takes rows that have none of the y, also beside a NULL. As a condition of its own, or one of several joined
//! by AND, NOT IN is a join that knows of NULLs, but for one column only: a sub-query that reads columns of the query
//! around it is refused there, or its NULLs count in rows it does not read. The rule says the third value in words that
//! mark joins are right for, and leaves what never asks for it: no NULL can be, or NULL is as good as false.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Case, Exists, InSubquery};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Filter, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, lit,
};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

/// See the file's header.
#[derive(Debug)]
pub(crate) struct Membership;

impl AnalyzerRule for Membership {
    fn name(&self) -> &str {
        "membership"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Filter(filter) => {
                let predicate = condition(filter.predicate, filter.input.schema(), true)?;
                let changed = predicate.transformed;
                let filter = Filter::try_new(predicate.data, filter.input)?;
                Ok(Transformed::new_transformed(LogicalPlan::Filter(filter), changed))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(changed.data)
    }
}

/// A condition where NULL is as good as false; `alone` where it is one of those joined by AND.
fn condition(expr: Expr, schema: &DFSchema, alone: bool) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let alone = alone && op == Operator::And;
            let left = condition(*left, schema, alone)?;
            let right = condition(*right, schema, alone)?;
            let changed = left.transformed || right.transformed;
            let (left, right) = (Box::new(left.data), Box::new(right.data));
            let whole = Expr::BinaryExpr(BinaryExpr { left, op, right });
            Ok(Transformed::new_transformed(whole, changed))
        }
        Expr::Not(inner) if alone && matches!(inner.as_ref(), Expr::InSubquery(_)) => {
            let Expr::InSubquery(of) = *inner else { return Ok(Transformed::no(Expr::Not(inner))) };
            condition(Expr::InSubquery(InSubquery { negated: !of.negated, ..of }), schema, alone)
        }
        Expr::InSubquery(of) if !of.negated => Ok(Transformed::no(Expr::InSubquery(of))),
        Expr::InSubquery(of) if alone && of.subquery.outer_ref_columns.is_empty() => {
            Ok(Transformed::no(Expr::InSubquery(of)))
        }
        other => value(other, schema),
    }
}

/// An expression of which NULL and false are two things.
fn value(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expr.transform_down(|expr| match expr {
        Expr::InSubquery(of) => three_valued(of, schema),
        other => Ok(Transformed::no(other)),
    })
}

fn three_valued(of: InSubquery, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let found = of.subquery.subquery.schema();
    // What has several columns, or reads what is not there, is refused by the planner.
    let x_nulls = of.expr.nullable(schema);
    let (Ok(x_nulls), 1) = (x_nulls, found.fields().len()) else {
        return Ok(Transformed::no(Expr::InSubquery(of)));
    };
    let y_nulls = found.field(0).is_nullable();
    if !x_nulls && !y_nulls {
        return Ok(Transformed::no(Expr::InSubquery(of)));
    }
    let y = Expr::Column(Column::from(found.qualified_field(0)));
    let null = || Box::new(Expr::Literal(ScalarValue::Boolean(None), None));
    let mut cases = Vec::new();
    if y_nulls {
        cases.push((Box::new(exists(&of.subquery, Some(y.is_null()))?), null()));
    }
    if x_nulls {
        let unknown = of.expr.as_ref().clone().is_null().and(exists(&of.subquery, None)?);
        cases.push((Box::new(unknown), null()));
    }
    let negated = of.negated;
    let is_in = Expr::InSubquery(InSubquery { negated: false, ..of });
    cases.insert(0, (Box::new(is_in), Box::new(lit(!negated))));
    let otherwise = Some(Box::new(lit(negated)));
    let case = Expr::Case(Case { expr: None, when_then_expr: cases, else_expr: otherwise });
    // The sub-query in it is not looked at again.
    Ok(Transformed::new(case, true, TreeNodeRecursion::Jump))
}

/// Whether a sub-query has a row, of those that `only` is true for.
fn exists(subquery: &Subquery, only: Option<Expr>) -> Result<Expr> {
    let mut plan = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone());
    if let Some(only) = only {
        plan = plan.filter(only)?;
    }
    // One row says as much as all, but which columns of the query around it the first row has to agree with is not
    // known where the limit stands.
    if subquery.outer_ref_columns.is_empty() {
        plan = plan.limit(0, Some(1))?;
    }
    let subquery = Subquery {
        subquery: Arc::new(plan.build()?),
        outer_ref_columns: subquery.outer_ref_columns.clone(),
        spans: subquery.spans.clone(),
    };
    Ok(Expr::Exists(Exists { subquery, negated: false }))
}
