//! The words in FILL(…).

use super::node::FillWith;
use crate::dialect::digits;
use crate::dialect::marker::place;
use crate::error::{Position, SqlError};
use crate::texts::without_exponent;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, cast, lit};
use sqlparser::ast::{self, FunctionArg, FunctionArgExpr, FunctionArguments, UnaryOperator, Value};
use std::borrow::Cow;

/// How one selected aggregate is filled.
#[derive(Debug, Clone)]
pub(crate) enum FillWord {
    /// NULL
    Null,
    /// PREV: the value of the same key's last bucket.
    Prev,
    /// PREV(alias): the value of another selected aggregate in the same key's last bucket.
    PrevOf(Other),
    /// LINEAR: on the line between the neighbours.
    Linear,
    /// A constant, and its digits where it is a number.
    Constant(ScalarValue, Option<String>, Position),
}

/// A selected aggregate, as PREV(alias) names it.
#[derive(Debug, Clone)]
pub(crate) struct Other {
    pub(crate) name: String,
    pub(crate) quoted: bool,
    pub(crate) position: Position,
}

impl Other {
    /// Whether this is its name.
    pub(crate) fn is(&self, name: &str) -> bool {
        if self.quoted { name == self.name } else { name.eq_ignore_ascii_case(&self.name) }
    }
}

impl FillWord {
    /// The same for a column of this type; `other` finds another one's place in the input and its type.
    ///
    /// # Errors
    /// Those of `other`; [`SqlError`] where its type is another kind of value.
    pub(crate) fn into_fill(
        self,
        data_type: DataType,
        other: impl FnOnce(&Other) -> Result<(usize, DataType), SqlError>,
    ) -> Result<FillWith, SqlError> {
        Ok(match self {
            FillWord::Null => FillWith::Null,
            FillWord::Prev => FillWith::Prev,
            FillWord::PrevOf(of) => {
                let (place, found) = other(&of)?;
                if found != data_type && !(found.is_numeric() && data_type.is_numeric()) {
                    let message = format!("FILL(PREV({})) cannot fill {data_type} with {found}", of.name);
                    return Err(
                        SqlError::new(message, of.position).hint("both must be of one type, or numbers")
                    );
                }
                FillWith::PrevOf(place)
            }
            FillWord::Linear => FillWith::Linear,
            FillWord::Constant(ScalarValue::Float64(Some(value)), _, position)
                if data_type.is_integer() && value.fract() != 0.0 =>
            {
                return Err(SqlError::new(format!("FILL({value}) does not fit {data_type}"), position)
                    .hint("cast the aggregate to DOUBLE, or fill with a whole number"));
            }
            FillWord::Constant(ScalarValue::Float64(Some(value)), Some(digits), position)
                if value.is_infinite() && data_type.is_floating() =>
            {
                return Err(SqlError::new(format!("FILL({digits}) is past the largest DOUBLE"), position));
            }
            // A double would lose some of the digits.
            FillWord::Constant(_, Some(digits), _)
                if data_type.is_decimal() || data_type == DataType::UInt64 =>
            {
                let digits = without_exponent(&digits).map_or_else(|| digits.clone(), Cow::into_owned);
                FillWith::Constant(cast(lit(digits), data_type))
            }
            FillWord::Constant(value, ..) => FillWith::Constant(cast(Expr::Literal(value, None), data_type)),
        })
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
            .hint("it takes NONE, NULL, PREV, PREV(alias), LINEAR or constants")
    };
    Ok(Some(match expr {
        ast::Expr::Identifier(ident) if ident.value.eq_ignore_ascii_case("NONE") => return Ok(None),
        ast::Expr::Identifier(ident) if ident.value.eq_ignore_ascii_case("PREV") => FillWord::Prev,
        ast::Expr::Identifier(ident) if ident.value.eq_ignore_ascii_case("LINEAR") => FillWord::Linear,
        ast::Expr::Function(call) if call.name.to_string().eq_ignore_ascii_case("PREV") => {
            FillWord::PrevOf(prev_of(call).ok_or_else(|| {
                SqlError::new("FILL(PREV(…)) takes the name of one selected aggregate", place(expr))
                    .hint("SELECT ts, last(price) AS close, first(price) AS open … FILL(PREV, PREV(close))")
            })?)
        }
        _ => match constant(expr).ok_or_else(refuse)? {
            ScalarValue::Null => FillWord::Null,
            value => FillWord::Constant(value, digits::number(expr), place(expr)),
        },
    }))
}

fn prev_of(call: &ast::Function) -> Option<Other> {
    let FunctionArguments::List(list) = &call.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(ast::Expr::Identifier(name)))] = list.args.as_slice()
    else {
        return None;
    };
    let position = place(list.args.first()?);
    Some(Other { name: name.value.clone(), quoted: name.quote_style.is_some(), position })
}

/// The value of a literal, NaN and signs before it among them.
pub(crate) fn constant(expr: &ast::Expr) -> Option<ScalarValue> {
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
