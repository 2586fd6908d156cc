//! What a scripted load did, and what must be there after a power cut.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampNanosecondType, UInt32Type};
use arrow_array::{Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use std::collections::BTreeMap;
use std::sync::Arc;
use tickstone_engine::{Engine, EngineOptions, Selection, Snapshot};
use tickstone_model::{ColumnType, TableSchema};

pub(crate) const DAY: i64 = 86_400_000_000_000;
const SYMBOLS: [&str; 3] = ["BTC-USD", "ETH-USD", "USDT-USD"];

/// Options without threads of their own, so that a load is a sequence of calls.
pub(crate) fn options() -> EngineOptions {
    EngineOptions {
        background: false,
        threads: 1,
        slice_rows: 8,
        segment_bytes: 2_048,
        tape_keep_bytes: 0,
        ..EngineOptions::default()
    }
}

pub(crate) fn schema(name: &str) -> TableSchema {
    let builder = TableSchema::builder(name)
        .column("ts", ColumnType::Timestamp)
        .column("symbol", ColumnType::Symbol)
        .column("id", ColumnType::Int64);
    builder.timestamp("ts").build().unwrap()
}

/// `count` rows with ids from `first`, spread over days and symbols, newest day first.
pub(crate) fn rows(first: i64, count: i64) -> RecordBatch {
    let ids: Vec<i64> = (first..first + count).collect();
    let times = ids.iter().map(|id| (3 - id % 3) * DAY + id * 1_000);
    let symbols =
        ids.iter().map(|id| SYMBOLS[usize::try_from(id % 3).unwrap()].to_string() + &(id / 20).to_string());
    let batch = RecordBatch::try_from_iter([
        ("ts", Arc::new(TimestampNanosecondArray::from_iter_values(times)) as Arc<dyn Array>),
        ("symbol", Arc::new(StringArray::from_iter_values(symbols))),
        ("id", Arc::new(Int64Array::from(ids.clone()))),
    ]);
    batch.unwrap()
}

/// Ids of a table's rows, ascending, after a check that each row's time and symbol are its own.
pub(crate) fn ids(snapshot: &Snapshot, table: &str) -> Option<Vec<i64>> {
    let table = snapshot.table(table)?;
    let dictionary = table.dictionary(1).unwrap();
    let mut ids = Vec::new();
    for segment in table.select(&Selection::default()).unwrap() {
        for rows in segment.rows() {
            let column = |index| segment.read(index, rows.clone()).unwrap();
            let (times, symbols, numbers) = (column(0), column(1), column(2));
            for row in 0..rows.len() {
                let id = numbers.as_primitive::<Int64Type>().value(row);
                assert_eq!(
                    times.as_primitive::<TimestampNanosecondType>().value(row),
                    (3 - id % 3) * DAY + id * 1_000
                );
                let symbol = dictionary.symbol(symbols.as_primitive::<UInt32Type>().value(row)).unwrap();
                assert_eq!(
                    *symbol,
                    *(SYMBOLS[usize::try_from(id % 3).unwrap()].to_string() + &(id / 20).to_string())
                );
                ids.push(id);
            }
        }
    }
    ids.sort_unstable();
    Some(ids)
}

/// Table name to ids.
pub(crate) type Contents = BTreeMap<String, Vec<i64>>;

/// Everything an engine holds, with whether ids repeat left visible.
pub(crate) fn contents(engine: &Engine) -> Contents {
    let snapshot = engine.snapshot();
    snapshot
        .tables()
        .map(|t| t.schema().name().to_string())
        .map(|n| (n.clone(), ids(&snapshot, &n).unwrap()))
        .collect()
}
