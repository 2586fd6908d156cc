//! Plans PIVOT and UNPIVOT.

use crate::dialect::marker::planning_error;
use crate::dialect::pivot::{PivotMarker, UnpivotMarker};
use crate::error::SqlError;
use crate::operators::node::columns_of;
use crate::operators::relation::planned_typed;
use crate::operators::unkeyed::unkeyed;
use crate::rules::approximate::common_of;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, UnnestOptions};
use datafusion::error::Result;
use datafusion::functions_nested::expr_fn::make_array;
use datafusion::logical_expr::expr_rewriter::normalize_col;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, cast, lit};
use datafusion::prelude::coalesce;
use sqlparser::ast;

/// The plan of PIVOT: groups by what GROUP BY names, or by every column that neither the aggregates nor FOR name.
///
/// # Errors
/// Where the values are no literals, a function is no aggregate, or two columns have one name.
pub(crate) fn plan_pivot(
    marker: PivotMarker,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let error = |message: String| SqlError::new(message, marker.position);
    let columns = marker.columns().map_err(planning_error)?;
    let input = planned_typed(marker.table.clone(), context)?;
    let mut aggregates = Vec::with_capacity(columns.len());
    for column in columns {
        let written = column.aggregate.name.to_string();
        let made = planned(ast::Expr::Function(column.aggregate), &input, context)?.unalias();
        if !matches!(made, Expr::AggregateFunction(_)) {
            let error = error(format!("PIVOT takes aggregates, and {written} is none"));
            return Err(planning_error(error.hint("write PIVOT (sum(size) FOR side IN ('B', 'S'))")));
        }
        aggregates.push((made, column.name));
    }
    let groups = match &marker.groups {
        Some(groups) => {
            groups.iter().map(|group| planned(group.clone(), &input, context)).collect::<Result<Vec<_>>>()?
        }
        None => other_columns(&aggregates, input.schema()),
    };
    let names = groups.iter().map(|group| group.qualified_name().1);
    let names: Vec<String> = names.chain(aggregates.iter().map(|(_, name)| name.clone())).collect();
    if let Some(twice) = first_twice(&names) {
        let error = error(format!("two columns of PIVOT are named '{twice}'"));
        return Err(planning_error(
            error.hint("rename one of them: FOR side IN ('B' AS buys, 'S' AS sells)"),
        ));
    }
    let default = marker.default.clone().map(|default| context.sql_to_expr(default, &DFSchema::empty()));
    let default = default.transpose()?;
    let exprs = aggregates.into_iter().map(|(expr, name)| expr.alias(name)).collect::<Vec<_>>();
    let grouped = LogicalPlanBuilder::from(input).aggregate(groups, exprs)?.build()?;
    match default {
        Some(default) => with_default(grouped, &default),
        None => Ok(grouped),
    }
}

/// An expression over the columns of a plan.
fn planned(expr: ast::Expr, input: &LogicalPlan, context: &mut dyn RelationPlannerContext) -> Result<Expr> {
    normalize_col(context.sql_to_expr(expr, input.schema())?, input)
}

/// The columns that no aggregate reads, filters included.
fn other_columns(aggregates: &[(Expr, String)], schema: &DFSchema) -> Vec<Expr> {
    let exprs: Vec<Expr> = aggregates.iter().map(|(expr, _)| expr.clone()).collect();
    let read = columns_of(&exprs, schema);
    let columns = schema.columns().into_iter().enumerate();
    columns.filter(|(index, _)| !read.contains(index)).map(|(_, column)| Expr::Column(column)).collect()
}

fn first_twice(names: &[String]) -> Option<&String> {
    let earlier = |at: usize, name: &String| names.iter().take(at).any(|other| other == name);
    names.iter().enumerate().find(|(at, name)| earlier(*at, name)).map(|(_, name)| name)
}

/// The plan with a value in the place of NULL in all columns but those it groups by.
fn with_default(grouped: LogicalPlan, default: &Expr) -> Result<LogicalPlan> {
    let LogicalPlan::Aggregate(aggregate) = &grouped else { return Ok(grouped) };
    let keys = aggregate.schema.fields().len() - aggregate.aggr_expr.len();
    let columns = aggregate.schema.columns().into_iter().enumerate();
    let exprs = columns.map(|(index, column)| match index < keys {
        true => Expr::Column(column),
        false => {
            let name = column.name.clone();
            coalesce(vec![Expr::Column(column), default.clone()]).alias(name)
        }
    });
    let exprs: Vec<Expr> = exprs.collect();
    LogicalPlanBuilder::from(grouped).project(exprs)?.build()
}

/// The plan of UNPIVOT: each row becomes one for each column listed, in this order, NULLs left out.
///
/// # Errors
/// Where a column does not exist, or the types of the columns have none in common.
pub(crate) fn plan_unpivot(
    marker: UnpivotMarker,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let input = planned_typed(marker.table.clone(), context)?;
    let mut values = Vec::with_capacity(marker.columns.len());
    let mut names = Vec::with_capacity(marker.columns.len());
    for (column, name) in marker.columns {
        values.push(planned(column, &input, context)?);
        names.push(lit(name));
    }
    let schema = input.schema();
    let turned = columns_of(&values, schema);
    let types = values.iter().map(|value| Ok(edge_type(value.get_type(schema)?)));
    let types = types.collect::<Result<Vec<DataType>>>()?;
    let Some(common) = common_of(&types) else {
        let error = SqlError::new("the columns of UNPIVOT have no type in common", marker.position);
        return Err(planning_error(error.hint("cast them in a sub-query: CAST(x AS VARCHAR)")));
    };
    let values = values.into_iter().map(|value| cast(value, common.clone())).collect();
    let columns = schema.columns().into_iter().enumerate();
    let kept = columns.filter(|(index, _)| !turned.contains(index)).map(|(_, column)| Expr::Column(column));
    let (name, value) = (Column::new_unqualified(marker.name), Column::new_unqualified(marker.value));
    let listed = [make_array(names).alias(&name.name), make_array(values).alias(&value.name)];
    let exprs: Vec<Expr> = kept.chain(listed).collect();
    let unnested = LogicalPlanBuilder::from(unkeyed(input)?)
        .project(exprs)?
        .unnest_columns_with_options(vec![name, value.clone()], UnnestOptions::default())?;
    match marker.with_nulls {
        true => unnested.build(),
        false => unnested.filter(Expr::Column(value).is_not_null())?.build(),
    }
}

/// The type of a symbol's text; any other type as it is.
fn edge_type(data_type: DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => *values,
        other => other,
    }
}
