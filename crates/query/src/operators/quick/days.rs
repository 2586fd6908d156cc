//! The date of a time without a zone, which is the number of its day.

use crate::operators::expr::{InPlace, in_place};
use datafusion::arrow::array::{AsArray, Date32Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Schema, TimeUnit, TimestampNanosecondType};
use datafusion::common::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::CastExpr;
use std::sync::Arc;

const DAY: i64 = 86_400 * 1_000_000_000;

/// The quick form of a cast of a time to a date; `None` of anything else.
pub(super) fn days(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<Arc<dyn PhysicalExpr>> {
    let cast = expr.downcast_ref::<CastExpr>().filter(|cast| *cast.cast_type() == DataType::Date32)?;
    let of = cast.expr().data_type(schema).ok()?;
    (of == DataType::Timestamp(TimeUnit::Nanosecond, None))
        .then(|| Arc::new(Days { cast: Arc::clone(expr), time: Arc::clone(cast.expr()) }) as _)
}

/// `CAST(time AS DATE)`.
#[derive(Debug)]
struct Days {
    cast: Arc<dyn PhysicalExpr>,
    time: Arc<dyn PhysicalExpr>,
}

in_place!(Days);

impl InPlace for Days {
    fn original(&self) -> &Arc<dyn PhysicalExpr> {
        &self.cast
    }

    fn work_out(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let ColumnarValue::Array(times) = self.time.evaluate(batch)? else {
            return self.cast.evaluate(batch);
        };
        let times = times.as_primitive::<TimestampNanosecondType>();
        // The days of all times that there are fit 32 bits.
        let dates: Date32Array = times.unary(|time| time.div_euclid(DAY) as i32);
        Ok(ColumnarValue::Array(Arc::new(dates)))
    }

    fn below(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.time]
    }

    fn over(&self, mut below: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let time = below.swap_remove(0);
        let cast = Arc::new(CastExpr::new(Arc::clone(&time), DataType::Date32, None));
        Ok(Arc::new(Self { cast, time }))
    }
}
