//! The engine on a disk that loses power, and killed on a real one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod archive;
mod backup;
mod beside;
mod check;
mod compaction;
mod crash_images;
mod damage;
mod day;
mod dedup;
mod flips;
mod follow;
mod full_disk;
mod kill;
mod ledger;
mod many;
mod memory;
mod model;
mod repair;
mod rewrite;
mod shapes;
mod simulation;
mod stopped;
mod streams;
mod tape_manifest;
mod views;
