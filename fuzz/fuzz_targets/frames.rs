//! Frames of a tape segment, and what a broken one is.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tickstone_engine::fuzz::frames(bytes));
