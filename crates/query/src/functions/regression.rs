//! `regr_r2(y, x)` as SQL has it: 1 where all y are equal and the x are not. DataFusion 55.2 has NULL there; everything
//! else is its own. Over frames see [`super::windowed`].

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_aggregate::regr::regr_r2_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Signature};
use std::sync::Arc;

/// `regr_r2(y, x)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct RSquared {
    theirs: Arc<AggregateUDF>,
}

impl Default for RSquared {
    fn default() -> Self {
        Self { theirs: regr_r2_udaf() }
    }
}

impl AggregateUDFImpl for RSquared {
    fn name(&self) -> &str {
        self.theirs.name()
    }

    fn signature(&self) -> &Signature {
        self.theirs.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.theirs.return_type(types)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(One { theirs: self.theirs.accumulator(args)? }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.theirs.state_fields(args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.theirs.documentation()
    }
}

#[derive(Debug)]
struct One {
    theirs: Box<dyn Accumulator>,
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.theirs.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        // Count, the means of x and y, the sums of the squares of their deviations, that of their products.
        match self.theirs.state()?.as_slice() {
            [
                ScalarValue::UInt64(Some(2..)),
                _,
                _,
                ScalarValue::Float64(Some(x)),
                ScalarValue::Float64(Some(y)),
                _,
            ] if *x > 0.0 && *y == 0.0 => Ok(ScalarValue::Float64(Some(1.0))),
            _ => self.theirs.evaluate(),
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.theirs.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.theirs.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.theirs.merge_batch(states)
    }
}
