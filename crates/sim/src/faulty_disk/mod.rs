//! A disk in memory that fails: power cuts, kills, torn and lost writes, errors, damage, slow calls.
//!
//! ```text
//! call ─► begin (counted, hashed, slowed; the power may go) ─► fault? ─► state
//! power_cut: what was synced, and of the rest what chance keeps (settle) ─► the next life
//! kill: everything stays, synced or not                                ─► the next life
//! ```
//!
//! Invariants, after the assumptions in `tickstone_engine::disk`:
//! - a file's bytes up to its last good sync survive; past it each sector may be there or be zeros, and
//!   the file may end anywhere;
//! - a name whose folder was synced survives; of the other changes of names any may have happened;
//! - after a failed sync of a file no later one makes its unsynced bytes stable;
//! - a handle of an earlier life does nothing but fail;
//! - the same seed and the same calls give the same answers.

mod calls;
mod settle;

use crate::{Random, StepClock};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How often each kind of trouble comes: once in this many calls of its kind, 0 for never.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultRates {
    /// An error of a file's sync.
    pub sync: u64,
    /// An error of a folder's sync.
    pub sync_dir: u64,
    /// An error of an append, after some prefix of it.
    pub append: u64,
    /// An error of making, renaming, cutting or removing a file.
    pub names: u64,
    /// An error of reading or listing.
    pub read: u64,
    /// A file that is read shorter than it is.
    pub short_read: u64,
    /// A call that takes up to 100 ms.
    pub slow: u64,
}

/// How many faults there were, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Failed syncs of files.
    pub sync: u64,
    /// Failed syncs of folders.
    pub sync_dir: u64,
    /// Failed appends.
    pub append: u64,
    /// Failed changes of names.
    pub names: u64,
    /// Failed reads.
    pub read: u64,
    /// Short reads.
    pub short_read: u64,
    /// Appends that the full disk refused.
    pub full: u64,
    /// Slow calls.
    pub slow: u64,
    /// Power cuts.
    pub power_cuts: u64,
    /// Kills.
    pub kills: u64,
}

impl FaultCounts {
    /// Faults that a caller sees as an error.
    pub fn errors(&self) -> u64 {
        self.sync + self.sync_dir + self.append + self.names + self.read + self.short_read + self.full
    }

    /// Adds those of another run.
    pub fn add(&mut self, other: &FaultCounts) {
        self.sync += other.sync;
        self.sync_dir += other.sync_dir;
        self.append += other.append;
        self.names += other.names;
        self.read += other.read;
        self.short_read += other.short_read;
        self.full += other.full;
        self.slow += other.slow;
        self.power_cuts += other.power_cuts;
        self.kills += other.kills;
    }
}

/// What a power cut keeps of what was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// Nothing.
    Nothing,
    /// All of it.
    All,
    /// Of the changes of names the first few, of the bytes some sectors.
    Prefix,
    /// Any of the changes of names, of the bytes some sectors.
    Any,
}

impl Kept {
    pub(crate) fn some(random: &mut Random) -> Self {
        [Kept::Nothing, Kept::All, Kept::Prefix, Kept::Any][random.below(4) as usize]
    }
}

/// Lies of a disk, to see that the simulator finds them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lies {
    /// Syncs of files return without a sync.
    pub sync: bool,
    /// Syncs of folders return without a sync.
    pub sync_dir: bool,
}

/// What was appended to a file, and up to where it is stable.
#[derive(Debug, Clone, Default)]
struct Inode {
    bytes: Arc<Vec<u8>>,
    stable: usize,
    /// A sync has failed: what is not stable now never will be.
    lost: bool,
}

type File = Arc<Mutex<Inode>>;

/// A change of names that no sync of a folder has made stable yet.
#[derive(Debug, Clone)]
enum NameChange {
    Link {
        path: PathBuf,
        file: File,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
        file: File,
    },
    /// `root` is what was removed: the file itself or a folder above it. `gone` are the files that were there: one
    /// that is made under the same name later is another.
    Unlink {
        path: PathBuf,
        root: PathBuf,
        gone: Vec<File>,
    },
}

#[derive(Debug)]
struct State {
    life: u64,
    names: BTreeMap<PathBuf, File>,
    stable_names: BTreeMap<PathBuf, File>,
    pending: Vec<NameChange>,
    random: Random,
    rates: FaultRates,
    counts: FaultCounts,
    lies: Lies,
    /// Calls until the power goes.
    cut_after: Option<u64>,
    bytes_max: Option<u64>,
    calls: u64,
    appended_bytes: u64,
    hash: u64,
}

/// The disk; clones are handles of the same life.
#[derive(Debug, Clone)]
pub struct FaultyDisk {
    state: Arc<Mutex<State>>,
    clock: Arc<StepClock>,
    life: u64,
    /// Contents handed out and files open for appending that are still held.
    held: Arc<AtomicI64>,
    open: Arc<AtomicI64>,
}

fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FaultyDisk {
    /// An empty disk without faults; its calls take time on `clock`.
    pub fn new(seed: u64, clock: Arc<StepClock>) -> Self {
        let state = State {
            life: 0,
            names: BTreeMap::new(),
            stable_names: BTreeMap::new(),
            pending: Vec::new(),
            random: Random::new(seed),
            rates: FaultRates::default(),
            counts: FaultCounts::default(),
            lies: Lies::default(),
            cut_after: None,
            bytes_max: None,
            calls: 0,
            appended_bytes: 0,
            hash: 0xcbf2_9ce4_8422_2325,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            clock,
            life: 0,
            held: Arc::default(),
            open: Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        guard(&self.state)
    }

    /// Sets how often faults come.
    pub fn set_rates(&self, rates: FaultRates) {
        self.lock().rates = rates;
    }

    /// Sets what the disk only pretends to do.
    pub fn set_lies(&self, lies: Lies) {
        self.lock().lies = lies;
    }

    /// Lets the power go during the call after `calls` more; `None` calls it off.
    pub fn cut_power_after(&self, calls: Option<u64>) {
        self.lock().cut_after = calls;
    }

    /// How many bytes the disk holds at most; `None` for any number.
    pub fn set_bytes_max(&self, bytes_max: Option<u64>) {
        self.lock().bytes_max = bytes_max;
    }

    /// Whether this handle's life is over.
    pub fn is_dead(&self) -> bool {
        self.lock().life != self.life
    }

    /// Faults so far.
    pub fn counts(&self) -> FaultCounts {
        self.lock().counts
    }

    /// Calls so far.
    pub fn calls(&self) -> u64 {
        self.lock().calls
    }

    /// Bytes appended so far.
    pub fn appended_bytes(&self) -> u64 {
        self.lock().appended_bytes
    }

    /// A hash of every call so far and of what it was given.
    pub fn hash(&self) -> u64 {
        self.lock().hash
    }

    /// Bytes of all files.
    pub fn used_bytes(&self) -> u64 {
        self.lock().used_bytes()
    }

    /// Every file with its size.
    pub fn files(&self) -> Vec<(PathBuf, usize)> {
        let state = self.lock();
        state.names.iter().map(|(path, file)| (path.clone(), guard(file).bytes.len())).collect()
    }

    /// File contents handed out and not yet let go of: what would be maps.
    pub fn held_contents(&self) -> i64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Files open for appending.
    pub fn open_files(&self) -> i64 {
        self.open.load(Ordering::Relaxed)
    }

    /// Changes one byte of a file by `mask`; the same again restores it. `false` where there is none.
    pub fn flip(&self, path: &Path, at: usize, mask: u8) -> bool {
        let state = self.lock();
        let Some(file) = state.names.get(path) else { return false };
        let mut inode = guard(file);
        match Arc::make_mut(&mut inode.bytes).get_mut(at) {
            Some(byte) => {
                *byte ^= mask;
                true
            }
            None => false,
        }
    }

    /// Ends this life with everything kept, synced or not; gives a handle of the next one.
    #[must_use]
    pub fn kill(&self) -> Self {
        let mut state = self.lock();
        state.counts.kills += 1;
        self.next_life(&mut state)
    }

    /// Ends this life as a power cut does; gives a handle of the next one.
    #[must_use]
    pub fn power_cut(&self, kept: Kept) -> Self {
        let mut state = self.lock();
        state.counts.power_cuts += 1;
        state.settle(kept);
        self.next_life(&mut state)
    }

    fn next_life(&self, state: &mut State) -> Self {
        state.life = state.life.max(self.life) + 1;
        state.cut_after = None;
        Self { life: state.life, ..self.clone() }
    }

    /// Another disk with the same contents and its own chance: what happens there changes nothing here.
    #[must_use]
    pub fn fork(&self, seed: u64) -> Self {
        let state = self.lock();
        let mut copies: BTreeMap<usize, File> = BTreeMap::new();
        let mut copy = |file: &File| {
            let copied = copies.entry(Arc::as_ptr(file) as usize);
            Arc::clone(copied.or_insert_with(|| Arc::new(Mutex::new(guard(file).clone()))))
        };
        let names = state.names.iter().map(|(path, file)| (path.clone(), copy(file))).collect();
        let stable_names = state.stable_names.iter().map(|(path, file)| (path.clone(), copy(file))).collect();
        let pending = state.pending.iter().map(|change| match change {
            NameChange::Link { path, file } => NameChange::Link { path: path.clone(), file: copy(file) },
            NameChange::Rename { from, to, file } => {
                NameChange::Rename { from: from.clone(), to: to.clone(), file: copy(file) }
            }
            NameChange::Unlink { path, root, gone } => {
                let gone = gone.iter().map(&mut copy).collect();
                NameChange::Unlink { path: path.clone(), root: root.clone(), gone }
            }
        });
        let fork = Self::new(seed, Arc::clone(&self.clock));
        {
            let pending = pending.collect();
            let mut forked = fork.lock();
            forked.names = names;
            forked.stable_names = stable_names;
            forked.pending = pending;
        }
        fork
    }
}

impl State {
    fn used_bytes(&self) -> u64 {
        // A file may have two names.
        let files: BTreeMap<_, _> = self.names.values().map(|file| (Arc::as_ptr(file), file)).collect();
        files.values().map(|file| guard(file).bytes.len() as u64).sum()
    }
}

fn not_found(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("no file {}", path.display()))
}
