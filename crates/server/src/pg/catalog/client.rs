//! Who asks: what the catalog says of a connection.

use super::settings;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tickstone_engine::{Engine, Snapshot};
use tickstone_query::Access;

/// The client of a connection.
#[derive(Debug)]
pub(crate) struct Client {
    /// The user it connected as: the one role, which owns all.
    pub(super) user: String,
    /// What it may do.
    pub(super) access: Option<Access>,
    /// The database it asked for: the only one, by whatever name.
    pub(super) database: String,
    /// The number that it cancels by.
    pub(super) process: Option<i32>,
    /// What it set, by names in lower case.
    set: Mutex<BTreeMap<String, String>>,
}

impl Default for Client {
    fn default() -> Self {
        Self {
            user: "admin".into(),
            database: "tickstone".into(),
            access: None,
            process: None,
            set: Mutex::default(),
        }
    }
}

impl Client {
    pub(crate) fn new(
        user: impl Into<String>,
        database: impl Into<String>,
        process: i32,
        access: Access,
    ) -> Self {
        let (user, database) = (user.into(), database.into());
        Self { user, database, access: Some(access), process: Some(process), set: Mutex::default() }
    }

    /// What there is, as it sees it; nothing where it may see nothing any more.
    pub(super) fn snapshot(&self, engine: &Engine) -> Arc<Snapshot> {
        match &self.access {
            Some(access) => access.snapshot().unwrap_or_default(),
            None => engine.snapshot(),
        }
    }

    /// Notes how a setting is now.
    pub(crate) fn note(&self, name: &str, value: &str) {
        self.set().insert(name.to_lowercase(), value.to_string());
    }

    pub(super) fn setting(&self, name: &str) -> Option<String> {
        let set = self.set().get(&name.to_lowercase()).cloned();
        set.or_else(|| settings::value(name).map(str::to_string))
    }

    fn set(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
