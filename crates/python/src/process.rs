//! Handles belong to the process that made them.
//!
//! After a fork the child has the engine's memory but none of its threads: a call would wait for ever,
//! and closing would write into the files of the parent. So the child is refused, and what it inherited
//! is never dropped.

use crate::error;
use pyo3::PyResult;
use std::mem::ManuallyDrop;

/// A value that only the process that made it may use or drop.
#[derive(Debug)]
pub(crate) struct InProcess<T> {
    process: u32,
    value: ManuallyDrop<T>,
}

impl<T> InProcess<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { process: std::process::id(), value: ManuallyDrop::new(value) }
    }

    /// The value.
    ///
    /// # Errors
    /// `Error` in a process forked from the one that made it.
    pub(crate) fn get(&self) -> PyResult<&T> {
        match self.is_ours() {
            true => Ok(&self.value),
            false => Err(error::forked(self.process)),
        }
    }

    fn is_ours(&self) -> bool {
        self.process == std::process::id()
    }
}

impl<T> Drop for InProcess<T> {
    fn drop(&mut self) {
        if self.is_ours() {
            // SAFETY: the value is not used after this, since `self` is being dropped.
            unsafe { ManuallyDrop::drop(&mut self.value) }
        }
    }
}
