//! `date_part(field, x)` and `extract(field FROM x)` of differences of times and of intervals, exact at any length.
//!
//! A difference of times is days and a time of day, as in PostgreSQL; an interval is months, days and a time that may
//! be longer than a day. Fields are components, cut off towards zero, with the sign of the whole:
//! - `year`, `month`: of the months; `quarter`: `month / 3 + 1`; `day`: of the days; `week`: `day / 7`;
//! - `hour`, `minute`: of the time; an interval's hours may be 24 and more;
//! - `second`: the seconds of the minute with their fraction, a DOUBLE, of instants too, as in PostgreSQL;
//! - `millisecond`, `microsecond`, `nanosecond`: the seconds of the minute with their fraction, in that unit;
//! - `epoch`: all of it in seconds, the nearest double; a year of an interval has 365.25 days, a month beside it 30.
//!
//! Of all other types it is DataFusion's, which makes a field of a duration by way of 32 bits of nanoseconds, with a few
//! fields of instants that it lacks ([`CalendarField`]).

use super::whole::mean;
use chrono::{DateTime, Datelike};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int32Array, Int64Array};
use datafusion::arrow::compute::kernels::cast_utils::IntervalUnit as Unit;
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType,
    DurationSecondType, FieldRef, Float64Type, Int64Type, IntervalDayTimeType, IntervalMonthDayNanoType,
    IntervalUnit, IntervalYearMonthType, TimeUnit, TimestampNanosecondType,
};

use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result;
use datafusion::functions::datetime::date_part;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult};
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature,
};
use std::str::FromStr;
use std::sync::Arc;

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i128 = 24 * HOUR as i128;
const MONTH: i128 = 30 * DAY;
/// 365.25 days.
const YEAR: i128 = 365 * DAY + DAY / 4;

/// Years that lie whole within what timestamps in nanoseconds hold.
const YEARS: std::ops::RangeInclusive<i32> = 1678..=2261;

/// `date_part`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct DatePart {
    theirs: Arc<ScalarUDF>,
}

impl Default for DatePart {
    fn default() -> Self {
        Self { theirs: date_part() }
    }
}

impl ScalarUDFImpl for DatePart {
    fn name(&self) -> &str {
        self.theirs.name()
    }

    fn aliases(&self) -> &[String] {
        self.theirs.aliases()
    }

    fn signature(&self) -> &Signature {
        self.theirs.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.theirs.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let is_second = args.scalar_arguments.first().is_some_and(|field| field.is_some_and(is_second));
        let field = self.theirs.return_field_from_args(args)?;
        Ok(match is_second {
            true => Arc::new(field.as_ref().clone().with_data_type(DataType::Float64)),
            false => field,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [ColumnarValue::Scalar(field), of] = args.args.as_slice() else {
            return self.theirs.invoke_with_args(args);
        };
        if is_second(field) {
            return self.seconds(of, &args);
        }
        let name = field.try_as_str().flatten().unwrap_or_default();
        if !matches!(of.data_type(), DataType::Duration(_) | DataType::Interval(_)) {
            if let Some(field) = CalendarField::of(name) {
                return field.of_value(of);
            }
            let usual = usual_name(name).map(|name| ColumnarValue::Scalar(ScalarValue::from(name)));
            let args = match usual {
                Some(field) => ScalarFunctionArgs { args: vec![field, of.clone()], ..args },
                None => args,
            };
            return self.theirs.invoke_with_args(args);
        }
        let Some(field) = Field::of(name) else {
            return exec_err!("a difference of times has no field '{}'", name.to_lowercase());
        };
        match of {
            ColumnarValue::Array(array) => Ok(ColumnarValue::Array(field.of_all(array)?)),
            ColumnarValue::Scalar(value) => {
                let one = field.of_all(&value.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&one, 0)?))
            }
        }
    }

    fn preimage(&self, args: &[Expr], literal: &Expr, info: &SimplifyContext) -> Result<PreimageResult> {
        // The year is not that of any timestamp, and its ends would be taken for others.
        if matches!(literal, Expr::Literal(ScalarValue::Int32(Some(year)), _) if !YEARS.contains(year)) {
            return Ok(PreimageResult::None);
        }
        self.theirs.inner().preimage(args, literal, info)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.theirs.documentation()
    }
}

impl DatePart {
    /// The seconds of the minute: the doubles nearest to their nanoseconds.
    fn seconds(&self, of: &ColumnarValue, args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
        let field = ColumnarValue::Scalar(ScalarValue::from("nanosecond"));
        let nanos = self.invoke_with_args(ScalarFunctionArgs {
            args: vec![field, of.clone()],
            return_field: Arc::new(args.return_field.as_ref().clone().with_data_type(DataType::Int64)),
            ..args.clone()
        })?;
        let seconds = |nanos: i64| nanos as f64 / SECOND as f64;
        Ok(match nanos {
            ColumnarValue::Array(nanos) => {
                let seconds = nanos.as_primitive::<Int64Type>().unary::<_, Float64Type>(seconds);
                ColumnarValue::Array(Arc::new(seconds))
            }
            ColumnarValue::Scalar(ScalarValue::Int64(nanos)) => {
                ColumnarValue::Scalar(ScalarValue::Float64(nanos.map(seconds)))
            }
            other => other.cast_to(&DataType::Float64, None)?,
        })
    }
}

/// Whether this names the seconds, in any of their spellings.
fn is_second(field: &ScalarValue) -> bool {
    field.try_as_str().flatten().and_then(Field::of) == Some(Field::Second)
}

/// Plans `extract(field FROM x)` as our `date_part`.
#[derive(Debug)]
pub(crate) struct ExtractFields;

impl ExprPlanner for ExtractFields {
    fn plan_extract(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        let function = Arc::new(ScalarUDF::from(DatePart::default()));
        Ok(PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction::new_udf(function, args))))
    }
}

/// The name that DataFusion has for a field with several.
fn usual_name(name: &str) -> Option<&'static str> {
    Some(match name.to_lowercase().as_str() {
        "dayofweek" | "weekday" => "dow",
        "dayofmonth" => "day",
        "dayofyear" => "doy",
        "weekofyear" => "week",
        _ => return None,
    })
}

/// A field of an instant that DataFusion does not know.
#[derive(Debug, Clone, Copy)]
enum CalendarField {
    /// From 1, Monday, to 7.
    IsoDayOfWeek,
    Decade,
    Century,
    Millennium,
    /// 1 after Christ, 0 before.
    Era,
    IsoYear,
    /// The ISO year and its week, as in 202452.
    YearWeek,
}

impl CalendarField {
    fn of(name: &str) -> Option<Self> {
        Some(match name.to_lowercase().as_str() {
            "isodow" => CalendarField::IsoDayOfWeek,
            "decade" | "decades" => CalendarField::Decade,
            "century" | "centuries" => CalendarField::Century,
            "millennium" | "millennia" => CalendarField::Millennium,
            "era" => CalendarField::Era,
            "isoyear" => CalendarField::IsoYear,
            "yearweek" => CalendarField::YearWeek,
            _ => return None,
        })
    }

    fn of_value(self, value: &ColumnarValue) -> Result<ColumnarValue> {
        let instant = DataType::Timestamp(TimeUnit::Nanosecond, None);
        let times = value.cast_to(&instant, None)?;
        let field = |times: &ArrayRef| -> ArrayRef {
            let times = times.as_primitive::<TimestampNanosecondType>().iter();
            Arc::new(times.map(|ns| ns.map(|ns| self.of_time(ns))).collect::<Int32Array>())
        };
        Ok(match times {
            ColumnarValue::Array(times) => ColumnarValue::Array(field(&times)),
            ColumnarValue::Scalar(time) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&field(&time.to_array()?), 0)?)
            }
        })
    }

    fn of_time(self, ns: i64) -> i32 {
        let date = DateTime::from_timestamp_nanos(ns).date_naive();
        let year = date.year();
        let week = date.iso_week();
        match self {
            CalendarField::IsoDayOfWeek => date.weekday().number_from_monday() as i32,
            CalendarField::Decade => year.div_euclid(10),
            CalendarField::Century => (year - 1).div_euclid(100) + 1,
            CalendarField::Millennium => (year - 1).div_euclid(1_000) + 1,
            CalendarField::Era => i32::from(year > 0),
            CalendarField::IsoYear => week.year(),
            CalendarField::YearWeek => week.year() * 100 + week.week() as i32,
        }
    }
}

/// A length of time: months, days, and a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Length {
    months: i64,
    days: i64,
    nanos: i64,
}

impl Length {
    /// A difference of times of so many units, `per_second` of which are a second.
    fn of_units(units: i64, per_second: i64) -> Self {
        let of_day = 86_400 * per_second;
        Self { months: 0, days: units / of_day, nanos: units % of_day * (SECOND / per_second) }
    }

    /// All of it in nanoseconds; a year has 365.25 days, a month beside it 30.
    pub(super) fn total(self) -> i128 {
        let (years, months) = (i128::from(self.months / 12), i128::from(self.months % 12));
        years * YEAR + months * MONTH + i128::from(self.days) * DAY + i128::from(self.nanos)
    }
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Year,
    Quarter,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
    Epoch,
}

impl Field {
    /// The field of this name, in any of the spellings that those of a timestamp have.
    fn of(name: &str) -> Option<Self> {
        let name = name.trim_matches(|c| c == '\'' || c == '"');
        match name.to_lowercase().as_str() {
            "epoch" => return Some(Field::Epoch),
            "qtr" | "quarter" => return Some(Field::Quarter),
            _ => {}
        }
        Some(match Unit::from_str(name).ok()? {
            Unit::Year => Field::Year,
            Unit::Month => Field::Month,
            Unit::Week => Field::Week,
            Unit::Day => Field::Day,
            Unit::Hour => Field::Hour,
            Unit::Minute => Field::Minute,
            Unit::Second => Field::Second,
            Unit::Millisecond => Field::Millisecond,
            Unit::Microsecond => Field::Microsecond,
            Unit::Nanosecond => Field::Nanosecond,
            _ => return None,
        })
    }

    /// The field of a length; not [`Field::Epoch`], which is no whole number.
    fn of_length(self, of: Length) -> i64 {
        match self {
            Field::Year => of.months / 12,
            Field::Quarter => of.months % 12 / 3 + 1,
            Field::Month => of.months % 12,
            Field::Week => of.days / 7,
            Field::Day => of.days,
            Field::Hour => of.nanos / HOUR,
            Field::Minute => of.nanos % HOUR / MINUTE,
            Field::Second => of.nanos % MINUTE / SECOND,
            Field::Millisecond => of.nanos % MINUTE / 1_000_000,
            Field::Microsecond => of.nanos % MINUTE / 1_000,
            Field::Nanosecond | Field::Epoch => of.nanos % MINUTE,
        }
    }

    /// The field of each value, in the type that the function has for it.
    fn of_all(self, array: &ArrayRef) -> Result<ArrayRef> {
        let lengths = lengths(array)?;
        Ok(match self {
            Field::Epoch => {
                let seconds = lengths.map(|of| of.map(|of| mean(of.total(), SECOND)));
                Arc::new(seconds.collect::<Float64Array>())
            }
            Field::Nanosecond => {
                Arc::new(lengths.map(|of| of.map(|of| self.of_length(of))).collect::<Int64Array>())
            }
            _ => {
                let value = |of: Length| match i32::try_from(self.of_length(of)) {
                    Ok(value) => Ok(value),
                    Err(_) => exec_err!("{} does not fit INT", self.of_length(of)),
                };
                let values = lengths.map(|of| of.map(value).transpose());
                Arc::new(values.collect::<Result<Int32Array>>()?)
            }
        })
    }
}

/// The lengths that values are.
pub(super) fn lengths(array: &ArrayRef) -> Result<Box<dyn Iterator<Item = Option<Length>> + '_>> {
    fn of<'a, A: ArrowPrimitiveType>(
        array: &'a ArrayRef,
        length: impl Fn(A::Native) -> Length + 'a,
    ) -> Box<dyn Iterator<Item = Option<Length>> + 'a> {
        Box::new(array.as_primitive::<A>().iter().map(move |value| value.map(&length)))
    }
    Ok(match array.data_type() {
        DataType::Duration(TimeUnit::Second) => {
            of::<DurationSecondType>(array, |units| Length::of_units(units, 1))
        }
        DataType::Duration(TimeUnit::Millisecond) => {
            of::<DurationMillisecondType>(array, |units| Length::of_units(units, 1_000))
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            of::<DurationMicrosecondType>(array, |units| Length::of_units(units, 1_000_000))
        }
        DataType::Duration(TimeUnit::Nanosecond) => {
            of::<DurationNanosecondType>(array, |units| Length::of_units(units, SECOND))
        }
        DataType::Interval(IntervalUnit::YearMonth) => {
            of::<IntervalYearMonthType>(array, |months| Length { months: months.into(), days: 0, nanos: 0 })
        }
        DataType::Interval(IntervalUnit::DayTime) => of::<IntervalDayTimeType>(array, |of| Length {
            months: 0,
            days: of.days.into(),
            nanos: i64::from(of.milliseconds) * 1_000_000,
        }),
        DataType::Interval(IntervalUnit::MonthDayNano) => of::<IntervalMonthDayNanoType>(array, |of| {
            Length { months: of.months.into(), days: of.days.into(), nanos: of.nanoseconds }
        }),
        other => return exec_err!("{other} is no length of time"),
    })
}

#[cfg(test)]
mod tests;
