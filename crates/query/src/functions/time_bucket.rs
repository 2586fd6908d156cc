//! `time_bucket(stride, ts [, offset | zone])`.

use super::bucket::{Bucketing, parse_offset};
use super::stride::{STRIDE_HINT, Stride, Unit};
use crate::designated::TIMESTAMP_KEY;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, TimestampNanosecondArray};
use datafusion::arrow::datatypes::{
    DataType, Field, FieldRef, IntervalUnit, TimeUnit, TimestampNanosecondType,
};
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// The start of the bucket that holds `ts`, as SAMPLE BY buckets.
///
/// `stride` is a text such as `'5m'` or an INTERVAL of one unit; a third argument is an offset
/// (`'+01:30'`, `'30m'`, an INTERVAL) that moves every boundary, or a zone whose calendar days and
/// longer follow.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct TimeBucket {
    signature: Signature,
}

impl Default for TimeBucket {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

impl ScalarUDFImpl for TimeBucket {
    fn name(&self) -> &str {
        "time_bucket"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [stride, time, rest @ ..] = types else {
            return plan_err!("time_bucket takes a stride and a timestamp: time_bucket('5m', ts)");
        };
        if matches!(stride, DataType::Timestamp(..) | DataType::Date32) {
            return plan_err!("the stride comes first: time_bucket('5m', ts)");
        }
        if rest.len() > 2 {
            return plan_err!("time_bucket takes at most a stride, a timestamp, an offset and a zone");
        }
        let length = |found: &DataType| match found {
            DataType::Interval(_) | DataType::Duration(_) => INTERVAL,
            _ => DataType::Utf8,
        };
        let zone = match time {
            DataType::Timestamp(_, zone) => zone.clone(),
            _ => None,
        };
        let mut coerced = vec![length(stride), DataType::Timestamp(TimeUnit::Nanosecond, zone)];
        coerced.extend(rest.iter().map(length));
        Ok(coerced)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match types.get(1) {
            Some(DataType::Timestamp(_, zone)) => DataType::Timestamp(TimeUnit::Nanosecond, zone.clone()),
            _ => DataType::Timestamp(TimeUnit::Nanosecond, None),
        })
    }

    /// The bucket of a designated timestamp is one.
    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|f| f.data_type().clone()).collect();
        let field = Field::new(self.name(), self.return_type(&types)?, true);
        let designated = args.arg_fields.get(1).and_then(|f| f.metadata().get_key_value(TIMESTAMP_KEY));
        let metadata = designated.map(|(key, value)| (key.clone(), value.clone())).into_iter().collect();
        Ok(Arc::new(field.with_metadata(metadata)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [stride, time, rest @ ..] = args.args.as_slice() else {
            return exec_err!("time_bucket takes a stride and a timestamp");
        };
        let bucketing = bucketing(stride, rest)?;
        match time {
            ColumnarValue::Scalar(ScalarValue::TimestampNanosecond(ts, zone)) => {
                let start = ts.map(|ts| checked(&bucketing, ts, bucketing.start(ts))).transpose()?;
                Ok(ColumnarValue::Scalar(ScalarValue::TimestampNanosecond(start, zone.clone())))
            }
            ColumnarValue::Scalar(other) => exec_err!("time_bucket takes a timestamp, not {other}"),
            ColumnarValue::Array(array) => Ok(ColumnarValue::Array(starts(array, &bucketing)?)),
        }
    }

    /// Buckets ascend as times do.
    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        let constants = inputs.iter().enumerate();
        let fixed =
            constants.filter(|(at, _)| *at != 1).all(|(_, p)| p.sort_properties == SortProperties::Singleton);
        Ok(match inputs.get(1) {
            Some(time) if fixed => time.sort_properties,
            _ => SortProperties::Unordered,
        })
    }
}

/// The start of the bucket that holds a time, where it is a time.
fn checked(bucketing: &Bucketing, ts: i64, start: i64) -> Result<i64> {
    if start == i64::MIN && bucketing.starts_before_time(ts) {
        return exec_err!(
            "time_bucket of {} begins outside the years 1677 to 2262",
            tickstone_model::format_nanos(ts).trim_end_matches('Z')
        );
    }
    Ok(start)
}

fn starts(array: &ArrayRef, bucketing: &Bucketing) -> Result<ArrayRef> {
    let times = array.as_primitive::<TimestampNanosecondType>();
    let (mut low, mut high) = (0, i64::MIN);
    let starts = times.values().iter().map(|&ts| {
        if ts < low || ts >= high {
            (low, high) = bucketing.bucket(ts);
        }
        low
    });
    let starts: Vec<i64> = starts.collect();
    for row in (0..starts.len()).filter(|row| starts[*row] == i64::MIN && times.is_valid(*row)) {
        checked(bucketing, times.value(row), i64::MIN)?;
    }
    let starts = TimestampNanosecondArray::new(starts.into(), times.nulls().cloned());
    Ok(Arc::new(starts.with_timezone_opt(times.timezone().map(Arc::<str>::from))))
}

fn bucketing(stride: &ColumnarValue, rest: &[ColumnarValue]) -> Result<Bucketing> {
    let ColumnarValue::Scalar(stride) = stride else {
        return exec_err!("the stride of time_bucket is a constant, not a column");
    };
    let parsed = match stride {
        ScalarValue::Utf8(Some(text)) => Stride::parse(text),
        ScalarValue::IntervalMonthDayNano(Some(v)) => match (v.months, v.days, v.nanoseconds) {
            (months, 0, 0) => Stride::new(i64::from(months), Unit::Month),
            // Weeks begin on Mondays; an INTERVAL knows them as days.
            (0, days, 0) if days % 7 == 0 => Stride::new(i64::from(days / 7), Unit::Week),
            (0, days, 0) => Stride::new(i64::from(days), Unit::Day),
            (0, 0, nanos) => Stride::new(nanos, Unit::Nanosecond),
            _ => None,
        },
        _ => None,
    };
    let Some(parsed) = parsed else {
        return exec_err!("{stride} is no stride of time_bucket; {STRIDE_HINT}, or an INTERVAL of one unit");
    };
    let mut bucketing = Bucketing::new(parsed);
    for argument in rest {
        bucketing = match argument {
            ColumnarValue::Scalar(ScalarValue::Utf8(Some(text))) => {
                match (parse_offset(text), text.parse()) {
                    (Ok(offset), _) => bucketing.with_offset(offset),
                    (Err(_), Ok(zone)) => bucketing.with_zone(zone),
                    (Err(message), Err(_)) => {
                        return exec_err!("{message}, or the name of a time zone such as 'Europe/Berlin'");
                    }
                }
            }
            ColumnarValue::Scalar(interval) => match crate::functions::stride::interval_nanos(interval) {
                Some(offset) => bucketing.with_offset(offset),
                None => return exec_err!("{interval} is no offset of time_bucket"),
            },
            ColumnarValue::Array(_) => {
                return exec_err!("the offset and zone of time_bucket are constants, not columns");
            }
        };
    }
    Ok(bucketing)
}
