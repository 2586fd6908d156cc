//! What expressions mean, where DataFusion takes them for something else: one walk over the expressions of a plan, before
//! types are made to agree.
//!
//! Each of [`RULES`] looks at an expression whose parts have been read, and says it in other words, or leaves it. Their
//! files say what for.

use super::{approximate, dates, lengths, lists, literals, patterns, texts, unsigned};
use crate::named::change_named;
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

/// An expression over columns of a schema, in other words where it needs them.
type Rule = fn(Expr, &DFSchema) -> Result<Transformed<Expr>>;

/// The rules, in this order: numbers in the text are read before they are looked at as values.
const RULES: [Rule; 9] = [
    literals::read,
    texts::cast_in_words,
    lists::cast_in_words,
    patterns::read,
    dates::as_time,
    unsigned::as_signed,
    approximate::compared,
    lengths::compared,
    lists::read,
];

/// See the file's header.
#[derive(Debug)]
pub(crate) struct Meanings;

impl AnalyzerRule for Meanings {
    fn name(&self) -> &str {
        "meanings"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = plan.transform_up_with_subqueries(|plan| {
            let schema = match plan.inputs().as_slice() {
                [] => DFSchema::clone(plan.schema()),
                inputs => merge_schema(inputs),
            };
            change_named(plan, |expr| expr.transform_up(|expr| read(expr, &schema)))?
                .transform_data(lengths::ordered)
        })?;
        Ok(changed.data)
    }
}

fn read(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if matches!(expr, Expr::Column(_) | Expr::Literal(..)) {
        return Ok(Transformed::no(expr));
    }
    RULES.iter().try_fold(Transformed::no(expr), |expr, rule| expr.transform_data(|expr| rule(expr, schema)))
}
