//! The same for programs that wait: each call returns when it is done.

use crate::address::Address;
use crate::append::Append;
use crate::error::{ClientError, Kind, Result};
use crate::rows;
use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use futures::{StreamExt, stream};
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};

/// A connection to a server, or a session of it. Never used inside of async code, which must not wait.
#[derive(Debug, Clone)]
pub struct Client {
    // Before the runtime: what it drops is done there.
    client: crate::Client,
    runtime: Arc<Runtime>,
}

/// What a statement gave.
#[derive(Debug)]
pub enum Answer {
    /// Rows.
    Rows(Rows),
    /// It was carried out.
    Done {
        /// What it was: "CREATE TABLE".
        tag: String,
        /// The rows it changed, where it did that.
        rows: Option<u64>,
    },
}

/// Rows of a statement that runs; dropped before their end, they cancel it.
#[derive(Debug)]
pub struct Rows {
    rows: rows::Rows,
    runtime: Arc<Runtime>,
}

impl Rows {
    /// The columns.
    pub fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}

impl Iterator for Rows {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.runtime.block_on(self.rows.next())
    }
}

impl Client {
    /// As [`crate::Client::connect`].
    ///
    /// # Errors
    /// As there, and where no thread can be started.
    pub fn connect(url: &str) -> Result<Self> {
        Self::connect_to(Address::parse(url)?)
    }

    /// As [`crate::Client::connect_to`].
    ///
    /// # Errors
    /// As there, and where no thread can be started.
    pub fn connect_to(address: Address) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("tickstone-client")
            .enable_all()
            .build();
        let cannot = |error| ClientError::new(Kind::Report, format!("cannot start a thread: {error}"));
        let runtime = Arc::new(runtime.map_err(cannot)?);
        let client = runtime.block_on(crate::Client::connect_to(address))?;
        Ok(Self { client, runtime })
    }

    /// As [`crate::Client::session`].
    ///
    /// # Errors
    /// As there.
    pub fn session(&self) -> Result<Self> {
        let client = self.runtime.block_on(self.client.session())?;
        Ok(Self { client, runtime: Arc::clone(&self.runtime) })
    }

    /// As [`crate::Client::query`].
    ///
    /// # Errors
    /// As there.
    pub fn query(&self, sql: &str, parameters: Option<&RecordBatch>) -> Result<Answer> {
        Ok(match self.runtime.block_on(self.client.query(sql, parameters))? {
            rows::Answer::Rows(rows) => Answer::Rows(Rows { rows, runtime: Arc::clone(&self.runtime) }),
            rows::Answer::Done { tag, rows } => Answer::Done { tag, rows },
        })
    }

    /// As [`crate::Client::execute`].
    ///
    /// # Errors
    /// As there.
    pub fn execute(&self, sql: &str, parameters: Option<&RecordBatch>) -> Result<Option<u64>> {
        self.runtime.block_on(self.client.execute(sql, parameters))
    }

    /// As [`crate::Client::schema`].
    ///
    /// # Errors
    /// As there.
    pub fn schema(&self, sql: &str, parameters: Option<&RecordBatch>) -> Result<SchemaRef> {
        self.runtime.block_on(self.client.schema(sql, parameters))
    }

    /// As [`crate::Client::tables`].
    ///
    /// # Errors
    /// As there.
    pub fn tables(&self, views: bool) -> Result<Vec<(String, Schema)>> {
        self.runtime.block_on(self.client.tables(views))
    }

    /// As [`crate::Client::append`], of the batches of an iterator.
    ///
    /// # Errors
    /// As there.
    pub fn append<I>(&self, to: &Append, schema: &SchemaRef, rows: I) -> Result<u64>
    where
        I: IntoIterator<Item = Result<RecordBatch>>,
        I::IntoIter: Send + 'static,
    {
        self.runtime.block_on(self.client.append(to, schema, stream::iter(rows)))
    }
}
