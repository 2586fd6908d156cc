//! Tools about tables: which there are, what they are, and some of their rows.

use super::rows::{self, Grid};
use super::statements::{self, quoted};
use super::{Call, Limits, Told, snapshot};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tickstone_engine::TableSnapshot;
use tickstone_model::format_nanos;
use tickstone_query::{QueryError, listed};

/// Rows of `sample_rows`, unless it says.
const SAMPLE_ROWS: usize = 10;
/// Rows of `describe_table`.
const DESCRIBED_ROWS: usize = 3;
/// Partitions of `describe_table`, the newest.
const DESCRIBED_PARTITIONS: usize = 5;
/// Symbols of a column that `describe_table` names.
const DESCRIBED_SYMBOLS: usize = 10;

/// `list_tables`.
pub(super) async fn list(call: &Call<'_>) -> Result<Told, QueryError> {
    let snapshot = snapshot(call.shared, call.access).await?;
    let matching = || listed(&snapshot).filter(|table| call.arguments.matches(&[table.schema().name()]));
    let count = matching().count();
    let mut bytes = 0;
    let fitting = matching().take(call.limits.rows).map(|table| summary(call, table)).take_while(|table| {
        bytes += Value::to_string(table).len();
        bytes <= call.limits.bytes
    });
    let tables: Vec<Value> = fitting.collect();
    let mut text = match (count, call.arguments.text("pattern")) {
        (0, None) => "There are no tables yet.".to_string(),
        (0, Some(pattern)) => format!("No table or view has '{pattern}' in its name."),
        _ => {
            let names = ["table", "kind", "rows", "first", "last", "timestamp", "series_key", "partition_by"];
            let row = |table: &Value| names.iter().map(|name| shown(&table[*name])).collect::<Vec<_>>();
            rows::table(&names, &tables.iter().map(row).collect::<Vec<_>>())
        }
    };
    let left = count - tables.len();
    if left > 0 {
        text += &format!("Cut: there are {left} more; give a pattern.\n");
    }
    Ok(Told { text, data: json!({ "tables": tables, "truncated": left > 0 }) })
}

/// A list of names as one text, what is none as it is.
fn shown(value: &Value) -> Value {
    match value {
        Value::Array(names) => {
            let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
            Value::String(names.join(", "))
        }
        other => other.clone(),
    }
}

/// What is known of a table without reading it.
fn summary(call: &Call<'_>, table: &TableSnapshot) -> Value {
    let schema = table.schema();
    let name = |index: &usize| schema.columns()[*index].name.as_str();
    if let Some(query) = schema.view() {
        return json!({ "table": schema.name(), "kind": "view", "query": query });
    }
    // How many there are of which some are hidden is not told.
    let whole = Some(table).filter(|table| call.access.sees_all_of(table));
    let times = whole.and_then(|table| table.partitions().times());
    json!({
        "table": schema.name(),
        "kind": "table",
        "rows": whole.map(|table| table.rows()),
        "first": times.map(|times| format_nanos(times.0)),
        "last": times.map(|times| format_nanos(times.1)),
        "timestamp": schema.timestamp().map(|index| name(&index)),
        "series_key": schema.series().iter().map(name).collect::<Vec<_>>(),
        "partition_by": schema.partition_by().name(),
        "partitions": whole.map(|table| table.partitions().len()),
    })
}

/// `describe_table`.
pub(super) async fn describe(call: &Call<'_>) -> Result<Told, QueryError> {
    let wanted = call.arguments.text("table").unwrap_or_default();
    let limits = Limits { rows: usize::MAX, ..call.limits };
    let columns =
        statements::own_rows(call, &format!("SHOW COLUMNS FROM {}", quoted(wanted)), limits).await?;
    let snapshot = snapshot(call.shared, call.access).await?;
    let Some(table) = snapshot.table(wanted) else {
        return Err(QueryError::request(format!("table '{wanted}' was dropped just now")));
    };
    let sample = sampled(call, table, DESCRIBED_ROWS, true).await?;
    let statement = call.access.ddl_of(table.schema());
    let mut facts = facts(call, table);
    let mut text = format!("```sql\n{statement};\n```\n");
    if table.schema().view().is_some() {
        text += &format!("\nColumns:\n\n{}", columns.text());
    }
    if columns.is_cut() {
        text += &format!("\n{}", columns.note());
    }
    for (name, fact) in &facts {
        text += &format!("\n{name}: {fact}");
    }
    if !sample.rows.is_empty() {
        text += &format!("\n\nRows:\n\n{}", sample.text());
    }
    let mut data = summary(call, table);
    data["statement"] = json!(statement);
    data["columns"] = Value::Array(columns.objects());
    data["sample"] = sample.data();
    if let Value::Object(members) = &mut data {
        members.append(&mut facts);
    }
    Ok(Told { text, data })
}

/// What else there is to say of a table: its newest partitions and the symbols of its columns.
fn facts(call: &Call<'_>, table: &TableSnapshot) -> Map<String, Value> {
    let mut facts = Map::new();
    let schema = table.schema();
    if schema.view().is_some() {
        return facts;
    }
    if !call.access.sees_all_of(table) {
        facts.insert(
            "note".into(),
            json!("the user sees some of its rows and columns: SELECT count(*) counts the rows"),
        );
        return facts;
    }
    let chars_max = call.limits.cell_chars;
    facts.insert("rows".into(), json!(table.rows()));
    let partition = |partition: &Arc<tickstone_engine::PartitionSnapshot>| {
        let label = schema.partition_by().label(partition.range().from);
        json!({ "partition": label, "rows": partition.rows() })
    };
    let newest: Vec<Value> =
        table.partitions().iter().rev().take(DESCRIBED_PARTITIONS).map(partition).collect();
    facts.insert("newest_partitions".into(), json!(newest));
    let symbols: Map<String, Value> = schema
        .symbol_columns()
        .filter_map(|index| {
            let dictionary = table.dictionary(index)?;
            let first = (0u32..).take(DESCRIBED_SYMBOLS.min(dictionary.len()));
            let some: Vec<String> = first
                .filter_map(|id| Some(dictionary.symbol(id)?.chars().take(chars_max).collect()))
                .collect();
            let of = json!({ "different": dictionary.len(), "some": some });
            Some((schema.columns()[index].name.clone(), of))
        })
        .collect();
    facts.insert("symbols".into(), Value::Object(symbols));
    facts
}

/// `sample_rows`.
pub(super) async fn sample(call: &Call<'_>) -> Result<Told, QueryError> {
    let wanted = call.arguments.text("table").unwrap_or_default();
    let newest = call.arguments.text("order") != Some("oldest");
    let count = call.arguments.count("count").unwrap_or(SAMPLE_ROWS).min(call.limits.rows);
    let snapshot = snapshot(call.shared, call.access).await?;
    let grid = match snapshot.table(wanted) {
        Some(table) => sampled(call, table, count, newest).await?,
        // It says what is wrong with the name.
        None => statements::own_rows(call, &format!("SELECT * FROM {}", quoted(wanted)), call.limits).await?,
    };
    Ok(Told { text: format!("{}\n{}", grid.text(), grid.note()), data: grid.data() })
}

/// Some rows at one end of a table, of as few partitions as have them; any rows where there is no designated timestamp.
async fn sampled(
    call: &Call<'_>,
    table: &TableSnapshot,
    count: usize,
    newest: bool,
) -> Result<Grid, QueryError> {
    let schema = table.schema();
    let from = quoted(schema.name());
    let sql = match schema.timestamp() {
        None => format!("SELECT * FROM {from} LIMIT {count}"),
        Some(index) => {
            let ts = quoted(&schema.columns()[index].name);
            let order = if newest { "DESC" } else { "ASC" };
            let condition = bound(table, count, newest).map(|bound| match newest {
                true => format!(" WHERE {ts} >= '{}'", format_nanos(bound)),
                false => format!(" WHERE {ts} < '{}'", format_nanos(bound)),
            });
            let condition = condition.unwrap_or_default();
            format!("SELECT * FROM {from}{condition} ORDER BY {ts} {order} LIMIT {count}")
        }
    };
    statements::own_rows(call, &sql, call.limits).await
}

/// Where the partitions begin or end that have so many rows, counted from one end; `None` where it takes all.
fn bound(table: &TableSnapshot, count: usize, newest: bool) -> Option<i64> {
    let mut rows = 0;
    let enough = |partition: &&Arc<tickstone_engine::PartitionSnapshot>| {
        rows += partition.rows();
        rows >= count as u64
    };
    let mut partitions = table.partitions().iter();
    let range = match newest {
        true => partitions.rev().find(enough)?.range(),
        false => partitions.find(enough)?.range(),
    };
    let bound = if newest { range.from } else { range.to };
    (bound != i64::MIN && bound != i64::MAX).then_some(bound)
}
