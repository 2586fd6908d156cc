//! `quantile(x, part)`, also `quantile_cont` and `percentile_cont`: the value that this part of the values lies below, on
//! the line between the two nearest of them.
//!
//! DataFusion 55.2 rounds the place on that line to millionths: of ten values up to 0.9 the quantile 0.8 of a column was
//! 0.799999. It still gathers the values here; what is asked of them is ours. Over frames see [`super::windowed`].

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray,
};
use datafusion::arrow::datatypes::{DataType, FieldRef, Float32Type, Float64Type, Schema};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{ScalarValue, internal_err, plan_err};
use datafusion::error::Result;
use datafusion::functions_aggregate::percentile_cont::percentile_cont_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Documentation, EmitTo, GroupsAccumulator,
    Signature,
};
use datafusion::physical_expr::PhysicalExpr;
use std::sync::Arc;

/// `quantile(x, part)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Quantile {
    theirs: Arc<AggregateUDF>,
    aliases: Vec<String>,
}

impl Default for Quantile {
    fn default() -> Self {
        let theirs = percentile_cont_udaf();
        let aliases = theirs.aliases().iter().cloned().chain(["quantile".to_string()]).collect();
        Self { theirs, aliases }
    }
}

/// The part of the values below what is asked for, which DataFusion has found to be one.
pub(super) fn part(args: &AccumulatorArgs<'_>) -> Result<Option<f64>> {
    let falls = args.order_bys.first().is_some_and(|order| order.options.descending);
    part_of(args.exprs, falls)
}

/// As [`part`], of an aggregate of these arguments, whose values are to be in falling order where it `falls`.
pub(crate) fn part_of(args: &[Arc<dyn PhysicalExpr>], falls: bool) -> Result<Option<f64>> {
    let Some(part) = args.get(1) else { return Ok(None) };
    let none = RecordBatch::new_empty(Arc::new(Schema::empty()));
    let Ok(part) = part.evaluate(&none) else {
        return plan_err!("the part of a quantile must be a literal, as in quantile(x, 0.9)");
    };
    let part = match part {
        ColumnarValue::Scalar(ScalarValue::Float64(part)) => part,
        ColumnarValue::Scalar(ScalarValue::Float32(part)) => part.map(f64::from),
        _ => None,
    };
    if let Some(part) = part.filter(|part| !(0.0..=1.0).contains(part)) {
        return plan_err!("Percentile value must be between 0.0 and 1.0 inclusive, {part} is invalid");
    }
    Ok(part.map(|part| if falls { 1.0 - part } else { part }))
}

/// A floating-point number that lies between others.
pub(crate) trait Between: ArrowNativeTypeOp {
    /// What lies at this part of the way to another.
    fn towards(self, other: Self, part: f64) -> Self;
}

impl Between for f64 {
    fn towards(self, other: Self, part: f64) -> Self {
        let way = other - self;
        match way.is_finite() {
            true => self + way * part,
            false if self == other => self,
            // One of them is infinite, or the way between them too long for a double.
            false => self * (1.0 - part) + other * part,
        }
    }
}

impl Between for f32 {
    fn towards(self, other: Self, part: f64) -> Self {
        f64::from(self).towards(f64::from(other), part) as f32
    }
}

/// The value that a part of so many values lies below; `at` gives the one of a rank, in any order of calls.
pub(crate) fn quantile<N: Between>(len: u64, part: f64, mut at: impl FnMut(u64) -> Option<N>) -> Option<N> {
    let place = part * len.checked_sub(1)? as f64;
    let (low, high) = (place.floor(), place.ceil());
    let below = at(low as u64)?;
    if low == high { Some(below) } else { Some(below.towards(at(high as u64)?, place - low)) }
}

fn quantile_of<T: ArrowPrimitiveType<Native: Between>>(values: &dyn Array, part: f64) -> Option<T::Native> {
    let mut values: Vec<T::Native> = values.as_primitive::<T>().iter().flatten().collect();
    quantile(values.len() as u64, part, |rank| {
        let at = usize::try_from(rank).ok().filter(|at| *at < values.len())?;
        Some(*values.select_nth_unstable_by(at, |a, b| a.compare(*b)).1)
    })
}

/// The quantiles of lists of values.
fn quantiles(of: &DataType, lists: &ArrayRef, part: f64) -> Result<ArrayRef> {
    fn each<T: ArrowPrimitiveType<Native: Between>>(lists: &ArrayRef, part: f64) -> ArrayRef {
        let lists = lists.as_list::<i32>().iter();
        let each = lists.map(|values| quantile_of::<T>(values?.as_ref(), part));
        Arc::new(each.collect::<PrimitiveArray<T>>())
    }
    match of {
        DataType::Float32 => Ok(each::<Float32Type>(lists, part)),
        DataType::Float64 => Ok(each::<Float64Type>(lists, part)),
        other => internal_err!("a quantile of {other}"),
    }
}

impl Quantile {
    /// What is asked for of which type; `None` where it is left to DataFusion (NULLs alone).
    fn ours(args: &AccumulatorArgs<'_>) -> Result<Option<(DataType, f64)>> {
        let of = args.expr_fields.first().map(|field| field.data_type().clone());
        let of = of.filter(|of| matches!(of, DataType::Float32 | DataType::Float64));
        Ok(of.zip(part(args)?))
    }
}

impl AggregateUDFImpl for Quantile {
    fn name(&self) -> &str {
        self.theirs.name()
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        self.theirs.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.theirs.return_type(types)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.theirs.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let gathers = self.theirs.accumulator(args.clone())?;
        Ok(match Self::ours(&args)? {
            Some((of, part)) => one(gathers, of, part),
            None => gathers,
        })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.theirs.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        let gathers = self.theirs.create_groups_accumulator(args.clone())?;
        Ok(match Self::ours(&args)? {
            Some((of, part)) => many(gathers, of, part),
            None => gathers,
        })
    }

    // No `simplify`: it would put a `min` in the place of the part 0 to which a NaN is less than every number.

    fn supports_within_group_clause(&self) -> bool {
        self.theirs.supports_within_group_clause()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.theirs.documentation()
    }
}

/// What asks for a part of the doubles that an accumulator of DataFusion's gathers in lists.
pub(super) fn one(gathers: Box<dyn Accumulator>, of: DataType, part: f64) -> Box<dyn Accumulator> {
    Box::new(One { gathers, of, part })
}

/// As [`one`], of many groups.
pub(super) fn many(
    gathers: Box<dyn GroupsAccumulator>,
    of: DataType,
    part: f64,
) -> Box<dyn GroupsAccumulator> {
    Box::new(Many { gathers, of, part })
}

/// Values of a group, which are gathered by DataFusion's accumulator.
#[derive(Debug)]
struct One {
    gathers: Box<dyn Accumulator>,
    of: DataType,
    part: f64,
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.gathers.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match self.gathers.state()?.as_slice() {
            [ScalarValue::List(values)] => {
                let values: ArrayRef = Arc::clone(values) as _;
                ScalarValue::try_from_array(&quantiles(&self.of, &values, self.part)?, 0)
            }
            other => internal_err!("the values of a quantile are {other:?}"),
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.gathers.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.gathers.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.gathers.merge_batch(states)
    }
}

/// As [`One`], of many groups.
struct Many {
    gathers: Box<dyn GroupsAccumulator>,
    of: DataType,
    part: f64,
}

impl GroupsAccumulator for Many {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.gathers.update_batch(values, groups, filter, total)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        match self.gathers.state(emit_to)?.as_slice() {
            [lists] => quantiles(&self.of, lists, self.part),
            other => internal_err!("the values of quantiles are {} columns", other.len()),
        }
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.gathers.state(emit_to)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.gathers.merge_batch(states, groups, total)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.gathers.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.gathers.size()
    }
}
