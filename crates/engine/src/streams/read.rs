//! What is read of a stream: stretches of its files, as they lie there.

use super::described::Described;
use super::entry::{Entries, Entry};
use super::log::Log;
use super::segment::{Segment, last_ts_us, next_frame, segment_path};
use crate::disk::{Disk, FileBytes};
use crate::tape::frame::HEADER_BYTES;
use crate::{EngineError, Result};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Documents of a stream that were on stable storage when they were selected, in order.
#[derive(Debug, Default)]
pub struct Documents {
    pieces: Vec<Piece>,
    bytes: u64,
    /// Bytes that are no documents any more, by the number that their file begins with.
    damage: BTreeMap<u64, u64>,
    missing_bytes: u64,
}

/// Whole entries of one frame.
#[derive(Debug)]
struct Piece {
    file: FileBytes,
    from: usize,
    to: usize,
    /// Of the first of them.
    number: u64,
}

impl Documents {
    /// Bytes of all entries.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of files that were to be read for them and are not what was written, or missing: documents that were in
    /// them are not here.
    pub fn damaged_bytes(&self) -> u64 {
        self.damage.values().fold(self.missing_bytes, |all, bytes| all.saturating_add(*bytes))
    }

    /// The same of each file, by the number of its first document.
    pub(super) fn damage(&self) -> &BTreeMap<u64, u64> {
        &self.damage
    }

    fn add_damage(&mut self, first: u64, bytes: u64) {
        if bytes > 0 {
            let all = self.damage.entry(first).or_default();
            *all = all.saturating_add(bytes);
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The entries as they lie in the files, in stretches.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().map(|piece| &piece.file[piece.from..piece.to])
    }

    /// The entries, each with its number: the first document of a stream has 1, each next one more.
    pub fn entries(&self) -> impl Iterator<Item = (u64, Entry<'_>)> {
        self.pieces
            .iter()
            .flat_map(|piece| (piece.number..).zip(Entries::new(&piece.file[piece.from..piece.to])))
    }

    /// The number of the last document.
    pub fn last(&self) -> Option<u64> {
        let piece = self.pieces.last()?;
        Some(piece.number + Entries::new(&piece.file[piece.from..piece.to]).count() as u64 - 1)
    }

    /// The same, where so many bytes of files are missing beside.
    pub(super) fn without(mut self, missing_bytes: u64) -> Self {
        self.missing_bytes = self.missing_bytes.saturating_add(missing_bytes);
        self
    }

    /// Adds entries of a frame, up to `most` bytes in all but one at least; whether all of them had room.
    fn add(&mut self, file: &FileBytes, from: usize, to: usize, number: u64, most: u64) -> bool {
        let room = most.saturating_sub(self.bytes);
        let mut end = to;
        if (to - from) as u64 > room {
            let mut entries = Entries::new(&file[from..to]);
            let mut fits = 0;
            while entries.next().is_some() && (entries.at() as u64 <= room || self.bytes + fits as u64 == 0) {
                fits = entries.at();
            }
            end = from + fits;
        }
        if end > from {
            self.pieces.push(Piece { file: file.clone(), from, to: end, number });
            self.bytes += (end - from) as u64;
        }
        end == to
    }
}

/// Which documents are wanted.
#[derive(Debug, Clone)]
pub(super) enum Wanted {
    /// Of these times (microseconds since the Unix epoch).
    Times(RangeInclusive<u64>),
    /// With these numbers.
    Numbers(RangeInclusive<u64>),
}

impl Wanted {
    fn overlaps(&self, segment: &Segment) -> bool {
        let (first, last) = ((segment.first, segment.first_ts_us), (segment.last, segment.last_ts_us));
        segment.documents > 0 && self.meets(first, last)
    }

    /// Whether some of the documents between two numbers and times, both inclusive, can be wanted.
    pub(super) fn meets(&self, first: (u64, u64), last: (u64, u64)) -> bool {
        let meets =
            |range: &RangeInclusive<u64>, first, last| *range.start() <= last && first <= *range.end();
        match self {
            Wanted::Times(times) => meets(times, first.1, last.1),
            Wanted::Numbers(numbers) => meets(numbers, first.0, last.0),
        }
    }

    fn begin(&self) -> u64 {
        match self {
            Wanted::Times(range) | Wanted::Numbers(range) => *range.start(),
        }
    }

    fn end(&self) -> u64 {
        match self {
            Wanted::Times(range) | Wanted::Numbers(range) => *range.end(),
        }
    }

    fn of(&self, number: u64, ts_us: u64) -> u64 {
        match self {
            Wanted::Times(_) => ts_us,
            Wanted::Numbers(_) => number,
        }
    }
}

/// A file to be read, from and to a byte.
pub(super) struct Stretch {
    first: u64,
    closed: bool,
    from: u64,
    to: u64,
}

impl Stretch {
    fn of(segment: &Segment, from: u64) -> Self {
        Self { first: segment.first, closed: segment.closed, from, to: segment.bytes }
    }
}

/// Where the documents wanted are, in order.
pub(super) fn stretches(log: &Log, wanted: &Wanted) -> Vec<Stretch> {
    let from =
        |segment: &Segment| segment.start(|entry| wanted.of(entry.number, entry.ts_us) > wanted.begin());
    let segments = log.segments.iter().filter(|segment| wanted.overlaps(segment));
    segments.map(|segment| Stretch::of(segment, from(segment))).collect()
}

/// Where the newest document older than `at_us` is, the newest file first.
pub(super) fn stretches_before(log: &Log, at_us: u64) -> Vec<Stretch> {
    let older = log.segments.iter().rev().filter(|of| of.documents > 0 && of.first_ts_us < at_us);
    older.map(|segment| Stretch::of(segment, segment.start(|entry| entry.ts_us >= at_us))).collect()
}

/// Selects documents, the first ones up to `most` bytes of entries, but one at least.
///
/// # Errors
/// [`EngineError::Io`].
pub(super) fn select(
    disk: &dyn Disk,
    stream: u32,
    stretches: Vec<Stretch>,
    wanted: &Wanted,
    most: u64,
) -> Result<Documents> {
    let mut found = Documents::default();
    for stretch in stretches {
        let Some(file) = read_segment(disk, stream, stretch.first, stretch.closed)? else {
            // One that was let go of is no longer named.
            let is_named = |found: Described| found.log(stretch.first).is_some();
            if Described::load(disk, stream).is_ok_and(is_named) {
                found.add_damage(stretch.first, stretch.to.saturating_sub(stretch.from));
            }
            continue;
        };
        let mut at = stretch.from;
        while at < stretch.to {
            let Some((begins, frame)) = next_frame(&file, at, stretch.to) else {
                found.add_damage(stretch.first, stretch.to - at);
                break;
            };
            found.add_damage(stretch.first, begins - at);
            at = begins + frame.size() as u64;
            let start = begins as usize + HEADER_BYTES;
            let (mut from, mut to, mut first) = (None, start, frame.header.position);
            let whole = wanted.of(frame.header.position, first_ts_us(frame.payload)) >= wanted.begin()
                && wanted.of(u64::MAX, last_ts_us(&frame)) <= wanted.end();
            if whole {
                (from, to) = (Some(start), start + frame.payload.len());
            } else {
                let mut entries = Entries::new(frame.payload);
                for number in frame.header.position.. {
                    let began = entries.at();
                    let Some(entry) = entries.next() else { break };
                    let place = wanted.of(number, entry.ts_us);
                    if place > wanted.end() {
                        break;
                    }
                    if place >= wanted.begin() {
                        if from.is_none() {
                            (from, first) = (Some(start + began), number);
                        }
                        to = start + entries.at();
                    }
                }
            }
            let Some(from) = from else {
                if wanted.of(frame.header.position, first_ts_us(frame.payload)) > wanted.end() {
                    return Ok(found);
                }
                continue;
            };
            if !found.add(&file, from, to, first, most) {
                return Ok(found);
            }
        }
    }
    Ok(found)
}

fn first_ts_us(payload: &[u8]) -> u64 {
    payload.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// The newest document that is older than `at_us`.
///
/// # Errors
/// [`EngineError::Io`].
pub(super) fn last_before(
    disk: &dyn Disk,
    stream: u32,
    stretches: Vec<Stretch>,
    at_us: u64,
) -> Result<Documents> {
    let mut found = Documents::default();
    for stretch in stretches {
        let Some(file) = read_segment(disk, stream, stretch.first, stretch.closed)? else { continue };
        // The stretch before may be damaged to its end: then from the beginning.
        for mut at in [stretch.from, 0] {
            let mut last = None;
            while let Some((begins, frame)) = next_frame(&file, at, stretch.to) {
                if first_ts_us(frame.payload) >= at_us {
                    break;
                }
                last = Some((begins, frame));
                at = begins + frame.size() as u64;
            }
            let Some((begins, frame)) = last else { continue };
            let start = begins as usize + HEADER_BYTES;
            let mut entries = Entries::new(frame.payload);
            let (mut from, mut to, mut newest) = (0, 0, 0);
            for number in frame.header.position.. {
                let began = entries.at();
                if entries.next().is_none_or(|entry| entry.ts_us >= at_us) {
                    break;
                }
                (from, to, newest) = (began, entries.at(), number);
            }
            found.add(&file, start + from, start + to, newest, u64::MAX);
            return Ok(found);
        }
    }
    Ok(found)
}

/// A file's bytes; `None` where the oldest ones have gone meanwhile.
fn read_segment(disk: &dyn Disk, stream: u32, first: u64, closed: bool) -> Result<Option<FileBytes>> {
    let path = segment_path(stream, first);
    // One that grows may be cut by another process, down to what is stable; its own process reads no further.
    match if closed || !disk.is_shared() { disk.read(&path) } else { disk.read_from(&path, 0) } {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some).map_err(EngineError::io("read", path)),
    }
}
