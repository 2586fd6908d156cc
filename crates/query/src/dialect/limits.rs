//! What the tokens of a statement say about how deep its tree can be, before the parser makes it.
//!
//! The parser hangs the terms of a chain one below the other, so that a tree can be as deep as a chain is long, and
//! dropping it calls itself as often.

use super::SqlError;
use super::cursor::{Result, Tokens, position};
use sqlparser::tokenizer::Token;

/// Most words and signs that may follow each other in one chain (`chain_tokens_max`): between commas, those of the
/// brackets around it counted in.
const CHAIN_TOKENS_MAX: usize = 1 << 20;

/// How deep brackets, calls and sub-queries may be nested (`nesting_max`): the parser's own limit.
const NESTING_MAX: usize = 50;

/// What is said of a text that is nested deeper.
pub(super) fn too_nested() -> String {
    format!("brackets, calls and sub-queries are nested more than {NESTING_MAX} deep (nesting_max)")
}

/// Stack that the parser's tree takes for each token when it is dropped.
const TOKEN_BYTES: usize = 512;

/// How many bytes of stack reading a statement takes at most.
///
/// # Errors
/// [`SqlError`] where a chain is longer than [`CHAIN_TOKENS_MAX`], and brackets deeper than [`NESTING_MAX`].
pub(super) fn stack_bytes(statement: &Tokens) -> Result<usize> {
    let mut open: Vec<Bracket> = vec![Bracket { before: 0, tokens: 0 }];
    let mut longest = 0;
    for token in &statement.tokens {
        let inner = *open.last().expect("the statement itself is never closed");
        match token.token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                open.push(Bracket { before: inner.before + inner.tokens + 1, tokens: 0 });
            }
            Token::RParen | Token::RBracket | Token::RBrace if open.len() > 1 => {
                open.pop();
            }
            _ => {}
        }
        let here = || position(token.span.start).unwrap_or(statement.end);
        if open.len() > NESTING_MAX + 1 {
            return Err(SqlError::new(too_nested(), here()));
        }
        let last = open.last_mut().expect("the statement itself is never closed");
        last.tokens = if token.token == Token::Comma { 0 } else { last.tokens + 1 };
        longest = longest.max(last.before + last.tokens);
        if longest > CHAIN_TOKENS_MAX {
            let message =
                format!("an expression of more than {CHAIN_TOKENS_MAX} words and signs (chain_tokens_max)");
            return Err(SqlError::new(message, here()).hint("put values into a table, and join it"));
        }
    }
    Ok(longest * TOKEN_BYTES)
}

/// A bracket that is open.
#[derive(Debug, Clone, Copy)]
struct Bracket {
    /// Tokens of the chains around it.
    before: usize,
    /// Tokens since the last comma in it.
    tokens: usize,
}
