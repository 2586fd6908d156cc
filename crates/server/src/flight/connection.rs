//! One connection: HTTP/2 and nothing else, requests of gRPC and nothing else, and how much of them may be in memory.

use super::failure::status;
use super::service::Flight;
use crate::half_closed;
use crate::logins::{Credentials, access_or};
use crate::metrics::Counter;
use crate::shared::Shared;
use crate::transport::Transport;
use arrow_flight::flight_service_server::FlightServiceServer;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use socket2::SockRef;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tickstone_query::audit::Origin;
use tickstone_query::{Access, ErrorKind, QueryError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Sleep;
use tonic::Status;
use tonic::codegen::{Bytes, Service, http};
use tracing::debug;

/// What a connection of HTTP/2 begins with (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Requests that a connection has under way at most.
const STREAMS_MAX: u32 = 256;
/// Bytes of a request that may come before they are read, and of all requests of a connection.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// Bytes of an answer that wait to be sent.
const SENT_BYTES_MAX: usize = 4 << 20;
/// How long a client has to close a connection that the server has ended.
const LINGER: Duration = Duration::from_secs(2);
/// The longest frame of HTTP/2 that is taken.
const FRAME_BYTES_MAX: u32 = 256 << 10;
/// Bytes of the headers of a request.
const HEADER_BYTES_MAX: u32 = 64 << 10;

/// Serves a connection until it ends, or until the server stops and its requests are answered.
pub(crate) async fn serve(
    flight: Flight,
    mut stream: Transport,
    peer: SocketAddr,
    mut stopping: watch::Receiver<bool>,
) {
    let shared = Arc::clone(flight.shared());
    let patience = shared.settings.time("idle_timeout");
    let begins = begins_as_http2(&mut stream);
    let begins = match patience {
        Some(patience) => tokio::time::timeout(patience, begins).await.unwrap_or(false),
        None => begins.await,
    };
    if !begins {
        debug!(%peer, "Flight: no HTTP/2, closed");
        return;
    }
    let service = service(flight, peer.ip(), stream.certified());
    let after = SockRef::from(stream.tcp()).try_clone().map(std::net::TcpStream::from);
    let connection = builder(patience).serve_connection(TokioIo::new(stream), service_fn(service));
    let mut connection = Box::pin(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        _ = stopping.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.as_mut().await
        }
    };
    drop(connection);
    if let Err(error) = ended {
        debug!(%peer, %error, "Flight: connection ended");
    } else if let Ok(stream) = after.and_then(TcpStream::from_std) {
        let _ = tokio::time::timeout(LINGER, until_closed(stream)).await;
    }
}

/// Waits until the client closes too. What it sends to a socket that is closed, be it the credit for what it read, would
/// have the system throw away what it has not read yet.
async fn until_closed(mut stream: TcpStream) {
    let mut bytes = [0; 4 << 10];
    if stream.shutdown().await.is_ok() {
        while matches!(stream.read(&mut bytes).await, Ok(1..)) {}
    }
}

/// Waits until a client has sent all that HTTP/2 begins with; `false` where it sends something else.
async fn begins_as_http2(stream: &mut Transport) -> bool {
    let begin = stream.look(PREFACE.len(), |begin| !PREFACE.starts_with(begin)).await;
    begin.is_ok_and(|begin| begin.starts_with(PREFACE))
}

fn builder(patience: Option<Duration>) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SENT_BYTES_MAX)
        .max_frame_size(FRAME_BYTES_MAX)
        .max_header_list_size(HEADER_BYTES_MAX)
        // A client that is gone without a word does not answer.
        .keep_alive_interval(patience);
    if let Some(patience) = patience {
        builder.keep_alive_timeout(patience);
    }
    builder
}

type Answer = Pin<Box<dyn Future<Output = Result<http::Response<tonic::body::Body>, Infallible>> + Send>>;

/// Who sent a request.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    pub(super) access: Access,
    /// The number of the connection that it came over.
    pub(super) connection: u64,
}

impl Caller {
    /// # Errors
    /// Where the request did not come over a connection: a defect.
    pub(super) fn of<T>(request: &tonic::Request<T>) -> Result<Self, Status> {
        let caller = request.extensions().get::<Self>().cloned();
        caller.ok_or_else(|| Status::internal("nobody knows who sent the request"))
    }
}

/// A number for a connection, from 1.
fn next_connection() -> u64 {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    NUMBER.fetch_add(1, Ordering::Relaxed) + 1
}

/// Serves the requests of one connection.
fn service(
    flight: Flight,
    from: IpAddr,
    certified: Option<Arc<str>>,
) -> impl Fn(http::Request<Incoming>) -> Answer + Clone {
    let shared = Arc::clone(flight.shared());
    let bytes_max = shared.settings.bytes("request_bytes_max");
    let connection = next_connection();
    let service = FlightServiceServer::new(flight).max_decoding_message_size(bytes_max);
    move |mut request| {
        if !is_grpc(&request) {
            let mut answer = http::Response::new(tonic::body::Body::empty());
            *answer.status_mut() = http::StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Box::pin(async { Ok(answer) });
        }
        let charge = Arc::new(Charge::new(&shared));
        request.extensions_mut().insert(Arc::clone(&charge));
        let (head, body) = request.into_parts();
        let (mut service, shared, certified) = (service.clone(), Arc::clone(&shared), certified.clone());
        Box::pin(async move {
            // What comes for an answer that waits is not kept.
            let mut body = Some(body);
            let admitted = admitted(&shared, &head.headers, from, certified, || drop(body.take())).await;
            // A call is a connection as long as it is answered, but for those that end what another one holds.
            let admitted = match head.uri.path().ends_with("/DoAction") {
                true => admitted,
                false => admitted.and_then(|access| access.seated().map_err(|error| status(&error))),
            };
            let body = body.map_or_else(tonic::body::Body::empty, |body| {
                tonic::body::Body::new(Charged::new(body, charge, &shared))
            });
            match admitted {
                Ok(access) => {
                    let mut request = http::Request::from_parts(head, body);
                    request.extensions_mut().insert(Caller { access: access.clone(), connection });
                    let answer = service.call(request).await?;
                    Ok(answer.map(|body| tonic::body::Body::new(half_closed::Answer::new(body, access))))
                }
                Err(refused) => {
                    shared.metrics.add(Counter::LoginsRefused, 1);
                    Ok(refused.into_http())
                }
            }
        })
    }
}

/// The access of whoever sent a request; `refused` is called before a wrong answer waits.
///
/// # Errors
/// What to answer where there are users, and it is none of them.
async fn admitted(
    shared: &Arc<Shared>,
    headers: &http::HeaderMap,
    from: IpAddr,
    certified: Option<Arc<str>>,
    refused: impl FnOnce(),
) -> Result<Access, Status> {
    let origin = Origin { protocol: "flight", address: Some(from) };
    if !shared.database.has_users().map_err(|error| status(&error))? {
        return Ok(Access::of_nobody(&shared.database).from(origin));
    }
    let mut said = headers.get_all(http::header::AUTHORIZATION).iter();
    let credentials = match (said.next(), said.next()) {
        (None, _) => certified.map(Credentials::Certificate),
        (Some(header), None) => header.to_str().ok().and_then(Credentials::of_header),
        (Some(_), Some(_)) => None,
    };
    let Some(credentials) = credentials else {
        return Err(Status::unauthenticated(
            "this server wants to know who asks: a user and a password, or a token",
        ));
    };
    let access = access_or(shared, credentials, origin, false, refused).await;
    access.map_err(|error| Status::unauthenticated(error.to_string()))
}

/// Whether a request is one of gRPC. What a page in a browser can send is none: it has no such type without being
/// allowed to ask first, and nobody answers that.
fn is_grpc<B>(request: &http::Request<B>) -> bool {
    let kind = request.headers().get(http::header::CONTENT_TYPE).map(|kind| kind.as_bytes());
    let kind = kind.and_then(|kind| kind.strip_prefix(b"application/grpc"));
    request.method() == http::Method::POST
        && kind.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

/// What a request takes of the bytes that all requests may take.
#[derive(Debug)]
pub(super) struct Charge {
    shared: Arc<Shared>,
    bytes: AtomicUsize,
}

impl Charge {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared), bytes: AtomicUsize::new(0) }
    }

    /// Takes more, where there is room.
    ///
    /// # Errors
    /// Where there is none: what all requests may take is taken.
    pub(super) fn grow(&self, bytes: usize) -> Result<(), QueryError> {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let all = self.shared.body_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let settings = &self.shared.settings;
        if all <= settings.bytes("requests_bytes_max") {
            return Ok(());
        }
        let most = settings.text("requests_bytes_max");
        let what = format!("what all requests hold takes requests_bytes_max, {most}");
        Err(QueryError::new(ErrorKind::Retry, what).hint("send it again, in smaller pieces"))
    }

    /// Gives back what it took.
    pub(super) fn clear(&self) {
        let bytes = self.bytes.swap(0, Ordering::Relaxed);
        self.shared.body_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A body whose bytes are counted until its messages are read, and none of whose pieces keeps us waiting for longer
/// than `idle_timeout`.
struct Charged {
    body: Incoming,
    charge: Arc<Charge>,
    patience: Option<Duration>,
    /// The end of patience, while we wait.
    late: Option<Pin<Box<Sleep>>>,
}

impl Charged {
    fn new(body: Incoming, charge: Arc<Charge>, shared: &Shared) -> Self {
        Self { body, charge, patience: shared.settings.time("idle_timeout"), late: None }
    }

    /// Whether we have waited for too long.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        let Some(patience) = self.patience else { return false };
        let late = self.late.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        late.as_mut().poll(context).is_ready()
    }
}

/// A request that ended before its end. Not CANCELLED: tonic takes that for the end, and half of the rows for all of
/// them.
fn cut_off(why: &str) -> Status {
    Status::aborted(format!("the request was cut off: {why}"))
}

impl Body for Charged {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                self.late = None;
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                let counted = self.charge.grow(bytes).map_err(|error| status(&error));
                Poll::Ready(Some(counted.map(|()| frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(cut_off(&error.to_string())))),
            // A stream that its client resets ends like one that is whole, but for this.
            Poll::Ready(None) if !self.body.is_end_stream() => {
                Poll::Ready(Some(Err(cut_off("its client ended it"))))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending if self.is_late(context) => {
                let patience = self.patience.unwrap_or_default();
                let what = format!("nothing of the request came for {patience:?} (idle_timeout)");
                Poll::Ready(Some(Err(Status::deadline_exceeded(what))))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
