//! What is done when bytes are wrong, or copies are wanted: check, repair, backup and restore, holds.

pub mod backup;
pub mod check;
pub mod repair;
