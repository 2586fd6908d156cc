//! Statements of SQL: each in a session of its own, on the database's threads, its rows handed over as they are asked for.
//!
//! Invariant: a statement ends when whoever asked is gone: dropping [`Answer`], or its rows, cancels it.

use crate::Shared;
use crate::metrics::Counter;
use futures::StreamExt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tickstone_query::arrow::array::RecordBatch;
use tickstone_query::arrow::datatypes::SchemaRef;
use tickstone_query::dialect::Statement;
use tickstone_query::{ErrorKind, Outcome, QueryError};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tracing::warn;

/// Batches that wait to be written out.
const BATCHES_WAITING: usize = 2;

/// What a statement gave.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Rows.
    Rows(Rows),
    /// It was carried out: what it was, and how many rows it stored.
    Done { tag: String, rows: Option<u64> },
}

/// Rows of a statement that runs.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) schema: SchemaRef,
    pub(crate) planning: Duration,
    batches: mpsc::Receiver<Piece>,
    _running: Running,
}

/// A batch, or the end; a channel that ends without one was cut short.
type Piece = Result<Option<RecordBatch>, QueryError>;

impl Rows {
    /// The next batch; `None` after the last.
    pub(crate) async fn next(&mut self) -> Option<Result<RecordBatch, QueryError>> {
        match self.batches.recv().await {
            Some(Ok(Some(batch))) => Some(Ok(batch)),
            Some(Ok(None)) => None,
            Some(Err(error)) => Some(Err(error)),
            None => Some(Err(cut_short())),
        }
    }
}

/// A task that is cancelled when nobody waits for it any more.
#[derive(Debug)]
struct Running(AbortHandle);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

enum Head {
    Rows { schema: SchemaRef, planning: Duration },
    Done { tag: String, rows: Option<u64> },
}

/// Runs the one statement of a text.
///
/// # Errors
/// Where it is not one statement, names a file of the server, or fails before its first row.
pub(crate) async fn run(shared: &Arc<Shared>, sql: &str) -> Result<Answer, QueryError> {
    shared.metrics.add(Counter::Statements, 1);
    let (tell, told) = oneshot::channel();
    let (send, batches) = mpsc::channel(BATCHES_WAITING);
    let task = carry_out(Arc::clone(shared), sql.to_string(), tell, send);
    let running = Running(shared.database.runtime().spawn(task).abort_handle());
    let head = told.await.unwrap_or_else(|_| Err(cut_short()));
    match head {
        Ok(Head::Rows { schema, planning }) => {
            Ok(Answer::Rows(Rows { schema, planning, batches, _running: running }))
        }
        Ok(Head::Done { tag, rows }) => Ok(Answer::Done { tag, rows }),
        Err(error) => {
            shared.metrics.add(Counter::StatementsFailed, 1);
            Err(error)
        }
    }
}

fn cut_short() -> QueryError {
    QueryError::new(ErrorKind::Report, "the statement was cut short")
}

/// Whoever waits to be told what a statement gives, until that is known.
type Tell = Option<oneshot::Sender<Result<Head, QueryError>>>;

fn told(tell: &mut Tell, head: Result<Head, QueryError>) -> bool {
    tell.take().is_some_and(|tell| tell.send(head).is_ok())
}

async fn carry_out(
    shared: Arc<Shared>,
    sql: String,
    tell: oneshot::Sender<Result<Head, QueryError>>,
    send: mpsc::Sender<Piece>,
) {
    let begun = Instant::now();
    let limit = shared.settings.time("statement_timeout");
    let mut tell = Some(tell);
    let run = told_and_sent(&shared, &sql, &mut tell, &send);
    let rows = match limit {
        None => run.await,
        Some(limit) => match tokio::time::timeout(limit, run).await {
            Ok(rows) => rows,
            Err(_) => {
                let what = format!("the statement took longer than statement_timeout, {limit:?}");
                let late = QueryError::new(ErrorKind::FixRequest, what).hint("raise it, or ask for less");
                if tell.is_some() {
                    told(&mut tell, Err(late));
                } else {
                    let _ = send.send(Err(late)).await;
                }
                0
            }
        },
    };
    let took = begun.elapsed();
    shared.metrics.add(Counter::StatementRows, rows);
    shared.metrics.add(Counter::StatementMicroseconds, u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    if shared.settings.time("slow_statement").is_some_and(|slow| took > slow) {
        warn!(?took, rows, sql, "slow statement");
    }
}

/// Runs a statement; tells what it gives once its first rows are there, so that an error before them is its answer; then
/// sends its rows, and how many these were.
async fn told_and_sent(shared: &Shared, sql: &str, tell: &mut Tell, send: &mpsc::Sender<Piece>) -> u64 {
    let mut session = shared.database.session();
    let outcome = match one(session.parse_with_texts(sql)) {
        Ok((text, statement)) => session.run_text(statement, Some(text)).await,
        Err(error) => Err(error),
    };
    let stream = match outcome {
        Ok(Outcome::Rows { schema, stream, planning, .. }) => Ok((schema, stream, planning)),
        Ok(Outcome::Done { tag, rows }) => {
            told(tell, Ok(Head::Done { tag, rows }));
            return 0;
        }
        Err(error) => Err(error),
    };
    let (schema, mut stream, planning) = match stream {
        Ok(found) => found,
        Err(error) => {
            told(tell, Err(error));
            return 0;
        }
    };
    let mut next = stream.next().await;
    if let Some(Err(error)) = next {
        told(tell, Err(error.into()));
        return 0;
    }
    if !told(tell, Ok(Head::Rows { schema, planning })) {
        return 0;
    }
    let mut rows = 0;
    while let Some(batch) = next {
        match batch {
            Ok(batch) => {
                rows += batch.num_rows() as u64;
                if send.send(Ok(Some(batch))).await.is_err() {
                    return rows;
                }
            }
            Err(error) => {
                let error = QueryError::from(error);
                shared.metrics.add(Counter::StatementsFailed, 1);
                warn!(sql, rows, "a statement failed after its first rows: {error}");
                let _ = send.send(Err(error)).await;
                return rows;
            }
        }
        next = stream.next().await;
    }
    let _ = send.send(Ok(None)).await;
    rows
}

/// The only statement of a text, where it may run here.
fn one(parsed: Result<Vec<(Arc<str>, Statement)>, QueryError>) -> Result<(Arc<str>, Statement), QueryError> {
    let mut statements = parsed?;
    let (Some(statement), true) = (statements.pop(), statements.is_empty()) else {
        return Err(QueryError::request("the text must hold exactly one statement"));
    };
    if statement.1.names_a_file() {
        return Err(QueryError::request(
            "a statement that names a file of the server is not run for a client",
        )
        .hint("upload and download over the wire: /imp, /exp"));
    }
    if statement.1.is_of_its_session() {
        let what = format!("{} changes a session, and each request has one of its own", statement.1.kind());
        return Err(QueryError::request(what));
    }
    Ok(statement)
}
