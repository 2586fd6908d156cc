//! [`Messages`]: what a subscription tells, one message at a time, as it comes.
//!
//! Nothing is read ahead: a message that nobody asked for waits where the subscription is, by its own rules. One thread
//! reads; any other, and the handler of a signal on the same one, may close it, which ends the wait.

use crate::arrow::schema_capsule;
use crate::defect::net;
use crate::error;
use crate::export::Target;
use crate::functions::check_outside;
use crate::process::InProcess;
use crate::rows::columns;
use crate::stream::Stream;
use crate::users::{Opened, User};
use crate::wait::wait;
use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use futures::stream::{AbortHandle, Abortable, abortable, iter};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use tokio::runtime::Handle;

/// The columns of a message that are not the query's: position, event, detail.
const OWN_COLUMNS: usize = 3;

/// A message: position, event, detail as JSON, rows.
type Message = (Option<String>, String, Option<String>, Batch);

/// The messages of a subscription, until it or its database is closed.
#[pyclass(frozen, module = "tickstone._tickstone")]
pub(crate) struct Messages {
    source: InProcess<Arc<Source>>,
    /// The columns of the query.
    schema: SchemaRef,
}

struct Source {
    shared: Arc<dyn Opened>,
    runtime: Handle,
    /// `None` once it has ended, failed or been closed. Whoever reads holds it while he waits.
    stream: Mutex<Option<Abortable<SendableRecordBatchStream>>>,
    /// Ends it, and the wait of who reads it.
    cut: AbortHandle,
    sql: Arc<str>,
}

impl Source {
    /// What is being read, unless somebody reads it.
    fn free(&self) -> Option<MutexGuard<'_, Option<Abortable<SendableRecordBatchStream>>>> {
        match self.stream.try_lock() {
            Ok(stream) => Some(stream),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The next batch, on a thread that does not hold the interpreter. What a signal's handler raises ends the wait
    /// alone.
    fn next(&self) -> PyResult<Option<RecordBatch>> {
        check_outside()?;
        let Some(mut stream) = self.free() else {
            // Who closes it holds it for a moment.
            if self.cut.is_aborted() {
                self.shared.users().check_open()?;
                return Ok(None);
            }
            let hint = "read it in one place, or subscribe twice";
            return Err(error::request("the subscription is being read already", Some(hint)));
        };
        let next = match stream.as_mut() {
            Some(open) => wait(&self.runtime, open.next()),
            None => Ok(None),
        };
        if matches!(next, Ok(None | Some(Err(_)))) {
            *stream = None;
        }
        drop(stream);
        // Who closed it meanwhile found it being read.
        if self.cut.is_aborted() {
            self.close();
        }
        let next = next?;
        // Whatever a database that is closed says of it.
        if !matches!(next, Some(Ok(_))) {
            self.shared.users().check_open()?;
        }
        next.transpose().map_err(|failed| error::of_stream(failed, &self.sql))
    }

    fn close(&self) {
        self.cut.abort();
        if let Some(mut stream) = self.free() {
            *stream = None;
        }
    }
}

impl User for Source {
    fn let_go(&self) {
        self.close();
    }
}

impl Messages {
    pub(crate) fn new(
        shared: Arc<dyn Opened>,
        runtime: Handle,
        stream: SendableRecordBatchStream,
        sql: Arc<str>,
    ) -> Self {
        let told = stream.schema();
        let fields: Vec<_> = told.fields().iter().skip(OWN_COLUMNS).cloned().collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, told.metadata().clone()));
        let (stream, cut) = abortable(stream);
        let source = Arc::new(Source { shared, runtime, stream: Mutex::new(Some(stream)), cut, sql });
        source.shared.users().add(Arc::downgrade(&source) as _);
        Self { source: InProcess::new(source), schema }
    }
}

#[pymethods]
impl Messages {
    /// The next message, once it comes; `None` once it was closed.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Message>> {
        let source = self.source.get()?;
        let message = |batch: RecordBatch| {
            message(&batch, &source.runtime).map_err(|failed| error::of_query(&failed.into(), None))
        };
        py.detach(|| net(|| source.next()?.map(message).transpose()))
    }

    /// Ends it, and the wait of who reads it; a second call does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let source = self.source.get()?;
        py.detach(|| {
            net(|| {
                source.close();
                Ok(())
            })
        })
    }

    /// Names of the query's columns and their SQL types.
    fn columns(&self) -> Vec<(String, String)> {
        columns(&self.schema)
    }

    /// The Arrow schema of the query's columns as a capsule.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }
}

/// A batch of a subscription, taken apart.
fn message(batch: &RecordBatch, runtime: &Handle) -> Result<Message, ArrowError> {
    let text = |column: usize| {
        let first = cast(&batch.column(column).slice(0, 1), &DataType::Utf8)?;
        let first = first.as_string::<i32>();
        Ok::<_, ArrowError>(first.is_valid(0).then(|| first.value(0).to_string()))
    };
    let (position, event, detail) = (text(0)?, text(1)?.unwrap_or_default(), text(2)?);
    let mut rows = batch.project(&(OWN_COLUMNS..batch.num_columns()).collect::<Vec<_>>())?;
    let has_rows = match event.as_str() {
        "insert" | "update" => true,
        // That of bars says which stretch has none any more.
        "delete" => detail.is_none(),
        _ => false,
    };
    if !has_rows {
        rows = rows.slice(0, 0);
    }
    Ok((position, event, detail, Batch { rows, runtime: runtime.clone() }))
}

/// The rows of a message: what a query gives, any number of times.
#[pyclass(frozen, module = "tickstone._tickstone")]
pub(crate) struct Batch {
    rows: RecordBatch,
    runtime: Handle,
}

#[pymethods]
impl Batch {
    /// A stream over them.
    #[pyo3(signature = (tell=None))]
    fn stream(&self, tell: Option<Py<PyAny>>) -> Stream {
        drop(tell);
        Stream::held(self.rows.schema(), vec![self.rows.clone()])
    }

    /// Writes them into a file; how many rows.
    #[pyo3(signature = (path, format=None, compression=None))]
    fn export(
        &self,
        py: Python<'_>,
        path: PathBuf,
        format: Option<&str>,
        compression: Option<&str>,
    ) -> PyResult<u64> {
        let file = Target::new(path, format, compression)?;
        let rows = RecordBatchStreamAdapter::new(
            self.rows.schema(),
            iter([Ok::<_, DataFusionError>(self.rows.clone())]),
        );
        py.detach(|| file.write(&self.runtime, Box::pin(rows)))
    }

    /// Names of the columns and their SQL types.
    fn columns(&self) -> Vec<(String, String)> {
        columns(self.rows.schema_ref())
    }

    /// The Arrow schema as a capsule.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, self.rows.schema_ref())
    }

    /// How many rows.
    fn __len__(&self) -> usize {
        self.rows.num_rows()
    }
}
