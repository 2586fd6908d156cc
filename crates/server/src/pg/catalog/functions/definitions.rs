//! What things are: types, keys, views, functions; how large tables are.

use super::super::relation::Key;
use super::super::value::{Kind, Value};
use super::super::{routines, types};
use super::{Function, Now, function, oid, relation_oid, text};
use tickstone_engine::Snapshot;

pub(super) fn all() -> Vec<Function> {
    vec![
        function("format_type", 2..=2, Kind::Text, |_, values| {
            let modifier = values.get(1).and_then(Value::int);
            oid(values, 0).map(|oid| types::format(oid, modifier)).into()
        }),
        function("pg_get_expr", 2..=3, Kind::Text, |_, _| Value::Null),
        function("pg_get_constraintdef", 1..=2, Kind::Text, |now, values| {
            key(now, values, |key| key.oid).map(|key| key.definition()).into()
        }),
        function("pg_get_indexdef", 1..=3, Kind::Text, indexdef),
        function("pg_get_viewdef", 1..=2, Kind::Text, |now, values| {
            let oid = relation_oid(now, values.first());
            let view =
                oid.and_then(|oid| now.relations().get(oid)).and_then(|relation| relation.view.as_deref());
            view.map(|query| format!("{};", query.trim_end().trim_end_matches(';'))).into()
        }),
        function("pg_get_ruledef", 1..=2, Kind::Text, |_, _| Value::Null),
        function("pg_get_triggerdef", 1..=2, Kind::Text, |_, _| Value::Null),
        function("pg_get_partkeydef", 1..=1, Kind::Text, |_, _| Value::Null),
        function("pg_get_statisticsobjdef_columns", 1..=1, Kind::Text, |_, _| Value::Null),
        function("pg_get_functiondef", 1..=1, Kind::Text, |_, _| Value::Null),
        function("pg_get_function_sqlbody", 1..=1, Kind::Text, |_, _| Value::Null),
        function("pg_get_function_result", 1..=1, Kind::Text, |now, values| {
            routine(now, values).map(|_| "\"any\"").into()
        }),
        function("pg_get_function_arguments", 1..=1, Kind::Text, |now, values| {
            routine(now, values).map(routines::arguments).into()
        }),
        function("pg_get_function_identity_arguments", 1..=1, Kind::Text, |now, values| {
            routine(now, values).map(routines::arguments).into()
        }),
        function("pg_get_serial_sequence", 2..=2, Kind::Text, |_, _| Value::Null),
        function("pg_nothing", 0..=32, Kind::Text, |_, _| Value::Null),
        function("pg_get_base_type", 1..=1, Kind::Oid, |_, _| Value::Null),
        function("obj_description", 1..=2, Kind::Text, |now, values| match text(values, 1) {
            Some("pg_proc") => routine(now, values).and_then(|of| of.about.clone()).into(),
            _ => Value::Null,
        }),
        function("col_description", 2..=2, Kind::Text, |_, _| Value::Null),
        function("shobj_description", 2..=2, Kind::Text, |_, _| Value::Null),
        function("pg_relation_is_publishable", 1..=1, Kind::Bool, |_, _| false.into()),
        function("pg_tablespace_location", 1..=1, Kind::Text, |_, _| "".into()),
        function("pg_stat_get_numscans", 1..=1, Kind::Int8, |_, _| 0_i64.into()),
        function("pg_table_size", 1..=1, Kind::Int8, bytes),
        function("pg_relation_size", 1..=2, Kind::Int8, bytes),
        function("pg_total_relation_size", 1..=1, Kind::Int8, bytes),
        function("pg_indexes_size", 1..=1, Kind::Int8, |now, values| {
            relation_oid(now, values.first()).map(|_| 0_i64).into()
        }),
        function("pg_database_size", 1..=1, Kind::Int8, |now, _| whole(&now.snapshot()).into()),
        function("pg_tablespace_size", 1..=1, Kind::Int8, |now, _| whole(&now.snapshot()).into()),
        function("pg_describe_object", 3..=3, Kind::Text, |_, _| Value::Null),
        function("pg_size_pretty", 1..=1, Kind::Text, |_, values| {
            values.first().and_then(Value::int).map(pretty).into()
        }),
    ]
}

fn key<'a>(now: &'a Now<'_>, values: &[Value], number: fn(&Key<'_>) -> u32) -> Option<Key<'a>> {
    let oid = oid(values, 0)?;
    now.relations().keys().find(|key| number(key) == oid)
}

fn routine<'a>(now: &'a Now<'_>, values: &[Value]) -> Option<&'a super::super::derived::Routine> {
    routines::get(now.known.derived.routines(), oid(values, 0)?)
}

/// The definition of an index, or one of its columns.
fn indexdef(now: &Now<'_>, values: &[Value]) -> Value {
    let Some(key) = key(now, values, |key| key.index_oid) else { return Value::Null };
    match values.get(1).and_then(Value::int) {
        None | Some(0) => key.index_definition().into(),
        Some(place) => {
            usize::try_from(place - 1).ok().and_then(|place| key.columns().into_iter().nth(place)).into()
        }
    }
}

/// The bytes of a table: its files and its rows in memory.
fn bytes(now: &Now<'_>, values: &[Value]) -> Value {
    let Some(oid) = relation_oid(now, values.first()) else { return Value::Null };
    let found = now.relations().get(oid).map(|relation| i64::try_from(relation.bytes).unwrap_or(i64::MAX));
    let of_key = || now.relations().keys().any(|key| key.index_oid == oid).then_some(0);
    found.or_else(of_key).into()
}

fn whole(snapshot: &Snapshot) -> i64 {
    let bytes = |table: &std::sync::Arc<tickstone_engine::TableSnapshot>| {
        table.partitions().disk_bytes() + table.recent_bytes() as u64
    };
    i64::try_from(snapshot.tables().map(bytes).sum::<u64>()).unwrap_or(i64::MAX)
}

/// A size in the largest unit of which it has ten.
fn pretty(bytes: i64) -> String {
    const LIMIT: f64 = 10.0 * 1024.0;
    let mut size = bytes as f64;
    for unit in ["bytes", "kB", "MB", "GB", "TB"] {
        if size.abs() < LIMIT || unit == "TB" {
            return format!("{} {unit}", size.round());
        }
        size /= 1024.0;
    }
    format!("{bytes} bytes")
}
