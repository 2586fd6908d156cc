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

pub use error::{ImportError, Result};
pub use report::{BadRowExample, ColumnReport, FileReport, ImportReport, Progress};
pub use request::{BadRows, Compression, FileFormat, ImportRequest, parse_delimiter};
pub use tickstone_wire::EpochUnit;

use crate::database::Database;
use bad_rows::BadRowCollector;
use shape::Shape;
use source::RawFile;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tickstone_engine::{BulkLoad, Engine, ImportSource};
use tickstone_model::TableSchema;

/// Imports the files of a request one after the other, each in a commit of its own, and tells
/// `progress` after each chunk.
///
/// # Errors
/// The first file that cannot be imported, with the reason: it left nothing behind. The files before
/// it are imported.
pub fn import(
    database: &Database,
    request: &ImportRequest,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> Result<ImportReport> {
    let mut report = ImportReport { table: request.table.clone(), created: false, files: Vec::new() };
    let mut collector = BadRowCollector::new(&request.on_bad_row);
    for (index, path) in request.paths.iter().enumerate() {
        let mut file = FileImport { engine: database.engine(), request, path, index, progress };
        let (done, created) = file.run(&mut collector)?;
        report.created |= created;
        report.files.push(done);
    }
    collector.finish()?;
    Ok(report)
}

/// The import of one file.
pub(crate) struct FileImport<'a> {
    engine: &'a Engine,
    request: &'a ImportRequest,
    path: &'a Path,
    index: usize,
    progress: &'a mut dyn FnMut(&Progress<'_>),
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

impl FileImport<'_> {
    fn run(&mut self, collector: &mut BadRowCollector) -> Result<(FileReport, bool)> {
        let start = Instant::now();
        let (format, compression) = request::detect(self.path, self.request.format)?;
        let raw = RawFile::open(self.path)?;
        let existing = self.existing_table();
        if let (Some(table), false) = (&existing, self.request.again) {
            self.refuse_again(table, &raw)?;
        }
        let bytes = raw.bytes();
        let mut input = match format {
            FileFormat::Csv | FileFormat::Ndjson => {
                Input::Text(text::TextFile::open(raw, format, compression, self.request)?)
            }
            FileFormat::Parquet | FileFormat::Arrow => {
                Input::Columnar(columnar::ColumnarFile::open(raw, format, self.path)?)
            }
        };
        let fields = match &input {
            Input::Text(file) => file.fields(),
            Input::Columnar(file) => file.fields(),
        };
        let shape = Shape::of(fields, existing.as_deref(), self.request, self.path)?;
        let created = existing.is_none();
        let guard = created.then(|| CreatedTable::create(self.engine, &shape.table)).transpose()?;
        let mut load = self.engine.load(shape.table.name())?;
        let loaded = match &mut input {
            Input::Text(file) => file.load(self, &shape, &mut load, collector)?,
            Input::Columnar(file) => file.load(self, &shape, &mut load)?,
        };
        let name = self.path.display().to_string();
        load.commit(Some(ImportSource { name, bytes, hash: loaded.hash }))?;
        if let Some(guard) = guard {
            guard.keep();
        }
        let Loaded { rows, bad_rows, examples, ignored, .. } = loaded;
        let report = FileReport {
            path: self.path.to_path_buf(),
            format,
            compression,
            rows,
            bytes,
            elapsed: start.elapsed(),
            bad_rows,
            examples,
            ignored,
            columns: shape.columns_report(),
            timestamp: shape.timestamp_name(),
            series: shape.series_names(),
        };
        Ok((report, created))
    }

    fn existing_table(&self) -> Option<Arc<TableSchema>> {
        self.engine.snapshot().table(&self.request.table).map(|table| Arc::clone(table.schema()))
    }

    /// Hashes the file only where one of its size was imported before.
    fn refuse_again(&self, table: &TableSchema, raw: &RawFile) -> Result<()> {
        let imports = self.engine.imports(table.name())?;
        let alike: Vec<_> = imports.into_iter().filter(|record| record.source.bytes == raw.bytes()).collect();
        if alike.is_empty() {
            return Ok(());
        }
        let hash = raw.hash_all()?;
        match alike.into_iter().find(|record| record.source.hash == hash) {
            None => Ok(()),
            Some(record) => Err(ImportError::AlreadyImported {
                path: self.path.to_path_buf(),
                table: table.name().to_string(),
                earlier: record.source.name,
                rows: record.rows,
            }),
        }
    }

    /// Tells how far the file is, and stops the import where the caller cancelled it.
    pub(crate) fn step(&mut self, bytes_read: u64, bytes_total: u64, rows: u64) -> Result<()> {
        let files = self.request.paths.len();
        let (path, file) = (self.path, self.index);
        (self.progress)(&Progress { path, file, files, bytes_read, bytes_total, rows });
        match &self.request.cancelled {
            Some(cancelled) if cancelled.load(Ordering::Relaxed) => Err(ImportError::Cancelled),
            _ => Ok(()),
        }
    }

    pub(crate) fn request(&self) -> &ImportRequest {
        self.request
    }

    pub(crate) fn path(&self) -> &Path {
        self.path
    }
}

enum Input {
    Text(text::TextFile),
    Columnar(columnar::ColumnarFile),
}

/// Rows into a load, counted.
pub(crate) fn append(load: &mut BulkLoad, shape: &Shape, columns: Vec<arrow_array::ArrayRef>) -> Result<()> {
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
