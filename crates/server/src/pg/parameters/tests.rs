use super::*;

fn binary(bytes: &[u8], data_type: &DataType) -> Result<ParameterValue, Fault> {
    value(Some(&Bytes::copy_from_slice(bytes)), Wanted { place: 1, oid: 0, data_type }, true)
}

#[test]
fn numerics_of_groups() {
    let number = |count: u16, weight: i16, sign: u16, scale: u16, groups: &[u16]| {
        let mut bytes = Vec::new();
        bytes.extend(count.to_be_bytes());
        bytes.extend(weight.to_be_bytes());
        bytes.extend(sign.to_be_bytes());
        bytes.extend(scale.to_be_bytes());
        groups.iter().for_each(|group| bytes.extend(group.to_be_bytes()));
        numeric(&mut Bytes::from(bytes)).map_err(|(code, _)| code)
    };
    assert_eq!(number(2, 0, 0, 2, &[123, 4500]).as_deref(), Ok("123.45"));
    assert_eq!(number(1, 1, 0x4000, 0, &[5]).as_deref(), Ok("-50000"));
    assert_eq!(number(1, -2, 0, 8, &[1]).as_deref(), Ok("0.00000001"));
    assert_eq!(number(0, 0, 0, 3, &[]).as_deref(), Ok("0.000"));
    assert_eq!(number(0, 0, 0xC000, 0, &[]).as_deref(), Ok("NaN"));
    assert_eq!(number(3, 0, 0, 2, &[1]), Err(INVALID_BINARY));
}

#[test]
fn times_without_their_zones() {
    for (text, wanted) in [
        ("2024-08-08 09:30:00.5+02", "2024-08-08 09:30:00.5"),
        ("2024-08-08 09:30:00-04:30", "2024-08-08 09:30:00"),
        ("2024-08-08 +04", "2024-08-08"),
        ("2024-08-08", "2024-08-08"),
        ("2024-08-08T09:30:00Z", "2024-08-08T09:30:00Z"),
    ] {
        assert_eq!(without_zone(text), wanted);
    }
}

#[test]
fn bytes_that_are_no_value_are_told() {
    for data_type in [
        DataType::Boolean,
        DataType::Int64,
        DataType::Float64,
        DataType::Decimal128(38, 10),
        DataType::Date32,
        DataType::FixedSizeBinary(16),
        DataType::List(
            tickstone_query::arrow::datatypes::Field::new_list_field(DataType::Int32, true).into(),
        ),
    ] {
        for length in [0, 3, 5, 7, 11, 13] {
            assert!(binary(&vec![0xFF; length], &data_type).is_err(), "{data_type} of {length} bytes");
        }
    }
    assert!(matches!(binary(&[0, 0, 0, 7], &DataType::Int64), Ok(ParameterValue::Integer(7))));
}

#[test]
fn texts_of_types() {
    let read = |text: &str, data_type: &DataType| {
        let wanted = Wanted { place: 2, oid: 0, data_type };
        value(Some(&Bytes::copy_from_slice(text.as_bytes())), wanted, false)
    };
    assert_eq!(read(" t ", &DataType::Boolean).ok(), Some(ParameterValue::Boolean(true)));
    assert_eq!(read("-5", &DataType::Int16).ok(), Some(ParameterValue::Integer(-5)));
    assert_eq!(
        read("1.50", &DataType::Decimal128(38, 10)).ok(),
        Some(ParameterValue::Decimal("1.50".into()))
    );
    assert_eq!(read("\\x00ff", &DataType::Binary).ok(), Some(ParameterValue::Bytes(vec![0, 255])));
    assert!(read("1.5", &DataType::Int32).is_err());
    assert!(read("\\x0", &DataType::Binary).is_err());
}

#[test]
fn texts_of_types_that_are_said() {
    let read = |text: &str, of: Type| {
        let data_type = types::of_oid(of.oid()).unwrap();
        let wanted = Wanted { place: 1, oid: of.oid(), data_type: &data_type };
        value(Some(&Bytes::copy_from_slice(text.as_bytes())), wanted, false)
            .map_err(|fault| format!("{fault:?}").split('"').nth(1).unwrap_or_default().to_string())
    };
    let micros = |nanos: i64| ParameterValue::Timestamp(nanos);
    for (text, of, wanted) in [
        ("32767", Type::INT2, Ok(ParameterValue::Integer(32_767))),
        ("99999", Type::INT2, Err("22003")),
        ("-2147483649", Type::INT4, Err("22003")),
        ("9223372036854775808", Type::INT8, Err("22003")),
        ("1.5", Type::INT4, Err("22P02")),
        ("", Type::INT8, Err("22P02")),
        ("1e308", Type::FLOAT8, Ok(ParameterValue::Float(1e308))),
        ("1e999", Type::FLOAT8, Err("22003")),
        ("1e-999", Type::FLOAT8, Err("22003")),
        ("1e39", Type::FLOAT4, Err("22003")),
        ("-Infinity", Type::FLOAT4, Ok(ParameterValue::Float(f64::NEG_INFINITY))),
        ("0.0", Type::FLOAT8, Ok(ParameterValue::Float(0.0))),
        ("dear", Type::FLOAT8, Err("22P02")),
        ("1e999", Type::NUMERIC, Err("22003")),
        ("zz", Type::UUID, Err("22P02")),
        ("xx", Type::TIMESTAMP, Err("22007")),
        ("1970-01-01 02:00+02", Type::TIMESTAMPTZ, Ok(micros(0))),
        ("1970-01-01 00:00+02", Type::TIMESTAMP, Ok(micros(0))),
        ("25:00", Type::TIME, Err("22008")),
        ("1 day", Type::INTERVAL, Ok(ParameterValue::Duration(86_400_000_000_000))),
        (
            "{1,NULL}",
            Type::INT2_ARRAY,
            Ok(ParameterValue::List(vec![ParameterValue::Integer(1), ParameterValue::Null])),
        ),
        ("{1,99999}", Type::INT2_ARRAY, Err("22003")),
        ("{\"1970-01-01 02:00+02\"}", Type::TIMESTAMPTZ_ARRAY, Ok(ParameterValue::List(vec![micros(0)]))),
        ("1", Type::TIMESTAMP_ARRAY, Err("22P02")),
    ] {
        assert_eq!(read(text, of.clone()), wanted.map_err(str::to_string), "{text} as {of}");
    }
}

#[test]
fn binary_of_types_that_are_not_known_is_refused() {
    for of in [Type::INET, Type::TIMETZ, Type::MONEY, Type::INET_ARRAY] {
        let wanted = Wanted { place: 1, oid: of.oid(), data_type: &DataType::Utf8 };
        let fault = value(Some(&Bytes::from_static(b"abc")), wanted, true).unwrap_err();
        assert!(format!("{fault:?}").contains(of.name()), "{fault:?}");
        assert_eq!(
            value(Some(&Bytes::from_static(b"abc")), wanted, false).ok(),
            Some(ParameterValue::Text("abc".into()))
        );
    }
    let wanted = Wanted { place: 1, oid: 123_456, data_type: &DataType::Utf8 };
    assert!(value(Some(&Bytes::from_static(b"abc")), wanted, true).is_err());
    let wanted = Wanted { place: 1, oid: Type::JSONB.oid(), data_type: &DataType::Utf8 };
    let json = value(Some(&Bytes::from_static(b"\x01{}")), wanted, true);
    assert_eq!(json.ok(), Some(ParameterValue::Text("{}".into())));
}
