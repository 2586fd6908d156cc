//! What catalogs tell of users, roles and rights: to each user of what concerns them, to admins of all.

use super::Access;
use crate::access::Now;
use crate::access::accounts::{Account, READY_MADE};
use crate::access::standing::Standing;
use crate::aside::listed;
use std::collections::BTreeSet;
use std::sync::Arc;
use tickstone_engine::{Snapshot, TableSnapshot};
use tickstone_model::{Rights, TableSchema, is_same_name};

/// A user or a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    /// A number that nobody else has or will have.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// Whether it can connect.
    pub is_user: bool,
    /// Whether it may do everything.
    pub is_admin: bool,
    /// Whether it may make tables and views.
    pub creates: bool,
    /// The numbers of the roles that it was given.
    pub roles: Vec<u32>,
    /// Most connections, where there is a limit of its own.
    pub connections: Option<u64>,
}

/// What one user or role was granted on one table or view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Privilege {
    /// Who has it.
    pub grantee: String,
    /// On what.
    pub table: String,
    /// The columns, where it is on some alone.
    pub columns: Option<Vec<String>>,
    /// What.
    pub rights: Rights,
    /// Whether it is the owner's.
    pub is_owner: bool,
}

/// How much of a table a right is asked about.
#[derive(Debug, Clone, Copy)]
pub enum Part<'a> {
    /// All columns, be it of some rows alone.
    Columns,
    /// Any column.
    AnyColumn,
    /// This one.
    Column(&'a str),
}

impl Access {
    /// Whether the user may do everything, as everybody may where there are no users.
    pub fn is_admin(&self) -> bool {
        matches!(self.standing(&self.database().engine().snapshot()), Ok(None))
    }

    /// Whether there are users.
    pub fn has_users(&self) -> bool {
        self.now(&self.database().engine().snapshot()).is_some()
    }

    /// The users and roles that the user sees, by number; none where there are no users.
    pub fn roles(&self) -> Vec<Role> {
        let snapshot = self.database().engine().snapshot();
        let (Some(now), Ok(standing)) = (self.now(&snapshot), self.standing(&snapshot)) else {
            return Vec::new();
        };
        let ready = READY_MADE.iter().map(|(number, name, rights)| Role {
            number: *number,
            name: (*name).to_string(),
            is_user: false,
            is_admin: rights.has(Rights::ADMIN),
            creates: rights.has(Rights::CREATE),
            roles: Vec::new(),
            connections: None,
        });
        let own = now.accounts.accounts.iter().map(|(number, account)| {
            let of = Standing::of(&now.accounts, *number, account);
            Role {
                number: *number,
                name: account.name.clone(),
                is_user: account.is_user,
                is_admin: of.is_admin(),
                creates: of.everywhere().has(Rights::CREATE),
                roles: account.roles.iter().copied().collect(),
                connections: account.limits.connections(),
            }
        });
        let is_seen = |role: &Role| standing.as_ref().is_none_or(|standing| standing.is(role.number));
        ready.chain(own).filter(is_seen).collect()
    }

    /// Whether a user or role (the user themselves where it is `None`) has any of some rights to a table or view; `None`
    /// where there is no such role or table that the user sees.
    pub fn has(&self, role: Option<&str>, table: &str, rights: Rights, part: Part<'_>) -> Option<bool> {
        let snapshot = self.database().engine().snapshot();
        let schema = snapshot.table(table)?.schema();
        self.asked(&snapshot, role, |standing| {
            let all = standing.with_all_of(schema);
            let mut has = all;
            for grant in standing.grants(schema) {
                let names = |id: &u32| Some(schema.columns()[schema.column_of_id(*id)?].name.as_str());
                let columns: Option<BTreeSet<&str>> =
                    grant.columns.as_ref().map(|ids| ids.iter().filter_map(names).collect());
                let is_part = match (&columns, part) {
                    (None, _) | (Some(_), Part::AnyColumn) => true,
                    (Some(_), Part::Columns) => false,
                    (Some(columns), Part::Column(name)) => {
                        columns.iter().any(|column| is_same_name(column, name))
                    }
                };
                has |= if is_part { grant.rights } else { Rights::NONE };
            }
            has.has_any(rights)
        })
    }

    /// Whether a user or role has any of some rights to all there is and will be.
    pub fn has_everywhere(&self, role: Option<&str>, rights: Rights) -> Option<bool> {
        let snapshot = self.database().engine().snapshot();
        self.asked(&snapshot, role, |standing| standing.everywhere().has_any(rights))
    }

    /// Whether a user or role is another one or has it, through other roles too.
    pub fn has_role(&self, role: Option<&str>, other: &str) -> Option<bool> {
        let snapshot = self.database().engine().snapshot();
        let number = match self.now(&snapshot) {
            Some(now) => now.accounts.number(other).ok()?,
            None => return Some(true),
        };
        self.asked(&snapshot, role, |standing| standing.is(number) || standing.is_admin())
    }

    /// Whether the user sees all rows and columns of a table.
    pub fn sees_all_of(&self, table: &TableSnapshot) -> bool {
        let snapshot = self.database().engine().snapshot();
        let Ok(standing) = self.standing(&snapshot) else { return false };
        let whole = |standing: Arc<Standing>| {
            let table = snapshot.table_by_id(table.id());
            table.is_some_and(|table| standing.with_all_of(table.schema()).has(Rights::SELECT))
        };
        standing.is_none_or(whole)
    }

    /// The number and the name of the user or role that owns a table; `None` where whoever has the files does.
    pub fn owner_of(&self, table: &str) -> Option<(u32, String)> {
        let snapshot = self.database().engine().snapshot();
        let owner = snapshot.table(table)?.schema().access().owner?;
        Some((owner, self.now(&snapshot)?.accounts.name_of(owner)?.to_string()))
    }

    /// What users and roles that the user sees were granted on tables and views that they see, by name.
    pub fn privileges(&self) -> Vec<Privilege> {
        let (roles, snapshot) = (self.roles(), self.database().engine().snapshot());
        let Some(now) = self.now(&snapshot) else { return Vec::new() };
        let seen = self.snapshot().unwrap_or_default();
        let everywhere = |role: &Role| {
            let ready = READY_MADE.iter().find(|(number, ..)| *number == role.number);
            let own = now.accounts.accounts.get(&role.number);
            ready.map(|(.., rights)| *rights).or(own.map(|own| own.on_tables)).unwrap_or_default()
        };
        let mut all = Vec::new();
        for table in listed(&seen) {
            // As it is seen it does not say who may do what.
            let Some(schema) = snapshot.table_by_id(table.id()).map(|table| table.schema()) else { continue };
            roles.iter().for_each(|role| of_table(schema, role, everywhere(role), &mut all));
        }
        all
    }

    /// What one of the users and roles that the user sees may do.
    fn asked(
        &self,
        snapshot: &Snapshot,
        role: Option<&str>,
        answer: impl FnOnce(&Standing) -> bool,
    ) -> Option<bool> {
        let Some(now) = self.now(snapshot) else { return Some(true) };
        let own = self.standing(snapshot).ok()?;
        match (role, own) {
            (None, None) => Some(true),
            (None, Some(own)) => Some(answer(&own)),
            (Some(name), own) => {
                let number = now.accounts.number(name).ok()?;
                let nobody = Account::default();
                let account = now.accounts.accounts.get(&number).unwrap_or(&nobody);
                let is_seen = own.is_none_or(|own| own.is(number));
                is_seen.then(|| answer(&Standing::of(&now.accounts, number, account)))
            }
        }
    }

    /// The accounts, where there are users.
    fn now(&self, snapshot: &Snapshot) -> Option<Arc<Now>> {
        self.database().accounts(snapshot).ok()?.filter(|now| now.accounts.has_users())
    }
}

/// What one role was granted on one table.
fn of_table(schema: &TableSchema, role: &Role, everywhere: Rights, all: &mut Vec<Privilege>) {
    let is_owner = schema.access().owner == Some(role.number);
    let mut add = |columns, rights: Rights| {
        let rights = rights.common(Rights::OF_OBJECTS.without(Rights::STREAM));
        if !rights.is_none() {
            let (grantee, table) = (role.name.clone(), schema.name().to_string());
            all.push(Privilege { grantee, table, columns, rights, is_owner });
        }
    };
    let grants = schema.access().grants.iter().filter(|grant| grant.to == role.number);
    let (whole, some): (Vec<_>, Vec<_>) = grants.partition(|grant| grant.columns.is_none());
    let whole = whole.iter().map(|grant| grant.rights).collect::<Rights>() | everywhere;
    add(None, if is_owner { Rights::ALL } else { whole });
    for grant in some {
        let name = |id: &u32| Some(schema.columns()[schema.column_of_id(*id)?].name.clone());
        let columns = grant.columns.as_ref().map(|ids| ids.iter().filter_map(name).collect());
        add(columns, grant.rights);
    }
}
