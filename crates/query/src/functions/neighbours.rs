//! Window functions that carry values of any type from row to row, in the order of the window:
//!
//! - `prev(x)`: the value in the row before, NULL in the first;
//! - `fills(x)`: the value, or where it is NULL the last one before that is not.

use datafusion::arrow::array::{Array, ArrayRef, UInt64Array};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{Field, FieldRef};
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{LimitEffect, PartitionEvaluator, Signature, Volatility, WindowUDFImpl};
use datafusion::physical_expr::PhysicalExpr;
use std::sync::Arc;

/// `prev(x)` or `fills(x)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Neighbour {
    fills: bool,
    signature: Signature,
}

impl Neighbour {
    pub(super) fn prev() -> Self {
        Self { fills: false, signature: Signature::any(1, Volatility::Immutable) }
    }

    pub(super) fn fills() -> Self {
        Self { fills: true, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl WindowUDFImpl for Neighbour {
    fn name(&self) -> &str {
        if self.fills { "fills" } else { "prev" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn partition_evaluator(&self, _args: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Evaluator { fills: self.fills }))
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        match args.input_fields() {
            [value] => Ok(Arc::new(Field::new(args.name(), value.data_type().clone(), true))),
            _ => plan_err!("{} takes one argument", self.name()),
        }
    }

    fn limit_effect(&self, _args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        LimitEffect::None
    }
}

#[derive(Debug)]
struct Evaluator {
    fills: bool,
}

impl PartitionEvaluator for Evaluator {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let Some(values) = values.first() else { return exec_err!("it takes one argument") };
        let nulls = values.logical_nulls();
        let mut last = None;
        let from = (0..rows).map(|row| {
            if !self.fills {
                return row.checked_sub(1).map(|before| before as u64);
            }
            if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                last = Some(row as u64);
            }
            last
        });
        Ok(take(values, &from.collect::<UInt64Array>(), None)?)
    }
}
