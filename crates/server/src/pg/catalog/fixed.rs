//! Tables whose rows do not depend on what the database holds.

use super::client::Client;
use super::described::{BTREE, HEAP};
use super::relation::{DATABASE_OID, OWNER, PG_CATALOG};
use super::settings::SETTINGS;
use super::shape::table;
use tickstone_query::arrow::array::RecordBatch;
use tickstone_query::{Result, Role};

/// The tablespace of all that has none of its own.
const TABLESPACE: i64 = 1663;
/// The encoding of all text: UTF8.
pub(super) const UTF8: i64 = 6;

pub(super) fn pg_database(client: &Client) -> Result<RecordBatch> {
    table(
        "pg_database",
        &[()],
        &[
            ("oid", &|()| DATABASE_OID.into()),
            ("datname", &|()| client.database.as_str().into()),
            ("datdba", &|()| OWNER.into()),
            ("encoding", &|()| UTF8.into()),
            ("datlocprovider", &|()| "c".into()),
            ("datallowconn", &|()| true.into()),
            ("datconnlimit", &|()| (-1_i64).into()),
            ("dattablespace", &|()| TABLESPACE.into()),
            ("datcollate", &|()| "C.UTF-8".into()),
            ("datctype", &|()| "C.UTF-8".into()),
        ],
    )
}

pub(super) fn pg_am() -> Result<RecordBatch> {
    table(
        "pg_am",
        &[(HEAP, "heap", "heap_tableam_handler", "t"), (BTREE, "btree", "bthandler", "i")],
        &[
            ("oid", &|(oid, ..)| (*oid).into()),
            ("amname", &|(_, name, ..)| (*name).into()),
            ("amhandler", &|(_, _, handler, _)| (*handler).into()),
            ("amtype", &|(.., kind)| (*kind).into()),
        ],
    )
}

pub(super) fn pg_collation() -> Result<RecordBatch> {
    table(
        "pg_collation",
        &[(100_i64, "default", "d", -1_i64, None), (950, "C", "c", -1, Some("C"))],
        &[
            ("oid", &|(oid, ..)| (*oid).into()),
            ("collname", &|(_, name, ..)| (*name).into()),
            ("collnamespace", &|_| PG_CATALOG.into()),
            ("collowner", &|_| OWNER.into()),
            ("collprovider", &|(_, _, provider, ..)| (*provider).into()),
            ("collisdeterministic", &|_| true.into()),
            ("collencoding", &|(_, _, _, encoding, _)| (*encoding).into()),
            ("collcollate", &|(.., locale)| (*locale).into()),
            ("collctype", &|(.., locale)| (*locale).into()),
        ],
    )
}

pub(super) fn pg_language() -> Result<RecordBatch> {
    table(
        "pg_language",
        &[(12_i64, "internal")],
        &[
            ("oid", &|(oid, _)| (*oid).into()),
            ("lanname", &|(_, name)| (*name).into()),
            ("lanowner", &|_| OWNER.into()),
        ],
    )
}

pub(super) fn pg_tablespace() -> Result<RecordBatch> {
    table(
        "pg_tablespace",
        &[(TABLESPACE, "pg_default"), (1664, "pg_global")],
        &[
            ("oid", &|(oid, _)| (*oid).into()),
            ("spcname", &|(_, name)| (*name).into()),
            ("spcowner", &|_| OWNER.into()),
        ],
    )
}

/// `pg_roles` and `pg_authid`.
pub(super) fn roles(name: &str, client: &Client) -> Result<RecordBatch> {
    table(
        name,
        &client.roles(),
        &[
            ("oid", &|role| role.number.into()),
            ("rolname", &|role| role.name.as_str().into()),
            ("rolsuper", &|role| role.is_admin.into()),
            ("rolinherit", &|_| true.into()),
            ("rolcreaterole", &|role| role.is_admin.into()),
            ("rolcreatedb", &|role| role.is_admin.into()),
            ("rolcanlogin", &|role| role.is_user.into()),
            ("rolconnlimit", &|role| {
                role.connections.map_or(-1, |most| i64::try_from(most).unwrap_or(i64::MAX)).into()
            }),
        ],
    )
}

/// `pg_auth_members`: which role was given to whom.
pub(super) fn members(client: &Client) -> Result<RecordBatch> {
    let roles = client.roles();
    let of = |role: &Role| role.roles.iter().map(|of| (*of, role.number)).collect::<Vec<_>>();
    let members: Vec<(u32, u32)> = roles.iter().flat_map(of).collect();
    table(
        "pg_auth_members",
        &members,
        &[
            ("roleid", &|(role, _)| (*role).into()),
            ("member", &|(_, member)| (*member).into()),
            ("grantor", &|_| OWNER.into()),
        ],
    )
}

/// `pg_user` and `pg_shadow`.
pub(super) fn users(name: &str, client: &Client) -> Result<RecordBatch> {
    let users: Vec<Role> = client.roles().into_iter().filter(|role| role.is_user).collect();
    table(
        name,
        &users,
        &[
            ("usename", &|role| role.name.as_str().into()),
            ("usesysid", &|role| role.number.into()),
            ("usecreatedb", &|role| role.is_admin.into()),
            ("usesuper", &|role| role.is_admin.into()),
        ],
    )
}

pub(super) fn pg_settings(client: &Client) -> Result<RecordBatch> {
    table(
        "pg_settings",
        &SETTINGS,
        &[
            ("name", &|of| of.name.as_str().into()),
            ("setting", &|of| client.setting(&of.name).into()),
            ("category", &|_| "Preset Options".into()),
            ("context", &|_| "internal".into()),
            ("vartype", &|of| of.kind().into()),
            ("source", &|_| "default".into()),
            ("boot_val", &|of| of.value.as_str().into()),
            ("reset_val", &|of| of.value.as_str().into()),
            ("sourceline", &|_| super::value::Value::Null),
        ],
    )
}

pub(super) fn pg_timezone_names() -> Result<RecordBatch> {
    table(
        "pg_timezone_names",
        &["UTC"],
        &[
            ("name", &|name| (*name).into()),
            ("abbrev", &|name| (*name).into()),
            ("utc_offset", &|_| "00:00:00".into()),
        ],
    )
}

/// Words that statements here have beside those of SQL.
pub(super) fn pg_get_keywords() -> Result<RecordBatch> {
    const WORDS: [&str; 16] = [
        "asof",
        "dedup",
        "fill",
        "horizon",
        "keys",
        "latest",
        "linear",
        "pivot",
        "prev",
        "sample",
        "splice",
        "symbol",
        "tolerance",
        "ttl",
        "upsert",
        "wal",
    ];
    table(
        "pg_get_keywords",
        &WORDS,
        &[
            ("word", &|word| (*word).into()),
            ("catcode", &|_| "U".into()),
            ("barelabel", &|_| true.into()),
            ("catdesc", &|_| "unreserved".into()),
            ("baredesc", &|_| "can be bare label".into()),
        ],
    )
}

/// `information_schema.enabled_roles` and such of one column.
pub(super) fn enabled_roles(client: &Client) -> Result<RecordBatch> {
    let own = |role: &Role| client.has_role(&role.name);
    let roles: Vec<Role> = client.roles().into_iter().filter(own).collect();
    table("information_schema.enabled_roles", &roles, &[("role_name", &|role| role.name.as_str().into())])
}
