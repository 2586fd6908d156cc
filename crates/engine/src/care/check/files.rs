//! Names: files that nothing needs, folders without a table, what does not belong here.

use super::parts::{fill_symbols, inspect};
use super::report::{Finding, Remedy, Severity};
use super::survey::Look;
use super::tables::{broken_file, unneeded_symbols};
use super::tape::Walked;
use crate::disk::{DirEntry, Disk};
use crate::part::{Part, PositionRange};
use crate::paths::{
    ACCOUNTS_DUE_FILE, ACCOUNTS_FILE, ACCOUNTS_UNFINISHED, BACKUP_FILE, BACKUP_TEXT, DAMAGED_DIR, HOLD_DIR,
    LOCK_FILE, RESTORE_FILE, STAGE_DIR, STREAMS_DIR, SWITCH_FILE, TABLES_DIR, TAPE_DIR, copy_path,
    symbols_path, table_dir,
};
use crate::store::hold::is_held;
use crate::store::manifest::Manifest;
use crate::store::snapshot::{TableSnapshot, part_path};
use crate::store::switch;
use crate::store::switch::Switch;
use crate::tape::change::PartEntry;
use crate::tape::named::{TAPE_MANIFEST, UNFINISHED};
use crate::tape::segment::{list_segments, segment_path};
use crate::write::accounts;
use crate::{EngineError, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tickstone_model::PartitionBy;

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
        } else if ![DAMAGED_DIR, HOLD_DIR].map(Path::new).contains(&path.as_path())
            && path.components().count() < DEPTH_MAX
        {
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
pub(crate) fn look(look: &mut Look<'_>, walked: &Walked) -> Result<()> {
    for entry in list(look.disk.as_ref(), Path::new(""))? {
        match (entry.name.as_str(), entry.is_dir) {
            (ACCOUNTS_FILE, false) => look_at_accounts(look),
            (LOCK_FILE | SWITCH_FILE | TAPE_MANIFEST | ACCOUNTS_DUE_FILE, false)
            | (TAPE_DIR | TABLES_DIR | STREAMS_DIR, true) => {}
            (BACKUP_FILE, false) => look_at_marker(look),
            (RESTORE_FILE, false) => {
                let what = "a restore into this directory was not finished; begin it again";
                look.add(Finding::new(Severity::Damage, RESTORE_FILE, what).loses(None, None));
            }
            (DAMAGED_DIR, true) => {
                let what = "what a repair has put aside; remove it when nobody misses it";
                look.add(Finding::new(Severity::Note, DAMAGED_DIR, what));
            }
            (HOLD_DIR, true) => {
                if !is_held(look.disk.as_ref())? {
                    let what = "what a hold that was cut short had made ready, or a release had not removed";
                    leftover(look, Path::new(HOLD_DIR), what);
                }
            }
            (STAGE_DIR, true) => {
                if switch::is_under_way(look.disk.as_ref()) {
                    continue;
                }
                let what = "what a backup or repair that was cut short had made ready";
                leftover(look, Path::new(STAGE_DIR), what);
            }
            (name, false) if copy_path(Path::new(TAPE_MANIFEST)) == Path::new(name) => {}
            (name, false) if UNFINISHED.contains(&name) || name == ACCOUNTS_UNFINISHED => {
                leftover(look, Path::new(name), "a file that was left half written by a crash");
            }
            (name, _) => {
                let what = "this is no part of a database";
                look.add(Finding::new(Severity::Note, name, what));
            }
        }
    }
    tape_names(look)?;
    table_names(look, walked)
}

/// The copy of what says who may do what.
fn look_at_accounts(look: &mut Look<'_>) {
    if accounts::is_damaged(look.disk.as_ref()) {
        let what = "the copy of the users is damaged; an opening writes it anew, or refuses where their table is lost too";
        look.add(Finding::new(Severity::Note, ACCOUNTS_FILE, what));
    }
}

/// The file that says that this is a backup.
fn look_at_marker(look: &mut Look<'_>) {
    let path = Path::new(BACKUP_FILE);
    let bytes = look.disk.read(path);
    look.begin_file(path, bytes.as_ref().map_or(0, |bytes| bytes.len() as u64));
    if !bytes.is_ok_and(|bytes| *bytes == *BACKUP_TEXT) {
        let what = "it is not what a backup writes there";
        look.marker_is_damaged = true;
        look.add(Finding::new(Severity::Damage, path, what).remedy(Remedy::Rebuild));
    }
}

fn leftover(look: &mut Look<'_>, path: &Path, what: &str) {
    look.add(Finding::new(Severity::Leftover, path, what).remedy(Remedy::Swept));
}

fn tape_names(look: &mut Look<'_>) -> Result<()> {
    let known: BTreeSet<PathBuf> = list_segments(look.disk.as_ref())?.into_iter().map(segment_path).collect();
    for entry in list(look.disk.as_ref(), Path::new(TAPE_DIR))? {
        let path = Path::new(TAPE_DIR).join(&entry.name);
        if !known.contains(&path) {
            look.add(Finding::new(Severity::Note, &path, "this is no segment of the tape"));
        }
    }
    for first in look.tape.found.released.clone() {
        let what = "the tape has let go of this segment: parts and manifests hold what is in it";
        let path = segment_path(first);
        let bytes = look.disk.read(&path).map_or(0, |bytes| bytes.len() as u64);
        look.begin_file(&path, bytes);
        look.add(Finding::new(Severity::Leftover, path, what).remedy(Remedy::NextOpening));
    }
    Ok(())
}

fn table_names(look: &mut Look<'_>, walked: &Walked) -> Result<()> {
    for entry in list(look.disk.as_ref(), Path::new(TABLES_DIR))? {
        let path = Path::new(TABLES_DIR).join(&entry.name);
        let id = entry.name.parse::<u32>().ok();
        match id.and_then(|id| walked.snapshot.table_by_id(id)) {
            Some(table) => files_of_table(look, walked, table)?,
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

fn files_of_table(look: &mut Look<'_>, walked: &Walked, table: &TableSnapshot) -> Result<()> {
    let dir = table_dir(table.id);
    let mut own: BTreeSet<PathBuf> = [Manifest::path(table.id)].into();
    let columns = table.schema.symbol_columns().map(|column| table.schema.column_id(column));
    let columns: BTreeSet<u32> = columns.collect();
    let retired = table.retired_columns.iter().copied();
    own.extend(columns.iter().copied().chain(retired.clone()).map(|id| symbols_path(table.id, id)));
    // Nobody has looked at those that no manifest knows: of a new table, or of a column that came after it.
    let of_new_table = retired.filter(|_| table.opened_at == 0);
    for id in columns.iter().copied().chain(of_new_table) {
        if !walked.symbols_seen.contains(&(table.id, id)) {
            unneeded_symbols(look, &symbols_path(table.id, id));
        }
    }
    let copies: Vec<PathBuf> = own.iter().map(|path| copy_path(path)).collect();
    own.extend(copies);
    let mut parts = table.part_paths();
    parts.extend(table.retired.iter().map(|part| part.path.clone()));
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
                unnamed(look, walked, table, &path)?;
            }
        }
    }
    retired_parts(look, table);
    Ok(())
}

/// Parts that left the table by a frame, and that its manifest still names: nobody reads them any more.
fn retired_parts(look: &mut Look<'_>, table: &TableSnapshot) {
    for part in &table.retired {
        let Ok(bytes) = part.read() else { continue };
        look.begin_file(&part.path, bytes.len() as u64);
        if let Err(error) = part.open_bytes(bytes).and_then(|part| part.check()) {
            let finding = broken_file(&part.path, error).of_table(table.schema.name());
            let what = format!("{}; but the part has left the table", finding.what);
            look.add(Finding { severity: Severity::Note, what, ..finding }.remedy(Remedy::Swept));
        }
    }
}

/// A file in a partition's folder that the table does not have.
fn unnamed(look: &mut Look<'_>, walked: &Walked, table: &TableSnapshot, path: &Path) -> Result<()> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let epoch = name.split('-').next().and_then(|epoch| u64::from_str_radix(epoch, 16).ok());
    let lost = epoch.and_then(|epoch| walked.cover.lost_load(epoch));
    let died = epoch.is_none_or(|epoch| walked.cover.may_have_died(epoch));
    if let Some(position) = lost.filter(|position| !died && *position > table.truncated_at)
        && let Some(entry) = loaded(look, table, path, position)
    {
        let what = format!("the frame of the bulk load that wrote these {} rows is lost", entry.rows);
        let finding = Finding::new(Severity::Damage, path, what).of_table(table.schema.name());
        look.add(finding.remedy(Remedy::Adopt));
        let trouble = look.trouble(table.id);
        trouble.rewrite = true;
        trouble.adopted.push(entry);
    } else if look.rebuilt.contains(&table.id)
        || look.tables.get(&table.id).is_some_and(|trouble| trouble.undone)
        || (lost.is_some() && name.ends_with(".part"))
    {
        let what =
            "it may have been the table's before manifest or frame were lost, and cannot be told to be";
        let finding = Finding::new(Severity::Damage, path, what).of_table(table.schema.name());
        look.add(finding.loses(None, None).remedy(Remedy::PutAside));
        look.strays.push(path.to_path_buf());
    } else {
        let rows = rows_of(look.disk.as_ref(), path);
        let rows = rows.map_or(String::new(), |rows| format!(" ({rows} rows)"));
        let what = format!(
            "no manifest and no load names this file{rows}: it never was the table's, or no longer is"
        );
        leftover(look, path, &what);
    }
    Ok(())
}

/// What the lost frame of a load said of this part, where a load wrote it and all of it is whole.
fn loaded(look: &mut Look<'_>, table: &TableSnapshot, path: &Path, position: u64) -> Option<PartEntry> {
    let bytes = look.disk.read(path).ok()?;
    let schema = table.history.at(position)?;
    let part = Part::open(bytes, path, schema).ok()?;
    if part.positions() != (PositionRange { first: 0, last: 0 }) {
        return None;
    }
    fill_symbols(table, &part);
    if !inspect(look, table, path, &part).flaws.is_empty() {
        return None;
    }
    let summary = part.summary();
    let partition =
        table.schema.partition_by().partition_of(summary.times.map_or(0, |(least, _)| least)).from;
    let file = path.file_name()?.to_str()?.to_string();
    let positions = PositionRange { first: position, last: position };
    let right = part_path(table.id, &table.schema, partition, &file) == path;
    right.then(|| PartEntry::of(partition, file, positions, summary, schema.version()))
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
