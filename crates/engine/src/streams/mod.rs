//! Streams: documents as they came, without schema or parsing, and the least possible work for who sends them.
//!
//! ```text
//! append -> buffer (bursts in memory) -> frames of a file of the log, synced -> readers
//! ```
//!
//! A stream has a folder of its own: its settings with the names of the files of its log, and those files with an index
//! beside each that is closed
//! (docs/formats/stream.md). Streams know nothing of tables and of the tape.

mod buffer;
pub(crate) mod described;
pub(crate) mod entry;
mod log;
mod rates;
mod read;
pub(crate) mod segment;
mod settings;
mod stream;
mod writer;

pub use entry::{ENTRY_HEADER_BYTES, Entries, Entry};
pub use read::Documents;
pub use settings::{DOCUMENT_BYTES_LIMIT, StreamSettings};
pub use stream::{Stream, StreamStats};

use crate::clock::Clock;
use crate::disk::Disk;
use crate::disk::checked::sync_if_there;
use crate::lock::lock;
use crate::paths::{STREAMS_DIR, stream_dir};
use crate::{EngineError, Result};
use buffer::Pool;
use described::Described;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use stream::Ground;

/// The longest name of a stream, in bytes.
pub const STREAM_NAME_BYTES_MAX: usize = 255;

/// The streams of a database.
#[derive(Debug)]
pub struct Streams {
    on: Ground,
    /// By name. Whoever follows another process has those that were asked for.
    open: Mutex<BTreeMap<String, Stream>>,
    /// The number that was given last: that of a dropped stream is given again only after all others.
    last_id: AtomicU32,
}

impl Streams {
    /// Opens all streams for writing: finishes drops, cuts torn ends off.
    ///
    /// # Errors
    /// [`EngineError::Io`], [`EngineError::NewerFormat`].
    pub(crate) fn open(
        disk: &Arc<dyn Disk>,
        clock: &Arc<dyn Clock>,
        memory_bytes: usize,
        background: bool,
    ) -> Result<Self> {
        let (disk, clock) = (Arc::clone(disk), Arc::clone(clock));
        let on = Ground { disk, clock, pool: Arc::new(Pool::new(memory_bytes)), background, follows: false };
        let (mut open, mut last_id) = (BTreeMap::new(), 0);
        for id in list(on.disk.as_ref())? {
            last_id = id;
            match describe(on.disk.as_ref(), id)? {
                Some(found) if !found.dropped => {
                    let stream = Stream::open(found, &on)?;
                    open.insert(stream.name().to_string(), stream);
                }
                _ => remove(on.disk.as_ref(), id)?,
            }
        }
        Ok(Self { on, open: Mutex::new(open), last_id: AtomicU32::new(last_id) })
    }

    /// Streams that another process writes, or none does.
    pub(crate) fn follow(disk: &Arc<dyn Disk>, clock: &Arc<dyn Clock>) -> Self {
        let (disk, clock) = (Arc::clone(disk), Arc::clone(clock));
        let on = Ground { disk, clock, pool: Arc::new(Pool::new(0)), background: false, follows: true };
        Self { on, open: Mutex::default(), last_id: AtomicU32::default() }
    }

    /// Makes a stream.
    ///
    /// # Errors
    /// [`EngineError::StreamExists`], [`EngineError::BadStream`], [`EngineError::ReadOnly`], [`EngineError::Io`].
    pub fn create(&self, name: &str, settings: StreamSettings) -> Result<Stream> {
        self.make(name, settings, true)
    }

    /// The stream of this name; where there is none it is made.
    ///
    /// # Errors
    /// As [`Self::create`], but for the first.
    pub fn get_or_create(&self, name: &str, settings: StreamSettings) -> Result<Stream> {
        self.make(name, settings, false)
    }

    fn make(&self, name: &str, settings: StreamSettings, anew: bool) -> Result<Stream> {
        let bad = |what: String| EngineError::BadStream { name: name.to_string(), what };
        if name.is_empty() || name.len() > STREAM_NAME_BYTES_MAX || name.contains(char::is_control) {
            let what = format!("a name has 1 to {STREAM_NAME_BYTES_MAX} bytes and no control characters");
            return Err(bad(what));
        }
        self.check_settings(name, &settings)?;
        self.check_writes("making a stream")?;
        let mut open = lock(&self.open);
        if let Some(stream) = open.get(name) {
            return match anew {
                true => Err(EngineError::StreamExists { name: name.to_string() }),
                false => Ok(stream.clone()),
            };
        }
        let disk = self.on.disk.as_ref();
        let ids = list(disk)?;
        let last_id = self.last_id.load(Relaxed);
        let mut next = (last_id + 1..=u32::from(u16::MAX)).chain(1..=last_id);
        let id = next.find(|id| ids.binary_search(id).is_err());
        let id = id.ok_or_else(|| bad("there are 65,535 streams, which is the limit".to_string()))?;
        let described = Described::new(id, name.to_string(), settings);
        described.save(disk)?;
        self.last_id.store(id, Relaxed);
        let stream = Stream::open(described, &self.on)?;
        open.insert(name.to_string(), stream.clone());
        Ok(stream)
    }

    fn check_settings(&self, name: &str, settings: &StreamSettings) -> Result<()> {
        match settings.fault() {
            None => Ok(()),
            Some(what) => Err(EngineError::BadStream { name: name.to_string(), what: what.to_string() }),
        }
    }

    fn check_writes(&self, action: &'static str) -> Result<()> {
        if self.on.follows { Err(EngineError::ReadOnly { action }) } else { Ok(()) }
    }

    /// The stream of this name.
    ///
    /// # Errors
    /// [`EngineError::NoSuchStream`]; [`EngineError::Io`] where another process writes it.
    pub fn get(&self, name: &str) -> Result<Stream> {
        if self.on.follows {
            self.all()?;
        }
        let found = lock(&self.open).get(name).cloned();
        found.ok_or_else(|| EngineError::NoSuchStream { name: name.to_string() })
    }

    /// All streams, by name.
    ///
    /// # Errors
    /// [`EngineError::Io`], [`EngineError::Damaged`], where another process writes them.
    pub fn all(&self) -> Result<Vec<Stream>> {
        let mut open = lock(&self.open);
        if self.on.follows {
            let mut found = BTreeMap::new();
            for id in list(self.on.disk.as_ref())? {
                let Some(there) = describe(self.on.disk.as_ref(), id)?.filter(|there| !there.dropped) else {
                    continue;
                };
                let known = open.remove(&there.name).filter(|stream| stream.id() == id);
                let stream = match known {
                    Some(stream) => stream,
                    None => Stream::open(there.clone(), &self.on)?,
                };
                stream.set(there.settings);
                found.insert(there.name, stream);
            }
            *open = found;
        }
        Ok(open.values().cloned().collect())
    }

    /// Changes how a stream is kept; its files stay as they are.
    ///
    /// # Errors
    /// [`EngineError::NoSuchStream`], [`EngineError::BadStream`], [`EngineError::ReadOnly`], [`EngineError::Io`].
    pub fn alter(&self, name: &str, settings: StreamSettings) -> Result<()> {
        self.check_settings(name, &settings)?;
        self.check_writes("altering a stream")?;
        let open = lock(&self.open);
        let missing = || EngineError::NoSuchStream { name: name.to_string() };
        open.get(name).ok_or_else(missing)?.alter(settings)
    }

    /// Drops a stream with all its documents.
    ///
    /// # Errors
    /// [`EngineError::NoSuchStream`], [`EngineError::ReadOnly`], [`EngineError::Io`].
    pub fn drop(&self, name: &str) -> Result<()> {
        self.check_writes("dropping a stream")?;
        let mut open = lock(&self.open);
        let missing = || EngineError::NoSuchStream { name: name.to_string() };
        let stream = open.get(name).ok_or_else(missing)?;
        let id = stream.id();
        // Its own file says so first: what is left of it after a crash goes at the next opening.
        stream.say_dropped()?;
        stream.abandon();
        open.remove(name);
        remove(self.on.disk.as_ref(), id)
    }

    /// Sets how many bytes the buffers of all streams may take.
    pub fn set_memory(&self, bytes: usize) {
        self.on.pool.set_max(bytes);
    }

    /// Whether the buffers of all streams have room.
    pub fn has_room(&self) -> bool {
        self.on.pool.has_room()
    }

    /// Bytes in the buffers of all streams.
    pub fn buffered_bytes(&self) -> usize {
        self.on.pool.bytes()
    }

    /// Waits until all that was appended is on stable storage.
    ///
    /// # Errors
    /// As [`Stream::wait`]; a stream that was dropped meanwhile is none.
    pub fn flush(&self) -> Result<()> {
        let open: Vec<Stream> = lock(&self.open).values().cloned().collect();
        open.iter().filter(|_| !self.on.follows).try_for_each(|stream| match stream.flush() {
            Err(EngineError::NoSuchStream { .. }) => Ok(()),
            other => other,
        })
    }

    /// Writes what was taken, and takes no more.
    pub(crate) fn close(&self) {
        if self.on.follows {
            return;
        }
        for stream in lock(&self.open).values() {
            // Whoever waited for it was told.
            let _ = stream.close();
        }
    }
}

/// Numbers of the streams that have a folder, ascending.
pub(crate) fn list(disk: &dyn Disk) -> Result<Vec<u32>> {
    let entries = disk.list(Path::new(STREAMS_DIR)).map_err(EngineError::io("list", STREAMS_DIR))?;
    let folders = entries.iter().filter(|entry| entry.is_dir);
    let mut ids: Vec<u32> = folders.filter_map(|entry| entry.name.parse().ok()).collect();
    ids.sort_unstable();
    Ok(ids)
}

/// What a stream's own file or its copy says; where both are lost and documents are there, what can be told without
/// them. `None` for a folder with nothing in it.
fn describe(disk: &dyn Disk, id: u32) -> Result<Option<Described>> {
    match Described::load(disk, id) {
        Ok(described) => Ok(Some(described)),
        Err(error @ EngineError::NewerFormat { .. }) => Err(error),
        Err(_) if segment::list_segments(disk, id)?.is_empty() => Ok(None),
        Err(_) => Ok(Some(described::recovered(id))),
    }
}

/// Removes a stream's folder; nothing in it is named any more.
fn remove(disk: &dyn Disk, id: u32) -> Result<()> {
    let dir = stream_dir(id);
    for (first, _) in segment::list_segments(disk, id)? {
        let path = segment::segment_path(id, first);
        disk.remove(&path).map_err(EngineError::io("remove", &path))?;
    }
    sync_if_there(disk, &dir)?;
    disk.remove(&dir).map_err(EngineError::io("remove", &dir))?;
    sync_if_there(disk, Path::new(STREAMS_DIR))
}
