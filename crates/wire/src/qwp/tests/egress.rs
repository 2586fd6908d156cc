//! Results arrive as they were sent.

use super::recorded::hex;
use crate::qwp::column::{Context, read_column};
use crate::qwp::egress::{
    Credit, Done, Query, Results, ServerInfo, pieces, put_error, put_server_info, wire_type,
};
use crate::qwp::header::{Header, flags};
use crate::qwp::read::Reader;
use crate::qwp::symbols::{Narrowing, Symbols};
use crate::qwp::{Limits, Status, WireType};
use arrow_array::builder::{ListBuilder, PrimitiveBuilder, StringDictionaryBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::*;
use arrow_schema::{DataType, Field, Schema};
use proptest::prelude::*;
use std::sync::Arc;

fn query(id: i64, resets_symbols: bool) -> Query {
    Query { id, sql: String::new(), credit: 0, parameters: Vec::new(), resets_symbols, timeout_ms: None }
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let field = |(name, array): &(&str, ArrayRef)| Field::new(*name, array.data_type().clone(), true);
    let fields: Vec<_> = columns.iter().map(field).collect();
    let columns = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// The side of a client: symbols of the connection, columns of the query.
#[derive(Default)]
struct Client {
    symbols: Symbols,
    types: Vec<WireType>,
}

impl Client {
    /// The columns of a batch, dictionaries as texts.
    fn read(&mut self, message: &[u8]) -> Vec<ArrayRef> {
        let mut reader = Reader::new(message);
        let header = Header::read(&mut reader).unwrap();
        assert_eq!((header.tables, reader.byte().unwrap()), (1, 0x11));
        reader.i64().unwrap();
        let number = reader.varint().unwrap();
        let has_symbols = header.flags & flags::SYMBOLS != 0;
        if has_symbols {
            self.symbols.read_new(&mut reader, &Limits::default()).unwrap();
        }
        assert_eq!(reader.text().unwrap(), "");
        let rows = reader.varint().unwrap() as usize;
        if number == 0 {
            self.types.clear();
            for _ in 0..reader.varint().unwrap() {
                reader.text().unwrap();
                self.types.push(WireType::of(reader.byte().unwrap()).unwrap());
            }
        }
        let mut narrowing = Narrowing::default();
        let symbols = has_symbols.then_some(&self.symbols);
        let mut context = Context { packed_times: false, symbols, narrowing: &mut narrowing };
        let column = |of: &WireType| {
            let column = read_column(&mut reader, *of, rows, &mut context).unwrap();
            match column.array.as_dictionary_opt::<UInt32Type>() {
                Some(symbols) => {
                    let texts = symbols.downcast_dict::<StringArray>().unwrap();
                    Arc::new(texts.into_iter().collect::<StringArray>())
                }
                None => column.array,
            }
        };
        let columns = self.types.iter().map(column).collect();
        reader.end().unwrap();
        columns
    }
}

fn primitive<T: ArrowPrimitiveType>(values: &[Option<T::Native>]) -> ArrayRef {
    Arc::new(values.iter().copied().collect::<PrimitiveArray<T>>())
}

/// Columns, and what they are to arrive as.
fn columns(numbers: &[Option<i16>], texts: &[Option<String>]) -> Vec<(ArrayRef, ArrayRef)> {
    fn as_<T: ArrowPrimitiveType>(numbers: &[Option<i16>], of: impl Fn(i16) -> T::Native) -> ArrayRef {
        primitive::<T>(&numbers.iter().map(|number| number.map(&of)).collect::<Vec<_>>())
    }
    let text = |index: usize| texts[index % texts.len()].clone();
    let texts: Vec<Option<String>> = (0..numbers.len()).map(text).collect();
    let ints = as_::<Int32Type>(numbers, i32::from);
    let positive = |number: i16| number.unsigned_abs();
    let times = as_::<TimestampNanosecondType>(numbers, |n| i64::from(n) * 1_000_000_000_000);
    let strings: ArrayRef = Arc::new(StringArray::from(texts.clone()));
    let bytes: ArrayRef =
        Arc::new(texts.iter().map(|text| text.as_ref().map(String::as_bytes)).collect::<BinaryArray>());
    let lists = numbers.iter().map(|n| n.map(|n| (0..n.unsigned_abs() % 4).map(|i| Some(f64::from(i)))));
    let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(lists));
    let uuids = numbers.iter().map(|n| n.map(|n| (n as u128).to_be_bytes()));
    let uuids: ArrayRef = Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(uuids, 16).unwrap());
    let booleans: ArrayRef = Arc::new(numbers.iter().map(|n| n.map(|n| n > 0)).collect::<BooleanArray>());
    let falses: ArrayRef =
        Arc::new(numbers.iter().map(|n| Some(n.is_some_and(|n| n > 0))).collect::<BooleanArray>());
    let decimals = as_::<Decimal128Type>(numbers, i128::from);
    let narrow = numbers.iter().map(|n| n.map(i32::from)).collect::<Decimal32Array>();
    let mut symbols = StringDictionaryBuilder::<Int16Type>::new();
    texts.iter().for_each(|text| symbols.append_option(text.as_ref()));
    vec![
        (as_::<Int8Type>(numbers, |n| n as i8), as_::<Int32Type>(numbers, |n| i32::from(n as i8))),
        (as_::<Int16Type>(numbers, |n| n), Arc::clone(&ints)),
        (as_::<UInt16Type>(numbers, positive), as_::<Int32Type>(numbers, |n| i32::from(positive(n)))),
        (Arc::clone(&ints), ints),
        (as_::<UInt32Type>(numbers, |n| n as u32), as_::<Int64Type>(numbers, |n| i64::from(n as u32))),
        (
            as_::<UInt64Type>(numbers, |n| positive(n).into()),
            as_::<Int64Type>(numbers, |n| positive(n).into()),
        ),
        (as_::<Float32Type>(numbers, f32::from), as_::<Float32Type>(numbers, f32::from)),
        (as_::<Float64Type>(numbers, f64::from), as_::<Float64Type>(numbers, f64::from)),
        (Arc::clone(&times), Arc::clone(&times)),
        (as_::<TimestampMicrosecondType>(numbers, |n| i64::from(n) * 1_000_000_000), Arc::clone(&times)),
        (as_::<TimestampSecondType>(numbers, |n| i64::from(n) * 1_000), times),
        (
            as_::<Date32Type>(numbers, i32::from),
            as_::<TimestampNanosecondType>(numbers, |n| i64::from(n) * 86_400_000_000_000),
        ),
        (Arc::clone(&strings), Arc::clone(&strings)),
        (Arc::new(LargeStringArray::from(texts.clone())), Arc::clone(&strings)),
        (Arc::new(texts.iter().map(Option::as_ref).collect::<StringViewArray>()), Arc::clone(&strings)),
        (Arc::clone(&bytes), Arc::clone(&bytes)),
        (Arc::new(symbols.finish()), strings),
        (Arc::clone(&uuids), uuids),
        (booleans, falses),
        (Arc::clone(&lists), lists),
        (Arc::clone(&decimals), Arc::clone(&decimals)),
        (Arc::new(narrow), decimals),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn batches_arrive_as_they_were_sent(
        numbers in prop::collection::vec(prop::option::weighted(0.8, any::<i16>()), 1..200),
        texts in prop::collection::vec(prop::option::weighted(0.8, "[a-zé€]{0,6}"), 1..20),
        (start, has_nulls) in (0..60_usize, any::<bool>()),
    ) {
        let fill = |n: &Option<i16>| if has_nulls { *n } else { Some(n.unwrap_or(7)) };
        let numbers: Vec<_> = numbers.iter().map(fill).collect();
        let (sent, expected): (Vec<_>, Vec<_>) = columns(&numbers, &texts).into_iter().unzip();
        let whole = batch(sent.into_iter().map(|array| ("c", array)).collect());
        let start = start.min(numbers.len() - 1);
        let (mut results, mut client, mut out) = (Results::new(), Client::default(), Vec::new());
        for id in 0..2 {
            results.start(&mut out, &query(id, false));
            prop_assert!(out.is_empty());
            for (start, length) in [(0, numbers.len()), (start, numbers.len() - start), (0, 0)] {
                let bytes = results.put_batch(&mut out, &whole.slice(start, length)).unwrap();
                prop_assert_eq!(bytes, out.len());
                let columns = client.read(&std::mem::take(&mut out));
                for (place, (column, expected)) in columns.iter().zip(&expected).enumerate() {
                    prop_assert_eq!(column, &expected.slice(start, length), "column {}", place);
                }
            }
            results.put_end(&mut out);
            out.clear();
        }
    }
}

#[test]
fn messages_are_those_of_the_protocol() {
    let mut out = Vec::new();
    put_server_info(&mut out, &ServerInfo { now: 5, cluster: "c", node: "n" });
    let info = "18000000000000000000".to_string() + "0a000000" + "0500000000000000" + "010063" + "01006e";
    assert_eq!(out, hex(&format!("5157503101000000{:02x}000000{info}", info.len() / 2)));
    out.clear();
    let mut results = Results::new();
    results.start(&mut out, &query(1, true));
    let rows = batch(vec![
        ("id", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef),
        ("value", Arc::new(Float64Array::from(vec![1.3, 2.2])) as ArrayRef),
    ]);
    results.put_batch(&mut out, &rows).unwrap();
    // The protocol's own example, without the two bytes that its text has and no client reads.
    let body = "11010000000000000000".to_string()
        + "000202"
        + "02696405"
        + "0576616c756507"
        + "0001000000000000000200000000000000"
        + "00cdccccccccccf43f9a99999999990140";
    assert_eq!(out, hex(&format!("5157503101000100{:02x}000000{body}", body.len() / 2)));
    out.clear();
    results.put_end(&mut out);
    assert_eq!(out, hex("51575031010000000b00000012010000000000000000 02".replace(' ', "").as_str()));
    out.clear();
    results.start(&mut out, &query(7, false));
    results.put_done(&mut out, Done::Insert, 300);
    assert_eq!(out, hex("51575031010000000c000000160700000000000000 02ac02".replace(' ', "").as_str()));
    out.clear();
    put_error(&mut out, -1, Status::ParseError, "no");
    assert_eq!(out, hex("51575031010000000e00000013ffffffffffffffff 0502006e6f".replace(' ', "").as_str()));
}

#[test]
fn symbols_are_sent_once_until_they_are_forgotten() {
    let symbols = |texts: &[&str]| {
        let array: DictionaryArray<Int32Type> = texts.iter().copied().collect();
        batch(vec![("s", Arc::new(array) as ArrayRef)])
    };
    let (mut results, mut client, mut out) = (Results::new(), Client::default(), Vec::new());
    let mut send = |results: &mut Results, texts: &[&str]| {
        let bytes = results.put_batch(&mut out, &symbols(texts)).unwrap();
        let columns = client.read(&std::mem::take(&mut out));
        assert_eq!(columns[0].as_string::<i32>().iter().flatten().collect::<Vec<_>>(), texts);
        bytes
    };
    let mut start = Vec::new();
    results.start(&mut start, &query(1, true));
    assert!(start.is_empty(), "there is nothing to forget");
    let first = send(&mut results, &["apple", "pear"]);
    results.start(&mut start, &query(2, false));
    assert_eq!(send(&mut results, &["pear", "apple"]), first - "apple".len() - "pear".len() - 2);
    results.start(&mut start, &query(3, true));
    assert_eq!(start, hex("5157503101000000020000001701"));
    client = Client::default();
    let bytes = results.put_batch(&mut out, &symbols(&["pear"])).unwrap();
    assert_eq!(bytes, out.len());
    assert_eq!(client.read(&out)[0].as_string::<i32>().value(0), "pear");
}

#[test]
fn symbols_of_a_batch_that_failed_are_sent_with_the_next() {
    let symbols: DictionaryArray<Int32Type> = ["a"].into_iter().collect();
    let symbols: ArrayRef = Arc::new(symbols);
    let too_large = batch(vec![
        ("s", Arc::clone(&symbols)),
        ("n", Arc::new(UInt64Array::from(vec![u64::MAX])) as ArrayRef),
    ]);
    let (mut results, mut client, mut out) = (Results::new(), Client::default(), Vec::new());
    results.start(&mut out, &query(1, false));
    let unsendable = results.put_batch(&mut out, &too_large).unwrap_err();
    assert_eq!(unsendable.to_string(), "column 'n': a value is past what a LONG holds: cast it to DECIMAL");
    assert!(out.is_empty());
    results.put_error(&mut Vec::new(), Status::InternalError, "");
    results.start(&mut out, &query(2, false));
    results.put_batch(&mut out, &batch(vec![("s", symbols)])).unwrap();
    assert_eq!(client.read(&out)[0].as_string::<i32>().value(0), "a");
}

#[test]
fn elements_that_are_null() {
    fn list<T: ArrowPrimitiveType>(values: Vec<Option<T::Native>>) -> ArrayRef {
        let mut builder = ListBuilder::new(PrimitiveBuilder::<T>::new());
        builder.append_value(values);
        Arc::new(builder.finish())
    }
    let rows = batch(vec![
        ("d", list::<Float32Type>(vec![Some(1.5), None])),
        ("l", list::<Int16Type>(vec![Some(-1), None])),
        ("n", Arc::new(NullArray::new(1)) as ArrayRef),
    ]);
    let (mut results, mut client, mut out) = (Results::new(), Client::default(), Vec::new());
    results.put_batch(&mut out, &rows).unwrap();
    let columns = client.read(&out);
    let doubles = columns[0].as_list::<i32>().values().as_primitive::<Float64Type>().clone();
    assert!(doubles.value(0) == 1.5 && doubles.value(1).is_nan());
    let longs = columns[1].as_list::<i32>().values().as_primitive::<Int64Type>().clone();
    assert_eq!(longs, Int64Array::from(vec![Some(-1), None]));
    assert_eq!((client.types[2], columns[2].null_count()), (WireType::Varchar, 1));
}

#[test]
fn a_column_without_a_type_is_named() {
    let times = Arc::new(Time64NanosecondArray::from(vec![1])) as ArrayRef;
    assert_eq!(wire_type(times.data_type()), None);
    assert_eq!(wire_type(&DataType::Decimal128(5, -2)), None);
    let unsendable = Results::new().put_batch(&mut Vec::new(), &batch(vec![("at", times)])).unwrap_err();
    assert_eq!(unsendable.to_string(), "column 'at': QWP has no type for Time64(ns); cast it to VARCHAR");
}

#[test]
fn large_batches_are_cut() {
    let texts: StringArray = (0..1_000).map(|row| Some("x".repeat(row))).collect();
    let rows = batch(vec![("t", Arc::new(texts) as ArrayRef)]);
    let cut = pieces(&rows, 300, 50_000);
    assert_eq!(cut.iter().map(RecordBatch::num_rows).sum::<usize>(), 1_000);
    for piece in &cut {
        let mut out = Vec::new();
        Results::new().put_batch(&mut out, piece).unwrap();
        assert!(piece.num_rows() <= 300 && out.len() <= 50_100, "{} bytes", out.len());
    }
    assert_eq!(pieces(&rows.slice(999, 1), 300, 1).len(), 1, "a row is never cut");
    assert_eq!(pieces(&rows.slice(0, 0), 300, 1).len(), 1, "nor is none");
}

#[test]
fn credit_is_counted() {
    let mut credit = Credit::new(100);
    assert!(credit.allows_batch());
    credit.sent(60);
    credit.sent(60);
    assert!(!credit.allows_batch());
    credit.grant(20);
    assert!(!credit.allows_batch());
    credit.grant(1);
    assert!(credit.allows_batch());
    credit.grant(u64::MAX);
    credit.sent(1 << 40);
    assert!(credit.allows_batch());
    let mut unbounded = Credit::new(0);
    unbounded.sent(usize::MAX);
    assert!(unbounded.allows_batch());
}
