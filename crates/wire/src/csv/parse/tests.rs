use super::*;
use crate::csv::{Layout, last_record_end, sniff};
use crate::{ColumnPlan, EpochUnit, TimeFormat};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampNanosecondType, UInt32Type};
use arrow_array::{Array, ArrayRef, StringArray};
use proptest::prelude::*;
use tickstone_model::ColumnType;

fn plan(columns: &[(&str, ColumnType)]) -> Arc<Plan> {
    let column = |(index, (name, column_type)): (usize, &(&str, ColumnType))| ColumnPlan {
        source: (*name).to_string(),
        column_type: *column_type,
        time: TimeFormat::Epoch(EpochUnit::Millisecond),
        required: index == 0 && *column_type == ColumnType::Timestamp,
        inferred: false,
    };
    let columns: Vec<_> = columns.iter().enumerate().map(column).collect();
    let fields = (0..columns.len()).map(Some).collect();
    Arc::new(Plan { columns, fields })
}

fn trades() -> Arc<Plan> {
    use ColumnType::*;
    plan(&[("ts", Timestamp), ("symbol", Symbol), ("price", Float64), ("id", Int64), ("note", Varchar)])
}

fn parse(plan: Arc<Plan>, text: &str) -> Chunk {
    Parser::new(plan, b',').parse(text.as_bytes(), false)
}

/// Values of a column as text, NULL as "∅".
fn texts(array: &ArrayRef) -> Vec<String> {
    let dictionary = array.as_dictionary_opt::<UInt32Type>();
    let value = |row: usize| {
        if let Some(dictionary) = dictionary {
            return dictionary
                .values()
                .as_string::<i32>()
                .value(dictionary.keys().value(row) as usize)
                .to_string();
        }
        array.as_any().downcast_ref::<StringArray>().expect("text").value(row).to_string()
    };
    (0..array.len()).map(|row| if array.is_null(row) { "∅".to_string() } else { value(row) }).collect()
}

#[test]
fn plain_and_odd_fields() {
    let text = "1723161253123,BTC,1.5,7,hello\r\n2024-08-08T00:00:00Z,\"ETH\",,-3,\"a \"\"b\"\", c\nd\"\n\n\
                1723161253124.5,ETH, 2.5 ,,\"\"";
    let chunk = parse(trades(), text);
    assert_eq!(chunk.bad, vec![]);
    assert_eq!((chunk.rows, chunk.lines), (3, 5));
    let times = chunk.columns[0].as_primitive::<TimestampNanosecondType>();
    assert_eq!(
        times.values()[..],
        [1_723_161_253_123_000_000, 1_723_075_200_000_000_000, 1_723_161_253_124_500_000]
    );
    assert_eq!(texts(&chunk.columns[1]), ["BTC", "ETH", "ETH"]);
    let prices = chunk.columns[2].as_primitive::<Float64Type>();
    assert_eq!(prices.iter().collect::<Vec<_>>(), [Some(1.5), None, Some(2.5)]);
    let ids = chunk.columns[3].as_primitive::<Int64Type>();
    assert_eq!(ids.iter().collect::<Vec<_>>(), [Some(7), Some(-3), None]);
    assert_eq!(texts(&chunk.columns[4]), ["hello", "a \"b\", c\nd", ""]);
}

#[test]
fn bad_rows_say_where_and_why() {
    let text = "1,A,1.5,1,x\n2,A,1.5x,2,x\n3,A,1.5,3.5,x\n\"a\n\",A,1,1,x\n5,A,1\n6,A,1,1,x,y\n,A,1,1,x\n\
                8,\"A\"b,1,1,x\n9,A,1,99999999999999999999,x\n10,A,1,1,x\n";
    let chunk = parse(trades(), text);
    let found: Vec<String> = chunk
        .bad
        .iter()
        .map(|bad| {
            let (column, name) = bad.field.clone().unwrap_or_default();
            format!("{} {column} {name} {:?} {}", bad.line, bad.text, bad.fault)
        })
        .collect();
    assert_eq!(
        found,
        [
            "1 3 price \"1.5x\" is not a DOUBLE",
            "2 4 id \"3.5\" is not a BIGINT",
            "3 1 ts \"a \" is not a TIMESTAMP",
            "5 0  \"5,A,1\" has 3 fields where 5 are expected",
            "6 0  \"6,A,1,1,x,y\" has 6 fields where 5 are expected",
            "7 1 ts \"\" is empty, and the designated timestamp cannot be NULL",
            "8 2 symbol \"\\\"A\\\"b,1,1,x\" has text after its closing quote",
            "9 4 id \"99999999999999999999\" is out of range of BIGINT",
        ]
    );
    assert_eq!(chunk.bad[1].fault.fitting_type(), Some("DOUBLE".to_string()));
    assert_eq!(&text[chunk.bad[2].record.clone()], "\"a\n\",A,1,1,x");
    assert_eq!((chunk.rows, chunk.lines), (2, 11));
    assert_eq!(texts(&chunk.columns[1]), ["A", "A"]);
}

#[test]
fn stops_at_the_first_bad_row_if_asked() {
    let chunk = Parser::new(trades(), b',').parse(b"1,A,1,1,x\nbad\n2,A,1,1,x\n", true);
    assert_eq!((chunk.rows, chunk.bad.len(), chunk.bad[0].line), (1, 1, 1));
}

#[test]
fn records_end_outside_of_quotes() {
    let check =
        |text: &str, expect: usize| assert_eq!(last_record_end(text.as_bytes(), b','), expect, "{text:?}");
    check("a,b\nc", 4);
    check("a,b", 0);
    check("a,\"b\nc", 0);
    check("a,\"b\n\"\nc", 7);
    check("a,5\" pipe\nc", 10);
    check("a,\"x\"\"\n\"\n\"", 9);
}

#[test]
fn layouts() {
    let check = |text: &str, delimiter, header| {
        assert_eq!(sniff(text.as_bytes()), Layout { delimiter, header }, "{text:?}");
    };
    check("ts,price\n1,2\n", b',', true);
    check("ts;price\n1;2,5\n", b';', true);
    check("1\t2\n3\t4\n", b'\t', false);
    check("2024-08-08,BTC\n", b',', false);
    check("price\n1\n2\n", b',', true);
    check("a|b|c\n1|2|3", b'|', true);
}

/// A value ends with its field, whatever a longer one would look like.
#[test]
fn delimiters_are_no_parts_of_values() {
    let open = 1_723_109_400_000_000_000;
    for (delimiter, text, ts) in [
        (',', "2024-08-08 09:30:00,100,A\n2024-08-08T09:30,100,A\n2024-08-08T09:30:00Z,100,A", open),
        ('.', "2024-08-08 09:30:00.100.A\n1723109400000.100.A", open),
        (' ', "2024-08-08T09:30:00 100 A\n2024-08-08T11:30:00+02:00 100 A", open),
        ('+', "2024-08-08T09:30:00+100+A", open),
        ('-', "1723109400000-100-A", open),
        (':', "1723109400000:100:A", open),
        ('Z', "2024-08-08T09:30:00Z100ZA", open),
        (',', "\"2024-08-08 09:30:00,25\",100,A", open + 250_000_000),
        (';', "2024-08-08 09:30:00,25;100;A", open + 250_000_000),
    ] {
        let plan =
            plan(&[("ts", ColumnType::Timestamp), ("size", ColumnType::Float64), ("s", ColumnType::Symbol)]);
        let chunk = Parser::new(plan, delimiter as u8).parse(text.as_bytes(), false);
        assert_eq!((&chunk.bad, chunk.rows), (&vec![], text.lines().count()), "{text}");
        let times = chunk.columns[0].as_primitive::<TimestampNanosecondType>();
        assert!(times.values().iter().all(|found| *found == ts), "{text}");
        let sizes = chunk.columns[1].as_primitive::<Float64Type>();
        assert!(sizes.values().iter().all(|found| *found == 100.0), "{text}");
        assert!(texts(&chunk.columns[2]).iter().all(|found| found == "A"), "{text}");
    }
}

/// A symbol of quotes or delimiters is not taken for the beginning of the next row's field.
#[test]
fn odd_symbols_do_not_spill_into_the_next_row() {
    let plan = plan(&[("a", ColumnType::Symbol), ("b", ColumnType::Varchar)]);
    let chunk = parse(plan, "\"\"\"\",x\n\",\",y\n\"a,b\",z\na,b\n");
    assert_eq!(&chunk.bad, &vec![]);
    assert_eq!(texts(&chunk.columns[0]), ["\"", ",", "a,b", "a"]);
    assert_eq!(texts(&chunk.columns[1]), ["x", "y", "z", "b"]);
}

/// Fields any writer may be given.
fn field() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{0,6}", "[ a-z,\"\n;]{0,8}", "[0-9]{1,9}(\\.[0-9]{1,4})?", "\\PC{0,5}"]
}

proptest! {
    /// What the csv crate writes is read back as it reads it, wherever the bytes are cut.
    #[test]
    fn text_as_the_csv_crate_reads_it(rows in proptest::collection::vec(proptest::collection::vec(field(), 3), 0..20), cut in 0_usize..400) {
        let mut writer = csv::Writer::from_writer(Vec::new());
        for row in &rows {
            writer.write_record(row).expect("to memory");
        }
        let text = writer.into_inner().expect("to memory");
        let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(&text[..]);
        let expected: Vec<Vec<String>> =
            reader.records().map(|record| record.expect("valid").iter().map(str::to_string).collect()).collect();
        let plan = plan(&[("a", ColumnType::Varchar), ("b", ColumnType::Symbol), ("c", ColumnType::Varchar)]);
        let mut parser = Parser::new(plan, b',');
        let cut = last_record_end(&text[..cut.min(text.len())], b',');
        let mut found: Vec<Vec<String>> = Vec::new();
        for part in [&text[..cut], &text[cut..]] {
            let chunk = parser.parse(part, false);
            prop_assert_eq!(&chunk.bad, &vec![]);
            let columns: Vec<_> = chunk.columns.iter().map(texts).collect();
            found.extend((0..chunk.rows).map(|row| columns.iter().map(|c| c[row].replace('∅', "")).collect()));
        }
        prop_assert_eq!(found, expected);
    }

    /// Without quotes a line is what stands between its commas, of any bytes.
    #[test]
    fn texts_without_quotes_as_they_are_cut(bytes in proptest::collection::vec(prop_oneof![
        4 => proptest::sample::select(b"aab\0\xc3\xa9\xff".to_vec()),
        2 => proptest::sample::select(b",,\n\r\n\x0b\x0d\x2d".to_vec()),
        1 => any::<u8>().prop_filter("no quote", |byte| *byte != b'"'),
    ], 0..200)) {
        let text = [&bytes[..], b"\n"].concat();
        let mut expected: Vec<Vec<Option<String>>> = Vec::new();
        let mut bad = 0;
        for line in text[..text.len() - 1].split(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                continue;
            }
            let fields = line.split(|byte| *byte == b',').map(|field| std::str::from_utf8(field).ok());
            match fields.collect::<Option<Vec<_>>>() {
                Some(fields) if fields.len() == 3 => expected.push(
                    fields.iter().map(|field| (!field.is_empty()).then(|| (*field).to_string())).collect(),
                ),
                _ => bad += 1,
            }
        }
        let plan = plan(&[("a", ColumnType::Symbol), ("b", ColumnType::Varchar), ("c", ColumnType::Symbol)]);
        let chunk = Parser::new(plan, b',').parse(&text, false);
        prop_assert_eq!(chunk.bad.len(), bad);
        let columns: Vec<_> = chunk.columns.iter().map(texts).collect();
        let found: Vec<Vec<Option<String>>> = (0..chunk.rows)
            .map(|row| columns.iter().map(|column| Some(column[row].clone()).filter(|text| text != "∅")).collect())
            .collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn doubles_as_std_reads_them(values in proptest::collection::vec(any::<f64>(), 1..50)) {
        let text: String = values.iter().map(|value| format!("{value}\n")).collect();
        let chunk = parse(plan(&[("x", ColumnType::Float64)]), &text);
        prop_assert_eq!(&chunk.bad, &vec![]);
        let found = chunk.columns[0].as_primitive::<Float64Type>();
        for (found, value) in found.values().iter().zip(&values) {
            prop_assert!(found.to_bits() == value.to_bits() || found.is_nan() && value.is_nan());
        }
    }

    /// Every record is a row or a bad row, and the columns agree in length, whatever the bytes.
    #[test]
    fn any_bytes(bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b','), Just(b'"'), Just(b'\n'), Just(b'\r'), Just(b'1')], 0..300)) {
        let chunk = Parser::new(trades(), b',').parse(&bytes, false);
        prop_assert!(chunk.columns.iter().all(|column| column.len() == chunk.rows));
        prop_assert!(chunk.bad.iter().all(|bad| bad.record.end <= bytes.len()));
        let _ = (sniff(&bytes), last_record_end(&bytes, b','), Records::new(&bytes, b',').count());
    }
}

#[test]
fn bytes_of_no_length_are_told_from_null() {
    let plan = plan(&[("n", ColumnType::Int64), ("raw", ColumnType::Binary)]);
    let chunk = Parser::new(plan, b',').parse(b"1,\"\"\n2,\n3,00\n", true);
    let raw = chunk.columns[1].as_binary::<i32>();
    assert_eq!(raw.iter().collect::<Vec<_>>(), [Some(&b""[..]), None, Some(&b"\0"[..])]);
}

#[test]
fn whole_records_are_counted_up_to_a_limit() {
    use super::super::record_count;
    for (text, wanted) in
        [("", 0), ("a", 0), ("a\n", 1), ("\n\na\nb", 1), ("\"x\ny\",1\nb\n", 2), ("a\nb\nc\n", 2)]
    {
        assert_eq!(record_count(text.as_bytes(), b',', 2), wanted, "{text:?}");
    }
}
