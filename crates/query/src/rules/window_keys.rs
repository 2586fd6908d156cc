//! Expressions that windows are parted and ordered by, as columns of what they read.
//!
//! A plan has several functions in one node where their keys are the same. DataFusion's rules change expressions one by
//! one, and a key that is `n % 2` in one function and a column in another is a defect to its physical planner. A column
//! stays what it is.

use datafusion::common::Column;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Window};
use datafusion::optimizer::AnalyzerRule;

/// Names of the columns begin with this.
const KEY: &str = "__window_key";

/// Must run last, when keys are what they will be.
#[derive(Debug)]
pub(crate) struct WindowKeys;

impl AnalyzerRule for WindowKeys {
    fn name(&self) -> &str {
        "window_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut count = 0;
        let changed = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Window(window) => by_columns(window, &mut count),
            other => Ok(Transformed::no(other)),
        })?;
        Ok(changed.data)
    }
}

fn by_columns(window: Window, count: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let mut keys: Vec<(Expr, Column)> = Vec::new();
    let mut column_of = |key: &mut Expr| {
        if matches!(key, Expr::Column(_) | Expr::Literal(..)) {
            return;
        }
        let known = keys.iter().find(|(known, _)| known == key).map(|(_, column)| column.clone());
        let column = known.unwrap_or_else(|| {
            *count += 1;
            let column = Column::from_name(format!("{KEY}_{count}"));
            keys.push((key.clone(), column.clone()));
            column
        });
        *key = Expr::Column(column);
    };
    let mut exprs = Vec::with_capacity(window.window_expr.len());
    for expr in window.window_expr {
        let name = expr.qualified_name();
        let changed = expr.transform_up(|expr| {
            let Expr::WindowFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
            call.params.partition_by.iter_mut().for_each(&mut column_of);
            call.params.order_by.iter_mut().for_each(|key| column_of(&mut key.expr));
            Ok(Transformed::yes(Expr::WindowFunction(call)))
        })?;
        let expr = changed.data;
        let is_same = expr.qualified_name() == name;
        exprs.push(if is_same { expr } else { expr.alias_qualified(name.0, name.1) });
    }
    let input = LogicalPlanBuilder::from(window.input);
    if keys.is_empty() {
        return Ok(Transformed::yes(input.window(exprs)?.build()?));
    }
    let columns = input.schema().columns().into_iter().map(Expr::Column);
    let columns: Vec<Expr> =
        columns.chain(keys.into_iter().map(|(key, column)| key.alias(column.name))).collect();
    Ok(Transformed::yes(input.project(columns)?.window(exprs)?.build()?))
}
