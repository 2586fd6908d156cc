//! Files of a raw stream: its log, an index, its name and settings.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tickstone_engine::fuzz::stream(bytes));
