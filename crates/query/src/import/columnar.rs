//! Parquet and Arrow IPC files into a load: batches decoded on a thread of their own, cast to the
//! table's types.

use super::claims::{MAGIC, check_file};
use super::int96::{PastTime, past_time};
use super::shape::{FileField, FileFields, Role, Shape, column_names};
use super::source::RawFile;
use super::{FileFormat, FileImport, ImportError, ImportRequest, Loaded, Result, append};
use crate::designated::{SERIES_KEY, TIMESTAMP_KEY};
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, DataType, Field, SchemaRef, TimeUnit};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::ParquetMetaDataReader;
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use tickstone_engine::BulkLoad;
use tickstone_model::ColumnType;
use tickstone_wire::infer::{ColumnSample, Inferred};
use tickstone_wire::{EpochUnit, Fault, TimeFormat};

/// Rows decoded at a time, fewer where the memory budget is small.
const BATCH_ROWS_MAX: usize = 32_768;
const BATCH_ROWS_MIN: usize = 1_024;
/// Batches decoded ahead.
const BATCHES_AHEAD: usize = 2;
/// Rows looked at for the cardinality of text.
const SAMPLE_ROWS: usize = 10_000;

pub(crate) type Batches = Box<dyn Iterator<Item = std::result::Result<RecordBatch, ArrowError>> + Send>;

/// An Arrow file, file or stream, opened.
pub(crate) struct ArrowFile {
    schema: SchemaRef,
    batches: Batches,
}

impl ArrowFile {
    /// Opens a file.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let (schema, batches) = open(path, FileFormat::Arrow, BATCH_ROWS_MAX)?;
        Ok(Self { schema, batches })
    }

    /// Its columns.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Its rows, once.
    pub(crate) fn batches(self) -> Batches {
        self.batches
    }
}

/// A columnar file, opened and sampled.
pub(crate) struct ColumnarFile {
    path: PathBuf,
    format: FileFormat,
    fields: FileFields,
    schema: SchemaRef,
    bytes: u64,
    hash: u64,
    /// Whether every column has a value among the rows that were looked at.
    shows_all: bool,
}

impl ColumnarFile {
    /// Opens a file and looks at its first batch, but where its columns are those of a `known` one.
    pub(crate) fn open(
        raw: RawFile,
        format: FileFormat,
        request: &ImportRequest,
        known: Option<&KnownColumns>,
    ) -> Result<Self> {
        let path = &raw.path().to_path_buf();
        let (bytes, hash) = (raw.bytes(), raw.hash_all()?);
        drop(raw);
        let (schema, mut batches) = open(path, format, SAMPLE_ROWS)?;
        refuse_past_times(path, format)?;
        if let Some(known) = known.filter(|known| known.schema == schema) {
            let (path, fields) = (path.to_path_buf(), known.fields.clone());
            return Ok(Self { path, format, fields, schema, bytes, hash, shows_all: true });
        }
        let first = batches.next().transpose().map_err(|error| undecodable(path, format, &error))?;
        let sources: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
        let names = column_names(&sources, request, path)?;
        let field = |(index, (field, name)): (usize, (&std::sync::Arc<Field>, String))| {
            file_field(field, name, first.as_ref().map(|batch| batch.column(index)), path)
        };
        let fields = schema.fields().iter().zip(names).enumerate().map(field).collect::<Result<Vec<_>>>()?;
        let fields = FileFields { fields, named: true };
        let shows_all = first.is_some_and(|batch| {
            batch.columns().iter().all(|column| column.logical_null_count() < batch.num_rows())
        });
        Ok(Self { path: path.to_path_buf(), format, fields, schema, bytes, hash, shows_all })
    }

    /// Its columns.
    pub(crate) fn fields(&self) -> &FileFields {
        &self.fields
    }

    /// What it is known by, for a file of the same columns: `None` where a column has no value, which says nothing of
    /// what its numbers count.
    pub(crate) fn known(&self) -> Option<KnownColumns> {
        let known = || KnownColumns { schema: SchemaRef::clone(&self.schema), fields: self.fields.clone() };
        self.shows_all.then(known)
    }

    /// Reads all of it into `load`.
    pub(crate) fn load(
        &mut self,
        import: &mut FileImport<'_, '_>,
        shape: &Shape,
        load: &mut BulkLoad,
    ) -> Result<Loaded> {
        // A row of doubles takes eight bytes a column; so does most else.
        let row_bytes = 16 * self.schema.fields().len().max(1);
        let rows = import.request().memory_budget_bytes / (row_bytes * 2 * (BATCHES_AHEAD + 2));
        let (_, batches) = open(&self.path, self.format, rows.clamp(BATCH_ROWS_MIN, BATCH_ROWS_MAX))?;
        let mut loaded =
            Loaded { rows: 0, bad_rows: 0, examples: Vec::new(), ignored: Vec::new(), hash: self.hash };
        let total_rows = row_count(&self.path, self.format);
        std::thread::scope(|scope| {
            let (sender, receiver) = sync_channel(BATCHES_AHEAD);
            scope.spawn(move || {
                for batch in batches {
                    if sender.send(batch).is_err() {
                        return;
                    }
                }
            });
            for batch in &receiver {
                let batch = batch.map_err(|error| undecodable(&self.path, self.format, &error))?;
                append(load, shape, self.cast(&batch, shape)?)?;
                loaded.rows += batch.num_rows() as u64;
                let share = total_rows.map_or(0.0, |total| loaded.rows as f64 / (total as f64).max(1.0));
                import.step((share * self.bytes as f64) as u64, self.bytes, loaded.rows)?;
            }
            Ok(loaded)
        })
    }

    fn cast(&self, batch: &RecordBatch, shape: &Shape) -> Result<Vec<ArrayRef>> {
        let columns = shape.table.columns().iter().enumerate();
        let cast = |(index, column): (usize, &tickstone_model::Column)| {
            let Some(source) = shape.sources[index] else {
                return Ok(new_null_array(&column.column_type.edge_type(), batch.num_rows()));
            };
            cast_column(batch.column(source), column.column_type, shape.times[index]).map_err(|error| {
                ImportError::Cast {
                    path: self.path.clone(),
                    column: column.name.clone(),
                    wanted: column.column_type,
                    reason: error.to_string(),
                }
            })
        };
        columns.map(cast).collect()
    }
}

/// The columns of a file, and what they were taken as.
#[derive(Debug, Clone)]
pub(crate) struct KnownColumns {
    schema: SchemaRef,
    fields: FileFields,
}

/// Opens the file's batches. An Arrow file that is no IPC file is read as an IPC stream.
fn open(path: &Path, format: FileFormat, rows: usize) -> Result<(SchemaRef, Batches)> {
    let mut file = RawFile::open(path)?.into_file();
    let failed = |error: ArrowError| undecodable(path, format, &error);
    if format == FileFormat::Parquet {
        let opened = caught(|| {
            let builder = ParquetRecordBatchReaderBuilder::try_new(file)?;
            let schema = std::sync::Arc::clone(builder.schema());
            Ok((schema, builder.with_batch_size(rows).build()?))
        });
        let (schema, reader) = opened.map_err(failed)?;
        return Ok((schema, Box::new(Caught(reader))));
    }
    let is_file = is_ipc_file(&mut file, path)?;
    check_file(&mut file, is_file).map_err(failed)?;
    if is_file {
        let reader = caught(|| FileReader::try_new_buffered(file, None)).map_err(failed)?;
        return Ok((reader.schema(), Box::new(Caught(reader))));
    }
    let reader = caught(|| StreamReader::try_new(BufReader::new(file), None)).map_err(failed)?;
    Ok((reader.schema(), Box::new(Caught(reader))))
}

/// What a reader of Arrow's or Parquet's gives; it checks less than it relies on, so that damaged bytes make it panic.
fn caught<T>(
    read: impl FnOnce() -> std::result::Result<T, ArrowError>,
) -> std::result::Result<T, ArrowError> {
    let damaged = |_| Err(ArrowError::ParseError("its types or lengths are none".to_string()));
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(damaged)
}

/// Batches of such a reader.
struct Caught<R>(R);

impl<R: Iterator<Item = std::result::Result<RecordBatch, ArrowError>>> Iterator for Caught<R> {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        caught(|| self.0.next().transpose()).transpose()
    }
}

fn undecodable(path: &Path, format: FileFormat, error: &dyn std::fmt::Display) -> ImportError {
    ImportError::Undecodable { path: path.to_path_buf(), format, reason: error.to_string() }
}

fn is_ipc_file(file: &mut File, path: &Path) -> Result<bool> {
    let failed = |source| ImportError::Read { path: path.to_path_buf(), source };
    let mut head = Vec::new();
    file.take(MAGIC.len() as u64).read_to_end(&mut head).map_err(failed)?;
    file.rewind().map_err(failed)?;
    Ok(head == MAGIC)
}

/// Refuses a file with times that no TIMESTAMP is, where its reader would make others of them.
fn refuse_past_times(path: &Path, format: FileFormat) -> Result<()> {
    if format != FileFormat::Parquet {
        return Ok(());
    }
    let file = RawFile::open(path)?.into_file();
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&file);
    let past = metadata.and_then(|metadata| past_time(&file, &metadata));
    match past.map_err(|error| undecodable(path, format, &error))? {
        None => Ok(()),
        Some(PastTime { column, what }) => {
            let (path, wanted) = (path.to_path_buf(), ColumnType::Timestamp);
            Err(ImportError::Cast { path, column, wanted, reason: what })
        }
    }
}

/// The file's rows, where its footer says.
fn row_count(path: &Path, format: FileFormat) -> Option<u64> {
    if format != FileFormat::Parquet {
        return None;
    }
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path).ok()?).ok()?;
    u64::try_from(builder.metadata().file_metadata().num_rows()).ok()
}

/// What a column seems to hold: its Arrow type, and for text and whole numbers what the values show.
fn file_field(field: &Field, name: String, values: Option<&ArrayRef>, path: &Path) -> Result<FileField> {
    let Some(mut column_type) = ColumnType::from_arrow(field.data_type()) else {
        return Err(ImportError::ColumnType {
            path: path.to_path_buf(),
            column: field.name().clone(),
            data_type: field.data_type().to_string(),
        });
    };
    let (mut time, mut mostly_time) = (TimeFormat::Iso, column_type == ColumnType::Timestamp);
    if let (ColumnType::Varchar | ColumnType::Int64 | ColumnType::UInt64, Some(values)) =
        (column_type, values)
    {
        let sample = sample(&name, values)?;
        let shown = sample.conclude();
        (time, mostly_time) = (sample.time_format(), shown.mostly_time);
        column_type = match (column_type, shown.column_type) {
            (ColumnType::Varchar, shown @ (ColumnType::Symbol | ColumnType::Timestamp)) => shown,
            (
                ColumnType::Int64 | ColumnType::UInt64,
                shown @ (ColumnType::Timestamp | ColumnType::Symbol),
            ) => shown,
            (own, _) => own,
        };
    }
    let role = match field.metadata() {
        marks if marks.contains_key(TIMESTAMP_KEY) => Role::Timestamp,
        marks => marks.get(SERIES_KEY).and_then(|at| at.parse().ok()).map_or(Role::Plain, Role::Series),
    };
    // The file states its types, also where it has no rows.
    let inferred = Inferred { column_type, time, seen: true, mostly_time, unread_date: None };
    Ok(FileField { name, source: field.name().clone(), inferred, time, role })
}

fn sample(name: &str, values: &ArrayRef) -> Result<ColumnSample> {
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(values, &options)?;
    let mut sample = ColumnSample::new(name);
    for row in (0..values.len().min(SAMPLE_ROWS)).filter(|row| values.is_valid(*row)) {
        sample.see(formatter.value(row).to_string().as_bytes());
    }
    Ok(sample)
}

/// Casts to the column's edge type; a value that does not fit is an error, never a NULL.
pub(crate) fn cast_column(
    array: &ArrayRef,
    wanted: ColumnType,
    time: TimeFormat,
) -> std::result::Result<ArrayRef, ArrowError> {
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let target = wanted.edge_type();
    let found = array.data_type();
    if *found == target {
        return Ok(std::sync::Arc::clone(array));
    }
    if let (ColumnType::Timestamp, Some(unit), true) = (wanted, time.unit(), found.is_integer()) {
        let counted = cast_with_options(array, &DataType::Timestamp(arrow_unit(unit), None), &strict)?;
        let nanos = cast_with_options(&counted, &target, &strict)?;
        return check_unit(nanos, unit, time);
    }
    let has_values = array.logical_null_count() < array.len();
    if wanted == ColumnType::Timestamp && found.is_integer() && has_values {
        let what =
            "its numbers have no unit that is known: --type COLUMN=TIMESTAMP_S, _MS, _US or _NS says it";
        return Err(ArrowError::CastError(what.to_string()));
    }
    match wanted {
        // Numbers and views of text take the way over plain text.
        ColumnType::Symbol if !matches!(found, DataType::Utf8 | DataType::Dictionary(..)) => {
            cast_with_options(&cast_with_options(array, &DataType::Utf8, &strict)?, &target, &strict)
        }
        ColumnType::Symbol => cast_with_options(array, &target, &strict),
        // Whole, or not at all: no fraction of a number, and no time of a day, is cut off.
        _ => crate::cast::cast(array, &target, wanted).map_err(ArrowError::CastError),
    }
}

/// Refuses times that the unit found for a column cannot be the unit of.
fn check_unit(
    nanos: ArrayRef,
    unit: EpochUnit,
    time: TimeFormat,
) -> std::result::Result<ArrayRef, ArrowError> {
    let values = nanos.as_primitive::<TimestampNanosecondType>();
    match values.iter().flatten().find(|value| !time.is_plausible(*value)) {
        None => Ok(nanos),
        Some(value) => {
            Err(ArrowError::CastError(format!("{} {}", value / unit.nanos(), Fault::OtherUnit { unit })))
        }
    }
}

fn arrow_unit(unit: EpochUnit) -> TimeUnit {
    match unit {
        EpochUnit::Second => TimeUnit::Second,
        EpochUnit::Millisecond => TimeUnit::Millisecond,
        EpochUnit::Microsecond => TimeUnit::Microsecond,
        EpochUnit::Nanosecond => TimeUnit::Nanosecond,
    }
}
