//! Files into tables: CSV, NDJSON (plain, gzip, zstd), Parquet and Arrow IPC.
//!
//! Owns the reading of files, the guess of a table's shape from a sample, and the report of what was
//! done; the parsing is `tickstone-wire`'s, the storing the engine's. One file is one atomic commit: it
//! is there whole or not at all. A table that was not there is seen
//! once the import is whole. Memory is bounded by chunks and bounded channels, not by the file.
//!
//! ```text
//! file ─► source (hash, decompress) ─► whole records ─► parser threads ─► in order ─► BulkLoad ─► commit
//! ```
//!
//! Enter at [`import`].

mod ahead;
mod bad_rows;
pub mod claims;
mod columnar;
mod encoding;
mod error;
mod int96;
mod json_array;
mod pipeline;
mod report;
mod request;
mod shape;
mod source;
mod text;

pub use crate::paths::{Compression, FileFormat};
pub(crate) use columnar::ArrowFile;
pub use error::{ImportError, Result};
pub(crate) use int96::past_time;
pub use report::{BadRowExample, ColumnReport, FileReport, ImportReport, Progress};
pub(crate) use request::detect;
pub use request::{BadRows, ImportRequest, parse_delimiter};
pub(crate) use shape::{FileField, FileFields, Shape, column_names};
pub(crate) use text::{Reading, TextFile};
pub use tickstone_wire::EpochUnit;

use crate::aside::Aside;
use crate::database::Database;
use crate::paths::{DataFile, KeyColumn, key_columns};
use crate::{Access, QueryError, Reached};
use ahead::ahead;
use bad_rows::BadRowCollector;
use pipeline::Parsed;
use shape::Keys;
use source::RawFile;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tickstone_engine::{BulkLoad, Engine, ImportRecord, ImportSource, LoadedFile};
use tickstone_model::{ColumnType, Rights, TableSchema};
use tickstone_wire::{Plan, TimeFormat};
use xxhash_rust::xxh3::xxh3_64;

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
    if let BadRows::Collect(collect) = &request.on_bad_row {
        let real = |path: &Path| path.canonicalize().ok();
        let mut read = groups.iter().flat_map(|group| &group.files).map(|file| file.path.as_path());
        if let Some(path) =
            read.find(|path| *path == collect || real(path).is_some_and(|it| Some(it) == real(collect)))
        {
            let what = format!("bad rows would be written over {}, which is imported", path.display());
            return Err(QueryError::request(what).hint("name another file after collect=").into());
        }
    }
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
}

impl Group {
    /// What the keys of a file add to the hash that it is known by: files of the same bytes in other folders are others.
    fn hash_of_keys(&self, file: usize) -> u64 {
        let texts: Vec<String> =
            self.keys.iter().map(|key| format!("{}={:?}", key.name, key.values[file])).collect();
        if texts.is_empty() { 0 } else { xxh3_64(texts.join("/").as_bytes()) }
    }
}

/// The commits of a request.
fn groups(request: &ImportRequest) -> Result<Vec<Group>> {
    let group = |path: &PathBuf| {
        let files = request.allowed.found(std::slice::from_ref(path))?;
        let keys = match request.hive {
            Some(false) => Vec::new(),
            None if !request.allowed.is_several(path)? => Vec::new(),
            hive => key_columns(&files, hive.is_some())?,
        };
        Ok(Group { files, keys, keys_asked: request.hive.is_some() })
    };
    request.paths.iter().map(group).collect()
}

/// A file of at most so many bytes is parsed as a whole, on one thread beside others.
const SMALL_BYTES: u64 = 4 << 20;

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
struct Filling {
    load: BulkLoad,
    /// The table, where it is made for this import.
    created: Option<Created>,
    loaded: Vec<LoadedFile>,
    /// Which types the first file has shown, and how it writes times: they hold for all.
    first: FirstShape,
}

/// What the first file of a commit says of the values of those after it.
struct FirstShape {
    path: PathBuf,
    inferred: Vec<bool>,
    times: Vec<TimeFormat>,
}

/// A table that is not in its place before the import is whole.
struct Created {
    aside: Arc<Aside>,
    schema: Arc<TableSchema>,
}

/// A file that is open and, where it is small and begins as the first of its commit, parsed.
struct Ready {
    format: FileFormat,
    compression: Compression,
    bytes: u64,
    input: Input,
    parsed: Option<Vec<Parsed>>,
}

/// What the first file of a commit says of those after it.
struct First {
    text: Option<text::KnownText>,
    columns: Option<columnar::KnownColumns>,
    plan: Arc<Plan>,
}

/// A file that is made ready, or why it is not.
enum Opened {
    Ready(Box<Ready>),
    /// The table has it.
    Known(ImportRecord),
}

/// Opens a file, and reads it where `first` says how and it is small.
fn open_file(
    path: &Path,
    request: &ImportRequest,
    imported: &[ImportRecord],
    of_keys: u64,
    first: Option<&First>,
) -> Result<Opened> {
    let raw = RawFile::open(path)?;
    if let Some(record) = imported_before(imported, &raw, of_keys)? {
        return Ok(Opened::Known(record.clone()));
    }
    let (format, compression) = request::detect(path, request.format)?;
    let bytes = raw.bytes();
    let mut parsed = None;
    let input = match format {
        FileFormat::Csv | FileFormat::Ndjson => {
            let known = first.and_then(|first| first.text.as_ref());
            let mut file = text::TextFile::open(raw, format, compression, request, known)?;
            if let (Some(first), true) = (first, file.begins_as(known) && bytes <= SMALL_BYTES) {
                parsed = Some(file.parsed(&first.plan, &Reading::of(request))?);
            }
            Input::Text(file)
        }
        FileFormat::Parquet | FileFormat::Arrow => {
            let known = first.and_then(|first| first.columns.as_ref());
            Input::Columnar(columnar::ColumnarFile::open(raw, format, request, known)?)
        }
    };
    Ok(Opened::Ready(Box::new(Ready { format, compression, bytes, input, parsed })))
}

impl<'a> Import<'a> {
    fn commit(&mut self, group: &Group, report: &mut ImportReport) -> Result<()> {
        let existing = self.existing_table()?;
        let imported = match (&existing, self.request.again) {
            (Some(table), false) => self.engine.imports(table.schema.name())?,
            _ => Vec::new(),
        };
        let (request, mut filling, mut known) = (self.request, None, Vec::new());
        let mut first = None;
        let mut done = 0;
        // The first that the table has not says how the others are read.
        while done < group.files.len() && first.is_none() {
            let opened =
                open_file(&group.files[done].path, request, &imported, group.hash_of_keys(done), None)?;
            first = self.take(group, done, opened, existing.as_ref(), &mut filling, (report, &mut known))?;
            done += 1;
        }
        let rest = group.files.len() - done;
        let make = |number: usize| {
            let (path, of_keys) = (&group.files[done + number].path, group.hash_of_keys(done + number));
            open_file(path, request, &imported, of_keys, first.as_ref())
        };
        let threads = if rest > 1 { Reading::of(request).threads() } else { 1 };
        ahead(rest, threads, &make, &mut |number, opened| {
            let at = done + number;
            self.take(group, at, opened?, existing.as_ref(), &mut filling, (report, &mut known)).map(|_| ())
        })?;
        report.known.extend(known.into_iter().map(|(path, _)| path));
        let Some(Filling { load, created, loaded, .. }) = filling else { return Ok(()) };
        let begun = Instant::now();
        match (&request.access, &existing) {
            (Some(access), Some(table)) => access.still_may(Rights::INSERT, table)?,
            (Some(access), None) if request.aside.is_none() => access.may_make(&request.table)?,
            _ => {}
        }
        load.commit_files(loaded)?;
        if let (Some(created), None) = (&created, &request.aside) {
            created.aside.take_name(&request.table)?;
        }
        if let Some(last) = report.files.last_mut() {
            last.elapsed += begun.elapsed();
        }
        report.created |= created.is_some();
        Ok(())
    }

    /// Puts a file into what is filled; what it says of those after it, where it was filled.
    fn take(
        &mut self,
        group: &Group,
        index: usize,
        opened: Opened,
        existing: Option<&Reached>,
        filling: &mut Option<Filling>,
        (report, known): (&mut ImportReport, &mut Vec<(PathBuf, ImportRecord)>),
    ) -> Result<Option<First>> {
        let (begun, path) = (Instant::now(), &group.files[index].path);
        let first = match opened {
            Opened::Known(record) => {
                // One that was named by itself, or all that were named.
                if known.len() + 1 == group.files.len() {
                    return Err(ImportError::AlreadyImported {
                        path: path.clone(),
                        table: existing
                            .map_or(&self.request.table[..], |table| table.schema.name())
                            .to_string(),
                        earlier: record.source.name,
                        rows: record.rows,
                    });
                }
                known.push((path.clone(), record));
                None
            }
            Opened::Ready(ready) => {
                let keys = group.keys.iter().map(|key| (key, key.values[index].as_deref())).collect();
                let keys = Keys { keys, asked: group.keys_asked };
                let of_keys = group.hash_of_keys(index);
                let (mut done, first) = self.fill(*ready, path, &keys, of_keys, existing, filling)?;
                done.elapsed = begun.elapsed();
                report.files.push(done);
                Some(first)
            }
        };
        self.file += 1;
        Ok(first)
    }

    /// Reads a file into what is filled, which the first begins.
    fn fill(
        &mut self,
        ready: Ready,
        path: &Path,
        keys: &Keys<'_>,
        of_keys: u64,
        existing: Option<&Reached>,
        filling: &mut Option<Filling>,
    ) -> Result<(FileReport, First)> {
        let Ready { format, compression, bytes, mut input, parsed } = ready;
        let fields = match &input {
            Input::Text(file) => file.fields(),
            Input::Columnar(file) => file.fields(),
        };
        let created = filling.as_ref().and_then(|filling| filling.created.as_ref());
        let made = created.map(|created| Arc::clone(&created.schema));
        let known = existing.map(|table| &*table.schema).or(made.as_deref());
        let mut shape = Shape::with_keys(fields, keys, known, self.request, path)?;
        if let Some(filling) = filling.as_ref() {
            filling.first.hold_for(&mut shape, path)?;
        }
        let filling = match filling {
            Some(filling) => filling,
            None => {
                let created = match existing {
                    Some(_) => None,
                    None => Some(self.create(&shape.table)?),
                };
                let load = match (existing, &created) {
                    (Some(table), _) => self.engine.load_into(table.id, table.schema.name())?,
                    (None, Some(created)) => self.engine.load(created.aside.name())?,
                    (None, None) => self.engine.load(shape.table.name())?,
                };
                let (inferred, times) = (shape.inferred.clone(), shape.times.clone());
                let first = FirstShape { path: path.to_path_buf(), inferred, times };
                filling.insert(Filling { load, created, loaded: Vec::new(), first })
            }
        };
        let mut import = FileImport { import: self, path };
        let loaded = match &mut input {
            Input::Text(file) => file.load(&mut import, &shape, &mut filling.load, parsed)?,
            Input::Columnar(file) => file.load(&mut import, &shape, &mut filling.load)?,
        };
        let first = match &input {
            Input::Text(file) => First { text: file.known(), columns: None, plan: Arc::new(shape.plan()) },
            Input::Columnar(file) => {
                First { text: None, columns: file.known(), plan: Arc::new(shape.plan()) }
            }
        };
        let source = ImportSource { name: path.display().to_string(), bytes, hash: loaded.hash ^ of_keys };
        filling.loaded.push(LoadedFile { source, rows: loaded.rows });
        let Loaded { rows, bad_rows, examples, ignored, .. } = loaded;
        let report = FileReport {
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
        };
        Ok((report, first))
    }

    /// Makes the table aside that the rows go into.
    fn create(&self, schema: &TableSchema) -> Result<Created> {
        let aside = match &self.request.aside {
            Some(aside) => Arc::clone(aside),
            None => Arc::new(self.engine.aside()?),
        };
        let schema = schema.owned_by(self.request.access.as_ref().and_then(Access::owner));
        aside.create(&schema)?;
        Ok(Created { aside, schema: Arc::new(schema) })
    }

    fn existing_table(&self) -> Result<Option<Reached>> {
        let access = self.request.access.as_ref().filter(|_| self.request.aside.is_none());
        if let Some(access) = access {
            return Ok(access.table(Rights::INSERT, &self.request.table)?);
        }
        let found = self.engine.snapshot().table(&self.request.table).map(Arc::clone);
        Ok(found.map(|table| Reached { id: table.id(), schema: Arc::clone(table.schema()) }))
    }
}

impl FirstShape {
    /// Has the types of the first file hold for another, or says where that counts its times in another unit: what would be
    /// one column of them is told apart by nobody.
    fn hold_for(&self, shape: &mut Shape, path: &Path) -> Result<()> {
        shape.inferred.clone_from(&self.inferred);
        for ((column, first), found) in shape.table.columns().iter().zip(&self.times).zip(&shape.times) {
            if let (TimeFormat::GuessedEpoch(first), TimeFormat::GuessedEpoch(found)) = (first, found)
                && first != found
                && column.column_type == ColumnType::Timestamp
            {
                return Err(ImportError::OtherUnit {
                    path: path.to_path_buf(),
                    column: column.name.clone(),
                    unit: *found,
                    first: self.path.clone(),
                    first_unit: *first,
                });
            }
        }
        Ok(())
    }
}

/// Which import brought a file; it is hashed only where one of its size was imported before.
fn imported_before<'a>(
    imported: &'a [ImportRecord],
    raw: &RawFile,
    of_keys: u64,
) -> Result<Option<&'a ImportRecord>> {
    let alike = || imported.iter().filter(|record| record.source.bytes == raw.bytes());
    if alike().next().is_none() {
        return Ok(None);
    }
    let hash = raw.hash_all()? ^ of_keys;
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
