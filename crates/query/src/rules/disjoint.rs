//! Two lists about one value: `x IN (…) AND x IN (…)`, `x NOT IN (…) OR x NOT IN (…)`.
//!
//! DataFusion 55.2 makes one list of them, and FALSE (or TRUE) where nothing is left in it, also where `x` is NULL and
//! neither list says anything: rows without a value came through `x NOT IN (1, 2) OR x NOT IN (3, 4)`. Here they are
//! made one first, and a list with nothing in it heeds the NULL.
//!
//! A NULL in a list is a value of it there, which `x IN (1, NULL) AND NOT x IN (2, NULL)` takes away: so it stands beside
//! the list, `x IN (1) OR NULL`, where it is not as good as false.
//!
//! Lists that are beside each other only once NOT, CASE and sub-queries have been put in other words, whose values are not
//! known yet (`DATE '2024-01-01'`), or of floats, of which some are equal and not the same, are kept apart: what each of
//! them tests has a number that no other has ([`apart`]), but for equal lists of a node whose keys must stay equal. Those
//! that a filter demands one by one may be made one, as NULL is no more than FALSE there.

use crate::lists::{apart, same};
use crate::named::change_named;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::utils::{conjunction, split_conjunction, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, Filter, LogicalPlan, Operator, lit};
use datafusion::optimizer::AnalyzerRule;
use std::collections::{HashMap, HashSet};

/// Must run where values have the type of what they are compared with.
#[derive(Debug)]
pub(crate) struct DisjointLists;

impl AnalyzerRule for DisjointLists {
    fn name(&self) -> &str {
        "disjoint_lists"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut lists = 0;
        plan.apply_with_subqueries(|node| {
            node.apply_expressions(|expr| {
                expr.apply(|expr| {
                    lists += usize::from(matches!(expr, Expr::InList(_)));
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })?;
        if lists == 0 {
            return Ok(plan);
        }
        let mut numbers = Numbers::default();
        let changed = plan.transform_up_with_subqueries(|node| {
            numbers.enter(&node);
            let is_condition = matches!(node, LogicalPlan::Filter(_));
            let changed = change_named(node, |expr| {
                if !expr.exists(|expr| Ok(matches!(expr, Expr::InList(_)) || two_lists(expr).is_some()))? {
                    return Ok(Transformed::no(expr));
                }
                let expr = if is_condition { without_nulls(expr) } else { expr };
                let expr = expr.transform_up(|expr| Ok(as_one(null_beside(expr))))?.data;
                let expr = if lists > 1 { kept_apart(expr, is_condition, &mut numbers)? } else { expr };
                Ok(Transformed::yes(expr))
            })?;
            if !changed.transformed {
                return Ok(changed);
            }
            let LogicalPlan::Filter(filter) = changed.data else {
                return Ok(Transformed::yes(changed.data.recompute_schema()?));
            };
            // NULL or FALSE, no row passes.
            let none = split_conjunction(&filter.predicate).into_iter().any(is_of_nothing);
            let predicate = if none { lit(false) } else { filter.predicate };
            Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)))
        })?;
        Ok(changed.data)
    }
}

/// The numbers of lists that are kept apart.
#[derive(Default)]
struct Numbers {
    last: u64,
    /// Of the node at hand.
    known: HashMap<InList, u64>,
    /// Whether equal lists of it have one number: windows with the same keys and the sets of a grouping stay the same.
    are_shared: bool,
}

impl Numbers {
    fn enter(&mut self, node: &LogicalPlan) {
        self.known.clear();
        self.are_shared =
            !matches!(node, LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::Join(_));
    }

    fn of(&mut self, list: &InList) -> u64 {
        if let (true, Some(number)) = (self.are_shared, self.known.get(list)) {
            return *number;
        }
        self.last += 1;
        if self.are_shared {
            self.known.insert(list.clone(), self.last);
        }
        self.last
    }
}

/// An expression whose lists nobody makes one of, but for those that a condition demands one by one.
fn kept_apart(expr: Expr, is_condition: bool, numbers: &mut Numbers) -> Result<Expr> {
    let mut keep = |expr: Expr| {
        let plain = expr.transform_down(|expr| match expr {
            Expr::Not(of) => Ok(match *of {
                Expr::InList(InList { expr, list, negated }) => {
                    Transformed::yes(expr.in_list(list, !negated))
                }
                other => Transformed::no(Expr::Not(Box::new(other))),
            }),
            other => Ok(Transformed::no(other)),
        })?;
        let kept = plain.data.transform_up(|expr| {
            let Expr::InList(mut list) = expr else { return Ok(Transformed::no(expr)) };
            if same(&list.expr).is_none() {
                let number = numbers.of(&list);
                list.expr = Box::new(apart(*list.expr, number));
            }
            Ok(Transformed::yes(Expr::InList(list)))
        });
        Ok::<_, DataFusionError>(kept?.data)
    };
    if !is_condition {
        return keep(expr);
    }
    let demanded = |expr: &Expr| matches!(expr, Expr::InList(list) if list.list.iter().all(is_value));
    let each = split_conjunction_owned(expr).into_iter();
    let each = each.map(|expr| if demanded(&expr) { Ok(expr) } else { keep(expr) });
    Ok(conjunction(each.collect::<Result<Vec<_>>>()?).unwrap_or_else(|| lit(true)))
}

/// Whether an item of a list is a value and not NULL, as far as it is written.
fn is_value(item: &Expr) -> bool {
    match item {
        Expr::Cast(Cast { expr, .. }) => is_value(expr),
        Expr::Literal(value, _) => !value.is_null(),
        _ => false,
    }
}

fn is_null(item: &Expr) -> bool {
    match item {
        Expr::Cast(Cast { expr, .. }) => is_null(expr),
        Expr::Literal(value, _) => value.is_null(),
        _ => false,
    }
}

/// A condition whose lists, joined by AND, have no NULL: for such rows a list is no more than false.
fn without_nulls(predicate: Expr) -> Expr {
    let each = split_conjunction_owned(predicate).into_iter().map(|condition| match condition {
        Expr::InList(InList { expr, mut list, negated: false }) if list.iter().any(is_null) => {
            list.retain(|item| !is_null(item));
            if list.is_empty() { lit(false) } else { expr.in_list(list, false) }
        }
        other => other,
    });
    conjunction(each).unwrap_or_else(|| lit(true))
}

/// A list without its NULL, which stands beside it.
fn null_beside(expr: Expr) -> Expr {
    let Expr::InList(InList { expr, mut list, negated }) = expr else { return expr };
    if !list.iter().any(is_null) {
        return Expr::InList(InList { expr, list, negated });
    }
    list.retain(|item| !is_null(item));
    let null = Expr::Literal(ScalarValue::Boolean(None), None);
    match (list.is_empty(), negated) {
        (true, _) => null,
        (false, true) => expr.in_list(list, true).and(null),
        (false, false) => expr.in_list(list, false).or(null),
    }
}

/// What is in a list, or (`negated`) is not in it.
struct List<'a> {
    of: &'a Expr,
    /// With the items that they are written as.
    values: Vec<(&'a ScalarValue, &'a Expr)>,
    negated: bool,
    is_written: bool,
}

/// The list that a condition is; an equality is one of one value. `None` where it holds a NULL or a float, of which some
/// are equal and not the same.
fn list_of(expr: &Expr) -> Option<List<'_>> {
    let list = match expr {
        Expr::InList(InList { expr, list, negated }) => {
            let values = list.iter().map(|item| Some((value_of(item)?, item)));
            let values = values.collect::<Option<Vec<_>>>()?;
            List { of: expr, values, negated: *negated, is_written: true }
        }
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Eq | Operator::NotEq), right }) => List {
            of: left,
            values: vec![(value_of(right)?, right.as_ref())],
            negated: *op == Operator::NotEq,
            is_written: false,
        },
        _ => return None,
    };
    (!matches!(list.of, Expr::Literal(..)) && !list.of.is_volatile()).then_some(list)
}

/// A value that is written, of a symbol perhaps its text.
fn value_of(expr: &Expr) -> Option<&ScalarValue> {
    match expr {
        Expr::Cast(Cast { expr, field }) if matches!(field.data_type(), DataType::Dictionary(..)) => {
            value_of(expr)
        }
        Expr::Literal(value, _) => (!value.is_null() && !value.data_type().is_floating()).then_some(value),
        _ => None,
    }
}

/// The lists of a condition about one value, and whether both must hold. Of two equalities of which one must hold the
/// planner makes what it likes.
fn two_lists(expr: &Expr) -> Option<(List<'_>, List<'_>, bool)> {
    let Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) = expr else {
        return None;
    };
    let (a, b, and) = (list_of(left)?, list_of(right)?, *op == Operator::And);
    let joins = a.negated == b.negated && a.negated == and;
    (a.of == b.of && (!joins || a.is_written || b.is_written)).then_some((a, b, and))
}

/// Two lists as one.
fn as_one(expr: Expr) -> Transformed<Expr> {
    let Some((a, b, and)) = two_lists(&expr) else { return Transformed::no(expr) };
    let those = |list: &List<'_>, other: &List<'_>, in_other: bool| {
        let other: HashSet<&ScalarValue> = other.values.iter().map(|(value, _)| *value).collect();
        let kept = list.values.iter().filter(|(value, _)| other.contains(*value) == in_other);
        kept.map(|(_, item)| (*item).clone()).collect::<Vec<_>>()
    };
    let all = || {
        let mut items: Vec<Expr> = a.values.iter().map(|(_, item)| (*item).clone()).collect();
        items.extend(those(&b, &a, false));
        items
    };
    let (values, negated) = match (a.negated, b.negated) {
        (of_a, of_b) if of_a == of_b && of_a == and => (all(), and),
        (of_a, of_b) if of_a == of_b => (those(&a, &b, true), !and),
        (true, _) if and => (those(&b, &a, false), false),
        (_, true) if and => (those(&a, &b, false), false),
        (true, _) => (those(&a, &b, false), true),
        (_, _) => (those(&b, &a, false), true),
    };
    let of = a.of.clone();
    Transformed::yes(match (values.is_empty(), negated) {
        (true, false) => of.is_null().and(Expr::Literal(ScalarValue::Boolean(None), None)),
        (true, true) => of.is_not_null().or(Expr::Literal(ScalarValue::Boolean(None), None)),
        (false, _) => of.in_list(values, negated),
    })
}

/// Whether a condition is what a list with nothing in it became.
fn is_of_nothing(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right })
        if matches!(left.as_ref(), Expr::IsNull(_)) && matches!(right.as_ref(), Expr::Literal(ScalarValue::Boolean(None), _)))
        || matches!(expr, Expr::Literal(ScalarValue::Boolean(None), _))
}
