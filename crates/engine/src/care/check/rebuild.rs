//! A manifest from what else there is: the parts' footers, and the frames of the tape.
//!
//! The last resort, where a manifest and its copy are both unreadable. What only the manifest knew is
//! lost: positions of bulk loads, imported files, and, once the tape has let go of the CREATE, the
//! table's name.

use crate::Result;
use crate::disk::Disk;
use crate::part::{Part, PositionRange};
use crate::paths::{TABLES_DIR, symbols_path, table_dir};
use crate::store::history::History;
use crate::store::manifest::{Manifest, pack};
use crate::store::staleness::Staleness;
use crate::tape::change::{Change, PartEntry, decode_change};
use crate::tape::scan::{Item, scan};
use crate::tape::segment::{Segment, list_segments};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tickstone_model::{PartitionBy, TableSchema};

/// What the tape tells of one table.
#[derive(Default)]
struct Told {
    created: Option<(u64, TableSchema)>,
    truncated_at: u64,
    /// Files that loads name, and those that DELETE and UPDATE made of them: replaying them adds the parts.
    loaded: HashSet<String>,
}

/// A part file found in the table's folder.
struct FoundPart {
    entry: PartEntry,
    schema: Arc<TableSchema>,
}

/// The manifest of a table as far as it can be told; `None` where nothing of it is left but, perhaps, its
/// CREATE in the tape.
///
/// # Errors
/// [`crate::EngineError::Io`] where folders cannot be listed.
pub(crate) fn manifest(disk: &dyn Disk, id: u32) -> Result<Option<Manifest>> {
    let told = ask_tape(disk, id)?;
    let mut parts = find_parts(disk, id, &told)?;
    parts.retain(|part| !told.loaded.contains(&part.entry.file));
    parts.retain(|part| part.entry.positions.last > told.truncated_at || part.entry.positions.last == 0);
    // Most parts agree; those of another shape are left out, and put aside as what nothing names.
    let Some(own) = parts.last().map(|part| Arc::clone(&part.schema)) else { return Ok(None) };
    let (created_at, schema) = told.created.unwrap_or((0, TableSchema::clone(&own)));
    parts.retain(|part| part.schema.columns() == schema.columns() && part.schema.series() == schema.series());
    let mut entries = without_superseded(parts.into_iter().map(|part| part.entry).collect());
    for (entry, place) in entries.iter_mut().filter(|entry| entry.positions.last == 0).zip(1..) {
        // Loads: before all else, in the order they were written.
        entry.positions = PositionRange { first: place, last: place };
    }
    // At least one symbol where there is a file: all of it is read then.
    let has_file = |column| disk.read(&symbols_path(id, schema.column_id(column))).is_ok();
    let symbol_counts = schema.symbol_columns().map(|column| u32::from(has_file(column))).collect();
    let truncated_at = told.truncated_at;
    let saved_at = created_at.max(truncated_at);
    let imports = Vec::new();
    let history = History::new(Arc::new(schema.clone()));
    // Of a materialized view: all of it is worked out anew.
    let staleness = schema.materialized().map(|_| Staleness::all(0)).unwrap_or_default();
    Ok(Some(Manifest {
        staleness,
        // Only the manifest that is lost knew them: replaced rows are seen again.
        superseded: Vec::new(),
        table: id,
        schema,
        created_at,
        truncated_at,
        saved_at,
        symbol_counts,
        parts: pack(entries),
        emptied: Vec::new(),
        imports,
        history,
    }))
}

fn ask_tape(disk: &dyn Disk, id: u32) -> Result<Told> {
    let mut told = Told::default();
    for first in list_segments(disk)? {
        let Ok(segment) = Segment::open(disk, first) else { continue };
        scan(segment.contents(), first, true, |item| {
            let Item::Frame(_, frame) = item else { return };
            match decode_change(frame.header.kind, frame.payload, |_| None) {
                Ok(Change::Create { table, schema }) if table == id => {
                    told = Told { created: Some((frame.header.position, schema)), ..Told::default() };
                }
                Ok(Change::Truncate { table }) if table == id => told.truncated_at = frame.header.position,
                Ok(Change::Load { table, parts, .. }) if table == id => {
                    told.loaded.extend(parts.into_iter().map(|part| part.file));
                }
                Ok(Change::Rewrite { table, parts, .. }) if table == id => {
                    let of_loads = parts.into_iter().filter(|part| told.loaded.contains(&part.gone));
                    let came: Vec<String> = of_loads.filter_map(|part| Some(part.came?.file)).collect();
                    told.loaded.extend(came);
                }
                _ => {}
            }
        });
    }
    Ok(told)
}

/// What a table is called whose name is lost: as no other is, which somebody may have called so on purpose.
fn free_name(disk: &dyn Disk, id: u32) -> Result<String> {
    let mut taken = HashSet::new();
    for other in
        list(disk, Path::new(TABLES_DIR))?.into_iter().filter_map(|entry| entry.name.parse::<u32>().ok())
    {
        if let Ok(Some(manifest)) = Manifest::load(disk, other) {
            taken.insert(manifest.schema.name().to_lowercase());
        }
    }
    let mut name = format!("recovered_{id}");
    while taken.contains(&name) {
        name.push('_');
    }
    Ok(name)
}

/// Every part of the table's folder that can be opened by itself, by name: in the order they were written.
fn find_parts(disk: &dyn Disk, id: u32, told: &Told) -> Result<Vec<FoundPart>> {
    let dir = table_dir(id);
    let folders: Vec<String> = list(disk, &dir)?.into_iter().filter(|e| e.is_dir).map(|e| e.name).collect();
    let name = match &told.created {
        Some((_, schema)) => schema.name().to_string(),
        None => free_name(disk, id)?,
    };
    let partition_by = told.created.as_ref().map_or_else(|| unit_of(&folders), |(_, s)| s.partition_by());
    let mut parts = Vec::new();
    for folder in folders {
        for file in list(disk, &dir.join(&folder))? {
            let path = dir.join(&folder).join(&file.name);
            if !file.name.ends_with(".part") {
                continue;
            }
            let Ok(bytes) = disk.read(&path) else { continue };
            let Ok(part) = Part::open_alone(bytes, &path, &name, partition_by) else { continue };
            let summary = part.summary();
            let partition = partition_by.partition_of(summary.times.map_or(0, |(least, _)| least)).from;
            if partition_by.label(partition) != folder {
                continue;
            }
            let entry = PartEntry::of(partition, file.name, part.positions(), summary, 0);
            parts.push(FoundPart { entry, schema: Arc::clone(part.schema()) });
        }
    }
    parts.sort_by(|a, b| a.entry.file.cmp(&b.entry.file));
    Ok(parts)
}

fn list(disk: &dyn Disk, dir: &Path) -> Result<Vec<crate::disk::DirEntry>> {
    disk.list(dir).map_err(crate::EngineError::io("list", PathBuf::from(dir)))
}

/// The unit whose labels look like these folders. A week's look like a day's; a day is the default.
fn unit_of(folders: &[String]) -> PartitionBy {
    match folders.first().map(|label| label.trim_start_matches('-').len()) {
        Some(3) => PartitionBy::None,
        Some(4) => PartitionBy::Year,
        Some(7) => PartitionBy::Month,
        Some(13) => PartitionBy::Hour,
        _ => PartitionBy::Day,
    }
}

/// Leaves out parts whose positions another part of the partition has too, and more: they were merged into it.
fn without_superseded(entries: Vec<PartEntry>) -> Vec<PartEntry> {
    let within = |inner: &PartEntry, outer: &PartEntry| {
        let (a, b) = (inner.positions, outer.positions);
        let wider = (b.first, a.last) < (a.first, b.last) || (a == b && inner.file < outer.file);
        inner.partition == outer.partition && a.last != 0 && b.first <= a.first && a.last <= b.last && wider
    };
    let superseded: Vec<bool> =
        entries.iter().map(|inner| entries.iter().any(|outer| within(inner, outer))).collect();
    let kept = entries.into_iter().zip(superseded).filter(|(_, superseded)| !superseded);
    kept.map(|(entry, _)| entry).collect()
}
