//! What functions are in windows: the same functions, with accumulators that are made for frames that grow and move.
//!
//! - No frame costs more than n log n in the rows of a partition: medians and quantiles keep their values in order
//!   ([`ranks`]), aggregates of DISTINCT values know how often each is there. DataFusion's go through all values of
//!   the frame for each row, or cannot be taken over frames that move.
//! - What is made of sums is folded from the rows of a frame and no others ([`fold`]).
//! - All look whether their statement is wanted ([`looking`]).
//!
//! [`ForWindows`] puts them in the place of the functions in windows, under the same names. Elsewhere functions are as
//! they were: an aggregate of a group is asked for once.

mod fold;
mod looking;
mod once;
mod quantile;
mod ranks;

use super::exact;
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{WindowFunctionDefinition, WindowFunctionParams};
use datafusion::logical_expr::function::{
    AccumulatorArgs, ExpressionArgs, PartitionEvaluatorArgs, StateFieldsArgs, WindowUDFFieldArgs,
};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Expr, GroupsAccumulator, LimitEffect,
    LogicalPlan, PartitionEvaluator, ReversedUDAF, ReversedUDWF, Signature, WindowUDF, WindowUDFImpl,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr::PhysicalExpr;
pub(super) use fold::{Fold, Spread};
use looking::{LookingAccumulator, LookingEvaluator};
use once::Once;
use std::ops::Range;
use std::sync::Arc;

/// Must run after the rules that know functions by more than their names.
#[derive(Debug)]
pub(crate) struct ForWindows;

impl AnalyzerRule for ForWindows {
    fn name(&self) -> &str {
        "for_windows"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let change = |plan: LogicalPlan| match plan {
            LogicalPlan::Window(_) => {
                plan.map_expressions(|expr| expr.transform_up(|expr| Ok(replace(expr))))
            }
            other => Ok(Transformed::no(other)),
        };
        Ok(plan.transform_up_with_subqueries(change)?.data)
    }
}

fn replace(mut expr: Expr) -> Transformed<Expr> {
    let Expr::WindowFunction(call) = &mut expr else { return Transformed::no(expr) };
    let changed = match &mut call.fun {
        WindowFunctionDefinition::AggregateUDF(function) => {
            let ours = function.inner().is::<WindowedAggregate>();
            (!ours).then(|| *function = WindowedAggregate::over(function))
        }
        WindowFunctionDefinition::WindowUDF(function) => {
            let ours = function.inner().is::<WindowedFunction>();
            (!ours).then(|| *function = WindowedFunction::over(function))
        }
    };
    Transformed::new_transformed(expr, changed.is_some())
}

/// Calls what it is given with the frame of each row. Neither end of a frame is before that of the one before.
pub(crate) type Frames<'a> = &'a mut dyn FnMut(&mut dyn FnMut(Range<usize>));

/// A function that can be asked for the frames of all rows at once.
#[derive(Clone)]
pub(crate) struct Framed(By);

#[derive(Clone)]
enum By {
    Fold(Arc<dyn fold::Foldable>),
    Median,
}

impl Framed {
    /// The aggregate `name`, without DISTINCT and the like, of arguments of these types; `None` where it cannot be asked
    /// so.
    pub(crate) fn of(name: &str, types: &[DataType]) -> Option<Self> {
        if let ("median", [DataType::Int64 | DataType::Float32 | DataType::Float64]) = (name, types) {
            return Some(Self(By::Median));
        }
        fold::foldable(name, &types.iter().collect::<Vec<_>>()).map(|function| Self(By::Fold(function)))
    }

    /// What it is of the rows of each frame.
    pub(crate) fn over(&self, values: &[ArrayRef], frames: Frames<'_>) -> Result<ArrayRef> {
        match (&self.0, values) {
            (By::Fold(function), values) => function.over(values, frames),
            (By::Median, [values]) => match quantile::medians(values, frames) {
                Some(medians) => Ok(medians),
                None => internal_err!("no medians of {}", values.data_type()),
            },
            (By::Median, _) => internal_err!("a median has one argument"),
        }
    }
}

impl std::fmt::Debug for Framed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if matches!(self.0, By::Median) { "Framed(median)" } else { "Framed(fold)" })
    }
}

/// The error of what only aggregates outside of windows are asked for.
fn no_state() -> Result<Vec<ScalarValue>> {
    internal_err!("an accumulator of windows has no state")
}

/// An aggregate as it is in windows.
#[derive(Debug, PartialEq, Eq, Hash)]
struct WindowedAggregate(Arc<AggregateUDF>);

impl WindowedAggregate {
    fn over(theirs: &Arc<AggregateUDF>) -> Arc<AggregateUDF> {
        Arc::new(Self(Arc::clone(theirs)).into())
    }

    /// The accumulator that takes the place of the function's; `moves` where values leave the frame.
    fn ours(&self, args: &AccumulatorArgs<'_>, moves: bool) -> Result<Option<Box<dyn Accumulator>>> {
        let types: Vec<&DataType> = args.expr_fields.iter().map(|field| field.data_type()).collect();
        let Some(of) = types.first().copied() else { return Ok(None) };
        let whole = !args.order_bys.is_empty() || args.ignore_nulls;
        if !whole
            && !args.is_distinct
            && let Some(ours) = fold::folding(self.0.name(), &types, moves)
        {
            return Ok(Some(ours));
        }
        match self.0.name() {
            // Its order says from which end the part counts.
            "percentile_cont" => {
                // It says what is wrong with the part.
                self.0.accumulator(args.clone())?;
                let part = super::quantile::part(args)?;
                Ok(part.and_then(|part| quantile::quantile(of, part, args.is_distinct)))
            }
            _ if whole => Ok(None),
            "median" => Ok(quantile::median(of, args.is_distinct)),
            name if args.is_distinct && *of == DataType::Float64 => Ok(exact::distinct(name)),
            "sum" | "avg" | "bit_xor" if args.is_distinct && of.is_decimal() | of.is_integer() => {
                let all = self
                    .0
                    .create_sliding_accumulator(AccumulatorArgs { is_distinct: false, ..args.clone() })?;
                Ok(all.supports_retract_batch().then(|| Box::new(Once::over(all)) as _))
            }
            _ => Ok(None),
        }
    }

    fn looking(&self, args: &AccumulatorArgs<'_>, of: Box<dyn Accumulator>) -> Box<dyn Accumulator> {
        let settles = args.is_distinct || self.0.name() == "count_distinct";
        let floats = args.expr_fields.iter().any(|field| field.data_type().is_floating());
        Box::new(LookingAccumulator::over(of, settles && floats))
    }
}

impl AggregateUDFImpl for WindowedAggregate {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn window_function_schema_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.0.window_function_schema_name(params)
    }

    fn window_function_display_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.0.window_function_display_name(params)
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.return_type(types)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        self.0.return_field(fields)
    }

    fn is_nullable(&self) -> bool {
        self.0.is_nullable()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.0.coerce_types(types)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.0.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let accumulator = match self.ours(&args, false)? {
            Some(ours) => ours,
            None => self.0.accumulator(args.clone())?,
        };
        Ok(self.looking(&args, accumulator))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let accumulator = match self.ours(&args, true)? {
            Some(ours) => ours,
            None => self.0.create_sliding_accumulator(args.clone())?,
        };
        Ok(self.looking(&args, accumulator))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.0.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        self.0.create_groups_accumulator(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.0.order_sensitivity()
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        beneficial: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let theirs = self.0.as_ref().clone().with_beneficial_ordering(beneficial)?;
        Ok(theirs.map(|theirs| Arc::new(Self(Arc::new(theirs))) as _))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.0.reverse_udf() {
            // Over rows that come backwards DataFusion 55.2 has it put its list together backwards.
            _ if self.name() == "array_agg" => ReversedUDAF::NotSupported,
            ReversedUDAF::Reversed(theirs) => ReversedUDAF::Reversed(Self::over(&theirs)),
            other => other,
        }
    }

    fn is_descending(&self) -> Option<bool> {
        self.0.is_descending()
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.0.default_value(data_type)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.0.supports_null_handling_clause()
    }

    fn supports_within_group_clause(&self) -> bool {
        self.0.supports_within_group_clause()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }

    // No `set_monotonicity`: DataFusion 55.2 goes by it for frames that are empty at first too, and takes the NULLs of
    // those for the last in the order.
}

/// A function of windows that looks.
#[derive(Debug, PartialEq, Eq, Hash)]
struct WindowedFunction(Arc<WindowUDF>);

impl WindowedFunction {
    fn over(theirs: &Arc<WindowUDF>) -> Arc<WindowUDF> {
        Arc::new(Self(Arc::clone(theirs)).into())
    }
}

impl WindowUDFImpl for WindowedFunction {
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
        // DataFusion 55.2 counts wrong when it goes from row to row, and right when it has the whole partition.
        let whole = args.ignore_nulls() && matches!(self.name(), "lag" | "lead");
        Ok(Box::new(LookingEvaluator::over(self.0.partition_evaluator_factory(args)?, whole)))
    }

    // No `simplify`: it would put the function itself in the place of this one.

    fn field(&self, args: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        self.0.field(args)
    }

    fn sort_options(&self) -> Option<SortOptions> {
        self.0.sort_options()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.0.coerce_types(types)
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        match self.0.reverse_expr() {
            ReversedUDWF::Reversed(theirs) => ReversedUDWF::Reversed(Self::over(&theirs)),
            other => other,
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }

    fn limit_effect(&self, args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.0.inner().limit_effect(args)
    }
}

#[cfg(test)]
mod tests;
