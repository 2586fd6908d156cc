//! The socket of a connection: messages in, bytes out.

use super::shape;
use crate::tls::Handshake;
use crate::transport::Transport;
use bytes::{Buf, BytesMut};
use pgwire::messages::{DecodeContext, Message, PgWireFrontendMessage};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Bytes that are gathered before they are sent.
pub(super) const SEND_BYTES: usize = 64 << 10;

/// How much is read of a client whose statement runs, to see whether it is there.
const AHEAD_BYTES: usize = 256 << 10;

/// Room for messages that come.
const READ_BYTES: usize = 16 << 10;

/// What a client sent.
#[derive(Debug)]
pub(super) enum Came {
    Message(PgWireFrontendMessage),
    /// A message of this kind whose text is no UTF-8, from this byte of it on.
    NoText(u8, usize),
}

#[derive(Debug)]
pub(super) struct Channel {
    stream: Transport,
    input: BytesMut,
    pub(super) out: BytesMut,
    message_bytes_max: usize,
    /// How long a client may take none of what is sent to it.
    send_timeout: Option<Duration>,
}

impl Channel {
    pub(super) fn new(stream: Transport, message_bytes_max: usize, send_timeout: Option<Duration>) -> Self {
        let (input, out) = (BytesMut::with_capacity(READ_BYTES), BytesMut::with_capacity(READ_BYTES));
        Self { stream, input, out, message_bytes_max, send_timeout }
    }

    /// Speaks TLS from here on.
    ///
    /// # Errors
    /// Where the handshake fails, and where bytes came before it: whoever sits between client and server would have them
    /// taken for the client's (CVE-2021-23222).
    pub(super) async fn encrypted(self, handshake: Handshake) -> io::Result<Self> {
        if !self.input.is_empty() {
            return Err(invalid("bytes came between the request for TLS and its handshake".to_string()));
        }
        Ok(Self { stream: self.stream.encrypt(handshake).await?, ..self })
    }

    /// The address of the client; none that is known where it went.
    pub(super) fn peer(&self) -> Option<IpAddr> {
        self.stream.tcp().peer_addr().ok().map(|address| address.ip())
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.stream.is_encrypted()
    }

    /// As [`Transport::end_point`].
    pub(super) fn end_point(&self) -> Option<Arc<[u8]>> {
        self.stream.end_point()
    }

    /// As [`Transport::certified`].
    pub(super) fn certified(&self) -> Option<Arc<str>> {
        self.stream.certified()
    }

    /// Reads more; whether there was any.
    pub(super) async fn read_more(&mut self) -> io::Result<bool> {
        self.input.reserve(READ_BYTES);
        Ok(self.stream.read_buf(&mut self.input).await? > 0)
    }

    /// What came and was not read yet.
    pub(super) fn input(&mut self) -> &mut BytesMut {
        &mut self.input
    }

    /// The next message; `None` where the client is gone. What waits to be sent is sent before it waits.
    ///
    /// # Errors
    /// Where the connection breaks, or a message is none or too long.
    pub(super) async fn next(&mut self) -> io::Result<Option<Came>> {
        loop {
            if let Some(message) = self.decoded()? {
                return Ok(Some(message));
            }
            self.send().await?;
            if !self.read_more().await? {
                return Ok(None);
            }
        }
    }

    /// A message that has come whole.
    fn decoded(&mut self) -> io::Result<Option<Came>> {
        let Some(head) = self.input.first_chunk::<5>() else { return Ok(None) };
        let (kind, mut length) = (head[0], &head[1..]);
        if !shape::KINDS.contains(&kind) {
            return Err(invalid(format!(
                "there is no message of kind '{}'",
                char::from(kind).escape_default()
            )));
        }
        let length = usize::try_from(length.get_i32()).ok().filter(|length| *length >= 4);
        let length = length.ok_or_else(|| invalid("a message has no length that can be".to_string()))?;
        if length > self.message_bytes_max {
            let most = self.message_bytes_max;
            return Err(invalid(format!("a message of {length} bytes, more than request_bytes_max, {most}")));
        }
        if self.input.len() <= length {
            return Ok(None);
        }
        let mut message = self.input.split_to(1 + length);
        let malformed = || {
            let kind = char::from(kind).escape_default();
            invalid(format!("a message of kind '{kind}' is not as the protocol has it"))
        };
        if !shape::is_whole(kind, &message[5..]) {
            return Err(malformed());
        }
        if let Some(place) = shape::no_text(kind, &message[5..]) {
            return Ok(Some(Came::NoText(kind, place)));
        }
        let mut context = DecodeContext::default();
        context.awaiting_frontend_ssl = false;
        context.awaiting_frontend_startup = false;
        match PgWireFrontendMessage::decode(&mut message, &context) {
            Ok(Some(decoded)) => Ok(Some(Came::Message(decoded))),
            _ => Err(malformed()),
        }
    }

    /// Puts a message behind what is to be sent.
    pub(super) fn put(&mut self, message: &impl Message) {
        // The encoder fails for messages longer than the protocol has, which none of ours is but rows, which are not
        // written by it.
        if let Err(error) = message.encode(&mut self.out) {
            tracing::error!(%error, "PostgreSQL: a message could not be written");
        }
    }

    /// Sends what waits.
    ///
    /// # Errors
    /// Where the connection breaks, and where the client takes nothing for `send_timeout`.
    pub(super) async fn send(&mut self) -> io::Result<()> {
        while !self.out.is_empty() {
            let write = self.stream.write_buf(&mut self.out);
            if in_time(self.send_timeout, write).await? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        // TLS may hold the end of it back.
        in_time(self.send_timeout, self.stream.flush()).await
    }

    /// Sends what waits once it is much.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub(super) async fn send_much(&mut self) -> io::Result<()> {
        if self.out.len() >= SEND_BYTES { self.send().await } else { Ok(()) }
    }

    /// Whether much waits to be sent.
    pub(super) fn is_behind(&self) -> bool {
        self.out.len() >= SEND_BYTES
    }

    /// Returns once the client is gone. What it sends meanwhile is kept; one that sends much is not looked for.
    pub(super) async fn gone(&mut self) {
        while self.input.len() < AHEAD_BYTES {
            if !matches!(self.read_more().await, Ok(true)) {
                return;
            }
        }
        std::future::pending().await
    }
}

/// What is done within `send_timeout`.
async fn in_time<T>(
    send_timeout: Option<Duration>,
    work: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let Some(limit) = send_timeout else { return work.await };
    tokio::time::timeout(limit, work).await.map_err(|_| {
        let what = format!("the client took nothing for send_timeout, {limit:?}");
        io::Error::new(io::ErrorKind::TimedOut, what)
    })?
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
