//! What the texts of statements become, claimed of the memory of queries before they are read.

use crate::dialect::{self, Statement};
use crate::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use std::sync::Arc;

/// What the syntax tree takes of a byte of its text, at most.
pub(crate) const PARSED: usize = 128;

/// What the set of values takes of a byte of a long list, while it is made of its text.
const LISTED: usize = 24;

/// The statements of a text, each with its own part of it; while it is read, what it becomes is claimed of `memory`.
///
/// # Errors
/// Where it is no SQL, with the place, or has no room.
pub(crate) fn parse_with_texts(
    memory: &Arc<dyn MemoryPool>,
    sql: &str,
) -> Result<Vec<(Arc<str>, Statement)>> {
    let _held = claim_text(memory, sql, PARSED)?;
    Ok(dialect::parse_with_texts(sql)?)
}

/// Claims what a long text becomes, `times` its length but for its long lists.
///
/// # Errors
/// Where that has no room.
pub(crate) fn claim_text(
    memory: &Arc<dyn MemoryPool>,
    text: &str,
    times: usize,
) -> Result<Option<MemoryReservation>> {
    /// Texts that are not worth a claim.
    const FREE_BYTES: usize = 1 << 16;
    if text.len() <= FREE_BYTES {
        return Ok(None);
    }
    let lists = dialect::bytes_of_long_lists(text);
    let bytes = (text.len() - lists).saturating_mul(times).saturating_add(lists.saturating_mul(LISTED));
    let held = MemoryConsumer::new("the text of the statement").register(memory);
    held.try_grow(bytes)?;
    Ok(Some(held))
}
