//! Subscriptions over WebSocket, `/subscribe`: rows as they are committed, in JSON or Arrow.
//!
//! ```text
//! {"op":"subscribe","id":…,"query":…}   ─► SUBSCRIBE, a statement whose rows do not end ─┐
//! {"op":"replay","query":…,"speed":…}   ─► REPLAY, the past at its pace ──────────────────┤
//! {"op":"unsubscribe","id":…}                                                            ▼
//!                           one connection ◄─ messages of all its subscriptions, as they come
//! ```
//!
//! A connection may have several subscriptions; each is a statement of its own, and a message is one batch of its rows.
//! What is asked is in [`request`], what is told in [`crate::told`].

mod request;

use crate::connection::Taken;
use crate::http::bad_request;
use crate::shared::Shared;
use crate::socket::{Came, End, Incoming, Outgoing, halves};
use crate::statement::{self, Answer, Conversation, Rows};
use crate::told::{Form, Told};
use axum::Extension;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{WebSocket, WebSocketUpgrade};
use axum::extract::{RawQuery, State};
use axum::response::Response;
use futures::stream::{FuturesUnordered, StreamExt};
use request::{Asked, Request};
use std::sync::Arc;
use tickstone_query::arrow::array::RecordBatch;
use tickstone_query::{Access, QueryError};
use tokio::sync::oneshot;
use tracing::debug;

/// The longest message of a client.
const REQUEST_BYTES_MAX: usize = 1 << 20;
/// Subscriptions of a connection.
const SUBSCRIPTIONS_MAX: usize = 1_000;

/// The parameters of the path.
pub(crate) const WORDS: &[&str] = request::WORDS;

/// `/subscribe`.
pub(crate) async fn subscribe(
    State(shared): State<Arc<Shared>>,
    Extension(access): Extension<Access>,
    taken: Option<Extension<Taken>>,
    RawQuery(words): RawQuery,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    let (Ok(upgrade), Some(Extension(taken))) = (upgrade, taken) else {
        return bad_request("subscriptions are spoken here: ask for an upgrade to a WebSocket (version 13)");
    };
    let first = match Asked::of_words(words.as_deref().unwrap_or_default()) {
        Ok(first) => first,
        Err(what) => return bad_request(&what),
    };
    let upgrade = upgrade.max_message_size(REQUEST_BYTES_MAX).max_frame_size(REQUEST_BYTES_MAX);
    upgrade.on_upgrade(move |socket| serve(socket, shared, access, taken, first))
}

async fn serve(
    socket: WebSocket,
    shared: Arc<Shared>,
    access: Access,
    mut taken: Taken,
    first: Option<Asked>,
) {
    let (mut outgoing, mut incoming) = halves(socket, &shared.settings);
    let mut connection =
        Connection { shared, access, waiting: FuturesUnordered::new(), ids: Vec::new(), begun: 0 };
    let end = connection.run(&mut outgoing, &mut incoming, &mut taken, first).await;
    debug!(peer = %taken.peer, why = end.why, "connection of subscriptions ended");
    // Its statements end before the client is waited for.
    drop(connection);
    outgoing.end(incoming, &end).await;
}

/// One subscription under way.
struct Subscription {
    id: String,
    /// Tells it from an earlier one of its id.
    number: u64,
    rows: Rows,
    form: Form,
    /// Ends when it is taken back.
    kept: oneshot::Receiver<()>,
}

type Next =
    std::pin::Pin<Box<dyn Future<Output = (Subscription, Option<Result<RecordBatch, QueryError>>)> + Send>>;

struct Connection {
    shared: Arc<Shared>,
    access: Access,
    /// The subscriptions, each waiting for its next message.
    waiting: FuturesUnordered<Next>,
    /// Their ids and numbers, and what keeps them.
    ids: Vec<(String, u64, oneshot::Sender<()>)>,
    begun: u64,
}

fn wait(mut subscription: Subscription) -> Next {
    Box::pin(async move {
        let next = tokio::select! {
            next = subscription.rows.next() => next,
            _ = &mut subscription.kept => None,
        };
        (subscription, next)
    })
}

impl Connection {
    /// Serves until it ends; why.
    async fn run(
        &mut self,
        outgoing: &mut Outgoing,
        incoming: &mut Incoming,
        taken: &mut Taken,
        first: Option<Asked>,
    ) -> End {
        if let Some(first) = first
            && let Err(end) = self.begin(first, outgoing).await
        {
            return end;
        }
        loop {
            let done = tokio::select! {
                Some((subscription, next)) = self.waiting.next() => {
                    self.told(subscription, next, outgoing).await
                }
                came = incoming.next() => match came {
                    Came::Text(text) => self.asked(&text, outgoing).await,
                    Came::Message(_) => Err(End::unsupported("requests are messages of text, JSON")),
                    Came::Silence => outgoing.ask().await,
                    Came::End(end) => Err(end),
                },
                _ = taken.stopping.changed() => Err(End::stops()),
            };
            if let Err(end) = done {
                return end;
            }
        }
    }

    async fn asked(&mut self, text: &str, outgoing: &mut Outgoing) -> Result<(), End> {
        match Request::read(text) {
            Ok(Request::Subscribe(asked)) => self.begin(asked, outgoing).await,
            Ok(Request::Unsubscribe { id }) => {
                let known = self.ids.iter().any(|(known, ..)| *known == id);
                self.ids.retain(|(known, ..)| *known != id);
                let said = if known { Told::ended(&id) } else { Told::failed(&id, &no_such(&id)) };
                outgoing.send_text(said).await
            }
            Err((id, what)) => outgoing.send_text(Told::failed(&id, &QueryError::request(what))).await,
        }
    }

    async fn begin(&mut self, asked: Asked, outgoing: &mut Outgoing) -> Result<(), End> {
        let id = asked.id.clone();
        match self.started(asked).await {
            Ok((subscription, keep)) => {
                self.ids.push((id, subscription.number, keep));
                self.waiting.push(wait(subscription));
                Ok(())
            }
            Err(error) => outgoing.send_text(Told::failed(&id, &error)).await,
        }
    }

    async fn started(&mut self, asked: Asked) -> Result<(Subscription, oneshot::Sender<()>), QueryError> {
        if self.ids.len() >= SUBSCRIPTIONS_MAX {
            let what = format!("a connection has {SUBSCRIPTIONS_MAX} subscriptions at most");
            return Err(QueryError::request(what));
        }
        if self.ids.iter().any(|(id, ..)| *id == asked.id) {
            return Err(QueryError::request(format!("there is a subscription '{}' already", asked.id)));
        }
        let (text, statement) = statement::one(self.shared.database.parse_with_texts(&asked.statement())?)?;
        if !matches!(statement.kind(), "SUBSCRIBE" | "REPLAY") {
            return Err(QueryError::request("the text must hold exactly one statement"));
        }
        let conversation = Conversation::of_connection(&self.shared, &self.access);
        match conversation.run(&self.shared, text, statement, None).await? {
            Answer::Rows(rows) => {
                self.begun += 1;
                let form = Form::new(asked.format, &rows.schema);
                let (keep, kept) = oneshot::channel();
                Ok((Subscription { id: asked.id, number: self.begun, rows, form, kept }, keep))
            }
            Answer::Done { .. } => Err(QueryError::request("the text is no subscription")),
        }
    }

    async fn told(
        &mut self,
        mut subscription: Subscription,
        next: Option<Result<RecordBatch, QueryError>>,
        outgoing: &mut Outgoing,
    ) -> Result<(), End> {
        let number = subscription.number;
        if !self.ids.iter().any(|(_, known, _)| *known == number) {
            // It was taken back.
            return Ok(());
        }
        let error = match next {
            Some(Ok(batch)) => match subscription.form.message(&subscription.id, &batch) {
                Ok(Told::Text(text)) => {
                    outgoing.send_text(text).await?;
                    self.waiting.push(wait(subscription));
                    return Ok(());
                }
                Ok(Told::Bytes(bytes)) => {
                    outgoing.send(bytes).await?;
                    self.waiting.push(wait(subscription));
                    return Ok(());
                }
                Err(error) => error,
            },
            Some(Err(error)) => error,
            None => {
                // A replay has come to its end.
                self.ids.retain(|(_, known, _)| *known != number);
                return outgoing.send_text(Told::ended(&subscription.id)).await;
            }
        };
        self.ids.retain(|(_, known, _)| *known != number);
        outgoing.send_text(Told::failed(&subscription.id, &error)).await
    }
}

fn no_such(id: &str) -> QueryError {
    QueryError::request(format!("there is no subscription '{id}'"))
}
