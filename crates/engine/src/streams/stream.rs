//! One stream: documents go into memory, a thread of its own writes and syncs what has come, readers see what is synced.
//!
//! Invariants:
//! - whoever appends copies bytes under a lock that is never held over a call of the disk;
//! - a document is read only once it is on stable storage, so that none that was read is lost;
//! - times strictly increase by at least a microsecond, numbers by one;
//! - a full disk loses nothing that was taken: it is written when there is room. After another failure nothing is taken.

use super::buffer::{Buffer, Pool};
use super::described::Described;
use super::entry::ENTRY_HEADER_BYTES;
use super::log::Log;
use super::rates::Rates;
use super::read::{Documents, Wanted, last_before, select, stretches, stretches_before};
use super::settings::StreamSettings;
use super::writer::Writing;
use crate::clock::Clock;
use crate::disk::Disk;
use crate::lock::lock;
use crate::paths::stream_dir;
use crate::{EngineError, Result};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the files that another process writes are looked at.
const FOLLOW_PAUSE: Duration = Duration::from_millis(20);

/// A stream of documents; clones are handles to the same one.
#[derive(Debug, Clone)]
pub struct Stream {
    shared: Arc<Shared>,
}

/// What a stream holds.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamStats {
    /// Its number in the database.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Documents that are there, in memory or on disk.
    pub documents: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Bytes of its files that are damaged and passed over, or missing.
    pub damaged_bytes: u64,
    /// Documents that are not on stable storage yet.
    pub buffered: u64,
    /// Documents appended since the database was opened for writing, and bytes of them.
    pub appended: (u64, u64),
    /// Documents and bytes a second, over the last ten seconds or so.
    pub rates: (f64, f64),
    /// Times of the first and the last document on stable storage (microseconds since the Unix epoch).
    pub times_us: Option<(u64, u64)>,
    /// Number of the last document on stable storage; 0 before the first.
    pub last: u64,
    /// How it is kept.
    pub settings: StreamSettings,
    /// Why the last write failed, if it did.
    pub failure: Option<String>,
}

/// What all streams of a database have in common.
#[derive(Debug, Clone)]
pub(super) struct Ground {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) pool: Arc<Pool>,
    /// Whether a thread writes; without, who waits does.
    pub(super) background: bool,
    /// Whether another process writes, and this one reads what it has written.
    pub(super) follows: bool,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) id: u32,
    name: String,
    pub(super) on: Ground,
    pub(super) described: Mutex<Described>,
    state: Mutex<State>,
    /// Signalled when there is something to write.
    pub(super) come: Condvar,
    /// Signalled when something is stable, or the stream has stopped.
    pub(super) settled: Condvar,
    pub(super) log: Mutex<Log>,
    pub(super) writing: Mutex<Option<Writing>>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) settings: StreamSettings,
    pub(super) buffer: Buffer,
    /// Number of the last document on stable storage.
    pub(super) stable: u64,
    /// Whether a thread is there that writes.
    pub(super) written_by_thread: bool,
    /// The last one that was.
    thread: Option<JoinHandle<()>>,
    pub(super) ending: Ending,
    /// Why a write failed; those for which the disk is full are tried again.
    pub(super) failure: Option<String>,
    /// How many writes failed.
    pub(super) failures: u64,
    appended: (u64, u64),
    rates: Rates,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// It goes on.
    Not,
    /// What was taken is written, and no more is taken.
    Closed,
    /// The same after a failure: what was taken may be lost.
    Stopped,
    /// It was dropped: what was taken is thrown away.
    Dropped,
}

impl Stream {
    /// Opens a stream's files, for writing or to follow who writes them.
    pub(super) fn open(mut described: Described, on: &Ground) -> Result<Self> {
        let (id, name, settings) = (described.id, described.name.clone(), described.settings);
        let log = if on.follows { Log::default() } else { Log::open(on.disk.as_ref(), &mut described)? };
        if !on.follows {
            described.mend(on.disk.as_ref())?;
        }
        let next = log.next_number(&settings);
        let buffer = Buffer { bursts: Default::default(), next, last_ts_us: log.last_ts_us() };
        let state = State {
            settings,
            buffer,
            stable: next - 1,
            written_by_thread: false,
            thread: None,
            ending: Ending::Not,
            failure: None,
            failures: 0,
            appended: (0, 0),
            rates: Rates::default(),
        };
        let stream = Self {
            shared: Arc::new(Shared {
                id,
                name,
                on: on.clone(),
                described: Mutex::new(described),
                state: Mutex::new(state),
                come: Condvar::new(),
                settled: Condvar::new(),
                log: Mutex::new(log),
                writing: Mutex::new(None),
            }),
        };
        if on.follows {
            stream.shared.follow()?;
        } else {
            stream.shared.expire()?;
        }
        Ok(stream)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Its number in the database.
    pub fn id(&self) -> u32 {
        self.shared.id
    }

    /// How it is kept.
    pub fn settings(&self) -> StreamSettings {
        self.shared.state().settings
    }

    pub(super) fn set(&self, settings: StreamSettings) {
        self.shared.state().settings = settings;
    }

    /// Changes how it is kept.
    pub(super) fn alter(&self, settings: StreamSettings) -> Result<()> {
        self.shared.describe(|described| described.settings = settings)?;
        self.set(settings);
        Ok(())
    }

    /// Says that it was dropped, for good.
    pub(super) fn say_dropped(&self) -> Result<()> {
        self.shared.describe(|described| described.dropped = true)
    }

    /// Takes documents, in order, waiting while the buffers of all streams are full. They are on stable storage once
    /// [`Self::wait`] has returned for the number of the last one, which this returns.
    ///
    /// # Errors
    /// [`EngineError::DocumentTooLarge`], of which none before it was taken, [`EngineError::StreamStopped`],
    /// [`EngineError::NoSuchStream`] where it was dropped.
    pub fn append<'a>(&self, documents: impl IntoIterator<Item = &'a [u8]>) -> Result<u64> {
        while !self.shared.on.pool.has_room() {
            self.check()?;
            if !self.shared.on.background {
                break;
            }
            let state = self.shared.state();
            drop(self.shared.settled.wait_timeout(state, Duration::from_millis(1)));
        }
        self.push(documents)
    }

    /// The same without waiting for room: whoever must not be held asks
    /// [`Streams::has_room`](super::Streams::has_room) before.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn push<'a>(&self, documents: impl IntoIterator<Item = &'a [u8]>) -> Result<u64> {
        let shared = &self.shared;
        let now_us = u64::try_from(shared.on.clock.now_ns() / 1_000).unwrap_or(0);
        if shared.on.follows {
            return Err(EngineError::ReadOnly { action: "an append to a stream" });
        }
        let mut state = shared.state();
        shared.check(&state)?;
        let (most, documents_max) = (state.settings.document_bytes_max, state.settings.index_documents);
        let mut outcome = Ok(());
        for document in documents {
            if document.len() > most as usize {
                let name = self.name().to_string();
                outcome = Err(EngineError::DocumentTooLarge { name, bytes: document.len(), most });
                break;
            }
            state.buffer.add(&shared.on.pool, now_us, u64::from(documents_max), document);
            state.appended.0 += 1;
            state.appended.1 += (ENTRY_HEADER_BYTES + document.len()) as u64;
        }
        let last = state.buffer.next - 1;
        let appended = state.appended;
        state.rates.note(appended);
        if shared.on.background && last > state.stable {
            if state.written_by_thread {
                shared.come.notify_one();
            } else {
                state.written_by_thread = true;
                // The one before has ended, but for its last step.
                drop(state.thread.take().map(JoinHandle::join));
                let stream = self.clone();
                let thread = std::thread::Builder::new().name(format!("stream-{}", shared.id));
                match thread.spawn(move || stream.shared.write_all_that_comes()) {
                    Ok(thread) => state.thread = Some(thread),
                    Err(source) => {
                        state.written_by_thread = false;
                        return Err(EngineError::io("start the thread of", stream_dir(shared.id))(source));
                    }
                }
            }
        }
        drop(state);
        outcome?;
        Ok(last)
    }

    /// Whether it takes documents.
    ///
    /// # Errors
    /// As [`Self::append`], but for documents.
    pub fn check(&self) -> Result<()> {
        self.shared.check(&self.shared.state())
    }

    /// Waits until the document of this number, and all before it, are on stable storage.
    ///
    /// # Errors
    /// [`EngineError::StreamStopped`], [`EngineError::NoSuchStream`] where it was dropped; without threads those of
    /// writing.
    pub fn wait(&self, number: u64) -> Result<()> {
        let shared = &self.shared;
        if !shared.on.background {
            return shared.write_all();
        }
        let mut state = shared.state();
        while state.stable < number {
            shared.check(&state)?;
            state = shared.settled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// Waits until all that was appended is on stable storage, or a write of it has failed.
    ///
    /// # Errors
    /// As [`Self::wait`]; where the disk is full, that: what was taken is written once there is room.
    pub fn flush(&self) -> Result<()> {
        let shared = &self.shared;
        if !shared.on.background {
            return shared.write_all();
        }
        let mut state = shared.state();
        let (last, failures) = (state.buffer.next - 1, state.failures);
        while state.stable < last {
            shared.check(&state)?;
            if state.failures > failures {
                let cause = state.failure.clone().unwrap_or_default();
                return Err(EngineError::DiskFull { cause });
            }
            state = shared.settled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// Waits until a document after this number is on stable storage, at most so long; the number of the newest.
    ///
    /// # Errors
    /// As [`Self::wait`].
    pub fn wait_for_newer(&self, number: u64, patience: Duration) -> Result<u64> {
        let shared = &self.shared;
        if shared.on.follows {
            return shared.follow_past(number, patience);
        }
        let state = shared.state();
        shared.check(&state)?;
        let waiting = shared.settled.wait_timeout_while(state, patience, |state| {
            state.stable <= number && state.ending == Ending::Not
        });
        let (state, _) = waiting.unwrap_or_else(PoisonError::into_inner);
        Ok(state.stable)
    }

    /// Documents with these times (microseconds since the Unix epoch, both inclusive): the first of them up to `most`
    /// bytes of entries, but one at least.
    ///
    /// # Errors
    /// [`EngineError::Io`].
    pub fn range(&self, from_us: u64, to_us: u64, most: u64) -> Result<Documents> {
        self.shared.select(&Wanted::Times(from_us..=to_us), most)
    }

    /// Documents after this number, likewise.
    ///
    /// # Errors
    /// [`EngineError::Io`].
    pub fn after(&self, number: u64, most: u64) -> Result<Documents> {
        self.shared.select(&Wanted::Numbers(number.saturating_add(1)..=u64::MAX), most)
    }

    /// The newest document older than `at_us`, or none.
    ///
    /// # Errors
    /// [`EngineError::Io`].
    pub fn last_before(&self, at_us: u64) -> Result<Documents> {
        let shared = &self.shared;
        shared.follow()?;
        let stretches = stretches_before(&lock(&shared.log), at_us);
        last_before(shared.on.disk.as_ref(), shared.id, stretches, at_us)
    }

    /// What it holds.
    ///
    /// # Errors
    /// [`EngineError::Io`], where another process writes it.
    pub fn stats(&self) -> Result<StreamStats> {
        let shared = &self.shared;
        shared.follow()?;
        let log = lock(&shared.log);
        let mut state = shared.state();
        let appended = state.appended;
        let rates = state.rates.get(appended);
        let buffered = state.buffer.next - 1 - state.stable;
        let failure = state.failure.clone();
        let settled = log_stats(shared.id, &shared.name, state.settings, &log);
        Ok(StreamStats { appended, rates, buffered, failure, ..settled })
    }

    /// Takes no more documents; those taken are written, unless the disk is full.
    ///
    /// # Errors
    /// As [`Self::flush`].
    pub(super) fn close(&self) -> Result<()> {
        let flushed = self.flush();
        self.shared.end(Ending::Closed);
        self.shared.close_file();
        flushed
    }

    /// Takes no more documents and throws away those taken.
    pub(super) fn abandon(&self) {
        self.shared.end(Ending::Dropped);
        // Whoever writes has ended after this.
        *lock(&self.shared.writing) = None;
    }
}

/// What the files of a stream say of it.
fn log_stats(id: u32, name: &str, settings: StreamSettings, log: &Log) -> StreamStats {
    let mut filled = log.segments.iter().filter(|segment| segment.documents > 0);
    let first = filled.next();
    let last = filled.next_back().or(first);
    let damaged =
        log.segments.iter().map(|segment| segment.damaged_bytes.saturating_add(segment.missing_bytes()));
    StreamStats {
        id,
        name: name.to_string(),
        documents: log.segments.iter().map(|segment| segment.documents).sum(),
        bytes: log.bytes(),
        damaged_bytes: damaged.fold(0, u64::saturating_add),
        buffered: 0,
        appended: (0, 0),
        rates: (0.0, 0.0),
        times_us: first.zip(last).map(|(first, last)| (first.first_ts_us, last.last_ts_us)),
        last: last.map_or(0, |segment| segment.last),
        settings,
        failure: None,
    }
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(super) fn check(&self, state: &State) -> Result<()> {
        let name = || self.name.clone();
        match state.ending {
            Ending::Not => Ok(()),
            Ending::Dropped => Err(EngineError::NoSuchStream { name: name() }),
            Ending::Closed => {
                Err(EngineError::StreamStopped { name: name(), cause: "the database was closed".to_string() })
            }
            Ending::Stopped => {
                let cause = state.failure.clone().unwrap_or_default();
                Err(EngineError::StreamStopped { name: name(), cause })
            }
        }
    }

    fn end(&self, ending: Ending) {
        let mut state = self.state();
        if state.ending != Ending::Stopped || ending == Ending::Dropped {
            state.ending = ending;
        }
        for burst in state.buffer.bursts.drain(..) {
            self.on.pool.put(burst);
        }
        let thread = state.thread.take();
        drop(state);
        self.come.notify_all();
        self.settled.notify_all();
        // Nothing of the stream is held when this returns, but for the handles of others.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            // A panic there was printed; there is nothing left to do with it.
            let _ = thread.join();
        }
    }

    /// Looks at what another process wrote meanwhile.
    fn follow(&self) -> Result<()> {
        if !self.on.follows {
            return Ok(());
        }
        let mut log = lock(&self.log);
        log.follow(self.on.disk.as_ref(), &mut lock(&self.described))?;
        let mut state = self.state();
        state.stable = log.last();
        state.buffer.next = state.stable + 1;
        Ok(())
    }

    #[allow(clippy::disallowed_methods, reason = "how long a caller waits")]
    fn follow_past(&self, number: u64, patience: Duration) -> Result<u64> {
        let began = Instant::now();
        loop {
            self.follow()?;
            let stable = self.state().stable;
            if stable > number || began.elapsed() >= patience {
                return Ok(stable);
            }
            std::thread::sleep(FOLLOW_PAUSE.min(patience));
        }
    }

    fn select(&self, wanted: &Wanted, most: u64) -> Result<Documents> {
        self.follow()?;
        // The files are read without the lock: whoever writes is not to wait for that.
        let log = lock(&self.log);
        let (stretches, missing_bytes) = (stretches(&log, wanted), log.missing_bytes(wanted));
        drop(log);
        let found = select(self.on.disk.as_ref(), self.id, stretches, wanted, most)?;
        if !found.damage().is_empty() {
            // Files are not read whole when a stream is opened: whoever asks what it holds is told what was found since.
            let mut log = lock(&self.log);
            for segment in &mut log.segments {
                let bytes = found.damage().get(&segment.first).copied().unwrap_or_default();
                segment.damaged_bytes = segment.damaged_bytes.max(bytes);
            }
        }
        Ok(found.without(missing_bytes))
    }

    /// Changes what its own file says.
    pub(super) fn describe(&self, change: impl FnOnce(&mut Described)) -> Result<()> {
        let mut described = lock(&self.described);
        let mut next = described.clone();
        change(&mut next);
        next.save(self.on.disk.as_ref())?;
        *described = next;
        Ok(())
    }

    /// Removes files that the settings let go.
    pub(super) fn expire(&self) -> Result<()> {
        let settings = self.state().settings;
        let now_us = u64::try_from(self.on.clock.now_ns() / 1_000).unwrap_or(0);
        let expired = lock(&self.log).take_expired(&settings, now_us);
        lock(&self.described).release(self.on.disk.as_ref(), &expired)
    }
}
