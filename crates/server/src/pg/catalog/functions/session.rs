//! Who asks, of what, and how things are set.

use super::super::fixed::UTF8;
use super::super::settings;
use super::super::standard::PRIVILEGES;
use super::super::value::{Kind, Value};
use super::{Function, Now, function, relation_oid, text};
use std::time::UNIX_EPOCH;
use tickstone_model::Rights;
use tickstone_query::Part;

pub(super) fn all() -> Vec<Function> {
    // Rights to what is everybody's, or is not there.
    let privileges = [
        "has_function_privilege",
        "has_language_privilege",
        "has_sequence_privilege",
        "has_server_privilege",
        "has_tablespace_privilege",
        "has_type_privilege",
    ];
    let mut all: Vec<Function> = privileges
        .into_iter()
        .map(|name| {
            function(name, 1..=4, Kind::Bool, |_, values| {
                (!values.contains(&Value::Null)).then_some(true).into()
            })
        })
        .collect();
    all.extend([
        function("has_table_privilege", 2..=3, Kind::Bool, |now, values| table(now, values).into()),
        function("has_any_column_privilege", 2..=3, Kind::Bool, |now, values| any_column(now, values).into()),
        function("has_column_privilege", 3..=4, Kind::Bool, |now, values| column(now, values).into()),
        function("has_schema_privilege", 2..=3, Kind::Bool, |now, values| making(now, values).into()),
        function("has_database_privilege", 2..=3, Kind::Bool, |now, values| making(now, values).into()),
        function("pg_has_role", 2..=3, Kind::Bool, |now, values| has_role(now, values).into()),
    ]);
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
                if let Some((_, hint)) = NOT_BY_FUNCTION.iter().find(|(of, _)| of.eq_ignore_ascii_case(name))
                {
                    return Value::Refused { what: format!("set_config does not set '{name}'"), hint };
                }
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

/// Settings that have an effect, which a function does not: it would be told of one that is not there.
const NOT_BY_FUNCTION: [(&str, &str); 9] = [
    ("role", KEEPS_USER),
    ("session_authorization", KEEPS_USER),
    ("statement_timeout", "SET statement_timeout = '5s'"),
    ("idle_in_transaction_session_timeout", "SET idle_in_transaction_session_timeout = '5s'"),
    ("default_transaction_read_only", "SET default_transaction_read_only = on"),
    ("transaction_read_only", "SET TRANSACTION READ ONLY"),
    ("timezone", "SET TIME ZONE 'Europe/Berlin'"),
    ("timestamp_digits", "SET timestamp_digits = 9"),
    ("row_security", "rows are hidden by grants alone, which no setting turns off"),
];
const KEEPS_USER: &str =
    "who connects has the rights of all their roles at once; connect as another user for others";

/// Takes the role apart that the first of `COUNT + 1` arguments names, by its name or number; that of the client where
/// there are `COUNT`.
fn role_and<'a, const COUNT: usize>(
    now: &Now<'_>,
    values: &'a [Value],
) -> Option<(Option<String>, &'a [Value; COUNT])> {
    match values {
        [role, rest @ ..] if rest.len() == COUNT => {
            let name = match role {
                Value::Text(name) => name.clone(),
                number => now.client.name_of(u32::try_from(number.int()?).ok()?)?,
            };
            // Who connected where there are no users may do everything.
            let is_own = name == now.client.user;
            Some(((!is_own).then_some(name), rest.try_into().ok()?))
        }
        rest => Some((None, rest.try_into().ok()?)),
    }
}

fn table(now: &Now<'_>, values: &[Value]) -> Option<bool> {
    let (role, [of, rights]) = role_and(now, values)?;
    may(now, role.as_deref(), of, rights, Part::Columns)
}

fn any_column(now: &Now<'_>, values: &[Value]) -> Option<bool> {
    let (role, [of, rights]) = role_and(now, values)?;
    may(now, role.as_deref(), of, rights, Part::AnyColumn)
}

fn column(now: &Now<'_>, values: &[Value]) -> Option<bool> {
    let (role, [of, column, rights]) = role_and(now, values)?;
    let relation = now.relations().get(relation_oid(now, Some(of))?)?;
    let column = match column {
        Value::Text(name) => name.as_str(),
        number => relation.column(number.int()?)?,
    };
    may(now, role.as_deref(), of, rights, Part::Column(column))
}

/// Whether a role has one of some rights, as PostgreSQL writes them: `SELECT, INSERT WITH GRANT OPTION`.
fn may(now: &Now<'_>, role: Option<&str>, of: &Value, rights: &Value, part: Part<'_>) -> Option<bool> {
    let relation = now.relations().get(relation_oid(now, Some(of))?)?;
    let rights = rights.text()?;
    let Some(access) = now.client.access.as_ref().filter(|_| !relation.is_system()) else {
        return Some(true);
    };
    let mut may = false;
    for right in rights.split(',') {
        let right = right.trim().to_uppercase();
        let (right, grants) = match right.strip_suffix(" WITH GRANT OPTION") {
            Some(right) => (right, true),
            None => (&*right, false),
        };
        may |= match PRIVILEGES.iter().find(|(name, _)| *name == right) {
            Some((_, right)) if !grants => access.has(role, &relation.name, *right, part)?,
            // To give rights, and rights to what there is not: those of who may do everything with it.
            _ => access.has(role, &relation.name, Rights::ADMIN, part)?,
        };
    }
    Some(may)
}

/// Rights to the schema or the database: CREATE is one to make tables; the others everybody has.
fn making(now: &Now<'_>, values: &[Value]) -> Option<bool> {
    let (role, [_, rights]) = role_and(now, values)?;
    let is_create = |right: &str| right.trim().to_uppercase().starts_with("CREATE");
    match &now.client.access {
        Some(access) if rights.text()?.split(',').all(is_create) => {
            access.has_everywhere(role.as_deref(), Rights::CREATE)
        }
        _ => Some(true),
    }
}

fn has_role(now: &Now<'_>, values: &[Value]) -> Option<bool> {
    let (role, [of, _]) = role_and(now, values)?;
    let of = match of {
        Value::Text(name) => name.clone(),
        number => now.client.name_of(u32::try_from(number.int()?).ok()?)?,
    };
    match &now.client.access {
        Some(access) => access.has_role(role.as_deref(), &of),
        None => Some(true),
    }
}

fn version() -> String {
    let (arch, system) = (std::env::consts::ARCH, std::env::consts::OS);
    format!("PostgreSQL {} on {arch}-{system}", settings::value("server_version").unwrap_or_default())
}

fn started(now: &Now<'_>, _values: &[Value]) -> Value {
    let since = now.known.started.duration_since(UNIX_EPOCH).ok();
    since.and_then(|since| i64::try_from(since.as_nanos()).ok()).into()
}
