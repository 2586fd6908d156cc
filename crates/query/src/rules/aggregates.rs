//! Aggregates that DataFusion 55.2 computes wrongly as they are written.
//!
//! - `last_value(x ORDER BY id, y, id)`: a key of an order that came before says nothing. It is dropped from the order
//!   but not from what rows are compared by, and a panic follows. So it is with `SELECT DISTINCT ON (sym) … ORDER BY sym,
//!   ts, sym`, which becomes an aggregate.
//! - `string_agg(DISTINCT sym, ',' ORDER BY sym)`: the argument becomes a text later, and is no key of the order then.
//! - `bit_xor(DISTINCT x)` by group takes every value: it is refused.
//! - `approx_percentile_cont(x, 0.5, 2000000000)` ends the process: it makes room for so many centroids. It is refused.
//! - `nth_value(x, 2 ORDER BY a), nth_value(x, 2 ORDER BY b)`: it sorts rows for one of them, and refuses two. They put
//!   their rows in order themselves then.

use crate::functions::put_in_order;
use crate::named::change_named;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Distinct, Expr, ExprSchemable, LogicalPlan, SortExpr, cast};
use datafusion::optimizer::AnalyzerRule;

/// Most centroids of an approximate quantile.
const CENTROIDS_MAX: f64 = 100_000.0;

/// See the file's header.
#[derive(Debug)]
pub(crate) struct RightAggregates;

impl AnalyzerRule for RightAggregates {
    fn name(&self) -> &str {
        "right_aggregates"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) | LogicalPlan::Extension(_) => {
                let schema = merge_schema(&plan.inputs());
                let changed = change_named(plan, |expr| expr.transform_up(|expr| read(expr, &schema)))?;
                changed.transform_data(in_own_orders)
            }
            LogicalPlan::Distinct(Distinct::On(mut on)) => {
                let keys = on.on_expr.len();
                let changed = on.sort_expr.as_mut().is_some_and(|order| once(order, keys));
                let plan = LogicalPlan::Distinct(Distinct::On(on));
                Ok(Transformed::new_transformed(plan, changed))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(changed.data)
    }
}

fn read(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let changed = match &mut expr {
        Expr::AggregateFunction(call) => {
            check_centroids(call.func.name(), &call.params.args)?;
            if call.params.distinct && call.func.name() == "bit_xor" {
                return plan_err!("bit_xor(DISTINCT …) is not supported outside of windows");
            }
            let as_text = call.params.distinct && call.func.name() == "string_agg";
            let texts = as_text && order_texts(&mut call.params, schema);
            once(&mut call.params.order_by, 0) || texts
        }
        Expr::WindowFunction(call) => {
            check_centroids(call.fun.name(), &call.params.args)?;
            once(&mut call.params.order_by, 0)
        }
        _ => false,
    };
    Ok(if changed { Transformed::yes(expr) } else { Transformed::no(expr) })
}

/// Refuses more centroids than it takes to be exact to a millionth: room for all of them is made when it begins, which no
/// memory pool knows of.
fn check_centroids(name: &str, args: &[Expr]) -> Result<()> {
    let at = match name {
        "approx_percentile_cont" => 2,
        "approx_percentile_cont_with_weight" => 3,
        _ => return Ok(()),
    };
    let number = match args.get(at) {
        Some(Expr::Literal(value, _)) => value.cast_to(&DataType::Float64),
        _ => return Ok(()),
    };
    match number {
        Ok(ScalarValue::Float64(Some(number))) if number > CENTROIDS_MAX => {
            plan_err!("{name} takes at most {CENTROIDS_MAX} centroids, not {number}")
        }
        _ => Ok(()),
    }
}

/// Aggregates that need their rows in different orders, such that each puts its own in order.
fn in_own_orders(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if matches!(plan, LogicalPlan::Window(_)) {
        return Ok(Transformed::no(plan));
    }
    let mut orders: Vec<Vec<SortExpr>> = Vec::new();
    plan.apply_expressions(|expr| {
        expr.apply(|expr| {
            if let Expr::AggregateFunction(call) = expr
                && needs_order(call)
                && !orders.contains(&call.params.order_by)
            {
                orders.push(call.params.order_by.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    if orders.len() < 2 {
        return Ok(Transformed::no(plan));
    }
    change_named(plan, |expr| {
        expr.transform_up(|expr| match expr {
            Expr::AggregateFunction(mut call) if needs_order(&call) => {
                call.func = put_in_order(&call.func);
                Ok(Transformed::yes(Expr::AggregateFunction(call)))
            }
            other => Ok(Transformed::no(other)),
        })
    })
}

fn needs_order(call: &AggregateFunction) -> bool {
    !call.params.order_by.is_empty() && call.func.order_sensitivity().hard_requires()
}

/// Casts a SYMBOL to its text, as an argument and where it is a key of the order; says whether it did.
fn order_texts(params: &mut AggregateFunctionParams, schema: &DFSchema) -> bool {
    let Some(value) = params.args.first_mut() else { return false };
    if !matches!(value.get_type(schema), Ok(DataType::Dictionary(..))) {
        return false;
    }
    let text = cast(value.clone(), DataType::Utf8);
    let symbol = std::mem::replace(value, text);
    for key in params.order_by.iter_mut().filter(|key| key.expr == symbol) {
        key.expr = value.clone();
    }
    true
}

/// An order without the keys after the first so many that came before.
fn once(keys: &mut Vec<SortExpr>, from: usize) -> bool {
    let before = keys.len();
    for key in keys.split_off(from.min(before)) {
        if keys.iter().all(|other| other.expr != key.expr) {
            keys.push(key);
        }
    }
    keys.len() != before
}
