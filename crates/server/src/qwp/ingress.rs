//! A connection that brings rows.
//!
//! One store is under way; the messages that come meanwhile wait, and the next takes all of them: so a lone message is
//! stored at once, and a busy connection shares a sync among as many as come during one. An answer is sent when a commit is
//! as safe as its strictest table wants it, and stands for all messages before it. More than [`WAITING_BYTES`] are not read
//! meanwhile: the client waits.
//!
//! A message that is refused ends the connection: what stands before it is stored and acknowledged, what follows is not
//! stored.

use super::no_text;
use super::store::{Message, Outcome, Refusal, Store};
use crate::connection::{LAST_BYTES, Taken};
use crate::http::Held;
use crate::ilp::now;
use crate::metrics::Counter;
use crate::shared::Shared;
use crate::socket::{Came, End, Incoming, Outgoing, halves};
use axum::extract::ws::WebSocket;
use bytes::Bytes;
use std::panic::resume_unwind;
use std::sync::Arc;
use tickstone_query::Access;
use tickstone_wire::qwp::{Limits, Status, response};
use tokio::task::JoinHandle;
use tracing::debug;

/// Bytes of messages that wait for the store under way.
const WAITING_BYTES: usize = 32 << 20;

struct Connection {
    shared: Arc<Shared>,
    outgoing: Outgoing,
    /// `None` while it is at work.
    store: Option<Store>,
    under_way: Option<JoinHandle<(Store, Outcome)>>,
    access: Access,
    waiting: Vec<Message>,
    waiting_bytes: usize,
    /// How many messages came.
    messages: u64,
    /// A message that cannot wait for want of memory; none behind it is read.
    crowded_out: Option<Refusal>,
}

/// Serves a connection until it ends.
pub(super) async fn serve(socket: WebSocket, shared: Arc<Shared>, access: Access, mut taken: Taken) {
    let settings = &shared.settings;
    let (outgoing, mut incoming) = halves(socket, settings);
    let limits = Limits { message_bytes_max: settings.bytes("qwp_message_bytes_max"), ..Limits::default() };
    let deferred_max = settings.bytes("qwp_deferred_bytes_max");
    let store = Store::new(access.clone(), shared.database.clone(), shared.making(), limits, deferred_max);
    let mut connection = Connection {
        outgoing,
        access,
        store: Some(store),
        under_way: None,
        waiting: Vec::new(),
        waiting_bytes: 0,
        messages: 0,
        crowded_out: None,
        shared: Arc::clone(&shared),
    };
    let mut end = connection.run(&mut incoming, &mut taken).await;
    if let Err(other) = connection.finish().await {
        end = other;
    }
    debug!(peer = %taken.peer, why = end.why, "QWP: connection of rows ended");
    connection.outgoing.end(incoming, &end).await;
}

impl Connection {
    async fn run(&mut self, incoming: &mut Incoming, taken: &mut Taken) -> End {
        loop {
            self.begin();
            if self.crowded_out.is_some() && self.under_way.is_none() {
                return End::refused();
            }
            let has_room = self.waiting_bytes < WAITING_BYTES && self.crowded_out.is_none();
            tokio::select! {
                biased;
                done = async { self.under_way.as_mut().expect("asked only where there is one").await },
                    if self.under_way.is_some() =>
                {
                    self.under_way = None;
                    if let Err(end) = self.done(done).await {
                        return end;
                    }
                }
                _ = taken.stopping.changed() => {
                    self.take_last(incoming).await;
                    return End::stops();
                }
                came = incoming.next(), if has_room => match came {
                    Came::Message(bytes) => self.take(bytes),
                    Came::Silence => {
                        if let Err(end) = self.outgoing.ask().await {
                            return end;
                        }
                    }
                    Came::Text(_) => return no_text(),
                    Came::End(end) => return end,
                },
            }
        }
    }

    /// A message that came.
    fn take(&mut self, bytes: Bytes) {
        let metrics = &self.shared.metrics;
        metrics.add(Counter::QwpMessages, 1);
        metrics.add(Counter::QwpBytes, bytes.len() as u64);
        let mut held = Held::none(&self.shared);
        if held.grow(bytes.len()).is_err() {
            let most = self.shared.settings.text("requests_bytes_max");
            let text = format!("the messages of all clients take requests_bytes_max, {most}; try again");
            self.crowded_out = Some(Refusal { sequence: self.messages, status: Status::WriteError, text });
            return;
        }
        self.messages += 1;
        self.waiting_bytes += bytes.len();
        self.waiting.push(Message { bytes, now: now(), _held: held });
    }

    /// Takes what had come when the server was told to stop.
    async fn take_last(&mut self, incoming: &mut Incoming) {
        let mut left = LAST_BYTES;
        while let Some(Came::Message(bytes)) = incoming.come().await {
            let Some(rest) = left.checked_sub(bytes.len()) else { return };
            left = rest;
            self.take(bytes);
            if self.crowded_out.is_some() {
                return;
            }
        }
    }

    /// Begins to store what waits, where nothing is under way.
    fn begin(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let Some(mut store) = self.store.take() else { return };
        let messages = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        let runtime = self.shared.database.runtime().handle().clone();
        let access = self.access.clone();
        self.under_way = Some(self.shared.database.runtime().spawn(async move {
            // Where the user was dropped meanwhile, storing says so.
            let _ = access.turn(false).await;
            let store = move || {
                let outcome = store.store(messages);
                (store, outcome)
            };
            runtime.spawn_blocking(store).await.unwrap_or_else(|panic| resume_unwind(panic.into_panic()))
        }));
    }

    /// Answers what was stored, and what was refused.
    async fn done(&mut self, done: Result<(Store, Outcome), tokio::task::JoinError>) -> Result<(), End> {
        // What panicked has stored nothing; the hook of the process has told of it.
        let (store, outcome) = done.map_err(End::failed)?;
        if let Some(sequence) = outcome.stored {
            self.shared.metrics.add(Counter::QwpRows, outcome.rows);
            let mut answer = Vec::new();
            response::put_ok(&mut answer, sequence, std::iter::empty());
            self.outgoing.send(answer).await?;
        }
        match outcome.refused {
            Some(refusal) => Err(self.refuse(&refusal).await),
            None => {
                self.store = Some(store);
                Ok(())
            }
        }
    }

    async fn refuse(&mut self, refusal: &Refusal) -> End {
        self.shared.metrics.add(Counter::QwpRefused, 1);
        self.waiting.clear();
        self.crowded_out = None;
        let mut answer = Vec::new();
        response::put_error(&mut answer, refusal.sequence, refusal.status, &refusal.text);
        match self.outgoing.send(answer).await {
            Ok(()) => End::refused(),
            Err(end) => end,
        }
    }

    /// Stores and answers what came before the end; nothing behind a message that was refused.
    async fn finish(&mut self) -> Result<(), End> {
        loop {
            self.begin();
            let Some(under_way) = self.under_way.take() else { break };
            let done = under_way.await;
            self.done(done).await?;
        }
        match self.crowded_out.take() {
            Some(refusal) => Err(self.refuse(&refusal).await),
            None => Ok(()),
        }
    }
}
