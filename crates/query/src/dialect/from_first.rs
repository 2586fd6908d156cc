//! Forms of DuckDB's that the parser does not know, in words that it does:
//!
//! - `FROM t WHERE …` without SELECT, which it knows only where nothing follows FROM: `SELECT *` is put before what
//!   follows;
//! - `INSERT INTO t BY NAME query`: a column [`BY_NAME`], which becomes those of the query where tables are known.

use super::cursor::is_word;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Stands for the columns of an INSERT that are those of its query, by their names.
pub(super) const BY_NAME: &str = "__by_name";

/// Words that a clause after FROM begins with.
const CLAUSES: [&str; 14] = [
    "WHERE",
    "GROUP",
    "HAVING",
    "QUALIFY",
    "WINDOW",
    "ORDER",
    "LIMIT",
    "OFFSET",
    "FETCH",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "SORT",
    "CLUSTER",
];

/// A query, or anything else between brackets.
#[derive(Default)]
struct Level {
    /// Whether a token came that is none of WITH's.
    begun: bool,
    in_with: bool,
    /// Whether it began with FROM, and no SELECT came.
    from_first: bool,
}

/// Puts `SELECT *` where it is left out.
pub(super) fn join_words(tokens: &mut Vec<TokenWithSpan>) {
    if !tokens.iter().any(|token| is_word(&token.token, "FROM")) {
        return;
    }
    let mut levels = vec![Level::default()];
    let mut at = 0;
    while at < tokens.len() {
        let token = tokens[at].token.clone();
        let depth = levels.len() - 1;
        let level = &mut levels[depth];
        match &token {
            Token::LParen => {
                level.begun |= !level.in_with;
                levels.push(Level::default());
            }
            Token::RParen => {
                if levels.len() > 1 {
                    levels.pop();
                }
            }
            Token::SemiColon => levels = vec![Level::default()],
            word if is_word(word, "EXPLAIN") || is_word(word, "ANALYZE") || is_word(word, "VERBOSE") => {}
            word if is_word(word, "WITH") && !level.begun => level.in_with = true,
            word if is_word(word, "FROM") && !level.begun => {
                (level.begun, level.in_with, level.from_first) = (true, false, true);
            }
            word if is_word(word, "SELECT") => {
                (level.begun, level.in_with, level.from_first) = (true, false, false);
            }
            word if level.from_first && CLAUSES.iter().any(|clause| is_word(word, clause)) => {
                level.from_first = false;
                let span = tokens[at].span;
                let made = [Token::make_keyword("SELECT"), Token::Mul];
                tokens.splice(at..at, made.map(|token| TokenWithSpan { token, span }));
                at += 2;
                if ["UNION", "EXCEPT", "INTERSECT"].iter().any(|set| is_word(&token, set)) {
                    levels[depth] = Level::default();
                    // ALL, DISTINCT and BY NAME stand between.
                    while tokens.get(at + 1).is_some_and(|next| {
                        ["ALL", "DISTINCT", "BY", "NAME"].iter().any(|word| is_word(&next.token, word))
                    }) {
                        at += 1;
                    }
                }
            }
            _ => level.begun |= !level.in_with,
        }
        at += 1;
    }
}

/// `INSERT INTO t BY NAME` as the parser reads it.
pub(super) fn name_columns(tokens: &mut Vec<TokenWithSpan>) {
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| is_word(&token.token, word));
    if !is(0, "INSERT") {
        return;
    }
    // The name of a table, with its schema at most.
    let Some(at) = (2..=6).find(|at| is(*at, "BY") && is(*at + 1, "NAME")) else { return };
    let span = tokens[at].span;
    let made = [Token::LParen, Token::make_word(BY_NAME, None), Token::RParen];
    tokens.splice(at..at + 2, made.map(|token| TokenWithSpan { token, span }));
}
