//! Prepared statements of a session.

use crate::dialect::Statement;
use crate::error::{QueryError, Result, SqlState};
use crate::parameters::{ParameterValue, Parameters};
use sqlparser::ast::{Expr, UnaryOperator, Value};
use std::collections::HashMap;

/// The prepared statements of a session, by name.
#[derive(Debug, Default)]
pub(crate) struct Prepared(pub(crate) HashMap<String, Statement>);

impl Prepared {
    /// The statement of this name.
    ///
    /// # Errors
    /// Where there is none.
    pub(crate) fn get(&self, name: &str) -> Result<&Statement> {
        self.0.get(name).ok_or_else(|| {
            QueryError::request(format!("there is no prepared statement {name}"))
                .state(SqlState::UndefinedStatement)
                .hint("PREPARE name AS … makes one, for this session")
        })
    }

    /// The statement of this name with these literals in the place of `$1`, `$2`, ….
    ///
    /// # Errors
    /// Where there is none, where a value is no literal, and where values and placeholders do not match.
    pub(crate) fn bound(&self, name: &str, values: &[Expr]) -> Result<Statement> {
        let mut statement = [self.get(name)?.clone()];
        let values = values.iter().map(value).collect::<Result<Vec<_>>>()?;
        let bound = Parameters::Positional(values).bind(&mut statement);
        bound.map_err(|error| elsewhere(error, name))?;
        let [statement] = statement;
        Ok(statement)
    }
}

/// An error without its place, which is one in the text that was prepared.
pub(crate) fn elsewhere(mut error: QueryError, name: &str) -> QueryError {
    error.position = None;
    match error.detail {
        Some(_) => error,
        None => error.detail(format!("in the prepared statement {name}")),
    }
}

/// The value that a literal is.
fn value(expr: &Expr) -> Result<ParameterValue> {
    let refuse = || {
        QueryError::request(format!("EXECUTE takes literals, not {expr}"))
            .hint("numbers, 'text', TRUE, FALSE, NULL, TIMESTAMP '…', DATE '…'")
    };
    match expr {
        Expr::Nested(inner) => value(inner),
        Expr::Value(found) => match &found.value {
            Value::Null => Ok(ParameterValue::Null),
            Value::Boolean(truth) => Ok(ParameterValue::Boolean(*truth)),
            Value::SingleQuotedString(text) => Ok(ParameterValue::Text(text.clone())),
            Value::Number(digits, false) => number(digits, "").ok_or_else(refuse),
            _ => Err(refuse()),
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } => match inner.as_ref() {
            Expr::Value(found) => match &found.value {
                Value::Number(digits, false) => number(digits, "-").ok_or_else(refuse),
                _ => Err(refuse()),
            },
            _ => Err(refuse()),
        },
        // As text it is read as what it is compared with.
        Expr::TypedString(typed) => match &typed.value.value {
            Value::SingleQuotedString(text) => Ok(ParameterValue::Text(text.clone())),
            _ => Err(refuse()),
        },
        _ => Err(refuse()),
    }
}

fn number(digits: &str, sign: &str) -> Option<ParameterValue> {
    let signed = format!("{sign}{digits}");
    if let Ok(whole) = signed.parse() {
        return Some(ParameterValue::Integer(whole));
    }
    signed.parse().ok().map(ParameterValue::Float)
}
