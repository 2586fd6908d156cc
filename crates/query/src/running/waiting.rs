//! [`WaitingRows`]: rows that a statement made and that its reader has not taken yet.
//!
//! They count towards `query_memory` until they are taken: a client that reads nothing holds memory that operators of
//! other statements do without. Where operators hold all of the budget already, the rows of all readers together may have
//! a part of it beyond ([`PART`]), so that a query which fills the memory can still hand its rows over.

use super::RunningStatements;
use super::memory::SessionMemory;
use crate::error::Result;
use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tickstone_model::values_bytes;

/// Rows of all readers may have this part of the budget though operators hold all of it.
const PART: usize = 8;

/// Where the rows of a session's statements wait.
#[derive(Debug, Clone)]
pub struct WaitingRows {
    memory: Arc<SessionMemory>,
    running: Arc<RunningStatements>,
}

/// The claim of rows that wait, until it goes.
#[derive(Debug)]
pub struct HeldRows {
    reservation: MemoryReservation,
    running: Arc<RunningStatements>,
}

impl WaitingRows {
    pub(crate) fn new(memory: &Arc<SessionMemory>, running: &Arc<RunningStatements>) -> Self {
        Self { memory: Arc::clone(memory), running: Arc::clone(running) }
    }

    /// Counts rows that are handed over, until the claim goes.
    ///
    /// # Errors
    /// Where they have no room in `query_memory`.
    pub fn hold(&self, batch: &RecordBatch) -> Result<HeldRows> {
        let bytes = bytes_of(batch);
        let memory: Arc<dyn MemoryPool> = Arc::clone(&self.memory) as _;
        let held = HeldRows {
            reservation: MemoryConsumer::new("the buffer of result rows").register(&memory),
            running: Arc::clone(&self.running),
        };
        if let Err(refused) = held.reservation.try_grow(bytes) {
            let part = match self.memory.memory_limit() {
                MemoryLimit::Finite(all) => all / PART,
                _ => usize::MAX,
            };
            if self.running.waiting_bytes().load(Ordering::Relaxed).saturating_add(bytes) > part {
                return Err(refused.into());
            }
            held.reservation.grow(bytes);
        }
        self.running.waiting_bytes().fetch_add(bytes, Ordering::Relaxed);
        Ok(held)
    }
}

impl HeldRows {
    /// How many bytes they are.
    pub fn bytes(&self) -> usize {
        self.reservation.size()
    }
}

impl Drop for HeldRows {
    fn drop(&mut self) {
        // Of a claim that was refused it is none.
        self.running.waiting_bytes().fetch_sub(self.reservation.size(), Ordering::Relaxed);
    }
}

/// Bytes of the rows: of symbols their numbers, whose texts the table has.
fn bytes_of(batch: &RecordBatch) -> usize {
    let of = |column: &ArrayRef| match column.as_any_dictionary_opt() {
        Some(symbols) => size_of::<u32>() * symbols.len(),
        None => values_bytes(column),
    };
    batch.columns().iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Database, DatabaseOptions, ErrorKind};
    use datafusion::arrow::array::StringArray;

    const MEMORY: usize = 16 << 20;

    fn rows(bytes: usize) -> RecordBatch {
        let text: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(bytes)]));
        RecordBatch::try_from_iter([("x", text)]).unwrap()
    }

    #[test]
    fn rows_that_wait_count_until_they_are_taken() {
        let options = DatabaseOptions { query_memory_bytes: Some(MEMORY), ..DatabaseOptions::default() };
        let database = Database::in_memory(options).unwrap();
        let (first, second) = (database.session().waiting_rows(), database.session().waiting_rows());
        let pool = &database.base_state().runtime_env().memory_pool;
        let held = first.hold(&rows(10 << 20)).unwrap();
        assert!(held.bytes() >= 10 << 20 && pool.reserved() == held.bytes(), "{held:?}");
        let refused = second.hold(&rows(10 << 20)).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::FreeSpace, "{refused}");
        assert!(refused.message.starts_with("the buffer of result rows holds"), "{refused}");
        assert!(refused.message.contains("(query_memory)"), "{refused}");
        drop(held);
        assert_eq!(pool.reserved(), 0);
        // Operators hold everything: a little goes out nevertheless, in all.
        let operator = MemoryConsumer::new("an operator").register(pool);
        operator.try_grow(MEMORY).unwrap();
        let little = first.hold(&rows(MEMORY / PART / 2)).unwrap();
        assert!(second.hold(&rows(MEMORY / PART / 2)).is_err());
        drop(little);
        assert!(second.hold(&rows(MEMORY / PART / 2)).is_ok());
        assert_eq!(pool.reserved(), MEMORY);
    }

    #[test]
    fn rows_are_as_large_as_they_are_and_no_more() {
        let all = rows(1 << 20);
        let text: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(1000); 1000]));
        let many = RecordBatch::try_from_iter([("x", text)]).unwrap();
        assert!((1 << 20..1 << 21).contains(&bytes_of(&all)));
        assert!(
            (10_000..11_000).contains(&bytes_of(&many.slice(500, 10))),
            "{}",
            bytes_of(&many.slice(500, 10))
        );
        let symbols = datafusion::arrow::compute::cast(
            many.column(0),
            &datafusion::arrow::datatypes::DataType::Dictionary(
                Box::new(datafusion::arrow::datatypes::DataType::UInt32),
                Box::new(datafusion::arrow::datatypes::DataType::Utf8),
            ),
        );
        let symbols = RecordBatch::try_from_iter([("x", symbols.unwrap())]).unwrap();
        assert_eq!(bytes_of(&symbols), 4_000);
    }
}
