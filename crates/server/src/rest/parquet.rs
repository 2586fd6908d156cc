//! Rows as Parquet, written on a thread of their own while they are sent: its pages are packed, and its writer waits for
//! whoever reads.

use super::exec::Asked;
use crate::shared::Shared;
use crate::statement::{self, Answer, Rows};
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use std::io::{self, Write};
use std::sync::Arc;
use tickstone_query::arrow::datatypes::{DataType, IntervalUnit, Schema};
use tickstone_query::export::{self, Format, Layout, Room};
use tickstone_query::import::Compression;
use tickstone_query::{Access, ErrorKind, QueryError, type_name};
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
pub(super) async fn body(shared: &Arc<Shared>, access: &Access, asked: &Asked) -> Result<Body, Response> {
    let failed = |error: QueryError| asked.failed(&error);
    let answer = statement::run(shared, access, &asked.query, &asked.parameters).await.map_err(failed)?;
    let Answer::Rows(rows) = answer else {
        return Err(failed(QueryError::request("the statement gives no rows to export")));
    };
    check(&rows.schema).map_err(failed)?;
    let (send, mut pieces) = mpsc::channel::<Piece>(PIECES_WAITING);
    let room = access.session().room_to_write();
    let runtime = shared.database.runtime().handle().clone();
    // On the runtime, whose budget has a statement pause that would never wait: else nobody could end it.
    shared.database.runtime().spawn_blocking(move || runtime.block_on(write(rows, room, send)));
    let first = pieces
        .recv()
        .await
        .unwrap_or_else(|| Err(QueryError::new(ErrorKind::Report, "the statement was cut short")));
    let first = first.map_err(failed)?;
    let rest = stream::unfold(pieces, |mut pieces| async move { Some((pieces.recv().await?, pieces)) });
    Ok(Body::from_stream(futures::StreamExt::chain(stream::iter([Ok(first)]), rest)))
}

/// Writes all rows; ends early when nobody reads them any more.
async fn write(rows: Rows, room: Room, send: Sender<Piece>) {
    let gone = send.clone();
    tokio::select! {
        written = written(rows, room, send.clone()) => {
            if let Err(error) = written {
                // Whoever asked may be gone.
                let _ = send.send(Err(error)).await;
            }
        }
        () = gone.closed() => {}
    }
}

async fn written(rows: Rows, room: Room, send: Sender<Piece>) -> Result<(), QueryError> {
    let schema = Arc::clone(&rows.schema);
    let batches = stream::unfold(rows, |mut rows| async move { Some((rows.next().await?, rows)) });
    let mut out = Pieces { send, bytes: Vec::with_capacity(PIECE_BYTES) };
    let layout = Layout::new(Format::Parquet, Compression::None);
    export::write_batches(&schema, batches, &layout, &room, &mut out).await?;
    out.hand_over().map_err(|_| QueryError::request("the client is gone"))
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
