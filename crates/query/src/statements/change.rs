//! DELETE and UPDATE: which rows change is found by a query, then the parts with them are written anew, in one
//! commit. RETURNING is worked out of the rows before that: where it fails, nothing changes.

use super::insert::{cast, keep_digits, selected, stream_of};
use crate::cast::no_such_column;
use crate::dialect::{ChangeRows, with_old_values};
use crate::error::{Position, QueryError, Result, from_arrow};
use crate::scan::{Selected, numbered_row};
use crate::session::{Outcome, Session};
use arrow_select::take::take;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt64Array};
use datafusion::arrow::datatypes::UInt64Type;
use futures::TryStreamExt;
use sqlparser::ast;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;
use tickstone_engine::{EngineError, Rewrite};
use tickstone_model::{ColumnType, TableSchema};

pub(super) async fn run(session: &mut Session, mut change: ChangeRows) -> Result<Outcome> {
    let table = super::table(session, &change.table)?;
    let tag = if change.columns.is_empty() { "DELETE" } else { "UPDATE" };
    let columns = columns(table.schema(), &change.columns)?;
    keep_decimals(&mut change.query, table.schema(), &columns);
    let name = table.schema().name().to_string();
    let mut rewrite = session.blocking(move |engine| engine.rewrite(&name)).await?;
    if rewrite.table().id() != table.id() || rewrite.table().schema() != table.schema() {
        let table = table.schema().name().to_string();
        return Err(EngineError::SchemaChanged { table }.into());
    }
    let target = Arc::clone(rewrite.table());
    let schema = Arc::clone(target.schema());
    if change.returning.is_some() {
        with_old_values(&mut change.query, schema.columns().iter().map(|column| column.name.as_str()));
    }
    let (begun, held) = (Instant::now(), session.held_for("RETURNING"));
    let (selected, mut rows) = session.start_change(target, change.query).await?;
    let mut met = change.joined.then(HashSet::new);
    let mut changed = Vec::new();
    if let Some(selected) = selected {
        while let Some(batch) = rows.try_next().await? {
            let found = Found::of(&batch, &columns, met.as_mut())?;
            found.tell(&mut rewrite, &selected, &columns)?;
            if change.returning.is_some() {
                let rows = found.rows(&schema, &columns)?;
                held.try_grow(rows.get_array_memory_size())?;
                changed.push(rows);
            }
        }
    }
    drop(rows);
    let returned = match change.returning {
        Some(items) => {
            let called = change.alias.as_deref().unwrap_or(schema.name());
            Some(session.rows_returned(items, called, schema.edge(), changed).await?)
        }
        None => None,
    };
    drop(held);
    let done = session.blocking(move |_| rewrite.commit()).await?;
    Ok(match returned {
        Some((schema, returned, progress)) => Outcome::Rows {
            stream: stream_of(&schema, returned),
            schema,
            planning: begun.elapsed(),
            progress,
        },
        None => Outcome::rows(tag, done.rows),
    })
}

/// Numbers that DECIMAL columns get, digit by digit. The first item of the query is the number of the row.
fn keep_decimals(query: &mut ast::Query, schema: &TableSchema, columns: &[usize]) {
    let ast::SetExpr::Select(select) = query.body.as_mut() else { return };
    let is_decimal = |place: usize| {
        let column = columns.get(place).map(|column| schema.columns()[*column].column_type);
        matches!(column, Some(ColumnType::Decimal { .. }))
    };
    keep_digits(select.projection.iter_mut().skip(1).map(selected), is_decimal);
}

/// The columns of these names, which may change and are named once.
fn columns(schema: &TableSchema, names: &[(String, Position)]) -> Result<Vec<usize>> {
    let mut columns = Vec::with_capacity(names.len());
    for (name, position) in names {
        let column = schema.column_index(name).ok_or_else(|| no_such_column(schema, name).at(*position))?;
        let role = match column {
            _ if schema.timestamp() == Some(column) => Some("it is the designated timestamp"),
            _ if schema.series().contains(&column) => Some("it is in the series key"),
            _ => None,
        };
        if let Some(role) = role {
            let (table, column) = (schema.name().to_string(), schema.columns()[column].name.clone());
            return Err(QueryError::from(EngineError::KeyColumn { table, column, role }).at(*position));
        }
        if columns.contains(&column) {
            return Err(QueryError::request(format!("column '{name}' is set twice")).at(*position));
        }
        columns.push(column);
    }
    Ok(columns)
}

/// Rows that a batch names: their numbers, ascending, each once, and their values column by column.
struct Found {
    numbers: Vec<u64>,
    values: Vec<ArrayRef>,
}

impl Found {
    /// `met` are the numbers of earlier batches, where one may come again.
    fn of(batch: &RecordBatch, columns: &[usize], met: Option<&mut HashSet<u64>>) -> Result<Self> {
        let numbers = batch.column(0).as_primitive::<UInt64Type>().values();
        let values = batch.columns()[1..].to_vec();
        let Some(met) = met else {
            if numbers.is_sorted() {
                return Ok(Self { numbers: numbers.to_vec(), values });
            }
            return Self::sorted(numbers, (0..numbers.len()).collect(), &values);
        };
        let new: Vec<usize> = (0..numbers.len()).filter(|row| met.insert(numbers[*row])).collect();
        if new.len() < numbers.len() && !columns.is_empty() {
            return Err(QueryError::request("a row gets several values: several rows of FROM match it")
                .hint("have FROM yield one row for each, such as with GROUP BY"));
        }
        Self::sorted(numbers, new, &values)
    }

    fn sorted(numbers: &[u64], mut rows: Vec<usize>, values: &[ArrayRef]) -> Result<Self> {
        rows.sort_unstable_by_key(|row| numbers[*row]);
        let order = UInt64Array::from_iter_values(rows.iter().map(|row| *row as u64));
        let values = values.iter().map(|values| take(values, &order, None).map_err(from_arrow));
        let values = values.collect::<std::result::Result<Vec<_>, _>>()?;
        Ok(Self { numbers: rows.iter().map(|row| numbers[*row]).collect(), values })
    }

    /// The rows as the table has them after the change; those that go, as it had them.
    fn rows(&self, schema: &TableSchema, columns: &[usize]) -> Result<RecordBatch> {
        let (new, old) = self.values.split_at(columns.len());
        let arrays = schema.columns().iter().zip(old).enumerate().map(|(at, (column, old))| {
            let place = columns.iter().position(|changed| *changed == at);
            cast(place.map_or(old, |place| &new[place]), column, 0)
        });
        Ok(RecordBatch::try_new(Arc::clone(schema.edge()), arrays.collect::<Result<_>>()?)?)
    }

    /// Tells the engine which rows they are, segment by segment.
    fn tell(&self, rewrite: &mut Rewrite, selected: &Selected, columns: &[usize]) -> Result<()> {
        let schema = Arc::clone(rewrite.table().schema());
        let values = columns.iter().zip(&self.values);
        let values = values.map(|(column, values)| cast(values, &schema.columns()[*column], 0));
        let values: Vec<ArrayRef> = values.collect::<Result<_>>()?;
        for (segment, places) in by_segment(&self.numbers) {
            let numbers = self.numbers[places.clone()].iter();
            let rows: Vec<usize> = numbers.map(|number| numbered_row(*number).1).collect();
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
