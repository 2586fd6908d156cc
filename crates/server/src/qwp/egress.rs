//! A connection that asks.
//!
//! Queries are answered one after the other; a few that come meanwhile wait. A query is cancelled when its client says so,
//! is gone, or has given it no more time. Memory does not grow with the rows: a batch that no credit is left for is not
//! asked of the statement.

use super::no_text;
use super::query::{Controls, answer};
use crate::connection::Taken;
use crate::ilp::now;
use crate::shared::Shared;
use crate::socket::{Came, End, Incoming, Outgoing, halves};
use axum::extract::ws::WebSocket;
use std::collections::VecDeque;
use std::sync::Arc;
use tickstone_query::Access;
use tickstone_wire::qwp::Status;
use tickstone_wire::qwp::egress::{
    Query, RefusedRequest, Request, Results, ServerInfo, put_error, put_server_info, read_request,
};
use tokio::sync::Mutex;
use tracing::debug;

/// Queries that wait for the one that is answered.
const QUERIES_WAITING: usize = 8;

struct Connection {
    shared: Arc<Shared>,
    access: Access,
    results: Results,
    rows_max: usize,
    waiting: VecDeque<Waiting>,
}

enum Waiting {
    Query(Query),
    /// One that was cancelled before its turn.
    Cancelled(i64),
    Refused(RefusedRequest),
}

/// Serves a connection until it ends; batches have at most `rows_max` rows.
pub(super) async fn serve(
    socket: WebSocket,
    shared: Arc<Shared>,
    access: Access,
    mut taken: Taken,
    rows_max: usize,
) {
    let (outgoing, mut incoming) = halves(socket, &shared.settings);
    let outgoing = Mutex::new(outgoing);
    let mut connection =
        Connection { shared, access, results: Results::new(), rows_max, waiting: VecDeque::new() };
    let end = match connection.run(&outgoing, &mut incoming, &mut taken).await {
        Ok(never) => match never {},
        Err(end) => end,
    };
    debug!(peer = %taken.peer, why = end.why, "QWP: connection of queries ended");
    outgoing.into_inner().end(incoming, &end).await;
}

impl Connection {
    async fn run(
        &mut self,
        outgoing: &Mutex<Outgoing>,
        incoming: &mut Incoming,
        taken: &mut Taken,
    ) -> Result<std::convert::Infallible, End> {
        let mut greeting = Vec::new();
        put_server_info(&mut greeting, &ServerInfo { now: now(), cluster: "tickstone", node: "" });
        outgoing.lock().await.send(greeting).await?;
        loop {
            let Some(next) = self.waiting.pop_front() else {
                tokio::select! {
                    came = incoming.next() => match came {
                        Came::Message(bytes) => self.take(&bytes, None)?,
                        Came::Text(_) => return Err(no_text()),
                        Came::Silence => outgoing.lock().await.ask().await?,
                        Came::End(end) => return Err(end),
                    },
                    _ = taken.stopping.changed() => return Err(End::stops()),
                }
                continue;
            };
            match next {
                Waiting::Query(query) => self.answer(&query, outgoing, incoming).await?,
                Waiting::Cancelled(id) => refuse(outgoing, id, Status::Cancelled, CANCELLED).await?,
                Waiting::Refused(refused) => {
                    refuse(outgoing, refused.id.unwrap_or(-1), refused.status, &refused.text).await?;
                    if refused.id.is_none() {
                        return Err(End::wrong(refused.text));
                    }
                }
            }
        }
    }

    /// Takes a message; `under_way` is the query that is answered meanwhile.
    fn take(&mut self, message: &[u8], under_way: Option<&Controls>) -> Result<(), End> {
        let of = |wanted: i64| move |waiting: &&mut Waiting| matches!(waiting, Waiting::Query(query) if query.id == wanted);
        match read_request(message) {
            Ok(Request::Cancel { id }) => match under_way.filter(|controls| controls.id() == id) {
                Some(controls) => controls.cancel(),
                None => {
                    if let Some(waiting) = self.waiting.iter_mut().find(of(id)) {
                        *waiting = Waiting::Cancelled(id);
                    }
                }
            },
            Ok(Request::Credit { id, bytes }) => match under_way.filter(|controls| controls.id() == id) {
                Some(controls) => controls.grant(bytes),
                None => {
                    if let Some(Waiting::Query(query)) = self.waiting.iter_mut().find(of(id))
                        && query.credit > 0
                    {
                        query.credit = query.credit.saturating_add(bytes);
                    }
                }
            },
            Ok(Request::Query(query)) => self.waiting.push_back(Waiting::Query(query)),
            Err(refused) => self.waiting.push_back(Waiting::Refused(refused)),
        }
        if self.waiting.len() > QUERIES_WAITING {
            return Err(End::wrong(format!("more than {QUERIES_WAITING} queries wait")));
        }
        Ok(())
    }

    /// Answers a query, and reads what comes meanwhile; the query ends where the connection does.
    async fn answer(
        &mut self,
        query: &Query,
        outgoing: &Mutex<Outgoing>,
        incoming: &mut Incoming,
    ) -> Result<(), End> {
        let controls = Controls::new(query);
        let mut results = std::mem::take(&mut self.results);
        {
            let (shared, access) = (Arc::clone(&self.shared), self.access.clone());
            let answered = answer(&shared, &access, query, &controls, &mut results, outgoing, self.rows_max);
            tokio::pin!(answered);
            loop {
                tokio::select! {
                    answered = &mut answered => break answered?,
                    came = incoming.next() => match came {
                        Came::Message(bytes) => self.take(&bytes, Some(&controls))?,
                        Came::Text(_) => return Err(no_text()),
                        // Where it is locked, what is sent tells whether the client is there.
                        Came::Silence => if let Ok(mut outgoing) = outgoing.try_lock() {
                            outgoing.ask().await?;
                        },
                        Came::End(end) => return Err(end),
                    },
                }
            }
        }
        self.results = results;
        Ok(())
    }
}

/// What a query is told that was cancelled.
pub(super) const CANCELLED: &str = "the query was cancelled";

async fn refuse(outgoing: &Mutex<Outgoing>, id: i64, status: Status, text: &str) -> Result<(), End> {
    let mut answer = Vec::new();
    put_error(&mut answer, id, status, text);
    outgoing.lock().await.send(answer).await
}
