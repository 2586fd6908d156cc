//! Messages of rows.

use super::column::Context;
use super::header::{Header, flags};
use super::limits::Limits;
use super::read::{Malformed, Reader};
use super::refused::Refused;
use super::symbols::{Narrowing, Symbols};
use super::table::{Room, read_table};
use crate::TableRows;
use crate::ilp::FindTable;

/// What a connection that brings rows keeps: its symbols.
#[derive(Debug, Default)]
pub struct Ingress {
    limits: Limits,
    symbols: Symbols,
    narrowing: Narrowing,
}

/// The rows of a message.
#[derive(Debug)]
pub struct Rows {
    /// By table, in the order of the message; a table may come more than once.
    pub tables: Vec<TableRows>,
    /// Whether they are to be stored now, with those of the messages before that were not. Where not, they are neither
    /// stored nor acknowledged before a message says so.
    pub commits: bool,
}

impl Ingress {
    /// A connection with no symbols.
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Reads a message. `now` is the time of rows without one, in nanoseconds since the Unix epoch; `find` is asked for
    /// each table.
    ///
    /// A message may be read again, for tables that have changed since: it gives the same rows. Rows whose table is made
    /// for them come as such from each message and each block of a table; once one of them is stored, the others are to
    /// be read again.
    ///
    /// # Errors
    /// [`Refused`]; the connection can go on after each of them.
    pub fn read(&mut self, message: &[u8], now: i64, find: FindTable<'_>) -> Result<Rows, Refused> {
        if message.len() > self.limits.message_bytes_max {
            let what = "it is longer than a message may be";
            return Err(Malformed { what, at: self.limits.message_bytes_max }.into());
        }
        let mut reader = Reader::new(message);
        let header = Header::read(&mut reader)?;
        let has_symbols = header.flags & flags::SYMBOLS != 0;
        if has_symbols {
            self.symbols.read_new(&mut reader, &self.limits)?;
        }
        let mut context = Context {
            packed_times: header.flags & flags::PACKED_TIMES != 0,
            symbols: has_symbols.then_some(&self.symbols),
            narrowing: &mut self.narrowing,
        };
        let mut room = Room { rows: self.limits.rows_max, values: self.limits.values_max };
        let mut tables = Vec::new();
        for _ in 0..header.tables {
            tables.extend(read_table(&mut reader, &mut context, &mut room, now, find)?);
        }
        reader.end()?;
        Ok(Rows { tables, commits: header.flags & flags::DEFER == 0 })
    }
}
