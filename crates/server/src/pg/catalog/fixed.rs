//! Tables whose rows do not depend on what the database holds.

use super::client::Client;
use super::described::{BTREE, HEAP};
use super::relation::{DATABASE_OID, OWNER, PG_CATALOG};
use super::settings::SETTINGS;
use super::shape::table;
use tickstone_query::Result;
use tickstone_query::arrow::array::RecordBatch;

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
        &[()],
        &[
            ("oid", &|()| OWNER.into()),
            ("rolname", &|()| client.user.as_str().into()),
            ("rolsuper", &|()| true.into()),
            ("rolinherit", &|()| true.into()),
            ("rolcreaterole", &|()| true.into()),
            ("rolcreatedb", &|()| true.into()),
            ("rolcanlogin", &|()| true.into()),
            ("rolconnlimit", &|()| (-1_i64).into()),
        ],
    )
}

/// `pg_user` and `pg_shadow`.
pub(super) fn users(name: &str, client: &Client) -> Result<RecordBatch> {
    table(
        name,
        &[()],
        &[
            ("usename", &|()| client.user.as_str().into()),
            ("usesysid", &|()| OWNER.into()),
            ("usecreatedb", &|()| true.into()),
            ("usesuper", &|()| true.into()),
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
    table("information_schema.enabled_roles", &[()], &[("role_name", &|()| client.user.as_str().into())])
}
