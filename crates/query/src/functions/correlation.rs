//! `corr(y, x)` by group with deviations from the mean (Welford), as it is without groups.
//!
//! DataFusion's accumulator of groups subtracts sums of squares: of prices, whose spread is small beside
//! their size, that leaves few correct digits. Everything else is DataFusion's.

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result;
use datafusion::functions_aggregate::correlation::corr_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Signature};
use std::sync::Arc;

/// `corr(y, x)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Correlation {
    theirs: Arc<AggregateUDF>,
}

impl Default for Correlation {
    fn default() -> Self {
        Self { theirs: corr_udaf() }
    }
}

impl AggregateUDFImpl for Correlation {
    fn name(&self) -> &str {
        self.theirs.name()
    }

    fn signature(&self) -> &Signature {
        self.theirs.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.theirs.return_type(arg_types)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.theirs.accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.theirs.state_fields(args)
    }

    fn groups_accumulator_supported(&self, _args: AccumulatorArgs<'_>) -> bool {
        false
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.theirs.documentation()
    }
}
