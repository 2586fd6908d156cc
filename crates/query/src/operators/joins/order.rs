//! What tasks give, and the rows of all of them back in order of time: as if the left side had been read so.

use crate::arrays::gather::gather;
use crate::operators::below::batch_of;
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::buffer::ScalarBuffer;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use std::ops::Range;

/// A row: its time, its arrival, and where it is: of which task's rows, and which of them.
type Row = (i64, u64, u32, u32);

/// Rows of a task.
pub(in crate::operators) enum TaskRows {
    /// As they are.
    Placed(Placed),
    /// Made batch by batch, as they are asked for.
    Lazy(Box<dyn LazyRows>),
}

/// Rows that are more, or wider, than what they are made of.
pub(in crate::operators) trait LazyRows: Send {
    /// How many.
    fn count(&self) -> usize;

    /// Bytes they hold, roughly.
    fn size(&self) -> usize;

    /// Some of them.
    fn batch(&self, rows: Range<usize>) -> Result<RecordBatch>;

    /// The time of each.
    fn times(&self) -> &[i64];

    /// The number of a row among those of its time, where that is not its place among all of its task.
    fn arrival(&self, row: usize) -> Option<u64>;
}

/// Rows, and what puts them in order.
#[derive(Debug)]
pub(in crate::operators) struct Placed {
    pub(in crate::operators) columns: Vec<ArrayRef>,
    /// The left rows' times.
    pub(in crate::operators) times: ScalarBuffer<i64>,
    /// Numbers that ascend in the order in which rows of one time are wanted; empty where nobody asks.
    pub(in crate::operators) arrival: Vec<u64>,
}

impl Placed {
    pub(in crate::operators) fn rows(&self) -> usize {
        self.times.len()
    }

    /// Bytes they hold, roughly.
    pub(super) fn size(&self) -> usize {
        let columns: usize = self.columns.iter().map(|column| column.get_array_memory_size()).sum();
        columns + self.times.len() * 8 + self.arrival.len() * 8
    }
}

impl TaskRows {
    pub(super) fn count(&self) -> usize {
        match self {
            TaskRows::Placed(rows) => rows.rows(),
            TaskRows::Lazy(rows) => rows.count(),
        }
    }

    /// Bytes they hold, roughly.
    pub(super) fn size(&self) -> usize {
        match self {
            TaskRows::Placed(rows) => rows.size(),
            TaskRows::Lazy(rows) => rows.size(),
        }
    }

    /// Some of them, with the schema of all.
    pub(super) fn batch(&self, schema: &SchemaRef, rows: Range<usize>) -> Result<RecordBatch> {
        match self {
            TaskRows::Placed(of) => {
                let columns = of.columns.iter().map(|column| column.slice(rows.start, rows.len()));
                batch_of(schema, columns.collect(), rows.len())
            }
            TaskRows::Lazy(of) => of.batch(rows),
        }
    }

    /// All of them as they are; those of a task that are made only now arrive as the task does.
    pub(super) fn placed(self, task: usize) -> Result<Placed> {
        match self {
            TaskRows::Placed(rows) => Ok(rows),
            TaskRows::Lazy(rows) => {
                let (_, columns, count) = rows.batch(0..rows.count())?.into_parts();
                let times = rows.times().to_vec().into();
                let arrival = (0..count).map(|row| rows.arrival(row).unwrap_or(task as u64)).collect();
                Ok(Placed { columns, times, arrival })
            }
        }
    }
}

/// Joined rows in order of time, ties in order of arrival.
#[derive(Debug)]
pub(super) struct Sorted {
    tasks: Vec<Placed>,
    order: Vec<Row>,
    schema: SchemaRef,
}

impl Sorted {
    /// Sorts rows that know when they arrived.
    pub(super) fn new(tasks: Vec<Placed>, schema: SchemaRef) -> Self {
        let mut order: Vec<Row> = Vec::with_capacity(tasks.iter().map(Placed::rows).sum());
        for (rows, at) in tasks.iter().zip(0..) {
            let rows = rows.times.iter().zip(&rows.arrival).zip(0..);
            order.extend(rows.map(|((time, arrival), row)| (*time, *arrival, at, row)));
        }
        // The rows are many ascending sequences one after the other: this sort finds and merges them.
        order.sort_by_key(|row| (row.0, row.1));
        Self { tasks, order, schema }
    }

    /// How many rows.
    pub(super) fn rows(&self) -> usize {
        self.order.len()
    }

    /// Some of the rows.
    pub(super) fn batch(&self, rows: Range<usize>) -> Result<RecordBatch> {
        let places: Vec<(usize, usize)> =
            self.order[rows].iter().map(|row| (row.2 as usize, row.3 as usize)).collect();
        let columns = self.schema.fields().iter().enumerate().map(|(column, field)| {
            let arrays: Vec<&ArrayRef> = self.tasks.iter().map(|rows| &rows.columns[column]).collect();
            gather(&arrays, &places, field.data_type())
        });
        batch_of(&self.schema, columns.collect::<Result<_>>()?, places.len())
    }
}
