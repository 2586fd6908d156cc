//! A part of a table with a column of each type: footer, pages, every block codec.
#![no_main]

use std::sync::{Arc, LazyLock};
use tickstone_model::TableSchema;

static SCHEMA: LazyLock<Arc<TableSchema>> = LazyLock::new(tickstone_engine::fuzz::every_type);

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tickstone_engine::fuzz::part(&SCHEMA, bytes));
