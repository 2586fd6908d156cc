//! The native half of the Python package `tickstone`.
//!
//! Owns what Python cannot do itself: handles on the engine that survive threads and refuse forks, Arrow
//! over the C data interface in both directions without a copy, waiting with the interpreter released
//! and Ctrl-C heeded, and errors as Python exceptions. Never holds logic that a user of the Rust crates
//! would miss: that belongs to `tickstone-query`. The classes users see are written in Python, over
//! these.
//!
//! ```text
//! Database ─► Session ─► Statement ─► Query ─┬─► Stream ─► __arrow_c_stream__, rows, cells
//! Remote ─► the same four, of a server ──────┴─► Messages ─► Batch ─► Stream
//!     ├─► append, import_file ◄─ Frame, arrow::import ◄─ __arrow_c_stream__
//!     └─► create_function ─► functions, called by the engine's threads
//! ```
//!
//! Invariants: no lock is taken while the interpreter is held, and every call checks that it runs in the
//! process that opened the database.

mod append;
mod arrow;
mod database;
mod defect;
mod error;
mod export;
mod functions;
mod import;
mod lock;
mod messages;
mod parameters;
mod process;
mod remote;
mod rows;
mod session;
mod shared;
mod stream;
mod users;
mod wait;

use pyo3::prelude::*;

/// Batches come and go by the thousand; the system's allocator gives their pages back to the kernel each time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The native half of `tickstone`; its classes are no public interface.
#[pymodule]
mod _tickstone {
    #[pymodule_export]
    use crate::arrow::{Column, Frame};
    #[pymodule_export]
    use crate::database::Database;
    #[pymodule_export]
    use crate::messages::{Batch, Messages};
    #[pymodule_export]
    use crate::remote::{Remote, RemoteQuery, RemoteSession, RemoteStatement};
    #[pymodule_export]
    use crate::session::{Query, Session, Statement};
    #[pymodule_export]
    use crate::stream::Stream;

    #[pymodule_export]
    use crate::functions::end_calls;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let at_exit = module.py().import("atexit")?;
        at_exit.call_method1("register", (module.getattr("end_calls")?,))?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
