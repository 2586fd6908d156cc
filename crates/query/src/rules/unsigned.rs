//! A BIGINT UNSIGNED beside a signed whole number gives a whole number: in arithmetic, in bitwise operators, and where one
//! of several values is chosen (`coalesce`, `nullif`, `greatest`, `least`, CASE).
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
    let changed = match &mut expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if op.is_numerical_operators() || is_bitwise(*op) =>
        {
            agree(vec![left.as_mut(), right.as_mut()], *op != Operator::Minus, schema)?
        }
        Expr::ScalarFunction(call)
            if ["coalesce", "nullif", "nvl2", "greatest", "least"].contains(&call.func.name()) =>
        {
            let asked = usize::from(call.func.name() == "nvl2");
            agree(call.args.iter_mut().skip(asked).collect(), true, schema)?
        }
        Expr::Case(case) => {
            let values = case.when_then_expr.iter_mut().map(|(_, then)| then);
            agree(values.chain(&mut case.else_expr).map(AsMut::as_mut).collect(), true, schema)?
        }
        _ => false,
    };
    Ok(Transformed::new_transformed(expr, changed))
}

/// Makes sides that are whole numbers of one kind; says whether it did.
fn agree(sides: Vec<&mut Expr>, may_count: bool, schema: &DFSchema) -> Result<bool> {
    let types = sides.iter().map(|side| side.get_type(schema)).collect::<Result<Vec<_>>>()?;
    let is_unsigned = |of: &DataType| *of == DataType::UInt64;
    let mixed = types.iter().any(is_unsigned) && types.iter().any(DataType::is_signed_integer);
    if !mixed || !types.iter().all(|of| of.is_integer() || of.is_null()) {
        return Ok(false);
    }
    let is_count = |side: &Expr| matches!(side, Expr::Literal(ScalarValue::Int64(Some(0..)), _));
    let mut signed = sides.iter().zip(&types).filter(|(_, of)| of.is_signed_integer());
    let counts = may_count && signed.all(|(side, _)| is_count(side));
    for (side, of) in sides.into_iter().zip(&types) {
        let wanted = match counts {
            true if of.is_signed_integer() => DataType::UInt64,
            false if is_unsigned(of) => DataType::Int64,
            _ => continue,
        };
        *side = cast(std::mem::take(side), wanted);
    }
    Ok(true)
}

fn is_bitwise(op: Operator) -> bool {
    use Operator::{BitwiseAnd, BitwiseOr, BitwiseShiftLeft, BitwiseShiftRight, BitwiseXor};
    matches!(op, BitwiseAnd | BitwiseOr | BitwiseXor | BitwiseShiftLeft | BitwiseShiftRight)
}
