//! Segments: the tape's files, and reading them in order.
//!
//! Invariants:
//! - a segment's name is its first position, so names in order are the tape in order;
//! - only the newest segment may have a torn tail: a writer syncs a segment before it begins the next;
//! - positions within the tape only grow, within an epoch by one from frame to frame.

use super::frame::{Frame, Tail, classify_tail, read_frame};
use super::named::NamedSegment;
use crate::disk::{Disk, FileBytes};
use crate::paths::TAPE_DIR;
use crate::{EngineError, Result};
use std::path::{Path, PathBuf};

/// First bytes of a segment.
const MAGIC: &[u8; 8] = b"TKTAPE\0\0";
/// The format version this build writes, and the newest it reads.
const VERSION: u32 = 2;
/// The first version whose segments stand in a tape manifest before they have frames.
const VERSION_NAMED: u32 = 2;
/// Bytes before the first frame.
pub(crate) const SEGMENT_HEADER_BYTES: usize = 40;
const SUFFIX: &str = ".tape";

/// Low bits of a position count frames within an epoch, the bits above are the epoch.
const EPOCH_SHIFT: u32 = 40;

/// The epoch a position belongs to.
pub(crate) fn epoch_of(position: u64) -> u64 {
    position >> EPOCH_SHIFT
}

/// The position at which an epoch begins: that of its opening, before its first frame.
pub(crate) fn first_position(epoch: u64) -> u64 {
    epoch << EPOCH_SHIFT
}

/// The last position that may come after `previous`, in the epoch of `next`: within an epoch none is left
/// out. (An epoch's first position is none of its frames' in newer tapes.)
pub(crate) fn position_after(previous: u64, next: u64) -> u64 {
    if epoch_of(previous) == epoch_of(next) { previous + 1 } else { first_position(epoch_of(next)) + 1 }
}

/// The path of the segment that begins with `position`.
pub(crate) fn segment_path(position: u64) -> PathBuf {
    Path::new(TAPE_DIR).join(format!("{position:016x}{SUFFIX}"))
}

/// The bytes a new segment begins with.
pub(crate) fn segment_header(position: u64, created_ns: i64) -> [u8; SEGMENT_HEADER_BYTES] {
    let mut bytes = [0; SEGMENT_HEADER_BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[16..24].copy_from_slice(&position.to_le_bytes());
    bytes[24..32].copy_from_slice(&created_ns.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..36]);
    bytes[36..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// First positions of the segments there are, ascending.
pub(crate) fn list_segments(disk: &dyn Disk) -> Result<Vec<u64>> {
    let entries = disk.list(Path::new(TAPE_DIR)).map_err(EngineError::io("list", TAPE_DIR))?;
    let position = |name: &str| u64::from_str_radix(name.strip_suffix(SUFFIX)?, 16).ok();
    Ok(entries.iter().filter(|entry| !entry.is_dir).filter_map(|entry| position(&entry.name)).collect())
}

/// One segment's bytes, read whole.
#[derive(Debug)]
pub(crate) struct Segment {
    path: PathBuf,
    first: u64,
    bytes: FileBytes,
}

/// How far a segment is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentEnd {
    /// Bytes of whole frames, the segment header included; 0 where even that is torn.
    pub(crate) good_bytes: usize,
    /// Whether bytes follow that are to be cut.
    pub(crate) torn: bool,
}

impl Segment {
    pub(crate) fn open(disk: &dyn Disk, first: u64) -> Result<Self> {
        let path = segment_path(first);
        let bytes = disk.read(&path).map_err(EngineError::io("read", &path))?;
        Ok(Self { path, first, bytes })
    }

    /// The first `count` bytes, or all where there are fewer.
    pub(crate) fn bytes(&self, count: usize) -> &[u8] {
        self.bytes.get(..count).unwrap_or(&self.bytes)
    }

    /// Calls `visit` with each frame in order. `named` is what the tape manifest says of the segment.
    ///
    /// # Errors
    /// Damage, a torn tail anywhere but in the newest segment or within what is promised of it, a newer format, or
    /// what `visit` returns.
    pub(crate) fn read(
        &self,
        newest: bool,
        named: Option<&NamedSegment>,
        mut visit: impl FnMut(&Frame<'_>) -> Result<()>,
    ) -> Result<SegmentEnd> {
        let whole = |good_bytes: usize| match named.and_then(|named| named.shortfall(good_bytes as u64)) {
            Some(what) => Err(EngineError::damaged(&self.path, good_bytes as u64, what)),
            None => Ok(()),
        };
        let torn = |good_bytes| {
            whole(good_bytes)?;
            if newest {
                return Ok(SegmentEnd { good_bytes, torn: true });
            }
            Err(EngineError::damaged(&self.path, good_bytes as u64, "the segment ends too early"))
        };
        if !self.check_header(newest)? {
            return torn(0);
        }
        let mut at = SEGMENT_HEADER_BYTES;
        let mut last = None;
        while at < self.bytes.len() {
            let frame = match read_frame(&self.bytes, at) {
                Ok(frame) => frame,
                Err(broken) => match classify_tail(&self.bytes, at, &broken) {
                    Tail::Torn => return torn(at),
                    Tail::Damaged => {
                        return Err(EngineError::damaged(&self.path, at as u64, broken.reason));
                    }
                },
            };
            if frame.header.position < self.first || last.is_some_and(|last| frame.header.position <= last) {
                return Err(EngineError::damaged(&self.path, at as u64, "positions do not grow"));
            }
            last = Some(frame.header.position);
            visit(&frame)?;
            at += frame.size();
        }
        whole(at)?;
        Ok(SegmentEnd { good_bytes: at, torn: false })
    }

    /// When it was begun, as its header says (ns since the Unix epoch); 0 where that is not whole.
    pub(crate) fn began_ns(&self) -> i64 {
        let bytes = self.bytes.get(24..32).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| i64::from_le_bytes(*bytes))
    }

    /// Whether its header says that it stands in a tape manifest.
    pub(crate) fn is_named(&self) -> bool {
        let version = self.bytes.get(8..12).and_then(|bytes| bytes.first_chunk());
        self.check_header(true).unwrap_or(false)
            && version.is_some_and(|version| u32::from_le_bytes(*version) >= VERSION_NAMED)
    }

    /// Its bytes.
    pub(crate) fn contents(&self) -> &FileBytes {
        &self.bytes
    }

    /// Whether the header is whole; `false` where it is torn and may be.
    pub(crate) fn check_header(&self, newest: bool) -> Result<bool> {
        let damaged = |what| EngineError::damaged(&self.path, 0, what);
        let Some(header) = self.bytes.get(..SEGMENT_HEADER_BYTES) else {
            return if newest { Ok(false) } else { Err(damaged("the segment has no header")) };
        };
        if header.iter().all(|byte| *byte == 0) && newest {
            return Ok(false);
        }
        let u32_at = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        if &header[..8] != MAGIC {
            return Err(damaged("this is no tape segment"));
        }
        let version = u32_at(8);
        if version > VERSION && crc32c::crc32c(&header[..36]) == u32_at(36) {
            return Err(EngineError::NewerFormat { path: self.path.clone(), found: version, known: VERSION });
        }
        let position = u64::from_le_bytes(header[16..24].try_into().expect("eight bytes"));
        if crc32c::crc32c(&header[..36]) != u32_at(36) || position != self.first {
            return Err(damaged("the segment header's checksum does not match"));
        }
        Ok(true)
    }
}
