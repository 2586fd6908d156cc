//! The tape manifest: which segments there must be, and how long, recorded outside the tape
//! (docs/formats/tape.md, docs/decisions/0020-tape-manifest.md).
//!
//! Invariants:
//! - a segment is named, on stable storage, before a frame is written to it, and is no longer before its file goes;
//! - of a segment no byte is promised that was not stable before: all of one that was closed, all of the newest
//!   after a clean close, else its header;
//! - what is promised is taken back, on stable storage, before it is cut off.

use super::segment::{SEGMENT_HEADER_BYTES, Segment, epoch_of, first_position, list_segments, segment_path};
use crate::codec::{Decoder, Encoder, Malformed};
use crate::disk::Disk;
use crate::disk::checked::{read_checked, replace_with_copy};
use crate::error::is_full;
use crate::lock::lock;
use crate::paths::{TAPE_DIR, copy_path};
use crate::{EngineError, Result};
use std::path::Path;
use std::sync::{Arc, Mutex};
use tickstone_model::format_nanos;

/// The file, in the database directory.
pub(crate) const TAPE_MANIFEST: &str = "tape-manifest";
/// What its temporary names end in.
pub(crate) const UNFINISHED: [&str; 2] = ["tape-manifest.tmp", "tape-manifest.copy.tmp"];
const MAGIC: &[u8; 8] = b"TKTAPM\0\0";
const VERSION: u32 = 1;
/// Bytes of an entry.
const ENTRY_BYTES: usize = 40;

/// A segment that must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NamedSegment {
    /// Its first position.
    pub(crate) first: u64,
    /// Bytes it has at least, in whole frames.
    pub(crate) bytes: u64,
    /// Position of the last frame in these bytes; 0 where there is none.
    pub(crate) last: u64,
    /// When it was begun, ns since the Unix epoch by the writer's clock.
    pub(crate) began_ns: i64,
    /// When that last frame was written (or noted here), by the same clock.
    pub(crate) ended_ns: i64,
}

impl NamedSegment {
    /// One that was begun: nothing but its header is stable.
    pub(crate) fn begun(first: u64, began_ns: i64) -> Self {
        Self { first, bytes: SEGMENT_HEADER_BYTES as u64, last: 0, began_ns, ended_ns: began_ns }
    }

    /// What it held, in words.
    pub(crate) fn held(&self) -> String {
        let (from, to) = (format_nanos(self.began_ns), format_nanos(self.ended_ns));
        if self.last < self.first {
            return format!("it held the frames from position {:#x} on, received since {from}", self.first);
        }
        format!(
            "it held the frames from position {:#x} to {:#x}, received between {from} and {to}",
            self.first, self.last
        )
    }

    /// What is wrong with a file of so many bytes in its place.
    pub(crate) fn shortfall(&self, bytes: u64) -> Option<String> {
        (bytes < self.bytes)
            .then(|| format!("the segment ends at byte {bytes} of {}: {}", self.bytes, self.held()))
    }
}

/// Which segments there must be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TapeManifest {
    /// Segments that begin before this position were let go of, whether they are there or not.
    pub(crate) begins: u64,
    /// The last position that the last opening, or a manifest it read, knew of: all frames up to it are promised.
    pub(crate) settled: u64,
    /// Ascending.
    pub(crate) segments: Vec<NamedSegment>,
}

impl TapeManifest {
    /// Reads it; `None` where there is none.
    ///
    /// # Errors
    /// [`EngineError::Io`], [`EngineError::Damaged`] or [`EngineError::NewerFormat`].
    pub(crate) fn load(disk: &dyn Disk) -> Result<Option<Self>> {
        Self::load_from(disk, Path::new(TAPE_MANIFEST))
    }

    /// Reads the copy of it.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub(crate) fn load_copy(disk: &dyn Disk) -> Result<Option<Self>> {
        Self::load_from(disk, &copy_path(Path::new(TAPE_MANIFEST)))
    }

    fn load_from(disk: &dyn Disk, path: &Path) -> Result<Option<Self>> {
        let bytes = match read_checked(disk, path, MAGIC, VERSION) {
            Err(EngineError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                return Ok(None);
            }
            other => other?.1,
        };
        Self::decode(&bytes).map(Some).map_err(|what| EngineError::damaged(path, 0, what))
    }

    /// The file's bytes, without the checksum at their end.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::default();
        out.raw(MAGIC);
        out.u32(VERSION);
        out.u64(self.begins);
        out.u64(self.settled);
        out.len(self.segments.len());
        for segment in &self.segments {
            out.u64(segment.first);
            out.u64(segment.bytes);
            out.u64(segment.last);
            out.i64(segment.began_ns);
            out.i64(segment.ended_ns);
        }
        out.finish()
    }

    fn decode(bytes: &[u8]) -> std::result::Result<Self, Malformed> {
        let mut input = Decoder::new(bytes);
        let (begins, settled) = (input.u64()?, input.u64()?);
        let mut segments: Vec<NamedSegment> = Vec::new();
        for _ in 0..input.count(ENTRY_BYTES)? {
            let (first, bytes, last) = (input.u64()?, input.u64()?, input.u64()?);
            let (began_ns, ended_ns) = (input.i64()?, input.i64()?);
            let follows = |before: &NamedSegment| before.first.max(before.last) < first;
            if first < begins || !segments.last().is_none_or(follows) {
                return Err("segments that do not follow each other".to_string());
            }
            segments.push(NamedSegment { first, bytes, last, began_ns, ended_ns });
        }
        input.finish()?;
        Ok(Self { begins, settled, segments })
    }

    pub(crate) fn segment(&self, first: u64) -> Option<&NamedSegment> {
        let place = self.segments.binary_search_by_key(&first, |segment| segment.first).ok()?;
        self.segments.get(place)
    }

    /// Lets go of the segments before a position, where one begins.
    fn release(&mut self, begins: u64) {
        self.begins = self.begins.max(begins);
        self.segments.retain(|segment| segment.first >= begins);
    }

    /// Writes it and its copy. Whether the copy was written.
    fn save(&self, disk: &dyn Disk) -> Result<bool> {
        replace_with_copy(disk, Path::new(TAPE_MANIFEST), self.encode())
    }
}

/// The segments of a tape, and what its manifest says of them.
#[derive(Debug, Default)]
pub(crate) struct TapeFound {
    /// Whether no tape manifest was ever written.
    pub(crate) older: bool,
    /// What must be there; nothing in a database of an earlier build.
    pub(crate) named: TapeManifest,
    /// First positions of the segments that are there, ascending, without those released.
    pub(crate) segments: Vec<u64>,
    /// Of those that are there and were let go of.
    pub(crate) released: Vec<u64>,
}

impl TapeFound {
    /// Looks at what there is.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] where the manifest cannot be read, or is missing though there was one;
    /// [`EngineError::NewerFormat`], [`EngineError::Io`].
    pub(crate) fn look(disk: &dyn Disk) -> Result<Self> {
        let named = TapeManifest::load(disk)?;
        let segments = list_segments(disk)?;
        if named.is_none() && is_missing(disk, &segments)? {
            let what = "the file is missing, which says what segments of the tape there must be; \
                        `tickstone check --repair` goes on with those that are there";
            return Err(EngineError::damaged(TAPE_MANIFEST, 0, what));
        }
        Ok(Self::of(named, segments))
    }

    pub(crate) fn of(named: Option<TapeManifest>, segments: Vec<u64>) -> Self {
        let (older, named) = (named.is_none(), named.unwrap_or_default());
        let (segments, released) = segments.into_iter().partition(|first| *first >= named.begins);
        Self { older, named, segments, released }
    }

    /// The same with the segments that are there by now.
    pub(crate) fn with(self, segments: Vec<u64>) -> Self {
        let older = self.older;
        Self { older, ..Self::of(Some(self.named), segments) }
    }

    /// What is wrong with a tape whose last frame has this position, where manifests hold the frames up to another.
    /// (The first position of an epoch is that of the opening: no frame has it.)
    pub(crate) fn shortfall(&self, last: Option<u64>, saved: u64) -> Option<String> {
        let begun = self.segments.last().map_or(0, |first| first.saturating_sub(1));
        let reached = last.unwrap_or(0).max(begun).max(self.named.settled);
        // In a restored database of earlier builds manifests hold the close, which the next opening cut off.
        let reached = reached.saturating_add(u64::from(self.older));
        (first_position(epoch_of(saved)) < saved && reached < saved).then(|| {
            format!(
                "frames are missing: the tape ends with position {reached:#x}, tables hold those up to {saved:#x}"
            )
        })
    }

    /// The first segment that must be there and is not.
    pub(crate) fn missing(&self) -> impl Iterator<Item = &NamedSegment> {
        self.named.segments.iter().filter(|named| self.segments.binary_search(&named.first).is_err())
    }

    /// # Errors
    /// [`EngineError::Damaged`] where a segment is missing.
    pub(crate) fn check_complete(&self) -> Result<()> {
        match self.missing().next() {
            None => Ok(()),
            Some(segment) => {
                let what = format!(
                    "the segment is missing: {}; `tickstone check --repair` goes on without them",
                    segment.held()
                );
                Err(EngineError::damaged(segment_path(segment.first), 0, what))
            }
        }
    }
}

/// Whether a tape manifest that is not there was once: segments of this format come after it.
pub(crate) fn is_missing(disk: &dyn Disk, segments: &[u64]) -> Result<bool> {
    if disk.read(&copy_path(Path::new(TAPE_MANIFEST))).is_ok() {
        return Ok(true);
    }
    for first in segments {
        let segment = Segment::open(disk, *first)?;
        if segment.is_named() && segment.contents().len() > SEGMENT_HEADER_BYTES {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The tape manifest of a database that this process writes.
#[derive(Debug)]
pub(crate) struct Names {
    disk: Arc<dyn Disk>,
    now: Mutex<Now>,
}

#[derive(Debug)]
struct Now {
    /// Manifests hold what the segments before this position tell.
    held_to: u64,
    named: TapeManifest,
    /// What the disk says; less where it was full at the opening.
    saved: TapeManifest,
    /// Whether there is a copy, of this state or one before.
    copied: bool,
}

impl Names {
    /// Those of a tape that was opened, of which the disk says what was `saved`.
    pub(crate) fn new(disk: &Arc<dyn Disk>, named: TapeManifest, saved: TapeManifest) -> Self {
        Self { disk: Arc::clone(disk), now: Mutex::new(Now { held_to: 0, named, saved, copied: false }) }
    }

    /// What is known of the segment that begins at a position.
    pub(crate) fn segment(&self, first: u64) -> Option<NamedSegment> {
        lock(&self.now).named.segment(first).copied()
    }

    /// The last position that the last opening knew of.
    pub(crate) fn settled(&self) -> u64 {
        lock(&self.now).named.settled
    }

    /// Writes them; on a full disk in the room of the copy.
    ///
    /// # Errors
    /// [`EngineError::Io`].
    pub(crate) fn save(&self) -> Result<()> {
        let mut now = lock(&self.now);
        let named = now.named.clone();
        self.save_in_any_room(&mut now, named)
    }

    /// Writes these, in the room of the copy where the disk is full, and takes them for those that there are.
    fn save_in_any_room(&self, now: &mut Now, next: TapeManifest) -> Result<()> {
        let disk = self.disk.as_ref();
        now.copied = match next.save(disk) {
            Err(EngineError::Io { source, .. }) if is_full(&source) => {
                let copy = copy_path(Path::new(TAPE_MANIFEST));
                disk.remove(&copy).map_err(EngineError::io("remove", &copy))?;
                now.copied = false;
                next.save(disk)?
            }
            saved => saved?,
        };
        (now.named, now.saved) = (next.clone(), next);
        Ok(())
    }

    /// Notes that manifests hold what the segments before a position tell, where one begins.
    pub(crate) fn note_held(&self, to: u64) {
        lock(&self.now).held_to = to;
    }

    /// Manifests hold what the segments before this position tell.
    pub(crate) fn held_to(&self) -> u64 {
        lock(&self.now).held_to
    }

    /// Lets go of the segments that are kept though manifests hold what they tell, and removes them, also where the disk
    /// is full. Whether there were any.
    ///
    /// # Errors
    /// [`EngineError::Io`]; they stay named where they could not be let go of.
    pub(crate) fn release_held(&self) -> Result<bool> {
        let mut now = lock(&self.now);
        let next = now.named.clone();
        self.save_without_held(&mut now, next)
    }

    /// Writes these without the segments that manifests hold, and removes those. Nothing happens where there are none.
    fn save_without_held(&self, now: &mut Now, mut next: TapeManifest) -> Result<bool> {
        let begins = now.held_to;
        let held: Vec<u64> =
            next.segments.iter().map(|segment| segment.first).filter(|first| *first < begins).collect();
        if !held.is_empty() {
            next.release(begins);
            self.save_in_any_room(now, next)?;
            remove_released(self.disk.as_ref(), &held)?;
        }
        Ok(!held.is_empty())
    }

    /// Whether there is a copy; written now where there was none. Without one the end is no clean close.
    pub(crate) fn is_copied(&self) -> bool {
        let mut now = lock(&self.now);
        if !now.copied
            && let Ok(copied) = now.named.save(self.disk.as_ref())
        {
            (now.copied, now.saved) = (copied, now.named.clone());
        }
        now.copied
    }

    /// Names a segment that was begun; `closed` is what is known of the one before, all of which is stable.
    ///
    /// # Errors
    /// [`EngineError::Io`]; [`Self::is_unchanged`] tells whether the disk is as it was.
    pub(crate) fn begin(&self, begun: NamedSegment, closed: Option<NamedSegment>) -> Result<()> {
        self.change(|named| {
            closed.into_iter().for_each(|closed| set(named, closed));
            named.segments.retain(|segment| segment.first != begun.first);
            named.segments.push(begun);
        })
    }

    /// Whether the disk still says what it did before a change that failed.
    pub(crate) fn is_unchanged(&self) -> bool {
        let now = lock(&self.now);
        TapeManifest::load(self.disk.as_ref()).is_ok_and(|found| found.unwrap_or_default() == now.saved)
    }

    /// Notes what is stable of a segment.
    ///
    /// # Errors
    /// [`EngineError::Io`].
    pub(crate) fn promise(&self, segment: NamedSegment) -> Result<()> {
        self.change(|named| set(named, segment))
    }

    /// Lets go of the segments before the one at `begins`: their files may go.
    ///
    /// # Errors
    /// [`EngineError::Io`]; they must stay then.
    pub(crate) fn release(&self, begins: u64) -> Result<()> {
        self.change(|named| named.release(begins))
    }

    /// Changes them; where the disk is full, in the room of segments that manifests hold.
    fn change(&self, change: impl FnOnce(&mut TapeManifest)) -> Result<()> {
        let mut now = lock(&self.now);
        let mut next = now.named.clone();
        change(&mut next);
        if next == now.saved {
            return Ok(());
        }
        match next.save(self.disk.as_ref()) {
            Err(EngineError::Io { source, .. })
                if is_full(&source) && self.save_without_held(&mut now, next.clone())? => {}
            saved => {
                now.copied |= saved?;
                (now.named, now.saved) = (next.clone(), next);
            }
        }
        Ok(())
    }
}

fn set(named: &mut TapeManifest, segment: NamedSegment) {
    if let Some(known) = named.segments.iter_mut().find(|known| known.first == segment.first) {
        *known = segment;
    }
}

/// Removes the segments that were let go of, for good.
///
/// # Errors
/// [`EngineError::Io`].
pub(crate) fn remove_released(disk: &dyn Disk, released: &[u64]) -> Result<()> {
    if released.is_empty() {
        return Ok(());
    }
    for first in released {
        let path = segment_path(*first);
        disk.remove(&path).map_err(EngineError::io("remove", &path))?;
    }
    disk.sync_dir(Path::new(TAPE_DIR)).map_err(EngineError::io("sync", TAPE_DIR))
}

#[cfg(test)]
mod tests;
