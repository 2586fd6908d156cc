//! The database without SQL or sockets.
pub mod disk;
mod error;
pub mod part;
pub use error::{EngineError, ErrorKind, Result};
