//! ALTER TABLE, and what partitions there are to drop.

use super::materialized;
use crate::cast::no_such_column;
use crate::derived;
use crate::dialect::{AlterTable, Partitions};
use crate::entrance::check_ungranted;
use crate::error::{QueryError, Result};
use crate::session::{Outcome, Session};
use sqlparser::ast;
use std::sync::Arc;
use tickstone_engine::{EngineError, Snapshot, TableSnapshot};
use tickstone_model::{AlterTable as Change, Column, TableSchema, TimeRange, Ttl};

const TAG: &str = "ALTER TABLE";

pub(super) async fn run(
    session: &mut Session,
    name: &str,
    change: AlterTable,
    of_view: bool,
) -> Result<Outcome> {
    let table = super::table(session, name)?;
    let schema = table.schema();
    if of_view && schema.materialized().is_none() {
        return Err(QueryError::from(schema.wrong_kind()).hint("ALTER TABLE changes a table"));
    }
    let existing = |name: &str| schema.column_index(name).map(|index| schema.columns()[index].name.clone());
    let found = |name: &str| existing(name).ok_or_else(|| no_such_column(schema, name));
    let change = match change {
        AlterTable::DropPartitions(which) => return drop_partitions(session, &table, which).await,
        AlterTable::AddColumn { name, if_not_exists: true, .. } if existing(&name).is_some() => {
            return Ok(Outcome::done(TAG));
        }
        AlterTable::DropColumn { name, if_exists: true } if existing(&name).is_none() => {
            return Ok(Outcome::done(TAG));
        }
        AlterTable::AddColumn { name, column_type, .. } => Change::AddColumn(Column::new(name, column_type)),
        AlterTable::DropColumn { name, .. } => {
            let name = found(&name)?;
            check_ungranted(&session.full_snapshot(), table.id(), &name)?;
            materialized::check_unread(session, schema.name(), &name)?;
            Change::DropColumn(name)
        }
        AlterTable::RenameColumn { from, to } => {
            let from = found(&from)?;
            check_ungranted(&session.full_snapshot(), table.id(), &from)?;
            materialized::check_unread(session, schema.name(), &from)?;
            Change::RenameColumn { from, to }
        }
        AlterTable::Rename { .. } if session.temporaries.name_of(schema.name()).is_some() => {
            let error =
                QueryError::request(format!("'{name}' is a table of this session, which keeps its name"));
            return Err(error.hint(format!("CREATE TABLE … AS SELECT * FROM {name} keeps its rows")));
        }
        AlterTable::Rename { to } => {
            if schema.source().is_some() {
                derived::check_free(session.engine(), &to)?;
                derived::check_own(session.engine(), &to, schema.access().owner)?;
            }
            Change::RenameTable(to)
        }
        AlterTable::AddIndex(names) => return index(session, &table, &names, Change::AddIndex).await,
        AlterTable::DropIndex(names) => return index(session, &table, &names, Change::DropIndex).await,
        AlterTable::SetTtl(ttl) => Change::SetTtl(ttl.map(|ttl| Ttl::parse(&ttl)).transpose()?),
    };
    let table = Arc::clone(&table);
    session.blocking(move |engine| engine.alter_this_table(&table, &change)).await?;
    Ok(Outcome::done(TAG))
}

/// Indexes columns, or no longer, all of which there are.
async fn index(
    session: &Session,
    table: &Arc<TableSnapshot>,
    names: &[String],
    change: fn(String) -> Change,
) -> Result<Outcome> {
    let schema = table.schema();
    let found = names.iter().map(|name| {
        let index = schema.column_index(name).ok_or_else(|| no_such_column(schema, name))?;
        Ok(change(schema.columns()[index].name.clone()))
    });
    let (changes, table) = (found.collect::<Result<Vec<_>>>()?, Arc::clone(table));
    session
        .blocking(move |engine| changes.iter().try_for_each(|change| engine.alter_this_table(&table, change)))
        .await?;
    Ok(Outcome::done(TAG))
}

async fn drop_partitions(
    session: &mut Session,
    table: &Arc<TableSnapshot>,
    which: Partitions,
) -> Result<Outcome> {
    if let Some(of) = table.schema().materialized() {
        let error = QueryError::from(table.schema().wrong_kind());
        return Err(error.hint(format!("its rows go by a TTL of its own, or with those of '{}'", of.base)));
    }
    let ranges = match which {
        Partitions::List(names) => listed(table, &names)?,
        Partitions::Where(rows) => vec![times_of(session, table, *rows).await?],
    };
    let name = table.schema().name().to_string();
    // Views keep what they have of these rows: they take all of it in before.
    let full = session.full_snapshot();
    for view in full.views_of(&name) {
        let taken = materialized::take_in(session, std::iter::once(view.schema().name().to_string())).await;
        taken.map_err(|error| not_taken_in(session, &full, &name, view.schema(), error))?;
    }
    materialized::check_whole_buckets(session, &name, &ranges)?;
    let table = Arc::clone(table);
    let dropped = session.blocking(move |engine| {
        let each = ranges.into_iter().map(|range| Ok(engine.drop_partitions_of(&table, range)?.rows));
        each.sum::<tickstone_engine::Result<u64>>()
    });
    Ok(Outcome::rows("DROP PARTITION", dropped.await?))
}

/// That a materialized view cannot take in rows which are to go. Why is told to who may know what it is made of.
fn not_taken_in(
    session: &Session,
    full: &Snapshot,
    table: &str,
    view: &TableSchema,
    error: QueryError,
) -> QueryError {
    let standing = session.standing();
    let name = standing.as_ref().map_or(view.name(), |standing| standing.told(full, view)).to_string();
    let (table, why) = (table.to_string(), "cannot take in their rows");
    let mut told = QueryError::from(EngineError::NotTakenIn { table, view: name, why });
    if standing.is_none_or(|standing| standing.knows_query_of(view)) {
        told.detail = Some(error.message);
    }
    told.hint("SHOW VIEWS says why; DROP MATERIALIZED VIEW lets them go without it")
}

/// The ranges of partitions by their names.
fn listed(table: &TableSnapshot, names: &[String]) -> Result<Vec<TimeRange>> {
    let unit = table.schema().partition_by();
    let range = |name: &String| {
        let found = table.partitions().iter().find(|of| unit.label(of.range().from) == *name);
        found.map(|partition| partition.range()).ok_or_else(|| {
            QueryError::request(format!("table '{}' has no partition '{name}'", table.schema().name()))
                .hint(format!("SHOW PARTITIONS FROM {} lists them", table.schema().name()))
        })
    };
    names.iter().map(range).collect()
}

/// The range of time whose rows a query yields.
async fn times_of(session: &mut Session, table: &Arc<TableSnapshot>, rows: ast::Query) -> Result<TimeRange> {
    let range = session.times_of(rows).await?;
    range.ok_or_else(|| {
        let column = table.schema().timestamp().map_or("ts", |at| &table.schema().columns()[at].name);
        QueryError::request("DROP PARTITION takes one range of the designated timestamp")
            .hint(format!("write WHERE {column} < '2024-01-01', or a partition's name after LIST"))
    })
}
