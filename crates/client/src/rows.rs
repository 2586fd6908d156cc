//! [`Rows`]: what a statement gives, as it comes.

use crate::error::{ClientError, Kind, Result};
use crate::protocol::Head;
use arrow_array::RecordBatch;
use arrow_flight::FlightData;
use arrow_flight::decode::{DecodedPayload, FlightDataDecoder};
use arrow_schema::SchemaRef;
use futures::{Stream, StreamExt, TryStreamExt};
use prost::Message;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tonic::Streaming;

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
pub struct Rows {
    schema: SchemaRef,
    planning: Duration,
    messages: FlightDataDecoder,
    /// What must be there while rows come.
    _session: Option<Arc<dyn Send + Sync>>,
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl Rows {
    /// The columns.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// How long planning took.
    pub fn planning(&self) -> Duration {
        self.planning
    }
}

impl Stream for Rows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            return Poll::Ready(match std::task::ready!(self.messages.poll_next_unpin(context)) {
                None => None,
                Some(Err(error)) => Some(Err(error.into())),
                Some(Ok(message)) => match message.payload {
                    DecodedPayload::RecordBatch(batch) => Some(Ok(batch)),
                    DecodedPayload::None => continue,
                    DecodedPayload::Schema(_) => Some(Err(unreadable("a second schema"))),
                },
            });
        }
    }
}

pub(crate) fn unreadable(what: &str) -> ClientError {
    ClientError::new(Kind::Report, format!("the server's answer cannot be read: {what}"))
}

/// Reads how an answer begins.
pub(crate) async fn answer(
    messages: Streaming<FlightData>,
    session: Option<Arc<dyn Send + Sync>>,
) -> Result<Answer> {
    let mut messages = FlightDataDecoder::new(messages.map_err(Into::into));
    let first = messages.next().await.ok_or_else(|| unreadable("it is empty"))??;
    let DecodedPayload::Schema(schema) = first.payload else {
        return Err(unreadable("it does not begin with a schema"));
    };
    let head = Head::decode(first.inner.app_metadata).map_err(|error| unreadable(&error.to_string()))?;
    match head.tag {
        Some(tag) => {
            // Its end says that it is done.
            while messages.next().await.transpose()?.is_some() {}
            Ok(Answer::Done { tag, rows: head.changed })
        }
        None => {
            let planning = Duration::from_nanos(head.planning_nanos);
            Ok(Answer::Rows(Rows { schema, planning, messages, _session: session }))
        }
    }
}
