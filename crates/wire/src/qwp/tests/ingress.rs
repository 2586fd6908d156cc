//! Rows of any types and NULLs arrive as they were sent.

use super::client::{Cells, Client, Style};
use crate::qwp::{Ingress, Limits, Refused, Status};
use crate::{Fault, TableRows};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt32Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, FixedSizeBinaryArray, Float32Array,
    Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, ListArray, StringArray,
    TimestampNanosecondArray,
};
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::SizeRange;
use std::sync::Arc;
use tickstone_model::{ColumnType, TableSchema};

const NOW: i64 = 1_723_109_400_000_000_000;

fn vec_of<T: std::fmt::Debug>(
    rows: usize,
    value: impl Strategy<Value = T>,
) -> impl Strategy<Value = Vec<Option<T>>> {
    let size: SizeRange = (rows..=rows).into();
    prop::collection::vec(weighted(0.7, value), size)
}

/// Values that are not what stands for NULL.
fn cells(rows: usize) -> impl Strategy<Value = Cells> {
    let times = -9_000_000_000_000_000_i64..9_000_000_000_000_000;
    let even = (0..1_000_000_000_000_i64, prop::collection::vec(-3000..3000_i64, rows..=rows)).prop_map(
        |(start, jitter)| {
            jitter
                .iter()
                .enumerate()
                .map(|(row, jitter)| Some(start + row as i64 * 1_000 + jitter / 1000))
                .collect()
        },
    );
    let text = "[a-zé€😀]{0,6}";
    let decimal = -(10_i128.pow(38) - 1)..10_i128.pow(38);
    prop_oneof![
        vec_of(rows, any::<bool>()).prop_map(Cells::Boolean),
        vec_of(rows, 1..=i8::MAX).prop_map(Cells::Byte),
        vec_of(rows, i16::MIN..0).prop_map(Cells::Short),
        vec_of(rows, i32::MIN + 1..=i32::MAX).prop_map(Cells::Int),
        vec_of(rows, i64::MIN + 1..=i64::MAX).prop_map(Cells::Long),
        vec_of(rows, any::<f32>()).prop_map(Cells::Float),
        vec_of(rows, any::<f64>()).prop_map(Cells::Double),
        vec_of(rows, text).prop_map(Cells::Symbol),
        vec_of(rows, times.clone()).prop_map(Cells::Timestamp),
        even.clone().prop_map(Cells::Timestamp),
        vec_of(rows, -9_000_000_000_000..9_000_000_000_000_i64).prop_map(Cells::Date),
        vec_of(rows, any::<u128>()).prop_map(Cells::Uuid),
        vec_of(rows, any::<[u64; 4]>()).prop_map(Cells::Long256),
        (1..=60_u32).prop_flat_map(move |bits| {
            vec_of(rows, 0..(1_u64 << bits) - 1).prop_map(move |hashes| Cells::Geohash(bits, hashes))
        }),
        vec_of(rows, text).prop_map(Cells::Varchar),
        vec_of(rows, times).prop_map(Cells::TimestampNanos),
        even.prop_map(Cells::TimestampNanos),
        vec_of(rows, prop::collection::vec(-1e9..1e9_f64, 0..4)).prop_map(Cells::Doubles),
        vec_of(rows, prop::collection::vec(i64::MIN + 1..i64::MAX, 0..4)).prop_map(Cells::Longs),
        (0..=18_u8, vec_of(rows, i64::MIN + 1..i64::MAX))
            .prop_map(|(scale, values)| Cells::Decimal64(scale, values)),
        (0..=38_u8, vec_of(rows, decimal.clone()))
            .prop_map(|(scale, values)| Cells::Decimal128(scale, values)),
        (0..=38_u8, vec_of(rows, decimal)).prop_map(|(scale, values)| Cells::Decimal256(scale, values)),
        vec_of(rows, 1..0xd800_u16).prop_map(Cells::Char),
        vec_of(rows, prop::collection::vec(any::<u8>(), 0..5)).prop_map(Cells::Binary),
        vec_of(rows, 1..u32::MAX).prop_map(Cells::Ipv4),
    ]
}

/// What the values are to arrive as.
fn expected(cells: &Cells, style: Style, column_type: ColumnType) -> ArrayRef {
    let has_null = |is_null: bool| style.null_values && is_null;
    match cells {
        Cells::Boolean(values) => Arc::new(BooleanArray::from_iter(
            values.iter().map(|value| if has_null(value.is_none()) { Some(false) } else { *value }),
        )),
        Cells::Byte(values) => {
            let zero = |value: &Option<i8>| if style.null_values { Some(value.unwrap_or(0)) } else { *value };
            Arc::new(values.iter().map(zero).collect::<Int8Array>())
        }
        Cells::Short(values) => {
            let zero =
                |value: &Option<i16>| if style.null_values { Some(value.unwrap_or(0)) } else { *value };
            Arc::new(values.iter().map(zero).collect::<Int16Array>())
        }
        Cells::Int(values) => Arc::new(Int32Array::from(values.clone())),
        Cells::Long(values) => Arc::new(Int64Array::from(values.clone())),
        Cells::Float(values) => Arc::new(Float32Array::from(values.clone())),
        Cells::Double(values) => Arc::new(Float64Array::from(values.clone())),
        Cells::Symbol(values) | Cells::Varchar(values) => Arc::new(StringArray::from(values.clone())),
        Cells::Timestamp(values) => times(values, 1_000),
        Cells::Date(values) => times(values, 1_000_000),
        Cells::TimestampNanos(values) => times(values, 1),
        Cells::Uuid(values) => {
            let bytes = values.iter().map(|value| value.map(u128::to_be_bytes));
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes, 16).unwrap())
        }
        Cells::Long256(values) => {
            let text = |words: &[u64; 4]| {
                let digits = words.iter().rev().map(|word| format!("{word:016x}")).collect::<String>();
                let digits = digits.trim_start_matches('0');
                format!("0x{}", if digits.is_empty() { "0" } else { digits })
            };
            Arc::new(values.iter().map(|words| words.as_ref().map(text)).collect::<StringArray>())
        }
        Cells::Geohash(bits, values) => {
            let text = |hash: u64| {
                let digits = format!("{hash:0width$b}", width = *bits as usize);
                match bits % 5 {
                    0 => digits.as_bytes().chunks(5).map(letter).collect(),
                    _ => digits,
                }
            };
            Arc::new(values.iter().map(|hash| hash.map(text)).collect::<StringArray>())
        }
        Cells::Doubles(values) => {
            let lists = values.iter().map(|list| list.clone().map(|list| list.into_iter().map(Some)));
            Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(lists))
        }
        Cells::Longs(values) => {
            let lists = values.iter().map(|list| list.clone().map(|list| list.into_iter().map(Some)));
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists))
        }
        Cells::Decimal64(scale, values) => {
            decimals(*scale, values.iter().map(|value| value.map(i128::from)), column_type)
        }
        Cells::Decimal128(scale, values) | Cells::Decimal256(scale, values) => {
            decimals(*scale, values.iter().copied(), column_type)
        }
        Cells::Char(values) => {
            let text = |unit: &u16| char::from_u32(u32::from(*unit)).unwrap().to_string();
            Arc::new(values.iter().map(|unit| unit.as_ref().map(text)).collect::<StringArray>())
        }
        Cells::Binary(values) => Arc::new(values.iter().map(Option::as_ref).collect::<BinaryArray>()),
        Cells::Ipv4(values) => {
            let text = |address: u32| {
                let [a, b, c, d] = address.to_be_bytes();
                format!("{a}.{b}.{c}.{d}")
            };
            Arc::new(values.iter().map(|address| address.map(text)).collect::<StringArray>())
        }
    }
}

fn letter(five: &[u8]) -> char {
    let digit = five.iter().fold(0, |digit, bit| digit << 1 | usize::from(bit - b'0'));
    char::from(b"0123456789bcdefghjkmnpqrstuvwxyz"[digit])
}

fn times(values: &[Option<i64>], unit_ns: i64) -> ArrayRef {
    Arc::new(values.iter().map(|time| time.map(|time| time * unit_ns)).collect::<TimestampNanosecondArray>())
}

fn decimals(scale: u8, values: impl Iterator<Item = Option<i128>>, column_type: ColumnType) -> ArrayRef {
    let ColumnType::Decimal { precision, scale: to } = column_type else { panic!("{column_type}") };
    let factor = 10_i128.pow(to as u32 - u32::from(scale));
    let array: Decimal128Array = values.map(|value| value.map(|value| value * factor)).collect();
    Arc::new(array.with_precision_and_scale(precision, to).unwrap())
}

/// A dictionary as its texts.
fn plain(array: &ArrayRef) -> ArrayRef {
    let Some(symbols) = array.as_dictionary_opt::<UInt32Type>() else { return Arc::clone(array) };
    let texts = symbols.downcast_dict::<StringArray>().unwrap();
    Arc::new(texts.into_iter().collect::<StringArray>())
}

fn read(ingress: &mut Ingress, message: &[u8]) -> Vec<TableRows> {
    ingress.read(message, NOW, &mut |_| None).unwrap().tables
}

/// Whether a new DECIMAL of up to 38 digits holds them: 15 before the point, or as many after it as they have.
fn fits_new(cells: &Cells) -> bool {
    let digits = |value: i128| value.unsigned_abs().checked_ilog10().map_or(1, |last| last + 1);
    let most = |values: &mut dyn Iterator<Item = i128>| values.map(digits).max().unwrap_or(1);
    let (scale, most) = match cells {
        Cells::Decimal64(scale, values) => {
            (*scale, most(&mut values.iter().flatten().map(|value| i128::from(*value))))
        }
        Cells::Decimal128(scale, values) | Cells::Decimal256(scale, values) => {
            (*scale, most(&mut values.iter().flatten().copied()))
        }
        _ => return true,
    };
    most.saturating_sub(u32::from(scale)) + u32::from(scale.max(3)) <= 38
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn columns_arrive_as_they_were_sent(
        columns in (1..40_usize).prop_flat_map(|rows| prop::collection::vec(cells(rows), 1..6)),
        (null_values, packed_times, own_symbols) in any::<(bool, bool, bool)>(),
    ) {
        prop_assume!(columns.iter().all(fits_new));
        let names: Vec<String> = (0..columns.len()).map(|place| format!("c{place}")).collect();
        let style = Style { null_values, packed_times, own_symbols, defers: false };
        let named: Vec<(&str, Cells)> = names.iter().map(String::as_str).zip(columns.iter().cloned()).collect();
        let (mut client, mut ingress) = (Client::default(), Ingress::new(Limits::default()));
        // The second message brings no new symbol.
        for _ in 0..2 {
            let message = client.message(style, &[("t", named.clone()), ("u", named.clone())]);
            for table in read(&mut ingress, &message) {
                prop_assert_eq!(table.columns.len(), columns.len());
                for (column, cells) in table.columns.iter().zip(&columns) {
                    let expected = expected(cells, style, column.column_type);
                    prop_assert_eq!(&plain(&column.values), &expected);
                }
                let schema = table.new_table().unwrap();
                prop_assert!(table.batch(&schema).is_some_and(|batch| batch.num_rows() == table.rows));
            }
        }
    }
}

#[test]
fn a_new_table_has_symbols_as_its_key() {
    let symbols = |texts: [&str; 2]| Cells::Symbol(texts.map(|text| Some(text.to_string())).to_vec());
    let columns = vec![
        ("sym", symbols(["BTC", "ETH"])),
        ("px", Cells::Double(vec![Some(1.5), None])),
        ("side", symbols(["buy", "buy"])),
        ("", Cells::Timestamp(vec![Some(5), None])),
    ];
    let message = Client::default().message(Style::default(), &[("trades", columns)]);
    let tables = read(&mut Ingress::default(), &message);
    let [table] = tables.as_slice() else { panic!("{tables:?}") };
    let schema = table.new_table().unwrap();
    let names: Vec<_> = schema.columns().iter().map(|column| column.name.as_str()).collect();
    assert_eq!((names, schema.series()), (vec!["sym", "px", "side", "timestamp"], &[0, 2][..]));
    let times: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![5_000, NOW]));
    assert_eq!(table.times.as_ref(), Some(&times), "a row without a time has the server's");
    // A column has only the symbols that it uses.
    let side = table.columns[2].values.as_dictionary::<UInt32Type>();
    assert_eq!(side.values().as_string::<i32>(), &StringArray::from(vec!["buy"]));
}

#[test]
fn a_table_that_is_there_keeps_its_types() {
    let schema = TableSchema::builder("t")
        .column("ts", ColumnType::Timestamp)
        .column("qty", ColumnType::Int32)
        .column("sym", ColumnType::Symbol)
        .timestamp("ts")
        .build();
    let schema = Arc::new(schema.unwrap());
    let columns = vec![
        ("QTY", Cells::Long(vec![Some(7)])),
        ("sym", Cells::Varchar(vec![Some("BTC".into())])),
        ("TS", Cells::TimestampNanos(vec![Some(9)])),
        ("new", Cells::Boolean(vec![Some(true)])),
    ];
    let message = Client::default().message(Style::default(), &[("T", columns)]);
    let mut ingress = Ingress::default();
    let rows = ingress.read(&message, NOW, &mut |_| Some(Arc::clone(&schema))).unwrap();
    let table = &rows.tables[0];
    assert_eq!(table.new_columns().map(|column| column.name).collect::<Vec<_>>(), ["new"]);
    assert_eq!(table.columns.iter().map(|column| column.place).collect::<Vec<_>>(), [Some(1), Some(2), None]);
    assert_eq!(table.columns[0].values.as_ref(), &Int32Array::from(vec![7]) as &dyn Array);
    assert_eq!(plain(&table.columns[1].values).as_ref(), &StringArray::from(vec!["BTC"]) as &dyn Array);
    assert_eq!(table.times.as_deref(), Some(&TimestampNanosecondArray::from(vec![9]) as &dyn Array));
}

#[test]
fn a_message_may_be_read_again() {
    let column =
        |texts: [&str; 2]| vec![("s", Cells::Symbol(texts.map(|text| Some(text.to_string())).to_vec()))];
    let (mut client, mut ingress) = (Client::default(), Ingress::default());
    let messages =
        [["a", "b"], ["c", "a"]].map(|texts| client.message(Style::default(), &[("t", column(texts))]));
    let symbols = |ingress: &mut Ingress, message: &[u8]| plain(&read(ingress, message)[0].columns[0].values);
    let first: Vec<_> = messages.iter().map(|message| symbols(&mut ingress, message)).collect();
    let again: Vec<_> = messages.iter().map(|message| symbols(&mut ingress, message)).collect();
    assert_eq!(first, again);
    assert_eq!(first[1].as_ref(), &StringArray::from(vec!["c", "a"]) as &dyn Array);
}

#[test]
fn symbols_of_a_refused_message_stay() {
    let schema = TableSchema::builder("t").column("s", ColumnType::Int64).build();
    let schema = Arc::new(schema.unwrap());
    let column = || vec![("s", Cells::Symbol(vec![Some("a".into())]))];
    let (mut client, mut ingress) = (Client::default(), Ingress::default());
    let refused = client.message(Style::default(), &[("t", column())]);
    let refused = ingress.read(&refused, NOW, &mut |_| Some(Arc::clone(&schema))).unwrap_err();
    assert_eq!(refused.status(), Status::SchemaMismatch);
    assert_eq!(
        refused.to_string(),
        "table 't', column 's', row 0: 'a' is a symbol, and the column is BIGINT"
    );
    // The client does not send it again.
    let taken = client.message(Style::default(), &[("u", column())]);
    assert_eq!(plain(&read(&mut ingress, &taken)[0].columns[0].values).as_string::<i32>().value(0), "a");
    // A server that does not know it says so.
    let refused = Ingress::default().read(&taken, NOW, &mut |_| None).unwrap_err();
    assert_eq!((refused.status(), refused), (Status::DictionaryGap, Refused::Gap { start: 1, known: 0 }));
}

#[test]
fn rows_without_values_are_none() {
    let columns = vec![("a", Cells::Long(Vec::new()))];
    let message = Client::default().message(Style { defers: true, ..Style::default() }, &[("t", columns)]);
    let rows = Ingress::default().read(&message, NOW, &mut |_| None).unwrap();
    assert!(rows.tables.is_empty() && !rows.commits);
    let commit = Client::default().message(Style::default(), &[]);
    assert!(Ingress::default().read(&commit, NOW, &mut |_| None).unwrap().commits);
}

#[test]
fn what_cannot_be_a_column_is_refused_by_name() {
    let fault = |columns: Vec<(&str, Cells)>| {
        let message = Client::default().message(Style::default(), &[("t", columns)]);
        match Ingress::default().read(&message, NOW, &mut |_| None).unwrap_err() {
            Refused::Value { fault, .. } => fault.to_string(),
            other => panic!("{other}"),
        }
    };
    let long = || Cells::Long(vec![Some(1)]);
    assert_eq!(fault(vec![("a", long()), ("A", long())]), "is the name of two columns of the message");
    assert_eq!(fault(vec![("é", long()), ("É", long())]), "is the name of two columns of the message");
    let times = || Cells::Timestamp(vec![Some(1)]);
    assert_eq!(
        fault(vec![("timestamp", times()), ("", times())]),
        "is the designated timestamp, which the rows have twice"
    );
    assert_eq!(
        fault(vec![("", long())]),
        "is no timestamp, and a column without a name is the designated timestamp"
    );
    assert_eq!(fault(vec![("a", Cells::Timestamp(vec![Some(i64::MAX)]))]), Fault::PastTime.to_string());
    let half = Cells::Char(vec![Some(0xd800)]);
    assert_eq!(fault(vec![("a", half)]), "half of a character that UTF-16 writes in two");
    let wide = Cells::Decimal128(0, vec![Some(i128::MAX)]);
    assert_eq!(fault(vec![("a", wide)]), "has more digits than the 38 of a DECIMAL");
}
