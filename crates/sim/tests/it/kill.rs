//! The engine on the real disk, killed at random moments: nothing acknowledged is lost, nothing is twice.
//!
//! The test starts itself as a child process, which appends, loads, deletes, truncates, seals and merges on several
//! threads and says what it begins and what is acknowledged; then it is killed, and its database is read: by a read-only
//! opening, by one for writing, or by the next child alone. `TICKSTONE_KILLS=200` for as many kills.

#![allow(clippy::disallowed_methods, reason = "the one test on the real disk and clock")]

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tickstone_engine::{Engine, EngineOptions, Selection};
use tickstone_model::{ColumnType, SyncPolicy, TableSchema};
use tickstone_sim::Random;

const DAY: i64 = 86_400_000_000_000;
const KILLS: u64 = 20;
/// Rows a writer leaves in its tables before it truncates them.
const ROWS_MAX: i64 = 20_000;
/// Rows above which the one that loads deletes the older half.
const ROWS_KEPT_MAX: i64 = 2_000;

/// Each writer has tables of its own, so that what it does is one sequence.
const WRITERS: [(&str, &[&str]); 3] =
    [("append", &["trades", "quotes"]), ("load", &["bars"]), ("none", &["books"])];

fn options() -> EngineOptions {
    EngineOptions {
        memory_budget_bytes: 400_000,
        slice_rows: 4_096,
        segment_bytes: 100_000,
        tape_bytes_max: 300_000,
        threads: 1,
        ..EngineOptions::default()
    }
}

fn rows(first: i64, count: i64) -> RecordBatch {
    let ids = first..first + count;
    let columns: [(&str, Arc<dyn Array>); 3] = [
        ("ts", Arc::new(TimestampNanosecondArray::from_iter_values(ids.clone().map(|id| id % 3 * DAY + id)))),
        (
            "symbol",
            Arc::new(StringArray::from_iter_values(ids.clone().map(|id| format!("S{}", id / 100 % 50)))),
        ),
        ("id", Arc::new(Int64Array::from_iter_values(ids))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// A step of a writer: rows `first..first + count` into each of its tables; for `count` 0 none left, for less
/// than 0 none before `first` left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    first: i64,
    count: i64,
}

/// What a writer has done: the first and the last id its tables hold, and the step under way.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    from: i64,
    to: i64,
    begun: Option<Step>,
}

impl Progress {
    fn after(&self, step: Step) -> (i64, i64) {
        match step.count {
            0 => (self.to, self.to),
            ..0 => (step.first, self.to),
            count => (self.from, self.to + count),
        }
    }
}

fn say(word: &str, writer: &str, step: Step) {
    let line = format!("@{word} {writer} {} {}\n", step.first, step.count);
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes()).and_then(|()| out.flush()).unwrap();
}

/// The process that is killed; does nothing unless the test started it.
#[test]
#[ignore = "started by the test"]
fn child() {
    let Some(dir) = std::env::var_os("TICKSTONE_KILL_DIR") else { return };
    let engine = Engine::open(PathBuf::from(dir), options()).unwrap();
    for table in WRITERS.iter().flat_map(|(_, tables)| *tables) {
        if engine.snapshot().table(table).is_none() {
            let builder = TableSchema::builder(*table)
                .column("ts", ColumnType::Timestamp)
                .column("symbol", ColumnType::Symbol)
                .column("id", ColumnType::Int64);
            engine.create_table(builder.timestamp("ts").build().unwrap()).unwrap();
        }
    }
    println!("@ready");
    std::thread::scope(|scope| {
        for (writer, tables) in WRITERS {
            let ids = std::env::var(format!("TICKSTONE_KILL_{writer}")).unwrap();
            let (from, to) = ids.split_once(' ').unwrap();
            let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
            let engine = &engine;
            scope.spawn(move || write(engine, writer, tables, from, to));
        }
        let mut random = Random::new(7);
        loop {
            std::thread::sleep(Duration::from_millis(random.below(60)));
            // A table may be truncated meanwhile; all else would fail a writer, too.
            if random.one_in(4) {
                engine.compact(random.one_in(2).then_some("bars")).unwrap();
            } else {
                engine.seal(random.one_in(2).then_some("trades")).unwrap();
            }
        }
    });
}

fn write(engine: &Engine, writer: &str, tables: &[&str], mut from: i64, mut to: i64) {
    let mut random = Random::new(to.cast_unsigned());
    loop {
        let full = to - from > ROWS_MAX;
        let deletes = writer == "load" && to - from > ROWS_KEPT_MAX;
        let step = if deletes {
            Step { first: from + (to - from) / 2, count: -1 }
        } else {
            Step { first: to, count: if full { 0 } else { 1 + random.below(500) as i64 } }
        };
        say("begin", writer, step);
        match (full, writer) {
            _ if deletes => delete_before(engine, tables[0], step.first),
            (true, _) => tables.iter().for_each(|table| engine.truncate_table(table).unwrap()),
            (false, "load") => {
                let mut load = engine.load(tables[0]).unwrap();
                let half = step.count / 2;
                load.append(&rows(to, half)).unwrap();
                load.append(&rows(to + half, step.count - half)).unwrap();
                load.commit(None).unwrap();
            }
            (false, _) => {
                let mut transaction = engine.begin();
                tables.iter().for_each(|table| transaction.append(table, &rows(to, step.count)).unwrap());
                // A kill loses nothing of any policy: the system keeps what was written.
                let sync = if writer == "none" { SyncPolicy::None } else { SyncPolicy::Always };
                transaction.commit(Some(sync)).unwrap();
            }
        }
        say("done", writer, step);
        (from, to) = Progress { from, to, begun: None }.after(step);
    }
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

fn spawn(dir: &Path, progress: &BTreeMap<&str, Progress>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "kill::child", "--ignored", "--nocapture"]);
    command.env("TICKSTONE_KILL_DIR", dir);
    for (writer, progress) in progress {
        command.env(format!("TICKSTONE_KILL_{writer}"), format!("{} {}", progress.from, progress.to));
    }
    command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap()
}

/// Runs a child for a while, kills it, and notes what it said.
fn run_and_kill(dir: &Path, progress: &mut BTreeMap<&'static str, Progress>, random: &mut Random) {
    let mut child = spawn(dir, progress);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // Mostly once it is ready; now and then while it opens.
    let (ready, wait_for_ready) = std::sync::mpsc::channel();
    let opening = random.one_in(5);
    let wait = Duration::from_millis(random.below(if opening { 60 } else { 300 }));
    let killer = std::thread::spawn(move || {
        let is_ready = opening || wait_for_ready.recv().is_ok();
        std::thread::sleep(wait);
        child.kill().unwrap();
        assert!(is_ready, "the child did not open its database");
        child.wait().unwrap()
    });
    for line in lines.map_while(Result::ok) {
        if line.contains("@ready") {
            // Nobody listens to a child that is killed while it opens.
            let _ = ready.send(());
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let [word, writer, first, count] = words[..] else { continue };
        // A line that the kill cut is none.
        let (Ok(first), Ok(count)) = (first.parse(), count.parse()) else { continue };
        let Some((_, progress)) = progress.iter_mut().find(|(name, _)| **name == writer) else { continue };
        let step = Step { first, count };
        match word {
            "@begin" => progress.begun = Some(step),
            "@done" => {
                assert_eq!(progress.begun.take(), Some(step), "{writer}");
                (progress.from, progress.to) = progress.after(step);
            }
            _ => {}
        }
    }
    drop(ready);
    let status = killer.join().unwrap();
    assert!(!status.success() && status.code().is_none(), "the child ended by itself: {status}");
}

/// The ids of a table, ascending; the values of each row are checked.
fn ids(engine: &Engine, table: &str) -> Vec<i64> {
    let snapshot = engine.snapshot();
    let Some(table) = snapshot.table(table) else { return Vec::new() };
    let mut ids = Vec::new();
    for segment in table.select(&Selection::default()).unwrap() {
        for rows in segment.rows() {
            let (times, symbols) =
                (segment.read(0, rows.clone()).unwrap(), segment.read(1, rows.clone()).unwrap());
            let times = times.as_primitive::<arrow_array::types::TimestampNanosecondType>();
            let symbols = symbols.as_primitive::<arrow_array::types::UInt32Type>();
            for (row, id) in
                segment.read(2, rows.clone()).unwrap().as_primitive::<Int64Type>().values().iter().enumerate()
            {
                assert_eq!(times.value(row), id % 3 * DAY + id);
                let symbol = table.dictionary(1).unwrap().symbol(symbols.value(row)).unwrap();
                assert_eq!(*symbol, *format!("S{}", id / 100 % 50));
                ids.push(*id);
            }
        }
    }
    ids.sort_unstable();
    ids
}

/// Compares what is there with what was said, and takes over what was under way.
fn check(engine: &Engine, progress: &mut BTreeMap<&'static str, Progress>) {
    for (writer, tables) in WRITERS {
        let progress = progress.get_mut(writer).unwrap();
        let mut possible = vec![(progress.from, progress.to)];
        possible.extend(progress.begun.map(|step| progress.after(step)));
        let found: Vec<Vec<i64>> = tables.iter().map(|table| ids(engine, table)).collect();
        let is = |found: &[i64], (from, to): (i64, i64)| found.iter().copied().eq(from..to);
        let state = possible.iter().find(|state| found.iter().all(|found| is(found, **state)));
        // Truncates of several tables are one each: some may be done.
        let truncating = progress.begun.is_some_and(|step| step.count == 0);
        let mixed = truncating && found.iter().all(|found| possible.iter().any(|state| is(found, *state)));
        match state {
            Some(state) => (progress.from, progress.to) = *state,
            None if mixed => {
                tables.iter().for_each(|table| {
                    // The next child needs them alike.
                    if !engine.is_read_only() {
                        engine.truncate_table(table).unwrap();
                    }
                });
                if engine.is_read_only() {
                    return;
                }
                progress.from = progress.to;
            }
            None => {
                let ends: Vec<_> = found.iter().map(|f| (f.first(), f.last(), f.len())).collect();
                panic!("{writer}: possible are {possible:?}, found {ends:?}");
            }
        }
        if !engine.is_read_only() {
            progress.begun = None;
        }
    }
}

#[test]
fn a_killed_process_loses_nothing() {
    let kills = std::env::var("TICKSTONE_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS);
    let dir = std::env::temp_dir().join(format!("tickstone-kill-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    // A child may be killed before it makes the folder, and a read-only opening does not.
    std::fs::create_dir_all(&dir).unwrap();
    let mut progress: BTreeMap<&'static str, Progress> =
        WRITERS.iter().map(|(writer, _)| (*writer, Progress::default())).collect();
    let (mut random, started) = (Random::new(1), Instant::now());
    for _ in 0..kills {
        run_and_kill(&dir, &mut progress, &mut random);
        if random.one_in(2) {
            let mut seen = progress.clone();
            check(&Engine::open_read_only(&dir, options()).unwrap(), &mut seen);
        }
        check(&Engine::open(&dir, options()).unwrap(), &mut progress);
    }
    let rows: i64 = progress.values().map(|progress| progress.to).sum();
    println!("{kills} kills in {:.1} s, {rows} rows", started.elapsed().as_secs_f64());
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(rows > 0);
}
