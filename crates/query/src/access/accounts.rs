//! Who may connect: users, roles and tokens, and what they may do with all there is.
//!
//! They are one text of the database ([`Snapshot::accounts`](tickstone_engine::Snapshot::accounts)), JSON. Every user and
//! role has a number that nobody else had or will have: what was granted to one that is gone is nobody's.

use super::limits::{Limit, Limits};
use super::now_ns;
use super::secret::{PublicKey, Verifier};
use crate::error::SqlState;
use crate::error::{QueryError, Result};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tickstone_engine::ErrorKind;
use tickstone_model::{Rights, fault_of_name, is_same_name};

/// Most users, roles and tokens together: all of them are one text.
const ACCOUNTS_MAX: usize = 10_000;
/// Numbers below are those of ready-made roles.
const FIRST: u32 = 16;

/// The roles that are always there: number, name, what they may do with all tables, views and streams.
pub(crate) const READY_MADE: [(u32, &str, Rights); 3] =
    [(1, "reader", READER), (2, "writer", WRITER), (3, "admin", Rights::ALL)];
const READER: Rights = union(&[Rights::SELECT, Rights::SUBSCRIBE]);
const WRITER: Rights = union(&[READER, Rights::INSERT, Rights::CREATE, Rights::STREAM]);

const fn union(rights: &[Rights]) -> Rights {
    let (mut bits, mut place) = (0, 0);
    while place < rights.len() {
        bits |= rights[place].bits();
        place += 1;
    }
    match Rights::from_bits(bits) {
        Some(rights) => rights,
        None => Rights::NONE,
    }
}

/// A user, who can connect, or a role, which cannot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) is_user: bool,
    pub(crate) verifier: Option<Verifier>,
    /// The numbers of the roles it has.
    pub(crate) roles: BTreeSet<u32>,
    /// What it may do with all tables and views, and with all streams.
    pub(crate) on_tables: Rights,
    pub(crate) on_streams: Rights,
    /// How much of what all share it may take.
    pub(crate) limits: Limits,
}

/// What stands for a password of a user's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) number: u32,
    pub(crate) name: String,
    /// The number of its user.
    pub(crate) user: u32,
    pub(crate) proof: Proof,
    /// When it is none any more, in ns since the Unix epoch.
    pub(crate) expires: Option<i64>,
}

impl Token {
    /// Whether it has not expired.
    pub(crate) fn is_valid(&self) -> bool {
        self.expires.is_none_or(|at| at > now_ns())
    }
}

/// What a token is known by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The hash of its text.
    Hash(String),
    /// The key that checks what it signed.
    Key(PublicKey),
}

impl Proof {
    /// What SHOW TOKENS calls it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Proof::Hash(_) => "BEARER",
            Proof::Key(_) => "ES256",
        }
    }
}

/// All of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Accounts {
    next: u32,
    /// What the salts of names that are no user's are made of, so that they outlive the process as those of users do.
    pub(crate) mock: String,
    pub(crate) accounts: BTreeMap<u32, Account>,
    pub(crate) tokens: Vec<Token>,
    /// What was granted of one stream, by its name.
    pub(crate) streams: BTreeMap<String, BTreeMap<u32, Rights>>,
}

impl Default for Accounts {
    fn default() -> Self {
        Self {
            next: FIRST,
            mock: String::new(),
            accounts: BTreeMap::new(),
            tokens: Vec::new(),
            streams: BTreeMap::new(),
        }
    }
}

impl Accounts {
    /// Gives none of these numbers to anybody new.
    pub(crate) fn keep_free(&mut self, numbers: impl Iterator<Item = u32>) {
        let above = numbers.filter_map(|number| number.checked_add(1)).max();
        self.next = self.next.max(above.unwrap_or_default());
    }

    /// Whether anybody must say who they are.
    pub(crate) fn has_users(&self) -> bool {
        self.accounts.values().any(|account| account.is_user)
    }

    /// A user or role by its name, in any case.
    pub(crate) fn named(&self, name: &str) -> Option<(u32, &Account)> {
        let found = self.accounts.iter().find(|(_, account)| is_same_name(&account.name, name));
        found.map(|(number, account)| (*number, account))
    }

    /// The number of a user or role, ready-made ones included.
    ///
    /// # Errors
    /// Where there is none.
    pub(crate) fn number(&self, name: &str) -> Result<u32> {
        let ready = READY_MADE.iter().find(|(_, ready, _)| is_same_name(ready, name));
        let found = ready.map(|(number, ..)| *number).or_else(|| Some(self.named(name)?.0));
        found.ok_or_else(|| missing("user or role", name))
    }

    /// The name of a user or role by its number.
    pub(crate) fn name_of(&self, number: u32) -> Option<&str> {
        let ready = READY_MADE.iter().find(|(other, ..)| *other == number).map(|(_, name, _)| *name);
        ready.or_else(|| Some(self.accounts.get(&number)?.name.as_str()))
    }

    /// Makes a user or a role.
    ///
    /// # Errors
    /// Where the name is none, or that of another.
    pub(crate) fn create(&mut self, name: &str, is_user: bool, verifier: Option<Verifier>) -> Result<u32> {
        let kind = if is_user { "user" } else { "role" };
        if let Some(fault) = fault_of_name(name) {
            return Err(QueryError::request(format!("a {kind} cannot be called '{name}': {fault}")));
        }
        if name.contains(':') {
            return Err(QueryError::request(format!(
                "a {kind} cannot be called '{name}': HTTP ends names at ':'"
            )));
        }
        // Whoever has the files is called so in PostgreSQL's catalog, and owns what is nobody's.
        if self.number(name).is_ok() || ["public", "tickstone"].iter().any(|taken| is_same_name(name, taken))
        {
            let what = format!("there is a user or role '{name}' already");
            return Err(QueryError::request(what).state(SqlState::DuplicateObject));
        }
        self.check_room()?;
        let number = self.next;
        self.next += 1;
        let (roles, on_tables, on_streams) = (BTreeSet::new(), Rights::NONE, Rights::NONE);
        let account = Account {
            name: name.to_string(),
            is_user,
            verifier,
            roles,
            on_tables,
            on_streams,
            limits: Limits::default(),
        };
        self.accounts.insert(number, account);
        Ok(number)
    }

    fn check_room(&self) -> Result<()> {
        if self.accounts.len() + self.tokens.len() < ACCOUNTS_MAX {
            return Ok(());
        }
        Err(QueryError::request(format!(
            "there are {ACCOUNTS_MAX} users, roles and tokens, the most there may be"
        )))
    }

    /// Drops a user or a role, and what it had.
    pub(crate) fn drop(&mut self, number: u32) {
        self.accounts.remove(&number);
        self.tokens.retain(|token| token.user != number);
        self.accounts.values_mut().for_each(|account| {
            account.roles.remove(&number);
        });
        self.streams.values_mut().for_each(|granted| {
            granted.remove(&number);
        });
        self.streams.retain(|_, granted| !granted.is_empty());
    }

    /// Keeps a token of a user. Names are those of one user's tokens: others' are not told of.
    ///
    /// # Errors
    /// Where the user has one of the name.
    pub(crate) fn create_token(
        &mut self,
        name: &str,
        user: u32,
        proof: Proof,
        expires: Option<i64>,
    ) -> Result<()> {
        if self.tokens.iter().any(|token| token.user == user && is_same_name(&token.name, name)) {
            let what = format!("there is a token '{name}' already");
            return Err(QueryError::request(what).state(SqlState::DuplicateObject));
        }
        self.check_room()?;
        let number = self.next;
        self.next += 1;
        self.tokens.push(Token { number, name: name.to_string(), user, proof, expires });
        Ok(())
    }

    /// The numbers of a user and of all roles that it has, also through others.
    pub(crate) fn numbers_of(&self, user: u32) -> BTreeSet<u32> {
        let mut numbers = BTreeSet::from([user]);
        let mut left = vec![user];
        while let Some(number) = left.pop() {
            for role in self.accounts.get(&number).into_iter().flat_map(|account| &account.roles) {
                if numbers.insert(*role) {
                    left.push(*role);
                }
            }
        }
        numbers
    }

    /// Whether a role would have itself, through others, if `of` had it.
    pub(crate) fn would_loop(&self, of: u32, role: u32) -> bool {
        self.numbers_of(role).contains(&of)
    }

    /// As text.
    pub(crate) fn to_text(&self) -> String {
        let account = |(number, account): (&u32, &Account)| {
            let mut fields = Map::new();
            fields.insert("number".into(), json!(number));
            fields.insert("name".into(), json!(account.name));
            fields.insert("user".into(), json!(account.is_user));
            if let Some(verifier) = &account.verifier {
                fields.insert("verifier".into(), json!(verifier.to_text()));
            }
            fields.insert("roles".into(), json!(account.roles.iter().collect::<Vec<_>>()));
            fields.insert("tables".into(), json!(account.on_tables.bits()));
            fields.insert("streams".into(), json!(account.on_streams.bits()));
            let limits = account.limits.iter().map(|(limit, value)| (limit.name().to_string(), json!(value)));
            fields.insert("limits".into(), Value::Object(limits.collect()));
            Value::Object(fields)
        };
        let token = |token: &Token| {
            let proof = match &token.proof {
                Proof::Hash(hash) => ("hash", json!(hash)),
                Proof::Key(key) => ("key", json!([key.x, key.y])),
            };
            json!({
                "number": token.number, "name": token.name, "user": token.user, proof.0: proof.1,
                "expires": token.expires,
            })
        };
        let stream = |(name, granted): (&String, &BTreeMap<u32, Rights>)| {
            let granted: Vec<Value> =
                granted.iter().map(|(number, rights)| json!([number, rights.bits()])).collect();
            json!({"name": name, "granted": granted})
        };
        json!({
            "version": 1,
            "next": self.next,
            "mock": self.mock,
            "accounts": self.accounts.iter().map(account).collect::<Vec<_>>(),
            "tokens": self.tokens.iter().map(token).collect::<Vec<_>>(),
            "streams": self.streams.iter().map(stream).collect::<Vec<_>>(),
        })
        .to_string()
    }

    /// Reads [`Self::to_text`].
    ///
    /// # Errors
    /// Where it is none of this version: nobody may do anything then.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        read(text).ok_or_else(|| {
            let what = "the users and grants of the database are not as this build writes them";
            QueryError::new(ErrorKind::Report, what).hint("open it with the build that wrote them last")
        })
    }
}

fn read(text: &str) -> Option<Accounts> {
    let all: Value = serde_json::from_str(text).ok()?;
    if all.get("version")?.as_u64()? != 1 {
        return None;
    }
    let number = |value: &Value| u32::try_from(value.as_u64()?).ok();
    let rights = |value: &Value| Rights::from_bits(number(value)?);
    let string = |value: &Value| value.as_str().map(str::to_string);
    let account = |value: &Value| {
        let verifier = match value.get("verifier") {
            Some(text) => Some(Verifier::parse(text.as_str()?)?),
            None => None,
        };
        let account = Account {
            name: string(value.get("name")?)?,
            is_user: value.get("user")?.as_bool()?,
            verifier,
            roles: value.get("roles")?.as_array()?.iter().map(number).collect::<Option<_>>()?,
            on_tables: rights(value.get("tables")?)?,
            on_streams: rights(value.get("streams")?)?,
            limits: limits(value.get("limits")?)?,
        };
        Some((number(value.get("number")?)?, account))
    };
    let token = |value: &Value| {
        let expires = match value.get("expires")? {
            Value::Null => None,
            at => Some(at.as_i64()?),
        };
        let proof = match value.get("key") {
            Some(key) => Proof::Key(PublicKey::of(key.get(0)?.as_str()?, key.get(1)?.as_str()?)?),
            None => Proof::Hash(string(value.get("hash")?)?),
        };
        Some(Token {
            number: number(value.get("number")?)?,
            name: string(value.get("name")?)?,
            user: number(value.get("user")?)?,
            proof,
            expires,
        })
    };
    let stream = |value: &Value| {
        let granted = |pair: &Value| Some((number(pair.get(0)?)?, rights(pair.get(1)?)?));
        let granted = value.get("granted")?.as_array()?.iter().map(granted).collect::<Option<_>>()?;
        Some((string(value.get("name")?)?, granted))
    };
    let array = |name: &str| all.get(name)?.as_array();
    Some(Accounts {
        next: number(all.get("next")?)?,
        mock: string(all.get("mock")?)?,
        accounts: array("accounts")?.iter().map(account).collect::<Option<_>>()?,
        tokens: array("tokens")?.iter().map(token).collect::<Option<_>>()?,
        streams: array("streams")?.iter().map(stream).collect::<Option<_>>()?,
    })
}

/// The limits of a user or role; `None` where one is not known to this build.
fn limits(value: &Value) -> Option<Limits> {
    let mut limits = Limits::default();
    for (name, value) in value.as_object()? {
        limits.set(Limit::named(name).ok()?, Some(value.as_u64()?));
    }
    Some(limits)
}

/// That there is no such user, role or token.
pub(crate) fn missing(kind: &str, name: &str) -> QueryError {
    QueryError::request(format!("there is no {kind} '{name}'")).state(SqlState::UndefinedObject)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_read_as_they_were_written() {
        let mut all = Accounts::default();
        assert!(!all.has_users());
        let desk = all.create("desk", false, None).expect("a role");
        let verifier = Verifier::of_password("x").expect("random numbers");
        let ann = all.create("Ann \"\u{e9}\"", true, Some(verifier)).expect("a user");
        all.accounts.get_mut(&ann).expect("there").roles.extend([desk, 1]);
        all.accounts.get_mut(&desk).expect("there").on_tables = Rights::INSERT;
        all.streams.insert("raw".into(), BTreeMap::from([(ann, Rights::STREAM)]));
        if let Some(account) = all.accounts.get_mut(&ann) {
            account.limits.set(Limit::Rows, Some(u64::MAX));
            account.limits.set(Limit::StatementTimeout, Some(1));
        }
        all.create_token("t", ann, Proof::Hash("h".into()), Some(i64::MAX)).expect("a token");
        let (_, key) = PublicKey::new_pair().expect("random numbers");
        all.create_token("u", ann, Proof::Key(key), None).expect("a token");
        assert_eq!(Accounts::parse(&all.to_text()).expect("sound"), all);
        assert_eq!(all.numbers_of(ann), BTreeSet::from([1, desk, ann]));
        assert!(all.would_loop(desk, ann) && !all.would_loop(ann, desk));
        for wrong in ["", "{}", "{\"version\": 2}", &all.to_text().replace("\"user\":", "\"usr\":")] {
            assert!(Accounts::parse(wrong).is_err(), "{wrong}");
        }

        // Whoever comes next is not who went.
        all.drop(ann);
        assert!(all.tokens.is_empty() && all.streams.is_empty());
        assert!(all.create("ann \"\u{e9}\"", true, None).expect("a user") > ann);
    }

    #[test]
    fn names_are_taken_once() {
        let mut all = Accounts::default();
        all.create("ann", true, None).expect("a user");
        for taken in ["ann", "ANN", "reader", "Admin", "public"] {
            assert!(all.create(taken, false, None).is_err(), "{taken}");
        }
        for no_name in ["", "a:b", "a\nb"] {
            assert!(all.create(no_name, true, None).is_err(), "{no_name:?}");
        }
    }
}
