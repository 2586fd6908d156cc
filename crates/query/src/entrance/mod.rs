//! [`Access`]: the one way from somebody who connects to a database.

mod conditions;
mod told;

pub(crate) use conditions::check_ungranted;
pub use told::{Part, Privilege, Role};

use crate::access::accounts::{Accounts, Proof, Token, missing};
use crate::access::secret::token_hash;
use crate::access::standing::{Object, Standing};
use crate::access::{Limits, Verifier, Who, is_same};
use crate::aside::Aside;
use crate::audit::{Auditor, Deed, Origin, failure_of};
use crate::database::Database;
use crate::ddl::ddl;
use crate::error::{ErrorKind, QueryError, Result, SqlState};
use crate::shares::{Seat, Threads};
use conditions::check_keeps_granted;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tickstone_engine::streams::{Stream, StreamSettings};
use tickstone_engine::{EngineError, Snapshot};
use tickstone_model::{Rights, TableSchema};

/// An error that names a materialized view only to who may know of it.
pub(crate) fn without_hidden_views(
    mut error: EngineError,
    full: &Snapshot,
    standing: Option<&Standing>,
) -> EngineError {
    if let EngineError::HasViews { view, .. }
    | EngineError::NotTakenIn { view, .. }
    | EngineError::Frozen { view, .. } = &mut error
        && let (Some(there), Some(standing)) = (full.table(view), standing)
    {
        *view = standing.told(full, there.schema()).to_string();
    }
    error
}

/// How often somebody who waits for their turn looks whether it has come.
const TURN: Duration = Duration::from_millis(100);

/// Somebody's way to a database: who they are, and what they may do as of now. Made once for a connection or a request.
#[derive(Debug, Clone)]
pub struct Access {
    pub(crate) database: Database,
    pub(crate) who: Option<Who>,
    pub(crate) origin: Origin,
    /// That it is one of the connections that its user may have.
    _seat: Option<Arc<Seat>>,
}

/// A table that a name was of when its user reached it, and stays the table whatever has the name later.
#[derive(Debug, Clone)]
pub struct Reached {
    /// The number of the table, which no other has.
    pub id: u32,
    /// What it was.
    pub schema: Arc<TableSchema>,
}

impl Access {
    /// That of whoever has the files: everything.
    pub fn of_owner(database: &Database) -> Self {
        Self::of(database, None)
    }

    /// That of somebody who does not say who they are: everything, until there are users.
    pub fn of_nobody(database: &Database) -> Self {
        Self::of(database, Some(Who::nobody()))
    }

    pub(crate) fn of(database: &Database, who: Option<Who>) -> Self {
        Self { database: database.clone(), who, origin: Origin::default(), _seat: None }
    }

    /// The same of somebody who came from there.
    #[must_use]
    pub fn from(self, origin: Origin) -> Self {
        Self { origin, ..self }
    }

    /// Whoever is to be told of what the user does; `None` where nobody is.
    pub fn auditor(&self) -> Option<Arc<dyn Auditor>> {
        self.database.auditor()
    }

    /// Checks that what the user does now can be told of, where it must be.
    ///
    /// # Errors
    /// Where it cannot.
    pub fn check_audit(&self) -> Result<()> {
        self.auditor().map_or(Ok(()), |auditor| auditor.check())
    }

    /// Notes that rows were added to a table or a stream: for the audit log and for the user's limit of rows a second.
    pub fn added(&self, to: &str, rows: u64) {
        self.tell_added(to, rows);
        self.charge(rows);
    }

    /// Notes that rows were added, for the audit log alone.
    pub(crate) fn tell_added(&self, to: &str, rows: u64) {
        if let Some(auditor) = self.auditor().filter(|_| rows > 0) {
            auditor.added(&self.name(), self.origin, to, rows);
        }
    }

    /// Tells of something that took a time and failed, or did not.
    pub fn tell(
        &self,
        kind: &'static str,
        text: Arc<str>,
        rows: u64,
        took: Duration,
        error: Option<&QueryError>,
    ) {
        if let Some(auditor) = self.database.auditor() {
            let (user, origin, failure) = (self.name(), self.origin, error.map(failure_of));
            auditor.note(Deed { user, origin, kind, text, rows, took, failure });
        }
    }

    fn name(&self) -> Arc<str> {
        self.who.as_ref().map_or_else(|| "".into(), |who| Arc::clone(&who.name))
    }

    /// The name of the user; `None` where nobody had to say who they are.
    pub fn user(&self) -> Option<&str> {
        self.who.as_ref().filter(|who| !who.is_nobody()).map(Who::name)
    }

    pub(crate) fn standing(&self, snapshot: &Snapshot) -> Result<Option<Arc<Standing>>> {
        match &self.who {
            None => Ok(None),
            Some(who) => self.database.standing(snapshot, who),
        }
    }

    /// What there is, as the user sees it now.
    ///
    /// # Errors
    /// Where the user was dropped, or the newest state cannot be read.
    pub fn snapshot(&self) -> Result<Arc<Snapshot>> {
        let full = self.database.snapshot()?;
        Ok(match self.standing(&full)? {
            None => full,
            Some(standing) => standing.seen(&full, &[]),
        })
    }

    /// The same as one of the connections that its user may have, until all clones of it are dropped.
    ///
    /// # Errors
    /// Where there are as many already, or the user was dropped.
    pub fn seated(self) -> Result<Self> {
        let Some(user) = self.owner() else { return Ok(self) };
        let most = self.limits()?.connections();
        match self.database.shares().seat(user, most) {
            Some(seat) => Ok(Self { _seat: Some(Arc::new(seat)), ..self }),
            None => {
                let (name, most) = (self.name(), most.unwrap_or_default());
                let what = format!("user '{name}' has max_connections, {most}, already");
                let error = QueryError::new(ErrorKind::Retry, what).state(SqlState::TooManyConnections);
                Err(error.hint("close one that is not used"))
            }
        }
    }

    /// How much of what all share the user may take; without limits where they may do everything.
    ///
    /// # Errors
    /// Where the user was dropped, or is let in no more.
    pub fn limits(&self) -> Result<Limits> {
        let standing = self.standing(&self.database.engine().snapshot())?;
        Ok(standing.map(|standing| standing.limits.clone()).unwrap_or_default())
    }

    /// The threads that the user's statements run on; `None` for those of the database.
    ///
    /// # Errors
    /// Where the system has no threads.
    pub fn threads(&self, limits: &Limits) -> Result<Option<Arc<Threads>>> {
        match self.owner() {
            Some(user) => {
                self.database.shares().threads(user, self.database.query_threads(), limits.weight())
            }
            None => Ok(None),
        }
    }

    /// How long the user's next rows are to wait for those before, by their limit of rows a second; none at all where they
    /// have no limit any more.
    ///
    /// # Errors
    /// Where the user was dropped, and where a client that waits for an answer would wait longer than a minute.
    fn debt(&self, is_answered: bool) -> Result<Duration> {
        /// The longest that a client waits for its turn.
        const TURN_MAX: Duration = Duration::from_secs(60);
        let (Some(user), Some(rate)) = (self.owner(), self.limits()?.ingest_rows()) else {
            return Ok(Duration::ZERO);
        };
        let debt = self.database.shares().debt(user, rate);
        if is_answered && debt > TURN_MAX {
            let (name, seconds) = (self.name(), debt.as_secs());
            let what = format!(
                "user '{name}' has added more than ingest_rows_per_second, {rate}: the next rows are due in {seconds} s"
            );
            return Err(
                QueryError::new(ErrorKind::Retry, what).hint("send them again then, nothing was stored")
            );
        }
        Ok(debt)
    }

    /// Waits until the user's next rows may be added, by their limit of rows a second. A client that waits for an answer
    /// (`is_answered`) is told where that takes long; another one waits as long as it takes.
    ///
    /// # Errors
    /// Where the user was dropped, and where they are to come back in more than a minute.
    pub async fn turn(&self, is_answered: bool) -> Result<()> {
        if let Some(user) = self.owner() {
            self.database.shares().make_room(user);
        }
        loop {
            match self.debt(is_answered)? {
                Duration::ZERO => return Ok(()),
                debt => tokio::time::sleep(debt.min(TURN)).await,
            }
        }
    }

    /// Counts rows that the user added, so that the next wait for their turn.
    pub fn charge(&self, rows: u64) {
        // Whoever was dropped meanwhile adds none any more.
        let rate = self.limits().ok().and_then(|limits| limits.ingest_rows());
        if let (Some(user), Some(rate)) = (self.owner(), rate) {
            self.database.shares().charge(user, rows, rate);
        }
    }

    /// The number of the user, who owns what they make.
    pub fn owner(&self) -> Option<u32> {
        self.who.as_ref().filter(|who| !who.is_nobody()).map(|who| who.user)
    }

    /// The database that it is a way to.
    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    /// Whether it is the same user's, or nobody's as well.
    pub fn is_of(&self, other: &Access) -> bool {
        self.owner() == other.owner() && self.who.is_none() == other.who.is_none()
    }

    /// A table to all of which the user has these rights; `None` where there is none that they may see.
    ///
    /// # Errors
    /// Where the user sees it and lacks a right to all of it, or was dropped.
    pub fn table(&self, rights: Rights, name: &str) -> Result<Option<Reached>> {
        let snapshot = self.database.engine().snapshot();
        let standing = self.standing(&snapshot)?;
        let Some(table) = snapshot.table(name) else { return Ok(None) };
        let schema = table.schema();
        let reached = Reached { id: table.id(), schema: Arc::clone(schema) };
        let Some(standing) = standing else { return Ok(Some(reached)) };
        let has = standing.with_all_of(schema);
        match has.has(rights) {
            _ if standing.with_any_of(schema).is_none() => Ok(None),
            true => Ok(Some(reached)),
            false => Err(standing.lacks(rights.without(has), Object::Table(schema.name()))),
        }
    }

    /// The statement that makes a table or view, as far as the user may know it.
    pub fn ddl_of(&self, schema: &TableSchema) -> String {
        let standing = self.standing(&self.database.engine().snapshot());
        match standing {
            Ok(None) => ddl(schema),
            Ok(Some(standing)) if standing.knows_query_of(schema) => ddl(schema),
            _ => ddl(&schema.without_query()),
        }
    }

    /// Checks again, before rows that came for a table since are stored, that the user may.
    ///
    /// # Errors
    /// Where the user lacks one of the rights by now, or was dropped, and where the table was.
    pub fn still_may(&self, rights: Rights, reached: &Reached) -> Result<()> {
        let snapshot = self.database.engine().snapshot();
        let Some(standing) = self.standing(&snapshot)? else { return Ok(()) };
        let gone = || EngineError::TableGone { name: reached.schema.name().to_string() };
        let table = snapshot.table_by_id(reached.id).ok_or_else(gone)?.schema();
        let has = standing.with_all_of(table);
        match has.has(rights) {
            true => Ok(()),
            false => Err(standing.lacks(rights.without(has), Object::Table(reached.schema.name()))),
        }
    }

    /// Puts a table that was filled aside in the place of the one that has a name: of whichever has it by now, where the
    /// user may replace that one.
    ///
    /// # Errors
    /// Where the user may not, and as [`Aside::take_place_of`].
    pub fn put_in_place(&self, aside: &Aside, name: &str) -> Result<()> {
        let number = |snapshot: &Snapshot| snapshot.table(name).map(|there| there.id());
        loop {
            let there = number(&self.database.engine().snapshot());
            match there {
                Some(old) => {
                    self.may(Rights::ALTER, name)?;
                    let full = self.database.engine().snapshot();
                    if let Some(new) = aside.table().and_then(|new| full.table_by_id(new)) {
                        check_keeps_granted(&full, old, new.schema())?;
                    }
                }
                None => self.may_make(name)?,
            }
            match aside.take_place_of(there, name) {
                Err(_) if number(&self.database.engine().snapshot()) != there => {}
                Err(error) => {
                    let full = self.database.engine().snapshot();
                    let standing = self.standing(&full)?;
                    return Err(without_hidden_views(error, &full, standing.as_deref()).into());
                }
                Ok(()) => return Ok(()),
            }
        }
    }

    /// Checks rights to all of a table; one that the user may not see is missing.
    ///
    /// # Errors
    /// Where the user lacks one of them, or was dropped.
    pub fn may(&self, rights: Rights, table: &str) -> Result<()> {
        let snapshot = self.database.engine().snapshot();
        let Some(standing) = self.standing(&snapshot)? else { return Ok(()) };
        let Some(table) = snapshot.table(table) else { return Ok(()) };
        let has = standing.with_all_of(table.schema());
        match has.has(rights) {
            true => Ok(()),
            // Whether there is one that they may not see is not said.
            false
                if standing.with_any_of(table.schema()).is_none()
                    && !standing.everywhere().has(Rights::CREATE) =>
            {
                Err(standing.lacks(Rights::CREATE, Object::AllTables))
            }
            false => Err(standing.lacks(rights.without(has), Object::Table(table.schema().name()))),
        }
    }

    /// Checks that the user may add columns to a table that rows bring: by ALTER of it, or by CREATE.
    ///
    /// # Errors
    /// As [`Self::may`].
    pub fn may_extend(&self, table: &str) -> Result<()> {
        // Whoever is to add columns needs no right to drop them.
        let lacks = match self.may_everywhere(Rights::CREATE) {
            Ok(()) => return Ok(()),
            Err(lacks) => lacks,
        };
        self.may(Rights::ALTER, table).map_err(|_| {
            let what = format!(
                "user '{}' may not add columns to {table}: that needs CREATE, or ALTER on it",
                self.name()
            );
            let told = QueryError::request(what).state(SqlState::Denied);
            lacks.hint.map_or(told.clone(), |hint| told.hint(hint))
        })
    }

    /// Checks rights to all there is and will be: CREATE, ADMIN.
    ///
    /// # Errors
    /// Where the user lacks one of them, or was dropped.
    pub fn may_everywhere(&self, rights: Rights) -> Result<()> {
        let snapshot = self.database.engine().snapshot();
        let Some(standing) = self.standing(&snapshot)? else { return Ok(()) };
        match standing.everywhere().has(rights) {
            true => Ok(()),
            false => Err(standing.lacks(rights.without(standing.everywhere()), Object::AllTables)),
        }
    }

    /// Checks that the user may make a table of a name.
    ///
    /// # Errors
    /// Where they may make none, or none of the name, or were dropped.
    pub fn may_make(&self, table: &str) -> Result<()> {
        self.may_everywhere(Rights::CREATE)?;
        let snapshot = self.database.engine().snapshot();
        self.standing(&snapshot)?.map_or(Ok(()), |standing| standing.check_name(&snapshot, table))
    }

    /// A stream, which is made where it is not there, and is its user's then: they read, append to, change and drop it.
    /// It blocks until the disk has it.
    ///
    /// # Errors
    /// Where there is one and `is_new` wants none, and those of the engine.
    pub fn make_stream(&self, name: &str, settings: StreamSettings, is_new: bool) -> Result<Stream> {
        let streams = self.database.engine().streams();
        let made = || match is_new {
            true => streams.create(name, settings),
            false => streams.get_or_create(name, settings),
        };
        let shares = self.database.shares();
        let _alone = shares.making_streams();
        if streams.get(name).is_ok() {
            return Ok(made()?);
        }
        // First what its user may do with it, so that no kill leaves a stream that is nobody's; what one leaves of grants
        // without a stream goes here.
        let granted = self.owner().map(|user| BTreeMap::from([(user, Rights::STREAM | Rights::ALTER)]));
        self.database.set_stream_grants(name, granted)?;
        Ok(made()?)
    }

    /// Checks rights to a stream.
    ///
    /// # Errors
    /// Where the user lacks one of them, or was dropped.
    pub fn may_stream(&self, rights: Rights, stream: &str) -> Result<()> {
        let snapshot = self.database.engine().snapshot();
        let Some(standing) = self.standing(&snapshot)? else { return Ok(()) };
        let has = standing.with_stream(stream);
        match has.has(rights) {
            true => Ok(()),
            false => Err(standing.lacks(rights.without(has), Object::Stream(stream))),
        }
    }
}

impl Database {
    /// Has nobody's rows wait for their turn any more, for when a server is to end: what has come is stored. The next
    /// server over the database has them wait again.
    pub fn hurry(&self, hurries: bool) {
        self.shares().hurry(hurries);
    }

    /// Drops a stream, and what was granted on it.
    ///
    /// # Errors
    /// Where there is none, unless `if_exists`, and those of the engine.
    pub(crate) fn drop_stream(&self, name: &str, if_exists: bool) -> Result<()> {
        let _alone = self.shares().making_streams();
        match self.engine().streams().drop(name) {
            Err(EngineError::NoSuchStream { .. }) if if_exists => return Ok(()),
            other => other?,
        }
        self.set_stream_grants(name, None)
    }

    /// Puts grants in the place of those on a stream.
    fn set_stream_grants(&self, name: &str, granted: Option<BTreeMap<u32, Rights>>) -> Result<()> {
        let now = self.accounts(&self.engine().snapshot())?;
        let there = now.as_ref().and_then(|now| now.accounts.streams.get(name));
        if there == granted.as_ref() {
            return Ok(());
        }
        self.change_accounts(|all| {
            match granted {
                Some(granted) => all.streams.insert(name.to_string(), granted),
                None => all.streams.remove(name),
            };
            Ok(())
        })
    }

    /// Whether everybody must say who they are.
    ///
    /// # Errors
    /// Where this build cannot read the users: then nobody may connect.
    pub fn has_users(&self) -> Result<bool> {
        let now = self.accounts(&self.engine().snapshot())?;
        Ok(now.is_some_and(|now| now.accounts.has_users()))
    }

    /// What a user's password is proved by. One for a name that is no user's, or has no password, looks like any other,
    /// and no password is right for it.
    ///
    /// # Errors
    /// As [`Self::has_users`].
    pub fn verifier(&self, user: &str) -> Result<Verifier> {
        let now = self.accounts(&self.engine().snapshot())?.unwrap_or_default();
        let found = now.accounts.named(user).and_then(|(_, account)| account.verifier.clone());
        if let Some(verifier) = found {
            return Ok(verifier);
        }
        Ok(Verifier::of_nobody(&tickstone_model::folded_name(user), now.accounts.mock.as_bytes()))
    }

    /// The access of a user who has proved to be that.
    ///
    /// # Errors
    /// Where there is no such user.
    pub fn access_of(&self, user: &str) -> Result<Access> {
        let now = self.accounts(&self.engine().snapshot())?.unwrap_or_default();
        let (number, account) = now.accounts.named(user).ok_or_else(|| missing("user", user))?;
        if !account.is_user {
            return Err(missing("user", user));
        }
        let who = Who { user: number, name: account.name.as_str().into(), token: None };
        Ok(Access::of(self, Some(who)))
    }

    /// The access of a user by their password. It takes the time of some thousand hashes, whoever asks.
    ///
    /// # Errors
    /// Where it is not the password, or there is no such user: the same error.
    pub fn access_by_password(&self, user: &str, password: &str) -> Result<Access> {
        let wrong = || QueryError::request(WRONG).state(SqlState::WrongPassword);
        if !self.held_accounts().is_proved(user, password, &self.verifier(user)?)? {
            return Err(wrong());
        }
        self.access_of(user).map_err(|_| wrong())
    }

    /// The access of a user by a token.
    ///
    /// # Errors
    /// Where it is none, or has expired.
    pub fn access_by_token(&self, token: &str) -> Result<Access> {
        let wrong = || QueryError::request(WRONG).state(SqlState::WrongPassword);
        let now = self.accounts(&self.engine().snapshot())?.unwrap_or_default();
        let hash = token_hash(token);
        // All are compared: the time says nothing of which it is.
        let mut found = None;
        for kept in &now.accounts.tokens {
            if matches!(&kept.proof, Proof::Hash(kept) if is_same(kept.as_bytes(), hash.as_bytes())) {
                found = Some(kept);
            }
        }
        self.access_with(&now.accounts, found.ok_or_else(wrong)?)
    }

    /// The access of a user who signed a message with the key of one of their tokens.
    ///
    /// # Errors
    /// Where no key of theirs did, or there is no such user: the same error. Where it has expired.
    pub fn access_by_signature(&self, user: &str, message: &[u8], signature: &[u8]) -> Result<Access> {
        let wrong = || QueryError::request(WRONG).state(SqlState::WrongPassword);
        let now = self.accounts(&self.engine().snapshot())?.unwrap_or_default();
        let number = now.accounts.named(user).map(|(number, _)| number);
        let mut found = None;
        for kept in &now.accounts.tokens {
            if let Proof::Key(key) = &kept.proof
                && Some(kept.user) == number
                && key.has_signed(message, signature)
            {
                found = Some(kept);
            }
        }
        self.access_with(&now.accounts, found.ok_or_else(wrong)?)
    }

    /// The access of whoever has a token; that it has expired is told to them alone.
    fn access_with(&self, accounts: &Accounts, kept: &Token) -> Result<Access> {
        let wrong = |what: String| QueryError::request(what).state(SqlState::WrongPassword);
        if !kept.is_valid() {
            return Err(
                wrong(format!("token '{}' has expired", kept.name)).hint("CREATE TOKEN makes another")
            );
        }
        let name = accounts.name_of(kept.user).ok_or_else(|| wrong(WRONG.to_string()))?.into();
        let who = Who { user: kept.user, name, token: Some(kept.number) };
        Ok(Access::of(self, Some(who)))
    }
}

/// What is said of a wrong password, a wrong token, and a user that there is not.
const WRONG: &str = "wrong user, password or token";
