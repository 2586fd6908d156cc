//! COPY over a connection: rows of the client into a table in one commit, rows of a query to the client.

use super::channel::{Came, Channel};
use super::connection::{Connection, Status, Stop};
use super::copy::{Filler, Writer};
use super::error::{Fault, PROTOCOL_VIOLATION};
use super::execute::{CopyIn, CopyOut};
use super::values::Canonical;
use crate::metrics::Counter;
use crate::shared::Shared;
use pgwire::messages::PgWireFrontendMessage as Message;
use pgwire::messages::copy::{CopyDone, CopyInResponse, CopyOutResponse};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tickstone_model::Rights;
use tickstone_query::append::{AppendRequest, Appender, append};
use tickstone_query::arrow::array::RecordBatch;
use tickstone_query::arrow::datatypes::SchemaRef;
use tickstone_query::arrow::error::ArrowError;
use tickstone_query::{Access, QueryError, Reached};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Batches that wait to be stored.
const BATCHES_WAITING: usize = 2;

/// A batch, or the end; a channel that closes without one was broken off.
type Piece = Option<RecordBatch>;

/// Rows on their way into a table, in a commit of their own.
struct Load {
    send: mpsc::Sender<Piece>,
    stored: JoinHandle<Result<u64, QueryError>>,
}

impl Load {
    fn begin(shared: &Shared, access: &Access, reached: Reached, schema: &SchemaRef) -> Self {
        let (send, mut receive) = mpsc::channel::<Piece>(BATCHES_WAITING);
        let (access, schema) = (access.clone(), Arc::clone(schema));
        let request =
            AppendRequest { reached: Some(reached.clone()), ..AppendRequest::new(reached.schema.name()) };
        let stored = shared.database.runtime().spawn_blocking(move || {
            let mut ended = false;
            let batches = std::iter::from_fn(|| match receive.blocking_recv() {
                _ if ended => None,
                Some(Some(batch)) => Some(Ok(batch)),
                Some(None) => None,
                None => {
                    ended = true;
                    Some(Err(ArrowError::ExternalError("the rows were broken off".into())))
                }
            });
            append(&access, &request, &schema, batches)
        });
        Self { send, stored }
    }

    /// Hands a batch on; where that is not taken any more, why.
    async fn push(&mut self, batch: RecordBatch) -> Result<(), Stop> {
        match self.send.send(Some(batch)).await {
            Ok(()) => Ok(()),
            Err(_) => Err(match (&mut self.stored).await {
                Ok(Err(error)) => error.into(),
                _ => Fault::new("XX000", "the rows were not taken").into(),
            }),
        }
    }

    async fn end(self) -> Result<u64, Stop> {
        // Where nobody takes it, the result says why.
        let _ = self.send.send(None).await;
        match self.stored.await {
            Ok(stored) => Ok(stored?),
            Err(error) => Err(Fault::new("XX000", error.to_string()).into()),
        }
    }
}

/// Where rows go.
enum Target {
    Load(Load),
    /// The transaction that is open.
    Transaction(Box<Appender>, u64),
}

impl Connection {
    /// COPY … FROM STDIN; its tag.
    ///
    /// # Errors
    /// Where a row is none or does not fit, the client breaks off, or the rows cannot be stored; none is then.
    pub(super) async fn copy_in(&mut self, copy: CopyIn) -> Result<String, Stop> {
        let CopyIn { table, columns, format } = copy;
        let refused = |error: QueryError| {
            self.access.tell("INGEST", table.as_str().into(), 0, Duration::ZERO, Some(&error));
            Stop::from(Fault::new(error.sql_state().code(), error.to_string()))
        };
        let found = self.access.table(Rights::INSERT, &table).map_err(refused)?;
        let missing = || {
            Fault::new("42P01", format!("table '{table}' does not exist"))
                .hint("SHOW TABLES lists the tables")
        };
        let reached = found.filter(|found| found.schema.view().is_none()).ok_or_else(missing)?;
        let found = Arc::clone(&reached.schema);
        self.access.turn(true).await?;
        let code = format.code();
        let mut filler = Filler::new(&found, &columns, format)?;
        let appender = Appender::to_table(&self.access, found.name(), filler.schema())?;
        let count = filler.schema().fields().len();
        let fields = i16::try_from(count).unwrap_or(i16::MAX);
        let overall = i8::try_from(code).unwrap_or(0);
        self.channel.put(&CopyInResponse::new(overall, fields, vec![code; count]));
        self.channel.send().await?;
        let mut target = match self.status {
            Status::Open => Target::Transaction(Box::new(appender), 0),
            _ => Target::Load(Load::begin(&self.shared, &self.access, reached, filler.schema())),
        };
        loop {
            let message = match self.channel.next().await? {
                Some(Came::Message(message)) => message,
                Some(Came::NoText(..)) => {
                    return Err(Fault::new("22021", "the text of the message is no UTF-8").into());
                }
                None => return Err(Stop::Gone(io::ErrorKind::UnexpectedEof.into())),
            };
            let batches = match message {
                Message::CopyData(data) => filler.push(&data.data)?,
                Message::CopyDone(_) => {
                    for batch in filler.finish()? {
                        self.fill(&mut target, batch).await?;
                    }
                    break;
                }
                Message::CopyFail(fail) => {
                    return Err(Fault::new(
                        "57014",
                        format!("COPY was given up by the client: {}", fail.message),
                    )
                    .into());
                }
                Message::Flush(_) | Message::Sync(_) => continue,
                Message::Terminate(_) => return Err(Stop::Gone(io::ErrorKind::UnexpectedEof.into())),
                _ => {
                    return Err(
                        Fault::new(PROTOCOL_VIOLATION, "this message is not expected within COPY").into()
                    );
                }
            };
            for batch in batches {
                self.fill(&mut target, batch).await?;
            }
        }
        let rows = match target {
            Target::Load(load) => load.end().await?,
            Target::Transaction(_, rows) => rows,
        };
        self.shared.metrics.add(Counter::CopyRows, rows);
        Ok(format!("COPY {rows}"))
    }

    async fn fill(&mut self, target: &mut Target, batch: RecordBatch) -> Result<(), Stop> {
        match target {
            Target::Load(load) => load.push(batch).await,
            Target::Transaction(appender, rows) => {
                *rows += batch.num_rows() as u64;
                self.inserted += batch.num_rows() as u64;
                let (cast, table) = (appender.cast(&batch)?, appender.table().clone());
                let append = move |session: &mut tickstone_query::Session| session.append(&table, &cast);
                Ok(self.conversation.blocking(&self.shared, append).await?)
            }
        }
    }

    /// COPY … TO STDOUT; its tag.
    ///
    /// # Errors
    /// Those of the query, and where the client goes or cancels it.
    pub(super) async fn copy_out(&mut self, copy: CopyOut) -> Result<String, Stop> {
        let CopyOut { mut reading, format } = copy;
        let code = format.code();
        let count = reading.schema().fields().len();
        let (overall, fields) = (i8::try_from(code).unwrap_or(0), i16::try_from(count).unwrap_or(i16::MAX));
        self.channel.put(&CopyOutResponse::new(overall, fields, vec![code; count]));
        let mut writer = Writer::new(format);
        writer.begin(reading.schema(), &mut self.channel.out);
        let mut rows = 0_u64;
        while let Some(batch) =
            Self::while_wanted(&mut self.channel, &self.registered, false, reading.next()).await?
        {
            let batch = Canonical::of(&batch?)?;
            rows += self.copy_batch(&mut writer, &batch).await?;
        }
        writer.end(&mut self.channel.out);
        self.channel.put(&CopyDone::new());
        Ok(format!("COPY {rows}"))
    }

    async fn copy_batch(&mut self, writer: &mut Writer, batch: &Canonical) -> Result<u64, Stop> {
        let (mut next, rows) = (0, batch.rows());
        while next < rows {
            next = put_rows(&mut self.channel, writer, batch, next)?;
            let send = self.channel.send_much();
            send.await?;
        }
        Ok(rows as u64)
    }
}

/// Puts rows from `next` on behind what is to be sent, until it is much; the row after them.
fn put_rows(
    channel: &mut Channel,
    writer: &mut Writer,
    batch: &Canonical,
    mut next: usize,
) -> Result<usize, Stop> {
    let columns = batch.columns()?;
    while next < batch.rows() && channel.out.len() < super::channel::SEND_BYTES {
        writer.row(&columns, next, &mut channel.out);
        next += 1;
    }
    Ok(next)
}
