//! The query crate from outside: SQL files in three states, and generated tables against a second
//! engine.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod access;
mod asked;
mod believed;
mod clauses;
mod database;
mod describe;
mod files;
mod first_rows;
mod long_lists;
mod materialized;
mod memory;
mod nesting;
mod numbers;
mod owners;
mod property;
mod quotes;
mod slt;
mod states;
mod streams;
mod subscribe;
mod sums;
mod texts;
