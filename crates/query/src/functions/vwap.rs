//! `vwap(price, size)`, also `weighted_avg(x, w)`: Σ x·w / Σ w.
//!
//! Rows where either is NULL do not count; NULL when Σ w is 0.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use std::sync::Arc;

/// `vwap(price, size)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Vwap {
    signature: Signature,
    aliases: Vec<String>,
}

impl Default for Vwap {
    fn default() -> Self {
        let signature = Signature::exact(vec![DataType::Float64; 2], Volatility::Immutable);
        Self { signature, aliases: vec!["weighted_avg".to_string()] }
    }
}

impl AggregateUDFImpl for Vwap {
    fn name(&self) -> &str {
        "vwap"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |name| Arc::new(Field::new(format_state_name(args.name, name), DataType::Float64, true));
        Ok(vec![field("products"), field("weights")])
    }

    fn accumulator(&self, _args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(One::default()))
    }

    fn groups_accumulator_supported(&self, _args: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(&self, _args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Many::default()))
    }
}

fn pair(values: &[ArrayRef]) -> Result<(&Float64Array, &Float64Array)> {
    match values {
        [a, b] => Ok((a.as_primitive::<Float64Type>(), b.as_primitive::<Float64Type>())),
        other => exec_err!("vwap takes two arguments, not {}", other.len()),
    }
}

fn quotient(products: f64, weights: f64) -> Option<f64> {
    (weights != 0.0).then(|| products / weights)
}

#[derive(Debug, Default)]
struct One {
    products: f64,
    weights: f64,
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (prices, sizes) = pair(values)?;
        for (price, size) in prices.iter().zip(sizes) {
            if let (Some(price), Some(size)) = (price, size) {
                self.products += price * size;
                self.weights += size;
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(quotient(self.products, self.weights)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::from(self.products), ScalarValue::from(self.weights)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (products, weights) = pair(states)?;
        self.products += products.iter().flatten().sum::<f64>();
        self.weights += weights.iter().flatten().sum::<f64>();
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Many {
    products: Vec<f64>,
    weights: Vec<f64>,
}

impl Many {
    fn grow(&mut self, total: usize) {
        self.products.resize(total, 0.0);
        self.weights.resize(total, 0.0);
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
        let (prices, sizes) = pair(values)?;
        self.grow(total);
        let all = prices.null_count() == 0 && sizes.null_count() == 0 && filter.is_none();
        let rows = prices.values().iter().zip(sizes.values()).zip(groups).enumerate();
        for (row, ((price, size), &group)) in rows {
            let counts = all
                || (prices.is_valid(row)
                    && sizes.is_valid(row)
                    && filter.is_none_or(|f| f.is_valid(row) && f.value(row)));
            if counts {
                self.products[group] += price * size;
                self.weights[group] += size;
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let products = emit_to.take_needed(&mut self.products);
        let weights = emit_to.take_needed(&mut self.weights);
        let values = products.into_iter().zip(weights).map(|(p, w)| quotient(p, w));
        Ok(Arc::new(values.collect::<Float64Array>()))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let products = emit_to.take_needed(&mut self.products);
        let weights = emit_to.take_needed(&mut self.weights);
        Ok(vec![Arc::new(Float64Array::from(products)), Arc::new(Float64Array::from(weights))])
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        let (products, weights) = pair(values)?;
        self.grow(total);
        for ((product, weight), &group) in products.iter().zip(weights).zip(groups) {
            self.products[group] += product.unwrap_or(0.0);
            self.weights[group] += weight.unwrap_or(0.0);
        }
        Ok(())
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let mut rows = Many::default();
        let groups: Vec<usize> = (0..values.first().map_or(0, |v| v.len())).collect();
        rows.update_batch(values, &groups, filter, groups.len())?;
        rows.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        size_of_val(self) + 8 * (self.products.capacity() + self.weights.capacity())
    }
}
