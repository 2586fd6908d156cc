//! Tables and views as the statements that make them: SHOW CREATE TABLE.

use sqlparser::keywords::ALL_KEYWORDS;
use std::fmt::Write;
use tickstone_model::{SyncPolicy, TableSchema};

/// CREATE TABLE, CREATE VIEW or CREATE MATERIALIZED VIEW, without a semicolon.
pub(crate) fn ddl(schema: &TableSchema) -> String {
    ddl_as("CREATE TABLE", schema.name(), schema)
}

/// The same of a table that is made by other words and has another name.
pub(crate) fn ddl_as(create: &str, own: &str, schema: &TableSchema) -> String {
    if let Some(query) = schema.view() {
        return format!("CREATE VIEW {} AS {query}", name(own));
    }
    if let Some(of) = schema.materialized() {
        let ttl = schema.ttl().map_or_else(String::new, |ttl| format!(" TTL {ttl}"));
        let (name, query, unit) = (name(own), &of.query, schema.partition_by());
        return format!("CREATE MATERIALIZED VIEW {name} AS ({query}) PARTITION BY {unit}{ttl}");
    }
    let columns = schema.columns();
    let one = |index: usize| name(&columns[index].name);
    let names = |indices: &[usize]| indices.iter().map(|index| one(*index)).collect::<Vec<_>>().join(", ");
    let each = columns.iter().map(|column| format!("  {} {}", name(&column.name), column.column_type));
    let each = each.collect::<Vec<_>>().join(",\n");
    let mut sql = format!("{create} {} (\n{each}\n)", name(own));
    // Writing to a String does not fail.
    if let Some(timestamp) = schema.timestamp() {
        let _ = write!(sql, " TIMESTAMP({})", one(timestamp));
    }
    let _ = write!(sql, " SERIES BY ({})", names(schema.series()));
    let _ = write!(sql, " PARTITION BY {}", schema.partition_by());
    if let Some(ttl) = schema.ttl() {
        let _ = write!(sql, " TTL {ttl}");
    }
    for (clause, indices) in [("DEDUP UPSERT KEYS", schema.dedup()), ("INDEX", schema.indexed())] {
        if !indices.is_empty() {
            let _ = write!(sql, " {clause} ({})", names(indices));
        }
    }
    if schema.sync() != SyncPolicy::default() {
        let _ = write!(sql, " WITH (sync = '{}')", schema.sync().name());
    }
    sql
}

/// A name as SQL reads it back, in quotes where it needs them.
fn name(name: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(plain);
    match is_plain && ALL_KEYWORDS.binary_search(&name.to_ascii_uppercase().as_str()).is_err() {
        true => name.to_string(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}
