//! Rows from several batches in one array, with NULLs for what is missing.

use super::same_array;
use crate::scan::symbols_by_id;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, new_null_array};
use datafusion::arrow::compute::interleave;
use datafusion::arrow::datatypes::{DataType, UInt32Type};
use datafusion::error::Result;
use std::sync::Arc;

/// Stands for no array: the row is NULL.
pub(crate) const MISSING: usize = usize::MAX;

/// The rows named as (array, row), in that order; [`MISSING`] as the array gives NULL.
///
/// Dictionary arrays that share their values keep sharing them.
///
/// # Errors
/// Where Arrow cannot interleave the type.
pub(crate) fn gather(
    arrays: &[&ArrayRef],
    rows: &[(usize, usize)],
    data_type: &DataType,
) -> Result<ArrayRef> {
    if arrays.is_empty() {
        return Ok(new_null_array(data_type, rows.len()));
    }
    if let Some(values) = shared_values(arrays) {
        let keys: Vec<ArrayRef> = arrays
            .iter()
            .map(|array| Arc::new(array.as_dictionary::<UInt32Type>().keys().clone()) as ArrayRef)
            .collect();
        let keys = interleave_or_null(&keys.iter().collect::<Vec<_>>(), rows, &DataType::UInt32)?;
        return symbols_by_id(keys.as_primitive::<UInt32Type>(), values);
    }
    interleave_or_null(arrays, rows, data_type)
}

/// The values of dictionary arrays that all have the same.
fn shared_values(arrays: &[&ArrayRef]) -> Option<ArrayRef> {
    let first = arrays.first()?.as_dictionary_opt::<UInt32Type>()?.values();
    let shared = arrays.iter().skip(1).all(|array| {
        array.as_dictionary_opt::<UInt32Type>().is_some_and(|array| same_array(array.values(), first))
    });
    shared.then(|| Arc::clone(first))
}

fn interleave_or_null(
    arrays: &[&ArrayRef],
    rows: &[(usize, usize)],
    data_type: &DataType,
) -> Result<ArrayRef> {
    let mut all: Vec<&dyn Array> = arrays.iter().map(|array| array.as_ref()).collect();
    if rows.iter().all(|(array, _)| *array != MISSING) {
        return Ok(interleave(&all, rows)?);
    }
    let null = new_null_array(data_type, 1);
    all.push(null.as_ref());
    let rows: Vec<(usize, usize)> = rows
        .iter()
        .map(|&(array, row)| if array == MISSING { (arrays.len(), 0) } else { (array, row) })
        .collect();
    Ok(interleave(&all, &rows)?)
}
