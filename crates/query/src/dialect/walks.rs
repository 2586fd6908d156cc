//! Walks over all expressions of a part of a statement. A walk is compiled once for each closure and costs megabytes of
//! code: these are compiled once for each kind of part, whatever is done with the expressions.

use sqlparser::ast::{Expr, Visit, VisitMut, visit_expressions, visit_expressions_mut};
use std::ops::ControlFlow;

/// Changes each expression, after those inside.
pub(super) fn each_expr(node: &mut impl VisitMut, each: &mut dyn FnMut(&mut Expr)) {
    // The walk never breaks off.
    let _: ControlFlow<()> = visit_expressions_mut(node, |expr| {
        each(expr);
        ControlFlow::Continue(())
    });
}

/// Whether an expression is so.
pub(super) fn has_expr(node: &impl Visit, is_so: &dyn Fn(&Expr) -> bool) -> bool {
    let walked: ControlFlow<()> = visit_expressions(node, |expr| match is_so(expr) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    walked.is_break()
}
