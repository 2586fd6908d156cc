//! Readers beside a writer, on the real disk: every answer is one state of the database, none older than what was
//! acknowledged when it was asked for, and none is an error.
//!
//! The test starts itself as a child process, which commits, loads, updates, upserts, deletes, seals, merges, archives,
//! drops and makes tables on several threads, and is closed, or killed, and started again. Meanwhile readers ask over
//! and over: some keep their engine for all of the test, some open one each time, some look late at what they hold.
//! `TICKSTONE_BESIDE_SECONDS=600` for as many seconds.

#![allow(clippy::disallowed_methods, reason = "a test on the real disk and clock")]

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampNanosecondType, UInt32Type};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tickstone_engine::backup::restore;
use tickstone_engine::disk::{Disk, MemoryDisk};
use tickstone_engine::{Engine, EngineError, EngineOptions, Selection, Snapshot, SystemClock, TableSnapshot};
use tickstone_model::{ColumnType, PartitionBy, SyncPolicy, TableSchema, Ttl};
use tickstone_sim::Random;

const SECONDS: u64 = 6;
/// How long a writing process lives.
const ROUND: Duration = Duration::from_millis(1_500);
const HOUR: i64 = 3_600_000_000_000;
/// Rows above which the older half of a table is deleted.
const ROWS_MAX: i64 = 3_000;
/// Rows of the table whose rows are replaced, all by every commit.
const KEYS: i64 = 150;

/// What each thread of the writer does, by the table it does it to; "a" goes with "b".
const WRITERS: [&str; 6] = ["a", "load", "update", "upsert", "ttl", "again"];

fn options() -> EngineOptions {
    EngineOptions {
        memory_budget_bytes: 400_000,
        slice_rows: 1_024,
        segment_bytes: 60_000,
        tape_bytes_max: 200_000,
        compaction_parts_min: 2,
        threads: 1,
        ..EngineOptions::default()
    }
}

fn schema(name: &str, more: bool) -> TableSchema {
    let builder = TableSchema::builder(name)
        .column("ts", ColumnType::Timestamp)
        .column("symbol", ColumnType::Symbol)
        .column("id", ColumnType::Int64)
        .column("generation", ColumnType::Int64);
    let builder = if more { builder.column("more", ColumnType::Int64) } else { builder };
    let builder = builder.timestamp("ts").partition_by(PartitionBy::Hour);
    let builder = match name {
        "upsert" => builder.dedup(["ts", "symbol"]),
        "ttl" => builder.ttl(Some(Ttl::parse("6h").unwrap())),
        _ => builder,
    };
    builder.build().unwrap()
}

/// Rows `first..first + count`, all of one generation.
fn rows(first: i64, count: i64, generation: i64, step_ns: i64, more: bool) -> RecordBatch {
    let ids = first..first + count;
    let numbers = |number: i64| Arc::new(Int64Array::from(vec![number; count as usize])) as ArrayRef;
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("ts", Arc::new(TimestampNanosecondArray::from_iter_values(ids.clone().map(|id| id * step_ns)))),
        ("symbol", Arc::new(StringArray::from_iter_values(ids.clone().map(symbol)))),
        ("id", Arc::new(Int64Array::from_iter_values(ids))),
        ("generation", numbers(generation)),
    ];
    if more {
        columns.push(("more", numbers(generation)));
    }
    RecordBatch::try_from_iter(columns).unwrap()
}

fn symbol(id: i64) -> String {
    format!("S{}", id / 100 % 500)
}

/// Time between two rows: some partitions are open at a time.
fn step_ns(table: &str) -> i64 {
    if table == "upsert" { HOUR / 50 } else { HOUR / 400 }
}

/// What a table holds: ids from `from` up to `to`, all of one generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    from: i64,
    to: i64,
    generation: i64,
}

/// Reads a table to the last value and says what it holds.
fn held(table: &TableSnapshot) -> tickstone_engine::Result<Result<Held, String>> {
    let (mut ids, mut generations) = (Vec::new(), Vec::new());
    let step_ns = step_ns(table.schema().name());
    for segment in table.select(&Selection::default())? {
        let read = |column| segment.read_ranges(column, segment.rows());
        let (times, symbols, numbers, of) = (read(0)?, read(1)?, read(2)?, read(3)?);
        let times = times.as_primitive::<TimestampNanosecondType>().values();
        let symbols = symbols.as_primitive::<UInt32Type>().values();
        let numbers = numbers.as_primitive::<Int64Type>().values();
        for (row, id) in numbers.iter().enumerate() {
            let name = table.dictionary(1).and_then(|names| names.symbol(symbols[row]));
            if times[row] != id * step_ns || name.as_deref() != Some(symbol(*id).as_str()) {
                return Ok(Err(format!("row {id} has the time {} and the symbol {name:?}", times[row])));
            }
        }
        ids.extend_from_slice(numbers);
        generations.extend_from_slice(of.as_primitive::<Int64Type>().values());
        if table.schema().columns().len() > 4 {
            let more = read(4)?;
            if more.as_primitive::<Int64Type>().values() != of.as_primitive::<Int64Type>().values() {
                return Ok(Err("two columns that are equal differ".to_string()));
            }
        }
    }
    if ids.len() as u64 != table.rows() {
        return Ok(Err(format!("{} rows, counted as {}", ids.len(), table.rows())));
    }
    ids.sort_unstable();
    let (from, count) = (ids.first().copied().unwrap_or(0), ids.len() as i64);
    if !ids.iter().copied().eq(from..from + count) {
        return Ok(Err(format!("{count} ids from {from} to {:?}", ids.last())));
    }
    let generation = generations.first().copied().unwrap_or(0);
    match generations.iter().find(|other| **other != generation) {
        Some(other) => Ok(Err(format!("generations {generation} and {other} at once"))),
        None => Ok(Ok(Held { from, to: from + count, generation })),
    }
}

/// A number that a table's history never lowers.
fn progress(table: &str, held: Held) -> i64 {
    match table {
        "update" | "upsert" | "again" => held.generation,
        _ => held.to,
    }
}

// ---- the process that writes ----

fn say(table: &str, progress: i64) {
    let line = format!("@done {table} {progress}\n");
    let mut out = std::io::stdout().lock();
    // The one who listens may be gone.
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

/// Does nothing unless the test started it.
#[test]
#[ignore = "started by the test"]
fn child() {
    let Some(dir) = std::env::var_os("TICKSTONE_BESIDE_DIR") else { return };
    let millis = std::env::var("TICKSTONE_BESIDE_MILLIS").unwrap().parse().unwrap();
    let again: i64 = std::env::var("TICKSTONE_BESIDE_AGAIN").unwrap().parse().unwrap();
    let end = Instant::now() + Duration::from_millis(millis);
    let engine = Engine::open(PathBuf::from(dir), options()).unwrap();
    for table in WRITERS.into_iter().chain(["b"]).filter(|table| *table != "again") {
        if engine.snapshot().table(table).is_none() {
            engine.create_table(schema(table, false)).unwrap();
        }
    }
    // A kill may have come between the two.
    cut_to_the_same(&engine);
    println!("@ready");
    let is_over = || Instant::now() > end;
    std::thread::scope(|scope| {
        for writer in WRITERS {
            let engine = &engine;
            scope.spawn(move || {
                let now = engine.snapshot().table(writer).map(|table| held(table).unwrap().unwrap());
                let mut now = now.unwrap_or(Held { from: 0, to: 0, generation: 0 });
                if writer == "again" {
                    // It may have been made anew and have no row that tells.
                    now.generation = now.generation.max(again);
                }
                let mut random = Random::new(now.to.cast_unsigned() ^ now.generation.cast_unsigned());
                while !is_over() {
                    now = write(engine, writer, now, &mut random);
                    say(writer, progress(writer, now));
                }
            });
        }
        let mut random = Random::new(millis);
        while !is_over() {
            std::thread::sleep(Duration::from_millis(random.below(30)));
            let done = match random.below(6) {
                0 => engine.compact(None),
                1 => engine.compact(Some("update")),
                2 => engine.archive(Some("a")),
                3 => engine.seal(Some("upsert")),
                _ => engine.seal(None),
            };
            match done {
                // It was dropped meanwhile.
                Ok(()) | Err(EngineError::NoSuchTable { .. } | EngineError::TableGone { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    });
}

/// "a" and "b" are written in one commit and cut back one after the other.
fn cut_to_the_same(engine: &Engine) {
    let snapshot = engine.snapshot();
    let from = |table| held(snapshot.table(table).unwrap()).unwrap().unwrap().from;
    let first = from("a").max(from("b"));
    ["a", "b"].into_iter().for_each(|table| delete_before(engine, table, first));
}

fn write(engine: &Engine, table: &str, now: Held, random: &mut Random) -> Held {
    let count = 1 + random.below(120) as i64;
    let Held { from, to, generation } = now;
    let new = |generation| rows(to, count, generation, step_ns(table), false);
    match table {
        "upsert" => {
            let all = rows(0, KEYS, generation + 1, step_ns(table), false);
            engine.append(table, &all, Some(SyncPolicy::None)).unwrap();
            return Held { from: 0, to: KEYS, generation: generation + 1 };
        }
        "again" => return drop_and_make(engine, generation, random),
        "update" if random.one_in(3) && to > from => {
            update(engine, table, generation + 1);
            return Held { generation: generation + 1, ..now };
        }
        _ => {}
    }
    if to - from > ROWS_MAX && table != "ttl" {
        let half = from + (to - from) / 2;
        delete_before(engine, table, half);
        if table == "a" {
            delete_before(engine, "b", half);
        }
        return Held { from: half, ..now };
    }
    match table {
        "a" => {
            let mut transaction = engine.begin();
            transaction.append("a", &new(0)).unwrap();
            transaction.append("b", &new(0)).unwrap();
            let sync = if random.one_in(4) { SyncPolicy::Always } else { SyncPolicy::None };
            transaction.commit(Some(sync)).unwrap();
        }
        "load" => {
            let mut load = engine.load(table).unwrap();
            load.append(&new(0)).unwrap();
            load.commit(None).unwrap();
        }
        _ => drop(engine.append(table, &new(generation), Some(SyncPolicy::None)).unwrap()),
    }
    Held { to: to + count, ..now }
}

/// Drops the table "again", if it is there, and makes it with another shape; its rows come in commits of ten.
fn drop_and_make(engine: &Engine, generation: i64, random: &mut Random) -> Held {
    let generation = generation + 1;
    if engine.snapshot().table("again").is_some() {
        engine.drop_table("again").unwrap();
    }
    let more = generation % 2 == 0;
    engine.create_table(schema("again", more)).unwrap();
    let commits = random.below(20) as i64;
    for commit in 0..commits {
        let rows = rows(commit * 10, 10, generation, step_ns("again"), more);
        engine.append("again", &rows, Some(SyncPolicy::None)).unwrap();
        if random.one_in(8) {
            engine.seal(Some("again")).unwrap();
        }
    }
    Held { from: 0, to: commits * 10, generation: if commits > 0 { generation } else { generation - 1 } }
}

fn update(engine: &Engine, table: &str, generation: i64) {
    let mut rewrite = engine.rewrite(table).unwrap();
    let snapshot = Arc::clone(rewrite.table());
    for segment in snapshot.select(&Selection::default()).unwrap() {
        let rows: Vec<usize> = segment.rows().iter().cloned().flatten().collect();
        let values: ArrayRef = Arc::new(Int64Array::from(vec![generation; rows.len()]));
        rewrite.update(&segment, &rows, 3, &values).unwrap();
    }
    rewrite.commit().unwrap();
}

fn delete_before(engine: &Engine, table: &str, first: i64) {
    let mut rewrite = engine.rewrite(table).unwrap();
    let snapshot = Arc::clone(rewrite.table());
    for segment in snapshot.select(&Selection::default()).unwrap() {
        let ids = segment.read_ranges(2, segment.rows()).unwrap();
        let ids = ids.as_primitive::<Int64Type>().values().to_vec();
        let numbered = segment.rows().iter().cloned().flatten().zip(ids);
        let goes: Vec<usize> = numbered.filter(|(_, id)| *id < first).map(|(row, _)| row).collect();
        rewrite.delete(&segment, &goes).unwrap();
    }
    rewrite.commit().unwrap();
}

// ---- the readers ----

/// What the writer has acknowledged, by table; and what the readers did.
#[derive(Debug, Default)]
struct Shared {
    acknowledged: BTreeMap<&'static str, AtomicI64>,
    over: AtomicBool,
    answers: AtomicU64,
    reread: AtomicU64,
}

impl Shared {
    fn floor(&self) -> BTreeMap<&'static str, i64> {
        self.acknowledged.iter().map(|(table, at)| (*table, at.load(Ordering::Acquire))).collect()
    }
}

/// What all tables hold in one snapshot.
fn all(snapshot: &Snapshot) -> tickstone_engine::Result<BTreeMap<String, Held>> {
    let mut found = BTreeMap::new();
    for table in snapshot.tables() {
        let name = table.schema().name().to_string();
        let held = held(table)?.unwrap_or_else(|what| panic!("{name}: {what}"));
        found.insert(name, held);
    }
    Ok(found)
}

/// Compares an answer with the rules of the tables, and with what was acknowledged or seen before it was asked for.
fn check(found: &BTreeMap<String, Held>, floor: &BTreeMap<&'static str, i64>) {
    if let (Some(a), Some(b)) = (found.get("a"), found.get("b")) {
        // Both end with the same commit; they are cut back one after the other.
        let ends = |held: &Held| if held.from == held.to { None } else { Some(held.to) };
        assert_eq!(ends(a), ends(b), "a and b: {a:?}, {b:?}");
    }
    for (table, least) in floor.iter().filter(|(_, least)| **least > 0) {
        let Some(held) = found.get(*table) else {
            // It may just be made anew.
            assert_eq!(*table, "again", "table {table} is missing");
            continue;
        };
        let is_new = *table == "again" && held.from == held.to;
        let reached = progress(table, *held);
        assert!(
            is_new || reached >= *least,
            "{table} holds {held:?}, {least} was acknowledged or seen before"
        );
        if *table == "upsert" {
            assert_eq!((held.from, held.to), (0, KEYS));
        }
    }
}

/// Asks one engine; what was seen is the least that must be seen next.
fn ask(engine: &Engine, shared: &Shared, seen: &mut BTreeMap<&'static str, i64>, late: Duration) {
    let mut floor = shared.floor();
    for (table, least) in seen.iter() {
        let floor = floor.get_mut(table).unwrap();
        *floor = (*floor).max(*least);
    }
    let mut asked = 0;
    let answer = engine.read(|snapshot| {
        asked += 1;
        std::thread::sleep(late);
        let found = all(snapshot)?;
        // A snapshot never changes.
        assert_eq!(found, all(snapshot)?);
        Ok(found)
    });
    let found = answer.unwrap_or_else(|error| panic!("{:?}: {error}", error.kind()));
    check(&found, &floor);
    for table in WRITERS {
        if let Some(held) = found.get(table).filter(|held| held.from < held.to) {
            seen.insert(table, progress(table, *held));
        }
    }
    shared.answers.fetch_add(1, Ordering::Relaxed);
    shared.reread.fetch_add(asked - 1, Ordering::Relaxed);
}

fn open(dir: &Path) -> Engine {
    Engine::open_read_only(dir, options()).unwrap_or_else(|error| panic!("{:?}: {error}", error.kind()))
}

/// Keeps one engine.
fn stay(dir: &Path, shared: &Shared, late: Duration) {
    let (engine, mut seen) = (open(dir), BTreeMap::new());
    while !shared.over.load(Ordering::Relaxed) {
        ask(&engine, shared, &mut seen, late);
    }
}

/// Opens one engine after the other.
fn come_and_go(dir: &Path, shared: &Shared) {
    let mut seen = BTreeMap::new();
    while !shared.over.load(Ordering::Relaxed) {
        ask(&open(dir), shared, &mut seen, Duration::ZERO);
    }
}

/// Makes a backup over and over, and looks into it.
fn back_up(dir: &Path, shared: &Shared) {
    let engine = open(dir);
    while !shared.over.load(Ordering::Relaxed) {
        let floor = shared.floor();
        let backup: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        engine.backup(&backup, &mut |_| {}).unwrap_or_else(|error| panic!("{:?}: {error}", error.kind()));
        let restored: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        restore(&backup, &restored, &mut |_| {}).unwrap();
        let engine = Engine::open_on(restored, Arc::new(SystemClock), options()).unwrap();
        check(&all(&engine.snapshot()).unwrap(), &floor);
        shared.answers.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn spawn(dir: &Path, shared: &Shared) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "beside::child", "--ignored", "--nocapture"]);
    command.env("TICKSTONE_BESIDE_DIR", dir);
    command.env("TICKSTONE_BESIDE_MILLIS", ROUND.as_millis().to_string());
    // More than was acknowledged may have been done.
    let again = shared.acknowledged["again"].load(Ordering::Acquire) + 10;
    command.env("TICKSTONE_BESIDE_AGAIN", again.to_string());
    command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap()
}

/// Runs a writing process to its end, or kills it, and notes what it acknowledged. `ready` is called once it is open.
fn run_writer(dir: &Path, shared: &Shared, random: &mut Random, ready: &mut dyn FnMut()) {
    let mut child = spawn(dir, shared);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let dies = random.one_in(2);
    let lives = if dies { Duration::from_millis(random.below(ROUND.as_millis() as u64)) } else { ROUND };
    let begun = Instant::now();
    let mut killed = false;
    for line in lines.map_while(Result::ok) {
        if line.contains("@ready") {
            ready();
        }
        if dies && !killed && begun.elapsed() > lives {
            child.kill().unwrap();
            killed = true;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let [word, table, at] = words[..] else { continue };
        if let (true, Some(seen), Ok(at)) =
            (word.ends_with("@done"), shared.acknowledged.get(table), at.parse())
        {
            seen.fetch_max(at, Ordering::AcqRel);
        }
    }
    let status = child.wait().unwrap();
    assert!(killed || status.success(), "the writer failed: {status}");
}

#[test]
fn readers_follow_a_writer() {
    let seconds = std::env::var("TICKSTONE_BESIDE_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    let seconds = Duration::from_secs(seconds.unwrap_or(SECONDS));
    let dir = std::env::temp_dir().join(format!("tickstone-beside-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let acknowledged = WRITERS.into_iter().map(|table| (table, AtomicI64::new(0))).collect();
    let shared = Shared { acknowledged, ..Shared::default() };
    let (mut random, begun, mut writers) = (Random::new(11), Instant::now(), 0);
    std::thread::scope(|scope| {
        let mut readers = Vec::new();
        let (dir, shared) = (&dir, &shared);
        let mut start = || {
            if readers.is_empty() {
                readers.push(scope.spawn(move || stay(dir, shared, Duration::ZERO)));
                readers.push(scope.spawn(move || stay(dir, shared, Duration::from_millis(20))));
                readers.push(scope.spawn(move || come_and_go(dir, shared)));
                readers.push(scope.spawn(move || back_up(dir, shared)));
            }
            // One that failed ends the test at once.
            readers.iter().for_each(|reader| assert!(!reader.is_finished(), "a reader failed"));
        };
        let end = AtOnce(&shared.over);
        while begun.elapsed() < seconds {
            run_writer(dir, shared, &mut random, &mut start);
            writers += 1;
        }
        drop(end);
    });
    let (answers, reread) = (shared.answers.load(Ordering::Relaxed), shared.reread.load(Ordering::Relaxed));
    println!(
        "{answers} answers beside {writers} writers in {:.0} s, {reread} of them read again; {:?}",
        begun.elapsed().as_secs_f64(),
        shared.floor()
    );
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(answers > 10, "{answers} answers");
}

/// Ends the readers, also where the test fails.
struct AtOnce<'a>(&'a AtomicBool);

impl Drop for AtOnce<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
