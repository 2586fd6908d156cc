//! first and last where rows come by series in order of time: only the ends of runs are looked at.

use super::{Batch, Kernel, alike, of_type, unfit};
use datafusion::arrow::array::{Array, ArrayRef, PrimitiveArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{ArrowPrimitiveType, DataType};
use datafusion::common::cast::as_primitive_array;
use datafusion::error::Result;
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

/// Whether first and last of values of this type are kept so.
pub(in super::super) fn keeps_ends(of: &DataType) -> bool {
    kernel(of, true).is_some()
}

/// last(x) or first(x) of values of this type; `None` where these are not kept.
pub(super) fn kernel(of: &DataType, last: bool) -> Option<Box<dyn Kernel>> {
    of_type!(of, Ends::new(of, last))
}

/// first(x) or last(x): the row as it is, NULL included.
struct Ends<A: ArrowPrimitiveType> {
    held: Vec<Held<A::Native>>,
    of: DataType,
    last: bool,
}

impl<A: ArrowPrimitiveType> Ends<A> {
    fn new(of: &DataType, last: bool) -> Self {
        Self { held: Vec::new(), of: of.clone(), last }
    }
}

impl<A: ArrowPrimitiveType> Kernel for Ends<A> {
    fn grow(&mut self, total: usize) {
        self.held.resize(total, None);
    }

    fn update(&mut self, _: &Batch<'_>) -> Result<()> {
        unfit(self, "rows")
    }

    fn update_ends(&mut self, values: &[ArrayRef], ends: &[End]) -> Result<()> {
        let [values, ..] = values else { return unfit(self, "ends without values") };
        let values = as_primitive_array::<A>(values)?;
        for end in ends.iter().filter(|end| end.last == self.last) {
            let value = values.is_valid(end.row).then(|| values.value(end.row));
            keep(&mut self.held[end.group], Some((end.place, value)), self.last);
        }
        Ok(())
    }

    fn wants_lasts(&self) -> Option<bool> {
        Some(self.last)
    }

    fn merge(&mut self, other: Box<dyn Kernel>, groups: &[usize]) -> Result<()> {
        for (held, &group) in alike::<Self>(other)?.held.iter().zip(groups) {
            keep(&mut self.held[group], *held, self.last);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        let held = std::mem::take(&mut self.held);
        let value = |of: &Held<A::Native>| of.as_ref().and_then(|(_, value)| *value);
        let nulls = NullBuffer::from_iter(held.iter().map(|of| value(of).is_some()));
        let values: Vec<A::Native> = held.iter().map(|of| value(of).unwrap_or_default()).collect();
        let values = PrimitiveArray::<A>::new(values.into(), Some(nulls));
        Ok(Arc::new(values.with_data_type(self.of.clone())))
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
