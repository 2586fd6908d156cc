//! Window functions in plans: a partition at a time.

use super::{Function, Planned};
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{PartitionEvaluator, Signature, WindowUDF, WindowUDFImpl};
use std::sync::Arc;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Window(Planned);

/// The function as DataFusion calls it.
pub(super) fn planned(function: &Arc<Function>) -> Arc<WindowUDF> {
    Arc::new(Window(Planned::new(function)).into())
}

impl WindowUDFImpl for Window {
    fn name(&self) -> &str {
        self.0.function.name()
    }

    fn signature(&self) -> &Signature {
        &self.0.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.0.function.signature.coerced(types)
    }

    fn partition_evaluator(&self, _args: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Evaluator(Arc::clone(&self.0.function))))
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(args.name(), self.0.function.signature.returns().clone(), true)))
    }
}

#[derive(Debug)]
struct Evaluator(Arc<Function>);

impl PartitionEvaluator for Evaluator {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        self.0.over_rows(values, rows)
    }
}
