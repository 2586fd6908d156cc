//! How a stream is kept.

use crate::codec::{Decoder, Encoder, Malformed};
use tickstone_model::Ttl;

/// How a stream is kept. [`Default`] suits the raw capture of a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamSettings {
    /// Documents from one entry of the time index to the next, at most. Default 1,000.
    pub index_documents: u32,
    /// Bytes from one entry of the time index to the next, at most. Default 50 MB.
    pub index_bytes: u64,
    /// The largest document it takes, in bytes. Default 16 MiB.
    pub document_bytes_max: u32,
    /// A file of the log is closed once it is this long. Default 256 MiB.
    pub segment_bytes: u64,
    /// The oldest files of the log go once all of them are longer than this; `None` for never.
    pub max_bytes: Option<u64>,
    /// Files of the log go once their newest document is older than this; `None` for never.
    pub ttl: Option<Ttl>,
}

impl Default for StreamSettings {
    fn default() -> Self {
        Self {
            index_documents: 1_000,
            index_bytes: 50_000_000,
            document_bytes_max: 16 << 20,
            segment_bytes: 256 << 20,
            max_bytes: None,
            ttl: None,
        }
    }
}

/// The most that [`StreamSettings::document_bytes_max`] may be: a document must fit into a frame.
pub const DOCUMENT_BYTES_LIMIT: u32 = 512 << 20;

impl StreamSettings {
    /// What of them cannot be, if anything.
    pub(super) fn fault(&self) -> Option<&'static str> {
        match self {
            Self { index_documents: 0, .. } => Some("index_documents must be at least 1"),
            Self { index_bytes: 0, .. } => Some("index_bytes must be at least 1"),
            Self { document_bytes_max: 0 | DOCUMENT_BYTES_ABOVE.., .. } => {
                Some("document_bytes_max must be at least 1 and at most 536870912 (512 MiB)")
            }
            Self { segment_bytes: 0..4096, .. } => Some("segment_bytes must be at least 4096"),
            _ => None,
        }
    }

    /// The time (µs since the Unix epoch) before which documents may go at `now_us`.
    pub(super) fn oldest_us(&self, now_us: u64) -> Option<u64> {
        let now_ns = i64::try_from(now_us.saturating_mul(1_000)).unwrap_or(i64::MAX);
        self.ttl.map(|ttl| u64::try_from(ttl.before(now_ns) / 1_000).unwrap_or(0))
    }

    pub(super) fn encode(&self, out: &mut Encoder) {
        out.u32(self.index_documents);
        out.u64(self.index_bytes);
        out.u32(self.document_bytes_max);
        out.u64(self.segment_bytes);
        out.optional(self.max_bytes, Encoder::u64);
        out.optional(self.ttl, |out, ttl| out.text(&ttl.to_string()));
    }

    pub(super) fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            index_documents: from.u32()?,
            index_bytes: from.u64()?,
            document_bytes_max: from.u32()?,
            segment_bytes: from.u64()?,
            max_bytes: from.optional(Decoder::u64)?,
            ttl: from.optional(|from| Ttl::parse(from.text()?).map_err(|error| error.to_string()))?,
        })
    }
}

const DOCUMENT_BYTES_ABOVE: u32 = DOCUMENT_BYTES_LIMIT + 1;
