//! A BIGINT UNSIGNED beside a signed whole number gives a whole number: in arithmetic, in bitwise operators, and where one
//! of several values is chosen (`coalesce`, `nullif`, `greatest`, `least`, CASE).
//!
//! DataFusion 55.2 has no whole number that holds both and makes a DECIMAL(20, 0) of them: `id / array_length(l)` is 0.5
//! and no longer 0, and `row_number() OVER () - 1` a DECIMAL. Here the BIGINT UNSIGNED becomes a BIGINT, an error where it
//! is too large for one. Beside a number in the text, other than in a difference, it stays unsigned, so that `hash % 16`
//! takes all there are.
//!
//! A difference of unsigned numbers is a BIGINT, as numbers below 0 are wanted of it: `u - lag(u)`.

use crate::functions::difference;
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
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Minus, right }) => {
            return subtracted(left, right, schema)
                .map(|of| of.map_or(Transformed::no(expr), Transformed::yes));
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if op.is_numerical_operators() || is_bitwise(*op) =>
        {
            agree(vec![left.as_mut(), right.as_mut()], schema)?
        }
        Expr::ScalarFunction(call)
            if ["coalesce", "nullif", "greatest", "least"].contains(&call.func.name()) =>
        {
            agree(call.args.iter_mut().collect(), schema)?
        }
        Expr::Case(case) => {
            let values = case.when_then_expr.iter_mut().map(|(_, then)| then);
            agree(values.chain(&mut case.else_expr).map(AsMut::as_mut).collect(), schema)?
        }
        _ => false,
    };
    Ok(Transformed::new_transformed(expr, changed))
}

/// A difference of whole numbers of which one is unsigned; `None` of others.
fn subtracted(left: &Expr, right: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let types = [left.get_type(schema)?, right.get_type(schema)?];
    if !types.iter().any(DataType::is_unsigned_integer) || !types.iter().all(DataType::is_integer) {
        return Ok(None);
    }
    let is_counted = |side: &Expr, of: &DataType| of.is_unsigned_integer() || is_count(side);
    let wide = types.contains(&DataType::UInt64);
    let unsigned = is_counted(left, &types[0]) && is_counted(right, &types[1]);
    let of = |side: &Expr, of: DataType| cast(side.clone(), of);
    Ok(Some(match wide && unsigned {
        true => difference(of(left, DataType::UInt64), of(right, DataType::UInt64)),
        false => of(left, DataType::Int64) - of(right, DataType::Int64),
    }))
}

fn is_count(side: &Expr) -> bool {
    matches!(side, Expr::Literal(ScalarValue::Int64(Some(0..)), _))
}

/// Makes sides that are whole numbers of one kind; says whether it did.
fn agree(sides: Vec<&mut Expr>, schema: &DFSchema) -> Result<bool> {
    let types = sides.iter().map(|side| side.get_type(schema)).collect::<Result<Vec<_>>>()?;
    let is_unsigned = |of: &DataType| *of == DataType::UInt64;
    let mixed = types.iter().any(is_unsigned) && types.iter().any(DataType::is_signed_integer);
    if !mixed || !types.iter().all(|of| of.is_integer() || of.is_null()) {
        return Ok(false);
    }
    let mut signed = sides.iter().zip(&types).filter(|(_, of)| of.is_signed_integer());
    let counts = signed.all(|(side, _)| is_count(side));
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
