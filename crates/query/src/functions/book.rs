//! Scalar functions of one side of an order book, given as arrays with the best level first:
//!
//! | function | definition |
//! |---|---|
//! | `depth(sizes, n)` | Σ of the sizes of the first n levels; of fewer, where there are fewer |
//! | `l2price(size, sizes, prices)` | Σ qᵢ·pᵢ / size over the levels, where q₁, q₂, … fill `size` level by level; NULL where they do not suffice |
//!
//! A level without a size or a price has nothing to fill with. NULL where an argument is NULL, or where `size` is
//! not above 0.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, ListArray};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use std::sync::Arc;

/// `depth` or `l2price`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct BookFunction {
    fills: bool,
    signature: Signature,
}

impl BookFunction {
    pub(crate) fn all() -> [Self; 2] {
        [false, true].map(|fills| Self { fills, signature: Signature::user_defined(Volatility::Immutable) })
    }

    fn value(&self, arrays: &[ArrayRef], row: usize) -> Result<Option<f64>> {
        match arrays {
            [sizes, levels] if !self.fills => {
                let levels: &Int64Array = levels.as_primitive::<Int64Type>();
                let Some(sizes) = level_values(sizes.as_list(), row) else { return Ok(None) };
                if levels.is_null(row) {
                    return Ok(None);
                }
                let count = usize::try_from(levels.value(row)).unwrap_or(0);
                Ok(Some(sizes.iter().take(count).flatten().fold(0.0, |sum, size| sum + size)))
            }
            [size, sizes, prices] if self.fills => {
                let size: &Float64Array = size.as_primitive::<Float64Type>();
                let levels = level_values(sizes.as_list(), row).zip(level_values(prices.as_list(), row));
                let Some((sizes, prices)) = levels.filter(|_| size.is_valid(row)) else { return Ok(None) };
                Ok(price_of(size.value(row), &sizes, &prices))
            }
            other => exec_err!("{} got {} arguments", self.name(), other.len()),
        }
    }
}

/// The elements of an array's row.
fn level_values(lists: &ListArray, row: usize) -> Option<Float64Array> {
    lists.is_valid(row).then(|| lists.value(row).as_primitive::<Float64Type>().clone())
}

fn price_of(size: f64, sizes: &Float64Array, prices: &Float64Array) -> Option<f64> {
    let (mut left, mut paid) = (size, 0.0);
    if !(size > 0.0 && size.is_finite()) {
        return None;
    }
    for (offered, price) in sizes.iter().zip(prices) {
        let (Some(offered), Some(price)) = (offered, price) else { continue };
        if offered > 0.0 {
            let taken = offered.min(left);
            paid += taken * price;
            left -= taken;
        }
        if left <= 0.0 {
            return Some(paid / size);
        }
    }
    None
}

impl ScalarUDFImpl for BookFunction {
    fn name(&self) -> &str {
        if self.fills { "l2price" } else { "depth" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let list = |of: &DataType| match of {
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                item.data_type().is_numeric() || *item.data_type() == DataType::Null
            }
            other => *other == DataType::Null,
        };
        let number = |of: &DataType| of.is_numeric() || *of == DataType::Null;
        let doubles = || DataType::new_list(DataType::Float64, true);
        match types {
            [sizes, levels] if !self.fills && list(sizes) && number(levels) => {
                Ok(vec![doubles(), DataType::Int64])
            }
            [size, sizes, prices] if self.fills && number(size) && list(sizes) && list(prices) => {
                Ok(vec![DataType::Float64, doubles(), doubles()])
            }
            _ if self.fills => plan_err!("l2price takes a size and the arrays of a book's sizes and prices"),
            _ => plan_err!("depth takes the array of a book's sizes and a number of levels"),
        }
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let rows = arrays.first().map_or(0, |array| array.len());
        let found = (0..rows).map(|row| self.value(&arrays, row)).collect::<Result<Float64Array>>()?;
        let all_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        if all_scalar && rows == 1 {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?));
        }
        Ok(ColumnarValue::Array(Arc::new(found)))
    }
}
