//! Following: what happened to the tables after a place in the tape, change by change, once it is stable.
//!
//! ```text
//! newest changes: Feed, in memory  ─┐
//! older ones: frames of the tape  ──┴─► Follower ─► Heard
//! ```
//!
//! Owns a place in the tape and nothing else: who is slow costs neither memory nor time of those who write.
//!
//! Invariants:
//! - each change after the place is heard once, in the order of the tape, and none that is not on stable storage;
//! - a place whose next frames, or whose parts, are gone is an error: nothing is passed over.

mod difference;

pub use difference::{Difference, UpdatedRows, difference};

use crate::core::Core;
use crate::recent::split_by_partition;
use crate::store::feed::{Happened, Heard, HeardRewrite, HeardRows, SealedPartition, TableChange};
use crate::store::snapshot::{Snapshot, TableSnapshot};
use crate::tape::change::{Change, PartEntry, RewrittenPart, decode_change};
use crate::tape::frame::{Frame, read_frame};
use crate::tape::segment::{SEGMENT_HEADER_BYTES, first_position, list_segments, segment_path};
use crate::{EngineError, Result};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tickstone_model::{ColumnType, RowBatch};

/// Bytes of frames that are read from the tape at once.
const READ_BYTES: usize = 4 << 20;

/// Where a follower begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowFrom {
    /// After every change that is visible now.
    Now,
    /// After the change at this position.
    After(u64),
}

/// See the module. Ends with the engine: then it fails.
#[derive(Debug)]
pub struct Follower {
    core: Arc<Core>,
    position: u64,
    seals: u64,
    /// Where the frame after `position` is, if it was looked for: its segment, and the byte in it.
    place: Option<(u64, usize)>,
}

/// What a follower heard at once.
#[derive(Debug, Default)]
pub struct News {
    /// Changes, in order.
    pub heard: Vec<Arc<Heard>>,
    /// Partitions that were sealed since it last asked: told as it happens, and not again to who resumes.
    pub sealed: Vec<SealedPartition>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.core.publisher.feed().unfollow();
    }
}

impl Follower {
    pub(crate) fn new(core: Arc<Core>, from: FollowFrom) -> Result<Self> {
        let now = core.publisher.follow();
        let seals = core.publisher.feed().sealed_since(u64::MAX).1;
        let mut follower = Self { core, position: now, seals, place: None };
        if let FollowFrom::After(position) = from {
            if position > now {
                return Err(EngineError::PositionAhead { position, newest: now });
            }
            follower.position = position;
            follower.check_held()?;
        }
        Ok(follower)
    }

    /// All changes up to here were heard.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// What came next. Waits for it as long as `patience`; nothing where nothing came.
    ///
    /// # Errors
    /// [`EngineError::PositionGone`] where the tape has let go of what comes next; [`EngineError::TapeStopped`],
    /// [`EngineError::Io`], [`EngineError::Damaged`].
    pub fn next(&mut self, patience: Duration) -> Result<News> {
        let stable = self.core.tape.wait_stable(self.position, patience)?;
        let (sealed, seals) = self.core.publisher.feed().sealed_since(self.seals);
        self.seals = seals;
        if stable <= self.position {
            return Ok(News { heard: Vec::new(), sealed });
        }
        let heard = match self.core.publisher.feed().between(self.position, stable) {
            Some(heard) => {
                self.position = stable;
                self.place = None;
                heard
            }
            None => self.read_tape(stable)?,
        };
        Ok(News { heard, sealed })
    }

    /// The smallest position that can be followed from.
    ///
    /// # Errors
    /// [`EngineError::Io`].
    pub(crate) fn oldest(core: &Core) -> Result<u64> {
        // Positions of the epochs before end with what the opening found.
        let of_epoch = first_position(core.epoch).saturating_add(1);
        let begins = match list_segments(core.disk.as_ref())?.first() {
            Some(first) if *first != of_epoch => first.saturating_sub(1),
            _ => core.names.settled(),
        };
        Ok(begins.max(core.publisher.feed().unpinned()))
    }

    fn check_held(&self) -> Result<()> {
        let oldest = Self::oldest(&self.core)?;
        if self.position < oldest {
            return Err(EngineError::PositionGone { position: self.position, oldest });
        }
        Ok(())
    }

    fn gone(&self) -> EngineError {
        let oldest = Self::oldest(&self.core).unwrap_or(u64::MAX);
        EngineError::PositionGone { position: self.position, oldest }
    }

    /// Reads frames after the position, up to `stable` or a bound of bytes.
    fn read_tape(&mut self, stable: u64) -> Result<Vec<Arc<Heard>>> {
        let disk = Arc::clone(&self.core.disk);
        let segments = list_segments(disk.as_ref())?;
        // After they were listed: what is let go of is an error, not passed over.
        self.check_held()?;
        let next = self.position.saturating_add(1);
        let holds = segments.partition_point(|first| *first <= next).saturating_sub(1);
        let begins = segments.get(holds).map(|first| (*first, SEGMENT_HEADER_BYTES));
        // All of the segment it was in may be heard, and the segment gone.
        let place = self.place.filter(|(segment, _)| segments.binary_search(segment).is_ok());
        let Some((mut segment, mut at)) = place.or(begins) else {
            // Nothing was written since the opening.
            self.position = stable;
            return Ok(Vec::new());
        };
        let mut heard = Vec::new();
        let mut bytes = 0;
        while self.position < stable && bytes < READ_BYTES {
            let path = segment_path(segment);
            let is_newest = segments.last() == Some(&segment);
            // The newest one grows.
            let (contents, base) = match is_newest {
                true => (disk.read_from(&path, at as u64), at),
                false => (disk.read(&path), 0),
            };
            let contents = contents.map_err(|source| match source.kind() {
                io::ErrorKind::NotFound => self.gone(),
                _ => EngineError::io("read", &path)(source),
            })?;
            let snapshot = self.core.publisher.snapshot();
            while at - base < contents.len() && self.position < stable && bytes < READ_BYTES {
                let frame = match read_frame(&contents, at - base) {
                    // It is being written, and all before it was heard.
                    Err(broken) if is_newest && broken.extent.end > contents.len() => {
                        self.place = Some((segment, at));
                        self.position = stable;
                        return Ok(heard);
                    }
                    frame => frame.map_err(|broken| EngineError::damaged(&path, at as u64, broken.reason))?,
                };
                if frame.header.position > stable {
                    self.place = Some((segment, at));
                    self.position = stable;
                    return Ok(heard);
                }
                at += frame.size();
                bytes += frame.size();
                // Frames before the place, and those that a full disk refused and others replaced.
                if frame.header.position <= self.position {
                    continue;
                }
                heard.push(Arc::new(self.hear(&snapshot, segment, &frame)?));
                self.position = frame.header.position;
            }
            if at - base >= contents.len() && self.position < stable {
                let later = segments.iter().find(|first| **first > segment);
                // What is left has no frame: the first position of an epoch.
                let Some(later) = later else {
                    self.position = stable;
                    break;
                };
                (segment, at) = (*later, SEGMENT_HEADER_BYTES);
            }
        }
        self.place = Some((segment, at));
        Ok(heard)
    }

    /// What a frame says, as of the tables that are there now.
    fn hear(&self, snapshot: &Snapshot, segment: u64, frame: &Frame<'_>) -> Result<Heard> {
        let (position, received_ns) = (frame.header.position, frame.header.received_ns);
        let damaged = |what: String| {
            let what = format!("the frame at position {position:#x}: {what}");
            EngineError::damaged(segment_path(segment), 0, what)
        };
        let table = |id: u32| snapshot.table_by_id(id).filter(|table| table.created_at < position);
        let types = |id: u32| -> Option<Vec<ColumnType>> {
            let schema = table(id)?.history.at(position)?;
            Some(schema.columns().iter().map(|column| column.column_type).collect())
        };
        let change = decode_change(frame.header.kind, frame.payload, types).map_err(damaged)?;
        let known = |id: u32, what: Happened| {
            table(id).map(|_| TableChange { table: id, what }).into_iter().collect()
        };
        let changes = match change {
            Change::Rows(tables) => {
                let mut changes = Vec::with_capacity(tables.len());
                for rows in tables {
                    let Some(table) = table(rows.table) else { continue };
                    // Without its shape then it cannot be read: the history goes with the tape.
                    let schema = table.history.at(position).ok_or_else(|| self.gone())?;
                    let batch = RowBatch::new(Arc::clone(schema), rows.columns);
                    let batch = batch.map_err(|error| damaged(error.to_string()))?;
                    let pieces = split_by_partition(batch)?.into_iter().map(|(_, piece)| piece).collect();
                    let what = Happened::Rows(HeardRows::new(table, pieces));
                    changes.push(TableChange { table: rows.table, what });
                }
                changes
            }
            Change::Load { table: id, parts, .. } => match table(id) {
                Some(table) => vec![TableChange { table: id, what: self.loaded(table, position, &parts)? }],
                None => Vec::new(),
            },
            Change::Rewrite { table: id, parts, .. } => match table(id) {
                Some(table) => {
                    vec![TableChange { table: id, what: self.rewritten(table, position, &parts)? }]
                }
                None => Vec::new(),
            },
            Change::Truncate { table } => known(table, Happened::Truncated),
            Change::DropPartitions { table, range } => known(table, Happened::PartitionsDropped(range)),
            Change::Alter { table, schema } => known(table, Happened::Altered(Arc::new(schema))),
            Change::Replace { table: id, schema, replaced } => {
                let gone = TableChange { table: replaced, what: Happened::Dropped };
                let mut changes = vec![gone];
                changes.extend(known(id, Happened::Altered(Arc::new(schema))));
                changes
            }
            Change::Drop { table } => vec![TableChange { table, what: Happened::Dropped }],
            Change::Gap { .. } => {
                return Err(EngineError::PositionGone { position: self.position, oldest: position });
            }
            Change::Create { .. } | Change::Refresh { .. } | Change::Close => Vec::new(),
        };
        Ok(Heard { position, received_ns, changes })
    }

    fn loaded(&self, table: &TableSnapshot, position: u64, parts: &[PartEntry]) -> Result<Happened> {
        let feed = self.core.publisher.feed();
        let parts = parts.iter().map(|part| feed.pinned(position, &part.file));
        let parts: Option<Vec<_>> = parts.collect();
        Ok(Happened::Loaded(table.of_parts(parts.ok_or_else(|| self.lacking(position))?)))
    }

    fn rewritten(&self, table: &TableSnapshot, position: u64, parts: &[RewrittenPart]) -> Result<Happened> {
        let feed = self.core.publisher.feed();
        let find = |file: &str| {
            let part = feed.pinned(position, file).ok_or_else(|| self.lacking(position))?;
            Ok::<_, EngineError>(table.of_parts([part]))
        };
        let pair = |part: &RewrittenPart| {
            let came = part.came.as_ref().map(|came| find(&came.file)).transpose()?;
            Ok((find(&part.gone)?, came))
        };
        let parts = parts.iter().map(pair).collect::<Result<Vec<_>>>()?;
        Ok(Happened::Rewritten(HeardRewrite { parts }))
    }

    /// Parts of this frame are gone.
    fn lacking(&self, position: u64) -> EngineError {
        self.core.publisher.feed().note_unpinned(position);
        self.gone()
    }
}
