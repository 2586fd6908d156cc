//! Rows on their way to a client: as messages, as they come.

use super::failure::status;
use super::handles::lock;
use super::service::Inner;
use super::sessions::Within;
use crate::parameters::Bound;
use crate::statement::{Answer, Rows};
use arrow_flight::FlightData;
use arrow_flight::error::FlightError;
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use prost::Message;
use std::pin::Pin;
use std::sync::Arc;
use tickstone_client::protocol::{DICTIONARIES, Head};
use tickstone_client::sending;
use tickstone_query::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use tickstone_query::arrow::compute::cast;
use tickstone_query::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use tickstone_query::{ErrorKind, QueryError, SqlState};
use tokio::sync::watch;
use tonic::Status;
use tonic::metadata::MetadataMap;

/// Messages to a client.
pub(super) type Messages = Pin<Box<dyn Stream<Item = Result<FlightData, Status>> + Send>>;

/// Whether symbols are told as plain texts, to a client that takes no dictionaries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Plain(bool);

impl Plain {
    /// What a request wishes for.
    pub(super) fn of(metadata: &MetadataMap) -> Self {
        Self(metadata.get(DICTIONARIES).is_some_and(|wish| wish.as_bytes() == b"false"))
    }

    /// The columns as they are sent.
    pub(super) fn schema(self, schema: &SchemaRef) -> SchemaRef {
        if !self.0 {
            return Arc::clone(schema);
        }
        let fields = schema.fields().iter().map(|field| match field.data_type() {
            DataType::Dictionary(_, values) => {
                Arc::new(Field::clone(field).with_data_type(values.as_ref().clone()))
            }
            _ => Arc::clone(field),
        });
        Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
    }
}

/// A batch in the columns that are sent: those that were told before a statement ran, where it was asked about.
fn in_columns(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, FlightError> {
    let types =
        |schema: &Schema| schema.fields().iter().map(|field| field.data_type().clone()).collect::<Vec<_>>();
    if types(&batch.schema()) == types(schema) {
        return Ok(batch);
    }
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| match column.data_type() == field.data_type() {
        true => Ok(ArrayRef::clone(column)),
        false => cast(column, field.data_type()),
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// Rows of a statement that runs, and of those that follow: the same with the values of the next row.
struct Running {
    inner: Arc<Inner>,
    rows: Rows,
    within: Within,
    text: Arc<str>,
    bound: Bound,
    listed: Listed,
}

impl Running {
    /// The next rows; where they fail, so does the transaction.
    async fn next(&mut self) -> Option<Result<RecordBatch, QueryError>> {
        let next = self.found().await;
        if let Some(Err(_)) = next {
            self.within.fail();
        }
        next
    }

    async fn found(&mut self) -> Option<Result<RecordBatch, QueryError>> {
        loop {
            let changed = self.rows.changed;
            let next = async { self.rows.next().await.transpose() };
            // What has changed something is done, whatever the client says now.
            match if changed { next.await } else { self.listed.unless_cancelled(next).await } {
                Ok(None) => {}
                next => return next.transpose(),
            }
            let statement = match self.bound.next() {
                Ok(Some(statement)) => statement,
                Ok(None) => return None,
                Err(error) => return Some(Err(error)),
            };
            match self.within.run_until(&self.inner, &self.text, statement, self.listed.cancelled()).await {
                Ok(Answer::Rows(rows)) if types(&rows) == types(&self.rows) => self.rows = rows,
                Ok(Answer::Rows(_)) => return Some(Err(other_types())),
                Ok(Answer::Done { .. }) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

fn types(rows: &Rows) -> Vec<&DataType> {
    rows.schema.fields().iter().map(|field| field.data_type()).collect()
}

fn other_types() -> QueryError {
    let error = QueryError::request("the rows for different parameters are of different types");
    error.hint("cast the placeholder: CAST($1 AS DOUBLE)")
}

/// A statement that can be cancelled by its number, while it runs.
pub(super) struct Listed {
    inner: Arc<Inner>,
    user: Option<u32>,
    number: u64,
    cancelled: watch::Receiver<bool>,
}

impl Listed {
    /// A user's statement of this number, 0 for any.
    pub(super) fn new(inner: &Arc<Inner>, user: Option<u32>, number: u64) -> Self {
        let number = if number == 0 { inner.number() } else { number };
        let (cancel, cancelled) = watch::channel(false);
        lock(&inner.running).insert((user, number), cancel);
        Self { inner: Arc::clone(inner), user, number, cancelled }
    }

    /// What some work for it gives.
    ///
    /// # Errors
    /// Those of the work, and where it is cancelled.
    pub(super) async fn unless_cancelled<T>(
        &mut self,
        work: impl Future<Output = Result<T, QueryError>>,
    ) -> Result<T, QueryError> {
        tokio::select! {
            biased;
            why = self.cancelled() => Err(why),
            done = work => done,
        }
    }

    /// Waits until it is cancelled: what it ends with.
    pub(super) async fn cancelled(&mut self) -> QueryError {
        if self.cancelled.wait_for(|cancelled| *cancelled).await.is_err() {
            // Nobody can cancel it any more.
            std::future::pending::<()>().await;
        }
        QueryError::new(ErrorKind::FixRequest, "the statement was cancelled").state(SqlState::Cancelled)
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        lock(&self.inner.running).remove(&(self.user, self.number));
    }
}

/// What goes over the wire.
pub(super) struct Wire {
    pub(super) messages: Messages,
}

impl Wire {
    /// A statement that gives no rows.
    pub(super) fn done(head: &Head) -> Self {
        Self::of(&Arc::new(Schema::empty()), head.encode_to_vec().into(), stream::empty())
    }

    /// Rows that are there.
    pub(super) fn batch(batch: RecordBatch) -> Self {
        Self::of(&batch.schema(), Bytes::new(), stream::iter([Ok(batch)]))
    }

    /// Rows as they come, of the statement and of those behind it.
    pub(super) fn rows(
        inner: &Arc<Inner>,
        rows: Rows,
        schema: SchemaRef,
        listed: Listed,
        (within, text, bound): (Within, Arc<str>, Bound),
    ) -> Self {
        let planning = u64::try_from(rows.planning.as_nanos()).unwrap_or(u64::MAX);
        let head = Head { tag: None, changed: None, planning_nanos: planning };
        let running = Running { inner: Arc::clone(inner), rows, within, text, bound, listed };
        let sent = Arc::clone(&schema);
        let batches = stream::unfold(Some(running), move |running| {
            let schema = Arc::clone(&sent);
            async move {
                let mut running = running?;
                match running.next().await? {
                    Ok(batch) => Some((in_columns(batch, &schema), Some(running))),
                    Err(error) => Some((Err(FlightError::Tonic(Box::new(status(&error)))), None)),
                }
            }
        });
        Self::of(&schema, head.encode_to_vec().into(), batches)
    }

    fn of<S>(schema: &SchemaRef, head: Bytes, batches: S) -> Self
    where
        S: Stream<Item = Result<RecordBatch, FlightError>> + Send + 'static,
    {
        let messages = sending::messages(schema, None, head, batches);
        Self { messages: Box::pin(messages.map(|message| message.map_err(Status::from))) }
    }
}
