//! Raw streams, by CakeDB's protocol: documents come without an answer, questions are answered in order.
//!
//! What comes goes into the buffer of its stream and is read no further while the buffers of all streams are full
//! (`stream_memory`); a connection that is kept waiting for longer than `stream_patience` is closed. A question waits
//! until the connection's own documents of that stream are on stable storage. The id of a stream that one connection has
//! opened holds for all of them, as in CakeDB: its C driver opens on one and appends on another. Whatever cannot be
//! answered or stored ends the connection, and the log says why: a client that was not disconnected may count on its
//! documents.

use crate::connection::{LAST_BYTES, LAST_PATIENCE};
use crate::logins::{Credentials, PATIENCE, access_by};
use crate::metrics::Counter;
use crate::shared::Shared;
use crate::transport::Transport;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tickstone_engine::streams::{DOCUMENT_BYTES_LIMIT, Documents, Stream, StreamSettings};
use tickstone_engine::{EngineError, Result};
use tickstone_model::Rights;
use tickstone_query::audit::Origin;
use tickstone_query::{Access, QueryError, SqlState};
use tickstone_wire::stream::{APPEND, BadRequest, HEADER_BYTES, NO_OP, PROVE, Read, Request, read};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::{debug, warn};

/// Bytes asked of the socket at once.
const READ_BYTES: usize = 512 << 10;
/// The same of a client that has to say who it is.
const STRANGER_BYTES: usize = 4 << 10;
/// How often a connection that waits for room looks again.
const ROOM_PAUSE: Duration = Duration::from_millis(1);
/// The longest body that an answer can have.
const BODY_BYTES_MAX: u64 = u32::MAX as u64;

/// A stream that the connection uses.
struct Used {
    stream: Stream,
    document_bytes_max: usize,
    /// The number of the connection's last document.
    last: u64,
}

impl Used {
    fn new(stream: Stream) -> Self {
        let document_bytes_max = stream.settings().document_bytes_max as usize;
        Self { stream, document_bytes_max, last: 0 }
    }

    /// The stream of an id, among those that the connection used or else among all that were opened.
    fn find<'a>(
        used: &'a mut HashMap<u16, Used>,
        shared: &Shared,
        id: u16,
    ) -> std::result::Result<&'a mut Used, End> {
        match used.entry(id) {
            Entry::Occupied(used) => Ok(used.into_mut()),
            Entry::Vacant(place) => {
                let opened = shared.streams.read().unwrap_or_else(PoisonError::into_inner);
                let unknown =
                    || End::Because(format!("no stream of id {id} was opened since the server began"));
                Ok(place.insert(Used::new(opened.get(&id).ok_or_else(unknown)?.clone())))
            }
        }
    }
}

struct Connection {
    shared: Arc<Shared>,
    peer: SocketAddr,
    /// That of nobody, until the client says who it is.
    access: Access,
    /// Until when it has to say so; `None` where it need not, or has.
    unproved: Option<Instant>,
    /// The streams it used: a dropped one stays here, so that its id is never another's on this connection.
    used: HashMap<u16, Used>,
    patience: Duration,
    bytes: Vec<u8>,
    /// Where the first request that was not served begins.
    at: usize,
}

/// Why a connection ends.
enum End {
    /// The client closed it, or the server stops.
    Quietly(&'static str),
    /// What came cannot be served.
    Because(String),
    /// What came is not for its user.
    Refused(QueryError),
}

impl From<EngineError> for End {
    fn from(error: EngineError) -> Self {
        End::Because(error.to_string())
    }
}

impl From<QueryError> for End {
    fn from(error: QueryError) -> Self {
        End::Refused(error)
    }
}

impl From<BadRequest> for End {
    fn from(bad: BadRequest) -> Self {
        End::Because(bad.to_string())
    }
}

fn of_streams(peer: SocketAddr) -> Origin {
    Origin { protocol: "streams", address: Some(peer.ip()) }
}

/// Serves one connection until it ends.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    mut socket: Transport,
    peer: SocketAddr,
    mut stopping: watch::Receiver<bool>,
) {
    let patience = shared.settings.time("stream_patience").unwrap_or(Duration::MAX);
    let (used, bytes, access) =
        (HashMap::new(), Vec::new(), Access::of_nobody(&shared.database).from(of_streams(peer)));
    let unproved = shared.database.has_users().unwrap_or(true).then(|| Instant::now() + PATIENCE);
    let mut connection = Connection { shared, peer, access, unproved, used, patience, bytes, at: 0 };
    let proved = match socket.certified() {
        Some(name) => connection.prove(Credentials::Certificate(name)).await,
        None => Ok(()),
    };
    let end = match proved {
        Ok(()) => {
            let Err(end) = connection.run(&mut socket, &mut stopping).await;
            end
        }
        Err(end) => end,
    };
    if let End::Refused(error) = &end {
        connection.access.tell("STREAM", "".into(), 0, Duration::ZERO, Some(error));
    }
    match end {
        End::Refused(error) => {
            connection.shared.metrics.add(Counter::StreamConnectionsCut, 1);
            warn!(%peer, "streams: {error}; the connection is closed");
        }
        End::Quietly(why) => debug!(%peer, why, "streams: connection ended"),
        End::Because(why) => {
            connection.shared.metrics.add(Counter::StreamConnectionsCut, 1);
            warn!(%peer, "streams: {why}; the connection is closed");
        }
    }
}

impl Connection {
    async fn run(
        &mut self,
        socket: &mut Transport,
        stopping: &mut watch::Receiver<bool>,
    ) -> std::result::Result<std::convert::Infallible, End> {
        loop {
            let wanted = self.serve_what_came(socket).await?;
            self.make_room(wanted);
            let until = self.unproved;
            let reading = async {
                let read = socket.read_buf(&mut self.bytes);
                match until {
                    Some(until) => timeout_at(until, read).await,
                    None => Ok(read.await),
                }
            };
            let read = tokio::select! {
                read = reading => read,
                _ = stopping.changed() => return self.last(socket).await,
            };
            let Ok(read) = read else {
                let what = format!("there are users, and the client did not say who it is for {PATIENCE:?}");
                return Err(End::Because(what));
            };
            match read {
                Ok(0) if self.at < self.bytes.len() => {
                    return Err(End::Because(
                        "the connection ended within a request, which is lost".to_string(),
                    ));
                }
                Ok(0) => return Err(End::Quietly("closed by the client")),
                Ok(bytes) => self.shared.metrics.add(Counter::StreamBytes, bytes as u64),
                Err(error) => {
                    debug!(peer = %self.peer, %error, "streams: cannot read");
                    return Err(End::Quietly("the client is gone"));
                }
            }
        }
    }

    /// Reads what had come when the server was told to stop.
    async fn last(&mut self, socket: &mut Transport) -> std::result::Result<std::convert::Infallible, End> {
        let mut left = LAST_BYTES;
        loop {
            let wanted = self.serve_what_came(socket).await?;
            self.make_room(wanted);
            // What the client's system still holds comes in a moment.
            let Ok(read) = timeout(LAST_PATIENCE, socket.read_buf(&mut self.bytes)).await else {
                return Err(End::Quietly("the server stops"));
            };
            match read {
                Ok(bytes @ 1..) if bytes <= left => left -= bytes,
                Ok(1..) => {
                    let what = "the server stops while the client sends; what it sends is lost";
                    return Err(End::Because(what.to_string()));
                }
                _ => return Err(End::Quietly("the server stops")),
            }
        }
    }

    /// Serves all whole requests that have come; the bytes of the one that has begun.
    async fn serve_what_came(&mut self, socket: &mut Transport) -> std::result::Result<usize, End> {
        loop {
            let limit = self.document_bytes_max()?;
            match read(&self.bytes[self.at..], limit)? {
                Read::Part(bytes) => return Ok(bytes),
                Read::Whole(Request::Append { stream, .. }, _) => {
                    self.wait_for_room().await?;
                    self.access.turn(false).await?;
                    self.append_all(stream)?;
                }
                Read::Whole(request, size) => {
                    let answer = Answer::to(&request);
                    self.at += size;
                    self.answer(answer, socket).await?;
                }
            }
        }
    }

    /// The longest document of the request that comes next: that of its stream, once its id is there. What is refused is
    /// refused before all of it has come.
    fn document_bytes_max(&mut self) -> std::result::Result<usize, End> {
        let coming = &self.bytes[self.at..];
        let number = |at: usize| coming.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes));
        let (command, id) = (number(HEADER_BYTES - 2), number(HEADER_BYTES));
        match (command, id) {
            (Some(command), _) if self.unproved.is_some() && !matches!(command, NO_OP | PROVE) => {
                let what = "this server wants to know who sends: command 7 comes first";
                Err(End::Refused(QueryError::request(what).state(SqlState::Unknown)))
            }
            (Some(APPEND), Some(id)) => Ok(Used::find(&mut self.used, &self.shared, id)?.document_bytes_max),
            _ => Ok(DOCUMENT_BYTES_LIMIT as usize),
        }
    }

    /// Serves what follows as whoever these are of, where there are users.
    async fn prove(&mut self, credentials: Credentials) -> std::result::Result<(), End> {
        if self.shared.database.has_users()? {
            let proved = access_by(&self.shared, credentials, of_streams(self.peer), true).await;
            self.access = proved.inspect_err(|_| self.shared.metrics.add(Counter::LoginsRefused, 1))?;
        }
        self.unproved = None;
        Ok(())
    }

    /// Hands over the documents for one stream that have come one after the other.
    fn append_all(&mut self, id: u16) -> std::result::Result<(), End> {
        let used = Used::find(&mut self.used, &self.shared, id)?;
        self.access.check_audit()?;
        self.access.may_stream(Rights::INSERT, used.stream.name())?;
        let (bytes, most) = (&self.bytes, used.document_bytes_max);
        let (mut at, mut count) = (self.at, 0);
        let documents = std::iter::from_fn(|| match read(&bytes[at..], most) {
            Ok(Read::Whole(Request::Append { stream, document }, size)) if stream == id => {
                (at, count) = (at + size, count + 1);
                Some(document)
            }
            _ => None,
        });
        used.last = used.stream.push(documents)?;
        self.at = at;
        self.access.added(used.stream.name(), count);
        self.shared.metrics.add(Counter::StreamDocuments, count);
        Ok(())
    }

    /// Waits until the buffers of all streams have room.
    async fn wait_for_room(&self) -> std::result::Result<(), End> {
        let streams = self.shared.database.engine().streams();
        if streams.has_room() {
            return Ok(());
        }
        self.shared.metrics.add(Counter::StreamWaits, 1);
        let began = Instant::now();
        while !streams.has_room() {
            if began.elapsed() > self.patience {
                let bytes = streams.buffered_bytes();
                let what = format!(
                    "{bytes} bytes wait for the disk, more than stream_memory, for longer than stream_patience"
                );
                return Err(End::Because(what));
            }
            sleep(ROOM_PAUSE).await;
        }
        Ok(())
    }

    async fn answer(&mut self, answer: Answer, socket: &mut Transport) -> std::result::Result<(), End> {
        let gone = |_| End::Quietly("the client is gone");
        match answer {
            Answer::None => Ok(()),
            Answer::Proved(credentials) => {
                let credentials = str::from_utf8(&credentials).ok().and_then(Credentials::of_header);
                let wrong =
                    "command 7 has neither 'Bearer' and a token nor 'Basic' and a user with a password";
                self.prove(credentials.ok_or_else(|| End::Because(wrong.to_string()))?).await
            }
            Answer::Open(name) => {
                let id = self.open(name).await?;
                socket.write_all(&id.to_be_bytes()).await.map_err(gone)?;
                socket.flush().await.map_err(gone)
            }
            Answer::Documents(id, wanted) => {
                let used = Used::find(&mut self.used, &self.shared, id)?;
                self.access.may_stream(Rights::SELECT, used.stream.name())?;
                let (stream, last) = (used.stream.clone(), used.last);
                let found = blocking(move || {
                    stream.wait(last)?;
                    wanted.select(&stream)
                });
                let documents = found.await?;
                if documents.damaged_bytes() > 0 {
                    let bytes = documents.damaged_bytes();
                    warn!(peer = %self.peer, id, "streams: {bytes} bytes asked for are damaged or missing, and left out");
                }
                let bytes = u32::try_from(documents.bytes()).map_err(|_| {
                    End::Because("a range of 4 GiB or more: ask for less of it at once".to_string())
                })?;
                socket.write_all(&bytes.to_be_bytes()).await.map_err(gone)?;
                for slice in documents.slices() {
                    socket.write_all(slice).await.map_err(gone)?;
                }
                socket.flush().await.map_err(gone)
            }
        }
    }

    /// The id of a stream, which is made where it is not there.
    async fn open(&mut self, name: String) -> std::result::Result<u16, End> {
        let engine = self.shared.database.engine().clone();
        let is_there = engine.streams().get(&name).is_ok();
        let may = |rights| self.access.may_stream(rights, &name);
        match is_there {
            // The requests that follow say which of the two they need.
            true => may(Rights::INSERT).or_else(|_| may(Rights::SELECT))?,
            false => may(Rights::CREATE)?,
        }
        let may_make = !is_there && self.shared.settings.switch("auto_create_streams");
        let access = self.access.clone();
        let opened = blocking(move || match may_make {
            true => access.make_stream(&name, StreamSettings::default(), false),
            false => engine.streams().get(&name).map_err(QueryError::from),
        });
        let stream = opened.await?;
        let id = u16::try_from(stream.id()).map_err(|_| End::Because("too many streams".to_string()))?;
        self.shared.streams.write().unwrap_or_else(PoisonError::into_inner).insert(id, stream.clone());
        // One that was dropped may have left its id to another, once all ids were given.
        if self.used.get(&id).is_none_or(|used| used.stream.check().is_err()) {
            self.used.insert(id, Used::new(stream));
        }
        Ok(id)
    }

    /// Lets go of what was served, and makes room for a request of so many bytes.
    fn make_room(&mut self, wanted: usize) {
        self.bytes.drain(..self.at);
        self.at = 0;
        if self.bytes.is_empty() && self.bytes.capacity() > 4 * READ_BYTES {
            // Of a large document.
            self.bytes = Vec::new();
        }
        let wanted = wanted.saturating_sub(self.bytes.len());
        match self.unproved {
            Some(_) => self.bytes.reserve_exact(wanted.max(STRANGER_BYTES)),
            None => self.bytes.reserve(wanted.max(READ_BYTES)),
        }
    }
}

/// What a request is answered with.
enum Answer {
    None,
    /// Nothing; what follows is served as whoever this proves it to be.
    Proved(Vec<u8>),
    Open(String),
    Documents(u16, Wanted),
}

impl Answer {
    /// To a request that is no append.
    fn to(request: &Request<'_>) -> Self {
        match *request {
            Request::NoOp | Request::Append { .. } => Answer::None,
            Request::Prove { credentials } => Answer::Proved(credentials.to_vec()),
            Request::Open { name } => Answer::Open(name.to_string()),
            Request::Range { stream, from, to } => Answer::Documents(stream, Wanted::Range(from, to)),
            Request::Since { stream, from } => Answer::Documents(stream, Wanted::Since(from)),
            Request::LastBefore { stream, at } => Answer::Documents(stream, Wanted::Last(at)),
        }
    }
}

/// Which documents are asked for.
enum Wanted {
    Range(u64, u64),
    Since(u64),
    Last(u64),
}

impl Wanted {
    fn select(&self, stream: &Stream) -> Result<Documents> {
        match *self {
            // All of it, or none: what was left out could not be told.
            Wanted::Range(from, to) => stream.range(from, to, BODY_BYTES_MAX + 1),
            // Who asks for all goes on from the last it was given.
            Wanted::Since(from) => match from.checked_add(1) {
                Some(from) => stream.range(from, u64::MAX, BODY_BYTES_MAX),
                None => Ok(Documents::default()),
            },
            Wanted::Last(at) => stream.last_before(at),
        }
    }
}

/// Does what waits for the disk on a thread that may.
async fn blocking<T: Send + 'static, E: Into<End> + Send + 'static>(
    work: impl FnOnce() -> std::result::Result<T, E> + Send + 'static,
) -> std::result::Result<T, End> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(Into::into),
        Err(_) => Err(End::Because("it met a defect".to_string())),
    }
}
