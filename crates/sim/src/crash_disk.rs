//! A disk in memory that remembers every change, so that power can be cut at each.
//!
//! The model, after the assumptions in `tickstone_engine::disk`:
//! - a file's appended bytes are stable after its sync; before, each 512-byte sector may be there or
//!   not (zeros), and the file may end anywhere past its stable bytes;
//! - a name made, renamed or removed is stable after a sync of its folder; before, any prefix of the
//!   changes of names may have happened;
//! - a truncation is stable when it returns.

use crate::Random;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tickstone_engine::disk::{AppendFile, DirEntry, Disk, FileBytes, SECTOR_BYTES};

type FileId = usize;

/// One call that changed the disk.
#[derive(Debug, Clone)]
enum Event {
    Create { path: PathBuf, file: FileId },
    Append { file: FileId, bytes: Vec<u8> },
    Sync { file: FileId },
    Rename { from: PathBuf, to: PathBuf },
    Remove { path: PathBuf },
    SyncDir { dir: PathBuf },
    Truncate { file: FileId, len: usize },
}

#[derive(Debug, Default)]
struct State {
    events: Vec<Event>,
    names: BTreeMap<PathBuf, FileId>,
    files: Vec<Arc<Vec<u8>>>,
}

/// The disk; clones are handles to the same one.
#[derive(Debug, Clone, Default)]
pub struct CrashDisk {
    state: Arc<Mutex<State>>,
}

/// What a power cut keeps of what was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survival {
    /// Nothing.
    Nothing,
    /// Everything.
    Everything,
    /// Some sectors, some names, by this seed.
    Torn(u64),
}

/// The files a power cut left.
#[derive(Debug, Clone)]
pub struct Image {
    /// How many calls that change the disk had returned.
    pub calls: usize,
    /// What survived of the unsynced.
    pub survival: Survival,
    files: BTreeMap<PathBuf, Vec<u8>>,
}

impl Image {
    /// A disk that holds the image, all of it stable.
    pub fn disk(&self) -> CrashDisk {
        let disk = CrashDisk::default();
        {
            let mut state = disk.lock();
            for (file, (path, bytes)) in self.files.iter().enumerate() {
                state.files.push(Arc::new(bytes.clone()));
                state.names.insert(path.clone(), file);
                let dir = path.parent().map(Path::to_path_buf).unwrap_or_default();
                state.events.extend([
                    Event::Create { path: path.clone(), file },
                    Event::Append { file, bytes: bytes.clone() },
                    Event::Sync { file },
                    Event::SyncDir { dir },
                ]);
            }
        }
        disk
    }
}

/// A file as the power cut finds it.
#[derive(Debug, Clone, Default)]
struct Platter {
    bytes: Vec<u8>,
    stable: usize,
}

impl CrashDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many calls have changed the disk so far.
    pub fn calls(&self) -> usize {
        self.lock().events.len()
    }

    /// Changes one byte of a file by `mask`.
    ///
    /// # Panics
    /// Where there is no such file or byte.
    pub fn flip(&self, path: &Path, at: usize, mask: u8) {
        let mut state = self.lock();
        let file = state.names[path];
        Arc::make_mut(&mut state.files[file])[at] ^= mask;
    }

    /// Every file with its size.
    pub fn files(&self) -> Vec<(PathBuf, usize)> {
        let state = self.lock();
        state.names.iter().map(|(path, file)| (path.clone(), state.files[*file].len())).collect()
    }

    /// The disk that a power cut leaves after the first `calls` changes. The call under way, if any, is
    /// the one after: with [`Survival::Torn`] some of it may be there too.
    pub fn image(&self, calls: usize, survival: Survival) -> Image {
        let state = self.lock();
        let under_way = usize::from(matches!(survival, Survival::Torn(_)));
        let events = &state.events[..(calls + under_way).min(state.events.len())];
        let mut platters: Vec<Platter> = vec![Platter::default(); state.files.len()];
        let mut stable_names: BTreeMap<PathBuf, FileId> = BTreeMap::new();
        let mut unstable: Vec<&Event> = Vec::new();
        for event in events {
            match event {
                Event::Append { file, bytes } => platters[*file].bytes.extend_from_slice(bytes),
                Event::Sync { file } => platters[*file].stable = platters[*file].bytes.len(),
                Event::Truncate { file, len } => {
                    platters[*file].bytes.truncate(*len);
                    platters[*file].stable = *len;
                }
                Event::SyncDir { dir } => {
                    let (now, later): (Vec<_>, Vec<_>) =
                        unstable.drain(..).partition(|event| changes_names_below(event, dir));
                    now.into_iter().for_each(|event| change_names(&mut stable_names, event));
                    unstable = later;
                }
                names => unstable.push(names),
            }
        }
        let mut random =
            Random::new(if let Survival::Torn(seed) = survival { seed ^ calls as u64 } else { 0 });
        let kept_names = match survival {
            Survival::Nothing => 0,
            Survival::Everything => unstable.len(),
            Survival::Torn(_) => random.below(unstable.len() as u64 + 1) as usize,
        };
        unstable[..kept_names].iter().for_each(|event| change_names(&mut stable_names, event));
        let mut settle = |file: FileId| settle(&platters[file], survival, &mut random);
        let files = stable_names.into_iter().map(|(path, file)| (path, settle(file))).collect();
        Image { calls, survival, files }
    }

    /// The images of a power cut at every call from `first` on: nothing, everything and `torn` torn ones each.
    pub fn images(&self, first: usize, torn: u64) -> impl Iterator<Item = Image> + '_ {
        (first..=self.calls()).flat_map(move |calls| {
            let kinds = [Survival::Nothing, Survival::Everything].into_iter();
            kinds.chain((0..torn).map(Survival::Torn)).map(move |survival| self.image(calls, survival))
        })
    }
}

/// What is left of a file.
fn settle(platter: &Platter, survival: Survival, random: &mut Random) -> Vec<u8> {
    let mut bytes = platter.bytes.clone();
    match survival {
        Survival::Everything => {}
        Survival::Nothing => bytes.truncate(platter.stable),
        Survival::Torn(_) => {
            let unsynced = (bytes.len() - platter.stable) as u64;
            if !random.one_in(3) {
                bytes.truncate(platter.stable + random.below(unsynced + 1) as usize);
            }
            let mut at = platter.stable;
            while at < bytes.len() {
                let end = ((at / SECTOR_BYTES + 1) * SECTOR_BYTES).min(bytes.len());
                if random.one_in(4) {
                    bytes[at..end].fill(0);
                }
                at = end;
            }
        }
    }
    bytes
}

fn changes_names_below(event: &Event, dir: &Path) -> bool {
    // A sync of a folder also makes stable its own name and those above it.
    let concerns = |path: &Path| path.parent() == Some(dir) || dir.starts_with(path);
    match event {
        Event::Create { path, .. } | Event::Remove { path } => concerns(path),
        Event::Rename { from, to } => concerns(from) || concerns(to),
        _ => false,
    }
}

fn change_names(names: &mut BTreeMap<PathBuf, FileId>, event: &Event) {
    match event {
        Event::Create { path, file } => {
            names.insert(path.clone(), *file);
        }
        Event::Rename { from, to } => {
            if let Some(file) = names.remove(from) {
                names.insert(to.clone(), file);
            }
        }
        Event::Remove { path } => names.retain(|name, _| !name.starts_with(path)),
        _ => {}
    }
}

fn not_found(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("no file {}", path.display()))
}

impl Disk for CrashDisk {
    fn read(&self, path: &Path) -> io::Result<FileBytes> {
        let state = self.lock();
        let file = state.names.get(path).ok_or_else(|| not_found(path))?;
        let bytes = Arc::clone(&state.files[*file]);
        Ok(FileBytes::new(Held(bytes)))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        let mut state = self.lock();
        if state.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = state.files.len();
        state.files.push(Arc::default());
        let event = Event::Create { path: path.to_path_buf(), file };
        change_names(&mut state.names, &event);
        state.events.push(event);
        Ok(Box::new(CrashFile { disk: self.clone(), file }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.lock();
        if !state.names.contains_key(from) {
            return Err(not_found(from));
        }
        let event = Event::Rename { from: from.to_path_buf(), to: to.to_path_buf() };
        change_names(&mut state.names, &event);
        state.events.push(event);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        if state.names.keys().any(|name| name.starts_with(path)) {
            let event = Event::Remove { path: path.to_path_buf() };
            change_names(&mut state.names, &event);
            state.events.push(event);
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let state = self.lock();
        let mut entries = BTreeMap::new();
        for (path, file) in &state.names {
            let Ok(below) = path.strip_prefix(dir) else { continue };
            let mut names = below.iter().filter_map(|name| name.to_str());
            if let Some(name) = names.next() {
                let is_dir = names.next().is_some();
                let len = if is_dir { 0 } else { state.files[*file].len() as u64 };
                entries.insert(name.to_string(), DirEntry { name: name.to_string(), is_dir, len });
            }
        }
        Ok(entries.into_values().collect())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.lock().events.push(Event::SyncDir { dir: dir.to_path_buf() });
        Ok(())
    }

    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        let mut state = self.lock();
        let file = *state.names.get(path).ok_or_else(|| not_found(path))?;
        let len = usize::try_from(len).map_err(io::Error::other)?;
        Arc::make_mut(&mut state.files[file]).truncate(len);
        state.events.push(Event::Truncate { file, len });
        Ok(())
    }
}

struct Held(Arc<Vec<u8>>);

impl std::ops::Deref for Held {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

#[derive(Debug)]
struct CrashFile {
    disk: CrashDisk,
    file: FileId,
}

impl AppendFile for CrashFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.lock();
        Arc::make_mut(&mut state.files[self.file]).extend_from_slice(bytes);
        state.events.push(Event::Append { file: self.file, bytes: bytes.to_vec() });
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.lock().events.push(Event::Sync { file: self.file });
        Ok(())
    }
}
