//! Parquet files where they lie, by DataFusion's reader.
//!
//! Owns what its reader is told: footers are read once, when a statement is bound; texts of few values come as symbols,
//! without being made anew; conditions pass over row groups and pages by their statistics, but for some ([`prunes`]);
//! what they leave is dealt out evenly ([`ParquetScan::dealt`]); equalities that few rows fulfil are worked out before
//! other columns are decoded ([`ParquetFile::finds_few`]); and whichever NaN a file has, rows have the one.

use crate::error::{QueryError, Result};
use crate::facts::cast_keeps_order;
use crate::import::past_time;
use crate::paths::ReadFrom;
use bytes::Bytes;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::config::{ConfigOptions, TableParquetOptions};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column as ColumnName, DFSchema, DataFusionError, ScalarValue, Statistics};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::listing::helpers::expr_applicable_for_cols;
use datafusion::datasource::physical_plan::parquet::{ParquetAccessPlan, RowGroupAccessPlanFilter};
use datafusion::datasource::physical_plan::{
    FileGroup, FileScanConfigBuilder, FileSource, ParquetFileMetrics, ParquetFileReaderFactory, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::unnormalize_col;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{BinaryExpr, Cast, ColumnarValue, Expr, ExprSchemable, Operator, TryCast};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::simplifier::PhysicalExprSimplifier;
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::physical_expr_adapter::{
    DefaultPhysicalExprAdapterFactory, PhysicalExprAdapter, PhysicalExprAdapterFactory,
};
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use futures::future::BoxFuture;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::arrow::parquet_to_arrow_schema;
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use std::fmt;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use tickstone_model::with_one_nan;

/// A column of texts whose values take at most so many bytes each, packed, has few different ones: a text by itself takes
/// four bytes for its length alone.
const SYMBOL_BYTES_MAX: i64 = 3;

/// A Parquet file, its footer read.
#[derive(Debug)]
pub(super) struct ParquetFile {
    path: PathBuf,
    bytes: u64,
    modified: Option<SystemTime>,
    metadata: Arc<ParquetMetaData>,
    /// Its columns as they are read.
    schema: SchemaRef,
}

impl ParquetFile {
    /// Reads a file's footer.
    ///
    /// # Errors
    /// Where the file cannot be read, or is no Parquet.
    pub(super) fn open(path: &Path) -> Result<Self> {
        catch_unwind(|| Self::opened(path)).unwrap_or_else(|panic| {
            Err(QueryError::of_damaged_file(&path.display().to_string(), panic.as_ref()))
        })
    }

    fn opened(path: &Path) -> Result<Self> {
        let failed =
            |error: std::io::Error| QueryError::request(format!("cannot read {}: {error}", path.display()));
        let file = File::open(path).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        if about.is_dir() {
            return Err(failed(std::io::ErrorKind::IsADirectory.into()));
        }
        let damaged = |error: ParquetError| {
            QueryError::request(format!("{} is damaged, or no parquet file: {error}", path.display()))
        };
        let reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Skip);
        let metadata = reader.parse_and_finish(&file).map_err(damaged)?;
        if let Some(past) = past_time(&file, &metadata).map_err(damaged)? {
            let what = format!("{}, column '{}', {}", path.display(), past.column, past.what);
            return Err(QueryError::request(what));
        }
        let about_rows = metadata.file_metadata();
        let schema = parquet_to_arrow_schema(about_rows.schema_descr(), about_rows.key_value_metadata());
        let schema = with_symbols(&schema.map_err(damaged)?, &metadata);
        Ok(Self {
            path: path.to_path_buf(),
            bytes: about.len(),
            modified: about.modified().ok(),
            metadata: Arc::new(metadata),
            schema: Arc::new(schema),
        })
    }

    /// Its columns, in Arrow's types.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// How many rows it has.
    pub(super) fn rows(&self) -> usize {
        usize::try_from(self.metadata.file_metadata().num_rows()).unwrap_or_default()
    }

    /// Whether a condition is that a column has one of a few values, and few of the file's rows can have them: its
    /// dictionaries are large, or it has none.
    fn finds_few(&self, condition: &Expr) -> bool {
        let (column, values) = match condition {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => match (&**left, &**right) {
                (Expr::Column(column), Expr::Literal(..)) | (Expr::Literal(..), Expr::Column(column)) => {
                    (column, 1)
                }
                _ => return false,
            },
            Expr::InList(InList { expr, list, negated: false }) => match &**expr {
                Expr::Column(column) if list.iter().all(|of| matches!(of, Expr::Literal(..))) => {
                    (column, list.len())
                }
                _ => return false,
            },
            _ => return false,
        };
        let Ok(root) = self.schema.index_of(&column.name) else { return false };
        let Some(leaf) = leaf_of(&self.metadata, root) else { return false };
        let wide = i64::try_from(values).unwrap_or(i64::MAX).saturating_mul(DICTIONARY_BYTES_MIN);
        *self.schema.field(root).data_type() != DataType::Boolean
            && self.metadata.row_groups().iter().map(|group| group.column(leaf)).all(|chunk| {
                let dictionary = chunk.dictionary_page_offset();
                dictionary.is_none_or(|begin| chunk.data_page_offset() - begin >= wide)
            })
    }

    /// Which row groups a condition on columns of `schema` leaves.
    fn left_by(&self, condition: Option<&Arc<dyn PhysicalExpr>>, schema: &SchemaRef) -> ParquetAccessPlan {
        let groups = self.metadata.row_groups();
        let all = ParquetAccessPlan::new_all(groups.len());
        // As the reader has it: of the file's own types.
        let adapted = |condition: &Arc<dyn PhysicalExpr>| {
            let adapter = OneNanAdapters.create(Arc::clone(schema), Arc::clone(&self.schema)).ok()?;
            let adapted = adapter.rewrite(Arc::clone(condition)).ok()?;
            PhysicalExprSimplifier::new(&self.schema).simplify(adapted).ok()
        };
        let Some(condition) = condition.and_then(adapted) else { return all };
        let pruning = PruningPredicateBuilder::new().with_file_schema(Arc::clone(&self.schema));
        let Some(condition) = pruning.build(condition) else { return all };
        let (mut left, nobodys) = (RowGroupAccessPlanFilter::new(all), ExecutionPlanMetricsSet::new());
        let about = self.metadata.file_metadata().schema_descr();
        left.prune_by_statistics(
            &self.schema,
            about,
            groups,
            &condition,
            &ParquetFileMetrics::new(0, "", &nobodys),
        );
        left.build()
    }

    /// The file, to be read; an error where it is not what its footer was read of.
    fn reopened(&self) -> std::io::Result<File> {
        let file = File::open(&self.path)?;
        let about = file.metadata()?;
        if about.len() != self.bytes || about.modified().ok() != self.modified {
            return Err(std::io::Error::other("it changed while it was read; run the statement again"));
        }
        Ok(file)
    }
}

/// Bytes of a packed dictionary from which on it has some thirty values or more: one of them is few rows.
const DICTIONARY_BYTES_MIN: i64 = 256;

/// The leaf that a column is, where it is one.
fn leaf_of(metadata: &ParquetMetaData, root: usize) -> Option<usize> {
    let descriptor = metadata.file_metadata().schema_descr();
    let mut leaves =
        (0..descriptor.num_columns()).filter(|leaf| descriptor.get_column_root_idx(*leaf) == root);
    leaves.next().filter(|_| leaves.next().is_none())
}

/// The same columns, those of texts as symbols that hold few different ones in every row group.
fn with_symbols(schema: &Schema, metadata: &ParquetMetaData) -> Schema {
    let is_of_symbols = |leaf: usize| {
        let chunks = || metadata.row_groups().iter().map(|group| group.column(leaf));
        let (bytes, values) = chunks().fold((0, 0), |(bytes, values), chunk| {
            (bytes + chunk.uncompressed_size(), values + chunk.num_values())
        });
        values > 0
            && bytes <= values * SYMBOL_BYTES_MAX
            && chunks().all(|chunk| chunk.dictionary_page_offset().is_some() || chunk.num_values() == 0)
    };
    let fields = schema.fields().iter().enumerate().map(|(root, field)| {
        let is_text = matches!(field.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
        let symbols = is_text && leaf_of(metadata, root).is_some_and(is_of_symbols);
        let data_type = match field.data_type() {
            _ if symbols => DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Utf8)),
            DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
            DataType::LargeBinary | DataType::BinaryView => DataType::Binary,
            other => other.clone(),
        };
        Field::clone(field).with_data_type(data_type)
    });
    Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone())
}

/// Whether row groups may be passed over by a condition on columns of `schema`: it is not about floats, whose statistics
/// leave NaN out and tell the zeros apart, nor about casts that do not keep order, whose least value is not that of the
/// least, nor about what is known only when the plan runs.
pub(super) fn prunes(condition: &Expr, schema: &Schema) -> bool {
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let is_float = |column: &ColumnName| {
        schema.field_with_name(&column.name).map_or(true, |field| holds_floats(field.data_type()))
    };
    expr_applicable_for_cols(&names, condition)
        && !condition.is_volatile()
        && !condition.column_refs().into_iter().any(is_float)
        && casts_keep_order(condition, schema)
}

fn casts_keep_order(condition: &Expr, schema: &Schema) -> bool {
    let Ok(schema) = DFSchema::try_from(schema.clone()) else { return false };
    let loses_order = |expr: &Expr| match expr {
        Expr::Cast(Cast { expr: of, field }) | Expr::TryCast(TryCast { expr: of, field }) => {
            let from = of.get_type(&schema);
            !of.column_refs().is_empty() && !from.is_ok_and(|from| cast_keeps_order(&from, field.data_type()))
        }
        _ => false,
    };
    unnormalize_col(condition.clone()).exists(|expr| Ok(loses_order(expr))).is_ok_and(|loses| !loses)
}

/// A scan of some files: their columns in the types of `schema`, then those of their folders.
pub(super) struct ParquetScan<'a> {
    pub(super) files: Vec<(Arc<ParquetFile>, Vec<ScalarValue>)>,
    pub(super) schema: &'a SchemaRef,
    pub(super) folders: &'a SchemaRef,
    pub(super) projection: Option<&'a Vec<usize>>,
    /// Conditions that [`prunes`] lets through.
    pub(super) conditions: &'a [Expr],
    pub(super) limit: Option<usize>,
    pub(super) options: &'a ConfigOptions,
}

impl ParquetScan<'_> {
    /// The plan that reads them.
    ///
    /// # Errors
    /// Those of DataFusion.
    pub(super) fn plan(self) -> datafusion::common::Result<Arc<dyn ExecutionPlan>> {
        let folders = self.folders.fields().clone();
        let schema = TableSchema::builder(Arc::clone(self.schema)).with_table_partition_cols(folders).build();
        let mut options = TableParquetOptions::default();
        options.global = self.options.execution.parquet.clone();
        let conditions = self.conditions.iter().filter(|condition| prunes(condition, self.schema));
        let conditions: Vec<Expr> = conditions.cloned().map(unnormalize_col).collect();
        let few = |condition: &Expr| self.files.iter().all(|(file, _)| file.finds_few(condition));
        options.global.pushdown_filters |= conditions.iter().any(few);
        let mut source = ParquetSource::new(schema)
            .with_table_parquet_options(options)
            .with_parquet_file_reader_factory(Arc::new(Readers));
        let mut condition = None;
        if let Some(all) = conjunction(conditions) {
            let schema = DFSchema::try_from(self.schema.as_ref().clone())?;
            let (props, context) = (ExecutionProps::new(), PhysicalPlanningContext::default());
            let all = create_physical_expr(&all, &schema, &props, &context)?;
            source = source.with_predicate(Arc::clone(&all));
            condition = Some(all);
        }
        let rows = self.files.iter().map(|(file, _)| file.rows()).sum();
        let mut statistics = Statistics::new_unknown(source.table_schema().table_schema());
        statistics.num_rows = Precision::Exact(rows);
        let groups = self.dealt(condition.as_ref());
        let config = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), Arc::new(source))
            .with_file_groups(groups)
            .with_statistics(statistics)
            .with_projection_indices(self.projection.cloned())?
            .with_limit(self.limit)
            .with_expr_adapter(Some(Arc::new(OneNanAdapters)))
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }
}

impl ParquetScan<'_> {
    /// The files as so many outputs read them: each a stretch of the row groups that the condition leaves, about as
    /// many bytes as the others'. What a day, or an hour, leaves of a file that is in order of time lies together.
    fn dealt(&self, condition: Option<&Arc<dyn PhysicalExpr>>) -> Vec<FileGroup> {
        let named = |(file, values): &(Arc<ParquetFile>, Vec<ScalarValue>)| {
            let named = PartitionedFile::new(file.path.to_string_lossy(), file.bytes);
            let named = named.with_arrow_schema(Arc::clone(&file.schema));
            let named = named.with_extension(ReadFrom(file.path.clone()));
            named.with_partition_values(values.clone()).with_extension(Arc::clone(file))
        };
        let outputs = self.options.execution.target_partitions.max(1) as u64;
        let together = || vec![FileGroup::new(self.files.iter().map(named).collect())];
        if outputs == 1 {
            return together();
        }
        let left: Vec<_> = self.files.iter().map(|(file, _)| file.left_by(condition, self.schema)).collect();
        let size = |file: usize, group: usize| {
            self.files[file].0.metadata.row_groups()[group].compressed_size().max(0) as u64
        };
        let each = || {
            left.iter().enumerate().flat_map(|(file, of)| of.row_group_index_iter().map(move |at| (file, at)))
        };
        let all: u64 = each().map(|(file, group)| size(file, group)).sum();
        if all == 0 || all < self.options.optimizer.repartition_file_min_size as u64 {
            return together();
        }
        let mut dealt: Vec<Vec<(usize, ParquetAccessPlan)>> = vec![Vec::new(); outputs as usize];
        let mut before = 0;
        for (file, group) in each() {
            let output = &mut dealt
                [usize::try_from(before * outputs / all).unwrap_or_default().min(outputs as usize - 1)];
            if output.last().is_none_or(|(last, _)| *last != file) {
                output.push((file, ParquetAccessPlan::new_none(left[file].len())));
            }
            output.last_mut().into_iter().for_each(|(_, plan)| plan.scan(group));
            before += size(file, group);
        }
        let files = |of: Vec<(usize, ParquetAccessPlan)>| {
            FileGroup::new(
                of.into_iter().map(|(file, plan)| named(&self.files[file]).with_extension(plan)).collect(),
            )
        };
        dealt.into_iter().filter(|of| !of.is_empty()).map(files).collect()
    }
}

/// Whether values of a type are floats, or have floats in them.
fn holds_floats(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _) => {
            holds_floats(of.data_type())
        }
        DataType::Struct(fields) => fields.iter().any(|field| holds_floats(field.data_type())),
        other => other.is_floating(),
    }
}

/// Opens files whose footers are known.
#[derive(Debug)]
struct Readers;

impl ParquetFileReaderFactory for Readers {
    fn create_reader(
        &self,
        _partition: usize,
        named: PartitionedFile,
        _metadata_size_hint: Option<usize>,
        _metrics: &ExecutionPlanMetricsSet,
    ) -> datafusion::common::Result<Box<dyn AsyncFileReader + Send>> {
        let Some(known) = named.extension::<Arc<ParquetFile>>().map(Arc::clone) else {
            return datafusion::common::internal_err!("a file without its footer");
        };
        let file = known.reopened().map_err(|error| {
            let what = QueryError::request(format!("cannot read {}: {error}", known.path.display()));
            DataFusionError::External(Box::new(what))
        })?;
        Ok(Box::new(Reader { known, file }))
    }
}

/// Reads stretches of a file: what comes from the system's memory is there sooner than a thread that would wait for it.
struct Reader {
    known: Arc<ParquetFile>,
    file: File,
}

impl AsyncFileReader for Reader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, parquet::errors::Result<Bytes>> {
        let length = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; length];
        let read = self.file.read_exact_at(&mut bytes, range.start);
        futures::future::ready(read.map(|()| bytes.into()).map_err(Into::into)).boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, parquet::errors::Result<Arc<ParquetMetaData>>> {
        let metadata = Arc::clone(&self.known.metadata);
        let read = match options.is_some_and(|options| options.column_index_policy() != PageIndexPolicy::Skip)
        {
            false => Ok(metadata),
            true => {
                let mut reader = ParquetMetaDataReader::new_with_metadata(metadata.as_ref().clone())
                    .with_page_index_policy(PageIndexPolicy::Optional);
                reader.read_page_indexes(&self.file).and_then(|()| reader.finish()).map(Arc::new)
            }
        };
        futures::future::ready(read).boxed()
    }
}

/// Has floats of a file have the one NaN, beside what adapts its columns to a table's.
#[derive(Debug)]
struct OneNanAdapters;

impl PhysicalExprAdapterFactory for OneNanAdapters {
    fn create(
        &self,
        logical: SchemaRef,
        physical: SchemaRef,
    ) -> datafusion::common::Result<Arc<dyn PhysicalExprAdapter>> {
        let inner = DefaultPhysicalExprAdapterFactory.create(logical, Arc::clone(&physical))?;
        Ok(Arc::new(OneNanAdapter { inner, physical }))
    }
}

#[derive(Debug)]
struct OneNanAdapter {
    inner: Arc<dyn PhysicalExprAdapter>,
    physical: SchemaRef,
}

impl PhysicalExprAdapter for OneNanAdapter {
    fn rewrite(&self, expr: Arc<dyn PhysicalExpr>) -> datafusion::common::Result<Arc<dyn PhysicalExpr>> {
        let adapted = self.inner.rewrite(expr)?;
        let one_nan = |expr: Arc<dyn PhysicalExpr>| {
            let is_float = expr.downcast_ref::<Column>().is_some()
                && expr.data_type(&self.physical).is_ok_and(|data_type| holds_floats(&data_type));
            Ok(match is_float {
                true => Transformed::yes(Arc::new(OneNan(expr)) as Arc<dyn PhysicalExpr>),
                false => Transformed::no(expr),
            })
        };
        adapted.transform_up(one_nan).data()
    }
}

/// A column's values with the one NaN in the place of every other.
#[derive(Debug, Clone, Eq)]
struct OneNan(Arc<dyn PhysicalExpr>);

// Derived, it would move what is behind the pointer.
impl PartialEq for OneNan {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq(&other.0)
    }
}

impl Hash for OneNan {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Display for OneNan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PhysicalExpr for OneNan {
    fn data_type(&self, schema: &Schema) -> datafusion::common::Result<DataType> {
        self.0.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> datafusion::common::Result<bool> {
        self.0.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> datafusion::common::Result<ColumnarValue> {
        Ok(match self.0.evaluate(batch)? {
            ColumnarValue::Array(values) => ColumnarValue::Array(with_one_nan(&values)),
            one => one,
        })
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.0]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> datafusion::common::Result<Arc<dyn PhysicalExpr>> {
        match children.pop() {
            Some(child) => Ok(Arc::new(OneNan(child))),
            None => Ok(self),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_sql(f)
    }
}
