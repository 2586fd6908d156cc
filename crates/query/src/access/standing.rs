//! What one user may do, all grants and roles taken together.

use super::accounts::{Account, Accounts, READY_MADE};
use super::limits::Limits;
use crate::error::{QueryError, SqlState};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use tickstone_engine::{Sight, Snapshot, TableSnapshot};
use tickstone_model::{Grant, Rights, TableSchema, is_same_name};

/// What one user may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) user: u32,
    pub(crate) name: String,
    /// The user's own number and those of its roles.
    numbers: BTreeSet<u32>,
    /// With all tables and views.
    on_tables: Rights,
    on_streams: Rights,
    /// With single streams.
    streams: BTreeMap<String, Rights>,
    /// How much it may take of what all share.
    pub(crate) limits: Limits,
}

/// Which rows and columns of a table somebody reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reads {
    All,
    /// Those that this query gives.
    Some(String),
    Nothing,
}

/// What somebody's right to a table is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entitles {
    Everything,
    /// The rows and columns of these grants; nothing without one.
    Some(Vec<Grant>),
}

/// What a right is on, written as GRANT has it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Object<'a> {
    /// A table or a view.
    Table(&'a str),
    Stream(&'a str),
    AllTables,
}

impl fmt::Display for Object<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Object::Table(name) => Name(name).fmt(f),
            Object::Stream(name) => write!(f, "STREAM {}", Name(name)),
            Object::AllTables => f.write_str("ALL TABLES"),
        }
    }
}

/// A name as statements have it: in quotes where it needs them.
pub(crate) struct Name<'a>(pub(crate) &'a str);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
        match self.0.bytes().all(is_plain) && !self.0.starts_with(|first: char| first.is_ascii_digit()) {
            true => f.write_str(self.0),
            false => write!(f, "\"{}\"", self.0.replace('"', "\"\"")),
        }
    }
}

/// What stands in the place of a name that somebody may not know.
const HIDDEN: &str = "…";
/// The table that says how far each stream was parsed, for all of them.
pub(crate) const PROGRESS: &str = "stream_progress";
/// What the name of the table ends with that has the documents which could not be parsed for another.
pub(crate) const REJECTED: &str = "_rejected";
/// What the audit log is read as.
pub(crate) const AUDIT: &str = "audit";

impl Standing {
    /// Checks that a table, or a view, of a name is its own to make: what the database keeps beside tables of others has
    /// names that it does not take.
    ///
    /// # Errors
    /// Where it is not.
    pub(crate) fn check_name(&self, snapshot: &Snapshot, name: &str) -> Result<(), QueryError> {
        if [PROGRESS, AUDIT].iter().any(|kept| is_same_name(kept, name)) && !self.is_admin() {
            return Err(self.denied(&format!("make '{name}', which the database keeps")));
        }
        let end = name.len().checked_sub(REJECTED.len()).filter(|end| name.is_char_boundary(*end));
        let Some((of, _)) = end.map(|end| name.split_at(end)).filter(|(_, end)| is_same_name(end, REJECTED))
        else {
            return Ok(());
        };
        match snapshot
            .table(of)
            .filter(|table| table.schema().source().is_some() && !self.owns(table.schema()))
        {
            None => Ok(()),
            Some(_) => Err(self.denied(&format!("make '{name}', which a table AS STREAM has beside it"))),
        }
    }

    pub(crate) fn of(accounts: &Accounts, user: u32, account: &Account) -> Self {
        let numbers = accounts.numbers_of(user);
        let ready = READY_MADE.iter().filter(|(number, ..)| numbers.contains(number));
        let ready: Rights = ready.map(|(_, _, rights)| *rights).collect();
        let own = || numbers.iter().filter_map(|number| accounts.accounts.get(number));
        let on_tables = own().map(|account| account.on_tables).collect::<Rights>() | ready;
        let on_streams = own().map(|account| account.on_streams).collect::<Rights>() | ready;
        let of_stream = |granted: &BTreeMap<u32, Rights>| -> Rights {
            granted.iter().filter(|(to, _)| numbers.contains(to)).map(|(_, rights)| *rights).collect()
        };
        let streams =
            accounts.streams.iter().map(|(name, granted)| (name.clone(), of_stream(granted))).collect();
        let roles = numbers.iter().filter(|number| **number != user);
        let roles = roles.filter_map(|number| accounts.accounts.get(number)).map(|role| &role.limits);
        let limits = account.limits.over(roles);
        Self { user, name: account.name.clone(), numbers, on_tables, on_streams, streams, limits }
    }

    /// Whether it may do everything.
    pub(crate) fn is_admin(&self) -> bool {
        self.on_tables.has(Rights::ADMIN)
    }

    /// Whether it is a user or has a role.
    pub(crate) fn is(&self, number: u32) -> bool {
        self.numbers.contains(&number)
    }

    /// Whether it owns a table or view.
    pub(crate) fn owns(&self, table: &TableSchema) -> bool {
        self.is_admin() || table.access().owner.is_some_and(|owner| self.numbers.contains(&owner))
    }

    /// Whether it owns what a materialized view is made of: it knows the view's name, and may drop it, for the view holds
    /// back changes of its table.
    pub(crate) fn owns_base_of(&self, full: &Snapshot, view: &TableSchema) -> bool {
        let base = view.materialized().and_then(|of| full.table(&of.base));
        base.is_some_and(|base| self.owns(base.schema()) || self.owns_base_of(full, base.schema()))
    }

    /// Whether it may drop a table or view.
    pub(crate) fn may_drop(&self, full: &Snapshot, table: &TableSchema) -> bool {
        self.with_all_of(table).has(Rights::ALTER) || self.owns_base_of(full, table)
    }

    /// The name of a materialized view, as it is told.
    pub(crate) fn told<'a>(&self, full: &Snapshot, view: &'a TableSchema) -> &'a str {
        match self.with_any_of(view).is_none() && !self.owns_base_of(full, view) {
            true => HIDDEN,
            false => view.name(),
        }
    }

    /// What it may do with all tables and views.
    pub(crate) fn everywhere(&self) -> Rights {
        self.on_tables
    }

    /// What it may do with all rows and columns of a table.
    pub(crate) fn with_all_of(&self, table: &TableSchema) -> Rights {
        let whole = self.grants(table).filter(|grant| grant.is_whole()).map(|grant| grant.rights);
        let has = if self.owns(table) { Rights::ALL } else { whole.collect::<Rights>() | self.on_tables };
        match is_same_name(table.name(), PROGRESS) && !self.is_admin() {
            // What others wrote there would double documents, or lose some.
            true => has.common(Rights::SELECT | Rights::SUBSCRIBE),
            false => has,
        }
    }

    /// What it may do with any row or column of a table; nothing of a table that it does not know of.
    pub(crate) fn with_any_of(&self, table: &TableSchema) -> Rights {
        let any = self.grants(table).map(|grant| grant.rights).collect::<Rights>() | self.with_all_of(table);
        any.common(Rights::OF_OBJECTS.without(Rights::STREAM))
    }

    pub(crate) fn grants<'a>(&'a self, table: &'a TableSchema) -> impl Iterator<Item = &'a Grant> {
        table.access().grants.iter().filter(|grant| self.numbers.contains(&grant.to))
    }

    /// What it may do with a stream.
    pub(crate) fn with_stream(&self, stream: &str) -> Rights {
        let rights = self.on_streams | self.streams.get(stream).copied().unwrap_or_default();
        let both = rights.has(Rights::STREAM).then_some(Rights::SELECT | Rights::INSERT);
        rights | both.unwrap_or_default()
    }

    /// Whether it may do anything with a stream that is there; others are not there for it.
    pub(crate) fn knows_stream(&self, stream: &str) -> bool {
        !self.with_stream(stream).common(Rights::OF_OBJECTS).is_none()
    }

    /// The rows and columns of a table for which it has a right.
    pub(crate) fn reads(&self, table: &TableSchema, right: Rights) -> Reads {
        if self.with_all_of(table).has(right) {
            return Reads::All;
        }
        let grants: Vec<&Grant> = self.grants(table).filter(|grant| grant.rights.has(right)).collect();
        if grants.is_empty() { Reads::Nothing } else { Reads::Some(query_of(table, &grants)) }
    }

    /// What a right to a table is for, to be compared with what it is later.
    pub(crate) fn entitles(&self, table: &TableSchema, right: Rights) -> Entitles {
        if self.with_all_of(table).has(right) {
            return Entitles::Everything;
        }
        let grants = self.grants(table).filter(|grant| grant.rights.has(right));
        Entitles::Some(grants.map(|grant| Grant { rights: right, ..grant.clone() }).collect())
    }

    /// Whether it may do with each stream what it might before.
    pub(crate) fn keeps_streams_of(&self, before: &Standing) -> bool {
        let keeps = |(stream, rights): (&String, &Rights)| self.with_stream(stream).has(*rights);
        self.on_streams.has(before.on_streams) && before.streams.iter().all(keeps)
    }

    /// What it sees of a table where tables are listed, and wherever else one is looked up; `own` are the names of those
    /// that only the session has.
    fn sight(&self, table: &TableSnapshot, own: &[String]) -> Sight {
        let schema = table.schema();
        if schema.is_aside() || schema.is_internal() {
            let is_own = own.iter().any(|name| name == schema.name());
            return if is_own { Sight::Whole } else { Sight::Hidden };
        }
        let tells = self.knows_query_of(schema);
        if self.with_all_of(schema).has(Rights::SELECT) {
            return match schema.view() {
                Some(_) if !tells => Sight::Shape(Arc::new(schema.without_query())),
                _ => Sight::Whole,
            };
        }
        let any = self.with_any_of(schema);
        if any.is_none() {
            return Sight::Hidden;
        }
        let grants: Vec<&Grant> = self.grants(schema).collect();
        let shown = schema.only(&columns_of(schema, &grants));
        Sight::Shape(Arc::new(if tells { shown } else { shown.without_query() }))
    }

    /// Whether it may know what a view is made of: its owner, and whoever may read all tables. Others are given its rows,
    /// and may have no right to the tables and conditions that its query names.
    pub(crate) fn knows_query_of(&self, view: &TableSchema) -> bool {
        self.owns(view) || self.on_tables.has(Rights::SELECT)
    }

    /// A snapshot as it sees it.
    pub(crate) fn seen(&self, snapshot: &Snapshot, own: &[String]) -> Arc<Snapshot> {
        Arc::new(snapshot.seen(&|table| self.sight(table, own)))
    }

    /// That it may not do something.
    pub(crate) fn denied(&self, what: &str) -> QueryError {
        QueryError::request(format!("user '{}' may not {what}", self.name)).state(SqlState::Denied)
    }

    /// That it has a right to some rows or columns, where all are needed. Granting it on the whole would show the rest,
    /// so that nobody is told to.
    pub(crate) fn has_only_some(&self, rights: Rights, on: Object<'_>) -> QueryError {
        let error = self.denied(&format!("{rights} on all rows and columns of {on}: some are granted"));
        error.hint("this statement needs all of them")
    }

    /// That it lacks a right on something.
    pub(crate) fn lacks(&self, right: Rights, on: Object<'_>) -> QueryError {
        let error = self.denied(&format!("{right} on {on}"));
        error.hint(format!("an admin grants it: GRANT {right} ON {on} TO {}", Name(&self.name)))
    }
}

/// The places of the columns that grants are for, ascending; all where one of them is for all.
fn columns_of(table: &TableSchema, grants: &[&Grant]) -> Vec<usize> {
    let is_in = |grant: &Grant, place: usize| {
        grant.columns.as_ref().is_none_or(|ids| ids.contains(&table.column_id(place)))
    };
    (0..table.columns().len()).filter(|place| grants.iter().any(|grant| is_in(grant, *place))).collect()
}

/// The query that gives the rows and columns of a table that grants are for. Where they differ in their columns, a value
/// of a row is there where a grant of its column is for the row.
fn query_of(table: &TableSchema, grants: &[&Grant]) -> String {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let any_of = |grants: &[&Grant]| {
        let filters: Option<Vec<String>> =
            grants.iter().map(|grant| Some(format!("({})", grant.filter.as_ref()?))).collect();
        filters.map(|filters| filters.join(" OR "))
    };
    let item = |place: &usize| {
        let (name, id) = (quoted(&table.columns()[*place].name), table.column_id(*place));
        let of_it: Vec<&Grant> = grants
            .iter()
            .filter(|grant| grant.columns.as_ref().is_none_or(|ids| ids.contains(&id)))
            .copied()
            .collect();
        match any_of(&of_it).filter(|_| of_it.len() < grants.len()) {
            Some(condition) => format!("CASE WHEN {condition} THEN {name} END AS {name}"),
            None => name,
        }
    };
    // Columns are granted of tables alone; those of a view are what its query gives.
    let items: Vec<String> = match table.view() {
        Some(_) => vec!["*".to_string()],
        None => columns_of(table, grants).iter().map(item).collect(),
    };
    let rows = any_of(grants).map(|condition| format!(" WHERE {condition}")).unwrap_or_default();
    format!("SELECT {} FROM {}{rows}", items.join(", "), quoted(table.name()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickstone_model::{ColumnType, TableAccess};

    const USER: u32 = 20;

    fn table(grants: Vec<Grant>) -> TableSchema {
        let builder = TableSchema::builder("t\"x").column("ts", ColumnType::Timestamp);
        let builder = builder.column("a", ColumnType::Int64).column("b", ColumnType::Int64).timestamp("ts");
        builder.access(TableAccess { owner: None, grants }).build().expect("a schema")
    }

    fn grant(to: u32, columns: Option<&[u32]>, filter: Option<&str>) -> Grant {
        let (columns, filter) = (columns.map(<[u32]>::to_vec), filter.map(str::to_string));
        Grant { to, rights: Rights::SELECT, columns, filter }
    }

    fn standing() -> Standing {
        let mut accounts = Accounts::default();
        let role = accounts.create("role", false, None).expect("a role");
        let user = loop {
            let user = accounts.create(&format!("u{}", accounts.accounts.len()), true, None).expect("a user");
            if user == USER {
                break user;
            }
        };
        accounts.accounts.get_mut(&user).expect("there").roles.insert(role);
        Standing::of(&accounts, user, &accounts.accounts[&user])
    }

    #[test]
    fn a_query_gives_what_is_granted() {
        let of = |grants| standing().reads(&table(grants), Rights::SELECT);
        let some = |query: &str| Reads::Some(query.to_string());
        assert_eq!(of(vec![]), Reads::Nothing);
        assert_eq!(of(vec![grant(99, None, None)]), Reads::Nothing);
        assert_eq!(of(vec![grant(USER, None, None), grant(USER, Some(&[0]), Some("a > 1"))]), Reads::All);
        // By the role.
        assert_eq!(of(vec![grant(16, None, None)]), Reads::All);
        let t = "FROM \"t\"\"x\"";
        assert_eq!(of(vec![grant(USER, Some(&[0, 2]), None)]), some(&format!("SELECT \"ts\", \"b\" {t}")));
        assert_eq!(
            of(vec![grant(USER, None, Some("a > 1")), grant(USER, None, Some("b = 2 OR a = 0"))]),
            some(&format!("SELECT \"ts\", \"a\", \"b\" {t} WHERE (a > 1) OR (b = 2 OR a = 0)"))
        );
        assert_eq!(
            of(vec![grant(USER, Some(&[0, 1]), Some("a > 1")), grant(16, Some(&[0, 2]), None)]),
            some(&format!("SELECT \"ts\", CASE WHEN (a > 1) THEN \"a\" END AS \"a\", \"b\" {t}"))
        );
    }

    #[test]
    fn what_is_lacking_can_be_granted_as_it_is_told() {
        let told = |on| standing().lacks(Rights::ALTER, on).hint.expect("how");
        let grant = |on: &str| format!("an admin grants it: GRANT ALTER ON {on} TO {}", standing().name);
        assert_eq!(told(Object::Table("t_1")), grant("t_1"));
        assert_eq!(told(Object::Table("t-KRA\"KEN")), grant("\"t-KRA\"\"KEN\""));
        assert_eq!(told(Object::Stream("Raw")), grant("STREAM \"Raw\""));
        assert_eq!(told(Object::AllTables), grant("ALL TABLES"));
    }

    #[test]
    fn rights_come_from_owners_roles_and_grants() {
        let standing = standing();
        let mut owned = table(vec![]).owned_by(Some(USER));
        assert_eq!(standing.with_all_of(&owned), Rights::ALL);
        owned = owned.owned_by(Some(99));
        assert!(standing.with_any_of(&owned).is_none());
        assert!(matches!(standing.reads(&owned, Rights::SELECT), Reads::Nothing));
    }
}
