//! Conditions on the names of columns, worked out as a statement is read: `COLUMNS(c -> c LIKE 'bid%')`.

use super::marker::simple_name;
use regex::Regex;
use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, LambdaFunction,
    OneOrManyWithParens, UnaryOperator, Value,
};

/// What may stand in a condition, as a hint says it.
pub(super) const CONDITIONS: &str = "a condition on a name is made of LIKE, ILIKE, ~, =, <>, IN, starts_with, ends_with, \
                                     contains, regexp_matches, lower, upper, AND, OR and NOT";

/// Whether the condition of a lambda with one parameter is true of a name; `None` where it takes more than
/// [`CONDITIONS`] says.
pub(super) fn is_true_of(lambda: &LambdaFunction, name: &str) -> Option<bool> {
    let parameter = match &lambda.params {
        OneOrManyWithParens::One(parameter) => parameter,
        OneOrManyWithParens::Many(several) => match several.as_slice() {
            [parameter] => parameter,
            _ => return None,
        },
    };
    Name { parameter: &parameter.name, name }.holds(&lambda.body)
}

/// The name that a parameter stands for.
#[derive(Debug, Clone, Copy)]
struct Name<'a> {
    parameter: &'a Ident,
    name: &'a str,
}

impl Name<'_> {
    fn holds(self, condition: &Expr) -> Option<bool> {
        match condition {
            Expr::Nested(inner) => self.holds(inner),
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => self.holds(expr).map(|holds| !holds),
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                Some(self.holds(left)? & self.holds(right)?)
            }
            Expr::BinaryOp { left, op: BinaryOperator::Or, right } => {
                Some(self.holds(left)? | self.holds(right)?)
            }
            Expr::BinaryOp { left, op, right } => {
                let (left, right) = (self.text(left)?, self.text(right)?);
                match op {
                    BinaryOperator::Eq => Some(left == right),
                    BinaryOperator::NotEq => Some(left != right),
                    BinaryOperator::PGRegexMatch => finds(&right, &left),
                    BinaryOperator::PGRegexIMatch => finds(&format!("(?i){right}"), &left),
                    BinaryOperator::PGRegexNotMatch => finds(&right, &left).map(|found| !found),
                    BinaryOperator::PGRegexNotIMatch => {
                        finds(&format!("(?i){right}"), &left).map(|found| !found)
                    }
                    _ => None,
                }
            }
            Expr::Like { negated, any: false, expr, pattern, escape_char: None } => {
                Some(finds(&of_like(&self.text(pattern)?), &self.text(expr)?)? != *negated)
            }
            Expr::ILike { negated, any: false, expr, pattern, escape_char: None } => {
                let pattern = format!("(?i){}", of_like(&self.text(pattern)?));
                Some(finds(&pattern, &self.text(expr)?)? != *negated)
            }
            Expr::InList { expr, list, negated } => {
                let text = self.text(expr)?;
                let listed = list.iter().map(|item| self.text(item)).collect::<Option<Vec<_>>>()?;
                Some(listed.contains(&text) != *negated)
            }
            Expr::Function(function) => {
                let (name, arguments) = self.call(function)?;
                let [text, other] = arguments.as_slice() else { return None };
                match name.as_str() {
                    "starts_with" | "prefix" => Some(text.starts_with(other.as_str())),
                    "ends_with" | "suffix" => Some(text.ends_with(other.as_str())),
                    "contains" => Some(text.contains(other.as_str())),
                    "regexp_matches" | "regexp_like" => finds(other, text),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn text(self, expr: &Expr) -> Option<String> {
        match expr {
            Expr::Nested(inner) => self.text(inner),
            Expr::Identifier(name) if name.value.eq_ignore_ascii_case(&self.parameter.value) => {
                Some(self.name.to_string())
            }
            Expr::Value(value) => match &value.value {
                Value::SingleQuotedString(text) => Some(text.clone()),
                _ => None,
            },
            Expr::Function(function) => {
                let (name, mut arguments) = self.call(function)?;
                let text = arguments.pop().filter(|_| arguments.is_empty())?;
                match name.as_str() {
                    "lower" | "lcase" => Some(text.to_lowercase()),
                    "upper" | "ucase" => Some(text.to_uppercase()),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The name of a function, in lower case, and its arguments where they are texts.
    fn call(self, function: &Function) -> Option<(String, Vec<String>)> {
        let FunctionArguments::List(list) = &function.args else { return None };
        let argument = |argument: &FunctionArg| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => self.text(expr),
            _ => None,
        };
        let arguments = list.args.iter().map(argument).collect::<Option<_>>()?;
        Some((simple_name(&function.name)?.to_lowercase(), arguments))
    }
}

fn finds(pattern: &str, text: &str) -> Option<bool> {
    Regex::new(pattern).ok().map(|pattern| pattern.is_match(text))
}

/// The regular expression of a pattern of LIKE, in which a backslash takes the meaning of what follows it.
fn of_like(pattern: &str) -> String {
    let mut made = String::from("(?s)^");
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '%' => made.push_str(".*"),
            '_' => made.push('.'),
            '\\' => made.push_str(&regex::escape(&letters.next().unwrap_or('\\').to_string())),
            other => made.push_str(&regex::escape(&other.to_string())),
        }
    }
    made.push('$');
    made
}
