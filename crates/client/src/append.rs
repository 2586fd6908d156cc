//! Rows into tables.

use crate::credentials::Service;
use crate::error::{ClientError, Kind, Result};
use crate::protocol::INGEST_OPTIONS;
use crate::sending;
use arrow_array::RecordBatch;
use arrow_flight::FlightDescriptor;
use arrow_flight::error::FlightError;
use arrow_flight::sql::{
    CommandStatementIngest, DoPutUpdateResult, ProstMessageExt, TableDefinitionOptions, TableExistsOption,
    TableNotExistOption,
};
use arrow_schema::SchemaRef;
use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt, future};
use prost::Message;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// What to append to, and how. Make one with [`Append::to`] and set what differs.
#[derive(Debug, Clone, Default)]
pub struct Append {
    /// The table.
    pub table: String,
    /// Makes the table from what comes where it is missing.
    pub create: bool,
    /// Has the rows, once they are all there, take the place of the table of this name.
    pub replace: bool,
    /// Makes it a table that only the session sees.
    pub temporary: bool,
    /// The designated timestamp of a new table; `None`: by type and name. Of a table that is there it must be this
    /// one.
    pub timestamp: Option<String>,
    /// The series key of a new table; `None`: by name; empty: none at all. As `timestamp` else.
    pub series: Option<Vec<String>>,
    /// The partition length of a new table: "day". As `timestamp` else.
    pub partition_by: Option<String>,
    /// When the rows are on stable storage: "always", "interval", "none"; `None`: by the table's policy.
    pub sync: Option<String>,
}

impl Append {
    /// To append to a table that is there.
    pub fn to(table: impl Into<String>) -> Self {
        Self { table: table.into(), ..Self::default() }
    }

    fn command(&self, session: Bytes) -> CommandStatementIngest {
        let missing = if self.create { TableNotExistOption::Create } else { TableNotExistOption::Fail };
        let there = if self.replace { TableExistsOption::Replace } else { TableExistsOption::Append };
        let options = TableDefinitionOptions { if_not_exist: missing as i32, if_exists: there as i32 };
        let series = self.series.as_ref().map(|names| names.join("\n"));
        let said = [&self.timestamp, &series, &self.partition_by, &self.sync];
        let said = INGEST_OPTIONS.iter().zip(said);
        let said: HashMap<String, String> =
            said.filter_map(|(name, value)| Some((name.to_string(), value.clone()?))).collect();
        CommandStatementIngest {
            table_definition_options: Some(options),
            table: self.table.clone(),
            schema: None,
            catalog: None,
            temporary: self.temporary,
            transaction_id: (!session.is_empty()).then_some(session),
            options: said,
        }
    }
}

/// Appends rows in one commit, in a session or, where its handle is empty, in none; how many.
///
/// # Errors
/// Where the server refuses them, and where `rows` gives an error. Nothing is stored then.
pub(crate) async fn append<S>(
    mut service: Service,
    session: Bytes,
    to: &Append,
    schema: &SchemaRef,
    rows: S,
) -> Result<u64>
where
    S: Stream<Item = Result<RecordBatch>> + Send + 'static,
{
    let command = to.command(session).as_any().encode_to_vec();
    let rows = rows.map_err(|error| FlightError::ExternalError(Box::new(error)));
    let messages = sending::messages(schema, Some(FlightDescriptor::new_cmd(command)), Bytes::new(), rows);
    let (tell, told) = oneshot::channel();
    let tell = Arc::new(Mutex::new(Some(tell)));
    // Messages that end are messages to commit: where rows fail, they must not end.
    let messages = messages.then(move |message| {
        let tell = Arc::clone(&tell);
        async move {
            match message {
                Ok(message) => message,
                Err(error) => {
                    if let Some(tell) = tell.lock().unwrap_or_else(PoisonError::into_inner).take() {
                        let _ = tell.send(ClientError::from(error));
                    }
                    future::pending().await
                }
            }
        }
    });
    let put = async move {
        let mut results = service.do_put(messages).await?.into_inner();
        let mut rows = None;
        while let Some(result) = results.message().await? {
            rows = DoPutUpdateResult::decode(result.app_metadata).ok().map(|result| result.record_count);
        }
        let rows = rows.and_then(|rows| u64::try_from(rows).ok());
        rows.ok_or_else(|| ClientError::new(Kind::Report, "the server did not say how many rows it stored"))
    };
    tokio::select! {
        done = put => done,
        Ok(error) = told => Err(error),
    }
}
