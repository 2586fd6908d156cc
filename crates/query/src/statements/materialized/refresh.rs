//! How what a view lacks becomes rows of it.

use super::stopped;
use crate::access::Source;
use crate::audit::Origin;
use crate::database::Database;
use crate::dialect::{query_of_view, within_times};
use crate::error::{QueryError, Result, SqlState};
use crate::functions::bucket::Bucketing;
use crate::refresher::Refreshing;
use crate::session::{Session, frozen_buckets, stale_buckets, whole_buckets};
use crate::statements::insert::Target;
use crate::statements::table_functions;
use datafusion::arrow::array::RecordBatch;
use futures::TryStreamExt;
use sqlparser::ast;
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tickstone_engine::{Engine, Selection, Snapshot, StaleStretch, TableSnapshot};
use tickstone_model::{MaterializedView, TimeRange, values_bytes};

/// How often the thread looks for what views lack.
const TICK: Duration = Duration::from_millis(100);
/// How long a bucket is left alone after its last change.
const QUIET: Duration = Duration::from_millis(500);
/// How long after a failure a view is tried again, at first and at most.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Rows of the table below that are read for one storing of rows, as far as partitions tell.
const STEP_ROWS: u64 = 8 << 20;

/// Part of the memory budget that the rows of one commit take: other commits have theirs beside it.
const COMMIT_SHARE: usize = 16;

/// Starts the thread that keeps views current, where there are any and none runs.
///
/// # Errors
/// Where the system has no thread left.
pub(crate) fn keep_views(database: &Database) -> Result<()> {
    let refresher = database.refresher();
    let engine = database.engine();
    if refresher.is_started() || engine.is_read_only() || !engine.snapshot().has_materialized_views() {
        return Ok(());
    }
    let own = database.for_refresher();
    refresher.start(move |refreshing| keep(&own, &refreshing))
}

fn keep(database: &Database, refreshing: &Arc<Refreshing>) {
    let mut work = Work {
        session: Session::new(database, None, Origin::default(), table_functions),
        refreshing: Arc::clone(refreshing),
    };
    let mut seen: VecDeque<(Instant, u64)> = VecDeque::new();
    let mut failed: HashMap<u32, (Instant, Duration)> = HashMap::new();
    while !refreshing.is_stopping() {
        let snapshot = database.engine().snapshot();
        let now = Instant::now();
        seen.push_back((now, snapshot.position()));
        while seen.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= QUIET) {
            seen.pop_front();
        }
        let quiet =
            seen.front().filter(|(at, _)| now.duration_since(*at) >= QUIET).map(|(_, position)| *position);
        for view in by_depth(&snapshot) {
            let id = view.id();
            let waits = failed.get(&id).is_some_and(|(until, _)| *until > now);
            let is_due = |stretch: &StaleStretch| quiet.is_some_and(|quiet| stretch.position <= quiet);
            if waits || refreshing.is_stopping() || !view.staleness().stale().iter().any(is_due) {
                continue;
            }
            let settled = work.settle(&snapshot, view, is_due);
            let done = catch_unwind(AssertUnwindSafe(|| database.runtime().block_on(settled)));
            // A right may be given back at any time.
            let denied = matches!(&done, Ok(Err(error)) if error.sql_state() == SqlState::Denied);
            let failure = match done {
                Ok(Ok(_)) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some("a defect ended it; the log has where".to_string()),
            };
            match &failure {
                None => drop(failed.remove(&id)),
                Some(_) => {
                    let again = failed.get(&id).filter(|_| !denied);
                    let pause = again.map_or(RETRY.0, |(_, pause)| RETRY.1.min(*pause * 2));
                    failed.insert(id, (Instant::now() + pause, pause));
                }
            }
            refreshing.note(id, |noted| noted.failure = failure);
        }
        let ids: Vec<u32> = snapshot.materialized_views().map(|view| view.id()).collect();
        refreshing.forget(|id| ids.contains(&id));
        drop(snapshot);
        refreshing.wait(TICK);
    }
}

/// All materialized views, each after the one it reads.
fn by_depth(snapshot: &Snapshot) -> Vec<&Arc<TableSnapshot>> {
    let depth = |view: &Arc<TableSnapshot>| chain(snapshot, view).len();
    let mut views: Vec<_> = snapshot.materialized_views().collect();
    views.sort_by_key(|view| depth(view));
    views
}

/// A view, those below it, and the table below all.
fn chain<'a>(snapshot: &'a Snapshot, view: &'a Arc<TableSnapshot>) -> Vec<&'a Arc<TableSnapshot>> {
    let mut chain = vec![view];
    while let Some(below) =
        chain.last().and_then(|last| last.schema().materialized()).and_then(|of| snapshot.table(&of.base))
    {
        chain.push(below);
    }
    chain
}

/// Whoever refreshes views.
pub(super) struct Work {
    session: Session,
    refreshing: Arc<Refreshing>,
}

impl Work {
    pub(super) fn new(database: &Database) -> Self {
        let refreshing = Arc::clone(database.refresher().shared());
        Self { session: Session::new(database, None, Origin::default(), table_functions), refreshing }
    }

    /// Has a view take in the stretches that are due, but for the buckets in which others are: these are worked out
    /// once they are due as well. How many rows were stored.
    ///
    /// # Errors
    /// Where its owner may not read what it is of any longer, those of the query, and of storing.
    pub(super) async fn settle(
        &mut self,
        snapshot: &Snapshot,
        view: &Arc<TableSnapshot>,
        is_due: impl Fn(&StaleStretch) -> bool,
    ) -> Result<u64> {
        let (Some(of), mut stored) = (view.schema().materialized(), 0) else { return Ok(0) };
        let Some(bucketing) = Bucketing::of_spelled(&of.buckets) else {
            return Err(QueryError::request(format!("its buckets '{}' are not known here", of.buckets)));
        };
        if let Some(base) = snapshot.table(&of.base) {
            let accounts = self.session.database().held_accounts();
            accounts.check_owner(snapshot, view.schema(), Source::Table(base.schema()))?;
        }
        self.pass_frozen(snapshot, view, &bucketing).await?;
        for range in due(view, of, &bucketing, is_due) {
            for step in steps(snapshot, view, &bucketing, range) {
                let refreshing = Arc::clone(&self.refreshing);
                let alone = refreshing.alone().await;
                // Somebody else may have stored some of it meanwhile. What is not stale is read as it is stored, so that
                // it is left alone: rows go and come in several commits.
                let now = self.session.engine().snapshot();
                let Some(view) = now.table_by_id(view.id()).map(Arc::clone) else { return Ok(stored) };
                for range in stale_buckets(&view, of).iter().filter_map(|stale| both(*stale, step)) {
                    let begun = Instant::now();
                    let rows = self.store(&now, &view, of, range).await?;
                    stored += rows;
                    self.refreshing.note(view.id(), |noted| {
                        noted.stretches += 1;
                        noted.rows += rows;
                        noted.took += begun.elapsed();
                    });
                }
                drop(alone);
            }
        }
        Ok(stored)
    }

    /// Lets go of what is marked in buckets that are frozen, of which other rows are still below.
    async fn pass_frozen(
        &self,
        snapshot: &Snapshot,
        view: &TableSnapshot,
        bucketing: &Bucketing,
    ) -> Result<()> {
        let stale = view.staleness().stale();
        let frozen = frozen_buckets(view, bucketing);
        let meets = |frozen: &TimeRange| stale.iter().any(|stretch| stretch.range.overlaps(frozen));
        let passed: Vec<TimeRange> = frozen.into_iter().filter(meets).collect();
        if passed.is_empty() {
            return Ok(());
        }
        let (id, as_of) = (view.id(), snapshot.position());
        self.session.blocking(move |engine| engine.refresh_view(id, as_of, passed, Vec::new())).await
    }

    /// Stores the rows of a stretch of whole buckets that is stale; how many. Nobody reads what is stored of it before the
    /// view says so, after the last row.
    async fn store(
        &mut self,
        snapshot: &Snapshot,
        view: &Arc<TableSnapshot>,
        of: &MaterializedView,
        range: TimeRange,
    ) -> Result<u64> {
        let base = snapshot.table(&of.base).map(|base| base.schema());
        let time = base.and_then(|base| Some(&base.columns()[base.timestamp()?].name));
        let Some(time) = time else { return Ok(0) };
        let mut query = query_of_view(&of.query)?;
        within_times(&mut query, &of.base, time, (range.from, range.to))?;
        let (mut as_of, mut rows) = self.add(query.clone(), view).await?;
        let (id, name) = (view.id(), view.schema().name().to_string());
        if self.held(id, range).await? != rows {
            // Some keys have no rows any more: all go, and those of now come.
            self.session.blocking(move |engine| delete(engine, &name, range)).await?;
            (as_of, rows) = self.add(query, view).await?;
        }
        // By its number: another view may have its name by now.
        let settled = move |engine: &Engine| engine.refresh_view(id, as_of, vec![range], Vec::new());
        self.session.blocking(settled).await?;
        Ok(rows)
    }

    /// Adds the rows of a query to a view, in commits of a share of the memory budget; as of which position they are, and
    /// how many.
    async fn add(&mut self, query: Box<ast::Query>, view: &Arc<TableSnapshot>) -> Result<(u64, u64)> {
        let most = self.session.engine().options().memory_budget_bytes / COMMIT_SHARE;
        let (as_of, mut stream) = self.session.rows_as_of(query).await?;
        let target = Target::all_columns(view.schema());
        let (mut batches, mut bytes, mut rows) = (Vec::new(), 0, 0);
        while let Some(batch) = stream.try_next().await? {
            let all_bytes: usize = batch.columns().iter().map(values_bytes).sum();
            let row_bytes = (all_bytes / batch.num_rows().max(1)).max(1);
            // All bars may come in one batch.
            let at_once = (most / row_bytes).max(1);
            for start in (0..batch.num_rows()).step_by(at_once) {
                if self.refreshing.is_stopping() {
                    return Err(stopped());
                }
                let piece = batch.slice(start, at_once.min(batch.num_rows() - start));
                batches.push(target.rows(&piece, rows)?);
                rows += piece.num_rows() as u64;
                bytes += piece.num_rows() * row_bytes;
                if bytes >= most {
                    self.commit(view, std::mem::take(&mut batches)).await?;
                    bytes = 0;
                }
            }
        }
        self.commit(view, batches).await?;
        self.session.let_go();
        Ok((as_of, rows))
    }

    /// Adds rows to a view in one commit.
    async fn commit(&self, view: &TableSnapshot, batches: Vec<RecordBatch>) -> Result<()> {
        let (id, name) = (view.id(), view.schema().name().to_string());
        let commit = move |engine: &Engine| {
            let mut commit = engine.begin_of_views();
            batches.iter().try_for_each(|batch| commit.append_to(id, &name, batch))?;
            commit.commit(None).map(|_| ())
        };
        self.session.blocking(commit).await
    }

    /// Rows that a view has stored in a range.
    async fn held(&self, view: u32, range: TimeRange) -> Result<u64> {
        let count = move |engine: &Engine| {
            let snapshot = engine.snapshot();
            let Some(table) = snapshot.table_by_id(view) else { return Ok(0) };
            let segments = table.select(&Selection { time: range, ..Selection::default() })?;
            let rows = segments.iter().flat_map(|segment| segment.rows()).map(|rows| rows.len() as u64);
            Ok(rows.sum())
        };
        self.session.blocking(count).await
    }
}

/// What is in both stretches.
fn both(one: TimeRange, other: TimeRange) -> Option<TimeRange> {
    let both = TimeRange::new(one.from.max(other.from), one.to.min(other.to));
    (!both.is_empty()).then_some(both)
}

/// Deletes all rows that a view has stored in a range.
fn delete(engine: &Engine, view: &str, range: TimeRange) -> tickstone_engine::Result<()> {
    let mut rewrite = engine.rewrite_view(view)?;
    let table = Arc::clone(rewrite.table());
    for segment in table.select(&Selection { time: range, ..Selection::default() })? {
        let numbers: Vec<usize> = segment.rows().iter().cloned().flatten().collect();
        rewrite.delete(&segment, &numbers)?;
    }
    rewrite.commit().map(|_| ())
}

/// The stretches of whole buckets that are due and have nothing else that the view lacks.
fn due(
    view: &TableSnapshot,
    of: &MaterializedView,
    bucketing: &Bucketing,
    is_due: impl Fn(&StaleStretch) -> bool,
) -> Vec<TimeRange> {
    let others = view.staleness().stale().iter().filter(|stretch| !is_due(stretch));
    let others: Vec<TimeRange> = others.map(|stretch| whole_buckets(bucketing, stretch.range)).collect();
    let mut due = Vec::new();
    for stretch in stale_buckets(view, of) {
        let mut from = stretch.from;
        for other in others.iter().filter(|other| other.overlaps(&stretch)) {
            due.push(TimeRange::new(from, other.from));
            from = other.to;
        }
        due.push(TimeRange::new(from, stretch.to));
    }
    due.retain(|range| !range.is_empty());
    due
}

/// A stretch of whole buckets, cut where many rows are below it.
fn steps(
    snapshot: &Snapshot,
    view: &Arc<TableSnapshot>,
    bucketing: &Bucketing,
    range: TimeRange,
) -> Vec<TimeRange> {
    let chain = chain(snapshot, view);
    let Some(table) = chain.last() else { return vec![range] };
    let (mut steps, mut from, mut rows) = (Vec::new(), range.from, 0);
    for partition in table.partitions().iter().filter(|partition| partition.range().overlaps(&range)) {
        rows += partition.rows();
        let to = bucketing.bucket(partition.range().to.saturating_sub(1)).1;
        if rows >= STEP_ROWS && from < to && to < range.to {
            steps.push(TimeRange::new(from, to));
            (from, rows) = (to, 0);
        }
    }
    steps.push(TimeRange::new(from, range.to));
    steps
}
