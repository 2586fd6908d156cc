//! A part of a table with indexed columns: filters, and look-ups by them.
#![no_main]

use std::sync::{Arc, LazyLock};
use tickstone_model::TableSchema;

static SCHEMA: LazyLock<Arc<TableSchema>> = LazyLock::new(tickstone_engine::fuzz::orders);

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tickstone_engine::fuzz::part(&SCHEMA, bytes));
