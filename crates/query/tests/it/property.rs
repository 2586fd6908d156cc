//! Generated tables, split in any way over commits, runs, parts and partitions, answer as DataFusion's
//! own in-memory table over the same rows does.
//!
//! A failure prints its seed; `SEED=n cargo test` runs that one alone.

use crate::numbers::Numbers;
use crate::states::{crash_image, open_wide};
use datafusion::arrow::array::{
    ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampNanosecondArray,
};
use datafusion::arrow::compute::{cast, concat_batches};
use datafusion::arrow::datatypes::{Int64Type, TimestampNanosecondType};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::catalog::MemTable;
use datafusion::prelude::SessionContext;
use std::collections::HashMap;
use std::sync::Arc;
use tickstone_engine::EngineOptions;
use tickstone_engine::disk::MemoryDisk;
use tickstone_model::{ColumnType, PartitionBy, TableSchema};
use tickstone_query::{Database, Session};

const SYMBOLS: [&str; 6] = ["BTC-USD", "ETH-USD", "SOL-USD", "A", "", "zürich"];
const START: i64 = 1_704_067_200_000_000_000; // 2024-01-01T00:00:00Z
const MINUTE: i64 = 60_000_000_000;

fn schema(numbers: &mut Numbers) -> TableSchema {
    let unit = *numbers.pick(&[PartitionBy::Hour, PartitionBy::Day, PartitionBy::Month]);
    let builder = TableSchema::builder("t")
        .column("ts", ColumnType::Timestamp)
        .column("sym", ColumnType::Symbol)
        .column("venue", ColumnType::Symbol)
        .column("px", ColumnType::Float64)
        .column("qty", ColumnType::Int64)
        .column("note", ColumnType::Varchar)
        .column("flag", ColumnType::Boolean)
        .column("id", ColumnType::Int64)
        .timestamp("ts")
        .partition_by(unit);
    let keys: [&[&str]; 4] = [&["sym"], &["sym", "venue"], &["venue"], &[]];
    let series = numbers.pick(&keys);
    builder.series(series.iter().copied()).build().unwrap()
}

/// Rows in order of arrival; mostly ascending, some late, many ties.
fn rows(
    numbers: &mut Numbers,
    schema: &TableSchema,
    count: usize,
    clock: &mut i64,
    id: &mut i64,
) -> RecordBatch {
    let late = numbers.one_in(3);
    let (mut ts, mut sym, mut venue, mut px) = (vec![], vec![], vec![], vec![]);
    let (mut qty, mut note, mut flag, mut ids) = (vec![], vec![], vec![], vec![]);
    for _ in 0..count {
        if !numbers.one_in(4) {
            *clock += numbers.below(3) as i64 * MINUTE / 4;
        }
        let back = if late { numbers.below(300) as i64 * MINUTE } else { 0 };
        ts.push(START + *clock - back);
        sym.push((!numbers.one_in(20)).then(|| *numbers.pick(&SYMBOLS)));
        venue.push((!numbers.one_in(10)).then(|| *numbers.pick(&["x", "y", "z"])));
        px.push((!numbers.one_in(15)).then(|| numbers.below(2000) as f64 / 4.0 - 100.0));
        qty.push((!numbers.one_in(15)).then(|| numbers.below(1000) as i64 - 500));
        note.push((!numbers.one_in(5)).then(|| format!("note {}", numbers.below(50))));
        flag.push((!numbers.one_in(5)).then(|| numbers.one_in(2)));
        ids.push(*id);
        *id += 1;
    }
    let text = |values: Vec<Option<&str>>| Arc::new(StringArray::from(values)) as ArrayRef;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampNanosecondArray::from(ts)),
        text(sym),
        text(venue),
        Arc::new(Float64Array::from(px)),
        Arc::new(Int64Array::from(qty)),
        Arc::new(StringArray::from(note)),
        Arc::new(BooleanArray::from(flag)),
        Arc::new(Int64Array::from(ids)),
    ];
    let fields = schema.edge().fields();
    let columns = columns.iter().zip(fields).map(|(c, f)| cast(c, f.data_type()).unwrap()).collect();
    RecordBatch::try_new(Arc::clone(schema.edge()), columns).unwrap()
}

fn time(numbers: &mut Numbers, clock: i64) -> String {
    let nanos = START - 100 * MINUTE + numbers.below(clock as u64 / MINUTE as u64 + 200) as i64 * MINUTE;
    tickstone_model::format_nanos(nanos).trim_end_matches('Z').to_string()
}

fn filter(numbers: &mut Numbers, clock: i64) -> String {
    let symbol = *numbers.pick(&SYMBOLS);
    let other = *numbers.pick(&SYMBOLS);
    let (from, to) = (time(numbers, clock), time(numbers, clock));
    let n = numbers.below(400) as i64 - 100;
    match numbers.below(20) {
        0 => format!("sym = '{symbol}'"),
        1 => format!("sym IN ('{symbol}', '{other}', 'none')"),
        2 => format!("sym = '{symbol}' OR sym = '{other}'"),
        3 => format!("ts >= '{from}' AND ts < '{to}'"),
        4 => format!("ts BETWEEN '{from}' AND '{to}'"),
        5 => format!("ts > '{from}'"),
        6 => format!("'{to}' >= ts"),
        7 => format!("ts = '{from}'"),
        8 => format!("ts < '{from}' OR ts > '{to}'"),
        9 => format!("px > {n}"),
        10 => format!("px <= {n} AND qty > {n}"),
        11 => format!("px BETWEEN {n} AND {}", n + 50),
        12 => format!("qty = {n}"),
        13 => "flag".to_string(),
        14 => format!("venue = '{}' AND px < {n}", *numbers.pick(&["x", "y", "q"])),
        15 => format!("sym <> '{symbol}'"),
        16 => format!("sym IS NULL OR ts > '{from}'"),
        17 => format!("note LIKE '%{}%'", numbers.below(10)),
        18 => format!("NOT (ts < '{from}')"),
        _ => format!("sym > '{symbol}'"),
    }
}

fn condition(numbers: &mut Numbers, clock: i64) -> String {
    let count = numbers.below(4);
    let filters: Vec<String> = (0..count).map(|_| format!("({})", filter(numbers, clock))).collect();
    if filters.is_empty() { String::new() } else { format!("WHERE {}", filters.join(" AND ")) }
}

fn query(numbers: &mut Numbers, clock: i64) -> String {
    let condition = condition(numbers, clock);
    let n = numbers.below(60);
    match numbers.below(16) {
        0 => format!("SELECT * FROM t {condition}"),
        1 => format!("SELECT id, px, sym FROM t {condition} ORDER BY id"),
        2 => format!("SELECT count(*) FROM t {condition}"),
        3 => format!(
            "SELECT min(ts), max(ts), min(px), max(px), min(qty), max(qty), count(px) FROM t {condition}"
        ),
        4 => format!("SELECT min(sym), max(venue), min(note), max(flag), sum(qty) FROM t {condition}"),
        5 => format!("SELECT sym, count(*), sum(qty), min(ts) FROM t {condition} GROUP BY sym"),
        6 => format!("SELECT sym, venue, max(px) FROM t {condition} GROUP BY sym, venue"),
        7 => format!("SELECT date_trunc('hour', ts) AS h, count(*), sum(qty) FROM t {condition} GROUP BY 1"),
        8 => format!("SELECT ts FROM t {condition} ORDER BY ts"),
        9 => format!("SELECT ts FROM t {condition} ORDER BY ts DESC"),
        10 => format!("SELECT ts FROM t {condition} ORDER BY ts LIMIT {n}"),
        11 => format!("SELECT ts FROM t {condition} ORDER BY ts DESC LIMIT {n} OFFSET 3"),
        12 => format!("SELECT id, ts, sym FROM t {condition} ORDER BY ts, id LIMIT {n}"),
        13 => format!(
            "SELECT id, count(px) OVER (PARTITION BY sym ORDER BY ts), max(qty) OVER (PARTITION BY sym), \
             sum(qty) OVER (PARTITION BY venue, sym ORDER BY ts) FROM t {condition}"
        ),
        14 => format!(
            "SELECT id, min(px) OVER w, sum(qty) OVER w FROM t {condition} WINDOW w AS \
             (PARTITION BY sym ORDER BY ts RANGE BETWEEN INTERVAL '{n} minutes' PRECEDING AND CURRENT ROW)"
        ),
        _ => format!(
            "SELECT a.id, b.id FROM (SELECT * FROM t {condition}) a JOIN t b ON a.ts = b.ts AND a.sym = b.sym"
        ),
    }
}

fn shown(batches: &[RecordBatch], ordered: bool) -> Vec<String> {
    let options = FormatOptions::new().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<ArrayFormatter> =
            batch.columns().iter().map(|c| ArrayFormatter::try_new(c, &options).unwrap()).collect();
        rows.extend(
            (0..batch.num_rows())
                .map(|row| columns.iter().map(|c| c.value(row).to_string()).collect::<Vec<_>>().join("|")),
        );
    }
    if !ordered {
        rows.sort();
    }
    rows
}

fn collect(database: &Database, session: &mut Session, sql: &str) -> Vec<RecordBatch> {
    database.runtime().block_on(session.query(sql)).unwrap_or_else(|error| panic!("{sql}\n{error}"))
}

/// Within a series and an instant, rows come in order of arrival, whichever way they are read.
fn check_ties(database: &Database, session: &mut Session, series: &[&str]) {
    let key = if series.is_empty() { "ts".to_string() } else { format!("ts, {}", series.join(", ")) };
    let batches = collect(database, session, &format!("SELECT id, {key} FROM t ORDER BY ts"));
    let mut last: HashMap<String, i64> = HashMap::new();
    let mut last_time = i64::MIN;
    for batch in &batches {
        let ids = batch.column(0).as_primitive::<Int64Type>();
        let times = batch.column(1).as_primitive::<TimestampNanosecondType>();
        let keys = batch.project(&(1..batch.num_columns()).collect::<Vec<_>>()).unwrap();
        for (row, key) in shown(&[keys], true).into_iter().enumerate() {
            assert!(last_time <= times.value(row), "times descend");
            last_time = times.value(row);
            let before = last.insert(key, ids.value(row));
            assert!(before.is_none_or(|before| before < ids.value(row)), "ties out of order of arrival");
        }
    }
}

/// LATEST ON gives the row of each series that arrived last among those of its greatest time.
fn check_latest(database: &Database, session: &mut Session, series: &[&str], condition: &str) {
    if series.is_empty() {
        return;
    }
    let keys = series.join(", ");
    let ours = format!("SELECT id FROM t {condition} LATEST ON ts PARTITION BY {keys}");
    let naive = format!(
        "SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY {keys} ORDER BY ts DESC, id DESC) AS n \
         FROM t {condition}) WHERE n = 1"
    );
    let wanted = shown(&collect(database, session, &naive), false);
    for _ in 0..3 {
        assert_eq!(shown(&collect(database, session, &ours), false), wanted, "{ours}");
    }
}

fn run(seed: u64) {
    let mut numbers = Numbers(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let schema = schema(&mut numbers);
    let options = EngineOptions {
        background: false,
        threads: 1,
        slice_rows: *numbers.pick(&[64, 1_000, 1 << 20]),
        ..EngineOptions::default()
    };
    let mut disk = MemoryDisk::new();
    // Wide plans over few rows take the paths that many rows take.
    let wide_rows_min = *numbers.pick(&[0, 100, 1 << 18]);
    let mut database = open_wide(&disk, options.clone(), wide_rows_min);
    database.engine().create_table(schema.clone()).unwrap();
    let (mut clock, mut id, mut all) = (0, 0, Vec::new());
    for _ in 0..1 + numbers.below(12) {
        let most = *numbers.pick(&[5, 100, 1_500]);
        let count = 1 + numbers.below(most) as usize;
        let batch = rows(&mut numbers, &schema, count, &mut clock, &mut id);
        if numbers.one_in(5) {
            let mut load = database.engine().load("t").unwrap();
            load.append(&batch).unwrap();
            load.commit(None).unwrap();
        } else {
            database.engine().append("t", &batch, None).unwrap();
        }
        all.push(batch);
        match numbers.below(6) {
            0 | 1 => database.engine().seal(None).unwrap(),
            2 => {
                disk = crash_image(&disk);
                database = open_wide(&disk, options.clone(), wide_rows_min);
            }
            _ => {}
        }
    }
    let series: Vec<&str> = schema.series().iter().map(|&i| schema.columns()[i].name.as_str()).collect();
    // So do small batches.
    let mut session = database.session();
    let batch_rows = *numbers.pick(&[8_192, 100, 7]);
    collect(&database, &mut session, &format!("SET execution.batch_size = {batch_rows}"));
    check_ties(&database, &mut session, &series);
    let reference = SessionContext::new();
    let merged = concat_batches(schema.edge(), &all).unwrap();
    let table = MemTable::try_new(Arc::clone(schema.edge()), vec![vec![merged]]).unwrap();
    reference.register_table("t", Arc::new(table)).unwrap();
    for _ in 0..25 {
        let sql = query(&mut numbers, clock);
        // Planned, made a template, taken from the cache: the same rows each time.
        let found: Vec<_> = (0..3).map(|_| collect(&database, &mut session, &sql)).collect();
        let wanted = database.runtime().block_on(async { reference.sql(&sql).await?.collect().await });
        let wanted = wanted.unwrap_or_else(|error| panic!("reference: {sql}\n{error}"));
        let ordered = sql.contains("ORDER BY") && !sql.contains("PARTITION BY");
        for found in found {
            assert_eq!(shown(&found, ordered), shown(&wanted, ordered), "{sql}");
        }
    }
    for _ in 0..5 {
        check_latest(&database, &mut session, &series, &condition(&mut numbers, clock));
    }
}

#[test]
fn any_split_of_the_rows_answers_as_one_table() {
    if let Ok(seed) = std::env::var("SEED") {
        return run(seed.parse().unwrap());
    }
    for seed in 1..=60 {
        let result = std::panic::catch_unwind(|| run(seed));
        if let Err(panic) = result {
            eprintln!("SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}
