//! Requests of raw streams.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tickstone_wire::fuzz::stream(bytes));
