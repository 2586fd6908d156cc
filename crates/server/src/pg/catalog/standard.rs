//! The schema `information_schema`: what the SQL standard has tools ask for, as PostgreSQL answers.

use super::client::Client;
use super::relation::{Attribute, Key, NAMESPACES, Relation, Relations};
use super::shape::{Says, table};
use super::types;
use super::value::Value;
use tickstone_query::Result;
use tickstone_query::arrow::array::RecordBatch;

/// A column of a table, for `information_schema.columns`.
type Listed<'a> = (&'a Relation, &'a Attribute);

pub(super) fn columns(relations: &Relations, client: &Client) -> Result<RecordBatch> {
    let of = |relation| {
        let relation: &Relation = relation;
        relation.attributes.iter().map(move |column| (relation, column))
    };
    let all: Vec<Listed<'_>> = relations.all.iter().flat_map(of).collect();
    table(
        "information_schema.columns",
        &all,
        &[
            ("table_catalog", &|_| client.database.as_str().into()),
            ("table_schema", &|(relation, _)| relation.schema_name().into()),
            ("table_name", &|(relation, _)| relation.name.as_str().into()),
            ("column_name", &|(_, column)| column.name.as_str().into()),
            ("ordinal_position", &|(_, column)| column.number.into()),
            ("is_nullable", &|(_, column)| if column.is_not_null { "NO" } else { "YES" }.into()),
            ("data_type", &|(_, column)| {
                let name = types::format(column.type_oid, None);
                if name.ends_with("[]") { "ARRAY".into() } else { name.into() }
            }),
            ("character_maximum_length", &|_| Value::Null),
            ("character_octet_length", &|_| Value::Null),
            ("numeric_precision", &|(_, column)| digits(column).map(|(precision, _, _)| precision).into()),
            ("numeric_precision_radix", &|(_, column)| digits(column).map(|(_, radix, _)| radix).into()),
            ("numeric_scale", &|(_, column)| digits(column).and_then(|(_, _, scale)| scale).into()),
            ("datetime_precision", &|(_, column)| time_digits(column.type_oid).into()),
            ("interval_precision", &|_| Value::Null),
            ("maximum_cardinality", &|_| Value::Null),
            ("udt_catalog", &|_| client.database.as_str().into()),
            ("udt_schema", &|_| "pg_catalog".into()),
            ("udt_name", &|(_, column)| types::get(column.type_oid).map(|known| known.name).into()),
            ("dtd_identifier", &|(_, column)| column.number.to_string().into()),
            ("is_self_referencing", &|_| "NO".into()),
            ("is_identity", &|_| "NO".into()),
            ("identity_cycle", &|_| "NO".into()),
            ("is_generated", &|_| "NEVER".into()),
            ("is_updatable", &|(relation, _)| yes_no(relation.view.is_none()).into()),
        ],
    )
}

/// Digits in all, what they are digits of, and digits after the point.
fn digits(column: &Attribute) -> Option<(i64, i64, Option<i64>)> {
    Some(match types::get(column.type_oid)?.name {
        "int2" => (16, 2, Some(0)),
        "int4" => (32, 2, Some(0)),
        "int8" => (64, 2, Some(0)),
        "float4" => (24, 2, None),
        "float8" => (53, 2, None),
        "numeric" if column.modifier > 0 => {
            let packed = i64::from(column.modifier - types::VARHDRSZ);
            (packed >> 16, 10, Some(packed & 0xffff))
        }
        _ => return None,
    })
}

fn time_digits(oid: u32) -> Option<i64> {
    match types::get(oid)?.name {
        "date" => Some(0),
        "time" | "timestamp" | "timestamptz" | "interval" => Some(6),
        _ => None,
    }
}

fn yes_no(is: bool) -> &'static str {
    if is { "YES" } else { "NO" }
}

pub(super) fn tables(relations: &Relations, client: &Client) -> Result<RecordBatch> {
    table(
        "information_schema.tables",
        &relations.all,
        &[
            ("table_catalog", &|_| client.database.as_str().into()),
            ("table_schema", &|of| of.schema_name().into()),
            ("table_name", &|of| of.name.as_str().into()),
            ("table_type", &|of| if of.view.is_some() { "VIEW" } else { "BASE TABLE" }.into()),
            ("is_insertable_into", &|of| yes_no(of.view.is_none() && !of.is_system()).into()),
            ("is_typed", &|_| "NO".into()),
        ],
    )
}

pub(super) fn views(relations: &Relations, client: &Client) -> Result<RecordBatch> {
    let views: Vec<&Relation> = relations.all.iter().filter(|relation| relation.view.is_some()).collect();
    table(
        "information_schema.views",
        &views,
        &[
            ("table_catalog", &|_| client.database.as_str().into()),
            ("table_schema", &|of| of.schema_name().into()),
            ("table_name", &|of| of.name.as_str().into()),
            ("view_definition", &|of| of.view.clone().into()),
            ("check_option", &|_| "NONE".into()),
            ("is_updatable", &|_| "NO".into()),
            ("is_insertable_into", &|_| "NO".into()),
            ("is_trigger_updatable", &|_| "NO".into()),
            ("is_trigger_deletable", &|_| "NO".into()),
            ("is_trigger_insertable_into", &|_| "NO".into()),
        ],
    )
}

pub(super) fn schemata(client: &Client) -> Result<RecordBatch> {
    table(
        "information_schema.schemata",
        &NAMESPACES,
        &[
            ("catalog_name", &|_| client.database.as_str().into()),
            ("schema_name", &|(_, name)| (*name).into()),
            ("schema_owner", &|_| client.user.as_str().into()),
        ],
    )
}

pub(super) fn table_constraints(relations: &Relations, client: &Client) -> Result<RecordBatch> {
    let keys: Vec<Key<'_>> = relations.keys().collect();
    table(
        "information_schema.table_constraints",
        &keys,
        &[
            ("constraint_catalog", &|_| client.database.as_str().into()),
            ("constraint_schema", &|_| "public".into()),
            ("constraint_name", &|key| key.name().into()),
            ("table_catalog", &|_| client.database.as_str().into()),
            ("table_schema", &|_| "public".into()),
            ("table_name", &|key| key.relation.name.as_str().into()),
            ("constraint_type", &|_| "PRIMARY KEY".into()),
            ("is_deferrable", &|_| "NO".into()),
            ("initially_deferred", &|_| "NO".into()),
            ("enforced", &|_| "YES".into()),
        ],
    )
}

/// A key, the place of a column in it, and the column's number.
type KeyColumn<'a> = (&'a Key<'a>, i64, i64);

/// `key_column_usage` and `constraint_column_usage`.
pub(super) fn key_columns(name: &str, relations: &Relations, client: &Client) -> Result<RecordBatch> {
    let keys: Vec<Key<'_>> = relations.keys().collect();
    let of = |key| {
        let key: &Key<'_> = key;
        (1_i64..).zip(&key.relation.key).map(move |(place, number)| (key, place, *number))
    };
    let all: Vec<KeyColumn<'_>> = keys.iter().flat_map(of).collect();
    let usage: [(&str, Says<'_, KeyColumn<'_>>); 8] = [
        ("constraint_catalog", &|_| client.database.as_str().into()),
        ("constraint_schema", &|_| "public".into()),
        ("constraint_name", &|(key, ..)| key.name().into()),
        ("table_catalog", &|_| client.database.as_str().into()),
        ("table_schema", &|_| "public".into()),
        ("table_name", &|(key, ..)| key.relation.name.as_str().into()),
        ("column_name", &|(key, _, number)| key.relation.column(*number).into()),
        ("ordinal_position", &|(_, place, _)| (*place).into()),
    ];
    let has_places = name == "key_column_usage";
    let mut usage = usage.to_vec();
    match has_places {
        true => usage.push(("position_in_unique_constraint", &|_| Value::Null)),
        false => usage.truncate(7),
    }
    table(&format!("information_schema.{name}"), &all, &usage)
}
