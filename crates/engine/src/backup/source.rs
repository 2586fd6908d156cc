//! What is copied: a snapshot, and the tape up to its position.

use crate::Result;
use crate::disk::{Disk, FileBytes};
use crate::engine::Core;
use crate::recovery;
use crate::snapshot::Snapshot;
use crate::switch;
use crate::tape::scan::{Item, scan};
use crate::tape::segment::{SEGMENT_HEADER_BYTES, Segment, list_segments};
use std::sync::Arc;

/// A segment of the tape, as far as it is copied.
pub(super) struct TapePiece {
    pub(super) first: u64,
    bytes: FileBytes,
    end: usize,
}

impl TapePiece {
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.end).unwrap_or_default()
    }
}

/// One state of a database. The snapshot keeps its parts from being removed.
pub(super) struct Source {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) tape: Vec<TapePiece>,
}

impl Source {
    /// The present state of an open database. Its writer goes on: only sealing waits, while the names of
    /// segments are read.
    pub(super) fn of_engine(core: &Core) -> Result<Self> {
        let disk = Arc::clone(&core.disk);
        let Ok(writing) = core.writing("a backup") else {
            let snapshot = core.publisher.snapshot();
            let tape = tape_up_to(disk.as_ref(), &snapshot)?;
            return Ok(Self { disk, snapshot, tape });
        };
        let _pause = writing.maintenance.pause();
        let snapshot = core.publisher.snapshot();
        writing.tape.sync(snapshot.position())?;
        let tape = tape_up_to(disk.as_ref(), &snapshot)?;
        Ok(Self { disk, snapshot, tape })
    }

    /// The state of a database that nobody writes.
    pub(super) fn of_closed(disk: &Arc<dyn Disk>) -> Result<Self> {
        let disk = switch::settled(disk)?;
        let snapshot = Arc::new(recovery::read_only(&disk)?.snapshot);
        let tape = tape_up_to(disk.as_ref(), &snapshot)?;
        Ok(Self { disk, snapshot, tape })
    }
}

/// The segments with frames that no part and no manifest of the snapshot holds, and the one it ends in: each
/// up to the snapshot's position. Held open, they outlive their names.
fn tape_up_to(disk: &dyn Disk, snapshot: &Snapshot) -> Result<Vec<TapePiece>> {
    let oldest = snapshot.oldest_run().unwrap_or(u64::MAX);
    let needed_from = oldest.min(snapshot.position());
    let mut segments = list_segments(disk)?;
    segments.retain(|first| *first <= snapshot.position());
    let needless = segments.windows(2).take_while(|pair| pair[1] <= needed_from).count();
    let mut pieces = Vec::new();
    for first in segments.into_iter().skip(needless) {
        let segment = Segment::open(disk, first)?;
        let bytes = segment.contents().clone();
        let mut end = SEGMENT_HEADER_BYTES.min(bytes.len());
        scan(&bytes, first, true, |item| {
            if let Item::Frame(at, frame) = item
                && frame.header.position <= snapshot.position()
                && at == end
            {
                end = at + frame.size();
            }
        });
        pieces.push(TapePiece { first, bytes, end });
    }
    Ok(pieces)
}
