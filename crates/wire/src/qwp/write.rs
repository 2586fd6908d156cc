//! Fields of messages, written behind each other.

use super::header::{HEADER_BYTES, MAGIC, VERSION};

pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes with a length of variable size before them.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Text with a length of 16 bits before it, cut where it is longer.
pub(super) fn put_short_text(out: &mut Vec<u8>, text: &str) {
    let end = text.floor_char_boundary(usize::from(u16::MAX));
    out.extend_from_slice(&(end as u16).to_le_bytes());
    out.extend_from_slice(&text.as_bytes()[..end]);
}

/// Values of one width.
pub(super) fn put_all<const N: usize>(out: &mut Vec<u8>, values: impl ExactSizeIterator<Item = [u8; N]>) {
    let start = out.len();
    out.resize(start + N * values.len(), 0);
    let (slots, _) = out[start..].as_chunks_mut::<N>();
    slots.iter_mut().zip(values).for_each(|(slot, value)| *slot = value);
}

/// A message of `tables` tables with the payload that `write` puts behind its header.
pub(super) fn put_message<E>(
    out: &mut Vec<u8>,
    flags: u8,
    tables: u16,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    let start = out.len();
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[VERSION, flags]);
    out.extend_from_slice(&tables.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    let payload = start + HEADER_BYTES;
    write(out).inspect_err(|_| out.truncate(start))?;
    let length = (out.len() - payload) as u32;
    out[payload - 4..payload].copy_from_slice(&length.to_le_bytes());
    Ok(())
}
