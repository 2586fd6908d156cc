//! NULL without a type where DataFusion 55.2 has none for the result: `sum(NULL)`, `sum(CASE WHEN x > 5 THEN NULL END)`,
//! `avg(NULL) OVER ()`. It becomes a BIGINT.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, ExprSchemable, WindowFunctionDefinition, cast};

/// Aggregates of numbers that do not take a NULL without a type.
const OF_NUMBERS: [&str; 5] = ["avg", "bit_and", "bit_or", "bit_xor", "sum"];

/// See the file's header.
///
/// # Errors
/// Those of types that are not known.
pub(crate) fn typed(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let changed = match &mut expr {
        Expr::AggregateFunction(call) if OF_NUMBERS.contains(&call.func.name()) => {
            give_type(call.params.args.first_mut(), schema)?
        }
        Expr::WindowFunction(call) => match &call.fun {
            WindowFunctionDefinition::AggregateUDF(of) if OF_NUMBERS.contains(&of.name()) => {
                give_type(call.params.args.first_mut(), schema)?
            }
            _ => false,
        },
        _ => false,
    };
    Ok(Transformed::new_transformed(expr, changed))
}

/// Casts what has no type; says whether it did.
fn give_type(value: Option<&mut Expr>, schema: &DFSchema) -> Result<bool> {
    let Some(value) = value else { return Ok(false) };
    let is_untyped = value.get_type(schema)?.is_null();
    if is_untyped {
        *value = cast(std::mem::take(value), DataType::Int64);
    }
    Ok(is_untyped)
}
