//! [`Remote`]: a server, and what needs no session.

use super::session::{RemoteSession, SessionCell};
use crate::append::{Heeding, partition_by, sync_policy};
use crate::arrow::{Batches, schema_capsule};
use crate::defect::net;
use crate::error;
use crate::lock::lock;
use crate::process::InProcess;
use crate::rows::columns;
use crate::users::{Opened, User, Users};
use crate::wait::wait;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use futures::{StreamExt, TryStreamExt, stream};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use std::sync::{Arc, Mutex, Weak};
use tickstone_client::{Address, Answer, Append, Client, ClientError, Credentials};
use tickstone_query::designated::{designated_field, series_ordinal};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::mpsc;

/// Threads that speak to servers.
const THREADS: usize = 2;

/// What all handles on one server share.
pub(super) struct Shared {
    client: Mutex<Option<Client>>,
    users: Users,
    runtime: Option<Runtime>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The last handle may go on one of its own threads, which cannot wait for itself.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Opened for Shared {
    fn users(&self) -> &Users {
        &self.users
    }
}

impl Shared {
    /// The connection.
    ///
    /// # Errors
    /// `ClosedError`.
    pub(super) fn client(&self) -> PyResult<Client> {
        lock(&self.client).clone().ok_or_else(error::closed)
    }

    /// # Errors
    /// `ClosedError`.
    pub(super) fn runtime(&self) -> PyResult<Handle> {
        self.runtime.as_ref().map(|runtime| runtime.handle().clone()).ok_or_else(error::closed)
    }

    /// Waits for something of the server.
    ///
    /// # Errors
    /// What it raises, and what a signal's handler does.
    pub(super) fn wait<T>(
        &self,
        work: impl Future<Output = tickstone_client::Result<T>>,
        sql: Option<&str>,
    ) -> PyResult<T> {
        wait(&self.runtime()?, work)?.map_err(|failed| error::of_client(&failed, sql))
    }

    /// All rows of a query.
    fn rows(&self, sql: &str, parameters: Option<&RecordBatch>) -> PyResult<Vec<RecordBatch>> {
        let client = self.client()?;
        self.wait(
            async move {
                match client.query(sql, parameters).await? {
                    Answer::Rows(rows) => rows.try_collect().await,
                    Answer::Done { .. } => Ok(Vec::new()),
                }
            },
            None,
        )
    }

    /// The names of the tables.
    pub(super) fn tables(&self) -> PyResult<Vec<String>> {
        let batches = self.rows("SELECT \"table\" FROM tables()", None)?;
        let texts = batches.iter().filter_map(|batch| batch.column(0).as_string_opt::<i32>());
        Ok(texts.flat_map(|texts| texts.iter().flatten().map(str::to_string).collect::<Vec<_>>()).collect())
    }

    fn close(&self) {
        drop(lock(&self.client).take());
        self.users.close();
    }
}

/// What a table is like.
struct Described {
    name: String,
    partition_by: String,
    sync: String,
    rows: u64,
}

/// A server as a database.
#[pyclass(frozen, module = "tickstone._tickstone")]
pub(crate) struct Remote {
    shared: InProcess<Arc<Shared>>,
}

impl Remote {
    fn described(shared: &Shared, name: &str) -> PyResult<Option<Described>> {
        let sql =
            "SELECT \"table\", partition_by, sync, \"rows\" FROM tables() WHERE lower(\"table\") = lower($1)";
        let schema = Schema::new(vec![Field::new("$1", DataType::Utf8, false)]);
        let name = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(StringArray::from(vec![name]))]);
        let name = name.map_err(|failed| error::request(&failed.to_string(), None))?;
        let batches = shared.rows(sql, Some(&name))?;
        let Some(batch) = batches.iter().find(|batch| batch.num_rows() > 0) else { return Ok(None) };
        let text = |column: usize| {
            batch
                .column(column)
                .as_string_opt::<i32>()
                .map(|texts| texts.value(0).to_string())
                .unwrap_or_default()
        };
        let rows = batch.column(3).as_primitive_opt::<Int64Type>().map_or(0, |counts| counts.value(0));
        let rows = u64::try_from(rows).unwrap_or(0);
        Ok(Some(Described { name: text(0), partition_by: text(1).to_lowercase(), sync: text(2), rows }))
    }

    fn schema_of(shared: &Shared, name: &str) -> PyResult<arrow_schema::SchemaRef> {
        let sql = format!("SELECT * FROM \"{}\"", name.replace('"', "\"\""));
        let client = shared.client()?;
        shared.wait(async move { client.schema(&sql, None).await }, None)
    }
}

#[pymethods]
impl Remote {
    /// Connects to an address, as a user with a password, or with a token, where they are given.
    #[new]
    #[pyo3(signature = (url, user=None, password=None, token=None))]
    fn connect(
        py: Python<'_>,
        url: &str,
        user: Option<String>,
        password: Option<String>,
        token: Option<String>,
    ) -> PyResult<Self> {
        py.detach(|| {
            net(|| {
                let mut address = Address::parse(url).map_err(|failed| error::of_client(&failed, None))?;
                let credentials = match (user, token) {
                    (_, Some(token)) => Some(Credentials::Token(token)),
                    (Some(user), None) => {
                        Some(Credentials::Password { user, password: password.unwrap_or_default() })
                    }
                    (None, None) => None,
                };
                address.credentials = credentials.or(address.credentials);
                let runtime = Builder::new_multi_thread()
                    .worker_threads(THREADS)
                    .thread_name("tickstone-client")
                    .enable_all()
                    .build()
                    .map_err(|failed| error::request(&format!("cannot start threads: {failed}"), None))?;
                let client = wait(runtime.handle(), Client::connect_to(address))?;
                let client = client.map_err(|failed| error::of_client(&failed, None))?;
                let client = Mutex::new(Some(client));
                let shared = Shared { client, users: Users::default(), runtime: Some(runtime) };
                Ok(Self { shared: InProcess::new(Arc::new(shared)) })
            })
        })
    }

    /// Closes the connection: every session and query of it raises `ClosedError` from now on.
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
        Ok(self.shared.get()?.users.is_closed())
    }

    /// A new session: its own transaction and settings.
    fn session(&self, py: Python<'_>) -> PyResult<RemoteSession> {
        let shared = self.shared.get()?;
        py.detach(|| {
            let client = shared.client()?;
            let session = shared.wait(async move { client.session().await }, None)?;
            let cell = Arc::new(SessionCell::new(session, shared));
            let user: Weak<dyn User> = Arc::downgrade(&cell) as _;
            shared.users.add(user);
            Ok(RemoteSession::new(cell))
        })
    }

    /// Names of the tables.
    fn tables(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let shared = self.shared.get()?;
        py.detach(|| shared.tables())
    }

    /// As that of a database of this process.
    fn describe<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyDict>>> {
        let shared = self.shared.get()?;
        let found = py.detach(|| match Self::described(shared, name)? {
            Some(table) => Self::schema_of(shared, &table.name).map(|schema| Some((table, schema))),
            None => Ok(None),
        })?;
        let Some((table, schema)) = found else { return Ok(None) };
        let mut series: Vec<(usize, String)> = schema
            .fields()
            .iter()
            .filter_map(|field| Some((series_ordinal(field)?, field.name().clone())))
            .collect();
        series.sort();
        let described = PyDict::new(py);
        described.set_item("name", table.name)?;
        described.set_item(
            "timestamp",
            designated_field(&schema).map(|place| schema.field(place).name().clone()),
        )?;
        described.set_item("series", series.into_iter().map(|(_, name)| name).collect::<Vec<_>>())?;
        described.set_item("partition_by", table.partition_by)?;
        described.set_item("sync", table.sync)?;
        described.set_item("rows", table.rows)?;
        described.set_item("columns", columns(&schema))?;
        Ok(Some(described))
    }

    /// A table's Arrow schema as a capsule.
    fn table_schema<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyCapsule>> {
        let shared = self.shared.get()?;
        let schema = py.detach(|| Self::schema_of(shared, name))?;
        schema_capsule(py, &schema)
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
        let shared = self.shared.get()?;
        let partition_by = partition_by.map(|unit| self::partition_by(&unit)).transpose()?;
        let sync = sync.map(|policy| sync_policy(&policy)).transpose()?;
        let to = Append {
            create,
            timestamp,
            series,
            partition_by: partition_by.map(|unit| unit.name().to_string()),
            sync: sync.map(|policy| policy.name().to_string()),
            ..Append::to(table)
        };
        let batches = Batches::of(source)?;
        py.detach(|| net(|| append(shared, &shared.client()?, to, batches)))
    }

    /// Seals recent rows of one table, or of all, into parts.
    #[pyo3(signature = (table=None))]
    fn seal(&self, py: Python<'_>, table: Option<String>) -> PyResult<()> {
        let shared = self.shared.get()?;
        let sql = match table {
            Some(table) => format!("CHECKPOINT \"{}\"", table.replace('"', "\"\"")),
            None => "CHECKPOINT".to_string(),
        };
        py.detach(|| {
            let client = shared.client()?;
            shared.wait(async move { client.execute(&sql, None).await }, None).map(|_| ())
        })
    }
}

/// Sends batches as this thread reads them; how many rows were stored.
pub(super) fn append(shared: &Shared, client: &Client, to: Append, batches: Batches) -> PyResult<u64> {
    let (runtime, schema, client) = (shared.runtime()?, batches.schema(), client.clone());
    let (send, receive) = mpsc::channel::<tickstone_client::Result<RecordBatch>>(1);
    let rows = stream::unfold(receive, |mut receive| async move { Some((receive.recv().await?, receive)) });
    let task = runtime.spawn(async move { client.append(&to, &schema, rows.boxed()).await });
    let mut batches = Heeding { batches, interrupted: None };
    let mut raised = None;
    for batch in &mut batches {
        let batch = batch.map_err(ClientError::from);
        let failed = batch.is_err();
        match wait(&runtime, send.send(batch)) {
            Ok(Ok(())) if !failed => {}
            // The server has said why already, or is told.
            Ok(_) => break,
            Err(interrupted) => {
                raised = Some(interrupted);
                break;
            }
        }
    }
    if let Some(raised) = raised.or(batches.interrupted.take()) {
        // Rows that end are rows to commit: the task must be gone before it sees their end.
        task.abort();
        let _ = runtime.block_on(task);
        drop(send);
        return Err(raised);
    }
    drop(send);
    let stored = wait(&runtime, task)?;
    let stored = stored.map_err(|_| error::request("the rows were cut off", None))?;
    stored.map_err(|failed| error::of_client(&failed, None))
}
