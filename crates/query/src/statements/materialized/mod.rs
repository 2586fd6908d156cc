//! CREATE MATERIALIZED VIEW, REFRESH, and the thread that keeps views current.
//!
//! ```text
//! stretches that a view lacks ─► whole buckets ─► its query over their rows ─► rows stored ─► the view says: as of then
//! ```
//!
//! Invariants:
//! - a query of a view never waits for any of this: what is not stored it works out itself;
//! - rows of a stretch count once the view says so, after all of them are stored: whatever ends the work, it begins anew.

mod refresh;

use super::create::query_columns;
use super::sampled::Sampled;
use crate::access::Source;
use crate::database::Database;
use crate::dialect::materialized::partitions_of;
use crate::dialect::{self, CreateMaterializedView, Statement, has_name};
use crate::error::{ErrorKind, QueryError, Result};
use crate::functions::bucket::Bucketing;
use crate::operators::keys_of;
use crate::session::{Outcome, Reading, Session, whole_buckets};
use crate::settings::has_local_buckets;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};
use refresh::Work;
pub(crate) use refresh::keep_views;
use sqlparser::ast;
use tickstone_engine::EngineError;
use tickstone_model::{ColumnType, MaterializedView, TableSchema, TimeRange, Ttl};

/// CREATE MATERIALIZED VIEW.
pub(super) async fn create(session: &mut Session, create: CreateMaterializedView) -> Result<Outcome> {
    const TAG: &str = "CREATE MATERIALIZED VIEW";
    if let Some(found) = session.snapshot().table(&create.name) {
        if create.if_not_exists && found.schema().materialized().is_some() {
            return Ok(Outcome::done(TAG));
        }
        let error = QueryError::from(EngineError::TableExists { name: found.schema().name().to_string() });
        let hint = "CREATE MATERIALIZED VIEW IF NOT EXISTS keeps one as it is";
        return Err(error.at(create.position).hint(hint));
    }
    let schema = schema_of(session, &create).await?.owned_by(session.owner());
    session.blocking(move |engine| engine.create_table(schema)).await?;
    keep_views(session.database())?;
    Ok(Outcome::done(TAG))
}

/// What a materialized view cannot have.
fn refused(what: &str) -> QueryError {
    QueryError::request(format!("a materialized view cannot have {what}")).hint(
        "it is SELECT ts, keys, aggregates FROM t [WHERE …] SAMPLE BY …, of one table or materialized view",
    )
}

async fn schema_of(session: &mut Session, create: &CreateMaterializedView) -> Result<TableSchema> {
    let mut statement = Statement::Query(Box::new(ast::Statement::Query(create.query.clone())));
    let reads = dialect::tables_read(&statement);
    session.prepare_names_told(&mut statement, Reading::Stored)?;
    let query = match statement {
        Statement::Query(query) => match *query {
            ast::Statement::Query(query) => query,
            _ => return Err(refused("another statement than a query")),
        },
        _ => return Err(refused("another statement than a query")),
    };
    let (plan, columns) = session.analyzed(ast::Statement::Query(query.clone())).await?;
    let sampled = Sampled::of(&plan, &query).map_err(refused)?;
    let sampled = sampled.ok_or_else(|| refused("a query without SAMPLE BY"))?;
    let base = sampled.table.schema();
    if query.with.is_some() || !reads.iter().all(|name| name.eq_ignore_ascii_case(base.name())) {
        return Err(refused("WITH, or a view that is not materialized: write their queries out"));
    }
    check_calls(session.database(), &plan)?;
    // Whoever refreshes it goes by the clocks of the zone.
    if !has_local_buckets(session.state().config_options()) && has_name(&create.text, "ZONE") {
        return Err(refused("TIME ZONE after SET local_buckets = false"));
    }
    let bucketing = sampled.bucketing;
    let (bucket_ns, origin_ns) = bucketing.longest();
    let buckets = bucketing.spelled().ok_or_else(|| refused("buckets that do not count from 1970"))?;
    if let Some(below) = base.materialized() {
        let below_it = Bucketing::of_spelled(&below.buckets);
        if !below_it.is_some_and(|below| bucketing.consists_of(&below)) {
            return Err(refused("buckets that are not whole buckets of the view below"));
        }
    }
    let (names, base) = (query_columns(&columns)?, base.name().to_string());
    let of = MaterializedView { query: create.text.clone(), base, buckets, bucket_ns, origin_ns };
    // A row that is worked out has the query's own names.
    let renamed = names.iter().zip(columns.fields()).find(|((name, _), field)| name != field.name());
    if let Some((_, field)) = renamed {
        return Err(refused(&format!(
            "two columns of one name, '{}': give one another, AS name",
            field.name()
        )));
    }
    let (time, keys) = time_and_keys(&plan)?;
    let mut builder = TableSchema::builder(&create.name).materialized(Some(of));
    for (name, column_type) in &names {
        builder = builder.column(name, *column_type);
    }
    for key in &keys {
        let (name, column_type) = &names[*key];
        if matches!(column_type, ColumnType::Float32 | ColumnType::Float64 | ColumnType::Array(_)) {
            let what =
                format!("a key of type {column_type}, such as '{name}': its rows are told apart by them");
            return Err(refused(&what));
        }
    }
    let symbols = keys.iter().filter(|key| names[**key].1 == ColumnType::Symbol);
    let ttl = create.ttl.as_deref().map(Ttl::parse).transpose();
    let builder = builder
        .timestamp(&names[time].0)
        .series(symbols.map(|key| names[*key].0.clone()))
        .dedup(std::iter::once(&time).chain(&keys).map(|index| names[*index].0.clone()))
        .partition_by(create.partition_by.unwrap_or_else(|| partitions_of(bucket_ns)))
        .ttl(ttl.map_err(|error| QueryError::from(error).at(create.position))?);
    builder.build().map_err(|error| QueryError::from(error).at(create.position))
}

/// A view says the same tomorrow, and in another process.
fn check_calls(database: &Database, plan: &LogicalPlan) -> Result<()> {
    let own: Vec<String> = database.functions().iter().map(|function| function.name().to_string()).collect();
    let mut found = None;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                let (name, lasts) = match expr {
                    Expr::ScalarFunction(call) => {
                        (call.func.name(), call.func.signature().volatility == Volatility::Immutable)
                    }
                    Expr::AggregateFunction(call) => (call.func.name(), true),
                    Expr::Placeholder(of) => (of.id.as_str(), false),
                    _ => return Ok(TreeNodeRecursion::Continue),
                };
                if !lasts || own.iter().any(|own| own == name) {
                    found.get_or_insert_with(|| name.to_string());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    match found {
        Some(name) => {
            let why = "what it gives is not in the rows alone, or not there in another process";
            Err(refused(&format!("{name}: {why}")))
        }
        None => Ok(()),
    }
}

/// The columns of the output that are the buckets' starts, and the keys.
fn time_and_keys(plan: &LogicalPlan) -> Result<(usize, Vec<usize>)> {
    let origins: Vec<Option<usize>> = (0..plan.schema().fields().len()).map(|at| origin(plan, at)).collect();
    let place = |of: usize| origins.iter().position(|origin| *origin == Some(of));
    let Some(time) = place(0) else {
        return Err(refused("a query that does not select the designated timestamp"));
    };
    let keys: Option<Vec<usize>> = (1..=keys_below(plan)).map(place).collect();
    let keys = keys.ok_or_else(|| refused("keys that are not selected as they are"))?;
    Ok((time, keys))
}

/// The column of SAMPLE BY that a column of the output is, where it is one as it is.
fn origin(plan: &LogicalPlan, at: usize) -> Option<usize> {
    if keys_of(plan).is_some() {
        return Some(at);
    }
    match plan {
        LogicalPlan::Projection(projection) => match projection.expr.get(at)?.clone().unalias() {
            Expr::Column(column) => {
                origin(&projection.input, projection.input.schema().maybe_index_of_column(&column)?)
            }
            _ => None,
        },
        LogicalPlan::Filter(_) | LogicalPlan::Sort(_) | LogicalPlan::SubqueryAlias(_) => {
            origin(plan.inputs().first()?, at)
        }
        _ => None,
    }
}

fn keys_below(plan: &LogicalPlan) -> usize {
    keys_of(plan).unwrap_or_else(|| plan.inputs().first().map_or(0, |input| keys_below(input)))
}

/// REFRESH MATERIALIZED VIEW.
pub(super) async fn refresh(session: &Session, name: &str, full: bool) -> Result<Outcome> {
    if session.engine().is_read_only() {
        let error = EngineError::ReadOnly { action: "REFRESH MATERIALIZED VIEW" };
        return Err(error.into());
    }
    let snapshot = session.snapshot();
    if snapshot.table(name).is_none() {
        let error = QueryError::request(format!("materialized view '{name}' does not exist"));
        return Err(error.hint("SHOW VIEWS lists the views"));
    }
    let table = super::table(session, name)?;
    let Some(of) = table.schema().materialized() else {
        let error = QueryError::from(table.schema().wrong_kind());
        return Err(error.hint("SHOW VIEWS lists the materialized views"));
    };
    let name = table.schema().name().to_string();
    // Before anything is marked: what cannot be worked out anew stays as it is.
    let whole = session.full_snapshot();
    if let Some(base) = whole.table(&of.base) {
        let accounts = session.database().held_accounts();
        accounts.check_owner(&whole, table.schema(), Source::Table(base.schema()))?;
    }
    if full {
        let view = table.id();
        session
            .blocking(move |engine| engine.refresh_view(view, 0, Vec::new(), vec![TimeRange::ALL]))
            .await?;
    }
    // Those below first.
    let mut chain = vec![name];
    let mut base = of.base.clone();
    while let Some(of) = whole.table(&base).and_then(|table| table.schema().materialized()) {
        chain.push(std::mem::replace(&mut base, of.base.clone()));
    }
    let rows = take_in(session, chain.into_iter().rev()).await?;
    Ok(Outcome::rows("REFRESH MATERIALIZED VIEW", rows))
}

/// Has views take in what they lack now; how many rows were stored.
pub(super) async fn take_in(session: &Session, views: impl Iterator<Item = String>) -> Result<u64> {
    let mut work = Work::new(session.database());
    let mut rows = 0;
    for view in views {
        let snapshot = session.engine().snapshot();
        let Some(table) = snapshot.table(&view) else { continue };
        rows += work.settle(&snapshot, table, |_| true).await?;
    }
    Ok(rows)
}

/// Refuses to drop partitions with some rows of a bucket that goes by a calendar, while others may still come.
///
/// # Errors
/// [`EngineError::NotTakenIn`]. Buckets of one length are the engine's to look at.
pub(super) fn check_whole_buckets(session: &Session, name: &str, ranges: &[TimeRange]) -> Result<()> {
    let snapshot = session.engine().snapshot();
    let Some(table) = snapshot.table(name) else { return Ok(()) };
    let newest = table.partitions().times().map_or(i64::MIN, |(_, newest)| newest);
    for view in snapshot.views_of(name) {
        let of = view.schema().materialized().filter(|of| of.origin_ns.is_none());
        let Some(bucketing) = of.and_then(|of| Bucketing::of_spelled(&of.buckets)) else { continue };
        let gone = table.partitions().iter().map(|partition| partition.range());
        for gone in gone.filter(|gone| ranges.iter().any(|range| range.covers(gone))) {
            let buckets = whole_buckets(&bucketing, gone);
            let refuse = |why| {
                let (table, view) = (name.to_string(), view.schema().name().to_string());
                Err(session.without_hidden_views(EngineError::NotTakenIn { table, view, why }))
            };
            if view.staleness().is_stale_in(buckets) {
                return refuse("has not taken in their rows; REFRESH MATERIALIZED VIEW waits until it has");
            }
            if newest < buckets.to && !ranges.iter().any(|range| range.covers(&buckets)) {
                return refuse("has buckets of theirs that are not over yet");
            }
        }
    }
    Ok(())
}

/// Refuses what would take a column from a view.
///
/// # Errors
/// Where a materialized view reads it.
pub(super) fn check_unread(session: &Session, table: &str, column: &str) -> Result<()> {
    let snapshot = session.full_snapshot();
    for view in snapshot.views_of(table) {
        let Some(of) = view.schema().materialized() else { continue };
        if dialect::has_name(&of.query, column) {
            let standing = session.standing();
            let name = standing.map_or(view.schema().name(), |of| of.told(&snapshot, view.schema()));
            let message = format!("materialized view '{name}' reads column '{column}' of '{table}'");
            return Err(QueryError::request(message).hint(format!("DROP MATERIALIZED VIEW \"{name}\" first")));
        }
    }
    Ok(())
}

/// What a query that ended early gives.
fn stopped() -> QueryError {
    QueryError::new(ErrorKind::Retry, "the database was closed")
}
