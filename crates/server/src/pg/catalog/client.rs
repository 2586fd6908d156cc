//! Who asks: what the catalog says of a connection.

use super::relation::OWNER;
use super::settings;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tickstone_engine::{Engine, Snapshot};
use tickstone_query::{Access, Privilege, Role};

/// What the role is called that owns what no user owns.
const FILES: &str = "tickstone";

/// The client of a connection.
#[derive(Debug)]
pub(crate) struct Client {
    /// The user it connected as; where there are no users the one role, which owns all.
    pub(super) user: String,
    /// What it may do.
    pub(super) access: Option<Access>,
    /// The database it asked for: the only one, by whatever name.
    pub(super) database: String,
    /// The number that it cancels by.
    pub(super) process: Option<i32>,
    /// What it set, by names in lower case.
    set: Mutex<BTreeMap<String, String>>,
}

impl Default for Client {
    fn default() -> Self {
        Self {
            user: "admin".into(),
            database: "tickstone".into(),
            access: None,
            process: None,
            set: Mutex::default(),
        }
    }
}

impl Client {
    pub(crate) fn new(
        user: impl Into<String>,
        database: impl Into<String>,
        process: i32,
        access: Access,
    ) -> Self {
        let (user, database) = (user.into(), database.into());
        Self { user, database, access: Some(access), process: Some(process), set: Mutex::default() }
    }

    /// What there is, as it sees it; nothing where it may see nothing any more.
    pub(super) fn snapshot(&self, engine: &Engine) -> Arc<Snapshot> {
        match &self.access {
            Some(access) => access.snapshot().unwrap_or_default(),
            None => engine.snapshot(),
        }
    }

    /// The users and roles that it sees: where there are none the one that it connected as. What users do not own is the
    /// own of whoever has the files ([`OWNER`]).
    pub(super) fn roles(&self) -> Vec<Role> {
        let mut roles = self.access.as_ref().map_or_else(Vec::new, Access::roles);
        let (number, name, is_user) = (OWNER, self.owner().to_string(), !self.has_users());
        roles.push(Role {
            number,
            name,
            is_user,
            is_admin: true,
            creates: true,
            roles: Vec::new(),
            connections: None,
        });
        roles
    }

    /// The number and the name of who owns a table or view.
    pub(super) fn owner_of(&self, table: &str) -> (u32, String) {
        let owner = self.access.as_ref().and_then(|access| access.owner_of(table));
        owner.unwrap_or_else(|| (OWNER, self.owner().to_string()))
    }

    /// What the role is called that owns what no user owns.
    fn owner(&self) -> &str {
        if self.has_users() { FILES } else { &self.user }
    }

    fn has_users(&self) -> bool {
        self.access.as_ref().is_some_and(Access::has_users)
    }

    /// The name of a user or role by its number.
    pub(super) fn name_of(&self, number: u32) -> Option<String> {
        self.roles().into_iter().find(|role| role.number == number).map(|role| role.name)
    }

    /// The number of a user or role by its name.
    pub(super) fn number_of(&self, name: &str) -> Option<u32> {
        self.roles().into_iter().find(|role| role.name == name).map(|role| role.number)
    }

    /// Whether it is a user or role, or has it.
    pub(super) fn has_role(&self, name: &str) -> bool {
        let has = |access: &Access| access.has_role(None, name).unwrap_or(name == self.user);
        self.access.as_ref().is_none_or(has)
    }

    /// What users and roles that it sees were granted on tables and views that it sees.
    pub(super) fn privileges(&self) -> Vec<Privilege> {
        self.access.as_ref().map_or_else(Vec::new, Access::privileges)
    }

    /// Whether it may do everything.
    pub(crate) fn is_admin(&self) -> bool {
        self.access.as_ref().is_none_or(Access::is_admin)
    }

    /// Notes how a setting is now.
    pub(crate) fn note(&self, name: &str, value: &str) {
        self.set().insert(name.to_lowercase(), value.to_string());
    }

    pub(super) fn setting(&self, name: &str) -> Option<String> {
        if name.eq_ignore_ascii_case("is_superuser") {
            return Some(if self.is_admin() { "on" } else { "off" }.to_string());
        }
        let set = self.set().get(&name.to_lowercase()).cloned();
        set.or_else(|| settings::value(name).map(str::to_string))
    }

    fn set(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
