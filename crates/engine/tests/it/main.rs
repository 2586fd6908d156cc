//! The engine from outside.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod access;
mod births;
mod closed;
mod full;
mod golden;
mod hold;
mod lookup;
mod moved;
mod reader;
mod streams;
