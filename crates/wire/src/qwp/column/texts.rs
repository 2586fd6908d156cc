//! Columns of texts and bytes, and of types that are shown as texts.

use super::Stop;
use crate::Fault;
use crate::qwp::nulls::Nulls;
use crate::qwp::read::{Read, Reader};
use crate::qwp::text::put_geohash;
use arrow_array::{ArrayRef, StringArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use std::sync::Arc;

type Texts = (OffsetBuffer<i32>, Buffer, Option<NullBuffer>);

/// Where the texts end, the first 0, then the texts.
pub(super) fn texts(reader: &mut Reader<'_>, nulls: Nulls) -> Read<Texts> {
    let wrong = "a text ends before it begins";
    let count = nulls.values.checked_add(1).ok_or(reader.malformed(wrong))?;
    let (offsets, _) = reader.values(count, 4)?.as_chunks::<4>();
    let offsets = || offsets.iter().map(|offset| u32::from_le_bytes(*offset));
    let (first, last) = (offsets().next().unwrap_or(0), offsets().next_back().unwrap_or(0));
    // Without an end before the last: a branch for each would cost more than it spares.
    let ascends =
        offsets().zip(offsets().skip(1)).fold(true, |ascends, (start, end)| ascends & (start <= end));
    if first != 0 || !ascends || last > i32::MAX as u32 {
        return Err(reader.malformed(wrong));
    }
    let bytes = Buffer::from(reader.take(last as usize)?);
    let ends = nulls.spread_ends(offsets().skip(1).map(|end| end as i32));
    Ok((OffsetBuffer::new(ScalarBuffer::from(ends)), bytes, nulls.marked()))
}

/// Values of a type that a table does not have, as texts.
pub(super) fn shown<T: Copy>(
    values: &[T],
    nulls: Option<NullBuffer>,
    put: impl Fn(&mut Vec<u8>, T) -> bool,
) -> Result<ArrayRef, Stop> {
    let mut bytes = Vec::new();
    let mut ends = Vec::with_capacity(values.len() + 1);
    ends.push(0);
    for (row, value) in values.iter().enumerate() {
        if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) && !put(&mut bytes, *value) {
            let fault = Fault::Field { what: "half of a character that UTF-16 writes in two" };
            return Err(Stop::Value { row, text: String::new(), fault });
        }
        // At most 66 bytes a value, and as many values as a message may have.
        ends.push(i32::try_from(bytes.len()).unwrap_or(i32::MAX));
    }
    let offsets = OffsetBuffer::new(ScalarBuffer::from(ends));
    let array = StringArray::try_new(offsets, Buffer::from_vec(bytes), nulls);
    Ok(Arc::new(array.expect("each text is written as UTF-8")))
}

pub(super) fn geohashes(reader: &mut Reader<'_>, nulls: Nulls) -> Result<ArrayRef, Stop> {
    let bits = reader.varint()?;
    if !(1..=60).contains(&bits) {
        return Err(reader.malformed("a geohash has 1 to 60 bits").into());
    }
    let (bits, width) = (bits as u32, bits.div_ceil(8) as usize);
    let all_ones = u64::MAX >> (64 - 8 * width);
    let bytes = reader.values(nulls.values, width)?;
    let hash = |bytes: &[u8]| {
        let mut hash = [0; 8];
        hash[..width].copy_from_slice(bytes);
        u64::from_le_bytes(hash)
    };
    let hashes: Vec<u64> = nulls.spread(bytes.chunks_exact(width).map(hash));
    let nulls = nulls.or_values(&hashes, |hash| *hash == all_ones);
    shown(&hashes, nulls, |out, hash| {
        put_geohash(out, hash, bits);
        true
    })
}
