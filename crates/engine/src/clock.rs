//! Time as the engine sees it: one call, so that a simulator can supply it.

use std::fmt::Debug;
use std::time::{SystemTime, UNIX_EPOCH};

/// A source of time.
pub trait Clock: Send + Sync + Debug {
    /// Nanoseconds since the Unix epoch, UTC; may stand still or step back.
    fn now_ns(&self) -> i64;
}

/// The system's wall clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "the one place that may ask the wall clock")]
    fn now_ns(&self) -> i64 {
        let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(elapsed.as_nanos()).unwrap_or(i64::MAX)
    }
}
