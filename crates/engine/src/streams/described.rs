//! What a stream's own file says: its name, its settings, and which files of its log there must be.
//!
//! Invariants:
//! - a file of the log is named here, on stable storage, before a document of it is read, and is no longer before it goes;
//! - of a file no byte is promised that was not stable before: all of one that was closed, else its header.

use super::buffer::BURST_BYTES;
use super::entry::ENTRY_HEADER_BYTES;
use super::segment::{Segment, segment_path};
use super::settings::StreamSettings;
use crate::codec::{Decoder, Encoder, Malformed};
use crate::disk::Disk;
use crate::disk::checked::{mend_copy, read_checked, replace_with_copy};
use crate::error::is_full;
use crate::paths::{copy_path, stream_dir};
use crate::tape::segment::SEGMENT_HEADER_BYTES;
use crate::{EngineError, Result};
use std::path::{Path, PathBuf};
use tickstone_model::format_nanos;

const MAGIC: &[u8; 8] = b"TKSTRM\0\0";
/// The format version this build writes, and the newest it reads. Version 1 names no files.
const VERSION: u32 = 2;
/// The file of a stream's name, settings and files.
const STREAM_FILE: &str = "stream";
/// What numbers, sizes and times (µs) of a log stay below for ever: a few of them can be added.
const NUMBER_MAX: u64 = 1 << 58;
/// Bytes of a named file's entry.
const ENTRY_BYTES: usize = 40;

/// A file of the log that must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NamedLog {
    /// Number of the first document; its name.
    pub(crate) first: u64,
    /// Bytes it has at least.
    pub(crate) bytes: u64,
    /// Number of the last document in these bytes; 0 where there is none.
    pub(crate) last: u64,
    /// Times of its first document and of the last in these bytes (µs since the Unix epoch).
    pub(crate) times_us: (u64, u64),
}

impl NamedLog {
    /// One without documents, behind which the numbers go on.
    pub(crate) fn begins(first: u64) -> Self {
        Self { first, bytes: SEGMENT_HEADER_BYTES as u64, last: 0, times_us: (0, 0) }
    }

    /// The last number that may have been given in it, where it is missing.
    pub(crate) fn last_given(&self, settings: &StreamSettings) -> u64 {
        if self.is_closed() {
            return self.last;
        }
        // How far it went nobody knows: whoever has read its documents goes on behind them.
        let bytes = settings.segment_bytes.saturating_add(BURST_BYTES as u64);
        self.first + bytes / ENTRY_HEADER_BYTES as u64
    }

    /// One that grows: nothing but its header is promised.
    pub(super) fn begun(segment: &Segment) -> Self {
        let times_us = (segment.first_ts_us, segment.first_ts_us);
        Self { first: segment.first, bytes: SEGMENT_HEADER_BYTES as u64, last: 0, times_us }
    }

    /// One that is closed, all of which is stable.
    pub(super) fn closed(segment: &Segment) -> Self {
        let times_us = (segment.first_ts_us, segment.last_ts_us);
        Self { first: segment.first, bytes: segment.bytes, last: segment.last, times_us }
    }

    /// Whether the file is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.bytes > SEGMENT_HEADER_BYTES as u64
    }

    /// Its path in the log of a stream.
    pub(crate) fn path(&self, stream: u32) -> PathBuf {
        segment_path(stream, self.first)
    }

    /// What it held, in words.
    pub(crate) fn held(&self) -> String {
        let ns = |us: u64| format_nanos(i64::try_from(us.saturating_mul(1_000)).unwrap_or(i64::MAX));
        let (first, (from, to)) = (self.first, self.times_us);
        if self.last < first {
            return format!("it held the documents from number {first} on, received since {}", ns(from));
        }
        let last = self.last;
        format!("it held the documents {first} to {last}, received between {} and {}", ns(from), ns(to))
    }
}

/// What a stream's own file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Described {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) settings: StreamSettings,
    pub(crate) dropped: bool,
    /// The files of its log, ascending; `None` where an earlier build wrote it.
    pub(crate) logs: Option<Vec<NamedLog>>,
}

impl Described {
    /// A stream without documents.
    pub(super) fn new(id: u32, name: String, settings: StreamSettings) -> Self {
        Self { id, name, settings, dropped: false, logs: Some(Vec::new()) }
    }

    pub(crate) fn path(id: u32) -> PathBuf {
        stream_dir(id).join(STREAM_FILE)
    }

    /// The files of its log that must be there, as far as that is known.
    pub(crate) fn logs(&self) -> &[NamedLog] {
        self.logs.as_deref().unwrap_or_default()
    }

    /// What must be there of a file.
    pub(crate) fn log(&self, first: u64) -> Option<&NamedLog> {
        let logs = self.logs();
        logs.get(logs.binary_search_by_key(&first, |named| named.first).ok()?)
    }

    /// Names a file, or promises more of it.
    pub(super) fn promise(&mut self, named: NamedLog) {
        let logs = self.logs.get_or_insert_default();
        match logs.binary_search_by_key(&named.first, |known| known.first) {
            Ok(place) => logs[place] = named,
            Err(place) => logs.insert(place, named),
        }
    }

    /// Forgets the files of its log but those whose first number is to stay.
    pub(crate) fn keep(&mut self, stays: impl Fn(u64) -> bool) {
        if let Some(logs) = &mut self.logs {
            logs.retain(|named| stays(named.first));
        }
    }

    /// Writes it and its copy.
    ///
    /// # Errors
    /// [`EngineError::Io`].
    pub(super) fn save(&self, disk: &dyn Disk) -> Result<()> {
        replace_with_copy(disk, &Self::path(self.id), self.encode()).map(drop)
    }

    /// Writes it anew, or its copy, where the disk says less. A full disk must not keep the database closed.
    ///
    /// # Errors
    /// [`EngineError::Io`].
    pub(super) fn mend(&self, disk: &dyn Disk) -> Result<()> {
        let path = Self::path(self.id);
        if Self::load_from(disk, &path).is_ok_and(|there| there == *self) {
            return mend_copy(disk, &path);
        }
        match self.save(disk) {
            Err(EngineError::Io { source, .. }) if is_full(&source) => Ok(()),
            other => other,
        }
    }

    /// The file's bytes, without the checksum at their end.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::default();
        out.raw(MAGIC);
        out.u32(VERSION);
        out.u32(self.id);
        out.text(&self.name);
        out.u8(u8::from(self.dropped));
        self.settings.encode(&mut out);
        out.len(self.logs().len());
        for log in self.logs() {
            let (from, to) = log.times_us;
            [log.first, log.bytes, log.last, from, to].into_iter().for_each(|field| out.u64(field));
        }
        out.finish()
    }

    /// Reads it from `path`.
    ///
    /// # Errors
    /// [`EngineError::Io`], [`EngineError::Damaged`], [`EngineError::NewerFormat`].
    pub(crate) fn load_from(disk: &dyn Disk, path: &Path) -> Result<Self> {
        let (version, bytes) = read_checked(disk, path, MAGIC, VERSION)?;
        Self::decode(version, &bytes).map_err(|what| EngineError::damaged(path, 0, what))
    }

    fn decode(version: u32, bytes: &[u8]) -> std::result::Result<Self, Malformed> {
        let mut from = Decoder::new(bytes);
        let (id, name) = (from.u32()?, from.text()?.to_string());
        let dropped = from.u8()? != 0;
        let mut found = Self { id, name, dropped, settings: StreamSettings::decode(&mut from)?, logs: None };
        if version == 1 {
            return Ok(found);
        }
        let mut logs: Vec<NamedLog> = Vec::new();
        for _ in 0..from.count(ENTRY_BYTES)? {
            let (first, bytes, last) = (from.u64()?, from.u64()?, from.u64()?);
            let times_us = (from.u64()?, from.u64()?);
            if logs.last().map_or(0, |before| before.first) >= first {
                return Err("files of the log that do not follow each other".to_string());
            }
            if [first, bytes, last, times_us.0, times_us.1].into_iter().any(|number| number > NUMBER_MAX) {
                return Err("a number that no file of a log has".to_string());
            }
            logs.push(NamedLog { first, bytes, last, times_us });
        }
        from.finish()?;
        found.logs = Some(logs);
        Ok(found)
    }

    /// Reads it, or its copy.
    ///
    /// # Errors
    /// What is wrong with it, where nothing better is known of the copy.
    pub(crate) fn load(disk: &dyn Disk, id: u32) -> Result<Self> {
        let path = Self::path(id);
        Self::load_from(disk, &path).or_else(|error| match error {
            EngineError::NewerFormat { .. } => Err(error),
            _ => Self::load_from(disk, &copy_path(&path)).map_err(|copied| match copied {
                EngineError::NewerFormat { .. } => copied,
                _ => error,
            }),
        })
    }

    /// Removes the files of these segments, which are named no more.
    ///
    /// # Errors
    /// [`EngineError::Io`]; nothing was removed where they are still named.
    pub(super) fn release(&mut self, disk: &dyn Disk, gone: &[Segment]) -> Result<()> {
        let before = self.logs().len();
        self.keep(|first| gone.iter().all(|segment| segment.first != first));
        if self.logs().len() < before {
            self.save(disk)?;
        }
        gone.iter().try_for_each(|segment| segment.remove(disk, self.id))
    }

    /// The files of its log that must be there and are not among these.
    pub(crate) fn missing<'a>(&'a self, there: &[(u64, u64)]) -> impl Iterator<Item = &'a NamedLog> {
        let is_missing =
            move |named: &&NamedLog| there.binary_search_by_key(&named.first, |of| of.0).is_err();
        self.logs().iter().filter(is_missing)
    }

    /// Whether a file of the log of so many bytes is closed, so that its end cannot be torn.
    pub(crate) fn is_closed_at(&self, first: u64, bytes: u64) -> bool {
        let closed = SEGMENT_HEADER_BYTES as u64 + 1;
        self.log(first).is_some_and(|named| (closed.max(bytes)..).contains(&named.bytes))
    }

    /// What is wrong with a file of the log of so many bytes.
    pub(crate) fn shortfall(&self, first: u64, bytes: u64) -> Option<String> {
        let named = self.log(first).filter(|named| bytes < named.bytes)?;
        Some(format!("the file ends at byte {bytes} of {}: {}", named.bytes, named.held()))
    }
}

/// What a stream is in whose folder nothing says so though documents are there.
pub(crate) fn recovered(id: u32) -> Described {
    let (name, settings) = (format!("recovered_{id}"), StreamSettings::default());
    Described { id, name, settings, dropped: false, logs: None }
}
