//! Fields of CSV and line protocol: what is read of them is what comes of them cut into fields first.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tickstone_wire::fuzz::fields(bytes));
