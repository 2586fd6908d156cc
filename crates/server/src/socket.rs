//! The two directions of a WebSocket, and the patience with both.
//!
//! A client that says nothing for `idle_timeout` is asked whether it is there (a ping); one that takes nothing for
//! `send_timeout`, or does not say for so long, is gone. The socket ends with a Close, and is read for a while after it, so
//! that what was sent before arrives.

use crate::connection::LAST_PATIENCE;
use crate::settings::Settings;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, close_code};
use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// How long a client may take to answer a Close.
const CLOSING: Duration = Duration::from_secs(2);

/// How a connection ends.
#[derive(Debug)]
pub(crate) struct End {
    /// Why, for the log and for the client.
    pub(crate) why: String,
    /// The code that the client is told; `None` where it is gone.
    code: Option<u16>,
}

impl End {
    fn gone(why: impl ToString) -> Self {
        Self { why: why.to_string(), code: None }
    }

    /// The server stops.
    pub(crate) fn stops() -> Self {
        Self { why: "the server stops".to_string(), code: Some(close_code::AWAY) }
    }

    /// A message was refused, and the answer says why.
    pub(crate) fn refused() -> Self {
        Self { why: "a message was refused".to_string(), code: Some(close_code::POLICY) }
    }

    /// The client sends messages of a kind that there is none of.
    pub(crate) fn unsupported(why: impl ToString) -> Self {
        Self { why: why.to_string(), code: Some(close_code::UNSUPPORTED) }
    }

    /// The client does what it may not.
    pub(crate) fn wrong(why: impl ToString) -> Self {
        Self { why: why.to_string(), code: Some(close_code::PROTOCOL) }
    }

    /// The server is at fault.
    pub(crate) fn failed(why: impl ToString) -> Self {
        Self { why: why.to_string(), code: Some(close_code::ERROR) }
    }
}

/// What came of a client.
#[derive(Debug)]
pub(crate) enum Came {
    /// A message of bytes.
    Message(Bytes),
    /// A message of text.
    Text(Utf8Bytes),
    /// Nothing for a while: it should be asked whether it is there.
    Silence,
    /// The end.
    End(End),
}

/// The socket's two halves.
pub(crate) fn halves(socket: WebSocket, settings: &Settings) -> (Outgoing, Incoming) {
    let (sink, stream) = socket.split();
    let patience = settings.time("send_timeout");
    let incoming = Incoming {
        stream,
        ask_after: settings.time("idle_timeout"),
        patience,
        heard: Instant::now(),
        asked: 0,
    };
    (Outgoing { sink, patience }, incoming)
}

/// What comes of a client.
#[derive(Debug)]
pub(crate) struct Incoming {
    stream: SplitStream<WebSocket>,
    ask_after: Option<Duration>,
    patience: Option<Duration>,
    heard: Instant,
    /// How often it was asked since it was heard.
    asked: u32,
}

impl Incoming {
    /// The next that comes. Nothing is lost where this is dropped before.
    pub(crate) async fn next(&mut self) -> Came {
        loop {
            let next = match self.ask_after {
                None => self.stream.next().await,
                Some(after) => {
                    match timeout_at(self.heard + after * (self.asked + 1), self.stream.next()).await {
                        Ok(next) => next,
                        Err(_) => return self.silence(),
                    }
                }
            };
            (self.heard, self.asked) = (Instant::now(), 0);
            return match next {
                Some(Ok(Message::Binary(bytes))) => Came::Message(bytes),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                Some(Ok(Message::Text(text))) => Came::Text(text),
                Some(Ok(Message::Close(_))) => Came::End(End::gone("closed by the client")),
                Some(Err(error)) => {
                    let why = error.to_string();
                    // What the limits of the upgrade say.
                    let is_long = why.contains("too long");
                    let code = if is_long { close_code::SIZE } else { close_code::PROTOCOL };
                    Came::End(End { why, code: Some(code) })
                }
                None => Came::End(End::gone("the client is gone")),
            };
        }
    }

    /// What has come already, or comes in a moment: bytes that the system holds are not at hand at once, and a task that
    /// has read many has to give way first.
    pub(crate) async fn come(&mut self) -> Option<Came> {
        timeout(LAST_PATIENCE, self.next()).await.ok()
    }

    fn silence(&mut self) -> Came {
        self.asked += 1;
        match self.patience {
            Some(patience) if self.heard.elapsed() >= patience => {
                Came::End(End::gone(format!("nothing was heard for send_timeout, {patience:?}")))
            }
            _ => Came::Silence,
        }
    }

    /// Reads on until the client has closed, for a while.
    async fn closed(mut self) {
        let read = async { while let Some(Ok(_)) = self.stream.next().await {} };
        let _ = timeout(CLOSING, read).await;
    }
}

/// What goes to a client.
#[derive(Debug)]
pub(crate) struct Outgoing {
    sink: SplitSink<WebSocket, Message>,
    patience: Option<Duration>,
}

impl Outgoing {
    /// Sends a message of text, which is UTF-8.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub(crate) async fn send_text(&mut self, text: Vec<u8>) -> Result<(), End> {
        let text = Utf8Bytes::try_from(Bytes::from(text)).map_err(End::failed)?;
        self.put(Message::Text(text)).await
    }

    /// Sends a message of bytes.
    ///
    /// # Errors
    /// Where the client is gone, or takes too long; the connection ends then.
    pub(crate) async fn send(&mut self, message: Vec<u8>) -> Result<(), End> {
        self.put(Message::Binary(Bytes::from(message))).await
    }

    /// Asks the client whether it is there.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub(crate) async fn ask(&mut self) -> Result<(), End> {
        self.put(Message::Ping(Bytes::new())).await
    }

    async fn put(&mut self, message: Message) -> Result<(), End> {
        let sent = self.sink.send(message);
        let sent = match self.patience {
            None => sent.await,
            Some(patience) => timeout(patience, sent)
                .await
                .map_err(|_| End::gone(format!("the client took nothing for send_timeout, {patience:?}")))?,
        };
        sent.map_err(End::gone)
    }

    /// Ends the connection.
    pub(crate) async fn end(mut self, incoming: Incoming, end: &End) {
        let close = async {
            match end.code {
                Some(code) => {
                    // The reason of a Close has at most 123 bytes.
                    let reason = &end.why[..end.why.floor_char_boundary(120)];
                    let frame = CloseFrame { code, reason: reason.into() };
                    self.sink.send(Message::Close(Some(frame))).await
                }
                None => self.sink.close().await,
            }
        };
        if let Ok(Ok(())) = timeout(CLOSING, close).await
            && end.code.is_some()
        {
            incoming.closed().await;
        }
    }
}
