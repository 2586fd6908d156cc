//! The engine on a disk that loses power.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod compaction;
mod crash_images;
mod damage;
mod dedup;
mod ledger;
mod memory;
mod model;
mod rewrite;
