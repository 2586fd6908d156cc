//! `sum(x)` and `avg(x)` of whole numbers and of differences of times: added up in 128 bits.
//!
//! A sum is of 64 bits as its values are; one that does not fit them is an error, never a number that wrapped. What a
//! sum was on its way does not count: only the whole of it has to fit. An average is the double nearest to sum / count;
//! that of differences of times is cut off to whole units, as their division is. A sum of DECIMALs is DataFusion's, in
//! 256 bits where 128 could wrap ([`wide`]), and their average is of such a sum ([`means`]). Everything else is
//! DataFusion's.
//!
//! [`fit`] and [`mean`] say what a sum of 128 bits is to the user, for all who add up: kernels, windows, accumulators.

mod distinct;
mod groups;
mod means;
mod wide;

pub(crate) use means::mean_of_decimals;
pub(crate) use wide::needs_room;

use crate::error::type_name;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array, make_array,
};
use datafusion::arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Field, FieldRef, Int64Type,
};
use datafusion::common::types::{
    NativeType, logical_boolean, logical_float64, logical_int8, logical_int16, logical_int32, logical_int64,
    logical_uint8, logical_uint16, logical_uint32, logical_uint64,
};
use datafusion::common::{ScalarValue, exec_datafusion_err, exec_err};
use datafusion::error::Result;
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Coercion, Documentation, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature, TypeSignature, TypeSignatureClass, Volatility,
};
use distinct::Distinct;
use groups::Many;
use std::sync::Arc;

/// Where sums of 128 bits travel between accumulators: 2^63 values of 64 bits have 38 digits at most.
const STATE: DataType = DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0);

/// `sum` or `avg`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct WholeSum {
    theirs: Arc<AggregateUDF>,
    mean: bool,
    signature: Signature,
}

impl WholeSum {
    pub(super) fn sum() -> Self {
        let theirs = sum_udaf();
        let signatures = vec![theirs.signature().type_signature.clone(), of_booleans()];
        Self { theirs, mean: false, signature: Signature::one_of(signatures, Volatility::Immutable) }
    }

    pub(super) fn avg() -> Self {
        let integers = |wide, native, narrow| {
            TypeSignature::Coercible(vec![Coercion::new_implicit(
                TypeSignatureClass::Native(wide),
                narrow,
                native,
            )])
        };
        let of = TypeSignatureClass::Native;
        let exact = |class| TypeSignature::Coercible(vec![Coercion::new_exact(class)]);
        let signatures = vec![
            exact(TypeSignatureClass::Decimal),
            exact(TypeSignatureClass::Duration),
            integers(logical_float64(), NativeType::Float64, vec![TypeSignatureClass::Float]),
            integers(
                logical_uint64(),
                NativeType::UInt64,
                vec![of(logical_uint8()), of(logical_uint16()), of(logical_uint32())],
            ),
            integers(
                logical_int64(),
                NativeType::Int64,
                vec![of(logical_int8()), of(logical_int16()), of(logical_int32())],
            ),
            of_booleans(),
        ];
        let signature = Signature::one_of(signatures, Volatility::Immutable);
        Self { theirs: avg_udaf(), mean: true, signature }
    }

    /// What DECIMALs are added up in that have no room in their own type.
    fn room(&self, of: Option<&DataType>) -> Option<DataType> {
        of.filter(|_| !self.mean).and_then(wide::room)
    }

    /// Whether it is an average of DECIMALs.
    fn is_mean_of_decimals(&self, of: Option<&DataType>) -> bool {
        self.mean && matches!(of, Some(DataType::Decimal128(..)))
    }
}

/// Conditions are counted: a true one is 1.
fn of_booleans() -> TypeSignature {
    TypeSignature::Coercible(vec![Coercion::new_implicit(
        TypeSignatureClass::Native(logical_int64()),
        vec![TypeSignatureClass::Native(logical_boolean())],
        NativeType::Int64,
    )])
}

/// Whether sums of this type are ours.
fn is_whole(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Int64 | DataType::UInt64 | DataType::Duration(_))
}

/// The type of an aggregate's argument.
fn argument<'a>(args: &'a AccumulatorArgs<'_>) -> Option<&'a DataType> {
    args.expr_fields.first().map(|field| field.data_type())
}

impl AggregateUDFImpl for WholeSum {
    fn name(&self) -> &str {
        self.theirs.name()
    }

    fn aliases(&self) -> &[String] {
        self.theirs.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [DataType::Int64 | DataType::UInt64] if self.mean => Ok(DataType::Float64),
            // A NULL without a type becomes one (`rules::nulls`).
            [DataType::Null] if !self.mean => Ok(DataType::Int64),
            _ => self.theirs.return_type(arg_types),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if self.is_mean_of_decimals(argument(&args)) {
            return means::accumulator(&args, false);
        }
        if let Some(room) = self.room(argument(&args)) {
            return wide::accumulator(&self.theirs, args, room, false);
        }
        match argument(&args).filter(|of| is_whole(of)) {
            None => self.theirs.accumulator(args),
            Some(of) if args.is_distinct => Ok(Box::new(Distinct::new(Shape::new(args.name, of, self.mean)))),
            Some(of) => Ok(Box::new(One { shape: Shape::new(args.name, of, self.mean), sum: 0, count: 0 })),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let of = args.input_fields.first().map(|field| field.data_type());
        if self.is_mean_of_decimals(of) {
            return means::state_fields(&args);
        }
        if let Some(room) = self.room(of) {
            return wide::state_fields(&self.theirs, args, &room);
        }
        if !of.is_some_and(is_whole) {
            return self.theirs.state_fields(args);
        }
        let field =
            |name, data_type| Arc::new(Field::new(format_state_name(args.name, name), data_type, true));
        if args.is_distinct {
            return Ok(vec![field("values", DataType::new_list(DataType::Int64, true))]);
        }
        Ok(vec![field("sum", STATE), field("count", DataType::Int64)])
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        match argument(&args) {
            Some(of) if is_whole(of) || self.is_mean_of_decimals(Some(of)) => !args.is_distinct,
            _ => self.theirs.groups_accumulator_supported(args),
        }
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        if self.is_mean_of_decimals(argument(&args)) {
            return means::groups_accumulator(&args);
        }
        if let Some(room) = self.room(argument(&args)) {
            return wide::groups_accumulator(&self.theirs, args, room);
        }
        match argument(&args).filter(|of| is_whole(of)) {
            Some(of) => Ok(Box::new(Many::new(Shape::new(args.name, of, self.mean)))),
            None => self.theirs.create_groups_accumulator(args),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if self.is_mean_of_decimals(argument(&args)) {
            return means::accumulator(&args, true);
        }
        if let Some(room) = self.room(argument(&args)) {
            return wide::accumulator(&self.theirs, args, room, true);
        }
        match argument(&args) {
            Some(of) if is_whole(of) => self.accumulator(args),
            _ => self.theirs.create_sliding_accumulator(args),
        }
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.theirs.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.theirs.documentation()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.theirs.inner().set_monotonicity(data_type)
    }
}

/// The sum `sum` as the 64 bits of a value of `data_type`; `name` is what was added up, `sum(x)`.
///
/// # Errors
/// Where it does not fit.
pub(crate) fn fit(name: &str, sum: i128, data_type: &DataType) -> Result<i64> {
    let fits = match data_type {
        DataType::UInt64 => u64::try_from(sum).map(u64::cast_signed),
        _ => i64::try_from(sum),
    };
    fits.map_err(|_| {
        let wanted = type_name(data_type);
        exec_datafusion_err!("{name} does not fit {wanted}: it is {sum}")
    })
}

/// The double nearest to `sum / count`; `count` is above 0.
pub(crate) fn mean(sum: i128, count: i64) -> f64 {
    // One digit more than a double has, and one that says whether anything is left.
    const BITS: u32 = 55;
    // As doubles these are exact, so that their quotient is rounded once.
    const EXACT: u64 = 1 << f64::MANTISSA_DIGITS;
    if sum.unsigned_abs() <= EXACT.into() && count.unsigned_abs() <= EXACT {
        return sum as f64 / count as f64;
    }
    let (whole, count) = (sum.unsigned_abs(), u128::from(count.unsigned_abs().max(1)));
    let bits = |of: u128| u128::BITS - of.leading_zeros();
    // The dividend stays below 2^120: a sum of `count` values of 64 bits is below 2^64 times `count`.
    let shift = (BITS + bits(count)).saturating_sub(bits(whole));
    let dividend = whole << shift;
    let quotient = dividend / count;
    let sticky = u128::from(dividend % count != 0);
    let value = (quotient | sticky) as f64 / (1_u128 << shift) as f64;
    if sum < 0 { -value } else { value }
}

/// Whether no sum of these numbers can be past 64 bits, and none of some of them.
pub(crate) fn sums_fit<T: Copy + PartialOrd + Default + Into<i128>>(values: &[T]) -> bool {
    let zero = T::default();
    let (low, high) = values.iter().fold((zero, zero), |(low, high), value| {
        (if *value < low { *value } else { low }, if *value > high { *value } else { high })
    });
    let largest = high.into().max(-low.into());
    largest * (values.len() as i128) <= i128::from(i64::MAX)
}

/// Sums as an array of `data_type`, NULL where `counts` is 0.
///
/// # Errors
/// Where one does not fit.
pub(crate) fn finished(
    name: &str,
    sums: impl Iterator<Item = (i128, i64)>,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let values = sums.map(|(sum, count)| match count {
        0 => Ok(None),
        _ => fit(name, sum, data_type).map(Some),
    });
    reread(&(Arc::new(values.collect::<Result<Int64Array>>()?) as ArrayRef), data_type)
}

/// The same 64 bits as values of another type.
pub(super) fn reread(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    if array.data_type() == data_type {
        return Ok(Arc::clone(array));
    }
    Ok(make_array(array.to_data().into_builder().data_type(data_type.clone()).build()?))
}

/// What an accumulator adds up.
#[derive(Debug, Clone)]
struct Shape {
    /// As the user knows it: `sum(x)`.
    name: String,
    /// Of the values.
    of: DataType,
    mean: bool,
}

impl Shape {
    fn new(name: &str, of: &DataType, mean: bool) -> Self {
        Self { name: name.to_string(), of: of.clone(), mean }
    }

    /// The result of a group.
    fn finish(&self, sum: i128, count: i64) -> Result<ScalarValue> {
        let array = self.finish_all(std::iter::once((sum, count)))?;
        ScalarValue::try_from_array(&array, 0)
    }

    /// The results of groups.
    fn finish_all(&self, sums: impl Iterator<Item = (i128, i64)>) -> Result<ArrayRef> {
        match (self.mean, &self.of) {
            (false, of) => finished(&self.name, sums, of),
            (true, DataType::Duration(_)) => {
                let means = sums.map(|(sum, count)| (sum / i128::from(count.max(1)), count));
                finished(&self.name, means, &self.of)
            }
            (true, _) => {
                let means = sums.map(|(sum, count)| (count > 0).then(|| mean(sum, count)));
                Ok(Arc::new(means.collect::<Float64Array>()))
            }
        }
    }
}

/// The values of an argument, in 64 bits that are of unsigned numbers where it is of those.
struct Values {
    bits: Int64Array,
    unsigned: bool,
}

impl Values {
    fn of(values: &[ArrayRef]) -> Result<Self> {
        let Some(values) = values.first() else { return exec_err!("a sum has one argument") };
        let unsigned = *values.data_type() == DataType::UInt64;
        if !is_whole(values.data_type()) {
            return exec_err!("{} is no whole number", values.data_type());
        }
        let bits = reread(values, &DataType::Int64)?.as_primitive::<Int64Type>().clone();
        Ok(Self { bits, unsigned })
    }

    /// The number that 64 bits are.
    #[inline]
    fn number(&self, bits: i64) -> i128 {
        number(bits, self.unsigned)
    }

    /// The sum of all values, and how many they are.
    fn total(&self) -> (i128, i64) {
        let count = (self.bits.len() - self.bits.null_count()) as i64;
        let sum = match self.bits.nulls().filter(|nulls| nulls.null_count() > 0) {
            Some(_) => self.bits.iter().flatten().map(|bits| self.number(bits)).sum(),
            None if self.unsigned => unsigned_total(self.bits.values().inner().typed_data()),
            None => signed_total(self.bits.values()),
        };
        (sum, count)
    }
}

#[inline]
fn number(bits: i64, unsigned: bool) -> i128 {
    if unsigned { i128::from(bits.cast_unsigned()) } else { i128::from(bits) }
}

/// Values added up at once: their upper halves fit 64 bits, and what the lower ones add to those fits 63.
const AT_ONCE: usize = 1 << 30;

/// The sum of some numbers, at the speed of one in 64 bits: what that lost is known from the sum of the upper halves.
pub(crate) fn signed_total(values: &[i64]) -> i128 {
    let of = |values: &[i64]| {
        let (mut low, mut high) = (0_i64, 0_i64);
        for value in values {
            low = low.wrapping_add(*value);
            high += value >> 32;
        }
        let least = i128::from(high) << 32;
        // The sum is `least` and less than 2^62 more, of which `low` has the last 64 bits.
        least + i128::from(low.wrapping_sub(high << 32).cast_unsigned())
    };
    values.chunks(AT_ONCE).map(of).sum()
}

/// As [`signed_total`], of unsigned numbers.
pub(crate) fn unsigned_total(values: &[u64]) -> i128 {
    let of = |values: &[u64]| {
        let (mut low, mut high) = (0_u64, 0_u64);
        for value in values {
            low = low.wrapping_add(*value);
            high += value >> 32;
        }
        (i128::from(high) << 32) + i128::from(low.wrapping_sub(high << 32))
    };
    values.chunks(AT_ONCE).map(of).sum()
}

/// One group.
#[derive(Debug)]
struct One {
    shape: Shape,
    sum: i128,
    count: i64,
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, count) = Values::of(values)?.total();
        (self.sum, self.count) = (self.sum + sum, self.count + count);
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, count) = Values::of(values)?.total();
        (self.sum, self.count) = (self.sum - sum, self.count - count);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.shape.finish(self.sum, self.count)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.shape.name.capacity()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let sum = ScalarValue::Decimal128(Some(self.sum), DECIMAL128_MAX_PRECISION, 0);
        Ok(vec![sum, ScalarValue::from(self.count)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (sums, counts) = state(states)?;
        self.sum += sums.iter().flatten().sum::<i128>();
        self.count += counts.iter().flatten().sum::<i64>();
        Ok(())
    }
}

/// Sums and counts on their way.
fn state(states: &[ArrayRef]) -> Result<(&Decimal128Array, &Int64Array)> {
    match states {
        [sums, counts] => Ok((sums.as_primitive::<Decimal128Type>(), counts.as_primitive::<Int64Type>())),
        other => exec_err!("a sum has a state of two columns, not {}", other.len()),
    }
}

#[cfg(test)]
mod tests;
