//! [`Database`]: the one way in for the server, the command line and every binding.

use crate::access::accounts::Accounts;
use crate::access::standing::Standing;
use crate::access::{Held, Now, Who};
use crate::audit::Auditor;
use crate::dialect::Statement;
use crate::error::{QueryError, Result};
use crate::functions::user::{Function, FunctionSet, UserFunctions};
use crate::host::Host;
use crate::live::Hub;
use crate::paths::Allowed;
use crate::plans::PlanCache;
use crate::refresher::Refresher;
use crate::running::{self, RunningStatements};
use crate::shares::{STACK_BYTES, Shares};
use crate::state;
use crate::system::SystemCatalog;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::execution::SessionState;
use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};
use sysinfo::System;
use tickstone_engine::disk::{Disk, MemoryDisk};
use tickstone_engine::{Clock, Engine, EngineOptions, ErrorKind, Snapshot, SystemClock, TableSnapshot};
use tokio::runtime::{Builder, Runtime};

/// How a database is opened.
#[derive(Debug, Clone)]
pub struct DatabaseOptions {
    /// Those of the engine: memory for rows not yet sealed, sync interval, threads.
    pub engine: EngineOptions,
    /// Most memory that running queries take together, in bytes; `None`: three quarters of what the machine or the
    /// container has.
    pub query_memory_bytes: Option<usize>,
    /// Threads that run queries; `None`: one a core.
    pub query_threads: Option<usize>,
    /// Rows read from which a query runs on all threads; a smaller one on one, with less planning.
    /// Default 262,144.
    pub wide_rows_min: u64,
}

impl Default for DatabaseOptions {
    fn default() -> Self {
        let engine = EngineOptions::default();
        Self { engine, query_memory_bytes: None, query_threads: None, wide_rows_min: 1 << 18 }
    }
}

/// A setting that a program around the database shows among its own: a server's.
#[derive(Debug, Clone)]
pub struct ShownSetting {
    /// Its name.
    pub name: String,
    /// What it is.
    pub value: String,
    /// What it is where nobody says.
    pub default: String,
    /// What it is counted in; empty where that is not a number.
    pub unit: String,
    /// Who says: `default`, `option` (the program), `file`, `environment` or `flag`.
    pub origin: String,
    /// What it does.
    pub description: String,
}

/// An open database. Clones are handles on the same one; it closes with the last of them and the
/// last [`Session`](crate::Session).
#[derive(Clone)]
pub struct Database {
    /// Goes with the last handle but those of the thread of views, which ends then.
    refresher: Arc<Refresher>,
    shared: Arc<Shared>,
}

/// A handle that does not keep a database open, and does not use it either: for what a database itself holds.
#[derive(Clone)]
pub struct WeakDatabase {
    refresher: Weak<Refresher>,
    shared: Weak<Shared>,
}

struct Shared {
    host: Host,
    options: DatabaseOptions,
    /// What every session starts with.
    state: SessionState,
    schemas: MarkedSchemas,
    plans: PlanCache,
    functions: UserFunctions,
    running: Arc<RunningStatements>,
    system: OnceLock<Arc<dyn SystemCatalog>>,
    auditor: RwLock<Option<Arc<dyn Auditor>>>,
    shown_settings: OnceLock<Vec<ShownSetting>>,
    files: OnceLock<Allowed>,
    accounts: Arc<Held>,
    shares: Shares,
    threads: usize,
    /// `None` only while dropped.
    runtime: Option<Runtime>,
}

/// Three quarters of the memory that the process may have; without a limit where the system does not say.
fn default_query_memory() -> usize {
    let mut system = System::new();
    system.refresh_memory();
    let machine = Some(system.total_memory()).filter(|bytes| *bytes > 0);
    let container = system.cgroup_limits().map(|limits| limits.total_memory).filter(|bytes| *bytes > 0);
    let bytes = machine.into_iter().chain(container).min();
    bytes.and_then(|bytes| usize::try_from(bytes / 4 * 3).ok()).unwrap_or(usize::MAX)
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").finish_non_exhaustive()
    }
}

impl fmt::Debug for WeakDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakDatabase").finish_non_exhaustive()
    }
}

impl WeakDatabase {
    /// The database, while anybody uses it.
    pub fn upgrade(&self) -> Option<Database> {
        Some(Database { refresher: self.refresher.upgrade()?, shared: self.shared.upgrade()? })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.host.stop();
        // The last handle may go inside an async task, where a runtime must not wait for its threads.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Database {
    /// Opens the database in a directory for reading and writing, and makes it where there is none.
    ///
    /// # Errors
    /// Where another process writes it, its files are damaged, or the disk fails.
    pub fn open(path: impl AsRef<Path>, options: DatabaseOptions) -> Result<Self> {
        let engine = Engine::open(path.as_ref(), options.engine.clone())?;
        Self::hosted(engine, options)
    }

    /// Opens the database in a directory for reading only, also beside a process that writes it: each statement sees
    /// what that had written when the statement began.
    ///
    /// # Errors
    /// Where there is none, its files are damaged, or the disk fails; of kind `retry` where they change faster than
    /// they are read.
    pub fn open_read_only(path: impl AsRef<Path>, options: DatabaseOptions) -> Result<Self> {
        let engine = Engine::open_read_only(path.as_ref(), options.engine.clone())?;
        Self::hosted(engine, options)
    }

    /// A database in memory, gone with its last handle.
    ///
    /// # Errors
    /// Where its threads cannot be started.
    pub fn in_memory(options: DatabaseOptions) -> Result<Self> {
        Self::open_on(Arc::new(MemoryDisk::new()), Arc::new(SystemClock), options)
    }

    /// Opens a database on any disk and clock (tests, the simulator).
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_on(disk: Arc<dyn Disk>, clock: Arc<dyn Clock>, options: DatabaseOptions) -> Result<Self> {
        let engine = Engine::open_on(disk, clock, options.engine.clone())?;
        Self::hosted(engine, options)
    }

    /// The one facade over an engine that was just opened.
    fn hosted(engine: Engine, options: DatabaseOptions) -> Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = options.query_threads.unwrap_or(cores).max(1);
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("tickstone-query")
            .thread_stack_size(STACK_BYTES)
            .enable_all()
            .build()
            .map_err(|error| QueryError::new(ErrorKind::Report, format!("cannot start threads: {error}")))?;
        let memory_bytes = options.query_memory_bytes.unwrap_or_else(default_query_memory);
        crate::wanted::follow_tasks();
        let state = state::base(threads, memory_bytes)?;
        let schemas = MarkedSchemas::default();
        let (plans, functions) = (PlanCache::default(), UserFunctions::default());
        let accounts = Arc::<Held>::default();
        let host = Host::start(engine, Arc::clone(&accounts))?;
        let (running, system, shown_settings) = (Arc::default(), OnceLock::new(), OnceLock::new());
        let shared = Shared {
            host,
            options,
            state,
            schemas,
            plans,
            functions,
            running,
            system,
            auditor: RwLock::default(),
            shown_settings,
            files: OnceLock::new(),
            accounts,
            shares: Shares::default(),
            threads,
            runtime: Some(runtime),
        };
        Ok(Self { refresher: Arc::default(), shared: Arc::new(shared) })
    }

    /// Lets go of this handle and waits until nothing refers to the files any more, so that the directory
    /// can be opened again; `false` where something still does after `patience`: another handle, a
    /// session, or rows of a query that were not read to their end.
    pub fn close(self, patience: Duration) -> bool {
        const INTERVAL: Duration = Duration::from_micros(500);
        let files = self.engine().files();
        drop(self);
        let begun = Instant::now();
        while files.are_in_use() {
            if begun.elapsed() >= patience {
                return false;
            }
            std::thread::sleep(INTERVAL);
        }
        true
    }

    /// The engine below: commits, loads and snapshots without SQL.
    pub fn engine(&self) -> &Engine {
        self.shared.host.engine()
    }

    /// What jobs beside statements belong to.
    pub(crate) fn host(&self) -> &Host {
        &self.shared.host
    }

    /// A handle that does not keep it open.
    pub fn downgrade(&self) -> WeakDatabase {
        WeakDatabase { refresher: Arc::downgrade(&self.refresher), shared: Arc::downgrade(&self.shared) }
    }

    /// The newest state; beside another process that writes, with all that it has written by now.
    ///
    /// # Errors
    /// As [`Self::open_read_only`]; none where this process writes.
    pub fn snapshot(&self) -> Result<Arc<Snapshot>> {
        self.engine().refresh()?;
        Ok(self.engine().snapshot())
    }

    /// The users and roles as a snapshot has them; `None` where there never was one.
    ///
    /// # Errors
    /// Where this build cannot read them.
    pub(crate) fn accounts(&self, snapshot: &Snapshot) -> Result<Option<Arc<Now>>> {
        self.shared.accounts.of(snapshot)
    }

    /// The users and roles as they were read last.
    pub(crate) fn held_accounts(&self) -> &Held {
        &self.shared.accounts
    }

    /// Changes the users and roles: all of the change or nothing.
    ///
    /// # Errors
    /// Those of the change, and of the engine.
    pub(crate) fn change_accounts<T>(&self, change: impl FnOnce(&mut Accounts) -> Result<T>) -> Result<T> {
        self.shared.accounts.change(self.engine(), change)
    }

    /// What a user may do; `None` where that is everything.
    ///
    /// # Errors
    /// Where there is no such user any longer, or the token they came with is none.
    pub(crate) fn standing(&self, snapshot: &Snapshot, who: &Who) -> Result<Option<Arc<Standing>>> {
        if snapshot.accounts().is_none() && who.is_nobody() {
            return Ok(None);
        }
        let now = self.accounts(snapshot)?.unwrap_or_default();
        if who.is_nobody() {
            return if now.accounts.has_users() { Err(now.nobody()) } else { Ok(None) };
        }
        let standing = now.standing(who)?;
        Ok(Some(standing).filter(|standing| !standing.is_admin()))
    }

    /// Adds the tables and functions of another system's catalog, which sessions that begin from now on know; once.
    pub fn set_system(&self, system: Arc<dyn SystemCatalog>) {
        let _ = self.shared.system.set(system);
    }

    /// Has somebody keep what is told of those who use the database from now on, or nobody.
    pub fn set_auditor(&self, auditor: Option<Arc<dyn Auditor>>) {
        *self.shared.auditor.write().unwrap_or_else(PoisonError::into_inner) = auditor;
    }

    pub(crate) fn auditor(&self) -> Option<Arc<dyn Auditor>> {
        self.shared.auditor.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has SHOW CONFIG show these settings after its own; once.
    pub fn show_settings(&self, settings: Vec<ShownSetting>) {
        let _ = self.shared.shown_settings.set(settings);
    }

    /// Has statements name only these files; once. Without, they may name any that the process can reach.
    pub fn allow_files(&self, allowed: Allowed) {
        let _ = self.shared.files.set(allowed);
    }

    /// Which files statements may name.
    pub(crate) fn files(&self) -> Allowed {
        self.shared.files.get().cloned().unwrap_or_default()
    }

    /// What keeps materialized views current.
    pub(crate) fn refresher(&self) -> &Refresher {
        &self.refresher
    }

    /// A handle that does not keep the thread of views going.
    pub(crate) fn for_refresher(&self) -> Self {
        Self { refresher: Arc::default(), shared: Arc::clone(&self.shared) }
    }

    /// What hands changes to those who subscribed.
    pub(crate) fn hub(&self) -> &Arc<Hub> {
        self.shared.host.hub()
    }

    pub(crate) fn shown_settings(&self) -> &[ShownSetting] {
        self.shared.shown_settings.get().map_or(&[], Vec::as_slice)
    }

    pub(crate) fn system(&self) -> Option<&Arc<dyn SystemCatalog>> {
        self.shared.system.get()
    }

    /// Adds a function of the user's own, which the next statement of every session knows; it goes with the last
    /// handle on the database.
    ///
    /// # Errors
    /// Where SQL could not call it by its name, it takes no argument, or the name is that of another function.
    pub fn create_function(&self, function: Function) -> Result<()> {
        self.change_functions(|functions| {
            functions.create(function, false, self.base_state(), crate::dialect::is_callable)
        })
    }

    /// As [`Self::create_function`], in the place of the user's function of its name, where there is one. Statements
    /// under way go on with that.
    ///
    /// # Errors
    /// As there; the functions of the database itself keep their names.
    pub fn create_or_replace_function(&self, function: Function) -> Result<()> {
        self.change_functions(|functions| {
            functions.create(function, true, self.base_state(), crate::dialect::is_callable)
        })
    }

    /// Takes a function of the user's own away; the name is in any case.
    ///
    /// # Errors
    /// Where there is none of this name.
    pub fn remove_function(&self, name: &str) -> Result<()> {
        self.change_functions(|functions| functions.remove(name))
    }

    /// The functions of the user's own, by name.
    pub fn functions(&self) -> Vec<Arc<Function>> {
        self.user_functions().iter().map(Arc::clone).collect()
    }

    /// A number that changes with [`Self::functions`].
    pub fn functions_version(&self) -> u64 {
        self.user_functions().version
    }

    fn change_functions(&self, change: impl FnOnce(&UserFunctions) -> Result<()>) -> Result<()> {
        change(&self.shared.functions)?;
        // Kept plans hold the functions they call.
        self.shared.plans.forget_functions_before(self.functions_version());
        Ok(())
    }

    pub(crate) fn user_functions(&self) -> Arc<FunctionSet> {
        self.shared.functions.current()
    }

    /// The statements of a text, each with its own part of it, as [`Session::parse_with_texts`](crate::Session) of any
    /// session.
    ///
    /// # Errors
    /// Where it is no SQL, with the place, or has no room in the memory of queries.
    pub fn parse_with_texts(&self, sql: &str) -> Result<Vec<(Arc<str>, Statement)>> {
        running::parse_with_texts(&self.shared.state.runtime_env().memory_pool, sql)
    }

    /// The threads that run queries.
    pub fn runtime(&self) -> &Runtime {
        self.shared.runtime.as_ref().expect("taken only when the last handle is dropped")
    }

    /// What is kept of each user.
    pub(crate) fn shares(&self) -> &Shares {
        &self.shared.shares
    }

    /// How many threads run queries.
    pub(crate) fn query_threads(&self) -> usize {
        self.shared.threads
    }

    pub(crate) fn options(&self) -> &DatabaseOptions {
        &self.shared.options
    }

    pub(crate) fn plans(&self) -> &PlanCache {
        &self.shared.plans
    }

    pub(crate) fn running(&self) -> &Arc<RunningStatements> {
        &self.shared.running
    }

    pub(crate) fn base_state(&self) -> &SessionState {
        &self.shared.state
    }

    pub(crate) fn marked_schema(&self, table: &TableSnapshot) -> SchemaRef {
        self.shared.schemas.of(table)
    }
}

/// The marked edge schemas of tables, made once: a wide table has many fields.
#[derive(Debug, Default)]
struct MarkedSchemas {
    by_table: Mutex<HashMap<u32, (Arc<tickstone_model::TableSchema>, SchemaRef)>>,
}

impl MarkedSchemas {
    fn of(&self, table: &TableSnapshot) -> SchemaRef {
        let mut by_table = self.by_table.lock().unwrap_or_else(PoisonError::into_inner);
        match by_table.get(&table.id()) {
            Some((of, marked)) if Arc::ptr_eq(of, table.schema()) => Arc::clone(marked),
            _ => {
                let marked = Arc::new(crate::designated::marked_schema(table.schema()));
                by_table.insert(table.id(), (Arc::clone(table.schema()), Arc::clone(&marked)));
                marked
            }
        }
    }
}
