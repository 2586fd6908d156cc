//! Accumulators and evaluators of windows that look whether their statement is still wanted: DataFusion goes over all
//! rows of a partition with them in one call.

use crate::wanted;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::window_state::WindowAggState;
use datafusion::logical_expr::{Accumulator, PartitionEvaluator};
use std::ops::Range;
use std::sync::Arc;

/// Rows that are taken in between two looks.
const ROWS_AT_ONCE: usize = 1 << 16;

/// An accumulator that looks before all it does.
#[derive(Debug)]
pub(super) struct LookingAccumulator {
    of: Box<dyn Accumulator>,
    /// Whether doubles that are equal are made the same bits first: one zero, one NaN.
    settles: bool,
}

impl LookingAccumulator {
    pub(super) fn over(of: Box<dyn Accumulator>, settles: bool) -> Self {
        Self { of, settles }
    }

    fn settled(&self, values: Vec<ArrayRef>) -> Vec<ArrayRef> {
        if self.settles { values.iter().map(settled).collect() } else { values }
    }

    fn pieces(
        &mut self,
        values: &[ArrayRef],
        each: impl Fn(&mut dyn Accumulator, &[ArrayRef]) -> Result<()>,
    ) -> Result<()> {
        let rows = values.first().map_or(0, |values| values.len());
        if rows <= ROWS_AT_ONCE && !self.settles {
            wanted::look()?;
            return each(self.of.as_mut(), values);
        }
        for from in (0..rows.max(1)).step_by(ROWS_AT_ONCE) {
            wanted::look()?;
            let rows = ROWS_AT_ONCE.min(rows - from);
            let piece = self.settled(values.iter().map(|values| values.slice(from, rows)).collect());
            each(self.of.as_mut(), &piece)?;
        }
        Ok(())
    }
}

/// Floating-point numbers with one zero and one NaN; others as they are.
fn settled(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Float64 => {
            let one = |value: f64| if value.is_nan() { f64::NAN } else { value + 0.0 };
            let settled: PrimitiveArray<Float64Type> = values.as_primitive::<Float64Type>().unary(one);
            Arc::new(settled)
        }
        DataType::Float32 => {
            let one = |value: f32| if value.is_nan() { f32::NAN } else { value + 0.0 };
            let settled: PrimitiveArray<Float32Type> = values.as_primitive::<Float32Type>().unary(one);
            Arc::new(settled)
        }
        _ => Arc::clone(values),
    }
}

impl Accumulator for LookingAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.pieces(values, |of, piece| of.update_batch(piece))
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.pieces(values, |of, piece| of.retract_batch(piece))
    }

    fn supports_retract_batch(&self) -> bool {
        self.of.supports_retract_batch()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        wanted::look()?;
        self.of.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.of.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.of.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.of.merge_batch(states)
    }
}

/// An evaluator that looks before each row, or before all of a partition at once.
#[derive(Debug)]
pub(super) struct LookingEvaluator {
    of: Box<dyn PartitionEvaluator>,
    /// Whether it is asked for whole partitions only.
    whole: bool,
}

impl LookingEvaluator {
    pub(super) fn over(of: Box<dyn PartitionEvaluator>, whole: bool) -> Self {
        Self { of, whole }
    }
}

impl PartitionEvaluator for LookingEvaluator {
    fn memoize(&mut self, state: &mut WindowAggState) -> Result<()> {
        self.of.memoize(state)
    }

    fn get_range(&self, row: usize, rows: usize) -> Result<Range<usize>> {
        self.of.get_range(row, rows)
    }

    fn is_causal(&self) -> bool {
        self.of.is_causal()
    }

    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        wanted::look()?;
        self.of.evaluate_all(values, rows)
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        wanted::look()?;
        self.of.evaluate(values, range)
    }

    fn evaluate_all_with_rank(&self, rows: usize, ranks: &[Range<usize>]) -> Result<ArrayRef> {
        wanted::look()?;
        self.of.evaluate_all_with_rank(rows, ranks)
    }

    fn supports_bounded_execution(&self) -> bool {
        !self.whole && self.of.supports_bounded_execution()
    }

    fn uses_window_frame(&self) -> bool {
        self.of.uses_window_frame()
    }

    fn include_rank(&self) -> bool {
        self.of.include_rank()
    }
}
