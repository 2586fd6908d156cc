//! [`FilesExec`]: rows of text and Arrow files in the files' order, read on threads beside the plan's.

use super::FileTable;
use super::reading::{Files, ReadFile};
use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use std::fmt;
use std::sync::Arc;
use tickstone_model::with_one_nan;

/// Batches that wait to be taken.
const BATCHES_AHEAD: usize = 2;

/// Reads text or Arrow files in one output partition.
#[derive(Debug, Clone)]
pub(super) struct FilesExec {
    table: Arc<FileTable>,
    files: Arc<Files>,
    /// Which files, in order.
    chosen: Arc<[usize]>,
    projection: Arc<[usize]>,
    schema: SchemaRef,
    fetch: Option<usize>,
    properties: Arc<PlanProperties>,
}

impl FilesExec {
    /// Some columns (all where `None`) of some of a table's files, at most `fetch` rows.
    pub(super) fn new(
        table: &Arc<FileTable>,
        files: &Arc<Files>,
        chosen: Vec<usize>,
        projection: Option<&Vec<usize>>,
        fetch: Option<usize>,
    ) -> Self {
        let width = table.schema().fields().len();
        let projection: Vec<usize> = projection.cloned().unwrap_or_else(|| (0..width).collect());
        let fields = projection.iter().map(|&column| Arc::clone(&table.schema().fields()[column]));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            table: Arc::clone(table),
            files: Arc::clone(files),
            chosen: chosen.into(),
            projection: projection.into(),
            schema,
            fetch,
            properties: Arc::new(properties),
        }
    }

    /// Reads one file, and hands each batch on until nobody takes them.
    fn read(&self, file: usize, left: &mut usize, take: &mut dyn FnMut(RecordBatch) -> bool) -> Result<bool> {
        let width = self.table.folders_from();
        let columns: Vec<usize> = self.projection.iter().copied().filter(|column| *column < width).collect();
        let mut taken = true;
        let read = ReadFile { file, columns: &columns };
        self.files.read(&read, &mut |arrays, rows| {
            let batch = self.batch(file, arrays, rows)?;
            let batch = batch.slice(0, batch.num_rows().min(*left));
            *left -= batch.num_rows();
            taken = take(batch) && *left > 0;
            Ok(taken)
        })?;
        Ok(taken)
    }

    /// The columns that were asked for, of those of a file and those of its folders.
    fn batch(&self, file: usize, arrays: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let width = self.table.folders_from();
        let mut arrays = arrays.into_iter();
        let column = |column: &usize| match column.checked_sub(width) {
            Some(folder) => self.table.folders().repeated(folder, file, rows),
            None => match arrays.next() {
                Some(array) => Ok(with_one_nan(&array)),
                None => internal_err!("a file without one of its columns"),
            },
        };
        let columns = self.projection.iter().map(column).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

impl DisplayAs for FilesExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        let (format, all) = (self.files.format(), self.files.len());
        write!(
            f,
            "FilesExec: format={format}, files={} of {all}, columns=[{}]",
            self.chosen.len(),
            names.join(", ")
        )?;
        match self.fetch {
            Some(fetch) => write!(f, ", fetch={fetch}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for FilesExec {
    fn name(&self) -> &str {
        "FilesExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("files have no inputs") }
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("files have one output, not an output {partition}");
        }
        let mut stream = RecordBatchReceiverStream::builder(Arc::clone(&self.schema), BATCHES_AHEAD);
        let (send, scan) = (stream.tx(), self.clone());
        let batch_rows = context.session_config().batch_size();
        stream.spawn_blocking(move || {
            let mut left = scan.fetch.unwrap_or(usize::MAX);
            for file in scan.chosen.iter() {
                // Whoever asked may have gone.
                let mut take = |batch: RecordBatch| {
                    let mut from = 0;
                    while from < batch.num_rows() {
                        let rows = batch_rows.min(batch.num_rows() - from);
                        if send.blocking_send(Ok(batch.slice(from, rows))).is_err() {
                            return false;
                        }
                        from += rows;
                    }
                    true
                };
                if !scan.read(*file, &mut left, &mut take)? {
                    break;
                }
            }
            Ok(())
        });
        Ok(stream.build())
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema);
        let rows = usize::try_from(self.table.rows()).unwrap_or(usize::MAX);
        statistics.num_rows = Precision::Inexact(rows.min(self.fetch.unwrap_or(usize::MAX)));
        Ok(Arc::new(statistics))
    }

    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        Some(Arc::new(Self { fetch, ..self.clone() }))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }
}
