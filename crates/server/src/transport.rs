//! [`Transport`]: a connection, over TLS or not, and what has come on it without having been read.

use crate::certificate::common_name;
use crate::shared::Shared;
use crate::tls::{Handshake, Inside};
use bytes::{Buf, BytesMut};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// How long a handshake may take.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);

/// Room for what is looked at: a whole request, mostly.
const LOOK_BYTES: usize = 4 << 10;

/// What a handshake begins with (RFC 8446, 5.1). None of the protocols in the clear begins so: of raw streams it would be
/// the length of a request of 352 MiB or more.
const HANDSHAKE: u8 = 0x16;

/// A connection of a client.
#[derive(Debug)]
pub(crate) struct Transport {
    stream: Stream,
    /// What was looked at and not read.
    ahead: BytesMut,
}

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Encrypted),
}

/// A stream over TLS, whose end is told: without that a client takes what it read for cut off.
#[derive(Debug)]
struct Encrypted {
    stream: Box<TlsStream<TcpStream>>,
    end_point: Option<Arc<[u8]>>,
    /// Whose certificate the client has.
    certified: Option<Arc<str>>,
}

impl Drop for Encrypted {
    fn drop(&mut self) {
        let (tcp, session) = self.stream.get_mut();
        session.send_close_notify();
        let mut bytes = Vec::new();
        while session.wants_write() && session.write_tls(&mut bytes).is_ok_and(|count| count > 0) {}
        // A client that takes nothing is told nothing.
        let _ = tcp.try_write(&bytes);
    }
}

/// How a connection begins.
#[derive(Debug)]
pub(crate) enum Beginning {
    /// It can be served.
    Served(Transport),
    /// It is in the clear, where it must not be.
    Plain(TcpStream),
    /// It ended before anything came.
    Gone,
}

impl Transport {
    /// In the clear.
    pub(crate) fn plain(stream: TcpStream) -> Self {
        Self { stream: Stream::Plain(stream), ahead: BytesMut::new() }
    }

    /// Waits for the first byte where the server has a certificate, and speaks TLS with a client that begins so.
    ///
    /// # Errors
    /// Where the connection breaks, nothing comes within `patience`, or the handshake fails.
    pub(crate) async fn begin(
        stream: TcpStream,
        shared: &Shared,
        inside: Inside,
        patience: Option<Duration>,
    ) -> io::Result<Beginning> {
        let Some(tls) = &shared.tls else { return Ok(Beginning::Served(Self::plain(stream))) };
        let mut first = [0];
        let come = within(patience, stream.peek(&mut first)).await?;
        if come == 0 {
            return Ok(Beginning::Gone);
        }
        if first[0] == HANDSHAKE {
            return Ok(Beginning::Served(encrypted(stream, tls.handshake(inside)).await?));
        }
        Ok(match tls.is_required && inside != Inside::Postgres {
            true => Beginning::Plain(stream),
            false => Beginning::Served(Self::plain(stream)),
        })
    }

    /// Speaks TLS from here on.
    ///
    /// # Errors
    /// Where the handshake fails, and where it was spoken before.
    pub(crate) async fn encrypt(self, handshake: Handshake) -> io::Result<Self> {
        match self.stream {
            Stream::Plain(stream) if self.ahead.is_empty() => encrypted(stream, handshake).await,
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "TLS within TLS")),
        }
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        matches!(self.stream, Stream::Tls(_))
    }

    /// What a login can be bound to, so that nobody between client and server can pass it on: `tls-server-end-point` of
    /// RFC 5929.
    pub(crate) fn end_point(&self) -> Option<Arc<[u8]>> {
        match &self.stream {
            Stream::Plain(_) => None,
            Stream::Tls(encrypted) => encrypted.end_point.clone(),
        }
    }

    /// The common name of the client's certificate, where it has one that an authority in `tls_client_ca` vouches for.
    pub(crate) fn certified(&self) -> Option<Arc<str>> {
        match &self.stream {
            Stream::Plain(_) => None,
            Stream::Tls(encrypted) => encrypted.certified.clone(),
        }
    }

    pub(crate) fn tcp(&self) -> &TcpStream {
        match &self.stream {
            Stream::Plain(stream) => stream,
            Stream::Tls(encrypted) => encrypted.stream.get_ref().0,
        }
    }

    /// What comes first, `count` bytes of it, or fewer where the client closes or `is_enough` says so. They are read again
    /// by whoever reads, also where this is dropped before it ends.
    ///
    /// # Errors
    /// Where the connection breaks.
    pub(crate) async fn look(
        &mut self,
        count: usize,
        is_enough: impl Fn(&[u8]) -> bool,
    ) -> io::Result<&[u8]> {
        while self.ahead.len() < count && !is_enough(&self.ahead) {
            self.ahead.reserve(LOOK_BYTES);
            let read = match &mut self.stream {
                Stream::Plain(stream) => stream.read_buf(&mut self.ahead).await?,
                Stream::Tls(encrypted) => encrypted.stream.read_buf(&mut self.ahead).await?,
            };
            if read == 0 {
                break;
            }
        }
        Ok(&self.ahead)
    }
}

async fn within<T>(patience: Option<Duration>, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match patience {
        Some(patience) => tokio::time::timeout(patience, work).await?,
        None => work.await,
    }
}

/// Why a handshake failed, where it was for the client's certificate.
pub(crate) fn of_certificate(failed: &io::Error) -> Option<&rustls::CertificateError> {
    match failed.get_ref()?.downcast_ref()? {
        rustls::Error::InvalidCertificate(why) => Some(why),
        _ => None,
    }
}

/// Ends a connection whose client was told why: where something is not read before it is closed, the system would throw
/// away what the client has not read.
pub(crate) async fn drain(mut stream: TcpStream) {
    /// Whoever takes longer to read it does not read.
    const PATIENCE: Duration = Duration::from_secs(1);
    let drained = async {
        stream.shutdown().await?;
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
    };
    let _ = tokio::time::timeout(PATIENCE, drained).await;
}

async fn encrypted(stream: TcpStream, handshake: Handshake) -> io::Result<Transport> {
    let accepted = handshake.acceptor.accept(stream).into_fallible();
    let stream = match tokio::time::timeout(HANDSHAKE_PATIENCE, accepted).await? {
        Ok(stream) => Box::new(stream),
        Err((error, stream)) => {
            if of_certificate(&error).is_some() {
                drain(stream).await;
            }
            return Err(error);
        }
    };
    // Its own comes first.
    let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let certified = certificate.and_then(|certificate| common_name(certificate)).map(Arc::from);
    let encrypted = Encrypted { stream, end_point: handshake.end_point, certified };
    Ok(Transport { stream: Stream::Tls(encrypted), ahead: BytesMut::new() })
}

impl AsyncRead for Transport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.ahead.is_empty() {
            let count = self.ahead.len().min(bytes.remaining());
            bytes.put_slice(&self.ahead[..count]);
            self.ahead.advance(count);
            if self.ahead.is_empty() {
                self.ahead = BytesMut::new();
            }
            return Poll::Ready(Ok(()));
        }
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, bytes),
            Stream::Tls(encrypted) => Pin::new(encrypted.stream.as_mut()).poll_read(context, bytes),
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(encrypted) => Pin::new(encrypted.stream.as_mut()).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write_vectored(context, bytes),
            Stream::Tls(encrypted) => Pin::new(encrypted.stream.as_mut()).poll_write_vectored(context, bytes),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(encrypted) => encrypted.stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(encrypted) => Pin::new(encrypted.stream.as_mut()).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(encrypted) => Pin::new(encrypted.stream.as_mut()).poll_shutdown(context),
        }
    }
}
