//! A cursor over bytes that nobody checked.
//!
//! Invariant: nothing is read past the end, and no length is believed that the bytes left cannot hold.

/// Bytes that are no message of the protocol: what is wrong, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what} (at byte {at})")]
pub struct Malformed {
    /// What is wrong.
    pub what: &'static str,
    /// The place of the first byte that could not be read.
    pub at: usize,
}

pub(super) type Read<T> = Result<T, Malformed>;

#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

const ENDS: &str = "the message ends before it is complete";

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// What is not read yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(super) fn malformed(&self, what: &'static str) -> Malformed {
        Malformed { what, at: self.at }
    }

    /// Refuses bytes behind the last field.
    pub(super) fn end(&self) -> Read<()> {
        match self.left() {
            0 => Ok(()),
            _ => Err(self.malformed("bytes follow the end of the message")),
        }
    }

    pub(super) fn take(&mut self, length: usize) -> Read<&'a [u8]> {
        let end = self.at.checked_add(length);
        let taken = end.and_then(|end| self.bytes.get(self.at..end)).ok_or(self.malformed(ENDS))?;
        self.at += length;
        Ok(taken)
    }

    /// `count` values of `width` bytes.
    pub(super) fn values(&mut self, count: usize, width: usize) -> Read<&'a [u8]> {
        let length = count.checked_mul(width).ok_or(self.malformed(ENDS))?;
        self.take(length)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        let taken = self.rest().first_chunk::<N>().copied().ok_or(self.malformed(ENDS))?;
        self.at += N;
        Ok(taken)
    }

    pub(super) fn byte(&mut self) -> Read<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(super) fn u16(&mut self) -> Read<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Read<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn i64(&mut self) -> Read<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// An unsigned LEB128 number.
    #[inline]
    pub(super) fn varint(&mut self) -> Read<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.malformed("a number has more than 64 bits"))
    }

    /// A count of things that take at least a byte each.
    pub(super) fn count(&mut self) -> Read<usize> {
        let count = self.varint()?;
        let count = usize::try_from(count).ok().filter(|count| *count <= self.left());
        count.ok_or(self.malformed("a count is larger than the rest of the message"))
    }

    /// Bytes with their length before them.
    pub(super) fn bytes(&mut self) -> Read<&'a [u8]> {
        let length = self.count()?;
        self.take(length)
    }

    /// Text with its length before it.
    pub(super) fn text(&mut self) -> Read<&'a str> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|_| self.malformed("a text is not valid UTF-8"))
    }
}
