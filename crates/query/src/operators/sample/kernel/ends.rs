//! first and last where rows come by series in order of time: only the ends of runs are looked at.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
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

/// first(x) or last(x): the row as it is, NULL included.
#[derive(Debug)]
pub(in super::super) struct Ends {
    last: bool,
    kept: Kept,
}

#[derive(Debug)]
enum Kept {
    Doubles(Vec<Held<f64>>),
    Integers(Vec<Held<i64>>),
}

impl Ends {
    /// Whether values of this type are kept.
    pub(in super::super) fn holds(data_type: &DataType) -> bool {
        matches!(data_type, DataType::Float64 | DataType::Int64)
    }

    pub(super) fn new(last: bool, data_type: &DataType) -> Self {
        let kept = match data_type {
            DataType::Int64 => Kept::Integers(Vec::new()),
            _ => Kept::Doubles(Vec::new()),
        };
        Self { last, kept }
    }

    /// Whether it is last(x).
    pub(in super::super) fn is_last(&self) -> bool {
        self.last
    }

    pub(super) fn grow(&mut self, total: usize) {
        match &mut self.kept {
            Kept::Doubles(held) => held.resize(total, None),
            Kept::Integers(held) => held.resize(total, None),
        }
    }

    pub(super) fn update(&mut self, values: &ArrayRef, ends: &[End]) -> Result<()> {
        let last = self.last;
        let ends = ends.iter().filter(|end| end.last == last);
        match &mut self.kept {
            Kept::Doubles(held) => {
                let values = values.as_primitive::<Float64Type>();
                for end in ends {
                    let value = values.is_valid(end.row).then(|| values.value(end.row));
                    keep(&mut held[end.group], Some((end.place, value)), last);
                }
            }
            Kept::Integers(held) => {
                let values = values.as_primitive::<Int64Type>();
                for end in ends {
                    let value = values.is_valid(end.row).then(|| values.value(end.row));
                    keep(&mut held[end.group], Some((end.place, value)), last);
                }
            }
        }
        Ok(())
    }

    pub(super) fn merge(&mut self, theirs: &Self, groups: &[usize]) {
        match (&mut self.kept, &theirs.kept) {
            (Kept::Doubles(ours), Kept::Doubles(theirs)) => merge(ours, theirs, groups, self.last),
            (Kept::Integers(ours), Kept::Integers(theirs)) => merge(ours, theirs, groups, self.last),
            _ => {}
        }
    }

    pub(super) fn finish(&mut self) -> ArrayRef {
        match &mut self.kept {
            Kept::Doubles(held) => {
                let (values, nulls) = split(held);
                Arc::new(Float64Array::new(values.into(), nulls))
            }
            Kept::Integers(held) => {
                let (values, nulls) = split(held);
                Arc::new(Int64Array::new(values.into(), nulls))
            }
        }
    }

    pub(super) fn size(&self) -> usize {
        match &self.kept {
            Kept::Doubles(held) => held.capacity() * size_of::<Held<f64>>(),
            Kept::Integers(held) => held.capacity() * size_of::<Held<i64>>(),
        }
    }
}

fn keep<T>(held: &mut Held<T>, found: Held<T>, last: bool) {
    let place = |of: &Held<T>| of.as_ref().map(|(place, _)| *place);
    let replaces = match (place(held), place(&found)) {
        (_, None) => false,
        (None, _) => true,
        (Some(held), Some(found)) => {
            if last {
                found > held
            } else {
                found < held
            }
        }
    };
    if replaces {
        *held = found;
    }
}

fn merge<T: Copy>(ours: &mut [Held<T>], theirs: &[Held<T>], groups: &[usize], last: bool) {
    for (held, &group) in theirs.iter().zip(groups) {
        keep(&mut ours[group], *held, last);
    }
}

fn split<T: Copy + Default>(held: &mut Vec<Held<T>>) -> (Vec<T>, Option<NullBuffer>) {
    let held = std::mem::take(held);
    let value = |of: &Held<T>| of.as_ref().and_then(|(_, value)| *value);
    let nulls = NullBuffer::from_iter(held.iter().map(|of| value(of).is_some()));
    (held.iter().map(|of| value(of).unwrap_or_default()).collect(), Some(nulls))
}
