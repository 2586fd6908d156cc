//! What operators share that read rows series by series: bars, consolidated books, windows.

use super::below::{Below, Layer};
use crate::scan::{SeriesReader, SeriesTask};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// How the rows of an input are read by series.
#[derive(Debug, Clone)]
pub(super) struct BySeries {
    /// What happens to rows above the scan, the lowest first.
    pub(super) layers: Arc<[Layer]>,
    /// Columns of the table that make a series, ascending.
    pub(super) columns: Vec<usize>,
    /// Whether the keys are these columns, so that the rows of one key lie together.
    pub(super) whole: bool,
}

impl BySeries {
    /// The rows of a task after the layers, and where each series ends.
    pub(super) fn rows(&self, reader: &SeriesReader, task: &SeriesTask) -> Result<(RecordBatch, Vec<usize>)> {
        let rows = reader.read(task)?;
        let (mut batch, mut ends) = (rows.batch, rows.ends);
        for layer in self.layers.iter() {
            batch = layer.apply(batch, &mut ends)?;
        }
        Ok((batch, ends))
    }

    /// How rows ordered by `time` can be read so that each core has all rows of some keys, and the scan they are
    /// of; `None` where they cannot.
    pub(super) fn of(
        input: &Arc<dyn ExecutionPlan>,
        time: &Arc<dyn PhysicalExpr>,
        keys: &[Arc<dyn PhysicalExpr>],
    ) -> Option<(Self, Arc<dyn ExecutionPlan>)> {
        let below = Below::of(input).filter(|below| below.is_as_it_lies() && !below.scan.has_condition())?;
        let (scan, column) = (below.scan, |expr| below.table_column(expr));
        let schema = scan.selected().table.schema();
        if schema.timestamp().is_none() || column(time) != schema.timestamp() {
            return None;
        }
        let of_series = |key| column(key).filter(|column| schema.series().contains(column));
        let mut columns: Vec<usize> = keys.iter().filter_map(of_series).collect();
        let mut whole = columns.len() == keys.len();
        columns.sort_unstable();
        columns.dedup();
        if columns.is_empty() {
            // One series is in order whatever it is grouped by.
            let one = scan.filters().is_none() && scan.selected().is_one_series();
            if !one || schema.series().is_empty() {
                return None;
            }
            columns = schema.series().to_vec();
            columns.sort_unstable();
            whole = keys.is_empty();
        }
        let plan = Arc::clone(below.plan);
        Some((Self { layers: below.layers.into(), columns, whole }, plan))
    }
}
