//! Window functions of returns, row by row in the order of the window:
//!
//! - `log_return(x)`: ln xₜ − ln xₜ₋₁; NULL in the first row, and where either is NULL or not positive;
//! - `simple_return(x)`: xₜ / xₜ₋₁ − 1; NULL in the first row, and where either is NULL or xₜ₋₁ is 0.
//!
//! `log_return(price) OVER (PARTITION BY symbol ORDER BY ts)`

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{LimitEffect, PartitionEvaluator, Signature, Volatility, WindowUDFImpl};
use datafusion::physical_expr::PhysicalExpr;
use std::sync::Arc;

/// `log_return(x)` or `simple_return(x)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Return {
    log: bool,
    signature: Signature,
}

impl Return {
    pub(crate) fn log() -> Self {
        Self { log: true, signature: Signature::exact(vec![DataType::Float64], Volatility::Immutable) }
    }

    pub(crate) fn simple() -> Self {
        Self { log: false, signature: Signature::exact(vec![DataType::Float64], Volatility::Immutable) }
    }
}

impl WindowUDFImpl for Return {
    fn name(&self) -> &str {
        if self.log { "log_return" } else { "simple_return" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn partition_evaluator(&self, _args: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Returns { log: self.log }))
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(args.name(), DataType::Float64, true)))
    }

    fn limit_effect(&self, _args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        LimitEffect::None
    }
}

#[derive(Debug)]
struct Returns {
    log: bool,
}

impl PartitionEvaluator for Returns {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let Some(values) = values.first() else { return exec_err!("a return needs its argument") };
        let values = values.as_primitive::<Float64Type>();
        let result: Float64Array = (0..rows)
            .map(|row| {
                let before = row.checked_sub(1).filter(|before| values.is_valid(*before))?;
                let (now, before) = (values.is_valid(row).then(|| values.value(row))?, values.value(before));
                if self.log {
                    (now > 0.0 && before > 0.0).then(|| now.ln() - before.ln())
                } else {
                    (before != 0.0).then(|| now / before - 1.0)
                }
            })
            .collect();
        Ok(Arc::new(result))
    }
}
