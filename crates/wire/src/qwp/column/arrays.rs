//! Columns of arrays.

use super::{Stop, is_null_long};
use crate::Fault;
use crate::qwp::limits::DIMENSIONS_MAX;
use crate::qwp::nulls::Nulls;
use crate::qwp::read::Reader;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{ArrayRef, ListArray, PrimitiveArray};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use std::sync::Arc;
use tickstone_model::ElementType;

/// For each its dimensions, their lengths, then the elements.
pub(super) fn arrays(reader: &mut Reader<'_>, nulls: Nulls, element: ElementType) -> Result<ArrayRef, Stop> {
    let mut ends = Vec::with_capacity(nulls.values);
    let mut elements: Vec<[u8; 8]> = Vec::new();
    for value in 0..nulls.values {
        let dimensions = reader.byte()?;
        if !(1..=DIMENSIONS_MAX).contains(&dimensions) {
            return Err(reader.malformed("an array has no dimensions, or more than 32").into());
        }
        let (lengths, _) = reader.values(usize::from(dimensions), 4)?.as_chunks::<4>();
        let lengths = lengths.iter().map(|length| i32::from_le_bytes(*length));
        let product = |product: usize, length| product.checked_mul(usize::try_from(length).ok()?);
        let count = lengths.clone().try_fold(1, product);
        let count = count.ok_or(reader.malformed("an array has a length below 0, or too many elements"))?;
        elements.extend(reader.values(count, 8)?.as_chunks::<8>().0);
        if dimensions > 1 {
            let lengths: Vec<String> = lengths.map(|length| length.to_string()).collect();
            let fault = Fault::Field { what: "is an array of several dimensions; a table's have one" };
            return Err(Stop::Value { row: nulls.row_of(value), text: lengths.join("x"), fault });
        }
        ends.push(i32::try_from(elements.len()).unwrap_or(i32::MAX));
    }
    let offsets = OffsetBuffer::new(ScalarBuffer::from(nulls.spread_ends(ends.into_iter())));
    let values: ArrayRef = match element {
        ElementType::Int64 => {
            let values: Vec<i64> = elements.into_iter().map(i64::from_le_bytes).collect();
            let any = values.iter().any(is_null_long);
            let valid = || values.iter().map(|value| !is_null_long(value)).collect();
            let nulls = any.then(|| NullBuffer::new(valid()));
            Arc::new(PrimitiveArray::<Int64Type>::new(ScalarBuffer::from(values), nulls))
        }
        _ => {
            let values: Vec<f64> = elements.into_iter().map(f64::from_le_bytes).collect();
            Arc::new(PrimitiveArray::<Float64Type>::new(ScalarBuffer::from(values), None))
        }
    };
    Ok(Arc::new(ListArray::new(element.field(), offsets, values, nulls.marked())))
}
