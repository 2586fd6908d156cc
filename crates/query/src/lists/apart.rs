//! `__apart(x, n)`: the value of x, which equals no other such value to planning.
//!
//! Planning makes one of two equal aggregates or windows. Where they have another value each time, a call tells the
//! second from the first (`dialect::volatile`). And it makes one of two lists about equal values, and not rightly
//! (`rules::disjoint`): no name leads to that call, whose value is the same each time.

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, lit,
};
use std::sync::{Arc, LazyLock};

/// Name of the function.
pub(crate) const APART: &str = "__apart";

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Apart {
    signature: Signature,
}

impl Default for Apart {
    fn default() -> Self {
        Self { signature: Signature::any(2, Volatility::Volatile) }
    }
}

static SAME: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    Arc::new(ScalarUDF::from(Apart { signature: Signature::any(2, Volatility::Immutable) }))
});

/// The value of an expression, which has this number to planning and is the same each time.
pub(crate) fn apart(expr: Expr, number: u64) -> Expr {
    SAME.call(vec![expr, lit(number)])
}

/// The expression whose value [`apart`] gives.
pub(crate) fn same(expr: &Expr) -> Option<&Expr> {
    let Expr::ScalarFunction(call) = expr else { return None };
    let is_same =
        call.func.inner().is::<Apart>() && call.func.signature().volatility == Volatility::Immutable;
    call.args.first().filter(|_| is_same)
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
