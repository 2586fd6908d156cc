//! The PostgreSQL protocol, version 3 ("Frontend/Backend Protocol" in its manual): simple and extended queries, cursors,
//! COPY, cancelling. Messages are read and written by `pgwire`; values, rows and the state of a connection are ours.
//!
//! ```text
//! socket ─► channel ─► startup ─► connection ─┬► simple ───┬► execute ─► Conversation ─► values ─► channel
//!                                             ├► extended ─┘
//!                                             └► copying ─► copy
//! ```
//!
//! Invariants: between ReadyForQuery and the next, an error ends what the client sent in one go (a query text, the messages
//! up to Sync); INSERTs that come so are one transaction, up to a statement that may see them; a failed transaction takes
//! nothing but its end.

mod cancel;
pub(crate) mod catalog;
mod channel;
mod connection;
mod copy;
mod copying;
mod cursors;
mod digits;
mod error;
mod execute;
mod extended;
mod guc;
mod implicit;
mod listen;
mod parameters;
mod portal;
mod savepoints;
mod scram;
mod settings;
mod shape;
mod simple;
mod startup;
mod time_zone;
pub(crate) mod types;
mod values;

pub(crate) use cancel::Cancels;

use crate::shared::Shared;
use crate::transport::Transport;
use channel::Channel;
use connection::Connection;
use startup::Begun;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::watch;
use tracing::debug;

/// Serves a connection until its client goes or the server stops.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    stream: Transport,
    peer: SocketAddr,
    stopping: watch::Receiver<bool>,
) {
    let settings = &shared.settings;
    let (bytes_max, send_timeout) = (settings.bytes("request_bytes_max"), settings.time("send_timeout"));
    let channel = Channel::new(stream, bytes_max, send_timeout);
    let timeout = settings.time("statement_timeout");
    let begin = startup::begin(channel, &shared, timeout);
    let begun = match settings.time("idle_timeout") {
        Some(patience) => match tokio::time::timeout(patience, begin).await {
            Ok(begun) => begun,
            Err(_) => return,
        },
        None => begin.await,
    };
    let ended = match begun {
        Ok(Begun::Session(session)) => {
            let (channel, guc, registered, client, access) = *session;
            Connection::new(&shared, channel, guc, (registered, client), access, stopping).serve().await
        }
        Ok(Begun::Over) => Ok(()),
        Err(error) => Err(error),
    };
    if let Err(error) = ended {
        debug!(%peer, %error, "PostgreSQL: connection ended");
    }
}
