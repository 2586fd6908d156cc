//! Values into columns of other types: as line protocol takes them.

use super::client::{Cells, Client, Style};
use crate::qwp::{Ingress, Refused};
use crate::{Fault, TableRows, ilp};
use arrow_array::ArrayRef;
use proptest::prelude::*;
use std::sync::Arc;
use tickstone_model::{ColumnType, ElementType, TableSchema};

const TYPES: [ColumnType; 21] = [
    ColumnType::Boolean,
    ColumnType::Int8,
    ColumnType::Int16,
    ColumnType::Int32,
    ColumnType::Int64,
    ColumnType::UInt8,
    ColumnType::UInt16,
    ColumnType::UInt32,
    ColumnType::UInt64,
    ColumnType::Float32,
    ColumnType::Float64,
    ColumnType::Decimal { precision: 18, scale: 3 },
    ColumnType::Symbol,
    ColumnType::Varchar,
    ColumnType::Binary,
    ColumnType::Uuid,
    ColumnType::Date,
    ColumnType::Time,
    ColumnType::Timestamp,
    ColumnType::Array(ElementType::Float64),
    ColumnType::Array(ElementType::Float32),
];

/// A value of a message, and the same of a line.
fn value() -> impl Strategy<Value = (Cells, Vec<u8>)> {
    let number = prop_oneof![-200..200_i64, -70_000..70_000_i64, i64::MIN + 1..=i64::MAX];
    let double = prop_oneof![-200_i32..200, any::<i32>()].prop_map(|number| f64::from(number) / 8.0);
    let text =
        prop_oneof!["[a-z]{1,4}", "[0-9]{1,3}\\.[0-9]{1,3}", Just("2024-08-08".into()), Just("0aff".into())];
    let text = prop_oneof![text, Just("123e4567-e89b-12d3-a456-426614174000".into())];
    let binary = |kind: u8, bytes: &[u8]| [&b"="[..], &[kind], bytes].concat();
    prop_oneof![
        number
            .clone()
            .prop_map(|number| (Cells::Long(vec![Some(number)]), format!("{number}i").into_bytes())),
        any::<i16>().prop_map(|number| (Cells::Short(vec![Some(number)]), format!("{number}i").into_bytes())),
        any::<bool>().prop_map(|value| (Cells::Boolean(vec![Some(value)]), value.to_string().into_bytes())),
        double
            .clone()
            .prop_map(move |value| { (Cells::Double(vec![Some(value)]), binary(16, &value.to_le_bytes())) }),
        double.prop_map(move |value| {
            let line = [&[10, 1][..], &1_u32.to_le_bytes(), &value.to_le_bytes()].concat();
            (Cells::Doubles(vec![Some(vec![value])]), binary(14, &line))
        }),
        text.prop_map(|text: String| {
            let line = format!("\"{text}\"").into_bytes();
            (Cells::Varchar(vec![Some(text)]), line)
        }),
        (-1_000_000_000_000_000..1_000_000_000_000_000_i64)
            .prop_map(|time| (Cells::Timestamp(vec![Some(time)]), format!("{time}t").into_bytes())),
        (number, 0..=6_u8).prop_map(move |(number, scale)| {
            let line = [&[scale, 8][..], &number.to_be_bytes()].concat();
            (Cells::Decimal64(scale, vec![Some(number)]), binary(23, &line))
        }),
    ]
}

fn column(tables: &[TableRows]) -> ArrayRef {
    Arc::clone(&tables[0].columns[0].values)
}

fn read(cells: &Cells, wanted: ColumnType) -> Result<ArrayRef, Fault> {
    let schema = Arc::new(TableSchema::builder("t").column("f", wanted).build().unwrap());
    let message = Client::default().message(Style::default(), &[("t", vec![("f", cells.clone())])]);
    let rows = Ingress::default().read(&message, 0, &mut |_| Some(Arc::clone(&schema)));
    match rows {
        Ok(rows) => Ok(column(&rows.tables)),
        Err(Refused::Value { fault, .. }) => Err(fault),
        Err(other) => panic!("{other}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn values_fit_as_those_of_lines((cells, field) in value(), wanted in prop::sample::select(&TYPES[..])) {
        let schema = Arc::new(TableSchema::builder("t").column("f", wanted).build().unwrap());
        let line = [&b"t f="[..], &field, b"\n"].concat();
        let mut parser = ilp::Parser::new(ilp::Precision::Auto);
        let parsed = parser.parse(&line, 0, &mut |_| Some(Arc::clone(&schema)));
        let line = match parsed.bad {
            None => Ok(column(&parser.take())),
            Some(bad) => Err(bad.fault),
        };
        match (read(&cells, wanted), line) {
            (Ok(sent), Ok(line)) => prop_assert_eq!(&sent, &line),
            // Decimals with an exponent are told apart in words only.
            (Err(sent), Err(line)) => prop_assert_eq!(std::mem::discriminant(&sent), std::mem::discriminant(&line)),
            (sent, line) => prop_assert!(false, "{sent:?} and {line:?}"),
        }
    }
}

#[test]
fn types_of_their_own_go_where_nothing_is_lost() {
    let text = |cells: Cells, wanted| read(&cells, wanted).map(|array| format!("{array:?}"));
    let uuid = Cells::Uuid(vec![Some(0x123e_4567_e89b_12d3_a456_4266_1417_4000)]);
    assert!(
        text(uuid.clone(), ColumnType::Varchar).unwrap().contains("123e4567-e89b-12d3-a456-426614174000")
    );
    let refused = Fault::Conflict { sent: "a UUID", wanted: ColumnType::Int64 };
    assert_eq!(read(&uuid, ColumnType::Int64).unwrap_err(), refused);
    let address = Cells::Ipv4(vec![Some(0x0a00_0007)]);
    assert!(text(address.clone(), ColumnType::Symbol).unwrap().contains("10.0.0.7"));
    assert!(matches!(read(&address, ColumnType::Int64).unwrap_err(), Fault::Conflict { .. }));
    let day = 86_400_000;
    assert!(text(Cells::Date(vec![Some(-day)]), ColumnType::Date).unwrap().contains("1969-12-31"));
    assert_eq!(read(&Cells::Date(vec![Some(1)]), ColumnType::Date).unwrap_err(), Fault::NoWholeDay);
    let longs = Cells::Longs(vec![Some(vec![1])]);
    assert!(matches!(
        read(&longs, ColumnType::Array(ElementType::Float64)).unwrap_err(),
        Fault::Conflict { .. }
    ));
    // NULL goes everywhere.
    for wanted in TYPES {
        assert_eq!(read(&Cells::Uuid(vec![None, None]), wanted).unwrap().null_count(), 2, "{wanted}");
    }
}
