//! The calls of the engine, each with the faults it may meet.

use super::{FaultyDisk, File, Inode, NameChange, State, guard, not_found};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use tickstone_engine::disk::{AppendFile, DirEntry, Disk, FileBytes};

/// Most of what a slow call takes.
const SLOW_NS_MAX: u64 = 100_000_000;
/// Most of what any other call takes.
const CALL_NS_MAX: u64 = 50_000;

/// How a call goes that has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// As it should.
    Done,
    /// Not at all.
    Fails,
    /// The power goes before, or (`true`) after it took effect.
    PowerGoes(bool),
}

fn power_lost() -> io::Error {
    io::Error::other("the power is gone")
}

fn planned() -> io::Error {
    io::Error::other("input/output error")
}

impl State {
    fn note(&mut self, call: &str, path: &Path, bytes: &[u8]) {
        let crc = u64::from(crc_of(bytes));
        for byte in call.bytes().chain(path.as_os_str().as_encoded_bytes().iter().copied()) {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.hash = (self.hash ^ crc ^ ((bytes.len() as u64) << 32)).wrapping_mul(0x0100_0000_01b3);
    }

    fn one_in(&mut self, rate: u64) -> bool {
        rate > 0 && self.random.one_in(rate)
    }
}

/// A checksum for the hash of calls (FNV-1a, folded).
fn crc_of(bytes: &[u8]) -> u32 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0100_0000_01b3);
    }
    ((hash >> 32) ^ hash) as u32
}

impl FaultyDisk {
    /// Begins a call that changes the disk; `rate` says how often its kind fails.
    fn begin(
        &self,
        call: &str,
        path: &Path,
        bytes: &[u8],
        rate: impl Fn(&State) -> u64,
    ) -> io::Result<(MutexGuard<'_, State>, Fate)> {
        let mut state = self.lock();
        if state.life != self.life {
            return Err(power_lost());
        }
        state.calls += 1;
        state.note(call, path, bytes);
        let slow = state.rates.slow;
        let slow = state.one_in(slow);
        state.counts.slow += u64::from(slow);
        let takes = state.random.below(if slow { SLOW_NS_MAX } else { CALL_NS_MAX });
        self.clock.advance(takes as i64);
        let fate = match state.cut_after {
            Some(0) => {
                state.life += 1;
                state.cut_after = None;
                Fate::PowerGoes(state.random.one_in(2))
            }
            left => {
                state.cut_after = left.map(|left| left - 1);
                let rate = rate(&state);
                if state.one_in(rate) { Fate::Fails } else { Fate::Done }
            }
        };
        Ok((state, fate))
    }

    /// Begins a call that only looks.
    fn look(&self, call: &str, path: &Path) -> io::Result<MutexGuard<'_, State>> {
        let (mut state, fate) = self.begin(call, path, &[], |state| state.rates.read)?;
        match fate {
            Fate::Done => Ok(state),
            Fate::Fails => {
                state.counts.read += 1;
                Err(planned())
            }
            Fate::PowerGoes(_) => Err(power_lost()),
        }
    }

    /// Runs a call that changes names, as its fate wants it.
    fn change_names(
        &self,
        call: &str,
        path: &Path,
        change: impl FnOnce(&mut State) -> io::Result<()>,
    ) -> io::Result<()> {
        let (mut state, fate) = self.begin(call, path, &[], |state| state.rates.names)?;
        match fate {
            Fate::Done => change(&mut state),
            Fate::Fails => {
                state.counts.names += 1;
                Err(planned())
            }
            Fate::PowerGoes(after) => {
                if after {
                    change(&mut state)?;
                }
                Err(power_lost())
            }
        }
    }
}

impl State {
    fn change(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.pending.push(change);
    }
}

impl Disk for FaultyDisk {
    fn read(&self, path: &Path) -> io::Result<FileBytes> {
        let mut state = self.look("read", path)?;
        let file = state.names.get(path).map(Arc::clone).ok_or_else(|| not_found(path))?;
        let bytes = Arc::clone(&guard(&file).bytes);
        let rate = state.rates.short_read;
        let mut end = bytes.len();
        // Of the tape's newest segment a shorter one is a torn one: only files that cannot be torn are cut.
        if end > 0 && !path.starts_with("tape") && state.one_in(rate) {
            end = state.random.below(end as u64) as usize;
            state.counts.short_read += 1;
        }
        self.held.fetch_add(1, Ordering::Relaxed);
        Ok(FileBytes::new(Held { bytes, end, held: Arc::clone(&self.held) }))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        let file: File = Arc::default();
        self.change_names("create", path, |state| {
            if state.names.contains_key(path) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            state.change(NameChange::Link { path: path.to_path_buf(), file: Arc::clone(&file) });
            Ok(())
        })?;
        self.open.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(FaultyFile { disk: self.clone(), path: path.to_path_buf(), file }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change_names("rename", to, |state| {
            let file = state.names.get(from).map(Arc::clone).ok_or_else(|| not_found(from))?;
            state.change(NameChange::Rename { from: from.to_path_buf(), to: to.to_path_buf(), file });
            Ok(())
        })
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change_names("link", to, |state| {
            if state.names.contains_key(to) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            let file = state.names.get(from).map(Arc::clone).ok_or_else(|| not_found(from))?;
            state.change(NameChange::Link { path: to.to_path_buf(), file });
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change_names("remove", path, |state| {
            let below: Vec<PathBuf> =
                state.names.keys().filter(|name| name.starts_with(path)).cloned().collect();
            let gone = state.files_below(path);
            for name in below {
                let (root, gone) = (path.to_path_buf(), gone.clone());
                state.change(NameChange::Unlink { path: name, root, gone });
            }
            Ok(())
        })
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let state = self.look("list", dir)?;
        let mut entries = BTreeMap::new();
        for (path, file) in &state.names {
            let Ok(below) = path.strip_prefix(dir) else { continue };
            let mut names = below.iter().filter_map(|name| name.to_str());
            if let Some(name) = names.next() {
                let is_dir = names.next().is_some();
                let len = if is_dir { 0 } else { guard(file).bytes.len() as u64 };
                entries.insert(name.to_string(), DirEntry { name: name.to_string(), is_dir, len });
            }
        }
        Ok(entries.into_values().collect())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let (mut state, fate) = self.begin("sync_dir", dir, &[], |state| state.rates.sync_dir)?;
        if matches!(fate, Fate::Done | Fate::PowerGoes(true)) && !state.lies.sync_dir {
            state.sync_names(dir);
        }
        match fate {
            Fate::Done => Ok(()),
            Fate::Fails => {
                state.counts.sync_dir += 1;
                Err(planned())
            }
            Fate::PowerGoes(_) => Err(power_lost()),
        }
    }

    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        self.change_names("truncate", path, |state| {
            let file = state.names.get(path).map(Arc::clone).ok_or_else(|| not_found(path))?;
            let mut inode = guard(&file);
            let len = usize::try_from(len).map_err(io::Error::other)?;
            Arc::make_mut(&mut inode.bytes).resize(len, 0);
            inode.stable = if inode.lost { inode.stable.min(len) } else { len };
            Ok(())
        })
    }
}

struct Held {
    bytes: Arc<Vec<u8>>,
    end: usize,
    held: Arc<AtomicI64>,
}

impl std::ops::Deref for Held {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.end]
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.held.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct FaultyFile {
    disk: FaultyDisk,
    path: PathBuf,
    file: Arc<Mutex<Inode>>,
}

impl AppendFile for FaultyFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (mut state, fate) = self.disk.begin("append", &self.path, bytes, |state| state.rates.append)?;
        let room = state.bytes_max.map_or(u64::MAX, |most| most.saturating_sub(state.used_bytes()));
        let full = room < bytes.len() as u64;
        let taken = match fate {
            Fate::Done | Fate::PowerGoes(true) => bytes.len(),
            Fate::Fails | Fate::PowerGoes(false) => state.random.below(bytes.len() as u64 + 1) as usize,
        };
        let taken = taken.min(usize::try_from(room).unwrap_or(usize::MAX));
        Arc::make_mut(&mut guard(&self.file).bytes).extend_from_slice(&bytes[..taken]);
        state.appended_bytes += taken as u64;
        match fate {
            Fate::PowerGoes(_) => Err(power_lost()),
            Fate::Fails => {
                state.counts.append += 1;
                Err(planned())
            }
            Fate::Done if full => {
                state.counts.full += 1;
                Err(io::ErrorKind::StorageFull.into())
            }
            Fate::Done => Ok(()),
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        let (mut state, fate) = self.disk.begin("sync", &self.path, &[], |state| state.rates.sync)?;
        let mut inode = guard(&self.file);
        if matches!(fate, Fate::Done | Fate::PowerGoes(true)) && !inode.lost && !state.lies.sync {
            inode.stable = inode.bytes.len();
        }
        match fate {
            Fate::Done => Ok(()),
            Fate::Fails => {
                inode.lost = true;
                drop(inode);
                state.counts.sync += 1;
                Err(planned())
            }
            Fate::PowerGoes(_) => Err(power_lost()),
        }
    }
}

impl Drop for FaultyFile {
    fn drop(&mut self) {
        self.disk.open.fetch_sub(1, Ordering::Relaxed);
    }
}
