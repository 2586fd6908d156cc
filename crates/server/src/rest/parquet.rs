//! Rows as Parquet, written on a thread of their own while they are sent: its pages are packed, and its writer waits for
//! whoever reads.

use super::exec::Asked;
use crate::metrics::Counter;
use crate::shared::Shared;
use crate::statement::one;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use std::io::{self, Write};
use std::sync::Arc;
use tickstone_query::arrow::datatypes::{DataType, IntervalUnit, Schema};
use tickstone_query::export::{self, Format, Layout};
use tickstone_query::import::Compression;
use tickstone_query::{ErrorKind, Outcome, QueryError, dialect, type_name};
use tokio::sync::mpsc::{self, Sender};

/// Bytes that are sent at once.
const PIECE_BYTES: usize = 64 << 10;

/// Pieces that wait to be sent.
const PIECES_WAITING: usize = 4;

type Piece = Result<Bytes, QueryError>;

/// The rows of a statement as a body of Parquet.
///
/// # Errors
/// What to answer where the statement gives no rows, or fails before the first piece is full.
pub(super) async fn body(shared: &Arc<Shared>, asked: &Asked) -> Result<Body, Response> {
    shared.metrics.add(Counter::Statements, 1);
    let failed = |error: QueryError| {
        shared.metrics.add(Counter::StatementsFailed, 1);
        asked.failed(&error)
    };
    let (text, statement) = bound(shared, asked).map_err(failed)?;
    let (send, mut pieces) = mpsc::channel::<Piece>(PIECES_WAITING);
    let writing = Writing { shared: Arc::clone(shared), send };
    let runtime = shared.database.runtime().handle().clone();
    // On the runtime, whose budget has a statement pause that would never wait: else nobody could end it.
    shared.database.runtime().spawn_blocking(move || runtime.block_on(writing.write(text, statement)));
    let first = pieces
        .recv()
        .await
        .unwrap_or_else(|| Err(QueryError::new(ErrorKind::Report, "the statement was cut short")));
    let first = first.map_err(failed)?;
    let rest = stream::unfold(pieces, |mut pieces| async move { Some((pieces.recv().await?, pieces)) });
    Ok(Body::from_stream(futures::StreamExt::chain(stream::iter([Ok(first)]), rest)))
}

/// The one statement that is asked for, its placeholders filled.
fn bound(shared: &Shared, asked: &Asked) -> Result<(Arc<str>, dialect::Statement), QueryError> {
    let (text, statement) = one(shared.database.parse_with_texts(&asked.query)?)?;
    let mut statement = [statement];
    asked.parameters.bind(&mut statement)?;
    let [statement] = statement;
    Ok((text, statement))
}

struct Writing {
    shared: Arc<Shared>,
    send: Sender<Piece>,
}

impl Writing {
    /// Writes all rows; ends early when nobody reads them any more, or the statement takes too long.
    async fn write(self, text: Arc<str>, statement: dialect::Statement) {
        let gone = self.send.clone();
        let send = self.send.clone();
        let written = self.written(text, statement);
        let written = async {
            match self.shared.settings.time("statement_timeout") {
                None => written.await,
                Some(limit) => tokio::time::timeout(limit, written).await.unwrap_or_else(|_| {
                    let what = format!("the statement took longer than statement_timeout, {limit:?}");
                    Err(QueryError::request(what).hint("raise it, or ask for less"))
                }),
            }
        };
        tokio::select! {
            written = written => {
                if let Err(error) = written {
                    // Whoever asked may be gone.
                    let _ = send.send(Err(error)).await;
                }
            }
            () = gone.closed() => {}
        }
    }

    async fn written(&self, text: Arc<str>, statement: dialect::Statement) -> Result<(), QueryError> {
        let mut session = self.shared.database.session();
        let Outcome::Rows { schema, stream, .. } = session.run_text(statement, Some(text)).await? else {
            return Err(QueryError::request("the statement gives no rows to export"));
        };
        check(&schema)?;
        let mut out = Pieces { send: self.send.clone(), bytes: Vec::with_capacity(PIECE_BYTES) };
        let layout = Layout::new(Format::Parquet, Compression::None);
        let rows = export::write(stream, &layout, &session.room_to_write(), &mut out).await?;
        self.shared.metrics.add(Counter::StatementRows, rows);
        out.hand_over().map_err(|_| QueryError::request("the client is gone"))
    }
}

/// # Errors
/// Where a column is of a type that Parquet has not: its intervals have no nanoseconds.
fn check(schema: &Schema) -> Result<(), QueryError> {
    let Some(field) = schema.fields().iter().find(|field| !is_in_parquet(field.data_type())) else {
        return Ok(());
    };
    let (name, of) = (field.name(), type_name(field.data_type()));
    let error = QueryError::not_supported(&format!("column '{name}' of type {of} in Parquet"));
    Err(error.hint(format!("cast it: CAST(\"{name}\" AS VARCHAR); CSV, NDJSON and Arrow take it as it is")))
}

fn is_in_parquet(data_type: &DataType) -> bool {
    match data_type {
        DataType::Interval(IntervalUnit::MonthDayNano) => false,
        DataType::Struct(fields) => {
            !fields.is_empty() && fields.iter().all(|field| is_in_parquet(field.data_type()))
        }
        DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _) => {
            is_in_parquet(of.data_type())
        }
        DataType::Map(of, _) => is_in_parquet(of.data_type()),
        _ => true,
    }
}

/// Bytes that go over to the client a piece at a time.
struct Pieces {
    send: Sender<Piece>,
    bytes: Vec<u8>,
}

impl Pieces {
    fn hand_over(&mut self) -> io::Result<()> {
        let piece = std::mem::replace(&mut self.bytes, Vec::with_capacity(PIECE_BYTES));
        let sent = tokio::task::block_in_place(|| self.send.blocking_send(Ok(piece.into())));
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() >= PIECE_BYTES {
            self.hand_over()?;
        }
        Ok(bytes.len())
    }

    /// Does nothing: what is not whole is not worth a piece.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
