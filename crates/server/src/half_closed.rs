//! Clients that send a whole request and close their side, such as `nc -N`: they still wait for the answer.
//!
//! The end of what a client sends looks the same whether it waits or has gone. While a request is under way, hyper hears
//! of that end only after [`PATIENCE`] in which nothing was sent to the client: one that has gone refuses what is sent.

use crate::transport::Transport;
use axum::body::HttpBody;
use hyper::body::{Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// How long a request goes on whose client has closed its side and takes nothing.
const PATIENCE: Duration = Duration::from_secs(5);

/// The requests of a connection that are under way.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnderWay(Arc<AtomicUsize>);

impl UnderWay {
    /// One more, until the guard goes.
    pub(crate) fn begin(&self) -> Request {
        self.0.fetch_add(1, Ordering::Relaxed);
        Request(self.clone())
    }
}

/// A request under way.
#[derive(Debug)]
pub(crate) struct Request(UnderWay);

impl Drop for Request {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The body of an answer, and what goes with it: that its request is under way, and one of its user's connections.
#[derive(Debug)]
pub(crate) struct Answer<B, H> {
    body: B,
    _held: H,
}

impl<B, H> Answer<B, H> {
    pub(crate) fn new(body: B, held: H) -> Self {
        Self { body, _held: held }
    }
}

impl<B: HttpBody + Unpin, H: Unpin> HttpBody for Answer<B, H> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A client's connection.
#[derive(Debug)]
pub(crate) struct HalfClosed {
    stream: Transport,
    under_way: UnderWay,
    /// From when the client has closed its side: until when that is not told.
    untold: Option<Pin<Box<Sleep>>>,
}

impl HalfClosed {
    pub(crate) fn new(stream: Transport, under_way: UnderWay) -> Self {
        Self { stream, under_way, untold: None }
    }

    /// Whether the end may be told by now.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.under_way.0.load(Ordering::Relaxed) == 0 {
            return Poll::Ready(Ok(()));
        }
        let untold = self.untold.get_or_insert_with(|| Box::pin(tokio::time::sleep(PATIENCE)));
        untold.as_mut().poll(context).map(Ok)
    }

    /// What was sent to the client, it took.
    fn sent(&mut self, sent: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let (Some(untold), Poll::Ready(Ok(1..))) = (&mut self.untold, &sent) {
            untold.as_mut().reset(Instant::now() + PATIENCE);
        }
        sent
    }
}

impl AsyncRead for HalfClosed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.untold.is_none() {
            let before = bytes.filled().len();
            ready!(Pin::new(&mut self.stream).poll_read(context, bytes))?;
            if bytes.filled().len() > before || bytes.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
        }
        self.poll_end(context)
    }
}

impl AsyncWrite for HalfClosed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.sent(sent)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.sent(sent)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
