//! The symbols of one chunk: bytes to local ids.

use crate::Fault;
use arrow_array::StringArray;
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};

/// Distinct symbols of a chunk, numbered from 0 as they come.
///
/// An open-addressing table over one run of bytes: no allocation a symbol. The first eight bytes of each stand in its
/// slot, which tells most symbols apart; the symbol of the row before, the likeliest one, is compared without hashing.
#[derive(Debug, Default)]
pub(crate) struct ChunkDictionary {
    bytes: Vec<u8>,
    /// Where each symbol ends in `bytes`; it begins where the one before ends.
    ends: Vec<u32>,
    /// By hash; a power of two long, at most half full.
    slots: Vec<Slot>,
    /// The symbol of the row before.
    latest: Slot,
}

#[derive(Debug, Default, Clone, Copy)]
struct Slot {
    /// The first eight bytes, zeros behind those of a shorter symbol.
    word: u64,
    length: u32,
    /// Id + 1, 0 where free.
    taken: u32,
}

const SLOTS_MIN: usize = 64;

impl ChunkDictionary {
    /// The id of a symbol where it is that of the row before.
    #[inline]
    pub(crate) fn latest(&self, symbol: &[u8]) -> Option<u32> {
        let is_it = self.is(&self.latest, symbol, first_word(symbol));
        is_it.then(|| self.latest.taken.checked_sub(1)).flatten()
    }

    /// The id of a symbol, a new one where it is new.
    #[inline]
    pub(crate) fn id(&mut self, symbol: &[u8]) -> Result<u32, Fault> {
        if self.ends.len() * 2 >= self.slots.len() {
            self.grow();
        }
        let word = first_word(symbol);
        let mask = self.slots.len() - 1;
        let mut place = hash(symbol, word) as usize & mask;
        // Ends at a free slot: at most half of them are taken.
        loop {
            let slot = self.slots[place];
            if slot.taken == 0 {
                return self.add(symbol, word, place);
            }
            if self.is(&slot, symbol, word) {
                self.latest = slot;
                return Ok(slot.taken - 1);
            }
            place = (place + 1) & mask;
        }
    }

    #[cold]
    fn add(&mut self, symbol: &[u8], word: u64, place: usize) -> Result<u32, Fault> {
        std::str::from_utf8(symbol).map_err(|_| Fault::NotUtf8)?;
        let end = self.bytes.len() + symbol.len();
        // Arrow's offsets are signed.
        let end =
            i32::try_from(end).ok().and_then(|end| u32::try_from(end).ok()).ok_or(Fault::TooManySymbols)?;
        let id = u32::try_from(self.ends.len()).map_err(|_| Fault::TooManySymbols)?;
        self.bytes.extend_from_slice(symbol);
        self.ends.push(end);
        // A symbol is no longer than `bytes`.
        let length = u32::try_from(symbol.len()).unwrap_or(u32::MAX);
        self.slots[place] = Slot { word, length, taken: id + 1 };
        self.latest = self.slots[place];
        Ok(id)
    }

    /// Whether the symbol of a slot is this one.
    #[inline]
    fn is(&self, slot: &Slot, symbol: &[u8], word: u64) -> bool {
        slot.word == word
            && slot.length as usize == symbol.len()
            && (symbol.len() <= 8 || self.symbol(slot.taken - 1) == Some(symbol))
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
        let before = std::mem::replace(&mut self.slots, vec![Slot::default(); length]);
        for slot in before.into_iter().filter(|slot| slot.taken != 0) {
            let symbol = self.symbol(slot.taken - 1).unwrap_or_default();
            let mut place = hash(symbol, slot.word) as usize & (length - 1);
            while self.slots[place].taken != 0 {
                place = (place + 1) & (length - 1);
            }
            self.slots[place] = slot;
        }
    }
}

/// The first eight bytes, zeros behind fewer: these are put together from pieces that overlap, where they agree.
#[inline]
fn first_word(bytes: &[u8]) -> u64 {
    let length = bytes.len();
    if let Some(word) = bytes.first_chunk() {
        return u64::from_le_bytes(*word);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        return u64::from(first) | u64::from(last) << (8 * (length - 4));
    }
    let byte = |at: usize| u64::from(bytes[at]) << (8 * at);
    if length == 0 { 0 } else { byte(0) | byte(length / 2) | byte(length - 1) }
}

/// Mixes eight bytes at a time by multiplication; good enough for a table that is thrown away with
/// its chunk, whose size bounds what a hostile file can make it cost.
fn hash(bytes: &[u8], first: u64) -> u64 {
    const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
    let mix = |state: u64, word: u64| (state.rotate_left(26) ^ word).wrapping_mul(ODD);
    let mut state = mix(bytes.len() as u64, first);
    if let Some(rest) = bytes.get(8..).filter(|rest| !rest.is_empty()) {
        let (words, tail) = rest.as_chunks::<8>();
        state = words.iter().fold(state, |state, word| mix(state, u64::from_le_bytes(*word)));
        state = mix(state, first_word(tail));
    }
    state ^ state >> 32
}
