//! Where a subscription is: what it gives its reader to resume from.

use crate::error::{QueryError, Result};
use std::fmt;

/// A place in what is heard, as text: `position`, and what of the change after it was heard already.
///
/// `4398046511106` is after that change; `4398046511106+65536` is past so many rows of the next change, too (of DELETE
/// and UPDATE past so many messages, counted from 2^32 times the number of the part);
/// `4398046511106@1722499200000000000` is of bars, which are told up to that instant (ns).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Token {
    pub(super) position: u64,
    pub(super) done: u64,
    pub(super) closed_to: Option<i64>,
}

impl Token {
    /// Reads one.
    ///
    /// # Errors
    /// Where the text is none.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let wrong = || {
            QueryError::request(format!("'{text}' is no position"))
                .hint("AFTER takes a _position that a subscription gave, as it is")
        };
        let (rest, closed_to) = match text.split_once('@') {
            Some((rest, closed_to)) => (rest, Some(closed_to.parse().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let (position, done) = match rest.split_once('+') {
            Some((position, done)) => (position, done.parse().map_err(|_| wrong())?),
            None => (rest, 0),
        };
        Ok(Self { position: position.parse().map_err(|_| wrong())?, done, closed_to })
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.position)?;
        if self.done > 0 {
            write!(f, "+{}", self.done)?;
        }
        match self.closed_to {
            Some(closed_to) => write!(f, "@{closed_to}"),
            None => Ok(()),
        }
    }
}
