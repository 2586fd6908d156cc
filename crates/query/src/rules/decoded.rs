//! SYMBOLs that become another type: each row's text, and not the texts of the dictionary.
//!
//! Arrow casts a dictionary by casting its values. `sym::BIGINT` of one row then fails with the text of a symbol that no
//! row at hand has, one outside of a condition or of a grant among them. Such casts go by the text of each row.

use crate::functions::{NAMED_CAST, NAMED_TRY_CAST, NEAREST_DOUBLE};
use crate::named::change_named;
use crate::rules::texts::is_cast_of_text;
use datafusion::arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan, TryCast, cast};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// See the file's header. Runs after all rules that make casts.
#[derive(Debug)]
pub(crate) struct Decoded;

impl OptimizerRule for Decoded {
    fn name(&self) -> &str {
        "decoded_symbols"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let inputs = plan.inputs();
        if inputs.is_empty() {
            return Ok(Transformed::no(plan));
        }
        let schema = merge_schema(&inputs);
        change_named(plan, |expr| {
            expr.transform_up(|expr| {
                if let Expr::ScalarFunction(call) = &expr
                    && (CASTS.contains(&call.name()) || is_cast_of_text(&call.func))
                {
                    return expr.map_children(|value| decoded(value, &schema));
                }
                let (value, to) = match &expr {
                    Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => {
                        (expr, field.data_type())
                    }
                    _ => return Ok(Transformed::no(expr)),
                };
                // What planning does not know has another schema: of a lambda, say.
                let Ok(from) = value.get_type(&schema) else { return Ok(Transformed::no(expr)) };
                let plain = plain(&from);
                if plain == from || has_text(to) {
                    return Ok(Transformed::no(expr));
                }
                Ok(Transformed::yes(match expr {
                    Expr::Cast(Cast { expr, field }) => {
                        Expr::Cast(Cast { expr: Box::new(cast(*expr, plain)), field })
                    }
                    Expr::TryCast(TryCast { expr, field }) => {
                        Expr::TryCast(TryCast { expr: Box::new(cast(*expr, plain)), field })
                    }
                    other => other,
                }))
            })
        })
    }
}

/// Casts that are calls.
const CASTS: [&str; 3] = [NAMED_CAST, NAMED_TRY_CAST, NEAREST_DOUBLE];

/// A value without dictionaries.
fn decoded(value: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Ok(from) = value.get_type(schema) else { return Ok(Transformed::no(value)) };
    let plain = plain(&from);
    Ok(if plain == from { Transformed::no(value) } else { Transformed::yes(cast(value, plain)) })
}

/// A type without dictionaries.
fn plain(of: &DataType) -> DataType {
    let field =
        |field: &Arc<Field>| Arc::new(field.as_ref().clone().with_data_type(plain(field.data_type())));
    match of {
        DataType::Dictionary(_, values) => plain(values),
        DataType::List(item) => DataType::List(field(item)),
        DataType::LargeList(item) => DataType::LargeList(field(item)),
        DataType::FixedSizeList(item, count) => DataType::FixedSizeList(field(item), *count),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect::<Fields>()),
        other => other.clone(),
    }
}

/// Whether each text is a value of a type, so that no cast to it fails.
fn has_text(to: &DataType) -> bool {
    match to {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => has_text(values),
        _ => false,
    }
}
