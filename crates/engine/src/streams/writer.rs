//! What a stream's thread does: bursts become frames of a file, which is synced.

use super::buffer::Burst;
use super::described::{Described, NamedLog};
use super::segment::{AddedFrame, Segment, finish_frame, segment_header, segment_path};
use super::settings::StreamSettings;
use super::stream::{Ending, Shared};
use crate::disk::AppendFile;
use crate::error::is_full;
use crate::lock::lock;
use crate::paths::stream_dir;
use crate::{EngineError, Result};
use std::sync::PoisonError;
use std::time::Duration;

/// Bursts that are written before they are synced, at most.
const WRITTEN_AT_ONCE: usize = 64;
/// How long a thread waits for documents before it ends; the next ones start another.
const IDLE: Duration = Duration::from_secs(5);
/// How long after a write that the disk had no room for it is tried again.
const FULL_PAUSE: Duration = Duration::from_millis(500);
/// Files of a stream with a time to live are closed after this share of it.
const TTL_SHARE: u64 = 8;

/// The file that grows.
#[derive(Debug)]
pub(super) struct Writing {
    file: Box<dyn AppendFile>,
    segment: Segment,
    /// Bytes of it that were synced, and its name; 0 before the first time.
    stable_bytes: u64,
}

impl Shared {
    /// Writes what comes, until nothing has come for a while or the stream ends.
    pub(super) fn write_all_that_comes(&self) {
        loop {
            let mut state = self.state();
            if state.buffer.bursts.is_empty() && state.ending == Ending::Not {
                let waiting = self.come.wait_timeout_while(state, IDLE, |state| {
                    state.buffer.bursts.is_empty() && state.ending == Ending::Not
                });
                state = waiting.unwrap_or_else(PoisonError::into_inner).0;
            }
            if state.buffer.bursts.is_empty() || state.ending != Ending::Not {
                state.written_by_thread = false;
                return;
            }
            drop(state);
            if self.write_all().is_err() {
                let state = self.state();
                drop(self.come.wait_timeout_while(state, FULL_PAUSE, |state| state.ending == Ending::Not));
            }
        }
    }

    /// Writes and syncs all that there is.
    pub(super) fn write_all(&self) -> Result<()> {
        loop {
            let mut writing = lock(&self.writing);
            let mut state = self.state();
            self.check(&state)?;
            let count = state.buffer.bursts.len().min(WRITTEN_AT_ONCE);
            if count == 0 {
                return Ok(());
            }
            let settings = state.settings;
            let mut bursts: Vec<Burst> = state.buffer.bursts.drain(..count).collect();
            drop(state);
            let (written, outcome) = self.write(&mut writing, &settings, &mut bursts);
            let left = bursts.split_off(written);
            let mut state = self.state();
            if let Some(last) = bursts.last() {
                state.stable = last.number + last.documents - 1;
            }
            // Those that were not written go back to the front.
            if state.ending == Ending::Dropped {
                bursts.extend(left);
            } else {
                left.into_iter().rev().for_each(|burst| state.buffer.bursts.push_front(burst));
            }
            state.failure = outcome.as_ref().err().map(ToString::to_string);
            state.failures += u64::from(outcome.is_err());
            let is_over =
                |error: &EngineError| !matches!(error, EngineError::Io { source, .. } if is_full(source));
            if state.ending == Ending::Not && outcome.as_ref().is_err_and(is_over) {
                state.ending = Ending::Stopped;
            }
            drop(state);
            self.settled.notify_all();
            // Memory is given back while nobody who appends waits for it.
            bursts.into_iter().for_each(|burst| self.on.pool.put(burst));
            outcome?;
        }
    }

    /// Writes bursts as frames and syncs them; how many of them are on stable storage then.
    fn write(
        &self,
        writing: &mut Option<Writing>,
        settings: &StreamSettings,
        bursts: &mut [Burst],
    ) -> (usize, Result<()>) {
        let mut settled = 0;
        for (index, burst) in bursts.iter_mut().enumerate() {
            if writing.as_ref().is_some_and(|writing| self.is_full_grown(&writing.segment, settings)) {
                if let Err(error) = self.settle(writing) {
                    return (settled, Err(self.give_up(writing).err().unwrap_or(error)));
                }
                settled = index;
                self.close_segment(writing);
            }
            if let Err(error) = self.write_frame(writing, settings, burst) {
                // What the file has of it is cut off with it; what came before is written anew.
                let cut = self.give_up(writing);
                return (settled, Err(cut.err().unwrap_or(error)));
            }
        }
        match self.settle(writing) {
            Ok(()) => (bursts.len(), Ok(())),
            Err(error) => {
                let cut = self.give_up(writing);
                (settled, Err(cut.err().unwrap_or(error)))
            }
        }
    }

    /// What is on stable storage of the file that grows.
    fn stable_of(&self, growing: &Segment) -> Option<Segment> {
        lock(&self.log).segments.last().filter(|last| last.first == growing.first).cloned()
    }

    fn is_full_grown(&self, segment: &Segment, settings: &StreamSettings) -> bool {
        let now_us = u64::try_from(self.on.clock.now_ns() / 1_000).unwrap_or(0);
        let share = settings.oldest_us(now_us).map(|oldest| (now_us - oldest) / TTL_SHARE);
        segment.bytes >= settings.segment_bytes
            || share.is_some_and(|share| segment.first_ts_us.saturating_add(share) < now_us)
    }

    fn write_frame(
        &self,
        writing: &mut Option<Writing>,
        settings: &StreamSettings,
        burst: &mut Burst,
    ) -> Result<()> {
        let path = |first| segment_path(self.id, first);
        if writing.is_none() {
            let path = path(burst.number);
            let mut file = self.on.disk.create(&path).map_err(EngineError::io("create", &path))?;
            let segment = Segment::new(burst.number);
            let header = segment_header(burst.number);
            let headed = file.append(&header).map_err(EngineError::io("write", &path));
            *writing = Some(Writing { file, segment, stable_bytes: 0 });
            headed?;
        }
        let Some(Writing { file, segment, stable_bytes, .. }) = writing else { return Ok(()) };
        let frame = &mut burst.frame;
        let payload = frame.len();
        let stable_bytes = *stable_bytes;
        finish_frame(frame, burst.number, burst.last_ts_us, stable_bytes);
        let appended = file.append(frame).map_err(EngineError::io("write", path(segment.first)));
        let added = AddedFrame {
            offset: segment.bytes,
            bytes: frame.len() as u64,
            number: burst.number,
            documents: burst.documents,
            first_ts_us: burst.first_ts_us,
            last_ts_us: burst.last_ts_us,
        };
        frame.truncate(payload);
        appended?;
        segment.add(settings, added);
        Ok(())
    }

    /// Syncs the file, and lets readers know of what it has.
    fn settle(&self, writing: &mut Option<Writing>) -> Result<()> {
        let Some(open) = writing else { return Ok(()) };
        let path = segment_path(self.id, open.segment.first);
        open.file.sync().map_err(EngineError::io("sync", &path))?;
        if open.stable_bytes == 0 {
            let dir = stream_dir(self.id);
            self.on.disk.sync_dir(&dir).map_err(EngineError::io("sync", &dir))?;
            self.describe(|described| described.promise(NamedLog::begun(&open.segment)))?;
        }
        open.stable_bytes = open.segment.bytes;
        let mut log = lock(&self.log);
        match log.segments.last_mut().filter(|last| last.first == open.segment.first) {
            Some(last) => last.catch_up(&open.segment),
            None => log.segments.push(open.segment.clone()),
        }
        Ok(())
    }

    /// Closes the file, all of which is settled, and lets old ones go.
    fn close_segment(&self, writing: &mut Option<Writing>) {
        let Some(Writing { mut segment, file, .. }) = writing.take() else { return };
        drop(file);
        segment.closed = true;
        // Its documents are stable: without an index it is read through at the next opening, which also says how long
        // it must be.
        let _ = segment.save_index(self.on.disk.as_ref(), self.id);
        let _ = self.describe(|described| described.promise(NamedLog::closed(&segment)));
        if let Some(last) = lock(&self.log).segments.last_mut() {
            last.closed = true;
        }
        // What could not be removed is found, and goes, at the next opening.
        let _ = self.expire();
    }

    /// Leaves a file that could not be written to with what is stable of it.
    fn give_up(&self, writing: &mut Option<Writing>) -> Result<()> {
        let Some(Writing { segment, file, .. }) = writing.take() else { return Ok(()) };
        drop(file);
        let path = segment_path(self.id, segment.first);
        match self.stable_of(&segment) {
            None => {
                let (disk, described) = (self.on.disk.as_ref(), lock(&self.described));
                // A name that it may have got goes first.
                if Described::load_from(disk, &Described::path(self.id)).ok().as_ref() != Some(&*described) {
                    described.save(disk)?;
                }
                segment.remove(disk, self.id)
            }
            Some(mut stable) => {
                self.on.disk.truncate(&path, stable.bytes).map_err(EngineError::io("cut", &path))?;
                stable.closed = true;
                if let Some(last) = lock(&self.log).segments.last_mut() {
                    last.closed = true;
                }
                // Without an index it is read through at the next opening.
                let _ = stable.save_index(self.on.disk.as_ref(), self.id);
                Ok(())
            }
        }
    }

    pub(super) fn close_file(&self) {
        self.close_segment(&mut lock(&self.writing));
    }
}
