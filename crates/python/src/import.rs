//! Files into tables, with progress for Python.

use crate::append::partition_by;
use crate::error;
use crate::wait::check_signals;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tickstone_model::ColumnType;
use tickstone_query::import::{
    BadRows, FileFormat, FileReport, ImportError, ImportReport, ImportRequest, Progress,
    import as import_files,
};
use tickstone_query::{Database, QueryError};

/// How often progress is told and signals are looked for.
const TELL_INTERVAL: Duration = Duration::from_millis(50);

/// What a caller may say of an import.
pub(crate) struct ImportOptions {
    pub(crate) format: Option<String>,
    pub(crate) timestamp: Option<String>,
    pub(crate) series: Option<Vec<String>>,
    pub(crate) types: Option<Vec<(String, String)>>,
    pub(crate) rename: Option<Vec<(String, String)>>,
    pub(crate) partition_by: Option<String>,
    pub(crate) bad_rows: Option<String>,
    pub(crate) again: bool,
}

/// Imports files one after the other; see [`import_files`]. `progress` is called with (path, file,
/// files, bytes_read, bytes_total, rows), and raises to stop.
pub(crate) fn import<'py>(
    py: Python<'py>,
    database: &Database,
    paths: Vec<PathBuf>,
    table: String,
    options: ImportOptions,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let mut request = request(paths, table, options)?;
    let cancelled = Arc::new(AtomicBool::new(false));
    request.cancelled = Some(Arc::clone(&cancelled));
    let mut teller = Teller { progress, last: Instant::now(), raised: None };
    let (report, raised) = py.detach(|| {
        let report = import_files(database, &request, &mut |at| {
            if !teller.tell(at) {
                cancelled.store(true, Ordering::Relaxed);
            }
        });
        (report, teller.raised)
    });
    match (report, raised) {
        (_, Some(raised)) => Err(raised),
        (Ok(report), None) => as_dict(py, &report),
        (Err(failed), None) => Err(error::of_import(&failed)),
    }
}

fn request(paths: Vec<PathBuf>, table: String, options: ImportOptions) -> PyResult<ImportRequest> {
    let wrong = |name: &str, value: &str, wanted: &'static str| {
        let (name, value) = (name.to_string(), value.to_string());
        error::of_import(&ImportError::Option { name, value, wanted })
    };
    let mut request = ImportRequest::new(table, paths);
    if let Some(format) = &options.format {
        let parsed = FileFormat::parse(format);
        request.format = Some(parsed.ok_or_else(|| wrong("format", format, FileFormat::NAMES))?);
    }
    if let Some(bad_rows) = &options.bad_rows {
        let parsed = BadRows::parse(bad_rows);
        request.on_bad_row = parsed.ok_or_else(|| wrong("bad_rows", bad_rows, "fail, skip or a path"))?;
    }
    for (column, name) in options.types.into_iter().flatten() {
        let parsed = ColumnType::parse(&name).map_err(QueryError::from);
        request.types.push((column, parsed.map_err(|error| error::of_query(&error, None))?));
    }
    request.renames.extend(options.rename.into_iter().flatten());
    request.partition_by = options.partition_by.map(|unit| partition_by(&unit)).transpose()?;
    if let Some(timestamp) = &options.timestamp {
        request.set_timestamp(timestamp);
    }
    request.series = options.series;
    request.again = options.again;
    Ok(request)
}

/// Tells Python how far an import is.
struct Teller {
    progress: Option<Py<PyAny>>,
    last: Instant,
    raised: Option<PyErr>,
}

impl Teller {
    /// Whether to go on.
    fn tell(&mut self, at: &Progress<'_>) -> bool {
        let finished = at.bytes_read >= at.bytes_total;
        if self.raised.is_some() || (self.last.elapsed() < TELL_INTERVAL && !finished) {
            return self.raised.is_none();
        }
        self.last = Instant::now();
        self.raised = check_signals().and_then(|()| self.call(at)).err();
        self.raised.is_none()
    }

    fn call(&self, at: &Progress<'_>) -> PyResult<()> {
        let Some(progress) = &self.progress else { return Ok(()) };
        let told = (at.path, at.file, at.files, at.bytes_read, at.bytes_total, at.rows);
        Python::attach(|py| progress.call1(py, told).map(|_| ()))
    }
}

fn as_dict<'py>(py: Python<'py>, report: &ImportReport) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("table", &report.table)?;
    dict.set_item("created", report.created)?;
    let files = report.files.iter().map(|file| file_dict(py, file)).collect::<PyResult<Vec<_>>>()?;
    dict.set_item("files", PyList::new(py, files)?)?;
    dict.set_item("known", PyList::new(py, &report.known)?)?;
    Ok(dict)
}

fn file_dict<'py>(py: Python<'py>, file: &FileReport) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("path", &file.path)?;
    dict.set_item("format", file.format.to_string())?;
    dict.set_item("rows", file.rows)?;
    dict.set_item("bytes", file.bytes)?;
    dict.set_item("seconds", file.elapsed.as_secs_f64())?;
    dict.set_item("bad_rows", file.bad_rows)?;
    let examples = file.examples.iter().map(|example| (example.line, example.what.as_str()));
    dict.set_item("examples", examples.collect::<Vec<_>>())?;
    dict.set_item("ignored", &file.ignored)?;
    let columns = file.columns.iter().map(|column| (column.name.as_str(), column.column_type.to_string()));
    dict.set_item("columns", columns.collect::<Vec<_>>())?;
    dict.set_item("timestamp", &file.timestamp)?;
    dict.set_item("series", &file.series)?;
    Ok(dict)
}
