//! Text that becomes a UUID, a TIME or a TIMESTAMP, and a UUID that becomes text: `CAST('67e55044-…' AS UUID)`,
//! `id::VARCHAR`, `id || '!'`, `'09:30'::TIME`, `note::TIMESTAMP`.
//!
//! A UUID is 16 bytes in plans, and Arrow's casts take the bytes of a text for them; and they take `'093000'` for so many
//! nanoseconds of a day, and know no `2024-08-08 09:30`. Such casts are calls of functions that no name leads to. Where a
//! text of a statement should be a UUID and planning cannot know (`coalesce(id, '67e55044-…')`, a branch of CASE, a UNION),
//! the statement is refused, and planned again with its texts that are UUIDs cast to it (`dialect::cast_uuids`).

use crate::texts::{UUID_BYTES, no_time_of_day, no_uuid, parse_instant, parse_time_of_day, uuids_as_text};
use datafusion::arrow::array::builder::{Time64NanosecondBuilder, TimestampNanosecondBuilder};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryBuilder};
use datafusion::arrow::compute::cast as cast_array;
use datafusion::arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;
use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::utils::take_function_args;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, TryCast, Volatility, cast,
};
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
                "name" | "bpchar" => DataType::Utf8,
                "symbol" => DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Utf8)),
                "hugeint" | "uhugeint" => DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0),
                "ubigint" => DataType::UInt64,
                "usmallint" => DataType::UInt16,
                "utinyint" => DataType::UInt8,
                "long" => DataType::Int64,
                "short" => DataType::Int16,
                "int1" => DataType::Int8,
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

/// Casts of texts to UUIDs and TIMEs, and of UUIDs to text, as calls; see the file's header.
///
/// # Errors
/// Those of types that are not known.
pub(crate) fn cast_in_words(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (value, to, read) = match &expr {
        Expr::Cast(Cast { expr, field }) => (expr, field.data_type(), [&UUID, &TIME, &INSTANT]),
        Expr::TryCast(TryCast { expr, field }) => {
            (expr, field.data_type(), [&TRY_UUID, &TRY_TIME, &TRY_INSTANT])
        }
        _ => return Ok(Transformed::no(expr)),
    };
    if !is_uuid(to) && !is_time_of_day(to) && !is_text(to) && !is_instant(to) {
        return Ok(Transformed::no(expr));
    }
    let from = value.get_type(schema)?;
    let call = |function: &LazyLock<Arc<ScalarUDF>>| function.call(vec![value.as_ref().clone()]);
    let [uuid, time, instant] = read;
    Ok(match (is_text(&from), is_uuid(&from)) {
        (true, _) if is_uuid(to) => Transformed::yes(call(uuid)),
        (true, _) if is_time_of_day(to) => Transformed::yes(cast(call(time), to.clone())),
        (true, _) if is_instant(to) => Transformed::yes(call(instant)),
        (_, true) if is_text(to) => Transformed::yes(cast(call(&UUID_TEXT), to.clone())),
        _ => Transformed::no(expr),
    })
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
    Uuid { tries: bool },
    Time { tries: bool },
    Instant { tries: bool },
    UuidText,
}

static UUID: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(Which::Uuid { tries: false }));
static TRY_UUID: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(Which::Uuid { tries: true }));
static TIME: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(Which::Time { tries: false }));
static TRY_TIME: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(Which::Time { tries: true }));
static INSTANT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(Which::Instant { tries: false }));
static TRY_INSTANT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(Which::Instant { tries: true }));
static UUID_TEXT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(Which::UuidText));

fn function(which: Which) -> Arc<ScalarUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::from(TextFunction { which, signature }))
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
            Which::UuidText => "__uuid_text",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(match self.which {
            Which::Uuid { .. } => DataType::FixedSizeBinary(UUID_BYTES),
            Which::Time { .. } => DataType::Time64(TimeUnit::Nanosecond),
            Which::Instant { .. } => DataType::Timestamp(TimeUnit::Nanosecond, None),
            Which::UuidText => DataType::Utf8,
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let tries = matches!(
            self.which,
            Which::Uuid { tries: true } | Which::Time { tries: true } | Which::Instant { tries: true }
        );
        let nullable = tries || args.arg_fields.iter().any(|field| field.is_nullable());
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
            Which::Uuid { tries } => read_uuids(&values, tries)?,
            Which::Time { tries } => read_times(&values, tries)?,
            Which::Instant { tries } => read_instants(&values, tries)?,
        };
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
            false => ColumnarValue::Array(made),
        })
    }
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
            None => times.append_value(string_to_timestamp_nanos(text)?),
        }
    }
    Ok(Arc::new(times.finish()))
}
