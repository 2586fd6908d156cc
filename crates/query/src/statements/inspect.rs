//! DESCRIBE and SUMMARIZE of a query: its columns, and what its rows hold.

use super::show::{columns_of_view, shown};
use crate::dialect::Inspect;
use crate::error::{Result, from_arrow, type_name};
use crate::session::{Outcome, Session, inspected_schema};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray,
};
use datafusion::arrow::compute::{cast, concat_batches};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type, Schema};
use futures::TryStreamExt;
use sqlparser::ast;
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;
use std::fmt::Write;
use std::sync::Arc;

/// What SUMMARIZE says of a column: the name of the figure, and the call that gives it of `{}`; of numbers only where
/// it says so.
const FIGURES: [(&str, &str, bool); 8] = [
    ("min", "min({})", false),
    ("max", "max({})", false),
    ("approx_unique", "approx_distinct({})", false),
    ("avg", "CAST(avg({}) AS DOUBLE)", true),
    ("std", "stddev(CAST({} AS DOUBLE))", true),
    ("q25", "quantile_cont(CAST({} AS DOUBLE), 0.25)", true),
    ("q50", "quantile_cont(CAST({} AS DOUBLE), 0.5)", true),
    ("q75", "quantile_cont(CAST({} AS DOUBLE), 0.75)", true),
];

/// DESCRIBE or SUMMARIZE.
pub(super) async fn run(session: &mut Session, inspect: Inspect) -> Result<Outcome> {
    let (_, schema) = session.analyzed(ast::Statement::Query(inspect.query.clone())).await?;
    match inspect.summarizes {
        true => summarized(session, inspect.query, &schema).await,
        false => shown(columns_of_view(&schema)?),
    }
}

/// One row for each column of a query, whose rows are read once.
async fn summarized(session: &mut Session, query: Box<ast::Query>, schema: &Schema) -> Result<Outcome> {
    let has_order = |of: &DataType| !of.is_nested();
    let mut items = String::from("count(*) AS f");
    let named: Vec<String> = (0..schema.fields().len()).map(|place| format!("c{place}")).collect();
    for (field, column) in schema.fields().iter().zip(&named) {
        let numbers = field.data_type().is_numeric();
        let _ = write!(items, ", count({column}) AS {column}_f");
        for (number, (_, call, of_numbers)) in FIGURES.into_iter().enumerate() {
            match has_order(field.data_type()) && (numbers || !of_numbers) {
                true => {
                    // A text counts as what it says, a symbol too.
                    let as_text = call.starts_with("approx") && !field.data_type().is_integer();
                    let of = if as_text { format!("CAST({column} AS VARCHAR)") } else { column.clone() };
                    let _ = write!(items, ", {}", call.replace("{}", &of));
                }
                false => items.push_str(", NULL"),
            }
            let _ = write!(items, " AS {column}_f{number}");
        }
    }
    let aliased = format!("SELECT {items} FROM (SELECT 1) AS q({})", named.join(", "));
    let rows = read_once(session, &aliased, query).await?;
    let count_of = |at: usize| rows.column(at).as_primitive::<Int64Type>().value(0);
    let all = count_of(0);
    let figures = FIGURES.len() + 1;
    let figure = |column: usize, figure: usize| rows.column(1 + column * figures + figure);
    let each = || 0..named.len();
    let texts = |place: usize| -> Result<ArrayRef> {
        let one = |column: usize| -> Result<Option<String>> {
            let value = cast(figure(column, place), &DataType::Utf8).map_err(from_arrow)?;
            let value = value.as_string::<i32>();
            Ok(value.is_valid(0).then(|| value.value(0).to_string()))
        };
        Ok(Arc::new(each().map(one).collect::<Result<StringArray>>()?))
    };
    let doubles = |place: usize| -> Result<ArrayRef> {
        let one = |column: usize| -> Result<Option<f64>> {
            let value = cast(figure(column, place), &DataType::Float64).map_err(from_arrow)?;
            let value = value.as_primitive::<Float64Type>();
            Ok(value.is_valid(0).then(|| value.value(0)))
        };
        Ok(Arc::new(each().map(one).collect::<Result<Float64Array>>()?))
    };
    let counts = |place: usize| -> Result<ArrayRef> {
        let one = |column: usize| -> Result<Option<i64>> {
            let value = cast(figure(column, place), &DataType::Int64).map_err(from_arrow)?;
            let value = value.as_primitive::<Int64Type>();
            Ok(value.is_valid(0).then(|| value.value(0)))
        };
        Ok(Arc::new(each().map(one).collect::<Result<Int64Array>>()?))
    };
    let nulls = |column: usize| match all {
        0 => None,
        all => {
            Some((all - figure(column, 0).as_primitive::<Int64Type>().value(0)) as f64 * 100.0 / all as f64)
        }
    };
    let fields = || schema.fields().iter();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(fields().map(|field| field.name()))),
        Arc::new(StringArray::from_iter_values(fields().map(|field| type_name(field.data_type())))),
        texts(1)?,
        texts(2)?,
        counts(3)?,
        doubles(4)?,
        doubles(5)?,
        doubles(6)?,
        doubles(7)?,
        doubles(8)?,
        Arc::new(Int64Array::from(vec![all; named.len()])),
        Arc::new(each().map(nulls).collect::<Float64Array>()),
    ];
    let schema = inspected_schema(true);
    shown(RecordBatch::try_new(schema, columns).map_err(from_arrow)?)
}

/// The one row of a query in whose FROM another takes the place of the first derived table.
async fn read_once(session: &mut Session, outer: &str, inner: Box<ast::Query>) -> Result<RecordBatch> {
    let parsed =
        Parser::new(&GenericDialect {}).try_with_sql(outer).and_then(|mut parser| parser.parse_query());
    let mut query = parsed.map_err(|error| crate::error::QueryError::request(error.to_string()))?;
    if let ast::SetExpr::Select(select) = query.body.as_mut()
        && let Some(ast::TableFactor::Derived { subquery, .. }) =
            select.from.first_mut().map(|from| &mut from.relation)
    {
        *subquery = inner;
    }
    let stream = session.start(ast::Statement::Query(query)).await?.1;
    let schema = stream.schema();
    let batches: Vec<RecordBatch> = stream.try_collect().await?;
    Ok(concat_batches(&schema, &batches).map_err(from_arrow)?)
}
