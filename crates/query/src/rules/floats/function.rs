//! The two functions that [`super`] puts into plans. They are not for statements: no name leads to them.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::utils::{normalize_float_zero, take_function_args};
use datafusion::error::Result;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::{Arc, LazyLock};
use tickstone_model::with_one_nan;

/// What becomes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Which {
    Nan,
    Zero,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct One {
    which: Which,
    signature: Signature,
}

fn function(which: Which) -> Arc<ScalarUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::from(One { which, signature }))
}

static ONE_NAN: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(Which::Nan));
static ONE_ZERO: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(Which::Zero));

/// The expression with the one NaN in the place of all.
pub(super) fn one_nan(expr: Expr) -> Expr {
    ONE_NAN.call(vec![expr])
}

/// The expression with 0.0 in the place of -0.0.
pub(super) fn one_zero(expr: Expr) -> Expr {
    ONE_ZERO.call(vec![expr])
}

/// Whether an expression is the call of one of these.
pub(super) fn is_one(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if Arc::ptr_eq(&call.func, &ONE_NAN) || Arc::ptr_eq(&call.func, &ONE_ZERO))
}

/// Whether an expression is the call of [`one_zero`].
pub(super) fn is_zero(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if Arc::ptr_eq(&call.func, &ONE_ZERO))
}

impl One {
    fn of(&self, array: &ArrayRef) -> ArrayRef {
        match self.which {
            Which::Nan => with_one_nan(array),
            Which::Zero => normalize_float_zero(array),
        }
    }
}

impl ScalarUDFImpl for One {
    fn name(&self) -> &str {
        match self.which {
            Which::Nan => "one_nan",
            Which::Zero => "one_zero",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [data_type] = take_function_args(self.name(), types)?;
        Ok(data_type.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let [field] = take_function_args(self.name(), args.arg_fields)?;
        Ok(Arc::clone(field))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = take_function_args(self.name(), args.args)?;
        Ok(match value {
            ColumnarValue::Array(array) => ColumnarValue::Array(self.of(&array)),
            ColumnarValue::Scalar(scalar) => {
                let array = self.of(&scalar.to_array()?);
                ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(&array, 0)?)
            }
        })
    }

    // Both zeros are equal and there is no NaN before a number: what was in order stays so.
    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(inputs.first().map_or(SortProperties::Unordered, |input| input.sort_properties))
    }
}
