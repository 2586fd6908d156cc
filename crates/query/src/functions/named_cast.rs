//! `__cast(x, 'Float64')`: a cast that has a name of its own in a plan and stays a call.
//!
//! DataFusion leaves casts out of the names of expressions, so that `x` and `x::DOUBLE` are two columns of one name once
//! both are keys of a GROUP BY. A statement that is refused for that is planned again with calls in their place
//! (`dialect::name_casts`). Nor is a call taken from a condition, as a cast of a DECIMAL to fewer digits is
//! ([`crate::approximate`]). The type is spelled as Arrow does.

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{exec_err, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, lit,
};
use std::sync::Arc;

/// Name of the function.
pub(crate) const NAMED_CAST: &str = "__cast";

/// The call that casts an expression.
pub(crate) fn named_cast(expr: Expr, data_type: &DataType) -> Expr {
    ScalarUDF::from(NamedCast::default()).call(vec![expr, lit(data_type.to_string())])
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct NamedCast {
    signature: Signature,
}

impl Default for NamedCast {
    fn default() -> Self {
        Self { signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for NamedCast {
    fn name(&self) -> &str {
        NAMED_CAST
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        internal_err!("the type of {NAMED_CAST} is that of its second argument")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let ([value, _], [_, Some(name)]) = (args.arg_fields, args.scalar_arguments) else {
            return exec_err!("{NAMED_CAST} takes a value and the name of a type");
        };
        let data_type: DataType = name.try_as_str().flatten().unwrap_or_default().parse()?;
        Ok(Arc::new(Field::new(self.name(), data_type, value.is_nullable())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let data_type = args.return_field.data_type();
        let [value, _] = args.args.as_slice() else {
            return exec_err!("{NAMED_CAST} takes a value and the name of a type");
        };
        value.cast_to(data_type, None)
    }
}
