//! `__cast(x, 'Float64')`, `__try_cast(x, 'Float64')`: a cast that has a name of its own in a plan and stays a call.
//!
//! DataFusion leaves casts out of the names of expressions, so that `x` and `x::DOUBLE` are two columns of one name once
//! both are keys of a GROUP BY. A statement that is refused for that is planned again with calls in their place
//! (`dialect::name_casts`). Nor is a call taken from a condition, as a cast of a DECIMAL to fewer digits is
//! ([`crate::rules::approximate`]). The type is spelled as Arrow does.

use super::units::with_printed_digits;
use datafusion::arrow::compute::CastOptions;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::format::DEFAULT_CAST_OPTIONS;
use datafusion::common::{ScalarValue, exec_err, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, lit,
};
use std::sync::Arc;

/// Name of the function that casts.
pub(crate) const NAMED_CAST: &str = "__cast";

/// Name of the one that gives NULL where a value cannot be cast.
pub(crate) const NAMED_TRY_CAST: &str = "__try_cast";

/// Name of the function that makes a DECIMAL the nearest DOUBLE.
pub(crate) const NEAREST_DOUBLE: &str = "__nearest_double";

/// The call that casts an expression; with `tries` to NULL where a value cannot be cast.
pub(crate) fn named_cast(expr: Expr, data_type: &DataType, tries: bool) -> Expr {
    ScalarUDF::from(NamedCast::new(tries)).call(vec![expr, lit(data_type.to_string())])
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct NamedCast {
    signature: Signature,
    /// Whether what cannot be cast is NULL.
    tries: bool,
}

impl NamedCast {
    fn new(tries: bool) -> Self {
        Self { signature: Signature::any(2, Volatility::Immutable), tries }
    }

    /// Both functions.
    pub(super) fn all() -> [Self; 2] {
        [false, true].map(Self::new)
    }
}

impl ScalarUDFImpl for NamedCast {
    fn name(&self) -> &str {
        if self.tries { NAMED_TRY_CAST } else { NAMED_CAST }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        internal_err!("the type of {} is that of its second argument", self.name())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let ([value, _], [_, Some(name)]) = (args.arg_fields, args.scalar_arguments) else {
            return exec_err!("{} takes a value and the name of a type", self.name());
        };
        let data_type: DataType = name.try_as_str().flatten().unwrap_or_default().parse()?;
        Ok(Arc::new(Field::new(self.name(), data_type, self.tries || value.is_nullable())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let data_type = args.return_field.data_type();
        let [value, _] = args.args.as_slice() else {
            return exec_err!("{} takes a value and the name of a type", self.name());
        };
        let made =
            value.cast_to(data_type, Some(&CastOptions { safe: self.tries, ..DEFAULT_CAST_OPTIONS }))?;
        let is_printed = matches!(data_type, DataType::Decimal128(..)) && value.data_type().is_floating();
        if !is_printed {
            return Ok(made);
        }
        let is_one = matches!(made, ColumnarValue::Scalar(_));
        let printed =
            with_printed_digits(&value.to_array(args.number_rows)?, made.into_array(args.number_rows)?);
        Ok(match is_one {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&printed, 0)?),
            false => ColumnarValue::Array(printed),
        })
    }
}
