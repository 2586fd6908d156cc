//! Line protocol in: over TCP, which has no answers, and over HTTP, which has.
//!
//! ```text
//! TCP   bytes ─► Parser ─► rows ─► one commit under way, more rows meanwhile    (a bad line ends the connection)
//! HTTP  body  ─► Parser ─► rows ─► one commit ─► 204                            (a bad line refuses them all)
//! ```
//!
//! The bytes of rows are kept until these are stored: where a table was made or changed meanwhile, they are read anew for
//! what it is then.

pub(crate) mod http;
mod proof;
pub(crate) mod tcp;

use crate::ingest::{self, Making, NotStored, READS_MAX};
use tickstone_engine::Engine;
use tickstone_query::{Access, ErrorKind, QueryError};
use tickstone_wire::ilp::{BadLine, Parser, Precision};
use tickstone_wire::{Fault, TableRows};

/// Lines that are to be stored together.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) bytes: Vec<u8>,
    pub(crate) precision: Precision,
    /// The time of lines without one, in nanoseconds since the Unix epoch.
    pub(crate) now: i64,
    /// Whether bad lines are passed over instead of refusing all.
    pub(crate) accept_partial: bool,
}

/// What lines gave.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) rows: Vec<TableRows>,
    /// The bad ones, each with its number from 1 and its place in the bytes; at most [`BAD_LINES_MAX`] of them.
    pub(crate) bad: Vec<(u64, BadLine)>,
    /// How many are bad.
    pub(crate) bad_lines: u64,
}

/// How many bad lines are told of.
const BAD_LINES_MAX: usize = 100;

impl Lines {
    /// Reads the lines for the tables that there are now.
    pub(crate) fn read(&self, access: &Access) -> Read {
        let mut parser = Parser::new(self.precision);
        let (mut start, mut line, mut bad, mut bad_lines) = (0, 1, Vec::new(), 0);
        loop {
            let rest = &self.bytes[start..];
            let parsed = parser.parse(rest, self.now, &mut |name| ingest::find(access, name));
            line += parsed.lines;
            let Some(bad_line) = parsed.bad else {
                start += parsed.bytes;
                break;
            };
            let record = bad_line.record.start + start..bad_line.record.end + start;
            let line_ends = memchr::memchr_iter(b'\n', &self.bytes[record.clone()]).count() as u64;
            start = record.end;
            bad_lines += 1;
            if bad.len() < BAD_LINES_MAX {
                bad.push((line, BadLine { record, ..bad_line }));
            }
            line += line_ends.max(1);
            if !self.accept_partial {
                break;
            }
        }
        if start < self.bytes.len() && (bad_lines == 0 || self.accept_partial) {
            bad_lines += 1;
            bad.push((line, cut_off(&self.bytes, start)));
        }
        Read { rows: parser.take(), bad, bad_lines }
    }

    /// Reads and stores them, once more where a table changed meanwhile.
    ///
    /// # Errors
    /// Where they cannot be stored; no row was then.
    pub(crate) fn store(
        &self,
        access: &Access,
        engine: &Engine,
        making: Making,
    ) -> Result<(u64, Read), QueryError> {
        for _ in 0..READS_MAX {
            let read = self.read(access);
            if read.bad_lines > 0 && !self.accept_partial {
                return Ok((0, read));
            }
            match ingest::store(access, engine, &read.rows, making, None) {
                Ok(rows) => return Ok((rows, read)),
                Err(NotStored::Changed) => {}
                Err(NotStored::Refused(error)) => return Err(error),
            }
        }
        Err(unsettled())
    }
}

/// The last line, which ends within a text or a binary value.
fn cut_off(bytes: &[u8], start: usize) -> BadLine {
    let rest = &bytes[start..];
    let text = String::from_utf8_lossy(&rest[..rest.len().min(80)]).replace(char::is_control, " ");
    let fault = Fault::Line { what: "it ends within a text in quotes, a binary value or an escape" };
    BadLine { table: None, column: None, text, fault, record: start..bytes.len() }
}

/// The error of rows whose tables changed each time they were read.
pub(crate) fn unsettled() -> QueryError {
    let what = format!("tables changed during each of {READS_MAX} readings; nothing was stored");
    QueryError::new(ErrorKind::Retry, what).hint("try again")
}

/// Now, in nanoseconds since the Unix epoch.
pub(crate) fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.ok().and_then(|since| i64::try_from(since.as_nanos()).ok()).unwrap_or(0)
}
