//! Manifests: which parts make up a table, and what else of it the tape no longer has to tell
//! (docs/formats/manifest.md).
//!
//! Invariants:
//! - a manifest is replaced as a whole: new file, sync, rename, sync of the folder; only then, likewise, its
//!   copy, which is there for a repair and is never relied on;
//! - it names only parts, and relies only on symbols, that are on stable storage already;
//! - it holds the effect of every CREATE, TRUNCATE and bulk load of its table up to `saved_at`, and
//!   of rows exactly those within its parts' positions.

use crate::codec::{Decoder, Encoder, Malformed};
use crate::disk::Disk;
use crate::disk::checked::{read_checked, replace_with_copy, sync_if_there};
use crate::part::PositionRange;
use crate::paths::{TABLES_DIR, copy_path, table_dir};
use crate::store::history::{History, Retirement, SchemaVersion};
use crate::store::staleness::Staleness;
use crate::tape::change::{
    ImportSource, PartEntry, decode_part, decode_range, decode_schema, decode_schema_without_properties,
    decode_source, encode_range, encode_schema, encode_source,
};
use crate::{EngineError, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tickstone_model::TableSchema;

mod pack;

pub(crate) use pack::{CHUNK_PARTITIONS, PackedChunk, fast_since, pack, unpack};

const MANIFEST_FILE: &str = "manifest";
const MAGIC: &[u8; 8] = b"TKMANI\0\0";
const VERSION: u32 = 5;
/// The first version that has parts in chunks, and emptied positions beside them.
const VERSION_CHUNKS: u32 = 4;
/// The first version that says which stretches of a materialized view are stale.
const VERSION_STALENESS: u32 = 5;

/// A file that was imported into a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportRecord {
    /// The file.
    pub source: ImportSource,
    /// Rows it brought.
    pub rows: u64,
    /// Position of the commit.
    pub position: u64,
}

/// What a manifest says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) table: u32,
    pub(crate) schema: TableSchema,
    /// Position of the CREATE.
    pub(crate) created_at: u64,
    /// Position of the last TRUNCATE, 0 where there was none.
    pub(crate) truncated_at: u64,
    /// Last position whose catalog changes and loads the manifest holds.
    pub(crate) saved_at: u64,
    /// Symbols per SYMBOL column, in column order, that the symbol files hold at least.
    pub(crate) symbol_counts: Vec<u32>,
    /// By partition and position.
    pub(crate) parts: Vec<PackedChunk>,
    /// Positions of which no row of a partition is left, as parts without a file.
    pub(crate) emptied: Vec<PartEntry>,
    pub(crate) imports: Vec<ImportRecord>,
    /// Earlier schemas, and what else frames still in the tape must be told; its last version is `schema`.
    pub(crate) history: History,
    /// Rows that later ones replaced.
    pub(crate) superseded: Vec<SupersededRows>,
    /// Of a materialized view.
    pub(crate) staleness: Staleness,
}

/// Rows of a part that later ones replaced (DEDUP UPSERT KEYS).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SupersededRows {
    /// Start of the part's partition (ns since the Unix epoch).
    pub(crate) partition: i64,
    /// File name of the part.
    pub(crate) file: String,
    /// Ascending.
    pub(crate) rows: Vec<u32>,
}

/// Ids of the tables that have a folder, ascending.
pub(crate) fn list_tables(disk: &dyn Disk) -> Result<Vec<u32>> {
    let entries = disk.list(Path::new(TABLES_DIR)).map_err(EngineError::io("list", TABLES_DIR))?;
    let mut ids: Vec<u32> =
        entries.iter().filter(|entry| entry.is_dir).filter_map(|e| e.name.parse().ok()).collect();
    ids.sort_unstable();
    Ok(ids)
}

impl Manifest {
    /// Where a table's manifest is.
    pub(crate) fn path(table: u32) -> PathBuf {
        table_dir(table).join(MANIFEST_FILE)
    }

    /// Replaces the table's manifest. Whether its copy was replaced, too.
    ///
    /// # Errors
    /// [`EngineError::Io`]; the manifest before it stays.
    pub(crate) fn save(&self, disk: &dyn Disk) -> Result<bool> {
        replace_with_copy(disk, &Self::path(self.table), self.encode())
    }

    /// The file's bytes, without the checksum at their end.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::default();
        out.raw(MAGIC);
        out.u32(VERSION);
        out.u32(self.table);
        encode_schema(&mut out, &self.schema);
        out.u64(self.created_at);
        out.u64(self.truncated_at);
        out.u64(self.saved_at);
        out.len(self.symbol_counts.len());
        self.symbol_counts.iter().for_each(|count| out.u32(*count));
        out.len(self.parts.len());
        self.parts.iter().for_each(|chunk| chunk.encode(&mut out));
        out.len(self.imports.len());
        for import in &self.imports {
            encode_source(&mut out, &import.source);
            out.u64(import.rows);
            out.u64(import.position);
        }
        encode_history(&mut out, &self.history);
        encode_superseded(&mut out, &self.superseded);
        encode_emptied(&mut out, &self.emptied);
        self.staleness.encode(&mut out);
        out.finish()
    }

    /// Removes the manifest of a table that was dropped; on stable storage when this returns.
    ///
    /// # Errors
    /// [`EngineError::Io`]; it is to be tried again then.
    pub(crate) fn remove(disk: &dyn Disk, table: u32) -> Result<()> {
        let (path, dir) = (Self::path(table), table_dir(table));
        // A copy without its manifest would look like a manifest that was lost.
        let copy = copy_path(&path);
        if !disk.list(&dir).map_err(EngineError::io("list", &dir))?.is_empty() {
            disk.remove(&copy).map_err(EngineError::io("remove", &copy))?;
            sync_if_there(disk, &dir)?;
        }
        disk.remove(&path).map_err(EngineError::io("remove", &path))?;
        // Also where nothing was there to remove: an earlier try may have failed after it.
        sync_if_there(disk, &dir)
    }

    /// Reads a table's manifest; `None` where it has none (its CREATE is still in the tape, or it
    /// was dropped).
    ///
    /// # Errors
    /// [`EngineError::Io`], [`EngineError::Damaged`] or [`EngineError::NewerFormat`].
    pub(crate) fn load(disk: &dyn Disk, table: u32) -> Result<Option<Self>> {
        Self::load_from(disk, table, &Self::path(table))
    }

    /// Reads a table's manifest from any file, such as its copy.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub(crate) fn load_from(disk: &dyn Disk, table: u32, path: &Path) -> Result<Option<Self>> {
        let (version, bytes) = match read_checked(disk, path, MAGIC, VERSION) {
            Err(EngineError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                return Ok(None);
            }
            other => other?,
        };
        let manifest = Self::decode(&bytes, version).map_err(|what| EngineError::damaged(path, 0, what))?;
        if manifest.table != table {
            return Err(EngineError::damaged(path, 0, format!("it is that of table {}", manifest.table)));
        }
        Ok(Some(manifest))
    }

    fn decode(bytes: &[u8], version: u32) -> std::result::Result<Self, Malformed> {
        let mut input = Decoder::new(bytes);
        let table = input.u32()?;
        let schema = if version == 1 {
            decode_schema_without_properties(&mut input)?
        } else {
            decode_schema(&mut input)?
        };
        let (created_at, truncated_at, saved_at) = (input.u64()?, input.u64()?, input.u64()?);
        let symbol_counts =
            (0..input.count(4)?).map(|_| input.u32()).collect::<std::result::Result<_, _>>()?;
        let (parts, emptied) = decode_parts(&mut input, version)?;
        let mut manifest = Self {
            table,
            history: History::new(Arc::new(schema.clone())),
            superseded: Vec::new(),
            staleness: Staleness::default(),
            schema,
            created_at,
            truncated_at,
            saved_at,
            symbol_counts,
            parts,
            emptied,
            imports: (0..input.count(1)?)
                .map(|_| {
                    Ok(ImportRecord {
                        source: decode_source(&mut input)?,
                        rows: input.u64()?,
                        position: input.u64()?,
                    })
                })
                .collect::<std::result::Result<_, Malformed>>()?,
        };
        if version > 1 {
            manifest.history = decode_history(&mut input, &manifest.schema)?;
        }
        if version > 2 {
            manifest.superseded = decode_superseded(&mut input, &manifest.parts)?;
        }
        if version >= VERSION_CHUNKS {
            manifest.emptied = decode_emptied(&mut input)?;
        }
        if version >= VERSION_STALENESS {
            manifest.staleness = Staleness::decode(&mut input)?;
        }
        input.finish()?;
        manifest.check_parts()?;
        Ok(manifest)
    }

    /// Highest epoch of an opening that wrote one of the parts.
    pub(crate) fn newest_epoch(&self) -> Option<u64> {
        self.parts.iter().filter_map(PackedChunk::newest_epoch).max()
    }

    /// Every part was written with a schema that is there; chunks do not overlap.
    fn check_parts(&self) -> std::result::Result<(), Malformed> {
        let known = |version: u32| self.history.version(version).is_some();
        let versions = || self.history.versions.iter().map(|version| version.schema.version());
        // Where no version is left out, the oldest and the newest say it for all between.
        let gapless = versions().zip(versions().skip(1)).all(|(a, b)| a.checked_add(1) == Some(b));
        let all_known = |chunk: &PackedChunk| {
            known(chunk.summary.schema_version)
                && known(chunk.newest_version())
                && (gapless || chunk.entries().iter().all(|entry| known(entry.schema_version)))
        };
        if !self.parts.iter().all(all_known) {
            return Err("a part was written with a schema that is not there".to_string());
        }
        let total = |of: fn(&PackedChunk) -> u64| self.parts.iter().map(of).try_fold(0, u64::checked_add);
        if total(|chunk| chunk.summary.rows).and(total(|chunk| chunk.summary.disk_bytes)).is_none() {
            return Err("more rows or bytes than can be counted".to_string());
        }
        if self.parts.windows(2).all(|pair| pair[0].last_partition() < pair[1].summary.first) {
            Ok(())
        } else {
            Err("chunks of parts that do not follow each other".to_string())
        }
    }
}

/// Before [`VERSION_CHUNKS`] a list of entries, since version 2 each with the version of its schema, those
/// of emptied positions among them.
fn decode_parts(
    input: &mut Decoder<'_>,
    version: u32,
) -> std::result::Result<(Vec<PackedChunk>, Vec<PartEntry>), Malformed> {
    let count = input.count(1)?;
    // Whoever adds up rows and bytes of parts relies on this.
    let (mut rows, mut bytes) = (0_u64, 0_u64);
    let mut add = |more_rows: u64, more_bytes: u64| -> std::result::Result<(), Malformed> {
        rows = rows.checked_add(more_rows).ok_or("too many rows")?;
        bytes = bytes.checked_add(more_bytes).ok_or("too many bytes")?;
        Ok(())
    };
    if version >= VERSION_CHUNKS {
        let mut chunks = Vec::new();
        for _ in 0..count {
            let chunk = PackedChunk::decode(input)?;
            add(chunk.summary.rows, chunk.summary.disk_bytes)?;
            chunks.push(chunk);
        }
        return Ok((chunks, Vec::new()));
    }
    let (mut parts, mut emptied) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let part = decode_part(input)?;
        add(part.rows, part.file_bytes)?;
        let schema_version = if version == 1 { 0 } else { input.u32()? };
        if part.is_emptied() {
            emptied.push(PartEntry::emptied_of(part.partition, part.positions));
        } else {
            parts.push(PartEntry { schema_version, ..part });
        }
    }
    Ok((pack(parts), emptied))
}

/// Count of emptied positions; for each the start of the partition, and the first and last position.
fn encode_emptied(out: &mut Encoder, emptied: &[PartEntry]) {
    out.len(emptied.len());
    for entry in emptied {
        out.i64(entry.partition);
        out.u64(entry.positions.first);
        out.u64(entry.positions.last);
    }
}

fn decode_emptied(input: &mut Decoder<'_>) -> std::result::Result<Vec<PartEntry>, Malformed> {
    let mut emptied = Vec::new();
    for _ in 0..input.count(24)? {
        let partition = input.i64()?;
        let positions = PositionRange { first: input.u64()?, last: input.u64()? };
        emptied.push(PartEntry::emptied_of(partition, positions));
    }
    Ok(emptied)
}

/// Count of parts with superseded rows; for each its partition and file, and the rows as stretches: first row,
/// rows.
fn encode_superseded(out: &mut Encoder, superseded: &[SupersededRows]) {
    out.len(superseded.len());
    for of_part in superseded {
        out.i64(of_part.partition);
        out.text(&of_part.file);
        let stretches: Vec<&[u32]> = of_part.rows.chunk_by(|a, b| *b == a + 1).collect();
        out.len(stretches.len());
        for stretch in stretches {
            out.u32(stretch[0]);
            out.len(stretch.len());
        }
    }
}

fn decode_superseded(
    input: &mut Decoder<'_>,
    parts: &[PackedChunk],
) -> std::result::Result<Vec<SupersededRows>, Malformed> {
    let mut superseded = Vec::new();
    for _ in 0..input.count(16)? {
        let (partition, file) = (input.i64()?, input.text()?.to_string());
        let chunk = parts.partition_point(|chunk| chunk.summary.first <= partition).checked_sub(1);
        let mut entries = chunk.into_iter().flat_map(|chunk| parts[chunk].entries());
        let part = entries.find(|part| part.partition == partition && part.file == file);
        let most = part.ok_or("superseded rows of a part that is not there")?.rows;
        let mut rows: Vec<u32> = Vec::new();
        for _ in 0..input.count(8)? {
            let (first, count) = (input.u32()?, input.u32()?);
            let after = rows.last().is_none_or(|last| *last < first);
            let end = first.checked_add(count).filter(|end| after && u64::from(*end) <= most);
            rows.extend(first..end.ok_or("superseded rows that do not ascend, or past the part's end")?);
        }
        superseded.push(SupersededRows { partition, file, rows });
    }
    Ok(superseded)
}

/// The position since which rows have the current schema, the earlier versions, the retirements.
fn encode_history(out: &mut Encoder, history: &History) {
    let (current, earlier) = history.versions.split_last().expect("a history ends with the current schema");
    out.u64(current.since);
    out.len(earlier.len());
    for version in earlier {
        out.u64(version.since);
        encode_schema(out, &version.schema);
    }
    out.len(history.retirements.len());
    for gone in &history.retirements {
        out.u64(gone.position);
        encode_range(out, gone.range);
    }
}

fn decode_history(input: &mut Decoder<'_>, schema: &TableSchema) -> std::result::Result<History, Malformed> {
    let current = SchemaVersion { since: input.u64()?, schema: Arc::new(schema.clone()) };
    let mut versions = Vec::new();
    for _ in 0..input.count(8)? {
        versions.push(SchemaVersion { since: input.u64()?, schema: Arc::new(decode_schema(input)?) });
    }
    versions.push(current);
    let ascending = |pair: &[SchemaVersion]| {
        pair[0].since < pair[1].since && pair[0].schema.version() < pair[1].schema.version()
    };
    if !versions.windows(2).all(ascending) {
        return Err("schemas that do not follow each other".to_string());
    }
    let mut retirements = Vec::new();
    for _ in 0..input.count(24)? {
        retirements.push(Retirement { position: input.u64()?, range: decode_range(input)? });
    }
    Ok(History::of(versions, retirements))
}

#[cfg(test)]
mod tests;
