//! A part of a table with columns of arrays.
#![no_main]

use std::sync::{Arc, LazyLock};
use tickstone_model::TableSchema;

static SCHEMA: LazyLock<Arc<TableSchema>> = LazyLock::new(tickstone_engine::fuzz::books);

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tickstone_engine::fuzz::part(&SCHEMA, bytes));
