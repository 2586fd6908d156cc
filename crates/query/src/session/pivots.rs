//! The values of a PIVOT that is to find its own: a query of their own, before names are resolved.

use super::Session;
use crate::dialect::{Statement, pivot};
use crate::error::{QueryError, Result};
use crate::texts::{Cells, TimeStyle};
use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::DataType;
use futures::TryStreamExt;
use sqlparser::ast::{self, Expr, UnaryOperator, Value};
use std::collections::HashSet;

/// Most values that a PIVOT finds: each is a column for each aggregate.
const VALUES_MAX: usize = 1_000;

impl Session {
    /// Writes out the values of each PIVOT that is to find its own; whether there was one. NULL is none of them.
    ///
    /// # Errors
    /// Those of the queries that find them; where they are more than [`VALUES_MAX`].
    pub(super) async fn find_values(&mut self, statement: &mut Statement) -> Result<bool> {
        let mut any = false;
        while let Some(query) = pivot::values_wanted(statement)? {
            let mut finding = Statement::Query(Box::new(ast::Statement::Query(query)));
            self.resolve(&mut finding)?;
            let Statement::Query(finding) = finding else { return Ok(any) };
            let (_, mut stream) = self.start(*finding).await?;
            let (mut values, mut seen) = (Vec::new(), HashSet::new());
            while let Some(batch) = stream.try_next().await? {
                literals(&batch, &mut values, &mut seen)?;
                if values.len() > VALUES_MAX {
                    return Err(QueryError::request(format!(
                        "PIVOT finds more than {VALUES_MAX} values, each of which would be a column"
                    ))
                    .hint(
                        "list those that are wanted: FOR symbol IN ('A', 'B'); or choose rows in a sub-query",
                    ));
                }
            }
            if values.is_empty() {
                return Err(QueryError::request("PIVOT finds no value: there is no row, or all are NULL")
                    .hint("list the values: FOR symbol IN ('A', 'B')"));
            }
            pivot::values_found(statement, values);
            any = true;
        }
        Ok(any)
    }
}

/// The rows as literals, each once, those with a NULL left out.
fn literals(batch: &RecordBatch, values: &mut Vec<Expr>, seen: &mut HashSet<String>) -> Result<()> {
    let cells = batch.columns().iter().map(|column| Cells::new(column, TimeStyle::Full));
    let cells = cells.collect::<std::result::Result<Vec<_>, _>>()?;
    for row in 0..batch.num_rows() {
        if batch.columns().iter().any(|column| column.is_null(row)) {
            continue;
        }
        let mut parts = Vec::with_capacity(cells.len());
        for (column, cells) in batch.columns().iter().zip(&cells) {
            let mut text = String::new();
            cells.write(row, &mut text);
            let data_type = match column.data_type() {
                DataType::Dictionary(_, values) => values.as_ref(),
                other => other,
            };
            parts.push(match data_type {
                DataType::Boolean => Expr::value(Value::Boolean(column.as_boolean().value(row))),
                of if of.is_numeric() && text.parse::<f64>().is_ok_and(f64::is_finite) => number(text),
                _ => Expr::value(Value::SingleQuotedString(text)),
            });
        }
        let value = match parts.len() {
            1 => parts.remove(0),
            _ => Expr::Tuple(parts),
        };
        // A query that is written out may give one twice.
        if seen.insert(value.to_string()) {
            values.push(value);
        }
    }
    Ok(())
}

fn number(text: String) -> Expr {
    match text.strip_prefix('-') {
        Some(digits) => {
            Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(number(digits.to_string())) }
        }
        None => Expr::value(Value::Number(text, false)),
    }
}
