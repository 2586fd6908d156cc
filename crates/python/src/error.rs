//! Errors of the engine as the Python exceptions of `tickstone.errors`.

use datafusion::error::DataFusionError;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use std::error::Error as _;
use tickstone_client::{ClientError, Kind};
use tickstone_engine::{EngineError, ErrorKind};
use tickstone_query::QueryError;
use tickstone_query::import::ImportError;

/// The word for what the caller can do.
pub(crate) fn kind_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Retry => "retry",
        ErrorKind::FixRequest => "fix request",
        ErrorKind::FreeSpace => "free space",
        ErrorKind::Report => "report",
    }
}

/// The exception for an error; `sql` is the text it points into. What a function of the user's raised is its cause, or
/// is raised itself where it is no `Exception`: Ctrl-C.
pub(crate) fn of_query(error: &QueryError, sql: Option<&str>) -> PyErr {
    let Some(cause) = error.source().and_then(|source| source.downcast_ref::<PyErr>()) else {
        return without_cause(error, sql);
    };
    Python::attach(|py| {
        if !cause.is_instance_of::<PyException>(py) {
            return cause.clone_ref(py);
        }
        let raised = without_cause(error, sql);
        raised.set_cause(py, Some(cause.clone_ref(py)));
        raised
    })
}

/// A result of the facade as Python has it.
pub(crate) fn raised<T>(result: tickstone_query::Result<T>) -> PyResult<T> {
    result.map_err(|error| of_query(&error, None))
}

fn without_cause(error: &QueryError, sql: Option<&str>) -> PyErr {
    let storage =
        error.source().and_then(|source| source.downcast_ref::<EngineError>()).is_some_and(is_storage);
    let class = match (storage, sql) {
        (true, _) => "StorageError",
        (false, Some(_)) => "SqlError",
        (false, None) => "Error",
    };
    Raised {
        class,
        kind: error.kind,
        message: &error.message,
        detail: error.detail.as_deref(),
        hint: error.hint.as_deref(),
        place: error.position.map(|position| (position.line, position.column)),
        sql,
    }
    .into_py_err()
}

/// Whether an error is about files and memory, not about what was asked.
fn is_storage(error: &EngineError) -> bool {
    error.kind() != ErrorKind::FixRequest || matches!(error, EngineError::ReadOnly { .. })
}

/// The exception for what ended the rows of a statement; `sql` is its text.
pub(crate) fn of_stream(error: DataFusionError, sql: &str) -> PyErr {
    match error {
        DataFusionError::External(inner) if inner.is::<ClientError>() => {
            let inner = inner.downcast_ref::<ClientError>();
            inner.map_or_else(closed, |inner| of_client(inner, Some(sql)))
        }
        other => of_query(&QueryError::from(other), Some(sql)),
    }
}

/// The exception for an error of a server: the one that a database of this process would raise.
pub(crate) fn of_client(error: &ClientError, sql: Option<&str>) -> PyErr {
    let class = match (error.is_storage, sql) {
        (true, _) => "StorageError",
        // What has no SQLSTATE is of the connection, not of the statement.
        (false, Some(_)) if !error.state.is_empty() => "SqlError",
        _ => "Error",
    };
    Raised {
        class,
        kind: match error.kind {
            Kind::Retry => ErrorKind::Retry,
            Kind::FixRequest => ErrorKind::FixRequest,
            Kind::FreeSpace => ErrorKind::FreeSpace,
            Kind::Report => ErrorKind::Report,
        },
        message: &error.message,
        detail: error.detail.as_deref(),
        hint: error.hint.as_deref(),
        place: error.position.map(|(line, column)| (line.into(), column.into())),
        sql,
    }
    .into_py_err()
}

/// The exception for a failed import.
pub(crate) fn of_import(error: &ImportError) -> PyErr {
    let class = match error {
        ImportError::Engine(error) if is_storage(error) => "StorageError",
        _ => "Error",
    };
    // The facade names what the command line has; here they are arguments.
    let message = error.to_string().replacen("--type names", "types names", 1);
    let message = message.replacen("--timestamp names", "timestamp names", 1);
    let message = message.replacen("--series names", "series names", 1);
    let hint = import_hint(error);
    let (kind, hint) = (error.kind(), hint.as_deref());
    Raised { class, kind, message: &message, detail: None, hint, place: None, sql: None }.into_py_err()
}

fn import_hint(error: &ImportError) -> Option<String> {
    Some(match error {
        ImportError::AlreadyImported { .. } => "again=True imports it once more".to_string(),
        ImportError::UnknownFormat { .. } => {
            "say it: format='csv', 'ndjson', 'parquet' or 'arrow'".to_string()
        }
        ImportError::BadRow { fits: Some((column, fits)), .. } => format!(
            "types={{'{column}': '{fits}'}} gives the column a type that holds it; bad_rows='skip' or a path \
             goes on without such rows"
        ),
        ImportError::NoRows { .. } => {
            "CREATE TABLE first, or give each column's type with types={'column': 'TYPE'}".to_string()
        }
        ImportError::SameName { column, .. } => {
            format!("rename={{'{column}': 'another'}} gives one of them another name")
        }
        ImportError::BadRow { is_other_unit: true, .. } => {
            "where all times of a file are in another unit it is imported by itself; bad_rows='skip' or a path goes on \
             without such rows"
                .to_string()
        }
        ImportError::BadRow { .. } => "bad_rows='skip' or a path goes on without such rows".to_string(),
        other => return other.hint(),
    })
}

/// The exception of a handle that was closed.
pub(crate) fn closed() -> PyErr {
    simple("ClosedError", "the database is closed", Some("open it again"))
}

/// The exception of a handle made in another process.
pub(crate) fn forked(process: u32) -> PyErr {
    let message = format!("this database was opened by process {process}, and this one was forked from it");
    simple("ForkedError", &message, Some("open the database after the fork, in one process for writing"))
}

/// A request that is wrong, without SQL.
pub(crate) fn request(message: &str, hint: Option<&str>) -> PyErr {
    simple("Error", message, hint)
}

fn simple(class: &'static str, message: &str, hint: Option<&str>) -> PyErr {
    let kind = ErrorKind::FixRequest;
    Raised { class, kind, message, detail: None, hint, place: None, sql: None }.into_py_err()
}

/// What an exception is made of.
struct Raised<'a> {
    class: &'static str,
    kind: ErrorKind,
    message: &'a str,
    detail: Option<&'a str>,
    hint: Option<&'a str>,
    place: Option<(u64, u64)>,
    sql: Option<&'a str>,
}

impl Raised<'_> {
    fn into_py_err(self) -> PyErr {
        Python::attach(|py| self.exception(py).map_or_else(|error| error, PyErr::from_value))
    }

    fn exception<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
        let module = MODULE.get_or_try_init(py, || py.import("tickstone.errors").map(Bound::unbind))?;
        let fields = PyDict::new(py);
        fields.set_item("kind", kind_name(self.kind))?;
        fields.set_item("detail", self.detail)?;
        fields.set_item("hint", self.hint)?;
        if self.class == "SqlError" {
            fields.set_item("line", self.place.map(|place| place.0))?;
            fields.set_item("column", self.place.map(|place| place.1))?;
            fields.set_item("sql", self.sql)?;
        }
        module.bind(py).getattr(self.class)?.call((self.message,), Some(&fields))
    }
}
