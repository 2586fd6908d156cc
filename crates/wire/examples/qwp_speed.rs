//! How fast messages of QWP are read and written: `cargo run --release --example qwp_speed`.

use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampNanosecondArray,
};
use arrow_schema::{Field, Schema};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use tickstone_wire::qwp::egress::{Query, Results};
use tickstone_wire::qwp::{Ingress, Limits};

const ROWS: usize = 16_384;
const ROUNDS: usize = 600;

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Two symbols, two doubles and a time a row, as QuestDB's Python client sends a data frame.
fn message(first: bool) -> Vec<u8> {
    let symbols: Vec<String> =
        (0..300).map(|symbol| format!("SYM{symbol}")).chain(["buy".into(), "sell".into()]).collect();
    let mut payload = Vec::new();
    varint(&mut payload, if first { 0 } else { symbols.len() as u64 });
    varint(&mut payload, if first { symbols.len() as u64 } else { 0 });
    for symbol in symbols.iter().filter(|_| first) {
        varint(&mut payload, symbol.len() as u64);
        payload.extend_from_slice(symbol.as_bytes());
    }
    payload.extend_from_slice(b"\x06trades");
    varint(&mut payload, ROWS as u64);
    payload.extend_from_slice(b"\x05\x06symbol\x09\x04side\x09\x05price\x07\x06amount\x07\x00\x10");
    payload.push(0);
    (0..ROWS).for_each(|row| varint(&mut payload, row as u64 * 7919 % 300));
    payload.push(0);
    (0..ROWS).for_each(|row| varint(&mut payload, 300 + row as u64 % 2));
    for column in 0..2 {
        payload.push(0);
        (0..ROWS).for_each(|row| payload.extend_from_slice(&((row + column) as f64 / 8.0).to_le_bytes()));
    }
    payload.push(0);
    (0..ROWS)
        .for_each(|row| payload.extend_from_slice(&(1_723_109_400_000_000_000 + row as i64).to_le_bytes()));
    let length = (payload.len() as u32).to_le_bytes();
    [b"QWP1", &[1, 8, 1, 0][..], &length, &payload].concat()
}

fn read() {
    let mut connection = Ingress::new(Limits::default());
    let (first, other) = (message(true), message(false));
    connection.read(&first, 0, &mut |_| None).expect("it is a message");
    let start = Instant::now();
    for _ in 0..ROUNDS {
        black_box(connection.read(black_box(&other), 0, &mut |_| None).expect("it is a message"));
    }
    let seconds = start.elapsed().as_secs_f64();
    let rows = (ROUNDS * ROWS) as f64;
    println!("read: {:.1} M rows/s, {:.0} M values/s", rows / seconds / 1e6, 5.0 * rows / seconds / 1e6);
}

fn write(name: &str, columns: Vec<ArrayRef>) {
    let field = |array: &ArrayRef| Field::new("c", array.data_type().clone(), true);
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    let batch = RecordBatch::try_new(Arc::new(schema), columns).expect("the columns are of one length");
    let query = Query {
        id: 1,
        sql: String::new(),
        credit: 0,
        parameters: Vec::new(),
        resets_symbols: false,
        timeout_ms: None,
    };
    let (mut results, mut out) = (Results::new(), Vec::new());
    results.start(&mut out, &query);
    let start = Instant::now();
    for _ in 0..ROUNDS {
        out.clear();
        black_box(results.put_batch(&mut out, black_box(&batch)).expect("all can be sent"));
    }
    let seconds = start.elapsed().as_secs_f64();
    let values = (ROUNDS * batch.num_rows() * batch.num_columns()) as f64;
    println!("write {name}: {:.0} M values/s", values / seconds / 1e6);
}

fn main() {
    read();
    let every = |row: usize| !row.is_multiple_of(10);
    let symbols: DictionaryArray<Int32Type> = (0..ROWS).map(|row| ["a", "b", "c", "d"][row % 4]).collect();
    let doubles = Arc::new(Float64Array::from_iter_values((0..ROWS).map(|row| row as f64))) as ArrayRef;
    let times = Arc::new(TimestampNanosecondArray::from_iter_values(0..ROWS as i64)) as ArrayRef;
    let longs =
        Arc::new((0..ROWS).map(|row| every(row).then_some(row as i64)).collect::<Int64Array>()) as ArrayRef;
    let texts =
        Arc::new((0..ROWS).map(|row| Some(format!("text {row}"))).collect::<StringArray>()) as ArrayRef;
    let symbols = Arc::new(symbols) as ArrayRef;
    write("all", [&symbols, &doubles, &times, &longs, &texts].map(Arc::clone).to_vec());
    write("symbols", vec![symbols]);
    write("doubles", vec![doubles]);
    write("numbers with NULLs", vec![longs]);
    write("texts", vec![texts]);
}
