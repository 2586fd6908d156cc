//! `__nanoseconds(length)`: how long an INTERVAL or a difference of times is, as a DECIMAL(38, 0).

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, DurationNanosecondType, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use std::sync::Arc;

/// Name of the function.
const NANOSECONDS: &str = "__nanoseconds";

const RESULT: DataType = DataType::Decimal128(38, 0);

const DAY: i128 = 86_400_000_000_000;

/// The nanoseconds of so many months of 30 days, days of 24 hours and nanoseconds.
pub(super) fn of(months: i32, days: i32, nanoseconds: i64) -> i128 {
    (i128::from(months) * 30 + i128::from(days)) * DAY + i128::from(nanoseconds)
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Nanoseconds {
    signature: Signature,
}

impl Default for Nanoseconds {
    fn default() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Nanoseconds {
    fn name(&self) -> &str {
        NANOSECONDS
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(RESULT)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let lengths = ColumnarValue::values_to_arrays(&args.args)?;
        let [lengths] = lengths.as_slice() else { return exec_err!("{NANOSECONDS} takes a length of time") };
        let nanoseconds: ArrayRef = Arc::new(count(lengths)?.with_data_type(RESULT));
        let is_scalar = matches!(args.args.as_slice(), [ColumnarValue::Scalar(_)]);
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&nanoseconds, 0)?),
            false => ColumnarValue::Array(nanoseconds),
        })
    }
}

fn count(lengths: &ArrayRef) -> Result<Decimal128Array> {
    match lengths.data_type() {
        DataType::Interval(_) => {
            let lengths = cast(lengths, &DataType::Interval(IntervalUnit::MonthDayNano))?;
            let lengths = lengths.as_primitive::<IntervalMonthDayNanoType>().iter();
            Ok(lengths.map(|length| length.map(|l| of(l.months, l.days, l.nanoseconds))).collect())
        }
        DataType::Duration(_) => {
            let lengths = cast(lengths, &DataType::Duration(TimeUnit::Nanosecond))?;
            let lengths = lengths.as_primitive::<DurationNanosecondType>().iter();
            Ok(lengths.map(|length| length.map(i128::from)).collect())
        }
        DataType::Null => Ok(Decimal128Array::new_null(lengths.len())),
        other => exec_err!("{NANOSECONDS} takes a length of time, not {other}"),
    }
}
