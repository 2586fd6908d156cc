//! What the shell's editor knows: keywords, tables and columns to complete, and when a statement ends.

use super::line::Line;
use super::scan::is_complete;
use rustyline::completion::{Completer, Pair};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper, Highlighter, Hinter};

const KEYWORDS: &str = "\
ALIGN AND ARCHIVE AS ASC ASOF AVG BEGIN BETWEEN BY CALENDAR CASE CAST CHECKPOINT COMMIT COPY COUNT CREATE CROSS DESC DESCRIBE \
DIRECTION DISTINCT DROP ELSE END EXISTS EXPLAIN FILL FIRST FROM FULL GROUP HAVING IN INNER INSERT INTO IS JOIN \
LAST LATEST LEFT LIKE LIMIT LINEAR MATCH_CONDITION MAX MIN NOT NULL OFFSET ON OR ORDER OVER PARTITION PREV RIGHT \
ROLLBACK SAMPLE SELECT SERIES SET SHOW SUM TABLE TABLES THEN TIMESTAMP TO TOLERANCE TRUNCATE UNION USING VALUES \
WHEN WHERE WITH analyze columns first last log_return mid ohlc spread time_bucket vwap";

/// Commands of the shell, beside SQL.
pub(super) const COMMANDS: [&str; 10] =
    ["\\q", "\\d", "\\dt", "\\timing", "\\limit", "\\format", "\\i", "help", "quit", "exit"];

/// The editor's helper.
#[derive(Helper, Hinter, Highlighter)]
pub(super) struct EditorHelper {
    line: Line,
}

impl EditorHelper {
    /// One that knows the tables of a line; it runs no statements.
    pub(super) fn new(line: Line) -> Self {
        Self { line }
    }

    /// Words that begin with `start`: tables and columns as they are, keywords in the user's case.
    fn words(&self, start: &str) -> Vec<String> {
        let begins = |word: &str| {
            word.len() > start.len()
                && word.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
        };
        let mut found: Vec<String> = Vec::new();
        found.extend(self.line.names().into_iter().filter(|name| begins(name)));
        let is_upper = start.chars().any(char::is_uppercase);
        let cased = |word: &str| if is_upper { word.to_uppercase() } else { word.to_lowercase() };
        found.extend(KEYWORDS.split_whitespace().filter(|word| begins(word)).map(cased));
        found.sort();
        found.dedup();
        found
    }
}

impl Completer for EditorHelper {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = line.get(..at).unwrap_or(line);
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '\\';
        let start = before.char_indices().rev().take_while(|(_, c)| is_word(*c)).last();
        let start = start.map_or(before.len(), |(index, _)| index);
        let word = &before[start..];
        if word.is_empty() {
            return Ok((at, Vec::new()));
        }
        let commands = COMMANDS.iter().filter(|command| start == 0 && command.starts_with(word));
        let words = commands.map(|command| (*command).to_string()).chain(self.words(word));
        let pairs = words.map(|word| Pair { display: word.clone(), replacement: word });
        Ok((start, pairs.collect()))
    }
}

impl Validator for EditorHelper {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let text = context.input();
        let done = is_command(text) || is_complete(text);
        Ok(if done { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

/// Whether a line is a command of the shell, which needs no semicolon.
pub(super) fn is_command(text: &str) -> bool {
    let word = text.trim().trim_end_matches(';').trim_end();
    word.starts_with('\\') || ["help", "quit", "exit"].iter().any(|known| word.eq_ignore_ascii_case(known))
}
