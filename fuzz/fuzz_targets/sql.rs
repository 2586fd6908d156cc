//! SQL: tokens, our clauses, the parser, the passes over its tree, planning.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Some(defect) = tickstone_query::fuzz::sql(text) {
        panic!("{defect}");
    }
});
