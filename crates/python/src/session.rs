//! [`Session`], [`Statement`] and [`Query`]: from a text to a stream that is ready to run.

use crate::arrow::{Batches, Frame, schema_capsule};
use crate::defect::net;
use crate::error::{self, raised};
use crate::export::Target;
use crate::functions::check_outside;
use crate::lock::lock;
use crate::messages::Messages;
use crate::parameters::parameters;
use crate::process::InProcess;
use crate::rows::columns;
use crate::shared::Shared;
use crate::stream::{Stream, Teller};
use crate::users::{Opened, User};
use crate::wait::wait;
use arrow_schema::SchemaRef;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use futures::{StreamExt, TryStreamExt};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, TryLockError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tickstone_engine::Snapshot;
use tickstone_query::append::Appender;
use tickstone_query::dialect::{Statement as Parsed, parse};
use tickstone_query::{Frame as QueryFrame, Outcome, QueryError, QueryProgress, Session as QuerySession};
use tokio::runtime::Handle;

/// How long a plan made ahead may wait to be run: `now()` in it is the moment it was made.
const PLAN_AGE_MAX: Duration = Duration::from_secs(1);

/// A session of the facade, until the database is closed.
pub(crate) struct SessionCell {
    shared: Arc<Shared>,
    session: Mutex<Option<QuerySession>>,
}

impl SessionCell {
    pub(crate) fn new(session: QuerySession, shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared), session: Mutex::new(Some(session)) }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Calls `work` with the session, on a thread that does not hold the interpreter.
    ///
    /// # Errors
    /// `ClosedError`, and those of `work`.
    fn with<T>(&self, work: impl FnOnce(&mut QuerySession) -> PyResult<T>) -> PyResult<T> {
        check_outside()?;
        let mut session = lock(&self.session);
        let done = net(|| session.as_mut().ok_or_else(error::closed).and_then(work));
        if self.shared.users().check_open().is_err() {
            *session = None;
        }
        done
    }

    /// Runs one statement to its outcome.
    fn run(&self, asked: &Asked, frames: &[Arc<QueryFrame>]) -> PyResult<Outcome> {
        let sql = &asked.sql;
        self.with(|session| {
            let runtime = session.database().runtime().handle().clone();
            if asked.whole {
                let known = wait(&runtime, session.run_known(sql))?;
                if let Some(outcome) = known.map_err(|error| error::of_query(&error, Some(sql)))? {
                    return Ok(outcome);
                }
            }
            let statement = asked.parsed()?.clone();
            session.set_frames(frames.to_vec());
            let text = Arc::clone(sql);
            let outcome = match asked.whole {
                true => wait(&runtime, session.run_whole(statement, text)),
                false => wait(&runtime, session.run_text(statement, Some(text))),
            };
            session.set_frames(Vec::new());
            outcome?.map_err(|error| error::of_query(&error, Some(sql)))
        })
    }
}

impl User for SessionCell {
    fn let_go(&self) {
        match self.session.try_lock() {
            Ok(mut session) => *session = None,
            Err(TryLockError::Poisoned(poisoned)) => *poisoned.into_inner() = None,
            // The statement under way sees that the database is closed when it ends.
            Err(TryLockError::WouldBlock) => {}
        }
    }
}

/// One line of statements.
#[pyclass(frozen, module = "tickstone._tickstone")]
pub(crate) struct Session {
    cell: InProcess<Arc<SessionCell>>,
}

impl Session {
    pub(crate) fn new(cell: Arc<SessionCell>) -> Self {
        Self { cell: InProcess::new(cell) }
    }
}

#[pymethods]
impl Session {
    /// The statements of a text, with values for their placeholders.
    #[pyo3(signature = (sql, params=None))]
    fn parse(
        &self,
        py: Python<'_>,
        sql: &str,
        params: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Statement>> {
        let cell = self.cell.get()?;
        cell.shared.users().check_open()?;
        let text: Arc<str> = sql.into();
        let raised = |error: QueryError| error::of_query(&error, Some(sql));
        let made = |statement, whole| Statement {
            cell: InProcess::new(Arc::clone(cell)),
            asked: Arc::new(Asked { statement, whole, sql: Arc::clone(&text) }),
        };
        if params.is_none() && py.detach(|| cell.with(|session| Ok(session.knows(sql))))? {
            return Ok(vec![made(OnceLock::new(), true)]);
        }
        let parameters = parameters(params)?;
        let statements = net(|| {
            let mut statements = parse(sql).map_err(|error| raised(error.into()))?;
            parameters.bind(&mut statements).map_err(raised)?;
            Ok(statements)
        })?;
        let whole = params.is_none() && statements.len() == 1;
        Ok(statements.into_iter().map(|statement| made(OnceLock::from(statement), whole)).collect())
    }

    /// Appends to the open transaction; how many rows.
    fn append(&self, py: Python<'_>, table: &str, source: &Bound<'_, PyAny>) -> PyResult<u64> {
        let cell = self.cell.get()?;
        let batches = Batches::of(source)?;
        py.detach(|| {
            cell.with(|session| {
                let appended = append(session, table, batches);
                appended.map_err(|error| error::of_query(&error, None))
            })
        })
    }

    /// Whether a transaction is open.
    fn in_transaction(&self, py: Python<'_>) -> PyResult<bool> {
        let cell = self.cell.get()?;
        py.detach(|| cell.with(|session| Ok(session.in_transaction())))
    }
}

fn append(session: &mut QuerySession, table: &str, batches: Batches) -> tickstone_query::Result<u64> {
    let stored = session.stored_name(table);
    let mut appender = Appender::to_table(&session.access(), &stored, &batches.schema())?;
    // All is cast before anything is added: what does not fit leaves the transaction as it was.
    let cast = batches.map(|batch| appender.cast_owned(&batch?)).collect::<Result<Vec<_>, QueryError>>()?;
    let table = appender.table();
    cast.iter().try_for_each(|batch| session.append(table, batch))?;
    Ok(cast.iter().map(|batch| batch.num_rows() as u64).sum())
}

/// One statement, its values in it.
#[pyclass(frozen, module = "tickstone._tickstone")]
pub(crate) struct Statement {
    cell: InProcess<Arc<SessionCell>>,
    asked: Arc<Asked>,
}

/// What is asked of a session.
struct Asked {
    /// Not parsed yet where its plan is known by its text.
    statement: OnceLock<Parsed>,
    /// Whether the text is the one statement, with its values.
    whole: bool,
    sql: Arc<str>,
}

impl Asked {
    fn parsed(&self) -> PyResult<&Parsed> {
        if let Some(statement) = self.statement.get() {
            return Ok(statement);
        }
        let raised = |error: QueryError| error::of_query(&error, Some(&self.sql));
        let statement = parse(&self.sql).map_err(|error| raised(error.into()))?.pop();
        let statement = statement.ok_or_else(|| error::request("the text holds no statement", None))?;
        Ok(self.statement.get_or_init(|| statement))
    }

    /// The statement, but where the session knows the text: it is a query over tables of the database then.
    fn unknown(&self, session: &QuerySession) -> PyResult<Option<&Parsed>> {
        match self.statement.get() {
            None if session.knows(&self.sql) => Ok(None),
            _ => self.parsed().map(Some),
        }
    }
}

fn frames_of(frames: &[Py<Frame>]) -> Vec<Arc<QueryFrame>> {
    frames.iter().map(|frame| Arc::clone(frame.get().frame())).collect()
}

#[pymethods]
impl Statement {
    /// Whether it gives rows and changes nothing, so that it can be run when they are asked for.
    fn is_query(&self, py: Python<'_>) -> PyResult<bool> {
        let cell = self.cell.get()?;
        let gives_rows = |session: &mut QuerySession| {
            let statement = self.asked.unknown(session)?;
            Ok(statement.is_none_or(|statement| session.executed(statement).only_reads()))
        };
        py.detach(|| cell.with(gives_rows))
    }

    /// Whether it changes rows and gives them, so that it must be run at once, and once.
    fn returns_rows(&self, py: Python<'_>) -> PyResult<bool> {
        let cell = self.cell.get()?;
        let returns = |session: &mut QuerySession| {
            let statement = self.asked.unknown(session)?;
            Ok(statement.is_some_and(|statement| session.executed(statement).returns_rows()))
        };
        py.detach(|| cell.with(returns))
    }

    /// The names it reads rows from that the database does not have.
    fn missing(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let cell = self.cell.get()?;
        let missing = |session: &mut QuerySession| {
            let statement = self.asked.unknown(session)?;
            Ok(statement.map(|statement| session.missing_tables(statement)).unwrap_or_default())
        };
        py.detach(|| cell.with(missing))
    }

    /// Runs it; the rows it changed, where it did that.
    fn run(&self, py: Python<'_>, frames: Vec<Py<Frame>>) -> PyResult<Option<u64>> {
        let (cell, frames) = (self.cell.get()?, frames_of(&frames));
        py.detach(|| match cell.run(&self.asked, &frames)? {
            Outcome::Done { rows, .. } => Ok(rows),
            Outcome::Rows { stream, .. } => {
                let runtime = cell.shared.engine()?.runtime().handle().clone();
                let drained = wait(&runtime, stream.try_for_each(|_| std::future::ready(Ok(()))))?;
                drained.map_err(|error| error::of_query(&error.into(), Some(&self.asked.sql)))?;
                Ok(None)
            }
        })
    }

    /// It as a query, planned: an error in it is raised now.
    fn query(&self, py: Python<'_>, frames: Vec<Py<Frame>>) -> PyResult<Query> {
        let (cell, frames) = (self.cell.get()?, frames_of(&frames));
        let asked = Arc::clone(&self.asked);
        let once = self.returns_rows(py)?;
        let planned = py.detach(|| plan(cell, &asked, &frames))?;
        let schema = Arc::clone(&planned.schema);
        let ahead = Arc::new(Ahead(Mutex::new(Some(planned))));
        cell.shared.users().add(Arc::downgrade(&ahead) as _);
        let inner = InProcess::new(QueryInner { cell: Arc::clone(cell), ahead });
        Ok(Query { inner, asked, frames, schema, once })
    }
}

/// A query with its plan made, nothing read yet.
struct Planned {
    snapshot: Arc<Snapshot>,
    made: Instant,
    /// The functions of the user's own it was made with.
    functions: u64,
    schema: SchemaRef,
    stream: SendableRecordBatchStream,
    progress: QueryProgress,
}

fn plan(cell: &Arc<SessionCell>, asked: &Asked, frames: &[Arc<QueryFrame>]) -> PyResult<Planned> {
    let engine = cell.shared.engine()?;
    let (snapshot, made) = (raised(engine.snapshot())?, Instant::now());
    let functions = engine.functions_version();
    drop(engine);
    match cell.run(asked, frames)? {
        Outcome::Rows { schema, stream, progress, .. } => {
            Ok(Planned { snapshot, made, functions, schema, stream, progress })
        }
        Outcome::Done { .. } => Err(error::request("the statement gives no rows", None)),
    }
}

/// A stream that is read by a task of the runtime, a little ahead; dropped, it ends the task.
fn on_runtime(
    runtime: &Handle,
    schema: &SchemaRef,
    mut stream: SendableRecordBatchStream,
    progress: QueryProgress,
) -> SendableRecordBatchStream {
    const BATCHES_AHEAD: usize = 4;
    let mut builder = RecordBatchReceiverStream::builder(Arc::clone(schema), BATCHES_AHEAD);
    let sender = builder.tx();
    let read = async move {
        while let Some(batch) = stream.next().await {
            if sender.send(batch).await.is_err() {
                break;
            }
        }
        Ok(())
    };
    builder.spawn_on(read, runtime);
    Box::pin(ReadAhead { rows: builder.build(), progress })
}

/// Rows that a task reads ahead. Dropped, it tells the task, which may be in the midst of a long batch.
struct ReadAhead {
    rows: SendableRecordBatchStream,
    progress: QueryProgress,
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.progress.leave();
    }
}

impl futures::Stream for ReadAhead {
    type Item = <SendableRecordBatchStream as futures::Stream>::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.rows.poll_next_unpin(context)
    }
}

impl RecordBatchStream for ReadAhead {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}

struct QueryInner {
    cell: Arc<SessionCell>,
    ahead: Arc<Ahead>,
}

/// A plan made ahead, until it is run or the database has changed.
struct Ahead(Mutex<Option<Planned>>);

impl User for Ahead {
    fn let_go(&self) {
        *lock(&self.0) = None;
    }
}

/// A query that can be run any number of times, each time over what the database holds then.
#[pyclass(frozen, module = "tickstone._tickstone")]
pub(crate) struct Query {
    inner: InProcess<QueryInner>,
    asked: Arc<Asked>,
    frames: Vec<Arc<QueryFrame>>,
    schema: SchemaRef,
    /// Whether it changes rows: it has run, and must not again.
    once: bool,
}

impl Query {
    /// The plan made ahead where it still says what the database holds, else a new one.
    fn planned(&self, inner: &QueryInner) -> PyResult<Planned> {
        inner.cell.shared.users().check_open()?;
        let engine = inner.cell.shared.engine()?;
        let (newest, functions) = (raised(engine.snapshot())?, engine.functions_version());
        drop(engine);
        match lock(&inner.ahead.0).take() {
            Some(planned) if self.once => Ok(planned),
            None if self.once => {
                Err(pyo3::exceptions::PyRuntimeError::new_err("the rows of RETURNING are read once"))
            }
            Some(planned)
                if Arc::ptr_eq(&planned.snapshot, &newest)
                    && planned.functions == functions
                    && planned.made.elapsed() < PLAN_AGE_MAX =>
            {
                Ok(planned)
            }
            _ => plan(&inner.cell, &self.asked, &self.frames),
        }
    }
}

#[pymethods]
impl Query {
    /// Runs it: a stream over its rows, which can be read once. While a batch keeps the main thread waiting,
    /// `tell` is called with (rows read, rows there are to read, seconds, whether rows have come, or the
    /// end); what it raises ends the query.
    #[pyo3(signature = (tell=None))]
    fn stream(&self, py: Python<'_>, tell: Option<Py<PyAny>>) -> PyResult<Stream> {
        let inner = self.inner.get()?;
        let runtime = inner.cell.shared.engine()?.runtime().handle().clone();
        let planned = py.detach(|| self.planned(inner))?;
        let (shared, schema) = (Arc::clone(inner.cell.shared()), planned.schema);
        // A join may work for long on one batch. On a thread of the runtime it does not keep this one from
        // looking for signals; a query of one table, or of few rows, is quicker without the way there and back.
        let stream = match planned.progress.may_multiply() {
            true => on_runtime(&runtime, &schema, planned.stream, planned.progress.clone()),
            false => planned.stream,
        };
        let progress = tell.map(|tell| Teller::new(tell, planned.progress));
        Ok(Stream::new(shared, runtime, schema, stream, progress, Arc::clone(&self.asked.sql)))
    }

    /// Runs it, a SUBSCRIBE: its messages.
    fn messages(&self, py: Python<'_>) -> PyResult<Messages> {
        let inner = self.inner.get()?;
        let runtime = inner.cell.shared.engine()?.runtime().handle().clone();
        let planned = py.detach(|| self.planned(inner))?;
        let (shared, sql) = (Arc::clone(inner.cell.shared()), Arc::clone(&self.asked.sql));
        Ok(Messages::new(shared, runtime, planned.stream, sql))
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
        let inner = self.inner.get()?;
        let file = Target::new(path, format, compression)?;
        py.detach(|| {
            let runtime = inner.cell.shared.engine()?.runtime().handle().clone();
            file.write(&runtime, self.planned(inner)?.stream)
        })
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
