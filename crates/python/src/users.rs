//! What refers to something open, and must let go when that is closed.

use crate::error;
use crate::lock::lock;
use pyo3::PyResult;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Weak};

/// Something that refers to an open engine or server.
pub(crate) trait User: Send + Sync {
    /// Lets go; what is under way at this moment, when it ends.
    fn let_go(&self);
}

/// Something open that others refer to.
pub(crate) trait Opened: Send + Sync {
    /// Who refers to it.
    fn users(&self) -> &Users;
}

/// Those who refer to something open, until it is closed.
#[derive(Default)]
pub(crate) struct Users {
    closed: AtomicBool,
    users: Mutex<Vec<Weak<dyn User>>>,
}

impl Users {
    /// # Errors
    /// `ClosedError`.
    pub(crate) fn check_open(&self) -> PyResult<()> {
        if self.is_closed() { Err(error::closed()) } else { Ok(()) }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Notes something that must let go when it is closed.
    pub(crate) fn add(&self, user: Weak<dyn User>) {
        let mut users = lock(&self.users);
        // Who comes after closing has gone through the list lets go at once.
        if let (true, Some(user)) = (self.is_closed(), user.upgrade()) {
            drop(users);
            return user.let_go();
        }
        // Forgetting those that are gone only when the list would grow keeps the cost of each constant.
        if users.len() == users.capacity() {
            users.retain(|known| known.strong_count() > 0);
        }
        users.push(user);
    }

    /// Has all of them let go.
    pub(crate) fn close(&self) {
        let users: Vec<_> = {
            let mut users = lock(&self.users);
            self.closed.store(true, Ordering::Release);
            std::mem::take(&mut *users)
        };
        for user in users.iter().filter_map(Weak::upgrade) {
            user.let_go();
        }
    }
}
