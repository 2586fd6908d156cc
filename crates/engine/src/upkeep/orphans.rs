//! Orphans: files that a crash left half done, which nothing names.
//!
//! Finding them means listing every folder of every partition, which takes long where there are millions: it
//! goes on beside everything else after opening.
//!
//! Invariants:
//! - only what the state at opening does not name is removed, and of that only what this process cannot have
//!   made: parts whose names it has not given out, folders and symbol files of numbers given out before it (an
//!   opening that died without a frame leaves parts of the very epoch that the next one has). Unfinished
//!   manifests and symbol files are removed while nobody may write one;
//! - a file of a table's past that its manifest may still name is none;
//! - the tape is closed only once all was looked at, so that the next opening looks again where it was not.

use crate::core::{Core, Maintenance, Sweep};
use crate::disk::Disk;
use crate::disk::checked::sync_if_there;
use crate::lock::lock;
use crate::paths::{TABLES_DIR, copy_path, symbols_column, table_dir};
use crate::store::hold::remove_unfinished;
use crate::store::manifest::{Manifest, PackedChunk, unpack};
use crate::store::snapshot::{Snapshot, TableSnapshot, part_path};
use crate::{EngineError, Result};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use tickstone_model::TableSchema;

/// What is needed to tell an orphan.
#[derive(Debug)]
pub(crate) struct Orphans {
    tables: BTreeMap<u32, Kept>,
    /// Tables from this number on are new.
    next_table: u32,
}

/// What a table needs, as it was at opening: without its rows in memory.
#[derive(Debug)]
struct Kept {
    table: u32,
    schema: Arc<TableSchema>,
    parts: Vec<PackedChunk>,
    /// Files of parts that left and that its manifest may still name.
    retired: Vec<PathBuf>,
    /// Dropped columns on whose symbols its manifest may still rely.
    retired_columns: Vec<u32>,
}

impl Orphans {
    /// Those beside `snapshot`, the state at opening; tables from `next_table` on are made by this process.
    pub(crate) fn of(snapshot: &Snapshot, next_table: u32) -> Self {
        let tables = snapshot.tables().map(|table| (table.id, Kept::of(table))).collect();
        Self { tables, next_table }
    }

    /// Removes them all, or as many as it gets to before it is told to stop.
    ///
    /// # Errors
    /// [`EngineError::Io`].
    pub(crate) fn remove(&self, disk: &dyn Disk, sweep: &Sweep, of: &Weak<Maintenance>) -> Result<()> {
        let tables = Path::new(TABLES_DIR);
        let mut folders_gone = false;
        for (name, _) in list(disk, tables)? {
            let id: Option<u32> = name.parse().ok();
            match id.and_then(|id| self.tables.get(&id)) {
                Some(kept) => sweep_table(disk, kept, sweep, of)?,
                None if id.is_some_and(|id| id >= self.next_table) => {}
                None => {
                    remove_table(disk, &tables.join(&name), id)?;
                    folders_gone = true;
                }
            }
            if sweep.is_stopping() {
                return Ok(());
            }
        }
        if folders_gone {
            sync_if_there(disk, tables)?;
        }
        {
            let maintenance = of.upgrade();
            let _turn = maintenance.as_ref().map(|maintenance| lock(&maintenance.holding));
            remove_unfinished(disk)?;
        }
        sweep.finish();
        Ok(())
    }
}

/// Removes the files that a crash left, on a thread of its own or at once; `None` where there is none.
///
/// # Errors
/// [`EngineError::Io`].
pub(crate) fn sweep(core: &Arc<Core>, orphans: Option<Orphans>) -> Result<()> {
    let maintenance = &core.maintenance;
    let sweep = Arc::clone(&maintenance.sweep);
    let Some(orphans) = orphans else {
        sweep.finish();
        return Ok(());
    };
    let disk = Arc::clone(&core.disk);
    let of = Arc::downgrade(maintenance);
    // Manifests and symbol files are written by those who hold the pause.
    let run = move || orphans.remove(disk.as_ref(), &sweep, &of);
    if !core.options.background {
        return run();
    }
    // What it cannot remove the next opening tries again: the tape stays unclosed.
    let thread = std::thread::Builder::new().name("sweep".to_string()).spawn(move || drop(run()));
    let thread = thread.map_err(EngineError::io("start the thread of", "the sweep"))?;
    *lock(&maintenance.sweeper) = Some(thread);
    Ok(())
}

fn sweep_table(disk: &dyn Disk, kept: &Kept, sweep: &Sweep, of: &Weak<Maintenance>) -> Result<()> {
    let dir = table_dir(kept.table);
    let named = kept.files();
    let mut gone = false;
    for (name, is_dir) in list(disk, &dir)? {
        if sweep.is_stopping() {
            return Ok(());
        }
        let path = dir.join(&name);
        if is_dir {
            sweep_partition(disk, &path, &named, sweep)?;
        } else if name.ends_with(".tmp") {
            // Whoever writes one keeps others from pausing: what is there now is nobody's.
            let maintenance = of.upgrade();
            let _pause = maintenance.as_ref().map(|maintenance| maintenance.pause());
            remove(disk, &path)?;
            gone = true;
        } else if kept.is_needless(&name) {
            remove(disk, &path)?;
            gone = true;
        }
    }
    if gone { sync_if_there(disk, &dir) } else { Ok(()) }
}

fn sweep_partition(disk: &dyn Disk, folder: &Path, named: &HashSet<PathBuf>, sweep: &Sweep) -> Result<()> {
    let mut gone = false;
    for (name, _) in list(disk, folder)? {
        let path = folder.join(&name);
        // A name is given out before there is a file.
        let is_new = || sweep.has_given(name.strip_suffix(".tmp").unwrap_or(&name));
        if !named.contains(&path) && !is_new() {
            remove(disk, &path)?;
            gone = true;
        }
    }
    // It must not come back after a clean close: nobody would look for it then.
    if gone { sync_if_there(disk, folder) } else { Ok(()) }
}

impl Kept {
    fn of(table: &TableSnapshot) -> Self {
        Self {
            table: table.id,
            schema: Arc::clone(&table.schema),
            parts: table.partitions.packed(),
            retired: table.retired.iter().map(|part| part.path.clone()).collect(),
            retired_columns: table.retired_columns.clone(),
        }
    }

    fn files(&self) -> HashSet<PathBuf> {
        let path = |partition, file: &str| part_path(self.table, &self.schema, partition, file);
        let parts = unpack(&self.parts).map(|entry| path(entry.partition, &entry.file));
        parts.chain(self.retired.iter().cloned()).collect()
    }

    /// Whether a file has symbols that are of no use any more. The manifest may still rely on those of a column
    /// that a later frame drops; columns of ids not given out at opening are new.
    fn is_needless(&self, name: &str) -> bool {
        let id = symbols_column(name.strip_suffix(".copy").unwrap_or(name));
        id.is_some_and(|id| {
            id < self.schema.next_column_id()
                && self.schema.column_of_id(id).is_none()
                && !self.retired_columns.contains(&id)
        })
    }
}

/// Names in a folder, and whether each is a folder.
fn list(disk: &dyn Disk, dir: &Path) -> Result<Vec<(String, bool)>> {
    let entries = disk.list(dir).map_err(EngineError::io("list", dir))?;
    Ok(entries.into_iter().map(|entry| (entry.name, entry.is_dir)).collect())
}

fn remove(disk: &dyn Disk, path: &Path) -> Result<()> {
    disk.remove(path).map_err(EngineError::io("remove", path))
}

/// Removes the folder of a table that was dropped. The copy of its manifest goes first: a copy alone looks
/// like a manifest that was lost.
fn remove_table(disk: &dyn Disk, path: &Path, id: Option<u32>) -> Result<()> {
    if let Some(id) = id {
        remove(disk, &copy_path(&Manifest::path(id)))?;
        sync_if_there(disk, path)?;
    }
    remove(disk, path)
}
