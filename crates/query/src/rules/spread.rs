//! Long constants that an expression copies for each row: `CASE WHEN x THEN repeat('a', 1000000) ELSE s END` takes
//! gigabytes for one batch of rows. They claim the copies ([`crate::functions::growth`]).

use crate::functions::growth::spread;
use crate::named::{change_named, has};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// See the file's header. Runs after all rules that work constants out.
#[derive(Debug)]
pub(crate) struct SpreadConstants;

impl OptimizerRule for SpreadConstants {
    fn name(&self) -> &str {
        "spread_constants"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match has(&plan, copies)? {
            true => change_named(plan, |expr| expr.transform_up(spreading)),
            false => Ok(Transformed::no(plan)),
        }
    }
}

/// Whether an expression copies a long constant for each row.
fn copies(expr: &Expr) -> bool {
    copied(expr).any(|value| spread(value).is_some())
}

/// What an expression copies for each row where it is a constant: what a CASE gives, and what is aggregated.
fn copied(expr: &Expr) -> Box<dyn Iterator<Item = &Expr> + '_> {
    match expr {
        Expr::Case(case) => {
            let given = case.when_then_expr.iter().map(|(_, then)| then);
            Box::new(given.chain(&case.else_expr).map(AsRef::as_ref))
        }
        Expr::AggregateFunction(call) => Box::new(call.params.args.iter().take(1)),
        _ => Box::new(std::iter::empty()),
    }
}

fn spreading(mut expr: Expr) -> Result<Transformed<Expr>> {
    let mut changed = false;
    let mut change = |value: &mut Expr| {
        if let Some(spread) = spread(value) {
            (*value, changed) = (spread, true);
        }
    };
    match &mut expr {
        Expr::Case(case) => {
            case.when_then_expr.iter_mut().for_each(|(_, then)| change(then));
            case.else_expr.iter_mut().for_each(|other| change(other));
        }
        Expr::AggregateFunction(call) => call.params.args.iter_mut().take(1).for_each(change),
        _ => {}
    }
    Ok(Transformed::new_transformed(expr, changed))
}
