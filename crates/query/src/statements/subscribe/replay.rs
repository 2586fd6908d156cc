//! REPLAY: past rows in order of time, at the pace they had, as a subscription tells them.
//!
//! ```text
//! one query over the tables, in order of time ─► pacing: what is due by now ─► messages
//! ```
//!
//! The clock of a replay stands still while its reader takes nothing: who pauses goes on where he was, at the same pace.

use super::messages::{Event, Message, instant};
use super::stages::refused;
use crate::dialect::{Replay, order_by, within_times};
use crate::error::{QueryError, Result};
use crate::live;
use crate::provider::SnapshotTable;
use crate::running::QueryProgress;
use crate::session::{Outcome, Session};
use crate::texts::parse_instant;
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::{SchemaRef, TimestampNanosecondType};
use datafusion::catalog::default_table_source::DefaultTableSource;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use sqlparser::ast;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Who is later than this has paused.
const LATE: Duration = Duration::from_millis(100);
/// Rows that are due within this are told together.
const TICK: Duration = Duration::from_millis(1);

/// REPLAY.
pub(in crate::statements) async fn replay(session: &mut Session, replay: Replay) -> Result<Outcome> {
    let begun = Instant::now();
    let statement = ast::Statement::Query(replay.query.clone());
    let (plan, columns) = session.analyzed(statement).await?;
    let tables = tables_of(&plan)?;
    let bound = |text: &Option<String>, otherwise: i64| match text {
        None => Ok(otherwise),
        Some(text) => parse_instant(text).ok_or_else(|| {
            QueryError::request(format!("'{text}' is no instant")).hint("write FROM '2024-08-08T09:30:00Z'")
        }),
    };
    let stretch = (bound(&replay.from, i64::MIN)?, bound(&replay.to, i64::MAX)?);
    let mut query = replay.query;
    let Some((_, time)) = tables.first().cloned() else { return Err(refused("no table")) };
    if let Some((table, other)) = tables.iter().find(|(_, other)| *other != time) {
        let message =
            format!("the designated timestamp of '{table}' is {other}, and that of others is {time}");
        return Err(QueryError::request(message).hint("replay a query that gives both one name"));
    }
    let Ok(place) = columns.index_of(&time) else {
        let error = QueryError::request(format!("the query does not give '{time}', by which rows are told"));
        return Err(error.hint("select it, too"));
    };
    for (table, time) in &tables {
        within_times(&mut query, table, time, stretch)?;
    }
    order_by(&mut query, ast::Ident::with_quote('"', &time));
    let stream = session.start(ast::Statement::Query(query)).await?.1;
    let schema = live::message_schema(&columns);
    let told = Arc::clone(&schema);
    let replay = Replaying {
        stream,
        schema: told,
        time: place,
        speed: replay.speed,
        clock: None,
        newest: None,
        waiting: None,
        out: VecDeque::new(),
        over: false,
    };
    let adapted = Arc::clone(&schema);
    let rows = futures::stream::unfold(Some(replay), |state| async {
        let mut replay = state?;
        match replay.next().await {
            Ok(Some(batch)) => Some((Ok(batch), Some(replay))),
            Ok(None) => None,
            Err(error) => Some((Err(DataFusionError::External(Box::new(error))), None)),
        }
    });
    let stream = Box::pin(RecordBatchStreamAdapter::new(adapted, rows));
    Ok(Outcome::Rows { schema, stream, planning: begun.elapsed(), progress: QueryProgress::default() })
}

/// The tables of a plan, with their designated timestamps.
fn tables_of(plan: &LogicalPlan) -> Result<Vec<(String, String)>> {
    let mut tables: Vec<Option<(String, String)>> = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            let source = scan.source.downcast_ref::<DefaultTableSource>();
            let table = source.and_then(|source| source.table_provider.downcast_ref::<SnapshotTable>());
            tables.push(table.and_then(|table| {
                let schema = table.table().schema();
                let time = &schema.columns()[schema.timestamp()?].name;
                Some((schema.name().to_string(), time.clone()))
            }));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let tables: Option<Vec<_>> = tables.into_iter().collect();
    tables.ok_or_else(|| QueryError::request("a replay is of tables that have a designated timestamp"))
}

struct Replaying {
    stream: SendableRecordBatchStream,
    schema: SchemaRef,
    /// The column of times, among the query's.
    time: usize,
    speed: Option<f64>,
    /// An instant (ns), and when it was, or is, due.
    clock: Option<(i64, Instant)>,
    newest: Option<i64>,
    /// Rows that are not due yet.
    waiting: Option<RecordBatch>,
    out: VecDeque<Message>,
    over: bool,
}

impl Replaying {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(message) = self.out.pop_front() {
                return message.into_batch(&self.schema).map(Some);
            }
            if self.over {
                return Ok(None);
            }
            let batch = match self.waiting.take() {
                Some(batch) => batch,
                None => match self.stream.next().await {
                    Some(batch) => batch?,
                    None => {
                        self.over = true;
                        self.out.push_back(Message::untimely(Event::CaughtUp, None));
                        continue;
                    }
                },
            };
            if batch.num_rows() > 0 {
                self.tell_due(batch).await?;
            }
        }
    }

    /// Tells the first rows of a batch once they are due, and with them all that are due by then.
    async fn tell_due(&mut self, batch: RecordBatch) -> Result<()> {
        let times = batch.column(self.time).as_primitive_opt::<TimestampNanosecondType>();
        let times =
            times.ok_or_else(|| QueryError::request("the times of a replay are those of the table"))?;
        let times = times.values();
        let first = times[0];
        let mut count = batch.num_rows();
        if let Some(speed) = self.speed {
            let now = Instant::now();
            let (origin, at) = *self.clock.get_or_insert((first, now));
            let after =
                |ts: i64| Duration::from_secs_f64(ts.saturating_sub(origin).max(0) as f64 / 1e9 / speed);
            let due = at.checked_add(after(first)).unwrap_or(now);
            if now < due {
                tokio::time::sleep_until(due.into()).await;
            }
            let now = Instant::now();
            if now > due + LATE {
                // The reader took nothing for a while: the clock stood still.
                self.clock = Some((first, now));
            }
            let (origin, at) = self.clock.unwrap_or((first, now));
            let passed = (now + TICK).saturating_duration_since(at).as_secs_f64() * speed * 1e9;
            let until = origin.saturating_add(passed.min(i64::MAX as f64) as i64).max(first);
            count = times.partition_point(|ts| *ts <= until).max(1);
        }
        // A day that begins is told before its rows.
        if let Some(began) = live::day_began(self.newest, first) {
            let detail = format!("{{\"began\":\"{}\"}}", instant(began));
            self.out.push_back(Message::untimely(Event::EndOfDay, Some(detail)));
        }
        let next_day = times[..count].partition_point(|ts| live::day_began(Some(first), *ts).is_none());
        count = count.min(next_day.max(1));
        self.newest = self.newest.max(Some(times[count - 1]));
        self.out.push_back(Message::rows(Event::Insert, None, batch.slice(0, count)));
        if count < batch.num_rows() {
            self.waiting = Some(batch.slice(count, batch.num_rows() - count));
        }
        Ok(())
    }
}
