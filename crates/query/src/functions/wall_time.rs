//! `ts AT TIME ZONE 'zone'`, which the dialect reads as `at_time_zone(ts, zone)`: what the clocks of a zone showed at
//! an instant, as a TIMESTAMP of that wall time. A zone is a name of the IANA database or an offset (`+02:00`).
//!
//! Every TIMESTAMP is an instant in UTC, so AT TIME ZONE goes this one way; the other way, from a wall time to the
//! instant, goes `to_utc(ts, zone)`, and a literal has its offset ('2024-08-08T09:30-04:00').

use chrono::{Offset, TimeZone};
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{ArrayRef, AsArray, TimestampNanosecondArray};
use datafusion::arrow::datatypes::{DataType, TimeUnit, TimestampNanosecondType};
use datafusion::common::{ScalarValue, exec_datafusion_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use std::sync::Arc;

/// What the dialect calls it by.
pub(crate) const AT_TIME_ZONE: &str = "at_time_zone";

const SECOND_NS: i64 = 1_000_000_000;

fn instant() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, None)
}

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct WallTime {
    signature: Signature,
}

impl Default for WallTime {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for WallTime {
    fn name(&self) -> &str {
        AT_TIME_ZONE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        use DataType::{Date32, Date64, Null, Timestamp, Utf8};
        match types {
            [Timestamp(..) | Date32 | Date64 | Utf8 | Null, Utf8] => Ok(vec![instant(), Utf8]),
            [_, Utf8] => plan_err!("AT TIME ZONE stands after a timestamp"),
            _ => plan_err!("a time zone is a text: ts AT TIME ZONE 'Europe/Berlin'"),
        }
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(instant())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let mut arguments = args.args.into_iter();
        let (Some(times), Some(zones)) = (arguments.next(), arguments.next()) else {
            return plan_err!("AT TIME ZONE takes a timestamp and a zone");
        };
        let times = times.into_array(rows)?;
        let times = times.as_primitive::<TimestampNanosecondType>();
        let wall: ArrayRef = match zones {
            ColumnarValue::Scalar(zone) => match zone.try_as_str().flatten() {
                Some(zone) => Arc::new(of_zone(times, &zone_of(zone)?)?),
                None => Arc::new(TimestampNanosecondArray::new_null(rows)),
            },
            ColumnarValue::Array(zones) => {
                let zones = zones.as_string::<i32>();
                let each = times.iter().zip(zones).map(|(time, zone)| match (time, zone) {
                    (Some(time), Some(zone)) => wall_time(time, &zone_of(zone)?).map(Some),
                    _ => Ok(None),
                });
                Arc::new(each.collect::<Result<TimestampNanosecondArray>>()?)
            }
        };
        Ok(match constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&wall, 0)?),
            false => ColumnarValue::Array(wall),
        })
    }
}

/// The zone of a name.
///
/// # Errors
/// Where there is none of the name.
pub(super) fn zone_of(zone: &str) -> Result<Tz> {
    zone.parse().map_err(|_| {
        exec_datafusion_err!(
            "there is no time zone '{zone}'; names are those of the IANA database, such as Europe/Berlin"
        )
    })
}

fn of_zone(times: &TimestampNanosecondArray, zone: &Tz) -> Result<TimestampNanosecondArray> {
    times.iter().map(|time| time.map(|time| wall_time(time, zone)).transpose()).collect()
}

/// The wall time of an instant.
fn wall_time(time: i64, zone: &Tz) -> Result<i64> {
    let utc = chrono::DateTime::from_timestamp_nanos(time).naive_utc();
    let offset = zone.offset_from_utc_datetime(&utc).fix().local_minus_utc();
    time.checked_add(i64::from(offset) * SECOND_NS)
        .ok_or_else(|| exec_datafusion_err!("the time in the zone lies outside the years 1677 to 2262"))
}
