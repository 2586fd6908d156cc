//! [`RemoteSession`], [`RemoteStatement`] and [`RemoteQuery`]: from a text to a stream of a server's rows.

use super::database::{Shared, append};
use super::parameters::row;
use super::rows::{plain_stream, stream};
use crate::arrow::{Batches, Frame, Source, schema_capsule};
use crate::defect::net;
use crate::error;
use crate::export::Target;
use crate::functions::check_outside;
use crate::lock::lock;
use crate::messages::Messages;
use crate::parameters::parameters;
use crate::process::InProcess;
use crate::rows::columns;
use crate::stream::Stream;
use crate::users::{Opened, User};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use futures::TryStreamExt;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;
use tickstone_client::{Answer, Append, Client, placed};
use tickstone_query::QueryError;
use tickstone_query::dialect::{Statement as Parsed, parse_with_texts, tables_read};

/// How long the end of a session may take.
const END_PATIENCE: Duration = Duration::from_secs(1);

/// A session of a server, until the connection is closed.
pub(super) struct SessionCell {
    shared: Arc<Shared>,
    session: Mutex<Option<Session>>,
}

struct Session {
    client: Client,
    /// The frames that its statements see: those that are no tables of the database are temporary tables there.
    frames: Vec<Arc<Source>>,
}

impl SessionCell {
    pub(super) fn new(client: Client, shared: &Arc<Shared>) -> Self {
        let session = Session { client, frames: Vec::new() };
        Self { shared: Arc::clone(shared), session: Mutex::new(Some(session)) }
    }

    /// Calls `work` with the session, on a thread that does not hold the interpreter.
    ///
    /// # Errors
    /// `ClosedError`, and those of `work`.
    fn with<T>(&self, work: impl FnOnce(&Shared, &mut Session) -> PyResult<T>) -> PyResult<T> {
        check_outside()?;
        let mut session = lock(&self.session);
        let done = net(|| {
            session.as_mut().ok_or_else(error::closed).and_then(|session| work(&self.shared, session))
        });
        if self.shared.users().is_closed() {
            *session = None;
        }
        done
    }
}

impl User for SessionCell {
    fn let_go(&self) {
        let session = match self.session.try_lock() {
            Ok(mut session) => session.take(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().take(),
            // The statement under way sees that the connection is closed when it ends.
            Err(TryLockError::WouldBlock) => None,
        };
        if let (Some(session), Ok(runtime)) = (session, self.shared.runtime()) {
            // A server that does not answer ends it itself, after a while.
            let end = async { tokio::time::timeout(END_PATIENCE, session.client.end()).await };
            let _ = runtime.block_on(end);
        }
    }
}

impl Session {
    /// Has the session see these frames and, of those before, none that the statement names.
    ///
    /// # Errors
    /// Where the server has no room for them.
    fn see(&mut self, shared: &Shared, statement: &Parsed, frames: &[Arc<Source>]) -> PyResult<()> {
        let same = self.frames.len() == frames.len()
            && self.frames.iter().zip(frames).all(|(a, b)| Arc::ptr_eq(a, b));
        let read = tables_read(statement);
        let is_read = |frame: &Arc<Source>| read.iter().any(|name| name.eq_ignore_ascii_case(&frame.name));
        if same || (frames.is_empty() && !self.frames.iter().any(is_read)) {
            return Ok(());
        }
        if !self.frames.is_empty() {
            self.frames.clear();
            shared.wait(self.client.forget_tables(), None)?;
        }
        let there = if frames.is_empty() { Vec::new() } else { shared.tables()? };
        for frame in frames {
            // A table of the database comes first.
            if there.iter().any(|name| name.eq_ignore_ascii_case(&frame.name)) {
                self.frames.push(Arc::clone(frame));
                continue;
            }
            let to = Append {
                temporary: true,
                timestamp: frame.timestamp.clone(),
                series: frame.series.clone(),
                ..Append::to(&frame.name)
            };
            let batches = futures::stream::iter(frame.batches.clone().into_iter().map(Ok));
            shared.wait(self.client.append(&to, &frame.schema, batches), None)?;
            self.frames.push(Arc::clone(frame));
        }
        Ok(())
    }
}

/// One line of statements.
#[pyclass(frozen, module = "tickstone._tickstone")]
pub(crate) struct RemoteSession {
    cell: InProcess<Arc<SessionCell>>,
}

impl RemoteSession {
    pub(super) fn new(cell: Arc<SessionCell>) -> Self {
        Self { cell: InProcess::new(cell) }
    }
}

#[pymethods]
impl RemoteSession {
    /// The statements of a text, with values for their placeholders.
    #[pyo3(signature = (sql, params=None))]
    fn parse(&self, sql: &str, params: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<RemoteStatement>> {
        let cell = self.cell.get()?;
        cell.shared.users().check_open()?;
        let text: Arc<str> = sql.into();
        let raised = |error: QueryError| error::of_query(&error, Some(sql));
        let parameters = parameters(params)?;
        net(|| {
            let parsed = parse_with_texts(sql).map_err(|error| raised(error.into()))?;
            let mut bound: Vec<Parsed> = parsed.iter().map(|(_, statement)| statement.clone()).collect();
            parameters.bind(&mut bound).map_err(raised)?;
            let mut after = 0;
            let made = parsed.into_iter().map(|(own, statement)| {
                let parameters = row(&parameters, &statement)?;
                let placed = placed(sql, &mut after, &own);
                let asked = Asked { statement, placed, parameters, sql: Arc::clone(&text) };
                Ok(RemoteStatement { cell: InProcess::new(Arc::clone(cell)), asked: Arc::new(asked) })
            });
            made.collect()
        })
    }

    /// Appends to the open transaction; how many rows.
    fn append(&self, py: Python<'_>, table: &str, source: &Bound<'_, PyAny>) -> PyResult<u64> {
        let cell = self.cell.get()?;
        let (to, batches) = (Append::to(table), Batches::of(source)?);
        py.detach(|| cell.with(|shared, session| append(shared, &session.client, to, batches)))
    }
}

/// A statement with what goes to the server of it.
struct Asked {
    statement: Parsed,
    /// Its text, where it stands in `sql`.
    placed: String,
    parameters: Option<RecordBatch>,
    /// The text that it is of.
    sql: Arc<str>,
}

impl Asked {
    /// The columns that it gives, none where it gives no rows.
    fn schema(&self, cell: &SessionCell, frames: &[Arc<Source>]) -> PyResult<SchemaRef> {
        cell.with(|shared, session| {
            session.see(shared, &self.statement, frames)?;
            shared.wait(session.client.schema(&self.placed, self.parameters.as_ref()), Some(&self.sql))
        })
    }

    fn run(&self, cell: &SessionCell, frames: &[Arc<Source>]) -> PyResult<Answer> {
        cell.with(|shared, session| {
            session.see(shared, &self.statement, frames)?;
            shared.wait(session.client.query(&self.placed, self.parameters.as_ref()), Some(&self.sql))
        })
    }
}

/// One statement, its values beside it.
#[pyclass(frozen, module = "tickstone._tickstone")]
pub(crate) struct RemoteStatement {
    cell: InProcess<Arc<SessionCell>>,
    asked: Arc<Asked>,
}

fn sources(frames: &[Py<Frame>]) -> Vec<Arc<Source>> {
    frames.iter().map(|frame| Arc::clone(frame.get().source())).collect()
}

#[pymethods]
impl RemoteStatement {
    /// Whether it gives rows and changes nothing, so that it can be run when they are asked for.
    fn is_query(&self, py: Python<'_>) -> PyResult<bool> {
        let cell = self.cell.get()?;
        match &self.asked.statement {
            // Only the server knows what was prepared.
            Parsed::Execute { .. } => py.detach(|| Ok(!self.asked.schema(cell, &[])?.fields().is_empty())),
            other => Ok(other.only_reads()),
        }
    }

    /// Whether it changes rows and gives them, so that it must be run at once, and once.
    fn returns_rows(&self) -> bool {
        self.asked.statement.returns_rows()
    }

    /// The names it reads rows from. Which of them the server has is asked where one is a frame here.
    fn missing(&self) -> PyResult<Vec<String>> {
        self.cell.get()?.shared.users().check_open()?;
        Ok(tables_read(&self.asked.statement))
    }

    /// Runs it; the rows it changed, where it did that.
    fn run(&self, py: Python<'_>, frames: Vec<Py<Frame>>) -> PyResult<Option<u64>> {
        let (cell, frames) = (self.cell.get()?, sources(&frames));
        py.detach(|| match self.asked.run(cell, &frames)? {
            Answer::Done { rows, .. } => Ok(rows),
            Answer::Rows(rows) => {
                let drained = rows.try_for_each(|_| std::future::ready(Ok(())));
                cell.shared.wait(drained, Some(&self.asked.sql))?;
                Ok(None)
            }
        })
    }

    /// It as a query whose columns are known: an error in it is raised now.
    fn query(&self, py: Python<'_>, frames: Vec<Py<Frame>>) -> PyResult<RemoteQuery> {
        let (cell, frames) = (self.cell.get()?, sources(&frames));
        let schema = py.detach(|| self.asked.schema(cell, &frames))?;
        let (cell, asked) = (InProcess::new(Arc::clone(cell)), Arc::clone(&self.asked));
        Ok(RemoteQuery { cell, asked, frames, schema })
    }
}

/// A query that can be run any number of times, each time over what the server holds then.
#[pyclass(frozen, module = "tickstone._tickstone")]
pub(crate) struct RemoteQuery {
    cell: InProcess<Arc<SessionCell>>,
    asked: Arc<Asked>,
    frames: Vec<Arc<Source>>,
    schema: SchemaRef,
}

impl RemoteQuery {
    fn rows(&self) -> PyResult<tickstone_client::Rows> {
        match self.asked.run(self.cell.get()?, &self.frames)? {
            Answer::Rows(rows) => Ok(rows),
            Answer::Done { .. } => Err(error::request("the statement gives no rows", None)),
        }
    }
}

#[pymethods]
impl RemoteQuery {
    /// Runs it: a stream over its rows, which can be read once. How far it is is not told.
    #[pyo3(signature = (tell=None))]
    fn stream(&self, py: Python<'_>, tell: Option<Py<PyAny>>) -> PyResult<Stream> {
        drop(tell);
        let shared = Arc::clone(&self.cell.get()?.shared);
        let rows = py.detach(|| self.rows())?;
        let (runtime, schema) = (shared.runtime()?, rows.schema());
        Ok(Stream::new(shared, runtime, schema, stream(rows), None, Arc::clone(&self.asked.sql)))
    }

    /// Runs it, a SUBSCRIBE: its messages.
    fn messages(&self, py: Python<'_>) -> PyResult<Messages> {
        let shared = Arc::clone(&self.cell.get()?.shared);
        let (rows, runtime) = (py.detach(|| self.rows())?, shared.runtime()?);
        Ok(Messages::new(shared, runtime, stream(rows), Arc::clone(&self.asked.sql)))
    }

    /// Runs it into a file; how many rows.
    #[pyo3(signature = (path, format=None, compression=None))]
    fn export(
        &self,
        py: Python<'_>,
        path: PathBuf,
        format: Option<&str>,
        compression: Option<&str>,
    ) -> PyResult<u64> {
        let runtime = self.cell.get()?.shared.runtime()?;
        let file = Target::new(path, format, compression)?;
        py.detach(|| file.write(&runtime, plain_stream(self.rows()?)))
    }

    /// Names of the columns and their SQL types.
    fn columns(&self) -> Vec<(String, String)> {
        columns(&self.schema)
    }

    /// The Arrow schema as a capsule.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }
}
