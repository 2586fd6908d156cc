//! `median(x)` of differences of times, cut off to whole units where it lies between two, and of doubles, as
//! `quantile(x, 0.5)`. Everything else is DataFusion's, which has none of the differences: they are whole numbers to it;
//! and adds up two doubles that may be too large for it.

use super::quantile;
use super::whole::reread;
use datafusion::arrow::array::{ArrayRef, Int64Array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_aggregate::median::median_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Coercion, Documentation, GroupsAccumulator, Signature,
    TypeSignature, TypeSignatureClass,
};
use std::sync::Arc;

/// `median`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Median {
    theirs: Arc<AggregateUDF>,
    signature: Signature,
}

impl Default for Median {
    fn default() -> Self {
        let theirs = median_udaf();
        let differences = TypeSignature::Coercible(vec![Coercion::new_exact(TypeSignatureClass::Duration)]);
        let all = vec![theirs.signature().type_signature.clone(), differences];
        let signature = Signature::one_of(all, theirs.signature().volatility);
        Self { theirs, signature }
    }
}

fn is_difference(of: Option<&FieldRef>) -> bool {
    of.is_some_and(|field| matches!(field.data_type(), DataType::Duration(_)))
}

fn double(of: Option<&FieldRef>) -> Option<DataType> {
    let of = of.map(|field| field.data_type().clone());
    of.filter(|of| matches!(of, DataType::Float32 | DataType::Float64))
}

/// The same in whole numbers.
fn whole(of: &FieldRef) -> FieldRef {
    Arc::new(Field::new(of.name(), DataType::Int64, of.is_nullable()))
}

impl AggregateUDFImpl for Median {
    fn name(&self) -> &str {
        self.theirs.name()
    }

    fn aliases(&self) -> &[String] {
        self.theirs.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.theirs.return_type(types)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if !is_difference(args.input_fields.first()) {
            return self.theirs.state_fields(args);
        }
        let input_fields: Vec<FieldRef> = args.input_fields.iter().map(whole).collect();
        self.theirs.state_fields(StateFieldsArgs { input_fields: &input_fields, ..args })
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if let Some(of) = double(args.expr_fields.first()) {
            return Ok(quantile::one(self.theirs.accumulator(args)?, of, 0.5));
        }
        if !is_difference(args.expr_fields.first()) {
            return self.theirs.accumulator(args);
        }
        let expr_fields: Vec<FieldRef> = args.expr_fields.iter().map(whole).collect();
        let (of, return_field) = (args.return_field.data_type().clone(), whole(&args.return_field));
        let args = AccumulatorArgs { expr_fields: &expr_fields, return_field, ..args };
        Ok(Box::new(Differences { theirs: self.theirs.accumulator(args)?, of }))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !is_difference(args.expr_fields.first()) && self.theirs.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        let of = double(args.expr_fields.first());
        let gathers = self.theirs.create_groups_accumulator(args)?;
        Ok(match of {
            Some(of) => quantile::many(gathers, of, 0.5),
            None => gathers,
        })
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.theirs.documentation()
    }
}

/// DataFusion's accumulator, which is told whole numbers.
#[derive(Debug)]
struct Differences {
    theirs: Box<dyn Accumulator>,
    of: DataType,
}

impl Accumulator for Differences {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values.iter().map(|values| reread(values, &DataType::Int64));
        self.theirs.update_batch(&values.collect::<Result<Vec<_>>>()?)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let ScalarValue::Int64(median) = self.theirs.evaluate()? else {
            return ScalarValue::try_from(&self.of);
        };
        let median: ArrayRef = Arc::new(Int64Array::from(vec![median]));
        ScalarValue::try_from_array(&reread(&median, &self.of)?, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.theirs.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.theirs.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.theirs.merge_batch(states)
    }
}
