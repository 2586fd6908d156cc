//! Tables that somebody fills as soon as they can be seen, while whoever makes them is not done.

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::*;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tickstone_engine::{Engine, EngineOptions, Selection};
use tickstone_model::{ColumnType, SyncPolicy, TableSchema};

const TABLES: usize = 100;
const ROWS: i64 = 5;

fn open(path: &Path) -> Engine {
    let options = EngineOptions { background: false, threads: 1, ..EngineOptions::default() };
    Engine::open(path, options).unwrap()
}

fn row(table: usize, row: i64) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([
        ("ts", Arc::new(TimestampNanosecondArray::from(vec![row])) as ArrayRef, true),
        ("symbol", Arc::new(StringArray::from(vec![format!("S{table}-{row}")])), true),
        ("id", Arc::new(Int64Array::from(vec![row])), true),
    ])
    .unwrap()
}

/// The first symbols of a table were given out before its writer counted what the tape has: the tape never got their
/// texts, and the database could not be opened again.
#[test]
fn the_first_rows_may_come_before_a_table_is_done() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for first in 0..2 {
            let (engine, over) = (&engine, &over);
            scope.spawn(move || {
                for table in (first..TABLES).step_by(2) {
                    let name = format!("t{table}");
                    while engine.snapshot().table(&name).is_none() {
                        assert!(!over.load(Ordering::Relaxed), "{name} was never made");
                        std::hint::spin_loop();
                    }
                    for at in 0..ROWS {
                        engine.append(&name, &row(table, at), Some(SyncPolicy::None)).unwrap();
                    }
                }
            });
        }
        for table in 0..TABLES {
            let schema = TableSchema::builder(format!("t{table}"))
                .column("ts", ColumnType::Timestamp)
                .column("symbol", ColumnType::Symbol)
                .column("id", ColumnType::Int64);
            engine.create_table(schema.timestamp("ts").build().unwrap()).unwrap();
        }
        // Whoever waits sees the last one.
        std::thread::sleep(std::time::Duration::from_millis(50));
        over.store(true, Ordering::Relaxed);
    });
    drop(engine);
    let engine = open(dir.path());
    for table in 0..TABLES {
        let snapshot = engine.snapshot();
        let there = snapshot.table(&format!("t{table}")).unwrap();
        assert_eq!(there.rows(), ROWS as u64, "t{table}");
        let mut symbols = Vec::new();
        for segment in there.select(&Selection::default()).unwrap() {
            let ids = segment.read_ranges(1, segment.rows()).unwrap();
            let texts = there.dictionary(1).unwrap();
            let text = |id: &u32| texts.symbol(*id).unwrap().to_string();
            symbols.extend(ids.as_primitive::<UInt32Type>().values().iter().map(text));
        }
        symbols.sort();
        let wanted: Vec<String> = (0..ROWS).map(|row| format!("S{table}-{row}")).collect();
        assert_eq!(symbols, wanted, "t{table}");
    }
}
