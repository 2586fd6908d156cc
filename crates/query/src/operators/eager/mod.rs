//! Groups below joins: rows of a table that are joined by a symbol with a small table, and then grouped, are grouped by
//! the symbol first.
//!
//! ```text
//! Aggregate: v.name, sum(q.x)             Aggregate: v.name, sum(part)
//!   Join: q.venue = v.code         ->       Join: q.venue = v.code
//!     q                                       Aggregate: q.venue, sum(q.x) AS part
//!     v                                         q
//!                                             v
//! ```
//!
//! Every row of a group of `q` meets the same rows of `v`, none, one or several, so that its part of a sum, a count, a
//! least or a largest value does as well as the rows. (Yan and Larson, "Eager Aggregation and Lazy Aggregation", 1995.)

use super::unkeyed::unkeyed;
use crate::provider::SnapshotTable;
use crate::settings::has_pipeline;
use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::default_table_source::DefaultTableSource;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, JoinType, NullEquality, Result};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::{
    Aggregate, AggregateUDF, Expr, ExprSchemable, Join, LogicalPlan, Projection, cast,
};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use std::collections::HashSet;
use std::sync::Arc;

/// Rows of a table for each group that its symbols could make, at least, for groups of them to be few.
const ROWS_A_GROUP_MIN: u64 = 8;

/// Must run after columns that nobody reads were cut off.
#[derive(Debug)]
pub(crate) struct GroupBelowJoin;

impl OptimizerRule for GroupBelowJoin {
    fn name(&self) -> &str {
        "group_below_join"
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let Some(functions) = config.function_registry().filter(|_| has_pipeline(&config.options())) else {
            return Ok(Transformed::no(plan));
        };
        plan.transform_up_with_subqueries(|node| {
            let LogicalPlan::Aggregate(aggregate) = &node else { return Ok(Transformed::no(node)) };
            let eager = below_join(aggregate, functions)?;
            Ok(eager.map_or_else(|| Transformed::no(node), Transformed::yes))
        })
    }
}

/// The same groups with those of one side made below the join; `None` where they cannot be, or would not be few.
fn below_join(aggregate: &Aggregate, functions: &dyn FunctionRegistry) -> Result<Option<LogicalPlan>> {
    let Some(join) = plain_join(&aggregate.input).filter(|join| join.filter.is_none()) else {
        return Ok(None);
    };
    let grouped = &aggregate.group_expr;
    if grouped.is_empty() || grouped.iter().any(|expr| matches!(expr, Expr::GroupingSet(_))) {
        return Ok(None);
    }
    for (rows, keys) in [(&join.left, sides(join, true)), (&join.right, sides(join, false))] {
        let of_rows = |expr: &Expr| expr.column_refs().iter().all(|column| rows.schema().has_column(column));
        let aggregates = &aggregate.aggr_expr;
        if !aggregates.iter().all(of_rows) {
            continue;
        }
        // What the groups below are by: the keys of the join, and what of these rows the groups above are by.
        let Some(mut by) = keys.iter().map(symbol_of).collect::<Option<Vec<Column>>>() else {
            continue;
        };
        let mut plain = true;
        for expr in grouped {
            let columns = expr.column_refs();
            if !columns.iter().any(|column| rows.schema().has_column(column)) {
                continue;
            }
            match expr {
                Expr::Column(column) => by.push(column.clone()),
                _ => plain = false,
            }
        }
        if !plain || !are_few(rows, &by) {
            continue;
        }
        let mut seen = HashSet::new();
        by.retain(|column| seen.insert(column.clone()));
        let Some(parts) = parts(aggregates, rows.schema(), functions)? else { continue };
        return eager(aggregate, join, rows, by, parts).map(Some);
    }
    Ok(None)
}

/// The join of equal keys, perhaps with a condition, that a plan is, but for columns that are left out.
pub(super) fn plain_join(plan: &LogicalPlan) -> Option<&Join> {
    match plan {
        LogicalPlan::Join(join) => {
            let plain = join.join_type == JoinType::Inner
                && !join.on.is_empty()
                && join.null_equality == NullEquality::NullEqualsNothing;
            plain.then_some(join)
        }
        LogicalPlan::Projection(projection) => {
            let columns = projection.expr.iter().all(|expr| matches!(expr, Expr::Column(_)));
            if columns { plain_join(&projection.input) } else { None }
        }
        _ => None,
    }
}

/// The keys of one side.
fn sides(join: &Join, left: bool) -> Vec<Expr> {
    join.on.iter().map(|(of_left, of_right)| if left { of_left } else { of_right }.clone()).collect()
}

/// The column that a key is, perhaps as another type of text.
fn symbol_of(key: &Expr) -> Option<Column> {
    match key {
        Expr::Column(column) => Some(column.clone()),
        Expr::Cast(cast) if cast.field.data_type() == &DataType::Utf8 => symbol_of(&cast.expr),
        _ => None,
    }
}

/// Whether columns are symbols of a table with many rows for each group they could make.
fn are_few(plan: &LogicalPlan, columns: &[Column]) -> bool {
    let Some((table, schema)) = table_below(plan) else { return false };
    let mut groups: u64 = 1;
    for column in columns {
        // Names stay what they are in the table below filters and other names of the table.
        let dictionary = schema
            .has_column(column)
            .then(|| table.table().schema().column_index(&column.name))
            .flatten()
            .and_then(|index| table.table().dictionary(index));
        let Some(dictionary) = dictionary else { return false };
        groups = groups.saturating_mul(dictionary.len() as u64 + 1);
    }
    groups.saturating_mul(ROWS_A_GROUP_MIN) <= table.table().rows()
}

/// The table whose rows a plan yields, and the plan's schema; `None` where it renames columns.
fn table_below(plan: &LogicalPlan) -> Option<(&SnapshotTable, &DFSchema)> {
    let table = match plan {
        LogicalPlan::TableScan(scan) => scan
            .source
            .downcast_ref::<DefaultTableSource>()?
            .table_provider
            .downcast_ref::<SnapshotTable>()?,
        LogicalPlan::SubqueryAlias(alias) => table_below(&alias.input)?.0,
        LogicalPlan::Filter(filter) => table_below(&filter.input)?.0,
        LogicalPlan::Projection(projection)
            if projection.expr.iter().all(|expr| matches!(expr, Expr::Column(_))) =>
        {
            table_below(&projection.input)?.0
        }
        _ => return None,
    };
    Some((table, plan.schema()))
}

/// An aggregate in two steps.
struct Part {
    /// What is made of rows.
    below: Vec<AggregateFunction>,
    /// What is made of each of these.
    above: Vec<Arc<AggregateUDF>>,
    /// Whether the result is the first of them by the second.
    is_mean: bool,
}

/// The aggregates in two steps; `None` where one has none that give the same.
fn parts(
    aggregates: &[Expr],
    schema: &DFSchema,
    functions: &dyn FunctionRegistry,
) -> Result<Option<Vec<Part>>> {
    let (sum, count) = (functions.udaf("sum")?, functions.udaf("count")?);
    let mut parts = Vec::with_capacity(aggregates.len());
    for expr in aggregates {
        // One whose argument was changed by a rule keeps its name.
        let call = match expr {
            Expr::Alias(alias) => alias.expr.as_ref(),
            expr => expr,
        };
        let Expr::AggregateFunction(call) = call else { return Ok(None) };
        let AggregateFunctionParams { args, distinct, filter, order_by, null_treatment } = &call.params;
        if *distinct || filter.is_some() || !order_by.is_empty() || null_treatment.is_some() {
            return Ok(None);
        }
        let like = |function: &Arc<AggregateUDF>| AggregateFunction {
            func: Arc::clone(function),
            params: call.params.clone(),
        };
        parts.push(match (call.func.name(), args.as_slice()) {
            ("count", _) => Part { below: vec![call.clone()], above: vec![Arc::clone(&sum)], is_mean: false },
            ("min" | "max", [_]) => {
                Part { below: vec![call.clone()], above: vec![Arc::clone(&call.func)], is_mean: false }
            }
            ("sum", [of]) if is_real(of, schema)? || is_small(of, schema)? => {
                Part { below: vec![call.clone()], above: vec![Arc::clone(&sum)], is_mean: false }
            }
            ("avg", [of]) if is_real(of, schema)? => Part {
                below: vec![like(&sum), like(&count)],
                above: vec![Arc::clone(&sum), Arc::clone(&sum)],
                is_mean: true,
            },
            _ => return Ok(None),
        });
    }
    Ok(Some(parts))
}

/// Whether an argument is a double.
fn is_real(of: &Expr, schema: &DFSchema) -> Result<bool> {
    Ok(of.get_type(schema)? == DataType::Float64)
}

/// Whether an argument is a whole number of at most 32 bits made wider: no sum of some of them is too large.
fn is_small(of: &Expr, schema: &DFSchema) -> Result<bool> {
    let Expr::Cast(cast) = of else { return Ok(false) };
    let from = cast.expr.get_type(schema)?;
    Ok(from.is_integer() && from.primitive_width().is_some_and(|bytes| bytes <= 4))
}

/// The plan in two steps.
fn eager(
    aggregate: &Aggregate,
    join: &Join,
    rows: &Arc<LogicalPlan>,
    by: Vec<Column>,
    parts: Vec<Part>,
) -> Result<LogicalPlan> {
    let mut below = Vec::new();
    let mut above = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        for (step, (call, function)) in part.below.iter().zip(&part.above).enumerate() {
            let name = format!("__part_{at}_{step}");
            below.push(Expr::AggregateFunction(call.clone()).alias(&name));
            let params = AggregateFunctionParams {
                args: vec![Expr::Column(Column::new_unqualified(&name))],
                distinct: false,
                filter: None,
                order_by: Vec::new(),
                null_treatment: None,
            };
            let call = AggregateFunction { func: Arc::clone(function), params };
            above.push(Expr::AggregateFunction(call).alias(name));
        }
    }
    let by = by.into_iter().map(Expr::Column).collect();
    let few = LogicalPlan::Aggregate(Aggregate::try_new(Arc::clone(rows), by, below)?);
    let few = Arc::new(unkeyed(few)?);
    let (left, right) = match Arc::ptr_eq(rows, &join.left) {
        true => (few, Arc::clone(&join.right)),
        false => (Arc::clone(&join.left), few),
    };
    let joined = Join::try_new(
        left,
        right,
        join.on.clone(),
        None,
        JoinType::Inner,
        join.join_constraint,
        join.null_equality,
        false,
    )?;
    let joined = Arc::new(LogicalPlan::Join(joined));
    let all = Aggregate::try_new(joined, aggregate.group_expr.clone(), above)?;
    let all = Arc::new(LogicalPlan::Aggregate(all));
    // The columns by the names they had.
    let schema = Arc::clone(&aggregate.schema);
    let mut exprs: Vec<Expr> =
        schema.columns().into_iter().take(aggregate.group_expr.len()).map(Expr::Column).collect();
    for (at, part) in parts.iter().enumerate() {
        let of = |step: usize| Expr::Column(Column::new_unqualified(format!("__part_{at}_{step}")));
        let (qualifier, field) = schema.qualified_field(aggregate.group_expr.len() + at);
        let value = match part.is_mean {
            true => cast(of(0), DataType::Float64) / cast(of(1), DataType::Float64),
            false => of(0),
        };
        let value = match value.get_type(all.schema())? == *field.data_type() {
            true => value,
            false => cast(value, field.data_type().clone()),
        };
        exprs.push(value.alias_qualified(qualifier.cloned(), field.name()));
    }
    Projection::try_new_with_schema(exprs, all, schema).map(LogicalPlan::Projection)
}

#[cfg(test)]
mod tests;
