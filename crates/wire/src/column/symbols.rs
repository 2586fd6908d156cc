//! The symbols of one chunk: bytes to local ids.

use crate::Fault;
use arrow_array::StringArray;
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};

/// Distinct symbols of a chunk, numbered from 0 as they come.
///
/// An open-addressing table of ids over one run of bytes: no allocation a symbol, and the symbol of
/// the row before, the likeliest one, is compared without hashing.
#[derive(Debug, Default)]
pub(crate) struct ChunkDictionary {
    bytes: Vec<u8>,
    /// Where each symbol ends in `bytes`; it begins where the one before ends.
    ends: Vec<u32>,
    /// Id + 1 by hash, 0 where free; a power of two long, at most half full.
    slots: Vec<u32>,
    /// The symbol of the row before; no id where it cannot be compared as it stands.
    latest: u32,
}

const SLOTS_MIN: usize = 64;

impl ChunkDictionary {
    /// The symbol of the row before, with its length, where `bytes` begins with it.
    #[inline]
    pub(crate) fn latest(&self, bytes: &[u8]) -> Option<(u32, usize)> {
        let symbol = self.symbol(self.latest)?;
        // An empty symbol is quoted: never plain.
        (!symbol.is_empty() && bytes.starts_with(symbol)).then_some((self.latest, symbol.len()))
    }

    /// The id of a symbol, a new one where it is new.
    pub(crate) fn id(&mut self, symbol: &[u8]) -> Result<u32, Fault> {
        if self.ends.len() * 2 >= self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut slot = hash(symbol) as usize & mask;
        // Ends at a free slot: at most half of them are taken.
        loop {
            match self.slots[slot] {
                0 => break,
                taken if self.symbol(taken - 1) == Some(symbol) => {
                    self.remember(taken - 1, symbol);
                    return Ok(taken - 1);
                }
                _ => slot = (slot + 1) & mask,
            }
        }
        std::str::from_utf8(symbol).map_err(|_| Fault::NotUtf8)?;
        let end = self.bytes.len() + symbol.len();
        // Arrow's offsets are signed.
        let end =
            i32::try_from(end).ok().and_then(|end| u32::try_from(end).ok()).ok_or(Fault::TooManySymbols)?;
        let id = u32::try_from(self.ends.len()).map_err(|_| Fault::TooManySymbols)?;
        self.bytes.extend_from_slice(symbol);
        self.ends.push(end);
        self.slots[slot] = id + 1;
        self.remember(id, symbol);
        Ok(id)
    }

    /// Notes the symbol of this row, for [`Self::latest`]: only one that stands in a file as it is. One
    /// with a quote, a delimiter or a line end in it would be found where a quoted field begins.
    fn remember(&mut self, id: u32, symbol: &[u8]) {
        let plain = symbol.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(byte));
        self.latest = if plain { id } else { u32::MAX };
    }

    /// The symbols by id; the dictionary is empty after.
    pub(crate) fn finish(&mut self) -> StringArray {
        let taken = std::mem::take(self);
        let offsets: Vec<i32> =
            std::iter::once(0).chain(taken.ends.into_iter().map(|end| end as i32)).collect();
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        let array = StringArray::try_new(offsets, Buffer::from_vec(taken.bytes), None);
        array.expect("each symbol was checked to be UTF-8")
    }

    #[inline]
    fn symbol(&self, id: u32) -> Option<&[u8]> {
        let id = id as usize;
        let end = *self.ends.get(id)? as usize;
        let start = if id == 0 { 0 } else { self.ends[id - 1] as usize };
        self.bytes.get(start..end)
    }

    fn grow(&mut self) {
        let length = (self.slots.len() * 2).max(SLOTS_MIN);
        let mut slots = vec![0_u32; length];
        for id in 0..self.ends.len() as u32 {
            let mut slot = hash(self.symbol(id).unwrap_or_default()) as usize & (length - 1);
            while slots[slot] != 0 {
                slot = (slot + 1) & (length - 1);
            }
            slots[slot] = id + 1;
        }
        self.slots = slots;
    }
}

/// Mixes eight bytes at a time by multiplication; good enough for a table that is thrown away with
/// its chunk, whose size bounds what a hostile file can make it cost.
fn hash(bytes: &[u8]) -> u64 {
    const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut state = bytes.len() as u64;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        state = (state.rotate_left(26) ^ u64::from_le_bytes(*word)).wrapping_mul(ODD);
    }
    let mut tail = [0_u8; 8];
    tail[..rest.len()].copy_from_slice(rest);
    state = (state.rotate_left(26) ^ u64::from_le_bytes(tail)).wrapping_mul(ODD);
    state ^ state >> 32
}
