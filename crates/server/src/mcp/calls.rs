//! Requests under way, which their clients may cancel.

use futures::future::{AbortHandle, Abortable};
use serde_json::Value;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

/// Whose request it is, and its id.
type Key = (String, String);

/// The requests under way.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    known: Mutex<HashMap<Key, AbortHandle>>,
}

/// A request under way, until it goes.
struct Call<'a> {
    calls: &'a Calls,
    key: Key,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.calls.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

/// What came of a request.
pub(super) enum Ended<T> {
    Done(T),
    Cancelled,
    /// Another one of this id is under way.
    Twice,
}

impl Calls {
    /// Carries a request of a session out, until it is cancelled.
    pub(super) async fn run<T>(&self, session: &str, id: &Value, task: impl Future<Output = T>) -> Ended<T> {
        let key = key(session, id);
        let (handle, registration) = AbortHandle::new_pair();
        match self.known.lock().unwrap_or_else(PoisonError::into_inner).entry(key.clone()) {
            Entry::Occupied(_) => return Ended::Twice,
            Entry::Vacant(place) => place.insert(handle),
        };
        let _call = Call { calls: self, key };
        Abortable::new(task, registration).await.map_or(Ended::Cancelled, Ended::Done)
    }

    /// Cancels a request of a session, where it is under way.
    pub(super) fn cancel(&self, session: &str, id: &Value) {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(call) = known.get(&key(session, id)) {
            call.abort();
        }
    }
}

/// `1` and `"1"` are two ids.
fn key(session: &str, id: &Value) -> Key {
    (session.to_string(), id.to_string())
}

/// The name of a new session, which nobody guesses: all that whoever knows it can do is cancel its requests.
pub(super) fn new_session() -> String {
    let random = || RandomState::new().hash_one(std::time::Instant::now());
    format!("{:016x}{:016x}", random(), random())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[tokio::test]
    async fn only_the_one_that_is_meant() {
        let (calls, id) = (Calls::default(), json!(1));
        let endless = || calls.run("a", &id, std::future::pending::<()>());
        let meant = async {
            assert!(matches!(endless().await, Ended::Twice));
            for (session, id) in [("b", json!(1)), ("a", json!("1")), ("a", json!(2))] {
                calls.cancel(session, &id);
                tokio::task::yield_now().await;
                assert!(matches!(endless().await, Ended::Twice), "{session} {id}");
            }
            calls.cancel("a", &json!(1));
        };
        let (ended, ()) = tokio::join!(endless(), meant);
        assert!(matches!(ended, Ended::Cancelled));
        assert!(matches!(calls.run("a", &json!(1), async { 7 }).await, Ended::Done(7)));
        assert!(calls.known.lock().expect("no panic").is_empty());
        assert_ne!(new_session(), new_session());
    }
}
