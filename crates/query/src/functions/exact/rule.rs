//! Puts the exact aggregates in the place of those of doubles where the session asks for them.

use super::Exact;
use crate::named::keeping_names;
use crate::settings::SessionSettings;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr::WindowFunctionDefinition;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{AggregateUDF, Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

/// Runs after types were made to agree.
#[derive(Debug)]
pub(crate) struct DeterministicSums;

impl AnalyzerRule for DeterministicSums {
    fn name(&self) -> &str {
        "deterministic_sums"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let asked = config.extensions.get::<SessionSettings>().is_some_and(|of| of.deterministic_sums);
        if asked { Ok(plan.transform_up_with_subqueries(replace_all)?.data) } else { Ok(plan) }
    }
}

fn replace_all(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !matches!(plan, LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) | LogicalPlan::Extension(_)) {
        return Ok(Transformed::no(plan));
    }
    let schema = merge_schema(plan.inputs().as_slice());
    keeping_names(plan, |expr| expr.transform_up(|expr| Ok(replace(expr, &schema))))
}

fn replace(mut expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let (function, args, distinct) = match &mut expr {
        Expr::AggregateFunction(call) => (&mut call.func, &call.params.args, call.params.distinct),
        Expr::WindowFunction(call) => match &mut call.fun {
            WindowFunctionDefinition::AggregateUDF(function) => {
                (function, &call.params.args, call.params.distinct)
            }
            WindowFunctionDefinition::WindowUDF(_) => return Transformed::no(expr),
        },
        _ => return Transformed::no(expr),
    };
    let Some(exact) = Exact::of(function.name()) else { return Transformed::no(expr) };
    let double = |arg: &Expr| arg.get_type(schema).is_ok_and(|of| of == DataType::Float64);
    if args.len() != exact.made.arguments() || !args.iter().all(double) || (distinct && args.len() > 1) {
        return Transformed::no(expr);
    }
    *function = Arc::new(AggregateUDF::from(exact));
    Transformed::yes(expr)
}
