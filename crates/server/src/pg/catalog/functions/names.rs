//! From names to numbers and back, and whether a name needs its schema.

use super::super::relation::{INFORMATION_SCHEMA, NAMESPACES, Relation, namespace, quoted};
use super::super::value::{Kind, Value};
use super::super::{routines, types};
use super::{Function, Gives, Named, Now, function, oid, relation_oid, text};
use tickstone_query::SqlState;

pub(super) fn all() -> Vec<Function> {
    const TABLE: Named = ("table", SqlState::UndefinedTable);
    const TYPE: Named = ("type", SqlState::UndefinedObject);
    const SCHEMA: Named = ("schema", SqlState::UndefinedObject);
    const ROLE: Named = ("role", SqlState::UndefinedObject);
    let cast = |name, named, call| Function {
        name,
        arguments: 1..=1,
        gives: Gives::Other,
        names: Some(named),
        call,
    };
    let shown = |name, call| function(name, 1..=1, Kind::Text, call);
    let mut all = vec![
        cast("regclass", TABLE, regclass),
        cast("regtype", TYPE, regtype),
        cast("regnamespace", SCHEMA, regnamespace),
        cast("regrole", ROLE, regrole),
        shown("regclass_name", |now, values| name_of(now, values, regclass)),
        shown("regtype_name", |now, values| name_of(now, values, regtype)),
        shown("regnamespace_name", |now, values| name_of(now, values, regnamespace)),
        shown("regrole_name", |now, values| name_of(now, values, regrole)),
        shown("regproc_name", regproc),
        shown("regprocedure", regproc),
        shown("regprocedure_name", regproc),
        shown("regoperator", regproc),
        shown("regoperator_name", regproc),
        function("regproc", 1..=1, Kind::Text, regproc),
        function("regprocoid", 1..=1, Kind::Oid, |now, values| {
            text(values, 0).and_then(|name| routines::named(now.known.derived.routines(), name)).into()
        }),
        function("to_regclass", 1..=1, Kind::Oid, |now, values| {
            text(values, 0).and_then(|name| now.relations().named(name)).map(|relation| relation.oid).into()
        }),
        function("to_regtype", 1..=1, Kind::Oid, |_, values| {
            text(values, 0).and_then(types::named).map(|known| known.oid).into()
        }),
        function("to_regnamespace", 1..=1, Kind::Oid, |_, values| {
            text(values, 0).and_then(namespace_oid).into()
        }),
        function("to_regproc", 1..=1, Kind::Text, regproc),
        function("pg_get_userbyid", 1..=1, Kind::Text, |now, values| {
            let name = |oid| now.client.name_of(oid).unwrap_or_else(|| format!("unknown (OID={oid})"));
            oid(values, 0).map(name).into()
        }),
        function("pg_table_is_visible", 1..=1, Kind::Bool, |now, values| {
            let found =
                oid(values, 0).and_then(|oid| now.relations().get(oid).map(|relation| relation.namespace));
            let key = || oid(values, 0).filter(|oid| now.relations().keys().any(|key| key.index_oid == *oid));
            found.map(|namespace| namespace != INFORMATION_SCHEMA).or_else(|| key().map(|_| true)).into()
        }),
        function("pg_type_is_visible", 1..=1, Kind::Bool, |_, values| {
            oid(values, 0).and_then(types::get).map(|_| true).into()
        }),
        function("pg_function_is_visible", 1..=1, Kind::Bool, |now, values| {
            oid(values, 0)
                .and_then(|oid| routines::get(now.known.derived.routines(), oid))
                .map(|_| true)
                .into()
        }),
    ];
    let visible = [
        "pg_collation_is_visible",
        "pg_conversion_is_visible",
        "pg_opclass_is_visible",
        "pg_operator_is_visible",
        "pg_opfamily_is_visible",
        "pg_statistics_obj_is_visible",
        "pg_ts_config_is_visible",
        "pg_ts_dict_is_visible",
        "pg_ts_parser_is_visible",
        "pg_ts_template_is_visible",
    ];
    all.extend(visible.map(|name| function(name, 1..=1, Kind::Bool, is_there)));
    all
}

fn is_there(_now: &Now<'_>, values: &[Value]) -> Value {
    oid(values, 0).map(|_| true).into()
}

/// The name of what a number or a name stands for.
fn name_of(now: &Now<'_>, values: &[Value], other: fn(&Now<'_>, &[Value]) -> Value) -> Value {
    match other(now, values) {
        number @ Value::Int(_) => other(now, &[number]),
        name => name,
    }
}

fn regclass(now: &Now<'_>, values: &[Value]) -> Value {
    match values {
        [Value::Int(number)] => {
            let oid = u32::try_from(*number).ok();
            let relation = oid.and_then(|oid| now.relations().get(oid));
            let key = || {
                now.relations().keys().find(|key| Some(key.index_oid) == oid).map(|key| quoted(&key.name()))
            };
            named(*number, relation.map(shown).or_else(key)).into()
        }
        values => relation_oid(now, values.first()).into(),
    }
}

/// The name of a relation, with its schema where that is needed.
fn shown(relation: &Relation) -> String {
    match relation.namespace {
        INFORMATION_SCHEMA => format!("information_schema.{}", quoted(&relation.name)),
        _ => quoted(&relation.name),
    }
}

/// What a number is shown as: its name, itself where it has none, `-` where it is nothing's.
fn named(number: i64, name: Option<String>) -> String {
    match (number, name) {
        (0, _) => "-".to_string(),
        (_, Some(name)) => name,
        (number, None) => number.to_string(),
    }
}

fn regtype(_now: &Now<'_>, values: &[Value]) -> Value {
    match values {
        [Value::Int(number)] => {
            let known = u32::try_from(*number).ok().and_then(types::get);
            named(*number, known.map(|known| known.sql_name.to_string())).into()
        }
        values => {
            let known = || text(values, 0).and_then(types::named).map(|known| known.oid);
            oid(values, 0).or_else(known).into()
        }
    }
}

fn namespace_oid(name: &str) -> Option<u32> {
    NAMESPACES.iter().find(|(_, known)| *known == name.trim_matches('"')).map(|(oid, _)| *oid)
}

fn regnamespace(_now: &Now<'_>, values: &[Value]) -> Value {
    match values {
        [Value::Int(number)] => {
            named(*number, u32::try_from(*number).ok().and_then(namespace).map(str::to_string)).into()
        }
        values => oid(values, 0).or_else(|| text(values, 0).and_then(namespace_oid)).into(),
    }
}

fn regrole(now: &Now<'_>, values: &[Value]) -> Value {
    match values {
        [Value::Int(number)] => {
            named(*number, u32::try_from(*number).ok().and_then(|number| now.client.name_of(number))).into()
        }
        values => oid(values, 0).or_else(|| now.client.number_of(text(values, 0)?)).into(),
    }
}

/// A function by its name, which is how columns of this type are shown.
fn regproc(now: &Now<'_>, values: &[Value]) -> Value {
    match values {
        [Value::Int(number)] => {
            let known =
                u32::try_from(*number).ok().and_then(|oid| routines::get(now.known.derived.routines(), oid));
            named(*number, known.map(|of| of.name.clone())).into()
        }
        values => text(values, 0).map(|name| name.strip_prefix("pg_catalog.").unwrap_or(name)).into(),
    }
}
