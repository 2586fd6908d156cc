//! Medians and quantiles of floats: the values of all groups are kept, once for all quantiles of one argument, and put
//! in order around the ranks that are asked for.

use super::sums::seen;
use crate::functions::quantile::{Between, quantile};
use crate::operators::sample::rows::Rows;
use datafusion::arrow::array::{ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, PrimitiveArray};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use std::sync::Arc;

/// Quantiles of one argument.
pub(in super::super) struct Quantiles {
    of: Of,
    /// The parts of the values that lie below what is asked for, from 0 to 1.
    parts: Vec<f64>,
    finished: Vec<ArrayRef>,
}

enum Of {
    Single(Kept<Float32Type>),
    Double(Kept<Float64Type>),
}

/// The values of all groups, as they came.
struct Kept<T: ArrowPrimitiveType> {
    values: Vec<T::Native>,
    /// Of values that came one after the other: their group and where they end.
    runs: Vec<(usize, usize)>,
    groups: usize,
}

impl Quantiles {
    /// The quantiles `parts` of values of this type; `None` where they are looked for in another way.
    pub(super) fn new(of: &DataType, parts: &[f64]) -> Option<Self> {
        let of = match of {
            DataType::Float32 => Of::Single(Kept::default()),
            DataType::Float64 => Of::Double(Kept::default()),
            _ => return None,
        };
        Some(Self { of, parts: parts.to_vec(), finished: Vec::new() })
    }

    pub(super) fn grow(&mut self, total: usize) {
        match &mut self.of {
            Of::Single(kept) => kept.groups = total,
            Of::Double(kept) => kept.groups = total,
        }
    }

    pub(super) fn update(&mut self, values: &ArrayRef, rows: &Rows<'_>, counted: Option<&BooleanBuffer>) {
        match &mut self.of {
            Of::Single(kept) => kept.update(values.as_primitive::<Float32Type>().values(), rows, counted),
            Of::Double(kept) => kept.update(values.as_primitive::<Float64Type>().values(), rows, counted),
        }
    }

    pub(super) fn merge(&mut self, theirs: Self, groups: &[usize]) {
        match (&mut self.of, theirs.of) {
            (Of::Single(ours), Of::Single(theirs)) => ours.merge(&theirs, groups),
            (Of::Double(ours), Of::Double(theirs)) => ours.merge(&theirs, groups),
            _ => {}
        }
    }

    /// The first quantile of each group; the others wait for [`Self::finished`].
    pub(super) fn finish(&mut self) -> ArrayRef {
        self.finished = match &mut self.of {
            Of::Single(kept) => kept.finish(&self.parts),
            Of::Double(kept) => kept.finish(&self.parts),
        };
        self.finished(0)
    }

    /// That of the part at this place.
    pub(super) fn finished(&self, at: usize) -> ArrayRef {
        Arc::clone(&self.finished[at])
    }

    pub(super) fn size(&self) -> usize {
        match &self.of {
            Of::Single(kept) => kept.size(),
            Of::Double(kept) => kept.size(),
        }
    }
}

impl<T: ArrowPrimitiveType> Default for Kept<T> {
    fn default() -> Self {
        Self { values: Vec::new(), runs: Vec::new(), groups: 0 }
    }
}

impl<T: ArrowPrimitiveType<Native: Between>> Kept<T> {
    fn note(runs: &mut Vec<(usize, usize)>, group: usize, end: usize) {
        match runs.last_mut() {
            Some((of, last)) if *of == group => *last = end,
            _ => runs.push((group, end)),
        }
    }

    fn update(&mut self, values: &[T::Native], rows: &Rows<'_>, counted: Option<&BooleanBuffer>) {
        let Self { values: kept, runs, .. } = self;
        let one_by_one = rows.each(counted, |group, row| {
            kept.push(values[row]);
            Self::note(runs, group, kept.len());
        });
        if !one_by_one {
            rows.runs(counted, |group, rows| {
                kept.extend_from_slice(&values[rows]);
                Self::note(runs, group, kept.len());
            });
        }
    }

    fn merge(&mut self, theirs: &Self, groups: &[usize]) {
        let before = self.values.len();
        self.values.extend_from_slice(&theirs.values);
        for (group, end) in &theirs.runs {
            Self::note(&mut self.runs, groups[*group], before + end);
        }
    }

    /// The values group by group, and where those of each end.
    fn by_group(&mut self) -> (Vec<T::Native>, Vec<usize>) {
        let (values, runs) = (std::mem::take(&mut self.values), std::mem::take(&mut self.runs));
        let mut ends = vec![0; self.groups];
        let starts = std::iter::once(0).chain(runs.iter().map(|(_, end)| *end));
        let lengths = runs.iter().zip(starts).map(|((group, end), start)| (*group, start..*end));
        lengths.clone().for_each(|(group, rows)| ends[group] += rows.len());
        let mut end = 0;
        for of_group in &mut ends {
            end += *of_group;
            *of_group = end;
        }
        if runs.is_sorted_by_key(|(group, _)| *group) {
            return (values, ends);
        }
        let mut sorted = values.clone();
        let mut next: Vec<usize> = std::iter::once(0).chain(ends.iter().copied()).collect();
        for (group, rows) in lengths {
            let place = next[group]..next[group] + rows.len();
            next[group] = place.end;
            sorted[place].copy_from_slice(&values[rows]);
        }
        (sorted, ends)
    }

    fn finish(&mut self, parts: &[f64]) -> Vec<ArrayRef> {
        let (mut values, ends) = self.by_group();
        let mut order: Vec<usize> = (0..parts.len()).collect();
        order.sort_by(|a, b| parts[*a].total_cmp(&parts[*b]));
        let mut found = vec![vec![T::default_value(); ends.len()]; parts.len()];
        let mut start = 0;
        for (group, end) in ends.iter().enumerate() {
            let values = &mut values[start..*end];
            start = *end;
            // What is below a rank that was asked for is not looked at again.
            let mut done = 0;
            for part in order.iter().copied() {
                let quantile = quantile(values.len() as u64, parts[part], |rank| {
                    let at = usize::try_from(rank).ok().filter(|at| *at < values.len())?;
                    let above = &mut values[done.min(at)..];
                    let value = *above.select_nth_unstable_by(at - done.min(at), |a, b| a.compare(*b)).1;
                    done = done.max(at);
                    Some(value)
                });
                found[part][group] = quantile.unwrap_or_default();
            }
        }
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let counts: Vec<i64> = starts.zip(&ends).map(|(start, end)| (end - start) as i64).collect();
        let array = |values: Vec<T::Native>| -> ArrayRef {
            Arc::new(PrimitiveArray::<T>::new(values.into(), seen(&counts)))
        };
        found.into_iter().map(array).collect()
    }

    fn size(&self) -> usize {
        self.values.capacity() * size_of::<T::Native>() + self.runs.capacity() * size_of::<(usize, usize)>()
    }
}
