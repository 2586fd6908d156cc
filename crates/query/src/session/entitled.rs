//! [`Entitlement`]: what a query may read as of when it began, for those whose rows are read long after: subscriptions,
//! replays, cursors, portals that are half read.

use super::Session;
use crate::access::standing::{Entitles, Standing};
use crate::database::Database;
use crate::dialect::{Met, Statement, query_of_view};
use crate::entrance::Access;
use crate::error::{QueryError, Result, SqlState};
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use std::sync::Arc;
use tickstone_engine::{Snapshot, TableSnapshot};
use tickstone_model::Rights;

/// What the user of a query, and the owners of the views in it, might read of each table and view in it when it began.
#[derive(Debug)]
pub struct Entitlement {
    access: Access,
    of: Vec<Entitled>,
}

/// What one of them might read.
#[derive(Debug)]
struct Entitled {
    /// The owner of the view that reads it, which may be whoever has the files; `None` for the user.
    view_of: Option<Option<u32>>,
    of: What,
}

#[derive(Debug)]
enum What {
    /// Of a table or view, by its number.
    Table { table: u32, right: Rights, entitles: Entitles, view: Option<View> },
    /// Of streams, which table functions read: what the reader might do; `None` for everything.
    Streams(Option<Arc<Standing>>),
}

/// What a view gave its readers: its query, by the rights of its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
struct View {
    query: String,
    owner: Option<u32>,
}

impl View {
    fn of(table: &TableSnapshot) -> Option<Self> {
        let schema = table.schema();
        let query = schema.view().or_else(|| schema.materialized().map(|view| view.query.as_str()))?;
        Some(Self { query: query.to_string(), owner: schema.access().owner })
    }
}

impl Session {
    /// What a query may read as of now; `None` where its user may do whatever there is, as the owner of the files.
    ///
    /// # Errors
    /// Where the user was dropped.
    pub fn entitlement(&self, statement: &Statement) -> Result<Option<Entitlement>> {
        if self.pinned.who().is_none() {
            return Ok(None);
        }
        let (access, snapshot) = (self.access(), self.database.engine().snapshot());
        let user = Reader::of_user(access.standing(&snapshot)?);
        let right = match self.executed(statement) {
            Statement::Subscribe(_) | Statement::Replay(_) => Rights::SUBSCRIBE,
            _ => Rights::SELECT,
        };
        let mut of = Vec::new();
        // Who did not have to say who they are may do everything, until there are users.
        if access.owner().is_some() {
            let met = Met::of_statement(self.executed(statement));
            meet(&self.database, &snapshot, &met, (None, &user), right, &mut of)?;
        }
        Ok(Some(Entitlement { access, of }))
    }
}

/// Adds what a query reads, and what the views in it are of.
fn meet(
    database: &Database,
    snapshot: &Snapshot,
    met: &Met,
    (view_of, reader): (Option<Option<u32>>, &Reader),
    right: Rights,
    of: &mut Vec<Entitled>,
) -> Result<()> {
    if met.calls {
        of.push(Entitled { view_of, of: What::Streams(reader.standing()) });
    }
    for table in met.names.iter().filter_map(|name| snapshot.table(name)) {
        let is_it = |what: &What| matches!(what, What::Table { table: met, .. } if *met == table.id());
        if of.iter().any(|met| met.view_of == view_of && is_it(&met.of)) {
            continue;
        }
        let entitles = reader.entitles(table, right);
        let (view, id) = (View::of(table), table.id());
        of.push(Entitled { view_of, of: What::Table { table: id, right, entitles, view: view.clone() } });
        let Some(View { query, owner }) = view else { continue };
        let reader = Reader::of_owner(database, snapshot, owner)?;
        let met = Met::of_query(&*query_of_view(&query)?);
        meet(database, snapshot, &met, (Some(owner), &reader), right, of)?;
    }
    Ok(())
}

/// Whoever reads a table.
enum Reader {
    /// One who may do everything.
    Admin,
    User(Arc<Standing>),
    /// The owner of a view who was dropped.
    Gone,
}

impl Reader {
    fn of_user(standing: Option<Arc<Standing>>) -> Self {
        standing.map_or(Reader::Admin, Reader::User)
    }

    fn of_owner(database: &Database, snapshot: &Snapshot, owner: Option<u32>) -> Result<Self> {
        let (Some(owner), Some(now)) = (owner, database.held_accounts().of(snapshot)?) else {
            return Ok(Reader::Admin);
        };
        Ok(match now.standing_of_owner(owner) {
            None => Reader::Gone,
            Some(standing) if standing.is_admin() => Reader::Admin,
            Some(standing) => Reader::User(standing),
        })
    }

    /// What it may do; `None` where that is everything, or nothing any more.
    fn standing(&self) -> Option<Arc<Standing>> {
        match self {
            Reader::User(standing) => Some(Arc::clone(standing)),
            Reader::Admin | Reader::Gone => None,
        }
    }

    fn keeps_streams_of(&self, before: Option<&Arc<Standing>>) -> bool {
        match (self, before) {
            (Reader::Admin, _) => true,
            (Reader::User(now), Some(before)) => now.keeps_streams_of(before),
            (Reader::User(_), None) | (Reader::Gone, _) => false,
        }
    }

    fn entitles(&self, table: &TableSnapshot, right: Rights) -> Entitles {
        match self {
            Reader::Admin => Entitles::Everything,
            Reader::User(standing) => standing.entitles(table.schema(), right),
            Reader::Gone => Entitles::Some(Vec::new()),
        }
    }
}

/// That a view which is read is another by now, or none.
fn other_view() -> QueryError {
    let what = "a view that is read was dropped, or given another query or owner";
    let error = QueryError::request(what).state(SqlState::Denied);
    error.hint("begin again: what may be read is found anew")
}

impl Entitlement {
    /// Rows that end with an error when it is no longer what it was.
    pub(crate) fn watch(self, rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
        let schema = rows.schema();
        let checked = rows.map(move |batch| {
            let batch = batch?;
            self.check().map_err(|error| DataFusionError::External(Box::new(error)))?;
            Ok(batch)
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, checked))
    }

    /// Checks that it is what it was.
    ///
    /// # Errors
    /// Where the user was dropped, or something of it has changed.
    pub fn check(&self) -> Result<()> {
        let database = self.access.database();
        let snapshot = database.engine().snapshot();
        let user = Reader::of_user(self.access.standing(&snapshot)?);
        for one in &self.of {
            let owner = one.view_of.map(|owner| Reader::of_owner(database, &snapshot, owner)).transpose()?;
            let reader = owner.as_ref().unwrap_or(&user);
            let (is_kept, name) = match &one.of {
                What::Streams(before) => (reader.keeps_streams_of(before.as_ref()), "streams"),
                What::Table { table, right, entitles, view } => match snapshot.table_by_id(*table) {
                    Some(table) if View::of(table) != *view => return Err(other_view()),
                    Some(table) => (reader.entitles(table, *right) == *entitles, table.schema().name()),
                    None if view.is_some() => return Err(other_view()),
                    // That a table was dropped is told of where its rows are.
                    None => continue,
                },
            };
            if !is_kept {
                let user = self.access.user().unwrap_or_default();
                let what = match one.view_of {
                    None => format!("the rights of '{user}' to {name} were changed"),
                    // What a view is made of is not told.
                    Some(_) => "the rights of the owner of a view that is read were changed".to_string(),
                };
                let error = QueryError::request(what).state(SqlState::Denied);
                return Err(error.hint("begin again: what may be read is found anew"));
            }
        }
        Ok(())
    }
}
