//! [`CancelToken`]: ends a statement from outside of its session.

use super::Running;
use crate::error::QueryError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Ends the statement that it is given to ([`Session::run_until`](crate::Session::run_until)), with an error of the
/// caller's. A statement that changes the database ends only before it has changed anything; after that it goes on to its
/// end.
///
/// Clones are the same token. A token is for one statement.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<Mutex<Token>>);

#[derive(Debug, Default)]
struct Token {
    why: Option<QueryError>,
    running: Option<Arc<Running>>,
}

impl CancelToken {
    /// Cancels the statement, also one that has not begun. The first reason holds.
    pub fn cancel(&self, why: QueryError) {
        let mut token = self.lock();
        if token.why.is_none() {
            if let Some(running) = &token.running {
                running.cancel(why.clone());
            }
            token.why = Some(why);
        }
    }

    /// Why the statement is to end, where it is.
    pub fn cancelled(&self) -> Option<QueryError> {
        self.lock().why.clone()
    }

    /// Takes the statement that is to end when it is cancelled. One that reads no rows does all that it does, or nothing,
    /// and takes no longer than that: it goes on.
    pub(crate) fn follow(&self, running: &Arc<Running>) {
        if !running.can_be_cancelled {
            return;
        }
        let mut token = self.lock();
        if let Some(why) = &token.why {
            running.cancel(why.clone());
        }
        token.running = Some(Arc::clone(running));
    }

    fn lock(&self) -> MutexGuard<'_, Token> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
