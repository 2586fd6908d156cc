//! [`Session`]: runs statements one after the other, each on one snapshot.
//!
//! Flow of a query: [`Statement`] -> plan (names, types) -> optimised -> physical, over one partition
//! where few rows are read, over one a core where many are -> a stream of batches. A statement that comes
//! again, literals aside, takes its physical plan from the cache (`plans`); one whose whole text comes again is not even
//! parsed ([`Session::run_known`]).

mod catalog;
mod describe;
pub(crate) mod memory;
pub(crate) mod plans;
mod progress;
mod query;
mod running;
pub(crate) mod state;
mod template;

pub(crate) use catalog::PinnedSnapshot;
pub use describe::Description;
pub(crate) use plans::{PlanCache, with_values};
pub use progress::QueryProgress;
pub(crate) use running::RunningStatements;

use crate::Database;
use crate::dialect::{self, CopySource, Statement};
use crate::error::{ErrorKind, QueryError, Result};
use crate::frame::Frame;
use crate::stack::OnEnoughStack;
use crate::statements::prepare::{Prepared, elsewhere};
use crate::system::SystemCatalog;
use crate::wanted::Within;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::execution::{SendableRecordBatchStream, SessionState};
use futures::TryStreamExt;
use memory::SessionMemory;
use running::Running;
use state::States;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tickstone_engine::{Engine, Snapshot, TableSnapshot, Transaction};
use tickstone_model::SyncPolicy;

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
    pinned: Arc<PinnedSnapshot>,
    states: States,
    pub(crate) transaction: Option<Transaction>,
    /// The sync policy of commits where the session sets one; else the table's.
    pub(crate) sync: Option<SyncPolicy>,
    pub(crate) prepared: Prepared,
    pub(crate) read_only: ReadOnly,
    /// Whether statements that no transaction holds are carried out inside one all the same, at once, as long as no
    /// insert waits in it: CREATE TABLE, UPDATE, DELETE. ROLLBACK does not take them back.
    pub changes_at_once: bool,
    memory: Arc<SessionMemory>,
    /// The statement under way, where it is one that SHOW QUERIES lists.
    running: Option<Arc<Running>>,
    /// The text that the statement under way is, where that is all there is to say about it.
    whole: Option<Arc<str>>,
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
    pub(crate) fn new(database: &Database) -> Self {
        let pinned = Arc::new(PinnedSnapshot::new(database));
        let memory = Arc::new(SessionMemory::new(&database.base_state().runtime_env().memory_pool));
        let states = States::new(database, &pinned, &memory);
        Self {
            database: database.clone(),
            pinned,
            states,
            transaction: None,
            sync: None,
            prepared: Prepared::default(),
            read_only: ReadOnly::default(),
            changes_at_once: false,
            memory,
            running: None,
            whole: None,
        }
    }

    /// The statements of a text.
    ///
    /// # Errors
    /// Where it is no SQL, with the place.
    pub fn parse(&self, sql: &str) -> Result<Vec<Statement>> {
        Ok(dialect::parse(sql)?)
    }

    /// Carries out one statement. Reads see the newest snapshot, also inside a transaction, whose
    /// inserts show when it commits.
    ///
    /// # Errors
    /// A [`QueryError`]; nothing of the statement was stored then. A transaction stays open.
    pub async fn run(&mut self, statement: Statement) -> Result<Outcome> {
        self.run_text(statement, None).await
    }

    /// As [`Self::run`]; SHOW QUERIES lists the statement by its text while it runs and while its rows are read.
    ///
    /// # Errors
    /// As [`Self::run`], and where CANCEL QUERY ended it.
    pub async fn run_text(&mut self, statement: Statement, text: Option<Arc<str>>) -> Result<Outcome> {
        // One that was dropped in its midst may have left its own.
        self.whole = None;
        self.run_listed(statement, text).await
    }

    async fn run_listed(&mut self, statement: Statement, text: Option<Arc<str>>) -> Result<Outcome> {
        let entered = self.database.running().enter(&statement, text, &self.memory);
        self.running = entered.as_ref().map(|entered| Arc::clone(entered.one()));
        let done = OnEnoughStack::new(self.run_entered(statement)).await;
        self.running = None;
        let Some(entered) = entered else { return done };
        match done {
            Ok(Outcome::Rows { schema, stream, planning, progress }) => {
                let progress = progress.of_statement(entered.one().wanted());
                let stream = entered.watch(stream, &progress);
                Ok(Outcome::Rows { schema, stream, planning, progress })
            }
            Ok(done) => Ok(done),
            Err(error) => {
                entered.failed();
                Err(error)
            }
        }
    }

    /// As [`Self::run_text`], of the one statement that a text is, without values from elsewhere: where its plan is kept
    /// [`Self::run_known`] answers the same text from then on.
    ///
    /// # Errors
    /// As [`Self::run_text`].
    pub async fn run_whole(&mut self, statement: Statement, text: Arc<str>) -> Result<Outcome> {
        self.whole = matches!(statement, Statement::Query(_)).then(|| Arc::clone(&text));
        self.run_listed(statement, Some(text)).await
    }

    /// Whether [`Self::run_known`] answers a text, as far as is known now.
    pub fn knows(&self, text: &str) -> bool {
        self.pinned.renew();
        !self.engine().is_read_only() && self.known_text(text).is_some()
    }

    /// The rows of a query by its text alone, which is not parsed; `None` where its plan is not kept, or not for tables,
    /// settings and functions as they are now.
    ///
    /// # Errors
    /// As [`Self::run_text`].
    pub async fn run_known(&mut self, text: &Arc<str>) -> Result<Option<Outcome>> {
        if self.engine().is_read_only() {
            return Ok(None);
        }
        let begun = Instant::now();
        self.pinned.renew();
        self.states.know(self.database.user_functions())?;
        let Some(known) = self.known_text(text) else { return Ok(None) };
        self.states.begin();
        let entered = self.database.running().enter_query(Arc::clone(text), &self.memory);
        self.running = Some(Arc::clone(entered.one()));
        let wanted = Arc::clone(entered.one().wanted());
        let started = Within::new(Some(wanted), async { self.start_known(&known) });
        let started = OnEnoughStack::new(started).await;
        self.running = None;
        match started.unwrap_or_else(Err) {
            Ok(Some((plan, stream))) => {
                self.database.plans().count(true);
                let progress = QueryProgress::of(&plan).of_statement(entered.one().wanted());
                let stream = entered.watch(stream, &progress);
                let (schema, planning) = (plan.schema(), begun.elapsed());
                Ok(Some(Outcome::Rows { schema, stream, planning, progress }))
            }
            Ok(None) => Ok(None),
            Err(error) => {
                entered.failed();
                Err(self.states.functions.explained(error))
            }
        }
    }

    async fn run_entered(&mut self, statement: Statement) -> Result<Outcome> {
        let (statement, name) = match statement {
            Statement::Execute { name, values } => (self.prepared.bound(&name, &values)?, Some(name)),
            other => (other, None),
        };
        let wanted = self.running.as_ref().map(|running| Arc::clone(running.wanted()));
        // A defect in planning must not take the program down that holds the session.
        let done = Within::new(wanted, self.carry_out(statement)).await.unwrap_or_else(Err);
        done.map_err(|error| self.states.functions.explained(error)).map_err(|error| match &name {
            Some(name) => elsewhere(error, name),
            None => error,
        })
    }

    /// Carries a statement out; where another process writes the database, on what that has written by now, and once
    /// more where it removed parts before they were opened. All parts that a query reads are opened before it gives
    /// rows.
    async fn carry_out(&mut self, statement: Statement) -> Result<Outcome> {
        if !self.engine().is_read_only() {
            return self.carry_out_now(statement).await;
        }
        self.blocking(Engine::refresh).await?;
        let mut gone = Vec::new();
        loop {
            let done = self.carry_out_now(statement.clone()).await;
            let Some(table) = done.as_ref().err().and_then(QueryError::table_of_part_gone) else {
                return done;
            };
            if gone.len() == Engine::READS_MAX {
                return done;
            }
            gone.push(table);
            let tables = gone.clone();
            self.blocking(move |engine| engine.reread(&tables)).await?;
        }
    }

    async fn carry_out_now(&mut self, mut statement: Statement) -> Result<Outcome> {
        self.pinned.renew();
        self.states.know(self.database.user_functions())?;
        self.states.begin();
        self.prepare_names(&mut statement)?;
        match statement {
            Statement::Query(query) => self.run_query(*query).await,
            other => crate::statements::run(self, other).await,
        }
    }

    /// Puts views' queries in their places, and gives names the spelling of what they refer to.
    ///
    /// # Errors
    /// Where the query of a view is none, and at a call with a clause that its function does not heed.
    pub(crate) fn prepare_names(&self, statement: &mut Statement) -> Result<()> {
        let snapshot = self.snapshot();
        dialect::expand_views(statement, &|name| {
            let schema = snapshot.table(name)?.schema();
            Some((schema.name().to_string(), schema.view()?.to_string()))
        })?;
        let tables = |name: &str| match snapshot.table(name) {
            Some(table) => Some(spelling(table)),
            None => match self.pinned.frame(name) {
                Some(frame) => Some(spelling_of_frame(&frame)),
                None => self.pinned.system_columns(name),
            },
        };
        Ok(dialect::resolve_names(statement, &tables, &|name| self.states.callable(name))?)
    }

    /// As [`Self::parse`], each statement with its own part of the text, for [`Self::run_text`].
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_with_texts(&self, sql: &str) -> Result<Vec<(Arc<str>, Statement)>> {
        Ok(dialect::parse_with_texts(sql)?)
    }

    /// Carries out the one statement of a text and collects its rows.
    ///
    /// # Errors
    /// Those of [`Self::parse`] and [`Self::run`]; where the text is not one statement.
    pub async fn query(&mut self, sql: &str) -> Result<Vec<RecordBatch>> {
        let text: Arc<str> = sql.into();
        if let Some(Outcome::Rows { stream, .. }) = self.run_known(&text).await? {
            return Ok(stream.try_collect().await?);
        }
        let mut statements = self.parse(sql)?;
        let (Some(statement), true) = (statements.pop(), statements.is_empty()) else {
            return Err(QueryError::request("the text must hold exactly one statement"));
        };
        match self.run_whole(statement, text).await? {
            Outcome::Rows { stream, .. } => Ok(stream.try_collect().await?),
            Outcome::Done { .. } => Ok(Vec::new()),
        }
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
        let snapshot = self.database.snapshot().unwrap_or_else(|_| self.engine().snapshot());
        let is_there = |name: &str| snapshot.table(name).is_some() || self.pinned.frame(name).is_some();
        dialect::tables_read(self.executed(statement)).into_iter().filter(|name| !is_there(name)).collect()
    }

    /// Adds rows to the open transaction.
    ///
    /// # Errors
    /// Where no transaction is open, and those of [`Transaction::append`]: what was added before stays.
    pub fn append(&mut self, table: &str, rows: &RecordBatch) -> Result<()> {
        match &mut self.transaction {
            Some(open) => Ok(open.append(table, rows)?),
            None => Err(QueryError::request("no transaction is open").hint("BEGIN starts one")),
        }
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
        self.states = States::new(&self.database, &self.pinned, &self.memory);
        self.sync = None;
        self.read_only.session = false;
    }

    /// Has the tables and functions of another system's catalog as `system` shows them; settings are as when it began.
    pub fn set_system(&mut self, system: Arc<dyn SystemCatalog>) {
        self.pinned.set_system(system);
        self.reset();
    }

    /// Has everything as when it began: settings, prepared statements, the open transaction.
    pub(crate) fn discard(&mut self) {
        self.reset();
        self.prepared = Prepared::default();
        self.transaction = None;
    }

    /// The query of what COPY … TO writes.
    ///
    /// # Errors
    /// Where there is no such table.
    pub fn rows_of(&self, source: CopySource) -> Result<Statement> {
        self.pinned.renew();
        Ok(Statement::Query(Box::new(crate::statements::query_of(self, source)?)))
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

    /// What its queries are planned with.
    pub(crate) fn state(&self) -> &SessionState {
        &self.states.narrow
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
        Ok(done?)
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
