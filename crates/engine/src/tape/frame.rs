//! Frames: the checksummed records of a tape segment (docs/formats/tape.md).
//!
//! Invariants:
//! - a frame that [`read_frame`] returns is byte for byte what was written: its header, with the
//!   length, and its payload have a CRC-32C each, and both markers are there;
//! - `synced_bytes` never exceeds what was stable in the segment when the frame was written: it is
//!   the proof, found in later frames, that an earlier broken one is damage and no torn write.

use crate::checksum;
use crate::disk::SECTOR_BYTES;
use std::ops::Range;

/// First bytes of every frame: "TKF1".
pub(crate) const FRAME_MARKER: u32 = u32::from_le_bytes(*b"TKF1");
/// Last bytes of every frame: "END1".
pub(crate) const END_MARKER: u32 = u32::from_le_bytes(*b"END1");
/// Bytes before the payload.
pub(crate) const HEADER_BYTES: usize = 44;
/// Bytes after the payload.
pub(crate) const TRAILER_BYTES: usize = 4;
/// The largest payload a frame may have.
pub(crate) const MAX_PAYLOAD_BYTES: usize = 1 << 30;

/// What a frame's header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) kind: u16,
    pub(crate) payload_bytes: usize,
    pub(crate) payload_crc: u32,
    pub(crate) position: u64,
    /// When the frame was appended, ns since the Unix epoch by the writer's clock.
    pub(crate) received_ns: i64,
    /// Bytes of the segment known to be on stable storage when the frame was written.
    pub(crate) synced_bytes: u64,
}

/// A frame found in a segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'a> {
    pub(crate) header: FrameHeader,
    pub(crate) payload: &'a [u8],
}

impl Frame<'_> {
    pub(crate) fn size(&self) -> usize {
        HEADER_BYTES + self.payload.len() + TRAILER_BYTES
    }
}

impl FrameHeader {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let payload_bytes = u32::try_from(self.payload_bytes).expect("payloads are limited to 2^30 bytes");
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&FRAME_MARKER.to_le_bytes());
        bytes[4..8].copy_from_slice(&payload_bytes.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.kind.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.payload_crc.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.position.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.received_ns.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.synced_bytes.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..40]);
        bytes[40..44].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Appends the whole frame.
    pub(super) fn append_with(&self, payload: &[u8], buffer: &mut Vec<u8>) {
        buffer.reserve(HEADER_BYTES + payload.len() + TRAILER_BYTES);
        buffer.extend_from_slice(&self.encode());
        buffer.extend_from_slice(payload);
        buffer.extend_from_slice(&END_MARKER.to_le_bytes());
    }

    /// Fills in what was stable when the frame at a byte is written: only then it is known.
    pub(super) fn stamp(bytes: &mut [u8], at: usize, synced_bytes: u64) {
        let header = &mut bytes[at..at + HEADER_BYTES];
        header[32..40].copy_from_slice(&synced_bytes.to_le_bytes());
        let crc = crc32c::crc32c(&header[..40]);
        header[40..44].copy_from_slice(&crc.to_le_bytes());
    }

    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, &'static str> {
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        if u32_at(0) != FRAME_MARKER {
            return Err("no frame begins here");
        }
        if !checksum::matches(&bytes[..40], u32_at(40)) {
            return Err("the header's checksum does not match");
        }
        if bytes[10..12] != [0, 0] || u32_at(4) as usize > MAX_PAYLOAD_BYTES {
            return Err("the header holds impossible values");
        }
        Ok(Self {
            kind: u16::from_le_bytes([bytes[8], bytes[9]]),
            payload_bytes: u32_at(4) as usize,
            payload_crc: u32_at(12),
            position: u64_at(16),
            received_ns: u64_at(24).cast_signed(),
            synced_bytes: u64_at(32),
        })
    }
}

/// Why there is no frame at an offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BrokenFrame {
    pub(crate) reason: &'static str,
    /// The bytes of the segment that the frame (or, where its header is broken, the header) takes.
    pub(crate) extent: Range<usize>,
}

/// The frame at `offset` of a segment's bytes.
pub(crate) fn read_frame(segment: &[u8], offset: usize) -> Result<Frame<'_>, BrokenFrame> {
    let broken = |reason, end: usize| BrokenFrame { reason, extent: offset..end };
    let header_end = offset + HEADER_BYTES;
    let Some(header) = segment.get(offset..header_end).and_then(|bytes| bytes.try_into().ok()) else {
        return Err(broken("the file ends inside a frame header", header_end));
    };
    let header = FrameHeader::decode(header).map_err(|reason| broken(reason, header_end))?;
    let payload_end = header_end + header.payload_bytes;
    let end = payload_end + TRAILER_BYTES;
    let (Some(payload), Some(trailer)) =
        (segment.get(header_end..payload_end), segment.get(payload_end..end))
    else {
        return Err(broken("the file ends inside a frame", end));
    };
    if trailer != END_MARKER.to_le_bytes() {
        return Err(broken("the frame's end marker is missing", end));
    }
    if !checksum::matches(payload, header.payload_crc) {
        return Err(broken("the payload's checksum does not match", end));
    }
    Ok(Frame { header, payload })
}

/// What a broken frame is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tail {
    /// A write that a power cut or a kill tore; it was never on stable storage as a whole, so
    /// nothing of it was acknowledged under `always`. To be cut.
    Torn,
    /// Bytes that were stable have changed.
    Damaged,
}

/// Tells a torn write from damage at `offset`, where [`read_frame`] found no frame.
///
/// - A later whole frame that says bytes past `offset` were stable when it was written: damage.
/// - Else the bytes were in the last, unproven write. A frame cut short by the end of the file, or
///   with a sector that is still zero, was torn; a frame that is all there, but wrong, is damage.
pub(crate) fn classify_tail(segment: &[u8], offset: usize, broken: &BrokenFrame) -> Tail {
    if proof_of_sync(segment, offset) {
        return Tail::Damaged;
    }
    let cut_short = broken.extent.end > segment.len();
    let all_zero_after = segment[offset..].iter().all(|byte| *byte == 0);
    if cut_short || all_zero_after || has_unwritten_sector(segment, &broken.extent) {
        Tail::Torn
    } else {
        Tail::Damaged
    }
}

/// Whether a whole frame after `offset` was written when bytes past `offset` were already stable.
fn proof_of_sync(segment: &[u8], offset: usize) -> bool {
    let marker = FRAME_MARKER.to_le_bytes();
    let mut at = offset + 1;
    while let Some(found) = segment.get(at..).and_then(|rest| memchr::memmem::find(rest, &marker)) {
        at += found;
        match read_frame(segment, at) {
            Ok(frame) if frame.header.synced_bytes > offset as u64 => return true,
            Ok(frame) => at += frame.size(),
            Err(_) => at += 1,
        }
    }
    false
}

/// Whether some sector of the file holds only zeros where it overlaps `extent`.
fn has_unwritten_sector(segment: &[u8], extent: &Range<usize>) -> bool {
    let mut at = extent.start;
    while at < extent.end {
        let sector_end = (at / SECTOR_BYTES + 1) * SECTOR_BYTES;
        let end = sector_end.min(extent.end);
        if segment[at..end].iter().all(|byte| *byte == 0) {
            return true;
        }
        at = end;
    }
    false
}

#[cfg(test)]
mod tests;
