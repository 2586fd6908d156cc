//! What a statement needs, and whether its user may: one place for all of them.
//!
//! Which tables a query reads is found where views are put in the place of their names ([`Session::finds`]): a name that
//! the user may not read is an error, and one of which some may be read becomes a query of just that. Names that are read
//! by the rights of a view's owner are told from those that the user wrote (`dialect::rightful`). Everything else that
//! looks a name up sees the snapshot as the user does ([`PinnedSnapshot::get`](super::PinnedSnapshot::get)).

use super::Session;
use super::views::{Reading, found};
use crate::access::Source;
use crate::access::standing::{AUDIT, Object, Reads, Standing};
use crate::dialect::materialized::view_of_stored;
use crate::dialect::{
    Accounts, AlterTable, CopyEnd, CopySource, Found, FoundView, On, ReadsAs, Statement, names_read,
    own_of_rightful, rightful, target_of_insert,
};
use crate::error::{QueryError, Result};
use crate::paths::Allowed;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use tickstone_engine::{Snapshot, TableSnapshot};
use tickstone_model::{Rights, is_same_name};

/// What was found while names were put in their places.
#[derive(Default)]
pub(super) struct Met {
    /// Whether a materialized view is read.
    pub(super) materialized: Cell<bool>,
    /// The first name that may not be read.
    pub(super) refused: RefCell<Option<QueryError>>,
}

impl Session {
    /// What the user of this session may do; `None` where that is everything.
    pub(crate) fn standing(&self) -> Option<Arc<Standing>> {
        self.pinned.standing()
    }

    /// Which files its statements may name.
    pub(crate) fn files(&self) -> Allowed {
        match self.standing() {
            None => self.database.files(),
            Some(_) => Allowed::Nothing,
        }
    }

    /// What a name in FROM stands for, as whoever reads it sees it.
    pub(super) fn finds(
        &self,
        name: &str,
        reads_as: ReadsAs,
        right: Rights,
        reading: Reading,
        met: &Met,
    ) -> Option<Found> {
        if self.pinned.is_system_table(name) {
            return None;
        }
        let full = self.pinned.full();
        let own = own_of_rightful(name).unwrap_or(name);
        let of_view = |mut view: FoundView| {
            view.is_guarded = self.standing().is_some();
            met.materialized.set(met.materialized.get() || view.stored.is_some());
            if let Some(stored) = &view.stored
                && let Some(made) = full.table(&view.name)
                && let Some(base) = full.table(&stored.base.0)
            {
                let source = Source::Table(base.schema());
                match self.database.held_accounts().check_owner(&full, made.schema(), source) {
                    Ok(()) => {}
                    // What is stored is whole: nothing below is read.
                    Err(_) if stored.stale.is_empty() => view.reads_as = ReadsAs::Database,
                    Err(error) => {
                        met.refuse(not_current(&view.name, error, self.standing().is_none()));
                        return None;
                    }
                }
            }
            Some(Found::View(view))
        };
        let session = self.standing();
        if session.is_none() && (full.accounts().is_none() || !matches!(reads_as, ReadsAs::Owner(Some(_)))) {
            return found(&full, name, reading).and_then(of_view);
        }
        let whole = |by_right: bool| match found(&full, own, reading) {
            Some(view) => of_view(view),
            // Whoever may do everything needs nobody's right.
            None => (by_right && session.is_some() && own_of_rightful(name).is_none())
                .then(|| Found::Table(rightful(own))),
        };
        if full.audit().is_some() && is_same_name(own, AUDIT) {
            // Only admins read it, and whoever may read a view of theirs.
            let may = match reads_as {
                ReadsAs::Owner(Some(owner)) => match self.pinned.standing_of_owner(owner) {
                    Some(owner) if owner.is_admin() => true,
                    Some(owner) => {
                        met.refuse(owner.denied("read the audit log: an admin does"));
                        false
                    }
                    None => {
                        met.refuse(owner_dropped(Some(AUDIT)));
                        false
                    }
                },
                ReadsAs::Owner(None) => true,
                ReadsAs::Statement | ReadsAs::Database => false,
            };
            return (may && session.is_some()).then(|| Found::Table(rightful(AUDIT)));
        }
        let table = full.table(own).or_else(|| full.table(view_of_stored(own)?))?;
        match reads_as {
            ReadsAs::Database => whole(true),
            ReadsAs::Owner(None) => whole(true),
            ReadsAs::Owner(Some(owner)) => match self.pinned.standing_of_owner(owner) {
                // The name is not told to who may not know of it.
                Some(owner) if session.is_some() && owner.reads(table.schema(), right) == Reads::Nothing => {
                    let what =
                        "the owner of a view that is read here may not read what it is made of any longer";
                    met.refuse(QueryError::request(what).state(crate::error::SqlState::Denied));
                    None
                }
                Some(owner) => self.reads(&owner, table, right, met, || whole(true)),
                None => {
                    let knows = session.as_ref().is_none_or(|of| !of.with_any_of(table.schema()).is_none());
                    met.refuse(owner_dropped(knows.then_some(own)));
                    None
                }
            },
            // It was put in its place already: what WITH declares is walked twice.
            ReadsAs::Statement if own_of_rightful(name).is_some() => None,
            ReadsAs::Statement => {
                let session = session.as_ref()?;
                let named = table.schema().name();
                if view_of_stored(own).is_some() && full.table(own).is_none() {
                    met.refuse(session.lacks(right, Object::Table(named)));
                    return None;
                }
                self.reads(session, table, right, met, || whole(false))
            }
        }
    }

    fn reads(
        &self,
        standing: &Standing,
        table: &Arc<TableSnapshot>,
        right: Rights,
        met: &Met,
        whole: impl Fn() -> Option<Found>,
    ) -> Option<Found> {
        let schema = table.schema();
        if self.temporaries.name_of(schema.name()).is_some() {
            return whole();
        }
        match standing.reads(schema, right) {
            Reads::All => whole(),
            Reads::Some(query) => {
                let (name, reads_as) = (schema.name().to_string(), ReadsAs::Database);
                let is_guarded = self.standing().is_some();
                Some(Found::View(FoundView { name, query, stored: None, reads_as, is_guarded }))
            }
            // Whoever asks may not know of it: it is looked for as any other name, which a table in memory or a file may
            // have, and is missing as one that nothing has.
            Reads::Nothing if standing.with_any_of(schema).is_none() && self.standing().is_some() => None,
            Reads::Nothing => {
                met.refuse(standing.lacks(right, Object::Table(schema.name())));
                None
            }
        }
    }

    /// Checks that the user may do what a statement does beside reading tables.
    ///
    /// # Errors
    /// Where they may not.
    pub(crate) fn check_rights(&self, statement: &Statement) -> Result<()> {
        let Some(standing) = self.standing() else { return Ok(()) };
        let gate = Gate { session: self, standing: &standing, full: self.pinned.full() };
        gate.check(statement)
    }
}

impl Met {
    fn refuse(&self, error: QueryError) {
        self.refused.borrow_mut().get_or_insert(error);
    }
}

/// That nobody's rights are there for a view that reads a table.
fn owner_dropped(table: Option<&str>) -> QueryError {
    let what = match table {
        Some(table) => format!("the owner of a view that reads '{table}' was dropped"),
        // What a view is made of is not told.
        None => "the owner of a view that is read here was dropped".to_string(),
    };
    let error = QueryError::request(what).state(crate::error::SqlState::Denied);
    error.hint("an admin gives the view another: ALTER VIEW name OWNER TO a user")
}

/// That rows came after the owner of a materialized view lost the right to what it is of, which `error` says.
fn not_current(view: &str, error: QueryError, says_why: bool) -> QueryError {
    let what = format!("'{view}' is not current: its owner may not read what it is made of any longer");
    let mut told = QueryError::request(what).state(error.sql_state());
    told.detail = says_why.then_some(error.message);
    told.hint(format!("an admin gives it an owner who may: ALTER MATERIALIZED VIEW {view} OWNER TO …"))
}

/// The right that a statement needs to the rows it reads.
pub(super) fn reading_right(statement: &Statement) -> Rights {
    match statement {
        Statement::Subscribe(_) | Statement::Replay(_) => Rights::SUBSCRIBE,
        _ => Rights::SELECT,
    }
}

struct Gate<'a> {
    session: &'a Session,
    standing: &'a Standing,
    full: Arc<Snapshot>,
}

impl Gate<'_> {
    fn check(&self, statement: &Statement) -> Result<()> {
        match statement {
            // What they read is checked where names are put in their places.
            Statement::Query(_)
            | Statement::Inspect(_)
            | Statement::Subscribe(_)
            | Statement::Replay(_)
            | Statement::DeclareCursor { .. } => Ok(()),
            Statement::Insert(node) => {
                let target = target_of_insert(node);
                let rights = Rights::INSERT
                    | if target.updates { Rights::UPDATE } else { Rights::NONE }
                    | if target.returns { Rights::SELECT } else { Rights::NONE };
                self.with(target.name, rights)
            }
            Statement::CreateTable(create) if create.temporary => Ok(()),
            Statement::CreateTable(create) => {
                if let Some(source) = &create.stream {
                    self.with_stream(&source.name, Rights::SELECT)?;
                }
                self.create(&create.name, create.replaces, "make tables")
            }
            Statement::CreateView(view) => {
                self.everywhere(Rights::CREATE, "make views")?;
                self.standing.check_name(&self.full, &view.name)?;
                match self.full.table(&view.name).filter(|_| view.or_replace) {
                    // Whoever reads it reads by its owner's rights: nobody else says what.
                    Some(there) if !self.standing.owns(there.schema()) => {
                        Err(self.standing.denied(&format!("replace view {}, which is another's", view.name)))
                    }
                    _ => Ok(()),
                }
            }
            Statement::CreateMaterializedView(view) => {
                let read = names_read(&view.query);
                read.iter().try_for_each(|name| self.with(name, Rights::SELECT))?;
                self.create(&view.name, false, "make views")
            }
            Statement::RefreshView { name, .. } => self.with(name, Rights::ALTER),
            Statement::DropView { names, cascades, .. } | Statement::DropTable { names, cascades, .. } => {
                names.iter().try_for_each(|name| self.drops(name, *cascades))
            }
            Statement::Truncate { names } => names.iter().try_for_each(|name| self.with(name, Rights::ALTER)),
            Statement::AlterTable { table, change, .. } => {
                self.with(table, Rights::ALTER)?;
                match change {
                    // What partitions hold is found by a query over the table.
                    AlterTable::DropPartitions(_) => self.with(table, Rights::SELECT),
                    // A name that views and feeds go by could become that of a column or a table which is hidden.
                    AlterTable::DropColumn { .. } | AlterTable::RenameColumn { .. } => {
                        self.with(table, Rights::SELECT)
                    }
                    AlterTable::Rename { to } => {
                        self.with(table, Rights::SELECT)?;
                        self.standing.check_name(&self.full, to)
                    }
                    _ => Ok(()),
                }
            }
            Statement::Optimize { table, .. } => self.with(table, Rights::ALTER),
            Statement::CreateStream { .. } => match self.standing.with_stream("").has(Rights::CREATE) {
                true => Ok(()),
                false => Err(self.standing.denied("make streams")),
            },
            Statement::AlterStream { name, .. } => self.with_stream(name, Rights::ALTER),
            Statement::DropStream { names, .. } => {
                names.iter().try_for_each(|name| self.with_stream(name, Rights::ALTER))
            }
            Statement::Change(change) => {
                let right = if change.columns.is_empty() { Rights::DELETE } else { Rights::UPDATE };
                self.with(&change.table, right)?;
                self.all_rows(&change.table)
            }
            Statement::Merge(merge) => {
                self.with(&merge.table, Rights::INSERT | Rights::UPDATE | Rights::DELETE)?;
                self.all_rows(&merge.table)
            }
            Statement::CopyFrom { table, end, .. } => {
                self.file(end)?;
                self.with(table, Rights::INSERT)
            }
            Statement::CopyTo { source, end, .. } => {
                self.file(end)?;
                match source {
                    CopySource::Table { name, .. } => self.any_rows(name),
                    CopySource::Query(_) => Ok(()),
                }
            }
            Statement::Checkpoint { .. } | Statement::Hold | Statement::Release => {
                Err(self.standing.denied(&format!("{}: an admin does", statement.kind())))
            }
            Statement::ShowPartitions { table } => self.with(table, Rights::SELECT),
            Statement::ShowCreate { table } | Statement::ShowColumns { table } => {
                match self.session.snapshot().table(table) {
                    Some(_) => Ok(()),
                    None => self.with(table, Rights::SELECT),
                }
            }
            Statement::Accounts(accounts) => self.accounts(accounts),
            Statement::Prepare { statement, .. } => self.check(statement),
            // These see what the user sees, or are of the session alone.
            Statement::ShowViews
            | Statement::ShowStreams
            | Statement::ShowFunctions { .. }
            | Statement::ShowTables
            | Statement::ShowQueries
            | Statement::ShowMetrics
            | Statement::ShowConfig
            | Statement::CancelQuery { .. }
            | Statement::Begin { .. }
            | Statement::SetTransaction { .. }
            | Statement::Commit
            | Statement::Rollback
            | Statement::Fetch { .. }
            | Statement::CloseCursor { .. }
            | Statement::Reset { .. }
            | Statement::Discard
            | Statement::Listen { .. }
            | Statement::Unlisten { .. }
            | Statement::Execute { .. }
            | Statement::Deallocate { .. }
            | Statement::Set { .. } => Ok(()),
        }
    }

    /// A table or view that is not the session's own.
    fn table(&self, name: &str) -> Option<&Arc<TableSnapshot>> {
        let is_own =
            |table: &&Arc<TableSnapshot>| self.session.temporaries.name_of(table.schema().name()).is_some();
        self.full.table(name).filter(|table| !is_own(table))
    }

    /// Rights to all rows and columns of a table or view. One that the user may not see is missing, as any other.
    fn with(&self, name: &str, rights: Rights) -> Result<()> {
        let Some(table) = self.table(name) else { return Ok(()) };
        let has = self.standing.with_all_of(table.schema());
        if has.has(rights) {
            return Ok(());
        }
        if self.standing.with_any_of(table.schema()).is_none() {
            // The statement looks it up, and does not find it.
            return Ok(());
        }
        let lacks = rights.without(has);
        let on = Object::Table(table.schema().name());
        Err(match self.standing.with_any_of(table.schema()).has(lacks) {
            true => self.standing.has_only_some(lacks, on),
            false => self.standing.lacks(lacks, on),
        })
    }

    /// DROP of a table or view, and of the materialized views of it where it cascades.
    fn drops(&self, name: &str, cascades: bool) -> Result<()> {
        let Some(table) = self.table(name) else { return Ok(()) };
        if !self.standing.owns_base_of(&self.full, table.schema()) {
            self.with(name, Rights::ALTER)?;
            if self.standing.with_any_of(table.schema()).is_none() {
                // The statement does not find it.
                return Ok(());
            }
        }
        let may_drop = |id: &u32| {
            self.full.table_by_id(*id).is_none_or(|view| self.standing.may_drop(&self.full, view.schema()))
        };
        match !cascades || self.full.views_above(table.id()).iter().all(may_drop) {
            true => Ok(()),
            false => Err(self.standing.denied(&format!("drop what others made of {name}"))),
        }
    }

    /// UPDATE and DELETE find rows by their values: those of all of them.
    fn all_rows(&self, name: &str) -> Result<()> {
        self.with(name, Rights::SELECT).map_err(|error| {
            error
                .hint("UPDATE, DELETE and MERGE read the table: they need SELECT on all its rows and columns")
        })
    }

    fn any_rows(&self, name: &str) -> Result<()> {
        let Some(table) = self.table(name) else { return Ok(()) };
        let any = self.standing.with_any_of(table.schema());
        match any.is_none() || any.has(Rights::SELECT) {
            true => Ok(()),
            false => Err(self.standing.lacks(Rights::SELECT, Object::Table(table.schema().name()))),
        }
    }

    fn everywhere(&self, right: Rights, what: &str) -> Result<()> {
        match self.standing.everywhere().has(right) {
            true => Ok(()),
            false => Err(self
                .standing
                .denied(what)
                .hint(format!("an admin grants it: GRANT {right} ON ALL TABLES TO {}", self.standing.name))),
        }
    }

    fn create(&self, name: &str, replaces: bool, what: &str) -> Result<()> {
        self.everywhere(Rights::CREATE, what)?;
        self.standing.check_name(&self.full, name)?;
        let Some(there) = self.table(name) else { return Ok(()) };
        match replaces && !self.standing.with_all_of(there.schema()).has(Rights::ALTER) {
            true => Err(self.standing.denied(&format!("replace table {name}"))),
            false => Ok(()),
        }
    }

    fn with_stream(&self, name: &str, right: Rights) -> Result<()> {
        match self.standing.with_stream(name).has(right) {
            true => Ok(()),
            false => Err(self.standing.lacks(right, Object::Stream(name))),
        }
    }

    fn file(&self, end: &CopyEnd) -> Result<()> {
        match end {
            CopyEnd::Client => Ok(()),
            CopyEnd::File(_) => {
                Err(self.standing.denied("name files of the server: COPY … STDIN and STDOUT are"))
            }
        }
    }

    fn accounts(&self, accounts: &Accounts) -> Result<()> {
        let is_self = |name: &str| tickstone_model::is_same_name(name, &self.standing.name);
        let allowed = match accounts {
            Accounts::ShowUsers
            | Accounts::ShowTokens
            | Accounts::ShowLimits
            | Accounts::ShowGrants { .. } => true,
            // Which of them are the user's own is seen when they are found.
            Accounts::DropToken { user, .. } => user.as_deref().is_none_or(is_self),
            Accounts::Alter { name, .. } => is_self(name),
            Accounts::CreateToken { user, .. } => user.as_deref().is_none_or(is_self),
            Accounts::Rights { on: On::Tables(names), rights, .. } => {
                let owns = |name: &String| {
                    let table = self.table(name);
                    table.is_some_and(|table| self.standing.owns(table.schema()))
                };
                (*rights == Rights::ALL || !rights.has_any(Rights::ADMIN)) && names.iter().all(owns)
            }
            Accounts::Create { .. }
            | Accounts::Limit { .. }
            | Accounts::Drop { .. }
            | Accounts::Rights { .. }
            | Accounts::Owner { .. }
            | Accounts::Reassign { .. }
            | Accounts::Roles { .. } => false,
        };
        match allowed {
            true => Ok(()),
            false => Err(self.standing.denied(&format!("{}: an admin does", accounts.kind()))),
        }
    }
}
