//! Tickstone's SQL text as statements.
//!
//! Owns the clauses that no SQL parser knows (SAMPLE BY, LATEST ON, ASOF JOIN, the tail of CREATE
//! TABLE, …). Never plans and never looks at a catalog.
//!
//! Enter at [`Statement`], what a text becomes; [`SqlError`] is what else it can become.

mod error;
mod statement;

pub use error::SqlError;
pub use statement::{CopySource, CreateTable, Position, Statement};
