//! [`Database`]: the open engine, and what needs no session.

use crate::append::{self, AppendOptions};
use crate::arrow::{Batches, schema_capsule};
use crate::defect::net;
use crate::error::{self, raised};
use crate::functions::{self, Declared};
use crate::import::{self, ImportOptions};
use crate::process::InProcess;
use crate::session::{Session, SessionCell};
use crate::shared::Shared;
use crate::users::{Opened, User};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tickstone_engine::Snapshot;
use tickstone_query::designated::marked_schema;
use tickstone_query::{Database as Engine, DatabaseOptions, FunctionKind, NullHandling, QueryError, listed};

/// An open database.
#[pyclass(frozen, module = "tickstone._tickstone")]
pub(crate) struct Database {
    shared: InProcess<Arc<Shared>>,
}

impl Database {
    fn snapshot(&self, py: Python<'_>) -> PyResult<Arc<Snapshot>> {
        let engine = self.shared.get()?.engine()?;
        raised(py.detach(|| engine.snapshot()))
    }
}

#[pymethods]
impl Database {
    /// Opens a directory, or `:memory:`.
    #[new]
    #[pyo3(signature = (path, *, read_only=false, memory_budget=None, query_memory=None, threads=None, sync_interval_ms=None))]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        read_only: bool,
        memory_budget: Option<usize>,
        query_memory: Option<usize>,
        threads: Option<usize>,
        sync_interval_ms: Option<f64>,
    ) -> PyResult<Self> {
        let mut options = DatabaseOptions { query_memory_bytes: query_memory, ..DatabaseOptions::default() };
        options.query_threads = threads;
        if let Some(threads) = threads {
            options.engine.threads = threads.max(1);
        }
        if let Some(bytes) = memory_budget {
            options.engine.memory_budget_bytes = bytes;
        }
        if let Some(millis) = sync_interval_ms {
            let interval = Duration::try_from_secs_f64(millis / 1e3);
            let wrong = |_| pyo3::exceptions::PyValueError::new_err("sync_interval_ms is a positive number");
            options.engine.sync_interval = interval.map_err(wrong)?;
        }
        let open = || match (path.to_str(), read_only) {
            (Some(":memory:"), true) => Err(QueryError::request("a database in memory cannot be read-only")),
            (Some(":memory:"), false) => Engine::in_memory(options),
            (_, true) => Engine::open_read_only(&path, options),
            (_, false) => Engine::open(&path, options),
        };
        let engine = py.detach(|| net(|| raised(open())))?;
        Ok(Self { shared: InProcess::new(Arc::new(Shared::new(engine))) })
    }

    /// Closes it: every session and query of it raises `ClosedError` from now on.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let shared = self.shared.get()?;
        py.detach(|| {
            net(|| {
                shared.close();
                Ok(())
            })
        })
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> PyResult<bool> {
        Ok(self.shared.get()?.users().is_closed())
    }

    /// A new session: its own transaction and settings.
    fn session(&self, py: Python<'_>) -> PyResult<Session> {
        let shared = self.shared.get()?;
        let cell = py.detach(|| {
            let session = shared.engine()?.session();
            let cell = Arc::new(SessionCell::new(session, shared));
            let user: Weak<dyn User> = Arc::downgrade(&cell) as _;
            shared.users().add(user);
            Ok::<_, PyErr>(cell)
        })?;
        Ok(Session::new(cell))
    }

    /// Names of the tables.
    fn tables(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let snapshot = self.snapshot(py)?;
        Ok(listed(&snapshot)
            .filter(|table| table.schema().view().is_none())
            .map(|table| table.schema().name().to_string())
            .collect())
    }

    /// Name, designated timestamp, series key, partition length, sync policy and row count of a table,
    /// `None` where there is none of this name.
    fn describe<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyDict>>> {
        let snapshot = self.snapshot(py)?;
        let Some(table) = snapshot.table(name) else { return Ok(None) };
        let schema = table.schema();
        let name_of = |index: usize| schema.columns()[index].name.clone();
        let described = PyDict::new(py);
        described.set_item("name", schema.name())?;
        described.set_item("timestamp", schema.timestamp().map(name_of))?;
        described.set_item("series", schema.series().iter().map(|at| name_of(*at)).collect::<Vec<_>>())?;
        described.set_item("partition_by", schema.partition_by().name().to_lowercase())?;
        described.set_item("sync", schema.sync().name())?;
        described.set_item("rows", table.rows())?;
        let columns = schema.columns().iter();
        let columns: Vec<_> = columns.map(|c| (c.name.clone(), c.column_type.to_string())).collect();
        described.set_item("columns", columns)?;
        Ok(Some(described))
    }

    /// A table's Arrow schema as a capsule.
    fn table_schema<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyCapsule>> {
        let snapshot = self.snapshot(py)?;
        let table = snapshot.table(name);
        let table = table.ok_or_else(|| error::request(&format!("table '{name}' does not exist"), None))?;
        schema_capsule(py, &marked_schema(table.schema()))
    }

    /// Appends the rows of an Arrow stream in one commit; how many rows.
    #[pyo3(signature = (table, source, *, timestamp=None, series=None, partition_by=None, create=false, sync=None))]
    #[allow(clippy::too_many_arguments)]
    fn append(
        &self,
        py: Python<'_>,
        table: String,
        source: &Bound<'_, PyAny>,
        timestamp: Option<String>,
        series: Option<Vec<String>>,
        partition_by: Option<String>,
        create: bool,
        sync: Option<String>,
    ) -> PyResult<u64> {
        let engine = self.shared.get()?.engine()?;
        let options = AppendOptions { timestamp, series, partition_by, create, sync };
        net(|| append::append(py, engine, table, Batches::of(source)?, options))
    }

    /// Imports files; the report as a dict.
    #[pyo3(signature = (paths, table, *, format=None, timestamp=None, series=None, types=None, rename=None, partition_by=None, bad_rows=None, again=false, progress=None))]
    #[allow(clippy::too_many_arguments)]
    fn import_files<'py>(
        &self,
        py: Python<'py>,
        paths: Vec<PathBuf>,
        table: String,
        format: Option<String>,
        timestamp: Option<String>,
        series: Option<Vec<String>>,
        types: Option<Vec<(String, String)>>,
        rename: Option<Vec<(String, String)>>,
        partition_by: Option<String>,
        bad_rows: Option<String>,
        again: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let engine = self.shared.get()?.engine()?;
        let options =
            ImportOptions { format, timestamp, series, types, rename, partition_by, bad_rows, again };
        net(|| import::import(py, &engine, paths, table, options, progress))
    }

    /// Adds a function; `call` takes the arguments as a list of columns, for an aggregate also where groups begin and
    /// end, and gives an array. Types are anything with `__arrow_c_schema__`.
    #[pyo3(signature = (name, call, parameters, returns, *, kind, special_nulls, side_effects, replace))]
    #[allow(clippy::too_many_arguments)]
    fn create_function(
        &self,
        py: Python<'_>,
        name: &str,
        call: Py<PyAny>,
        parameters: Vec<Bound<'_, PyAny>>,
        returns: &Bound<'_, PyAny>,
        kind: &str,
        special_nulls: bool,
        side_effects: bool,
        replace: bool,
    ) -> PyResult<()> {
        let engine = self.shared.get()?.engine()?;
        let kind = [FunctionKind::Scalar, FunctionKind::Aggregate, FunctionKind::Window]
            .into_iter()
            .find(|known| known.name() == kind)
            .ok_or_else(|| {
                let message = format!("kind is 'scalar', 'aggregate' or 'window', not '{kind}'");
                pyo3::exceptions::PyValueError::new_err(message)
            })?;
        let nulls = if special_nulls { NullHandling::Special } else { NullHandling::Default };
        let declared = Declared { kind, nulls, side_effects };
        let function = functions::function(name, call, &parameters, returns, &declared)?;
        let create = || match replace {
            true => engine.create_or_replace_function(function),
            false => engine.create_function(function),
        };
        py.detach(|| net(|| raised(create())))
    }

    /// Takes a function away.
    fn remove_function(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let engine = self.shared.get()?.engine()?;
        py.detach(|| net(|| raised(engine.remove_function(name))))
    }

    /// Seals recent rows of one table, or of all, into parts.
    #[pyo3(signature = (table=None))]
    fn seal(&self, py: Python<'_>, table: Option<String>) -> PyResult<()> {
        let engine = self.shared.get()?.engine()?;
        let seal = || raised(engine.engine().seal(table.as_deref()).map_err(QueryError::from));
        py.detach(|| net(seal))
    }
}
