//! Reading a segment past damage: every whole frame, and what stands between them.
//!
//! For checks, repairs and streams only: recovery stops at damage. The markers lead from a broken frame to the
//! next whole one.

use super::frame::{
    BrokenFrame, FRAME_MARKER, Frame, FrameHeader, HEADER_BYTES, Tail, classify_tail, read_frame,
};
use super::segment::SEGMENT_HEADER_BYTES;
use std::ops::Range;

/// What stands at some place of a segment.
#[derive(Debug)]
pub(crate) enum Item<'a> {
    /// A whole frame, and where it begins.
    Frame(usize, Frame<'a>),
    /// Bytes that are no frame.
    Broken {
        extent: Range<usize>,
        reason: &'static str,
        /// Whether it is the torn end of the newest segment, as a power cut leaves it.
        torn: bool,
        /// What the frame's header says, where that is whole.
        header: Option<FrameHeader>,
    },
}

/// Visits what a segment holds after its header, in order. `first` is the segment's position, `newest`
/// whether its end may be torn.
pub(crate) fn scan(bytes: &[u8], first: u64, newest: bool, visit: impl FnMut(Item<'_>)) {
    scan_from(bytes, SEGMENT_HEADER_BYTES, first, newest, visit);
}

/// The same from byte `at` on, where no position may be less than `first`.
pub(crate) fn scan_from(
    bytes: &[u8],
    mut at: usize,
    first: u64,
    newest: bool,
    mut visit: impl FnMut(Item<'_>),
) {
    let mut last: Option<u64> = None;
    while at < bytes.len() {
        let grows = |position: u64| position >= first && last.is_none_or(|last| position > last);
        let broken = match read_frame(bytes, at) {
            Ok(frame) if grows(frame.header.position) => {
                last = Some(frame.header.position);
                visit(Item::Frame(at, frame));
                at += frame.size();
                continue;
            }
            Ok(frame) => BrokenFrame { reason: "positions do not grow", extent: at..at + frame.size() },
            Err(broken) if newest && classify_tail(bytes, at, &broken) == Tail::Torn => {
                let (extent, reason) = (at..bytes.len(), broken.reason);
                visit(Item::Broken { extent, reason, torn: true, header: None });
                return;
            }
            Err(broken) => broken,
        };
        let header = header_at(bytes, at);
        let is_frame = |at: usize| read_frame(bytes, at).is_ok_and(|frame| grows(frame.header.position));
        // A whole header tells where the next frame begins; else the markers do.
        let end = broken.extent.end;
        let next = if header.is_some() && (end == bytes.len() || is_frame(end)) {
            end
        } else {
            markers(bytes, at + 1).find(|at| is_frame(*at)).unwrap_or(bytes.len())
        };
        visit(Item::Broken { extent: at..next, reason: broken.reason, torn: false, header });
        at = next;
    }
}

fn header_at(bytes: &[u8], at: usize) -> Option<FrameHeader> {
    FrameHeader::decode(bytes.get(at..at + HEADER_BYTES)?.try_into().ok()?).ok()
}

/// Where the first bytes of a frame stand, from `at` on.
pub(crate) fn markers(bytes: &[u8], mut at: usize) -> impl Iterator<Item = usize> + '_ {
    std::iter::from_fn(move || {
        let found = memchr::memmem::find(bytes.get(at..)?, &FRAME_MARKER.to_le_bytes())?;
        at += found + 1;
        Some(at - 1)
    })
}

#[cfg(test)]
mod tests;
