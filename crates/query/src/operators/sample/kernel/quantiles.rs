//! Medians and quantiles of floats: the values of all groups are kept, once for all quantiles of one argument, and put
//! in order around the ranks that are asked for.

use super::sums::seen;
use super::{Batch, Kernel, alike, unfit, values};
use crate::functions::quantile::{Between, quantile};
use datafusion::arrow::array::{ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, PrimitiveArray};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::error::Result;
use std::sync::Arc;

/// The quantiles `parts` of values of this type; `None` without any, and where they are looked for in another way.
pub(super) fn kernel(of: &DataType, parts: &[f64]) -> Option<Box<dyn Kernel>> {
    match of {
        _ if parts.is_empty() => None,
        DataType::Float32 => Some(Box::new(Quantiles::<Float32Type>::new(parts))),
        DataType::Float64 => Some(Box::new(Quantiles::<Float64Type>::new(parts))),
        _ => None,
    }
}

/// Quantiles of one argument.
struct Quantiles<T: ArrowPrimitiveType> {
    /// The values of all groups, as they came.
    values: Vec<T::Native>,
    /// Of values that came one after the other: their group and where they end.
    runs: Vec<(usize, usize)>,
    groups: usize,
    /// The parts of the values that lie below what is asked for, from 0 to 1.
    parts: Vec<f64>,
    finished: Vec<ArrayRef>,
}

impl<T: ArrowPrimitiveType<Native: Between>> Quantiles<T> {
    fn new(parts: &[f64]) -> Self {
        let (values, runs) = (Vec::new(), Vec::new());
        Self { values, runs, groups: 0, parts: parts.to_vec(), finished: Vec::new() }
    }

    fn note(runs: &mut Vec<(usize, usize)>, group: usize, end: usize) {
        match runs.last_mut() {
            Some((of, last)) if *of == group => *last = end,
            _ => runs.push((group, end)),
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
}

impl<T: ArrowPrimitiveType<Native: Between>> Kernel for Quantiles<T> {
    fn grow(&mut self, total: usize) {
        self.groups = total;
    }

    fn update(&mut self, batch: &Batch<'_>) -> Result<()> {
        let [column] = batch.arguments()?;
        let (values, rows, counted) = (values::<T>(column)?, batch.rows, batch.counted());
        let Self { values: kept, runs, .. } = self;
        let one_by_one = rows.each(counted.as_ref(), |group, row| {
            kept.push(values[row]);
            Self::note(runs, group, kept.len());
        });
        if !one_by_one {
            rows.runs(counted.as_ref(), |group, rows| {
                kept.extend_from_slice(&values[rows]);
                Self::note(runs, group, kept.len());
            });
        }
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Kernel>, groups: &[usize]) -> Result<()> {
        let (theirs, before) = (alike::<Self>(other)?, self.values.len());
        self.values.extend_from_slice(&theirs.values);
        for (group, end) in &theirs.runs {
            Self::note(&mut self.runs, groups[*group], before + end);
        }
        Ok(())
    }

    /// The first quantile of each group; the others wait for [`Kernel::quantile`].
    fn finish(&mut self) -> Result<ArrayRef> {
        let (mut values, ends) = self.by_group();
        let parts = &self.parts;
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
        self.finished = found.into_iter().map(array).collect();
        self.quantile(0)
    }

    fn quantile(&self, at: usize) -> Result<ArrayRef> {
        match self.finished.get(at) {
            Some(found) => Ok(Arc::clone(found)),
            None => unfit(self, "a question for a quantile that it did not find"),
        }
    }

    fn size(&self) -> usize {
        self.values.capacity() * size_of::<T::Native>() + self.runs.capacity() * size_of::<(usize, usize)>()
    }
}
