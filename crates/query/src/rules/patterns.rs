//! Patterns of texts.
//!
//! `s SIMILAR TO 'pattern'` as SQL has it: the pattern is of the whole text; `%` stands for any text, `_` for one
//! character, `|`, `*`, `+`, `?`, `{…}`, `(…)` and `[…]` mean what they mean in regular expressions, everything else is
//! itself, and a backslash takes the meaning from what follows.
//!
//! DataFusion takes the pattern for a regular expression that is found anywhere. The rule gives it one that says this.
//!
//! A SYMBOL that is LIKE the text of a column is compared as a text: Arrow's kernel for dictionaries panics where one has
//! no values.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::Like;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, cast, lit};

/// See the file's header.
///
/// # Errors
/// Where SIMILAR TO has a pattern that is not written in the text.
pub(crate) fn read(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    as_expression(expr)?.transform_data(|expr| Ok(of_texts(expr, schema)))
}

fn as_expression(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::SimilarTo(Like { negated, expr, pattern, escape_char, case_insensitive: _ }) = expr else {
        return Ok(Transformed::no(expr));
    };
    let Expr::Literal(pattern, _) = *pattern else {
        return plan_err!(
            "SIMILAR TO takes a pattern that is written in the text; s ~ p takes one of each row"
        );
    };
    let pattern = match pattern.try_as_str().flatten() {
        Some(text) => lit(regular(text, escape_char.unwrap_or('\\'))),
        None => Expr::Literal(ScalarValue::Utf8(None), None),
    };
    let op = if negated { Operator::RegexNotMatch } else { Operator::RegexMatch };
    Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr { left: expr, op, right: Box::new(pattern) })))
}

/// LIKE of two columns as one of texts.
fn of_texts(mut expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let sides = match &mut expr {
        Expr::Like(Like { expr, pattern, .. }) => [expr, pattern],
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_pattern(*op) => [left, right],
        _ => return Transformed::no(expr),
    };
    if matches!(sides[1].as_ref(), Expr::Literal(..)) {
        return Transformed::no(expr);
    }
    let mut changed = false;
    for side in sides {
        if matches!(side.get_type(schema), Ok(DataType::Dictionary(..))) {
            **side = cast(side.as_ref().clone(), DataType::Utf8);
            changed = true;
        }
    }
    if changed { Transformed::yes(expr) } else { Transformed::no(expr) }
}

fn is_pattern(op: Operator) -> bool {
    use Operator::{RegexIMatch, RegexMatch, RegexNotIMatch, RegexNotMatch};
    matches!(op, RegexMatch | RegexIMatch | RegexNotMatch | RegexNotIMatch)
}

/// The regular expression that finds what a pattern of SIMILAR TO is like.
fn regular(pattern: &str, escape: char) -> String {
    let mut found = String::from("^(?s:");
    let mut within_set = false;
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match character {
            of if of == escape => {
                let literal = characters.next().unwrap_or(of);
                push_literal(&mut found, literal);
            }
            ']' if within_set => {
                within_set = false;
                found.push(']');
            }
            of if within_set => found.push(of),
            '[' => {
                within_set = true;
                found.push('[');
            }
            '%' => found.push_str(".*"),
            '_' => found.push('.'),
            '|' | '*' | '+' | '?' | '{' | '}' | '(' | ')' => found.push(character),
            of => push_literal(&mut found, of),
        }
    }
    found.push_str(")$");
    found
}

fn push_literal(found: &mut String, character: char) {
    if character.is_ascii_punctuation() {
        found.push('\\');
    }
    found.push(character);
}

#[cfg(test)]
mod tests;
