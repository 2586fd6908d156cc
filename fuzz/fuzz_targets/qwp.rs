//! QWP: messages of rows and of queries.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tickstone_wire::fuzz::qwp(bytes));
