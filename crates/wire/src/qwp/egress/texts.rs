//! Columns of texts and bytes onto the wire.

use super::column::Runs;
use super::results::Fault;
use crate::qwp::write::put_all;
use arrow_array::cast::AsArray;
use arrow_array::types::{ByteArrayType, ByteViewType};
use arrow_array::{Array, GenericByteArray, GenericByteViewArray};
use arrow_buffer::ArrowNativeType;

const TOO_MUCH_TEXT: Fault = Fault::Value { what: "has more than 2 GB of text in one batch" };

/// Where each text ends, the first 0, then the texts.
pub(super) fn put_texts<T: ByteArrayType>(
    out: &mut Vec<u8>,
    array: &GenericByteArray<T>,
    runs: Runs<'_>,
) -> Result<(), Fault> {
    let offsets = array.value_offsets();
    let mut total = 0;
    runs.each(|start, end| total += offsets[end].as_usize() - offsets[start].as_usize());
    i32::try_from(total).map_err(|_| TOO_MUCH_TEXT)?;
    out.reserve(4 * (runs.values() + 1) + total);
    out.extend_from_slice(&[0; 4]);
    let mut before = 0;
    runs.each(|start, end| {
        let first = offsets[start].as_usize();
        let ends = offsets[start + 1..=end].iter();
        put_all(out, ends.map(|end| ((before + end.as_usize() - first) as u32).to_le_bytes()));
        before += offsets[end].as_usize() - first;
    });
    runs.each(|start, end| {
        out.extend_from_slice(&array.value_data()[offsets[start].as_usize()..offsets[end].as_usize()]);
    });
    Ok(())
}

pub(super) fn put_views<T: ByteViewType + ?Sized>(
    out: &mut Vec<u8>,
    array: &GenericByteViewArray<T>,
    runs: Runs<'_>,
) -> Result<(), Fault> {
    out.extend_from_slice(&[0; 4]);
    let mut total = 0_usize;
    runs.each(|start, end| {
        put_all(
            out,
            array.views()[start..end].iter().map(|view| {
                // The length of a text is the lowest part of its view.
                total += *view as u32 as usize;
                (total as u32).to_le_bytes()
            }),
        );
    });
    i32::try_from(total).map_err(|_| TOO_MUCH_TEXT)?;
    runs.each(|start, end| {
        (start..end).for_each(|row| out.extend_from_slice(AsRef::<[u8]>::as_ref(array.value(row))));
    });
    Ok(())
}

/// A UUID is sent backwards; bytes of any other length are BINARY.
pub(super) fn put_fixed(
    out: &mut Vec<u8>,
    array: &dyn Array,
    width: i32,
    runs: Runs<'_>,
) -> Result<(), Fault> {
    let array = array.as_fixed_size_binary();
    let width = usize::try_from(width).unwrap_or(0);
    let bytes = |start: usize, end: usize| &array.value_data()[start * width..end * width];
    if width == 16 {
        runs.each(|start, end| {
            let (uuids, _) = bytes(start, end).as_chunks::<16>();
            put_all(out, uuids.iter().map(|uuid| u128::from_be_bytes(*uuid).to_le_bytes()));
        });
        return Ok(());
    }
    i32::try_from(runs.values() * width).map_err(|_| TOO_MUCH_TEXT)?;
    put_all(out, (0..runs.values() + 1).map(|value| ((value * width) as u32).to_le_bytes()));
    runs.each(|start, end| out.extend_from_slice(bytes(start, end)));
    Ok(())
}
