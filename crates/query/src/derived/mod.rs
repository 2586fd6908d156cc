//! Tables whose rows are parsed from a stream as its documents come.
//!
//! ```text
//! Stream::after(progress) ─► parse ─► one transaction: rows, what did not parse, progress ─► the next documents
//! ```
//!
//! Invariants:
//! - rows of some documents, what of them did not parse, and the progress past them are one commit: each document is
//!   parsed once, whatever ends the process;
//! - a table's progress is known by a key of its own ([`StreamSource::key`]), and its rows go to it by its number, so that
//!   no other table of its name gets them or goes on with it.
//!
//! Each such table has a thread in the process that writes. Enter at [`Derived`].

mod parse;

use crate::access::standing::{PROGRESS, REJECTED};
use crate::access::{Held, Source};
use crate::error::{QueryError, Result};
use datafusion::arrow::array::{
    ArrayRef, AsArray, BinaryArray, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray,
};
use datafusion::arrow::datatypes::{Int64Type, UInt32Type};
use parse::{Parsed, Rejected};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tickstone_engine::streams::Stream;
use tickstone_engine::{Engine, EngineError, ErrorKind, Selection, TableSnapshot};
use tickstone_model::{Column, ColumnType, PartitionBy, StreamSource, TableSchema};

/// Bytes of documents that are parsed for one commit.
const STEP_BYTES: u64 = 8 << 20;
/// How often a thread looks whether it is to end.
const PATIENCE: Duration = Duration::from_millis(50);
/// How long after a failure it is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// The threads of the tables that are parsed from streams.
pub(crate) struct Derived {
    accounts: Arc<Held>,
    threads: Mutex<BTreeMap<String, Running>>,
}

struct Running {
    state: Arc<State>,
    thread: JoinHandle<()>,
}

/// What a thread shares with those who ask.
#[derive(Debug, Default)]
struct State {
    stopping: AtomicBool,
    failure: Mutex<Option<String>>,
}

/// How far a table is.
#[derive(Debug, Clone)]
pub(crate) struct Progress {
    /// The table's name.
    pub(crate) table: String,
    /// The stream it is parsed from.
    pub(crate) stream: String,
    /// The number of the last document that was parsed.
    pub(crate) seq: u64,
    /// Why the last documents could not be stored, if they could not.
    pub(crate) failure: Option<String>,
}

impl Derived {
    /// Those of a database with these users.
    pub(crate) fn new(accounts: Arc<Held>) -> Self {
        Self { accounts, threads: Mutex::default() }
    }

    fn threads(&self) -> MutexGuard<'_, BTreeMap<String, Running>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the threads of all such tables that have none.
    ///
    /// # Errors
    /// Where the system has no thread left.
    pub(crate) fn start(&self, engine: &Engine) -> Result<()> {
        if engine.is_read_only() {
            return Ok(());
        }
        let mut threads = self.threads();
        threads.retain(|_, running| !running.thread.is_finished());
        for (table, source) in sources(engine) {
            if threads.contains_key(&source.key) {
                continue;
            }
            let (state, key) = (Arc::new(State::default()), source.key.clone());
            let thread = std::thread::Builder::new().name(format!("from-{}", source.stream));
            let accounts = Arc::clone(&self.accounts);
            let work = Work {
                engine: engine.clone(),
                accounts,
                source,
                state: Arc::clone(&state),
                damaged_bytes: AtomicU64::new(0),
            };
            let started = thread.spawn(move || work.run());
            let thread = started.map_err(|error| {
                QueryError::new(ErrorKind::Report, format!("cannot start a thread for '{table}': {error}"))
            })?;
            threads.insert(key, Running { state, thread });
        }
        Ok(())
    }

    /// Ends all of them, each after the commit it is at.
    pub(crate) fn stop(&self) {
        let threads = std::mem::take(&mut *self.threads());
        threads.values().for_each(|running| running.state.stopping.store(true, Ordering::Relaxed));
        for running in threads.into_values() {
            // A panic there was printed; there is nothing left to do with it.
            let _ = running.thread.join();
        }
    }

    /// How far each such table is.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn progress(&self, engine: &Engine) -> tickstone_engine::Result<Vec<Progress>> {
        let threads = self.threads();
        let failure = |key: &str| {
            let running = threads.get(key)?;
            running.state.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
        };
        let each = sources(engine).into_iter().map(|(table, source)| {
            let seq = progress_of(engine, &source.key)?;
            Ok(Progress { table, failure: failure(&source.key), stream: source.stream, seq })
        });
        each.collect()
    }
}

/// The tables that are parsed from streams.
fn sources(engine: &Engine) -> Vec<(String, StreamSource)> {
    let snapshot = engine.snapshot();
    let source = |table: &Arc<TableSnapshot>| {
        Some((table.schema().name().to_string(), table.schema().source()?.clone()))
    };
    snapshot.tables().filter_map(source).collect()
}

/// Names of the tables that are parsed from a stream.
pub(crate) fn tables_of(engine: &Engine, stream: &str) -> Vec<String> {
    let of = |(table, source): (String, StreamSource)| (source.stream == stream).then_some(table);
    sources(engine).into_iter().filter_map(of).collect()
}

/// The number of the last document that the table of this key has parsed.
fn progress_of(engine: &Engine, key: &str) -> tickstone_engine::Result<u64> {
    engine.read(|snapshot| {
        let Some(table) = snapshot.table(PROGRESS) else { return Ok(0) };
        if !is_like(table.schema(), &progress_schema()?) {
            return Ok(0);
        }
        let (Some(keys), Some(numbers)) =
            (table.schema().column_index("key"), table.schema().column_index("seq"))
        else {
            return Ok(0);
        };
        let Some(id) = table.dictionary(keys).and_then(|known| known.id(key)) else { return Ok(0) };
        let mut last = 0;
        for segment in table.select(&Selection::default())? {
            let ids = segment.read_ranges(keys, segment.rows())?;
            let seqs = segment.read_ranges(numbers, segment.rows())?;
            let ids = ids.as_primitive::<UInt32Type>().iter();
            for (found, seq) in ids.zip(seqs.as_primitive::<Int64Type>()) {
                if found == Some(id) {
                    last = last.max(u64::try_from(seq.unwrap_or(0)).unwrap_or(0));
                }
            }
        }
        Ok(last)
    })
}

/// What a thread does for one table.
struct Work {
    engine: Engine,
    accounts: Arc<Held>,
    source: StreamSource,
    state: Arc<State>,
    /// Bytes of the stream that are damaged or missing, where some of them were to be read.
    damaged_bytes: AtomicU64,
}

/// What a step came to.
enum Step {
    /// There was nothing new.
    Idle,
    /// Documents up to this number were stored.
    Stored(u64),
    /// The table is gone.
    Gone,
}

impl Work {
    fn run(self) {
        let mut seq = None;
        while !self.state.stopping.load(Ordering::Relaxed) {
            let step = self.step(&mut seq);
            let failure = step.as_ref().err().map(ToString::to_string).or_else(|| self.damage());
            *self.state.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
            match step {
                Ok(Step::Stored(last)) => seq = Some(last),
                Ok(Step::Idle) => {}
                Ok(Step::Gone) => return,
                Err(_) => {
                    // What was stored is read anew: a commit may have been made though it was not acknowledged.
                    seq = None;
                    let began = RETRY.as_millis() / PATIENCE.as_millis();
                    for _ in 0..began {
                        if self.state.stopping.load(Ordering::Relaxed) {
                            return;
                        }
                        std::thread::sleep(PATIENCE);
                    }
                }
            }
        }
    }

    fn table(&self) -> Option<Arc<TableSnapshot>> {
        let snapshot = self.engine.snapshot();
        let is_ours = |table: &&Arc<TableSnapshot>| {
            table.schema().source().is_some_and(|source| source.key == self.source.key)
        };
        snapshot.tables().find(is_ours).map(Arc::clone)
    }

    /// That documents were passed over, for as long as the process runs.
    fn damage(&self) -> Option<String> {
        let (bytes, stream) = (self.damaged_bytes.load(Ordering::Relaxed), &self.source.stream);
        (bytes > 0).then(|| {
            format!("{bytes} bytes of stream '{stream}' are damaged or missing: the documents in them were passed over")
        })
    }

    fn step(&self, seq: &mut Option<u64>) -> Result<Step> {
        if self.table().is_none() {
            return Ok(Step::Gone);
        }
        let stream: Stream = self.engine.streams().get(&self.source.stream)?;
        let from = match *seq {
            Some(seq) => seq,
            None => *seq.insert(self.begins_after(&stream)?),
        };
        if stream.wait_for_newer(from, PATIENCE)? <= from {
            return Ok(Step::Idle);
        }
        let found = stream.after(from, STEP_BYTES)?;
        let Some(last) = found.last() else { return Ok(Step::Idle) };
        if found.damaged_bytes() > 0 {
            self.damaged_bytes.store(stream.stats()?.damaged_bytes, Ordering::Relaxed);
        }
        // It may be another by now than before the documents came.
        let Some(table) = self.table() else { return Ok(Step::Gone) };
        check_free(&self.engine, table.schema().name())?;
        let stream = Source::Stream(&self.source.stream);
        self.accounts.check_owner(&self.engine.snapshot(), table.schema(), stream)?;
        // Its columns may have other names by now.
        let source = table.schema().source().unwrap_or(&self.source);
        let parsed = parse::parse(source, table.schema(), &found);
        match self.store(&table, &parsed, last) {
            // The table was changed meanwhile: they are parsed anew for what it is now.
            Err(EngineError::SchemaChanged { .. } | EngineError::TableGone { .. }) => Ok(Step::Idle),
            other => other.map(|()| Step::Stored(last)).map_err(Into::into),
        }
    }

    /// The number of the document behind which it goes on: that of the last one that is parsed, or of the stream's last
    /// where that has lost its end. The numbers behind it are given once more.
    fn begins_after(&self, stream: &Stream) -> tickstone_engine::Result<u64> {
        let (parsed, last) = (progress_of(&self.engine, &self.source.key)?, stream.stats()?.last);
        if parsed <= last {
            return Ok(parsed);
        }
        let mut transaction = self.engine.begin();
        transaction.append(PROGRESS, &progress_row(&self.source.key, last)?)?;
        transaction.commit(None)?;
        Ok(last)
    }

    fn store(&self, table: &TableSnapshot, parsed: &Parsed, last: u64) -> tickstone_engine::Result<()> {
        let name = table.schema().name();
        let rejects = format!("{name}{REJECTED}");
        make(&self.engine, progress_schema()?)?;
        if !parsed.rejected.is_empty() {
            make(&self.engine, rejected_schema(&rejects)?.owned_by(table.schema().access().owner))?;
        }
        let mut transaction = self.engine.begin();
        for rows in parsed.rows.iter().filter(|rows| rows.num_rows() > 0) {
            // Whatever has its name by now.
            transaction.append_to(table.id(), name, rows)?;
        }
        if !parsed.rejected.is_empty() {
            transaction.append(&rejects, &rejected_rows(&parsed.rejected)?)?;
        }
        transaction.append(PROGRESS, &progress_row(&self.source.key, last)?)?;
        // What is changed after this is found by the commit.
        let is_as_parsed = |now: Arc<TableSnapshot>| {
            now.schema().version() == table.schema().version() && now.schema().name() == name
        };
        if !self.table().is_some_and(is_as_parsed) {
            return Err(EngineError::SchemaChanged { table: name.to_string() });
        }
        transaction.commit(None)?;
        Ok(())
    }
}

/// Makes a table where it is not there.
fn make(engine: &Engine, schema: TableSchema) -> tickstone_engine::Result<()> {
    if engine.snapshot().table(schema.name()).is_some() {
        return Ok(());
    }
    match engine.create_table(schema) {
        Err(EngineError::TableExists { .. }) => Ok(()),
        other => other,
    }
}

/// Whether rows made for one table are rows of another, which has its columns, and perhaps more.
fn is_like(there: &TableSchema, wanted: &TableSchema) -> bool {
    let named = |schema: &TableSchema, places: &[usize]| -> Vec<String> {
        places.iter().map(|place| schema.columns()[*place].name.clone()).collect()
    };
    let keys = |schema: &TableSchema| named(schema, schema.dedup());
    let time = |schema: &TableSchema| named(schema, schema.timestamp().as_slice());
    let is_there = |column: &Column| {
        let found = there.column_index(&column.name).map(|place| there.columns()[place].column_type);
        found == Some(column.column_type)
    };
    let is_table = there.view().is_none() && there.materialized().is_none();
    is_table
        && wanted.columns().iter().all(is_there)
        && keys(there) == keys(wanted)
        && time(there) == time(wanted)
}

/// Looks whether the names are free of the tables that one which is parsed from a stream has beside it.
///
/// # Errors
/// Where a table of such a name has other columns.
pub(crate) fn check_free(engine: &Engine, table: &str) -> Result<()> {
    let snapshot = engine.snapshot();
    let beside = [progress_schema(), rejected_schema(&format!("{table}{REJECTED}"))];
    for wanted in beside {
        let wanted = wanted.map_err(EngineError::from)?;
        let name = wanted.name();
        if snapshot.table(name).is_some_and(|there| !is_like(there.schema(), &wanted)) {
            let what = format!(
                "'{name}' is in the way: a table that is parsed from a stream needs one of its own there"
            );
            return Err(QueryError::request(what).hint(format!("give '{name}' another name")));
        }
    }
    Ok(())
}

/// Looks whether tables of such names, where they are there, are the database's or the owner's: whoever made one of them
/// would read documents of others, or say how far they were parsed.
///
/// # Errors
/// Where one is somebody else's.
pub(crate) fn check_own(engine: &Engine, table: &str, owner: Option<u32>) -> Result<()> {
    let snapshot = engine.snapshot();
    for (name, owner) in [(PROGRESS.to_string(), None), (format!("{table}{REJECTED}"), owner)] {
        let other = snapshot.table(&name).and_then(|there| there.schema().access().owner);
        if other.is_some() && other != owner {
            let what = format!("'{name}' is in the way: it is another user's, and documents would go there");
            return Err(
                QueryError::request(what).hint(format!("an admin drops '{name}', or gives it another name"))
            );
        }
    }
    Ok(())
}

/// Makes the tables that one which is parsed from a stream has beside it; the documents that could not be parsed are its
/// owner's.
///
/// # Errors
/// Those of the engine.
pub(crate) fn prepare(engine: &Engine, table: &TableSchema) -> tickstone_engine::Result<()> {
    make(engine, progress_schema()?)?;
    let rejected = rejected_schema(&format!("{}{REJECTED}", table.name()))?;
    make(engine, rejected.owned_by(table.access().owner))
}

fn progress_schema() -> tickstone_model::Result<TableSchema> {
    let builder = TableSchema::builder(PROGRESS)
        .column("ts", ColumnType::Timestamp)
        .column("key", ColumnType::Symbol)
        .column("seq", ColumnType::Int64);
    builder.timestamp("ts").partition_by(PartitionBy::None).dedup(["ts", "key"]).build()
}

fn rejected_schema(name: &str) -> tickstone_model::Result<TableSchema> {
    let builder = TableSchema::builder(name)
        .column("ts", ColumnType::Timestamp)
        .column("seq", ColumnType::Int64)
        .column("document", ColumnType::Binary)
        .column("reason", ColumnType::Varchar);
    builder.timestamp("ts").build()
}

fn number(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}

fn progress_row(key: &str, seq: u64) -> tickstone_engine::Result<RecordBatch> {
    let columns: [(&str, ArrayRef); 3] = [
        ("ts", Arc::new(TimestampNanosecondArray::from(vec![0]))),
        ("key", Arc::new(StringArray::from(vec![key]))),
        ("seq", Arc::new(Int64Array::from(vec![number(seq)]))),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

fn rejected_rows(rejected: &[Rejected]) -> tickstone_engine::Result<RecordBatch> {
    let times = rejected.iter().map(|of| of.ts_ns);
    let columns: [(&str, ArrayRef); 4] = [
        ("ts", Arc::new(TimestampNanosecondArray::from_iter_values(times))),
        ("seq", Arc::new(Int64Array::from_iter_values(rejected.iter().map(|of| number(of.seq))))),
        ("document", Arc::new(BinaryArray::from_iter_values(rejected.iter().map(|of| &of.document)))),
        ("reason", Arc::new(StringArray::from_iter_values(rejected.iter().map(|of| &of.reason)))),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}
