//! `sum(DISTINCT x)` and its kin.

use super::{State, each_row};
use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;
use std::collections::HashMap;

/// The values of one group, and their sums.
#[derive(Debug)]
pub(super) struct Distinct {
    state: State,
    /// How often each is there, so that it can go again.
    rows: HashMap<u64, u64>,
}

/// Equal for values that are equal: there is one zero and one NaN.
fn bits(value: f64) -> u64 {
    let value = if value.is_nan() { f64::NAN } else { value + 0.0 };
    value.to_bits()
}

impl Distinct {
    pub(super) fn new(state: State) -> Self {
        Self { state, rows: HashMap::new() }
    }

    fn add(&mut self, value: f64) {
        let rows = self.rows.entry(bits(value)).or_default();
        *rows += 1;
        if *rows == 1 {
            self.state.row(value, 0.0, true);
        }
    }

    fn remove(&mut self, value: f64) {
        if let Some(rows) = self.rows.get_mut(&bits(value)) {
            *rows -= 1;
            if *rows == 0 {
                self.rows.remove(&bits(value));
                self.state.row(value, 0.0, false);
            }
        }
    }
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        each_row(values, |_, value, _| self.add(value))
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        each_row(values, |_, value, _| self.remove(value))
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.state.evaluate()))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.state.size() + self.rows.capacity() * size_of::<(u64, u64)>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values: Vec<ScalarValue> = self.rows.keys().map(|bits| f64::from_bits(*bits).into()).collect();
        Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(&values, &DataType::Float64))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [lists] = states else { return exec_err!("an exact sum has a state of one column") };
        for values in lists.as_list::<i32>().iter().flatten() {
            each_row(&[values], |_, value, _| self.add(value))?;
        }
        Ok(())
    }
}
