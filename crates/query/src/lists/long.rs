//! `__one_of(x)`: whether x is one of the values of a long list, `x IN (…)`. The list is there once, however often a plan
//! is copied, compared and printed; no name leads to the function.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use datafusion::arrow::compute::{cast, take};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, UInt64Type};
use datafusion::common::utils::take_function_args;
use datafusion::common::{HashSet, ScalarValue, exec_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// The values of a list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Values {
    Numbers(HashSet<i64>),
    /// By their [`bits`].
    Doubles(HashSet<u64>),
    /// In units of the last digit of the DECIMAL that is tested.
    Decimals(HashSet<i128>),
    Texts(HashSet<String>),
}

/// The bits of a double, the same of both zeros.
pub(crate) fn bits(double: f64) -> u64 {
    if double == 0.0 { 0 } else { double.to_bits() }
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Values::Numbers(values) => values.len(),
            Values::Doubles(values) => values.len(),
            Values::Decimals(values) => values.len(),
            Values::Texts(values) => values.len(),
        }
    }

    /// Which values of an array, numbers or texts as these, are among them; NULL where one is NULL.
    ///
    /// # Errors
    /// Where they are of another kind.
    fn have(&self, array: &ArrayRef) -> Result<ArrayRef> {
        if let Some(coded) = array.as_any_dictionary_opt() {
            return Ok(take(&self.have(coded.values())?, coded.keys(), None)?);
        }
        let found: BooleanArray = match (self, array.data_type()) {
            (Values::Numbers(values), DataType::UInt64) => {
                let has = |value: u64| i64::try_from(value).is_ok_and(|value| values.contains(&value));
                array.as_primitive::<UInt64Type>().iter().map(|value| value.map(has)).collect()
            }
            (Values::Numbers(values), of) if of.is_integer() => {
                let array = cast(array, &DataType::Int64)?;
                let has = |value: i64| values.contains(&value);
                array.as_primitive::<Int64Type>().iter().map(|value| value.map(has)).collect()
            }
            (Values::Doubles(values), DataType::Float64) => {
                let has = |value: f64| values.contains(&bits(value));
                array.as_primitive::<Float64Type>().iter().map(|value| value.map(has)).collect()
            }
            (Values::Decimals(values), DataType::Decimal128(..)) => {
                let has = |value: i128| values.contains(&value);
                array.as_primitive::<Decimal128Type>().iter().map(|value| value.map(has)).collect()
            }
            (Values::Texts(values), of) if of.is_string() => {
                let array = cast(array, &DataType::Utf8)?;
                array
                    .as_string::<i32>()
                    .iter()
                    .map(|value| value.map(|value| values.contains(value)))
                    .collect()
            }
            (_, other) => return exec_err!("values of a list beside {other}"),
        };
        Ok(Arc::new(found))
    }
}

/// `expr IN (…)` of these values, where it is a number or a text as they are; `written` is the text of the list.
pub(crate) fn one_of(expr: Expr, written: &str, values: Values) -> Expr {
    let mut hasher = DefaultHasher::new();
    written.hash(&mut hasher);
    let signature = Signature::any(1, Volatility::Immutable);
    let function = OneOfThem { values: Arc::new(values), hash: hasher.finish(), signature };
    ScalarUDF::from(function).call(vec![expr])
}

/// What an expression tests, and for which values, where it is `x IN (…)` of a long list.
pub(crate) fn tested(expr: &Expr) -> Option<(&Expr, &Arc<Values>)> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = expr else { return None };
    let function = func.inner().downcast_ref::<OneOfThem>()?;
    Some((args.first()?, &function.values))
}

#[derive(Debug, PartialEq, Eq)]
struct OneOfThem {
    values: Arc<Values>,
    /// Of the text of the list.
    hash: u64,
    signature: Signature,
}

impl Hash for OneOfThem {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

impl ScalarUDFImpl for OneOfThem {
    fn name(&self) -> &str {
        "__one_of"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        // The number tells two lists about one column apart.
        let [tested] = take_function_args(self.name(), args)?;
        Ok(format!("{tested} IN ({} values, {:x})", self.values.len(), self.hash))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [tested] = take_function_args(self.name(), args.args)?;
        let is_scalar = matches!(tested, ColumnarValue::Scalar(_));
        let found = self.values.have(&tested.into_array(if is_scalar { 1 } else { args.number_rows })?)?;
        match is_scalar {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?)),
            false => Ok(ColumnarValue::Array(found)),
        }
    }
}
