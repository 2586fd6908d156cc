//! first and last where rows come by series in order of time: only the ends of runs are looked at.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, TimeUnit, TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::internal_err;
use datafusion::error::Result;
use std::any::Any;
use std::sync::Arc;

/// One end of the rows of a group: a row of a batch, with its place among all rows.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct End {
    pub(in super::super) group: usize,
    /// In the batch.
    pub(in super::super) row: usize,
    /// Its time, then its segment and row, which tell equal times apart by arrival.
    pub(in super::super) place: (i64, usize, usize),
    /// Whether it is the last row of a stretch, else the first.
    pub(in super::super) last: bool,
}

/// The place of a group's row and its value, `None` for NULL.
type Held<T> = Option<((i64, usize, usize), Option<T>)>;

/// first(x) or last(x): the row as it is, NULL included.
pub(in super::super) struct Ends {
    last: bool,
    kept: Box<dyn OfType>,
}

/// Rows of one type of values.
trait OfType: Any + Send {
    fn grow(&mut self, total: usize);
    fn update(&mut self, values: &ArrayRef, ends: &mut dyn Iterator<Item = &End>, last: bool);
    fn merge(&mut self, theirs: &dyn OfType, groups: &[usize], last: bool) -> Result<()>;
    fn finish(&mut self) -> ArrayRef;
    fn size(&self) -> usize;
}

impl Ends {
    /// Whether values of this type are kept.
    pub(in super::super) fn holds(of: &DataType) -> bool {
        kept(of).is_some()
    }

    /// last(x) or first(x) of values of this type; `None` where these are not kept.
    pub(super) fn new(last: bool, of: &DataType) -> Option<Self> {
        Some(Self { last, kept: kept(of)? })
    }

    /// Whether it is last(x).
    pub(in super::super) fn is_last(&self) -> bool {
        self.last
    }

    pub(super) fn grow(&mut self, total: usize) {
        self.kept.grow(total);
    }

    pub(super) fn update(&mut self, values: &ArrayRef, ends: &[End]) {
        let last = self.last;
        self.kept.update(values, &mut ends.iter().filter(|end| end.last == last), last);
    }

    pub(super) fn merge(&mut self, theirs: &Self, groups: &[usize]) -> Result<()> {
        self.kept.merge(theirs.kept.as_ref(), groups, self.last)
    }

    pub(super) fn finish(&mut self) -> ArrayRef {
        self.kept.finish()
    }

    pub(super) fn size(&self) -> usize {
        self.kept.size()
    }
}

fn kept(of: &DataType) -> Option<Box<dyn OfType>> {
    macro_rules! kept {
        ($($pattern:pat => $type:ty),* $(,)?) => {
            match of {
                $($pattern => Box::new(Kept::<$type> { held: Vec::new(), of: of.clone() }),)*
                _ => return None,
            }
        };
    }
    Some(kept!(
        DataType::Int8 => Int8Type,
        DataType::Int16 => Int16Type,
        DataType::Int32 => Int32Type,
        DataType::Int64 => Int64Type,
        DataType::UInt8 => UInt8Type,
        DataType::UInt16 => UInt16Type,
        DataType::UInt32 => UInt32Type,
        DataType::UInt64 => UInt64Type,
        DataType::Float32 => Float32Type,
        DataType::Float64 => Float64Type,
        DataType::Date32 => Date32Type,
        DataType::Decimal128(..) => Decimal128Type,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => TimestampNanosecondType,
    ))
}

struct Kept<A: ArrowPrimitiveType> {
    held: Vec<Held<A::Native>>,
    of: DataType,
}

impl<A: ArrowPrimitiveType> OfType for Kept<A> {
    fn grow(&mut self, total: usize) {
        self.held.resize(total, None);
    }

    fn update(&mut self, values: &ArrayRef, ends: &mut dyn Iterator<Item = &End>, last: bool) {
        let values = values.as_primitive::<A>();
        for end in ends {
            let value = values.is_valid(end.row).then(|| values.value(end.row));
            keep(&mut self.held[end.group], Some((end.place, value)), last);
        }
    }

    fn merge(&mut self, theirs: &dyn OfType, groups: &[usize], last: bool) -> Result<()> {
        let theirs: &dyn Any = theirs;
        let Some(theirs) = theirs.downcast_ref::<Self>() else {
            return internal_err!("rows with {} and others do not go together", self.of);
        };
        for (held, &group) in theirs.held.iter().zip(groups) {
            keep(&mut self.held[group], *held, last);
        }
        Ok(())
    }

    fn finish(&mut self) -> ArrayRef {
        let held = std::mem::take(&mut self.held);
        let value = |of: &Held<A::Native>| of.as_ref().and_then(|(_, value)| *value);
        let nulls = NullBuffer::from_iter(held.iter().map(|of| value(of).is_some()));
        let values: Vec<A::Native> = held.iter().map(|of| value(of).unwrap_or_default()).collect();
        Arc::new(PrimitiveArray::<A>::new(values.into(), Some(nulls)).with_data_type(self.of.clone()))
    }

    fn size(&self) -> usize {
        self.held.capacity() * size_of::<Held<A::Native>>()
    }
}

fn keep<T>(held: &mut Held<T>, found: Held<T>, last: bool) {
    let place = |of: &Held<T>| of.as_ref().map(|(place, _)| *place);
    let replaces = match (place(held), place(&found)) {
        (_, None) => false,
        (None, _) => true,
        (Some(held), Some(found)) if last => found > held,
        (Some(held), Some(found)) => found < held,
    };
    if replaces {
        *held = found;
    }
}
