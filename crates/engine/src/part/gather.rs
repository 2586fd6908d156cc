//! One column of all batches, in arrival order.

use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{Array, ArrayRef, BooleanArray, FixedSizeBinaryArray, PrimitiveArray};
use std::borrow::Cow;
use tickstone_model::RowBatch;

/// Values of a column by arrival, and which of them are there (`None`: all).
pub(super) struct Gathered<'a, T: Clone> {
    pub(super) values: Cow<'a, [T]>,
    pub(super) valid: Option<Vec<bool>>,
}

fn arrays(batches: &[RowBatch], column: usize) -> impl Iterator<Item = &ArrayRef> + Clone {
    batches.iter().map(move |batch| &batch.columns()[column])
}

/// Which values are there, `None` where all are.
fn validity(batches: &[RowBatch], column: usize) -> Option<Vec<bool>> {
    if arrays(batches, column).all(|array| array.null_count() == 0) {
        return None;
    }
    let mut valid = Vec::with_capacity(batches.iter().map(RowBatch::rows).sum());
    for array in arrays(batches, column) {
        match array.nulls() {
            Some(nulls) => valid.extend(nulls.iter()),
            None => valid.resize(valid.len() + array.len(), true),
        }
    }
    Some(valid)
}

/// The stored type of a column is checked when a batch is made.
const TYPED: &str = "a row batch holds its columns' stored types";

/// Numbers of every kind.
pub(super) fn primitive<A: ArrowPrimitiveType>(
    batches: &[RowBatch],
    column: usize,
) -> Gathered<'_, A::Native> {
    let mut sources = batches.iter().map(|batch| {
        let array: &PrimitiveArray<A> = batch.columns()[column].as_any().downcast_ref().expect(TYPED);
        &array.values()[..]
    });
    let values = match (batches.len(), sources.next()) {
        (1, Some(only)) => Cow::Borrowed(only),
        (_, first) => {
            let mut all = Vec::with_capacity(batches.iter().map(RowBatch::rows).sum());
            first.into_iter().chain(sources).for_each(|values| all.extend_from_slice(values));
            Cow::Owned(all)
        }
    };
    Gathered { values, valid: validity(batches, column) }
}

/// Booleans.
pub(super) fn booleans(batches: &[RowBatch], column: usize) -> Gathered<'_, bool> {
    let mut values = Vec::with_capacity(batches.iter().map(RowBatch::rows).sum());
    for array in arrays(batches, column) {
        let array: &BooleanArray = array.as_any().downcast_ref().expect(TYPED);
        values.extend(array.values().iter());
    }
    Gathered { values: Cow::Owned(values), valid: validity(batches, column) }
}

/// UUIDs.
pub(super) fn sixteen_bytes(batches: &[RowBatch], column: usize) -> Gathered<'_, [u8; 16]> {
    let mut values = Vec::with_capacity(batches.iter().map(RowBatch::rows).sum());
    for array in arrays(batches, column) {
        let array: &FixedSizeBinaryArray = array.as_any().downcast_ref().expect(TYPED);
        values.extend((0..array.len()).map(|row| <[u8; 16]>::try_from(array.value(row)).unwrap_or_default()));
    }
    Gathered { values: Cow::Owned(values), valid: validity(batches, column) }
}

/// Strings and binary, as bytes; a NULL is empty.
pub(super) fn bytes(batches: &[RowBatch], column: usize) -> Gathered<'_, &[u8]> {
    let mut values: Vec<&[u8]> = Vec::with_capacity(batches.iter().map(RowBatch::rows).sum());
    for array in arrays(batches, column) {
        let any = array.as_any();
        let empty_if_null = |row: usize, value| if array.is_null(row) { &[][..] } else { value };
        if let Some(array) = any.downcast_ref::<arrow_array::StringArray>() {
            values.extend((0..array.len()).map(|row| empty_if_null(row, array.value(row).as_bytes())));
        } else if let Some(array) = any.downcast_ref::<arrow_array::BinaryArray>() {
            values.extend((0..array.len()).map(|row| empty_if_null(row, array.value(row))));
        }
    }
    Gathered { values: Cow::Owned(values), valid: validity(batches, column) }
}
