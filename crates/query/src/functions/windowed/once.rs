//! An aggregate of different values: each is given to the aggregate of all when it first comes, and taken from it when
//! it has gone as often as it came.

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;
use std::collections::HashMap;

/// See the file's header.
#[derive(Debug)]
pub(super) struct Once {
    /// It can take values back.
    all: Box<dyn Accumulator>,
    rows: HashMap<ScalarValue, u64>,
}

impl Once {
    pub(super) fn over(all: Box<dyn Accumulator>) -> Self {
        Self { all, rows: HashMap::new() }
    }

    /// Calls `change` with each value that is there and the place it has, and hands those on for which it is true.
    fn each(
        &mut self,
        values: &[ArrayRef],
        change: impl Fn(&mut HashMap<ScalarValue, u64>, ScalarValue) -> bool,
        hand_on: impl Fn(&mut dyn Accumulator, &[ArrayRef]) -> Result<()>,
    ) -> Result<()> {
        let [values] = values else { return exec_err!("DISTINCT takes one argument, not {}", values.len()) };
        for row in 0..values.len() {
            let value = ScalarValue::try_from_array(values, row)?;
            if !value.is_null() && change(&mut self.rows, value) {
                hand_on(self.all.as_mut(), &[values.slice(row, 1)])?;
            }
        }
        Ok(())
    }
}

impl Accumulator for Once {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let comes = |rows: &mut HashMap<ScalarValue, u64>, value| {
            let rows = rows.entry(value).or_default();
            *rows += 1;
            *rows == 1
        };
        self.each(values, comes, |all, value| all.update_batch(value))
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let goes = |rows: &mut HashMap<ScalarValue, u64>, value| {
            let Some(left) = rows.get_mut(&value) else { return false };
            *left -= 1;
            let last = *left == 0;
            if last {
                rows.remove(&value);
            }
            last
        };
        self.each(values, goes, |all, value| all.retract_batch(value))
    }

    fn supports_retract_batch(&self) -> bool {
        self.all.supports_retract_batch()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.all.evaluate()
    }

    fn size(&self) -> usize {
        let held = self.rows.capacity() * size_of::<(ScalarValue, u64)>();
        size_of_val(self) + self.all.size() + held
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        super::no_state()
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        super::no_state().map(|_| ())
    }
}
