//! count(DISTINCT x) of numbers, dates and times.
//!
//! Values that come in ascending order, such as ids, are only written down; others are hashed.

use crate::operators::sample::rows::Rows;
use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimeUnit, TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::HashSet;
use std::sync::Arc;

/// The different values of each group.
pub(in super::super) struct Distinct {
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
    /// Of values of this type; `None` where these are looked at in another way.
    pub(super) fn new(of: &DataType) -> Option<Self> {
        let number = of.is_integer() || matches!(of, DataType::Float32 | DataType::Float64);
        let time = matches!(of, DataType::Date32 | DataType::Timestamp(TimeUnit::Nanosecond, _));
        (number || time).then(|| Self { sets: Vec::new(), of: of.clone(), bytes: 0 })
    }

    pub(super) fn grow(&mut self, total: usize) {
        self.sets.resize_with(total, || Set::Ascending(Vec::new()));
    }

    pub(super) fn update(&mut self, values: &ArrayRef, rows: &Rows<'_>, counted: Option<&BooleanBuffer>) {
        /// One number for all zeros, and one for all NaNs.
        fn real(value: f64) -> u64 {
            if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() }
        }
        match self.of {
            DataType::Int8 => self.add::<Int8Type>(values, rows, counted, |of| of as u64),
            DataType::Int16 => self.add::<Int16Type>(values, rows, counted, |of| of as u64),
            DataType::Int32 => self.add::<Int32Type>(values, rows, counted, |of| of as u64),
            DataType::UInt8 => self.add::<UInt8Type>(values, rows, counted, u64::from),
            DataType::UInt16 => self.add::<UInt16Type>(values, rows, counted, u64::from),
            DataType::UInt32 => self.add::<UInt32Type>(values, rows, counted, u64::from),
            DataType::UInt64 => self.add::<UInt64Type>(values, rows, counted, |of| of),
            DataType::Float32 => self.add::<Float32Type>(values, rows, counted, |of| real(f64::from(of))),
            DataType::Float64 => self.add::<Float64Type>(values, rows, counted, real),
            DataType::Date32 => self.add::<Date32Type>(values, rows, counted, |of| of as u64),
            DataType::Timestamp(..) => {
                self.add::<TimestampNanosecondType>(values, rows, counted, |of| of as u64);
            }
            _ => self.add::<Int64Type>(values, rows, counted, |of| of as u64),
        }
    }

    fn add<A: ArrowPrimitiveType>(
        &mut self,
        values: &ArrayRef,
        rows: &Rows<'_>,
        counted: Option<&BooleanBuffer>,
        number: impl Fn(A::Native) -> u64,
    ) {
        let values = values.as_primitive::<A>().values();
        let Self { sets, bytes, .. } = self;
        let mut held = |group: usize, add: &mut dyn FnMut(&mut Set)| {
            let before = sets[group].size();
            add(&mut sets[group]);
            *bytes += sets[group].size().saturating_sub(before);
        };
        let one_by_one = rows.each(counted, |group, row| {
            held(group, &mut |set| set.extend(std::iter::once(number(values[row]))));
        });
        if !one_by_one {
            rows.runs(counted, |group, rows| {
                held(group, &mut |set| set.extend(values[rows.clone()].iter().map(|of| number(*of))));
            });
        }
    }

    pub(super) fn merge(&mut self, theirs: Self, groups: &[usize]) {
        for (set, &group) in theirs.sets.into_iter().zip(groups) {
            let before = self.sets[group].size();
            self.sets[group].merge(set);
            self.bytes += self.sets[group].size().saturating_sub(before);
        }
    }

    pub(super) fn finish(&mut self) -> ArrayRef {
        let counts = std::mem::take(&mut self.sets).into_iter().map(|set| set.len() as i64);
        Arc::new(Int64Array::from_iter_values(counts))
    }

    pub(super) fn size(&self) -> usize {
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
