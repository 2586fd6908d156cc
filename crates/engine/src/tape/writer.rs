//! The latched writer: producers append to an open buffer, one thread writes and syncs whole groups.
//!
//! Invariants:
//! - frames are written in the order of their positions, each once;
//! - a group's effects are published after its write returned and before anything of it is
//!   acknowledged; under `always` the acknowledgement also waits for the sync after it;
//! - after a failed write or sync nothing is acknowledged or accepted any more: what the disk holds
//!   is known only after reopening;
//! - a segment is synced before the next is begun.

use super::frame::{END_MARKER, FrameHeader, HEADER_BYTES, MAX_PAYLOAD_BYTES, TRAILER_BYTES};
use super::segment::{SEGMENT_HEADER_BYTES, TAPE_DIR, first_position, segment_header, segment_path};
use crate::clock::Clock;
use crate::disk::{AppendFile, Disk};
use crate::{EngineError, Result};
use std::fmt::Debug;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tickstone_model::SyncPolicy;

/// Bytes of frames that may wait in the open buffer before producers do.
const BUFFER_BYTES_MAX: usize = 64 << 20;

/// Publishes a group of effects with one pointer swap.
pub(crate) trait Publish<E>: Send + Sync {
    /// Applies the effects, in order, of frames with these positions.
    fn publish(&self, group: Vec<(u64, E)>);
}

/// How the tape is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TapeOptions {
    /// A segment is closed once it is this long.
    pub(crate) segment_bytes: usize,
    /// Longest time between syncs while rows of policy `interval` wait.
    pub(crate) sync_interval: Duration,
}

/// The tape, open for writing. `E` is what a change does once it is written.
#[derive(Debug)]
pub(crate) struct Tape<E: Send + 'static> {
    shared: Arc<Shared<E>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared<E> {
    clock: Arc<dyn Clock>,
    latch: Mutex<Latch<E>>,
    /// Signalled when there is something to write, and at the end.
    filled: Condvar,
    /// Signalled when a group was written, synced, or failed.
    progressed: Condvar,
}

/// What producers and the writer thread share.
#[derive(Debug)]
struct Latch<E> {
    buffer: Vec<u8>,
    /// Offsets of the frame headers in `buffer`: the writer fills in what was synced.
    frames: Vec<usize>,
    effects: Vec<(u64, E)>,
    /// Strictest policy of the frames in the buffer.
    strictest: SyncPolicy,
    next_position: u64,
    written: u64,
    synced: u64,
    /// Position up to which someone asked for a sync.
    sync_wanted: u64,
    syncs: u64,
    failure: Option<String>,
    closing: bool,
}

/// The last position of the frames handed over, and how to wait for them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticket {
    pub(crate) position: u64,
    sync: SyncPolicy,
}

impl<E: Send + 'static> Tape<E> {
    /// Begins `epoch` with a writer thread. The first segment is made with the first frame.
    pub(crate) fn start(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        publisher: Arc<dyn Publish<E>>,
        epoch: u64,
        options: TapeOptions,
    ) -> Result<Self> {
        let next_position = first_position(epoch);
        let latch = Latch {
            buffer: Vec::new(),
            frames: Vec::new(),
            effects: Vec::new(),
            strictest: SyncPolicy::None,
            next_position,
            written: next_position.saturating_sub(1),
            synced: next_position.saturating_sub(1),
            sync_wanted: 0,
            syncs: 0,
            failure: None,
            closing: false,
        };
        let shared = Arc::new(Shared {
            clock: Arc::clone(&clock),
            latch: Mutex::new(latch),
            filled: Condvar::new(),
            progressed: Condvar::new(),
        });
        let mut writer = Writer {
            shared: Arc::clone(&shared),
            disk,
            clock,
            publisher,
            options,
            open: None,
            unsynced: None,
        };
        let thread = std::thread::Builder::new()
            .name("tape".to_string())
            .spawn(move || writer.run())
            .map_err(EngineError::io("start the thread of", TAPE_DIR))?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Appends a frame to the open buffer; `effect` is published once it is written.
    ///
    /// # Errors
    /// [`EngineError::TapeStopped`], or [`EngineError::CommitTooLarge`]; nothing was appended then.
    pub(crate) fn append(&self, kind: u16, payload: &[u8], effect: E, sync: SyncPolicy) -> Result<Ticket> {
        if payload.len() > MAX_PAYLOAD_BYTES {
            return Err(EngineError::CommitTooLarge { bytes: payload.len(), most: MAX_PAYLOAD_BYTES });
        }
        let payload_crc = crc32c::crc32c(payload);
        let received_ns = self.shared.clock.now_ns();
        let mut latch = self.shared.lock();
        while latch.buffer.len() > BUFFER_BYTES_MAX && latch.failure.is_none() {
            latch = wait(&self.shared.progressed, latch);
        }
        latch.check()?;
        let position = latch.next_position;
        latch.next_position += 1;
        let header = FrameHeader {
            kind,
            payload_bytes: payload.len(),
            payload_crc,
            position,
            received_ns,
            synced_bytes: 0,
        };
        let at = latch.buffer.len();
        latch.frames.push(at);
        latch.buffer.reserve(HEADER_BYTES + payload.len() + TRAILER_BYTES);
        latch.buffer.extend_from_slice(&header.encode());
        latch.buffer.extend_from_slice(payload);
        latch.buffer.extend_from_slice(&END_MARKER.to_le_bytes());
        latch.effects.push((position, effect));
        latch.strictest = latch.strictest.max(sync);
        drop(latch);
        self.shared.filled.notify_one();
        Ok(Ticket { position, sync })
    }

    /// Waits until a frame is written and published, and synced where its policy is `always`.
    ///
    /// # Errors
    /// [`EngineError::TapeStopped`]: whether the frame survives is known after reopening.
    pub(crate) fn wait(&self, ticket: Ticket) -> Result<()> {
        let mut latch = self.shared.lock();
        loop {
            let reached = if ticket.sync == SyncPolicy::Always { latch.synced } else { latch.written };
            if reached >= ticket.position {
                return Ok(());
            }
            latch.check()?;
            latch = wait(&self.shared.progressed, latch);
        }
    }

    /// Waits until every frame up to `position`, which must be written, is on stable storage.
    ///
    /// # Errors
    /// [`EngineError::TapeStopped`].
    pub(crate) fn sync(&self, position: u64) -> Result<()> {
        let mut latch = self.shared.lock();
        latch.sync_wanted = latch.sync_wanted.max(position.min(latch.written));
        let wanted = latch.sync_wanted;
        self.shared.filled.notify_one();
        while latch.synced < wanted {
            latch.check()?;
            latch = wait(&self.shared.progressed, latch);
        }
        Ok(())
    }

    /// How many syncs of rows the writer has made.
    pub(crate) fn syncs(&self) -> u64 {
        self.shared.lock().syncs
    }

    /// Writes and syncs what waits, then ends the writer thread.
    ///
    /// # Errors
    /// [`EngineError::TapeStopped`] where a write or sync failed, now or before.
    pub(crate) fn close(&self) -> Result<()> {
        self.shared.lock().closing = true;
        self.shared.filled.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            self.shared.lock().failure = Some("the tape's thread failed".to_string());
        }
        self.shared.lock().check()
    }
}

impl<E: Send + 'static> Drop for Tape<E> {
    fn drop(&mut self) {
        // A failure here was reported to every producer that waited.
        let _ = self.close();
    }
}

impl<E> Latch<E> {
    fn check(&self) -> Result<()> {
        match &self.failure {
            Some(cause) => Err(EngineError::TapeStopped { cause: cause.clone() }),
            None => Ok(()),
        }
    }
}

impl<E> Shared<E> {
    fn lock(&self) -> MutexGuard<'_, Latch<E>> {
        self.latch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// A buffer taken by the writer thread.
struct Group<E> {
    bytes: Vec<u8>,
    frames: Vec<usize>,
    effects: Vec<(u64, E)>,
    strictest: SyncPolicy,
}

/// The segment being written.
#[derive(Debug)]
struct OpenSegment {
    file: Box<dyn AppendFile>,
    bytes: usize,
    synced_bytes: usize,
}

/// Frames written but not synced that have a deadline.
#[derive(Debug, Clone, Copy)]
struct Unsynced {
    since_ns: i64,
}

struct Writer<E: Send + 'static> {
    shared: Arc<Shared<E>>,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    publisher: Arc<dyn Publish<E>>,
    options: TapeOptions,
    open: Option<OpenSegment>,
    unsynced: Option<Unsynced>,
}

impl<E: Send + 'static> Writer<E> {
    fn run(&mut self) {
        let mut last = 0;
        let outcome = loop {
            match self.next_group() {
                Some(group) => match self.commit(group) {
                    Ok(position) => last = position,
                    Err(error) => break Err(error),
                },
                None if self.closing() => break self.sync_to(last),
                None => {
                    if let Err(error) = self.sync_to(last) {
                        break Err(error);
                    }
                }
            }
        };
        if let Err(error) = outcome {
            let mut latch = self.shared.lock();
            latch.failure = Some(error.to_string());
            latch.effects.clear();
            latch.buffer = Vec::new();
        }
        self.shared.progressed.notify_all();
    }

    fn closing(&self) -> bool {
        let latch = self.shared.lock();
        latch.closing && latch.effects.is_empty()
    }

    /// The next buffer; `None` when it is time to sync what was written, or to end.
    fn next_group(&self) -> Option<Group<E>> {
        let mut latch = self.shared.lock();
        while latch.effects.is_empty() {
            if latch.closing || latch.sync_wanted > latch.synced {
                return None;
            }
            latch = match self.unsynced {
                None => wait(&self.shared.filled, latch),
                Some(_) => {
                    let waited = self.shared.filled.wait_timeout(latch, self.options.sync_interval);
                    let (latch, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                    if timeout.timed_out() && latch.effects.is_empty() {
                        return None;
                    }
                    latch
                }
            };
        }
        let group = Group {
            bytes: std::mem::take(&mut latch.buffer),
            frames: std::mem::take(&mut latch.frames),
            effects: std::mem::take(&mut latch.effects),
            strictest: latch.strictest,
        };
        latch.strictest = SyncPolicy::None;
        Some(group)
    }

    /// Writes, publishes and, by policy, syncs a group; returns its last position.
    fn commit(&mut self, mut group: Group<E>) -> Result<u64> {
        let first = group.effects.first().map_or(0, |(position, _)| *position);
        let last = group.effects.last().map_or(0, |(position, _)| *position);
        let segment = self.segment_for(first)?;
        stamp_synced_bytes(&mut group.bytes, &group.frames, segment.synced_bytes as u64);
        segment.file.append(&group.bytes).map_err(EngineError::io("append to", TAPE_DIR))?;
        segment.bytes += group.bytes.len();
        self.publisher.publish(group.effects);
        let sync_wanted = {
            let mut latch = self.shared.lock();
            latch.written = last;
            latch.sync_wanted > latch.synced
        };
        let now = self.clock.now_ns();
        if group.strictest == SyncPolicy::Interval {
            self.unsynced.get_or_insert(Unsynced { since_ns: now });
        }
        if sync_wanted || group.strictest == SyncPolicy::Always || self.sync_is_due(now) {
            self.sync_to(last)?;
        } else {
            self.shared.progressed.notify_all();
        }
        Ok(last)
    }

    fn sync_is_due(&self, now_ns: i64) -> bool {
        let interval = i64::try_from(self.options.sync_interval.as_nanos()).unwrap_or(i64::MAX);
        self.unsynced.is_some_and(|unsynced| now_ns.saturating_sub(unsynced.since_ns) >= interval)
    }

    fn sync_to(&mut self, position: u64) -> Result<()> {
        self.unsynced = None;
        if let Some(segment) = &mut self.open
            && segment.synced_bytes < segment.bytes
        {
            segment.file.sync().map_err(EngineError::io("sync", TAPE_DIR))?;
            segment.synced_bytes = segment.bytes;
            self.shared.lock().syncs += 1;
        }
        let mut latch = self.shared.lock();
        latch.synced = latch.synced.max(position);
        drop(latch);
        self.shared.progressed.notify_all();
        Ok(())
    }

    /// The segment to append to; begins a new one where there is none or it is full.
    fn segment_for(&mut self, position: u64) -> Result<&mut OpenSegment> {
        if self.open.as_ref().is_some_and(|open| open.bytes >= self.options.segment_bytes) {
            self.sync_to(position - 1)?;
            self.open = None;
        }
        if self.open.is_none() {
            let path = segment_path(position);
            let mut file = self.disk.create(&path).map_err(EngineError::io("create", &path))?;
            file.append(&segment_header(position, self.clock.now_ns()))
                .and_then(|()| file.sync())
                .map_err(EngineError::io("begin", &path))?;
            self.disk.sync_dir(Path::new(TAPE_DIR)).map_err(EngineError::io("sync", TAPE_DIR))?;
            let bytes = SEGMENT_HEADER_BYTES;
            self.open = Some(OpenSegment { file, bytes, synced_bytes: bytes });
        }
        Ok(self.open.as_mut().expect("set above"))
    }
}

/// Fills in what was stable when the group is written: only the writer knows.
fn stamp_synced_bytes(bytes: &mut [u8], frames: &[usize], synced_bytes: u64) {
    for at in frames {
        bytes[at + 32..at + 40].copy_from_slice(&synced_bytes.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[*at..at + 40]);
        bytes[at + 40..at + 44].copy_from_slice(&crc.to_le_bytes());
    }
}

#[cfg(test)]
mod tests;
