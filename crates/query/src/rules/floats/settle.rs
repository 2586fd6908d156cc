//! Expressions whose NaN is the one, and in which both zeros are equal.

use super::fresh::{Columns, Kind, kind};
use super::function::{is_one, one_nan};
use super::{Input, function};
use crate::rules::literals::is_comparison;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion, TreeNodeRewriter};
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{AggregateFunction, Case, InList, InSubquery, WindowFunction};
use datafusion::logical_expr::{
    BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, TryCast,
};
use std::sync::Arc;

/// Rewrites one expression.
pub(super) struct Settle<'a> {
    input: &'a Input,
    /// For the expression at hand and those above it: whether they tell NaNs apart in what is below them.
    telling: Vec<bool>,
}

impl<'a> Settle<'a> {
    /// `is_compared` says whether what takes the expression tells NaNs apart.
    pub(super) fn new(input: &'a Input, is_compared: bool) -> Self {
        Self { input, telling: vec![is_compared] }
    }

    /// Whether another NaN may come out of an expression itself.
    fn makes_nan(&self, expr: &Expr) -> bool {
        makes_nan(expr, &self.input.schema, &self.input.fresh)
    }

    /// Whether it matters to an expression which NaN it gets: not to arithmetic, which passes one on.
    fn tells_apart(&self, expr: &Expr) -> bool {
        match expr {
            Expr::BinaryExpr(BinaryExpr { op, .. }) => !is_arithmetic(*op),
            Expr::Negative(_) => false,
            // What it gives is told apart where it is used.
            Expr::Alias(_) => self.telling.last().copied().unwrap_or(true),
            Expr::AggregateFunction(call) => call.params.distinct || kind(call.func.name()) != Kind::Adds,
            Expr::WindowFunction(call) => kind(call.fun.name()) != Kind::Adds || !self.has_plain_keys(call),
            other => !is_one(other),
        }
    }

    /// Whether rows are parted and ordered by columns in which NaN is the one.
    fn has_plain_keys(&self, call: &WindowFunction) -> bool {
        let plain = |expr: &Expr| matches!(expr, Expr::Column(column) if !self.input.fresh.contains(column));
        call.params.partition_by.iter().all(plain)
            && call.params.order_by.iter().all(|sort| plain(&sort.expr))
    }

    fn both_keys(&self, left: Expr, right: Expr) -> (Expr, Expr) {
        (self.input.key(left), self.input.key(right))
    }

    /// With both zeros equal where bits are compared below this expression; `None` where nothing changes.
    fn with_keys(&self, expr: &Expr) -> Option<Expr> {
        let input = self.input;
        match expr {
            // Comparisons are right as they are: but equality between columns becomes the key of a join.
            Expr::BinaryExpr(BinaryExpr {
                left,
                op: op @ (Operator::Eq | Operator::IsNotDistinctFrom),
                right,
            }) if !is_constant(left) && !is_constant(right) && input.is_float(left) => {
                let (left, right) = self.both_keys(left.as_ref().clone(), right.as_ref().clone());
                Some(Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op: *op, right: Box::new(right) }))
            }
            // Right as well, but DataFusion takes `x = 0.0 AND x = -0.0` for FALSE.
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
                let (on_left, on_right) = (negative_zero(left), negative_zero(right));
                (on_left.is_some() || on_right.is_some()).then(|| {
                    let side = |zero: Option<ScalarValue>, given: &Expr| match zero {
                        Some(zero) => Box::new(Expr::Literal(zero, None)),
                        None => Box::new(given.clone()),
                    };
                    Expr::BinaryExpr(BinaryExpr {
                        left: side(on_left, left),
                        op: *op,
                        right: side(on_right, right),
                    })
                })
            }
            Expr::InList(list) if input.is_float(&list.expr) => in_list(input, list),
            Expr::InSubquery(asked) if input.is_float(&asked.expr) => in_query(input, asked).ok(),
            Expr::Case(Case { expr: Some(base), when_then_expr, else_expr }) if input.is_float(base) => {
                let when = |(when, then): &(Box<Expr>, Box<Expr>)| {
                    (Box::new(input.key(when.as_ref().clone())), then.clone())
                };
                Some(Expr::Case(Case {
                    expr: Some(Box::new(input.key(base.as_ref().clone()))),
                    when_then_expr: when_then_expr.iter().map(when).collect(),
                    else_expr: else_expr.clone(),
                }))
            }
            // What it gives is the value as it was given.
            Expr::ScalarFunction(call) if call.name() == "nullif" && input.is_float(&call.args[0]) => {
                let [value, other] = call.args.as_slice() else { return None };
                let null = value.get_type(&input.schema).and_then(|of| ScalarValue::try_from(&of)).ok()?;
                Some(Expr::Case(Case {
                    expr: Some(Box::new(input.key(value.clone()))),
                    when_then_expr: vec![(
                        Box::new(input.key(other.clone())),
                        Box::new(Expr::Literal(null, None)),
                    )],
                    else_expr: Some(Box::new(value.clone())),
                }))
            }
            Expr::AggregateFunction(call) => self.aggregate(call),
            Expr::WindowFunction(call) => self.window(call),
            _ => None,
        }
    }

    fn aggregate(&self, call: &AggregateFunction) -> Option<Expr> {
        let distinct = call.params.distinct || call.func.name() == "count_distinct";
        let args = distinct && call.params.args.iter().any(|arg| self.input.is_float(arg));
        let order = call.params.order_by.iter().any(|sort| self.input.is_float(&sort.expr));
        (args || order).then(|| {
            let mut call = call.clone();
            if args {
                let given = std::mem::take(&mut call.params.args);
                call.params.args = given.into_iter().map(|arg| self.input.key(arg)).collect();
            }
            let order = std::mem::take(&mut call.params.order_by);
            call.params.order_by = order.into_iter().map(|sort| self.input.sort_key(sort)).collect();
            Expr::AggregateFunction(call)
        })
    }

    fn window(&self, call: &WindowFunction) -> Option<Expr> {
        let params = &call.params;
        let keys = params.partition_by.iter().chain(params.order_by.iter().map(|sort| &sort.expr));
        keys.into_iter().any(|key| self.input.is_float(key)).then(|| {
            let mut call = call.clone();
            let partition = std::mem::take(&mut call.params.partition_by);
            call.params.partition_by = partition.into_iter().map(|key| self.input.key(key)).collect();
            let order = std::mem::take(&mut call.params.order_by);
            call.params.order_by = order.into_iter().map(|sort| self.input.sort_key(sort)).collect();
            Expr::WindowFunction(Box::new(call))
        })
    }
}

impl TreeNodeRewriter for Settle<'_> {
    type Node = Expr;

    fn f_down(&mut self, expr: Expr) -> Result<Transformed<Expr>> {
        self.telling.push(self.tells_apart(&expr));
        Ok(Transformed::no(expr))
    }

    fn f_up(&mut self, expr: Expr) -> Result<Transformed<Expr>> {
        self.telling.pop();
        let above = self.telling.last().copied().unwrap_or(true);
        let mut changed = match self.with_keys(&expr) {
            Some(keyed) => Transformed::new(keyed, true, TreeNodeRecursion::Continue),
            None => Transformed::no(expr),
        };
        if above && self.makes_nan(&changed.data) {
            changed.data = one_nan(changed.data);
            changed.transformed = true;
        }
        Ok(changed)
    }
}

/// Whether another NaN than the one may come out of an expression, once what it compares is settled.
pub(super) fn makes_nan(expr: &Expr, schema: &DFSchema, fresh: &Columns) -> bool {
    let data_type = |expr: &Expr| expr.get_type(schema).ok();
    let may = match expr {
        Expr::Column(column) => return fresh.contains(column),
        Expr::Alias(alias) => return makes_nan(&alias.expr, schema, fresh),
        Expr::BinaryExpr(BinaryExpr { op, .. }) => is_arithmetic(*op),
        Expr::ScalarFunction(_) => !is_one(expr),
        Expr::Negative(_) | Expr::ScalarSubquery(_) => true,
        // Of numbers only NaN becomes NaN.
        Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) => {
            !data_type(expr).is_some_and(|data_type| data_type.is_numeric())
        }
        _ => false,
    };
    may && data_type(expr).is_some_and(|data_type| data_type.is_floating())
}

fn is_arithmetic(op: Operator) -> bool {
    use Operator::{Divide, Minus, Modulo, Multiply, Plus};
    matches!(op, Plus | Minus | Multiply | Divide | Modulo)
}

fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(..) | Expr::Placeholder(_) => true,
        Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) | Expr::Negative(expr) => {
            is_constant(expr)
        }
        _ => false,
    }
}

/// `x IN (…)`: a zero stands for both. A list with anything but literals is compared by keys.
fn in_list(input: &Input, list: &InList) -> Option<Expr> {
    if list.list.iter().all(|item| matches!(item, Expr::Literal(..))) {
        let zero = list.list.iter().find_map(zero_of)?;
        let others = list.list.iter().filter(|item| zero_of(item).is_none()).cloned();
        let negative = zero.arithmetic_negate().ok()?;
        let zeros = [zero, negative].map(|zero| Expr::Literal(zero, None));
        return Some(Expr::InList(InList {
            expr: list.expr.clone(),
            list: others.chain(zeros).collect(),
            negated: list.negated,
        }));
    }
    Some(Expr::InList(InList {
        expr: Box::new(input.key(list.expr.as_ref().clone())),
        list: list.list.iter().map(|item| input.key(item.clone())).collect(),
        negated: list.negated,
    }))
}

/// 0.0 of a literal's type, where it is either zero.
fn zero_of(expr: &Expr) -> Option<ScalarValue> {
    match expr {
        Expr::Literal(ScalarValue::Float64(Some(0.0)), _) => Some(ScalarValue::Float64(Some(0.0))),
        Expr::Literal(ScalarValue::Float32(Some(0.0)), _) => Some(ScalarValue::Float32(Some(0.0))),
        _ => None,
    }
}

/// 0.0 where an expression is -0.0.
fn negative_zero(expr: &Expr) -> Option<ScalarValue> {
    let is_negative = match expr {
        Expr::Literal(ScalarValue::Float64(Some(value)), _) => value.is_sign_negative(),
        Expr::Literal(ScalarValue::Float32(Some(value)), _) => value.is_sign_negative(),
        Expr::Negative(of) => return zero_of(of),
        _ => false,
    };
    if is_negative { zero_of(expr) } else { None }
}

/// `x IN (SELECT y …)` becomes a join by both.
fn in_query(input: &Input, asked: &InSubquery) -> Result<Expr> {
    let inner: &LogicalPlan = &asked.subquery.subquery;
    let (qualifier, field) = inner.schema().qualified_field(0);
    let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
    // No other column has that name: see `membership`.
    let key = function::one_zero(one_nan(column)).alias_qualified(Some("__in"), "__y");
    let inner = LogicalPlanBuilder::from(inner.clone()).project([key])?.build()?;
    let mut asked = asked.clone();
    asked.subquery.subquery = Arc::new(inner);
    asked.expr = Box::new(input.key(*asked.expr));
    Ok(Expr::InSubquery(asked))
}
