//! `corr(y, x)`, `covar_samp(y, x)` and `covar_pop(y, x)` with deviations from the means (Welford), the same to the last
//! digit in either order of the arguments.
//!
//! DataFusion takes one deviation from the mean before a row and the other from that after it, so that the order matters
//! to the last digits, and its `corr` of groups subtracts sums of squares: of prices, whose spread is small beside their
//! size, that leaves few correct digits.

use super::windowed::{Fold, Spread};
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result;
use datafusion::functions_aggregate::correlation::corr_udaf;
use datafusion::functions_aggregate::covariance::{covar_pop_udaf, covar_samp_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Signature};
use std::sync::Arc;

/// What is made of how two columns spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Made {
    Correlation,
    /// Of a sample where the flag says so, else of all there is.
    Covariance(bool),
}

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Joint {
    theirs: Arc<AggregateUDF>,
    made: Made,
}

impl Joint {
    /// All of them.
    pub(super) fn all() -> [Self; 3] {
        [
            Self { theirs: corr_udaf(), made: Made::Correlation },
            Self { theirs: covar_samp_udaf(), made: Made::Covariance(true) },
            Self { theirs: covar_pop_udaf(), made: Made::Covariance(false) },
        ]
    }
}

impl AggregateUDFImpl for Joint {
    fn name(&self) -> &str {
        self.theirs.name()
    }

    fn aliases(&self) -> &[String] {
        self.theirs.aliases()
    }

    fn signature(&self) -> &Signature {
        self.theirs.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.theirs.coerce_types(types)
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.theirs.return_type(arg_types)
    }

    fn accumulator(&self, _args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(One { made: self.made, spread: Spread::default() }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field =
            |name: &&str| Arc::new(Field::new(format_state_name(args.name, name), DataType::Float64, true));
        Ok(["count", "mean1", "mean2", "squares1", "squares2", "products"].iter().map(field).collect())
    }

    fn groups_accumulator_supported(&self, _args: AccumulatorArgs<'_>) -> bool {
        false
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.theirs.documentation()
    }
}

#[derive(Debug)]
struct One {
    made: Made,
    spread: Spread,
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        Spread::each(values, |row| {
            if let Some(row) = row {
                self.spread = self.spread.join(Spread::of(row));
            }
        })
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(match self.made {
            Made::Correlation => self.spread.correlation(),
            Made::Covariance(sample) => self.spread.covariance(sample),
        }))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(self.spread.parts().map(ScalarValue::from).to_vec())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let Some(first) = states.first() else {
            return exec_err!("a correlation has a state of six columns");
        };
        for group in 0..first.len() {
            let part = |state: &ArrayRef| state.as_primitive::<Float64Type>().value(group);
            let parts: Vec<f64> = states.iter().map(part).collect();
            let Ok(parts) = <[f64; 6]>::try_from(parts) else {
                return exec_err!("a correlation has a state of six columns");
            };
            self.spread = self.spread.join(Spread::of_parts(parts));
        }
        Ok(())
    }
}
