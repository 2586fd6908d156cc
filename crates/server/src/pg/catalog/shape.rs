//! What tables there are and which columns they have: as PostgreSQL 15 has them (`shapes.txt`).

use super::value::{Kind, Value, column};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use tickstone_query::arrow::array::RecordBatch;
use tickstone_query::arrow::datatypes::{Field, Schema, SchemaRef};
use tickstone_query::{ErrorKind, QueryError, Result};

/// The columns of a table.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) columns: Vec<(&'static str, Kind)>,
    schema: SchemaRef,
}

static SHAPES: LazyLock<HashMap<&'static str, Shape>> = LazyLock::new(|| {
    let text = include_str!("shapes.txt");
    let tables = text.split("\n\n").filter(|paragraph| !paragraph.starts_with('#'));
    tables.filter_map(|table| table.split_once(": ")).map(|(name, columns)| (name, shape(columns))).collect()
});

/// The names of all tables.
pub(super) static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let mut names: Vec<&str> = SHAPES.keys().copied().collect();
    names.sort_unstable();
    names
});

fn shape(columns: &'static str) -> Shape {
    let columns: Vec<(&str, Kind)> = columns
        .split(',')
        .filter_map(|column| {
            let mut words = column.split_whitespace();
            let (name, kind) = (words.next()?, words.next()?);
            Some((name, Kind::of(kind)?))
        })
        .collect();
    let fields: Vec<Field> =
        columns.iter().map(|(name, kind)| Field::new(*name, kind.data_type(), true)).collect();
    Shape { columns, schema: Arc::new(Schema::new(fields)) }
}

/// That of a table.
///
/// # Errors
/// Where there is no such table: a defect.
pub(super) fn of(name: &str) -> Result<&'static Shape> {
    SHAPES.get(name).ok_or_else(|| defect(format!("the catalog has no table {name}")))
}

/// The columns of a table.
pub(super) fn schema(name: &str) -> Option<SchemaRef> {
    SHAPES.get(name).map(|shape| Arc::clone(&shape.schema))
}

/// What one column of a table says of a thing.
pub(super) type Says<'a, T> = &'a dyn Fn(&T) -> Value;

/// A table with a row for each of `things`; of columns that nobody speaks of, [`Kind::unsaid`].
///
/// # Errors
/// Where the table has no such column: a defect.
pub(super) fn table<T>(name: &str, things: &[T], columns: &[(&str, Says<'_, T>)]) -> Result<RecordBatch> {
    let shape = of(name)?;
    if let Some((stray, _)) =
        columns.iter().find(|(said, _)| !shape.columns.iter().any(|(name, _)| name == said))
    {
        return Err(defect(format!("{name} has no column {stray}")));
    }
    let arrays = shape.columns.iter().map(|(name, kind)| {
        let says = columns.iter().find(|(said, _)| said == name).map(|(_, says)| says);
        let values: Vec<Value> =
            things.iter().map(|thing| says.map_or(kind.unsaid(), |says| says(thing))).collect();
        column(*kind, &values)
    });
    RecordBatch::try_new(Arc::clone(&shape.schema), arrays.collect())
        .map_err(|error| defect(error.to_string()))
}

/// A table of things of which there are none.
///
/// # Errors
/// Where there is no such table: a defect.
pub(super) fn empty(name: &str) -> Result<RecordBatch> {
    of(name).map(|shape| RecordBatch::new_empty(Arc::clone(&shape.schema)))
}

fn defect(what: String) -> QueryError {
    QueryError::new(ErrorKind::Report, what)
}
