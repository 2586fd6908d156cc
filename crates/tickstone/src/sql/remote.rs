//! A server that statements are sent to, and our session of it.

use crate::failure::{Failure, Result, of_client};
use crate::secret;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tickstone_client::{Answer, Client};
use tickstone_query::{Outcome, QueryError, QueryProgress};
use tokio::runtime::{Builder, Handle, Runtime};

/// How long names to complete are kept, and waited for.
const NAMES_AGE_MAX: Duration = Duration::from_secs(5);
const NAMES_PATIENCE: Duration = Duration::from_secs(1);
/// How long the end of the session may take.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// A session of a server; clones are of the same.
#[derive(Clone)]
pub(super) struct Remote {
    session: Client,
    names: Arc<Mutex<Option<Names>>>,
    /// Of the whole program: a task that was left behind may be the last to use it.
    runtime: &'static Runtime,
}

/// Names to complete, and when they were asked for.
struct Names {
    asked: Instant,
    names: Vec<String>,
}

impl Remote {
    /// Connects to an address as `secret::address` reads it.
    ///
    /// # Errors
    /// Where no server answers there, and where it does not know who connects.
    pub(super) fn connect(url: &str) -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime =
            runtime.map_err(|error| Failure::Terminal(format!("cannot start a thread: {error}")))?;
        let runtime: &'static Runtime = Box::leak(Box::new(runtime));
        let address = secret::address(url)?;
        let session = async { Client::connect_to(address).await?.session().await };
        let session = runtime.block_on(session).map_err(of_client)?;
        Ok(Self { session, names: Arc::default(), runtime })
    }

    pub(super) fn runtime(&self) -> Handle {
        self.runtime.handle().clone()
    }

    /// Ends the session; where the server does not answer, it ends it itself after a while.
    pub(super) fn end(&self) {
        let end = self.session.end();
        let _ = self.runtime.block_on(async { tokio::time::timeout(END_PATIENCE, end).await });
    }

    /// Runs a statement there.
    ///
    /// # Errors
    /// Those of the statement, and where the server is gone.
    pub(super) async fn run(&self, sql: &str) -> std::result::Result<Outcome, QueryError> {
        match self.session.query(sql, None).await.map_err(of_client)? {
            Answer::Done { tag, rows } => Ok(Outcome::Done { tag, rows }),
            Answer::Rows(rows) => {
                let (schema, planning) = (rows.schema(), rows.planning());
                let rows = rows.map(|batch| {
                    batch.map_err(|error| DataFusionError::External(Box::new(of_client(error))))
                });
                let stream = Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), rows));
                Ok(Outcome::Rows { schema, stream, planning, progress: QueryProgress::default() })
            }
        }
    }

    /// The names of tables and of their columns, as they were a moment ago; none where the server does not say.
    pub(super) fn names(&self) -> Vec<String> {
        let mut held = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        match &*held {
            Some(held) if held.asked.elapsed() < NAMES_AGE_MAX => return held.names.clone(),
            _ => {}
        }
        let tables = self.session.tables(true);
        let tables = self.runtime.block_on(async { tokio::time::timeout(NAMES_PATIENCE, tables).await });
        let Ok(Ok(tables)) = tables else { return Vec::new() };
        let mut names = Vec::new();
        for (table, schema) in tables {
            names.extend(schema.fields().iter().map(|field| field.name().clone()));
            names.push(table);
        }
        *held = Some(Names { asked: Instant::now(), names: names.clone() });
        names
    }
}
