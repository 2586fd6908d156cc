//! What expressions mean, where DataFusion takes them for something else: one walk over the expressions of a plan, before
//! types are made to agree.
//!
//! Each of [`RULES`] looks at an expression whose parts have been read, and says it in other words, or leaves it. Their
//! files say what for.

use super::{
    approximate, dates, lengths, lists, literals, long_lists, neighbours, nulls, patterns, recursion, texts,
    unsigned, values,
};
use crate::named::change_named;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, Union};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::type_coercion::coerce_union_schema;
use std::sync::Arc;

/// An expression over columns of a schema, in other words where it needs them.
type Rule = fn(Expr, &DFSchema) -> Result<Transformed<Expr>>;

/// The rules, in this order: numbers in the text are read before they are looked at as values, and a CASE has its type
/// before what holds it is looked at.
const RULES: [Rule; 14] = [
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
];

/// See the file's header.
#[derive(Debug)]
pub(crate) struct Meanings;

impl AnalyzerRule for Meanings {
    fn name(&self) -> &str {
        "meanings"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
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

/// A UNION whose columns have the types that those of all its queries come to, which DataFusion 55.2 finds later: until
/// then they are those of the first one, as which values are read. Says whether they are others.
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
