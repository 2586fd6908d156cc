//! CREATE, ALTER and DROP USER, ROLE and TOKEN; GRANT and REVOKE; SHOW USERS, TOKENS and GRANTS.

use super::cursor::{Cursor, Result, Tokens, is_word};
use super::view::text_of;
use super::{SqlError, Statement};
use sqlparser::ast::{Expr, Visit, Visitor};
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
    /// DROP TOKEN [IF EXISTS] t, ….
    DropToken {
        /// The tokens.
        names: Vec<String>,
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

    /// Whether its text has a password.
    pub(crate) fn has_secret(&self) -> bool {
        matches!(self, Accounts::Create { .. } | Accounts::Alter { .. })
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
        if SAID_OF_ALL.iter().any(|word| cursor.eat(&[word])) {
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
    if !is_user || cursor.words(&["SET"]) {
        cursor.expect(&["SET"])?;
        let limit = Some(cursor.folded_name("the name of a limit")?);
        if !cursor.eat_token(&Token::Eq) {
            cursor.expect(&["TO"])?;
        }
        let value = if cursor.eat(&["DEFAULT"]) { None } else { Some(cursor.scalar()?) };
        return finish(cursor, Accounts::Limit { name, is_user, limit, value });
    }
    cursor.eat(&["WITH"]);
    if !cursor.words(&["PASSWORD"]) && !cursor.words(&["ENCRYPTED"]) {
        return Err(SqlError::new("expected PASSWORD, SET or RESET", cursor.position())
            .hint("ALTER USER u PASSWORD '…', ALTER USER u SET max_rows = 1000; a user keeps its name"));
    }
    let password = password(cursor)?;
    finish(cursor, Accounts::Alter { name, password })
}

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
    finish(cursor, Accounts::Drop { names, is_user, if_exists })
}

/// CREATE TOKEN.
pub(super) fn create_token(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect(&["CREATE", "TOKEN"])?;
    let name = cursor.folded_name("the name of a token")?;
    let user = if cursor.eat(&["FOR"]) { Some(who(cursor)?) } else { None };
    let signs = cursor.eat(&["TYPE"]);
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
    finish(cursor, Accounts::DropToken { names, if_exists })
}

/// GRANT and REVOKE; `sql` is the text that the tokens are of.
pub(super) fn grant(cursor: &mut Cursor<'_>, sql: &str) -> Result<Statement> {
    let revokes = cursor.eat(&["REVOKE"]);
    if !revokes {
        cursor.expect(&["GRANT"])?;
    }
    let before = if revokes { "FROM" } else { "TO" };
    if !cursor.rest().iter().any(|token| is_word(&token.token, "ON")) {
        let roles = several(cursor, who)?;
        cursor.expect(&[before])?;
        let who = several(cursor, who)?;
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
    let who = several(cursor, who)?;
    finish(cursor, Accounts::Rights { rights, on, columns, filter, who, revokes })
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
    if cursor.eat(&["ALL", "TABLES"]) || cursor.eat(&["ALL", "VIEWS"]) {
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
    if expr.visit(&mut HasQuery).is_break() {
        return Err(SqlError::new("the condition of a grant reads its own table only", position)
            .hint("grant SELECT on a view that has the sub-query"));
    }
    cursor.skip(length);
    Ok(text_of(&tokens, sql).to_string())
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
