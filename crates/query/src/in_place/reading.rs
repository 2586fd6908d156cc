//! Text and Arrow files as batches: what import reads them by, without a table.

use super::options::Options;
use crate::error::{QueryError, Result};
use crate::frame::engine_type;
use crate::import::{
    ArrowFile, Compression, FileField, FileFields, FileFormat, ImportError, Reading, Shape, TextFile, detect,
};
use crate::paths::DataFile;
use arrow_cast::{CastOptions, cast_with_options};
use datafusion::arrow::array::{ArrayRef, RecordBatch, new_null_array};
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::DataFusionError;
use std::path::PathBuf;
use std::sync::Arc;
use tickstone_model::{ColumnType, TableSchema};

/// The files of a scan, and how each is read.
#[derive(Debug)]
pub(super) struct Files {
    format: FileFormat,
    files: Vec<(PathBuf, Compression)>,
    options: Options,
    /// Their columns in the types that rows have.
    schema: SchemaRef,
    /// Of text, what says so.
    table: Option<Arc<TableSchema>>,
    bytes: u64,
}

/// What is read of one file.
pub(super) struct ReadFile<'a> {
    /// Which one.
    pub(super) file: usize,
    /// Which of the files' columns, ascending or not.
    pub(super) columns: &'a [usize],
}

/// Takes the columns and how many rows they have; whether more are wanted.
pub(super) type Take<'a> = dyn FnMut(Vec<ArrayRef>, usize) -> datafusion::common::Result<bool> + 'a;

impl Files {
    /// Looks at the first file, or with `union_by_name` at all of them, for what columns there are.
    pub(super) fn open(files: &[DataFile], format: FileFormat, options: Options) -> Result<Self> {
        let packed = |file: &DataFile| {
            let (_, named) = detect(&file.path, Some(format))?;
            Ok((file.path.clone(), options.compression.unwrap_or(named)))
        };
        let files = files.iter().map(packed).collect::<std::result::Result<Vec<_>, ImportError>>()?;
        let bytes = files.iter().filter_map(|(path, _)| path.metadata().ok()).map(|about| about.len()).sum();
        let looked_at = if options.union_by_name { files.len() } else { 1 };
        let schema = Arc::new(Schema::empty());
        let mut all = Self { format, files, options, schema, table: None, bytes };
        match format {
            FileFormat::Csv | FileFormat::Ndjson => {
                let mut fields = all.text(0)?.fields().clone();
                for file in 1..looked_at {
                    merge(&mut fields, all.text(file)?.fields());
                }
                let table = all.shape(0, &all.complete(fields), None)?.table;
                all.schema = Arc::new(crate::designated::marked_schema(&table));
                all.table = Some(table);
            }
            FileFormat::Arrow | FileFormat::Parquet => {
                let mut fields: Vec<Field> = Vec::new();
                for file in 0..looked_at {
                    for field in all.arrow(file)?.schema().fields() {
                        if !fields.iter().any(|known| known.name() == field.name()) {
                            fields.push(Field::clone(field).with_data_type(engine_type(field.data_type())));
                        }
                    }
                }
                all.schema = Arc::new(Schema::new(fields));
            }
        }
        Ok(all)
    }

    /// The columns of the files.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Their format.
    pub(super) fn format(&self) -> FileFormat {
        self.format
    }

    /// How many files there are.
    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// How large they are together, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads one of them.
    ///
    /// # Errors
    /// Where it cannot be read, or has other columns, and those of `take`.
    pub(super) fn read(&self, read: &ReadFile<'_>, take: &mut Take<'_>) -> datafusion::common::Result<()> {
        let read = match self.table {
            Some(_) => self.read_text(read, take),
            None => self.read_arrow(read, take),
        };
        match read {
            // Nobody wanted more.
            Ok(()) | Err(ImportError::Cancelled) => Ok(()),
            Err(error) => Err(DataFusionError::External(Box::new(self.told(error)))),
        }
    }

    fn read_text(&self, read: &ReadFile<'_>, take: &mut Take<'_>) -> std::result::Result<(), ImportError> {
        let mut file = self.text(read.file)?;
        let fields = self.complete(file.fields().clone());
        let shape = self.shape(read.file, &fields, self.table.as_deref())?;
        self.refuse_missing(read.file, &shape)?;
        let reading = Reading::of(&self.options.text);
        let plan = shape.plan_of(read.columns, false);
        file.read(plan, &reading, &mut |parsed, _| {
            let columns = std::mem::take(&mut parsed.chunk.columns);
            let more = take(columns, parsed.chunk.rows).map_err(ImportError::Plan)?;
            if more { Ok(()) } else { Err(ImportError::Cancelled) }
        })
    }

    fn read_arrow(&self, read: &ReadFile<'_>, take: &mut Take<'_>) -> std::result::Result<(), ImportError> {
        let file = self.arrow(read.file)?;
        let path = &self.files[read.file].0;
        let places = read.columns.iter().map(|column| {
            let name = self.schema.field(*column).name();
            match file.schema().index_of(name) {
                Ok(place) => Ok(Some(place)),
                Err(_) if self.options.union_by_name => Ok(None),
                Err(_) => Err(ImportError::Missing { path: path.clone(), column: name.clone() }),
            }
        });
        let places = places.collect::<std::result::Result<Vec<_>, _>>()?;
        for batch in file.batches() {
            let batch: RecordBatch = batch.map_err(|error| ImportError::Undecodable {
                path: path.clone(),
                format: self.format,
                reason: error.to_string(),
            })?;
            let column = |(place, column): (&Option<usize>, &usize)| {
                let wanted = self.schema.field(*column).data_type();
                match place {
                    None => Ok(new_null_array(wanted, batch.num_rows())),
                    Some(place) => {
                        let options = CastOptions { safe: false, ..CastOptions::default() };
                        cast_with_options(batch.column(*place), wanted, &options).map_err(ImportError::from)
                    }
                }
            };
            let columns = places.iter().zip(read.columns).map(column);
            let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
            if !take(columns, batch.num_rows()).map_err(ImportError::Plan)? {
                return Ok(());
            }
        }
        Ok(())
    }

    fn text(&self, file: usize) -> std::result::Result<TextFile, ImportError> {
        let (path, compression) = &self.files[file];
        TextFile::open_at(path, self.format, *compression, &self.options.text)
    }

    fn arrow(&self, file: usize) -> std::result::Result<ArrowFile, ImportError> {
        ArrowFile::open(&self.files[file].0)
    }

    fn shape(
        &self,
        file: usize,
        fields: &FileFields,
        table: Option<&TableSchema>,
    ) -> std::result::Result<Shape, ImportError> {
        let mut request = self.options.text.clone();
        if table.is_none() {
            request.timestamp.clone_from(&self.options.timestamp);
            request.series = (!self.options.series.is_empty()).then(|| self.options.series.clone());
        } else {
            // Not every file has every column that is named.
            request
                .types
                .retain(|(name, _)| fields.fields.iter().any(|field| field.name.eq_ignore_ascii_case(name)));
        }
        Shape::of(fields, table, &request, &self.files[file].0)
    }

    /// The same fields, with a type for those that no row shows one of, and for all where that is asked for.
    fn complete(&self, mut fields: FileFields) -> FileFields {
        for field in &mut fields.fields {
            if !field.inferred.seen || self.options.all_varchar {
                field.inferred.column_type = ColumnType::Varchar;
                field.inferred.mostly_time = false;
            }
            field.inferred.seen = true;
        }
        fields
    }

    /// Refuses a file that lacks columns of the first, where all must have them.
    fn refuse_missing(&self, file: usize, shape: &Shape) -> std::result::Result<(), ImportError> {
        // Keys of JSON objects come and go.
        if self.options.union_by_name || self.format == FileFormat::Ndjson {
            return Ok(());
        }
        let missing = shape.sources.iter().position(Option::is_none);
        match missing.and_then(|column| shape.table.columns().get(column)) {
            None => Ok(()),
            Some(column) => {
                Err(ImportError::Missing { path: self.files[file].0.clone(), column: column.name.clone() })
            }
        }
    }

    /// An error of import in words of a query.
    fn told(&self, error: ImportError) -> QueryError {
        let hint = match &error {
            ImportError::BadRow { fits: Some((column, fits)), .. } => format!(
                "types => {{'{column}': '{fits}'}} gives the column a type that holds it; \
                 ignore_errors => true leaves such rows out"
            ),
            ImportError::BadRow { .. } => "ignore_errors => true leaves such rows out".to_string(),
            ImportError::UnknownColumn { known, .. } => format!(
                "the first file's columns are {known}; union_by_name => true reads files of different columns together"
            ),
            ImportError::Missing { .. } => {
                "union_by_name => true reads files of different columns together".to_string()
            }
            _ => return error.into(),
        };
        let message = match &error {
            ImportError::UnknownColumn { path, column, .. } => {
                format!("{} has a column '{column}' that the first file does not have", path.display())
            }
            other => other.to_string(),
        };
        QueryError::new(error.kind(), message).hint(hint)
    }
}

/// Has the fields of a file also those of another, of types that hold both.
fn merge(all: &mut FileFields, other: &FileFields) {
    for field in &other.fields {
        let known = all.fields.iter_mut().find(|known| known.name.eq_ignore_ascii_case(&field.name));
        let Some(known) = known else {
            all.fields.push(field.clone());
            continue;
        };
        if !field.inferred.seen {
            continue;
        }
        if known.inferred.seen {
            known.inferred.column_type = wider(known.inferred.column_type, field.inferred.column_type);
        } else {
            *known = FileField { name: known.name.clone(), ..field.clone() };
        }
    }
}

/// A type that holds the values of two that were inferred.
fn wider(one: ColumnType, other: ColumnType) -> ColumnType {
    let is_number = |of: ColumnType| matches!(of, ColumnType::Int64 | ColumnType::Float64);
    match (one, other) {
        (one, other) if one == other => one,
        (one, other) if is_number(one) && is_number(other) => ColumnType::Float64,
        _ => ColumnType::Varchar,
    }
}
