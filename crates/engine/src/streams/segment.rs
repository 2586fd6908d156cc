//! Files of a stream's log: frames of the tape's format, each a burst of entries (docs/formats/stream.md).
//!
//! Invariants:
//! - a file is written by one process, from its beginning to its end; an opening begins a new one;
//! - the index beside a closed file says how long it is; one of another length is read through again;
//! - damage between whole frames is passed over, counted, and never cut off.

use super::described::{Described, NamedLog};
use super::entry::{Entries, Entry};
use super::settings::StreamSettings;
use crate::codec::{Decoder, Encoder};
use crate::disk::Disk;
use crate::disk::checked::{read_checked, replace_file};
use crate::paths::stream_dir;
use crate::tape::frame::{BrokenFrame, Frame, FrameHeader, HEADER_BYTES, Tail, classify_tail, read_frame};
use crate::tape::scan::{Item, markers, scan_from};
use crate::tape::segment::SEGMENT_HEADER_BYTES;
use crate::{EngineError, Result};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// First bytes of a file of the log.
const MAGIC: &[u8; 8] = b"TKSTLOG\0";
const INDEX_MAGIC: &[u8; 8] = b"TKSTIDX\0";
/// The format version this build writes, and the newest it reads.
const VERSION: u32 = 1;
const SUFFIX: &str = ".log";
/// The kind of a frame that holds entries.
pub(super) const KIND_DOCUMENTS: u16 = 1;

/// Where the frame stands that begins with a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IndexEntry {
    pub(super) ts_us: u64,
    pub(super) number: u64,
    pub(super) offset: u64,
}

/// What is known of one file of the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Segment {
    /// Number of the first document it was made for; its name.
    pub(super) first: u64,
    pub(super) documents: u64,
    /// Of the first and the last document; 0 where there is none.
    pub(super) first_ts_us: u64,
    pub(super) last_ts_us: u64,
    /// Number of the last document; 0 where there is none.
    pub(super) last: u64,
    /// Bytes on stable storage, in whole frames or damage between them.
    pub(super) bytes: u64,
    /// Of them, those that are no frame.
    pub(super) damaged_bytes: u64,
    /// Ascending.
    pub(super) index: Vec<IndexEntry>,
    /// Whether nothing is added any more.
    pub(super) closed: bool,
    /// What must be there of it, where less is: the file is shorter, or missing.
    pub(super) missing: Option<NamedLog>,
}

pub(crate) fn segment_path(stream: u32, first: u64) -> PathBuf {
    stream_dir(stream).join(format!("{first:016x}{SUFFIX}"))
}

pub(crate) fn index_path(stream: u32, first: u64) -> PathBuf {
    segment_path(stream, first).with_extension("index")
}

/// First numbers of the files of a stream with their lengths, ascending.
pub(crate) fn list_segments(disk: &dyn Disk, stream: u32) -> Result<Vec<(u64, u64)>> {
    let dir = stream_dir(stream);
    let entries = disk.list(&dir).map_err(EngineError::io("list", &dir))?;
    let first = |name: &str| u64::from_str_radix(name.strip_suffix(SUFFIX)?, 16).ok();
    let files = entries.iter().filter(|entry| !entry.is_dir);
    Ok(files.filter_map(|entry| Some((first(&entry.name)?, entry.len))).collect())
}

/// The bytes a file of the log begins with.
pub(crate) fn segment_header(first: u64) -> [u8; SEGMENT_HEADER_BYTES] {
    let mut bytes = [0; SEGMENT_HEADER_BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[16..24].copy_from_slice(&first.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..36]);
    bytes[36..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Fills in the header of a frame of entries, for which room was left before them.
pub(super) fn finish_frame(bytes: &mut Vec<u8>, number: u64, last_ts_us: u64, stable_bytes: u64) {
    let payload = &bytes[HEADER_BYTES..];
    let header = FrameHeader {
        kind: KIND_DOCUMENTS,
        payload_bytes: payload.len(),
        payload_crc: crc32c::crc32c(payload),
        position: number,
        received_ns: i64::try_from(last_ts_us.saturating_mul(1_000)).unwrap_or(i64::MAX),
        synced_bytes: stable_bytes,
    };
    bytes[..HEADER_BYTES].copy_from_slice(&header.encode());
    bytes.extend_from_slice(&crate::tape::frame::END_MARKER.to_le_bytes());
}

/// The time of a frame's last document.
pub(super) fn last_ts_us(frame: &Frame<'_>) -> u64 {
    u64::try_from(frame.header.received_ns / 1_000).unwrap_or(0)
}

impl Segment {
    pub(super) fn new(first: u64) -> Self {
        Self { first, bytes: SEGMENT_HEADER_BYTES as u64, ..Self::default() }
    }

    /// A file that must be there and is not.
    pub(super) fn missing(named: &NamedLog) -> Self {
        Self { first: named.first, closed: true, missing: Some(*named), ..Self::default() }
    }

    /// Compares a file of so many bytes with what must be there of it.
    pub(super) fn compare(&mut self, named: Option<&NamedLog>, len: u64) {
        self.missing = named.filter(|named| len < named.bytes).copied();
        if self.missing.is_some() {
            self.bytes = self.bytes.min(len);
        }
    }

    /// Bytes of it that must be there and are not.
    pub(super) fn missing_bytes(&self) -> u64 {
        self.missing.map_or(0, |named| named.bytes.saturating_sub(self.bytes))
    }

    /// Notes a frame at the end of what is known.
    pub(super) fn add(&mut self, settings: &StreamSettings, frame: AddedFrame) {
        let AddedFrame { offset, bytes, number, documents, first_ts_us, last_ts_us } = frame;
        let due = self.index.last().is_none_or(|last| {
            number + documents > last.number + u64::from(settings.index_documents)
                || offset + bytes > last.offset + settings.index_bytes
        });
        if due {
            self.index.push(IndexEntry { ts_us: first_ts_us, number, offset });
        }
        if self.documents == 0 {
            self.first_ts_us = first_ts_us;
        }
        self.documents += documents;
        self.last_ts_us = last_ts_us;
        self.last = number + documents - 1;
        self.bytes = offset + bytes;
    }

    /// Takes over what a copy that was added to knows more.
    pub(super) fn catch_up(&mut self, newer: &Self) {
        let Self { documents, first_ts_us, last_ts_us, last, bytes, damaged_bytes, index, closed, .. } =
            newer;
        (self.documents, self.first_ts_us, self.last_ts_us) = (*documents, *first_ts_us, *last_ts_us);
        (self.last, self.bytes, self.damaged_bytes, self.closed) = (*last, *bytes, *damaged_bytes, *closed);
        self.index.extend_from_slice(&index[self.index.len()..]);
    }

    /// Reads what there is of a file, from the bytes already known. Its end may be torn unless it is `closed`.
    ///
    /// # Errors
    /// [`EngineError::NewerFormat`].
    pub(super) fn read_on(
        &mut self,
        path: &Path,
        bytes: &[u8],
        settings: &StreamSettings,
        closed: bool,
    ) -> Result<ReadOn> {
        let mut read = ReadOn { good: 0, broken: Vec::new() };
        match header_of(path, bytes, self.first)? {
            Header::Unwritten => return Ok(read),
            Header::Whole => {}
            Header::Damaged if self.documents > 0 || self.damaged_bytes > 0 => {}
            Header::Damaged => {
                self.damaged_bytes += self.bytes;
                read.broken.push((0..self.bytes, "the header's checksum does not match"));
            }
        }
        read.good = self.bytes;
        let at = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        scan_from(bytes, at, self.first.max(self.last + 1), !closed, |item| match item {
            Item::Frame(at, frame) => {
                let Some(added) = AddedFrame::of(at as u64, &frame) else { return };
                self.add(settings, added);
                read.good = self.bytes;
            }
            Item::Broken { torn: true, .. } => {}
            Item::Broken { extent, reason, .. } => {
                self.damaged_bytes += extent.len() as u64;
                self.bytes = extent.end as u64;
                read.good = self.bytes;
                read.broken.push((extent.start as u64..extent.end as u64, reason));
            }
        });
        Ok(read)
    }

    /// A file that is closed, by the index beside it; `None` where that is missing, broken or of another length.
    pub(super) fn of_index(disk: &dyn Disk, stream: u32, first: u64, len: u64) -> Option<Self> {
        let (_, bytes) = read_checked(disk, &index_path(stream, first), INDEX_MAGIC, VERSION).ok()?;
        let segment = Self::decode(&bytes).ok()?;
        (segment.first == first && segment.bytes == len).then_some(segment)
    }

    /// Writes the index of a file that is closed. It can be made again from the file.
    pub(super) fn save_index(&self, disk: &dyn Disk, stream: u32) -> Result<()> {
        replace_file(disk, &index_path(stream, self.first), self.encode())
    }

    /// Removes the file and its index.
    pub(super) fn remove(&self, disk: &dyn Disk, stream: u32) -> Result<()> {
        for path in [index_path(stream, self.first), segment_path(stream, self.first)] {
            disk.remove(&path).map_err(EngineError::io("remove", &path))?;
        }
        Ok(())
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::default();
        out.raw(INDEX_MAGIC);
        out.u32(VERSION);
        let fields = [
            self.first,
            self.documents,
            self.first_ts_us,
            self.last_ts_us,
            self.last,
            self.bytes,
            self.damaged_bytes,
        ];
        fields.into_iter().for_each(|field| out.u64(field));
        out.len(self.index.len());
        for entry in &self.index {
            [entry.ts_us, entry.number, entry.offset].into_iter().for_each(|field| out.u64(field));
        }
        out.finish()
    }

    fn decode(bytes: &[u8]) -> std::result::Result<Self, String> {
        let mut from = Decoder::new(bytes);
        let mut segment = Self {
            first: from.u64()?,
            documents: from.u64()?,
            first_ts_us: from.u64()?,
            last_ts_us: from.u64()?,
            last: from.u64()?,
            bytes: from.u64()?,
            damaged_bytes: from.u64()?,
            index: Vec::new(),
            closed: true,
            missing: None,
        };
        for _ in 0..from.count(24)? {
            segment.index.push(IndexEntry { ts_us: from.u64()?, number: from.u64()?, offset: from.u64()? });
        }
        from.finish()?;
        Ok(segment)
    }

    /// Where to begin reading for the first document of which `is_past` holds.
    pub(super) fn start(&self, is_past: impl Fn(&IndexEntry) -> bool) -> u64 {
        let after = self.index.partition_point(|entry| !is_past(entry));
        self.index.get(after.saturating_sub(1)).map_or(SEGMENT_HEADER_BYTES as u64, |entry| entry.offset)
    }
}

/// What reading a file told beside its documents.
#[derive(Debug)]
pub(crate) struct ReadOn {
    /// Bytes of whole frames and damage between them: what follows was being written.
    pub(crate) good: u64,
    /// Where bytes are not what was written, and what is wrong with them.
    pub(crate) broken: Vec<(Range<u64>, &'static str)>,
}

/// Reads a file of the log through, from these bytes of it; what the stream says of it or an index beside it tells that
/// its end is not torn.
///
/// # Errors
/// [`EngineError::NewerFormat`].
pub(crate) fn survey(disk: &dyn Disk, described: &Described, first: u64, bytes: &[u8]) -> Result<ReadOn> {
    let (stream, len) = (described.id, bytes.len() as u64);
    let closed = described.is_closed_at(first, len) || Segment::of_index(disk, stream, first, len).is_some();
    let path = segment_path(stream, first);
    Segment::new(first).read_on(&path, bytes, &StreamSettings::default(), closed)
}

/// A damaged file of the log without its damage.
#[derive(Debug)]
pub(crate) struct KeptFrames {
    /// The file with the frames that are whole; `None` where none is.
    pub(crate) file: Option<(Vec<u8>, NamedLog)>,
    /// Numbers of the documents that were in others, first and last.
    pub(crate) lost: Vec<(u64, u64)>,
    /// The number after the last document of a whole frame.
    pub(crate) next: u64,
}

/// Keeps the whole frames of a file of these bytes, which had documents up to the number `last`, where that is known.
pub(crate) fn keep_frames(first: u64, bytes: &[u8], last: Option<u64>) -> KeptFrames {
    let (mut kept, mut lost, mut next) = (segment_header(first).to_vec(), Vec::new(), first);
    let mut segment = Segment::new(first);
    scan_from(bytes, SEGMENT_HEADER_BYTES, first, false, |item| {
        let Item::Frame(_, frame) = item else { return };
        let at = kept.len() as u64;
        let Some(added) = AddedFrame::of(at, &frame) else { return };
        if next < added.number {
            lost.push((next, added.number - 1));
        }
        next = added.number + added.documents;
        let mut whole = vec![0; HEADER_BYTES];
        whole.extend_from_slice(frame.payload);
        finish_frame(&mut whole, added.number, added.last_ts_us, at);
        kept.extend_from_slice(&whole);
        segment.add(&StreamSettings::default(), added);
    });
    lost.extend(last.filter(|last| next <= *last).map(|last| (next, last)));
    KeptFrames { file: (segment.documents > 0).then(|| (kept, NamedLog::closed(&segment))), lost, next }
}

/// The number of the last document in a file of these bytes; 0 where there is none.
pub(crate) fn last_of(first: u64, bytes: &[u8]) -> u64 {
    let mut last = 0;
    scan_from(bytes, SEGMENT_HEADER_BYTES, first, false, |item| {
        let Item::Frame(_, frame) = item else { return };
        if let Some(added) = AddedFrame::of(0, &frame) {
            last = added.number + added.documents - 1;
        }
    });
    last
}

/// A frame that a file got.
#[derive(Debug, Clone, Copy)]
pub(super) struct AddedFrame {
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) number: u64,
    pub(super) documents: u64,
    pub(super) first_ts_us: u64,
    pub(super) last_ts_us: u64,
}

impl AddedFrame {
    /// What is to be known of a frame; `None` where it has no entries.
    fn of(offset: u64, frame: &Frame<'_>) -> Option<Self> {
        let mut entries = Entries::new(frame.payload);
        let first: Entry<'_> = entries.next().filter(|_| frame.header.kind == KIND_DOCUMENTS)?;
        let documents = 1 + entries.count() as u64;
        Some(Self {
            offset,
            bytes: frame.size() as u64,
            number: frame.header.position,
            documents,
            first_ts_us: first.ts_us,
            last_ts_us: last_ts_us(frame),
        })
    }
}

/// What the first bytes of a file are.
enum Header {
    Whole,
    /// Nothing of the file was ever stable.
    Unwritten,
    /// Not what was written; the frames behind it are found without it.
    Damaged,
}

fn header_of(path: &Path, bytes: &[u8], first: u64) -> Result<Header> {
    let whole = |header: &&[u8]| {
        crc32c::crc32c(&header[..36]).to_le_bytes() == header[36..40] && &header[..8] == MAGIC
    };
    let Some(header) = bytes.get(..SEGMENT_HEADER_BYTES).filter(whole) else {
        let broken = BrokenFrame { reason: "no header", extent: 0..SEGMENT_HEADER_BYTES };
        return Ok(match classify_tail(bytes, 0, &broken) {
            Tail::Torn => Header::Unwritten,
            Tail::Damaged => Header::Damaged,
        });
    };
    let found = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
    if found > VERSION {
        return Err(EngineError::NewerFormat { path: path.to_path_buf(), found, known: VERSION });
    }
    Ok(if header[16..24] == first.to_le_bytes() { Header::Whole } else { Header::Damaged })
}

/// The first whole frame of entries from byte `at` on, before byte `end`, and where it stands.
pub(super) fn next_frame(bytes: &[u8], at: u64, end: u64) -> Option<(u64, Frame<'_>)> {
    let bytes = bytes.get(..usize::try_from(end).ok()?)?;
    // An index may say anything.
    let at = usize::try_from(at).ok().filter(|at| *at < bytes.len())?;
    let whole = |at: usize| read_frame(bytes, at).ok().filter(|frame| frame.header.kind == KIND_DOCUMENTS);
    let found = |at: usize| whole(at).map(|frame| (at as u64, frame));
    found(at).or_else(|| markers(bytes, at + 1).find_map(found))
}
