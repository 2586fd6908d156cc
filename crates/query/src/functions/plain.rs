//! Aggregates of doubles that need no more than one state a group, without kernels of their own.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Signature, Volatility};
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What such an aggregate is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plain {
    pub(super) name: &'static str,
    pub(super) aliases: &'static [&'static str],
    /// How many arguments: a double, then a time.
    pub(super) columns: usize,
    /// Whether the time may be left out: the planner adds it.
    pub(super) hides_time: bool,
    pub(super) state: &'static [(&'static str, DataType)],
    pub(super) begin: fn() -> Box<dyn PlainState>,
}

/// The state of one group.
pub(super) trait PlainState: Debug + Send + Sync {
    /// Takes in rows.
    fn update(&mut self, values: &[ArrayRef]) -> Result<()>;
    /// The aggregate of all rows so far.
    fn evaluate(&self) -> Result<ScalarValue>;
    /// What [`Self::merge`] takes, a value for each field of the state.
    fn state(&self) -> Result<Vec<ScalarValue>>;
    /// Takes in another state, of later rows.
    fn merge(&mut self, state: &[ScalarValue]);
    /// Bytes it holds beside itself.
    fn size(&self) -> usize {
        0
    }
}

/// An argument as doubles.
pub(super) fn doubles(values: &[ArrayRef], at: usize) -> Result<&Float64Array> {
    match values.get(at).and_then(|values| values.as_primitive_opt::<Float64Type>()) {
        Some(values) => Ok(values),
        None => exec_err!("argument {} is no double", at + 1),
    }
}

/// The function.
#[derive(Debug)]
pub(super) struct PlainAggregate {
    of: Plain,
    aliases: Vec<String>,
    signature: Signature,
}

impl PlainAggregate {
    pub(super) fn new(of: Plain) -> Self {
        let aliases = of.aliases.iter().map(ToString::to_string).collect();
        Self { of, aliases, signature: Signature::user_defined(Volatility::Immutable) }
    }
}

// The name says all.
impl PartialEq for PlainAggregate {
    fn eq(&self, other: &Self) -> bool {
        self.of.name == other.of.name
    }
}

impl Eq for PlainAggregate {}

impl Hash for PlainAggregate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.of.name.hash(state);
    }
}

impl AggregateUDFImpl for PlainAggregate {
    fn name(&self) -> &str {
        self.of.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match (types, self.of.columns) {
            ([_], 1) => Ok(vec![DataType::Float64]),
            ([_, time], 2) => match super::first_last::time_type(time) {
                Some(time) => Ok(vec![DataType::Float64, time]),
                None => plan_err!("the second argument of {} is a timestamp, not {time}", self.of.name),
            },
            ([_], 2) if self.of.hides_time => Ok(vec![DataType::Float64]),
            _ => plan_err!("{} takes {} arguments, not {}", self.of.name, self.of.columns, types.len()),
        }
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |(name, data_type): &(&str, DataType)| {
            Arc::new(Field::new(format_state_name(args.name, name), data_type.clone(), true))
        };
        Ok(self.of.state.iter().map(field).collect())
    }

    fn accumulator(&self, _args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(One((self.of.begin)())))
    }
}

#[derive(Debug)]
struct One(Box<dyn PlainState>);

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.0.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let groups = states.first().map_or(0, |state| state.len());
        for group in 0..groups {
            let state: Result<Vec<ScalarValue>> =
                states.iter().map(|state| ScalarValue::try_from_array(state, group)).collect();
            self.0.merge(&state?);
        }
        Ok(())
    }
}
