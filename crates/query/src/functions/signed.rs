//! Numbers of rows, ranks and places are BIGINT: `row_number()`, `rank()`, `array_length(l)` and their kin.
//!
//! DataFusion 55.2 gives BIGINT UNSIGNED, of which `rank() - rank()` and `r - lag(r)` would be too. Unsigned numbers come
//! from columns that are declared so, and from nothing else. [`functions`], [`aggregates`] and [`windows`] wrap theirs.
//!
//! Numbers of a SYMBOL, `length(sym)`, are plain ones: DataFusion keeps the form that symbols have, a dictionary, whose
//! numbers no operator takes.

use super::handed_on::handed_on;
use datafusion::arrow::array::{ArrayRef, BooleanArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_aggregate::approx_distinct::approx_distinct_udaf;
use datafusion::functions_aggregate::regr::regr_count_udaf;
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::functions_window::{ntile, rank};
use datafusion::logical_expr::function::{
    AccumulatorArgs, ExpressionArgs, PartitionEvaluatorArgs, StateFieldsArgs, WindowUDFFieldArgs,
};
use datafusion::logical_expr::window_state::WindowAggState;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Documentation, EmitTo, GroupsAccumulator,
    LimitEffect, PartitionEvaluator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, WindowUDF, WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;
use std::ops::Range;
use std::sync::Arc;

/// Functions of arrays that count, and those that give numbers of texts.
const COUNTING: [&str; 10] = [
    "array_length",
    "array_ndims",
    "array_dims",
    "array_position",
    "array_positions",
    "cardinality",
    "ascii",
    "bit_length",
    "character_length",
    "octet_length",
];

/// The functions as they are, those that count with signed numbers.
pub(super) fn functions(theirs: Vec<Arc<ScalarUDF>>) -> Vec<Arc<ScalarUDF>> {
    let signed = |function: Arc<ScalarUDF>| match COUNTING.contains(&function.name()) {
        true => Arc::new(ScalarUDF::from(Signed(function))),
        false => function,
    };
    theirs.into_iter().map(signed).collect()
}

/// Aggregates that count.
pub(super) fn aggregates() -> impl Iterator<Item = AggregateUDF> {
    [approx_distinct_udaf(), regr_count_udaf()].into_iter().map(|theirs| SignedAggregate(theirs).into())
}

/// Window functions that count.
pub(super) fn windows() -> impl Iterator<Item = WindowUDF> {
    let all = [row_number_udwf(), rank::rank_udwf(), rank::dense_rank_udwf(), ntile::ntile_udwf()];
    all.into_iter().map(|theirs| SignedWindow(theirs).into())
}

/// `row_number()`.
pub(crate) fn row_number() -> Arc<WindowUDF> {
    Arc::new(SignedWindow(row_number_udwf()).into())
}

/// The signed type in the place of BIGINT UNSIGNED, in lists too, and that of the numbers in the place of their dictionary.
fn signed(of: &DataType) -> DataType {
    match of {
        DataType::UInt64 => DataType::Int64,
        DataType::Dictionary(_, numbers) if numbers.is_numeric() => signed(numbers),
        DataType::List(item) => {
            DataType::List(Arc::new(item.as_ref().clone().with_data_type(signed(item.data_type()))))
        }
        other => other.clone(),
    }
}

fn signed_field(of: &Field) -> FieldRef {
    Arc::new(of.clone().with_data_type(signed(of.data_type())))
}

fn signed_array(of: &ArrayRef) -> Result<ArrayRef> {
    Ok(cast(of, &signed(of.data_type()))?)
}

fn signed_value(of: &ScalarValue) -> Result<ScalarValue> {
    of.cast_to(&signed(&of.data_type()))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Signed(Arc<ScalarUDF>);

impl ScalarUDFImpl for Signed {
    handed_on!(0: name, aliases, signature, coerce_types, is_strict, documentation);

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(signed(&self.0.return_type(types)?))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(signed_field(self.0.return_field_from_args(args)?.as_ref()))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        if let Ok(own) = self.0.return_type(&types) {
            args.return_field = Arc::new(args.return_field.as_ref().clone().with_data_type(own));
        }
        Ok(match self.0.inner().invoke_with_args(args)? {
            ColumnarValue::Array(array) => ColumnarValue::Array(signed_array(&array)?),
            ColumnarValue::Scalar(value) => ColumnarValue::Scalar(signed_value(&value)?),
        })
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SignedAggregate(Arc<AggregateUDF>);

impl AggregateUDFImpl for SignedAggregate {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.0.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(signed(&self.0.return_type(types)?))
    }

    fn is_nullable(&self) -> bool {
        self.0.is_nullable()
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        signed_value(&self.0.default_value(data_type)?)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.0.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(One(self.0.accumulator(args)?)))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(One(self.0.create_sliding_accumulator(args)?)))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.0.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Many(self.0.create_groups_accumulator(args)?)))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }
}

#[derive(Debug)]
struct One(Box<dyn Accumulator>);

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update_batch(values)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.0.supports_retract_batch()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        signed_value(&self.0.evaluate()?)
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(states)
    }
}

struct Many(Box<dyn GroupsAccumulator>);

impl GroupsAccumulator for Many {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.0.update_batch(values, groups, filter, total)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        signed_array(&self.0.evaluate(emit_to)?)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.0.state(emit_to)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.0.merge_batch(states, groups, total)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.0.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SignedWindow(Arc<WindowUDF>);

impl WindowUDFImpl for SignedWindow {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn expressions(&self, args: ExpressionArgs<'_>) -> Vec<Arc<dyn PhysicalExpr>> {
        self.0.expressions(args)
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs<'_>) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Evaluator(self.0.partition_evaluator_factory(args)?)))
    }

    fn field(&self, args: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        Ok(signed_field(self.0.field(args)?.as_ref()))
    }

    fn sort_options(&self) -> Option<datafusion::arrow::compute::SortOptions> {
        self.0.sort_options()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.0.coerce_types(types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }

    fn limit_effect(&self, args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.0.inner().limit_effect(args)
    }
}

#[derive(Debug)]
struct Evaluator(Box<dyn PartitionEvaluator>);

impl PartitionEvaluator for Evaluator {
    fn memoize(&mut self, state: &mut WindowAggState) -> Result<()> {
        self.0.memoize(state)
    }

    fn get_range(&self, row: usize, rows: usize) -> Result<Range<usize>> {
        self.0.get_range(row, rows)
    }

    fn is_causal(&self) -> bool {
        self.0.is_causal()
    }

    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        signed_array(&self.0.evaluate_all(values, rows)?)
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        signed_value(&self.0.evaluate(values, range)?)
    }

    fn evaluate_all_with_rank(&self, rows: usize, ranks: &[Range<usize>]) -> Result<ArrayRef> {
        signed_array(&self.0.evaluate_all_with_rank(rows, ranks)?)
    }

    fn supports_bounded_execution(&self) -> bool {
        self.0.supports_bounded_execution()
    }

    fn uses_window_frame(&self) -> bool {
        self.0.uses_window_frame()
    }

    fn include_rank(&self) -> bool {
        self.0.include_rank()
    }
}
