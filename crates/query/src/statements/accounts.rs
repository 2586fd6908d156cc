//! Users, roles, tokens and grants: what the statements about them do. `session::gate` says who may.

use super::show::{batch, shown, strings};
use crate::access::accounts::{Accounts as All, Proof, READY_MADE, Token, missing};
use crate::access::limits::{Limit, Limits};
use crate::access::secret::{PublicKey, new_token};
use crate::access::{Verifier, now_ns};
use crate::aside::listed;
use crate::database::Database;
use crate::dialect::{Accounts, On, Secret};
use crate::error::{QueryError, Result, SqlState};
use crate::session::{Outcome, Session};
use crate::texts::parse_instant;
use datafusion::arrow::array::{ArrayRef, BooleanArray};
use std::collections::BTreeMap;
use std::sync::Arc;
use tickstone_engine::{Engine, EngineError, Snapshot, TableSnapshot};
use tickstone_model::{AlterTable, Grant, Rights, TableAccess, TableSchema, format_nanos, is_same_name};

/// Carries one out.
///
/// # Errors
/// Where a name is none or taken, a right cannot be granted so, and those of the engine.
pub(super) async fn run(session: &Session, statement: Accounts) -> Result<Outcome> {
    let database = session.database().clone();
    match statement {
        Accounts::ShowUsers => users(&database, session),
        Accounts::ShowTokens => tokens(&database, session),
        Accounts::ShowLimits => limits(&database, session),
        Accounts::ShowGrants { of } => grants(&database, session, of.as_deref()),
        other => {
            let standing = session.standing();
            let by = By {
                name: session.user().map(str::to_string),
                number: standing.as_ref().map(|standing| standing.user),
            };
            let check = filter_checked(session, &other).await;
            check?;
            let change = move || change(&database, &by, other);
            let done = session.database().runtime().spawn_blocking(change).await;
            done.map_err(|error| QueryError::request(format!("a statement was cut short: {error}")))?
        }
    }
}

/// Who runs a statement: no number where they may do everything.
struct By {
    name: Option<String>,
    number: Option<u32>,
}

fn change(database: &Database, by: &By, statement: Accounts) -> Result<Outcome> {
    match statement {
        Accounts::Create { name, is_user, if_not_exists, password, roles } => {
            let verifier = password.map(|password| verifier(&password)).transpose()?;
            database.change_accounts(|all| {
                if let (Some((_, there)), true) = (all.named(&name), if_not_exists)
                    && there.is_user == is_user
                {
                    return Ok(());
                }
                if is_user && !all.has_users() && !makes_admin(all, &roles)? {
                    let what = "the first user must be an admin: from then on everybody says who they are";
                    let hint = format!("CREATE USER {name} PASSWORD '…' IN ROLE admin");
                    return Err(QueryError::request(what).hint(hint));
                }
                let number = all.create(&name, is_user, verifier)?;
                let roles = roles.iter().map(|role| all.number(role)).collect::<Result<Vec<_>>>()?;
                roles.into_iter().try_for_each(|role| give(all, number, role))
            })?;
            Ok(Outcome::done(if is_user { "CREATE USER" } else { "CREATE ROLE" }))
        }
        Accounts::Alter { name, password } => {
            let verifier = password.map(|password| verifier(&password)).transpose()?;
            database.change_accounts(|all| {
                let (number, _) = user(all, &name)?;
                if let Some(account) = all.accounts.get_mut(&number) {
                    account.verifier = verifier;
                }
                let proves = |number: &u32| {
                    let account = all.accounts.get(number);
                    let is_of = |token: &Token| token.user == *number && token.is_valid();
                    account.is_some_and(|account| account.verifier.is_some()) || all.tokens.iter().any(is_of)
                };
                if is_admin(all, &number) && !admins(all).any(|admin| proves(&admin)) {
                    let what = "no admin would have a password or a token left";
                    return Err(QueryError::request(what).hint("give another admin a password first"));
                }
                Ok(())
            })?;
            Ok(Outcome::done("ALTER USER"))
        }
        Accounts::Limit { name, is_user, limit, value } => {
            let limit = limit.map(|limit| Limit::named(&limit)).transpose()?;
            let value = match (limit, value) {
                (Some(limit), Some(value)) => Some(super::limits::parse(limit, &value)?),
                _ => None,
            };
            let kind = if is_user { "user" } else { "role" };
            database.change_accounts(|all| {
                if READY_MADE.iter().any(|(_, ready, _)| is_same_name(ready, &name)) {
                    let what = format!("role '{name}' is ready-made, and has no limits");
                    let hint = format!("make a role that has it: CREATE ROLE desk; GRANT {name} TO desk");
                    return Err(QueryError::request(what).hint(hint));
                }
                let found = all.named(&name).filter(|(_, account)| account.is_user == is_user);
                let (number, _) = found.ok_or_else(|| missing_as(all, kind, &name))?;
                if let Some(account) = all.accounts.get_mut(&number) {
                    match limit {
                        Some(limit) => account.limits.set(limit, value),
                        None => account.limits = Limits::default(),
                    }
                }
                Ok(())
            })?;
            Ok(Outcome::done(if is_user { "ALTER USER" } else { "ALTER ROLE" }))
        }
        Accounts::Drop { names, is_user, if_exists } => {
            let kind = if is_user { "user" } else { "role" };
            database.change_accounts(|all| {
                for name in &names {
                    if READY_MADE.iter().any(|(_, ready, _)| is_same_name(ready, name)) {
                        return Err(QueryError::request(format!("role '{name}' is ready-made, and stays")));
                    }
                    match all.named(name).filter(|(_, account)| account.is_user == is_user) {
                        Some((number, _)) => all.drop(number),
                        None if if_exists => {}
                        None => return Err(missing_as(all, kind, name)),
                    }
                }
                // Of whoever has the files it is meant; of two admins who drop each other at once it is not.
                if is_user && by.name.is_some() && !all.has_users() {
                    let what = "the last user stays: without users everybody may do everything";
                    return Err(QueryError::request(what)
                        .hint("`tickstone user drop` ends users, while no server runs"));
                }
                check_has_admin(all)
            })?;
            database.change_accounts(|_| forget_dropped(database))?;
            Ok(Outcome::done(if is_user { "DROP USER" } else { "DROP ROLE" }))
        }
        Accounts::CreateToken { name, user: of, signs, key, expires } => {
            let of = of.or_else(|| by.name.clone()).ok_or_else(|| {
                QueryError::request("a token is a user's").hint("CREATE TOKEN name FOR user")
            })?;
            let expires = expires.map(|text| instant(&text)).transpose()?;
            let (text, proof) = match (signs, key) {
                (false, _) => {
                    let (text, hash) = new_token()?;
                    (Some(text), Proof::Hash(hash))
                }
                (true, None) => {
                    let (private, public) = PublicKey::new_pair()?;
                    (Some(private), Proof::Key(public))
                }
                (true, Some((x, y))) => {
                    let key = PublicKey::of(&x, &y).ok_or_else(|| {
                        let error =
                            QueryError::request("a public key of ES256 has an x and a y of 32 bytes each");
                        error.hint("write both in base64url, as in a JSON Web Key")
                    })?;
                    (None, Proof::Key(key))
                }
            };
            let public = match &proof {
                Proof::Hash(_) => None,
                Proof::Key(key) => Some(key.clone()),
            };
            database.change_accounts(|all| {
                let (number, _) = user(all, &of)?;
                all.create_token(&name, number, proof.clone(), expires)
            })?;
            let mut columns = vec![("token", strings([text].into_iter()))];
            if let Some(PublicKey { x, y }) = public {
                columns.push(("token_x", strings([Some(x)].into_iter())));
                columns.push(("token_y", strings([Some(y)].into_iter())));
            }
            columns.push(("name", strings([Some(name)].into_iter())));
            columns.push(("user", strings([Some(of)].into_iter())));
            shown(batch(columns)?)
        }
        Accounts::DropToken { names, if_exists } => {
            database.change_accounts(|all| {
                for name in &names {
                    let found = all.tokens.iter().position(|token| {
                        is_same_name(&token.name, name) && by.number.is_none_or(|user| token.user == user)
                    });
                    match found {
                        Some(place) => drop(all.tokens.remove(place)),
                        None if if_exists => {}
                        None => return Err(missing("token", name)),
                    }
                }
                Ok(())
            })?;
            Ok(Outcome::done("DROP TOKEN"))
        }
        Accounts::Roles { roles, who, revokes } => {
            database.change_accounts(|all| {
                for (role, who) in roles.iter().flat_map(|role| who.iter().map(move |who| (role, who))) {
                    let (of, role) = (account(all, who)?, all.number(role)?);
                    match all.accounts.get_mut(&of).filter(|_| revokes) {
                        Some(account) => drop(account.roles.remove(&role)),
                        None => give(all, of, role)?,
                    }
                }
                check_has_admin(all)
            })?;
            Ok(Outcome::done(if revokes { "REVOKE" } else { "GRANT" }))
        }
        Accounts::Owner { name, to } => {
            database.change_accounts(|all| {
                let (owner, _) = user(all, &to)?;
                grant_on(database.engine(), &name, |schema| {
                    Ok(TableAccess { owner: Some(owner), ..schema.access().clone() })
                })
            })?;
            Ok(Outcome::done("ALTER TABLE"))
        }
        Accounts::Rights { rights, on, columns, filter, who, revokes } => {
            let to = accounts_of(database, &who)?;
            match &on {
                On::Tables(names) => {
                    let grant = |schema: &TableSchema| {
                        granted(schema, rights, &columns, filter.as_ref(), &to, revokes)
                    };
                    // One change of users and grants after another: none is lost. Where one table of several cannot have
                    // it, none has it.
                    database.change_accounts(|_| {
                        let snapshot = database.engine().snapshot();
                        names
                            .iter()
                            .try_for_each(|name| grant(table(&snapshot, name)?.schema()).map(drop))?;
                        names.iter().try_for_each(|name| grant_on(database.engine(), name, grant))
                    })?;
                }
                On::Streams(names) => {
                    let rights = of_objects(rights, revokes)?;
                    for name in names {
                        database.engine().streams().get(name)?;
                    }
                    database.change_accounts(|all| {
                        for name in names {
                            let there = all.streams.entry(name.clone()).or_default();
                            for number in &to {
                                let before = there.get(number).copied().unwrap_or_default();
                                let after = if revokes { before.without(rights) } else { before | rights };
                                there.insert(*number, after);
                            }
                            there.retain(|_, rights| !rights.is_none());
                        }
                        all.streams.retain(|_, granted| !granted.is_empty());
                        Ok(())
                    })?;
                }
                On::AllTables | On::AllStreams | On::All => {
                    let rights = match (&on, revokes) {
                        // All that can be done with tables, or streams, is not to be an admin.
                        (On::AllTables | On::AllStreams, false) if rights == Rights::ALL => {
                            rights.without(Rights::ADMIN)
                        }
                        (On::AllTables | On::AllStreams, false) if rights.has(Rights::ADMIN) => {
                            let what = "ADMIN is granted on ALL, not on all tables or streams";
                            return Err(QueryError::request(what).hint("GRANT ADMIN ON ALL TO …"));
                        }
                        _ => rights,
                    };
                    database.change_accounts(|all| {
                        for number in &to {
                            let Some(account) = all.accounts.get_mut(number) else {
                                let what = "what the ready-made roles may do stays as it is";
                                return Err(QueryError::request(what).hint("CREATE ROLE makes another"));
                            };
                            let change = |before: Rights| {
                                if revokes { before.without(rights) } else { before | rights }
                            };
                            if matches!(on, On::AllTables | On::All) {
                                account.on_tables = change(account.on_tables);
                            }
                            if matches!(on, On::AllStreams | On::All) {
                                account.on_streams = change(account.on_streams);
                            }
                        }
                        check_has_admin(all)
                    })?;
                }
            }
            Ok(Outcome::done(if revokes { "REVOKE" } else { "GRANT" }))
        }
        Accounts::ShowUsers | Accounts::ShowTokens | Accounts::ShowLimits | Accounts::ShowGrants { .. } => {
            Err(QueryError::request("what is shown changes nothing"))
        }
    }
}

fn makes_admin(all: &All, roles: &[String]) -> Result<bool> {
    let admin = all.number("admin")?;
    let numbers = roles.iter().map(|role| all.number(role)).collect::<Result<Vec<_>>>()?;
    Ok(numbers.iter().any(|number| all.numbers_of(*number).contains(&admin)))
}

/// Whether a user or role may do everything.
fn is_admin(all: &All, number: &u32) -> bool {
    let numbers = all.numbers_of(*number);
    let own = numbers.iter().filter_map(|number| all.accounts.get(number));
    numbers.contains(&3) || own.map(|account| account.on_tables).any(|rights| rights.has(Rights::ADMIN))
}

/// The users who may do everything.
fn admins(all: &All) -> impl Iterator<Item = u32> {
    let users = all.accounts.iter().filter(|(_, account)| account.is_user).map(|(number, _)| *number);
    users.filter(|number| is_admin(all, number))
}

/// Where there are users, one of them must be able to change them.
fn check_has_admin(all: &All) -> Result<()> {
    if !all.has_users() || admins(all).next().is_some() {
        return Ok(());
    }
    let what = "no admin would be left, while there are users";
    Err(QueryError::request(what).hint("make another first: GRANT admin TO …"))
}

fn verifier(password: &Secret) -> Result<Verifier> {
    if password.0.is_empty() {
        return Err(QueryError::request("a password is not empty"));
    }
    Verifier::parse(&password.0).map_or_else(|| Verifier::of_password(&password.0), Ok)
}

fn instant(text: &str) -> Result<i64> {
    let at = parse_instant(text).ok_or_else(|| {
        QueryError::request(format!("'{text}' is no instant")).hint("EXPIRES '2027-01-01T00:00:00Z'")
    })?;
    match at > now_ns() {
        true => Ok(at),
        false => {
            Err(QueryError::request(format!("a token that expires at {} has expired", format_nanos(at))))
        }
    }
}

fn user<'a>(all: &'a All, name: &str) -> Result<(u32, &'a crate::access::accounts::Account)> {
    all.named(name).filter(|(_, account)| account.is_user).ok_or_else(|| missing("user", name))
}

/// The number of one that is not ready-made.
fn account(all: &All, name: &str) -> Result<u32> {
    let number = all.number(name)?;
    match all.accounts.contains_key(&number) {
        true => Ok(number),
        false => Err(QueryError::request(format!("role '{name}' is ready-made, and stays as it is"))),
    }
}

fn give(all: &mut All, to: u32, role: u32) -> Result<()> {
    if all.accounts.get(&role).is_some_and(|account| account.is_user) {
        let name = all.name_of(role).unwrap_or_default();
        return Err(QueryError::request(format!("'{name}' is a user, not a role")));
    }
    if all.would_loop(to, role) {
        let (to, role) = (all.name_of(to).unwrap_or_default(), all.name_of(role).unwrap_or_default());
        return Err(QueryError::request(format!("'{role}' has '{to}' already: a role cannot have itself")));
    }
    if let Some(account) = all.accounts.get_mut(&to) {
        account.roles.insert(role);
    }
    Ok(())
}

fn accounts_of(database: &Database, who: &[String]) -> Result<Vec<u32>> {
    let now = database.accounts(&database.engine().snapshot())?.unwrap_or_default();
    let number = |name: &String| {
        now.accounts.number(name).map_err(|error| match is_same_name(name, "public") {
            true => error.hint("no role is everybody's: CREATE ROLE everybody, and give it to each user"),
            false => error,
        })
    };
    who.iter().map(number).collect()
}

/// That there is no user, or no role, of a name; that of the other kind is told of.
fn missing_as(all: &All, kind: &str, name: &str) -> QueryError {
    match (kind, all.named(name)) {
        ("user", Some(_)) => missing(kind, name).hint(format!("'{name}' is a role: write ROLE")),
        ("role", Some(_)) => missing(kind, name).hint(format!("'{name}' is a user: write USER")),
        _ => missing(kind, name),
    }
}

/// The rights that one table or stream can be granted.
fn of_objects(rights: Rights, revokes: bool) -> Result<Rights> {
    if rights == Rights::ALL || revokes {
        return Ok(rights.common(Rights::OF_OBJECTS));
    }
    match rights.without(Rights::OF_OBJECTS) {
        none if none.is_none() => Ok(rights),
        wide => Err(QueryError::request(format!("{wide} is granted on ALL, not on a single one"))),
    }
}

/// What a table has after a grant.
fn granted(
    schema: &TableSchema,
    rights: Rights,
    columns: &[String],
    filter: Option<&String>,
    to: &[u32],
    revokes: bool,
) -> Result<TableAccess> {
    let rights = of_objects(rights, revokes)?;
    let mut access = schema.access().clone();
    if revokes {
        to.iter().for_each(|number| {
            access.revoke(*number, rights);
        });
        return Ok(access);
    }
    let some = !columns.is_empty() || filter.is_some();
    let reading = Rights::SELECT | Rights::SUBSCRIBE;
    if some && !rights.without(reading).is_none() {
        let what = format!("{} is granted on whole tables", rights.without(reading));
        return Err(QueryError::request(what).hint("columns and WHERE are for SELECT and SUBSCRIBE"));
    }
    if !columns.is_empty() && schema.view().is_some() {
        return Err(QueryError::request("columns are those of tables").hint("make a view of these columns"));
    }
    let id = |name: &String| {
        let found = schema.columns().iter().position(|column| is_same_name(&column.name, name));
        let missing = || {
            let what = format!("table '{}' has no column '{name}'", schema.name());
            QueryError::request(what).state(SqlState::UndefinedColumn)
        };
        Ok(schema.column_id(found.ok_or_else(missing)?))
    };
    let mut ids = columns.iter().map(id).collect::<Result<Vec<_>>>()?;
    ids.sort_unstable();
    ids.dedup();
    let columns = (!ids.is_empty()).then_some(ids);
    for number in to {
        access.grant(Grant { to: *number, rights, columns: columns.clone(), filter: filter.cloned() });
    }
    Ok(access)
}

fn table<'a>(snapshot: &'a Snapshot, name: &str) -> Result<&'a Arc<TableSnapshot>> {
    let missing = || QueryError::from(EngineError::NoSuchTable { name: name.to_string() });
    snapshot.table(name).ok_or_else(missing)
}

/// Changes who may do what with a table; no other change of users and grants may be under way.
fn grant_on(
    engine: &Engine,
    name: &str,
    granted: impl Fn(&TableSchema) -> Result<TableAccess>,
) -> Result<()> {
    let snapshot = engine.snapshot();
    let table = table(&snapshot, name)?;
    let access = granted(table.schema())?;
    if access == *table.schema().access() {
        return Ok(());
    }
    engine.alter_this_table(table, &AlterTable::SetAccess(access))?;
    Ok(())
}

/// Takes the grants of users and roles that are gone out of tables. What a kill leaves of them is nobody's.
fn forget_dropped(database: &Database) -> Result<()> {
    let snapshot = database.engine().snapshot();
    let now = database.accounts(&snapshot)?.unwrap_or_default();
    for table in listed(&snapshot) {
        let access = table.schema().access();
        let is_there = |grant: &&Grant| now.accounts.name_of(grant.to).is_some();
        let grants: Vec<Grant> = access.grants.iter().filter(is_there).cloned().collect();
        if grants.len() < access.grants.len() {
            let access = TableAccess { owner: access.owner, grants };
            match database.engine().alter_this_table(table, &AlterTable::SetAccess(access)) {
                Err(EngineError::TableGone { .. }) => {}
                other => other?,
            }
        }
    }
    Ok(())
}

/// Tries the condition of a grant on the table.
async fn filter_checked(session: &Session, statement: &Accounts) -> Result<()> {
    let Accounts::Rights { on: On::Tables(names), filter: Some(filter), .. } = statement else {
        return Ok(());
    };
    for name in names {
        let name = format!("\"{}\"", name.replace('"', "\"\""));
        let sql = format!("SELECT 1 FROM {name} WHERE ({filter}) LIMIT 0");
        let mut session = session.beside();
        Box::pin(session.query(&sql)).await.map_err(|error| {
            error.hint("the condition of a grant is one of the table's columns, as after WHERE")
        })?;
    }
    Ok(())
}

/// SHOW USERS: ready-made roles first.
fn users(database: &Database, session: &Session) -> Result<Outcome> {
    let now = database.accounts(&session.full_snapshot())?.unwrap_or_default();
    let all = &now.accounts;
    let standing = session.standing();
    let is_shown = |number: &u32| standing.as_ref().is_none_or(|standing| standing.is(*number));
    let ready = READY_MADE.iter().filter(|(number, ..)| is_shown(number));
    let mut rows: Vec<(String, bool, bool, String)> =
        ready.map(|(_, name, _)| ((*name).to_string(), false, false, String::new())).collect();
    let mut own: Vec<_> =
        all.accounts.iter().filter(|(number, _)| is_shown(number)).map(|(_, of)| of).collect();
    own.sort_by(|a, b| a.name.cmp(&b.name));
    rows.extend(own.into_iter().map(|account| {
        let roles: Vec<&str> = account.roles.iter().filter_map(|role| all.name_of(*role)).collect();
        (account.name.clone(), account.is_user, account.verifier.is_some(), roles.join(", "))
    }));
    let flags = |values: Vec<bool>| Arc::new(BooleanArray::from(values)) as ArrayRef;
    shown(batch(vec![
        ("name", strings(rows.iter().map(|row| Some(&row.0)))),
        ("can_connect", flags(rows.iter().map(|row| row.1).collect())),
        ("has_password", flags(rows.iter().map(|row| row.2).collect())),
        ("roles", strings(rows.iter().map(|row| Some(&row.3)))),
    ])?)
}

/// SHOW TOKENS: those of all users for an admin, else the user's own.
fn tokens(database: &Database, session: &Session) -> Result<Outcome> {
    let now = database.accounts(&session.full_snapshot())?.unwrap_or_default();
    let standing = session.standing();
    let is_shown = |user: u32| standing.as_ref().is_none_or(|standing| standing.user == user);
    let tokens: Vec<_> = now.accounts.tokens.iter().filter(|token| is_shown(token.user)).collect();
    let owner = |user| now.accounts.name_of(user).map(str::to_string);
    shown(batch(vec![
        ("name", strings(tokens.iter().map(|token| Some(&token.name)))),
        ("user", strings(tokens.iter().map(|token| owner(token.user)))),
        ("type", strings(tokens.iter().map(|token| Some(token.proof.kind())))),
        ("expires", strings(tokens.iter().map(|token| token.expires.map(format_nanos)))),
    ])?)
}

/// SHOW LIMITS: those of all users and roles for an admin, else what holds for the user.
fn limits(database: &Database, session: &Session) -> Result<Outcome> {
    let now = database.accounts(&session.full_snapshot())?.unwrap_or_default();
    let rows: Vec<(String, &str, String)> = match session.standing() {
        Some(standing) => of_limits(&standing.name, &standing.limits).collect(),
        None => {
            let accounts = now.accounts.accounts.values();
            accounts.flat_map(|account| of_limits(&account.name, &account.limits)).collect()
        }
    };
    shown(batch(vec![
        ("name", strings(rows.iter().map(|row| Some(&row.0)))),
        ("limit", strings(rows.iter().map(|row| Some(row.1)))),
        ("value", strings(rows.iter().map(|row| Some(&row.2)))),
    ])?)
}

fn of_limits<'a>(
    name: &'a str,
    limits: &'a Limits,
) -> impl Iterator<Item = (String, &'static str, String)> + 'a {
    limits.iter().map(|(limit, value)| (name.to_string(), limit.name(), limit.shown(value)))
}

/// One row of SHOW GRANTS.
type Granted = (String, &'static str, Option<String>, String, Option<String>, Option<String>);

/// SHOW GRANTS: an admin sees all, others their own.
fn grants(database: &Database, session: &Session, of: Option<&str>) -> Result<Outcome> {
    let snapshot = session.full_snapshot();
    let now = database.accounts(&snapshot)?.unwrap_or_default();
    let wanted = of.map(|name| now.accounts.number(name)).transpose()?;
    let standing = session.standing();
    let is_shown = |number: u32| {
        wanted.is_none_or(|wanted| wanted == number)
            && standing.as_ref().is_none_or(|standing| standing.is(number))
    };
    let rows = all_granted(&now.accounts, &snapshot, &is_shown);
    shown(batch(vec![
        ("grantee", strings(rows.iter().map(|row| Some(&row.0)))),
        ("kind", strings(rows.iter().map(|row| Some(row.1)))),
        ("object", strings(rows.iter().map(|row| row.2.as_ref()))),
        ("rights", strings(rows.iter().map(|row| Some(&row.3)))),
        ("columns", strings(rows.iter().map(|row| row.4.as_ref()))),
        ("filter", strings(rows.iter().map(|row| row.5.as_ref()))),
    ])?)
}

fn all_granted(all: &All, snapshot: &Snapshot, is_shown: &dyn Fn(u32) -> bool) -> Vec<Granted> {
    let mut rows: Vec<Granted> = Vec::new();
    let name = |number: u32| all.name_of(number).map(str::to_string);
    for (number, account) in all.accounts.iter().filter(|(number, _)| is_shown(**number)) {
        let to = || name(*number).unwrap_or_default();
        rows.extend(account.roles.iter().map(|role| (to(), "role", name(*role), String::new(), None, None)));
        for (kind, rights) in [("all tables", account.on_tables), ("all streams", account.on_streams)] {
            if !rights.is_none() {
                rows.push((to(), kind, None, rights.to_string(), None, None));
            }
        }
    }
    for table in listed(snapshot) {
        let schema = table.schema();
        let kind = if schema.view().is_some() || schema.materialized().is_some() { "view" } else { "table" };
        let access = schema.access();
        if let Some(owner) = access.owner.filter(|owner| is_shown(*owner)).and_then(name) {
            rows.push((owner, kind, Some(schema.name().to_string()), "OWNER".to_string(), None, None));
        }
        for grant in access.grants.iter().filter(|grant| is_shown(grant.to)) {
            let Some(to) = name(grant.to) else { continue };
            let is_in = |place: &usize| {
                grant.columns.as_ref().is_some_and(|ids| ids.contains(&schema.column_id(*place)))
            };
            let names = (0..schema.columns().len()).filter(is_in).map(|place| &*schema.columns()[place].name);
            let columns = grant.columns.as_ref().map(|_| names.collect::<Vec<_>>().join(", "));
            let object = Some(schema.name().to_string());
            rows.push((to, kind, object, grant.rights.to_string(), columns, grant.filter.clone()));
        }
    }
    let of_streams = all.streams.iter().flat_map(|(stream, granted): (&String, &BTreeMap<u32, Rights>)| {
        granted.iter().map(move |(to, rights)| (stream, *to, *rights))
    });
    rows.extend(of_streams.filter(|(_, to, _)| is_shown(*to)).filter_map(|(stream, to, rights)| {
        Some((name(to)?, "stream", Some(stream.clone()), rights.to_string(), None, None))
    }));
    rows.sort_by(|a, b| (&a.0, a.1, &a.2, &a.3).cmp(&(&b.0, b.1, &b.2, &b.3)));
    rows
}
