//! What is known of all files of a stream's log, and which of them go.

use super::segment::{Segment, list_segments, segment_path};
use super::settings::StreamSettings;
use crate::disk::Disk;
use crate::{EngineError, Result};

/// The files of a stream's log, ascending.
#[derive(Debug, Clone, Default)]
pub(super) struct Log {
    pub(super) segments: Vec<Segment>,
}

impl Log {
    /// Looks at the files that are there. The writer cuts a torn end off, and closes what was left open.
    ///
    /// # Errors
    /// [`EngineError::Io`], [`EngineError::NewerFormat`].
    pub(super) fn open(disk: &dyn Disk, stream: u32, settings: &StreamSettings) -> Result<Self> {
        let mut log = Self::default();
        for (first, len) in list_segments(disk, stream)? {
            if let Some(segment) = Segment::of_index(disk, stream, first, len) {
                log.segments.push(segment);
                continue;
            }
            let path = segment_path(stream, first);
            let bytes = disk.read(&path).map_err(EngineError::io("read", &path))?;
            let mut segment = Segment::new(first);
            let good = segment.read_on(&path, &bytes, settings, false)?.good;
            drop(bytes);
            if segment.documents == 0 && segment.damaged_bytes == 0 {
                segment.remove(disk, stream)?;
                continue;
            }
            // Also makes stable what a killed process left in the system's memory alone.
            disk.truncate(&path, good).map_err(EngineError::io("cut", &path))?;
            segment.closed = true;
            // A full disk must not keep the database closed: without an index it is read through again.
            let _ = segment.save_index(disk, stream);
            log.segments.push(segment);
        }
        Ok(log)
    }

    /// Looks at the files that another process writes, beside what is known already.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(super) fn follow(&mut self, disk: &dyn Disk, stream: u32, settings: &StreamSettings) -> Result<()> {
        let mut known = std::mem::take(&mut self.segments).into_iter().peekable();
        for (first, len) in list_segments(disk, stream)? {
            while known.next_if(|segment| segment.first < first).is_some() {}
            let mut segment =
                known.next_if(|segment| segment.first == first).unwrap_or_else(|| Segment::new(first));
            if !segment.closed && segment.bytes < len {
                if let Some(closed) = Segment::of_index(disk, stream, first, len) {
                    segment = closed;
                } else {
                    let path = segment_path(stream, first);
                    let bytes = match disk.read_from(&path, 0) {
                        Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                        other => other.map_err(EngineError::io("read", &path))?,
                    };
                    segment.read_on(&path, &bytes, settings, false)?;
                }
            }
            self.segments.push(segment);
        }
        Ok(())
    }

    pub(super) fn last_ts_us(&self) -> u64 {
        self.segments.iter().map(|segment| segment.last_ts_us).max().unwrap_or(0)
    }

    /// The number of the next document: above every one that was given, as far as is known.
    pub(super) fn next_number(&self) -> u64 {
        self.segments.last().map_or(1, |segment| segment.last.max(segment.first) + 1)
    }

    /// The number of the last document.
    pub(super) fn last(&self) -> u64 {
        self.segments.iter().map(|segment| segment.last).max().unwrap_or(0)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Takes out the oldest files that the settings let go, for the time `now_us`; the newest one stays.
    pub(super) fn take_expired(&mut self, settings: &StreamSettings, now_us: u64) -> Vec<Segment> {
        let mut bytes = self.bytes();
        let too_many = |bytes: u64| settings.max_bytes.is_some_and(|most| bytes > most);
        let oldest = settings.oldest_us(now_us);
        let mut gone = 0;
        for segment in self.segments.iter().rev().skip(1).rev() {
            let too_old = oldest.is_some_and(|oldest| segment.last_ts_us < oldest);
            if !segment.closed || !(too_many(bytes) || too_old) {
                break;
            }
            bytes -= segment.bytes;
            gone += 1;
        }
        self.segments.drain(..gone).collect()
    }
}
