//! Plans a call of nbbo.

use super::node::{Nbbo, NbboArguments};
use crate::dialect::marker::{NbboMarker, place, planning_error};
use crate::error::SqlError;
use crate::operators::relation::planned_typed;
use crate::operators::sample::plan::designated_column;
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::normalize_col;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::{Expr, ExprSchemable, Extension, LogicalPlan, cast};
use sqlparser::ast::{self, TableFactor};
use std::sync::Arc;

/// What can be given by name, those that must be first.
const NAMES: [&str; 6] = ["venue", "bid", "ask", "bid_size", "ask_size", "series"];
const NEEDED: usize = 3;

/// The plan of nbbo(query, …).
pub(crate) fn plan_nbbo(marker: NbboMarker, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
    let NbboMarker { query, named, position } = marker;
    let factor = TableFactor::Derived { lateral: false, subquery: query, alias: None, sample: None };
    let input = planned_typed(factor, context)?;
    let mut expr = |ast: ast::Expr| normalize_col(context.sql_to_expr(ast, input.schema())?, &input);
    let time = expr(designated_column(input.schema(), position, "nbbo")?)?;
    let mut found: [Option<Expr>; 5] = Default::default();
    let mut series = Vec::new();
    for (name, given) in named {
        let at_name = place(&ast::Expr::Identifier(name.clone()));
        let at = NAMES.iter().position(|known| name.value.eq_ignore_ascii_case(known));
        let error = |message: String| {
            let known = format!("it takes {}; series may be given several times", NAMES.join(", "));
            planning_error(SqlError::new(message, at_name).hint(known))
        };
        match at.map(|at| (NAMES[at], found.get_mut(at))) {
            None => return Err(error(format!("nbbo takes no {}", name.value))),
            Some((_, None)) => series.push(expr(given)?),
            Some((known, Some(Some(_)))) => return Err(error(format!("{known} is given twice"))),
            Some((known, Some(slot))) => {
                let given_at = place(&given);
                let given = expr(given)?;
                let data_type = given.get_type(input.schema())?;
                if known != "venue" && !data_type.is_numeric() && data_type != DataType::Null {
                    let message = format!("{known} of nbbo is a number, and this is {data_type}");
                    return Err(planning_error(SqlError::new(message, given_at)));
                }
                let double = known == "venue" || data_type == DataType::Float64;
                *slot = Some(if double { given } else { cast(given, DataType::Float64) });
            }
        }
    }
    if let Some(missing) = found.iter().take(NEEDED).position(Option::is_none) {
        let message = format!("nbbo needs {} => …", NAMES[missing]);
        return Err(planning_error(
            SqlError::new(message, position)
                .hint("nbbo(TABLE quotes, series => symbol, venue => venue, bid => bid, ask => ask)"),
        ));
    }
    let [Some(venue), Some(bid), Some(ask), bid_size, ask_size] = found else {
        return Err(planning_error(SqlError::new("nbbo lost an argument", position)));
    };
    let arguments = NbboArguments { time, series, venue, prices: [bid, ask], sizes: [bid_size, ask_size] };
    let node = Nbbo::try_new(input, arguments)?;
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
}
