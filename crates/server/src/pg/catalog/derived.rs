//! What is not written down but follows: the columns of views, which their queries give, and the functions there are.
//!
//! Both are asked of a session of their own of the same database: who asks is in the middle of planning a statement, and
//! its session cannot plan another.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use tickstone_engine::Snapshot;
use tickstone_query::arrow::array::{Array, AsArray, RecordBatch};
use tickstone_query::arrow::datatypes::SchemaRef;
use tickstone_query::{Database, Session, WeakDatabase};
use tokio::runtime::{Builder, Runtime};

/// A function of SQL.
#[derive(Debug, Clone)]
pub(super) struct Routine {
    pub(super) name: String,
    /// `f`, `a` or `w`: of a row, of a group, of a window.
    pub(super) kind: &'static str,
    /// The names of what it takes.
    pub(super) arguments: Vec<String>,
    pub(super) about: Option<String>,
}

/// See the file's header.
#[derive(Debug)]
pub(super) struct Derived {
    /// The database holds this in turn.
    database: WeakDatabase,
    views: Mutex<Views>,
    routines: OnceLock<Vec<Routine>>,
}

/// Columns of views, as they are in one version of the catalog.
#[derive(Debug, Default)]
struct Views {
    version: u64,
    columns: HashMap<String, Option<SchemaRef>>,
}

impl Derived {
    pub(super) fn new(database: &Database) -> Self {
        Self { database: database.downgrade(), views: Mutex::default(), routines: OnceLock::new() }
    }

    /// The columns of a view; `None` where its query cannot be planned any more.
    pub(super) fn view(&self, name: &str, snapshot: &Snapshot) -> Option<SchemaRef> {
        let lock = || self.views.lock().unwrap_or_else(PoisonError::into_inner);
        let version = snapshot.catalog_version();
        if let Some(known) = Some(lock())
            .filter(|views| views.version == version)
            .and_then(|views| views.columns.get(name).cloned())
        {
            return known;
        }
        let columns = self.planned(name);
        let mut views = lock();
        if views.version != version {
            *views = Views { version, columns: HashMap::new() };
        }
        views.columns.insert(name.to_string(), columns.clone());
        columns
    }

    fn planned(&self, name: &str) -> Option<SchemaRef> {
        let quoted = name.replace('"', "\"\"");
        let sql = format!("SELECT * FROM \"{quoted}\"");
        self.with_session(|session, runtime| {
            let statement = session.parse(&sql).ok()?.pop()?;
            runtime.block_on(session.describe(&statement, &[])).ok()?.rows
        })?
    }

    /// All functions, by name.
    pub(super) fn routines(&self) -> &[Routine] {
        self.routines.get_or_init(|| {
            let batches = self.with_session(|session, runtime| {
                runtime.block_on(session.query("SHOW FUNCTIONS")).unwrap_or_default()
            });
            let mut routines: Vec<Routine> =
                batches.unwrap_or_default().iter().flat_map(routines_of).collect();
            routines.sort_by(|a, b| (&a.name, a.kind).cmp(&(&b.name, b.kind)));
            routines
        })
    }

    /// Calls something with a session, on a thread and a runtime of its own: the database's threads may all wait here.
    fn with_session<T: Send>(&self, call: impl FnOnce(&mut Session, &Runtime) -> T + Send) -> Option<T> {
        let database = self.database.upgrade()?;
        let run = || {
            let runtime = Builder::new_current_thread().enable_all().build().ok()?;
            Some(call(&mut database.session(), &runtime))
        };
        std::thread::scope(|scope| scope.spawn(run).join().ok()?)
    }
}

fn routines_of(batch: &RecordBatch) -> Vec<Routine> {
    let texts = |name: &str| batch.column_by_name(name).map(|column| column.as_string::<i32>().clone());
    let (Some(names), Some(kinds), Some(arguments), Some(about)) =
        (texts("function"), texts("kind"), texts("arguments"), texts("description"))
    else {
        return Vec::new();
    };
    let routine = |row: usize| Routine {
        name: names.value(row).to_string(),
        kind: match kinds.value(row) {
            "aggregate" => "a",
            "window" => "w",
            _ => "f",
        },
        arguments: if arguments.is_valid(row) { listed(arguments.value(row)) } else { Vec::new() },
        about: about.is_valid(row).then(|| about.value(row).to_string()),
    };
    (0..batch.num_rows()).map(routine).collect()
}

/// `(price, size)` as its names.
fn listed(arguments: &str) -> Vec<String> {
    let inner = arguments.trim_start_matches('(').trim_end_matches(')');
    inner.split(',').map(|name| name.trim().to_string()).filter(|name| !name.is_empty()).collect()
}
