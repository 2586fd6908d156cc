//! Lines of both systems, what is bad in them, and lines drawn by chance, whole and in pieces.

use super::{BadLine, Parser, Precision};
use crate::{RowsColumn, TableRows};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal128Type, Float32Type, Float64Type, Int16Type, Int64Type, TimestampNanosecondType, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use proptest::prelude::*;
use std::sync::Arc;
use tickstone_model::{ColumnType, ElementType, PartitionBy, TableSchema};

const NOW: i64 = 7;

fn cell(array: &ArrayRef, of: ColumnType, row: usize) -> String {
    if array.is_null(row) {
        return "NULL".to_string();
    }
    match of {
        ColumnType::Boolean => array.as_boolean().value(row).to_string(),
        ColumnType::Int16 => array.as_primitive::<Int16Type>().value(row).to_string(),
        ColumnType::Int64 => array.as_primitive::<Int64Type>().value(row).to_string(),
        ColumnType::UInt64 => array.as_primitive::<UInt64Type>().value(row).to_string(),
        ColumnType::Float32 => array.as_primitive::<Float32Type>().value(row).to_string(),
        ColumnType::Float64 => array.as_primitive::<Float64Type>().value(row).to_string(),
        ColumnType::Decimal { .. } => array.as_primitive::<Decimal128Type>().value_as_string(row),
        ColumnType::Timestamp => array.as_primitive::<TimestampNanosecondType>().value(row).to_string(),
        ColumnType::Varchar => format!("{:?}", array.as_string::<i32>().value(row)),
        ColumnType::Symbol => {
            let symbols = array.as_dictionary::<UInt32Type>();
            let id = symbols.keys().value(row) as usize;
            format!("{:?}", symbols.values().as_string::<i32>().value(id))
        }
        ColumnType::Array(ElementType::Float64) => {
            let list = array.as_list::<i32>().value(row);
            format!("{:?}", &list.as_primitive::<Float64Type>().values()[..])
        }
        other => panic!("no test has a {other}"),
    }
}

/// Rows as text: a line for each, `table: name=value … @time`.
fn shown(tables: &[TableRows]) -> Vec<String> {
    let mut lines = Vec::new();
    for table in tables {
        for row in 0..table.rows {
            let value = |column: &RowsColumn| {
                format!(" {}={}", column.name, cell(&column.values, column.column_type, row))
            };
            let values: String = table.columns.iter().map(value).collect();
            let time = table
                .times
                .as_ref()
                .map_or(String::new(), |times| format!(" @{}", cell(times, ColumnType::Timestamp, row)));
            lines.push(format!("{}:{values}{time}", table.name));
        }
    }
    lines
}

fn none(_: &str) -> Option<Arc<TableSchema>> {
    None
}

/// A table with a column of each type.
fn known(name: &str) -> Option<Arc<TableSchema>> {
    let decimal = ColumnType::Decimal { precision: 10, scale: 2 };
    let builder = TableSchema::builder(name)
        .column("ts", ColumnType::Timestamp)
        .column("sym", ColumnType::Symbol)
        .column("px", ColumnType::Float64)
        .column("small", ColumnType::Int16)
        .column("big", ColumnType::UInt64)
        .column("real", ColumnType::Float32)
        .column("cash", decimal)
        .column("note", ColumnType::Varchar)
        .column("seen", ColumnType::Timestamp)
        .column("id", ColumnType::Uuid)
        .column("sizes", ColumnType::Array(ElementType::Float64));
    match name {
        "known" => Some(Arc::new(builder.timestamp("ts").build().expect("a sound schema"))),
        "still" => Some(Arc::new(builder.partition_by(PartitionBy::None).build().expect("a sound schema"))),
        "view" => Some(Arc::new(TableSchema::of_view("view", "SELECT 1").expect("a sound view"))),
        _ => None,
    }
}

fn parse(bytes: &[u8], precision: Precision) -> (Vec<TableRows>, Option<BadLine>, usize) {
    let mut parser = Parser::new(precision);
    let parsed = parser.parse(bytes, NOW, &mut known);
    (parser.take(), parsed.bad, parsed.bytes)
}

#[track_caller]
fn check(lines: &str, expected: &[&str]) {
    let (tables, bad, bytes) = parse(lines.as_bytes(), Precision::default());
    assert_eq!(bad.map(|bad| bad.to_string()), None, "{lines}");
    assert_eq!(bytes, lines.len(), "{lines}");
    assert_eq!(shown(&tables), expected, "{lines}");
}

#[track_caller]
fn check_bad(lines: impl AsRef<[u8]>, expected: &str) {
    let (tables, bad, _) = parse(lines.as_ref(), Precision::default());
    assert_eq!(bad.map(|bad| bad.to_string()).as_deref(), Some(expected));
    assert_eq!(tables.iter().map(|table| table.rows).sum::<usize>(), 0, "a bad line left a row");
}

#[test]
fn lines_of_influx_and_questdb() {
    check(
        "trades,symbol=BTC-USD,side=buy price=61500.5,amount=0.25 1723109400000000000\n\
         trades,symbol=ETH-USD,side=sell price=3421,amount=2e3 1723109400000000001\r\n",
        &[
            "trades: symbol=\"BTC-USD\" side=\"buy\" price=61500.5 amount=0.25 @1723109400000000000",
            "trades: symbol=\"ETH-USD\" side=\"sell\" price=3421 amount=2000 @1723109400000000001",
        ],
    );
    check(
        "m a=1i,b=2u,c=t,d=F,e=\"x\",f=-1.5e-3,g=NaN,h=-inf\n",
        &["m: a=1 b=2 c=true d=false e=\"x\" f=-0.0015 g=NaN h=-inf @7"],
    );
    check("# a comment\n\n  m a=1 2\n   \r\n#\n", &["m: a=1 @2"]);
    check("m,t=a 5\nm,t=b\nm x=1\n", &["m: t=\"a\" x=NULL @5", "m: t=\"b\" x=NULL @7", "m: t=NULL x=1 @7"]);
    check("m a=1t,b=2n 3t\nm a=4t 5n\n", &["m: a=1000 b=2 @3000", "m: a=4000 b=NULL @5"]);
    check("m   a=1   5  \n", &["m: a=1 @5"]);
    check("m a=1 -5\n", &["m: a=1 @-5"]);
    check("a x=1 1\nb y=2 2\na x=3 3\n", &["a: x=1 @1", "a: x=3 @3", "b: y=2 @2"]);
}

#[test]
fn escapes_of_both_systems() {
    check(
        "my\\ table,a\\,b=c\\=d,e\\ f=g\\ h i\\=j=\"k \\\"l\\\" \\\\ m\" 1\n",
        &["my table: a,b=\"c=d\" e f=\"g h\" i=j=\"k \\\"l\\\" \\\\ m\" @1"],
    );
    // QuestDB's clients escape line ends and backslashes everywhere; InfluxDB keeps a backslash before anything else.
    check(
        "m,t=a\\\nb\\\\c x=\"d\\\ne\",y=\"C:\\dir\" 1\n",
        &["m: t=\"a\\nb\\\\c\" x=\"d\\ne\" y=\"C:\\\\dir\" @1"],
    );
    check("m,t=a\\d x=\"line\nend\" 1\n", &["m: t=\"a\\\\d\" x=\"line\\nend\" @1"]);
    check("m,t=\"q\" x=1 1\n", &["m: t=\"\\\"q\\\"\" x=1 @1"]);
    check("m,t= x=\"\" 1\n", &["m: t=\"\" x=\"\" @1"]);
    check("m,größe=ß x=\"→ ☃\" 1\n", &["m: größe=\"ß\" x=\"→ ☃\" @1"]);
}

#[test]
fn binary_values() {
    let mut line = b"m,t=a d==\x10".to_vec();
    line.extend(61500.5_f64.to_le_bytes());
    line.extend(b",l==\x0e\x0a\x01\x02\x00\x00\x00");
    line.extend([10.0_f64, f64::from_le_bytes(*b"\n\n\n\n  ,=")].iter().flat_map(|x| x.to_le_bytes()));
    line.extend(b",m==\x17\x02\x02\x30\x39,n==\x17\x02\x01\xff,e==\x0e\x0a\x01\x00\x00\x00\x00 1t\n");
    for cut in 0..line.len() {
        let (tables, bad, bytes) = parse(&line[..cut], Precision::default());
        assert!(tables.is_empty() && bad.is_none() && bytes == 0, "cut at {cut}: {bad:?}");
    }
    let (tables, bad, _) = parse(&line, Precision::default());
    assert_eq!(bad, None);
    let rest = f64::from_le_bytes(*b"\n\n\n\n  ,=");
    let expected = format!("m: t=\"a\" d=61500.5 l=[10.0, {rest:?}] m=123.450 n=-0.010 e=[] @1000");
    assert_eq!(shown(&tables), [expected]);
    assert_eq!(tables[0].columns[3].column_type, ColumnType::Decimal { precision: 18, scale: 3 });
    check_bad(
        b"m d==\x11abc 1\n",
        "table 'm', column 'd': '=' is a binary value of a type that is not known: QuestDB's are 14 (array), 16 (double) and 23 (decimal)",
    );
    check_bad(
        b"m d==\x0e\x0a\x02\x01\x00\x00\x00\x01\x00\x00\x00AAAAAAAA 1\n",
        "table 'm', column 'd': '=' is an array of several dimensions; a table's have one",
    );
    check_bad(
        b"m d==\x0e\x0a\x01\xff\xff\xff\xff 1\n",
        "table 'm', column 'd': '=' is an array of more than 16 MB",
    );
}

#[test]
fn values_go_into_columns_of_other_types_where_nothing_is_lost() {
    check(
        "known,sym=a px=1i,small=-5i,big=9i,real=2i,cash=3i,note=\"x\",seen=4t 1\n\
         known,sym=b px=1.5d,small=t,big=18446744073709551615u,real=0.1,cash=1.25,note=\"\",seen=\"1970-01-01T00:00:00.5\" 2\n\
         KNOWN,SYM=c PX=f,cash=\"7.5\" 3\n\
         known sym=\"d\",cash=1.5e1d,px=1e2d,cash=9i,ts=5n 9\n\
         known cash=NaN,real=NaNd\n\
         known cash=Infinityd,real=-infd 9\n\
         known cash=-Infinityd,real=nand 10\n",
        &[
            "known: sym=\"a\" px=1 small=-5 big=9 real=2 cash=3.00 note=\"x\" seen=4000 @1",
            "known: sym=\"b\" px=1.5 small=1 big=18446744073709551615 real=0.1 cash=1.25 note=\"\" seen=500000000 @2",
            "known: sym=\"c\" px=0 small=NULL big=NULL real=NULL cash=7.50 note=NULL seen=NULL @3",
            "known: sym=\"d\" px=100 small=NULL big=NULL real=NULL cash=15.00 note=NULL seen=NULL @5",
            "known: sym=NULL px=NULL small=NULL big=NULL real=NULL cash=NULL note=NULL seen=NULL @7",
            "known: sym=NULL px=NULL small=NULL big=NULL real=NULL cash=NULL note=NULL seen=NULL @9",
            "known: sym=NULL px=NULL small=NULL big=NULL real=NULL cash=NULL note=NULL seen=NULL @10",
        ],
    );
}

#[test]
fn what_is_bad_is_told() {
    check_bad(
        "m a=1i,b=abc 1\n",
        "table 'm', column 'b': 'abc' is no value of a field: a text stands in quotes",
    );
    check_bad(
        "hello\n",
        "table 'hello', 'hello' is not a line of line protocol: it has neither a tag nor a field",
    );
    check_bad(
        "hello 12\n",
        "table 'hello', 'hello 12' is not a line of line protocol: it has neither a tag nor a field",
    );
    check_bad("m a=1e400 1\n", "table 'm', column 'a': '1e400' is past what a DOUBLE holds");
    let wide: String = (0..4_097).map(|n| format!("c{n}=1,")).collect();
    check_bad(
        format!("m {}\n", wide.trim_end_matches(',')),
        "table 'm', column 'c4095': '1' is one column too many: a table has at most 4,096",
    );
    check_bad("m a= 1\n", "table 'm', column 'a': '' is empty");
    check_bad("m a=0x12i 1\n", "table 'm', column 'a': '0x12i' is a LONG256, which no column can hold");
    check_bad(
        "m a=9223372036854775808i 1\n",
        "table 'm', column 'a': '9223372036854775808i' has more digits than 64 bits hold",
    );
    check_bad("m a=\"b\"c 1\n", "table 'm', column 'a': '\"b\"' goes on after its end");
    check_bad(
        "m a 1\n",
        "table 'm', 'a' is not a line of line protocol: a time, a whole number, is expected at its end",
    );
    check_bad("m,a b=1 1\n", "table 'm', 'a' is not a line of line protocol: name=value is expected");
    check_bad(
        "m a=1 b=2\n",
        "table 'm', 'b' is not a line of line protocol: a time is expected behind the fields",
    );
    check_bad("m a=1 1 2\n", "table 'm', '2' is not a line of line protocol: it goes on after its time");
    check_bad(
        "m a=1 99999999999999999999\n",
        "table 'm', '99999999999999999999' is not a line of line protocol: a time, a whole number, is expected at its end",
    );
    check_bad(
        "m a=1 9223372036854775807t\n",
        "table 'm', '9223372036854775807t' is no time between the years 1677 and 2262",
    );
    check_bad(",a=b c=1\n", "'' is no name that a table or a column can have: it is empty");
    check_bad("m,=b c=1\n", "table 'm', '=' is not a line of line protocol: name=value is expected");
    check_bad(
        "m\\  a=1\n",
        "'m\\ ' is no name that a table or a column can have: it begins or ends with a space",
    );
    check_bad(b"m,a=\xff b=1\n", "table 'm', column 'a': '\u{fffd}' is not valid UTF-8");
    check_bad(b"\xff b=1\n", "'\u{fffd}' is not valid UTF-8");
    check_bad(
        "known ts=1i\n",
        "table 'known', column 'ts': '1i' is a whole number, and the column is TIMESTAMP",
    );
    check_bad(
        "m timestamp=1t,timestamp=1i\n",
        "table 'm', column 'timestamp': '1i' is a whole number, and the column is TIMESTAMP",
    );
    check_bad(
        "known px=\"1\" 1\n",
        "table 'known', column 'px': '\"1\"' is a text, and the column is DOUBLE",
    );
    check_bad(
        "known small=40000i 1\n",
        "table 'known', column 'small': '40000i' is out of range of SMALLINT",
    );
    check_bad(
        "known small=1.5 1\n",
        "table 'known', column 'small': '1.5' is a double, and the column is SMALLINT",
    );
    check_bad(
        "known px=9007199254740993i 1\n",
        "table 'known', column 'px': '9007199254740993i' is out of range of DOUBLE",
    );
    check_bad(
        "known cash=1.234d 1\n",
        "table 'known', column 'cash': '1.234d' is out of range of DECIMAL(10,2)",
    );
    check_bad(
        "known cash=1e300 1\n",
        "table 'known', column 'cash': '1e300' is out of range of DECIMAL(10,2)",
    );
    check_bad("known real=1e39 1\n", "table 'known', column 'real': '1e39' is out of range of FLOAT");
    check_bad(
        "known seen=1i 1\n",
        "table 'known', column 'seen': '1i' is a number, and the unit of this column's timestamps is not known",
    );
    check_bad("known id=\"x\" 1\n", "table 'known', column 'id': '\"x\"' is not a UUID");
    check_bad(
        "known,px=a note=\"b\" 1\n",
        "table 'known', column 'px': 'a' is a tag, and the column is DOUBLE",
    );
    check_bad("still px=1 1\n", "table 'still', '1' is a time, and the table has no designated timestamp");
    check_bad("view px=1 1\n", "'view' is a view, which has no rows of its own");
}

#[test]
fn a_bad_line_leaves_nothing_behind() {
    let lines = b"m,t=a x=1 1\nm,t=b,u=c x=2,y=1i,z=oops 2\nm,t=d x=3 3\nn q=1\n";
    let mut parser = Parser::default();
    let first = parser.parse(lines, NOW, &mut none);
    let bad = first.bad.expect("the second line is bad");
    assert_eq!((first.lines, &lines[bad.record.clone()]), (1, &b"m,t=b,u=c x=2,y=1i,z=oops 2\n"[..]));
    let second = parser.parse(&lines[bad.record.end..], NOW, &mut none);
    assert_eq!((second.bad, second.lines), (None, 2));
    assert_eq!(parser.rows(), 3);
    let expected = ["m: t=\"a\" x=1 @1", "m: t=\"d\" x=3 @3", "n: q=1 @7"];
    assert_eq!(shown(&parser.take()), expected);
    assert_eq!((parser.rows(), parser.take().len()), (0, 0));
}

#[test]
fn precisions() {
    let with = |precision: &str, time: &str| {
        let line = format!("m a=1 {time}\n");
        let (tables, bad, _) = parse(line.as_bytes(), Precision::of(precision).expect("a precision"));
        bad.map_or_else(|| shown(&tables).concat(), |bad| bad.to_string())
    };
    for (precision, nanos) in [("ns", 1_i64), ("u", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)] {
        assert_eq!(with(precision, "3"), format!("m: a=1 @{}", 3 * nanos));
        assert_eq!(with(precision, "3n"), "m: a=1 @3");
    }
    assert_eq!(with("h", "1"), "m: a=1 @3600000000000");
    assert_eq!(with("m", "1"), "m: a=1 @60000000000");
    assert_eq!(
        with("s", "9223372036854775807"),
        "table 'm', '9223372036854775807' is no time between the years 1677 and 2262"
    );
    for (time, nanos) in [
        ("1723109400", 1_723_109_400_000_000_000_i64),
        ("1723109400001", 1_723_109_400_001_000_000),
        ("1723109400000001", 1_723_109_400_000_001_000),
        ("1723109400000000001", 1_723_109_400_000_000_001),
    ] {
        assert_eq!(with("auto", time), format!("m: a=1 @{nanos}"));
    }
    assert_eq!(Precision::of("fortnight"), None);
}

#[test]
fn rows_make_a_table_or_fit_one() {
    let (tables, _, _) = parse(b"m,a=x,b=y c=1,d=2i 1\nm,e=z f=t 2\n", Precision::default());
    let schema = tables[0].new_table().expect("a sound table");
    let names: Vec<_> = schema.columns().iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "d", "e", "f", "timestamp"]);
    assert_eq!(schema.series(), [0, 1, 4]);
    assert_eq!(schema.timestamp(), Some(6));
    let batch = tables[0].batch(&schema).expect("they fit their own table");
    assert_eq!((batch.num_rows(), batch.num_columns()), (2, 7));

    // A field or tag of the name that is no time is a column; the designated timestamp has another name then.
    for (lines, wanted) in [
        (
            "m timestamp=1.5,a=1 7\nm Timestamp=2.5 8\n",
            ["timestamp DOUBLE", "a DOUBLE", "time TIMESTAMP"].as_slice(),
        ),
        ("m,timestamp=x a=1 7\n", &["timestamp SYMBOL", "a DOUBLE", "time TIMESTAMP"]),
        ("m timestamp=5t,time=1.5\n", &["time DOUBLE", "timestamp TIMESTAMP"]),
    ] {
        let (tables, _, _) = parse(lines.as_bytes(), Precision::default());
        let schema = tables[0].new_table().expect("a sound table");
        let columns: Vec<_> =
            schema.columns().iter().map(|c| format!("{} {}", c.name, c.column_type)).collect();
        assert_eq!(columns, wanted, "{lines}");
        assert_eq!(schema.timestamp(), Some(wanted.len() - 1));
        assert!(tables[0].batch(&schema).is_some(), "{lines}");
    }
    let (both, _, _) = parse(b"m timestamp=1.5,time=2.5\n", Precision::default());
    assert!(both[0].new_table().unwrap_err().to_string().contains("time"));

    let (tables, _, _) = parse(b"known px=1,extra=2i 1\n", Precision::default());
    let table = tables[0].table.clone().expect("it is known");
    assert_eq!(tables[0].new_columns().map(|column| column.name).collect::<Vec<_>>(), ["extra"]);
    assert!(tables[0].batch(&table).is_none(), "a column is missing");
    let (tables, _, _) = parse(b"known px=1 1\n", Precision::default());
    let batch = tables[0].batch(&table).expect("they fit");
    assert_eq!((batch.num_columns(), batch.column(1).null_count()), (11, 1));
}

/// A name or a text of bytes that want escapes, and others.
fn text() -> impl Strategy<Value = String> {
    let byte = prop_oneof![
        8 => prop::char::range('a', 'e'),
        1 => prop::sample::select(vec![',', '=', ' ', '"', '\\', '\n', '\r', 'ä', '#', '0', '☃', '\t'])
    ];
    prop::collection::vec(byte, 1..6).prop_map(|chars| chars.into_iter().collect())
}

/// A name that a table or a column can have.
fn name() -> impl Strategy<Value = String> {
    text().prop_map(|text| {
        let name: String = text.chars().filter(|c| !c.is_control()).collect();
        format!("x{}", name.trim())
    })
}

#[derive(Debug, Clone)]
enum Field {
    Integer(i64),
    Double(f64),
    Boolean(bool),
    Text(String),
    Time(i64),
}

fn field() -> impl Strategy<Value = Field> {
    prop_oneof![
        any::<i64>().prop_map(Field::Integer),
        any::<i32>().prop_map(|n| Field::Double(f64::from(n) / 64.0)),
        any::<f64>().prop_map(Field::Double),
        any::<bool>().prop_map(Field::Boolean),
        text().prop_map(Field::Text),
        (-1_i64 << 40..1 << 40).prop_map(Field::Time),
    ]
}

#[derive(Debug, Clone)]
struct Line {
    table: usize,
    tags: Vec<(usize, String)>,
    fields: Vec<(usize, Field)>,
    time: Option<i64>,
}

fn escaped(text: &str, specials: &str) -> String {
    text.chars().flat_map(|c| specials.contains(c).then_some('\\').into_iter().chain([c])).collect()
}

const UNQUOTED: &str = ", =\\\n\r";

/// Lines with escapes, as QuestDB's clients write them, values as version 1 or 2 has them.
fn written(lines: &[Line], names: &[String], binary: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines {
        bytes.extend(escaped(&format!("t{}", names[line.table]), UNQUOTED).bytes());
        for (name, value) in &line.tags {
            let tag = format!(",{}={}", escaped(&names[*name], UNQUOTED), escaped(value, UNQUOTED));
            bytes.extend(tag.bytes());
        }
        for (index, (name, value)) in line.fields.iter().enumerate() {
            bytes.push(if index == 0 { b' ' } else { b',' });
            bytes.extend(format!("f{}=", escaped(&names[*name], UNQUOTED)).bytes());
            match value {
                Field::Integer(value) => bytes.extend(format!("{value}i").bytes()),
                Field::Double(value) if binary => {
                    bytes.extend(b"=\x10");
                    bytes.extend(value.to_le_bytes());
                }
                Field::Double(value) => bytes.extend(format!("{value}").bytes()),
                Field::Boolean(value) => bytes.extend(if *value { b"t" } else { b"f" }),
                Field::Text(value) => bytes.extend(format!("\"{}\"", escaped(value, "\"\\\n\r")).bytes()),
                Field::Time(value) => bytes.extend(format!("{value}n").bytes()),
            }
        }
        if let Some(time) = line.time {
            bytes.extend(format!(" {time}").bytes());
        }
        bytes.push(b'\n');
    }
    bytes
}

/// What the lines stand for, without the columns that a row lacks; in order of the tables' coming.
fn meant(lines: &[Line], names: &[String]) -> Vec<String> {
    let mut tables: Vec<usize> = Vec::new();
    lines.iter().for_each(|line| {
        if !tables.contains(&line.table) {
            tables.push(line.table)
        }
    });
    let mut rows = Vec::new();
    for table in tables {
        for line in lines.iter().filter(|line| line.table == table) {
            let mut cells = Vec::new();
            for (name, value) in &line.tags {
                cells.push(format!("{}={value:?}", names[*name]));
            }
            for (name, value) in &line.fields {
                let value = match value {
                    Field::Integer(value) | Field::Time(value) => value.to_string(),
                    Field::Double(value) => value.to_string(),
                    Field::Boolean(value) => value.to_string(),
                    Field::Text(value) => format!("{value:?}"),
                };
                cells.push(format!("f{}={value}", names[*name]));
            }
            cells.sort();
            rows.push(format!("t{} {cells:?} {}", names[table], line.time.unwrap_or(NOW)));
        }
    }
    rows
}

fn found(tables: &[TableRows]) -> Vec<String> {
    let mut rows = Vec::new();
    for table in tables {
        let times = table.times.as_ref().expect("a new table has times");
        for row in 0..table.rows {
            let there = table.columns.iter().filter(|column| !column.values.is_null(row));
            let mut cells: Vec<_> = there
                .map(|column| format!("{}={}", column.name, cell(&column.values, column.column_type, row)))
                .collect();
            cells.sort();
            rows.push(format!("{} {cells:?} {}", table.name, cell(times, ColumnType::Timestamp, row)));
        }
    }
    rows
}

/// Lines of few tables and names; a field is of the type of its name in all of them.
fn lines() -> impl Strategy<Value = (Vec<Line>, Vec<String>)> {
    let names = prop::collection::hash_set(name(), 4..8)
        .prop_filter("names that differ", |names| {
            let lower: std::collections::HashSet<_> = names.iter().map(|name| name.to_lowercase()).collect();
            lower.len() == names.len()
        })
        .prop_map(|names| names.into_iter().collect::<Vec<_>>());
    let line = (
        0..3_usize,
        prop::collection::btree_map(0..4_usize, text(), 0..3),
        prop::collection::btree_map(0..4_usize, prop::collection::vec(field(), 6), 0..4),
        prop::option::of(-1_i64 << 60..1 << 60),
        any::<bool>(),
    );
    let lines = prop::collection::vec(line, 1..12);
    (lines, names, prop::collection::vec(0..6_usize, 4)).prop_map(|(lines, names, kinds)| {
        let kind = |field: &Field| match field {
            Field::Integer(_) => 0,
            Field::Double(_) => 1,
            Field::Boolean(_) => 2,
            Field::Text(_) => 3,
            Field::Time(_) => 4,
        };
        let lines = lines.into_iter().map(|(table, tags, fields, time, turned)| {
            let fields = fields.into_iter().filter_map(|(name, drawn)| {
                Some((name, drawn.into_iter().find(|field| kind(field) == kinds[name] % 5)?))
            });
            let mut fields: Vec<_> = fields.collect();
            if turned {
                fields.reverse();
            }
            let mut tags: Vec<_> = tags.into_iter().collect();
            if tags.is_empty() && fields.is_empty() {
                tags.push((0, "a".to_string()));
            }
            Line { table, tags, fields, time }
        });
        (lines.collect(), names)
    })
}

proptest! {
    #[test]
    fn lines_by_chance_are_what_they_stand_for((lines, names) in lines(), binary: bool) {
        let bytes = written(&lines, &names, binary);
        let mut parser = Parser::default();
        let parsed = parser.parse(&bytes, NOW, &mut none);
        prop_assert_eq!(parsed.bad, None, "{}", String::from_utf8_lossy(&bytes));
        prop_assert_eq!((parsed.bytes, parsed.lines), (bytes.len(), lines.len() as u64));
        prop_assert_eq!(found(&parser.take()), meant(&lines, &names), "{}", String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn lines_in_pieces_are_the_same((lines, names) in lines(), binary: bool, cuts in prop::collection::vec(1..40_usize, 1..30)) {
        let bytes = written(&lines, &names, binary);
        let mut parser = Parser::default();
        let (mut start, mut end) = (0, 0);
        for cut in cuts.into_iter().cycle() {
            end = (end + cut).min(bytes.len());
            let parsed = parser.parse(&bytes[start..end], NOW, &mut none);
            prop_assert_eq!(parsed.bad, None);
            start += parsed.bytes;
            if end == bytes.len() {
                break;
            }
        }
        prop_assert_eq!(start, bytes.len());
        prop_assert_eq!(found(&parser.take()), meant(&lines, &names));
    }

    #[test]
    fn bytes_by_chance_do_no_harm(bytes in prop::collection::vec(prop_oneof![3 => prop::sample::select(b",= \"\\\n\rmti1.d\x0e\x10\x17\x0a\x01".to_vec()), 1 => any::<u8>()], 0..200)) {
        crate::fuzz::ilp(&bytes);
    }
}

/// Names that differ in case are one column, and a line has one value of it.
#[test]
fn names_that_differ_in_case() {
    check("m e=1,x=2 5\nm E=3,x=4 6\nm e=5,e=6 7\n", &["m: e=1 x=2 @5", "m: e=3 x=4 @6", "m: e=5 x=NULL @7"]);
    let fault = |other: &str| {
        format!(
            "is a value of a second column, whose name differs from '{other}' in case only: tables take such names for one"
        )
    };
    check_bad("m e=1,E=2\n", &format!("table 'm', column 'E': '2' {}", fault("e")));
    check_bad("m,Sym=a,sym=b x=1\n", &format!("table 'm', column 'sym': 'b' {}", fault("Sym")));
    check_bad("m,t=a T=1\n", &format!("table 'm', column 'T': '1' {}", fault("t")));
    // Of whatever alphabet: in new columns and tables, as elsewhere.
    check(
        "m ветер=1 5\nm ВЕТЕР=3 6\nm É=1,é2=2 7\n",
        &["m: ветер=1 É=NULL é2=NULL @5", "m: ветер=3 É=NULL é2=NULL @6", "m: ветер=NULL É=1 é2=2 @7"],
    );
    check("ветер x=1 5\nm x=2 6\nВетер x=3 7\n", &["ветер: x=1 @5", "ветер: x=3 @7", "m: x=2 @6"]);
    check_bad("m ветер=1,Ветер=2\n", &format!("table 'm', column 'Ветер': '2' {}", fault("ветер")));
    check_bad(
        "m timestamp=5t,Timestamp=6t,x=1\n",
        &format!("table 'm', column 'Timestamp': '6t' {}", fault("timestamp")),
    );
    // The bad line leaves nothing behind, and the good ones after it stay.
    let mut parser = Parser::new(Precision::default());
    let lines = b"m e=1 1\nm e=2,E=3 2\nm E=4 3\n";
    let parsed = parser.parse(lines, NOW, &mut none);
    let end = parsed.bad.expect("a bad line").record.end;
    assert!(parser.parse(&lines[end..], NOW, &mut none).bad.is_none());
    assert_eq!(shown(&parser.take()), ["m: e=1 @1", "m: e=4 @3"]);
}
