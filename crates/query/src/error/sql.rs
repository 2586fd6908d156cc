//! What is wrong with a text of SQL, and where.

/// A place in the text that was parsed: line and column (in characters), both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Line, from 1.
    pub line: u64,
    /// Column in characters, from 1.
    pub column: u64,
}

impl Default for Position {
    fn default() -> Self {
        Self { line: 1, column: 1 }
    }
}

/// A text that is no Tickstone SQL, with the place it stops being so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} at line {line}, column {column}")]
pub struct SqlError {
    /// What is wrong, without the position.
    pub message: String,
    /// What to write instead, where that is known.
    pub hint: Option<String>,
    /// Line in the original text, from 1.
    pub line: u64,
    /// Column in the original text, in characters, from 1.
    pub column: u64,
}

impl SqlError {
    /// An error at a position, without a hint.
    pub fn new(message: impl Into<String>, position: Position) -> Self {
        Self { message: message.into(), hint: None, line: position.line, column: position.column }
    }

    /// Adds what to write instead.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
