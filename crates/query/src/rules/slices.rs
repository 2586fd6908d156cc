//! Parts of texts as parts of lists are written: `symbol[1:3]`, `code[-2:]`, `name[1]`.
//!
//! Places count letters from 1, negative ones from the end, and both ends are in; a place where no letter is gives `''`.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::functions::unicode::expr_fn::{substr, substring};
use datafusion::functions_nested::expr_fn::{array_slice, array_to_string, string_to_array};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawFieldAccessExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, GetFieldAccess, cast, lit};

/// See the file's header.
#[derive(Debug)]
pub(crate) struct TextSlices;

impl ExprPlanner for TextSlices {
    fn plan_field_access(
        &self,
        access: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let is_text = match access.expr.get_type(schema) {
            Ok(DataType::Dictionary(_, values)) => values.is_string(),
            Ok(other) => other.is_string(),
            Err(_) => false,
        };
        let RawFieldAccessExpr { expr, field_access } = access;
        Ok(match field_access {
            GetFieldAccess::ListIndex { key } if is_text => {
                PlannerResult::Planned(slice(expr, *key.clone(), *key))
            }
            GetFieldAccess::ListRange { start, stop, stride } if is_text && whole(&stride) == Some(1) => {
                PlannerResult::Planned(slice(expr, *start, *stop))
            }
            field_access => PlannerResult::Original(RawFieldAccessExpr { expr, field_access }),
        })
    }
}

/// The letters from one place to another.
fn slice(text: Expr, start: Expr, stop: Expr) -> Expr {
    let text = cast(text, DataType::Utf8);
    match (whole(&start), whole(&stop)) {
        (Some(first @ 1..), Some(-1)) => substr(text, lit(first)),
        (Some(first @ 1..), Some(last @ 0..)) => {
            substring(text, lit(first), lit((last - first).saturating_add(1).max(0)))
        }
        _ => {
            let letters = string_to_array(text, lit(ScalarValue::Utf8(None)), lit(ScalarValue::Utf8(None)));
            array_to_string(array_slice(letters, start, stop, None), lit(""))
        }
    }
}

/// The number that an expression is written as.
fn whole(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(ScalarValue::Int64(number), _) => *number,
        Expr::Negative(inner) => whole(inner).and_then(i64::checked_neg),
        Expr::Cast(Cast { expr, .. }) => whole(expr),
        _ => None,
    }
}
