//! MERGE into a table with keys: the rows it changes and those it adds are one INSERT, in which a row replaces the one of
//! its key.

use super::insert::{Target, cast, collected, keep_digits, selected, store};
use crate::cast::no_such_column;
use crate::dialect::{MergeRows, MergedClause};
use crate::error::{QueryError, Result, from_arrow};
use crate::session::{Outcome, Session};
use arrow_select::interleave::interleave;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, new_null_array};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::DataFusionError;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use sqlparser::ast;
use std::collections::HashSet;
use std::sync::Arc;
use tickstone_model::{ColumnType, TableSchema};

pub(super) async fn run(session: &mut Session, merge: MergeRows) -> Result<Outcome> {
    let table = super::plain_table(session, &merge.table)?;
    let schema = Arc::clone(table.schema());
    if schema.dedup().is_empty() {
        let message = format!("MERGE needs a table with DEDUP UPSERT KEYS, and '{}' has none", schema.name());
        return Err(QueryError::request(message).hint(
            "CREATE TABLE … TIMESTAMP(ts) … DEDUP UPSERT KEYS (ts, symbol); or write UPDATE, then INSERT",
        ));
    }
    let clauses = Merged::of(&merge.clauses, &schema)?;
    let mut query = merge.query;
    keep_decimals(&mut query, &clauses, &schema);
    let (_, stream) = session.start(ast::Statement::Query(query)).await?;
    let target = Target::all_columns(&schema).of(&table);
    let (edge, of) = (Arc::clone(schema.edge()), Arc::clone(&schema));
    let rows = stream.map(move |batch| {
        let batch = batch?;
        merged_rows(&batch, &clauses, &of).map_err(|error| DataFusionError::External(Box::new(error)))
    });
    let rows = RecordBatchStreamAdapter::new(edge, rows);
    // Held until all are there: which row of a key comes last is nobody's choice.
    let (batches, _held) = collected(session, &target, Box::pin(rows), "MERGE").await?;
    check_keys(&batches, &schema)?;
    let batches = futures::stream::iter(batches.into_iter().map(Ok));
    let rows = RecordBatchStreamAdapter::new(Arc::clone(schema.edge()), batches);
    let rows = store(session, &target, Box::pin(rows)).await?;
    Ok(Outcome::rows("MERGE", rows))
}

/// Where the columns of a clause's rows come from.
struct Merged {
    /// By column of the table: the place of its value among those of all clauses.
    values: Vec<Option<usize>>,
    /// Whether columns without a value stay as they are; else they are NULL.
    is_update: bool,
}

impl Merged {
    fn of(clauses: &[MergedClause], schema: &TableSchema) -> Result<Vec<Self>> {
        let mut place = 0;
        let clauses = clauses.iter().map(|clause| {
            let mut values = vec![None; schema.columns().len()];
            let by_place = clause.columns.iter().all(|(name, _)| name.is_empty());
            if by_place && clause.columns.len() != values.len() {
                let (found, width) = (clause.columns.len(), values.len());
                let message =
                    format!("INSERT brings {found} values, and '{}' has {width} columns", schema.name());
                return Err(QueryError::request(message).hint("name the columns: INSERT (a, b) VALUES (…)"));
            }
            for (at, (name, position)) in clause.columns.iter().enumerate() {
                let column = match by_place {
                    true => at,
                    false => {
                        schema.column_index(name).ok_or_else(|| no_such_column(schema, name).at(*position))?
                    }
                };
                if clause.is_update && schema.dedup().contains(&column) {
                    let message =
                        format!("MERGE cannot change '{name}', which is a key of '{}'", schema.name());
                    return Err(QueryError::request(message)
                        .at(*position)
                        .hint("DELETE the row, and INSERT another"));
                }
                if values[column].replace(place).is_some() {
                    return Err(QueryError::request(format!("column '{name}' is named twice")).at(*position));
                }
                place += 1;
            }
            Ok(Self { values, is_update: clause.is_update })
        });
        clauses.collect()
    }
}

/// Numbers that DECIMAL columns get, digit by digit. The first item of the query is the clause; each value stands in a
/// CASE of its clause.
fn keep_decimals(query: &mut ast::Query, clauses: &[Merged], schema: &TableSchema) {
    let ast::SetExpr::Select(select) = query.body.as_mut() else { return };
    let is_decimal = |place: usize| {
        let column = clauses.iter().find_map(|of| of.values.iter().position(|value| *value == Some(place)));
        matches!(column.map(|at| schema.columns()[at].column_type), Some(ColumnType::Decimal { .. }))
    };
    let values = select.projection.iter_mut().skip(1).map(|item| match selected(item)? {
        ast::Expr::Case { conditions, .. } => conditions.first_mut().map(|when| &mut when.result),
        _ => None,
    });
    keep_digits(values, is_decimal);
}

/// The rows of the table that a batch of the merging query is. Its first column is the clause of each row, the last
/// ones are those of the table and whether they are there.
fn merged_rows(batch: &RecordBatch, clauses: &[Merged], schema: &TableSchema) -> Result<RecordBatch> {
    let (columns, width) = (batch.columns(), schema.columns().len());
    let of_table = columns.len() - width - 1;
    let clause_of = columns[0].as_primitive::<Int64Type>().values();
    let rows = clause_of.iter().enumerate();
    let rows: Vec<(usize, usize)> =
        rows.map(|(row, clause)| (usize::try_from(*clause).unwrap_or(0), row)).collect();
    let column = |at: usize| {
        let column = &schema.columns()[at];
        let mut sources: Vec<ArrayRef> = Vec::with_capacity(clauses.len());
        for clause in clauses {
            sources.push(match clause.values[at] {
                Some(value) => cast(&columns[1 + value], column, 0)?,
                None if clause.is_update => cast(&columns[of_table + at], column, 0)?,
                None => new_null_array(&column.column_type.edge_type(), batch.num_rows()),
            });
        }
        let arrays: Vec<&dyn Array> = sources.iter().map(AsRef::as_ref).collect();
        Ok(interleave(&arrays, &rows).map_err(from_arrow)?)
    };
    let columns = (0..width).map(column).collect::<Result<Vec<ArrayRef>>>()?;
    Ok(RecordBatch::try_new(Arc::clone(schema.edge()), columns)?)
}

/// Refuses several rows of one key.
fn check_keys(batches: &[RecordBatch], schema: &TableSchema) -> Result<()> {
    let keys = schema.dedup();
    let types = keys.iter().map(|key| SortField::new(schema.edge().field(*key).data_type().clone()));
    let converter = RowConverter::new(types.collect()).map_err(from_arrow)?;
    let mut met = HashSet::new();
    for batch in batches {
        let columns: Vec<ArrayRef> = keys.iter().map(|key| Arc::clone(batch.column(*key))).collect();
        let rows = converter.convert_columns(&columns).map_err(from_arrow)?;
        for row in &rows {
            if !met.insert(Box::<[u8]>::from(row.as_ref())) {
                let names: Vec<&str> = keys.iter().map(|key| schema.columns()[*key].name.as_str()).collect();
                let message = format!("several rows of the source give one row of '{}'", schema.name());
                let hint = format!(
                    "have USING yield one row for each ({}), such as with GROUP BY",
                    names.join(", ")
                );
                return Err(QueryError::request(message).hint(hint));
            }
        }
    }
    Ok(())
}
