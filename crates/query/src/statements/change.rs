//! DELETE and UPDATE: which rows change is found by a query, then the parts with them are written anew, in one
//! commit.

use super::insert::cast;
use crate::cast::no_such_column;
use crate::dialect::ChangeRows;
use crate::error::{QueryError, Result};
use crate::scan::{Selected, numbered_row};
use crate::session::{Outcome, Session};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::UInt64Type;
use futures::TryStreamExt;
use std::ops::Range;
use tickstone_engine::Rewrite;
use tickstone_model::TableSchema;

pub(super) async fn run(session: &mut Session, change: ChangeRows) -> Result<Outcome> {
    let table = super::table(session, &change.table)?;
    let tag = if change.columns.is_empty() { "DELETE" } else { "UPDATE" };
    let columns = columns(table.schema(), &change.columns).map_err(|error| error.at(change.position))?;
    let name = table.schema().name().to_string();
    let mut rewrite = session.blocking(move |engine| engine.rewrite(&name)).await?;
    if rewrite.table().schema() != table.schema() {
        return Err(QueryError::request("the table was altered meanwhile").hint("run the statement again"));
    }
    let (selected, mut rows) = session.start_change(rewrite.table().clone(), change.query).await?;
    if let Some(selected) = selected {
        while let Some(batch) = rows.try_next().await? {
            add(&mut rewrite, &selected, &columns, &batch)?;
        }
    }
    drop(rows);
    let done = session.blocking(move |_| rewrite.commit()).await?;
    Ok(Outcome::rows(tag, done.rows))
}

/// The columns of these names.
fn columns(schema: &TableSchema, names: &[String]) -> Result<Vec<usize>> {
    let mut columns = Vec::with_capacity(names.len());
    for name in names {
        let column = schema.column_index(name).ok_or_else(|| no_such_column(schema, name))?;
        if columns.contains(&column) {
            return Err(QueryError::request(format!("column '{name}' is set twice")));
        }
        columns.push(column);
    }
    Ok(columns)
}

/// Tells the engine of the rows of one batch: their numbers, then a new value for each column.
fn add(rewrite: &mut Rewrite, selected: &Selected, columns: &[usize], batch: &RecordBatch) -> Result<()> {
    let schema = std::sync::Arc::clone(rewrite.table().schema());
    let numbers = batch.column(0).as_primitive::<UInt64Type>();
    let values = columns.iter().zip(&batch.columns()[1..]);
    let values = values.map(|(column, values)| cast(values, &schema.columns()[*column], 0));
    let values: Vec<ArrayRef> = values.collect::<Result<_>>()?;
    for (segment, places) in by_segment(numbers.values()) {
        let rows: Vec<usize> =
            numbers.values()[places.clone()].iter().map(|number| numbered_row(*number).1).collect();
        let of = &selected.segments[segment];
        if columns.is_empty() {
            rewrite.delete(of, &rows)?;
        }
        for (column, values) in columns.iter().zip(&values) {
            rewrite.update(of, &rows, *column, &values.slice(places.start, places.len()))?;
        }
    }
    Ok(())
}

/// Stretches of numbers of one segment, and which it is.
fn by_segment(numbers: &[u64]) -> impl Iterator<Item = (usize, Range<usize>)> {
    let mut from = 0;
    numbers.chunk_by(|a, b| numbered_row(*a).0 == numbered_row(*b).0).map(move |stretch| {
        let places = from..from + stretch.len();
        from = places.end;
        (numbered_row(stretch[0]).0, places)
    })
}
