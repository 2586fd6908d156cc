//! The latched writer: producers append to an open buffer; one of those who wait for their frames
//! takes the whole buffer, writes and syncs it for all, while the others fill the next one.
//!
//! No thread stands between a producer and the file: a lone producer writes its frame itself, and of
//! many that wait together one leads. A thread of the tape's own only syncs rows of policy `interval`
//! when their time has come: beside whoever writes, where the disk has a second handle of the file.
//!
//! Invariants:
//! - one thread writes at a time: the one that took the [`Writer`] out of the latch;
//! - frames are written in the order of their positions, each once;
//! - a group's effects are published after its write returned and before anything of it is
//!   acknowledged; under `always` the acknowledgement also waits for the sync after it;
//! - after a failed write or sync nothing is acknowledged or accepted any more: what the disk holds
//!   is known only after reopening;
//! - a sync by the writer begins when none beside it is under way: an error of the file is told to one of them alone;
//! - but a write for which there was no space is cut off again, at once: its frames and those behind them are
//!   refused, and the next ones take their positions. A sync that finds no space is a failed sync;
//! - a segment is synced before the next is begun, and named in the tape manifest before it gets a frame.

use super::fate::{Fate, Ticket};
use super::frame::{FrameHeader, MAX_PAYLOAD_BYTES};
use super::named::{NamedSegment, Names};
use super::segment::{SEGMENT_HEADER_BYTES, first_position, segment_header, segment_path};
use crate::clock::Clock;
use crate::disk::{AppendFile, Disk, SyncFile};
use crate::error::is_full;
use crate::paths::TAPE_DIR;
use crate::{EngineError, Result};
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tickstone_model::SyncPolicy;

/// Bytes of frames that may wait in the open buffer before producers do.
const BUFFER_BYTES_MAX: usize = 64 << 20;

/// What a written frame does, and where and when it was received.
#[derive(Debug)]
pub(crate) struct Written<E> {
    pub(crate) position: u64,
    /// As in the frame (ns since the Unix epoch).
    pub(crate) received_ns: i64,
    pub(crate) effect: E,
}

/// Publishes a group of effects with one pointer swap.
pub(crate) trait Publish<E>: Debug + Send + Sync {
    /// Applies the effects of frames, in order.
    fn publish(&self, group: Vec<Written<E>>);
}

/// How the tape is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TapeOptions {
    /// A segment is closed once it is this long.
    pub(crate) segment_bytes: usize,
    /// Longest time between syncs while rows of policy `interval` wait.
    pub(crate) sync_interval: Duration,
    /// Whether a thread of the tape's own makes those syncs; without, a commit or [`Tape::sync_due`] does.
    pub(crate) background: bool,
}

/// The tape, open for writing. `E` is what a change does once it is written.
#[derive(Debug)]
pub(crate) struct Tape<E: Send + 'static> {
    shared: Arc<Shared<E>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// As [`TapeOptions::sync_interval`].
    interval: Duration,
}

#[derive(Debug)]
struct Shared<E> {
    clock: Arc<dyn Clock>,
    latch: Mutex<Latch<E>>,
    /// Signalled when rows begin to wait for a sync by interval, and at the end.
    unsynced: Condvar,
    /// Signalled when the writer was put back, and when writing failed.
    progressed: Condvar,
}

/// What producers share.
#[derive(Debug)]
struct Latch<E> {
    /// Absent while a thread writes or syncs.
    writer: Option<Writer<E>>,
    buffer: Vec<u8>,
    /// Offsets of the frame headers in `buffer`: the writer fills in what was synced.
    frames: Vec<usize>,
    effects: Vec<Written<E>>,
    /// Strictest policy of the frames in the buffer.
    strictest: SyncPolicy,
    next_position: u64,
    /// What becomes of the frames in the buffer and of those being written.
    fate: Arc<Fate>,
    written: u64,
    synced: u64,
    /// Position up to which someone asked for a sync.
    sync_wanted: u64,
    /// Since when rows of policy `interval` wait for a sync.
    unsynced_since_ns: Option<i64>,
    syncs: u64,
    /// What someone who follows saw written and not synced, and since when.
    followed: Option<(u64, Instant)>,
    /// Where what is written ends, for a sync beside the writer.
    tail: Option<Tail>,
    /// Whether such a sync is under way.
    syncs_beside: bool,
    /// What such syncs made stable of the segment that begins at a position: so many bytes.
    stable: Option<(u64, usize)>,
    failure: Option<String>,
    closing: bool,
}

/// The end of what is written of a segment.
#[derive(Debug, Clone)]
struct Tail {
    /// The segment's first position.
    first: u64,
    bytes: usize,
    file: Arc<dyn SyncFile>,
}

impl<E: Send + 'static> Tape<E> {
    /// Begins `epoch`. The first segment is made with the first frame.
    pub(crate) fn start(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        publisher: Arc<dyn Publish<E>>,
        names: Arc<Names>,
        epoch: u64,
        options: TapeOptions,
    ) -> Result<Self> {
        let next_position = first_position(epoch) + 1;
        let (open, closed, writers_clock) = (None, None, Arc::clone(&clock));
        let writer = Writer { disk, clock: writers_clock, publisher, names, options, open, closed };
        let latch = Latch {
            writer: Some(writer),
            buffer: Vec::new(),
            frames: Vec::new(),
            effects: Vec::new(),
            strictest: SyncPolicy::None,
            next_position,
            fate: Arc::default(),
            written: next_position.saturating_sub(1),
            synced: next_position.saturating_sub(1),
            sync_wanted: 0,
            unsynced_since_ns: None,
            syncs: 0,
            followed: None,
            tail: None,
            syncs_beside: false,
            stable: None,
            failure: None,
            closing: false,
        };
        let shared = Arc::new(Shared {
            clock,
            latch: Mutex::new(latch),
            unsynced: Condvar::new(),
            progressed: Condvar::new(),
        });
        let syncing = Arc::clone(&shared);
        let start = || {
            std::thread::Builder::new()
                .name("tape".to_string())
                .spawn(move || syncing.sync_by_interval(options.sync_interval))
                .map_err(EngineError::io("start the thread of", TAPE_DIR))
        };
        let thread = if options.background { Some(start()?) } else { None };
        Ok(Self { shared, thread: Mutex::new(thread), interval: options.sync_interval })
    }

    /// Whether frames are still written. Whoever finds nothing to write has nothing acknowledged without asking: what
    /// the snapshot shows may be of a frame whose sync failed.
    ///
    /// # Errors
    /// [`EngineError::TapeStopped`].
    pub(crate) fn check(&self) -> Result<()> {
        self.shared.lock().check()
    }

    /// What becomes of the frames that are appended now: for [`Self::append_after`].
    pub(crate) fn fate(&self) -> Arc<Fate> {
        Arc::clone(&self.shared.lock().fate)
    }

    /// The last position written.
    pub(crate) fn written(&self) -> u64 {
        self.shared.lock().written
    }

    /// Appends a frame to the open buffer; `effect` is published once it is written.
    ///
    /// # Errors
    /// [`EngineError::TapeStopped`], or [`EngineError::CommitTooLarge`]; nothing was appended then.
    pub(crate) fn append(&self, kind: u16, payload: &[u8], effect: E, sync: SyncPolicy) -> Result<Ticket> {
        self.append_after(&self.fate(), kind, payload, effect, sync)
    }

    /// As [`Self::append`], for a frame that relies on others that were appended: their symbols, or what they
    /// replace. `fate` is that of before the caller looked at them.
    ///
    /// # Errors
    /// As [`Self::append`], and [`EngineError::DiskFull`] where frames were refused meanwhile.
    pub(crate) fn append_after(
        &self,
        fate: &Arc<Fate>,
        kind: u16,
        payload: &[u8],
        effect: E,
        sync: SyncPolicy,
    ) -> Result<Ticket> {
        if payload.len() > MAX_PAYLOAD_BYTES {
            return Err(EngineError::CommitTooLarge { bytes: payload.len(), most: MAX_PAYLOAD_BYTES });
        }
        let payload_crc = crc32c::crc32c(payload);
        let received_ns = self.shared.clock.now_ns();
        let mut latch = self.shared.lock();
        while latch.buffer.len() > BUFFER_BYTES_MAX && latch.failure.is_none() {
            latch = self.shared.write_or_wait(latch);
        }
        latch.check()?;
        fate.check(u64::MAX)?;
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
        header.append_with(payload, &mut latch.buffer);
        latch.effects.push(Written { position, received_ns, effect });
        latch.strictest = latch.strictest.max(sync);
        Ok(Ticket { position, sync, fate: Arc::clone(&latch.fate) })
    }

    /// Returns once a frame is written and published, and synced where its policy is `always`: by this
    /// thread, or by another that leads.
    ///
    /// # Errors
    /// [`EngineError::TapeStopped`]: whether the frame survives is known after reopening.
    /// [`EngineError::DiskFull`]: it was not stored.
    pub(crate) fn wait(&self, ticket: &Ticket) -> Result<()> {
        let mut latch = self.shared.lock();
        loop {
            ticket.fate.check(ticket.position)?;
            let synced =
                ticket.sync == SyncPolicy::Always && !cfg!(feature = "planted-early-acknowledgement");
            let reached = if synced { latch.synced } else { latch.written };
            if reached >= ticket.position {
                return Ok(());
            }
            latch.check()?;
            latch = self.shared.write_or_wait(latch);
        }
    }

    /// Returns once every frame up to `position`, which a snapshot shows, is on stable storage; with `u64::MAX` those
    /// that are written.
    ///
    /// # Errors
    /// [`EngineError::TapeStopped`].
    pub(crate) fn sync(&self, position: u64) -> Result<()> {
        let mut latch = self.shared.lock();
        // A frame is in the snapshot a moment before it counts as written.
        let wanted = if position == u64::MAX { latch.written } else { position };
        latch.sync_wanted = latch.sync_wanted.max(wanted);
        while latch.synced < wanted {
            latch.check()?;
            latch = self.shared.write_or_wait(latch);
        }
        Ok(())
    }

    /// The last position that is on stable storage, once it is past `after` or `patience` has passed; what was written
    /// by a laxer policy than `always`, and waits that long, is synced for it.
    ///
    /// # Errors
    /// [`EngineError::TapeStopped`].
    #[allow(clippy::disallowed_methods, reason = "how long someone waits, which nothing stored depends on")]
    pub(crate) fn wait_stable(&self, after: u64, patience: Duration) -> Result<u64> {
        let deadline = Instant::now() + patience;
        let mut latch = self.shared.lock();
        loop {
            latch.check()?;
            let now = Instant::now();
            if latch.synced > after || now >= deadline {
                return Ok(latch.synced);
            }
            let mut until = deadline;
            if latch.written > latch.synced {
                let seen = (latch.written, now);
                let (written, since) = *latch.followed.get_or_insert(seen);
                if latch.synced >= written {
                    latch.followed = None;
                    continue;
                }
                if now >= since + self.interval {
                    latch.followed = None;
                    drop(latch);
                    self.sync(written)?;
                    latch = self.shared.lock();
                    continue;
                }
                until = until.min(since + self.interval);
            }
            let waited = self.shared.progressed.wait_timeout(latch, until.saturating_duration_since(now));
            latch = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns once every frame appended so far is written and published, or refused; it may not be stable yet.
    ///
    /// # Errors
    /// [`EngineError::TapeStopped`].
    pub(crate) fn publish_all(&self) -> Result<()> {
        let mut latch = self.shared.lock();
        let (last, fate) = (latch.next_position - 1, Arc::clone(&latch.fate));
        while latch.written < last && fate.refused_from().is_none() {
            latch.check()?;
            latch = self.shared.write_or_wait(latch);
        }
        Ok(())
    }

    /// Returns once every frame appended so far is written, published and on stable storage, or refused.
    ///
    /// # Errors
    /// [`EngineError::TapeStopped`].
    pub(crate) fn settle(&self) -> Result<()> {
        self.publish_all()?;
        self.sync(u64::MAX)
    }

    /// Syncs rows of policy `interval` whose time has come, where no thread of the tape's own does.
    ///
    /// # Errors
    /// [`EngineError::TapeStopped`].
    pub(crate) fn sync_due(&self) -> Result<()> {
        let mut latch = self.shared.lock();
        latch.check()?;
        if latch.unsynced_since_ns.is_some() {
            latch = self.shared.write_or_wait(latch);
        }
        latch.check()
    }

    /// Syncs everything, then appends a frame that says so, and syncs it. Where that fails the frame is cut off
    /// again: the next opening must not take it for the truth.
    ///
    /// # Errors
    /// [`EngineError::TapeStopped`].
    pub(crate) fn end_with(&self, kind: u16, payload: &[u8], effect: E) -> Result<()> {
        self.sync(u64::MAX)?;
        let ticket = self.append(kind, payload, effect, SyncPolicy::Always)?;
        self.wait(&ticket).inspect_err(|_| {
            if let Some(writer) = &self.shared.lock().writer {
                writer.cut_unsynced();
            }
        })
    }

    /// What is stable of the newest segment, where all of it is; `None` where there is none, or while it is written.
    pub(crate) fn newest(&self) -> Option<NamedSegment> {
        let latch = self.shared.lock();
        let open = latch.writer.as_ref()?.open.as_ref()?;
        let now_ns = self.shared.clock.now_ns();
        (open.stable_bytes(latch.stable) == open.bytes).then(|| open.named(latch.written, now_ns))
    }

    /// How many syncs of rows the writer has made.
    pub(crate) fn syncs(&self) -> u64 {
        self.shared.lock().syncs
    }

    /// Writes and syncs what waits, and ends the tape's thread.
    ///
    /// # Errors
    /// [`EngineError::TapeStopped`] where a write or sync failed, now or before.
    pub(crate) fn close(&self) -> Result<()> {
        self.shared.lock().closing = true;
        self.shared.unsynced.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            self.shared.lock().failure = Some("the tape's thread failed".to_string());
        }
        self.settle()?;
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

impl<E> Latch<E> {
    /// Nothing is acknowledged or accepted any more; the first cause stays.
    fn stop(&mut self, cause: String) {
        self.failure.get_or_insert(cause);
        self.effects.clear();
        self.buffer = Vec::new();
    }

    /// There was no space for the frames from position `from` on; those in the buffer may rely on them.
    fn refuse(&mut self, from: u64, cause: String) {
        std::mem::take(&mut self.fate).refuse(from, cause);
        self.next_position = from;
        self.buffer.clear();
        self.frames.clear();
        self.effects.clear();
        self.strictest = SyncPolicy::None;
    }
}

impl<E: Send + 'static> Shared<E> {
    fn lock(&self) -> MutexGuard<'_, Latch<E>> {
        self.latch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what waits in the buffer and makes the syncs that are asked for; where another thread
    /// does so at the moment, waits until it has done.
    fn write_or_wait<'a>(&'a self, mut latch: MutexGuard<'a, Latch<E>>) -> MutexGuard<'a, Latch<E>> {
        let Some(writer) = latch.writer.take() else {
            return wait(&self.progressed, latch);
        };
        let group = Group {
            bytes: std::mem::take(&mut latch.buffer),
            frames: std::mem::take(&mut latch.frames),
            effects: std::mem::take(&mut latch.effects),
            strictest: std::mem::replace(&mut latch.strictest, SyncPolicy::None),
        };
        drop(latch);
        self.lead(writer, |writer| writer.commit(self, group))
    }

    /// Syncs what was written once it has waited for `interval`, until the tape is closed or stopped.
    fn sync_by_interval(&self, interval: Duration) {
        let mut latch = self.lock();
        while !latch.closing && latch.failure.is_none() {
            if latch.unsynced_since_ns.is_none() {
                latch = wait(&self.unsynced, latch);
                continue;
            }
            let waited = self.unsynced.wait_timeout(latch, interval);
            latch = waited.unwrap_or_else(PoisonError::into_inner).0;
            if latch.unsynced_since_ns.is_none() {
                continue;
            }
            let written = latch.written;
            if let Some(tail) = latch.tail.clone() {
                latch.unsynced_since_ns = None;
                latch.syncs_beside = true;
                drop(latch);
                self.sync_beside(&tail, written);
                latch = self.lock();
            } else if let Some(writer) = latch.writer.take() {
                // A thread that writes just now looks itself whether a sync is due.
                drop(latch);
                latch = self.lead(writer, |writer| writer.sync_to(self, written));
            }
        }
    }

    /// Makes what was written up to a position stable while others write on.
    fn sync_beside(&self, tail: &Tail, written: u64) {
        let panicked = Err("syncing the tape panicked".to_string());
        let mut beside = Beside { shared: self, tail, written, outcome: panicked };
        let synced = tail.file.sync().map_err(EngineError::io("sync", TAPE_DIR));
        beside.outcome = synced.map_err(|error| error.to_string());
    }

    /// Runs `work` with the writer, then puts it back. After an error, or a panic, the tape has stopped.
    fn lead(
        &self,
        writer: Writer<E>,
        work: impl FnOnce(&mut Writer<E>) -> Result<()>,
    ) -> MutexGuard<'_, Latch<E>> {
        let panicked = Some("writing the tape panicked".to_string());
        let mut turn = Turn { shared: self, writer: Some(writer), failure: panicked };
        let outcome = turn.writer.as_mut().map_or(Ok(()), work);
        turn.failure = outcome.err().map(|error| error.to_string());
        drop(turn);
        self.lock()
    }
}

/// A thread's turn at writing; ends by putting the writer back.
struct Turn<'a, E: Send + 'static> {
    shared: &'a Shared<E>,
    writer: Option<Writer<E>>,
    /// Why the tape stops with this turn.
    failure: Option<String>,
}

impl<E: Send + 'static> Drop for Turn<'_, E> {
    fn drop(&mut self) {
        let mut latch = self.shared.lock();
        latch.writer = self.writer.take();
        if let Some(cause) = self.failure.take() {
            latch.stop(cause);
        }
        drop(latch);
        self.shared.progressed.notify_all();
    }
}

/// A sync beside the writer; ends by saying what came of it.
struct Beside<'a, E: Send + 'static> {
    shared: &'a Shared<E>,
    tail: &'a Tail,
    /// The position up to which all was written when it began.
    written: u64,
    outcome: std::result::Result<(), String>,
}

impl<E: Send + 'static> Drop for Beside<'_, E> {
    fn drop(&mut self) {
        let mut latch = self.shared.lock();
        latch.syncs_beside = false;
        match std::mem::replace(&mut self.outcome, Ok(())) {
            Ok(()) => {
                latch.synced = latch.synced.max(self.written);
                latch.stable = Some((self.tail.first, self.tail.bytes));
                latch.syncs += 1;
            }
            Err(cause) => latch.stop(cause),
        }
        drop(latch);
        self.shared.progressed.notify_all();
    }
}

fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// What was in the buffer when a thread took its turn.
struct Group<E> {
    bytes: Vec<u8>,
    frames: Vec<usize>,
    effects: Vec<Written<E>>,
    strictest: SyncPolicy,
}

/// The segment being written.
#[derive(Debug)]
struct OpenSegment {
    /// Its first position.
    first: u64,
    began_ns: i64,
    path: PathBuf,
    file: Box<dyn AppendFile>,
    /// Syncs it while it is written, where the disk can.
    beside: Option<Arc<dyn SyncFile>>,
    bytes: usize,
    synced_bytes: usize,
}

impl OpenSegment {
    /// How much of it is stable, with what syncs beside the writer made so.
    fn stable_bytes(&self, beside: Option<(u64, usize)>) -> usize {
        match beside {
            Some((first, bytes)) if first == self.first => self.synced_bytes.max(bytes),
            _ => self.synced_bytes,
        }
    }

    /// What the tape manifest says of it once all is stable; `last` is the position of its last frame.
    fn named(&self, last: u64, ended_ns: i64) -> NamedSegment {
        let (first, bytes, began_ns) = (self.first, self.bytes as u64, self.began_ns);
        NamedSegment { first, bytes, last, began_ns, ended_ns }
    }
}

/// What it takes to write: held by one thread at a time.
#[derive(Debug)]
struct Writer<E> {
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    publisher: Arc<dyn Publish<E>>,
    names: Arc<Names>,
    options: TapeOptions,
    open: Option<OpenSegment>,
    /// The segment before the next one, until that is named.
    closed: Option<NamedSegment>,
}

impl<E: Send + 'static> Writer<E> {
    /// Writes and publishes a group, and syncs where its policy, the clock or someone asks for it.
    fn commit(&mut self, shared: &Shared<E>, mut group: Group<E>) -> Result<()> {
        let mut strictest = group.strictest;
        if let (Some(first), Some(last)) = (group.effects.first(), group.effects.last()) {
            let (first, last) = (first.position, last.position);
            match self.write(shared, first, &mut group) {
                Ok(()) => {
                    self.publisher.publish(group.effects);
                    let mut latch = shared.lock();
                    // A sync beside us may have failed.
                    latch.check()?;
                    latch.written = last;
                    latch.tail = self.tail();
                }
                Err(Unwritten::Full(cause)) => {
                    shared.lock().refuse(first, cause);
                    strictest = SyncPolicy::None;
                }
                Err(Unwritten::Failed(error)) => return Err(error),
            }
        }
        let now_ns = self.clock.now_ns();
        let (written, sync) = {
            let mut latch = shared.lock();
            if strictest == SyncPolicy::Interval && latch.unsynced_since_ns.is_none() {
                latch.unsynced_since_ns = Some(now_ns);
                shared.unsynced.notify_one();
            }
            let is_beside = self.options.background && latch.tail.is_some();
            let due = latch.unsynced_since_ns.is_some_and(|since_ns| self.is_due(since_ns, now_ns));
            let due = due && !is_beside;
            let wanted = latch.sync_wanted > latch.synced;
            let always = strictest == SyncPolicy::Always && !cfg!(feature = "planted-early-acknowledgement");
            (latch.written, due || wanted || always)
        };
        if sync { self.sync_to(shared, written) } else { Ok(()) }
    }

    /// Appends a group, whose first frame is at `first`, to the segment; all of it or nothing.
    fn write(
        &mut self,
        shared: &Shared<E>,
        first: u64,
        group: &mut Group<E>,
    ) -> std::result::Result<(), Unwritten> {
        let segment = self.segment_for(shared, first)?;
        segment.synced_bytes = segment.stable_bytes(shared.lock().stable);
        for at in &group.frames {
            FrameHeader::stamp(&mut group.bytes, *at, segment.synced_bytes as u64);
        }
        match segment.file.append(&group.bytes) {
            Ok(()) => segment.bytes += group.bytes.len(),
            Err(source) if is_full(&source) => {
                // What was written of it must not come back as frames.
                let (path, end) = (segment.path.clone(), segment.bytes as u64);
                self.disk.truncate(&path, end).map_err(EngineError::io("cut", &path))?;
                return Err(Unwritten::Full(EngineError::io("append to", TAPE_DIR)(source).to_string()));
            }
            Err(source) => return Err(EngineError::io("append to", TAPE_DIR)(source).into()),
        }
        Ok(())
    }

    fn is_due(&self, since_ns: i64, now_ns: i64) -> bool {
        let interval = i64::try_from(self.options.sync_interval.as_nanos()).unwrap_or(i64::MAX);
        now_ns.saturating_sub(since_ns) >= interval
    }

    /// Where what is written ends, where it can be synced beside us.
    fn tail(&self) -> Option<Tail> {
        let open = self.open.as_ref()?;
        Some(Tail { first: open.first, bytes: open.bytes, file: Arc::clone(open.beside.as_ref()?) })
    }

    /// Makes everything up to `position`, which was written, stable.
    fn sync_to(&mut self, shared: &Shared<E>, position: u64) -> Result<()> {
        let mut latch = shared.lock();
        while latch.syncs_beside {
            latch = wait(&shared.progressed, latch);
        }
        latch.check()?;
        if let Some(open) = &mut self.open {
            open.synced_bytes = open.stable_bytes(latch.stable);
        }
        drop(latch);
        let mut syncs = 0;
        if let Some(segment) = &mut self.open
            && segment.synced_bytes < segment.bytes
        {
            segment.file.sync().map_err(EngineError::io("sync", TAPE_DIR))?;
            segment.synced_bytes = segment.bytes;
            syncs = 1;
        }
        let mut latch = shared.lock();
        latch.synced = latch.synced.max(position);
        latch.unsynced_since_ns = None;
        latch.syncs += syncs;
        Ok(())
    }

    /// Cuts off what no sync has reached, as far as the disk still lets us.
    fn cut_unsynced(&self) {
        if let Some(segment) = &self.open {
            // A failure leaves what the next opening finds to be torn.
            let _ = self.disk.truncate(&segment.path, segment.synced_bytes as u64);
        }
    }

    /// The segment to append to; begins a new one where there is none or it is full.
    fn segment_for(
        &mut self,
        shared: &Shared<E>,
        position: u64,
    ) -> std::result::Result<&mut OpenSegment, Unwritten> {
        if self.open.as_ref().is_some_and(|open| open.bytes >= self.options.segment_bytes) {
            self.sync_to(shared, position - 1)?;
            let now_ns = self.clock.now_ns();
            self.closed = self.open.take().map(|open| open.named(position - 1, now_ns));
        }
        if self.open.is_none() {
            self.open = Some(self.begin_segment(position)?);
            self.closed = None;
        }
        Ok(self.open.as_mut().expect("set above"))
    }

    fn begin_segment(&self, position: u64) -> std::result::Result<OpenSegment, Unwritten> {
        let path = segment_path(position);
        let full = |source: io::Error| Unwritten::Full(EngineError::io("begin", &path)(source).to_string());
        let mut file = match self.disk.create(&path) {
            Ok(file) => file,
            Err(source) if is_full(&source) => return Err(full(source)),
            Err(source) => return Err(EngineError::io("create", &path)(source).into()),
        };
        let began_ns = self.clock.now_ns();
        match file.append(&segment_header(position, began_ns)) {
            Ok(()) => {}
            Err(source) if is_full(&source) => {
                // The next try makes it again under the same name.
                drop(file);
                self.disk.remove(&path).map_err(EngineError::io("remove", &path))?;
                return Err(full(source));
            }
            Err(source) => return Err(EngineError::io("begin", &path)(source).into()),
        }
        file.sync().map_err(EngineError::io("begin", &path))?;
        self.disk.sync_dir(Path::new(TAPE_DIR)).map_err(EngineError::io("sync", TAPE_DIR))?;
        match self.names.begin(NamedSegment::begun(position, began_ns), self.closed) {
            Ok(()) => {}
            Err(EngineError::Io { source, .. }) if is_full(&source) && self.names.is_unchanged() => {
                drop(file);
                self.disk.remove(&path).map_err(EngineError::io("remove", &path))?;
                return Err(full(source));
            }
            Err(error) => return Err(error.into()),
        }
        let bytes = SEGMENT_HEADER_BYTES;
        // Without one the writer syncs itself.
        let beside = file.beside().ok().flatten();
        Ok(OpenSegment { first: position, began_ns, path, file, beside, bytes, synced_bytes: bytes })
    }
}

/// Why a group was not written.
enum Unwritten {
    /// There was no space, as the disk says; nothing of it is left.
    Full(String),
    /// What the disk holds is unknown.
    Failed(EngineError),
}

impl From<EngineError> for Unwritten {
    fn from(error: EngineError) -> Self {
        Unwritten::Failed(error)
    }
}

#[cfg(test)]
mod tests;
