//! What a table made from batches looks like.

use super::AppendRequest;
use crate::designated::{SERIES_KEY, TIMESTAMP_KEY};
use crate::error::{QueryError, Result};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use tickstone_model::{ColumnType, TableSchema};
use tickstone_wire::infer::{ColumnSample, is_time_name, timestamp_rank};

/// Rows looked at for the cardinality of text.
const SAMPLE_ROWS: usize = 10_000;

/// The table for rows of `schema`, whose first batch is `sample`: the designated timestamp and the series
/// key are the ones asked for, else those the columns are marked as, else found by type and name.
pub(super) fn table_of(
    request: &AppendRequest,
    schema: &Schema,
    sample: Option<&RecordBatch>,
) -> Result<TableSchema> {
    let series = series_key(request, schema)?;
    let timestamp = timestamp(request, schema)?;
    let mut builder = TableSchema::builder(&request.table);
    for (index, field) in schema.fields().iter().enumerate() {
        let is_series = series.iter().flatten().any(|name| name.eq_ignore_ascii_case(field.name()));
        let column_type = match () {
            () if timestamp == Some(index) => ColumnType::Timestamp,
            () if is_series => ColumnType::Symbol,
            () => column_type(field, sample.map(|batch| batch.column(index).as_ref()))?,
        };
        builder = builder.column(field.name(), column_type);
    }
    if let Some(timestamp) = timestamp {
        builder = builder.timestamp(schema.field(timestamp).name());
    }
    if let Some(series) = series {
        builder = builder.series(series);
    }
    if let Some(unit) = request.partition_by {
        builder = builder.partition_by(unit);
    }
    if let Some(sync) = request.sync {
        builder = builder.sync(sync);
    }
    Ok(builder.build()?)
}

/// Refuses what a request says of a new table where the table is there and differs.
pub(super) fn check_wishes(table: &TableSchema, request: &AppendRequest) -> Result<()> {
    let name_of = |index: usize| table.columns()[index].name.as_str();
    let differs = |what: &str, found: String, wanted: &str| {
        let message =
            format!("table '{}' exists already, and its {what} is {found}, not {wanted}", table.name());
        Err(QueryError::request(message).hint("leave it out, or append to another table"))
    };
    if let Some(wanted) = &request.timestamp {
        let found = table.timestamp().map_or("none", name_of);
        if !found.eq_ignore_ascii_case(wanted) {
            return differs("designated timestamp", found.to_string(), wanted);
        }
    }
    if let Some(wanted) = &request.series {
        let found: Vec<&str> = table.series().iter().map(|index| name_of(*index)).collect();
        let same =
            found.len() == wanted.len() && found.iter().zip(wanted).all(|(a, b)| a.eq_ignore_ascii_case(b));
        if !same {
            return differs("series key", found.join(", "), &wanted.join(", "));
        }
    }
    match request.partition_by.filter(|wanted| *wanted != table.partition_by()) {
        Some(wanted) => differs("partition length", table.partition_by().to_string(), &wanted.to_string()),
        None => Ok(()),
    }
}

fn find(schema: &Schema, name: &str, what: &str) -> Result<usize> {
    let found = schema.fields().iter().position(|field| field.name().eq_ignore_ascii_case(name));
    found.ok_or_else(|| {
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        QueryError::request(format!("no column '{name}', which {what} names"))
            .hint(format!("the columns are {}", names.join(", ")))
    })
}

fn timestamp(request: &AppendRequest, schema: &Schema) -> Result<Option<usize>> {
    if let Some(name) = &request.timestamp {
        return find(schema, name, "timestamp").map(Some);
    }
    let fields = schema.fields().iter().enumerate();
    let times = fields.filter(|(_, field)| matches!(field.data_type(), DataType::Timestamp(_, _)));
    let marked = times.clone().find(|(_, field)| field.metadata().contains_key(TIMESTAMP_KEY));
    let rank = |name: &str| timestamp_rank(name).unwrap_or(usize::MAX - usize::from(is_time_name(name)));
    let likeliest = times.min_by_key(|(index, field)| (rank(field.name()), *index));
    Ok(marked.or(likeliest).map(|(index, _)| index))
}

/// The series key, `None` for the default.
fn series_key(request: &AppendRequest, schema: &Schema) -> Result<Option<Vec<String>>> {
    if let Some(names) = &request.series {
        let names = names.iter().map(|name| Ok(schema.field(find(schema, name, "series")?).name().clone()));
        return names.collect::<Result<Vec<_>>>().map(Some);
    }
    let mut marked: Vec<(usize, String)> = Vec::new();
    for field in schema.fields() {
        if let Some(ordinal) = field.metadata().get(SERIES_KEY).and_then(|ordinal| ordinal.parse().ok()) {
            marked.push((ordinal, field.name().clone()));
        }
    }
    marked.sort();
    Ok((!marked.is_empty()).then(|| marked.into_iter().map(|(_, name)| name).collect()))
}

/// The type of a column; text of few values becomes SYMBOL.
fn column_type(field: &Field, sample: Option<&dyn Array>) -> Result<ColumnType> {
    let column_type = ColumnType::from_arrow(field.data_type()).ok_or_else(|| {
        let (name, data_type) = (field.name(), field.data_type());
        QueryError::request(format!("column '{name}' is {data_type}, which no table column holds"))
            .hint("convert it to a type of a table, or leave it out")
    })?;
    match sample {
        Some(values) if column_type == ColumnType::Varchar => text_type(field.name(), values),
        _ => Ok(column_type),
    }
}

fn text_type(name: &str, values: &dyn Array) -> Result<ColumnType> {
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(values, &options)?;
    let mut sample = ColumnSample::new(name);
    for row in (0..values.len().min(SAMPLE_ROWS)).filter(|row| values.is_valid(*row)) {
        sample.see(formatter.value(row).to_string().as_bytes());
    }
    Ok(match sample.conclude().column_type {
        ColumnType::Symbol => ColumnType::Symbol,
        _ => ColumnType::Varchar,
    })
}
