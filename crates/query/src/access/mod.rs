//! Who may do what: users and what proves them ([`accounts`], [`secret`]), and what is granted to them ([`standing`]).
//!
//! Where there are no users everybody may do everything. Never: sessions, sockets.

pub(crate) mod accounts;
pub(crate) mod limits;
pub(crate) mod secret;
pub(crate) mod standing;

use crate::error::{QueryError, Result, SqlState};
use accounts::Accounts;
use standing::{Object, Standing};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use tickstone_engine::{Engine, Snapshot};
use tickstone_model::{Rights, TableSchema};

pub use limits::Limits;
pub use secret::{Verifier, is_same, random_text};

/// The number of those who did not say who they are.
const NOBODY: u32 = 0;

/// Somebody who said who they are, or who did not have to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Who {
    pub(crate) user: u32,
    pub(crate) name: Arc<str>,
    /// The number of the token that they came with, where it was one.
    pub(crate) token: Option<u32>,
}

impl Who {
    /// One who did not have to say who they are, as long as there are no users.
    pub(crate) fn nobody() -> Self {
        Self { user: NOBODY, name: "".into(), token: None }
    }

    pub(crate) fn is_nobody(&self) -> bool {
        self.user == NOBODY
    }

    /// The user's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// The accounts of a database as they are now, read once.
#[derive(Debug, Default)]
pub(crate) struct Held {
    now: Mutex<Option<(Arc<TableSchema>, Arc<Now>)>>,
    changing: Mutex<()>,
    /// Passwords that were right, as hashes that only this process can make, and what they were proved by.
    proved: Mutex<HashMap<[u8; 32], Verifier>>,
}

/// The accounts as one text has them, and what each user may do by it.
#[derive(Debug, Default)]
pub(crate) struct Now {
    pub(crate) accounts: Accounts,
    standings: Mutex<HashMap<u32, Arc<Standing>>>,
}

/// What a view or a table reads for its owner as time goes on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source<'a> {
    Table(&'a TableSchema),
    Stream(&'a str),
}

impl Held {
    /// Checks that the owner of a view or a table may still read what it is made of.
    ///
    /// # Errors
    /// Where the owner was dropped or lacks the right: it stays as it is until that is mended.
    pub(crate) fn check_owner(&self, snapshot: &Snapshot, made: &TableSchema, of: Source<'_>) -> Result<()> {
        let (Some(owner), Some(now)) = (made.access().owner, self.of(snapshot)?) else { return Ok(()) };
        let Some(standing) = now.standing_of_owner(owner) else {
            let what = format!("the owner of '{}' was dropped: it stays as it is", made.name());
            let error = QueryError::request(what).state(SqlState::Denied);
            return Err(
                error.hint(format!("an admin gives it another: ALTER TABLE {} OWNER TO a user", made.name()))
            );
        };
        let (has, object) = match of {
            Source::Table(table) => (standing.with_all_of(table), Object::Table(table.name())),
            Source::Stream(stream) => (standing.with_stream(stream), Object::Stream(stream)),
        };
        match standing.is_admin() || has.has(Rights::SELECT) {
            true => Ok(()),
            false => Err(standing.lacks(Rights::SELECT, object)),
        }
    }

    /// The accounts as a snapshot has them.
    ///
    /// # Errors
    /// Where this build cannot read them: nobody may do anything then.
    pub(crate) fn of(&self, snapshot: &Snapshot) -> Result<Option<Arc<Now>>> {
        let Some(schema) = snapshot.accounts() else { return Ok(None) };
        let mut held = lock(&self.now);
        if let Some((of, now)) = held.as_ref().filter(|(of, _)| Arc::ptr_eq(of, schema)) {
            let _ = of;
            return Ok(Some(Arc::clone(now)));
        }
        let accounts = Accounts::parse(schema.view().unwrap_or_default())?;
        let now = Arc::new(Now { accounts, standings: Mutex::default() });
        *held = Some((Arc::clone(schema), Arc::clone(&now)));
        Ok(Some(now))
    }

    /// Whether a password is that of a verifier: known at once where it was before.
    ///
    /// # Errors
    /// Where the system has no random numbers.
    pub(crate) fn is_proved(&self, user: &str, password: &str, verifier: &Verifier) -> Result<bool> {
        /// Most passwords that are remembered.
        const PROVED_MAX: usize = 1_024;
        let known_by = secret::known_by(user, password)?;
        if lock(&self.proved).get(&known_by) == Some(verifier) {
            return Ok(true);
        }
        let is_right = verifier.is_of(password);
        if is_right {
            let mut proved = lock(&self.proved);
            if proved.len() >= PROVED_MAX {
                proved.clear();
            }
            proved.insert(known_by, verifier.clone());
        }
        Ok(is_right)
    }

    /// Changes the accounts: all of the change or nothing, one after another.
    ///
    /// # Errors
    /// Those of the change, and of the engine.
    pub(crate) fn change<T>(
        &self,
        engine: &Engine,
        change: impl FnOnce(&mut Accounts) -> Result<T>,
    ) -> Result<T> {
        let _changing = lock(&self.changing);
        let snapshot = engine.snapshot();
        let mut accounts = match self.of(&snapshot)? {
            Some(now) => now.accounts.clone(),
            None => Accounts::default(),
        };
        // Should a damaged text have been put aside: nobody new is who has tables already.
        let known = snapshot.tables().flat_map(|table| {
            let access = table.schema().access();
            access.owner.into_iter().chain(access.grants.iter().map(|grant| grant.to))
        });
        accounts.keep_free(known);
        if accounts.mock.is_empty() {
            accounts.mock = random_text()?;
        }
        let before = accounts.clone();
        let done = change(&mut accounts)?;
        if accounts != before {
            engine.set_accounts(&accounts.to_text())?;
        }
        Ok(done)
    }
}

impl Now {
    /// That somebody did not say who they are.
    pub(crate) fn nobody(&self) -> QueryError {
        let what = "there are users now, and this connection did not say whose it is: connect again";
        QueryError::request(what).state(SqlState::Unknown)
    }

    /// What a user may do.
    ///
    /// # Errors
    /// Where there is no such user any longer, they are let in no more, or the token they came with is none.
    pub(crate) fn standing(&self, who: &Who) -> Result<Arc<Standing>> {
        let standing = self.standing_by(who)?;
        match standing.limits.connections() {
            // Admins have no limits: a role of theirs may have this one.
            Some(0) if !standing.is_admin() => {
                let what = format!("user '{}' may not connect at present (max_connections = 0)", who.name);
                Err(QueryError::request(what).state(SqlState::Unknown))
            }
            _ => Ok(standing),
        }
    }

    fn standing_by(&self, who: &Who) -> Result<Arc<Standing>> {
        let gone = |what: String| QueryError::request(what).state(SqlState::Unknown);
        let account = self.accounts.accounts.get(&who.user).filter(|account| account.is_user);
        let account = account.ok_or_else(|| gone(format!("user '{}' was dropped", who.name)))?;
        if let Some(number) = who.token {
            let token = self.accounts.tokens.iter().find(|token| token.number == number);
            let token = token.ok_or_else(|| gone("the token of this connection was dropped".to_string()))?;
            if !token.is_valid() {
                return Err(gone(format!("token '{}' has expired", token.name)));
            }
        }
        let mut standings = lock(&self.standings);
        let standing = standings
            .entry(who.user)
            .or_insert_with(|| Arc::new(Standing::of(&self.accounts, who.user, account)));
        Ok(Arc::clone(standing))
    }

    /// What the owner of a view may do; `None` where there is no such user any longer.
    pub(crate) fn standing_of_owner(&self, owner: u32) -> Option<Arc<Standing>> {
        let name = self.accounts.name_of(owner)?.into();
        // Their views go on where they are not let in.
        self.standing_by(&Who { user: owner, name, token: None }).ok()
    }
}

/// The time, in ns since the Unix epoch.
pub(crate) fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
