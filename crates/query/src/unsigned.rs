//! A BIGINT UNSIGNED beside a signed whole number in arithmetic and in bitwise operators gives a whole number.
//!
//! DataFusion 55.2 has no whole number that holds both and makes a DECIMAL(20, 0) of them: `id / array_length(l)` is 0.5
//! and no longer 0, and `row_number() OVER () - 1` a DECIMAL. Here the BIGINT UNSIGNED becomes a BIGINT, an error where it
//! is too large for one. Beside a number in the text, other than in a difference, it stays unsigned, so that `hash % 16`
//! takes all there are.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, cast};

/// See the file's header.
///
/// # Errors
/// Those of types that are not known.
pub(crate) fn as_signed(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &mut expr else {
        return Ok(Transformed::no(expr));
    };
    if !op.is_numerical_operators() && !is_bitwise(*op) {
        return Ok(Transformed::no(expr));
    }
    let (of_left, of_right) = (left.get_type(schema)?, right.get_type(schema)?);
    let (unsigned, signed) = match (of_left, of_right) {
        (DataType::UInt64, other) if other.is_signed_integer() => (left, right),
        (other, DataType::UInt64) if other.is_signed_integer() => (right, left),
        _ => return Ok(Transformed::no(expr)),
    };
    let counts = matches!(signed.as_ref(), Expr::Literal(ScalarValue::Int64(Some(0..)), _));
    let (side, data_type) = match counts && *op != Operator::Minus {
        true => (signed, DataType::UInt64),
        false => (unsigned, DataType::Int64),
    };
    **side = cast(std::mem::take(side.as_mut()), data_type);
    Ok(Transformed::yes(expr))
}

fn is_bitwise(op: Operator) -> bool {
    use Operator::{BitwiseAnd, BitwiseOr, BitwiseShiftLeft, BitwiseShiftRight, BitwiseXor};
    matches!(op, BitwiseAnd | BitwiseOr | BitwiseXor | BitwiseShiftLeft | BitwiseShiftRight)
}
