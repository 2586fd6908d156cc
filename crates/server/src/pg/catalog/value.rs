//! Values of the catalog's tables and functions, and columns of them.

use std::sync::Arc;
use tickstone_query::arrow::array::{
    Array, ArrayRef, AsArray, BooleanBuilder, Float32Builder, Float64Builder, Int16Builder, Int32Builder,
    Int64Builder, ListBuilder, StringBuilder, StructBuilder, TimestampNanosecondBuilder, UInt32Builder,
};
use tickstone_query::arrow::compute::cast;
use tickstone_query::arrow::datatypes::{DataType, Field, Fields, Int64Type, TimeUnit};
use tickstone_query::arrow::error::ArrowError;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Ints(Vec<i64>),
    Texts(Vec<Option<String>>),
    /// That the function does not do what is asked, and what does.
    Refused {
        what: String,
        hint: &'static str,
    },
}

impl Value {
    pub(super) fn int(&self) -> Option<i64> {
        match self {
            Value::Int(value) => Some(*value),
            Value::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

macro_rules! value_from {
    ($($from:ty => $make:expr),* $(,)?) => {
        $(impl From<$from> for Value {
            fn from(value: $from) -> Self {
                $make(value)
            }
        })*
    };
}

value_from! {
    bool => Value::Bool,
    f64 => Value::Float,
    i64 => Value::Int,
    i32 => |value| Value::Int(i64::from(value)),
    i16 => |value| Value::Int(i64::from(value)),
    u32 => |value| Value::Int(i64::from(value)),
    String => Value::Text,
    &str => |value: &str| Value::Text(value.to_string()),
    Vec<i64> => Value::Ints,
    Vec<String> => |value: Vec<String>| Value::Texts(value.into_iter().map(Some).collect()),
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

/// The type of a column, of those that the catalog has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Oid,
    Text,
    Time,
    Int2s,
    Int4s,
    Oids,
    Texts,
    Floats,
    /// Rows of a value `x` and its place `n`, as `_pg_expandarray` gives them.
    Places,
}

impl Kind {
    /// That of a type as `shapes.txt` has it.
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "bool" => Kind::Bool,
            "int2" => Kind::Int2,
            "int4" => Kind::Int4,
            "int8" => Kind::Int8,
            "float4" => Kind::Float4,
            "float8" => Kind::Float8,
            "oid" => Kind::Oid,
            "char" | "name" | "regproc" | "text" => Kind::Text,
            "timestamptz" => Kind::Time,
            "_int2" | "int2vector" => Kind::Int2s,
            "_oid" | "oidvector" => Kind::Oids,
            "_text" => Kind::Texts,
            "_float4" => Kind::Floats,
            _ => return None,
        })
    }

    pub(super) fn data_type(self) -> DataType {
        let list = |element| DataType::List(Arc::new(Field::new_list_field(element, true)));
        match self {
            Kind::Bool => DataType::Boolean,
            Kind::Int2 => DataType::Int16,
            Kind::Int4 => DataType::Int32,
            Kind::Int8 => DataType::Int64,
            Kind::Float4 => DataType::Float32,
            Kind::Float8 => DataType::Float64,
            Kind::Oid => DataType::UInt32,
            Kind::Text => DataType::Utf8,
            Kind::Time => DataType::Timestamp(TimeUnit::Nanosecond, None),
            Kind::Int2s => list(DataType::Int16),
            Kind::Int4s => list(DataType::Int32),
            Kind::Oids => list(DataType::UInt32),
            Kind::Texts => list(DataType::Utf8),
            Kind::Floats => list(DataType::Float32),
            Kind::Places => list(DataType::Struct(places())),
        }
    }

    /// What a column holds where nobody says: nothing in one whose values differ in length, as of PostgreSQL's own tables
    /// only such may be NULL.
    pub(super) fn unsaid(self) -> Value {
        match self {
            Kind::Bool => Value::Bool(false),
            Kind::Int2 | Kind::Int4 | Kind::Int8 | Kind::Oid => Value::Int(0),
            Kind::Float4 | Kind::Float8 => Value::Float(0.0),
            _ => Value::Null,
        }
    }
}

fn places() -> Fields {
    Fields::from(vec![Field::new("x", DataType::Int32, true), Field::new("n", DataType::Int32, true)])
}

/// A column of values of one kind; what does not fit is NULL.
pub(super) fn column(kind: Kind, values: &[Value]) -> ArrayRef {
    macro_rules! scalars {
        ($builder:expr, $get:expr) => {{
            let mut builder = $builder;
            values.iter().for_each(|value| builder.append_option($get(value)));
            Arc::new(builder.finish())
        }};
    }
    macro_rules! lists {
        ($builder:expr, $variant:path, $get:expr) => {{
            let mut builder = ListBuilder::new($builder);
            for value in values {
                if let $variant(items) = value {
                    items.iter().for_each(|item| builder.values().append_option($get(item)));
                }
                builder.append(matches!(value, $variant(_)));
            }
            Arc::new(builder.finish())
        }};
    }
    match kind {
        Kind::Bool => scalars!(BooleanBuilder::new(), |value: &Value| match value {
            Value::Bool(value) => Some(*value),
            _ => None,
        }),
        Kind::Int2 => {
            scalars!(Int16Builder::new(), |value: &Value| value.int().and_then(|n| i16::try_from(n).ok()))
        }
        Kind::Int4 => {
            scalars!(Int32Builder::new(), |value: &Value| value.int().and_then(|n| i32::try_from(n).ok()))
        }
        Kind::Int8 => scalars!(Int64Builder::new(), Value::int),
        Kind::Oid => {
            scalars!(UInt32Builder::new(), |value: &Value| value.int().and_then(|n| u32::try_from(n).ok()))
        }
        Kind::Float4 => {
            scalars!(Float32Builder::new(), |value: &Value| float(value).map(|value| value as f32))
        }
        Kind::Float8 => scalars!(Float64Builder::new(), float),
        Kind::Text => scalars!(StringBuilder::new(), Value::text),
        Kind::Time => scalars!(TimestampNanosecondBuilder::new(), Value::int),
        Kind::Int2s => lists!(Int16Builder::new(), Value::Ints, |item: &i64| i16::try_from(*item).ok()),
        Kind::Int4s => lists!(Int32Builder::new(), Value::Ints, |item: &i64| i32::try_from(*item).ok()),
        Kind::Oids => lists!(UInt32Builder::new(), Value::Ints, |item: &i64| u32::try_from(*item).ok()),
        Kind::Texts => lists!(StringBuilder::new(), Value::Texts, |item: &Option<String>| item.clone()),
        Kind::Floats => lists!(Float32Builder::new(), Value::Ints, |item: &i64| Some(*item as f32)),
        Kind::Places => placed(values),
    }
}

fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Float(value) => Some(*value),
        other => other.int().map(|value| value as f64),
    }
}

fn placed(values: &[Value]) -> ArrayRef {
    let fields: Vec<Box<dyn tickstone_query::arrow::array::ArrayBuilder>> =
        vec![Box::new(Int32Builder::new()), Box::new(Int32Builder::new())];
    let mut builder = ListBuilder::new(StructBuilder::new(places(), fields));
    for value in values {
        if let Value::Ints(items) = value {
            for (place, item) in (1_i32..).zip(items) {
                let row = builder.values();
                for (field, value) in [(0, i32::try_from(*item).ok()), (1, Some(place))] {
                    if let Some(field) = row.field_builder::<Int32Builder>(field) {
                        field.append_option(value);
                    }
                }
                row.append(true);
            }
        }
        builder.append(matches!(value, Value::Ints(_)));
    }
    Arc::new(builder.finish())
}

/// The values of an argument, one a row.
///
/// # Errors
/// Where they are of a type that no function of the catalog takes.
pub(super) fn values(array: &ArrayRef) -> Result<Vec<Value>, ArrowError> {
    let rows = 0..array.len();
    let valid = |row: usize| array.is_valid(row);
    Ok(match array.data_type() {
        DataType::Null => vec![Value::Null; array.len()],
        DataType::Boolean => {
            let values = array.as_boolean();
            rows.map(|row| if valid(row) { Value::Bool(values.value(row)) } else { Value::Null }).collect()
        }
        DataType::List(element) => {
            let lists = array.as_list::<i32>();
            let is_text = element.data_type().is_string();
            let list = |row: usize| match valid(row) {
                true => self::values(&lists.value(row)).map(|items| list_of(items, is_text)),
                false => Ok(Value::Null),
            };
            rows.map(list).collect::<Result<_, _>>()?
        }
        data_type if data_type.is_integer() => {
            let values = cast(array, &DataType::Int64)?;
            let values = values.as_primitive::<Int64Type>();
            rows.map(|row| if valid(row) { Value::Int(values.value(row)) } else { Value::Null }).collect()
        }
        DataType::Float16 | DataType::Float32 | DataType::Float64 => {
            let values = cast(array, &DataType::Float64)?;
            let values = values.as_primitive::<tickstone_query::arrow::datatypes::Float64Type>();
            rows.map(|row| if valid(row) { Value::Float(values.value(row)) } else { Value::Null }).collect()
        }
        _ => {
            let values = cast(array, &DataType::Utf8)?;
            let values = values.as_string::<i32>();
            rows.map(|row| if valid(row) { values.value(row).into() } else { Value::Null }).collect()
        }
    })
}

fn list_of(items: Vec<Value>, is_text: bool) -> Value {
    match is_text {
        true => Value::Texts(items.iter().map(|item| item.text().map(str::to_string)).collect()),
        false => Value::Ints(items.iter().map(|item| item.int().unwrap_or_default()).collect()),
    }
}
