//! `ksum(x)`: the sum of doubles that loses no more than the last digit however many there are.
//!
//! Neumaier's variant of Kahan's summation: "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher
//! Summen", ZAMM 54 (1974). NULL where there is no value.

use super::plain::{Plain, PlainState, doubles};
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;

pub(super) const KSUM: Plain = Plain {
    name: "ksum",
    aliases: &[],
    columns: 1,
    state: &[("sum", DataType::Float64), ("rest", DataType::Float64), ("count", DataType::Int64)],
    begin: || Box::new(Sum::default()),
};

#[derive(Debug, Default)]
struct Sum {
    sum: f64,
    /// What the sum has lost.
    rest: f64,
    count: i64,
}

impl Sum {
    fn add(&mut self, value: f64) {
        let sum = self.sum + value;
        let lost =
            if self.sum.abs() >= value.abs() { (self.sum - sum) + value } else { (value - sum) + self.sum };
        self.sum = sum;
        // With an infinity the sum is it, and nothing is lost.
        self.rest += if lost.is_finite() { lost } else { 0.0 };
    }
}

impl PlainState for Sum {
    fn update(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in doubles(values, 0)?.iter().flatten() {
            self.add(value);
            self.count += 1;
        }
        Ok(())
    }

    fn evaluate(&self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64((self.count > 0).then_some(self.sum + self.rest)))
    }

    fn state(&self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.sum.into(), self.rest.into(), self.count.into()])
    }

    fn merge(&mut self, state: &[ScalarValue]) {
        if let [
            ScalarValue::Float64(Some(sum)),
            ScalarValue::Float64(Some(rest)),
            ScalarValue::Int64(Some(count)),
        ] = state
        {
            self.add(*sum);
            self.rest += rest;
            self.count += count;
        }
    }
}
