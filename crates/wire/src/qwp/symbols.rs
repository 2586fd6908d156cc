//! The symbols of a connection: what its messages call by a number.
//!
//! Invariants: each is valid UTF-8; a message whose new symbols are at fault adds none of them; ids are never given to
//! another symbol unless the client says so.

use super::limits::Limits;
use super::read::{Malformed, Reader};
use super::refused::Refused;
use arrow_array::StringArray;
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};

/// Symbols by their ids.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    bytes: Vec<u8>,
    /// Where each begins and ends in `bytes`.
    places: Vec<(u32, u32)>,
}

impl Symbols {
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    fn symbol(&self, id: usize) -> Option<&[u8]> {
        let (start, end) = *self.places.get(id)?;
        self.bytes.get(start as usize..end as usize)
    }

    /// Takes the new symbols that a message begins with: the id of the first, their count, each with its length. Ids that
    /// are known may come again.
    pub(super) fn read_new(&mut self, reader: &mut Reader<'_>, limits: &Limits) -> Result<(), Refused> {
        let start = reader.varint()?;
        let known = self.len();
        let first = usize::try_from(start).ok().filter(|first| *first <= known);
        let first = first.ok_or(Refused::Gap { start, known })?;
        let count = reader.count()?;
        if first + count > limits.symbols_max {
            return Err(reader.malformed("the connection has too many symbols").into());
        }
        let mut ahead = *reader;
        let mut bytes = self.bytes.len();
        for id in first..first + count {
            let symbol = ahead.text()?.as_bytes();
            bytes += if self.symbol(id) == Some(symbol) { 0 } else { symbol.len() };
        }
        // Arrow's offsets are signed.
        if bytes > limits.symbol_bytes_max.min(i32::MAX as usize) {
            return Err(reader.malformed("the symbols of the connection take too many bytes").into());
        }
        for id in first..first + count {
            self.set(id, reader.bytes()?);
        }
        Ok(())
    }

    /// The symbols of one column alone: their count, each with its length.
    pub(super) fn read_own(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut symbols = Self::default();
        for id in 0..reader.count()? {
            symbols.set(id, reader.text()?.as_bytes());
        }
        Ok(symbols)
    }

    fn set(&mut self, id: usize, symbol: &[u8]) {
        if self.symbol(id) == Some(symbol) {
            return;
        }
        // A message and the limit of all symbols are far below 4 GiB.
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(symbol);
        let place = (start, self.bytes.len() as u32);
        match self.places.get_mut(id) {
            Some(known) => *known = place,
            None => self.places.push(place),
        }
    }

    /// The symbols of these ids, in their order.
    pub(super) fn take(&self, ids: &[u32]) -> StringArray {
        let mut bytes = Vec::new();
        let mut ends = Vec::with_capacity(ids.len() + 1);
        ends.push(0);
        for id in ids {
            bytes.extend_from_slice(self.symbol(*id as usize).unwrap_or_default());
            ends.push(bytes.len() as i32);
        }
        let offsets = OffsetBuffer::new(ScalarBuffer::from(ends));
        let array = StringArray::try_new(offsets, Buffer::from_vec(bytes), None);
        array.expect("each symbol was checked to be UTF-8")
    }
}

/// From the ids of a connection to those of one column, which has only the symbols that it uses.
#[derive(Debug, Default)]
pub(super) struct Narrowing {
    /// The column's id by the connection's in the lower half, and the round that gave it in the upper.
    given: Vec<u64>,
    round: u32,
    /// The connection's ids by the column's.
    pub(super) used: Vec<u32>,
}

impl Narrowing {
    /// Reads `count` ids of `symbols` and gives the column's for them; those used are in `used` then.
    pub(super) fn read(
        &mut self,
        reader: &mut Reader<'_>,
        count: usize,
        symbols: &Symbols,
    ) -> Result<Vec<u32>, Malformed> {
        if count > reader.left() {
            return Err(reader.malformed("symbols end before all of them came"));
        }
        self.start(symbols.len());
        let mut ids = Vec::with_capacity(count);
        while ids.len() < count {
            let eight = reader.rest().first_chunk::<8>().copied().unwrap_or([0x80; 8]);
            if count - ids.len() >= 8 && u64::from_le_bytes(eight) & 0x8080_8080_8080_8080 == 0 {
                reader.take(8)?;
                for id in eight {
                    ids.push(self.narrow(u64::from(id)).ok_or(reader.malformed(NO_SYMBOL))?);
                }
                continue;
            }
            let id = reader.varint()?;
            ids.push(self.narrow(id).ok_or(reader.malformed(NO_SYMBOL))?);
        }
        Ok(ids)
    }

    fn start(&mut self, symbols: usize) {
        self.used.clear();
        self.given.resize(symbols, 0);
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.given.fill(0);
            self.round = 1;
        }
    }

    #[inline]
    fn narrow(&mut self, id: u64) -> Option<u32> {
        let given = self.given.get_mut(usize::try_from(id).ok()?)?;
        if (*given >> 32) as u32 == self.round {
            return Some(*given as u32);
        }
        let next = self.used.len() as u32;
        *given = u64::from(self.round) << 32 | u64::from(next);
        self.used.push(id as u32);
        Some(next)
    }
}

const NO_SYMBOL: &str = "a symbol has an id that no message gave";
