//! The words in FILL(…).

use super::node::FillWith;
use crate::dialect::SqlError;
use crate::dialect::marker::place;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, cast};
use sqlparser::ast::{self, UnaryOperator, Value};

/// How one selected aggregate is filled.
#[derive(Debug, Clone)]
pub(crate) enum FillWord {
    /// NULL
    Null,
    /// PREV: the value of the same key's last bucket.
    Prev,
    /// LINEAR: on the line between the neighbours.
    Linear,
    /// A constant.
    Constant(ScalarValue),
}

impl FillWord {
    /// The same for a column of this type.
    pub(crate) fn into_fill(self, data_type: DataType) -> FillWith {
        match self {
            FillWord::Null => FillWith::Null,
            FillWord::Prev => FillWith::Prev,
            FillWord::Linear => FillWith::Linear,
            FillWord::Constant(value) => FillWith::Constant(cast(Expr::Literal(value, None), data_type)),
        }
    }
}

/// One word for each of `aggregates` selected expressions; empty where nothing is filled.
///
/// # Errors
/// [`SqlError`] for other words, or a list that is neither one nor as many as there are aggregates.
pub(crate) fn fill_words(written: &[ast::Expr], aggregates: usize) -> Result<Vec<FillWord>, SqlError> {
    let words = written.iter().map(fill_word).collect::<Result<Vec<_>, _>>()?;
    match (words.as_slice(), written.first()) {
        ([] | [None], _) => Ok(Vec::new()),
        // One dummy word where there is nothing to fill but rows.
        ([Some(word)], _) => Ok(vec![word.clone(); aggregates.max(1)]),
        (many, Some(first)) => {
            let Some(words) = many.iter().cloned().collect::<Option<Vec<_>>>() else {
                return Err(SqlError::new("FILL(NONE) stands alone", place(first)));
            };
            if words.len() != aggregates {
                let message = format!("FILL has {} values for {aggregates} aggregates", words.len());
                return Err(
                    SqlError::new(message, place(first)).hint("give one for all, or one for each in order")
                );
            }
            Ok(words)
        }
        (_, None) => Ok(Vec::new()),
    }
}

/// `None` is NONE.
fn fill_word(expr: &ast::Expr) -> Result<Option<FillWord>, SqlError> {
    let refuse = || {
        SqlError::new(format!("FILL does not know {expr}"), place(expr))
            .hint("it takes NONE, NULL, PREV, LINEAR or constants")
    };
    Ok(Some(match expr {
        ast::Expr::Identifier(ident) if ident.value.eq_ignore_ascii_case("NONE") => return Ok(None),
        ast::Expr::Identifier(ident) if ident.value.eq_ignore_ascii_case("PREV") => FillWord::Prev,
        ast::Expr::Identifier(ident) if ident.value.eq_ignore_ascii_case("LINEAR") => FillWord::Linear,
        ast::Expr::Function(call) if call.name.to_string().eq_ignore_ascii_case("PREV") => {
            return Err(SqlError::new("FILL(PREV(column)) is not supported yet", place(expr))
                .hint("PREV without a column repeats the filled column's own last value"));
        }
        _ => match constant(expr).ok_or_else(refuse)? {
            ScalarValue::Null => FillWord::Null,
            value => FillWord::Constant(value),
        },
    }))
}

fn constant(expr: &ast::Expr) -> Option<ScalarValue> {
    match expr {
        ast::Expr::Value(value) => match &value.value {
            Value::Null => Some(ScalarValue::Null),
            Value::Boolean(value) => Some(ScalarValue::from(*value)),
            Value::SingleQuotedString(text) => Some(ScalarValue::from(text.as_str())),
            Value::Number(digits, _) => number(&digits.to_string()),
            _ => None,
        },
        ast::Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match constant(expr)? {
            ScalarValue::Int64(Some(value)) => Some(ScalarValue::from(-value)),
            ScalarValue::Float64(Some(value)) => Some(ScalarValue::from(-value)),
            _ => None,
        },
        ast::Expr::UnaryOp { op: UnaryOperator::Plus, expr } => constant(expr),
        ast::Expr::Identifier(ident) if ident.value.eq_ignore_ascii_case("NaN") => Some(f64::NAN.into()),
        _ => None,
    }
}

fn number(digits: &str) -> Option<ScalarValue> {
    let whole = digits.parse::<i64>().ok().map(ScalarValue::from);
    whole.or_else(|| digits.parse::<f64>().ok().map(ScalarValue::from))
}
