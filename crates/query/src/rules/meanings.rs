//! What expressions mean, where DataFusion takes them for something else: one walk over the expressions of a plan, before
//! types are made to agree.
//!
//! Each of [`RULES`] looks at an expression whose parts have been read, and says it in other words, or leaves it. Their
//! files say what for.

use super::{
    approximate, dates, lengths, lists, literals, long_lists, neighbours, nulls, patterns, recursion, texts,
    unsigned, values,
};
use crate::functions::growth;
use crate::named::{change_named, has};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Union};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::type_coercion::coerce_union_schema;
use std::sync::Arc;

/// An expression over columns of a schema, in other words where it needs them.
type Rule = fn(Expr, &DFSchema) -> Result<Transformed<Expr>>;

/// The rules, in this order: numbers in the text are read before they are looked at as values, and a CASE has its type
/// before what holds it is looked at.
const RULES: [Rule; 15] = [
    long_lists::read,
    literals::read,
    texts::cast_in_words,
    lists::cast_in_words,
    patterns::read,
    dates::as_time,
    dates::compared,
    unsigned::as_signed,
    approximate::compared,
    lengths::compared,
    lists::read,
    nulls::typed,
    neighbours::defaulted,
    values::of_one_type,
    |expr, _| Ok(growth::claimed(expr)),
];

/// See the file's header.
#[derive(Debug)]
pub(crate) struct Meanings;

impl AnalyzerRule for Meanings {
    fn name(&self) -> &str {
        "meanings"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let reads_around =
            |plan: &LogicalPlan| has(plan, |expr| matches!(expr, Expr::OuterReferenceColumn(..)));
        let plan = if exists(&plan, reads_around)? { typed(plan)? } else { plan };
        let mut has_changed = false;
        let changed = plan.transform_up_with_subqueries(|plan| {
            // What is above has the types of what is below.
            let given = Arc::clone(plan.schema());
            let plan = match plan {
                LogicalPlan::Union(_) => plan,
                plan if has_changed => plan.recompute_schema()?,
                plan => plan,
            };
            let plan = match approximate::agreed(plan)?.data {
                LogicalPlan::Union(union) => LogicalPlan::Union(as_combined(union)?),
                other => other,
            };
            let schema = match plan.inputs().as_slice() {
                [] => DFSchema::clone(plan.schema()),
                inputs => merge_schema(inputs),
            };
            let changed = change_named(plan, |expr| expr.transform_up(|expr| read(expr, &schema)))?
                .transform_data(lengths::ordered)?
                .transform_data(lengths::grouped)?
                .transform_data(values::agreed)?;
            recursion::checked(&changed.data)?;
            has_changed |= !have_same_types(&given, changed.data.schema());
            Ok(changed)
        })?;
        Ok(changed.data)
    }
}

/// A plan whose columns have the types that they come to: of a UNION, those of all its queries, of a CASE, that of all its
/// branches. DataFusion 55.2 finds them later, and what is made of the columns before keeps the types of the first query
/// and the first THEN: our operators, and sub-queries that read columns around them.
///
/// # Errors
/// Those of types that are not known.
pub(crate) fn typed(plan: LogicalPlan) -> Result<LogicalPlan> {
    let grows = |plan: &LogicalPlan| {
        Ok(matches!(plan, LogicalPlan::Union(_)) || has(plan, |expr| matches!(expr, Expr::Case(_)))?)
    };
    if !exists(&plan, grows)? {
        return Ok(plan);
    }
    let mut has_changed = false;
    let changed = plan.transform_up_with_subqueries(|plan| {
        let given = Arc::clone(plan.schema());
        let plan = match plan {
            LogicalPlan::Union(_) => match approximate::agreed(plan)?.data {
                LogicalPlan::Union(union) => LogicalPlan::Union(as_combined(union)?),
                other => other,
            },
            plan if has_changed => plan.recompute_schema()?,
            plan => plan,
        };
        let schema = merge_schema(&plan.inputs());
        let plan = match plan {
            LogicalPlan::Projection(_) => {
                change_named(plan, |expr| expr.transform_up(|expr| case_of_numbers(expr, &schema)))?.data
            }
            other => other,
        };
        has_changed |= !have_same_types(&given, plan.schema());
        if !has_changed {
            return Ok(Transformed::no(plan));
        }
        let plan = plan.map_subqueries(|query| outer_typed(query, &|column| field_of(&schema, column)))?.data;
        // A LATERAL query is the right side of a join, and reads columns of the left one.
        let LogicalPlan::Join(mut join) = plan else { return Ok(Transformed::yes(plan)) };
        let right = Arc::unwrap_or_clone(join.right);
        join.right = Arc::new(outer_typed(right, &|column| field_of(join.left.schema(), column))?.data);
        Ok(Transformed::yes(LogicalPlan::Join(join)))
    })?;
    Ok(changed.data)
}

/// Whether a node of a plan, or of its sub-queries, is so.
fn exists(plan: &LogicalPlan, is_so: impl Fn(&LogicalPlan) -> Result<bool>) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|plan| {
        found |= is_so(plan)?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// A CASE of numbers as one type; DECIMALs, FLOATs and unsigned numbers have rules of their own.
fn case_of_numbers(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::Case(case) = &expr else { return Ok(Transformed::no(expr)) };
    let branches = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
    let types: Vec<DataType> = branches.map(|branch| branch.get_type(schema)).collect::<Result<_>>()?;
    let are_plain = types.iter().all(|of| of.is_signed_integer() || *of == DataType::Float64);
    if are_plain { values::of_one_type(expr, schema) } else { Ok(Transformed::no(expr)) }
}

fn field_of(schema: &DFSchema, column: &Column) -> Option<FieldRef> {
    schema.maybe_index_of_column(column).map(|place| Arc::clone(&schema.fields()[place]))
}

/// A sub-query that reads columns of the query around it as these fields. In one inside of it a name is first that of a
/// column between the two.
fn outer_typed(
    query: LogicalPlan,
    around: &dyn Fn(&Column) -> Option<FieldRef>,
) -> Result<Transformed<LogicalPlan>> {
    let typed = |expr: Expr| match &expr {
        Expr::OuterReferenceColumn(given, column) => Ok(match around(column) {
            Some(found) if found.data_type() != given.data_type() => {
                Transformed::yes(Expr::OuterReferenceColumn(found, column.clone()))
            }
            _ => Transformed::no(expr),
        }),
        _ => Ok(Transformed::no(expr)),
    };
    query.transform_up(|plan| {
        let changed = change_named(plan, |expr| expr.transform_up(typed))?;
        let changed = changed.transform_data(|plan| {
            let between = merge_schema(&plan.inputs());
            plan.map_subqueries(|query| {
                outer_typed(query, &|column| match field_of(&between, column) {
                    Some(_) => None,
                    None => around(column),
                })
            })
        })?;
        if changed.transformed { changed.map_data(LogicalPlan::recompute_schema) } else { Ok(changed) }
    })
}

/// A UNION whose columns have the types that those of all its queries come to, which DataFusion 55.2 finds later: until
/// then they are those of the first one, as which values are read.
fn as_combined(union: Union) -> Result<Union> {
    // What has no common type is told when types are made to agree.
    let Ok(combined) = coerce_union_schema(&union.inputs) else { return Ok(union) };
    let types = |schema: &DFSchema| -> Vec<DataType> {
        schema.fields().iter().map(|field| field.data_type().clone()).collect()
    };
    let combined = types(&combined);
    if types(&union.schema) == combined {
        return Ok(union);
    }
    let fields = union.schema.iter().zip(combined).map(|((table, field), data_type)| {
        (table.cloned(), Arc::new(Field::clone(field).with_data_type(data_type)))
    });
    let schema = DFSchema::new_with_metadata(fields.collect(), union.schema.metadata().clone())?;
    Ok(Union { schema: Arc::new(schema), ..union })
}

fn have_same_types(one: &DFSchema, other: &DFSchema) -> bool {
    let (one, other) = (one.fields().iter(), other.fields().iter());
    one.map(|field| field.data_type()).eq(other.map(|field| field.data_type()))
}

fn read(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if matches!(expr, Expr::Column(_) | Expr::Literal(..)) {
        return Ok(Transformed::no(expr));
    }
    RULES.iter().try_fold(Transformed::no(expr), |expr, rule| expr.transform_data(|expr| rule(expr, schema)))
}
