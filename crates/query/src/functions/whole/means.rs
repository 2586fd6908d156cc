//! `avg` of DECIMALs: a sum in 256 bits by how many values there are, rounded to the nearest, halves away from zero.
//!
//! Sum and count are DataFusion's, whichever way they are asked for. The result has four digits more after the point than
//! the values, of 38 at most.

use super::wide::widened;
use crate::functions::decimals;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array};
use datafusion::arrow::datatypes::{
    DECIMAL256_MAX_PRECISION, DataType, Decimal256Type, Field, FieldRef, Int64Type, i256,
};
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};
use std::sync::Arc;

/// The mean of `count` values that add up to `sum`, with so many digits more; `None` where it does not fit.
pub(crate) fn mean_of_decimals(sum: i256, count: i64, more: u32) -> Option<i256> {
    decimals::long_quotient(sum, more, i256::from_i128(count.max(1).into()))
}

fn scale(of: &DataType) -> Result<i8> {
    match of {
        DataType::Decimal128(_, scale) => Ok(*scale),
        other => exec_err!("{other} is no DECIMAL"),
    }
}

fn room(of: &DataType) -> Result<DataType> {
    Ok(DataType::Decimal256(DECIMAL256_MAX_PRECISION, scale(of)?))
}

fn field(of: &FieldRef, data_type: DataType) -> FieldRef {
    Arc::new(Field::new(of.name(), data_type, of.is_nullable()))
}

/// From sums and counts to means.
#[derive(Debug)]
struct Division {
    /// As the user knows it: `avg(x)`.
    name: String,
    /// What values are added up in, and what a mean is.
    room: DataType,
    result: DataType,
    /// Digits after the point that a mean has more than its values.
    more: u32,
}

impl Division {
    fn new(args: &AccumulatorArgs<'_>) -> Result<Self> {
        let [of] = args.expr_fields else { return exec_err!("an average has one argument") };
        let result = args.return_field.data_type();
        let more = u32::try_from(scale(result)? - scale(of.data_type())?).unwrap_or(0);
        Ok(Self { name: args.name.to_string(), room: room(of.data_type())?, result: result.clone(), more })
    }

    fn means(&self, sums: &dyn Array, counts: &dyn Array) -> Result<ArrayRef> {
        let DataType::Decimal128(precision, _) = self.result else {
            return exec_err!("{} is no DECIMAL", self.result);
        };
        let counts = counts.as_primitive::<Int64Type>().iter();
        let means = sums.as_primitive::<Decimal256Type>().iter().zip(counts).map(|pair| {
            let (Some(sum), Some(count @ 1..)) = pair else { return Ok(None) };
            let mean = mean_of_decimals(sum, count, self.more);
            match mean.and_then(|mean| decimals::narrowed(mean, precision)) {
                Some(mean) => Ok(Some(mean)),
                None => {
                    let value = mean.map(|mean| decimals::written(mean, &self.result));
                    Err(decimals::past(&self.name, &self.result, value.as_deref()))
                }
            }
        });
        let means = means.collect::<Result<Decimal128Array>>()?;
        Ok(Arc::new(means.with_data_type(self.result.clone())))
    }
}

/// What [`count_udaf`] and [`sum_udaf`] are told of the same values.
fn of_parts<'a>(args: &AccumulatorArgs<'a>, room: &DataType) -> (AccumulatorArgs<'a>, AccumulatorArgs<'a>) {
    let of = |data_type: DataType| AccumulatorArgs {
        return_field: field(&args.return_field, data_type),
        ..args.clone()
    };
    (of(room.clone()), of(DataType::Int64))
}

/// That of one group.
pub(super) fn accumulator(args: &AccumulatorArgs<'_>, moves: bool) -> Result<Box<dyn Accumulator>> {
    let division = Division::new(args)?;
    let (of_sum, of_count) = of_parts(args, &division.room);
    let (sum, count) = match moves {
        true => (
            sum_udaf().create_sliding_accumulator(of_sum)?,
            count_udaf().create_sliding_accumulator(of_count)?,
        ),
        false => (sum_udaf().accumulator(of_sum)?, count_udaf().accumulator(of_count)?),
    };
    Ok(Box::new(Mean { sum, count, division }))
}

/// That of many groups.
pub(super) fn groups_accumulator(args: &AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
    let division = Division::new(args)?;
    let (of_sum, of_count) = of_parts(args, &division.room);
    let sum = sum_udaf().create_groups_accumulator(of_sum)?;
    let count = count_udaf().create_groups_accumulator(of_count)?;
    Ok(Box::new(Means { sum, count, division }))
}

/// A column of the sum, then one of the count.
pub(super) fn state_fields(args: &StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
    let [of] = args.input_fields else { return exec_err!("an average has one argument") };
    let part = |data_type: DataType| StateFieldsArgs {
        name: args.name,
        input_fields: args.input_fields,
        return_field: field(&args.return_field, data_type),
        ordering_fields: args.ordering_fields,
        is_distinct: args.is_distinct,
    };
    let sum = sum_udaf().state_fields(part(room(of.data_type())?))?;
    Ok([sum, count_udaf().state_fields(part(DataType::Int64))?].concat())
}

/// The states of the sum, and of the count.
fn parts(states: &[ArrayRef]) -> Result<(&[ArrayRef], &[ArrayRef])> {
    match states {
        [_, _] => Ok(states.split_at(1)),
        other => exec_err!("an average has a state of two columns, not {}", other.len()),
    }
}

#[derive(Debug)]
struct Mean {
    sum: Box<dyn Accumulator>,
    count: Box<dyn Accumulator>,
    division: Division,
}

impl Accumulator for Mean {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.sum.update_batch(&widened(values, &self.division.room)?)?;
        self.count.update_batch(values)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.sum.retract_batch(&widened(values, &self.division.room)?)?;
        self.count.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.sum.supports_retract_batch() && self.count.supports_retract_batch()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let (sum, count) = (self.sum.evaluate()?.to_array()?, self.count.evaluate()?.to_array()?);
        ScalarValue::try_from_array(&self.division.means(&sum, &count)?, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.sum.size() + self.count.size() + self.division.name.capacity()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok([self.sum.state()?, self.count.state()?].concat())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (sum, count) = parts(states)?;
        self.sum.merge_batch(sum)?;
        self.count.merge_batch(count)
    }
}

struct Means {
    sum: Box<dyn GroupsAccumulator>,
    count: Box<dyn GroupsAccumulator>,
    division: Division,
}

impl GroupsAccumulator for Means {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.sum.update_batch(&widened(values, &self.division.room)?, groups, filter, total)?;
        self.count.update_batch(values, groups, filter, total)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.division.means(&self.sum.evaluate(emit_to)?, &self.count.evaluate(emit_to)?)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok([self.sum.state(emit_to)?, self.count.state(emit_to)?].concat())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        let (sum, count) = parts(states)?;
        self.sum.merge_batch(sum, groups, total)?;
        self.count.merge_batch(count, groups, total)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let sum = self.sum.convert_to_state(&widened(values, &self.division.room)?, filter)?;
        Ok([sum, self.count.convert_to_state(values, filter)?].concat())
    }

    fn size(&self) -> usize {
        self.sum.size() + self.count.size() + self.division.name.capacity()
    }
}
