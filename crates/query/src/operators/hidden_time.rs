//! Adds the designated timestamp to functions that go by time: `last(price)` becomes `last(price, ts)` under its old
//! name, and `last_not_null(price)` and `last_not_null(price, ts)` get a filter.

use super::series_join::node::SeriesJoin;
use crate::designated::designated_timestamp;
use crate::facts::untimed_arguments;
use crate::named::keeping_names;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Diagnostic, plan_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::WindowFunctionDefinition;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

/// See the file's header.
#[derive(Debug)]
pub(crate) struct AddHiddenTime;

impl AnalyzerRule for AddHiddenTime {
    fn name(&self) -> &str {
        "add_hidden_time"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(add_time)?.data)
    }
}

fn add_time(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !matches!(plan, LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) | LogicalPlan::Extension(_)) {
        return Ok(Transformed::no(plan));
    }
    let time = match plan.inputs().as_slice() {
        [input] => time_of(input.schema()),
        _ => match window_join_time(&plan) {
            Some(time) => Some(time),
            None => return Ok(Transformed::no(plan)),
        },
    };
    keeping_names(plan, |expr| expr.transform_up(|expr| add_argument(expr, time.as_ref())))
}

/// The time of the right side, whose rows a WINDOW JOIN aggregates.
fn window_join_time(plan: &LogicalPlan) -> Option<Column> {
    let LogicalPlan::Extension(extension) = plan else { return None };
    extension.node.as_any().downcast_ref::<SeriesJoin>()?.right_time()
}

/// Whether these are `ema(x, unit, tau)` without the time.
fn is_ema_by_time(args: &[Expr]) -> bool {
    let [_, Expr::Literal(kind, _), _] = args else { return false };
    kind.try_as_str().flatten().is_some_and(crate::functions::indicators::is_by_time)
}

fn time_of(schema: &DFSchema) -> Option<Column> {
    let (qualifier, field) = schema.qualified_field(designated_timestamp(schema)?);
    Some(Column::new(qualifier.cloned(), field.name()))
}

/// What goes by time has its order.
fn refuse_order(expr: &Expr) -> Result<()> {
    let Expr::AggregateFunction(call) = expr else { return Ok(()) };
    let name = call.func.name();
    if untimed_arguments(name).is_none() || call.params.order_by.is_empty() {
        return Ok(());
    }
    let message = format!("{name} takes no ORDER BY: it goes by the designated timestamp");
    let hint = "another timestamp is its last argument; first_value(x ORDER BY y), last_value(x ORDER BY y), \
                arg_min(x, y) and arg_max(x, y) go by other columns";
    let error = plan_datafusion_err!("{message}");
    Err(error.with_diagnostic(Diagnostic::new_error(&message, None).with_help(hint, None)))
}

fn add_argument(mut expr: Expr, time: Option<&Column>) -> Result<Transformed<Expr>> {
    refuse_order(&expr)?;
    let (name, args, filter) = match &mut expr {
        Expr::AggregateFunction(call) => {
            (call.func.name().to_string(), &mut call.params.args, &mut call.params.filter)
        }
        Expr::WindowFunction(call) => match &call.fun {
            WindowFunctionDefinition::AggregateUDF(function) => {
                (function.name().to_string(), &mut call.params.args, &mut call.params.filter)
            }
            WindowFunctionDefinition::WindowUDF(function) => {
                (function.name().to_string(), &mut call.params.args, &mut call.params.filter)
            }
        },
        _ => return Ok(Transformed::no(expr)),
    };
    let mut filtered = false;
    // Also where the time is written.
    if name.ends_with("_not_null")
        && let [value] | [value, _] = args.as_slice()
    {
        let counts = value.clone().is_not_null();
        let known = filter.as_ref().is_some_and(|filter| split_conjunction(filter).contains(&&counts));
        if !known {
            filtered = true;
            *filter = Some(Box::new(match filter.take() {
                Some(filter) => filter.and(counts),
                None => counts,
            }));
        }
    }
    if untimed_arguments(&name) != Some(args.len()) && !(name == "ema" && is_ema_by_time(args)) {
        return Ok(if filtered { Transformed::yes(expr) } else { Transformed::no(expr) });
    }
    let time = time.ok_or_else(|| crate::functions::first_last::without_time(&name))?;
    args.push(Expr::Column(time.clone()));
    Ok(Transformed::yes(expr))
}
