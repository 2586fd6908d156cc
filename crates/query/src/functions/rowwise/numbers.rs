//! Functions of numbers.

use super::{Rowwise, valid_rows};
use datafusion::arrow::array::{
    ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, IntervalMonthDayNanoArray,
};
use datafusion::arrow::datatypes::{
    DataType, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion::common::{exec_datafusion_err, exec_err};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, ScalarUDF};
use std::sync::Arc;

const DAY_NS: f64 = 86_400e9;

pub(super) const ALL: &[Rowwise] = &[
    Rowwise {
        name: "sign",
        usage: "sign(x)",
        about: "-1, 0 or 1: the sign of a number; 0 of NaN",
        takes: one_number,
        gives: |_| DataType::Int64,
        value: |args| {
            let sign = |x: f64| i64::from(x > 0.0) - i64::from(x < 0.0);
            Ok(Arc::new(doubles(args).map(|x| x.map(sign)).collect::<Int64Array>()))
        },
    },
    Rowwise {
        name: "isinf",
        usage: "isinf(x)",
        about: "whether a number is infinite",
        takes: one_number,
        gives: |_| DataType::Boolean,
        value: |args| Ok(Arc::new(doubles(args).map(|x| x.map(f64::is_infinite)).collect::<BooleanArray>())),
    },
    Rowwise {
        name: "isfinite",
        usage: "isfinite(x)",
        about: "whether a number is neither infinite nor NaN",
        takes: one_number,
        gives: |_| DataType::Boolean,
        value: |args| Ok(Arc::new(doubles(args).map(|x| x.map(f64::is_finite)).collect::<BooleanArray>())),
    },
    Rowwise {
        name: "bit_count",
        usage: "bit_count(n)",
        about: "how many bits of a whole number are set",
        takes: |types| match types {
            [of] if of.is_integer() || of.is_null() => Some(vec![DataType::Int64]),
            _ => None,
        },
        gives: |_| DataType::Int64,
        value: |args| {
            let bits = args[0].as_primitive::<Int64Type>().iter();
            Ok(Arc::new(bits.map(|n| n.map(|n| i64::from(n.count_ones()))).collect::<Int64Array>()))
        },
    },
    Rowwise {
        name: "log",
        usage: "log(base, x)",
        about: "the logarithm of a number as a DOUBLE; of base 10 where there is no base",
        takes: |types| match types {
            [_] => one_number(types),
            [base, of] => [one_number(std::slice::from_ref(base))?, one_number(std::slice::from_ref(of))?]
                .concat()
                .into(),
            _ => None,
        },
        gives: |_| DataType::Float64,
        value: |args| {
            let log = |base: f64, x: f64| match base {
                10.0 => x.log10(),
                2.0 => x.log2(),
                base => x.ln() / base.ln(),
            };
            let logs: Float64Array = match args {
                [bases, of] => {
                    let bases = bases.as_primitive::<Float64Type>().iter();
                    let pairs = bases.zip(of.as_primitive::<Float64Type>());
                    pairs.map(|(base, x)| Some(log(base?, x?))).collect()
                }
                args => doubles(args).map(|x| x.map(f64::log10)).collect(),
            };
            Ok(Arc::new(logs))
        },
    },
    Rowwise {
        name: "width_bucket",
        usage: "width_bucket(x, low, high, count)",
        about: "which of so many buckets of equal width between two bounds a number falls into: 0 below, count + 1 from high on; high may be the lower bound",
        takes: |types| match types {
            [bounds @ .., count] if bounds.len() == 3 && (count.is_integer() || count.is_null()) => {
                let takes = bounds.iter().map(|of| Some(one_number(std::slice::from_ref(of))?[0].clone()));
                takes.chain([Some(DataType::Int64)]).collect()
            }
            _ => None,
        },
        gives: |_| DataType::Int64,
        value: |args| {
            let number = |at: usize, row: usize| args[at].as_primitive::<Float64Type>().value(row);
            let of = |row| {
                width_bucket(
                    number(0, row),
                    number(1, row),
                    number(2, row),
                    args[3].as_primitive::<Int64Type>().value(row),
                )
            };
            let buckets = valid_rows(args).map(|row| row.map(of).transpose());
            Ok(Arc::new(buckets.collect::<Result<Int64Array>>()?))
        },
    },
    Rowwise {
        name: TIMES,
        usage: "__times(interval, n)",
        about: "an INTERVAL as often as a number says",
        takes: |types| match types {
            [DataType::Interval(_) | DataType::Null, n] if n.is_numeric() || n.is_null() => {
                Some(vec![DataType::Interval(IntervalUnit::MonthDayNano), DataType::Float64])
            }
            _ => None,
        },
        gives: |_| DataType::Interval(IntervalUnit::MonthDayNano),
        value: |args| {
            let intervals = args[0].as_primitive::<IntervalMonthDayNanoType>();
            let numbers = args[1].as_primitive::<Float64Type>();
            let rows = valid_rows(args)
                .map(|row| row.map(|row| multiplied(intervals.value(row), numbers.value(row))).transpose());
            Ok(Arc::new(rows.collect::<Result<IntervalMonthDayNanoArray>>()?))
        },
    },
];

const TIMES: &str = "__times";

/// The call that multiplies an interval by a number.
pub(crate) fn times(interval: Expr, number: Expr) -> Expr {
    let of = ALL.iter().find(|of| of.name == TIMES).expect("it is in the table");
    ScalarUDF::from(super::Function::new(of)).call(vec![interval, number])
}

/// As PostgreSQL's function of the name.
fn width_bucket(x: f64, low: f64, high: f64, count: i64) -> Result<i64> {
    if count <= 0 || count == i64::MAX {
        return exec_err!("width_bucket takes a count above 0, not {count}");
    }
    if [x, low, high].iter().any(|of| of.is_nan()) || !low.is_finite() || !high.is_finite() || low == high {
        return exec_err!("width_bucket takes two finite bounds that differ, and no NaN: {x}, {low}, {high}");
    }
    let (is_before, is_after) = if low < high { (x < low, x >= high) } else { (x > low, x <= high) };
    Ok(match (is_before, is_after) {
        (true, _) => 0,
        (_, true) => count + 1,
        // What is rounded up to the upper bound is below it all the same.
        _ => 1 + (((x - low) / (high - low) * count as f64) as i64).min(count - 1),
    })
}

fn one_number(types: &[DataType]) -> Option<Vec<DataType>> {
    match types {
        [of] if of.is_numeric() || of.is_null() => Some(vec![DataType::Float64]),
        _ => None,
    }
}

fn doubles(args: &[ArrayRef]) -> impl Iterator<Item = Option<f64>> {
    args[0].as_primitive::<Float64Type>().iter()
}

/// An interval by a number: months and days that do not come out whole go on as days and time, a month of 30 days, as
/// in PostgreSQL.
fn multiplied(of: IntervalMonthDayNano, by: f64) -> Result<IntervalMonthDayNano> {
    let too_long = || exec_datafusion_err!("the interval is longer than INTERVAL can hold");
    let whole =
        |x: f64, most: f64| (x.is_finite() && x.abs() <= most).then_some(x.trunc()).ok_or_else(too_long);
    let months = f64::from(of.months) * by;
    let whole_months = whole(months, f64::from(i32::MAX))?;
    let days = f64::from(of.days) * by + (months - whole_months) * 30.0;
    let whole_days = whole(days, f64::from(i32::MAX))?;
    let rest = (days - whole_days) * DAY_NS;
    let nanos = match (by.fract() == 0.0, rest == 0.0) {
        // No digit of a whole multiple is lost.
        (true, true) if by.abs() < 9e15 => of.nanoseconds.checked_mul(by as i64).ok_or_else(too_long)?,
        _ => whole((of.nanoseconds as f64 * by + rest).round(), 9.2e18)? as i64,
    };
    Ok(IntervalMonthDayNano::new(whole_months as i32, whole_days as i32, nanos))
}
