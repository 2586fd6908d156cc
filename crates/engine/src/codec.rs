//! Little-endian bytes of durable records: an appending writer and a reader that never trusts its input.

/// Appends values to a byte vector.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn i64(&mut self, value: i64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// A count or length; those of one record fit 32 bits (its size is limited to less).
    pub(crate) fn len(&mut self, value: usize) {
        self.u32(u32::try_from(value).expect("a record holds fewer than 2^32 items"));
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Length, then bytes.
    pub(crate) fn text(&mut self, text: &str) {
        self.len(text.len());
        self.raw(text.as_bytes());
    }

    /// One byte that says whether there is a value, then the value.
    pub(crate) fn optional<T>(&mut self, value: Option<T>, put: impl FnOnce(&mut Self, T)) {
        self.u8(u8::from(value.is_some()));
        if let Some(value) = value {
            put(self, value);
        }
    }

    /// Seven bits a byte, least significant first; the top bit says that more follow.
    pub(crate) fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.u8((value & 0x7F) as u8 | 0x80);
            value >>= 7;
        }
        self.u8(value as u8);
    }

    /// A number near 0 on either side, folded so that it is small: 0, -1, 1, -2 are 0, 1, 2, 3.
    pub(crate) fn signed(&mut self, value: i64) {
        self.number(((value << 1) ^ (value >> 63)).cast_unsigned());
    }

    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// What does not hold in a record being read.
pub(crate) type Malformed = String;

/// Reads what an [`Encoder`] wrote; every step checks that the bytes are there.
#[derive(Debug)]
pub(crate) struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The lower seven bits of each byte, without the gaps between them.
#[inline]
fn joined_sevens(word: u64) -> u64 {
    let word = (word & 0x007F_007F_007F_007F) | ((word & 0x7F00_7F00_7F00_7F00) >> 1);
    let word = (word & 0x0000_3FFF_0000_3FFF) | ((word & 0x3FFF_0000_3FFF_0000) >> 2);
    (word & 0x0FFF_FFFF) | ((word & 0x0FFF_FFFF_0000_0000) >> 4)
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) fn raw(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len());
        let end =
            end.ok_or_else(|| format!("{count} bytes wanted at {}, {} there", self.at, self.bytes.len()))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.raw(N).map(|bytes| bytes.try_into().expect("raw returned N bytes"))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|bytes| bytes[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_le_bytes)
    }

    /// A count of items that take at least `item_bytes` each, so that a wild count fails before it allocates.
    pub(crate) fn count(&mut self, item_bytes: usize) -> Result<usize, Malformed> {
        let count = self.u32()? as usize;
        let left = self.bytes.len() - self.at;
        if count.saturating_mul(item_bytes) > left {
            return Err(format!("{count} items claimed, only {left} bytes left"));
        }
        Ok(count)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        let length = self.count(1)?;
        std::str::from_utf8(self.raw(length)?).map_err(|_| "text is not UTF-8".to_string())
    }

    pub(crate) fn optional<T>(
        &mut self,
        get: impl FnOnce(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        match self.u8()? {
            0 => Ok(None),
            1 => get(self).map(Some),
            other => Err(format!("presence byte is {other}")),
        }
    }

    /// A number written seven bits a byte, least significant first, the top bit set where more follow.
    #[inline]
    pub(crate) fn number(&mut self) -> Result<u64, Malformed> {
        let rest = &self.bytes[self.at..];
        if let Some(word) = rest.first_chunk::<8>() {
            // Up to eight bytes at once: the end is the first one without its top bit.
            let word = u64::from_le_bytes(*word);
            let ends = !word & 0x8080_8080_8080_8080;
            if ends != 0 {
                let bits = ends.trailing_zeros() + 1;
                self.at += bits as usize / 8;
                return Ok(joined_sevens(word & (u64::MAX >> (64 - bits))));
            }
        }
        let (mut value, mut shift) = (0_u64, 0);
        // Ten bytes hold 64 bits; of the tenth only the lowest counts.
        for (count, byte) in rest.iter().take(10).enumerate() {
            if shift == 63 && *byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7F) << shift;
            if *byte < 0x80 {
                self.at += count + 1;
                return Ok(value);
            }
            shift += 7;
        }
        Err(format!("no number at {}", self.at))
    }

    /// A number that [`Encoder::signed`] folded.
    #[inline]
    pub(crate) fn signed(&mut self) -> Result<i64, Malformed> {
        let value = self.number()?;
        Ok((value >> 1).cast_signed() ^ -((value & 1).cast_signed()))
    }

    /// Whether everything was read.
    pub(crate) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// # Errors
    /// Where bytes are left over.
    pub(crate) fn finish(self) -> Result<(), Malformed> {
        match self.bytes.len() - self.at {
            0 => Ok(()),
            left => Err(format!("{left} bytes too many")),
        }
    }
}
