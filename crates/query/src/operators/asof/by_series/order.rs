//! The rows of all tasks, back in order of time: as if the left side had been read so.

use super::join::Joined;
use crate::operators::gather::gather;
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::Result;
use std::ops::Range;
use std::sync::Arc;

/// A row: its time, its arrival, and where it is: of which task's rows, and which of them.
type Row = (i64, u64, u32, u32);

/// Joined rows in order of time, ties in order of arrival.
#[derive(Debug)]
pub(in crate::operators) struct Sorted {
    joined: Vec<Joined>,
    order: Vec<Row>,
    schema: SchemaRef,
}

impl Sorted {
    /// Sorts rows that know when they arrived.
    pub(in crate::operators) fn new(joined: Vec<Joined>, schema: SchemaRef) -> Self {
        let mut order: Vec<Row> = Vec::with_capacity(joined.iter().map(|joined| joined.rows).sum());
        for (joined, at) in joined.iter().zip(0..) {
            let rows = joined.times.iter().zip(&joined.arrival).zip(0..);
            order.extend(rows.map(|((time, arrival), row)| (*time, *arrival, at, row)));
        }
        // The rows are many ascending sequences one after the other: this sort finds and merges them.
        order.sort_by_key(|row| (row.0, row.1));
        Self { joined, order, schema }
    }

    /// How many rows.
    pub(in crate::operators) fn rows(&self) -> usize {
        self.order.len()
    }

    /// Some of the rows.
    pub(in crate::operators) fn batch(&self, rows: Range<usize>) -> Result<RecordBatch> {
        let places: Vec<(usize, usize)> =
            self.order[rows].iter().map(|row| (row.2 as usize, row.3 as usize)).collect();
        let columns = self.schema.fields().iter().enumerate().map(|(column, field)| {
            let arrays: Vec<&ArrayRef> = self.joined.iter().map(|joined| &joined.columns[column]).collect();
            gather(&arrays, &places, field.data_type())
        });
        let options = RecordBatchOptions::new().with_row_count(Some(places.len()));
        let (columns, schema) = (columns.collect::<Result<_>>()?, Arc::clone(&self.schema));
        Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
    }
}
