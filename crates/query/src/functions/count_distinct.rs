//! `count_distinct(x)`: `count(DISTINCT x)` as a function.

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature, Volatility,
};
use std::sync::Arc;

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct CountDistinct {
    count: Arc<AggregateUDF>,
    signature: Signature,
}

impl Default for CountDistinct {
    fn default() -> Self {
        Self { count: count_udaf(), signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for CountDistinct {
    fn name(&self) -> &str {
        "count_distinct"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn is_nullable(&self) -> bool {
        false
    }

    fn default_value(&self, _data_type: &DataType) -> Result<ScalarValue> {
        Ok(ScalarValue::Int64(Some(0)))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.count.state_fields(StateFieldsArgs { is_distinct: true, ..args })
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.count.accumulator(AccumulatorArgs { is_distinct: true, ..args })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.count.groups_accumulator_supported(AccumulatorArgs { is_distinct: true, ..args })
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        self.count.create_groups_accumulator(AccumulatorArgs { is_distinct: true, ..args })
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.count.create_sliding_accumulator(AccumulatorArgs { is_distinct: true, ..args })
    }
}
