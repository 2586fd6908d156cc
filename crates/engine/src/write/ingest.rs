//! From what a caller hands in to checked rows in stored types.
//!
//! Columns are matched by name in any case; a missing one is NULL. A SYMBOL may come as any Arrow
//! string or dictionary of strings; every other column must have its edge type already (the query
//! layer casts).

use crate::store::dictionary::Dictionary;
use crate::{EngineError, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, Decimal128Type, Int8Type, Int16Type, Int32Type, Int64Type, Time64NanosecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, DictionaryArray, RecordBatch, UInt32Array, new_null_array};
use arrow_schema::DataType;
use std::sync::Arc;
use tickstone_model::{Column, ColumnType, ModelError, RowBatch, SymbolId, TableSchema, is_same_name};

/// Rows of a table in stored types; symbols not seen before get ids.
///
/// # Errors
/// [`EngineError::Model`] where a column does not fit or the designated timestamp is NULL,
/// [`EngineError::TooManySymbols`]. Symbols may have been added to the dictionaries; that is harmless.
pub(crate) fn to_rows(
    schema: &Arc<TableSchema>,
    dictionaries: &[Option<Arc<Dictionary>>],
    rows: &RecordBatch,
) -> Result<RowBatch> {
    for field in rows.schema_ref().fields() {
        if schema.column_index(field.name()).is_none() {
            let column = field.name().clone();
            let expected = format!("a column of '{}'", schema.name());
            return Err(
                ModelError::BatchColumn { column, expected, found: "none of that name".to_string() }.into()
            );
        }
    }
    let given = |column: &Column| {
        let fields = rows.schema_ref().fields();
        let exact = fields.iter().position(|field| *field.name() == column.name);
        exact.or_else(|| fields.iter().position(|field| is_same_name(field.name(), &column.name)))
    };
    let mut columns = Vec::with_capacity(schema.columns().len());
    for (column, dictionary) in schema.columns().iter().zip(dictionaries) {
        columns.push(match (given(column), dictionary) {
            (None, _) => new_null_array(&column.column_type.stored_type(), rows.num_rows()),
            (Some(index), Some(dictionary)) => intern_column(schema, column, dictionary, rows.column(index))?,
            (Some(index), None) => {
                check_times_of_day(column, rows.column(index))?;
                check_digits(column, rows.column(index))?;
                Arc::clone(rows.column(index))
            }
        });
    }
    Ok(RowBatch::new(Arc::clone(schema), columns)?)
}

/// Refuses times of day, and arrays of them, past the end of the day: nothing could show them.
fn check_times_of_day(column: &Column, array: &ArrayRef) -> Result<()> {
    const DAY: i64 = 86_400_000_000_000;
    let times = match array.as_list_opt::<i32>() {
        Some(lists) => lists.values(),
        None => array,
    };
    let Some(times) = times.as_primitive_opt::<Time64NanosecondType>() else { return Ok(()) };
    match times.iter().flatten().find(|time| !(0..DAY).contains(time)) {
        None => Ok(()),
        Some(time) => {
            let expected = "times from 00:00 to 23:59:59.999999999".to_string();
            let found = format!("{time} ns after midnight");
            Err(ModelError::BatchColumn { column: column.name.clone(), expected, found }.into())
        }
    }
}

/// Refuses DECIMALs, and arrays of them, of more digits than their type has: they would be shown without some.
fn check_digits(column: &Column, array: &ArrayRef) -> Result<()> {
    let numbers = match array.as_list_opt::<i32>() {
        Some(lists) => lists.values(),
        None => array,
    };
    let Some(numbers) = numbers.as_primitive_opt::<Decimal128Type>() else { return Ok(()) };
    let (precision, scale) = (numbers.precision(), numbers.scale());
    let most = 10_i128.pow(precision.into());
    match numbers.iter().flatten().find(|number| !(-most < *number && *number < most)) {
        None => Ok(()),
        Some(number) => {
            let expected = format!("values of DECIMAL({precision},{scale})");
            let found = format!("the {number} of 10^-{scale}, which has more digits");
            Err(ModelError::BatchColumn { column: column.name.clone(), expected, found }.into())
        }
    }
}

/// The ids of a SYMBOL column's strings, new ones where needed.
///
/// # Errors
/// As [`to_rows`].
pub(crate) fn intern_column(
    schema: &TableSchema,
    column: &Column,
    dictionary: &Dictionary,
    array: &ArrayRef,
) -> Result<ArrayRef> {
    let ids = match array.data_type() {
        DataType::Utf8 => dictionary.intern(array.as_string::<i32>().iter()).map(UInt32Array::from),
        DataType::LargeUtf8 => dictionary.intern(array.as_string::<i64>().iter()).map(UInt32Array::from),
        DataType::Utf8View => dictionary.intern(array.as_string_view().iter()).map(UInt32Array::from),
        DataType::Null => Ok(UInt32Array::new_null(array.len())),
        DataType::Dictionary(key, value) if is_text(value) => match key.as_ref() {
            DataType::Int8 => intern_dictionary::<Int8Type>(dictionary, array),
            DataType::Int16 => intern_dictionary::<Int16Type>(dictionary, array),
            DataType::Int32 => intern_dictionary::<Int32Type>(dictionary, array),
            DataType::Int64 => intern_dictionary::<Int64Type>(dictionary, array),
            DataType::UInt8 => intern_dictionary::<UInt8Type>(dictionary, array),
            DataType::UInt16 => intern_dictionary::<UInt16Type>(dictionary, array),
            DataType::UInt32 => intern_dictionary::<UInt32Type>(dictionary, array),
            _ => intern_dictionary::<UInt64Type>(dictionary, array),
        },
        other => {
            let expected = ColumnType::Symbol.to_string();
            let error =
                ModelError::BatchColumn { column: column.name.clone(), expected, found: other.to_string() };
            return Err(error.into());
        }
    };
    let ids = ids.map_err(|most| EngineError::TooManySymbols {
        table: schema.name().to_string(),
        column: column.name.clone(),
        most,
    })?;
    Ok(Arc::new(ids))
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Interns only the values that rows refer to, each once.
fn intern_dictionary<K: ArrowDictionaryKeyType>(
    dictionary: &Dictionary,
    array: &ArrayRef,
) -> std::result::Result<UInt32Array, u32> {
    let array: &DictionaryArray<K> = array.as_dictionary();
    let mut used = vec![false; array.values().len()];
    array.keys_iter().flatten().for_each(|key| used[key] = true);
    let values = array.values();
    let text = |index: usize| -> Option<&str> {
        (used[index] && values.is_valid(index)).then(|| match values.data_type() {
            DataType::Utf8 => values.as_string::<i32>().value(index),
            DataType::LargeUtf8 => values.as_string::<i64>().value(index),
            _ => values.as_string_view().value(index),
        })
    };
    let ids: Vec<Option<SymbolId>> = dictionary.intern((0..values.len()).map(text))?;
    Ok(array.keys_iter().map(|key| key.and_then(|key| ids[key])).collect())
}

#[cfg(test)]
mod tests;
