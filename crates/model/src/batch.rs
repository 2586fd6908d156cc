//! Rows of one table in memory, in the engine's stored types.

use crate::{ModelError, Result, TableSchema, with_one_nan};
use arrow_array::{Array, ArrayRef, ListArray, RecordBatch, TimestampNanosecondArray, UInt32Array};
use std::sync::Arc;

/// Rows of one table, column by column, in stored types (a SYMBOL is its id), in arrival order.
///
/// Invariants, checked when made: one array a column, of the column's stored type, all of one
/// length; no NULL in the designated timestamp, and not `i64::MAX`, which no half-open range of time holds. Every NaN
/// is the one of [`with_one_nan`], which [`Self::new`] sees to.
#[derive(Debug, Clone)]
pub struct RowBatch {
    schema: Arc<TableSchema>,
    columns: Vec<ArrayRef>,
    rows: usize,
}

impl RowBatch {
    /// Rows of `schema`; `columns` in its order.
    ///
    /// # Errors
    /// [`ModelError::BatchWidth`], [`ModelError::BatchColumn`], [`ModelError::NullTimestamp`] or
    /// [`ModelError::LastInstant`] where an invariant does not hold.
    pub fn new(schema: Arc<TableSchema>, columns: Vec<ArrayRef>) -> Result<Self> {
        if columns.len() != schema.columns().len() {
            return Err(ModelError::BatchWidth { expected: schema.columns().len(), found: columns.len() });
        }
        let rows = columns[0].len();
        for (column, array) in schema.columns().iter().zip(&columns) {
            let expected = column.column_type.stored_type();
            if *array.data_type() != expected || array.len() != rows {
                return Err(ModelError::BatchColumn {
                    column: column.name.clone(),
                    expected: format!("{rows} values of {expected}"),
                    found: format!("{} values of {}", array.len(), array.data_type()),
                });
            }
        }
        if let Some(index) = schema.timestamp() {
            let times = &columns[index];
            if times.null_count() > 0 {
                let row = (0..rows).find(|&row| times.is_null(row)).unwrap_or_default();
                return Err(ModelError::NullTimestamp { column: schema.columns()[index].name.clone(), row });
            }
            let values = times.as_any().downcast_ref::<TimestampNanosecondArray>();
            let last = values.and_then(|times| times.values().iter().max());
            if let (Some(&i64::MAX), Some(values)) = (last, values) {
                let row = values.values().iter().position(|ts| *ts == i64::MAX).unwrap_or_default();
                return Err(ModelError::LastInstant { column: schema.columns()[index].name.clone(), row });
            }
        }
        let columns = columns.iter().map(with_one_nan).collect();
        Ok(Self { schema, columns, rows })
    }

    /// The table's schema.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// How many rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// All columns, in the schema's order.
    pub fn columns(&self) -> &[ArrayRef] {
        &self.columns
    }

    /// The designated timestamps (ns since the Unix epoch), `None` for a table without.
    pub fn times(&self) -> Option<&[i64]> {
        let array =
            self.columns[self.schema.timestamp()?].as_any().downcast_ref::<TimestampNanosecondArray>();
        array.map(|times| &times.values()[..])
    }

    /// The ids of a SYMBOL column, `None` for a column of another type.
    pub fn symbols(&self, column: usize) -> Option<&UInt32Array> {
        self.columns[column].as_any().downcast_ref()
    }

    /// Rows `[offset, offset + length)`, without copying.
    ///
    /// # Panics
    /// Where the rows are not all inside.
    #[must_use]
    pub fn slice(&self, offset: usize, length: usize) -> Self {
        let columns = self.columns.iter().map(|column| column.slice(offset, length)).collect();
        Self { schema: Arc::clone(&self.schema), columns, rows: length }
    }

    /// Bytes of memory that the rows take: of columns that are slices of others only their own.
    pub fn memory_bytes(&self) -> usize {
        self.columns.iter().map(values_bytes).sum()
    }

    /// The same rows as an Arrow record batch in stored types.
    ///
    /// # Errors
    /// Never for a batch made by [`Self::new`]; Arrow's own check stays in force.
    pub fn to_stored(&self) -> std::result::Result<RecordBatch, arrow_schema::ArrowError> {
        RecordBatch::try_new(Arc::clone(self.schema.stored()), self.columns.clone())
    }
}

/// Bytes of memory that the values of an array in a stored or edge type take: of a slice only its own.
pub fn values_bytes(array: &ArrayRef) -> usize {
    let Some(lists) = array.as_any().downcast_ref::<ListArray>() else {
        return array.to_data().get_slice_memory_size().unwrap_or(0);
    };
    // Arrow counts the elements of all rows, also of those that are not in the slice.
    let offsets = lists.value_offsets();
    let (first, last) = (offsets[0].cast_unsigned() as usize, offsets[lists.len()].cast_unsigned() as usize);
    let validity = lists.nulls().map_or(0, |nulls| nulls.len().div_ceil(8));
    size_of_val(offsets) + validity + values_bytes(&lists.values().slice(first, last - first))
}
