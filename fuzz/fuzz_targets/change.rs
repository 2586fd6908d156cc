//! What a frame says: its kind, then its payload.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tickstone_engine::fuzz::change(bytes));
