//! How much comes a second.

use std::time::{Duration, Instant};

/// Counts of the last seconds, for a rate.
#[derive(Debug, Default)]
pub(super) struct Rates {
    since: Option<(Instant, u64, u64)>,
    before: Option<(Instant, u64, u64)>,
}

/// Span of a rate: what it says is of one to two of them.
const RATE_SPAN: Duration = Duration::from_secs(5);

impl Rates {
    #[allow(clippy::disallowed_methods, reason = "a rate for people; nothing is decided by it")]
    pub(super) fn note(&mut self, appended: (u64, u64)) {
        let now = Instant::now();
        if self.since.is_none_or(|(since, ..)| now - since > RATE_SPAN) {
            self.before = self.since.replace((now, appended.0, appended.1));
        }
    }

    #[allow(clippy::disallowed_methods, reason = "a rate for people; nothing is decided by it")]
    pub(super) fn get(&mut self, appended: (u64, u64)) -> (f64, f64) {
        self.note(appended);
        let now = Instant::now();
        let Some((since, documents, bytes)) = self.before.or(self.since) else { return (0.0, 0.0) };
        let seconds = (now - since).as_secs_f64().max(1e-3);
        ((appended.0 - documents) as f64 / seconds, (appended.1 - bytes) as f64 / seconds)
    }
}
