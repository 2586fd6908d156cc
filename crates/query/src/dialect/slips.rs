//! What the parser takes and SQL here has not, or has by another name: refused with what to write instead, where it
//! stands. And what planning would get wrong, made into what it gets right:
//!
//! - `x > ALL (SELECT x FROM t)`: the column of the sub-query gets a name of its own, since DataFusion would compare a
//!   column with itself where both sides are called alike;
//! - fby becomes a window ([`fby`]), and one without its current row one of each side ([`exclude`]);
//! - `SELECT ts::DATE … ORDER BY ts`: the cast is called `CAST(ts AS DATE)`, not `t.ts`.

use super::cursor::{Result, parser_error};
use super::marker::place;
use super::walks::walk_mut;
use super::{SqlError, exclude, fby};
use sqlparser::ast::{
    CastKind, Expr, Ident, Query, Select, SelectFlavor, SelectItem, SetExpr, TableFactor, Value,
    ValueWithSpan, VisitMut, VisitorMut, WildcardAdditionalOptions,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;
use std::ops::ControlFlow;

/// Refuses and mends.
///
/// # Errors
/// [`SqlError`] at the first slip.
pub(super) fn mend(node: &mut impl VisitMut) -> Result<()> {
    match walk_mut(node, &mut Slips) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Slips;

impl VisitorMut for Slips {
    type Break = SqlError;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        match expr {
            Expr::Substring { substring_from: None, substring_for: None, .. } => {
                let error = SqlError::new("substr takes a text and where to begin", place(expr));
                ControlFlow::Break(
                    error.hint("write substr(text, 2), or substr(text, 2, 3) for three characters"),
                )
            }
            Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) if is_past_doubles(digits) => {
                let error = SqlError::new(format!("{digits} is out of range for a DOUBLE"), place(expr));
                ControlFlow::Break(error.hint("'Infinity'::DOUBLE is past all numbers"))
            }
            Expr::Function(_) => exclude::split(expr).map_or_else(ControlFlow::Break, ControlFlow::Continue),
            Expr::AllOp { right, .. } | Expr::AnyOp { right, .. } => match named_apart(right) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error),
            },
            _ => ControlFlow::Continue(()),
        }
    }

    // After those inside, whose own these are.
    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        fby::place(select).map_or_else(ControlFlow::Break, ControlFlow::Continue)
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        fby::place_in_order(query).map_or_else(ControlFlow::Break, ControlFlow::Continue)
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        if select.projection.is_empty() {
            // `FROM t` alone selects all its columns; SELECT without columns is a slip.
            if select.flavor != SelectFlavor::FromFirstNoSelect {
                let error = SqlError::new("SELECT names no column", place(select));
                return ControlFlow::Break(error.hint("write SELECT * FROM t"));
            }
            select.projection.push(SelectItem::Wildcard(WildcardAdditionalOptions::default()));
        }
        if let Err(error) = exclude::refuse_named(select) {
            return ControlFlow::Break(error);
        }
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && let Some(name) = name_of_cast(expr).or_else(|| exclude::name_of(expr))
            {
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', name) };
            }
        }
        ControlFlow::Continue(())
    }
}

/// Whether a number is past the largest DOUBLE, which its text would become.
fn is_past_doubles(digits: &str) -> bool {
    /// Digits of the largest DOUBLE.
    const DIGITS_MAX: usize = 309;
    let may_be = digits.len() >= DIGITS_MAX || digits.contains(['e', 'E']);
    may_be && digits.parse().is_ok_and(f64::is_infinite)
}

/// Gives the one column of a sub-query a name that no other has.
fn named_apart(right: &mut Expr) -> Result<()> {
    let Expr::Subquery(query) = right else { return Ok(()) };
    let wrapper = r#"SELECT "__compared"."__value" FROM (SELECT 1) AS "__compared"("__value")"#;
    let parsed = Parser::new(&GenericDialect {}).try_with_sql(wrapper);
    let mut wrapper =
        parsed.and_then(|mut parser| parser.parse_query()).map_err(|e| parser_error(e, place(&**query)))?;
    if let Some(inner) = derived(&mut wrapper) {
        std::mem::swap(inner, query);
    }
    *query = wrapper;
    Ok(())
}

/// The sub-query that a query reads from.
fn derived(query: &mut Query) -> Option<&mut Box<Query>> {
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    match &mut select.from.first_mut()?.relation {
        TableFactor::Derived { subquery, .. } => Some(subquery),
        _ => None,
    }
}

/// What the cast of a column is called where nothing names it.
fn name_of_cast(expr: &Expr) -> Option<String> {
    let Expr::Cast { kind, expr, data_type, .. } = expr else { return None };
    let column = match expr.as_ref() {
        Expr::Identifier(name) => name,
        Expr::CompoundIdentifier(parts) => parts.last()?,
        _ => return None,
    };
    let word = if matches!(kind, CastKind::TryCast) { "TRY_CAST" } else { "CAST" };
    Some(format!("{word}({} AS {data_type})", column.value))
}
