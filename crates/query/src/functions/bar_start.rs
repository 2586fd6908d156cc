//! The function that stands for a bar in the plan that DataFusion makes of the SELECT, until the node takes
//! its place: it is never called.

use crate::designated::TIMESTAMP_KEY;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::{internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// Its name, and that of the time of a bar where a query does not give it one.
pub(crate) const BAR: &str = "bar_start";

/// `bar_start(ts, size)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct BarStart {
    signature: Signature,
}

impl Default for BarStart {
    fn default() -> Self {
        Self { signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for BarStart {
    fn name(&self) -> &str {
        BAR
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [DataType::Timestamp(_, zone), _] => Ok(DataType::Timestamp(TimeUnit::Nanosecond, zone.clone())),
            _ => plan_err!("{BAR} takes a timestamp and a size"),
        }
    }

    /// The start of a bar is the designated timestamp of the bars.
    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|f| f.data_type().clone()).collect();
        let field = Field::new(self.name(), self.return_type(&types)?, true);
        let designated = args.arg_fields.first().and_then(|f| f.metadata().get_key_value(TIMESTAMP_KEY));
        let metadata = designated.map(|(key, value)| (key.clone(), value.clone())).into_iter().collect();
        Ok(Arc::new(field.with_metadata(metadata)))
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("{BAR} stands for a bar of SAMPLE BY and is never called")
    }
}
