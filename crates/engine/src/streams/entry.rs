//! Entries: documents with their times, as they stand in the log and go over the wire.
//!
//! An entry is 8 bytes of time (microseconds since the Unix epoch), 4 bytes of size, and the document; both numbers
//! big-endian, so that a stretch of the log is the body of an answer of CakeDB's protocol as it is.

/// Bytes before each document.
pub const ENTRY_HEADER_BYTES: usize = 12;

/// A document of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Microseconds since the Unix epoch, of the server's clock; strictly increasing within a stream.
    pub ts_us: u64,
    /// What was appended.
    pub document: &'a [u8],
}

/// Appends an entry.
pub(super) fn put_entry(out: &mut Vec<u8>, ts_us: u64, document: &[u8]) {
    let size = u32::try_from(document.len()).expect("documents are limited to less than 2^32 bytes");
    let mut header = [0; ENTRY_HEADER_BYTES];
    header[..8].copy_from_slice(&ts_us.to_be_bytes());
    header[8..].copy_from_slice(&size.to_be_bytes());
    out.extend_from_slice(&header);
    out.extend_from_slice(document);
}

/// The entries of some bytes, in order.
#[derive(Debug, Clone)]
pub struct Entries<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Entries<'a> {
    /// Those of `bytes`; what follows the last whole one is left alone.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Where the next entry begins.
    pub fn at(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let rest = self.bytes.get(self.at..)?;
        let (time, rest) = rest.split_first_chunk()?;
        let (size, rest) = rest.split_first_chunk()?;
        let document = rest.get(..u32::from_be_bytes(*size) as usize)?;
        self.at += ENTRY_HEADER_BYTES + document.len();
        Some(Entry { ts_us: u64::from_be_bytes(*time), document })
    }
}
