//! Groups of INTERVALs of one length: GROUP BY, DISTINCT, UNION, EXCEPT and INTERSECT find a day and 24 hours equal, as `=`
//! does.
//!
//! DataFusion goes by months, days and nanoseconds there. A key becomes the length, and one of the INTERVALs of the
//! group is given in its place.

use super::{length, lengths_of};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::functions_aggregate::expr_fn::first_value;
use datafusion::logical_expr::expr::{AggregateFunction, GroupingSet};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Aggregate, Distinct, DistinctOn, Expr, ExprSchemable, Join, LogicalPlan, LogicalPlanBuilder, when,
};
use std::sync::Arc;

/// The alias of what a group was found by, and that of one of its INTERVALs.
const LENGTH: &str = "__length";
const ONE: &str = "__interval";

/// A plan that groups or joins by INTERVALs, by their lengths.
///
/// # Errors
/// Those of types that are not known.
pub(crate) fn grouped(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Aggregate(aggregate) => by_length(aggregate),
        LogicalPlan::Distinct(Distinct::All(input)) => {
            let schema = Arc::clone(input.schema());
            if !schema.fields().iter().any(|field| is_interval(field.data_type())) {
                return Ok(Transformed::no(LogicalPlan::Distinct(Distinct::All(input))));
            }
            let keys: Vec<Expr> = schema.columns().into_iter().map(Expr::Column).collect();
            by_length(Aggregate::try_new(input, keys, Vec::new())?)
        }
        LogicalPlan::Distinct(Distinct::On(on)) => {
            let DistinctOn { mut on_expr, select_expr, mut sort_expr, input, schema } = on;
            let mut changed = lengths_of(on_expr.iter_mut(), input.schema())?;
            let sorts = sort_expr.iter_mut().flatten().map(|sort| &mut sort.expr);
            changed |= lengths_of(sorts, input.schema())?;
            let on = DistinctOn { on_expr, select_expr, sort_expr, input, schema };
            Ok(Transformed::new_transformed(LogicalPlan::Distinct(Distinct::On(on)), changed))
        }
        LogicalPlan::Join(join) => joined(join),
        other => Ok(Transformed::no(other)),
    }
}

fn is_interval(of: &DataType) -> bool {
    matches!(of, DataType::Interval(_))
}

/// The keys of a join; its filter is an expression like any other.
fn joined(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let mut changed = false;
    for (left, right) in &mut join.on {
        let types = (left.get_type(join.left.schema())?, right.get_type(join.right.schema())?);
        if is_interval(&types.0) || is_interval(&types.1) {
            for side in [left, right] {
                *side = length(std::mem::take(side));
            }
            changed = true;
        }
    }
    Ok(Transformed::new_transformed(LogicalPlan::Join(join), changed))
}

/// The keys of a grouping that are INTERVALs.
struct Keys {
    found: Vec<Expr>,
}

impl Keys {
    /// Takes a key's length, where it is an INTERVAL.
    fn replace(&mut self, key: &mut Expr, schema: &DFSchema) -> Result<()> {
        if is_interval(&key.get_type(schema)?) {
            let at = self.found.iter().position(|found| found == key).unwrap_or_else(|| {
                self.found.push(key.clone());
                self.found.len() - 1
            });
            *key = length(std::mem::take(key)).alias(format!("{LENGTH}_{at}"));
        }
        Ok(())
    }
}

fn by_length(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let inner = merge_schema(&[aggregate.input.as_ref()]);
    let mut keys = Keys { found: Vec::new() };
    let mut groups = aggregate.group_expr.clone();
    for group in &mut groups {
        match group {
            Expr::GroupingSet(GroupingSet::Rollup(sets) | GroupingSet::Cube(sets)) => {
                sets.iter_mut().try_for_each(|key| keys.replace(key, &inner))?;
            }
            Expr::GroupingSet(GroupingSet::GroupingSets(sets)) => {
                sets.iter_mut().flatten().try_for_each(|key| keys.replace(key, &inner))?;
            }
            key => keys.replace(key, &inner)?,
        }
    }
    if keys.found.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let mut aggregates = aggregate.aggr_expr.clone();
    for call in &mut aggregates {
        // Its arguments are keys, which it finds among them as they are written.
        if let Expr::AggregateFunction(AggregateFunction { func, params }) = call
            && func.name() == "grouping"
        {
            params.args.iter_mut().try_for_each(|key| keys.replace(key, &inner))?;
        }
    }
    let ones = keys.found.iter().enumerate();
    aggregates
        .extend(ones.map(|(at, key)| first_value(key.clone(), Vec::new()).alias(format!("{ONE}_{at}"))));
    let outer = Arc::clone(&aggregate.schema);
    let by_length = Aggregate::try_new(Arc::clone(&aggregate.input), groups, aggregates)?;
    let columns = by_length.schema.columns();
    let unqualified = |name: String| Expr::Column(Column::new_unqualified(name));
    let yielded = outer.iter().zip(&columns).map(|((qualifier, field), column)| {
        let found = Expr::Column(column.clone());
        let one = match column.name.strip_prefix(LENGTH) {
            // Where the key is not of a set, it is NULL.
            Some(at) => when(found.is_not_null(), unqualified(format!("{ONE}{at}"))).end()?,
            None => found,
        };
        Ok(one.alias_qualified(qualifier.cloned(), field.name()))
    });
    let yielded = yielded.collect::<Result<Vec<Expr>>>()?;
    let plan = LogicalPlanBuilder::from(LogicalPlan::Aggregate(by_length)).project(yielded)?.build()?;
    Ok(Transformed::yes(plan))
}
