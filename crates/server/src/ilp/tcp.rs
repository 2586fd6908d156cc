//! Line protocol over TCP: no answers, rows as they come.
//!
//! Rows are read while those before them are being stored: one commit of a connection is under way, the next begins when
//! it is done, and no sooner than `ilp_commit_delay` after its beginning, unless `ilp_commit_rows` have come. More are not
//! read then: the client waits.
//!
//! A line that is bad ends the connection: what stands before it is stored, the log quotes it. So does a commit that
//! fails: the log says why and how many rows were lost.

use super::{Lines, now, proof, unsettled};
use crate::connection::{LAST_BYTES, LAST_PATIENCE};
use crate::ingest::{self, Making, NotStored, READS_MAX};
use crate::metrics::Counter;
use crate::shared::Shared;
use crate::transport::Transport;
use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;
use tickstone_engine::Engine;
use tickstone_query::{Access, QueryError};
use tickstone_wire::TableRows;
use tickstone_wire::ilp::{BadLine, Parser, Precision};
use tokio::io::AsyncReadExt;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, warn};

/// Bytes asked of the socket at once.
const READ_BYTES: usize = 256 << 10;

/// Bytes of lines that are committed without waiting for more.
const COMMIT_BYTES: usize = 8 << 20;

/// The most characters of a bad line that the log quotes.
const LINE_CHARS: usize = 200;

/// Rows that were read together, and their lines.
struct Batch {
    bytes: Vec<u8>,
    rows: Vec<TableRows>,
    now: i64,
}

/// What became of a batch: its bytes, to be used again.
struct Committed {
    bytes: Vec<u8>,
    rows: u64,
    refused: Option<Refused>,
}

/// Why rows of a batch were lost.
enum Refused {
    Line(BadLine),
    All(QueryError, usize),
}

struct Connection {
    shared: Arc<Shared>,
    access: Access,
    peer: SocketAddr,
    making: Making,
    parser: Parser,
    /// The lines of the rows in the parser, and what came behind them.
    bytes: Vec<u8>,
    /// How many bytes of whole lines are read.
    parsed: usize,
    now: i64,
    spare: Vec<u8>,
    under_way: Option<JoinHandle<Committed>>,
    /// When the last commit began.
    begun: Instant,
    delay: Duration,
    rows_max: usize,
    line_bytes_max: usize,
    /// Whether rows were refused: those behind them are not stored either.
    failed: bool,
}

/// What to do next.
enum Next {
    Read(usize),
    Committed(Committed),
    Commit,
    End,
}

/// Serves one connection until it ends.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    mut stream: Transport,
    peer: SocketAddr,
    mut stopping: watch::Receiver<bool>,
) {
    let settings = &shared.settings;
    let (access, bytes) = match proof::access(&shared, &mut stream, peer).await {
        Ok(proved) => proved,
        Err(why) => {
            shared.metrics.add(Counter::LoginsRefused, 1);
            warn!(%peer, "line protocol: {why}; the connection is closed");
            return;
        }
    };
    let mut connection = Connection {
        access,
        making: shared.making(),
        peer,
        parser: Parser::new(Precision::default()),
        bytes,
        parsed: 0,
        now: now(),
        spare: Vec::new(),
        under_way: None,
        begun: Instant::now(),
        delay: settings.time("ilp_commit_delay").unwrap_or_default(),
        rows_max: settings.count("ilp_commit_rows"),
        line_bytes_max: settings.bytes("ilp_line_bytes_max"),
        failed: false,
        shared: Arc::clone(&shared),
    };
    let ended = connection.run(&mut stream, &mut stopping).await;
    connection.finish().await;
    debug!(%peer, ended, "line protocol: connection ended");
}

impl Connection {
    async fn run(&mut self, stream: &mut Transport, stopping: &mut watch::Receiver<bool>) -> &'static str {
        // Lines may have come with what proves who sends them.
        if !self.parse() {
            return "a bad line";
        }
        loop {
            let next = match self.next(stream, stopping).await {
                Ok(next) => next,
                Err(error) => {
                    debug!(peer = %self.peer, %error, "line protocol: cannot read");
                    return "the client is gone";
                }
            };
            match next {
                Next::Read(0) => {
                    if self.bytes.len() > self.parsed {
                        warn!(peer = %self.peer, bytes = self.bytes.len() - self.parsed,
                            "line protocol: the connection ended within a line, which is lost");
                    }
                    return "closed by the client";
                }
                Next::Read(bytes) => {
                    self.shared.metrics.add(Counter::IlpTcpBytes, bytes as u64);
                    if !self.parse() {
                        return "a bad line";
                    }
                }
                Next::Committed(committed) => {
                    if !self.committed(committed) {
                        return "rows that cannot be stored";
                    }
                }
                Next::Commit => self.commit(),
                Next::End => return self.last(stream).await,
            }
        }
    }

    /// Reads what had come when the server was told to stop.
    async fn last(&mut self, stream: &mut Transport) -> &'static str {
        let mut left = LAST_BYTES;
        loop {
            if !self.has_room() && !self.finished().await {
                return "rows that cannot be stored";
            }
            self.bytes.reserve(READ_BYTES);
            // What the client's system still holds comes in a moment.
            let Ok(read) = timeout(LAST_PATIENCE, stream.read_buf(&mut self.bytes)).await else {
                return "the server stops";
            };
            match read {
                Ok(bytes @ 1..) if bytes <= left => {
                    left -= bytes;
                    if !self.parse() {
                        return "a bad line";
                    }
                }
                Ok(1..) => {
                    warn!(peer = %self.peer, "line protocol: the server stops while the client sends; what it sends is lost");
                    return "the server stops";
                }
                _ => return "the server stops",
            }
        }
    }

    fn has_room(&self) -> bool {
        self.parser.rows() < self.rows_max && self.parsed < COMMIT_BYTES
    }

    /// Waits for what comes first.
    async fn next(
        &mut self,
        stream: &mut Transport,
        stopping: &mut watch::Receiver<bool>,
    ) -> std::io::Result<Next> {
        let has_room = self.has_room();
        let (wants_commit, due) =
            (self.parser.rows() > 0 && self.under_way.is_none(), self.begun + self.delay);
        if wants_commit && (!has_room || due <= Instant::now()) {
            return Ok(Next::Commit);
        }
        if has_room {
            self.bytes.reserve(READ_BYTES);
        }
        tokio::select! {
            biased;
            committed = async { self.under_way.as_mut().expect("asked only where there is one").await },
                if self.under_way.is_some() =>
            {
                self.under_way = None;
                Ok(Next::Committed(committed?))
            }
            read = stream.read_buf(&mut self.bytes), if has_room => Ok(Next::Read(read?)),
            () = sleep_until(due), if wants_commit => Ok(Next::Commit),
            _ = stopping.changed() => Ok(Next::End),
        }
    }

    /// Reads the lines that have come; whether all are good.
    fn parse(&mut self) -> bool {
        if self.parser.rows() == 0 {
            self.now = now();
        }
        let access = &self.access;
        let start = self.parsed;
        let rest = &self.bytes[start..];
        let parsed = self.parser.parse(rest, self.now, &mut |name| ingest::find(access, name));
        self.parsed += parsed.bytes;
        let unfinished = self.bytes.len() - self.parsed;
        match parsed.bad {
            Some(bad) => self.bad_line(&bad, &self.bytes[start..]),
            None if unfinished > self.line_bytes_max => {
                self.shared.metrics.add(Counter::IlpTcpBadLines, 1);
                warn!(peer = %self.peer, unfinished, "line protocol: a line is longer than ilp_line_bytes_max; the connection is closed");
            }
            None => return true,
        }
        false
    }

    /// Tells of a bad line of these bytes.
    fn bad_line(&self, bad: &BadLine, bytes: &[u8]) {
        self.shared.metrics.add(Counter::IlpTcpBadLines, 1);
        let line = quoted(bytes.get(bad.record.clone()).unwrap_or_default());
        warn!(peer = %self.peer, line, "line protocol: {bad}; the connection is closed");
    }

    /// Begins to store the rows that were read.
    fn commit(&mut self) {
        let rows = self.parser.take();
        let mut bytes = std::mem::take(&mut self.spare);
        bytes.extend_from_slice(&self.bytes[self.parsed..]);
        std::mem::swap(&mut self.bytes, &mut bytes);
        bytes.truncate(self.parsed);
        self.parsed = 0;
        self.begun = Instant::now();
        let batch = Batch { bytes, rows, now: self.now };
        let (database, access, making) = (self.shared.database.clone(), self.access.clone(), self.making);
        self.under_way = Some(tokio::spawn(async move {
            // Where the user was dropped meanwhile, storing says so.
            let _ = access.turn(false).await;
            let store = move || store(&access, database.engine(), batch, making);
            tokio::task::spawn_blocking(store).await.unwrap_or_else(|panic| resume_unwind(panic.into_panic()))
        }));
    }

    /// Notes what became of a batch; whether the connection can go on.
    fn committed(&mut self, committed: Committed) -> bool {
        self.spare = committed.bytes;
        self.shared.metrics.add(Counter::IlpTcpRows, committed.rows);
        match committed.refused {
            None => {
                self.spare.clear();
                return true;
            }
            Some(Refused::Line(bad)) => self.bad_line(&bad, &self.spare),
            Some(Refused::All(error, rows)) => {
                self.shared.metrics.add(Counter::IlpTcpRowsLost, rows as u64);
                warn!(peer = %self.peer, rows, "line protocol: rows are lost and the connection is closed: {error}");
            }
        }
        self.failed = true;
        false
    }

    /// Stores what was read and waits for it; whether all was.
    async fn finished(&mut self) -> bool {
        while self.under_way.is_some() || self.parser.rows() > 0 {
            let Some(under_way) = self.under_way.take() else {
                self.commit();
                continue;
            };
            // What panicked has stored nothing; the hook of the process has told of it.
            let Ok(committed) = under_way.await else { continue };
            if !self.committed(committed) {
                return false;
            }
        }
        true
    }

    /// Stores what was read before the connection ended; nothing behind rows that could not be.
    async fn finish(&mut self) {
        if !self.failed && self.finished().await {
            return;
        }
        let rows: usize = self.parser.take().iter().map(|rows| rows.rows).sum();
        if rows > 0 {
            self.shared.metrics.add(Counter::IlpTcpRowsLost, rows as u64);
            warn!(peer = %self.peer, rows, "line protocol: rows behind those that were refused are lost too");
        }
    }
}

/// The beginning of a line, as one line.
fn quoted(line: &[u8]) -> String {
    // A character is four bytes at most.
    let begin = String::from_utf8_lossy(&line[..line.len().min(4 * LINE_CHARS)]);
    let begin = begin.trim_end();
    let cut = begin.char_indices().nth(LINE_CHARS).map(|(end, _)| end);
    let more = if cut.is_some() || line.len() > 4 * LINE_CHARS { "…" } else { "" };
    let text = begin[..cut.unwrap_or(begin.len())].replace(char::is_control, " ");
    format!("{text}{more}")
}

/// Stores a batch; where a table is not any more what the rows were read for, they are read anew.
fn store(access: &Access, engine: &Engine, mut batch: Batch, making: Making) -> Committed {
    let mut bad = None;
    for _ in 0..READS_MAX {
        let rows = batch.rows.iter().map(|rows| rows.rows).sum();
        match ingest::store(access, engine, &batch.rows, making, None) {
            Ok(rows) => {
                return Committed { bytes: batch.bytes, rows, refused: bad.map(Refused::Line) };
            }
            Err(NotStored::Changed) => {}
            Err(NotStored::Refused(error)) => {
                let refused = Some(Refused::All(error, rows));
                return Committed { bytes: batch.bytes, rows: 0, refused };
            }
        }
        let precision = Precision::default();
        let lines = Lines {
            bytes: std::mem::take(&mut batch.bytes),
            precision,
            now: batch.now,
            accept_partial: false,
        };
        let read = lines.read(access);
        (batch.bytes, batch.rows) = (lines.bytes, read.rows);
        bad = read.bad.into_iter().next().map(|(_, line)| line);
    }
    let rows = batch.rows.iter().map(|rows| rows.rows).sum();
    Committed { bytes: batch.bytes, rows: 0, refused: Some(Refused::All(unsettled(), rows)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_quoted_short() {
        assert_eq!(quoted(b"t,s=a x=oops 1\n"), "t,s=a x=oops 1");
        assert_eq!(quoted(b"t x=\"a\nb\x1b[1m\""), "t x=\"a b [1m\"");
        assert_eq!(quoted(&b"\xff".repeat(3)), "\u{fffd}".repeat(3));
        for long in ["x".repeat(201), "x".repeat(5_000), "\u{20ac}".repeat(300)] {
            let text = quoted(long.as_bytes());
            assert!(text.ends_with('…') && text.chars().count() == LINE_CHARS + 1, "{text}");
        }
    }
}
