//! SHOW USERS, TOKENS, LIMITS and GRANTS: all of them for an admin, else what is the user's own.

use super::show::{batch, shown, strings};
use crate::access::accounts::{Accounts as All, READY_MADE};
use crate::access::limits::Limits;
use crate::aside::listed;
use crate::database::Database;
use crate::error::Result;
use crate::session::{Outcome, Session};
use datafusion::arrow::array::{ArrayRef, BooleanArray};
use std::collections::BTreeMap;
use std::sync::Arc;
use tickstone_engine::Snapshot;
use tickstone_model::{Rights, TableSchema, format_nanos};

/// SHOW USERS: ready-made roles first.
pub(super) fn users(database: &Database, session: &Session) -> Result<Outcome> {
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
pub(super) fn tokens(database: &Database, session: &Session) -> Result<Outcome> {
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
pub(super) fn limits(database: &Database, session: &Session) -> Result<Outcome> {
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

/// SHOW GRANTS: an admin sees all, others their own and those on what they own. FOR one shows those of its roles, too.
pub(super) fn grants(database: &Database, session: &Session, of: Option<&str>) -> Result<Outcome> {
    let snapshot = session.full_snapshot();
    let now = database.accounts(&snapshot)?.unwrap_or_default();
    let own = session
        .user()
        .filter(|_| of.is_some_and(|name| ["current_user", "session_user", "user"].contains(&name)));
    let wanted = own.or(of).map(|name| now.accounts.number(name)).transpose()?;
    let wanted = wanted.map(|number| now.accounts.numbers_of(number));
    let standing = session.standing();
    let is_wanted = |number: u32| wanted.as_ref().is_none_or(|wanted| wanted.contains(&number));
    let is_own = |number: u32| standing.as_ref().is_none_or(|standing| standing.is(number));
    let is_shown = |number: u32, table: Option<&TableSchema>| {
        let owns = |table| standing.as_ref().is_some_and(|standing| standing.owns(table));
        is_wanted(number) && (is_own(number) || table.is_some_and(owns))
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

fn all_granted(
    all: &All,
    snapshot: &Snapshot,
    is_shown: &dyn Fn(u32, Option<&TableSchema>) -> bool,
) -> Vec<Granted> {
    let mut rows: Vec<Granted> = Vec::new();
    let name = |number: u32| all.name_of(number).map(str::to_string);
    for (number, account) in all.accounts.iter().filter(|(number, _)| is_shown(**number, None)) {
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
        if let Some(owner) = access.owner.filter(|owner| is_shown(*owner, Some(schema))).and_then(name) {
            rows.push((owner, kind, Some(schema.name().to_string()), "OWNER".to_string(), None, None));
        }
        for grant in access.grants.iter().filter(|grant| is_shown(grant.to, Some(schema))) {
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
    rows.extend(of_streams.filter(|(_, to, _)| is_shown(*to, None)).filter_map(|(stream, to, rights)| {
        Some((name(to)?, "stream", Some(stream.clone()), rights.to_string(), None, None))
    }));
    rows.sort_by(|a, b| (&a.0, a.1, &a.2, &a.3).cmp(&(&b.0, b.1, &b.2, &b.3)));
    rows
}
