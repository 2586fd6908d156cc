//! Operators of DECIMALs whose result, or what is computed on the way to it, may be past 38 digits: 256 bits have room.
//!
//! A result has the type that the operator gives it; one that does not fit is an error. Where it is an operand of
//! another such operator, or of a cast, it may have all the digits that 256 bits hold: only what comes out of the whole
//! has to fit. A quotient is rounded to the nearest value, halves away from zero, as in PostgreSQL.

use super::{bracketed, named_result, written};
use crate::functions::decimals;
use crate::functions::{NAMED_CAST, NAMED_TRY_CAST, NEAREST_DOUBLE};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Builder, Decimal256Builder};
use datafusion::arrow::datatypes::{
    ArrowNativeTypeOp, DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Decimal128Type,
    Decimal256Type, FieldRef, i256,
};
use datafusion::arrow::error::ArrowError;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    BinaryExpr, Cast, ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, TryCast, Volatility,
};
use std::sync::Arc;

/// An operator on two DECIMALs.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct CheckedDecimal {
    operator: Operator,
    /// A DECIMAL of 128 bits, or one of 256 where more is made of it.
    pub(super) result: DataType,
    signature: Signature,
}

/// Digits of a DECIMAL before and after the point.
fn digits(of: &DataType) -> Option<(i32, i32)> {
    let DataType::Decimal128(precision, scale) = of else { return None };
    Some((i32::from(*precision) - i32::from(*scale), i32::from(*scale)))
}

/// Whether an operator between values of these types has to be computed in 256 bits.
fn needs_room(operator: Operator, left: &DataType, right: &DataType) -> bool {
    let (Some(left), Some(right)) = (digits(left), digits(right)) else { return false };
    let together = left.0.max(right.0) + left.1.max(right.1);
    let needed = match operator {
        Operator::Plus | Operator::Minus | Operator::Modulo => together + 1,
        Operator::Multiply => left.0 + left.1 + right.0 + right.1 + 1,
        // DataFusion's is cut off.
        Operator::Divide => return true,
        _ => return false,
    };
    needed > i32::from(DECIMAL128_MAX_PRECISION)
}

/// The operator between two DECIMALs, as a call where it needs to be one; `result` is the type it has.
pub(super) fn checked(
    expr: BinaryExpr,
    types: (&DataType, &DataType),
    result: DataType,
) -> Transformed<Expr> {
    if !needs_room(expr.op, types.0, types.1) {
        return Transformed::no(Expr::BinaryExpr(expr));
    }
    let sides = [*expr.left, *expr.right].map(|side| widened(&side).unwrap_or(side));
    Transformed::yes(call_of(expr.op, result, sides.into()))
}

fn call_of(operator: Operator, result: DataType, args: Vec<Expr>) -> Expr {
    let signature = Signature::any(2, Volatility::Immutable);
    let function = ScalarUDF::new_from_impl(CheckedDecimal { operator, result, signature });
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), args))
}

/// A call of such an operator with all digits that its result may have; `None` of another expression.
fn widened(expr: &Expr) -> Option<Expr> {
    let Expr::ScalarFunction(call) = expr else { return None };
    let of = call.func.inner().downcast_ref::<CheckedDecimal>()?;
    let DataType::Decimal128(_, scale) = of.result else { return None };
    let result = DataType::Decimal256(DECIMAL256_MAX_PRECISION, scale);
    Some(call_of(of.operator, result, call.args.clone()))
}

/// A cast of an operator's result, which has all the digits that it may have; `None` of another expression.
pub(super) fn cast_of_all(expr: &Expr) -> Option<Expr> {
    Some(match expr {
        Expr::Cast(Cast { expr, field }) => {
            Expr::Cast(Cast { expr: Box::new(widened(expr)?), field: Arc::clone(field) })
        }
        Expr::TryCast(TryCast { expr, field }) => {
            Expr::TryCast(TryCast { expr: Box::new(widened(expr)?), field: Arc::clone(field) })
        }
        Expr::ScalarFunction(call) if [NAMED_CAST, NAMED_TRY_CAST].contains(&call.name()) => {
            let [value, to] = call.args.as_slice() else { return None };
            let args = vec![widened(value)?, to.clone()];
            Expr::ScalarFunction(ScalarFunction { func: Arc::clone(&call.func), args })
        }
        Expr::ScalarFunction(call) if call.name() == NEAREST_DOUBLE => {
            let [value] = call.args.as_slice() else { return None };
            Expr::ScalarFunction(ScalarFunction { func: Arc::clone(&call.func), args: vec![widened(value)?] })
        }
        _ => return None,
    })
}

/// How the numbers of both sides become one.
struct Arithmetic<N> {
    operator: Operator,
    /// What both sides are multiplied by first; `None` where that does not fit.
    powers: Option<[N; 2]>,
    /// The digits that a quotient has more than its sides.
    more: u32,
}

impl<N: ArrowNativeTypeOp> Arithmetic<N> {
    /// Of values with so many digits after the point.
    fn new(operator: Operator, left: i8, right: i8, result: i8) -> Self {
        let power = |digits: i32| N::usize_as(10).pow_checked(u32::try_from(digits).unwrap_or(0)).ok();
        let (left, right, result) = (i32::from(left), i32::from(right), i32::from(result));
        let (powers, more) = match operator {
            Operator::Multiply => ([0, 0], 0),
            Operator::Divide => ([0, left - right - result], result - left + right),
            _ => ([result - left, result - right], 0),
        };
        let powers = power(powers[0]).zip(power(powers[1])).map(<[N; 2]>::from);
        Self { operator, powers, more: u32::try_from(more).unwrap_or(0) }
    }

    /// The result; `None` where it does not fit. A divisor is not 0.
    fn of(&self, left: N, right: N, divided: fn(N, u32, N) -> Option<N>) -> Option<N> {
        let powers = self.powers?;
        let (left, right) = (left.mul_checked(powers[0]).ok()?, right.mul_checked(powers[1]).ok()?);
        match self.operator {
            Operator::Plus => left.add_checked(right).ok(),
            Operator::Minus => left.sub_checked(right).ok(),
            Operator::Multiply => left.mul_checked(right).ok(),
            Operator::Divide => divided(left, self.more, right),
            _ => left.mod_checked(right).ok(),
        }
    }
}

/// The numbers of a side; one of one row is that for all rows.
struct Side<'a> {
    array: &'a ArrayRef,
    scale: i8,
}

impl<'a> Side<'a> {
    fn of(array: &'a ArrayRef) -> Result<Self> {
        match array.data_type() {
            DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => {
                Ok(Self { array, scale: *scale })
            }
            other => exec_err!("{other} is no DECIMAL"),
        }
    }

    fn at(&self, row: usize) -> Option<i256> {
        let row = if self.array.len() == 1 { 0 } else { row };
        self.array.is_valid(row).then(|| match self.array.data_type() {
            DataType::Decimal128(..) => {
                i256::from_i128(self.array.as_primitive::<Decimal128Type>().value(row))
            }
            _ => self.array.as_primitive::<Decimal256Type>().value(row),
        })
    }

    /// As it is written.
    fn written(&self, value: i256) -> String {
        decimals::written(value, &DataType::Decimal256(DECIMAL256_MAX_PRECISION, self.scale))
    }
}

impl CheckedDecimal {
    fn sign(&self) -> String {
        self.operator.to_string()
    }

    /// The results of some rows; `names` are the columns that the sides are.
    fn compute(&self, sides: [&ArrayRef; 2], rows: usize, names: &[Option<String>]) -> Result<ArrayRef> {
        let [left, right] = [Side::of(sides[0])?, Side::of(sides[1])?];
        let (DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale)) = self.result
        else {
            return exec_err!("{} is no DECIMAL", self.result);
        };
        let narrow = Arithmetic::<i128>::new(self.operator, left.scale, right.scale, scale);
        let wide = Arithmetic::<i256>::new(self.operator, left.scale, right.scale, scale);
        let divides = matches!(self.operator, Operator::Divide | Operator::Modulo);
        let value = |row: usize| -> Result<Option<i256>> {
            let (Some(a), Some(b)) = (left.at(row), right.at(row)) else { return Ok(None) };
            if divides && b == i256::ZERO {
                return Err(ArrowError::DivideByZero.into());
            }
            let quick = a.to_i128().zip(b.to_i128()).and_then(|(a, b)| narrow.of(a, b, decimals::quotient));
            let found = match quick {
                Some(found) => Some(i256::from_i128(found)),
                None => wide.of(a, b, decimals::long_quotient),
            };
            match found.filter(|found| !self.is_narrow() || decimals::narrowed(*found, precision).is_some()) {
                Some(found) => Ok(Some(found)),
                None => {
                    let values = [left.written(a), right.written(b)];
                    Err(named_result(&self.sign(), names, &values, |of, values| {
                        decimals::past(of, &self.result, values)
                    }))
                }
            }
        };
        if self.is_narrow() {
            let mut found = Decimal128Builder::with_capacity(rows).with_data_type(self.result.clone());
            for row in 0..rows {
                found.append_option(value(row)?.and_then(i256::to_i128));
            }
            return Ok(Arc::new(found.finish()));
        }
        let mut found = Decimal256Builder::with_capacity(rows).with_data_type(self.result.clone());
        for row in 0..rows {
            found.append_option(value(row)?);
        }
        Ok(Arc::new(found.finish()))
    }

    fn is_narrow(&self) -> bool {
        matches!(self.result, DataType::Decimal128(..))
    }
}

impl ScalarUDFImpl for CheckedDecimal {
    fn name(&self) -> &str {
        match self.operator {
            Operator::Plus => "add",
            Operator::Minus => "subtract",
            Operator::Multiply => "multiply",
            Operator::Divide => "divide",
            _ => "modulo",
        }
    }

    /// As the operator is displayed.
    fn display_name(&self, args: &[Expr]) -> Result<String> {
        Ok(written(&self.sign(), &args.iter().map(ToString::to_string).collect::<Vec<_>>()))
    }

    /// As a column with the operator's result is named.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(written(&self.sign(), &args.iter().map(|arg| arg.schema_name().to_string()).collect::<Vec<_>>()))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.result.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(super::field_named(&self.sign(), &self.result, &args))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let sides = args.args.iter().map(|arg| match arg {
            ColumnarValue::Array(array) => Ok(Arc::clone(array)),
            ColumnarValue::Scalar(value) => value.to_array(),
        });
        let sides = sides.collect::<Result<Vec<ArrayRef>>>()?;
        let [left, right] = sides.as_slice() else { return exec_err!("{} takes two sides", self.name()) };
        let name = |(arg, field): (&ColumnarValue, &FieldRef)| match arg {
            ColumnarValue::Array(_) => Some(bracketed(field.name())),
            ColumnarValue::Scalar(_) => None,
        };
        let names: Vec<_> = args.args.iter().zip(&args.arg_fields).map(name).collect();
        let result = self.compute([left, right], rows, &names)?;
        Ok(match constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
            false => ColumnarValue::Array(result),
        })
    }
}

#[cfg(test)]
mod tests;
