//! Messages of rows into tables: those that wait together in one commit.
//!
//! Invariants: rows are stored in the order of their messages, and none behind one that was refused: a client that is
//! told so sends that and all behind it again, on another connection. Of a message, and of those that are to be stored with
//! it, all rows are stored or none.

use super::status::of_rows;
use crate::http::Held;
use crate::ilp::unsettled;
use crate::ingest::{self, Making, NotStored, READS_MAX};
use bytes::Bytes;
use tickstone_query::{Access, Database, QueryError};
use tickstone_wire::TableRows;
use tickstone_wire::qwp::{self, Ingress, Status};

/// A message as it came.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) bytes: Bytes,
    /// When it came: the time of rows without one, in nanoseconds since the Unix epoch.
    pub(super) now: i64,
    /// What it takes of that which all may take.
    pub(super) _held: Held,
}

/// What became of messages.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The last whose rows are stored, and with it all before.
    pub(super) stored: Option<u64>,
    /// How many rows were.
    pub(super) rows: u64,
    /// The one behind which nothing is stored any more.
    pub(super) refused: Option<Refusal>,
}

/// A message that is refused.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) sequence: u64,
    pub(super) status: Status,
    pub(super) text: String,
}

impl Refusal {
    fn of_message(sequence: u64, refused: &qwp::Refused) -> Self {
        Self { sequence, status: refused.status(), text: refused.to_string() }
    }

    fn of_rows(sequence: u64, error: &QueryError) -> Self {
        Self { sequence, status: of_rows(error), text: error.to_string() }
    }
}

/// A message that was read, and its rows.
#[derive(Debug)]
struct Part {
    sequence: u64,
    message: Message,
    rows: Vec<TableRows>,
    /// Whether it and those before it are to be stored.
    commits: bool,
}

/// Where the messages of a connection end. It waits for the disk: no task of a runtime may call it.
#[derive(Debug)]
pub(super) struct Store {
    access: Access,
    database: Database,
    making: Making,
    ingress: Ingress,
    /// What is read and not stored.
    parts: Vec<Part>,
    /// Bytes of the messages behind the last that commits.
    deferred: usize,
    deferred_max: usize,
    /// The number of the next message.
    next: u64,
}

impl Store {
    pub(super) fn new(
        access: Access,
        database: Database,
        making: Making,
        limits: qwp::Limits,
        deferred_max: usize,
    ) -> Self {
        let ingress = Ingress::new(limits);
        Self { access, database, making, ingress, parts: Vec::new(), deferred: 0, deferred_max, next: 0 }
    }

    /// Reads messages and stores those that are to be; once one is refused, this is to be dropped.
    pub(super) fn store(&mut self, messages: Vec<Message>) -> Outcome {
        let refused = messages.into_iter().try_for_each(|message| self.read(message)).err();
        let mut outcome = self.commit();
        outcome.refused = outcome.refused.or(refused);
        outcome
    }

    fn read(&mut self, message: Message) -> Result<(), Refusal> {
        let sequence = self.next;
        self.next += 1;
        let access = &self.access;
        let read = self.ingress.read(&message.bytes, message.now, &mut |name| ingest::find(access, name));
        let rows = read.map_err(|refused| Refusal::of_message(sequence, &refused))?;
        self.deferred = if rows.commits { 0 } else { self.deferred + message.bytes.len() };
        if self.deferred > self.deferred_max {
            let text = format!(
                "messages that are to be stored later take more than qwp_deferred_bytes_max, {} bytes: have them stored \
                 sooner",
                self.deferred_max
            );
            return Err(Refusal { sequence, status: Status::ParseError, text });
        }
        self.parts.push(Part { sequence, message, rows: rows.tables, commits: rows.commits });
        Ok(())
    }

    /// Stores all up to the last message that says so.
    fn commit(&mut self) -> Outcome {
        let Some(last) = self.parts.iter().rposition(|part| part.commits) else { return Outcome::default() };
        let deferred = self.parts.split_off(last + 1);
        let mut parts = std::mem::replace(&mut self.parts, deferred);
        match self.store_parts(&mut parts) {
            Ok(rows) => Outcome { stored: Some(parts[last].sequence), rows, refused: None },
            Err(refusal) if parts[..last].iter().all(|part| !part.commits) => {
                Outcome { refused: Some(refusal), ..Outcome::default() }
            }
            Err(_) => self.commit_each(&mut parts),
        }
    }

    /// Stores what belongs together, one after the other, up to the first that cannot be.
    fn commit_each(&mut self, parts: &mut [Part]) -> Outcome {
        let mut outcome = Outcome::default();
        for together in parts.split_inclusive_mut(|part| part.commits) {
            match self.read_again(together).and_then(|()| self.store_parts(together)) {
                Ok(rows) => {
                    outcome.stored = together.last().map(|part| part.sequence);
                    outcome.rows += rows;
                }
                Err(refusal) => {
                    outcome.refused = Some(refusal);
                    break;
                }
            }
        }
        outcome
    }

    /// Stores the rows of messages in one commit, read once more where a table changed meanwhile. They have none after it.
    fn store_parts(&mut self, parts: &mut [Part]) -> Result<u64, Refusal> {
        let last = parts.last().map_or(0, |part| part.sequence);
        for _ in 0..READS_MAX {
            let rows: Vec<_> = parts.iter_mut().flat_map(|part| std::mem::take(&mut part.rows)).collect();
            match ingest::store(&self.access, self.database.engine(), &rows, self.making, None) {
                Ok(rows) => return Ok(rows),
                Err(NotStored::Changed) => self.read_again(parts)?,
                Err(NotStored::Refused(error)) => return Err(Refusal::of_rows(last, &error)),
            }
        }
        Err(Refusal::of_rows(last, &unsettled()))
    }

    fn read_again(&mut self, parts: &mut [Part]) -> Result<(), Refusal> {
        let access = &self.access;
        for part in parts {
            let (bytes, now) = (&part.message.bytes, part.message.now);
            let read = self.ingress.read(bytes, now, &mut |name| ingest::find(access, name));
            part.rows = read.map_err(|refused| Refusal::of_message(part.sequence, &refused))?.tables;
        }
        Ok(())
    }
}
