//! The sums of many groups.

use super::{STATE, Shape, Values, number, state};
use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, Decimal128Array, Int64Array};
use datafusion::error::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Many {
    shape: Shape,
    sums: Vec<i128>,
    counts: Vec<i64>,
}

impl Many {
    pub(super) fn new(shape: Shape) -> Self {
        Self { shape, sums: Vec::new(), counts: Vec::new() }
    }

    fn grow(&mut self, total: usize) {
        self.sums.resize(total, 0);
        self.counts.resize(total, 0);
    }

    fn take(&mut self, emit_to: EmitTo) -> (Vec<i128>, Vec<i64>) {
        (emit_to.take_needed(&mut self.sums), emit_to.take_needed(&mut self.counts))
    }
}

impl GroupsAccumulator for Many {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        let Values { bits, unsigned } = Values::of(values)?;
        self.grow(total);
        let Self { sums, counts, .. } = self;
        if bits.null_count() == 0 && filter.is_none() {
            for (bits, &group) in bits.values().iter().zip(groups) {
                sums[group] += number(*bits, unsigned);
                counts[group] += 1;
            }
            return Ok(());
        }
        for (row, (value, &group)) in bits.iter().zip(groups).enumerate() {
            let Some(bits) = value else { continue };
            if filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row)) {
                sums[group] += number(bits, unsigned);
                counts[group] += 1;
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (sums, counts) = self.take(emit_to);
        self.shape.finish_all(sums.into_iter().zip(counts))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (sums, counts) = self.take(emit_to);
        let sums = Decimal128Array::from(sums).with_data_type(STATE);
        Ok(vec![Arc::new(sums), Arc::new(Int64Array::from(counts))])
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        let (sums, counts) = state(values)?;
        self.grow(total);
        for ((sum, count), &group) in sums.iter().zip(counts).zip(groups) {
            self.sums[group] += sum.unwrap_or(0);
            self.counts[group] += count.unwrap_or(0);
        }
        Ok(())
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let mut rows = Many::new(self.shape.clone());
        let groups: Vec<usize> = (0..values.first().map_or(0, |values| values.len())).collect();
        rows.update_batch(values, &groups, filter, groups.len())?;
        rows.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        size_of_val(self) + 16 * self.sums.capacity() + 8 * self.counts.capacity()
    }
}
