//! CREATE VIEW, DROP [MATERIALIZED] VIEW, and what a view's columns are.

use crate::access::standing::PROGRESS;
use crate::dialect::{self, CreateView, Statement};
use crate::error::{ErrorKind, QueryError, Result, SqlState};
use crate::session::{Outcome, Session};
use datafusion::arrow::datatypes::SchemaRef;
use std::sync::Arc;
use tickstone_engine::{Engine, EngineError, TableSnapshot};
use tickstone_model::{AlterTable, Rights, TableAccess, TableSchema, is_same_name};

const TAG: &str = "CREATE VIEW";

pub(super) async fn create(session: &mut Session, view: CreateView) -> Result<Outcome> {
    let CreateView { name, or_replace, if_not_exists, text, query, position } = view;
    if is_same_name(&name, PROGRESS) {
        let what = format!("'{PROGRESS}' is what the database notes of streams in: it is no view");
        return Err(QueryError::request(what).at(position).hint("give the view another name"));
    }
    let there = session.snapshot().table(&name).map(Arc::clone);
    let found = there.as_ref().map(|found| Arc::clone(found.schema()));
    match &found {
        Some(found) if found.view().is_none() => {
            return Err(QueryError::from(found.wrong_kind()).at(position));
        }
        Some(_) if if_not_exists => return Ok(Outcome::done(TAG)),
        Some(found) if !or_replace => {
            let error = QueryError::from(EngineError::TableExists { name: found.name().to_string() });
            return Err(error.at(position).hint("CREATE OR REPLACE VIEW gives it another query"));
        }
        _ => {}
    }
    let statement = sqlparser::ast::Statement::Query(query);
    // It must be a query, and planning it says where it is none.
    session.schema_of(statement).await?;
    if let Some((there, found)) = there.zip(found) {
        let change = AlterTable::SetView(text.clone());
        // Its query is read by the rights of its owner: where that one was dropped, whoever replaces it owns it.
        let now = session.database().accounts(&session.full_snapshot())?;
        let is_gone = |owner: &u32| now.as_ref().is_none_or(|now| now.accounts.name_of(*owner).is_none());
        let takes_over = found.access().owner.as_ref().is_some_and(is_gone);
        let access = TableAccess { owner: session.owner(), ..found.access().clone() };
        let replace = move |engine: &Engine| {
            engine.alter_this_table(&there, &change)?;
            if takes_over {
                engine.alter_this_table(&there, &AlterTable::SetAccess(access))?;
            }
            Ok(true)
        };
        let replaced = session.blocking(move |engine| match replace(engine) {
            // Somebody dropped it meanwhile.
            Err(EngineError::TableGone { .. }) => Ok(false),
            replaced => replaced,
        });
        if replaced.await? {
            return Ok(Outcome::done(TAG));
        }
    }
    let schema = TableSchema::of_view(&name, &text).map_err(|error| QueryError::from(error).at(position))?;
    let (schema, access) = (schema.owned_by(session.owner()), session.access());
    let mut missed = false;
    let made = move |engine: &Engine| loop {
        let made = engine.create_table(schema.clone());
        // Somebody made one meanwhile.
        let there = match made {
            Err(EngineError::TableExists { .. }) if if_not_exists => return Ok(Ok(())),
            Err(EngineError::TableExists { .. }) if or_replace => engine.snapshot(),
            made => return made.map(Ok),
        };
        let Some(there) = there.table(&name) else {
            // One that the database keeps for itself has the name, if it was not dropped just now.
            if missed {
                return Err(EngineError::TableExists { name: name.clone() });
            }
            missed = true;
            continue;
        };
        if there.schema().view().is_none() {
            return Err(there.schema().wrong_kind().into());
        }
        if let Err(lacks) = access.may(Rights::ALTER, &name) {
            return Ok(Err(lacks));
        }
        match engine.alter_this_table(there, &AlterTable::SetView(text.clone())) {
            Err(EngineError::TableGone { .. }) => {}
            replaced => return replaced.map(Ok),
        }
    };
    session.blocking(made).await??;
    Ok(Outcome::done(TAG))
}

pub(super) async fn drop_views(
    session: &Session,
    names: Vec<String>,
    if_exists: bool,
    materialized: bool,
    cascades: bool,
) -> Result<Outcome> {
    let (snapshot, full, standing) = (session.snapshot(), session.full_snapshot(), session.standing());
    // Whoever owns what a view is made of may drop it, even if they do not see it.
    let of_theirs = |view: &&Arc<TableSnapshot>| {
        standing.as_ref().is_some_and(|standing| standing.owns_base_of(&full, view.schema()))
    };
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        let there = snapshot.table(&name).or_else(|| full.table(&name).filter(of_theirs));
        match there.map(|table| (table, table.schema())) {
            Some((table, schema)) if schema.view().is_some() && !materialized => {
                found.push(Arc::clone(table));
            }
            Some((table, schema)) if schema.materialized().is_some() && materialized => {
                found.push(Arc::clone(table));
            }
            Some((_, schema)) => {
                let hint = match (schema.view(), schema.materialized()) {
                    (Some(_), _) => "DROP VIEW drops a view",
                    (None, Some(_)) => "DROP MATERIALIZED VIEW drops it",
                    (None, None) => "DROP TABLE drops a table",
                };
                return Err(QueryError::from(schema.wrong_kind()).hint(hint));
            }
            None if if_exists => {}
            None => {
                let message = format!("view '{name}' does not exist");
                let error = QueryError::request(message).state(SqlState::UndefinedTable);
                return Err(error.hint("SHOW VIEWS lists the views"));
            }
        }
    }
    super::drop_found(session, found, if_exists, cascades).await?;
    Ok(Outcome::done(if materialized { "DROP MATERIALIZED VIEW" } else { "DROP VIEW" }))
}

/// The columns of a view.
pub(super) async fn columns(session: &mut Session, name: &str) -> Result<SchemaRef> {
    let quoted = name.replace('"', "\"\"");
    let mut statements = dialect::parse(&format!("SELECT * FROM \"{quoted}\""))?;
    match statements.pop() {
        Some(mut statement) => {
            session.prepare_names(&mut statement)?;
            match statement {
                Statement::Query(query) => session.schema_of(*query).await,
                _ => Err(unread()),
            }
        }
        None => Err(unread()),
    }
}

fn unread() -> QueryError {
    QueryError::new(ErrorKind::Report, "a view could not be read by its name")
}
