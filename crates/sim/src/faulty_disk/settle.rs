//! What a power cut leaves, and what a sync of a folder makes stable.

use super::{File, Inode, Kept, NameChange, State, guard};
use crate::Random;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tickstone_engine::disk::SECTOR_BYTES;

impl State {
    /// Every file that is, or may be after a power cut, at a path or below it.
    pub(super) fn files_below(&self, root: &Path) -> Vec<File> {
        let named = self.names.iter().chain(&self.stable_names);
        let pending = self.pending.iter().filter_map(|change| match change {
            NameChange::Link { path, file } | NameChange::Rename { to: path, file, .. } => Some((path, file)),
            NameChange::Unlink { .. } => None,
        });
        let below = named.chain(pending).filter(|(path, _)| path.starts_with(root));
        below.map(|(_, file)| Arc::clone(file)).collect()
    }

    /// Makes the names below a folder stable.
    pub(super) fn sync_names(&mut self, dir: &Path) {
        let pending = std::mem::take(&mut self.pending);
        for change in pending {
            if change.is_below(dir) {
                change.apply(&mut self.stable_names);
                if let NameChange::Unlink { root, gone, .. } = &change
                    && root.parent() == Some(dir)
                {
                    // A folder that is gone for good takes along what was below it; not what is in a new one.
                    let is_gone = |file: &File| gone.iter().any(|other| Arc::ptr_eq(other, file));
                    self.stable_names.retain(|path, file| !path.starts_with(root) || !is_gone(file));
                    self.pending.retain(|earlier| !earlier.path().starts_with(root));
                }
            } else {
                self.pending.push(change);
            }
        }
    }

    /// Replaces everything by what the power cut keeps, all of it stable.
    pub(super) fn settle(&mut self, kept: Kept) {
        let mut names = std::mem::take(&mut self.stable_names);
        let pending = std::mem::take(&mut self.pending);
        let first = self.random.below(pending.len() as u64 + 1) as usize;
        for (index, change) in pending.into_iter().enumerate() {
            let survives = match kept {
                Kept::Nothing => false,
                Kept::All => true,
                Kept::Prefix => index < first,
                Kept::Any => self.random.one_in(2),
            };
            if survives {
                change.apply(&mut names);
            }
        }
        let mut settled = BTreeMap::new();
        for (path, file) in names {
            let bytes = settle_file(&guard(&file), kept, &mut self.random);
            let stable = bytes.len();
            let inode = Inode { bytes: Arc::new(bytes), stable, lost: false };
            settled.insert(path, Arc::new(Mutex::new(inode)));
        }
        self.stable_names = settled.clone();
        self.names = settled;
    }
}

/// What is left of a file.
fn settle_file(inode: &Inode, kept: Kept, random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::clone(&inode.bytes);
    match kept {
        // What a failed sync left behind is anybody's guess.
        Kept::All if !inode.lost => {}
        Kept::Nothing => bytes.truncate(inode.stable),
        _ => {
            let unsynced = (bytes.len() - inode.stable) as u64;
            if !random.one_in(3) {
                bytes.truncate(inode.stable + random.below(unsynced + 1) as usize);
            }
            // Some tears are many small holes, some one large one.
            let lost_one_in = [2, 4, 16][random.below(3) as usize];
            let mut at = inode.stable;
            while at < bytes.len() {
                let end = ((at / SECTOR_BYTES + 1) * SECTOR_BYTES).min(bytes.len());
                if random.one_in(lost_one_in) {
                    bytes[at..end].fill(0);
                }
                at = end;
            }
        }
    }
    bytes
}

impl NameChange {
    /// Whether a sync of `dir` makes it stable: its own name, or that of a folder above it that was removed.
    fn is_below(&self, dir: &Path) -> bool {
        match self {
            NameChange::Link { path, .. } => path.parent() == Some(dir),
            NameChange::Rename { from, to, .. } => from.parent() == Some(dir) || to.parent() == Some(dir),
            NameChange::Unlink { path, root, .. } => path.parent() == Some(dir) || root.parent() == Some(dir),
        }
    }

    fn path(&self) -> &Path {
        match self {
            NameChange::Link { path, .. } | NameChange::Unlink { path, .. } => path,
            NameChange::Rename { to, .. } => to,
        }
    }

    pub(super) fn apply(&self, names: &mut BTreeMap<PathBuf, File>) {
        match self {
            NameChange::Link { path, file } => {
                names.insert(path.clone(), Arc::clone(file));
            }
            NameChange::Rename { from, to, file } => {
                names.remove(from);
                names.insert(to.clone(), Arc::clone(file));
            }
            NameChange::Unlink { path, gone, .. } => {
                if names.get(path).is_some_and(|file| gone.iter().any(|other| Arc::ptr_eq(other, file))) {
                    names.remove(path);
                }
            }
        }
    }
}
