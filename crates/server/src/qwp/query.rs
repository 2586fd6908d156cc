//! A query: its statement, its rows as batches, its end.

use super::egress::CANCELLED;
use super::rows::sendable;
use super::status;
use crate::metrics::Counter;
use crate::parameters;
use crate::shared::Shared;
use crate::socket::{End, Outgoing};
use crate::statement::{self, Answer, Rows};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as StdMutex, OnceLock, PoisonError};
use std::time::Duration;
use tickstone_query::arrow::array::RecordBatch;
use tickstone_query::{Access, QueryError, SqlState};
use tickstone_wire::qwp::egress::{Credit, Query, Results, pieces};
use tickstone_wire::qwp::{BATCH_BYTES_MAX, Status};
use tokio::sync::{Mutex, Notify};
use tokio::time::{Instant, sleep_until};

/// Bytes of a message of rows, about: what a client that cancels has still to read, and one without credit to hold.
const BATCH_BYTES: usize = 2 << 20;

/// What a client says of its query while it is answered.
#[derive(Debug)]
pub(super) struct Controls {
    id: i64,
    credit: StdMutex<Credit>,
    is_cancelled: AtomicBool,
    /// What was said last.
    said: Notify,
    /// How long the client gave it, and until when that is.
    time: Option<(Duration, Instant)>,
}

impl Controls {
    pub(super) fn new(query: &Query) -> Self {
        let limit = query.timeout_ms.map(|limit| Duration::from_millis(limit.get()));
        // A time past what a clock counts is none.
        let time = limit.and_then(|limit| Some((limit, Instant::now().checked_add(limit)?)));
        Self {
            id: query.id,
            credit: StdMutex::new(Credit::new(query.credit)),
            is_cancelled: AtomicBool::new(false),
            said: Notify::new(),
            time,
        }
    }

    pub(super) fn id(&self) -> i64 {
        self.id
    }

    pub(super) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Release);
        self.said.notify_waiters();
    }

    pub(super) fn grant(&self, bytes: u64) {
        self.with_credit(|credit| credit.grant(bytes));
        self.said.notify_waiters();
    }

    fn with_credit<T>(&self, call: impl FnOnce(&mut Credit) -> T) -> T {
        call(&mut self.credit.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until the client says something that ends the wait.
    async fn until(&self, is_enough: impl Fn() -> bool) {
        loop {
            let said = self.said.notified();
            tokio::pin!(said);
            said.as_mut().enable();
            if is_enough() {
                return;
            }
            said.await;
        }
    }

    /// Waits until the client cancels the query or its time is over: what the client is told.
    async fn ended(&self) -> (Status, String) {
        let late = async {
            match self.time {
                Some((limit, end)) => {
                    sleep_until(end).await;
                    limit
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.until(|| self.is_cancelled.load(Ordering::Acquire)) => {
                (Status::Cancelled, CANCELLED.to_string())
            }
            limit = late => {
                (Status::QueryTimeout, format!("the query took longer than its client gave it, {limit:?}"))
            }
        }
    }

    /// What `work` gives, unless the client cancels it or its time is over before.
    async fn unless_ended<T>(&self, work: impl Future<Output = T>) -> Result<T, Failure> {
        tokio::select! {
            biased;
            (status, text) = self.ended() => Err(Failure::Told(status, text)),
            done = work => Ok(done),
        }
    }

    /// Waits until a batch may be sent.
    async fn credit(&self) -> Result<(), Failure> {
        self.unless_ended(self.until(|| self.with_credit(|credit| credit.allows_batch()))).await
    }
}

/// Why a query has no more rows.
enum Failure {
    /// The connection ended.
    Connection(End),
    /// The client is told.
    Told(Status, String),
}

impl Failure {
    fn told(status: Status, text: impl ToString) -> Self {
        Failure::Told(status, text.to_string())
    }
}

impl From<End> for Failure {
    fn from(end: End) -> Self {
        Failure::Connection(end)
    }
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        Failure::told(status::of_statement(&error), error)
    }
}

/// A query on its way.
struct Answering<'a> {
    shared: &'a Arc<Shared>,
    access: &'a Access,
    query: &'a Query,
    controls: &'a Controls,
    results: &'a mut Results,
    outgoing: &'a Mutex<Outgoing>,
    rows_max: usize,
}

/// Answers a query up to its end.
///
/// # Errors
/// Where the connection ends.
pub(super) async fn answer(
    shared: &Arc<Shared>,
    access: &Access,
    query: &Query,
    controls: &Controls,
    results: &mut Results,
    outgoing: &Mutex<Outgoing>,
    rows_max: usize,
) -> Result<(), End> {
    let mut answering = Answering { shared, access, query, controls, results, outgoing, rows_max };
    match answering.carry_out().await {
        Ok(()) => Ok(()),
        Err(Failure::Connection(end)) => Err(end),
        Err(Failure::Told(status, text)) => {
            let mut message = Vec::new();
            answering.results.put_error(&mut message, status, &text);
            answering.send(message).await
        }
    }
}

impl Answering<'_> {
    async fn carry_out(&mut self) -> Result<(), Failure> {
        let mut message = Vec::new();
        self.results.start(&mut message, self.query);
        if !message.is_empty() {
            self.send(message).await?;
        }
        match self.run().await? {
            Answer::Rows(rows) => self.rows(rows).await,
            Answer::Done { tag, rows } => {
                let mut message = Vec::new();
                self.results.put_done(&mut message, status::done(&tag), rows.unwrap_or(0));
                Ok(self.send(message).await?)
            }
        }
    }

    async fn run(&self) -> Result<Answer, Failure> {
        let parameters = parameters::of_arrays(&self.query.parameters)?;
        let begun = Instant::now();
        let ended = OnceLock::new();
        let cancelled = async {
            let (status, text) = self.controls.ended().await;
            let error = QueryError::request(&text).state(SqlState::Cancelled);
            let _ = ended.set((status, text));
            error
        };
        let sql = &self.query.sql;
        let answer = statement::run_until(self.shared, self.access, sql, &parameters, cancelled).await;
        answer.map_err(|error| match ended.into_inner() {
            Some((status, text)) if error.sql_state() == SqlState::Cancelled => Failure::Told(status, text),
            _ => self.failed(&error, begun),
        })
    }

    /// An error of the statement; one that took longer than any may is told as such.
    fn failed(&self, error: &QueryError, begun: Instant) -> Failure {
        let limit = self.shared.settings.time("statement_timeout");
        let is_late =
            error.sql_state() == SqlState::Cancelled && limit.is_some_and(|limit| begun.elapsed() >= limit);
        let status = if is_late { Status::LimitExceeded } else { status::of_statement(error) };
        Failure::told(status, error)
    }

    async fn rows(&mut self, mut rows: Rows) -> Result<(), Failure> {
        let begun = Instant::now();
        let mut has_rows = false;
        // What has changed something is done, whatever the client says now.
        while let Some(batch) = match rows.changed {
            true => rows.next().await,
            false => self.controls.unless_ended(rows.next()).await?,
        } {
            let batch = sendable(&batch.map_err(|error| self.failed(&error, begun))?)?;
            if batch.num_rows() > 0 {
                has_rows = true;
                self.batch(&batch).await?;
            }
        }
        if !has_rows {
            // The columns come with a batch, so there is always one.
            let empty = RecordBatch::new_empty(Arc::clone(&rows.schema));
            self.batch(&sendable(&empty)?).await?;
        }
        let mut message = Vec::new();
        self.results.put_end(&mut message);
        Ok(self.send(message).await?)
    }

    async fn batch(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        for piece in pieces(batch, self.rows_max, BATCH_BYTES) {
            self.controls.credit().await?;
            let mut message = Vec::new();
            let put = self.results.put_batch(&mut message, &piece);
            let bytes = put.map_err(|error| Failure::told(Status::SchemaMismatch, error))?;
            if bytes > BATCH_BYTES_MAX {
                // The symbols in it would be missed by what follows, so nothing does.
                let what = format!("a row takes {bytes} bytes, and a message has at most {BATCH_BYTES_MAX}");
                self.results.put_error(&mut message, Status::LimitExceeded, &what);
                let error = message.split_off(bytes);
                self.send(error).await?;
                return Err(End::wrong(what).into());
            }
            self.controls.with_credit(|credit| credit.sent(bytes));
            self.shared.metrics.add(Counter::QwpResultBytes, bytes as u64);
            self.send(message).await?;
        }
        Ok(())
    }

    async fn send(&self, message: Vec<u8>) -> Result<(), End> {
        self.outgoing.lock().await.send(message).await
    }
}
