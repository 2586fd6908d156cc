//! `median(x)` and `percentile_cont(x, p)` of frames that grow and move, to the same digit as without a window.
//! DataFusion's look through all values of a frame for each row.

use super::ranks::Ranks;
use crate::functions::quantile::{self, Between};
use crate::functions::whole::reread;
use datafusion::arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowNumericType, AsArray, PrimitiveArray, PrimitiveBuilder,
};
use datafusion::arrow::datatypes::{
    ArrowNativeType, DataType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Float16Type,
    Float32Type, Float64Type, Int64Type,
};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// What is asked of the values.
#[derive(Clone, Copy)]
enum Asked<N> {
    Median,
    /// The part of the values below it, and how it is found.
    Part(f64, OfRanks<N>),
}

/// What lies above a part of so many values, of which each is found by its rank.
type OfRanks<N> = fn(u64, f64, &mut dyn FnMut(u64) -> Option<N>) -> Option<N>;

/// The median of values of a type; `None` where there is none.
pub(super) fn median(of: &DataType, distinct: bool) -> Option<Box<dyn Accumulator>> {
    fn made<T: ArrowNumericType>(of: &DataType, distinct: bool) -> Option<Box<dyn Accumulator>> {
        Some(Box::new(Quantile::<T>::new(Asked::Median, of, distinct)))
    }
    match of {
        // These are whole numbers to it.
        DataType::Int64 | DataType::Duration(_) => made::<Int64Type>(of, distinct),
        DataType::Float16 => made::<Float16Type>(of, distinct),
        DataType::Float32 | DataType::Float64 => quantile(of, 0.5, distinct),
        DataType::Decimal32(..) => made::<Decimal32Type>(of, distinct),
        DataType::Decimal64(..) => made::<Decimal64Type>(of, distinct),
        DataType::Decimal128(..) => made::<Decimal128Type>(of, distinct),
        DataType::Decimal256(..) => made::<Decimal256Type>(of, distinct),
        _ => None,
    }
}

/// The value that this part of the values lies below; `None` where the type has none.
pub(super) fn quantile(of: &DataType, part: f64, distinct: bool) -> Option<Box<dyn Accumulator>> {
    fn made<T: ArrowNumericType<Native: Between>>(
        of: &DataType,
        part: f64,
        distinct: bool,
    ) -> Option<Box<dyn Accumulator>> {
        let asked = Asked::Part(part, |len, part, at| quantile::quantile(len, part, at));
        Some(Box::new(Quantile::<T>::new(asked, of, distinct)))
    }
    match of {
        DataType::Float32 => made::<Float32Type>(of, part, distinct),
        DataType::Float64 => made::<Float64Type>(of, part, distinct),
        _ => None,
    }
}

/// Values of a frame in order: few of them side by side, which is quicker than a tree.
enum Ordered<N> {
    Few(Vec<N>),
    Many(Ranks<N>),
}

/// From here on values go into a tree.
const MANY: usize = if cfg!(test) { 24 } else { 2_048 };

impl<N: ArrowNativeTypeOp> Ordered<N> {
    fn insert(&mut self, value: N) {
        match self {
            Self::Few(values) if values.len() < MANY => {
                let at = values.partition_point(|held| held.compare(value).is_le());
                values.insert(at, value);
            }
            Self::Few(values) => {
                let mut ranks = Ranks::new(false);
                values.drain(..).for_each(|value| ranks.insert(value));
                ranks.insert(value);
                *self = Self::Many(ranks);
            }
            Self::Many(ranks) => ranks.insert(value),
        }
    }

    fn remove(&mut self, value: N) {
        match self {
            Self::Few(values) => {
                if let Ok(at) = values.binary_search_by(|held| held.compare(value)) {
                    values.remove(at);
                }
            }
            Self::Many(ranks) => {
                ranks.remove(value);
            }
        }
    }

    fn len(&self) -> u64 {
        match self {
            Self::Few(values) => values.len() as u64,
            Self::Many(ranks) => ranks.len(),
        }
    }

    fn at(&self, rank: u64) -> Option<N> {
        match self {
            Self::Few(values) => values.get(usize::try_from(rank).ok()?).copied(),
            Self::Many(ranks) => ranks.at(rank),
        }
    }
}

/// The medians of frames; `None` where values of the type have none here. See [`super::Framed::over`].
pub(super) fn medians(values: &ArrayRef, frames: super::Frames<'_>) -> Option<ArrayRef> {
    fn of<T: ArrowNumericType>(
        values: &ArrayRef,
        asked: Asked<T::Native>,
        frames: super::Frames<'_>,
    ) -> ArrayRef {
        let of = values.as_primitive::<T>();
        let mut ordered = Ordered::Few(Vec::new());
        let mut held = 0..0;
        let mut found = PrimitiveBuilder::<T>::with_capacity(of.len()).with_data_type(of.data_type().clone());
        let some = |row: &usize| of.is_valid(*row);
        frames(&mut |frame: Range<usize>| {
            if frame.start >= held.end {
                ordered = Ordered::Few(Vec::new());
                held = frame.start..frame.start;
            }
            (held.start..frame.start).filter(some).for_each(|row| ordered.remove(of.value(row)));
            (held.end..frame.end).filter(some).for_each(|row| ordered.insert(of.value(row)));
            held = frame.start..frame.end.max(held.end);
            let value =
                if frame.is_empty() { None } else { asked.of(ordered.len(), |rank| ordered.at(rank)) };
            found.append_option(value);
        });
        Arc::new(found.finish())
    }
    Some(match values.data_type() {
        DataType::Int64 => of::<Int64Type>(values, Asked::Median, frames),
        DataType::Float32 => of::<Float32Type>(values, half(), frames),
        DataType::Float64 => of::<Float64Type>(values, half(), frames),
        _ => return None,
    })
}

/// The part below which half of the values lie.
fn half<N: Between>() -> Asked<N> {
    Asked::Part(0.5, |len, part, at| quantile::quantile(len, part, at))
}

struct Quantile<T: ArrowNumericType> {
    asked: Asked<T::Native>,
    /// Of the values and of the result.
    of: DataType,
    distinct: bool,
    /// Those that came and stand in no order yet: most frames that are asked about once are all rows of a partition.
    fresh: Vec<T::Native>,
    ranks: Ranks<T::Native>,
    /// Whether it has been asked for before.
    again: bool,
}

impl<T: ArrowNumericType> fmt::Debug for Quantile<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Quantile({}, {} values)", self.of, self.fresh.len() as u64 + self.ranks.len())
    }
}

impl<T: ArrowNumericType> Quantile<T> {
    fn new(asked: Asked<T::Native>, of: &DataType, distinct: bool) -> Self {
        let (of, ranks) = (of.clone(), Ranks::new(distinct));
        Self { asked, of, distinct, fresh: Vec::new(), ranks, again: false }
    }

    fn each(&self, values: &[ArrayRef], mut each: impl FnMut(T::Native)) -> Result<()> {
        let Some(values) = values.first() else { return internal_err!("a quantile has an argument") };
        let as_whole = matches!(self.of, DataType::Duration(_));
        let values = if as_whole { reread(values, &DataType::Int64)? } else { Arc::clone(values) };
        let Some(values) = values.as_primitive_opt::<T>() else {
            return internal_err!("a quantile of {} was given {}", self.of, values.data_type());
        };
        match values.null_count() {
            0 => values.values().iter().copied().for_each(each),
            _ => values.iter().flatten().for_each(&mut each),
        }
        Ok(())
    }

    fn put_in_order(&mut self) {
        let Self { fresh, ranks, .. } = self;
        fresh.drain(..).for_each(|value| ranks.insert(value));
    }

    fn value(&mut self) -> Option<T::Native> {
        if !self.again && !self.distinct && self.ranks.is_empty() {
            self.again = true;
            let (asked, values) = (self.asked, &mut self.fresh);
            let len = values.len() as u64;
            return asked.of(len, |rank| {
                let at = usize::try_from(rank).ok().filter(|at| *at < values.len())?;
                Some(*values.select_nth_unstable_by(at, |a, b| a.compare(*b)).1)
            });
        }
        self.put_in_order();
        self.asked.of(self.ranks.len(), |rank| self.ranks.at(rank))
    }
}

impl<N: ArrowNativeTypeOp + ArrowNativeType> Asked<N> {
    /// What is asked of so many values.
    fn of(self, len: u64, mut at: impl FnMut(u64) -> Option<N>) -> Option<N> {
        match self {
            _ if len == 0 => None,
            Self::Median if len.is_multiple_of(2) => Some(middle(at(len / 2 - 1)?, at(len / 2)?)),
            Self::Median => at(len / 2),
            Self::Part(part, of_ranks) => of_ranks(len, part, &mut at),
        }
    }
}

/// Half of the sum of two values, also where that is past what the type holds.
fn middle<N: ArrowNativeTypeOp + ArrowNativeType>(low: N, high: N) -> N {
    let two = N::usize_as(2);
    if let Ok(sum) = low.add_checked(high) {
        return sum.div_wrapping(two);
    }
    let halves = low.div_wrapping(two).add_wrapping(high.div_wrapping(two));
    let left = low.mod_wrapping(two).add_wrapping(high.mod_wrapping(two));
    halves.add_wrapping(left.div_wrapping(two))
}

impl<T: ArrowNumericType> Accumulator for Quantile<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let mut fresh = std::mem::take(&mut self.fresh);
        let came = self.each(values, |value| fresh.push(value));
        self.fresh = fresh;
        came
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.put_in_order();
        let (mut ranks, mut known) = (std::mem::replace(&mut self.ranks, Ranks::new(self.distinct)), true);
        let went = self.each(values, |value| known &= ranks.remove(value));
        self.ranks = ranks;
        match known {
            true => went,
            false => internal_err!("a value leaves a frame that it is not in"),
        }
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let value: ArrayRef = Arc::new(PrimitiveArray::<T>::from_iter([self.value()]));
        ScalarValue::try_from_array(&reread(&value, &self.of)?, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.fresh.capacity() * size_of::<T::Native>() + self.ranks.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        super::no_state()
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        super::no_state().map(|_| ())
    }
}
