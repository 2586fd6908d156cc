//! `sum` of DECIMALs of many digits: added up by DataFusion in 256 bits, where no sum of rows wraps.
//!
//! The result has 38 digits at most; a sum past them is an error. DECIMALs of fewer digits have room for the sums of
//! 10^10 rows in the ten digits that their sum has more than they.

use crate::functions::decimals;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Decimal256Type, Field, FieldRef,
};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, EmitTo, GroupsAccumulator};
use std::sync::Arc;

/// Digits of the sum of a DECIMAL past those of its values.
const SPARE: u8 = 10;

/// Whether sums of such values may not have room in 128 bits.
pub(crate) fn needs_room(data_type: &DataType) -> bool {
    room(data_type).is_some()
}

/// The type that values of `data_type` are added up in; `None` where they have room in their own.
pub(super) fn room(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Decimal128(precision, scale) if precision + SPARE > DECIMAL128_MAX_PRECISION => {
            Some(DataType::Decimal256(DECIMAL256_MAX_PRECISION, *scale))
        }
        _ => None,
    }
}

fn field(of: &FieldRef, room: &DataType) -> FieldRef {
    Arc::new(Field::new(of.name(), room.clone(), of.is_nullable()))
}

/// What DataFusion adds up with, given values of type `room`.
pub(super) fn accumulator(
    theirs: &AggregateUDF,
    args: AccumulatorArgs<'_>,
    room: DataType,
    sliding: bool,
) -> Result<Box<dyn Accumulator>> {
    let result = Narrow { name: args.name.to_string(), data_type: args.return_field.data_type().clone() };
    let args = AccumulatorArgs { return_field: field(&args.return_field, &room), ..args };
    let inner = if sliding { theirs.create_sliding_accumulator(args)? } else { theirs.accumulator(args)? };
    Ok(Box::new(Wide { inner, room, result }))
}

/// As [`accumulator`], for many groups.
pub(super) fn groups_accumulator(
    theirs: &AggregateUDF,
    args: AccumulatorArgs<'_>,
    room: DataType,
) -> Result<Box<dyn GroupsAccumulator>> {
    let result = Narrow { name: args.name.to_string(), data_type: args.return_field.data_type().clone() };
    let args = AccumulatorArgs { return_field: field(&args.return_field, &room), ..args };
    Ok(Box::new(ManyWide { inner: theirs.create_groups_accumulator(args)?, room, result }))
}

pub(super) fn state_fields(
    theirs: &AggregateUDF,
    args: StateFieldsArgs<'_>,
    room: &DataType,
) -> Result<Vec<FieldRef>> {
    theirs.state_fields(StateFieldsArgs { return_field: field(&args.return_field, room), ..args })
}

/// The same values in another type.
pub(super) fn widened(values: &[ArrayRef], room: &DataType) -> Result<Vec<ArrayRef>> {
    Ok(values.iter().map(|values| cast(values, room)).collect::<std::result::Result<_, _>>()?)
}

/// The type of a result, and what it is a result of: `sum(x)`.
#[derive(Debug)]
struct Narrow {
    name: String,
    data_type: DataType,
}

impl Narrow {
    fn narrow(&self, sums: &dyn Array) -> Result<ArrayRef> {
        let narrow = |sum| match decimals::narrowed(sum, DECIMAL128_MAX_PRECISION) {
            Some(sum) => Ok(sum),
            None => {
                let value = decimals::written(sum, &self.data_type);
                Err(decimals::past(&self.name, &self.data_type, Some(&value)))
            }
        };
        let sums = sums.as_primitive::<Decimal256Type>().iter().map(|sum| sum.map(narrow).transpose());
        let sums = sums.collect::<Result<Decimal128Array>>()?;
        Ok(Arc::new(sums.with_data_type(self.data_type.clone())))
    }
}

#[derive(Debug)]
struct Wide {
    inner: Box<dyn Accumulator>,
    room: DataType,
    result: Narrow,
}

impl Accumulator for Wide {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(&widened(values, &self.room)?)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(&widened(values, &self.room)?)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = self.inner.evaluate()?.to_array()?;
        ScalarValue::try_from_array(&self.result.narrow(&sum)?, 0)
    }

    fn size(&self) -> usize {
        self.inner.size() + size_of_val(self) + self.result.name.capacity()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }
}

struct ManyWide {
    inner: Box<dyn GroupsAccumulator>,
    room: DataType,
    result: Narrow,
}

impl GroupsAccumulator for ManyWide {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.inner.update_batch(&widened(values, &self.room)?, groups, filter, total)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.result.narrow(&self.inner.evaluate(emit_to)?)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.inner.state(emit_to)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.inner.merge_batch(values, groups, total)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(&widened(values, &self.room)?, filter)
    }

    fn size(&self) -> usize {
        self.inner.size() + self.result.name.capacity()
    }
}
