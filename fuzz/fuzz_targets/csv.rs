//! CSV: layout, records, values, inference.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tickstone_wire::fuzz::csv(bytes));
