//! `a.x IS NOT DISTINCT FROM b.x` between two tables, beside other conditions of their join.
//!
//! DataFusion 55.2 makes keys of a join of both this and `=`, and a join has one answer to whether NULL equals NULL: what
//! is said of the one key goes for all. The rule says it by two keys that are never NULL, whether x is NULL and x or
//! else a value of its type, so that every key is one of `=`.

use crate::named::{change_named, has};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue, TableReference};
use datafusion::error::Result;
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::AnalyzerRule;
use std::collections::BTreeSet;

/// See the file's header.
#[derive(Debug)]
pub(crate) struct NullKeys;

impl AnalyzerRule for NullKeys {
    fn name(&self) -> &str {
        "null_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Filter(_) | LogicalPlan::Join(_) if has(&plan, is_null_key)? => {
                let schema = merge_schema(&plan.inputs());
                change_named(plan, |expr| expr.transform_down(|expr| as_keys(expr, &schema)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(changed.data)
    }
}

fn is_null_key(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryExpr(BinaryExpr { op: Operator::IsNotDistinctFrom, .. }))
}

fn as_keys(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::IsNotDistinctFrom, right }) = expr else {
        return Ok(Transformed::no(expr));
    };
    let (of_left, of_right) = (tables(&left), tables(&right));
    if of_left.is_empty() || of_right.is_empty() || of_left == of_right {
        let same = BinaryExpr { left, op: Operator::IsNotDistinctFrom, right };
        return Ok(Transformed::no(Expr::BinaryExpr(same)));
    }
    let both_null = left.as_ref().clone().is_null().eq(right.as_ref().clone().is_null());
    let or_else = |side: &Expr| -> Result<Expr> {
        let some = ScalarValue::new_default(&side.get_type(schema)?)?;
        Ok(coalesce(vec![side.clone(), Expr::Literal(some, None)]))
    };
    Ok(Transformed::yes(match (or_else(&left), or_else(&right)) {
        (Ok(left), Ok(right)) => both_null.and(left.eq(right)),
        // A type without a value of its own: no key, but right.
        _ => {
            let neither = left.as_ref().clone().is_null().and(right.as_ref().clone().is_null());
            left.as_ref().clone().eq(*right).or(neither)
        }
    }))
}

/// The tables whose columns an expression reads.
fn tables(expr: &Expr) -> BTreeSet<Option<TableReference>> {
    expr.column_refs().into_iter().map(|column| column.relation.clone()).collect()
}
