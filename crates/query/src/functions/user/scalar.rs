//! Scalar functions in plans.

use super::{Function, Planned};
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};
use std::sync::Arc;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Scalar(Planned);

/// The function as DataFusion calls it.
pub(super) fn planned(function: &Arc<Function>) -> Arc<ScalarUDF> {
    Arc::new(Scalar(Planned::new(function)).into())
}

impl ScalarUDFImpl for Scalar {
    fn name(&self) -> &str {
        self.0.function.name()
    }

    fn signature(&self) -> &Signature {
        &self.0.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.0.function.signature.coerced(types)
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.0.function.signature.returns().clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let function = &self.0.function;
        let constant = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        // What has side effects is called for each row.
        let once = constant && !function.side_effects;
        let rows = if once { 1 } else { args.number_rows };
        let arguments = args.args.into_iter().map(|value| value.into_array(rows));
        let values = function.over_rows(&arguments.collect::<Result<Vec<ArrayRef>>>()?, rows)?;
        Ok(match once {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?),
            false => ColumnarValue::Array(values),
        })
    }
}
