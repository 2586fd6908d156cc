//! PostgreSQL's types for Arrow's.

use pgwire::api::Type;
use pgwire::messages::data::FieldDescription;
use tickstone_query::arrow::datatypes::{DataType, Field, FieldRef, Schema, TimeUnit};

/// The type that values of an Arrow type are sent as. What PostgreSQL has no type for is sent as text: BIGINT UNSIGNED is
/// numeric, structs and lists of lists are varchar.
pub(crate) fn of(data_type: &DataType) -> Type {
    match data_type {
        DataType::Boolean => Type::BOOL,
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => Type::INT2,
        DataType::Int32 | DataType::UInt16 => Type::INT4,
        DataType::Int64 => Type::INT8,
        DataType::UInt32 => Type::OID,
        DataType::Float16 | DataType::Float32 => Type::FLOAT4,
        DataType::Float64 => Type::FLOAT8,
        DataType::UInt64
        | DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => Type::NUMERIC,
        DataType::Timestamp(_, None) => Type::TIMESTAMP,
        DataType::Timestamp(_, Some(_)) => Type::TIMESTAMPTZ,
        DataType::Date32 | DataType::Date64 => Type::DATE,
        DataType::Time32(_) | DataType::Time64(_) => Type::TIME,
        DataType::Interval(_) | DataType::Duration(_) => Type::INTERVAL,
        DataType::FixedSizeBinary(16) => Type::UUID,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            Type::BYTEA
        }
        DataType::Dictionary(_, values) => of(values),
        DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
            array_of(element.data_type())
        }
        DataType::Null => Type::TEXT,
        _ => Type::VARCHAR,
    }
}

/// The same for a parameter: any text will do.
pub(super) fn of_parameter(data_type: &DataType) -> Type {
    match of(data_type) {
        Type::VARCHAR => Type::TEXT,
        Type::VARCHAR_ARRAY => Type::TEXT_ARRAY,
        other => other,
    }
}

fn array_of(element: &DataType) -> Type {
    match of(element) {
        Type::BOOL => Type::BOOL_ARRAY,
        Type::INT2 => Type::INT2_ARRAY,
        Type::INT4 => Type::INT4_ARRAY,
        Type::INT8 => Type::INT8_ARRAY,
        Type::OID => Type::OID_ARRAY,
        Type::FLOAT4 => Type::FLOAT4_ARRAY,
        Type::FLOAT8 => Type::FLOAT8_ARRAY,
        Type::NUMERIC => Type::NUMERIC_ARRAY,
        Type::TIMESTAMP => Type::TIMESTAMP_ARRAY,
        Type::TIMESTAMPTZ => Type::TIMESTAMPTZ_ARRAY,
        Type::DATE => Type::DATE_ARRAY,
        Type::TIME => Type::TIME_ARRAY,
        Type::INTERVAL => Type::INTERVAL_ARRAY,
        Type::UUID => Type::UUID_ARRAY,
        Type::BYTEA => Type::BYTEA_ARRAY,
        Type::TEXT => Type::TEXT_ARRAY,
        _ if element.is_nested() => Type::VARCHAR,
        // Drivers know this one without asking for it.
        _ => Type::TEXT_ARRAY,
    }
}

/// The bytes of a value where all have as many, as `pg_type.typlen` has it; -1 otherwise.
pub(crate) fn length(of: &Type) -> i16 {
    match *of {
        Type::BOOL => 1,
        Type::INT2 => 2,
        Type::INT4 | Type::FLOAT4 | Type::DATE | Type::OID => 4,
        Type::INT8 | Type::FLOAT8 | Type::TIMESTAMP | Type::TIMESTAMPTZ | Type::TIME => 8,
        Type::INTERVAL | Type::UUID => 16,
        _ => -1,
    }
}

/// `pg_attribute.atttypmod`: precision and scale of a numeric; -1 otherwise.
pub(crate) fn modifier(data_type: &DataType) -> i32 {
    match data_type {
        DataType::Decimal128(precision, scale) if *scale >= 0 => {
            ((i32::from(*precision) << 16) | i32::from(*scale)) + 4
        }
        _ => -1,
    }
}

/// A column as a client is told of it.
pub(super) fn field(field: &Field, format: i16) -> FieldDescription {
    let sent = of(field.data_type());
    FieldDescription::new(
        field.name().clone(),
        0,
        0,
        sent.oid(),
        length(&sent),
        modifier(field.data_type()),
        format,
    )
}

/// The Arrow type of a parameter whose type a client says; `None` where it leaves that to what the parameter meets.
pub(super) fn of_oid(oid: u32) -> Option<DataType> {
    let list = |element: DataType| Some(DataType::List(Field::new_list_field(element, true).into()));
    match Type::from_oid(oid)? {
        Type::BOOL => Some(DataType::Boolean),
        Type::INT2 => Some(DataType::Int16),
        Type::INT4 => Some(DataType::Int32),
        Type::INT8 | Type::OID => Some(DataType::Int64),
        Type::FLOAT4 => Some(DataType::Float32),
        Type::FLOAT8 => Some(DataType::Float64),
        // Its digits say precision and scale once there is a value.
        Type::NUMERIC => Some(DataType::Decimal128(38, 10)),
        Type::TIMESTAMP => Some(DataType::Timestamp(TimeUnit::Nanosecond, None)),
        Type::TIMESTAMPTZ => Some(DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))),
        Type::DATE => Some(DataType::Date32),
        Type::TIME => Some(DataType::Time64(TimeUnit::Nanosecond)),
        Type::INTERVAL => Some(DataType::Duration(TimeUnit::Nanosecond)),
        Type::BYTEA => Some(DataType::Binary),
        Type::UUID => Some(DataType::FixedSizeBinary(16)),
        Type::INT2_ARRAY => list(DataType::Int16),
        Type::INT4_ARRAY => list(DataType::Int32),
        Type::INT8_ARRAY | Type::OID_ARRAY => list(DataType::Int64),
        Type::FLOAT4_ARRAY => list(DataType::Float32),
        Type::FLOAT8_ARRAY => list(DataType::Float64),
        Type::BOOL_ARRAY => list(DataType::Boolean),
        Type::TEXT_ARRAY | Type::VARCHAR_ARRAY | Type::BPCHAR_ARRAY | Type::NAME_ARRAY => {
            list(DataType::Utf8)
        }
        Type::TIMESTAMP_ARRAY => list(DataType::Timestamp(TimeUnit::Nanosecond, None)),
        Type::TIMESTAMPTZ_ARRAY => list(DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))),
        Type::DATE_ARRAY => list(DataType::Date32),
        Type::TIME_ARRAY => list(DataType::Time64(TimeUnit::Nanosecond)),
        Type::INTERVAL_ARRAY => list(DataType::Duration(TimeUnit::Nanosecond)),
        Type::BYTEA_ARRAY => list(DataType::Binary),
        Type::UUID_ARRAY => list(DataType::FixedSizeBinary(16)),
        Type::NUMERIC_ARRAY => list(DataType::Decimal128(38, 10)),
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::CHAR | Type::JSON | Type::JSONB => {
            Some(DataType::Utf8)
        }
        // `unknown` and all others.
        _ => None,
    }
}

/// The name of a type that a client says and that is not known, with its number.
pub(super) fn unknown(oid: u32) -> Option<String> {
    if oid == 0 || oid == Type::UNKNOWN.oid() || of_oid(oid).is_some() {
        return None;
    }
    let name = Type::from_oid(oid).map_or("a type".to_string(), |known| known.name().to_string());
    Some(format!("{name} (OID {oid})"))
}

/// Whether rows of one kind are sent as those of the other: under the same names, in the same types.
pub(super) fn are_alike(these: &Schema, those: &Schema) -> bool {
    let alike = |(this, that): (&FieldRef, &FieldRef)| {
        this.name() == that.name() && of(this.data_type()) == of(that.data_type())
    };
    these.fields().len() == those.fields().len() && these.fields().iter().zip(those.fields()).all(alike)
}
