//! Strings and binary: lengths by the integer codec, bytes as they are or compressed by zstd.

use super::lane::Same;
use super::shape::UNRELATED;
use super::slots::Slot;
use super::{Damage, Decoded, ints, kind, split, words};
use crate::part::layout::u32_at;
use std::cell::RefCell;
use zstd::bulk::{Compressor, Decompressor};

/// Below this many bytes of text zstd is not tried.
const MIN_ZSTD_BYTES: usize = 64;
/// Fast enough for seals, and within a few percent of higher levels on blocks this small.
const ZSTD_LEVEL: i32 = 3;
/// Most bytes of text in a block of a zstd frame (RFC 8878, 3.1.1.2.4).
const ZSTD_BLOCK_BYTES_MAX: usize = 128 << 10;
/// Least bytes of such a block: its header.
const ZSTD_BLOCK_BYTES_MIN: usize = 3;

/// Appends values (1 to 1,024) of these lengths whose bytes are `data`; returns the kind for the header.
pub(in crate::part) fn encode(lengths: &[u32], data: &[u8], out: &mut Vec<u8>) -> u8 {
    let compressed = if data.len() < MIN_ZSTD_BYTES {
        None
    } else {
        compress(data).filter(|frame| frame.len() < data.len() * 9 / 10)
    };
    let stored = compressed.as_deref().unwrap_or(data);
    let mut packed = Vec::new();
    words::encode::<u32>(lengths, UNRELATED, None, &mut packed);
    for bytes in [packed.len(), data.len(), stored.len(), 0] {
        let word = u32::try_from(bytes).expect("a column's bytes in one batch are at most 2 GiB");
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(&packed);
    out.extend_from_slice(stored);
    if compressed.is_some() { kind::STRINGS_ZSTD } else { kind::STRINGS }
}

thread_local! {
    /// Making one takes longer than a block's text does.
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
    /// The same of one that compresses.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
}

/// A zstd frame of a text; `None` where there is no memory for one.
fn compress(data: &[u8]) -> Option<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|kept| {
        let compressor = match kept {
            Some(compressor) => compressor,
            None => kept.insert(Compressor::new(ZSTD_LEVEL).ok()?),
        };
        compressor.compress(data).ok()
    })
}

/// Appends the text of a zstd frame, which must have `size` bytes.
fn decompress(frame: &[u8], size: usize, data: &mut Vec<u8>) -> Decoded<()> {
    const UNREADABLE: Damage = Damage("text zstd cannot read");
    // What the file says is not taken for memory: a frame this long cannot hold more.
    if size / ZSTD_BLOCK_BYTES_MAX > frame.len() / ZSTD_BLOCK_BYTES_MIN {
        return Err(Damage("more text than its bytes can hold"));
    }
    if cfg!(miri) {
        // Miri does not run C.
        return Err(UNREADABLE);
    }
    DECOMPRESSOR.with_borrow_mut(|kept| {
        let decompressor = match kept {
            Some(decompressor) => decompressor,
            None => kept.insert(Decompressor::new().map_err(|_| UNREADABLE)?),
        };
        let text = decompressor.decompress(frame, size).map_err(|_| UNREADABLE)?;
        data.extend_from_slice(&text);
        Ok(())
    })
}

/// Decodes the lengths into `lengths` and appends the bytes to `data`.
pub(in crate::part) fn decode<'s>(
    code: u8,
    bytes: &[u8],
    lengths: &'s mut [Slot<u32>],
    data: &mut Vec<u8>,
) -> Decoded<&'s [u32]> {
    let (sizes, rest) = split(bytes, 16)?;
    let size = |index: usize| u32_at(sizes, index * 4) as usize;
    let (packed, rest) = split(rest, size(0))?;
    let (stored, _) = split(rest, size(2))?;
    let lengths: &[u32] = match code {
        kind::TEXT | kind::TEXT_ZSTD => ints::decode::<u32, _>(packed, Same, lengths)?,
        _ => words::decode::<u32, _>(&mut { packed }, &[], Same, lengths)?,
    };
    let total: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
    if total != size(1) as u64 {
        return Err(Damage("lengths of text that do not add up"));
    }
    let before = data.len();
    match code {
        kind::TEXT | kind::STRINGS => data.extend_from_slice(stored),
        _ => decompress(stored, size(1), data)?,
    }
    if data.len() - before != size(1) {
        return Err(Damage("text of a wrong size"));
    }
    Ok(lengths)
}
