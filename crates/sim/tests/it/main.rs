//! The engine on a disk that loses power, and killed on a real one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[cfg(not(any(feature = "planted-early-acknowledgement", feature = "planted-unsynced-rename")))]
mod archive;
#[cfg(not(any(feature = "planted-early-acknowledgement", feature = "planted-unsynced-rename")))]
mod backup;
#[cfg(not(any(feature = "planted-early-acknowledgement", feature = "planted-unsynced-rename")))]
mod beside;
#[cfg(not(any(feature = "planted-early-acknowledgement", feature = "planted-unsynced-rename")))]
mod check;
#[cfg(not(any(feature = "planted-early-acknowledgement", feature = "planted-unsynced-rename")))]
mod compaction;
#[cfg(not(any(feature = "planted-early-acknowledgement", feature = "planted-unsynced-rename")))]
mod crash_images;
#[cfg(not(any(feature = "planted-early-acknowledgement", feature = "planted-unsynced-rename")))]
mod damage;
#[cfg(not(any(feature = "planted-early-acknowledgement", feature = "planted-unsynced-rename")))]
mod day;
#[cfg(not(any(feature = "planted-early-acknowledgement", feature = "planted-unsynced-rename")))]
mod dedup;
#[cfg(not(any(feature = "planted-early-acknowledgement", feature = "planted-unsynced-rename")))]
mod flips;
#[cfg(not(any(feature = "planted-early-acknowledgement", feature = "planted-unsynced-rename")))]
mod follow;
#[cfg(not(any(feature = "planted-early-acknowledgement", feature = "planted-unsynced-rename")))]
mod full_disk;
#[cfg(not(any(feature = "planted-early-acknowledgement", feature = "planted-unsynced-rename")))]
mod kill;
#[cfg(not(any(feature = "planted-early-acknowledgement", feature = "planted-unsynced-rename")))]
mod ledger;
#[cfg(not(any(feature = "planted-early-acknowledgement", feature = "planted-unsynced-rename")))]
mod many;
#[cfg(not(any(feature = "planted-early-acknowledgement", feature = "planted-unsynced-rename")))]
mod memory;
#[cfg(not(any(feature = "planted-early-acknowledgement", feature = "planted-unsynced-rename")))]
mod model;
#[cfg(any(feature = "planted-early-acknowledgement", feature = "planted-unsynced-rename"))]
mod planted;
#[cfg(not(any(feature = "planted-early-acknowledgement", feature = "planted-unsynced-rename")))]
mod repair;
#[cfg(not(any(feature = "planted-early-acknowledgement", feature = "planted-unsynced-rename")))]
mod rewrite;
#[cfg(not(any(feature = "planted-early-acknowledgement", feature = "planted-unsynced-rename")))]
mod shapes;
#[cfg(not(any(feature = "planted-early-acknowledgement", feature = "planted-unsynced-rename")))]
mod simulation;
#[cfg(not(any(feature = "planted-early-acknowledgement", feature = "planted-unsynced-rename")))]
mod stopped;
#[cfg(not(any(feature = "planted-early-acknowledgement", feature = "planted-unsynced-rename")))]
mod streams;
#[cfg(not(any(feature = "planted-early-acknowledgement", feature = "planted-unsynced-rename")))]
mod tape_manifest;
mod views;
