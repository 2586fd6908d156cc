//! LATEST ON: the newest row of each key.
//!
//! Reads its input once in any order and keeps one row a key; WHERE has been applied before.

pub(crate) mod exec;
pub(crate) mod node;
pub(crate) mod plan;

#[cfg(test)]
mod tests;
