//! The engine on a disk that loses power.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod backup;
mod check;
mod compaction;
mod crash_images;
mod damage;
mod full_disk;
mod ledger;
mod model;
mod repair;
mod rewrite;
mod simulation;
