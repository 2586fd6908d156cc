//! `__long_list('1, 2, …')`: a long list of literals after IN, in what the planner reads ([`LONG_LIST`]).
//! Not for statements: `rules::long_lists` says what it means.

use crate::lists::LONG_LIST;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

/// A list as the planner reads it, until its meaning is known.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Written {
    signature: Signature,
}

impl Default for Written {
    fn default() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Written {
    fn name(&self) -> &str {
        LONG_LIST
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Null)
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!("a list stands after IN")
    }
}
