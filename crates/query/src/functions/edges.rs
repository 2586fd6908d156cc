//! Functions of DataFusion 55.2 that answer wrongly at the edges of what they take.
//!
//! | function | at the edge | here |
//! |---|---|---|
//! | `to_timestamp` | a DOUBLE that is NaN or too large is 1970 or 2262 | an error |
//! | `to_timestamp_seconds`, …, `from_unixtime` | a time of another unit that no TIMESTAMP is of | an error |
//! | `date_bin` | a bin that begins before 1677 is NULL | an error |
//! | `array_position` | a place to begin at below 1 panics or wraps | an error |
//! | `array_has` | a list with a NULL that is written out is looked through as by IN | as one in a column |

use super::handed_on::handed_on;
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};
use std::sync::Arc;

/// What is wrong at its edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Edge {
    /// Makes instants of numbers and texts.
    Instant,
    Bin,
    Position,
    Has,
}

const EDGED: [(&str, Edge); 9] = [
    ("to_timestamp", Edge::Instant),
    ("to_timestamp_seconds", Edge::Instant),
    ("to_timestamp_millis", Edge::Instant),
    ("to_timestamp_micros", Edge::Instant),
    ("to_timestamp_nanos", Edge::Instant),
    ("from_unixtime", Edge::Instant),
    ("date_bin", Edge::Bin),
    ("array_position", Edge::Position),
    ("array_has", Edge::Has),
];

/// The functions as they are, those of this file with their edges.
pub(super) fn right(functions: Vec<Arc<ScalarUDF>>) -> Vec<Arc<ScalarUDF>> {
    let right = |function: Arc<ScalarUDF>| match EDGED.iter().find(|(name, _)| *name == function.name()) {
        Some((_, edge)) => Arc::new(ScalarUDF::from(Edged { inner: function, edge: *edge })),
        None => function,
    };
    functions.into_iter().map(right).collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Edged {
    inner: Arc<ScalarUDF>,
    edge: Edge,
}

impl ScalarUDFImpl for Edged {
    handed_on!(
        inner: name, aliases, signature, coerce_types, return_type, return_field_from_args, is_strict,
        properties, documentation
    );

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let inner = Arc::new(self.inner.inner().with_updated_config(config)?);
        Some(ScalarUDF::from(Self { inner, edge: self.edge }))
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match self.edge {
            // What it becomes is IN, which is NULL where nothing is found beside a NULL.
            Edge::Has if args.first().is_none_or(|list| !is_full(list)) => {
                Ok(ExprSimplifyResult::Original(args))
            }
            _ => self.inner.simplify(args, info),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match (self.edge, args.args.as_slice()) {
            (Edge::Instant, [of, ..]) => {
                if self.name() == "to_timestamp" {
                    check_seconds(of)?;
                }
                let made = self.inner.invoke_with_args(args)?;
                check_instants(self.name(), &made)?;
                Ok(made)
            }
            (Edge::Bin, [_, of, ..]) => {
                let of = of.clone();
                let is_null =
                    |arg: &ColumnarValue| matches!(arg, ColumnarValue::Scalar(value) if value.is_null());
                let is_known = !args.args.iter().any(is_null);
                let made = self.inner.invoke_with_args(args)?;
                if is_known {
                    check_bins(&of, &made)?;
                }
                Ok(made)
            }
            (Edge::Position, [_, _, from]) => {
                check_places(from)?;
                self.inner.invoke_with_args(args)
            }
            _ => self.inner.invoke_with_args(args),
        }
    }
}

/// Whether a list is written out, with elements none of which is NULL.
fn is_full(list: &Expr) -> bool {
    let Expr::Literal(ScalarValue::List(list), _) = list else { return false };
    list.len() == 1
        && list.is_valid(0)
        && !list.value(0).is_empty()
        && list.value(0).logical_null_count() == 0
}

fn outside(name: &str, of: impl std::fmt::Display) -> Result<()> {
    exec_err!("{name}({of}) lies outside the years 1677 to 2262")
}

/// Refuses numbers of seconds that no instant is of.
fn check_seconds(seconds: &ColumnarValue) -> Result<()> {
    /// The first number of nanoseconds past the last instant; as far before 1970 is the first one.
    const END: f64 = -(i64::MIN as f64);
    if !seconds.data_type().is_floating() {
        return Ok(());
    }
    let seconds = cast(&seconds.to_array(1)?, &DataType::Float64)?;
    let is_outside = |seconds: &f64| !(-END..END).contains(&(seconds * 1e9));
    match seconds.as_primitive::<Float64Type>().iter().flatten().find(is_outside) {
        Some(seconds) => outside("to_timestamp", format!("{seconds:?}")),
        None => Ok(()),
    }
}

/// Refuses times of a longer unit that a TIMESTAMP, which counts nanoseconds, has no room for.
fn check_instants(name: &str, made: &ColumnarValue) -> Result<()> {
    let DataType::Timestamp(unit, zone) = made.data_type() else { return Ok(()) };
    if unit == TimeUnit::Nanosecond {
        return Ok(());
    }
    let times = made.to_array(1)?;
    // It is NULL where it does not fit.
    let instants = cast(&times, &DataType::Timestamp(TimeUnit::Nanosecond, zone))?;
    match lost(&times, &instants) {
        Some(at) => {
            let counts = cast(&times, &DataType::Int64)?;
            outside(name, counts.as_primitive::<Int64Type>().value(at))
        }
        None => Ok(()),
    }
}

/// Refuses bins that begin where no TIMESTAMP is.
fn check_bins(times: &ColumnarValue, bins: &ColumnarValue) -> Result<()> {
    let (times, bins) = (times.to_array(1)?, bins.to_array(1)?);
    match lost(&times, &bins) {
        Some(at) => {
            let time = array_value_to_string(&times, at)?;
            exec_err!("the bin of {time} begins outside the years 1677 to 2262")
        }
        None => Ok(()),
    }
}

/// The first row whose value became none.
fn lost(from: &ArrayRef, to: &ArrayRef) -> Option<usize> {
    if from.null_count() == to.null_count() {
        return None;
    }
    (0..from.len()).find(|row| from.is_valid(*row) && to.is_null(*row))
}

/// Refuses places in a list to begin at that are before its first.
fn check_places(places: &ColumnarValue) -> Result<()> {
    let places = places.to_array(1)?;
    let Some(places) = places.as_primitive_opt::<Int64Type>() else { return Ok(()) };
    match places.iter().flatten().find(|place| *place < 1) {
        Some(place) => exec_err!("array_position begins at place 1 or later, not at {place}"),
        None => Ok(()),
    }
}
