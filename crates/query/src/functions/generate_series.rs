//! `generate_series` and `range` as tables: whole numbers of any width, which DataFusion takes only as BIGINT, and
//! timestamps in steps of one length, which come here by addition, in an order that the planner knows.

use datafusion::arrow::array::{RecordBatch, TimestampNanosecondArray};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{TableFunction, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::execution::{SendableRecordBatchStream, SessionStateDefaults, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use std::fmt::Debug;
use std::sync::Arc;

const NS_PER_DAY: i64 = 86_400_000_000_000;

/// DataFusion's table functions, their numbers widened.
pub(crate) fn table_functions() -> Vec<Arc<TableFunction>> {
    let widened = |function: Arc<TableFunction>| {
        let name = function.name().to_string();
        Arc::new(TableFunction::new(name, Arc::new(Widened(function))))
    };
    SessionStateDefaults::default_table_functions().into_iter().map(widened).collect()
}

#[derive(Debug)]
struct Widened(Arc<TableFunction>);

impl TableFunctionImpl for Widened {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let exprs: Vec<Expr> = args.exprs().iter().map(widened).collect();
        // It says what is wrong with the arguments.
        let theirs = self.0.function().call_with_args(TableFunctionArgs::new(&exprs, args.session()))?;
        let has_end = match self.0.name() {
            "generate_series" => true,
            "range" => false,
            _ => return Ok(theirs),
        };
        Ok(match Times::of(&exprs, has_end) {
            Some(times) => Arc::new(Series::table(theirs.schema(), times)?),
            None => theirs,
        })
    }
}

fn widened(expr: &Expr) -> Expr {
    match expr {
        Expr::Literal(value, metadata) if value.data_type().is_integer() => {
            let wide = value.cast_to(&datafusion::arrow::datatypes::DataType::Int64);
            Expr::Literal(wide.unwrap_or_else(|_| ScalarValue::clone(value)), metadata.clone())
        }
        other => other.clone(),
    }
}

/// Instants (ns since the Unix epoch) at one distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Times {
    first: i64,
    /// Not 0.
    step: i64,
    count: u64,
}

impl Times {
    /// Those that the arguments say, up to the second, which is one of them where the series `has_end`; `None` where
    /// they are no timestamps, have a zone, or their step has months.
    fn of(args: &[Expr], has_end: bool) -> Option<Self> {
        let [Expr::Literal(start, _), Expr::Literal(end, _), Expr::Literal(step, _)] = args else {
            return None;
        };
        let (
            ScalarValue::TimestampNanosecond(Some(start), None),
            ScalarValue::TimestampNanosecond(Some(end), None),
            ScalarValue::IntervalMonthDayNano(Some(step)),
        ) = (start, end, step)
        else {
            return None;
        };
        let days = i64::from(step.days).checked_mul(NS_PER_DAY)?;
        let one_way = step.months == 0 && days.signum() * step.nanoseconds.signum() >= 0;
        let step = days.checked_add(step.nanoseconds).filter(|step| one_way && *step != 0)?;
        let distance = (i128::from(*end) - i128::from(*start)) * i128::from(step.signum());
        let width = i128::from(step).abs();
        let count = match (distance, has_end) {
            (..0, _) => 0,
            (_, true) => distance / width + 1,
            (_, false) => (distance + width - 1) / width,
        };
        // There are no more instants than that.
        Some(Self { first: *start, step, count: u64::try_from(count).ok()? })
    }

    fn at(&self, place: u64) -> i64 {
        // Within the range: the last one is no further than the end, which is an instant.
        self.first.wrapping_add(self.step.wrapping_mul(place.cast_signed()))
    }
}

/// The rows of a table of one column of instants.
#[derive(Debug)]
struct Series {
    schema: SchemaRef,
    times: Times,
}

impl Series {
    /// The table, in the order of its instants.
    fn table(schema: SchemaRef, times: Times) -> Result<StreamingTable> {
        let column = Expr::Column(Column::from_name(schema.field(0).name()));
        let order = column.sort(times.step > 0, false);
        let series = Arc::new(Self { schema: Arc::clone(&schema), times });
        Ok(StreamingTable::try_new(schema, vec![series])?.with_sort_order(vec![order]))
    }
}

impl PartitionStream for Series {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (schema, times) = (Arc::clone(&self.schema), self.times);
        let most = context.session_config().batch_size().max(1) as u64;
        let batches = (0..times.count.div_ceil(most)).map(move |batch| {
            let first = batch * most;
            let values = (first..times.count.min(first.saturating_add(most))).map(|place| times.at(place));
            let values = TimestampNanosecondArray::from_iter_values(values);
            Ok(RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(values)])?)
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), futures::stream::iter(batches)))
    }
}

#[cfg(test)]
mod tests;
