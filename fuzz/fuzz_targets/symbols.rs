//! A symbol file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tickstone_engine::fuzz::symbols(bytes));
