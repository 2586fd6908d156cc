//! `__apart(x, n)`: the value of x, which equals no other such value to planning.
//!
//! Planning makes one of two equal aggregates or windows. Where they have another value each time, a call tells the
//! second from the first (`dialect::volatile`).

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// Name of the function.
pub(crate) const APART: &str = "__apart";

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Apart {
    signature: Signature,
}

impl Default for Apart {
    fn default() -> Self {
        Self { signature: Signature::any(2, Volatility::Volatile) }
    }
}

impl ScalarUDFImpl for Apart {
    fn name(&self) -> &str {
        APART
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        internal_err!("the type of {APART} is that of its first argument")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match args.arg_fields.first() {
            Some(value) => Ok(Arc::clone(value)),
            None => internal_err!("{APART} takes a value"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.into_iter().next() {
            Some(value) => Ok(value),
            None => internal_err!("{APART} takes a value"),
        }
    }
}
