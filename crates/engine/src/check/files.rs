//! Names: files that nothing needs, folders without a table, what does not belong here.

use super::report::{Finding, Remedy, Severity};
use super::survey::Look;
use super::tables::broken_file;
use crate::disk::{DirEntry, Disk};
use crate::manifest::{Manifest, TABLES_DIR, copy_path, symbols_path, table_dir};
use crate::part::Part;
use crate::snapshot::{Snapshot, TableSnapshot};
use crate::switch::{self, STAGE_DIR, SWITCH_FILE, Switch};
use crate::tape::segment::{TAPE_DIR, list_segments, segment_path};
use crate::{EngineError, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tickstone_model::PartitionBy;

/// Where a repair puts what it takes out.
pub(crate) const DAMAGED_DIR: &str = "damaged";
const LOCK_FILE: &str = "LOCK";
/// Folders nest no deeper in a database.
const DEPTH_MAX: usize = 8;

fn list(disk: &dyn Disk, dir: &Path) -> Result<Vec<DirEntry>> {
    disk.list(dir).map_err(EngineError::io("list", dir))
}

/// Bytes of the files below a folder that a check reads.
pub(crate) fn total_bytes(disk: &dyn Disk, dir: &Path) -> Result<u64> {
    let mut total = 0;
    for entry in list(disk, dir)? {
        let path = dir.join(&entry.name);
        if !entry.is_dir {
            total += entry.len;
        } else if path != Path::new(DAMAGED_DIR) && path.components().count() < DEPTH_MAX {
            total += total_bytes(disk, &path)?;
        }
    }
    Ok(total)
}

/// A switch that was cut short: finished by whoever opens the database next.
pub(crate) fn look_at_switch(look: &mut Look<'_>) -> Result<()> {
    match Switch::load(look.disk.as_ref()) {
        Ok(None) => {}
        Ok(Some(_)) => {
            let what = "a backup or repair was cut short after it had switched to its files";
            let note = Finding::new(Severity::Note, SWITCH_FILE, what);
            look.add(note.remedy(Remedy::NextOpening));
        }
        Err(error @ EngineError::NewerFormat { .. }) => return Err(error),
        Err(error) => {
            look.strays.push(PathBuf::from(SWITCH_FILE));
            look.add(broken_file(Path::new(SWITCH_FILE), error).loses(None, None).remedy(Remedy::PutAside));
        }
    }
    Ok(())
}

/// Looks at every name in the database directory.
pub(crate) fn look(look: &mut Look<'_>, snapshot: &Snapshot) -> Result<()> {
    for entry in list(look.disk.as_ref(), Path::new(""))? {
        match (entry.name.as_str(), entry.is_dir) {
            (LOCK_FILE | SWITCH_FILE, false) | (TAPE_DIR | TABLES_DIR, true) => {}
            (DAMAGED_DIR, true) => {
                let what = "what a repair has put aside; remove it when nobody misses it";
                look.add(Finding::new(Severity::Note, DAMAGED_DIR, what));
            }
            (STAGE_DIR, true) => {
                if switch::is_under_way(look.disk.as_ref()) {
                    continue;
                }
                let what = "what a backup or repair that was cut short had made ready";
                leftover(look, Path::new(STAGE_DIR), what);
            }
            (name, _) => {
                let what = "this is no part of a database";
                look.add(Finding::new(Severity::Note, name, what));
            }
        }
    }
    tape_names(look)?;
    table_names(look, snapshot)
}

fn leftover(look: &mut Look<'_>, path: &Path, what: &str) {
    look.add(Finding::new(Severity::Leftover, path, what).remedy(Remedy::NextOpening));
}

fn tape_names(look: &mut Look<'_>) -> Result<()> {
    let known: BTreeSet<PathBuf> = list_segments(look.disk.as_ref())?.into_iter().map(segment_path).collect();
    for entry in list(look.disk.as_ref(), Path::new(TAPE_DIR))? {
        let path = Path::new(TAPE_DIR).join(&entry.name);
        if !known.contains(&path) {
            look.add(Finding::new(Severity::Note, &path, "this is no segment of the tape"));
        }
    }
    Ok(())
}

fn table_names(look: &mut Look<'_>, snapshot: &Snapshot) -> Result<()> {
    for entry in list(look.disk.as_ref(), Path::new(TABLES_DIR))? {
        let path = Path::new(TABLES_DIR).join(&entry.name);
        let id = entry.name.parse::<u32>().ok();
        match id.and_then(|id| snapshot.table_by_id(id)) {
            Some(table) => files_of_table(look, &table.clone())?,
            None if id.is_some_and(|id| look.tables.contains_key(&id) || look.tape.unknown.contains(&id)) => {
                look.strays.push(path);
            }
            None => {
                let (files, rows) = parts_below(look.disk.as_ref(), &path)?;
                let what =
                    format!("no table has this folder: one that was dropped ({files} parts, {rows} rows)");
                leftover(look, &path, &what);
            }
        }
    }
    Ok(())
}

fn files_of_table(look: &mut Look<'_>, table: &TableSnapshot) -> Result<()> {
    let dir = table_dir(table.id);
    let mut own: BTreeSet<PathBuf> = [Manifest::path(table.id)].into();
    own.extend(table.schema.symbol_columns().map(|column| symbols_path(table.id, column)));
    let copies: Vec<PathBuf> = own.iter().map(|path| copy_path(path)).collect();
    own.extend(copies);
    let parts = table.partitions.iter().flat_map(|partition| partition.part_files().cloned());
    let parts: BTreeSet<PathBuf> = parts.chain(table.retired.iter().map(|part| part.path.clone())).collect();
    for entry in list(look.disk.as_ref(), &dir)? {
        let path = dir.join(&entry.name);
        if !entry.is_dir {
            if !own.contains(&path) {
                leftover(look, &path, "a file that no table needs, left half written by a crash");
            }
            continue;
        }
        for file in list(look.disk.as_ref(), &path)? {
            let path = path.join(&file.name);
            if !parts.contains(&path) {
                let rows = rows_of(look.disk.as_ref(), &path);
                let rows = rows.map_or(String::new(), |rows| format!(" ({rows} rows)"));
                let what = format!(
                    "no manifest and no load names this file{rows}: it was never part of the table, or no longer is"
                );
                leftover(look, &path, &what);
            }
        }
    }
    Ok(())
}

/// Rows of a part that nothing describes, where it can be opened.
fn rows_of(disk: &dyn Disk, path: &Path) -> Option<u64> {
    let part = Part::open_alone(disk.read(path).ok()?, path, "part", PartitionBy::None);
    part.ok().map(|part| part.summary().rows)
}

/// Parts below a folder, and their rows.
fn parts_below(disk: &dyn Disk, dir: &Path) -> Result<(u64, u64)> {
    let (mut parts, mut rows) = (0, 0);
    for folder in list(disk, dir)?.into_iter().filter(|entry| entry.is_dir) {
        for file in list(disk, &dir.join(&folder.name))? {
            if let Some(found) = rows_of(disk, &dir.join(&folder.name).join(&file.name)) {
                parts += 1;
                rows += found;
            }
        }
    }
    Ok((parts, rows))
}
