//! LISTEN: clients of PostgreSQL that wait for notifications hear what happens to a table.
//!
//! A channel is a table's name. Each change of the table is a notification whose payload is JSON, as over WebSocket: with
//! the rows where they have room in it.

use super::connection::{Connection, Status, Stop};
use super::error::Fault;
use crate::shared::Shared;
use crate::statement::{self, Answer, Conversation, Rows};
use crate::told::{Form, Format, Told, event_of};
use futures::future::pending;
use futures::stream::{FuturesUnordered, StreamExt};
use pgwire::messages::response::NotificationResponse;
use std::pin::Pin;
use std::sync::Arc;
use tickstone_query::arrow::array::RecordBatch;
use tickstone_query::{Access, QueryError};
use tokio::sync::oneshot;

/// Bytes of a payload: clients of PostgreSQL know it to be shorter than 8,000.
const PAYLOAD_BYTES_MAX: usize = 7_999;
/// Channels of a connection.
const CHANNELS_MAX: usize = 1_000;

/// The channels of a connection.
#[derive(Default)]
pub(super) struct Listening {
    waiting: FuturesUnordered<Next>,
    /// Names of the channels, what tells each from an earlier one of its name, and what keeps it.
    channels: Vec<(String, u64, oneshot::Sender<()>)>,
    begun: u64,
}

struct Heard {
    channel: String,
    number: u64,
    rows: Rows,
    form: Form,
    /// Ends when the channel is left.
    kept: oneshot::Receiver<()>,
}

type Next = Pin<Box<dyn Future<Output = (Heard, Option<Result<RecordBatch, QueryError>>)> + Send + Sync>>;

fn wait(mut heard: Heard) -> Next {
    Box::pin(async move {
        let next = tokio::select! {
            next = heard.rows.next() => next,
            _ = &mut heard.kept => None,
        };
        (heard, next)
    })
}

impl std::fmt::Debug for Listening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listening").field("channels", &self.channels).finish_non_exhaustive()
    }
}

impl Listening {
    /// The next notification: its channel and payload. Nothing is lost where this is dropped before.
    pub(super) async fn next(&mut self) -> (String, String) {
        loop {
            if self.waiting.is_empty() {
                return pending().await;
            }
            let Some((heard, next)) = self.waiting.next().await else { continue };
            let (channel, number) = (heard.channel.clone(), heard.number);
            if !self.channels.iter().any(|(_, known, _)| *known == number) {
                // The channel was left.
                continue;
            }
            let told = match next {
                Some(Ok(batch)) => {
                    let told = heard.form.brief(&channel, &batch, PAYLOAD_BYTES_MAX);
                    self.waiting.push(wait(heard));
                    if matches!(event_of(&batch).as_str(), "subscribed" | "heartbeat") {
                        continue;
                    }
                    told
                }
                Some(Err(error)) => Err(error),
                None => Err(QueryError::request("the channel is over")),
            };
            let payload = told.unwrap_or_else(|error| {
                self.channels.retain(|(_, known, _)| *known != number);
                Told::failed(&channel, &error)
            });
            let mut payload = String::from_utf8_lossy(&payload).into_owned();
            payload.truncate(payload.floor_char_boundary(PAYLOAD_BYTES_MAX));
            return (channel, payload);
        }
    }

    /// Leaves a channel, or all of them.
    pub(super) fn leave(&mut self, channel: Option<&str>) {
        match channel {
            Some(channel) => self.channels.retain(|(known, ..)| known != channel),
            None => *self = Self { begun: self.begun, ..Self::default() },
        }
    }

    async fn begin(
        &mut self,
        shared: &Arc<Shared>,
        access: &Access,
        channel: &str,
    ) -> Result<(), QueryError> {
        if self.channels.iter().any(|(known, ..)| known == channel) {
            return Ok(());
        }
        if self.channels.len() >= CHANNELS_MAX {
            return Err(QueryError::request(format!(
                "a connection listens to {CHANNELS_MAX} channels at most"
            )));
        }
        let text = format!("SUBSCRIBE TO \"{}\"", channel.replace('"', "\"\""));
        let (text, statement) = statement::one(shared.database.parse_with_texts(&text)?)?;
        let conversation = Conversation::of_connection(shared, access);
        if let Answer::Rows(rows) = conversation.run(shared, text, statement, None).await? {
            self.begun += 1;
            let form = Form::new(Format::Json, &rows.schema);
            let (keep, kept) = oneshot::channel();
            self.channels.push((channel.to_string(), self.begun, keep));
            self.waiting.push(wait(Heard {
                channel: channel.to_string(),
                number: self.begun,
                rows,
                form,
                kept,
            }));
        }
        Ok(())
    }
}

impl Connection {
    /// LISTEN.
    pub(super) async fn listen(&mut self, channel: &str, sql: &str) -> Result<(), Stop> {
        let shared = Arc::clone(&self.shared);
        self.listening.begin(&shared, &self.access, channel).await.map_err(|error| {
            let hint = "a channel is the name of a table: its changes are the notifications";
            let error = if error.hint.is_some() { error } else { error.hint(hint) };
            Fault::of(error, sql).into()
        })
    }

    /// Whether notifications may be told now: PostgreSQL's clients get none within a transaction.
    pub(super) fn may_notify(&self) -> bool {
        self.status == Status::Idle
    }

    /// Tells of a notification.
    pub(super) fn notify(&mut self, channel: String, payload: String) {
        let process = self.registered.number;
        self.channel.put(&NotificationResponse::new(process, channel, payload));
    }
}
