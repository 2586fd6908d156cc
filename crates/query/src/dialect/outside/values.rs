//! VALUES with sub-queries as queries of a row each: DataFusion works VALUES out before any sub-query was run.

use super::super::walks::has_expr;
use super::selects::query_of;
use sqlparser::ast::{Expr, Query, SelectItem, SetExpr, SetOperator, SetQuantifier};

pub(super) fn mend(query: &mut Query) {
    let SetExpr::Values(values) = query.body.as_mut() else { return };
    let asks =
        |expr: &Expr| matches!(expr, Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. });
    if !values.rows.iter().flat_map(|row| &row.content).any(|expr| has_expr(expr, &asks)) {
        return;
    }
    let rows = std::mem::take(&mut values.rows).into_iter().enumerate();
    let one = |(place, row): (usize, sqlparser::ast::Parens<Vec<Expr>>)| {
        // The names that VALUES gives are those of the first row.
        let item = |(column, expr): (usize, Expr)| match place {
            0 => SelectItem::ExprWithAlias { expr, alias: format!("column{}", column + 1).as_str().into() },
            _ => SelectItem::UnnamedExpr(expr),
        };
        query_of(row.content.into_iter().enumerate().map(item).collect(), Vec::new())
    };
    let union = |left: Box<SetExpr>, right: Box<SetExpr>| {
        let (op, set_quantifier) = (SetOperator::Union, SetQuantifier::All);
        Box::new(SetExpr::SetOperation { op, set_quantifier, left, right })
    };
    let bodies = rows.filter_map(one).map(|query| query.body);
    if let Some(body) = bodies.reduce(union) {
        query.body = body;
    }
}
