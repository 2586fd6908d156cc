//! What WITH says of a subscription.

use crate::error::{QueryError, Result};
use crate::functions::stride::Stride;
use crate::texts::parse_size;
use std::time::Duration;

/// The options of SUBSCRIBE.
const OPTIONS: &str = "events, slow, queue, heartbeat";

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Options {
    /// Whether DELETE, UPDATE and what else changes rows that were there is heard.
    pub(super) changes: bool,
    /// What becomes of one who is slow.
    pub(super) slow: Slow,
    /// So many rows may wait for it.
    pub(super) queue: usize,
    /// How often it hears that nothing came.
    pub(super) heartbeat: Duration,
}

/// What becomes of one for whom more rows wait than may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slow {
    /// It ends with an error that says where to resume.
    Cut,
    /// It gets the newest row of each series, of those that wait.
    Conflate,
}

impl Default for Options {
    fn default() -> Self {
        Self { changes: true, slow: Slow::Cut, queue: 10_000_000, heartbeat: Duration::from_secs(5) }
    }
}

impl Options {
    /// Reads them; names are in lower case.
    ///
    /// # Errors
    /// Where there is no such option, or it cannot have that value.
    pub(super) fn parse(options: &[(String, String)]) -> Result<Self> {
        let mut read = Self::default();
        for (name, value) in options {
            let lower = value.to_lowercase();
            let wrong = |wanted: &str| {
                QueryError::request(format!("{name} = '{value}' cannot be: it wants {wanted}"))
            };
            match (name.as_str(), lower.as_str()) {
                ("events", "changes") => read.changes = true,
                ("events", "inserts") => read.changes = false,
                ("events", _) => return Err(wrong("'changes' or 'inserts'")),
                ("slow", "cut") => read.slow = Slow::Cut,
                ("slow", "conflate") => read.slow = Slow::Conflate,
                ("slow", _) => return Err(wrong("'cut' or 'conflate'")),
                ("queue", text) => {
                    let rows = parse_size(text).and_then(|rows| usize::try_from(rows).ok());
                    read.queue = rows.filter(|rows| *rows > 0).ok_or_else(|| wrong("a number of rows"))?;
                }
                ("heartbeat", _) => {
                    read.heartbeat =
                        duration(value).ok_or_else(|| wrong("a duration of 100ms or more, as in 5s"))?;
                }
                _ => {
                    return Err(QueryError::request(format!("SUBSCRIBE has no option '{name}'"))
                        .hint(format!("it has {OPTIONS}")));
                }
            }
        }
        Ok(read)
    }
}

fn duration(text: &str) -> Option<Duration> {
    let parsed = match text.strip_suffix("ms") {
        Some(millis) => Duration::from_millis(millis.trim().parse().ok()?),
        None => Duration::from_nanos(u64::try_from(Stride::parse(text)?.nanos()?).ok()?),
    };
    (parsed >= Duration::from_millis(100)).then_some(parsed)
}
