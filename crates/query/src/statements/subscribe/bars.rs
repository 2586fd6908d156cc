//! Bars that close: SAMPLE BY of one table, told bucket by bucket.
//!
//! A bucket closes when a row of the table at or past its end is committed. Its bars are what the query gives of it then,
//! over all rows that are there, those included that came before the subscription. Rows that come late, and DELETE and
//! UPDATE, have the bars of the buckets they touch told anew.

use super::messages::{Event, Message, instant};
use super::stages::refused;
use super::token::Token;
use super::{Subscription, Work};
use crate::dialect::within_times;
use crate::error::{Result, from_arrow};
use crate::functions::bucket::Bucketing;
use crate::live::{Item, What};
use crate::session::Session;
use crate::statements::sampled::Sampled;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::LogicalPlan;
use futures::TryStreamExt;
use sqlparser::ast;
use std::sync::Arc;
use tickstone_engine::{Happened, TableSnapshot, difference};
use tickstone_model::RowBatch;

/// Most stretches of buckets that late rows of one commit are told apart by.
const STRETCHES_MAX: usize = 64;

/// See the module.
pub(super) struct Bars {
    session: Session,
    query: Box<ast::Query>,
    table: Arc<TableSnapshot>,
    /// The name of the designated timestamp.
    time: String,
    bucketing: Bucketing,
    /// The newest time of the table's rows.
    newest: Option<i64>,
}

impl Bars {
    /// Those of an analyzed plan; `None` where it has no SAMPLE BY.
    ///
    /// # Errors
    /// Where its buckets cannot be told one by one.
    pub(super) fn of(plan: &LogicalPlan, session: &Session, query: &ast::Query) -> Result<Option<Self>> {
        let Some(found) = Sampled::of(plan, query).map_err(refused)? else { return Ok(None) };
        let Sampled { table, time, bucketing } = found;
        let query = Box::new(query.clone());
        let session = session.beside();
        Ok(Some(Self { session, query, table, time, bucketing, newest: None }))
    }

    pub(super) fn table(&self) -> &Arc<TableSnapshot> {
        &self.table
    }

    /// Begins with a table whose newest row has this time; gives up to where its buckets count as told.
    pub(super) fn begin(&mut self, told_to: Option<i64>, newest: Option<i64>) -> Option<i64> {
        // What was committed since is heard once more, and closes what it closes.
        self.newest = newest.map(|newest| told_to.map_or(newest, |told_to| newest.min(told_to)));
        told_to.or_else(|| newest.map(|newest| self.bucketing.start(newest)))
    }

    /// The bars of all buckets that are closed, of the state of a session's snapshot.
    ///
    /// # Errors
    /// Those of the query.
    pub(super) async fn those_closed(&mut self, session: &mut Session) -> Result<SendableRecordBatchStream> {
        let snapshot = session.full_snapshot();
        let now = snapshot.tables().find(|table| table.id() == self.table.id());
        let newest = now.and_then(|table| table.partitions().times()).map(|(_, newest)| newest);
        let to = newest.map_or(i64::MIN + 1, |newest| self.bucketing.start(newest));
        let mut query = self.query.clone();
        within_times(&mut query, self.table.schema().name(), &self.time, (i64::MIN, to))?;
        Ok(session.start(ast::Statement::Query(query)).await?.1)
    }

    /// The bars of the buckets in a stretch of time.
    async fn within(&mut self, stretch: (i64, i64)) -> Result<Option<RecordBatch>> {
        let mut query = self.query.clone();
        within_times(&mut query, self.table.schema().name(), &self.time, stretch)?;
        let batches: Vec<RecordBatch> = self.session.rows_now(query).await?.try_collect().await?;
        self.session.let_go();
        match batches.iter().find(|batch| batch.num_rows() > 0) {
            None => Ok(None),
            Some(first) => Ok(Some(concat_batches(&first.schema(), &batches).map_err(from_arrow)?)),
        }
    }

    /// The stretches of buckets before `told_to` that rows of these times are in, ascending and apart.
    fn touched(&self, times: &[i64], told_to: i64, stretches: &mut Vec<(i64, i64)>) {
        let mut at = 0;
        while let Some(ts) = times.get(at).filter(|ts| **ts < told_to) {
            let (start, end) = self.bucketing.bucket(*ts);
            stretches.push((start, end));
            at += times[at..].partition_point(|ts| *ts < end).max(1);
        }
    }
}

impl Subscription {
    /// Handles the change that is next.
    pub(super) async fn handle_bars(&mut self) -> Result<()> {
        let Some(Item { position, what: What::Change { heard, place, .. } }) = self.todo.pop_front() else {
            return Ok(());
        };
        let changes = self.options.changes;
        let Work::Bars(bars) = &mut self.work else { return Ok(()) };
        let mut told_to = self.at.closed_to;
        let (mut newest, mut stretches) = (None, Vec::new());
        let mut late = |bars: &Bars, times: &[i64]| {
            if let (Some(told_to), true) = (told_to, changes) {
                bars.touched(times, told_to, &mut stretches);
            }
        };
        match &heard.changes[place].what {
            Happened::Rows(rows) => {
                for times in rows.pieces().iter().filter_map(RowBatch::times) {
                    newest = newest.max(times.last().copied());
                    late(bars, times);
                }
            }
            Happened::Loaded(table) => {
                newest = table.partitions().times().map(|(_, newest)| newest);
                for (from, to) in table.partitions().iter().filter_map(|partition| partition.times()) {
                    late(bars, &bars_between(bars, from, to));
                }
            }
            Happened::Rewritten(rewrite) => {
                for place in 0..rewrite.parts().count() {
                    difference(rewrite, place, |found| {
                        for rows in [&found.deleted, &found.updated.after] {
                            let mut times = rows.times().unwrap_or_default().to_vec();
                            times.sort_unstable();
                            late(bars, &times);
                        }
                        Ok(())
                    })?;
                }
            }
            other => {
                self.at = Token { position, done: 0, ..self.at };
                return self.heard_of_table(other);
            }
        }
        bars.newest = bars.newest.max(newest);
        let closed_to = bars.newest.map(|newest| bars.bucketing.start(newest));
        let mut told = Vec::new();
        for (from, to) in joined(stretches) {
            let to = told_to.map_or(to, |told_to| to.min(told_to));
            told.push((Event::Update, (from, to), bars.within((from, to)).await?));
        }
        match (told_to, closed_to) {
            (Some(from), Some(to)) if from < to => {
                told.push((Event::Insert, (from, to), bars.within((from, to)).await?));
                told_to = Some(to);
            }
            (None, Some(to)) => {
                // The first rows of all.
                let from = i64::MIN;
                told.push((Event::Insert, (from, to), bars.within((from, to)).await?));
                told_to = Some(to);
            }
            _ => {}
        }
        // All of one commit is told together: who resumes in its midst hears it once more from its beginning.
        let before = self.at;
        self.at = Token { position, done: 0, closed_to: told_to };
        let count = told.len();
        for (number, (event, (from, to), rows)) in told.into_iter().enumerate() {
            let at = if number + 1 == count { self.at } else { before };
            let detail = format!("{{\"from\":\"{}\",\"to\":\"{}\"}}", instant(from), instant(to));
            match rows {
                Some(rows) => self.out.push_back(Message::rows(event, Some(at), rows).with_detail(detail)),
                // No bar is left in it.
                None if event == Event::Update => {
                    self.out.push_back(Message::event(Event::Delete, at, Some(detail)));
                }
                None => {}
            }
        }
        Ok(())
    }
}

/// One instant in each bucket between two; the first and the last where there are too many.
fn bars_between(bars: &Bars, from: i64, to: i64) -> Vec<i64> {
    let mut instants = vec![from];
    let mut next = bars.bucketing.bucket(from).1;
    while next <= to && instants.len() < (1 << 20) {
        instants.push(next);
        next = bars.bucketing.bucket(next).1;
    }
    instants
}

/// Stretches, ascending and apart; as one where they are too many.
fn joined(mut stretches: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    stretches.sort_unstable();
    let mut joined: Vec<(i64, i64)> = Vec::new();
    for (from, to) in stretches {
        match joined.last_mut() {
            Some(last) if last.1 >= from => last.1 = last.1.max(to),
            _ => joined.push((from, to)),
        }
    }
    match (joined.first(), joined.last()) {
        (Some(first), Some(last)) if joined.len() > STRETCHES_MAX => vec![(first.0, last.1)],
        _ => joined,
    }
}
