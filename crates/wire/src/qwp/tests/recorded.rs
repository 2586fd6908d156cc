//! Messages as QuestDB's Python client 6.0.0 sends them.

use crate::qwp::egress::{Request, read_request};
use crate::qwp::{Ingress, Refused, Status, response};
use crate::{Fault, TableRows};
use arrow_array::Array;
use tickstone_model::ColumnType;

/// Rows of `t` with symbols, doubles, booleans, and numbers and texts of every second; then one of `u` without a time.
pub(super) const ROWS: &str = concat!(
    "5157503101080200cf00000000020342544303455448017405060373796d090270780702757001001002696405046e6f",
    "74650f010400010001000000000000000000000000000000e03f000000000000f03f000000000000f83f000000000000",
    "004000010000f022b0deb6e917e8f322b0deb6e917d0f722b0deb6e917b8fb22b0deb6e917a0ff22b0deb6e917000000",
    "000000000080010000000000000000000000000000800300000000000000000000000000008001150000000001000000",
    "020000003133017501020173090161050001000100000000000000",
);

/// A row of every type that rows can have; one with but `z` and no time; one with a decimal, an empty array and NaN.
pub(super) const NULLS: &str = concat!(
    "51575031010801003d0100000000016e030d01750c026970180162170163160264610b016c0d01670e01641503617272",
    "110274730a0166070010017a05010600401714664256a4d3129be867453e1201060700000a0106000000000300000000",
    "0102004100000000000106c0dd5231910100000106efbeadde0000000000000000000000000000000000000000000000",
    "0000000000010619888da10101020296000000000000000000000000000000000000000000000000000000000000007d",
    "0000000000000000000000000000000000000000000000000000000000000001020102000000000000000000f03f0000",
    "00000000004001000000000106050000000000000000000000000000f83f000000000000f87f000000000000f87f0102",
    "00f022b0deb6e91700f022b0deb6e91700000000000000008001000000000000000000000000000080",
);

/// A data frame of Polars: symbols, texts, numbers, dates, arrays and decimals.
pub(super) const POLARS: &str = concat!(
    "51575031010801000d010000000301410142014302706c04070373796d0901730f01690501640b016c1102646514000a",
    "0000010002010200000000010000000300000004000000787a7a77000100000000000000000000000000008003000000",
    "0000000004000000000000000000f451c28c01000000f451c28c01000000f451c28c01000000f451c28c010000010401",
    "02000000000000000000f03f000000000000004001010000000000000000000840010000000000027d00000000000000",
    "00000000000000007d0000000000000000000000000000007d0000000000000000000000000000007d00000000000000",
    "00000000000000000000a037b5201f060040e246b5201f0600802456b5201f0600c06665b5201f0600",
);

/// Two rows of Arrow on the same connection, not to be stored yet.
pub(super) const ARROW: &str =
    "5157503101090100240000000301014402706c02020373796d09000a0003000001000000000000000200000000000000";

/// The message that has them stored.
pub(super) const COMMIT: &str = "5157503101080000020000000000";

/// An array of two dimensions.
pub(super) const MATRIX: &str = concat!(
    "5157503101080100480000000000026e640202016c11000a0102020200000002000000000000000000f03f0000000000",
    "000040000000000000084000000000000010400001000000000000000200000000000000",
);

/// A decimal of 38 digits.
pub(super) const WIDE: &str = concat!(
    "515750310108010036000000000001740102016415001000034ef338de509049c4133302f0f6b0490900000000000000",
    "0000000000000000000000f022b0deb6e917",
);

pub(super) fn hex(text: &str) -> Vec<u8> {
    let (pairs, _) = text.as_bytes().as_chunks::<2>();
    pairs.iter().map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn read(ingress: &mut Ingress, text: &str) -> Vec<TableRows> {
    ingress.read(&hex(text), 7, &mut |_| None).unwrap().tables
}

/// The columns' names and types, and their values as Arrow shows them.
fn shown(table: &TableRows) -> Vec<(String, String)> {
    let column = |column: &crate::RowsColumn| {
        let values = format!("{:?}", column.values);
        let (_, values) = values.split_once('[').unwrap();
        (
            format!("{} {}", column.name, column.column_type),
            values.split_whitespace().collect::<Vec<_>>().join(" "),
        )
    };
    table.columns.iter().map(column).collect()
}

fn check(table: &TableRows, expected: &[(&str, &str)]) {
    let shown = shown(table);
    let expected: Vec<_> =
        expected.iter().map(|(name, values)| (name.to_string(), values.to_string())).collect();
    assert_eq!(shown, expected);
}

fn times(table: &TableRows) -> Vec<i64> {
    use arrow_array::cast::AsArray;
    let times = table.times.as_ref().unwrap();
    times.as_primitive::<arrow_array::types::TimestampNanosecondType>().values().to_vec()
}

#[test]
fn rows_with_some_values() {
    let tables = read(&mut Ingress::default(), ROWS);
    let [t, u] = tables.as_slice() else { panic!("{tables:?}") };
    assert_eq!((t.name.as_str(), t.rows, u.name.as_str(), u.rows), ("t", 5, "u", 1));
    let id = t.columns.iter().find(|column| column.name == "id").unwrap();
    assert_eq!((id.column_type, id.values.null_count()), (ColumnType::Int64, 3));
    assert!(t.columns[0].is_tag && t.columns[0].column_type == ColumnType::Symbol);
    assert_eq!(t.columns[0].values.null_count(), 1);
    let up = t.columns.iter().find(|column| column.name == "up").unwrap();
    assert_eq!(up.values.null_count(), 0, "a boolean without a value is false");
    assert_eq!(times(t)[1] - times(t)[0], 1_000);
    assert_eq!(times(u), [7], "the server's time");
}

#[test]
fn every_type_of_rows_and_its_null() {
    let tables = read(&mut Ingress::default(), NULLS);
    assert_eq!(times(&tables[0]), [1_723_109_400_000_000_000, 7, 1_723_109_400_000_000_000]);
    check(
        &tables[0],
        &[
            (
                "u UUID",
                "[18, 62, 69, 103, 232, 155, 18, 211, 164, 86, 66, 102, 20, 23, 64, 0], null, null, ]",
            ),
            ("ip VARCHAR", "\"10.0.0.7\", null, null, ]"),
            ("b BINARY", "[0, 1, 2], null, null, ]"),
            ("c VARCHAR", "\"A\", null, null, ]"),
            ("da TIMESTAMP", "2024-08-08T09:30:00, null, null, ]"),
            ("l VARCHAR", "\"0xdeadbeef\", null, null, ]"),
            ("g VARCHAR", "\"u33d8\", null, null, ]"),
            ("d DECIMAL(18,3)", "1500, null, 1250, ]"),
            ("arr DOUBLE[]", "PrimitiveArray<Float64> [ 1.0, 2.0, ], null, PrimitiveArray<Float64> [ ], ]"),
            ("ts TIMESTAMP", "1970-01-01T00:00:00.000005, null, null, ]"),
            ("f DOUBLE", "1.5, null, null, ]"),
            ("z BIGINT", "null, 1, null, ]"),
        ],
    );
}

#[test]
fn data_frames_and_symbols_of_the_connection() {
    let mut ingress = Ingress::default();
    let tables = read(&mut ingress, POLARS);
    let types: Vec<_> = shown(&tables[0]).into_iter().map(|(name, _)| name).collect();
    assert_eq!(
        types,
        ["sym SYMBOL", "s VARCHAR", "i BIGINT", "d TIMESTAMP", "l DOUBLE[]", "de DECIMAL(18,3)"]
    );
    let nulls: Vec<_> = tables[0].columns.iter().map(|column| column.values.null_count()).collect();
    assert_eq!(nulls, [0, 1, 1, 0, 1, 0]);
    let rows = ingress.read(&hex(ARROW), 7, &mut |_| None).unwrap();
    assert!(!rows.commits);
    let (_, symbols) = shown(&rows.tables[0]).remove(0);
    assert!(symbols.contains("\"D\", \"A\""), "{symbols}");
    let commit = ingress.read(&hex(COMMIT), 7, &mut |_| None).unwrap();
    assert!(commit.commits && commit.tables.is_empty());
    let refused = Ingress::default().read(&hex(ARROW), 7, &mut |_| None).unwrap_err();
    assert_eq!(refused.status(), Status::DictionaryGap);
}

#[test]
fn what_a_table_cannot_hold() {
    let refused = Ingress::default().read(&hex(MATRIX), 7, &mut |_| None).unwrap_err();
    let what = "table 'nd', column 'l', row 0: '2x2' is an array of several dimensions; a table's have one";
    assert_eq!((refused.status(), refused.to_string().as_str()), (Status::SchemaMismatch, what));
    let mut answer = Vec::new();
    response::put_refused(&mut answer, 1, &refused);
    assert_eq!(answer[..11], [3, 1, 0, 0, 0, 0, 0, 0, 0, what.len() as u8, 0]);
    assert_eq!(&answer[11..], what.as_bytes());
    let tables = read(&mut Ingress::default(), WIDE);
    check(&tables[0], &[("d DECIMAL(38,3)", "12345678901234567890123456789012345678, ]")]);
    assert!(matches!(refused, Refused::Value { fault: Fault::Field { .. }, .. }));
}

#[test]
fn answers_are_those_of_the_protocol() {
    let mut out = Vec::new();
    response::put_ok(&mut out, 3, [("ab", 9)].into_iter());
    assert_eq!(out, hex("0003000000000000000100020061620900000000000000"));
    out.clear();
    response::put_durable(&mut out, [].into_iter());
    assert_eq!(out, hex("020000"));
    out.clear();
    response::put_error(&mut out, 0, Status::WriteError, &"é".repeat(40_000));
    assert_eq!(out.len(), 11 + 65_534, "cut where a character begins");
}

#[test]
fn queries() {
    let query = |text: &str| match read_request(&hex(text)).unwrap() {
        Request::Query(query) => query,
        other => panic!("{other:?}"),
    };
    let plain = query("1002000000000000000873656c65637420310000");
    assert_eq!((plain.id, plain.sql.as_str(), plain.credit), (2, "select 1", 0));
    assert!(plain.parameters.is_empty() && !plain.resets_symbols && plain.timeout_ms.is_none());
    assert!(query("1001000000000000000873656c6563742031000001").resets_symbols);
    let parameters = [
        ("100000f022b0deb6e917", "2024-08-08T09:30:00"),
        ("0a000500000000000000", "1970-01-01T00:00:00.000005"),
        ("0f00000000000100000078", "\"x\""),
        ("0f0101", "null"),
        ("010001", "true"),
        ("05000100000000000000", "1"),
        ("0700000000000000f83f", "1.5"),
        ("1300027d00000000000000", "1250"),
        ("0900000000000100000078", "\"x\""),
    ];
    for (parameter, expected) in parameters {
        let query = query(&format!("1001000000000000000973656c6563742024310001{parameter}03dc0b"));
        let [value] = query.parameters.as_slice() else { panic!("{query:?}") };
        assert!(value.len() == 1 && format!("{value:?}").contains(expected), "{value:?}");
        assert_eq!(query.timeout_ms.map(std::num::NonZeroU64::get), Some(1_500));
    }
    assert!(matches!(read_request(&hex("140300000000000000")), Ok(Request::Cancel { id: 3 })));
    let credit = read_request(&hex("150700000000000000808004"));
    assert!(matches!(credit, Ok(Request::Credit { id: 7, bytes: 65_536 })));
}
