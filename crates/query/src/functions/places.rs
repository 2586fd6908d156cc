//! `round(x, places)` and `trunc(x, places)` of doubles for any number of places.
//!
//! DataFusion's multiply by a power of ten and divide by it: past the powers that a double has, or where the product
//! is past the largest double, that is NaN. There are no digits to round then, or none before them. Everything else is
//! DataFusion's.

use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Int64Array, PrimitiveArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef, Float32Type, Float64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions::math::{round, trunc};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use std::sync::Arc;

/// `round` or `trunc`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Places(Arc<ScalarUDF>);

impl Places {
    pub(super) fn all() -> [Self; 2] {
        [Self(round()), Self(trunc())]
    }
}

impl ScalarUDFImpl for Places {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.0.return_field_from_args(args)
    }

    fn is_strict(&self) -> bool {
        self.0.is_strict()
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.0.output_ordering(inputs)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (given, rows) = (args.args.clone(), args.number_rows);
        let made = self.0.invoke_with_args(args)?;
        let [value, places] = given.as_slice() else { return Ok(made) };
        if !made.data_type().is_floating() {
            return Ok(made);
        }
        let is_scalar = matches!(made, ColumnarValue::Scalar(_));
        let rows = if is_scalar { 1 } else { rows };
        let (value, places, made) = (value.to_array(rows)?, places.to_array(rows)?, made.to_array(rows)?);
        let places = cast(&places, &DataType::Int64)?;
        let right = match made.data_type() {
            DataType::Float64 => of::<Float64Type>(&value, places.as_primitive(), &made),
            DataType::Float32 => of::<Float32Type>(&value, places.as_primitive(), &made),
            _ => made,
        };
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&right, 0)?),
            false => ColumnarValue::Array(right),
        })
    }
}

/// What was made, where that is a number: otherwise the value as it is, or 0 of digits that are all before the point.
fn of<T: ArrowPrimitiveType>(value: &ArrayRef, places: &Int64Array, made: &ArrayRef) -> ArrayRef
where
    T::Native: Into<f64> + Default + std::ops::Mul<Output = T::Native>,
{
    let (Some(values), Some(found)) = (value.as_primitive_opt::<T>(), made.as_primitive_opt::<T>()) else {
        return Arc::clone(made);
    };
    let is_lost = |row: usize| {
        let (before, after): (f64, f64) = (values.value(row).into(), found.value(row).into());
        before.is_finite() && !after.is_finite()
    };
    if !(0..found.len()).any(is_lost) {
        return Arc::clone(made);
    }
    let one = |row: usize| match (is_lost(row), places.value(row) >= 0) {
        (false, _) => found.value(row),
        (true, true) => values.value(row),
        (true, false) => T::Native::default() * values.value(row),
    };
    let right = PrimitiveArray::<T>::from_iter_values((0..found.len()).map(one));
    Arc::new(PrimitiveArray::<T>::new(right.values().clone(), found.nulls().cloned()))
}
