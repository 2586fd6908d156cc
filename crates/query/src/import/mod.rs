//! Files into tables: CSV, NDJSON (plain, gzip, zstd), Parquet and Arrow IPC.
//!
//! Owns the reading of files, the guess of a table's shape from a sample, and the report of what was
//! done; the parsing is `tickstone-wire`'s, the storing the engine's. One file is one atomic commit: it
//! is there whole or not at all. A table that was not there is made, and gone again when the import
//! fails. Memory is bounded by chunks and bounded channels, not by the file.
//!
//! ```text
//! file ─► source (hash, decompress) ─► whole records ─► parser threads ─► in order ─► BulkLoad ─► commit
//! ```
//!
//! Enter at [`import`].

mod bad_rows;
mod columnar;
mod encoding;
mod error;
mod pipeline;
mod report;
mod request;
mod shape;
mod source;
mod text;

pub use crate::paths::{Compression, FileFormat};
pub(crate) use columnar::ArrowFile;
pub use error::{ImportError, Result};
pub use report::{BadRowExample, ColumnReport, FileReport, ImportReport, Progress};
pub(crate) use request::detect;
pub use request::{BadRows, ImportRequest, parse_delimiter};
pub(crate) use shape::{FileField, FileFields, Shape};
pub(crate) use text::{Reading, TextFile};
pub use tickstone_wire::EpochUnit;

use crate::database::Database;
use crate::paths::{DataFile, KeyColumn, is_several, key_columns};
use bad_rows::BadRowCollector;
use shape::Keys;
use source::RawFile;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tickstone_engine::{BulkLoad, Engine, ImportRecord, ImportSource, LoadedFile};
use tickstone_model::TableSchema;

/// Imports the files of a request one after the other, and tells `progress` after each chunk. A file that is named by
/// itself is a commit of its own; all that a pattern or a folder stands for are one, without those that the table has.
///
/// # Errors
/// The first file that cannot be imported, with the reason: it left nothing behind, nor did those of its commit. What was
/// committed before it is imported.
pub fn import(
    database: &Database,
    request: &ImportRequest,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> Result<ImportReport> {
    let groups = groups(request)?;
    let files = groups.iter().map(|group| group.files.len()).sum();
    let mut collector = BadRowCollector::new(&request.on_bad_row);
    let mut import =
        Import { engine: database.engine(), request, progress, collector: &mut collector, file: 0, files };
    let mut report =
        ImportReport { table: request.table.clone(), created: false, files: Vec::new(), known: Vec::new() };
    for group in &groups {
        import.commit(group, &mut report)?;
    }
    collector.finish()?;
    Ok(report)
}

/// Files of one commit.
struct Group {
    files: Vec<DataFile>,
    /// The columns that all their paths give, with values for each file, and whether they were asked for.
    keys: Vec<KeyColumn>,
    keys_asked: bool,
    /// Whether a pattern or a folder stands for them.
    several: bool,
}

/// The commits of a request.
fn groups(request: &ImportRequest) -> Result<Vec<Group>> {
    let group = |path: &PathBuf| {
        let files = request.allowed.found(std::slice::from_ref(path))?;
        let several = is_several(path);
        let keys = match request.hive {
            Some(false) => Vec::new(),
            None if !several => Vec::new(),
            hive => key_columns(&files, hive.is_some())?,
        };
        Ok(Group { files, keys, keys_asked: request.hive.is_some(), several })
    };
    request.paths.iter().map(group).collect()
}

/// What is under way of an import.
pub(crate) struct Import<'a> {
    engine: &'a Engine,
    request: &'a ImportRequest,
    progress: &'a mut dyn FnMut(&Progress<'_>),
    collector: &'a mut BadRowCollector,
    /// Which file, of how many.
    file: usize,
    files: usize,
}

/// One file of an import.
pub(crate) struct FileImport<'a, 'b> {
    import: &'b mut Import<'a>,
    path: &'b Path,
}

/// What reading a file into a load gave.
pub(crate) struct Loaded {
    pub(crate) rows: u64,
    pub(crate) bad_rows: u64,
    pub(crate) examples: Vec<BadRowExample>,
    pub(crate) ignored: Vec<String>,
    /// xxh3 of the file's bytes.
    pub(crate) hash: u64,
}

/// A table and what is loaded into it, as one commit.
struct Filling<'a> {
    load: BulkLoad,
    created: Option<CreatedTable<'a>>,
    loaded: Vec<LoadedFile>,
}

impl<'a> Import<'a> {
    fn commit(&mut self, group: &Group, report: &mut ImportReport) -> Result<()> {
        let existing = self.existing_table();
        let imported = match (&existing, self.request.again) {
            (Some(table), false) => self.engine.imports(table.name())?,
            _ => Vec::new(),
        };
        let mut filling = None;
        for (index, file) in group.files.iter().enumerate() {
            let begun = Instant::now();
            let raw = RawFile::open(&file.path)?;
            if let Some(record) = imported_before(&imported, &raw)? {
                if !group.several || report.known.len() + 1 == group.files.len() {
                    return Err(ImportError::AlreadyImported {
                        path: file.path.clone(),
                        table: self.request.table.clone(),
                        earlier: record.source.name.clone(),
                        rows: record.rows,
                    });
                }
                report.known.push(file.path.clone());
                self.file += 1;
                continue;
            }
            let keys: Vec<(&KeyColumn, Option<&str>)> =
                group.keys.iter().map(|key| (key, key.values[index].as_deref())).collect();
            let keys = Keys { keys, asked: group.keys_asked };
            let mut done = self.read(raw, &file.path, &keys, existing.as_deref(), &mut filling)?;
            done.elapsed = begun.elapsed();
            report.files.push(done);
            self.file += 1;
        }
        let Some(Filling { load, created, loaded }) = filling else { return Ok(()) };
        let begun = Instant::now();
        load.commit_files(loaded)?;
        if let Some(last) = report.files.last_mut() {
            last.elapsed += begun.elapsed();
        }
        report.created |= created.is_some();
        if let Some(created) = created {
            created.keep();
        }
        Ok(())
    }

    /// Reads a file into what is filled, which the first begins.
    fn read(
        &mut self,
        raw: RawFile,
        path: &Path,
        keys: &Keys<'_>,
        existing: Option<&TableSchema>,
        filling: &mut Option<Filling<'a>>,
    ) -> Result<FileReport> {
        let (format, compression) = request::detect(path, self.request.format)?;
        let bytes = raw.bytes();
        let mut input = match format {
            FileFormat::Csv | FileFormat::Ndjson => {
                Input::Text(text::TextFile::open(raw, format, compression, self.request)?)
            }
            FileFormat::Parquet | FileFormat::Arrow => {
                Input::Columnar(columnar::ColumnarFile::open(raw, format, path)?)
            }
        };
        let fields = match &input {
            Input::Text(file) => file.fields(),
            Input::Columnar(file) => file.fields(),
        };
        let made = filling.as_ref().and(self.existing_table());
        let shape = Shape::with_keys(fields, keys, existing.or(made.as_deref()), self.request, path)?;
        let filling = match filling {
            Some(filling) => filling,
            None => {
                let created = match existing {
                    Some(_) => None,
                    None => Some(CreatedTable::create(self.engine, &shape.table)?),
                };
                let load = self.engine.load(shape.table.name())?;
                filling.insert(Filling { load, created, loaded: Vec::new() })
            }
        };
        let mut import = FileImport { import: self, path };
        let loaded = match &mut input {
            Input::Text(file) => file.load(&mut import, &shape, &mut filling.load)?,
            Input::Columnar(file) => file.load(&mut import, &shape, &mut filling.load)?,
        };
        let source = ImportSource { name: path.display().to_string(), bytes, hash: loaded.hash };
        filling.loaded.push(LoadedFile { source, rows: loaded.rows });
        let Loaded { rows, bad_rows, examples, ignored, .. } = loaded;
        Ok(FileReport {
            path: path.to_path_buf(),
            format,
            compression,
            rows,
            bytes,
            elapsed: Duration::ZERO,
            bad_rows,
            examples,
            ignored,
            columns: shape.columns_report(),
            timestamp: shape.timestamp_name(),
            series: shape.series_names(),
        })
    }

    fn existing_table(&self) -> Option<Arc<TableSchema>> {
        self.engine.snapshot().table(&self.request.table).map(|table| Arc::clone(table.schema()))
    }
}

/// Which import brought a file; it is hashed only where one of its size was imported before.
fn imported_before<'a>(imported: &'a [ImportRecord], raw: &RawFile) -> Result<Option<&'a ImportRecord>> {
    let alike = || imported.iter().filter(|record| record.source.bytes == raw.bytes());
    if alike().next().is_none() {
        return Ok(None);
    }
    let hash = raw.hash_all()?;
    Ok(alike().find(|record| record.source.hash == hash))
}

impl FileImport<'_, '_> {
    /// Tells how far the file is, and stops the import where the caller cancelled it.
    pub(crate) fn step(&mut self, bytes_read: u64, bytes_total: u64, rows: u64) -> Result<()> {
        let (path, file, files) = (self.path, self.import.file, self.import.files);
        (self.import.progress)(&Progress { path, file, files, bytes_read, bytes_total, rows });
        match &self.import.request.cancelled {
            Some(cancelled) if cancelled.load(Ordering::Relaxed) => Err(ImportError::Cancelled),
            _ => Ok(()),
        }
    }

    pub(crate) fn request(&self) -> &ImportRequest {
        self.import.request
    }

    /// Takes note of a bad row.
    pub(crate) fn collect(&mut self, header: &[u8], record: &[u8]) -> Result<()> {
        self.import.collector.collect(header, record)
    }
}

enum Input {
    Text(text::TextFile),
    Columnar(columnar::ColumnarFile),
}

/// Rows into a load, with what their file's path says of them.
pub(crate) fn append(load: &mut BulkLoad, shape: &Shape, columns: Vec<arrow_array::ArrayRef>) -> Result<()> {
    let columns = shape.with_constants(columns)?;
    let batch = arrow_array::RecordBatch::try_new(Arc::clone(shape.table.edge()), columns)?;
    load.append(&batch)?;
    Ok(())
}

/// A table made for an import, dropped again unless kept.
struct CreatedTable<'a> {
    engine: &'a Engine,
    name: Option<String>,
}

impl<'a> CreatedTable<'a> {
    fn create(engine: &'a Engine, table: &TableSchema) -> Result<Self> {
        engine.create_table(table.clone())?;
        Ok(Self { engine, name: Some(table.name().to_string()) })
    }

    fn keep(mut self) {
        self.name = None;
    }
}

impl Drop for CreatedTable<'_> {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            // The import's own error is on its way to the caller; an empty table is the worst that stays.
            let _ = self.engine.drop_table(&name);
        }
    }
}
