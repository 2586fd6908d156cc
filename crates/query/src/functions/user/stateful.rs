//! Aggregates with a state a group.

use super::{AggregateState, Function, NullHandling};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use datafusion::arrow::compute::{filter, sum};
use datafusion::arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;
use std::fmt;
use std::sync::Arc;

/// The types of what states are merged by: how many rows are in one, then its own.
pub(super) fn state_types(own: &[DataType]) -> Vec<DataType> {
    std::iter::once(DataType::UInt64).chain(own.iter().cloned()).collect()
}

/// One group.
pub(super) struct Stateful {
    function: Arc<Function>,
    state: Box<dyn AggregateState>,
    /// Rows it was given.
    rows: u64,
}

impl Stateful {
    pub(super) fn new(function: &Arc<Function>, state: Box<dyn AggregateState>) -> Self {
        Self { function: Arc::clone(function), state, rows: 0 }
    }

    /// Whether the function is asked about this many rows.
    fn is_asked(&self, rows: u64) -> bool {
        rows > 0 || self.function.nulls == NullHandling::Special
    }
}

impl fmt::Debug for Stateful {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "state of {:?} after {} rows", self.function, self.rows)
    }
}

fn filtered(arrays: &[ArrayRef], keep: &BooleanArray) -> Result<Vec<ArrayRef>> {
    arrays.iter().map(|array| Ok(filter(array, keep)?)).collect()
}

impl Accumulator for Stateful {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let counted = self.function.counted(values);
        let kept = counted.map(|counted| filtered(values, &BooleanArray::new(counted.inner().clone(), None)));
        let kept = kept.transpose()?;
        let values = kept.as_deref().unwrap_or(values);
        let rows = values.first().map_or(0, |values| values.len());
        if rows == 0 {
            return Ok(());
        }
        self.rows += rows as u64;
        self.state.update(values).map_err(|source| self.function.failed(source))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if !self.is_asked(self.rows) {
            return ScalarValue::try_from(self.function.signature.returns());
        }
        let value = self.function.checked(self.state.finish(), 1)?;
        ScalarValue::try_from_array(&value, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.state.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let own = self.state.state().map_err(|source| self.function.failed(source))?;
        let own = own.iter().map(|value| match value.len() {
            1 => ScalarValue::try_from_array(value, 0),
            other => {
                exec_err!("the state of function '{}' holds {other} values, not one", self.function.name())
            }
        });
        std::iter::once(Ok(ScalarValue::UInt64(Some(self.rows)))).chain(own).collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [rows, own @ ..] = states else { return exec_err!("a state has no columns") };
        let rows = rows.as_primitive::<UInt64Type>();
        let asked: BooleanArray = rows.iter().map(|rows| Some(self.is_asked(rows.unwrap_or(0)))).collect();
        if asked.true_count() == 0 {
            return Ok(());
        }
        self.rows += sum(rows).unwrap_or(0);
        self.state.merge(&filtered(own, &asked)?).map_err(|source| self.function.failed(source))
    }
}
