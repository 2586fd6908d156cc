//! What to write instead, for texts that stop being SQL where newcomers often leave it: keywords misspelt, lengths
//! of time without INTERVAL, clauses out of order.

use super::cursor::{Cursor, Tokens, is_word};
use super::{Position, SqlError};
use crate::error::edits;
use sqlparser::tokenizer::Token;

/// Keywords that are looked for near a misspelt one.
const KEYWORDS: [&str; 12] = [
    "SELECT", "FROM", "WHERE", "GROUP", "ORDER", "LIMIT", "SAMPLE", "LATEST", "HAVING", "INSERT", "UPDATE",
    "DELETE",
];

const UNITS: [&str; 16] = [
    "s", "sec", "second", "seconds", "m", "min", "minute", "minutes", "h", "hour", "hours", "d", "day",
    "days", "week", "weeks",
];

/// The error with what to write instead, where its place in the statement tells.
pub(super) fn advise(error: SqlError, tokens: &Tokens) -> SqlError {
    if error.hint.is_some() {
        return error;
    }
    let place = Position { line: error.line, column: error.column };
    let count = tokens.tokens.len();
    let cursor = |at: usize| Cursor::new(&tokens.tokens, at, tokens.end);
    let at = (0..count).find(|at| cursor(*at).position() >= place).unwrap_or(count);
    let token = |at: usize| tokens.tokens.get(at).map(|token| &token.token);
    let here = Place {
        before: at.checked_sub(1).and_then(token),
        found: token(at),
        after: token(at + 1),
        latest: (0..count).any(|at| cursor(at).words(&["LATEST", "ON"])),
        sampled: (0..at).any(|at| cursor(at).words(&["SAMPLE", "BY"])),
        selects: (0..at).any(|at| cursor(at).words(&["FROM"])),
    };
    match here.advice() {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

/// What stands around the place of an error.
struct Place<'t> {
    before: Option<&'t Token>,
    found: Option<&'t Token>,
    after: Option<&'t Token>,
    /// Whether LATEST ON stands anywhere.
    latest: bool,
    /// Whether SAMPLE BY stands before.
    sampled: bool,
    /// Whether FROM stands before.
    selects: bool,
}

impl Place<'_> {
    fn advice(&self) -> Option<String> {
        let found = |word: &str| self.found.is_some_and(|token| is_word(token, word));
        let before = |word: &str| self.before.is_some_and(|token| is_word(token, word));
        let unit = |token: &Token| UNITS.iter().any(|unit| is_word(token, unit));
        let said = if self.latest {
            "LATEST ON ts needs PARTITION BY and a key"
        } else if matches!(self.before, Some(Token::Number(..))) && self.found.is_some_and(unit) {
            "a length of time is INTERVAL '1 hour', an instant moved by one dateadd('h', -1, now())"
        } else if found("TIME") && self.sampled {
            "write ALIGN TO CALENDAR TIME ZONE '…'"
        } else if found("FROM") && self.sampled {
            "FROM … TO stands before FILL"
        } else if before("FILL") && self.sampled {
            "write FILL(PREV), with brackets"
        } else if found("DIRECTION") {
            "DIRECTION is BACKWARD, FORWARD or NEAREST"
        } else if found("WITHIN") {
            "write ts IN '2024-08' or ts BETWEEN '2024-08-08' AND '2024-08-09'"
        } else if (found("ORDER") || found("GROUP")) && !self.after.is_some_and(|next| is_word(next, "BY")) {
            "write ORDER BY, GROUP BY"
        } else if found("BY") && !self.selects {
            "write SELECT … FROM t GROUP BY key"
        } else {
            return self.keyword();
        };
        Some(said.to_string())
    }

    /// The keyword that the word here, or the one before, is nearly.
    fn keyword(&self) -> Option<String> {
        let near = |token: &Token| {
            let Token::Word(word) = token else { return None };
            let written = word.value.to_uppercase();
            let length = written.chars().count();
            let near = KEYWORDS.iter().map(|keyword| (edits(&written, keyword), *keyword)).min()?;
            (length >= 3 && (1..=2).contains(&near.0)).then_some(near.1)
        };
        let keyword = [self.before, self.found].into_iter().flatten().find_map(near)?;
        Some(format!("did you mean {keyword}?"))
    }
}
