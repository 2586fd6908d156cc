//! [`SessionMemory`]: the memory of queries as one session takes it.
//!
//! One pool holds the budget of all sessions; each session counts beside it what its own statements have reserved.
//! What the pool refuses becomes an error that names who asked, the budget and the setting that raises it.

use crate::access::Who;
use crate::audit::Origin;
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
    /// The session's user, where they said who they are.
    who: Option<Who>,
    /// Where the session came from.
    origin: Origin,
    /// Bytes that all sessions of the user have reserved, and the most of them; no limit where it is `usize::MAX`.
    of_user: Option<Arc<AtomicUsize>>,
    most: AtomicUsize,
}

impl SessionMemory {
    pub(crate) fn new(
        pool: &Arc<dyn MemoryPool>,
        who: Option<Who>,
        origin: Origin,
        of_user: Option<Arc<AtomicUsize>>,
    ) -> Self {
        let most = AtomicUsize::new(usize::MAX);
        Self { pool: Arc::clone(pool), reserved: AtomicUsize::new(0), who, origin, of_user, most }
    }

    /// Has all sessions of the user reserve so many bytes at most; `None` for no limit.
    pub(crate) fn limit(&self, most: Option<usize>) {
        self.most.store(most.unwrap_or(usize::MAX), Ordering::Relaxed);
    }

    /// Whether the user has a limit.
    pub(crate) fn is_limited(&self) -> bool {
        self.most.load(Ordering::Relaxed) != usize::MAX
    }

    /// Counts bytes that were reserved.
    fn add(&self, bytes: usize) {
        self.reserved.fetch_add(bytes, Ordering::Relaxed);
        if let Some(of_user) = &self.of_user {
            of_user.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// The error of a user who has no room for more.
    fn refused_to_user(&self, reservation: &MemoryReservation, additional: usize) -> Option<DataFusionError> {
        let (most, of_user) = (self.most.load(Ordering::Relaxed), self.of_user.as_ref()?);
        let held = of_user.load(Ordering::Relaxed);
        if held.saturating_add(additional) <= most {
            return None;
        }
        let (name, more) = (reservation.consumer().name(), human_readable_size(additional));
        let (held, most) = (human_readable_size(held), human_readable_size(most));
        Some(DataFusionError::ResourcesExhausted(format!(
            "{name} needs {more} more: the user's queries hold {held}, and may hold {most} together (the user's {SETTING})"
        )))
    }

    /// The session's user, where they said who they are.
    pub(crate) fn who(&self) -> Option<&Who> {
        self.who.as_ref()
    }

    /// Where the session came from.
    pub(crate) fn origin(&self) -> Origin {
        self.origin
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
        self.add(additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.pool.shrink(reservation, shrink);
        self.reserved.fetch_sub(shrink, Ordering::Relaxed);
        if let Some(of_user) = &self.of_user {
            of_user.fetch_sub(shrink, Ordering::Relaxed);
        }
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        crate::wanted::look()?;
        if let Some(refused) = self.refused_to_user(reservation, additional) {
            return Err(refused);
        }
        if self.pool.try_grow(reservation, additional).is_err() {
            return Err(self.refused(reservation, additional));
        }
        self.add(additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.pool.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.pool.memory_limit()
    }
}
