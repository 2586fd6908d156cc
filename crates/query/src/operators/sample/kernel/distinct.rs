//! count(DISTINCT x) of numbers, dates and times.
//!
//! Values that come in ascending order, such as ids, are only written down; others are hashed.

use super::{Batch, Kernel, alike, values};
use datafusion::arrow::array::{ArrayRef, Int64Array};
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimeUnit, TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::HashSet;
use datafusion::error::Result;
use std::sync::Arc;

/// count(DISTINCT x) of values of this type; `None` where these are looked at in another way.
pub(super) fn kernel(of: &DataType) -> Option<Box<dyn Kernel>> {
    let number = of.is_integer() || matches!(of, DataType::Float32 | DataType::Float64);
    let time = matches!(of, DataType::Date32 | DataType::Timestamp(TimeUnit::Nanosecond, _));
    (number || time).then(|| Box::new(Distinct { sets: Vec::new(), of: of.clone(), bytes: 0 }) as _)
}

/// The different values of each group.
struct Distinct {
    sets: Vec<Set>,
    of: DataType,
    bytes: usize,
}

/// Different values, as numbers that are different where they are.
enum Set {
    Ascending(Vec<u64>),
    Hashed(HashSet<u64>),
}

impl Distinct {
    fn add<A: ArrowPrimitiveType>(
        &mut self,
        batch: &Batch<'_>,
        number: impl Fn(A::Native) -> u64,
    ) -> Result<()> {
        let [column] = batch.arguments()?;
        let (values, rows, counted) = (values::<A>(column)?, batch.rows, batch.counted());
        let Self { sets, bytes, .. } = self;
        let mut held = |group: usize, add: &mut dyn FnMut(&mut Set)| {
            let before = sets[group].size();
            add(&mut sets[group]);
            *bytes += sets[group].size().saturating_sub(before);
        };
        let one_by_one = rows.each(counted.as_ref(), |group, row| {
            held(group, &mut |set| set.extend(std::iter::once(number(values[row]))));
        });
        if !one_by_one {
            rows.runs(counted.as_ref(), |group, rows| {
                held(group, &mut |set| set.extend(values[rows.clone()].iter().map(|of| number(*of))));
            });
        }
        Ok(())
    }
}

impl Kernel for Distinct {
    fn grow(&mut self, total: usize) {
        self.sets.resize_with(total, || Set::Ascending(Vec::new()));
    }

    fn update(&mut self, batch: &Batch<'_>) -> Result<()> {
        /// One number for all zeros, and one for all NaNs.
        fn real(value: f64) -> u64 {
            if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() }
        }
        match self.of {
            DataType::Int8 => self.add::<Int8Type>(batch, |of| of as u64),
            DataType::Int16 => self.add::<Int16Type>(batch, |of| of as u64),
            DataType::Int32 => self.add::<Int32Type>(batch, |of| of as u64),
            DataType::UInt8 => self.add::<UInt8Type>(batch, u64::from),
            DataType::UInt16 => self.add::<UInt16Type>(batch, u64::from),
            DataType::UInt32 => self.add::<UInt32Type>(batch, u64::from),
            DataType::UInt64 => self.add::<UInt64Type>(batch, |of| of),
            DataType::Float32 => self.add::<Float32Type>(batch, |of| real(f64::from(of))),
            DataType::Float64 => self.add::<Float64Type>(batch, real),
            DataType::Date32 => self.add::<Date32Type>(batch, |of| of as u64),
            DataType::Timestamp(..) => self.add::<TimestampNanosecondType>(batch, |of| of as u64),
            _ => self.add::<Int64Type>(batch, |of| of as u64),
        }
    }

    fn merge(&mut self, other: Box<dyn Kernel>, groups: &[usize]) -> Result<()> {
        for (set, &group) in alike::<Self>(other)?.sets.into_iter().zip(groups) {
            let before = self.sets[group].size();
            self.sets[group].merge(set);
            self.bytes += self.sets[group].size().saturating_sub(before);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        let counts = std::mem::take(&mut self.sets).into_iter().map(|set| set.len() as i64);
        Ok(Arc::new(Int64Array::from_iter_values(counts)))
    }

    fn size(&self) -> usize {
        self.bytes + self.sets.capacity() * size_of::<Set>()
    }
}

impl Set {
    fn extend(&mut self, values: impl Iterator<Item = u64>) {
        let mut values = values.peekable();
        if let Set::Ascending(held) = self {
            while let Some(next) = values.peek().copied() {
                match held.last() {
                    Some(last) if *last == next => {}
                    Some(last) if *last > next => break,
                    _ => held.push(next),
                }
                values.next();
            }
            if values.peek().is_none() {
                return;
            }
            *self = Set::Hashed(held.drain(..).collect());
        }
        if let Set::Hashed(held) = self {
            let mut last = None;
            for next in values {
                // Prices stay for a while.
                if last != Some(next) {
                    held.insert(next);
                    last = Some(next);
                }
            }
        }
    }

    fn merge(&mut self, theirs: Self) {
        match theirs {
            Set::Ascending(theirs) => self.extend(theirs.into_iter()),
            Set::Hashed(mut theirs) => {
                match std::mem::replace(self, Set::Ascending(Vec::new())) {
                    Set::Ascending(ours) => theirs.extend(ours),
                    Set::Hashed(ours) if ours.len() > theirs.len() => {
                        let fewer = std::mem::replace(&mut theirs, ours);
                        theirs.extend(fewer);
                    }
                    Set::Hashed(ours) => theirs.extend(ours),
                }
                *self = Set::Hashed(theirs);
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Set::Ascending(held) => held.len(),
            Set::Hashed(held) => held.len(),
        }
    }

    /// Bytes it holds, roughly.
    fn size(&self) -> usize {
        match self {
            Set::Ascending(held) => held.capacity() * size_of::<u64>(),
            Set::Hashed(held) => held.capacity() * 2 * size_of::<u64>(),
        }
    }
}
