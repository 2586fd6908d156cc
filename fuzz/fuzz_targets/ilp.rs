//! Line protocol: names, values, bad lines passed over.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tickstone_wire::fuzz::ilp(bytes));
