//! [`Session`]: runs statements one after the other, each on one snapshot.
//!
//! Flow of a query: [`Statement`] -> plan (names, types) -> optimised -> physical, over one partition
//! where few rows are read, over one a core where many are -> a stream of batches. A statement that comes
//! again, literals aside, takes its physical plan from the cache (`plans`); one whose whole text comes again is not even
//! parsed ([`Session::run_known`]).

mod catalog;
mod describe;
mod entitled;
mod explained;
mod fields;
mod gate;
mod pivots;
mod prepared;
mod query;
mod released;
pub(crate) mod state;
mod temporaries;
mod transaction;
mod views;

pub(crate) use catalog::PinnedSnapshot;
pub use describe::Description;
pub(crate) use describe::inspected_schema;
pub use entitled::Entitlement;
pub(crate) use prepared::{Prepared, elsewhere};
pub(crate) use released::released_batch;
pub(crate) use transaction::OpenTransaction;
pub(crate) use views::{Reading, frozen_buckets, stale_buckets, whole_buckets};

use crate::access::Who;
use crate::audit::Origin;
use crate::database::Database;
use crate::dialect::{self, Callable, Statement, own_of_rightful};
use crate::entrance::{Access, without_hidden_views};
use crate::error::{ErrorKind, QueryError, Result};
use crate::export::Room;
use crate::frame::Frame;
use crate::in_place::FileTable;
use crate::running::{self, QueryProgress, Running, SessionMemory, WaitingRows};
use crate::system::SystemCatalog;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, SessionState};
use gate::{Met, reading_right};
use state::{ShowFunctions, States};
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use temporaries::Temporaries;
use tickstone_engine::{Engine, EngineError, Snapshot, TableSnapshot};
use tickstone_model::{Rights, SyncPolicy};

/// What a statement gave.
pub enum Outcome {
    /// Rows of a query.
    Rows {
        /// Their columns.
        schema: SchemaRef,
        /// The rows; nothing is read before it is polled.
        stream: SendableRecordBatchStream,
        /// Time from the statement to its physical plan.
        planning: Duration,
        /// How far it is, while the rows are read.
        progress: QueryProgress,
    },
    /// A statement that gives no rows was carried out.
    Done {
        /// What it was: "CREATE TABLE", "INSERT", …
        tag: String,
        /// Rows stored or written, where it did that.
        rows: Option<u64>,
    },
}

impl Outcome {
    pub(crate) fn done(tag: &str) -> Self {
        Outcome::Done { tag: tag.to_string(), rows: None }
    }

    pub(crate) fn rows(tag: &str, rows: u64) -> Self {
        Outcome::Done { tag: tag.to_string(), rows: Some(rows) }
    }
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Rows { schema, planning, .. } => {
                f.debug_struct("Rows").field("schema", schema).field("planning", planning).finish()
            }
            Outcome::Done { tag, rows } => {
                f.debug_struct("Done").field("tag", tag).field("rows", rows).finish()
            }
        }
    }
}

/// One user's line of statements, with its own transaction and settings.
pub struct Session {
    pub(crate) database: Database,
    pub(crate) pinned: Arc<PinnedSnapshot>,
    pub(crate) states: States,
    shows: ShowFunctions,
    pub(crate) transaction: Option<OpenTransaction>,
    /// The sync policy of commits where the session sets one; else the table's.
    pub(crate) sync: Option<SyncPolicy>,
    pub(crate) prepared: Prepared,
    pub(crate) temporaries: Temporaries,
    pub(crate) read_only: ReadOnly,
    /// Whether statements that no transaction holds are carried out inside one all the same, at once, as long as no
    /// insert waits in it: CREATE TABLE, UPDATE, DELETE. ROLLBACK does not take them back.
    pub changes_at_once: bool,
    pub(crate) memory: Arc<SessionMemory>,
    /// The statement under way, where it is one that SHOW QUERIES lists.
    pub(crate) running: Option<Arc<Running>>,
    /// The text that the statement under way is, where that is all there is to say about it.
    pub(crate) whole: Option<Arc<str>>,
}

/// Whether statements may change what the database holds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ReadOnly {
    /// In all transactions that do not say it themselves.
    pub(crate) session: bool,
    /// In the one that is open, where it says so.
    pub(crate) transaction: Option<bool>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("in_transaction", &self.in_transaction()).finish_non_exhaustive()
    }
}

impl Session {
    pub(crate) fn new(database: &Database, who: Option<Who>, origin: Origin, shows: ShowFunctions) -> Self {
        let known = who.clone().filter(|who| !who.is_nobody());
        let user = known.as_ref().map(|who| who.user);
        let pinned = Arc::new(PinnedSnapshot::new(database, who));
        let memory = Arc::new(SessionMemory::new(
            &database.base_state().runtime_env().memory_pool,
            known,
            origin,
            user.map(|user| database.shares().memory(user)),
        ));
        let states = States::new(database, &pinned, &memory, shows, user);
        Self {
            database: database.clone(),
            pinned,
            states,
            shows,
            transaction: None,
            sync: None,
            prepared: Prepared::default(),
            temporaries: Temporaries::default(),
            read_only: ReadOnly::default(),
            changes_at_once: false,
            memory,
            running: None,
            whole: None,
        }
    }

    /// Another session with the same settings.
    pub(crate) fn beside(&self) -> Self {
        let mut other =
            Self::new(&self.database, self.pinned.who().cloned(), self.memory.origin(), self.shows);
        other.states.set_all(&self.states);
        other
    }

    /// Lets go of the snapshot of the statement under way: the next one has its own.
    pub(crate) fn let_go(&self) {
        self.pinned.let_go();
    }

    /// The statements of a text.
    ///
    /// # Errors
    /// Where it is no SQL, with the place.
    pub fn parse(&self, sql: &str) -> Result<Vec<Statement>> {
        let _held = self.claim_text(sql, running::PARSED)?;
        Ok(dialect::parse(sql)?)
    }

    /// Claims what a long text becomes, `times` its length, of the memory of queries.
    ///
    /// # Errors
    /// Where that has no room.
    pub(crate) fn claim_text(&self, text: &str, times: usize) -> Result<Option<MemoryReservation>> {
        running::claim_text(&(Arc::clone(&self.memory) as _), text, times)
    }

    /// A claim on the memory of queries that has nothing yet, for `what`.
    pub(crate) fn held_for(&self, what: &str) -> MemoryReservation {
        let memory: Arc<dyn MemoryPool> = Arc::clone(&self.memory) as _;
        MemoryConsumer::new(what).register(&memory)
    }

    /// Where row groups of Parquet wait that its statements write: they count towards the memory of queries.
    pub fn room_to_write(&self) -> Room {
        Room::counted(&(Arc::clone(&self.memory) as _))
    }

    /// Where rows of its statements wait for their reader: what is handed over counts towards the memory of queries.
    pub fn waiting_rows(&self) -> WaitingRows {
        WaitingRows::new(&self.memory, self.database.running())
    }

    /// Whether [`Self::run_known`] answers a text, as far as is known now.
    pub fn knows(&self, text: &str) -> bool {
        self.renew().is_ok() && !self.engine().is_read_only() && self.known_text(&text.into()).is_some()
    }

    /// Has the next statement see the newest snapshot, as its user may.
    ///
    /// # Errors
    /// Where the user may not do anything any longer.
    pub(crate) fn renew(&self) -> Result<()> {
        self.pinned.renew(&self.temporaries.stored())?;
        let standing = self.standing();
        let limits = standing.as_ref().map(|standing| &standing.limits);
        self.memory.limit(limits.and_then(|limits| limits.query_memory()));
        if let Some(user) = self.owner() {
            self.database.shares().limit_disk(user, limits.and_then(|limits| limits.temp_disk()));
        }
        Ok(())
    }

    /// Puts views' queries in their places, and gives names the spelling of what they refer to.
    ///
    /// # Errors
    /// Where the query of a view is none, and at a call with a clause that its function does not heed.
    pub(crate) fn prepare_names(&self, statement: &mut Statement) -> Result<()> {
        self.prepare_names_told(statement, Reading::Current).map(|_| ())
    }

    /// As [`Self::prepare_names`]; whether the statement reads a materialized view.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn prepare_names_told(&self, statement: &mut Statement, reading: Reading) -> Result<bool> {
        let materialized = self.expand(statement, reading)?;
        self.resolve(statement)?;
        Ok(materialized)
    }

    /// As [`Self::prepare_names`], of a statement that runs, so that what its text leaves open can be found: the values of
    /// a PIVOT, the fields of a struct. Whether its text alone does not say what is read.
    ///
    /// # Errors
    /// As there, and those of finding them.
    pub(crate) async fn prepare(&mut self, statement: &mut Statement) -> Result<bool> {
        let materialized = self.expand(statement, Reading::Current)?;
        let found = self.find_values(statement).await?;
        self.find_fields(statement).await?;
        self.resolve(statement)?;
        Ok(materialized || found)
    }

    /// Has a statement name the session's own tables as the database does.
    ///
    /// # Errors
    /// Where it makes a view of one.
    pub(crate) fn name_temporaries(&self, statement: &mut Statement) -> Result<()> {
        if self.temporaries.is_empty() {
            return Ok(());
        }
        let read = Cell::new(None);
        let find = |name: &str| {
            let stored = self.temporaries.stored_as(name)?;
            read.set(Some(name.to_string()));
            Some(stored.to_string())
        };
        let reads = dialect::name_temporaries(statement, &find);
        let makes_view = matches!(statement, Statement::CreateView(_) | Statement::CreateMaterializedView(_));
        match read.take().filter(|_| reads && makes_view) {
            None => Ok(()),
            Some(name) => {
                let what = format!("a view is of all sessions, and table '{name}' of this one alone");
                Err(QueryError::request(what).hint("CREATE TABLE without TEMP makes one that views may read"))
            }
        }
    }

    /// The database's name for a table: another than the session's where it is one of its own.
    pub fn stored_name(&self, table: &str) -> String {
        self.temporaries.stored_as(table).unwrap_or(table).to_string()
    }

    /// Whether the session alone has a table of this name.
    pub fn has_temporary(&self, table: &str) -> bool {
        self.temporaries.stored_as(table).is_some()
    }

    /// Puts views' queries and files in their places; whether the statement reads a materialized view.
    fn expand(&self, statement: &mut Statement, reading: Reading) -> Result<bool> {
        let (met, right) = (Met::default(), reading_right(statement));
        let placed = dialect::expand_views(statement, &|name, reads_as| {
            self.finds(name, reads_as, right, reading, &met)
        });
        if let Some(refused) = met.refused.take() {
            return Err(refused);
        }
        placed?;
        self.place_files(statement, &self.snapshot())?;
        Ok(met.materialized.get())
    }

    /// Gives names the spelling of what they refer to.
    fn resolve(&self, statement: &mut Statement) -> Result<()> {
        let snapshot = self.snapshot();
        dialect::mend_catalog(statement, &|name| self.pinned.is_system_table(name));
        let full = self.pinned.full();
        let rightful = |name: &str| {
            let own = own_of_rightful(name)?;
            full.table(own).or_else(|| views::stored(&full, own))
        };
        // As in PostgreSQL, whose search path has its catalog first: a table that somebody gave such a name does not take
        // the catalog from others.
        let tables = |name: &str| match rightful(name).or_else(|| snapshot.table(name)) {
            _ if self.pinned.is_system_table(name) => self.pinned.system_columns(name),
            Some(table) if own_of_rightful(name).is_some() => Some((name.to_string(), spelling(table).1)),
            Some(table) => Some(spelling(table)),
            None => {
                match (self.pinned.frame(name), views::stored(&snapshot, name), self.pinned.files(name)) {
                    (Some(frame), ..) => Some(spelling_of_frame(&frame)),
                    (None, Some(table), _) => Some((name.to_string(), spelling(table).1)),
                    (None, None, Some(files)) => {
                        let columns = files.schema().fields().iter().map(|field| field.name().clone());
                        Some((name.to_string(), columns.collect()))
                    }
                    (None, None, None) => self.pinned.system_columns(name),
                }
            }
        };
        Ok(dialect::resolve_names(statement, &tables, &|name| self.callable(name))?)
    }

    /// Opens the files that a statement reads where a table could stand, and puts tables in their places.
    ///
    /// # Errors
    /// Where they may not be read, or cannot be.
    fn place_files(&self, statement: &mut Statement, snapshot: &Snapshot) -> Result<()> {
        let allowed = self.files();
        dialect::place_files(statement, &|name| snapshot.table(name).is_some(), &mut |call| {
            let name = call.to_string();
            let files = FileTable::open(call, &allowed, self.pinned.files(&name).as_ref())?;
            self.pinned.set_files(name, files);
            Ok(())
        })
    }

    /// As [`Self::parse`], each statement with its own part of the text, for [`Self::run_text`].
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_with_texts(&self, sql: &str) -> Result<Vec<(Arc<str>, Statement)>> {
        running::parse_with_texts(&(Arc::clone(&self.memory) as _), sql)
    }

    /// The tables in memory that the following statements see, in the place of those before. A table of
    /// the database comes first where names are the same.
    pub fn set_frames(&mut self, frames: Vec<Arc<Frame>>) {
        self.pinned.set_frames(frames);
    }

    /// The prepared statement that an EXECUTE names, where there is it; any other statement itself.
    pub fn executed<'a>(&'a self, statement: &'a Statement) -> &'a Statement {
        match statement {
            Statement::Execute { name, .. } => self.prepared.get(name).unwrap_or(statement),
            other => other,
        }
    }

    /// The names that a statement reads rows from and that neither the database nor a frame has. Names
    /// that WITH declares are among them.
    pub fn missing_tables(&self, statement: &Statement) -> Vec<String> {
        // Where the newest state cannot be read, the statement itself says why.
        let _ = self.database.snapshot();
        let snapshot = if self.renew().is_ok() { self.snapshot() } else { Arc::default() };
        let is_there = |name: &str| {
            let everybodys = snapshot.table(name).is_some() || self.pinned.frame(name).is_some();
            everybodys || self.has_temporary(name)
        };
        dialect::tables_read(self.executed(statement)).into_iter().filter(|name| !is_there(name)).collect()
    }

    /// Adds rows to the open transaction.
    ///
    /// # Errors
    /// Where no transaction is open, and those of [`Transaction::append`]: what was added before stays.
    pub fn append(&mut self, table: &crate::Reached, rows: &RecordBatch) -> Result<()> {
        self.hold_for_transaction(rows)?;
        let count = rows.num_rows() as u64;
        match &mut self.transaction {
            Some(open) => {
                open.waiting.append_to(table.id, table.schema.name(), rows)?;
                open.goes_into(table, Rights::INSERT, count);
                self.access().charge(count);
                Ok(())
            }
            None => Err(QueryError::request("no transaction is open").hint("BEGIN starts one")),
        }
    }

    /// Counts rows that wait for COMMIT towards the user's limit of memory, where there is one.
    ///
    /// # Errors
    /// Where there is no room for them.
    pub(crate) fn hold_for_transaction(&mut self, rows: &RecordBatch) -> Result<()> {
        let Some(mut open) = self.transaction.take() else { return Ok(()) };
        let grown = match self.memory.is_limited() {
            true => {
                let held = open.held.get_or_insert_with(|| self.held_for("the open transaction"));
                held.try_grow(rows.get_array_memory_size())
            }
            false => Ok(()),
        };
        self.transaction = Some(open);
        Ok(grown?)
    }

    /// Whether BEGIN came and neither COMMIT nor ROLLBACK yet.
    pub fn in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// Whether its statements may only read.
    pub(crate) fn is_read_only(&self) -> bool {
        match self.transaction {
            Some(_) => self.read_only.transaction.unwrap_or(self.read_only.session),
            None => self.read_only.session,
        }
    }

    /// Has all settings as they were when it began.
    pub(crate) fn reset(&mut self) {
        let user = self.owner();
        self.states = States::new(&self.database, &self.pinned, &self.memory, self.shows, user);
        self.sync = None;
        self.read_only.session = false;
    }

    /// Has the tables and functions of another system's catalog as `system` shows them; settings are as when it began.
    pub fn set_system(&mut self, system: Arc<dyn SystemCatalog>) {
        self.pinned.set_system(system);
        self.reset();
    }

    /// Has everything as when it began: settings, prepared statements, tables of its own, the open transaction.
    pub(crate) fn discard(&mut self) {
        self.reset();
        self.temporaries = Temporaries::default();
        self.prepared = Prepared::default();
        self.transaction = None;
    }

    /// The database it belongs to.
    pub fn database(&self) -> &Database {
        &self.database
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.database.engine()
    }

    /// The snapshot of the statement under way.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.pinned.get()
    }

    /// The same snapshot, whole: for what was checked.
    pub(crate) fn full_snapshot(&self) -> Arc<Snapshot> {
        self.pinned.full()
    }

    /// The access that it is a session of.
    pub fn access(&self) -> Access {
        Access::of(&self.database, self.pinned.who().cloned()).from(self.memory.origin())
    }

    /// The name of its user; `None` where nobody said who they are.
    pub fn user(&self) -> Option<&str> {
        self.pinned.who().filter(|who| !who.is_nobody()).map(Who::name)
    }

    /// The number of its user, who owns what they make.
    pub(crate) fn owner(&self) -> Option<u32> {
        self.pinned.who().filter(|who| !who.is_nobody()).map(|who| who.user)
    }

    /// What its queries are planned with.
    pub(crate) fn state(&self) -> &SessionState {
        &self.states.narrow
    }

    /// What kind of function a name (in lower case) is of.
    pub(crate) fn callable(&self, name: &str) -> Option<Callable> {
        self.states.callable(name)
    }

    /// The statement under way, where it is one that SHOW QUERIES lists.
    pub(crate) fn running(&self) -> Option<&Arc<Running>> {
        self.running.as_ref()
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<()> {
        self.states.set(name, value)
    }

    /// Runs a call that waits for the disk where no query waits behind it.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Engine) -> tickstone_engine::Result<T> + Send + 'static,
    ) -> Result<T> {
        let engine = self.engine().clone();
        let done = self.database.runtime().spawn_blocking(move || call(&engine)).await;
        let done = done.map_err(|error| {
            QueryError::new(ErrorKind::Report, format!("a statement was cut short: {error}"))
        })?;
        done.map_err(|error| self.without_hidden_views(error))
    }

    /// An error of the engine, which names no view that the user may not know of.
    pub(crate) fn without_hidden_views(&self, error: EngineError) -> QueryError {
        without_hidden_views(error, &self.engine().snapshot(), self.standing().as_deref()).into()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Whoever began it is told of nothing any more; the audit log is.
        if self.transaction.take().is_some() {
            self.access().tell("ROLLBACK", "the session ended".into(), 0, Duration::ZERO, None);
        }
    }
}

/// How a table and its columns are spelled.
fn spelling(table: &TableSnapshot) -> (String, Vec<String>) {
    let schema = table.schema();
    let columns = schema.columns().iter().map(|column| column.name.clone());
    (schema.name().to_string(), columns.collect())
}

fn spelling_of_frame(frame: &Frame) -> (String, Vec<String>) {
    let columns = frame.schema().fields().iter().map(|field| field.name().clone());
    (frame.name().to_string(), columns.collect())
}

#[cfg(test)]
mod tests;
