//! [`SessionMemory`]: the memory of queries as one session takes it.
//!
//! One pool holds the budget of all sessions; each session counts beside it what its own statements have reserved.
//! What the pool refuses becomes an error that names who asked, the budget and the setting that raises it.

use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, human_readable_size,
};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The setting that raises the budget, for errors and pages.
const SETTING: &str = "query_memory";

/// See the file's header.
#[derive(Debug)]
pub(crate) struct SessionMemory {
    /// That of the database.
    pool: Arc<dyn MemoryPool>,
    reserved: AtomicUsize,
}

impl SessionMemory {
    pub(crate) fn new(pool: &Arc<dyn MemoryPool>) -> Self {
        Self { pool: Arc::clone(pool), reserved: AtomicUsize::new(0) }
    }

    /// Bytes that the session's statements have reserved.
    pub(crate) fn reserved_bytes(&self) -> usize {
        self.reserved.load(Ordering::Relaxed)
    }

    fn refused(&self, reservation: &MemoryReservation, additional: usize) -> DataFusionError {
        let (name, held) = (reservation.consumer().name(), human_readable_size(reservation.size()));
        let (more, all) = (human_readable_size(additional), human_readable_size(self.pool.reserved()));
        let budget = match self.pool.memory_limit() {
            MemoryLimit::Finite(bytes) => human_readable_size(bytes),
            _ => "what there is".to_string(),
        };
        DataFusionError::ResourcesExhausted(format!(
            "{name} holds {held} and needs {more} more: queries hold {all}, and may hold {budget} together ({SETTING})"
        ))
    }
}

impl fmt::Display for SessionMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session ({} bytes) of {}", self.reserved_bytes(), self.pool)
    }
}

impl MemoryPool for SessionMemory {
    fn name(&self) -> &str {
        "session"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.pool.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.pool.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.pool.grow(reservation, additional);
        self.reserved.fetch_add(additional, Ordering::Relaxed);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.pool.shrink(reservation, shrink);
        self.reserved.fetch_sub(shrink, Ordering::Relaxed);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        crate::wanted::look()?;
        if self.pool.try_grow(reservation, additional).is_err() {
            return Err(self.refused(reservation, additional));
        }
        self.reserved.fetch_add(additional, Ordering::Relaxed);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.pool.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.pool.memory_limit()
    }
}
