//! One column of all rows, in arrival order: of as many arrays as it came in.

use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{Array, ArrayRef, BooleanArray, FixedSizeBinaryArray, ListArray, PrimitiveArray};
use std::borrow::Cow;

/// Values of a column by arrival, and which of them are there (`None`: all).
pub(super) struct Gathered<'a, T: Clone> {
    pub(super) values: Cow<'a, [T]>,
    pub(super) valid: Option<Vec<bool>>,
}

fn rows(arrays: &[ArrayRef]) -> usize {
    arrays.iter().map(|array| array.len()).sum()
}

/// Which values are there, `None` where all are.
fn validity(arrays: &[ArrayRef]) -> Option<Vec<bool>> {
    if arrays.iter().all(|array| array.null_count() == 0) {
        return None;
    }
    let mut valid = Vec::with_capacity(rows(arrays));
    for array in arrays {
        match array.nulls() {
            Some(nulls) => valid.extend(nulls.iter()),
            None => valid.resize(valid.len() + array.len(), true),
        }
    }
    Some(valid)
}

/// The stored type of a column is checked when rows enter the engine, and by the part they are read from.
const TYPED: &str = "rows come in their columns' stored types";

/// Numbers of every kind.
pub(super) fn primitive<A: ArrowPrimitiveType>(arrays: &[ArrayRef]) -> Gathered<'_, A::Native> {
    let mut sources = arrays.iter().map(|array| {
        let array: &PrimitiveArray<A> = array.as_any().downcast_ref().expect(TYPED);
        &array.values()[..]
    });
    let values = match (arrays.len(), sources.next()) {
        (1, Some(only)) => Cow::Borrowed(only),
        (_, first) => {
            let mut all = Vec::with_capacity(rows(arrays));
            first.into_iter().chain(sources).for_each(|values| all.extend_from_slice(values));
            Cow::Owned(all)
        }
    };
    Gathered { values, valid: validity(arrays) }
}

/// Booleans.
pub(super) fn booleans(arrays: &[ArrayRef]) -> Gathered<'_, bool> {
    let mut values = Vec::with_capacity(rows(arrays));
    for array in arrays {
        let array: &BooleanArray = array.as_any().downcast_ref().expect(TYPED);
        values.extend(array.values().iter());
    }
    Gathered { values: Cow::Owned(values), valid: validity(arrays) }
}

/// UUIDs.
pub(super) fn sixteen_bytes(arrays: &[ArrayRef]) -> Gathered<'_, [u8; 16]> {
    let mut values = Vec::with_capacity(rows(arrays));
    for array in arrays {
        let array: &FixedSizeBinaryArray = array.as_any().downcast_ref().expect(TYPED);
        values.extend((0..array.len()).map(|row| <[u8; 16]>::try_from(array.value(row)).unwrap_or_default()));
    }
    Gathered { values: Cow::Owned(values), valid: validity(arrays) }
}

/// Strings and binary, as bytes; a NULL is empty.
pub(super) fn bytes(arrays: &[ArrayRef]) -> Gathered<'_, &[u8]> {
    let mut values: Vec<&[u8]> = Vec::with_capacity(rows(arrays));
    for array in arrays {
        let any = array.as_any();
        let empty_if_null = |row: usize, value| if array.is_null(row) { &[][..] } else { value };
        if let Some(array) = any.downcast_ref::<arrow_array::StringArray>() {
            values.extend((0..array.len()).map(|row| empty_if_null(row, array.value(row).as_bytes())));
        } else if let Some(array) = any.downcast_ref::<arrow_array::BinaryArray>() {
            values.extend((0..array.len()).map(|row| empty_if_null(row, array.value(row))));
        }
    }
    Gathered { values: Cow::Owned(values), valid: validity(arrays) }
}

/// The rows of a column of arrays, in arrival order.
pub(super) struct Lists {
    /// The place of each one's first element among the elements of all.
    pub(super) starts: Vec<usize>,
    /// How many elements each has; a NULL has none.
    pub(super) lengths: Vec<u32>,
    /// Which are there, `None` where all are.
    pub(super) valid: Option<Vec<bool>>,
}

/// Arrays, and their elements in as many arrays as they came in.
pub(super) fn lists(arrays: &[ArrayRef]) -> (Lists, Vec<ArrayRef>) {
    let (mut starts, mut lengths) = (Vec::with_capacity(rows(arrays)), Vec::with_capacity(rows(arrays)));
    let (mut elements, mut before) = (Vec::with_capacity(arrays.len()), 0);
    for array in arrays {
        let array: &ListArray = array.as_any().downcast_ref().expect(TYPED);
        let offsets = array.value_offsets();
        let (first, last) = (offsets[0], offsets[array.len()]);
        let size = |from: i32, to: i32| (to - from).cast_unsigned();
        for (row, ends) in offsets.windows(2).enumerate() {
            starts.push(before + size(first, ends[0]) as usize);
            lengths.push(if array.is_null(row) { 0 } else { size(ends[0], ends[1]) });
        }
        before += size(first, last) as usize;
        elements.push(array.values().slice(first.cast_unsigned() as usize, size(first, last) as usize));
    }
    (Lists { starts, lengths, valid: validity(arrays) }, elements)
}
