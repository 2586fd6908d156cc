//! What is copied: a snapshot, and the tape up to its position.

use crate::core::Core;
use crate::disk::{Disk, FileBytes};
use crate::recovery::{self, READS_MAX};
use crate::store::snapshot::Snapshot;
use crate::store::switch;
use crate::tape::named::{NamedSegment, TapeFound};
use crate::tape::scan::{Item, scan};
use crate::tape::segment::{SEGMENT_HEADER_BYTES, Segment, list_segments};
use crate::write::accounts;
use crate::{EngineError, Result};
use std::sync::Arc;

/// A segment of the tape, as far as it is copied.
pub(super) struct TapePiece {
    pub(super) first: u64,
    /// What a tape manifest says of it.
    pub(super) named: NamedSegment,
    bytes: FileBytes,
    end: usize,
}

impl TapePiece {
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.end).unwrap_or_default()
    }
}

/// One state of a database. The snapshot keeps its parts from being removed.
pub(crate) struct Source {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) tape: Vec<TapePiece>,
}

impl Source {
    /// The present state of a database that this process writes. Its writer goes on: only sealing waits, while the
    /// names of segments are read.
    pub(crate) fn of_writer(core: &Core) -> Result<Self> {
        let disk = Arc::clone(&core.disk);
        let _pause = core.maintenance.pause();
        let snapshot = core.publisher.snapshot();
        core.tape.sync(snapshot.position())?;
        let segments = TapeFound::look(disk.as_ref())?.segments;
        let tape = tape_up_to(disk.as_ref(), &snapshot, segments)?;
        Ok(Self { disk, snapshot, tape })
    }

    /// The state that this process sees of a database that another may write: `newest` brings it up to that. That one
    /// does not wait: the tape must still hold what the state has in memory.
    pub(crate) fn beside_a_writer(
        disk: &Arc<dyn Disk>,
        newest: impl Fn() -> Result<Arc<Snapshot>>,
    ) -> Result<Self> {
        for _ in 0..READS_MAX {
            let snapshot = newest()?;
            let disk = switch::settled(disk)?;
            // Also those that the writer lets go of just now: the state may have their rows in memory.
            let segments = list_segments(disk.as_ref())?;
            let tape = match tape_up_to(disk.as_ref(), &snapshot, segments) {
                Err(EngineError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                    continue;
                }
                tape => tape?,
            };
            let begins = tape.first().map_or(u64::MAX, |piece| piece.first);
            if snapshot.oldest_run().is_none_or(|oldest| begins <= oldest) {
                return Ok(Self { disk, snapshot, tape });
            }
        }
        let cause = "its tape let go of rows each time".to_string();
        Err(EngineError::Unsettled { tries: READS_MAX, cause })
    }

    /// The state of a database that nobody writes.
    pub(super) fn of_closed(disk: &Arc<dyn Disk>) -> Result<Self> {
        let disk = switch::settled(disk)?;
        let snapshot = Arc::new(recovery::read_only(&disk)?);
        accounts::check(disk.as_ref(), &snapshot)?;
        let segments = TapeFound::look(disk.as_ref())?.segments;
        let tape = tape_up_to(disk.as_ref(), &snapshot, segments)?;
        Ok(Self { disk, snapshot, tape })
    }
}

/// The segments with frames that no part and no manifest of the snapshot holds, and the one it ends in: each
/// up to the snapshot's position. Held open, they outlive their names.
fn tape_up_to(disk: &dyn Disk, snapshot: &Snapshot, mut segments: Vec<u64>) -> Result<Vec<TapePiece>> {
    let oldest = snapshot.oldest_run().unwrap_or(u64::MAX);
    let needed_from = oldest.min(snapshot.position());
    segments.retain(|first| *first <= snapshot.position());
    let needless = segments.windows(2).take_while(|pair| pair[1] <= needed_from).count();
    let mut pieces = Vec::new();
    for first in segments.into_iter().skip(needless) {
        let segment = Segment::open(disk, first)?;
        if !segment.check_header(true)? {
            // It was being begun when a crash came.
            continue;
        }
        let bytes = segment.contents().clone();
        let mut end = SEGMENT_HEADER_BYTES.min(bytes.len());
        let mut named = NamedSegment::begun(first, segment.began_ns());
        scan(&bytes, first, true, |item| {
            if let Item::Frame(at, frame) = item
                && frame.header.position <= snapshot.position()
                && at == end
            {
                end = at + frame.size();
                (named.last, named.ended_ns) = (frame.header.position, frame.header.received_ns);
            }
        });
        named.bytes = end as u64;
        pieces.push(TapePiece { first, named, bytes, end });
    }
    Ok(pieces)
}
