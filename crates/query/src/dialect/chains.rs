//! Long chains of one associative operator as trees of little depth.
//!
//! The parser hangs each term of `a OR b OR c …` below the one after it, as deep as there are terms; whatever goes
//! through such a tree calls itself as often. AND, OR, UNION and UNION ALL mean the same however their terms are
//! bracketed, in the same order. `+` is left alone: doubles are added from left to right.

use sqlparser::ast::{BinaryOperator, Expr, SetExpr, SetOperator, SetQuantifier, Value};

/// Chains of fewer terms stay as they are: nothing is won, and plans keep their shape.
const TERMS_MIN: usize = 32;

/// Makes a long chain of AND or OR a balanced tree.
pub(super) fn balance(expr: &mut Expr) {
    let op = match expr {
        Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } => op.clone(),
        _ => return,
    };
    let (mut terms, mut left) = (1, &*expr);
    while let Expr::BinaryOp { left: next, op: same, .. } = left
        && *same == op
    {
        (terms, left) = (terms + 1, next);
    }
    if terms < TERMS_MIN {
        return;
    }
    let mut found = Vec::with_capacity(terms);
    let mut rest = std::mem::replace(expr, Expr::value(Value::Null));
    loop {
        match rest {
            Expr::BinaryOp { left, op: same, right } if same == op => {
                found.push(*right);
                rest = *left;
            }
            first => {
                found.push(first);
                break;
            }
        }
    }
    found.reverse();
    let join = |left, right| Expr::BinaryOp { left: Box::new(left), op: op.clone(), right: Box::new(right) };
    if let Some(tree) = pairwise(found, &join) {
        *expr = tree;
    }
}

/// Makes a long chain of UNION or UNION ALL a balanced tree.
pub(super) fn balance_sets(body: &mut SetExpr) {
    let quantifier = match body {
        SetExpr::SetOperation {
            op: SetOperator::Union,
            set_quantifier: of @ (SetQuantifier::All | SetQuantifier::Distinct | SetQuantifier::None),
            ..
        } => *of,
        _ => return,
    };
    let same = |op: &SetOperator, of: &SetQuantifier| *op == SetOperator::Union && *of == quantifier;
    let (mut terms, mut left) = (1, &*body);
    while let SetExpr::SetOperation { left: next, op, set_quantifier, .. } = left
        && same(op, set_quantifier)
    {
        (terms, left) = (terms + 1, next);
    }
    if terms < TERMS_MIN {
        return;
    }
    let mut found = Vec::with_capacity(terms);
    let mut rest = std::mem::replace(body, nothing());
    loop {
        match rest {
            SetExpr::SetOperation { left, op, set_quantifier, right } if same(&op, &set_quantifier) => {
                found.push(*right);
                rest = *left;
            }
            first => {
                found.push(first);
                break;
            }
        }
    }
    found.reverse();
    let join = |left, right| SetExpr::SetOperation {
        left: Box::new(left),
        op: SetOperator::Union,
        set_quantifier: quantifier,
        right: Box::new(right),
    };
    if let Some(tree) = pairwise(found, &join) {
        *body = tree;
    }
}

/// What stands in a place while its content is elsewhere.
fn nothing() -> SetExpr {
    SetExpr::Values(sqlparser::ast::Values { explicit_row: false, value_keyword: false, rows: Vec::new() })
}

/// Joins neighbours until one is left.
fn pairwise<T>(mut terms: Vec<T>, join: &dyn Fn(T, T) -> T) -> Option<T> {
    while terms.len() > 1 {
        let mut pairs = Vec::with_capacity(terms.len().div_ceil(2));
        let mut each = terms.into_iter();
        while let Some(left) = each.next() {
            pairs.push(match each.next() {
                Some(right) => join(left, right),
                None => left,
            });
        }
        terms = pairs;
    }
    terms.pop()
}
