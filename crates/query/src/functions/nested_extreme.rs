//! `min(x)` and `max(x)` of structs and lists: by their first field or element that differs, NULL as the greatest, as
//! ORDER BY has them and DuckDB.
//!
//! DataFusion 55.2 compares no value with one that has a NULL in it, and keeps the first.

use datafusion::arrow::array::{Array, ArrayRef, make_comparator};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;
use std::cmp::Ordering;

/// NULLs behind all values.
const ORDER: SortOptions = SortOptions { descending: false, nulls_first: false };

/// The extreme of the values of one group.
#[derive(Debug)]
pub(super) struct NestedExtreme {
    wanted: Ordering,
    /// NULL where there is none yet.
    value: ScalarValue,
}

impl NestedExtreme {
    /// `max` or `min` of values of this type.
    ///
    /// # Errors
    /// Where there are no values of it.
    pub(super) fn new(largest: bool, of: &DataType) -> Result<Self> {
        let wanted = if largest { Ordering::Greater } else { Ordering::Less };
        Ok(Self { wanted, value: ScalarValue::try_from(of)? })
    }
}

impl Accumulator for NestedExtreme {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [values] = values else {
            return exec_err!("min and max take one argument, not {}", values.len());
        };
        let compare = make_comparator(values, values, ORDER)?;
        let counted = (0..values.len()).filter(|row| values.is_valid(*row));
        let best = counted.reduce(|best, row| if compare(row, best) == self.wanted { row } else { best });
        let Some(best) = best else { return Ok(()) };
        let held = self.value.to_array()?;
        if self.value.is_null() || make_comparator(values, &held, ORDER)?(best, 0) == self.wanted {
            // Not a view of the batch, which would stay.
            self.value = ScalarValue::try_from_array(values, best)?.compacted();
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.value.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone()])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}
