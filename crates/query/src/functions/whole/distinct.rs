//! `sum(DISTINCT x)` and `avg(DISTINCT x)`.

use super::{Shape, Values, number};
use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;
use std::collections::HashMap;

/// The values of one group.
#[derive(Debug)]
pub(super) struct Distinct {
    shape: Shape,
    /// How often each is there, so that it can go again.
    rows: HashMap<i64, u64>,
    sum: i128,
}

impl Distinct {
    pub(super) fn new(shape: Shape) -> Self {
        Self { shape, rows: HashMap::new(), sum: 0 }
    }

    fn unsigned(&self) -> bool {
        self.shape.of == DataType::UInt64
    }

    fn add(&mut self, bits: &Int64Array) {
        let unsigned = self.unsigned();
        for bits in bits.iter().flatten() {
            let rows = self.rows.entry(bits).or_default();
            if *rows == 0 {
                self.sum += number(bits, unsigned);
            }
            *rows += 1;
        }
    }
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&Values::of(values)?.bits);
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let unsigned = self.unsigned();
        for bits in Values::of(values)?.bits.iter().flatten() {
            if let Some(rows) = self.rows.get_mut(&bits) {
                *rows -= 1;
                if *rows == 0 {
                    self.rows.remove(&bits);
                    self.sum -= number(bits, unsigned);
                }
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.shape.finish(self.sum, self.rows.len() as i64)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.shape.name.capacity() + self.rows.capacity() * size_of::<(i64, u64)>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values: Vec<ScalarValue> = self.rows.keys().map(|bits| ScalarValue::from(*bits)).collect();
        Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(&values, &DataType::Int64))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [lists] = states else { return exec_err!("a sum of distinct values has a state of one column") };
        for values in lists.as_list::<i32>().iter().flatten() {
            self.add(values.as_primitive::<Int64Type>());
        }
        Ok(())
    }
}
