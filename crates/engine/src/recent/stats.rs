//! Statistics of a column in memory, by one pass over it.

use crate::part::{ColumnStats, StatValue};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time64NanosecondType, TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, new_empty_array};
use arrow_schema::DataType;
use tickstone_model::ColumnType;

/// What is known of no rows of a column.
pub(crate) fn empty_stats(column_type: ColumnType) -> ColumnStats {
    array_stats(&new_empty_array(&column_type.stored_type()))
}

/// What is known of an array of a stored type; text, bytes and UUIDs keep only counts.
pub(super) fn array_stats(array: &ArrayRef) -> ColumnStats {
    match array.data_type() {
        DataType::Boolean => {
            let values = array.as_boolean().iter().flatten().map(i128::from);
            integers(array, values)
        }
        DataType::Int8 => of::<Int8Type>(array),
        DataType::Int16 => of::<Int16Type>(array),
        DataType::Int32 => of::<Int32Type>(array),
        DataType::Int64 => of::<Int64Type>(array),
        DataType::UInt8 => of::<UInt8Type>(array),
        DataType::UInt16 => of::<UInt16Type>(array),
        DataType::UInt32 => of::<UInt32Type>(array),
        DataType::UInt64 => of::<UInt64Type>(array),
        DataType::Date32 => of::<Date32Type>(array),
        DataType::Time64(_) => of::<Time64NanosecondType>(array),
        DataType::Timestamp(_, _) => of::<TimestampNanosecondType>(array),
        DataType::Decimal128(_, _) => of::<Decimal128Type>(array),
        DataType::Float32 => {
            floats(array, array.as_primitive::<Float32Type>().iter().flatten().map(f64::from))
        }
        DataType::Float64 => floats(array, array.as_primitive::<Float64Type>().iter().flatten()),
        _ => counts(array),
    }
}

fn counts(array: &ArrayRef) -> ColumnStats {
    let (rows, nulls) = (array.len() as u64, array.null_count() as u64);
    ColumnStats { rows, nulls, min: None, max: None, has_nan: false, sum: None }
}

fn of<T: ArrowPrimitiveType>(array: &ArrayRef) -> ColumnStats
where
    T::Native: Into<i128>,
{
    integers(array, array.as_primitive::<T>().iter().flatten().map(Into::into))
}

fn integers(array: &ArrayRef, values: impl Iterator<Item = i128>) -> ColumnStats {
    let (mut min, mut max, mut sum) = (i128::MAX, i128::MIN, Some(0_i128));
    for value in values {
        min = min.min(value);
        max = max.max(value);
        sum = sum.and_then(|sum| sum.checked_add(value));
    }
    let found = |value| (min <= max).then_some(StatValue::Int(value));
    ColumnStats { min: found(min), max: found(max), sum: sum.map(StatValue::Int), ..counts(array) }
}

fn floats(array: &ArrayRef, values: impl Iterator<Item = f64>) -> ColumnStats {
    let (mut min, mut max, mut sum, mut has_nan) = (f64::INFINITY, f64::NEG_INFINITY, 0.0, false);
    let mut any = false;
    for value in values {
        sum += value;
        if value.is_nan() {
            has_nan = true;
        } else {
            any = true;
            min = min.min(value);
            max = max.max(value);
        }
    }
    let found = |value| any.then_some(StatValue::Float(value));
    ColumnStats {
        min: found(min),
        max: found(max),
        has_nan,
        sum: Some(StatValue::Float(sum)),
        ..counts(array)
    }
}
