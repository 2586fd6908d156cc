//! Text and Arrow files as batches: what import reads them by, without a table.

use super::options::Options;
use crate::error::{QueryError, Result, type_name};
use crate::frame::engine_type;
use crate::import::{
    ArrowFile, BadRows, Compression, FileField, FileFields, FileFormat, ImportError, Reading, Shape,
    TextFile, detect,
};
use crate::paths::DataFile;
use crate::rules::approximate::common_of;
use arrow_cast::{CastOptions, cast_with_options};
use datafusion::arrow::array::{ArrayRef, RecordBatch, new_null_array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::DataFusionError;
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use std::path::{Path, PathBuf};
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
    /// For each column of text whether its type was inferred.
    inferred: Vec<bool>,
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
        let mut all = Self { format, files, options, schema, table: None, inferred: Vec::new(), bytes };
        match format {
            FileFormat::Csv | FileFormat::Ndjson => {
                // Files without rows say nothing of types, and empty ones nothing at all.
                let mut found: Option<FileFields> = None;
                for file in 0..all.files.len() {
                    let has_types =
                        |fields: &FileFields| fields.fields.iter().any(|field| field.inferred.seen);
                    if file >= looked_at && found.as_ref().is_some_and(has_types) {
                        break;
                    }
                    let Some(text) = all.text_or_empty(file)? else { continue };
                    match &mut found {
                        Some(fields) if all.options.union_by_name => merge(fields, text.fields()),
                        Some(fields) if has_types(fields) => break,
                        _ => found = Some(text.fields().clone()),
                    }
                }
                let Some(fields) = found else {
                    return Err(ImportError::Empty { path: all.files[0].0.clone() }.into());
                };
                let Shape { table, inferred, .. } = all.shape(0, &all.complete(fields), None)?;
                all.inferred = inferred;
                let marked = crate::designated::marked_schema(&table);
                // Unlike a table's, a file's rows need no time.
                let nullable = |field: &Arc<Field>| Field::clone(field).with_nullable(true);
                all.schema = Arc::new(Schema::new(marked.fields().iter().map(nullable).collect::<Vec<_>>()));
                all.table = Some(table);
            }
            FileFormat::Arrow | FileFormat::Parquet => {
                let mut fields: Vec<Field> = Vec::new();
                for file in 0..looked_at {
                    add_columns(&mut fields, all.arrow(file)?.schema(), &all.files[file].0)?;
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
        let Some(mut file) = self.text_or_empty(read.file)? else { return Ok(()) };
        let fields = self.complete(file.fields().clone());
        let mut shape = self.shape(read.file, &fields, self.table.as_deref())?;
        shape.inferred.clone_from(&self.inferred);
        self.refuse_missing(read.file, &shape)?;
        let mut reading = Reading::of(&self.options.text);
        // Which rows there are must not hang on the columns that are asked for: where bad ones are left out, all are read.
        let all: Vec<usize> = (0..shape.sources.len()).collect();
        let every = self.options.text.on_bad_row != BadRows::Fail;
        if read.columns.len() < all.len() {
            reading = reading.of_some_columns();
        }
        let plan = shape.plan_of(if every { &all } else { read.columns }, false);
        file.read(plan, &reading, &mut |parsed, _| {
            let mut columns = std::mem::take(&mut parsed.chunk.columns);
            if every {
                columns = read.columns.iter().map(|column| Arc::clone(&columns[*column])).collect();
            }
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
                Ok(place) => {
                    let (wanted, found) =
                        (self.schema.field(*column).data_type(), file.schema().field(place).data_type());
                    match holds(wanted, &engine_type(found)) {
                        true => Ok(Some(place)),
                        false => Err(ImportError::Paths(Box::new(narrower(path, name, wanted, found)))),
                    }
                }
                Err(_) if self.options.union_by_name => Ok(None),
                Err(_) => Err(ImportError::Missing { path: path.clone(), column: name.clone() }),
            }
        });
        let places = places.collect::<std::result::Result<Vec<_>, _>>()?;
        let damaged =
            |reason: String| ImportError::Undecodable { path: path.clone(), format: self.format, reason };
        for batch in file.batches() {
            let batch: RecordBatch = batch.map_err(|error| damaged(error.to_string()))?;
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

    /// `None` of a file without a byte among others.
    fn text_or_empty(&self, file: usize) -> std::result::Result<Option<TextFile>, ImportError> {
        match self.text(file) {
            Err(ImportError::Empty { .. }) if self.files.len() > 1 => Ok(None),
            opened => opened.map(Some),
        }
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
            ImportError::SameName { column, .. } => {
                format!("rename => {{'{column}': 'other'}} gives one of them another name")
            }
            ImportError::UnknownColumn { known, .. } => format!(
                "the first file's columns are {known}; union_by_name => true reads files of different columns together"
            ),
            ImportError::Missing { .. } => {
                "union_by_name => true reads files of different columns together".to_string()
            }
            _ => return told_of_options(error),
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

/// An error of import about an option of the call.
pub(super) fn told_of_options(error: ImportError) -> QueryError {
    let ImportError::NoSuchColumn { clause, column, known, path } = error else { return error.into() };
    let clause = clause.trim_start_matches('-');
    let what = format!("{clause} names column '{column}', which {} does not have", path.display());
    QueryError::request(what).hint(format!("its columns are {known}"))
}

/// Adds the columns of a file to those of others, of types that hold both.
pub(super) fn add_columns(all: &mut Vec<Field>, schema: &Schema, path: &Path) -> Result<()> {
    for (at, field) in schema.fields().iter().enumerate() {
        if schema.fields()[..at].iter().any(|before| before.name() == field.name()) {
            let what = format!("{} has two columns named '{}'", path.display(), field.name());
            return Err(QueryError::request(what).hint("write it anew with a name for each"));
        }
        let data_type = engine_type(field.data_type());
        let Some(known) = all.iter_mut().find(|known| known.name() == field.name()) else {
            all.push(Field::clone(field).with_data_type(data_type));
            continue;
        };
        if is_text(known.data_type()) && is_text(&data_type) {
            if data_type == DataType::Utf8 {
                *known = known.clone().with_data_type(data_type);
            }
        } else if *known.data_type() != data_type {
            let Some(both) = common_of(&[known.data_type().clone(), data_type.clone()]) else {
                return Err(narrower(path, field.name(), known.data_type(), &data_type));
            };
            *known = known.clone().with_data_type(engine_type(&both));
        }
    }
    Ok(())
}

/// Whether every value of one type is one of another.
pub(super) fn holds(wanted: &DataType, found: &DataType) -> bool {
    wanted == found
        || *found == DataType::Null
        || is_text(wanted) && is_text(found)
        || type_union_resolution(&[wanted.clone(), found.clone()])
            .is_some_and(|both| engine_type(&both) == *wanted)
}

/// Whether a column is of texts, as symbols or not: which, depends on what is in the file.
fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => **values == DataType::Utf8,
        other => *other == DataType::Utf8,
    }
}

/// That a file's column is of a type that the column does not hold.
pub(super) fn narrower(path: &Path, column: &str, wanted: &DataType, found: &DataType) -> QueryError {
    let (wanted, found) = (type_name(wanted), type_name(found));
    QueryError::request(format!(
        "column '{column}' of {} is {found}, and {wanted} in the files before",
        path.display()
    ))
    .hint(
        "union_by_name => true gives it a type that holds both, where there is one; or name the files apart",
    )
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
