//! `min(x)` and `max(x)` of floating-point numbers by group, NaN as the largest number: as they are
//! without groups, in windows, in ORDER BY, and in the statistics of blocks.
//!
//! DataFusion's accumulators of groups forget what came before a NaN. Structs and lists have one of ours
//! ([`NestedExtreme`]). Everything else is DataFusion's.

use super::nested_extreme::NestedExtreme;
use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature, StatisticsArgs,
};
use std::sync::Arc;

/// `min` or `max`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Extreme {
    theirs: Arc<AggregateUDF>,
    largest: bool,
}

impl Extreme {
    pub(crate) fn min() -> Self {
        Self { theirs: min_udaf(), largest: false }
    }

    pub(crate) fn max() -> Self {
        Self { theirs: max_udaf(), largest: true }
    }
}

impl AggregateUDFImpl for Extreme {
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
        match args.return_field.data_type() {
            of if of.is_nested() => Ok(Box::new(NestedExtreme::new(self.largest, of)?)),
            _ => self.theirs.accumulator(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !args.return_field.data_type().is_nested() && self.theirs.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        match args.return_field.data_type() {
            DataType::Float64 => {
                Ok(Box::new(Many::<Float64Type>::new(self.largest, f64::NEG_INFINITY, f64::NAN)))
            }
            DataType::Float32 => {
                Ok(Box::new(Many::<Float32Type>::new(self.largest, f32::NEG_INFINITY, f32::NAN)))
            }
            _ => self.theirs.create_groups_accumulator(args),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match args.return_field.data_type() {
            of if of.is_nested() => self.accumulator(args),
            _ => self.theirs.create_sliding_accumulator(args),
        }
    }

    fn is_descending(&self) -> Option<bool> {
        self.theirs.is_descending()
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.theirs.order_sensitivity()
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.theirs.coerce_types(arg_types)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn value_from_stats(&self, args: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        self.theirs.value_from_stats(args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.theirs.documentation()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.theirs.inner().set_monotonicity(data_type)
    }
}

/// The extremes of groups of T.
#[derive(Debug)]
struct Many<T: ArrowPrimitiveType> {
    largest: bool,
    /// What every number beats.
    start: T::Native,
    extremes: Vec<T::Native>,
    seen: Vec<bool>,
}

impl<T: ArrowPrimitiveType> Many<T>
where
    T::Native: PartialOrd,
{
    fn new(largest: bool, least: T::Native, nan: T::Native) -> Self {
        let start = if largest { least } else { nan };
        Self { largest, start, extremes: Vec::new(), seen: Vec::new() }
    }

    #[inline]
    fn add(&mut self, group: usize, value: T::Native) {
        #[expect(clippy::eq_op, reason = "only NaN differs from itself")]
        let is_nan = |x: T::Native| x != x;
        let held = &mut self.extremes[group];
        let beats =
            if self.largest { value > *held || is_nan(value) } else { value < *held || is_nan(*held) };
        if beats {
            *held = value;
        }
        self.seen[group] = true;
    }

    fn take(&mut self, emit_to: EmitTo) -> ArrayRef {
        let extremes = emit_to.take_needed(&mut self.extremes);
        let seen = emit_to.take_needed(&mut self.seen);
        Arc::new(PrimitiveArray::<T>::new(extremes.into(), Some(seen.into())))
    }
}

impl<T: ArrowPrimitiveType> GroupsAccumulator for Many<T>
where
    T::Native: PartialOrd,
{
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        let [values] = values else {
            return exec_err!("min and max take one argument, not {}", values.len());
        };
        let values = values.as_primitive::<T>();
        self.extremes.resize(total, self.start);
        self.seen.resize(total, false);
        if values.null_count() == 0 && filter.is_none() {
            for (&value, &group) in values.values().iter().zip(groups) {
                self.add(group, value);
            }
            return Ok(());
        }
        for (row, (value, &group)) in values.iter().zip(groups).enumerate() {
            let counts = filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
            if let Some(value) = value.filter(|_| counts) {
                self.add(group, value);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        Ok(self.take(emit_to))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.take(emit_to)])
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.update_batch(values, groups, None, total)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let mut rows = Self { extremes: Vec::new(), seen: Vec::new(), ..*self };
        let groups: Vec<usize> = (0..values.first().map_or(0, |values| values.len())).collect();
        rows.update_batch(values, &groups, filter, groups.len())?;
        rows.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        size_of_val(self) + size_of::<T::Native>() * self.extremes.capacity() + self.seen.capacity()
    }
}
