//! The net of every call from Python: a panic of the engine's becomes an exception like any other.

use crate::error;
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tickstone_query::QueryError;

/// Does the work of one call.
///
/// # Errors
/// Those of `work`; where it panics, `Error` of the kind "report". Locks that it held are taken over by who comes next,
/// and what it had half done was its own.
pub(crate) fn net<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(error::of_query(&QueryError::of_panic(panic.as_ref()), None)))
}
