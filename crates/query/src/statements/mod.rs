//! Statements that are no queries: each changes the database or the session, or shows what is there.

mod accounts;
mod accounts_shown;
mod alter;
mod change;
mod config;
mod conflict;
mod copy;
mod create;
mod insert;
mod inspect;
mod limits;
mod materialized;
mod merge;
mod metrics;
pub(crate) mod prepare;
mod queries;
mod sampled;
mod show;
mod streams;
mod subscribe;
mod values;
mod view;

use crate::dialect::{CopyEnd, Statement};
use crate::error::{QueryError, Result, SqlState};
use crate::session::{OpenTransaction, Outcome, Session};
use std::collections::BTreeSet;
use std::sync::Arc;
use tickstone_engine::{Engine, EngineError, TableSnapshot};
use tickstone_model::SyncPolicy;

pub(crate) use copy::query_of;
pub(crate) use materialized::keep_views;
pub(crate) use show::table_functions;

/// Carries out any statement but a query.
///
/// # Errors
/// What the statement does not allow; nothing of it was stored then.
pub(crate) async fn run(session: &mut Session, statement: Statement) -> Result<Outcome> {
    refuse_in_transaction(session, &statement)?;
    refuse_read_only(session, &statement)?;
    match statement {
        Statement::Query(_) => Err(QueryError::request("a query is run by its session")),
        Statement::Insert(insert) => insert::run(session, *insert).await,
        Statement::CreateTable(create) => create::run(session, create).await,
        Statement::CreateView(view) => view::create(session, view).await,
        Statement::CreateMaterializedView(view) => materialized::create(session, *view).await,
        Statement::RefreshView { name, full } => materialized::refresh(session, &name, full).await,
        Statement::DropView { names, if_exists, materialized, cascades } => {
            view::drop_views(session, names, if_exists, materialized, cascades).await
        }
        Statement::ShowViews => show::views(session),
        Statement::ShowStreams => show::streams(session),
        Statement::CreateStream { name, if_not_exists, options } => {
            streams::create(session, name, if_not_exists, options).await
        }
        Statement::AlterStream { name, options } => streams::alter(session, name, options).await,
        Statement::DropStream { names, if_exists } => streams::drop(session, names, if_exists).await,
        Statement::Subscribe(subscribe) => subscribe::run(session, *subscribe).await,
        Statement::Replay(replay) => subscribe::replay(session, *replay).await,
        Statement::ShowFunctions { like } => show::functions(session, like.as_deref()),
        Statement::DropTable { names, if_exists, cascades } => {
            drop_tables(session, names, if_exists, cascades).await
        }
        Statement::AlterTable { table, change, of_view } => {
            alter::run(session, &table, change, of_view).await
        }
        Statement::Change(change) => change::run(session, *change).await,
        Statement::Merge(merge) => merge::run(session, *merge).await,
        Statement::Truncate { names } => truncate(session, names).await,
        Statement::Begin { read_only } => begin(session, read_only),
        Statement::SetTransaction { read_only, session: lasts } => {
            set_transaction(session, read_only, lasts)?;
            Ok(Outcome::done("SET"))
        }
        Statement::Commit => commit(session).await,
        Statement::Rollback => rollback(session),
        Statement::Checkpoint { table } => checkpoint(session, table).await,
        Statement::Hold => hold(session).await,
        Statement::Release => release(session).await,
        Statement::Optimize { table, archive } => optimize(session, &table, archive).await,
        Statement::CopyFrom { table, columns, end: CopyEnd::File(path), options } => {
            copy::from(session, copy::Source { table, columns, path, options }).await
        }
        Statement::CopyTo { source, end: CopyEnd::File(path), options } => {
            copy::to(session, source, path, options).await
        }
        Statement::Reset { name: None } => {
            session.reset();
            Ok(Outcome::done("RESET"))
        }
        Statement::Discard => {
            session.discard();
            Ok(Outcome::done("DISCARD ALL"))
        }
        Statement::Reset { name: Some(name) } => {
            Err(QueryError::request(format!("'{name}' cannot be reset alone"))
                .hint("RESET ALL resets all settings"))
        }
        Statement::CopyFrom { end: CopyEnd::Client, .. }
        | Statement::CopyTo { end: CopyEnd::Client, .. }
        | Statement::DeclareCursor { .. }
        | Statement::Fetch { .. }
        | Statement::CloseCursor { .. }
        | Statement::Listen { .. }
        | Statement::Unlisten { .. } => {
            let message = format!("{} is of a connection of the PostgreSQL port", statement.kind());
            Err(QueryError::request(message)
                .hint("COPY … 'file' names a file; a query gives its rows as they are read"))
        }
        Statement::Accounts(statement) => accounts::run(session, *statement).await,
        Statement::ShowTables => show::tables(session),
        Statement::ShowQueries => show::queries(session),
        Statement::ShowMetrics => show::metrics(session),
        Statement::ShowConfig => show::config(session),
        Statement::CancelQuery { id } => cancel(session, id),
        Statement::ShowCreate { table } => show::create(session, &table),
        Statement::ShowPartitions { table } => show::partitions(session, &table),
        Statement::Inspect(inspect) => inspect::run(session, *inspect).await,
        Statement::ShowColumns { table } => show::columns(session, &table).await,
        Statement::Set { name, value } => set(session, &name, &value),
        Statement::Prepare { name, statement } => prepare::prepare(session, name, *statement),
        Statement::Execute { .. } => Err(QueryError::request("a prepared statement is run by its session")),
        Statement::Deallocate { name } => prepare::deallocate(session, name.as_deref()),
    }
}

/// A transaction holds inserts; what changes tables themselves, or brings rows another way, cannot
/// be taken back by ROLLBACK. A session may allow it, where no insert waits that it would come before.
fn refuse_in_transaction(session: &Session, statement: &Statement) -> Result<()> {
    let refused = matches!(
        statement,
        Statement::CreateTable(_)
            | Statement::CreateView(_)
            | Statement::CreateMaterializedView(_)
            | Statement::RefreshView { .. }
            | Statement::DropView { .. }
            | Statement::CreateStream { .. }
            | Statement::AlterStream { .. }
            | Statement::DropStream { .. }
            | Statement::DropTable { .. }
            | Statement::Truncate { .. }
            | Statement::AlterTable { .. }
            | Statement::Change(_)
            | Statement::CopyFrom { .. }
            | Statement::Optimize { .. }
            | Statement::Accounts(_)
    );
    let empty = session.transaction.as_ref().is_none_or(|open| open.waiting.rows() == 0);
    if !refused || !session.in_transaction() || (empty && session.changes_at_once) {
        return Ok(());
    }
    let message = format!("{} is not allowed inside a transaction", statement.kind());
    let error = QueryError::request(message).state(SqlState::ActiveTransaction);
    Err(error.hint("COMMIT or ROLLBACK first"))
}

/// READ ONLY is what a client asked for: it is kept.
fn refuse_read_only(session: &Session, statement: &Statement) -> Result<()> {
    if !session.is_read_only() || !statement.writes() {
        return Ok(());
    }
    let message = format!("{} is not allowed in a transaction that is READ ONLY", statement.kind());
    Err(QueryError::request(message).state(SqlState::ReadOnlyTransaction).hint("BEGIN READ WRITE"))
}

async fn drop_tables(
    session: &mut Session,
    names: Vec<String>,
    if_exists: bool,
    cascades: bool,
) -> Result<Outcome> {
    let found = names.iter().filter(|name| !if_exists || session.snapshot().table(name).is_some());
    let found = found.map(|name| plain_table(session, name)).collect::<Result<Vec<_>>>()?;
    let dropped: Vec<String> = found.iter().map(|table| table.schema().name().to_string()).collect();
    drop_found(session, found, if_exists, cascades).await?;
    session.temporaries.forget(&dropped);
    Ok(Outcome::done("DROP TABLE"))
}

/// Drops what was found, whatever has its name by then, and the materialized views of it where that `cascades`: all of it,
/// or nothing where a view would be left without what it reads. Somebody else may drop it meanwhile.
async fn drop_found(
    session: &Session,
    found: Vec<Arc<TableSnapshot>>,
    if_exists: bool,
    cascades: bool,
) -> Result<()> {
    let full = session.full_snapshot();
    let named: Vec<u32> = found.iter().map(|table| table.id()).collect();
    // Each after the views over it.
    let mut order: Vec<u32> = Vec::new();
    for table in &found {
        let above = full.views_above(table.id());
        if let Some(left) = above.iter().find(|view| !cascades && !named.contains(view)) {
            let name = |id: &u32| full.table_by_id(*id).map(|table| table.schema().name().to_string());
            let (view, table) = (name(left).unwrap_or_default(), table.schema().name().to_string());
            return Err(session.without_hidden_views(EngineError::HasViews { table, view }));
        }
        order.extend(above.into_iter().rev());
        order.push(table.id());
    }
    let drop = move |engine: &Engine| {
        let mut done = BTreeSet::new();
        for id in order.into_iter().filter(|id| done.insert(*id)) {
            match engine.drop_table_by_id(id) {
                Err(EngineError::NoSuchTable { .. } | EngineError::TableGone { .. }) => {
                    if let Some(table) = found.iter().find(|table| table.id() == id && !if_exists) {
                        return Err(EngineError::NoSuchTable { name: table.schema().name().to_string() });
                    }
                }
                dropped => dropped?,
            }
        }
        Ok(())
    };
    session.blocking(drop).await
}

async fn truncate(session: &Session, names: Vec<String>) -> Result<Outcome> {
    let found = names.iter().map(|name| plain_table(session, name)).collect::<Result<Vec<_>>>()?;
    session
        .blocking(move |engine| found.iter().try_for_each(|table| engine.truncate_this_table(table)))
        .await?;
    Ok(Outcome::done("TRUNCATE"))
}

fn begin(session: &mut Session, read_only: Option<bool>) -> Result<Outcome> {
    if session.in_transaction() {
        let error = QueryError::request("a transaction is open already").state(SqlState::ActiveTransaction);
        return Err(error.hint("COMMIT or ROLLBACK it first"));
    }
    session.transaction = Some(OpenTransaction::new(session.engine().begin()));
    session.read_only.transaction = read_only;
    Ok(Outcome::done("BEGIN"))
}

async fn commit(session: &mut Session) -> Result<Outcome> {
    let open = session.transaction.take().ok_or_else(no_transaction)?;
    let (access, sync) = (session.access(), session.sync);
    open.check(&access)?;
    let (appended, OpenTransaction { waiting, held, .. }) = (open.appended(), open);
    session.blocking(move |_| waiting.commit(sync)).await?;
    drop(held);
    appended.iter().for_each(|(table, rows)| access.tell_added(table, *rows));
    Ok(Outcome::done("COMMIT"))
}

fn rollback(session: &mut Session) -> Result<Outcome> {
    session.transaction.take().ok_or_else(no_transaction)?;
    Ok(Outcome::done("ROLLBACK"))
}

fn no_transaction() -> QueryError {
    let error = QueryError::request("no transaction is open").state(SqlState::NoActiveTransaction);
    error.hint("BEGIN starts one")
}

/// READ ONLY, for the transaction that is open or for those to come.
fn set_transaction(session: &mut Session, read_only: Option<bool>, lasts: bool) -> Result<()> {
    let Some(read_only) = read_only else { return Ok(()) };
    if lasts {
        session.read_only.session = read_only;
        return Ok(());
    }
    // Whoever began it READ ONLY has its statements write nothing, whatever they say.
    if session.in_transaction() && session.is_read_only() && !read_only {
        let error = QueryError::request("this transaction is READ ONLY, and stays so");
        return Err(error.state(SqlState::ActiveTransaction).hint("ROLLBACK, then BEGIN READ WRITE"));
    }
    session.read_only.transaction = Some(read_only);
    Ok(())
}

fn cancel(session: &Session, id: u64) -> Result<Outcome> {
    let of = session.standing().map(|standing| standing.user);
    session.database().running().cancel(id, of)?;
    Ok(Outcome::done("CANCEL QUERY"))
}

async fn checkpoint(session: &Session, name: Option<String>) -> Result<Outcome> {
    let name = match name {
        Some(name) => Some(table(session, &name)?.schema().name().to_string()),
        None => None,
    };
    session.blocking(move |engine| engine.seal(name.as_deref())).await?;
    Ok(Outcome::done("CHECKPOINT"))
}

async fn hold(session: &Session) -> Result<Outcome> {
    session.blocking(|engine| engine.hold()).await?;
    Ok(Outcome::done("CHECKPOINT HOLD"))
}

async fn release(session: &Session) -> Result<Outcome> {
    session.blocking(|engine| engine.release()).await?;
    Ok(Outcome::done("CHECKPOINT RELEASE"))
}

/// Rows in memory are sealed first, so that each partition becomes one part.
async fn optimize(session: &Session, name: &str, archive: bool) -> Result<Outcome> {
    let name = table(session, name)?.schema().name().to_string();
    let merge = move |engine: &Engine| {
        engine.seal(Some(&name))?;
        if archive { engine.archive(Some(&name)) } else { engine.compact(Some(&name)) }
    };
    session.blocking(merge).await?;
    Ok(Outcome::done("OPTIMIZE"))
}

fn set(session: &mut Session, name: &str, value: &str) -> Result<Outcome> {
    match name {
        "sync" => session.sync = Some(SyncPolicy::parse(value)?),
        _ => {
            // Our own are named alone, those of DataFusion by group and name.
            let full = match name.split('.').next() {
                Some("datafusion" | "tickstone") => name.to_string(),
                Some(first) if first.len() < name.len() => format!("datafusion.{name}"),
                _ => format!("tickstone.{name}"),
            };
            session.set(&full, value).map_err(|_| {
                QueryError::request(format!("there is no setting '{name}' that takes '{value}'"))
            })?;
        }
    }
    Ok(Outcome::done("SET"))
}

/// The table of a name in the snapshot of the statement, whose rows are its own: no view, materialized or not.
fn plain_table(session: &Session, name: &str) -> Result<Arc<TableSnapshot>> {
    let table = table(session, name)?;
    if table.schema().materialized().is_some() {
        let error = crate::error::QueryError::from(table.schema().wrong_kind());
        return Err(
            error.hint("DROP MATERIALIZED VIEW drops it, REFRESH MATERIALIZED VIEW … FULL works it out anew")
        );
    }
    Ok(table)
}

/// The table of a name in the snapshot of the statement; a view that is not materialized is none.
fn table(session: &Session, name: &str) -> Result<Arc<TableSnapshot>> {
    match session.snapshot().table(name) {
        Some(table) if table.schema().view().is_some() => {
            let error = crate::error::QueryError::from(table.schema().wrong_kind());
            Err(error.hint("DROP VIEW and CREATE OR REPLACE VIEW change a view"))
        }
        Some(table) => Ok(Arc::clone(table)),
        None => Err(EngineError::NoSuchTable { name: name.to_string() }.into()),
    }
}
