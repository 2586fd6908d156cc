//! The schema `information_schema`: what the SQL standard has tools ask for, as PostgreSQL answers.

use super::client::Client;
use super::relation::{Attribute, Key, NAMESPACES, Relation, Relations};
use super::shape::{Says, table};
use super::types;
use super::value::Value;
use tickstone_model::Rights;
use tickstone_query::arrow::array::RecordBatch;
use tickstone_query::{Privilege, Result};

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

/// What rights are called in the standard, and what they are here: TRUNCATE is a kind of ALTER. REFERENCES and TRIGGER are
/// rights to what there is not.
pub(super) const PRIVILEGES: [(&str, Rights); 5] = [
    ("SELECT", Rights::SELECT),
    ("INSERT", Rights::INSERT),
    ("UPDATE", Rights::UPDATE),
    ("DELETE", Rights::DELETE),
    ("TRUNCATE", Rights::ALTER),
];

/// `table_privileges` and `role_table_grants`: rights to whole tables, or some of their rows.
pub(super) fn table_privileges(name: &str, client: &Client) -> Result<RecordBatch> {
    let all = client.privileges();
    let of = |privilege: &Privilege| {
        let each = PRIVILEGES.iter().filter(|(_, right)| privilege.rights.has(*right));
        each.map(|(name, _)| (privilege.clone(), *name)).collect::<Vec<_>>()
    };
    let rows: Vec<_> = all.iter().filter(|privilege| privilege.columns.is_none()).flat_map(of).collect();
    table(
        name,
        &rows,
        &[
            ("grantor", &|(of, _)| client.owner_of(&of.table).1.into()),
            ("grantee", &|(of, _)| of.grantee.as_str().into()),
            ("table_catalog", &|_| client.database.as_str().into()),
            ("table_schema", &|_| "public".into()),
            ("table_name", &|(of, _)| of.table.as_str().into()),
            ("privilege_type", &|(_, name)| (*name).into()),
            ("is_grantable", &|(of, _)| if of.is_owner { "YES" } else { "NO" }.into()),
            ("with_hierarchy", &|(_, name)| if *name == "SELECT" { "YES" } else { "NO" }.into()),
        ],
    )
}

/// `column_privileges`: a right to a whole table is one to each of its columns.
pub(super) fn column_privileges(relations: &Relations, client: &Client) -> Result<RecordBatch> {
    let all = client.privileges();
    let of = |privilege: &Privilege| {
        let columns = match &privilege.columns {
            Some(columns) => columns.clone(),
            None => {
                let relation = relations.users().find(|relation| relation.name == privilege.table);
                let columns = relation.iter().flat_map(|relation| &relation.attributes);
                columns.map(|column| column.name.clone()).collect()
            }
        };
        let each = PRIVILEGES[..3].iter().filter(|(_, right)| privilege.rights.has(*right));
        let each = each.flat_map(|(name, _)| columns.iter().map(move |column| (*name, column.clone())));
        each.map(|(name, column)| (privilege.clone(), name, column)).collect::<Vec<_>>()
    };
    let rows: Vec<_> = all.iter().flat_map(of).collect();
    table(
        "information_schema.column_privileges",
        &rows,
        &[
            ("grantor", &|(of, ..)| client.owner_of(&of.table).1.into()),
            ("grantee", &|(of, ..)| of.grantee.as_str().into()),
            ("table_catalog", &|_| client.database.as_str().into()),
            ("table_schema", &|_| "public".into()),
            ("table_name", &|(of, ..)| of.table.as_str().into()),
            ("column_name", &|(.., column)| column.as_str().into()),
            ("privilege_type", &|(_, name, _)| (*name).into()),
            ("is_grantable", &|(of, ..)| if of.is_owner { "YES" } else { "NO" }.into()),
        ],
    )
}

/// `applicable_roles`: who was given which role.
pub(super) fn applicable_roles(client: &Client) -> Result<RecordBatch> {
    let roles = client.roles();
    let name = |number: u32| roles.iter().find(|role| role.number == number).map(|role| role.name.clone());
    let given: Vec<(String, String)> = roles
        .iter()
        .flat_map(|role| role.roles.iter().filter_map(|of| Some((role.name.clone(), name(*of)?))))
        .collect();
    table(
        "information_schema.applicable_roles",
        &given,
        &[
            ("grantee", &|(to, _)| to.as_str().into()),
            ("role_name", &|(_, role)| role.as_str().into()),
            ("is_grantable", &|_| "NO".into()),
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
