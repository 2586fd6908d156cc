//! [`Shared`]: what all handles on one open database share.

use crate::error;
use crate::lock::lock;
use crate::users::{Opened, Users};
use pyo3::PyResult;
use std::sync::Mutex;
use std::time::Duration;
use tickstone_query::Database as Engine;

/// How long closing waits for statements of other threads that are under way.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// An open engine, until it is closed.
pub(crate) struct Shared {
    engine: Mutex<Option<Engine>>,
    users: Users,
}

impl Opened for Shared {
    fn users(&self) -> &Users {
        &self.users
    }
}

impl Shared {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine: Mutex::new(Some(engine)), users: Users::default() }
    }

    /// The engine for one call.
    ///
    /// # Errors
    /// `ClosedError`.
    pub(crate) fn engine(&self) -> PyResult<Engine> {
        lock(&self.engine).clone().ok_or_else(error::closed)
    }

    pub(crate) fn close(&self) {
        let engine = lock(&self.engine).take();
        self.users.close();
        if let Some(engine) = engine {
            engine.close(CLOSE_PATIENCE);
        }
    }
}
