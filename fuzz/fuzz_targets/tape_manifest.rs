//! A tape manifest.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tickstone_engine::fuzz::tape_manifest(bytes));
