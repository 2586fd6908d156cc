//! `round(x, places)` and `trunc(x, places)` of doubles for any number of places, and `floor`, `ceil` and `trunc` of
//! DECIMALs.
//!
//! DataFusion's multiply by a power of ten and divide by it: past the powers that a double has, or where the product
//! is past the largest double, that is NaN. There are no digits to round then, or none before them.
//!
//! A DECIMAL that is made whole has no digits after the point, as of `round(x)`: those before it have room for one more,
//! `ceil(999.95)` of a DECIMAL(5, 2) is 1000. DataFusion's keep the type. Everything else is DataFusion's.

use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Int64Array, PrimitiveArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, FieldRef, Float32Type, Float64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions::math::{ceil, floor, round, trunc};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature,
};
use std::sync::Arc;

/// `round`, `trunc`, `floor` or `ceil`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Places(Arc<ScalarUDF>);

impl Places {
    pub(super) fn all() -> [Self; 4] {
        [round(), trunc(), floor(), ceil()].map(Self)
    }

    /// The type of a DECIMAL of these arguments that is made whole; `None` of others.
    fn whole(&self, types: &[DataType]) -> Option<DataType> {
        match types {
            [DataType::Decimal128(digits, 1..)] if self.name() != "round" => {
                Some(DataType::Decimal128(*digits, 0))
            }
            _ => None,
        }
    }
}

/// DECIMALs as whole numbers of type `to`, by the function of this name.
fn whole(name: &str, values: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let DataType::Decimal128(_, scale) = values.data_type() else { return Ok(cast(values, to)?) };
    let unit = 10_i128.pow(scale.unsigned_abs().into());
    let rounded = |value: i128| match name {
        "floor" => value.div_euclid(unit),
        "ceil" => -(-value).div_euclid(unit),
        _ => value / unit,
    };
    let values: PrimitiveArray<Decimal128Type> = values.as_primitive::<Decimal128Type>().unary(rounded);
    Ok(Arc::new(values.with_data_type(to.clone())))
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
        self.whole(types).map_or_else(|| self.0.return_type(types), Ok)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let field = self.0.return_field_from_args(args)?;
        Ok(match self.whole(&types) {
            Some(whole) => Arc::new(field.as_ref().clone().with_data_type(whole)),
            None => field,
        })
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        let types: Vec<DataType> = inputs.iter().map(|input| input.data_type()).collect();
        match self.whole(&types) {
            Some(whole) => Interval::make_unbounded(&whole),
            None => self.0.evaluate_bounds(inputs),
        }
    }

    fn preimage(&self, args: &[Expr], value: &Expr, info: &SimplifyContext) -> Result<PreimageResult> {
        match value {
            // Its type is not that of the argument.
            Expr::Literal(value, _) if value.data_type().is_decimal() => Ok(PreimageResult::None),
            value => self.0.preimage(args, value, info),
        }
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.0.preserves_lex_ordering(inputs)
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
        if let [value] = given.as_slice()
            && let Some(to) = self.whole(&[value.data_type()])
        {
            let is_scalar = matches!(value, ColumnarValue::Scalar(_));
            let made = whole(self.name(), &value.to_array(if is_scalar { 1 } else { rows })?, &to)?;
            return Ok(match is_scalar {
                true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
                false => ColumnarValue::Array(made),
            });
        }
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
