//! Who asks, of what, and how things are set.

use super::super::fixed::UTF8;
use super::super::settings;
use super::super::value::{Kind, Value};
use super::{Function, Now, function, text};
use std::time::UNIX_EPOCH;

pub(super) fn all() -> Vec<Function> {
    let privileges = [
        "has_table_privilege",
        "has_any_column_privilege",
        "has_column_privilege",
        "has_database_privilege",
        "has_function_privilege",
        "has_language_privilege",
        "has_schema_privilege",
        "has_sequence_privilege",
        "has_server_privilege",
        "has_tablespace_privilege",
        "has_type_privilege",
        "pg_has_role",
    ];
    let mut all: Vec<Function> = privileges
        .into_iter()
        .map(|name| {
            function(name, 1..=4, Kind::Bool, |_, values| {
                (!values.contains(&Value::Null)).then_some(true).into()
            })
        })
        .collect();
    for name in ["current_user", "session_user", "user", "current_role"] {
        all.push(function(name, 0..=0, Kind::Text, |now, _| now.client.user.as_str().into()));
    }
    for name in ["current_database", "current_catalog"] {
        all.push(function(name, 0..=0, Kind::Text, |now, _| now.client.database.as_str().into()));
    }
    for name in ["inet_server_addr", "inet_client_addr"] {
        all.push(function(name, 0..=0, Kind::Text, |_, _| Value::Null));
    }
    for name in ["inet_server_port", "inet_client_port"] {
        all.push(function(name, 0..=0, Kind::Int4, |_, _| Value::Null));
    }
    for name in ["txid_current", "pg_current_xact_id"] {
        all.push(function(name, 0..=0, Kind::Int8, |now, _| {
            i64::try_from(now.known.engine.snapshot().position()).unwrap_or(i64::MAX).into()
        }));
    }
    all.extend([
        function("version", 0..=0, Kind::Text, |_, _| version().into()),
        function("current_schema", 0..=0, Kind::Text, |_, _| "public".into()),
        function("current_schemas", 1..=1, Kind::Texts, |_, values| {
            let with_catalog = values.first() == Some(&Value::Bool(true));
            let schemas: &[&str] = if with_catalog { &["pg_catalog", "public"] } else { &["public"] };
            schemas.iter().map(ToString::to_string).collect::<Vec<String>>().into()
        }),
        function("current_setting", 1..=2, Kind::Text, |now, values| {
            text(values, 0).and_then(|name| now.client.setting(name)).into()
        }),
        function("set_config", 3..=3, Kind::Text, |now, values| {
            if let (Some(name), Some(value)) = (text(values, 0), text(values, 1)) {
                now.client.note(name, value);
            }
            values.get(1).cloned().unwrap_or(Value::Null)
        }),
        function("pg_backend_pid", 0..=0, Kind::Int4, |now, _| now.client.process.into()),
        function("pg_my_temp_schema", 0..=0, Kind::Oid, |_, _| 0_i64.into()),
        function("pg_is_other_temp_schema", 1..=1, Kind::Bool, |_, _| false.into()),
        function("pg_is_in_recovery", 0..=0, Kind::Bool, |now, _| now.known.engine.is_read_only().into()),
        function("pg_is_wal_replay_paused", 0..=0, Kind::Bool, |_, _| false.into()),
        function("pg_postmaster_start_time", 0..=0, Kind::Time, started),
        function("pg_conf_load_time", 0..=0, Kind::Time, started),
        function("pg_advisory_unlock_all", 0..=0, Kind::Text, |_, _| "".into()),
        function("getdatabaseencoding", 0..=0, Kind::Text, |_, _| "UTF8".into()),
        function("pg_client_encoding", 0..=0, Kind::Text, |_, _| "UTF8".into()),
        function("pg_char_to_encoding", 1..=1, Kind::Int4, |_, values| {
            text(values, 0).map(|name| if name.eq_ignore_ascii_case("UTF8") { UTF8 } else { -1 }).into()
        }),
        function("pg_encoding_to_char", 1..=1, Kind::Text, |_, values| {
            values
                .first()
                .and_then(Value::int)
                .map(|encoding| if encoding == UTF8 { "UTF8" } else { "" })
                .into()
        }),
    ]);
    all
}

fn version() -> String {
    let (arch, system) = (std::env::consts::ARCH, std::env::consts::OS);
    format!("PostgreSQL {} on {arch}-{system}", settings::value("server_version").unwrap_or_default())
}

fn started(now: &Now<'_>, _values: &[Value]) -> Value {
    let since = now.known.started.duration_since(UNIX_EPOCH).ok();
    since.and_then(|since| i64::try_from(since.as_nanos()).ok()).into()
}
