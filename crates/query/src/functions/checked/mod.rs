//! `+`, `-`, `*`, the sign and shifts of whole numbers and of differences of times: a result that does not fit is an
//! error.
//!
//! DataFusion's operators wrap. [`CheckOverflow`] puts these functions in their place once the types of both sides
//! agree, under the operators' names, so that every way an expression is computed goes by them: constants that are
//! folded while a statement is planned, conditions, keys, arguments of aggregates. An expression that cannot be folded
//! stays, and fails only when a row is computed by it. Division is DataFusion's, which checks; so are doubles, which have
//! infinities. Operators of DECIMALs whose results may have more than 38 digits are in [`decimal`].

mod decimal;
mod kernel;
mod rule;

use crate::error::type_name;
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{
    DataType, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    Field, FieldRef, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use datafusion::common::{ScalarValue, exec_datafusion_err, exec_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use kernel::Overflow;
pub(super) use rule::CheckOverflow;
use std::sync::Arc;

/// Most characters of an expression that a message repeats.
const WRITTEN_MAX: usize = 60;

/// What is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Operation {
    Add,
    Subtract,
    Multiply,
    Negate,
    ShiftLeft,
    ShiftRight,
    /// Of two BIGINT UNSIGNED, as a BIGINT.
    Difference,
}

/// The difference of two BIGINT UNSIGNED, which is a BIGINT.
pub(crate) fn difference(left: Expr, right: Expr) -> Expr {
    ScalarUDF::from(Checked::new(Operation::Difference, DataType::UInt64)).call(vec![left, right])
}

impl Operation {
    fn of(operator: Operator) -> Option<Self> {
        match operator {
            Operator::Plus => Some(Operation::Add),
            Operator::Minus => Some(Operation::Subtract),
            Operator::Multiply => Some(Operation::Multiply),
            Operator::BitwiseShiftLeft => Some(Operation::ShiftLeft),
            Operator::BitwiseShiftRight => Some(Operation::ShiftRight),
            _ => None,
        }
    }

    fn sign(self) -> &'static str {
        match self {
            Operation::Add => "+",
            Operation::Subtract | Operation::Negate | Operation::Difference => "-",
            Operation::Multiply => "*",
            Operation::ShiftLeft => "<<",
            Operation::ShiftRight => ">>",
        }
    }
}

/// An operation on values of one type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    operation: Operation,
    /// Of both sides, and of the result unless that is a difference.
    of: DataType,
    signature: Signature,
}

impl Checked {
    fn new(operation: Operation, of: DataType) -> Self {
        Self { operation, of, signature: Signature::any(operation.arguments(), Volatility::Immutable) }
    }

    /// The type of the result.
    fn result(&self) -> DataType {
        if self.operation == Operation::Difference { DataType::Int64 } else { self.of.clone() }
    }

    fn compute(&self, left: &ArrayRef, right: Option<&ArrayRef>) -> std::result::Result<ArrayRef, Overflow> {
        let of = (left, right);
        match self.of {
            DataType::UInt64 if self.operation == Operation::Difference => {
                let bits = kernel::compute::<UInt64Type>(self.operation, of, &self.of)?;
                let bits = bits.as_primitive::<UInt64Type>();
                Ok(Arc::new(bits.unary::<_, Int64Type>(u64::cast_signed)))
            }
            DataType::Int8 => kernel::compute::<Int8Type>(self.operation, of, &self.of),
            DataType::Int16 => kernel::compute::<Int16Type>(self.operation, of, &self.of),
            DataType::Int32 => kernel::compute::<Int32Type>(self.operation, of, &self.of),
            DataType::UInt8 => kernel::compute::<UInt8Type>(self.operation, of, &self.of),
            DataType::UInt16 => kernel::compute::<UInt16Type>(self.operation, of, &self.of),
            DataType::UInt32 => kernel::compute::<UInt32Type>(self.operation, of, &self.of),
            DataType::UInt64 => kernel::compute::<UInt64Type>(self.operation, of, &self.of),
            DataType::Duration(TimeUnit::Second) => {
                kernel::compute::<DurationSecondType>(self.operation, of, &self.of)
            }
            DataType::Duration(TimeUnit::Millisecond) => {
                kernel::compute::<DurationMillisecondType>(self.operation, of, &self.of)
            }
            DataType::Duration(TimeUnit::Microsecond) => {
                kernel::compute::<DurationMicrosecondType>(self.operation, of, &self.of)
            }
            DataType::Duration(TimeUnit::Nanosecond) => {
                kernel::compute::<DurationNanosecondType>(self.operation, of, &self.of)
            }
            _ => kernel::compute::<Int64Type>(self.operation, of, &self.of),
        }
    }
}

/// An operation written out.
fn written(sign: &str, sides: &[String]) -> String {
    match sides {
        [left, right] => format!("{left} {sign} {right}"),
        sides => format!("({sign} {})", sides.join(", ")),
    }
}

/// The error of a result: `error` is told what it is a result of, by the names of the columns that are sides, and where
/// there are any by the values.
fn named_result(
    sign: &str,
    names: &[Option<String>],
    values: &[String],
    error: impl FnOnce(&str, Option<&str>) -> DataFusionError,
) -> DataFusionError {
    let computed = written(sign, values);
    if names.iter().all(Option::is_none) {
        return error(&computed, None);
    }
    let sides = names.iter().zip(values);
    let named: Vec<String> =
        sides.map(|(name, value)| name.clone().unwrap_or_else(|| value.clone())).collect();
    error(&written(sign, &named), Some(&computed))
}

/// The field of an operation's result, named by the operation written out, for the message of one around it.
fn field_named(sign: &str, result: &DataType, args: &ReturnFieldArgs<'_>) -> FieldRef {
    let side = |(field, constant): (&FieldRef, &Option<&ScalarValue>)| match constant {
        Some(value) => value.to_string(),
        None => bracketed(field.name()),
    };
    let sides: Vec<String> = args.arg_fields.iter().zip(args.scalar_arguments).map(side).collect();
    let mut name = written(sign, &sides);
    if name.chars().count() > WRITTEN_MAX {
        name = "(…)".to_string();
    }
    let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
    Arc::new(Field::new(name, result.clone(), nullable))
}

impl Operation {
    fn arguments(self) -> usize {
        if self == Operation::Negate { 1 } else { 2 }
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        match self.operation {
            Operation::Add => "add",
            Operation::Subtract => "subtract",
            Operation::Multiply => "multiply",
            Operation::Negate => "negate",
            Operation::ShiftLeft => "shift_left",
            Operation::ShiftRight => "shift_right",
            Operation::Difference => "difference",
        }
    }

    /// As the operator is displayed.
    fn display_name(&self, args: &[Expr]) -> Result<String> {
        Ok(written(self.operation.sign(), &args.iter().map(ToString::to_string).collect::<Vec<_>>()))
    }

    /// As a column with the operator's result is named.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let sides: Vec<String> = args.iter().map(|arg| arg.schema_name().to_string()).collect();
        Ok(written(self.operation.sign(), &sides))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.result())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(field_named(self.operation.sign(), &self.result(), &args))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let nothing = |arg: &ColumnarValue| matches!(arg, ColumnarValue::Scalar(value) if value.is_null());
        if args.args.iter().any(nothing) {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from(&self.result())?));
        }
        let result = self.invoke(&args, if constant { 1 } else { args.number_rows })?;
        Ok(match constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
            false => ColumnarValue::Array(result),
        })
    }
}

/// An expression as it is displayed, without the places of its columns: `a & b` for `a@0 & b@1`.
fn without_places(name: &str) -> String {
    let mut parts = name.split('@');
    let first = parts.next().unwrap_or_default().to_string();
    parts.fold(first, |written, part| match part.trim_start_matches(|c: char| c.is_ascii_digit()) {
        rest if rest.len() < part.len() => written + rest,
        _ => written + "@" + part,
    })
}

/// An operand in an operation written out.
fn bracketed(name: &str) -> String {
    let name = without_places(name);
    if name.contains(' ') && !name.starts_with('(') { format!("({name})") } else { name }
}

impl Checked {
    /// The results of some rows: a side that is one value stays one.
    fn invoke(&self, args: &ScalarFunctionArgs, rows: usize) -> Result<ArrayRef> {
        let sides = args.args.iter().map(|arg| match arg {
            ColumnarValue::Array(array) => Ok(Arc::clone(array)),
            ColumnarValue::Scalar(value) => value.to_array(),
        });
        let sides = sides.collect::<Result<Vec<ArrayRef>>>()?;
        for side in &sides {
            if *side.data_type() != self.of {
                return exec_err!("{} takes {}, not {}", self.name(), self.of, side.data_type());
            }
        }
        let Some(left) = sides.first() else { return exec_err!("{} has no arguments", self.name()) };
        let result = self.compute(left, sides.get(1));
        let result = result.map_err(|overflow| {
            let name = |(arg, field): (&ColumnarValue, &FieldRef)| match arg {
                ColumnarValue::Array(_) => Some(bracketed(field.name())),
                ColumnarValue::Scalar(_) => None,
            };
            let names: Vec<_> = args.args.iter().zip(&args.arg_fields).map(name).collect();
            named_result(self.operation.sign(), &names, &overflow.values, |of, values| {
                let it_is = values.map_or(String::new(), |values| format!(": it is {values}"));
                exec_datafusion_err!("{of} does not fit {}{it_is}", type_name(&self.result()))
            })
        })?;
        debug_assert_eq!(result.len(), rows, "a row of results for each row");
        Ok(result)
    }
}

#[cfg(test)]
mod tests;
