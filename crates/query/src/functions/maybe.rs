//! `__maybe(x, …)`: the value of `x`, which planning takes for one that may be NULL. The other arguments are columns that
//! planning keeps for its sake.
//!
//! Not for statements: no name leads to it.

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::{Arc, LazyLock};

static MAYBE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::variadic_any(Volatility::Immutable);
    Arc::new(ScalarUDF::from(Maybe { signature }))
});

/// The value of an expression, which may be NULL, beside columns that are read with it.
pub(crate) fn maybe(expr: Expr, beside: impl IntoIterator<Item = Expr>) -> Expr {
    MAYBE.call(std::iter::once(expr).chain(beside).collect())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Maybe {
    signature: Signature,
}

impl ScalarUDFImpl for Maybe {
    fn name(&self) -> &str {
        "__maybe"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        internal_err!("the type of {} is that of its first argument", self.name())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let Some(value) = args.arg_fields.first() else {
            return internal_err!("{} takes a value", self.name());
        };
        Ok(Arc::new(Field::clone(value).with_nullable(true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let mut args = args.args.into_iter();
        let Some(value) = args.next() else { return internal_err!("{} takes a value", self.name()) };
        // A result beside columns has a value for each row.
        match args.any(|beside| matches!(beside, ColumnarValue::Array(_))) {
            true => Ok(ColumnarValue::Array(value.into_array(rows)?)),
            false => Ok(value),
        }
    }
}
