//! Every node of the parser's syntax tree, gone through once: each of its fields is used, or refused by its name.
//!
//! Nodes are taken apart without `..`. A field that a new version of the parser brings does not compile until somebody
//! has said which of the two it is. What the planner refuses itself is let through here; the tests hold it to that.
//!
//! On its way the walk makes long chains into trees of little depth ([`super::chains`]) and refuses what stays deeper
//! than [`DEPTH_MAX`], so that everything after it may call itself at each node. It runs before our own clauses are put
//! in their places, and over the expressions of those when they are read.

mod expression;
mod function;
mod query;
mod relation;
mod statement;

use super::cursor::{Result, is_word, position};
use super::{Position, SqlError};
use sqlparser::ast::{Expr, Ident, ObjectName, ObjectNamePart, Query, Statement};
use sqlparser::tokenizer::TokenWithSpan;

/// How deep expressions and set operations may be nested (`statement_depth_max`): what planning and execution call
/// themselves for fits into a thread's stack then.
pub(crate) const DEPTH_MAX: usize = 256;

/// Goes through a statement whose tokens these are.
///
/// # Errors
/// [`SqlError`] at the first clause that would be ignored, and where it is nested too deeply.
pub(super) fn check_statement(statement: &mut Statement, tokens: &[TokenWithSpan]) -> Result<()> {
    Walk::over(tokens).statement(statement)
}

/// As [`check_statement`], a query on its own.
///
/// # Errors
/// As there.
pub(super) fn check_query(query: &mut Query, tokens: &[TokenWithSpan]) -> Result<()> {
    Walk::over(tokens).query(query)
}

/// As [`check_statement`], an expression on its own.
///
/// # Errors
/// As there.
pub(super) fn check_expression(expr: &mut Expr, tokens: &[TokenWithSpan]) -> Result<()> {
    Walk::over(tokens).expr(expr)
}

/// A walk over a syntax tree.
struct Walk<'t> {
    tokens: &'t [TokenWithSpan],
    /// The last place that was known on the way.
    near: Position,
    /// How many nodes it is in.
    depth: usize,
}

impl<'t> Walk<'t> {
    fn over(tokens: &'t [TokenWithSpan]) -> Self {
        let near = tokens.first().and_then(|token| position(token.span.start)).unwrap_or_default();
        Self { tokens, near, depth: 0 }
    }

    /// One node further down.
    fn down(&mut self, below: &mut dyn FnMut(&mut Self) -> Result<()>) -> Result<()> {
        if self.depth >= DEPTH_MAX {
            let message = format!("the statement is nested more than {DEPTH_MAX} deep (statement_depth_max)");
            return Err(SqlError::new(message, self.near).hint(
                "chains of AND, OR and UNION ALL may be of any length; split others by brackets or into sub-queries",
            ));
        }
        self.depth += 1;
        let done = below(self);
        self.depth -= 1;
        done
    }

    /// Refuses a clause that is there, by the words it begins with.
    fn never(&self, there: bool, clause: &str, hint: &str) -> Result<()> {
        if there { Err(self.refused(clause, hint)) } else { Ok(()) }
    }

    fn refused(&self, clause: &str, hint: &str) -> SqlError {
        let error = SqlError::new(format!("{clause} is not supported"), self.place_of(clause));
        if hint.is_empty() { error } else { error.hint(hint) }
    }

    /// Where the first words of a clause stand: after the last place known, or anywhere.
    fn place_of(&self, clause: &str) -> Position {
        let words =
            || clause.split(' ').take_while(|word| word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'));
        if words().next().is_none() {
            return self.near;
        }
        let stands = |at: &usize| {
            words()
                .enumerate()
                .all(|(i, word)| self.tokens.get(at + i).is_some_and(|t| is_word(&t.token, word)))
        };
        let place = |at: usize| position(self.tokens[at].span.start);
        let all = || (0..self.tokens.len()).filter(stands).filter_map(place);
        all().find(|found| *found >= self.near).or_else(|| all().next()).unwrap_or(self.near)
    }

    fn ident(&mut self, ident: &Ident) {
        let Ident { value: _, quote_style: _, span } = ident;
        self.near = position(span.start).unwrap_or(self.near);
    }

    fn name(&mut self, name: &ObjectName) -> Result<()> {
        let ObjectName(parts) = name;
        for part in parts {
            match part {
                ObjectNamePart::Identifier(ident) => self.ident(ident),
                ObjectNamePart::Function(_) => {
                    return Err(self.refused("a function in the place of a name", ""));
                }
            }
        }
        Ok(())
    }

    fn each<T>(&mut self, nodes: &mut [T], one: fn(&mut Self, &mut T) -> Result<()>) -> Result<()> {
        nodes.iter_mut().try_for_each(|node| one(self, node))
    }

    fn some<T>(&mut self, node: &mut Option<T>, one: fn(&mut Self, &mut T) -> Result<()>) -> Result<()> {
        node.as_mut().map_or(Ok(()), |node| one(self, node))
    }

    fn exprs(&mut self, exprs: &mut [Expr]) -> Result<()> {
        self.each(exprs, Self::expr)
    }
}

#[cfg(test)]
mod tests;
