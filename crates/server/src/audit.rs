//! The audit log: who did what, from where, and what came of it, as rows of the table `audit`.
//!
//! ```text
//! statements, logins ─► queue ─┐
//! rows that come ─► sums ──────┴► one thread: a commit every COMMIT_EVERY ─► the table, never changed, dropped by age
//! ```
//!
//! The log has commits of its own and nobody waits for them, so that it is never in the way of rows that come. Where
//! `audit_required` is set, statements and rows are refused while it cannot be written.

use crate::metrics::{Counter, Metrics};
use crate::settings::{SettingError, Settings};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tickstone_engine::{Engine, EngineError};
use tickstone_model::{Column, ColumnType, SyncPolicy, Ttl};
use tickstone_query::arrow::array::{
    ArrayRef, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray,
};
use tickstone_query::audit::{Auditor, Deed, Origin};
use tickstone_query::{Database, ErrorKind, QueryError, SqlState};
use tracing::{error, warn};

/// What the table is called.
const TABLE: &str = "audit";
/// How long deeds wait for others to be committed with them.
const COMMIT_EVERY: Duration = Duration::from_millis(100);
/// How often the rows that came are summed up in one deed for each user, address and table.
const SUM_EVERY: Duration = Duration::from_secs(10);
/// How long a commit that failed waits to be tried again.
const RETRY_EVERY: Duration = Duration::from_secs(1);
/// Most deeds that wait; more are lost, and counted, or refused.
const WAITING_MAX: usize = 100_000;
/// Most deeds of a commit.
const COMMIT_MAX: usize = 10_000;
/// The longest text of a statement that is kept, in characters.
const TEXT_CHARS: usize = 10_000;
/// How often the log of the server says that the audit log cannot be written.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// A deed, and when it was done (ns since the Unix epoch).
type Dated = (i64, Deed);

/// Rows that came, by the user, the origin, and what they were added to.
type Sums = BTreeMap<(Arc<str>, Origin, String), u64>;

/// The audit log of a server that runs.
#[derive(Debug)]
pub(crate) struct Audit {
    shared: Arc<Kept>,
    /// Gone once the server stops.
    send: Mutex<Option<Sender<Dated>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Kept {
    metrics: Arc<Metrics>,
    /// Whether statements that only read are in it.
    reads: bool,
    required: bool,
    waiting: AtomicUsize,
    /// Whether the last commit failed.
    failed: AtomicBool,
    sums: Mutex<Sums>,
    /// Whether the server stops.
    ending: AtomicBool,
}

impl Kept {
    fn is_full(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) >= WAITING_MAX
    }
}

/// The columns of the table, the designated timestamp first.
fn columns() -> Vec<Column> {
    let column = |name: &str, column_type| Column::new(name, column_type);
    vec![
        column("ts", ColumnType::Timestamp),
        column("user_name", ColumnType::Symbol),
        column("protocol", ColumnType::Symbol),
        column("address", ColumnType::Symbol),
        column("kind", ColumnType::Symbol),
        column("text", ColumnType::Varchar),
        column("rows", ColumnType::Int64),
        column("micros", ColumnType::Int64),
        column("state", ColumnType::Symbol),
        column("message", ColumnType::Varchar),
    ]
}

impl Audit {
    /// The audit log of a database, kept from now on; `None` where the settings want none.
    ///
    /// # Errors
    /// Where the table cannot be made, or a setting is none.
    pub(crate) fn begin(
        database: &Database,
        settings: &Settings,
        metrics: &Arc<Metrics>,
    ) -> Result<Option<Arc<Self>>, SettingError> {
        let wanted = settings.text("audit");
        if wanted == "off" {
            if settings.switch("audit_required") {
                return Err(SettingError::new(
                    "audit_required = true, and audit = off keeps nothing: set audit = changes, or all",
                ));
            }
            return Ok(None);
        }
        let ttl = Some(settings.text("audit_ttl")).filter(|ttl| *ttl != "0").map(Ttl::parse).transpose();
        let wrong = |error: &dyn std::fmt::Display| SettingError::new(format!("audit = {wanted}: {error}"));
        let ttl = ttl.map_err(|error| wrong(&error))?;
        let engine = database.engine().clone();
        let table = engine.keep_audit(&columns(), ttl).map_err(|error| match error {
            EngineError::TableExists { name } => {
                let there = engine.snapshot().table(&name).map(|there| Arc::clone(there.schema()));
                let what = match there.filter(|there| there.view().is_some()) {
                    Some(_) => format!(
                        "a view '{name}' has the name of the audit log: make it under another and drop this one first: tickstone sql --data … -c \"DROP VIEW {name}\""
                    ),
                    None => format!(
                        "a table '{name}' has the name of the audit log: rename it first: tickstone sql --data … -c \"ALTER TABLE {name} RENAME TO …\""
                    ),
                };
                wrong(&what)
            }
            error => wrong(&error),
        })?;
        let kept = Arc::new(Kept {
            metrics: Arc::clone(metrics),
            reads: wanted == "all",
            required: settings.switch("audit_required"),
            waiting: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
            sums: Mutex::default(),
            ending: AtomicBool::new(false),
        });
        let (send, receive) = channel();
        let writer = Writer { engine, table, kept: Arc::clone(&kept), warned: None };
        let thread = std::thread::Builder::new().name("tickstone-audit".into());
        let thread = thread.spawn(move || writer.run(&receive)).map_err(|error| wrong(&error))?;
        let audit = Self { shared: kept, send: Mutex::new(Some(send)), thread: Mutex::new(Some(thread)) };
        Ok(Some(Arc::new(audit)))
    }

    /// Writes what is left, as far as it can be written, and ends.
    pub(crate) fn end(&self) {
        self.shared.ending.store(true, Ordering::SeqCst);
        self.send.lock().unwrap_or_else(PoisonError::into_inner).take();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Auditor for Audit {
    fn wants(&self, only_reads: bool) -> bool {
        self.shared.reads || !only_reads
    }

    fn check(&self) -> Result<(), QueryError> {
        let kept = &self.shared;
        if !kept.required || !(kept.failed.load(Ordering::Relaxed) || kept.is_full()) {
            return Ok(());
        }
        let what = "the audit log cannot be written, and nothing is done without it (audit_required)";
        let hint = "is the disk full? the log of the server says why";
        Err(QueryError::new(ErrorKind::Retry, what).state(SqlState::DiskFull).hint(hint))
    }

    fn note(&self, deed: Deed) {
        let kept = &self.shared;
        if kept.is_full() {
            kept.metrics.add(Counter::AuditLost, 1);
            return;
        }
        let send = self.send.lock().unwrap_or_else(PoisonError::into_inner);
        if send.as_ref().is_some_and(|send| send.send((now(), deed)).is_ok()) {
            kept.waiting.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn added(&self, user: &Arc<str>, origin: Origin, to: &str, rows: u64) {
        let mut sums = self.shared.sums.lock().unwrap_or_else(PoisonError::into_inner);
        *sums.entry((Arc::clone(user), origin, to.to_string())).or_default() += rows;
    }
}

/// What writes deeds down, on a thread of its own.
struct Writer {
    engine: Engine,
    table: u32,
    kept: Arc<Kept>,
    warned: Option<Instant>,
}

impl Writer {
    fn run(mut self, receive: &Receiver<Dated>) {
        let (mut deeds, mut summed, mut open) = (Vec::new(), Instant::now(), true);
        while open || !deeds.is_empty() {
            if open && deeds.is_empty() {
                match receive.recv_timeout(SUM_EVERY.saturating_sub(summed.elapsed())) {
                    Ok(deed) => {
                        deeds.push(deed);
                        std::thread::sleep(COMMIT_EVERY);
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => open = false,
                }
            }
            deeds.extend(receive.try_iter().take(COMMIT_MAX.saturating_sub(deeds.len())));
            let waited = deeds.len();
            if summed.elapsed() >= SUM_EVERY || !open {
                summed = Instant::now();
                deeds.extend(self.sums());
            }
            if deeds.is_empty() {
                continue;
            }
            match self.commit(&deeds) {
                Ok(()) => {
                    self.kept.failed.store(false, Ordering::Relaxed);
                    self.kept.metrics.add(Counter::AuditDeeds, deeds.len() as u64);
                    self.kept.waiting.fetch_sub(waited, Ordering::Relaxed);
                    deeds.clear();
                }
                Err(why) => {
                    self.kept.failed.store(true, Ordering::Relaxed);
                    self.warn(&why);
                    // What waits to be tried again does not hear that nobody sends any more.
                    if !open || self.kept.ending.load(Ordering::SeqCst) {
                        error!(
                            deeds = deeds.len(),
                            "the server ends, and what the audit log lacks is lost: {why}"
                        );
                        self.kept.metrics.add(Counter::AuditLost, deeds.len() as u64);
                        return;
                    }
                    // What was summed up is counted among those that wait, too: it is not summed again.
                    self.kept.waiting.fetch_add(deeds.len() - waited, Ordering::Relaxed);
                    std::thread::sleep(RETRY_EVERY);
                }
            }
        }
    }

    fn warn(&mut self, why: &QueryError) {
        if self.warned.is_none_or(|at| at.elapsed() >= WARN_EVERY) {
            self.warned = Some(Instant::now());
            warn!("the audit log cannot be written, and is tried again: {why}");
        }
    }

    /// The rows that came since they were summed up last.
    fn sums(&self) -> Vec<Dated> {
        let sums = std::mem::take(&mut *self.kept.sums.lock().unwrap_or_else(PoisonError::into_inner));
        let deed = |((user, origin, to), rows): ((Arc<str>, Origin, String), u64)| {
            let (kind, took) = ("INGEST", Duration::ZERO);
            (now(), Deed { user, origin, kind, text: to.into(), rows, took, failure: None })
        };
        sums.into_iter().map(deed).collect()
    }

    fn commit(&self, deeds: &[Dated]) -> Result<(), QueryError> {
        let mut transaction = self.engine.begin();
        transaction.append_to(self.table, TABLE, &batch(deeds)?)?;
        transaction.commit(Some(SyncPolicy::Always))?;
        Ok(())
    }
}

fn batch(deeds: &[Dated]) -> Result<RecordBatch, QueryError> {
    let texts = |text: &dyn Fn(&Deed) -> Option<String>| -> ArrayRef {
        Arc::new(deeds.iter().map(|(_, deed)| text(deed)).collect::<StringArray>())
    };
    let numbers = |number: &dyn Fn(&Deed) -> u64| -> ArrayRef {
        let number = |(_, deed): &Dated| i64::try_from(number(deed)).unwrap_or(i64::MAX);
        Arc::new(Int64Array::from_iter_values(deeds.iter().map(number)))
    };
    let named = |text: &str| Some(text.to_string()).filter(|text| !text.is_empty());
    let micros = |deed: &Deed| u64::try_from(deed.took.as_micros()).unwrap_or(u64::MAX);
    let times = TimestampNanosecondArray::from_iter_values(deeds.iter().map(|(at, _)| *at));
    Ok(RecordBatch::try_from_iter_with_nullable([
        ("ts", Arc::new(times) as ArrayRef, true),
        ("user_name", texts(&|deed| named(&deed.user)), true),
        ("protocol", texts(&|deed| named(deed.origin.protocol)), true),
        ("address", texts(&|deed| deed.origin.address.map(|address| address.to_string())), true),
        ("kind", texts(&|deed| named(deed.kind)), true),
        ("text", texts(&|deed| Some(deed.text.chars().take(TEXT_CHARS).collect())), true),
        ("rows", numbers(&|deed| deed.rows), true),
        ("micros", numbers(&micros), true),
        (
            "state",
            texts(&|deed| Some(deed.failure.as_ref().map_or("00000", |failure| failure.0).into())),
            true,
        ),
        ("message", texts(&|deed| deed.failure.as_ref().map(|failure| failure.1.clone())), true),
    ])?)
}

/// Now, in nanoseconds since the Unix epoch.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Origin as From;
    use tickstone_query::DatabaseOptions;

    fn deed(text: &str) -> Deed {
        let failure = None;
        Deed {
            user: "ann".into(),
            origin: Origin::default(),
            kind: "SELECT",
            text: text.into(),
            rows: 1,
            took: Duration::ZERO,
            failure,
        }
    }

    #[test]
    fn what_cannot_be_kept_is_refused_where_it_must_be() {
        for required in ["true", "false"] {
            let database = Database::in_memory(DatabaseOptions::default()).expect("a database");
            let mut settings = Settings::default();
            settings.set("audit", "changes", From::Flag).expect("a setting");
            settings.set("audit_required", required, From::Flag).expect("a setting");
            let metrics = Arc::default();
            let audit = Audit::begin(&database, &settings, &metrics).expect("a table").expect("wanted");
            let rows = || database.engine().snapshot().audit().map(|table| table.rows());
            assert!(audit.check().is_ok() && audit.wants(false) && !audit.wants(true));
            audit.shared.failed.store(true, Ordering::Relaxed);
            assert_eq!(audit.check().is_err(), required == "true");
            // A commit that succeeds ends that.
            audit.note(deed("one"));
            let begun = Instant::now();
            while rows() != Some(1) && begun.elapsed() < Duration::from_secs(30) {
                std::thread::sleep(Duration::from_millis(10));
            }
            while audit.check().is_err() && begun.elapsed() < Duration::from_secs(30) {
                std::thread::sleep(Duration::from_millis(10));
            }
            audit.check().expect("it can be kept again");
            // More than may wait are counted as lost, or refused before.
            audit.shared.waiting.store(WAITING_MAX, Ordering::Relaxed);
            audit.note(deed("lost"));
            assert_eq!((metrics.get(Counter::AuditLost), audit.check().is_err()), (1, required == "true"));
            audit.shared.waiting.store(0, Ordering::Relaxed);
            // The end writes down what is left, also the sums of rows.
            audit.added(&"feed".into(), Origin::default(), "t", 5);
            audit.added(&"feed".into(), Origin::default(), "t", 7);
            audit.note(deed("two"));
            audit.end();
            assert_eq!(rows(), Some(3));
            audit.note(deed("late"));
            assert_eq!(rows(), Some(3));
        }
    }
}
