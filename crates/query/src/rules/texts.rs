//! Text that becomes a UUID, a TIME, a TIMESTAMP or a DOUBLE, and a UUID that becomes text: `CAST('67e55044-…' AS UUID)`,
//! `id::VARCHAR`, `id || '!'`, `'09:30'::TIME`, `note::TIMESTAMP`.
//!
//! A UUID is 16 bytes in plans, and Arrow's casts take the bytes of a text for them; they take `'093000'` for so many
//! nanoseconds of a day, `1e400` for infinity, and know no `2024-08-08 09:30`. Such casts are calls of functions that no
//! name leads to: those that are written, and those by which types are made to agree ([`TextsOfCasts`]). A DOUBLE past
//! the largest FLOAT is no infinity either, and a DECIMAL of many digits becomes the nearest DOUBLE: Arrow rounds its
//! digits to a DOUBLE before it divides them. Where a text of a statement should be a UUID and planning cannot know
//! (`coalesce(id, '67e55044-…')`, a branch of CASE, a UNION), the statement is refused, and planned again with its texts
//! that are UUIDs cast to it (`dialect::cast_uuids`).

use crate::functions::{DOUBLE_EXACT, NAMED_CAST, NAMED_TRY_CAST, NEAREST_DOUBLE, named_cast};
use crate::named::change_named;
use crate::rules::dates::check_no_number;
use crate::rules::literals::no_instant;
use crate::texts::{
    UUID_BYTES, has_digits, no_time_of_day, no_uuid, parse_instant, parse_time_of_day, past_numbers,
    uuids_as_text,
};
use datafusion::arrow::array::builder::{Time64NanosecondBuilder, TimestampNanosecondBuilder};
use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, FixedSizeBinaryBuilder, PrimitiveArray,
};
use datafusion::arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;
use datafusion::arrow::compute::{CastOptions, cast as cast_array, cast_with_options};
use datafusion::arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Field, FieldRef, Float32Type, Float64Type, TimeUnit,
};
use datafusion::common::config::ConfigOptions;
use datafusion::common::format::DEFAULT_CAST_OPTIONS;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::utils::take_function_args;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, TryCast, Volatility, cast,
};
use datafusion::optimizer::AnalyzerRule;
use std::sync::{Arc, LazyLock};
use tickstone_wire::parse_uuid;

/// Types of statements that planning does not know: `UUID`, `SYMBOL`, PostgreSQL's of its catalog, `oid` and `name`, and
/// the names that DuckDB has for ours.
#[derive(Debug)]
pub(crate) struct OtherTypes;

impl TypePlanner for OtherTypes {
    fn plan_type_field(&self, sql_type: &sqlparser::ast::DataType) -> Result<Option<FieldRef>> {
        let data_type = match sql_type {
            sqlparser::ast::DataType::Uuid => DataType::FixedSizeBinary(UUID_BYTES),
            other => match other.to_string().trim_matches('"').to_ascii_lowercase().as_str() {
                "oid" | "uinteger" => DataType::UInt32,
                "name" | "bpchar" | "ipv4" => DataType::Utf8,
                "symbol" => DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Utf8)),
                "hugeint" | "uhugeint" => DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0),
                "ubigint" => DataType::UInt64,
                "usmallint" => DataType::UInt16,
                "utinyint" => DataType::UInt8,
                "long" => DataType::Int64,
                "short" => DataType::Int16,
                "int1" | "byte" => DataType::Int8,
                "logical" => DataType::Boolean,
                "blob" => DataType::Binary,
                "datetime" | "timestamp_s" | "timestamp_ms" | "timestamp_us" | "timestamp_ns" => {
                    DataType::Timestamp(TimeUnit::Nanosecond, None)
                }
                _ => return Ok(None),
            },
        };
        Ok(Some(Arc::new(Field::new("", data_type, true))))
    }
}

/// Reads the texts of casts by which types were made to agree. Runs after that.
#[derive(Debug)]
pub(crate) struct TextsOfCasts;

impl AnalyzerRule for TextsOfCasts {
    fn name(&self) -> &str {
        "texts_of_casts"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = plan.transform_up_with_subqueries(|plan| {
            let schema = match plan.inputs().as_slice() {
                [] => DFSchema::clone(plan.schema()),
                inputs => merge_schema(inputs),
            };
            change_named(plan, |expr| {
                expr.transform_up(|expr| {
                    check_no_number(&expr, &schema)?;
                    cast_as_printed(expr, &schema)?.transform_data(|expr| cast_in_words(expr, &schema))
                })
            })
        })?;
        Ok(changed.data)
    }
}

/// Casts of texts to UUIDs, times and DOUBLEs, and of UUIDs to text, as calls; see the file's header.
///
/// # Errors
/// Those of types that are not known.
pub(crate) fn cast_in_words(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (value, to, tries) = match &expr {
        Expr::Cast(Cast { expr, field }) => (expr, field.data_type(), false),
        Expr::TryCast(TryCast { expr, field }) => (expr, field.data_type(), true),
        _ => return Ok(Transformed::no(expr)),
    };
    let which = match to {
        to if is_uuid(to) => Which::Uuid { tries },
        to if is_time_of_day(to) => Which::Time { tries },
        to if is_instant(to) => Which::Instant { tries },
        DataType::Float64 if is_long_decimal(&value.get_type(schema)?) => Which::Nearest,
        DataType::Float64 => Which::Double { tries },
        DataType::Float32 => Which::Float { tries },
        to if is_text(to) => Which::UuidText,
        to if is_made_text(value) => {
            return Ok(Transformed::yes(named_cast(value.as_ref().clone(), to, tries)));
        }
        _ => return Ok(Transformed::no(expr)),
    };
    let from = value.get_type(schema)?;
    let is_read = match which {
        Which::UuidText => is_uuid(&from),
        Which::Nearest => true,
        Which::Float { .. } => is_text(&from) || from == DataType::Float64,
        _ => is_text(&from),
    };
    if !is_read {
        return Ok(Transformed::no(expr));
    }
    let call = function(which).call(vec![value.as_ref().clone()]);
    let is_of_type = to == &which.gives();
    Ok(Transformed::yes(if is_of_type { call } else { cast(call, to.clone()) }))
}

/// A cast of a DOUBLE to a DECIMAL as a call, which gives the digits that are printed.
///
/// # Errors
/// Those of types that are not known.
fn cast_as_printed(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (value, to, tries) = match &expr {
        Expr::Cast(Cast { expr, field }) => (expr, field.data_type(), false),
        Expr::TryCast(TryCast { expr, field }) => (expr, field.data_type(), true),
        _ => return Ok(Transformed::no(expr)),
    };
    Ok(match matches!(to, DataType::Decimal128(..)) && value.get_type(schema)?.is_floating() {
        true => Transformed::yes(named_cast(value.as_ref().clone(), to, tries)),
        false => Transformed::no(expr),
    })
}

/// Whether an expression is a value cast to text. DataFusion carries the bounds of what is cast through such a text, where
/// '5' comes after '100', and fails; it knows nothing of a call.
fn is_made_text(value: &Expr) -> bool {
    match value {
        Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. }) => is_text(field.data_type()),
        _ => false,
    }
}

/// What an expression casts to a number: a cast, or a call in its place.
pub(crate) fn cast_to_number(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::Cast(Cast { expr, field }) if field.data_type().is_numeric() => Some(expr),
        Expr::ScalarFunction(call) => {
            let which = call.func.inner().downcast_ref::<TextFunction>().map(|function| function.which);
            let is_cast = matches!(which, Some(Which::Double { .. } | Which::Float { .. } | Which::Nearest))
                || [NAMED_CAST, NAMED_TRY_CAST].contains(&call.name());
            call.args.first().filter(|_| is_cast)
        }
        _ => None,
    }
}

/// A UUID as text.
pub(crate) fn written(expr: Expr) -> Expr {
    UUID_TEXT.call(vec![expr])
}

pub(crate) fn is_uuid(data_type: &DataType) -> bool {
    *data_type == DataType::FixedSizeBinary(UUID_BYTES)
}

fn is_time_of_day(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Time32(_) | DataType::Time64(_))
}

fn is_instant(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(TimeUnit::Nanosecond, None))
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_text(values),
        other => other.is_string(),
    }
}

/// Which of the functions; one that tries gives NULL where a text is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Which {
    Uuid {
        tries: bool,
    },
    Time {
        tries: bool,
    },
    Instant {
        tries: bool,
    },
    Double {
        tries: bool,
    },
    Float {
        tries: bool,
    },
    /// A DECIMAL as the nearest DOUBLE.
    Nearest,
    UuidText,
}

impl Which {
    /// The type of what it makes.
    fn gives(self) -> DataType {
        match self {
            Which::Uuid { .. } => DataType::FixedSizeBinary(UUID_BYTES),
            Which::Time { .. } => DataType::Time64(TimeUnit::Nanosecond),
            Which::Instant { .. } => DataType::Timestamp(TimeUnit::Nanosecond, None),
            Which::Double { .. } | Which::Nearest => DataType::Float64,
            Which::Float { .. } => DataType::Float32,
            Which::UuidText => DataType::Utf8,
        }
    }

    fn tries(self) -> bool {
        match self {
            Which::Uuid { tries }
            | Which::Time { tries }
            | Which::Instant { tries }
            | Which::Double { tries }
            | Which::Float { tries } => tries,
            Which::Nearest | Which::UuidText => false,
        }
    }
}

static UUID_TEXT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(Which::UuidText));

fn function(which: Which) -> Arc<ScalarUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::from(TextFunction { which, signature }))
}

/// Whether a function stands in the place of a cast of a text.
pub(crate) fn is_cast_of_text(function: &ScalarUDF) -> bool {
    function.inner().downcast_ref::<TextFunction>().is_some()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TextFunction {
    which: Which,
    signature: Signature,
}

impl ScalarUDFImpl for TextFunction {
    fn name(&self) -> &str {
        match self.which {
            Which::Uuid { tries: false } => "__uuid",
            Which::Uuid { tries: true } => "__try_uuid",
            Which::Time { tries: false } => "__time",
            Which::Time { tries: true } => "__try_time",
            Which::Instant { tries: false } => "__instant",
            Which::Instant { tries: true } => "__try_instant",
            Which::Double { tries: false } => "__double",
            Which::Double { tries: true } => "__try_double",
            Which::Float { tries: false } => "__float",
            Which::Float { tries: true } => "__try_float",
            Which::Nearest => NEAREST_DOUBLE,
            Which::UuidText => "__uuid_text",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.which.gives())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let nullable = self.which.tries() || args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.return_type(&[])?, nullable)))
    }

    // Without casts in the name: what a statement calls its columns does not change.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let [value] = take_function_args(self.name(), args)?;
        Ok(value.schema_name().to_string())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let [value] = take_function_args(self.name(), args.args)?;
        let is_constant = matches!(value, ColumnarValue::Scalar(_));
        let values = value.into_array(if is_constant { 1 } else { rows })?;
        let made = match self.which {
            Which::UuidText => uuids_as_text(&values)?,
            Which::Nearest => nearest_doubles(&values)?,
            Which::Uuid { tries } => read_uuids(&values, tries)?,
            Which::Time { tries } => read_times(&values, tries)?,
            Which::Instant { tries } => read_instants(&values, tries)?,
            Which::Double { tries } => read_numbers::<Float64Type>(&values, tries)?,
            Which::Float { tries } => read_numbers::<Float32Type>(&values, tries)?,
        };
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
            false => ColumnarValue::Array(made),
        })
    }
}

/// Whether some DECIMALs of a type have more digits than a DOUBLE.
pub(crate) fn is_long_decimal(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal128(precision, _) | DataType::Decimal256(precision, _) if *precision > 15)
}

/// DECIMALs as the nearest DOUBLEs.
pub(crate) fn nearest_doubles(values: &ArrayRef) -> Result<ArrayRef> {
    // Every power of ten up to 10^22 is a DOUBLE, too: the quotient is rounded once.
    let (Some(decimals), DataType::Decimal128(_, scale @ 0..=22)) =
        (values.as_primitive_opt::<Decimal128Type>(), values.data_type())
    else {
        return read_decimals(values);
    };
    if decimals.iter().flatten().any(|digits| !(-DOUBLE_EXACT..=DOUBLE_EXACT).contains(&digits)) {
        return read_decimals(values);
    }
    let power = 10_f64.powi(i32::from(*scale));
    Ok(Arc::new(decimals.unary::<_, Float64Type>(|digits| digits as f64 / power)))
}

/// The same digit by digit.
fn read_decimals(values: &ArrayRef) -> Result<ArrayRef> {
    let texts = cast_array(values, &DataType::Utf8)?;
    read_numbers::<Float64Type>(&texts, false)
}

fn read_uuids(values: &ArrayRef, tries: bool) -> Result<ArrayRef> {
    let texts = cast_array(values, &DataType::Utf8)?;
    let mut uuids = FixedSizeBinaryBuilder::with_capacity(texts.len(), UUID_BYTES);
    for text in texts.as_string::<i32>() {
        match text.map(|text| (text, parse_uuid(text.trim().as_bytes()))) {
            Some((_, Some(uuid))) => uuids.append_value(uuid)?,
            Some((text, None)) if !tries => return Err(no_uuid(text)),
            _ => uuids.append_null(),
        }
    }
    Ok(Arc::new(uuids.finish()))
}

/// Numbers as Arrow reads them, other than those that it makes infinite of a finite one.
fn read_numbers<T: ArrowPrimitiveType>(values: &ArrayRef, tries: bool) -> Result<ArrayRef>
where
    T::Native: Into<f64>,
{
    let options = CastOptions { safe: tries, ..DEFAULT_CAST_OPTIONS };
    let read = cast_with_options(values, &T::DATA_TYPE, &options)?;
    let numbers = read.as_primitive::<T>();
    let is_infinite = |row: usize| numbers.is_valid(row) && numbers.value(row).into().is_infinite();
    if !(0..numbers.len()).any(is_infinite) {
        return Ok(read);
    }
    let texts = cast_array(values, &DataType::Utf8)?;
    let texts = texts.as_string::<i32>();
    let is_past = |row: usize| is_infinite(row) && has_digits(texts.value(row));
    match (0..numbers.len()).find(|row| is_past(*row)) {
        Some(row) if !tries => Err(past_numbers(texts.value(row), &T::DATA_TYPE)),
        Some(_) => {
            let there = (0..numbers.len())
                .map(|row| (numbers.is_valid(row) && !is_past(row)).then(|| numbers.value(row)));
            Ok(Arc::new(there.collect::<PrimitiveArray<T>>()))
        }
        None => Ok(read),
    }
}

fn read_times(values: &ArrayRef, tries: bool) -> Result<ArrayRef> {
    let texts = cast_array(values, &DataType::Utf8)?;
    let mut times = Time64NanosecondBuilder::with_capacity(texts.len());
    for text in texts.as_string::<i32>() {
        match text.map(|text| (text, parse_time_of_day(text))) {
            Some((text, None)) if !tries => return Err(no_time_of_day(text)),
            read => times.append_option(read.and_then(|(_, time)| time)),
        }
    }
    Ok(Arc::new(times.finish()))
}

/// Times as a literal has them, `2024-08-08 09:30` and `2024-08` too, and as Arrow reads them, which has no minutes without
/// seconds but more forms of zones.
fn read_instants(values: &ArrayRef, tries: bool) -> Result<ArrayRef> {
    let texts = cast_array(values, &DataType::Utf8)?;
    let mut times = TimestampNanosecondBuilder::with_capacity(texts.len());
    for text in texts.as_string::<i32>() {
        let Some(text) = text else {
            times.append_null();
            continue;
        };
        match parse_instant(text) {
            Some(nanos) => times.append_value(nanos),
            None if tries => times.append_option(string_to_timestamp_nanos(text).ok()),
            None => times.append_value(string_to_timestamp_nanos(text).map_err(|_| no_instant(text))?),
        }
    }
    Ok(Arc::new(times.finish()))
}
