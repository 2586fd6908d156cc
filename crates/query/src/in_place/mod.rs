//! Files where they lie, as tables of one statement: `FROM 'data/*.parquet'`.
//!
//! Owns which columns files have together, those of their folders among them, and how each format is read: Parquet by
//! DataFusion's reader ([`parquet`]), text and Arrow as import reads them ([`reading`], [`exec`]). Columns have the types
//! that tables have: timestamps in nanoseconds, texts of few values as symbols, the designated timestamp marked.
//!
//! Files are opened when a statement is bound to them, and again when it runs; what was read of them to bind it is used
//! again as long as the files are the same.

mod exec;
mod folders;
mod options;
mod parquet;
mod reading;

use crate::dialect::FileCall;
use crate::error::{QueryError, Result};
use crate::frame::{designated, engine_type, marks};
use crate::import::{column_names, detect};
use crate::paths::{Allowed, DataFile, FileFormat};
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::projection::ProjectionExec;
use exec::FilesExec;
use folders::Folders;
use options::Options;
use parquet::{ParquetFile, ParquetScan, prunes};
use reading::Files;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;

/// About how many bytes of a text file are a row.
const ROW_BYTES: u64 = 50;

/// Files that are read as one table.
#[derive(Debug)]
pub(crate) struct FileTable {
    found: Vec<(DataFile, Option<Stamp>)>,
    /// The columns of the files, then those of their folders, under the names that statements have for them.
    schema: SchemaRef,
    file_schema: SchemaRef,
    folders: Folders,
    read: Read,
}

/// What a file was when it was looked at: its size in bytes, and when it was last written.
type Stamp = (u64, SystemTime);

#[derive(Debug)]
enum Read {
    /// The files, and their columns as they name them.
    Parquet(Vec<Arc<ParquetFile>>, SchemaRef),
    Other(Arc<Files>),
}

impl FileTable {
    /// Opens the files of a call; `known` is what it was before, which stays as long as its files do.
    ///
    /// # Errors
    /// Where no file is named, one may not be or cannot be read, or they do not go together.
    pub(crate) fn open(call: &FileCall, allowed: &Allowed, known: Option<&Arc<Self>>) -> Result<Arc<Self>> {
        let files = allowed.found(&call.patterns)?;
        if let Some(file) = files.iter().find(|file| file.path.metadata().is_ok_and(|about| !about.is_file()))
        {
            let what = format!("{} is no regular file", file.path.display());
            return Err(QueryError::request(what).hint("copy what comes through it to a file first"));
        }
        let stamps: Vec<Option<Stamp>> = files.iter().map(stamp).collect();
        if let Some(known) = known
            && stamps.iter().all(Option::is_some)
            && known.found.iter().map(|(file, stamp)| (file, stamp)).eq(files.iter().zip(&stamps))
        {
            return Ok(Arc::clone(known));
        }
        let format = format_of(&files, call.format)?;
        let options = Options::of(call, format)?;
        let (file_schema, read) = match format {
            FileFormat::Parquet => {
                let opened = files.iter().map(|file| Ok(Arc::new(ParquetFile::open(&file.path)?)));
                let opened = opened.collect::<Result<Vec<_>>>()?;
                let schema = parquet_schema(&opened, &files, &options)?;
                let named = marked(&renamed(&schema, &options, &files[0].path)?, &options, call)?;
                let own = with_names(&named, schema.fields().iter().map(|field| field.name()));
                (named, Read::Parquet(opened, own))
            }
            FileFormat::Arrow => {
                let read = Files::open(&files, format, options.clone())?;
                let named = renamed(read.schema(), &options, &files[0].path)?;
                (marked(&named, &options, call)?, Read::Other(Arc::new(read)))
            }
            FileFormat::Csv | FileFormat::Ndjson => {
                let read = Files::open(&files, format, options.clone())?;
                (Arc::clone(read.schema()), Read::Other(Arc::new(read)))
            }
        };
        let folders = Folders::of(&files, &file_schema, options.hive, options.filename)?;
        let of_folders = folders.schema();
        let fields = file_schema.fields().iter().chain(of_folders.fields()).cloned();
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let found = files.into_iter().zip(stamps).collect();
        Ok(Arc::new(Self { found, schema, file_schema, folders, read }))
    }

    /// Its columns as statements see them.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// About how many rows it has.
    pub(crate) fn rows(&self) -> u64 {
        match &self.read {
            Read::Parquet(files, _) => files.iter().map(|file| file.rows() as u64).sum(),
            Read::Other(files) => files.bytes() / ROW_BYTES,
        }
    }

    fn folders(&self) -> &Folders {
        &self.folders
    }

    /// The first of the columns that are not in the files.
    fn folders_from(&self) -> usize {
        self.file_schema.fields().len()
    }

    fn scan(
        self: &Arc<Self>,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> datafusion::common::Result<Arc<dyn ExecutionPlan>> {
        let chosen = self.folders.chosen(filters)?;
        if chosen.is_empty() {
            let projected = datafusion::common::project_schema(&self.schema, projection)?;
            return Ok(Arc::new(EmptyExec::new(projected)));
        }
        match &self.read {
            Read::Other(files) => Ok(Arc::new(FilesExec::new(self, files, chosen, projection, limit))),
            Read::Parquet(files, schema) => {
                let folders = self.folders.schema();
                let file = |file: usize| Ok((Arc::clone(&files[file]), self.folders.values(file)?));
                let files = chosen.into_iter().map(file).collect::<datafusion::common::Result<Vec<_>>>()?;
                let conditions = filters.iter().map(|filter| self.as_in_files(filter, schema));
                let conditions = &conditions.collect::<datafusion::common::Result<Vec<_>>>()?;
                let (folders, options) = (&folders, state.config_options());
                let scan = ParquetScan { files, schema, folders, projection, conditions, limit, options };
                self.as_named(scan.plan()?)
            }
        }
    }

    /// A condition on columns as files name them, which are those of `schema`.
    fn as_in_files(&self, condition: &Expr, schema: &SchemaRef) -> datafusion::common::Result<Expr> {
        let own = |expr: Expr| {
            let Expr::Column(mut column) = expr else { return Ok(Transformed::no(expr)) };
            if let Ok(place) = self.file_schema.index_of(&column.name) {
                column.name.clone_from(schema.field(place).name());
            }
            Ok(Transformed::yes(Expr::Column(column)))
        };
        condition.clone().transform(own).data()
    }

    /// What a scan yields under the names that statements have for the columns.
    fn as_named(&self, scan: Arc<dyn ExecutionPlan>) -> datafusion::common::Result<Arc<dyn ExecutionPlan>> {
        let Read::Parquet(_, own) = &self.read else { return Ok(scan) };
        let schema = scan.schema();
        let named = schema.fields().iter().enumerate().map(|(place, field)| {
            let column = Arc::new(Column::new(field.name(), place)) as Arc<dyn PhysicalExpr>;
            let name = match own.index_of(field.name()) {
                Ok(place) => self.file_schema.field(place).name(),
                Err(_) => field.name(),
            };
            (column, name.clone())
        });
        let named: Vec<_> = named.collect();
        if named.iter().zip(schema.fields()).all(|((_, name), field)| name == field.name()) {
            return Ok(scan);
        }
        Ok(Arc::new(ProjectionExec::try_new(named, scan)?))
    }
}

fn stamp(file: &DataFile) -> Option<Stamp> {
    let about = file.path.metadata().ok()?;
    Some((about.len(), about.modified().ok()?))
}

/// The one format of all files.
fn format_of(files: &[DataFile], given: Option<FileFormat>) -> Result<FileFormat> {
    let mut format = None;
    for file in files {
        let found = match detect(&file.path, given) {
            Ok((found, _)) => found,
            Err(error) => {
                let error = QueryError::new(error.kind(), error.to_string());
                return Err(
                    error.hint("read_csv('…'), read_parquet, read_json or read_arrow says what it is")
                );
            }
        };
        if let Some(format) = format.filter(|format| *format != found) {
            let (first, other) = (files[0].path.display(), file.path.display());
            return Err(QueryError::request(format!("{first} is a {format} file, and {other} is {found}"))
                .hint("name files of one format; UNION ALL puts two together"));
        }
        format = Some(found);
    }
    format.ok_or_else(|| QueryError::request("no file is named"))
}

/// The columns of Parquet files: the first one's, or with `union_by_name` those of all.
fn parquet_schema(opened: &[Arc<ParquetFile>], files: &[DataFile], options: &Options) -> Result<SchemaRef> {
    let mut fields: Vec<Field> = Vec::new();
    for (number, (file, named)) in opened.iter().zip(files).enumerate() {
        if number == 0 || options.union_by_name {
            reading::add_columns(&mut fields, file.schema(), &named.path)?;
            continue;
        }
        for field in &fields {
            let Ok(found) = file.schema().field_with_name(field.name()) else {
                let what = format!("{} has no column '{}'", named.path.display(), field.name());
                return Err(QueryError::request(what)
                    .hint("union_by_name => true reads files of different columns together"));
            };
            let (wanted, found) = (field.data_type(), engine_type(found.data_type()));
            if !reading::holds(wanted, &found) {
                return Err(reading::narrower(&named.path, field.name(), wanted, &found));
            }
        }
    }
    if options.union_by_name {
        fields.iter_mut().for_each(|field| *field = field.clone().with_nullable(true));
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// The same columns under the names that the options have for them.
fn renamed(schema: &SchemaRef, options: &Options, path: &Path) -> Result<SchemaRef> {
    let sources: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
    let names = column_names(&sources, &options.text, path).map_err(reading::told_of_options)?;
    let twice = (1..names.len()).find(|place| names[..*place].contains(&names[*place]));
    if let Some(place) = twice {
        let what = format!("{} would have two columns named '{}'", path.display(), names[place]);
        return Err(QueryError::request(what).hint("rename gives each column a name of its own"));
    }
    Ok(with_names(schema, names.iter()))
}

/// The same columns under other names.
fn with_names<'a>(schema: &SchemaRef, names: impl Iterator<Item = &'a String>) -> SchemaRef {
    let fields = schema.fields().iter().zip(names).map(|(field, name)| Field::clone(field).with_name(name));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The same columns, the designated timestamp and the series key marked.
fn marked(schema: &SchemaRef, options: &Options, call: &FileCall) -> Result<SchemaRef> {
    let name = call.to_string();
    let types: Vec<_> = schema.fields().iter().map(|field| field.data_type().clone()).collect();
    let timestamp = designated(&name, schema, &types, options.timestamp.as_deref())?;
    let marks = marks(&name, schema, timestamp, &options.series)?;
    let fields =
        schema.fields().iter().zip(marks).map(|(field, marks)| Field::clone(field).with_metadata(marks));
    Ok(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
}

/// Files as DataFusion looks them up.
#[derive(Debug)]
pub(crate) struct FileProvider(pub(crate) Arc<FileTable>);

impl TableProvider for FileProvider {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.0.schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> datafusion::common::Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| match &self.0.read {
            _ if self.0.folders.decide(filter) => TableProviderFilterPushDown::Exact,
            Read::Parquet(..) if prunes(filter, &self.0.file_schema) => TableProviderFilterPushDown::Inexact,
            _ => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(support).collect())
    }

    // Written without `async_trait`, which costs seconds of build time an implementation.
    fn scan<'life0, 'life1, 'life2, 'life3, 'async_trait>(
        &'life0 self,
        state: &'life1 dyn Session,
        projection: Option<&'life2 Vec<usize>>,
        filters: &'life3 [Expr],
        limit: Option<usize>,
    ) -> Pin<Box<dyn Future<Output = datafusion::common::Result<Arc<dyn ExecutionPlan>>> + Send + 'async_trait>>
    where
        Self: 'async_trait,
        'life0: 'async_trait,
        'life1: 'async_trait,
        'life2: 'async_trait,
        'life3: 'async_trait,
    {
        let scan = self.0.scan(state, projection, filters, limit);
        Box::pin(async move { scan })
    }
}
