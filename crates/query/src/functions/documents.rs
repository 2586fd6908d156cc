//! The documents of a raw stream as a table of their times, numbers and contents.

use crate::designated::{TIMESTAMP_KEY, TIMESTAMP_VALUE};
use crate::error::external;
use crate::wanted::warn;
use datafusion::arrow::array::{BinaryBuilder, Int64Array, RecordBatch, TimestampNanosecondArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, Operator, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tickstone_engine::streams::Stream;

/// Bytes of documents that are read at once.
const READ_BYTES: u64 = 4 << 20;
/// Metadata key of the schema of a stream's documents; its value is the stream's name.
pub(crate) const STREAM_KEY: &str = "tickstone.stream";

/// The documents of a stream between two times (µs since the Unix epoch, both inside).
#[derive(Debug)]
pub(crate) struct StreamTable {
    stream: Stream,
    schema: SchemaRef,
    from: u64,
    to: u64,
}

impl StreamTable {
    /// The table of `ts`, `seq`, `document`, in this order.
    pub(crate) fn new(stream: Stream, from: u64, to: u64) -> Self {
        let designated = [(TIMESTAMP_KEY.to_string(), TIMESTAMP_VALUE.to_string())].into();
        let ts = Field::new("ts", DataType::Timestamp(TimeUnit::Nanosecond, None), false);
        let fields = vec![
            ts.with_metadata(designated),
            Field::new("seq", DataType::Int64, false),
            Field::new("document", DataType::Binary, false),
        ];
        let metadata = [(STREAM_KEY.to_string(), stream.name().to_string())].into();
        Self { stream, schema: Arc::new(Schema::new_with_metadata(fields, metadata)), from, to }
    }

    /// The times that this filter leaves, as far as that can be told.
    fn times(filter: &Expr) -> Option<(u64, u64)> {
        let us = |expr: &Expr| match expr {
            Expr::Literal(ScalarValue::TimestampNanosecond(Some(ns), None), _) => Some(ns.div_euclid(1_000)),
            _ => None,
        };
        let is_ts = |expr: &Expr| matches!(expr, Expr::Column(column) if column.name == "ts");
        let bound = |us: i64| u64::try_from(us).unwrap_or(0);
        match filter {
            Expr::BinaryExpr(binary) => {
                let (operator, time) = match (is_ts(&binary.left), is_ts(&binary.right)) {
                    (true, _) => (binary.op, us(&binary.right)?),
                    (_, true) => (binary.op.swap()?, us(&binary.left)?),
                    _ => return None,
                };
                // Times are cut to microseconds: one more on either side is let through.
                match operator {
                    Operator::Eq => Some((bound(time), bound(time))),
                    Operator::Gt | Operator::GtEq => Some((bound(time), u64::MAX)),
                    Operator::Lt | Operator::LtEq => Some((0, bound(time))),
                    _ => None,
                }
            }
            Expr::Between(between) if !between.negated && is_ts(&between.expr) => {
                Some((bound(us(&between.low)?), bound(us(&between.high)?)))
            }
            _ => None,
        }
    }
}

impl TableProvider for StreamTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| match Self::times(filter) {
            Some(_) => TableProviderFilterPushDown::Inexact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(support).collect())
    }

    fn scan<'life0, 'life1, 'life2, 'life3, 'async_trait>(
        &'life0 self,
        state: &'life1 dyn Session,
        projection: Option<&'life2 Vec<usize>>,
        filters: &'life3 [Expr],
        limit: Option<usize>,
    ) -> Pin<Box<dyn Future<Output = Result<Arc<dyn ExecutionPlan>>> + Send + 'async_trait>>
    where
        Self: 'async_trait,
        'life0: 'async_trait,
        'life1: 'async_trait,
        'life2: 'async_trait,
        'life3: 'async_trait,
    {
        let (mut from, mut to) = (self.from, self.to);
        for (first, last) in filters.iter().filter_map(Self::times) {
            (from, to) = (from.max(first), to.min(last));
        }
        let documents = Documents { stream: self.stream.clone(), schema: Arc::clone(&self.schema), from, to };
        let order = Expr::Column(Column::from_name("ts")).sort(true, false);
        let table = StreamingTable::try_new(Arc::clone(&self.schema), vec![Arc::new(documents)])
            .map(|table| table.with_sort_order(vec![order]));
        let projection = projection.cloned();
        Box::pin(async move { table?.scan(state, projection.as_ref(), &[], limit).await })
    }
}

/// The rows.
#[derive(Debug)]
struct Documents {
    stream: Stream,
    schema: SchemaRef,
    from: u64,
    to: u64,
}

impl PartitionStream for Documents {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let most = context.session_config().batch_size().max(1);
        let rows = Rows {
            stream: self.stream.clone(),
            schema: Arc::clone(&self.schema),
            from: self.from,
            to: self.to,
            // One moment: what comes later is none of its rows.
            last: self.stream.stats().map(|stats| stats.last),
            most,
        };
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), futures::stream::iter(rows)))
    }
}

struct Rows {
    stream: Stream,
    schema: SchemaRef,
    from: u64,
    to: u64,
    last: std::result::Result<u64, tickstone_engine::EngineError>,
    most: usize,
}

impl Rows {
    fn read(&mut self) -> Result<Option<RecordBatch>> {
        let last = match std::mem::replace(&mut self.last, Ok(0)) {
            Ok(last) => last,
            Err(error) => return Err(external(error)),
        };
        self.last = Ok(last);
        if self.from > self.to {
            return Ok(None);
        }
        let found = self.stream.range(self.from, self.to, READ_BYTES).map_err(external)?;
        if found.damaged_bytes() > 0 {
            let name = self.stream.name();
            warn(format!(
                "parts of stream '{name}' are damaged or missing: documents in them are not among the rows, and \
                 tickstone check names them"
            ));
        }
        let (mut times, mut numbers) = (Vec::new(), Vec::new());
        let mut documents = BinaryBuilder::new();
        for (number, entry) in found.entries().take(self.most) {
            if number > last {
                self.from = u64::MAX;
                break;
            }
            times.push(i64::try_from(entry.ts_us).unwrap_or(i64::MAX).saturating_mul(1_000));
            numbers.push(i64::try_from(number).unwrap_or(i64::MAX));
            documents.append_value(entry.document);
            self.from = entry.ts_us.saturating_add(1);
        }
        if times.is_empty() {
            self.to = 0;
            self.from = 1;
            return Ok(None);
        }
        let times = TimestampNanosecondArray::from(times);
        let columns: Vec<Arc<dyn datafusion::arrow::array::Array>> =
            vec![Arc::new(times), Arc::new(Int64Array::from(numbers)), Arc::new(documents.finish())];
        Ok(Some(RecordBatch::try_new(Arc::clone(&self.schema), columns)?))
    }
}

impl Iterator for Rows {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        let read = self.read().transpose();
        if matches!(read, Some(Err(_))) {
            (self.from, self.to) = (1, 0);
        }
        read
    }
}
