//! The header of a message, and which version is spoken.
//!
//! ```text
//! 0     4        5      6             8                12
//! QWP1  version  flags  tables (u16)  payload (u32)    payload…
//! ```

use super::read::{Read, Reader};

pub(super) const MAGIC: [u8; 4] = *b"QWP1";

/// The version of the protocol.
pub const VERSION: u8 = 1;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 12;

/// Bits of the flags.
pub(super) mod flags {
    /// The rows are stored with those of the next message without this flag.
    pub(crate) const DEFER: u8 = 0x01;
    /// Columns of timestamps say whether they are packed.
    pub(crate) const PACKED_TIMES: u8 = 0x04;
    /// New symbols of the connection come first.
    pub(crate) const SYMBOLS: u8 = 0x08;
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub(super) flags: u8,
    pub(super) tables: u16,
}

impl Header {
    /// The header of a message; the reader stands at its payload then.
    pub(super) fn read(reader: &mut Reader<'_>) -> Read<Self> {
        if reader.array()? != MAGIC {
            return Err(reader.malformed("it does not begin with QWP1"));
        }
        if reader.byte()? != VERSION {
            return Err(reader.malformed("it is of another version than 1"));
        }
        let header = Header { flags: reader.byte()?, tables: reader.u16()? };
        if header.flags & !(flags::DEFER | flags::PACKED_TIMES | flags::SYMBOLS) != 0 {
            return Err(reader.malformed("it has flags that are not known"));
        }
        if reader.u32()? as usize != reader.left() {
            return Err(reader.malformed("its payload is shorter or longer than its header says"));
        }
        Ok(header)
    }
}

/// The version of a connection whose client speaks all up to `max`, its `X-QWP-Max-Version`; `None` where that is none.
pub fn negotiate(max: Option<&str>) -> Option<u8> {
    let max: u64 = max.map_or(Some(u64::from(VERSION)), |max| max.trim().parse().ok())?;
    (max >= u64::from(VERSION)).then_some(VERSION)
}
