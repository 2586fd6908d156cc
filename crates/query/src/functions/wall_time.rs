//! `AT TIME ZONE`, which the dialect reads as `at_time_zone(ts, zone)`: of an instant what the clocks of a zone showed, a
//! TIMESTAMP WITHOUT TIME ZONE; of such a clock the instant. A zone is a name of the IANA database or an offset
//! (`+02:00`).
//!
//! Both are of one Arrow type. Which of the two an expression is, is known from what it is made of (`rules/clocks`), where
//! [`AT_TIME_ZONE`] of a clock becomes [`of_clock`].

use super::zone::{offset_at, offsets_of, zone_of};
use chrono::{DateTime, Days, NaiveDateTime};
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{ArrayRef, AsArray, TimestampNanosecondArray};
use datafusion::arrow::datatypes::{DataType, FieldRef, TimeUnit, TimestampNanosecondType};
use datafusion::common::{ScalarValue, exec_datafusion_err, internal_datafusion_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::{Arc, LazyLock};

/// What the dialect calls it by.
pub(crate) const AT_TIME_ZONE: &str = "at_time_zone";

/// The way back, from a clock to the instant.
pub(crate) const OF_CLOCK: &str = "__of_clock";

const SECOND_NS: i64 = 1_000_000_000;

fn instant() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, None)
}

/// One of the two functions.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct AtTimeZone {
    name: &'static str,
    signature: Signature,
}

impl AtTimeZone {
    /// What the clocks of a zone showed at an instant.
    pub(super) fn clock() -> Self {
        Self { name: AT_TIME_ZONE, signature: Signature::user_defined(Volatility::Immutable) }
    }

    /// The instant at which they showed it.
    fn of_clock() -> Self {
        Self { name: OF_CLOCK, ..Self::clock() }
    }

    fn one(&self, time: i64, zone: &Tz) -> Result<i64> {
        if self.name == OF_CLOCK { instant_of(time, zone, Twice::Last) } else { wall_time(time, zone) }
    }
}

/// The instant at which the clocks of a zone showed a time.
pub(crate) fn of_clock() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(AtTimeZone::of_clock().into()));
    Arc::clone(&FUNCTION)
}

impl ScalarUDFImpl for AtTimeZone {
    fn name(&self) -> &str {
        self.name
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
                Some(zone) => {
                    let zone = zone_of(zone)?;
                    let each = times.iter().map(|time| time.map(|time| self.one(time, &zone)).transpose());
                    Arc::new(each.collect::<Result<TimestampNanosecondArray>>()?)
                }
                None => Arc::new(TimestampNanosecondArray::new_null(rows)),
            },
            ColumnarValue::Array(zones) => {
                let zones = zones.as_string::<i32>();
                let each = times.iter().zip(zones).map(|(time, zone)| match (time, zone) {
                    (Some(time), Some(zone)) => self.one(time, &zone_of(zone)?).map(Some),
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

/// The key of a result's column whose TIMESTAMPs are what clocks showed, not instants: readers that tell the two apart give
/// it no zone.
pub const CLOCK_KEY: &str = "tickstone.clock";

/// A column of clocks as it is, with [`CLOCK_KEY`] among what is said of it.
pub(crate) fn as_clock() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Arc::new(AsClock { signature: Signature::any(1, Volatility::Immutable) }.into()));
    Arc::clone(&FUNCTION)
}

/// See [`as_clock`].
#[derive(Debug, PartialEq, Eq, Hash)]
struct AsClock {
    signature: Signature,
}

impl ScalarUDFImpl for AsClock {
    fn name(&self) -> &'static str {
        "__as_clock"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        types.first().cloned().ok_or_else(without_argument)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = args.arg_fields.first().ok_or_else(without_argument)?;
        let mut said = field.metadata().clone();
        said.insert(CLOCK_KEY.to_string(), String::new());
        Ok(Arc::new(field.as_ref().clone().with_metadata(said)))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        args.args.pop().ok_or_else(without_argument)
    }
}

fn without_argument() -> datafusion::error::DataFusionError {
    internal_datafusion_err!("__as_clock takes one argument")
}

/// The wall time of an instant.
fn wall_time(time: i64, zone: &Tz) -> Result<i64> {
    let offset = offset_at(zone, DateTime::from_timestamp_nanos(time).naive_utc());
    time.checked_add(offset * SECOND_NS)
        .ok_or_else(|| exec_datafusion_err!("the time in the zone lies outside the years 1677 to 2262"))
}

/// Which instant is meant where clocks that are put back show a time twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Twice {
    /// As `to_utc` and SAMPLE BY have it.
    First,
    /// As AT TIME ZONE of other databases has it.
    Last,
}

/// The instant at which the clocks of a zone showed a time; where they were put forward over it as the offset before has
/// it.
///
/// # Errors
/// Outside the years 1677 to 2262.
pub(super) fn instant_of(wall: i64, zone: &Tz, twice: Twice) -> Result<i64> {
    let local = DateTime::from_timestamp_nanos(wall).naive_utc();
    let found = offsets_of(zone, local);
    let found = if twice == Twice::First { found.earliest() } else { found.latest() };
    let before = || {
        let earlier = local.checked_sub_days(Days::new(1)).unwrap_or(NaiveDateTime::MIN);
        offsets_of(zone, earlier).earliest().unwrap_or(0)
    };
    wall.checked_sub(found.unwrap_or_else(before) * SECOND_NS)
        .ok_or_else(|| exec_datafusion_err!("the instant lies outside the years 1677 to 2262"))
}
