//! Users, roles, tokens and grants: what the statements about them do. `session::gate` says who may.

use super::accounts_shown;
use super::show::{batch, shown, strings};
use crate::access::accounts::{Accounts as All, Proof, READY_MADE, Token, missing};
use crate::access::limits::{Limit, Limits};
use crate::access::secret::{PublicKey, new_token};
use crate::access::standing::{Name, Object, REJECTED, Standing};
use crate::access::{Verifier, now_ns};
use crate::aside::listed;
use crate::database::Database;
use crate::dialect::{Accounts, On, Secret};
use crate::error::{QueryError, Result, SqlState};
use crate::session::{Outcome, Session};
use crate::texts::parse_instant;
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
        Accounts::ShowUsers => accounts_shown::users(&database, session),
        Accounts::ShowTokens => accounts_shown::tokens(&database, session),
        Accounts::ShowLimits => accounts_shown::limits(&database, session),
        Accounts::ShowGrants { of } => accounts_shown::grants(&database, session, of.as_deref()),
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
                if value.is_some() && is_admin(all, &number) {
                    let what = format!("'{name}' is an admin, and admins have no limits");
                    return Err(QueryError::request(what).hint("REVOKE admin first"));
                }
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
                        None if if_exists && all.named(name).is_none() => {}
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
                    let key = PublicKey::given(&x, &y).ok_or_else(|| {
                        let error = QueryError::request(
                            "a public key of ES256 is a point of P-256: an x and a y of 32 bytes each",
                        );
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
        Accounts::DropToken { names, user: of, if_exists } => {
            database.change_accounts(|all| {
                let of = of.as_ref().map(|name| user(all, name).map(|(number, _)| number)).transpose()?;
                for name in &names {
                    let is_it = |token: &&Token| {
                        is_same_name(&token.name, name)
                            && by.number.or(of).is_none_or(|user| token.user == user)
                    };
                    let found: Vec<u32> = all.tokens.iter().filter(is_it).map(|token| token.number).collect();
                    match found.as_slice() {
                        [number] => all.tokens.retain(|token| token.number != *number),
                        [] if if_exists => {}
                        [] => return Err(missing("token", name)),
                        _ => {
                            let what = format!("several users have a token '{name}'");
                            return Err(
                                QueryError::request(what).hint(format!("DROP TOKEN {name} FOR a user"))
                            );
                        }
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
                    if !revokes {
                        give(all, of, role)?;
                    } else if !all.accounts.get_mut(&of).is_some_and(|of| of.roles.remove(&role)) {
                        check_without(all, of, role)?;
                    }
                }
                check_has_admin(all)
            })?;
            Ok(Outcome::done(if revokes { "REVOKE" } else { "GRANT" }))
        }
        Accounts::Owner { name, to } => {
            database.change_accounts(|all| {
                let (owner, _) = user(all, &to)?;
                let owned =
                    |schema: &TableSchema| Ok(TableAccess { owner: Some(owner), ..schema.access().clone() });
                let snapshot = database.engine().snapshot();
                // What is rejected of a stream goes with the table that it is parsed for.
                let rejected = format!("{name}{REJECTED}");
                let before = table(&snapshot, &name)?.schema();
                if before.source().is_some()
                    && let Some(beside) = snapshot.table(&rejected)
                    && beside.schema().access().owner == before.access().owner
                {
                    grant_on(database.engine(), &rejected, owned)?;
                }
                grant_on(database.engine(), &name, owned)
            })?;
            Ok(Outcome::done("ALTER TABLE"))
        }
        Accounts::Reassign { from, to } => {
            database.change_accounts(|all| {
                let ((from, _), (to, _)) = (user(all, &from)?, user(all, &to)?);
                let snapshot = database.engine().snapshot();
                let owned = listed(&snapshot).filter(|table| table.schema().access().owner == Some(from));
                owned.map(|table| table.schema().name()).try_for_each(|name| {
                    grant_on(database.engine(), name, |schema| {
                        Ok(TableAccess { owner: Some(to), ..schema.access().clone() })
                    })
                })
            })?;
            Ok(Outcome::done("REASSIGN OWNED"))
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
                    database.change_accounts(|all| {
                        let snapshot = database.engine().snapshot();
                        for name in names {
                            let schema = table(&snapshot, name)?.schema();
                            let unchanged = grant(schema)? == *schema.access();
                            if !revokes && (filter.is_some() || !columns.is_empty()) {
                                check_narrows(all, &to, rights, schema)?;
                            }
                            if revokes && unchanged {
                                check_gone(all, &to, rights, &Object::Table(schema.name()), |standing| {
                                    standing.with_any_of(schema)
                                })?;
                            }
                        }
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
                            let has = |number| all.streams.get(name)?.get(number).copied();
                            let has = |number| has(number).unwrap_or_default().has_any(rights);
                            if revokes && !to.iter().any(has) {
                                check_gone(all, &to, rights, &Object::Stream(name), |standing| {
                                    standing.with_stream(name)
                                })?;
                            }
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
                        let before = all.clone();
                        // As PostgreSQL has it, what was granted on each of them goes, too.
                        let mut took = revokes && revoke_each(database, all, &on, &to, rights)?;
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
                        took |= before != *all;
                        if revokes && !took {
                            check_gone(all, &to, rights, &Object::AllTables, |standing| match on {
                                On::AllStreams => standing.with_stream(""),
                                On::AllTables => standing.everywhere(),
                                _ => standing.everywhere() | standing.with_stream(""),
                            })?;
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
    let is_md5 = |hash: &str| hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    if password.0.strip_prefix("md5").is_some_and(is_md5) {
        let what = "an MD5 hash of PostgreSQL's is no password, and cannot be checked";
        return Err(QueryError::request(what).hint("give the password itself, or its SCRAM-SHA-256 verifier"));
    }
    match Verifier::parse(&password.0) {
        // What psql's `\password` sends of an empty one.
        Some(verifier) if verifier.is_of("") => Err(QueryError::request("a password is not empty")),
        Some(verifier) => Ok(verifier),
        None => Verifier::of_password(&password.0),
    }
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

/// Takes rights on single tables, views and streams away; whether there were any.
fn revoke_each(database: &Database, all: &mut All, on: &On, of: &[u32], rights: Rights) -> Result<bool> {
    let mut took = false;
    if matches!(on, On::AllTables | On::All) {
        let snapshot = database.engine().snapshot();
        for table in listed(&snapshot) {
            let revoked = |schema: &TableSchema| {
                granted(schema, rights.common(Rights::OF_OBJECTS), &[], None, of, true)
            };
            if revoked(table.schema())? != *table.schema().access() {
                took = true;
                grant_on(database.engine(), table.schema().name(), revoked)?;
            }
        }
    }
    if matches!(on, On::AllStreams | On::All) {
        for there in all.streams.values_mut() {
            for number in of {
                if let Some(has) = there.get_mut(number) {
                    took |= has.has_any(rights);
                    *has = has.without(rights);
                }
            }
            there.retain(|_, rights| !rights.is_none());
        }
        all.streams.retain(|_, granted| !granted.is_empty());
    }
    Ok(took)
}

/// That a grant of some rows or columns goes to nobody who has all of them: it would seem to leave out the others.
///
/// # Errors
/// Where somebody has.
fn check_narrows(all: &All, to: &[u32], rights: Rights, schema: &TableSchema) -> Result<()> {
    for number in to {
        let Some(account) = all.accounts.get(number) else { continue };
        let standing = Standing::of(all, *number, account);
        let whole = standing.with_all_of(schema).common(rights);
        if !whole.is_none() {
            let (name, table) = (&account.name, Object::Table(schema.name()));
            let what = format!(
                "'{name}' has {whole} on all of {table} already, and grants add up: none takes rows away"
            );
            let hint = format!("REVOKE what gives all of it first; SHOW GRANTS FOR {} lists it", Name(name));
            return Err(QueryError::request(what).hint(hint));
        }
    }
    Ok(())
}

/// That somebody to whom a role was not given does not have it, or what it may do, in another way.
///
/// # Errors
/// Where they have.
fn check_without(all: &All, of: u32, role: u32) -> Result<()> {
    let Some(account) = all.accounts.get(&of) else { return Ok(()) };
    let standing = Standing::of(all, of, account);
    let ready = READY_MADE.iter().find(|(number, ..)| *number == role).map(|(_, _, rights)| *rights);
    let has = |rights: Rights| match rights.has(Rights::ADMIN) {
        true => standing.is_admin(),
        false => standing.everywhere().has(rights),
    };
    if !standing.is(role) && !ready.is_some_and(has) {
        return Ok(());
    }
    let (name, role) = (&account.name, all.name_of(role).unwrap_or_default());
    let what = format!("nothing was revoked: '{name}' has what role '{role}' has in another way");
    let hint = format!("SHOW GRANTS FOR {} lists it: another role, or ON ALL", Name(name));
    Err(QueryError::request(what).hint(hint))
}

/// That a REVOKE which found no such grant leaves nobody with the right: it would seem to have ended it.
///
/// # Errors
/// Where somebody has it in another way.
fn check_gone(
    all: &All,
    of: &[u32],
    rights: Rights,
    on: &Object<'_>,
    has: impl Fn(&Standing) -> Rights,
) -> Result<()> {
    for number in of {
        let Some(account) = all.accounts.get(number) else { continue };
        let standing = Standing::of(all, *number, account);
        let kept = has(&standing).common(rights);
        if kept.is_none() {
            continue;
        }
        let what = format!("nothing was revoked: '{}' has {kept} on {on} in another way", account.name);
        let hint = format!(
            "SHOW GRANTS FOR {} lists it: a role, ALL TABLES, ALL STREAMS, or as its owner",
            Name(&account.name)
        );
        return Err(QueryError::request(what).hint(hint));
    }
    Ok(())
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
