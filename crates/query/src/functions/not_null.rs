//! `first_value`, `last_value` and `nth_value` with IGNORE NULLS, as window functions.
//!
//! DataFusion's look through the whole frame of each row for the values that are there, which is quadratic over a frame
//! that grows. Here the places of these values are found once, and each row searches them. Without IGNORE NULLS
//! they are DataFusion's.

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::functions_window::nth_value::{first_value_udwf, last_value_udwf, nth_value_udwf};
use datafusion::logical_expr::function::{ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::window_state::WindowAggState;
use datafusion::logical_expr::{
    Documentation, LimitEffect, PartitionEvaluator, ReversedUDWF, Signature, WindowUDF, WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use std::ops::Range;
use std::sync::Arc;

/// Which of the values that are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Which {
    First,
    Last,
    Nth,
}

/// The functions, in the places of DataFusion's.
pub(super) fn all() -> [WindowUDF; 3] {
    [Which::First, Which::Last, Which::Nth].map(|which| NotNull::new(which).into())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NotNull {
    which: Which,
    inner: Arc<WindowUDF>,
}

impl NotNull {
    fn new(which: Which) -> Self {
        let inner = match which {
            Which::First => first_value_udwf(),
            Which::Last => last_value_udwf(),
            Which::Nth => nth_value_udwf(),
        };
        Self { which, inner }
    }
}

impl WindowUDFImpl for NotNull {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn expressions(&self, args: ExpressionArgs<'_>) -> Vec<Arc<dyn PhysicalExpr>> {
        self.inner.expressions(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn field(&self, args: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.field(args)
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs<'_>) -> Result<Box<dyn PartitionEvaluator>> {
        if !args.ignore_nulls() {
            return self.inner.partition_evaluator_factory(args);
        }
        let nth = match self.which {
            Which::First => 1,
            Which::Last => -1,
            Which::Nth => match number(args.input_exprs().get(1)) {
                Some(nth) if args.is_reversed() => -nth,
                Some(nth) => nth,
                None => return exec_err!("the second argument of nth_value is a whole number"),
            },
        };
        Ok(Box::new(Evaluator { nth, places: None, settled: None }))
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        let which = match self.which {
            Which::First => Which::Last,
            Which::Last => Which::First,
            Which::Nth => Which::Nth,
        };
        ReversedUDWF::Reversed(Arc::new(Self::new(which).into()))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn limit_effect(&self, args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.inner.inner().limit_effect(args)
    }
}

/// A whole number.
fn number(expr: Option<&Arc<dyn PhysicalExpr>>) -> Option<i64> {
    match expr?.downcast_ref::<Literal>()?.value().cast_to(&DataType::Int64).ok()? {
        ScalarValue::Int64(number) => number,
        _ => None,
    }
}

/// The values of one partition.
#[derive(Debug)]
struct Evaluator {
    /// The first is 1, the last is -1.
    nth: i64,
    /// Where the values are that are there, of these.
    places: Option<(ArrayRef, Vec<usize>)>,
    /// What frames that only grow have come to, of rows that are no longer kept.
    settled: Option<ScalarValue>,
}

impl Evaluator {
    fn places(&mut self, values: &ArrayRef) -> &[usize] {
        let known = self.places.take().filter(|(of, _)| Arc::ptr_eq(of, values));
        let (_, places) = self.places.insert(known.unwrap_or_else(|| {
            let places = match values.nulls() {
                Some(nulls) => nulls.valid_indices().collect(),
                None => (0..values.len()).collect(),
            };
            (Arc::clone(values), places)
        }));
        places
    }
}

impl PartitionEvaluator for Evaluator {
    fn evaluate(&mut self, values: &[ArrayRef], frame: &Range<usize>) -> Result<ScalarValue> {
        if let Some(settled) = self.settled.as_ref().filter(|_| self.nth > 0) {
            return Ok(settled.clone());
        }
        let nth = self.nth;
        let places = self.places(&values[0]);
        let begin = places.partition_point(|place| *place < frame.start);
        let places = &places[begin..places.partition_point(|place| *place < frame.end).max(begin)];
        let steps = usize::try_from(nth.unsigned_abs()).unwrap_or(usize::MAX);
        let at = match nth > 0 {
            true => Some(steps - 1),
            false => places.len().checked_sub(steps),
        };
        let place = at.and_then(|at| places.get(at)).copied();
        match (place, &self.settled) {
            (Some(place), _) => ScalarValue::try_from_array(&values[0], place),
            (None, Some(settled)) => Ok(settled.clone()),
            (None, None) => ScalarValue::try_from(values[0].data_type()),
        }
    }

    /// Called where frames only grow: lets go of rows that no later frame needs to be looked through for.
    fn memoize(&mut self, state: &mut WindowAggState) -> Result<()> {
        // Those before the last may come to be wanted when values follow.
        let prunes = self.nth >= -1;
        let newest = state.out_col.len().checked_sub(1).filter(|_| prunes);
        if let Some(newest) = newest.filter(|newest| state.out_col.is_valid(*newest)) {
            self.settled = Some(ScalarValue::try_from_array(&state.out_col, newest)?);
        }
        // Without a value so far, the first is still to come, but the second may follow one that is here.
        if self.settled.is_some() || matches!(self.nth, 1 | -1) {
            let frame = &mut state.window_frame_range;
            frame.start = frame.end.saturating_sub(1).max(frame.start);
        }
        Ok(())
    }

    fn supports_bounded_execution(&self) -> bool {
        true
    }

    fn uses_window_frame(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
