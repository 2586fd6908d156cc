//! `first(x)` and `last(x)`: the value in the row with the least or greatest designated timestamp.
//!
//! They take the row as it is, NULL included. On equal times `first` keeps the row that arrived first
//! and `last` the one that arrived last. The timestamp is a second argument, which the planner adds
//! ([`crate::operators`]) where it is not written. `first_not_null(x)` and `last_not_null(x)` pass over rows where
//! `x` is NULL: the planner adds that as a filter.

use crate::arrays::pinned::PinnedRows;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, TimestampNanosecondArray,
};
use datafusion::arrow::compute::nullif;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type, TimeUnit, TimestampNanosecondType};
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use std::sync::Arc;

/// `first(x [, ts])` or `last(x [, ts])`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct FirstLast {
    signature: Signature,
    last: bool,
    not_null: bool,
}

impl FirstLast {
    fn new(last: bool, not_null: bool) -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable), last, not_null }
    }

    pub(crate) fn first() -> Self {
        Self::new(false, false)
    }

    pub(crate) fn last() -> Self {
        Self::new(true, false)
    }

    pub(crate) fn first_not_null() -> Self {
        Self::new(false, true)
    }

    pub(crate) fn last_not_null() -> Self {
        Self::new(true, true)
    }
}

/// The type that times are compared in.
pub(super) fn time_type(found: &DataType) -> Option<DataType> {
    match found {
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 | DataType::Null => {
            Some(DataType::Timestamp(TimeUnit::Nanosecond, None))
        }
        found if found.is_integer() => Some(DataType::Int64),
        _ => None,
    }
}

/// Times as integers, whatever their type.
pub(super) fn time_values(times: &ArrayRef) -> Result<Int64Array> {
    if let Some(times) = times.as_primitive_opt::<TimestampNanosecondType>() {
        return Ok(Int64Array::new(times.values().clone(), times.nulls().cloned()));
    }
    match times.as_primitive_opt::<Int64Type>() {
        Some(times) => Ok(times.clone()),
        None => exec_err!("{} is no time", times.data_type()),
    }
}

/// An aggregate by time was planned without its time.
pub(crate) fn without_time(name: &str) -> datafusion::error::DataFusionError {
    datafusion::common::plan_datafusion_err!(
        "{name} goes by the designated timestamp, and this relation has none: select it in the sub-query, or name a timestamp as last argument"
    )
}

impl AggregateUDFImpl for FirstLast {
    fn name(&self) -> &str {
        match (self.last, self.not_null) {
            (false, false) => "first",
            (true, false) => "last",
            (false, true) => "first_not_null",
            (true, true) => "last_not_null",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [value] => Ok(vec![value.clone()]),
            [value, time] => match time_type(time) {
                Some(time) => Ok(vec![value.clone(), time]),
                None => plan_err!("the second argument of {} is a timestamp, not {time}", self.name()),
            },
            _ => plan_err!("{} takes a value and, optionally, a timestamp", self.name()),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types.first() {
            Some(value) => Ok(value.clone()),
            None => plan_err!("{} takes a value", self.name()),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let time = args.input_fields.get(1).ok_or_else(|| without_time(self.name()))?.data_type().clone();
        let value = args.return_field.data_type().clone();
        Ok(vec![
            Arc::new(Field::new(format_state_name(args.name, "value"), value, true)),
            Arc::new(Field::new(format_state_name(args.name, "time"), time, true)),
        ])
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let [_, time] = args.expr_fields else { return Err(without_time(self.name())) };
        let value = ScalarValue::try_from(args.return_field.data_type())?;
        let time_type = time.data_type().clone();
        Ok(Box::new(One { last: self.last, value, time: None, time_type }))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        args.expr_fields.len() == 2
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        let [value, time] = args.expr_fields else { return Err(without_time(self.name())) };
        let kept = PinnedRows::new(vec![value.data_type().clone()]);
        Ok(Box::new(Many { last: self.last, kept, time_type: time.data_type().clone() }))
    }
}

/// Whether a row at `time` takes the place of one at `kept`.
fn replaces(last: bool, time: i64, kept: i64) -> bool {
    if last { time >= kept } else { time < kept }
}

/// One group.
#[derive(Debug)]
struct One {
    last: bool,
    value: ScalarValue,
    time: Option<i64>,
    time_type: DataType,
}

impl One {
    fn update(&mut self, values: &ArrayRef, times: &ArrayRef) -> Result<()> {
        let times = time_values(times)?;
        let mut best = None;
        for (row, time) in times.iter().enumerate() {
            if let Some(time) = time
                && self.time.is_none_or(|kept| replaces(self.last, time, kept))
            {
                self.time = Some(time);
                best = Some(row);
            }
        }
        if let Some(row) = best {
            self.value = ScalarValue::try_from_array(values, row)?;
            self.value.compact();
        }
        Ok(())
    }
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        match values {
            [values, times] => self.update(values, times),
            _ => Err(without_time("first or last")),
        }
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.value.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let time = match self.time_type {
            DataType::Timestamp(..) => ScalarValue::TimestampNanosecond(self.time, None),
            _ => ScalarValue::Int64(self.time),
        };
        Ok(vec![self.value.clone(), time])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

/// Many groups: the row of each is kept where it is until too much is pinned.
#[derive(Debug)]
struct Many {
    last: bool,
    kept: PinnedRows,
    time_type: DataType,
}

impl GroupsAccumulator for Many {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        let [values, times] = values else { return Err(without_time("first or last")) };
        let times = time_values(times)?;
        self.kept.grow(total);
        self.kept.add_batch(vec![Arc::clone(values)], values.len());
        let nothing_missing = times.null_count() == 0 && filter.is_none();
        for (row, (&time, &group)) in times.values().iter().zip(groups).enumerate() {
            let counts = nothing_missing
                || (times.is_valid(row) && filter.is_none_or(|f| f.is_valid(row) && f.value(row)));
            if counts && self.kept.time(group).is_none_or(|kept| replaces(self.last, time, kept)) {
                self.kept.keep_at(group, row, time);
            }
        }
        if self.kept.is_heavy() {
            self.kept.compact()?;
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (mut columns, _) = self.emit(emit_to)?;
        Ok(columns.swap_remove(0))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (mut columns, times) = self.emit(emit_to)?;
        let times = Int64Array::from(times);
        columns.push(match self.time_type {
            DataType::Timestamp(..) => {
                let (_, values, nulls) = times.into_parts();
                Arc::new(TimestampNanosecondArray::new(values, nulls))
            }
            _ => Arc::new(times),
        });
        Ok(columns)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.update_batch(values, groups, None, total)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let [values, times] = values else { return Err(without_time("first or last")) };
        let times = match filter {
            // A row without a time is as good as none.
            Some(filter) => {
                let dropped: BooleanArray = filter.iter().map(|keep| Some(keep != Some(true))).collect();
                nullif(times, &dropped)?
            }
            None => Arc::clone(times),
        };
        Ok(vec![Arc::clone(values), times])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.kept.size()
    }
}

impl Many {
    /// Values and times of the first groups, which are then forgotten.
    fn emit(&mut self, emit_to: EmitTo) -> Result<(Vec<ArrayRef>, Vec<Option<i64>>)> {
        let (mut places, mut times) = self.kept.take_all();
        let rest = match emit_to {
            EmitTo::All => None,
            EmitTo::First(count) => Some((places.split_off(count), times.split_off(count))),
        };
        let columns = self.kept.rows(&places)?;
        match rest {
            Some((places, times)) => self.kept.restore(places, times),
            None => self.kept.clear(),
        }
        Ok((columns, times))
    }
}
