//! `product(x)`: all values multiplied, NULLs left out; NULL of none.

use super::plain::{Plain, PlainState, doubles};
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;

pub(super) const PRODUCT: Plain = Plain {
    name: "product",
    aliases: &[],
    columns: 1,
    hides_time: false,
    state: &[("product", DataType::Float64)],
    begin: || Box::new(Product(None)),
};

#[derive(Debug)]
struct Product(Option<f64>);

impl PlainState for Product {
    fn update(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in doubles(values, 0)?.iter().flatten() {
            self.0 = Some(self.0.map_or(value, |product| product * value));
        }
        Ok(())
    }

    fn evaluate(&self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.0))
    }

    fn state(&self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Float64(self.0)])
    }

    fn merge(&mut self, state: &[ScalarValue]) {
        if let [ScalarValue::Float64(Some(value))] = state {
            self.0 = Some(self.0.map_or(*value, |product| product * value));
        }
    }
}
