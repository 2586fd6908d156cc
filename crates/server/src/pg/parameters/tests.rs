use super::*;

fn binary(bytes: &[u8], data_type: &DataType) -> Result<ParameterValue, Fault> {
    value(Some(&Bytes::copy_from_slice(bytes)), data_type, true, 1)
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
        value(Some(&Bytes::copy_from_slice(text.as_bytes())), data_type, false, 2)
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
