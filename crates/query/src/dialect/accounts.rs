//! CREATE, ALTER and DROP USER, ROLE and TOKEN; GRANT and REVOKE; SHOW USERS, TOKENS and GRANTS.

use super::cursor::{Cursor, Result, Tokens, is_word};
use super::view::text_of;
use super::{SqlError, Statement};
use sqlparser::ast::{Expr, Value, Visit, Visitor};
use sqlparser::tokenizer::Token;
use std::fmt;
use std::ops::ControlFlow;
use tickstone_model::Rights;

/// What a user's password is, or a verifier of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A statement about users, roles, tokens and what they may do. Names are in lower case unless they were quoted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accounts {
    /// CREATE USER [IF NOT EXISTS] u [[WITH] PASSWORD 'x'] [IN ROLE r, …], CREATE ROLE [IF NOT EXISTS] r.
    Create {
        /// Its name.
        name: String,
        /// Whether it is a user's.
        is_user: bool,
        /// Whether one that is there is no error.
        if_not_exists: bool,
        /// Its password.
        password: Option<Secret>,
        /// The roles it has from the beginning.
        roles: Vec<String>,
    },
    /// ALTER USER u [WITH] PASSWORD {'x' | NULL}.
    Alter {
        /// The user.
        name: String,
        /// The new password; none where it is NULL.
        password: Option<Secret>,
    },
    /// ALTER USER u SET limit = value, ALTER ROLE r RESET {limit | ALL}.
    Limit {
        /// The user or role.
        name: String,
        /// Whether it is a user.
        is_user: bool,
        /// The limit, as written; all of them where there is none.
        limit: Option<String>,
        /// What it is to be; none where it is taken away.
        value: Option<String>,
    },
    /// DROP USER [IF EXISTS] u, …, DROP ROLE [IF EXISTS] r, ….
    Drop {
        /// The users or roles.
        names: Vec<String>,
        /// Whether they are users.
        is_user: bool,
        /// Whether a missing one is no error.
        if_exists: bool,
    },
    /// CREATE TOKEN t [FOR user] [TYPE ES256 [KEY ('x', 'y')]] [EXPIRES 'instant'].
    CreateToken {
        /// Its name.
        name: String,
        /// Whose it is; the own of who makes it where nobody is said.
        user: Option<String>,
        /// Whether it is a key that signs, not a text.
        signs: bool,
        /// The public key of a pair that somebody else made: its x and y.
        key: Option<(String, String)>,
        /// When it is none any more.
        expires: Option<String>,
    },
    /// DROP TOKEN [IF EXISTS] t, … [FOR user].
    DropToken {
        /// The tokens.
        names: Vec<String>,
        /// Whose; where nobody is said the user's own, and of an admin's statement anybody's.
        user: Option<String>,
        /// Whether a missing one is no error.
        if_exists: bool,
    },
    /// GRANT rights ON … TO …, REVOKE rights ON … FROM ….
    Rights {
        /// What they may do.
        rights: Rights,
        /// With what.
        on: On,
        /// The columns it is for, as written; all where there are none.
        columns: Vec<String>,
        /// The condition of the rows it is for.
        filter: Option<String>,
        /// The users and roles.
        who: Vec<String>,
        /// Whether it is taken away.
        revokes: bool,
    },
    /// GRANT role, … TO user, …, REVOKE role, … FROM user, ….
    Roles {
        /// The roles.
        roles: Vec<String>,
        /// Who has them, or has them no longer.
        who: Vec<String>,
        /// Whether they are taken away.
        revokes: bool,
    },
    /// ALTER {TABLE | VIEW | MATERIALIZED VIEW} name OWNER TO user.
    Owner {
        /// The table or view, as written.
        name: String,
        /// Whose it is from now on.
        to: String,
    },
    /// REASSIGN OWNED BY user TO user.
    Reassign {
        /// Whose tables and views.
        from: String,
        /// Whose they are from now on.
        to: String,
    },
    /// SHOW USERS.
    ShowUsers,
    /// SHOW TOKENS.
    ShowTokens,
    /// SHOW LIMITS.
    ShowLimits,
    /// SHOW GRANTS [FOR user or role].
    ShowGrants {
        /// Whose; all where nobody is said.
        of: Option<String>,
    },
}

impl Accounts {
    /// What it is called.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Accounts::Create { is_user: true, .. } => "CREATE USER",
            Accounts::Create { is_user: false, .. } => "CREATE ROLE",
            Accounts::Alter { .. } | Accounts::Limit { is_user: true, .. } => "ALTER USER",
            Accounts::Limit { is_user: false, .. } => "ALTER ROLE",
            Accounts::Drop { is_user: true, .. } => "DROP USER",
            Accounts::Drop { is_user: false, .. } => "DROP ROLE",
            Accounts::CreateToken { .. } => "CREATE TOKEN",
            Accounts::DropToken { .. } => "DROP TOKEN",
            Accounts::Rights { revokes: false, .. } | Accounts::Roles { revokes: false, .. } => "GRANT",
            Accounts::Rights { revokes: true, .. } | Accounts::Roles { revokes: true, .. } => "REVOKE",
            Accounts::Owner { .. } => "ALTER TABLE",
            Accounts::Reassign { .. } => "REASSIGN OWNED",
            Accounts::ShowUsers
            | Accounts::ShowTokens
            | Accounts::ShowLimits
            | Accounts::ShowGrants { .. } => "SHOW",
        }
    }

    /// The names of the columns that CREATE TOKEN gives, all of them texts; none of any other.
    pub(crate) fn token_columns(&self) -> &'static [&'static str] {
        match self {
            Accounts::CreateToken { signs: true, .. } => &["token", "token_x", "token_y", "name", "user"],
            Accounts::CreateToken { signs: false, .. } => &["token", "name", "user"],
            _ => &[],
        }
    }

    /// Whether it only shows what there is.
    pub(super) fn shows(&self) -> bool {
        matches!(
            self,
            Accounts::ShowUsers | Accounts::ShowTokens | Accounts::ShowLimits | Accounts::ShowGrants { .. }
        )
    }

    /// The same without its password, where its text may have one.
    pub(crate) fn without_secret(&self) -> Option<String> {
        let has = |password: &Option<Secret>| if password.is_some() { " PASSWORD '…'" } else { "" };
        match self {
            Accounts::Create { name, password, roles, if_not_exists, .. } => {
                let roles: Vec<String> = roles.iter().map(|role| named(role)).collect();
                let of_roles =
                    if roles.is_empty() { String::new() } else { format!(" IN ROLE {}", roles.join(", ")) };
                let keeps = if *if_not_exists { " IF NOT EXISTS" } else { "" };
                Some(format!("{}{keeps} {}{}{of_roles}", self.kind(), named(name), has(password)))
            }
            Accounts::Alter { name, password: None } => {
                Some(format!("{} {} PASSWORD NULL", self.kind(), named(name)))
            }
            Accounts::Alter { name, password } => {
                Some(format!("{} {}{}", self.kind(), named(name), has(password)))
            }
            _ => None,
        }
    }
}

/// A name as it is written, in quotes where it would read as something else.
fn named(name: &str) -> String {
    match !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || letter == '_') {
        true => name.to_string(),
        false => super::subscribe::quoted(name),
    }
}

/// What rights are granted on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum On {
    /// Tables and views, as written.
    Tables(Vec<String>),
    /// Streams, as written.
    Streams(Vec<String>),
    /// All tables and views, also those to come.
    AllTables,
    /// All streams, also those to come.
    AllStreams,
    /// Everything.
    All,
}

fn finish(cursor: &Cursor<'_>, statement: Accounts) -> Result<Statement> {
    cursor.expect_end()?;
    Ok(Statement::Accounts(Box::new(statement)))
}

fn who(cursor: &mut Cursor<'_>) -> Result<String> {
    cursor.folded_name("the name of a user or role")
}

/// A user or role of GRANT and REVOKE: `ann`, `USER ann`, `ROLE desk`.
fn grantee(cursor: &mut Cursor<'_>) -> Result<String> {
    let is_kind = ["USER", "ROLE", "GROUP"].iter().any(|word| cursor.words(&[word]));
    let ends = ["WITH", "CASCADE", "RESTRICT", "GRANTED"];
    if is_kind
        && cursor.ahead(1).is_some_and(|next| {
            matches!(next, Token::Word(_)) && !ends.iter().any(|word| is_word(next, word))
        })
    {
        cursor.skip(1);
    }
    who(cursor)
}

fn several(
    cursor: &mut Cursor<'_>,
    mut one: impl FnMut(&mut Cursor<'_>) -> Result<String>,
) -> Result<Vec<String>> {
    let mut all = vec![one(cursor)?];
    while cursor.eat_token(&Token::Comma) {
        all.push(one(cursor)?);
    }
    Ok(all)
}

/// CREATE USER, CREATE ROLE.
pub(super) fn create(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["CREATE"])?;
    let mut is_user = !cursor.eat(&["ROLE"]);
    if is_user {
        cursor.expect(&["USER"])?;
    }
    let if_not_exists = cursor.eat(&["IF", "NOT", "EXISTS"]);
    let name = who(cursor)?;
    let (mut password, mut roles) = (None, Vec::new());
    cursor.eat(&["WITH"]);
    let mut has_password = None;
    while !cursor.is_end() {
        if cursor.eat(&["LOGIN"]) {
            // What PostgreSQL calls a role that can connect.
            is_user = true;
            continue;
        }
        if SAID_OF_ALL.iter().any(|word| cursor.eat(&[word])) || (!is_user && cursor.eat(&["NOLOGIN"])) {
            continue;
        }
        if let Some((word, hint)) = UNKNOWN_OPTIONS.iter().find(|(word, _)| cursor.words(&[word])) {
            let what = format!("{word} is not known of users and roles");
            return Err(SqlError::new(what, cursor.position()).hint(*hint));
        }
        if cursor.eat(&["IN", "ROLE"]) {
            roles = several(cursor, who)?;
        } else {
            has_password = Some(cursor.position());
            password = self::password(cursor)?;
        }
    }
    if let Some(at) = has_password.filter(|_| !is_user) {
        return Err(SqlError::new("a role has no password", at).hint("CREATE USER makes one who can connect"));
    }
    finish(cursor, Accounts::Create { name, is_user, if_not_exists, password, roles })
}

/// What PostgreSQL's clients write and what holds for all users anyway.
const SAID_OF_ALL: [&str; 7] =
    ["INHERIT", "NOSUPERUSER", "NOCREATEDB", "NOCREATEROLE", "NOREPLICATION", "NOBYPASSRLS", "WITH"];

/// Options of PostgreSQL's that there are not, and what to write.
const UNKNOWN_OPTIONS: [(&str, &str); 9] = [
    ("SUPERUSER", "IN ROLE admin"),
    ("CREATEDB", "GRANT CREATE ON ALL TABLES TO the user lets it make tables"),
    ("CREATEROLE", "IN ROLE admin: admins make users and roles"),
    ("BYPASSRLS", "GRANT SELECT ON the table without WHERE gives all its rows"),
    ("NOLOGIN", "CREATE ROLE makes one that cannot connect"),
    ("NOINHERIT", "whoever has a role has what was granted to it"),
    ("VALID", "tokens expire: CREATE TOKEN name FOR the user EXPIRES 'instant'"),
    ("CONNECTION", "ALTER USER the user SET max_connections = 10"),
    ("IDENTIFIED", "PASSWORD 'a password'"),
];

/// [ENCRYPTED] PASSWORD {'x' | NULL}.
fn password(cursor: &mut Cursor<'_>) -> Result<Option<Secret>> {
    cursor.eat(&["ENCRYPTED"]);
    cursor.expect(&["PASSWORD"])?;
    if cursor.eat(&["NULL"]) {
        return Ok(None);
    }
    // What stands there instead is not said: it may be the password.
    let wrong = |_| SqlError::new("expected a password in quotes, or NULL", cursor.position());
    let mut ahead = cursor.clone();
    let text = ahead.text("a password").map_err(wrong)?;
    *cursor = ahead;
    Ok(Some(Secret(text)))
}

/// ALTER USER, ALTER ROLE.
pub(super) fn alter(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["ALTER"])?;
    let is_user = !cursor.eat(&["ROLE"]);
    if is_user {
        cursor.expect(&["USER"])?;
    }
    let name = who(cursor)?;
    if cursor.eat(&["RESET"]) {
        let limit =
            if cursor.eat(&["ALL"]) { None } else { Some(cursor.folded_name("the name of a limit")?) };
        return finish(cursor, Accounts::Limit { name, is_user, limit, value: None });
    }
    for (word, hint) in OF_ALTER {
        if cursor.words(&[word]) {
            return Err(SqlError::new(format!("{word} is not known of users and roles"), cursor.position())
                .hint(hint));
        }
    }
    cursor.eat(&["WITH"]);
    if cursor.words(&["LOGIN"]) && cursor.ahead(1).is_some() {
        cursor.skip(1);
    }
    if cursor.words(&["SET"]) || !is_user && !cursor.words(&["PASSWORD"]) && !cursor.words(&["ENCRYPTED"]) {
        cursor.expect(&["SET"])?;
        let limit = Some(cursor.folded_name("the name of a limit")?);
        if !cursor.eat_token(&Token::Eq) {
            cursor.expect(&["TO"])?;
        }
        let value = if cursor.eat(&["DEFAULT"]) { None } else { Some(cursor.scalar()?) };
        return finish(cursor, Accounts::Limit { name, is_user, limit, value });
    }
    if !cursor.words(&["PASSWORD"]) && !cursor.words(&["ENCRYPTED"]) {
        return Err(SqlError::new("expected PASSWORD, SET or RESET", cursor.position())
            .hint("ALTER USER u PASSWORD '…', ALTER USER u SET max_rows = 1000; a user keeps its name"));
    }
    let password = password(cursor)?;
    finish(cursor, Accounts::Alter { name, password })
}

/// What other databases alter of users, and what to write here.
const OF_ALTER: [(&str, &str); 7] = [
    ("NOLOGIN", "ALTER USER ann SET max_connections = 0 lets ann in no more, RESET max_connections again"),
    ("DISABLE", "ALTER USER ann SET max_connections = 0 lets ann in no more, RESET max_connections again"),
    ("LOGIN", "RESET max_connections lets a user in again"),
    ("ENABLE", "RESET max_connections lets a user in again"),
    ("VALID", "tokens expire: CREATE TOKEN name FOR the user EXPIRES 'instant'"),
    ("CONNECTION", "ALTER USER the user SET max_connections = 10"),
    ("CREATE", "CREATE TOKEN name FOR the user"),
];

/// ALTER VIEW.
pub(super) fn alter_view(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["ALTER", "VIEW"])?;
    let name = cursor.table_name()?;
    if !cursor.words(&["OWNER"]) {
        return Err(SqlError::new("expected OWNER TO", cursor.position())
            .hint("CREATE OR REPLACE VIEW gives a view another query"));
    }
    owner(cursor, name)
}

/// OWNER TO user, of a table or view.
pub(super) fn owner(cursor: &mut Cursor<'_>, name: String) -> Result<Statement> {
    cursor.expect(&["OWNER", "TO"])?;
    let to = who(cursor)?;
    finish(cursor, Accounts::Owner { name, to })
}

/// DROP USER, DROP ROLE.
pub(super) fn drop(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["DROP"])?;
    let is_user = !cursor.eat(&["ROLE"]);
    if is_user {
        cursor.expect(&["USER"])?;
    }
    let if_exists = cursor.eat(&["IF", "EXISTS"]);
    let names = several(cursor, who)?;
    if cursor.words(&["CASCADE"]) {
        return Err(SqlError::new("DROP USER and DROP ROLE have no CASCADE", cursor.position()).hint(
            "grants and tokens go with the user; tables stay: DROP TABLE, or ALTER TABLE t OWNER TO another",
        ));
    }
    finish(cursor, Accounts::Drop { names, is_user, if_exists })
}

/// CREATE TOKEN.
pub(super) fn create_token(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["CREATE", "TOKEN"])?;
    let name = cursor.folded_name("the name of a token")?;
    let user = if cursor.eat(&["FOR"]) { Some(who(cursor)?) } else { None };
    let signs = cursor.eat(&["TYPE"]);
    if signs && cursor.words(&["REST"]) {
        return Err(SqlError::new("there are no tokens of type REST", cursor.position())
            .hint("leave TYPE REST out: a token is good for every protocol"));
    }
    if signs {
        cursor.expect(&["ES256"])?;
    }
    let key = match signs && cursor.eat(&["KEY"]) {
        false => None,
        true => {
            cursor.expect_token(&Token::LParen)?;
            let x = cursor.text("the x of a public key")?;
            cursor.expect_token(&Token::Comma)?;
            let y = cursor.text("the y of a public key")?;
            cursor.expect_token(&Token::RParen)?;
            Some((x, y))
        }
    };
    let expires = if cursor.eat(&["EXPIRES"]) { Some(cursor.text("an instant")?) } else { None };
    finish(cursor, Accounts::CreateToken { name, user, signs, key, expires })
}

/// DROP TOKEN.
pub(super) fn drop_token(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["DROP", "TOKEN"])?;
    let if_exists = cursor.eat(&["IF", "EXISTS"]);
    let names = several(cursor, |cursor| cursor.folded_name("the name of a token"))?;
    let user = if cursor.eat(&["FOR"]) { Some(who(cursor)?) } else { None };
    finish(cursor, Accounts::DropToken { names, user, if_exists })
}

/// GRANT and REVOKE; `sql` is the text that the tokens are of.
pub(super) fn grant(cursor: &mut Cursor<'_>, sql: &str) -> Result<Statement> {
    let revokes = cursor.eat(&["REVOKE"]);
    if !revokes {
        cursor.expect(&["GRANT"])?;
    }
    let before = if revokes { "FROM" } else { "TO" };
    if revokes && cursor.words(&["GRANT", "OPTION", "FOR"]) {
        let error = SqlError::new("what is granted cannot be granted on", cursor.position());
        return Err(error.hint("leave GRANT OPTION FOR out"));
    }
    for (place, tokens) in cursor.rest().windows(3).enumerate() {
        let is = |at: usize, word: &str| is_word(&tokens[at].token, word);
        let names = matches!(tokens[2].token, Token::Word(_)) && !is(2, before);
        let what = match is(0, "ON") && names {
            true if is(1, "SCHEMA") => "there is one schema, public, which all users may use",
            true if is(1, "DATABASE") => "there is one database, to which all users may connect",
            _ => continue,
        };
        cursor.skip(place);
        let hint = "leave it out; GRANT CREATE ON ALL TABLES TO ann lets ann make tables";
        return Err(SqlError::new(what, cursor.position()).hint(hint));
    }
    if !cursor.rest().iter().any(|token| is_word(&token.token, "ON")) {
        let roles = several(cursor, who)?;
        cursor.expect(&[before])?;
        let who = several(cursor, grantee)?;
        ended(cursor, revokes)?;
        return finish(cursor, Accounts::Roles { roles, who, revokes });
    }
    let mut columns = Vec::new();
    let rights = rights(cursor, &mut columns)?;
    cursor.expect(&["ON"])?;
    let on = on(cursor)?;
    if cursor.peek() == Some(&Token::LParen) {
        columns.extend(cursor.names("the name of a column")?);
    }
    let position = cursor.position();
    let filter = if cursor.eat(&["WHERE"]) { Some(condition(cursor, before, sql)?) } else { None };
    if (filter.is_some() || !columns.is_empty()) && !matches!(&on, On::Tables(names) if names.len() == 1) {
        return Err(SqlError::new("columns and WHERE are of one table", position));
    }
    if revokes && (filter.is_some() || !columns.is_empty()) {
        return Err(SqlError::new(
            "REVOKE takes a right away whatever rows and columns it was for",
            position,
        )
        .hint("leave columns and WHERE out, then GRANT what should stay"));
    }
    cursor.expect(&[before])?;
    let who = several(cursor, grantee)?;
    ended(cursor, revokes)?;
    finish(cursor, Accounts::Rights { rights, on, columns, filter, who, revokes })
}

/// What PostgreSQL has at the end of GRANT and REVOKE. Nobody hands on what was granted to them, so that a REVOKE takes
/// nothing from others, CASCADE or not.
fn ended(cursor: &mut Cursor<'_>, revokes: bool) -> Result<()> {
    if revokes {
        let _ = cursor.eat(&["CASCADE"]) || cursor.eat(&["RESTRICT"]);
    }
    match cursor.words(&["WITH"]) {
        true => Err(SqlError::new("what is granted cannot be granted on", cursor.position()).hint(
            "admins grant everything, and the owner of a table that table: ALTER TABLE t OWNER TO ann",
        )),
        false => Ok(()),
    }
}

/// The first words of other databases' statements about users and what they run, and what to write here.
const OF_OTHERS: [(&[&str], &str); 21] = [
    (
        &["CREATE", "SERVICE"],
        "CREATE USER makes one who connects by tokens alone, without PASSWORD: CREATE TOKEN name FOR the user",
    ),
    (&["DROP", "SERVICE"], "DROP USER"),
    (&["CREATE", "GROUP"], "CREATE ROLE desk, then GRANT desk TO ann"),
    (&["DROP", "GROUP"], "DROP ROLE"),
    (&["ADD", "USER"], "GRANT desk TO ann"),
    (&["SET", "ROLE"], ALL_ROLES),
    (&["SET", "SESSION", "AUTHORIZATION"], ALL_ROLES),
    (&["SHOW", "PERMISSIONS"], "SHOW GRANTS, or SHOW GRANTS FOR ann"),
    (&["SHOW", "ROLES"], "SHOW USERS lists users and roles"),
    (&["SHOW", "GROUPS"], "SHOW USERS lists users and roles"),
    (&["CREATE", "POLICY"], "GRANT SELECT ON t WHERE a condition TO ann gives the rows of the condition"),
    (&["ALTER", "DEFAULT", "PRIVILEGES"], "GRANT … ON ALL TABLES is for tables to come as well"),
    (
        &["CREATE", "ROW", "POLICY"],
        "GRANT SELECT ON t WHERE a condition TO ann gives the rows of the condition",
    ),
    (&["SHOW", "USER"], "SHOW USERS; SHOW GRANTS FOR ann, SHOW TOKENS and SHOW LIMITS have more"),
    (&["SHOW", "SERVICE"], "SHOW USERS lists users and roles"),
    (&["SHOW", "ROW"], "SHOW GRANTS has the conditions of rows"),
    (&["SHOW", "CURRENT", "USER"], "SELECT current_user"),
    (&["DROP", "OWNED"], "DROP USER takes a user's grants along; tables stay"),
    (&["KILL"], "CANCEL QUERY 7 ends a statement: SHOW QUERIES has its number, user and address"),
    (&["SHOW", "PROCESSLIST"], "SHOW QUERIES lists what runs"),
    (&["SHOW", "FULL", "PROCESSLIST"], "SHOW QUERIES lists what runs"),
];
const ALL_ROLES: &str =
    "who connects has the rights of all their roles at once; connect as another user for others";

/// REASSIGN OWNED BY user TO user.
pub(super) fn reassign(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["REASSIGN", "OWNED", "BY"])?;
    let from = who(cursor)?;
    cursor.expect(&["TO"])?;
    let to = who(cursor)?;
    finish(cursor, Accounts::Reassign { from, to })
}

/// Refuses a statement that other databases have about users and what they run.
///
/// # Errors
/// Where it is one.
pub(super) fn refuse_of_others(cursor: &Cursor<'_>) -> Result<()> {
    let Some((words, hint)) = OF_OTHERS.iter().find(|(words, _)| cursor.words(words)) else { return Ok(()) };
    Err(SqlError::new(format!("{} is not supported", words.join(" ")), cursor.position()).hint(*hint))
}

/// SELECT [(columns)], INSERT, …, or ALL [PRIVILEGES].
fn rights(cursor: &mut Cursor<'_>, columns: &mut Vec<String>) -> Result<Rights> {
    if cursor.eat(&["ALL"]) {
        cursor.eat(&["PRIVILEGES"]);
        return Ok(Rights::ALL);
    }
    let mut all = Rights::NONE;
    loop {
        let position = cursor.position();
        let name = cursor.name("a right")?;
        let right = Rights::named(&name).ok_or_else(|| {
            SqlError::new(format!("there is no right '{name}'"), position)
                .hint(format!("the rights are {}, and ALL", Rights::ALL))
        })?;
        all |= right;
        if cursor.peek() == Some(&Token::LParen) {
            columns.extend(cursor.names("the name of a column")?);
        }
        if !cursor.eat_token(&Token::Comma) {
            return Ok(all);
        }
    }
}

fn on(cursor: &mut Cursor<'_>) -> Result<On> {
    if cursor.words(&["ALL", "VIEWS"]) {
        return Err(SqlError::new("rights are not granted on all views alone", cursor.position())
            .hint("name the views; ALL TABLES is all tables and all views"));
    }
    if cursor.eat(&["ALL", "TABLES"]) {
        cursor.eat(&["IN", "SCHEMA", "PUBLIC"]);
        return Ok(On::AllTables);
    }
    if cursor.eat(&["ALL", "STREAMS"]) {
        return Ok(On::AllStreams);
    }
    if cursor.eat(&["ALL"]) {
        return Ok(On::All);
    }
    if cursor.words(&["STREAM"]) && matches!(cursor.ahead(1), Some(Token::Word(_))) {
        cursor.skip(1);
        return Ok(On::Streams(several(cursor, |cursor| cursor.name("the name of a stream"))?));
    }
    for kind in ["TABLE", "VIEW"] {
        if cursor.words(&[kind]) && matches!(cursor.ahead(1), Some(Token::Word(_))) {
            cursor.skip(1);
        }
    }
    Ok(On::Tables(several(cursor, |cursor| cursor.table_name())?))
}

/// A condition of rows up to the last `end` that stands in no bracket, as written.
fn condition(cursor: &mut Cursor<'_>, end: &str, sql: &str) -> Result<String> {
    let mut depth = 0_i64;
    let mut last = None;
    for (place, token) in cursor.rest().iter().enumerate() {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            token if depth == 0 && is_word(token, end) => last = Some(place),
            _ => {}
        }
    }
    let Some(length) = last.filter(|length| *length > 0) else {
        return Err(cursor.expected(&format!("a condition, then {end}")));
    };
    let position = cursor.position();
    let tokens = Tokens { tokens: cursor.rest()[..length].to_vec(), end: cursor.end() };
    let mut inner = Cursor::new(&tokens.tokens, 0, tokens.end);
    let expr = inner.expression()?;
    inner.expect_end()?;
    if expr.visit(&mut IsOfRows).is_break() {
        return Err(SqlError::new("the condition of a grant is one of each row by itself", position)
            .hint("it has no parameters ($1), and no functions over windows"));
    }
    if expr.visit(&mut HasQuery).is_break() {
        return Err(SqlError::new("the condition of a grant reads its own table only", position)
            .hint("grant SELECT on a view that has the sub-query"));
    }
    cursor.skip(length);
    Ok(text_of(&tokens, sql).to_string())
}

/// Whether something of an expression is not of a row: a parameter, a function over a window.
struct IsOfRows;

impl Visitor for IsOfRows {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) if function.over.is_some() => ControlFlow::Break(()),
            Expr::Value(value) if matches!(value.value, Value::Placeholder(_)) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

struct HasQuery;

impl Visitor for HasQuery {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_query(&mut self, _: &sqlparser::ast::Query) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
}

/// USERS, TOKENS, LIMITS and GRANTS after SHOW.
pub(super) fn show(cursor: &mut Cursor<'_>) -> Result<Option<Statement>> {
    if cursor.eat(&["USERS"]) || cursor.eat(&["ROLES"]) {
        return finish(cursor, Accounts::ShowUsers).map(Some);
    }
    if cursor.eat(&["TOKENS"]) {
        return finish(cursor, Accounts::ShowTokens).map(Some);
    }
    if cursor.eat(&["LIMITS"]) {
        return finish(cursor, Accounts::ShowLimits).map(Some);
    }
    if cursor.eat(&["GRANTS"]) {
        let of = if cursor.eat(&["FOR"]) { Some(who(cursor)?) } else { None };
        return finish(cursor, Accounts::ShowGrants { of }).map(Some);
    }
    Ok(None)
}
