//! How long a database of many tables and partitions takes to open, how much memory it takes, and what a
//! query and a commit cost in it.
//!
//! ```text
//! cargo run --release -p tickstone-engine --example bench_tables -- DIR [TABLES] [DAYS] [LINKED]
//! ```
//!
//! One table is loaded by the engine, a part of a few rows a day. The others have its manifest and symbol
//! file, with their own number and name in it; the part files of the first LINKED of them (default 10) are
//! hard links, those of the rest are not there: opening looks at none. Each opening is a process of its own.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "an example that measures")]
#![allow(clippy::disallowed_methods, reason = "it makes files and measures time")]

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tickstone_engine::{Engine, EngineOptions, Selection};
use tickstone_model::{ColumnType, SyncPolicy, TableSchema, TimeRange};

const DAY: i64 = 86_400_000_000_000;
const FIRST_DAY: i64 = 17_000;
const ROWS_A_DAY: i64 = 4;
const SYMBOLS: i64 = 100;
const COMMITS: usize = 20_000;
/// Bytes of magic and version before a manifest's contents.
const PREFIX_BYTES: usize = 12;
const CRC_BYTES: usize = 4;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u32| arguments.get(at).map_or(default, |text| text.parse().unwrap());
    match arguments.first().map(String::as_str) {
        Some("open") => open(Path::new(&arguments[1]), number(2, 1)),
        Some("commit") => commit(Path::new(&arguments[1]), number(2, 1)),
        Some("kill") => kill(Path::new(&arguments[1]), number(2, 1)),
        Some(dir) => all(Path::new(dir), number(1, 1_000), number(2, 3_650), number(3, 10)),
        None => println!("bench_tables DIR [TABLES] [DAYS] [LINKED]"),
    }
}

fn all(root: &Path, tables: u32, days: u32, linked: u32) {
    for (what, tables, days) in [("one", 1, 1), ("days", 1, days), ("tables", tables, days)] {
        let dir = root.join(what);
        let _ = std::fs::remove_dir_all(&dir);
        make(&dir, tables, days, linked);
        println!("\n{tables} tables of {days} partitions: {} MB of manifests", manifest_bytes(&dir) >> 20);
        for cache in ["cold", "warm", "warm"] {
            if cache == "cold" {
                drop_cached(&dir);
            }
            print!("  {cache}: ");
            again("open", &dir, days);
        }
        again("commit", &dir, days);
        // Closed with rows in the tape.
        print!("  after commits: ");
        again("open", &dir, days);
        again("kill", &dir, days);
        print!("  after a kill: ");
        again("open", &dir, days);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

/// The same program in a process of its own.
fn again(what: &str, dir: &Path, days: u32) {
    use std::io::Write;
    std::io::stdout().flush().unwrap();
    let program = std::env::current_exe().unwrap();
    let status = Command::new(program).arg(what).arg(dir).arg(days.to_string()).status().unwrap();
    assert_eq!(status.success(), what != "kill");
}

fn table_name(table: u32) -> String {
    format!("table_{table:05}")
}

fn schema() -> TableSchema {
    let builder = TableSchema::builder(table_name(1))
        .column("ts", ColumnType::Timestamp)
        .column("symbol", ColumnType::Symbol)
        .column("price", ColumnType::Float64);
    builder.timestamp("ts").build().unwrap()
}

fn rows(times: Vec<i64>) -> RecordBatch {
    let symbols = times.iter().map(|ts| format!("S{:02}", ts / 7 % SYMBOLS));
    let columns: [(&str, ArrayRef); 3] = [
        ("symbol", Arc::new(StringArray::from_iter_values(symbols))),
        ("price", Arc::new(Float64Array::from_iter_values(times.iter().map(|ts| (ts % 1_000) as f64)))),
        ("ts", Arc::new(TimestampNanosecondArray::from(times))),
    ];
    RecordBatch::try_from_iter([2, 0, 1].map(|at| columns[at].clone())).unwrap()
}

fn make(dir: &Path, tables: u32, days: u32, linked: u32) {
    let start = Instant::now();
    let engine = Engine::open(dir, EngineOptions::default()).unwrap();
    engine.create_table(schema()).unwrap();
    let mut load = engine.load(&table_name(1)).unwrap();
    for day in 0..i64::from(days) {
        let time = |row| (FIRST_DAY + day) * DAY + row * 3_600_000_000_000 + day % 97 * 1_234_567;
        load.append(&rows((0..ROWS_A_DAY).map(time).collect())).unwrap();
    }
    load.commit(None).unwrap();
    engine.seal(None).unwrap();
    close(engine);
    println!("a table of {days} parts loaded in {:?}", start.elapsed());
    let start = Instant::now();
    let first = dir.join("tables/1");
    let manifest = std::fs::read(first.join("manifest")).unwrap();
    let symbols = std::fs::read(first.join("symbols-1")).unwrap();
    for table in 2..=tables {
        let folder = dir.join("tables").join(table.to_string());
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("manifest"), of_table(&manifest, table)).unwrap();
        std::fs::write(folder.join("symbols-1"), &symbols).unwrap();
        if table <= linked {
            link_parts(&first, &folder);
        }
    }
    println!("{} more made of it in {:?}", tables - 1, start.elapsed());
}

/// The same manifest for another table: number, name and checksum are its own.
fn of_table(manifest: &[u8], table: u32) -> Vec<u8> {
    let mut bytes = manifest[..manifest.len() - CRC_BYTES].to_vec();
    bytes[PREFIX_BYTES..PREFIX_BYTES + 4].copy_from_slice(&table.to_le_bytes());
    let (name, at) = (table_name(table), PREFIX_BYTES + 8);
    assert_eq!(&bytes[at..at + name.len()], table_name(1).as_bytes());
    bytes[at..at + name.len()].copy_from_slice(name.as_bytes());
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

fn link_parts(from: &Path, to: &Path) {
    for folder in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        if folder.path().is_dir() {
            let there = to.join(folder.file_name());
            std::fs::create_dir(&there).unwrap();
            for part in std::fs::read_dir(folder.path()).unwrap().map(Result::unwrap) {
                std::fs::hard_link(part.path(), there.join(part.file_name())).unwrap();
            }
        }
    }
}

fn open(dir: &Path, days: u32) {
    let (before, cpu) = (resident_kb(), cpu_ms());
    let start = Instant::now();
    let engine = Engine::open(dir, EngineOptions::default()).unwrap();
    let took = start.elapsed();
    println!(
        "open {took:.0?} ({} ms of processor time), {} MB more resident",
        cpu_ms() - cpu,
        (resident_kb() - before) >> 10
    );
    let snapshot = engine.snapshot();
    let partitions: usize = snapshot.tables().map(|table| table.partitions().len()).sum();
    let rows: u64 = snapshot.tables().map(|table| table.rows()).sum();
    let day = FIRST_DAY + i64::from(days) / 2;
    let selection = Selection { time: TimeRange::new(day * DAY, (day + 1) * DAY), ..Selection::default() };
    let query = || {
        let start = Instant::now();
        let table = snapshot.table(&table_name(1)).unwrap();
        for segment in table.select(&selection).unwrap() {
            black_box(segment.read_ranges(2, segment.rows()).unwrap());
        }
        start.elapsed()
    };
    println!(
        "    {partitions} partitions, {rows} rows; a day of one table {:?}, again {:?}",
        query(),
        query()
    );
}

fn commit(dir: &Path, days: u32) {
    let engine = Engine::open(dir, EngineOptions::default()).unwrap();
    let time = (FIRST_DAY + i64::from(days) - 1) * DAY + DAY / 2;
    for (policy, commits) in [(SyncPolicy::None, COMMITS), (SyncPolicy::Always, COMMITS / 40)] {
        let mut times: Vec<Duration> = Vec::new();
        for _ in 0..commits {
            let rows = rows(vec![time]);
            let start = Instant::now();
            engine.append(&table_name(1), &rows, Some(policy)).unwrap();
            times.push(start.elapsed());
        }
        times.sort_unstable();
        let at = |share: f64| times[((commits as f64 * share) as usize).min(commits - 1)];
        println!(
            "  {commits} commits of a row, sync {policy:?}: p50 {:?}, p99 {:?}, p99.9 {:?}",
            at(0.5),
            at(0.99),
            at(0.999)
        );
    }
    close(engine);
}

/// Ends in the middle of work.
fn kill(dir: &Path, days: u32) {
    let engine = Engine::open(dir, EngineOptions::default()).unwrap();
    let time = (FIRST_DAY + i64::from(days) - 1) * DAY + DAY / 2;
    engine.append(&table_name(1), &rows(vec![time]), None).unwrap();
    std::process::abort();
}

fn tables_of(dir: &Path) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(dir.join("tables")).unwrap().map(|entry| entry.unwrap().path())
}

fn manifest_bytes(dir: &Path) -> u64 {
    tables_of(dir).map(|table| table.join("manifest").metadata().unwrap().len()).sum()
}

/// Takes the contents of manifests and symbol files out of the page cache; names and folders stay in it.
fn drop_cached(dir: &Path) {
    for file in tables_of(dir).flat_map(|table| ["manifest", "symbols-1"].map(|name| table.join(name))) {
        std::fs::File::open(&file).unwrap().sync_all().unwrap();
        let mut input = std::ffi::OsString::from("if=");
        input.push(&file);
        let dd = Command::new("dd").arg(input).args(["iflag=nocache", "count=0", "status=none"]).status();
        assert!(dd.unwrap().success());
    }
}

/// Closes it, also where maintenance is the last to hold it.
fn close(engine: Engine) {
    let files = engine.files();
    drop(engine);
    while files.are_in_use() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Processor time of all threads so far.
fn cpu_ms() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    // User and system time, in hundredths of a second.
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() * 10
}

fn resident_kb() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).unwrap_or(0)
}
