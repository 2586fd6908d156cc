//! ROLLUP, CUBE and GROUPING SETS in the words that planning knows:
//!
//! ```text
//! CUBE ((day + 1) % 7)     ->  CUBE (((day + 1) % 7))         the parser takes what begins with a bracket for a tuple
//! ROLLUP (1, 2)            ->  ROLLUP (day, symbol)           places in the list of SELECT
//! ROLLUP ((a, b), c)       ->  GROUPING SETS ((a, b, c), (a, b), ())
//! CUBE (d, d)              ->  GROUPING SETS ((d), (d), (d), ())
//! ```

use super::SqlError;
use super::cursor::{Result, is_word};
use super::marker::place as place_of;
use super::walks::walk_mut;
use sqlparser::ast::{Expr, GroupByExpr, Select, SelectItem, Value, ValueWithSpan, VisitMut, VisitorMut};
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;

/// Most elements of a CUBE that is written out, as in PostgreSQL: it has two to the power of that many sets.
const CUBE_MAX: usize = 12;

/// Puts elements that begin with a bracket and go on after it into brackets.
pub(super) fn join_words(tokens: &mut Vec<TokenWithSpan>) {
    let begins = |at: usize| {
        let is_list = ["CUBE", "ROLLUP", "SETS"].iter().any(|word| is_word(&tokens[at].token, word));
        is_list && tokens.get(at + 1).is_some_and(|next| next.token == Token::LParen)
    };
    // Brackets, and the tokens that they come before.
    let mut brackets: Vec<(usize, Token)> = Vec::new();
    for at in (0..tokens.len()).filter(|at| begins(*at)) {
        let mut element = at + 2;
        while let Some(end) = end_of_element(tokens, element) {
            let closes = (tokens[element].token == Token::LParen).then(|| closing(tokens, element)).flatten();
            if closes.is_some_and(|closes| closes + 1 < end) {
                brackets.extend([(element, Token::LParen), (end, Token::RParen)]);
            }
            if tokens[end].token != Token::Comma {
                break;
            }
            element = end + 1;
        }
    }
    brackets.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    for (at, bracket) in brackets {
        let span = tokens[at].span;
        tokens.insert(at, TokenWithSpan::new(bracket, span));
    }
}

/// The comma or bracket after the element that begins at a token.
fn end_of_element(tokens: &[TokenWithSpan], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        match tokens.get(at)?.token {
            Token::LParen => at = closing(tokens, at)?,
            Token::Comma | Token::RParen => return Some(at),
            _ => {}
        }
        at += 1;
    }
}

/// The bracket that closes the one at a token.
fn closing(tokens: &[TokenWithSpan], opened: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(opened) {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 1 => return Some(at),
            Token::RParen => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Writes places, tuples and keys that come twice in other words.
///
/// # Errors
/// [`SqlError`] where a place is none of the list of SELECT, or a CUBE is too large.
pub(super) fn place(node: &mut impl VisitMut) -> Result<()> {
    match walk_mut(node, &mut Grouping) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Grouping;

impl VisitorMut for Grouping {
    type Break = SqlError;

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        let GroupByExpr::Expressions(keys, _) = &mut select.group_by else {
            return ControlFlow::Continue(());
        };
        match keys.iter_mut().try_for_each(|key| settle(key, &select.projection)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

fn settle(key: &mut Expr, items: &[SelectItem]) -> Result<()> {
    let (Expr::Rollup(lists) | Expr::Cube(lists) | Expr::GroupingSets(lists)) = &mut *key else {
        return Ok(());
    };
    for expr in lists.iter_mut().flatten() {
        if let Some(meant) = item_at(expr, items)? {
            *expr = meant;
        }
    }
    let is_twice = |list: &Vec<Expr>| (1..list.len()).any(|at| list[..at].contains(&list[at]));
    let all: Vec<Expr> = lists.iter().flatten().cloned().collect();
    let mut sets = match &*key {
        Expr::Rollup(lists) if is_twice(&all) || lists.iter().any(|list| list.len() != 1) => rolled(lists),
        Expr::Cube(lists) if is_twice(&all) || lists.iter().any(|list| list.len() != 1) => cubed(lists)?,
        Expr::GroupingSets(lists) if lists.iter().any(is_twice) => lists.clone(),
        _ => return Ok(()),
    };
    for set in &mut sets {
        let mut once: Vec<Expr> = Vec::with_capacity(set.len());
        for expr in set.drain(..) {
            if !once.contains(&expr) {
                once.push(expr);
            }
        }
        *set = once;
    }
    *key = Expr::GroupingSets(sets);
    Ok(())
}

/// The item of a SELECT that a place means; `None` where an expression is no place.
fn item_at(expr: &Expr, items: &[SelectItem]) -> Result<Option<Expr>> {
    let Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) = expr else { return Ok(None) };
    let Ok(number) = digits.to_string().parse::<usize>() else { return Ok(None) };
    let error = |message: String| SqlError::new(message, place_of(expr));
    match number.checked_sub(1).and_then(|at| Some((items.get(..at)?, items.get(at)?))) {
        Some((before, SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }))
            if before.iter().all(is_one_column) =>
        {
            Ok(Some(item.clone()))
        }
        Some(_) => {
            let message = format!("GROUP BY counts columns up to place {number}, among which is *");
            Err(error(message).hint("name the columns that it groups by"))
        }
        None => Err(error(format!("there is no column at place {number} that GROUP BY names"))
            .hint(format!("SELECT lists {} columns", items.len()))),
    }
}

fn is_one_column(item: &SelectItem) -> bool {
    matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
}

/// The sets of a ROLLUP, the longest first.
fn rolled(lists: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    (0..=lists.len()).rev().map(|taken| lists[..taken].concat()).collect()
}

/// The sets of a CUBE.
fn cubed(lists: &[Vec<Expr>]) -> Result<Vec<Vec<Expr>>> {
    if lists.len() > CUBE_MAX {
        let at = lists.iter().flatten().next().map(place_of).unwrap_or_default();
        let message = format!("CUBE takes at most {CUBE_MAX} elements where some are tuples or come twice");
        return Err(SqlError::new(message, at).hint("write the sets: GROUPING SETS ((a, b), (a), ())"));
    }
    let set = |taken: usize| -> Vec<Expr> {
        let taken = lists.iter().enumerate().filter(|(at, _)| taken >> at & 1 == 1);
        taken.flat_map(|(_, list)| list.clone()).collect()
    };
    Ok((0..1_usize << lists.len()).rev().map(set).collect())
}
