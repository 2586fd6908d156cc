//! The date of a time without a zone, which is the number of its day.

use datafusion::arrow::array::{AsArray, Date32Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, FieldRef, Schema, TimeUnit, TimestampNanosecondType};
use datafusion::common::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::CastExpr;
use std::fmt;
use std::hash::{Hash, Hasher};
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
#[derive(Debug, Eq)]
struct Days {
    cast: Arc<dyn PhysicalExpr>,
    time: Arc<dyn PhysicalExpr>,
}

// Not derived, which would move the expression: https://github.com/rust-lang/rust/issues/78808
impl PartialEq for Days {
    fn eq(&self, other: &Self) -> bool {
        self.cast.eq(&other.cast)
    }
}

impl Hash for Days {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.cast.hash(state);
    }
}

impl fmt::Display for Days {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cast.fmt(f)
    }
}

impl PhysicalExpr for Days {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.cast.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.cast.nullable(schema)
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.cast.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let ColumnarValue::Array(times) = self.time.evaluate(batch)? else {
            return self.cast.evaluate(batch);
        };
        let times = times.as_primitive::<TimestampNanosecondType>();
        // The days of all times that there are fit 32 bits.
        let dates: Date32Array = times.unary(|time| time.div_euclid(DAY) as i32);
        Ok(ColumnarValue::Array(Arc::new(dates)))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.time]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let time = children.swap_remove(0);
        let cast = Arc::new(CastExpr::new(Arc::clone(&time), DataType::Date32, None));
        Ok(Arc::new(Self { cast, time }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cast.fmt_sql(f)
    }
}
