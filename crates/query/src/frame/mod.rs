//! Frames: tables in memory that one session sees beside those of the database.
//!
//! Owns how batches from outside become a table that plans as one of ours: timestamps in nanoseconds,
//! symbols as `Dictionary(UInt32, Utf8)`, the designated timestamp marked, rows in order of time where
//! an operator asks for that. The batches are not copied but for what had to be converted.
//!
//! Flow: [`Frame`] (batches) -> [`FrameTable`] (a provider of one statement) -> [`exec::FrameExec`].

mod exec;

use crate::designated::{SERIES_KEY, TIMESTAMP_KEY, TIMESTAMP_VALUE};
use crate::error::{QueryError, Result};
use arrow_cast::{CastOptions, cast_with_options};
use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::{SortOptions, concat_batches, take_record_batch};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::catalog::{Session, TableProvider};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use exec::FrameExec;
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

/// Names a timestamp column is taken as the designated one by, where there are several.
const TIME_NAMES: [&str; 3] = ["ts", "timestamp", "time"];

/// A table in memory. It never changes.
#[derive(Debug)]
pub struct Frame {
    name: String,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    rows: usize,
    /// Index of the designated timestamp.
    timestamp: Option<usize>,
    /// Whether the rows come by time.
    is_time_ordered: bool,
    /// Where they do not: the rows by time, equal times in the order they came.
    sorted: OnceLock<RecordBatch>,
}

impl Frame {
    /// A frame of these batches, each of `schema`.
    ///
    /// `timestamp` names the designated timestamp; without, it is the only timestamp column, or of
    /// several the one named ts, timestamp or time. `series` names the columns of the series key.
    ///
    /// # Errors
    /// Where a named column is not there, or no timestamp; where a value cannot be converted, with the
    /// column.
    pub fn new(
        name: impl Into<String>,
        schema: &SchemaRef,
        batches: Vec<RecordBatch>,
        timestamp: Option<&str>,
        series: &[String],
    ) -> Result<Self> {
        let name = name.into();
        let types: Vec<DataType> =
            schema.fields().iter().map(|field| engine_type(field.data_type())).collect();
        let timestamp = designated(&name, schema, &types, timestamp)?;
        let marks = marks(&name, schema, timestamp, series)?;
        let has_null = |column: usize| batches.iter().any(|batch| batch.column(column).null_count() > 0);
        let fields = schema.fields().iter().zip(&types).zip(marks).enumerate();
        let fields = fields.map(|(column, ((field, data_type), marks))| {
            // A time that is never NULL is in order whichever side NULLs would go to.
            let nullable = timestamp != Some(column) || has_null(column);
            Field::new(field.name(), data_type.clone(), nullable).with_metadata(marks)
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let batches =
            batches.iter().filter(|batch| batch.num_rows() > 0).map(|batch| convert(batch, &schema));
        let batches = batches.collect::<Result<Vec<_>>>()?;
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        let is_time_ordered = timestamp.is_some_and(|column| exec::is_ordered(&batches, column));
        Ok(Self { name, schema, batches, rows, timestamp, is_time_ordered, sorted: OnceLock::new() })
    }

    /// Its name in statements.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its columns as statements see them, the designated timestamp and the series key marked.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The batches by time. Sorted once, when first asked for.
    fn by_time(&self) -> datafusion::common::Result<&[RecordBatch]> {
        if self.is_time_ordered {
            return Ok(&self.batches);
        }
        if let Some(sorted) = self.sorted.get() {
            return Ok(std::slice::from_ref(sorted));
        }
        let sorted = self.sort()?;
        Ok(std::slice::from_ref(self.sorted.get_or_init(|| sorted)))
    }

    fn sort(&self) -> datafusion::common::Result<RecordBatch> {
        let all = concat_batches(&self.schema, &self.batches)?;
        match self.timestamp {
            Some(timestamp) => Ok(take_record_batch(&all, &exec::stable_order(all.column(timestamp)))?),
            None => Ok(all),
        }
    }
}

/// The type that statements see for a type from outside.
pub(crate) fn engine_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Timestamp(_, _) => DataType::Timestamp(TimeUnit::Nanosecond, None),
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Nanosecond),
        DataType::Dictionary(_, values) if is_text(values) => {
            DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Utf8))
        }
        DataType::Dictionary(_, values) => engine_type(values),
        DataType::RunEndEncoded(_, values) => engine_type(values.data_type()),
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        DataType::BinaryView | DataType::LargeBinary => DataType::Binary,
        DataType::Float16 => DataType::Float32,
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        other => other.clone(),
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn is_timestamp(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(_, _))
}

fn find(name: &str, schema: &Schema, column: &str) -> Result<usize> {
    let fields = schema.fields();
    let exact = fields.iter().position(|field| field.name() == column);
    exact.or_else(|| fields.iter().position(|field| field.name().eq_ignore_ascii_case(column))).ok_or_else(
        || {
            let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
            QueryError::request(format!("'{name}' has no column '{column}'"))
                .hint(format!("its columns are {}", names.join(", ")))
        },
    )
}

/// The designated timestamp: the one named, the only one there is, or the likeliest name.
pub(crate) fn designated(
    name: &str,
    schema: &Schema,
    types: &[DataType],
    given: Option<&str>,
) -> Result<Option<usize>> {
    if let Some(column) = given {
        let index = find(name, schema, column)?;
        if !is_timestamp(&types[index]) {
            let found = schema.field(index).data_type();
            let message = format!("column '{column}' of '{name}' is {found}, no timestamp");
            return Err(QueryError::request(message).hint("convert it to a timestamp first"));
        }
        return Ok(Some(index));
    }
    let marked = schema.fields().iter().position(|field| field.metadata().contains_key(TIMESTAMP_KEY));
    let candidates: Vec<usize> = (0..types.len()).filter(|index| is_timestamp(&types[*index])).collect();
    Ok(match (marked.filter(|index| candidates.contains(index)), candidates.as_slice()) {
        (Some(marked), _) => Some(marked),
        (None, [only]) => Some(*only),
        (None, several) => TIME_NAMES.iter().find_map(|time| {
            several.iter().copied().find(|index| schema.field(*index).name().eq_ignore_ascii_case(time))
        }),
    })
}

/// The metadata of each column.
pub(crate) fn marks(
    name: &str,
    schema: &Schema,
    timestamp: Option<usize>,
    series: &[String],
) -> Result<Vec<HashMap<String, String>>> {
    let mut marks = vec![HashMap::new(); schema.fields().len()];
    if let Some(index) = timestamp {
        marks[index].insert(TIMESTAMP_KEY.to_string(), TIMESTAMP_VALUE.to_string());
    }
    for (ordinal, column) in series.iter().enumerate() {
        marks[find(name, schema, column)?].insert(SERIES_KEY.to_string(), ordinal.to_string());
    }
    Ok(marks)
}

fn convert(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let columns = batch.columns().iter().zip(schema.fields()).map(|(array, field)| {
        if array.data_type() == field.data_type() {
            return Ok(Arc::clone(array));
        }
        cast_with_options(array, field.data_type(), &options).map_err(|error| {
            let (name, found) = (field.name(), array.data_type());
            QueryError::request(format!("column '{name}' ({found}) cannot be read: {error}"))
        })
    });
    let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// A frame as DataFusion looks it up.
#[derive(Debug)]
pub(crate) struct FrameTable {
    frame: Arc<Frame>,
}

impl FrameTable {
    pub(crate) fn new(frame: &Arc<Frame>) -> Self {
        Self { frame: Arc::clone(frame) }
    }

    pub(crate) fn rows(&self) -> u64 {
        self.frame.rows as u64
    }
}

impl TableProvider for FrameTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.frame.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    // Written without `async_trait`, which costs seconds of build time an implementation.
    fn scan<'life0, 'life1, 'life2, 'life3, 'async_trait>(
        &'life0 self,
        _state: &'life1 dyn Session,
        projection: Option<&'life2 Vec<usize>>,
        _filters: &'life3 [Expr],
        limit: Option<usize>,
    ) -> Pin<Box<dyn Future<Output = datafusion::common::Result<Arc<dyn ExecutionPlan>>> + Send + 'async_trait>>
    where
        Self: 'async_trait,
        'life0: 'async_trait,
        'life1: 'async_trait,
        'life2: 'async_trait,
        'life3: 'async_trait,
    {
        let scan = FrameExec::new(&self.frame, projection, limit);
        Box::pin(async move { Ok(Arc::new(scan) as Arc<dyn ExecutionPlan>) })
    }
}

/// How frames give their rows by time: rows without a time last.
const TIME_ORDER: SortOptions = SortOptions { descending: false, nulls_first: false };
