//! Statements without the literals of their conditions: plans are cached by them, so that the same question
//! about another symbol or another day is not planned again.
//!
//! Only literals beside a plain column are taken out, in WHERE: what they are changes which rows are read
//! and nothing else of a plan. All others (LIMIT, strides, the arguments of functions) stay in the key, and so do those
//! beside columns by which rows are not selected, once that is known ([`staying`]).

use crate::dialect::walk_mut;
use crate::texts::parse_instant;
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Expr as LogicalExpr, LogicalPlan, Operator};
use sqlparser::ast::{
    BinaryOperator, DataType as SqlType, Expr, FunctionArg, FunctionArgExpr, Select, Statement, TableFactor,
    TimezoneInfo, TypedString, Value, ValueWithSpan, VisitorMut,
};
use sqlparser::tokenizer::Span;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// A literal that was taken out of a statement.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Text(String),
    Number(String),
    /// All of a list of more than [`LIST_PLACES`].
    List(Vec<Literal>),
    /// At the other places of such a list.
    InList,
}

/// Placeholders of a list, whatever its length: so few that the planner does not make equalities of it.
const LIST_PLACES: usize = 4;

impl Literal {
    /// The values as a placeholder of this type stands for them: one, but for a list; `None` where one is not plain.
    pub(crate) fn values(&self, data_type: &DataType) -> Option<Vec<ScalarValue>> {
        match self {
            Literal::List(items) => items.iter().map(|item| item.value(data_type)).collect(),
            Literal::InList => Some(Vec::new()),
            one => Some(vec![one.value(data_type)?]),
        }
    }

    fn value(&self, data_type: &DataType) -> Option<ScalarValue> {
        match (self, data_type) {
            (Literal::Text(text), DataType::Timestamp(TimeUnit::Nanosecond, None)) => {
                Some(ScalarValue::TimestampNanosecond(Some(parse_instant(text)?), None))
            }
            (Literal::Text(text) | Literal::Number(text), DataType::Dictionary(key, values))
                if **values == DataType::Utf8 && self.is_plain_text() =>
            {
                let text = ScalarValue::Utf8(Some(text.clone()));
                Some(ScalarValue::Dictionary(key.clone(), Box::new(text)))
            }
            (Literal::Text(text), DataType::Utf8) => Some(ScalarValue::Utf8(Some(text.clone()))),
            _ => None,
        }
    }

    /// Whether the literal's text is the text it stands for: a number as such has many spellings.
    fn is_plain_text(&self) -> bool {
        match self {
            Literal::Text(_) => true,
            Literal::Number(digits) => digits.parse::<i64>().is_ok_and(|n| n.to_string() == *digits),
            Literal::List(_) | Literal::InList => false,
        }
    }
}

/// What was taken out of a statement, and what stands in it.
#[derive(Debug)]
pub(crate) struct Taken {
    /// In order, those that stay among them.
    pub(crate) literals: Vec<Literal>,
    /// Whether the arguments of a function that stands for a table must be worked out, such as `now()`: its plan does
    /// not say what they were.
    pub(crate) computes_tables: bool,
}

/// Puts placeholders `$1`, `$2`, … in the place of a statement's literals, but for those that stay (by place, from 0).
pub(crate) fn take_literals(statement: &mut Statement, staying: &BTreeSet<usize>) -> Taken {
    let mut taking = Taking { taken: Taken { literals: Vec::new(), computes_tables: false }, staying };
    // The visitor never breaks off.
    let _ = walk_mut(statement, &mut taking);
    taking.taken
}

struct Taking<'a> {
    taken: Taken,
    staying: &'a BTreeSet<usize>,
}

impl VisitorMut for Taking<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if let Some(selection) = &mut select.selection {
            self.condition(selection);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { args: Some(arguments), .. } = factor {
            let is_literal = |argument: &FunctionArg| matches!(argument, FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) if is_literal(value));
            self.taken.computes_tables |= !arguments.args.iter().all(is_literal);
        }
        ControlFlow::Continue(())
    }
}

impl Taking<'_> {
    fn condition(&mut self, expr: &mut Expr) {
        use BinaryOperator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or};
        match expr {
            Expr::Nested(inner) => self.condition(inner),
            Expr::BinaryOp { left, op: And | Or, right } => {
                self.condition(left);
                self.condition(right);
            }
            Expr::BinaryOp { left, op: Eq | NotEq | Lt | LtEq | Gt | GtEq, right } => {
                if is_column(left) {
                    self.take(right);
                } else if is_column(right) {
                    self.take(left);
                }
            }
            Expr::Between { expr, low, high, .. } if is_column(expr) => {
                self.take(low);
                self.take(high);
            }
            Expr::InList { expr, list, .. } if is_column(expr) => self.take_list(list),
            _ => {}
        }
    }

    fn take(&mut self, expr: &mut Expr) {
        if let Some(placeholder) = literal_of(expr).and_then(|literal| self.put(literal)) {
            *expr = placeholder;
        }
    }

    /// A long list is one literal, so that it may come again longer or shorter.
    fn take_list(&mut self, list: &mut Vec<Expr>) {
        let items = || list.iter().map(literal_of).collect::<Option<Vec<_>>>();
        let Some(items) = (list.len() > LIST_PLACES).then(items).flatten() else {
            return list.iter_mut().for_each(|item| self.take(item));
        };
        let others = (1..LIST_PLACES).map(|_| Literal::InList);
        let placeholders: Vec<_> =
            std::iter::once(Literal::List(items)).chain(others).map(|literal| self.put(literal)).collect();
        // It stays as a whole.
        if let Some(placeholders) = placeholders.into_iter().collect() {
            *list = placeholders;
        }
    }

    /// Notes a literal; the placeholder for its place, unless it stays.
    fn put(&mut self, literal: Literal) -> Option<Expr> {
        let stays = self.staying.contains(&self.taken.literals.len());
        self.taken.literals.push(literal);
        let value = Value::Placeholder(format!("${}", self.taken.literals.len()));
        (!stays).then(|| Expr::Value(ValueWithSpan { value, span: Span::empty() }))
    }
}

/// The literal that an expression is, where its value can be put into a plan.
fn literal_of(expr: &Expr) -> Option<Literal> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. })
        | Expr::TypedString(TypedString {
            data_type: SqlType::Timestamp(None, TimezoneInfo::None),
            value: ValueWithSpan { value: Value::SingleQuotedString(text), .. },
            uses_odbc_syntax: false,
        }) => Some(Literal::Text(text.clone())),
        Expr::Value(ValueWithSpan { value: Value::Number(digits, false), .. }) => {
            Some(Literal::Number(digits.to_string()))
        }
        _ => None,
    }
}

/// The literals whose placeholders an optimized plan has elsewhere than in what its scans select by: they must be in the
/// statement when it is planned.
pub(crate) fn staying(plan: &LogicalPlan) -> Result<BTreeSet<usize>> {
    let mut staying = BTreeSet::new();
    plan.apply_with_subqueries(|node| {
        if !matches!(node, LogicalPlan::TableScan(_)) {
            node.apply_expressions(|expr| {
                expr.apply(|expr| {
                    if let LogicalExpr::Placeholder(placeholder) = expr {
                        staying.extend(place_of(&placeholder.id));
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(staying)
}

/// The literals of lists that the optimizer may make one of with another list: it takes their placeholders for values
/// that differ from all others, so that `s IN ($1, $2)` and `s IN ($3, 'A')` have nothing in common to it. They must be
/// in the statement when it is planned.
///
/// Lists about columns of different names stay apart where a plan has one input and one condition. Equalities with a
/// value are lists of one.
pub(crate) fn lists_that_may_merge(written: &LogicalPlan) -> Result<BTreeSet<usize>> {
    let (mut lists, mut filters, mut joins) = (Vec::new(), 0, false);
    written.apply_with_subqueries(|node| {
        filters += usize::from(matches!(node, LogicalPlan::Filter(_)));
        joins |= node.inputs().len() > 1;
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                joins |= matches!(
                    expr,
                    LogicalExpr::InSubquery(_) | LogicalExpr::Exists(_) | LogicalExpr::ScalarSubquery(_)
                );
                lists.extend(list_of(expr));
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    let may_meet = filters > 1 || joins;
    let of_name = |name: &str| lists.iter().filter(|(other, _)| other == name).count();
    let merging = lists.iter().filter(|(name, _)| lists.len() > 1 && (may_meet || of_name(name) > 1));
    Ok(merging.flat_map(|(_, places)| places).copied().collect())
}

/// What a list is about, by its name, and the places of its literals that have placeholders.
fn list_of(expr: &LogicalExpr) -> Option<(String, Vec<usize>)> {
    let name = |expr: &LogicalExpr| match expr {
        LogicalExpr::Column(column) => column.name.clone(),
        other => other.to_string(),
    };
    match expr {
        LogicalExpr::InList(of) => {
            let place = |item: &LogicalExpr| match item {
                LogicalExpr::Placeholder(placeholder) => place_of(&placeholder.id),
                _ => None,
            };
            Some((name(&of.expr), of.list.iter().filter_map(place).collect()))
        }
        LogicalExpr::BinaryExpr(of) if matches!(of.op, Operator::Eq | Operator::NotEq) => {
            match (of.left.as_ref(), of.right.as_ref()) {
                (column, LogicalExpr::Literal(..)) | (LogicalExpr::Literal(..), column) => {
                    Some((name(column), Vec::new()))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// The place of the literal that `$1`, `$2`, … stands for.
pub(crate) fn place_of(placeholder: &str) -> Option<usize> {
    placeholder.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)
}

/// Whether a value stands there as it is: a number, a text, an instant, an interval.
fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Value(_) | Expr::TypedString(_) => true,
        Expr::Interval(interval) => is_literal(&interval.value),
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } | Expr::Cast { expr: inner, .. } => {
            is_literal(inner)
        }
        _ => false,
    }
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

#[cfg(test)]
mod tests;
