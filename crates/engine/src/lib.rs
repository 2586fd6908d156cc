//! placeholder
pub mod disk;
mod error;
pub mod part;
pub use error::{EngineError, ErrorKind, Result};
