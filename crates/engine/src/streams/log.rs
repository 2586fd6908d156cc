//! What is known of all files of a stream's log, and which of them go.

use super::described::{Described, NamedLog};
use super::read::Wanted;
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
    /// Looks at the files that are there, and must be. The writer cuts a torn end off, closes what was left open, and
    /// says so in `described`, which is not saved.
    ///
    /// # Errors
    /// [`EngineError::Io`], [`EngineError::NewerFormat`].
    pub(super) fn open(disk: &dyn Disk, described: &mut Described) -> Result<Self> {
        let (stream, mut log, mut empty) = (described.id, Self::default(), Vec::new());
        let there = list_segments(disk, stream)?;
        for (first, len) in &there {
            let mut segment = match Segment::of_index(disk, stream, *first, *len) {
                Some(segment) => segment,
                None => close(disk, described, *first, *len)?,
            };
            segment.compare(described.log(*first), *len);
            if segment.documents == 0 && segment.damaged_bytes == 0 && segment.missing.is_none() {
                // The newest may say that numbers before it were given to documents which are lost.
                let before = log.segments.last().map_or(0, |before: &Segment| before.last);
                let is_newest = there.last().is_some_and(|(newest, _)| newest == first);
                match is_newest && segment.first > before + 1 {
                    true => log.segments.push(segment),
                    false => empty.push(segment),
                }
                continue;
            }
            if segment.missing.is_none() {
                described.promise(NamedLog::closed(&segment));
            }
            log.segments.push(segment);
        }
        log.add_missing(described.missing(&there));
        // What stays goes at the next opening.
        let _ = described.release(disk, &empty);
        described.logs.get_or_insert_default();
        Ok(log)
    }

    fn add_missing<'a>(&mut self, missing: impl Iterator<Item = &'a NamedLog>) {
        self.segments.extend(missing.map(Segment::missing));
        self.segments.sort_by_key(|segment| segment.first);
    }

    /// Looks at the files that another process writes, beside what is known already.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(super) fn follow(&mut self, disk: &dyn Disk, described: &mut Described) -> Result<()> {
        let stream = described.id;
        let there = list_segments(disk, stream)?;
        let mut known = std::mem::take(&mut self.segments).into_iter().peekable();
        for (first, len) in &there {
            while known.next_if(|segment| segment.first < *first).is_some() {}
            let mut segment =
                known.next_if(|segment| segment.first == *first).unwrap_or_else(|| Segment::new(*first));
            if !segment.closed && segment.bytes < *len {
                if let Some(closed) = Segment::of_index(disk, stream, *first, *len) {
                    segment = closed;
                } else {
                    let path = segment_path(stream, *first);
                    let bytes = match disk.read_from(&path, 0) {
                        Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                        other => other.map_err(EngineError::io("read", &path))?,
                    };
                    segment.read_on(&path, &bytes, &described.settings, false)?;
                }
            }
            segment.compare(described.log(*first), *len);
            self.segments.push(segment);
        }
        if described.missing(&there).next().is_some()
            && let Ok(newer) = Described::load(disk, stream)
        {
            // The writer lets go of a name before its file goes: one that was named before and after the files were
            // listed must be there.
            self.add_missing(described.missing(&there).filter(|named| newer.log(named.first).is_some()));
            *described = newer;
        }
        Ok(())
    }

    pub(super) fn last_ts_us(&self) -> u64 {
        let last = |segment: &Segment| {
            let missing = segment.missing.map_or(0, |named| named.times_us.1);
            segment.last_ts_us.max(missing)
        };
        self.segments.iter().map(last).max().unwrap_or(0)
    }

    /// The number of the next document: above every one that was given, as far as is known.
    pub(super) fn next_number(&self, settings: &StreamSettings) -> u64 {
        let Some(newest) = self.segments.last() else { return 1 };
        let missing = newest.missing.map_or(0, |named| named.last_given(settings));
        newest.last.max(newest.first).max(missing).saturating_add(1)
    }

    /// Bytes that must be there and are not, where the documents wanted may have been.
    pub(super) fn missing_bytes(&self, wanted: &Wanted) -> u64 {
        let nexts = self.segments.iter().skip(1).map(Some).chain([None]);
        let gone = self.segments.iter().zip(nexts).filter_map(|(segment, next)| {
            let named = segment.missing?;
            let from = match segment.documents {
                0 => (named.first, named.times_us.0),
                _ => (segment.last.saturating_add(1), segment.last_ts_us.saturating_add(1)),
            };
            let to = match next {
                None => (u64::MAX, u64::MAX),
                Some(next) => {
                    let begins = next.missing.map_or(u64::MAX, |named| named.times_us.0);
                    let ts_us = if next.documents > 0 { next.first_ts_us } else { begins };
                    (next.first.saturating_sub(1), ts_us.saturating_sub(1))
                }
            };
            wanted.meets(from, to).then_some(segment.missing_bytes())
        });
        gone.fold(0, u64::saturating_add)
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

/// Reads a file through that has no index, cuts its torn end off, and gives it one. A file without a document is left as
/// it is.
fn close(disk: &dyn Disk, described: &Described, first: u64, len: u64) -> Result<Segment> {
    let stream = described.id;
    let path = segment_path(stream, first);
    let bytes = disk.read(&path).map_err(EngineError::io("read", &path))?;
    let mut segment = Segment::new(first);
    let closed = described.is_closed_at(first, len);
    let good = segment.read_on(&path, &bytes, &described.settings, closed)?.good;
    drop(bytes);
    segment.closed = true;
    if segment.documents == 0 && segment.damaged_bytes == 0 {
        return Ok(segment);
    }
    // Also makes stable what a killed process left in the system's memory alone.
    disk.truncate(&path, good).map_err(EngineError::io("cut", &path))?;
    // A full disk must not keep the database closed: without an index it is read through again.
    let _ = segment.save_index(disk, stream);
    Ok(segment)
}
