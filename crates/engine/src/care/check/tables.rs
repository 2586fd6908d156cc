//! Manifests and symbol files: each against its checksum, else the copy, else what else there is.

use super::rebuild;
use super::report::{Finding, Remedy, Severity};
use super::survey::{Look, MissingCopy};
use super::tape::Walked;
use crate::paths::{BACKUP_FILE, copy_path, symbols_path};
use crate::store::dictionary::Dictionary;
use crate::store::manifest::{Manifest, list_tables};
use crate::store::snapshot::TableSnapshot;
use crate::tape::segment::{epoch_of, first_position};
use crate::{EngineError, Result};
use std::path::Path;
use std::sync::Arc;

/// What the tables' own files tell.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) tables: Vec<TableSnapshot>,
    /// Symbols that a manifest says there are, by table and the column's id: frames after it may move its place.
    pub(crate) symbol_counts: Vec<(u32, u32, usize)>,
    /// Last position that some manifest holds.
    pub(crate) position: u64,
    /// First position of the last epoch in which some part was written.
    pub(crate) opened_last: u64,
}

/// Looks at every table's manifest and symbol files.
pub(crate) fn look(look: &mut Look<'_>) -> Result<Found> {
    let mut found = Found::default();
    for id in list_tables(look.disk.as_ref())? {
        let Some(manifest) = manifest(look, id)? else { continue };
        found.position = found.position.max(manifest.saved_at);
        let epoch = manifest.newest_epoch();
        found.opened_last = found.opened_last.max(epoch.map_or(0, first_position));
        let mut dictionaries = vec![None; manifest.schema.columns().len()];
        for (column, count) in manifest.schema.symbol_columns().zip(&manifest.symbol_counts) {
            let count = *count as usize;
            found.symbol_counts.push((id, manifest.schema.column_id(column), count));
            dictionaries[column] = Some(Arc::new(symbols(look, &manifest, column, count)?));
        }
        for column in manifest.schema.symbol_columns() {
            dictionaries[column].get_or_insert_default();
        }
        found.tables.push(TableSnapshot::from_manifest(manifest, dictionaries, &look.disk));
    }
    Ok(found)
}

/// The manifest of a table, or the best there is in its place; `None` where the tape must tell.
fn manifest(look: &mut Look<'_>, id: u32) -> Result<Option<Manifest>> {
    let path = Manifest::path(id);
    let copy = copy_path(&path);
    let disk = Arc::clone(&look.disk);
    note_file(look, &path);
    note_file(look, &copy);
    let from_copy = Manifest::load_from(disk.as_ref(), id, &copy);
    let problem = match Manifest::load(disk.as_ref(), id) {
        Ok(Some(manifest)) => {
            match from_copy {
                Ok(Some(_)) => {}
                Ok(None) => missing_copy(look, &manifest, &copy),
                Err(error) => broken_copy(look, &manifest, &copy, error),
            }
            return Ok(Some(manifest));
        }
        Ok(None) => match &from_copy {
            Ok(None) => return Ok(None),
            _ => Finding::new(Severity::Damage, &path, "the manifest is missing"),
        },
        Err(error @ EngineError::NewerFormat { .. }) => return Err(error),
        Err(error) => {
            look.trouble(id).files.push(path.clone());
            broken_file(&path, error)
        }
    };
    look.trouble(id).rewrite = true;
    if let Ok(Some(manifest)) = from_copy {
        look.add(problem.of_table(manifest.schema.name()).remedy(Remedy::FromCopy));
        return Ok(Some(manifest));
    }
    if from_copy.is_err() {
        look.trouble(id).files.push(copy);
    }
    let rebuilt = rebuild::manifest(look.disk.as_ref(), id)?;
    match &rebuilt {
        Some(manifest) => {
            let what = format!("{}, and so is its copy", problem.what);
            let finding = Finding { what, ..problem.of_table(manifest.schema.name()) };
            look.rebuilt.insert(id);
            look.add(finding.loses(None, None).remedy(Remedy::Rebuild));
        }
        None => look.add(problem.loses(None, None).remedy(Remedy::Rebuild)),
    }
    Ok(rebuilt)
}

/// The symbols of a column, as far as its file or the copy has them.
fn symbols(look: &mut Look<'_>, manifest: &Manifest, column: usize, count: usize) -> Result<Dictionary> {
    let path = symbols_path(manifest.table, manifest.schema.column_id(column));
    if count == 0 {
        unneeded_symbols(look, &path);
        return Ok(Dictionary::default());
    }
    let copy = copy_path(&path);
    let disk = Arc::clone(&look.disk);
    note_file(look, &path);
    note_file(look, &copy);
    let from_copy = Dictionary::load(disk.as_ref(), &copy, count);
    let error = match Dictionary::load(disk.as_ref(), &path, count) {
        Ok(dictionary) => {
            // An older copy with fewer symbols is what a crash between the two leaves.
            match Dictionary::load(disk.as_ref(), &copy, 0) {
                Ok(_) => {}
                Err(EngineError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                    missing_copy(look, manifest, &copy);
                }
                Err(error) => broken_copy(look, manifest, &copy, error),
            }
            return Ok(dictionary);
        }
        Err(error @ EngineError::NewerFormat { .. }) => return Err(error),
        Err(error) => error,
    };
    let finding = broken_file(&path, error).of_table(manifest.schema.name());
    let trouble = look.trouble(manifest.table);
    trouble.rewrite = true;
    trouble.files.push(path);
    match from_copy {
        Ok(dictionary) => {
            look.add(finding.remedy(Remedy::FromCopy));
            Ok(dictionary)
        }
        Err(_) => {
            look.add(finding.remedy(Remedy::Rebuild));
            // Fewer symbols are better than none: ids never change.
            Ok(Dictionary::load(disk.as_ref(), &copy, 0).unwrap_or_default())
        }
    }
}

/// Notes a symbol file on which no manifest relies yet, and its copy, where they are broken: the next manifest
/// that does comes after new ones.
pub(crate) fn unneeded_symbols(look: &mut Look<'_>, path: &Path) {
    for path in [path, &copy_path(path)] {
        note_file(look, path);
        match Dictionary::load(look.disk.as_ref(), path, 0) {
            Ok(_) => {}
            Err(EngineError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => look.add(Finding { severity: Severity::Note, ..broken_file(path, error) }),
        }
    }
}

/// Counts a file that is there.
pub(crate) fn note_file(look: &mut Look<'_>, path: &Path) {
    if let Ok(bytes) = look.disk.read(path) {
        look.begin_file(path, bytes.len() as u64);
    }
}

/// Reports a copy that cannot be read: it got its name when it was whole.
fn broken_copy(look: &mut Look<'_>, manifest: &Manifest, copy: &Path, error: EngineError) {
    let trouble = look.trouble(manifest.table);
    trouble.rewrite = true;
    trouble.files.push(copy.to_path_buf());
    look.add(broken_file(copy, error).of_table(manifest.schema.name()).remedy(Remedy::Copy));
}

/// Notes a copy that is not there, until the tape has told whether a crash came before it was written.
fn missing_copy(look: &mut Look<'_>, manifest: &Manifest, copy: &Path) {
    let name = manifest.schema.name().to_string();
    let (table, saved_at, path) = (manifest.table, manifest.saved_at, copy.to_path_buf());
    look.missing_copies.push(MissingCopy { table, name, saved_at, path });
}

/// Reports the copies that are not there. A file that was written in the last epoch, which did not end with a close,
/// may have none yet.
pub(crate) fn missing_copies(look: &mut Look<'_>, walked: &Walked) {
    let cover = &walked.cover;
    let backup = look.disk.read(Path::new(BACKUP_FILE)).is_ok();
    let mut missing = std::mem::take(&mut look.missing_copies);
    // That of a table that was dropped goes before its manifest.
    missing.retain(|copy| walked.snapshot.table_by_id(copy.table).is_some());
    for copy in missing {
        // Earlier builds had no copies at first, and did not sync them.
        let died = !backup && !cover.closed && epoch_of(cover.last) <= epoch_of(copy.saved_at);
        let died = died || look.tape.found.older;
        look.trouble(copy.table).rewrite = true;
        let severity = if died { Severity::Note } else { Severity::Damage };
        let remedy = if died { Remedy::NextOpening } else { Remedy::Copy };
        let finding = Finding::new(severity, copy.path, "the file is missing: it is the copy of another");
        look.add(finding.of_table(&copy.name).remedy(remedy));
    }
}

/// The finding that an error of reading is.
pub(crate) fn broken_file(path: &Path, error: EngineError) -> Finding {
    match error {
        EngineError::Damaged { offset, what, .. } => {
            Finding::new(Severity::Damage, path, what).at(offset, None)
        }
        EngineError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Finding::new(Severity::Damage, path, "the file is missing")
        }
        other => Finding::new(Severity::Damage, path, other.to_string()),
    }
}
