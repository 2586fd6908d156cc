//! Uploads.

use crate::Served;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tickstone_engine::disk::{Disk, FileDisk};
use tickstone_model::{ColumnType, TableSchema};
use tickstone_query::{Database, DatabaseOptions};

/// A form of several parts: name, file name, bytes.
fn form(parts: &[(&str, Option<&str>, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, file, bytes) in parts {
        let file = file.map_or(String::new(), |file| format!("; filename=\"{file}\""));
        let head = format!("--XX\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n");
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(bytes);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--XX--\r\n");
    body
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}

impl Served {
    /// Uploads a form; the report.
    fn upload(&self, words: &str, parts: &[(&str, Option<&str>, &[u8])]) -> (u16, Value) {
        let request = format!("POST /imp?fmt=json&{words}\nContent-Type: multipart/form-data; boundary=XX");
        let (status, answer) = self.ask("http_port", &request, &form(parts));
        (status, serde_json::from_str(&answer).expect(&answer))
    }

    pub(crate) fn rows(&self, sql: &str) -> Value {
        let (status, answer) = self.exec(sql);
        assert_eq!(status, 200, "{answer}");
        serde_json::from_str::<Value>(&answer).expect(&answer)["dataset"].clone()
    }
}

const TRADES: &[u8] = b"ts,symbol,price,size\n2024-08-08T09:30:00Z,BTC,1.5,3\n2024-08-08T09:30:01Z,ETH,2,4\n";

/// Waits until no upload is kept any more, those of other tests neither.
#[track_caller]
fn nothing_is_kept() {
    let own = format!("tickstone-upload-{}-", std::process::id());
    let begun = Instant::now();
    loop {
        let files = std::fs::read_dir(std::env::temp_dir()).expect("it is there");
        let names = files.map(|file| file.expect("a file").file_name().to_string_lossy().into_owned());
        let kept: Vec<String> = names.filter(|name| name.starts_with(&own)).collect();
        if kept.is_empty() {
            return;
        }
        assert!(begun.elapsed() < crate::PATIENCE, "{kept:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_form_becomes_a_table() {
    let served = Served::new(&[]);
    let (status, report) =
        served.upload("partitionBy=MONTH&timestamp=ts", &[("data", Some("trades.csv"), TRADES)]);
    assert_eq!(status, 200, "{report}");
    assert_eq!(
        report,
        json!({
            "status": "OK", "location": "trades.csv", "rowsRejected": 0, "rowsImported": 2, "header": true,
            "partitionBy": "MONTH", "timestamp": "ts",
            "columns": [
                {"name": "ts", "type": "TIMESTAMP_NS", "size": 8, "errors": 0},
                {"name": "symbol", "type": "SYMBOL", "size": 4, "errors": 0},
                {"name": "price", "type": "DOUBLE", "size": 8, "errors": 0},
                {"name": "size", "type": "LONG", "size": 8, "errors": 0},
            ],
        })
    );
    // The same rows may come again, as to QuestDB.
    assert_eq!(served.upload("", &[("data", Some("trades.csv"), TRADES)]).1["rowsImported"], 2);
    assert_eq!(served.number("SELECT count(*) FROM \"trades.csv\""), Some(4));
    let schema = br#"[{"name":"size","type":"DOUBLE"},{"name":"ts","type":"TIMESTAMP","pattern":"yyyy-MM-ddTHH:mm:ssZ"}]"#;
    let (_, report) = served.upload("name=t", &[("schema", None, schema), ("data", Some("x"), TRADES)]);
    assert_eq!(
        (&report["location"], &report["columns"][3]["type"]),
        (&json!("t"), &json!("DOUBLE")),
        "{report}"
    );
    let request = "POST /imp?name=t\nContent-Type: multipart/form-data; boundary=XX";
    let (status, text) = served.ask("http_port", request, &form(&[("data", None, TRADES)]));
    assert!(
        status == 200 && text.contains("|  Rows imported  |") && text.contains("|      Location:  |"),
        "{text}"
    );
}

#[test]
fn a_plain_body_becomes_a_table() {
    let served = Served::new(&[]);
    let ask = |request: &str, body: &[u8]| served.ask("http_port", request, body);
    assert_eq!(ask("POST /imp?name=a\nContent-Type: text/csv", TRADES).0, 200);
    assert_eq!(ask("POST /imp?name=a\nContent-Encoding: gzip", &packed(TRADES)).0, 200);
    // A file that is packed itself.
    assert_eq!(ask("POST /imp?name=a", &packed(TRADES)).0, 200);
    assert_eq!(served.upload("name=a", &[("data", Some("x.csv.gz"), &packed(TRADES))]).0, 200);
    let request = "POST /imp?name=a\nContent-Encoding: gzip\nContent-Type: multipart/form-data; boundary=XX";
    assert_eq!(ask(request, &packed(&form(&[("data", None, TRADES)]))).0, 200);
    assert_eq!(served.number("SELECT count(*) FROM a"), Some(10));
    let lines = b"{\"ts\":\"2024-01-01\",\"x\":1}\n{\"ts\":\"2024-01-02\",\"x\":\"y\"}\n{\"ts\":\"2024-01-02\",\"x\":2}\n";
    let (status, text) = ask("POST /imp?name=b&fmt=json", lines);
    assert_eq!(status, 200, "{text}");
    let tab = b"a\tb\n1\t2\n";
    assert_eq!(ask("POST /imp?name=c&delimiter=%09&forceHeader=true", tab).0, 200);
    assert_eq!(served.rows("SELECT a, b FROM c"), json!([[1, 2]]));
    assert_eq!(ask("POST /imp?name=d", b"1,x\n2,y\n").0, 200);
    assert_eq!(served.rows("SELECT column1, column2 FROM d"), json!([[1, "x"], [2, "y"]]));
    let utf16: Vec<u8> = "a,b\r\n1,x\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(ask("POST /imp?name=e&forceHeader=true", &[&[0xff, 0xfe], &utf16[..]].concat()).0, 200);
    assert_eq!(served.rows("SELECT a, b FROM e"), json!([[1, "x"]]));
}

#[test]
fn downloads_can_be_uploaded() {
    let served = Served::new(&[]);
    served.done("CREATE TABLE t (ts TIMESTAMP, s SYMBOL, x DOUBLE, n BIGINT, l DOUBLE[]) TIMESTAMP(ts) PARTITION BY DAY");
    served.done("INSERT INTO t SELECT to_timestamp(value), 'S' || (value % 3), value / 8.0, value, [value, 1.5] FROM range(0, 20000)");
    for format in ["csv", "ndjson", "arrow", "parquet"] {
        let mut stream = served.connect("http_port");
        let request =
            format!("GET /exp?query=SELECT+*+FROM+t&fmt={format} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = Vec::new();
        std::io::Read::read_to_end(&mut stream, &mut answer).expect("it answers");
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
        let (status, report) =
            served.upload(&format!("name=u_{format}"), &[("data", None, &answer[end + 4..])]);
        assert_eq!((status, &report["rowsImported"]), (200, &json!(20_000)), "{format}: {report}");
        let sums = "SELECT count(DISTINCT s), sum(n), sum(x), max(ts), sum(l[1])";
        assert_eq!(
            served.rows(&format!("{sums} FROM u_{format}")),
            served.rows(&format!("{sums} FROM t")),
            "{format}"
        );
    }
    nothing_is_kept();
}

const BAD: &[u8] = b"ts,px,n\n2024-01-01,1.5,1\n2024-01-02,x,y\n2024-01-03,2.5,2,3\n2024-01-04,3.5,z\nnever,1,1\n2024-01-05,4.5,5\n";

fn bad_rows_are(atomicity: &str, more: &str, rows: &Value, rejected: u64, errors: [u64; 3]) {
    let served = Served::new(&[]);
    served.done("CREATE TABLE t (ts TIMESTAMP, px DOUBLE, n BIGINT) TIMESTAMP(ts)");
    let (status, report) = served.upload(&format!("name=t{atomicity}{more}"), &[("data", None, BAD)]);
    assert_eq!(status, 200, "{report}");
    assert_eq!(&served.rows("SELECT px, n FROM t ORDER BY ts"), rows);
    let imported = rows.as_array().expect("rows").len();
    assert_eq!(
        (&report["rowsRejected"], &report["rowsImported"]),
        (&json!(rejected), &json!(imported)),
        "{report}"
    );
    let found = report["columns"].as_array().expect("columns").iter().map(|column| column["errors"].clone());
    assert_eq!(found.collect::<Vec<_>>(), errors.map(|count| json!(count)), "{report}");
    assert!(
        report["warnings"][0].as_str().is_some_and(|what| what.starts_with("line 3, column 2 'px'")),
        "{report}"
    );
}

#[test]
fn values_at_fault_are_null() {
    let rows = json!([[1.5, 1], [null, null], [3.5, null], [4.5, 5]]);
    bad_rows_are("", "", &rows, 2, [1, 1, 2]);
    bad_rows_are("&atomicity=skipCol", "", &rows, 2, [1, 1, 2]);
    let rows = json!([[1.5, 1], [null, null], [2.5, 2], [3.5, null], [4.5, 5]]);
    bad_rows_are("", "&skipLev=true", &rows, 1, [1, 1, 2]);
}

#[test]
fn rows_at_fault_are_left_out() {
    bad_rows_are("&atomicity=skipRow", "", &json!([[1.5, 1], [4.5, 5]]), 4, [1, 1, 1]);
    bad_rows_are("&atomicity=skipRow", "&skipLev=true", &json!([[1.5, 1], [2.5, 2], [4.5, 5]]), 3, [1, 1, 1]);
}

#[test]
fn a_value_at_fault_refuses_all_if_asked() {
    let served = Served::new(&[]);
    served.done("CREATE TABLE t (ts TIMESTAMP, px DOUBLE, n BIGINT) TIMESTAMP(ts)");
    let (status, report) = served.upload("name=t&atomicity=abort", &[("data", None, BAD)]);
    let what = report["status"].as_str().expect("text");
    assert!(
        status == 400 && what.starts_with("the upload, line 3, column 2 'px': 'x' is not a DOUBLE"),
        "{what}"
    );
    assert!(!what.contains("--") && what.contains("hint: atomicity=skipRow"), "{what}");
    assert_eq!(served.number("SELECT count(*) FROM t"), Some(0));
    nothing_is_kept();
}

#[test]
fn a_table_is_replaced_when_the_upload_is_whole() {
    let served = Served::new(&[]);
    assert_eq!(served.upload("name=t", &[("data", None, TRADES)]).0, 200);
    let (status, report) =
        served.upload("name=t&overwrite=true&atomicity=abort", &[("data", None, b"a,b\n1\n")]);
    assert_eq!(status, 400, "{report}");
    assert_eq!(served.number("SELECT count(*) FROM t"), Some(2));
    let (status, report) = served.upload("name=t&overwrite=true", &[("data", None, b"a,b\n1,2\n")]);
    assert_eq!((status, &report["location"]), (200, &json!("t")), "{report}");
    assert_eq!(served.rows("SELECT * FROM t"), json!([[1, 2]]));
    assert_eq!(served.rows("SHOW TABLES").as_array().map(Vec::len), Some(1));
    assert_eq!(served.upload("name=u&overwrite=true", &[("data", None, b"a,b\n1,2\n")]).0, 200);
}

#[test]
fn a_table_that_is_replaced_is_there_at_every_moment() {
    let served = Served::new(&[]);
    assert_eq!(served.upload("name=t", &[("data", None, b"a\n1\n")]).0, 200);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| {
            let mut asked = 0;
            while !done.load(Ordering::Relaxed) {
                assert_eq!(served.number("SELECT count(*) FROM t"), Some(1));
                asked += 1;
            }
            asked
        });
        for number in 0..30 {
            let rows = format!("a\n{number}\n");
            let (status, report) = served.upload("name=t&overwrite=true", &[("data", None, rows.as_bytes())]);
            assert_eq!(status, 200, "{report}");
        }
        done.store(true, Ordering::Relaxed);
        assert!(asked.join().expect("it is there") > 0);
    });
    assert_eq!(served.rows("SELECT a FROM t"), json!([[29]]));
    assert_eq!(served.rows("SHOW TABLES").as_array().map(Vec::len), Some(1));
}

#[test]
fn what_an_upload_left_goes_with_the_next_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = || Database::open(folder.path(), DatabaseOptions::default()).expect("it opens");
    let database = open();
    let schema =
        |name: &str| TableSchema::builder(name).column("a", ColumnType::Int64).build().expect("sound");
    for name in ["upload~", "upload~x", "kept"] {
        database.engine().create_table(schema(name)).expect("it is new");
    }
    assert!(database.engine().create_table(schema("Upload~7")).is_err());
    let aside = database.engine().aside().expect("it writes");
    aside.create(&schema("left")).expect("it is new");
    let name = aside.name().to_string();
    // As a kill would leave it.
    std::mem::forget(aside);
    let copy = tempfile::tempdir().expect("a folder");
    let to: Arc<dyn Disk> = Arc::new(FileDisk::open(copy.path()).expect("a folder"));
    database.engine().backup(&to, &mut |_| {}).expect("a copy");
    drop(to);
    let database = Database::open(copy.path(), DatabaseOptions::default()).expect("it opens");
    assert_eq!(database.engine().swept(), [name]);
    let served = Served::over(database, &[]);
    assert_eq!(
        served.rows("SELECT \"table\" FROM tables() ORDER BY 1"),
        json!([["kept"], ["upload~"], ["upload~x"]])
    );
}

#[test]
fn what_is_wrong_is_told() {
    let served = Served::new(&[("request_bytes_max", "1MB")]);
    served.done("CREATE TABLE t (ts TIMESTAMP, px DOUBLE) TIMESTAMP(ts)");
    let long = b"1,2\n".repeat(300_000);
    let data: &[u8] = b"ts,px\n2024-01-01,1\n";
    let one = |words: &str, parts: &[(&str, Option<&str>, &[u8])], wanted: u16, what: &str| {
        let (status, report) = served.upload(words, parts);
        let said = report["status"].as_str().expect("text");
        assert!(status == wanted && said.contains(what), "{words}: {status} {said}, not {wanted} {what}");
        assert!(!said.contains("tickstone-upload") && !said.contains("--"), "{said}");
    };
    one("name=new&create=false", &[("data", None, data)], 400, "create=false");
    one("", &[("data", None, data)], 400, "names no table");
    one("name=t", &[], 400, "there is no part data");
    one("name=t", &[("file", None, data)], 400, "there is no part 'file'; there are data and schema");
    one("name=t", &[("data", None, data), ("data", None, data)], 400, "twice");
    one("name=t", &[("data", None, b"")], 400, "is empty");
    one(
        "name=t",
        &[("data", None, b"ts,py\n2024-01-01,1\n")],
        400,
        "has a column 'py' that table 't' does not have",
    );
    one("name=t&timestamp=px", &[("data", None, data)], 400, "designated timestamp is ts, not px");
    one("name=n&timestamp=no", &[("data", None, data)], 400, "timestamp names column 'no'");
    one("name=t&schema=x", &[("data", None, data)], 400, "there is no parameter 'schema'");
    one("name=t&partitionBy=EON", &[("data", None, data)], 400, "partitionBy=EON is none of NONE, HOUR");
    one("name=t&atomicity=none", &[("data", None, data)], 400, "skipCol, skipRow or abort");
    one("name=t&atomicity=abort&skipLev=true", &[("data", None, data)], 400, "skipLev");
    one("name=t&delimiter=xy", &[("data", None, data)], 400, "delimiter=xy");
    one("name=t", &[("schema", None, b"{}"), ("data", None, data)], 400, "no list of columns");
    one(
        "name=t",
        &[("schema", None, b"[{\"name\":\"px\",\"type\":\"GEOHASH\"}]"), ("data", None, data)],
        400,
        "GEOHASH",
    );
    let pattern = b"[{\"name\":\"ts\",\"type\":\"TIMESTAMP\",\"pattern\":\"dd/MM/yyyy\"}]";
    one(
        "name=t",
        &[("schema", None, pattern), ("data", None, data)],
        400,
        "the pattern 'dd/MM/yyyy' of 'ts' is not read",
    );
    one("name=n", &[("data", None, &long)], 413, "request_bytes_max");
    one("name=n", &[("data", None, &packed(&long))], 413, "request_bytes_max");
    one("name=n", &[("data", None, &packed(&long)[..50])], 400, "gzip");
    one("name=n&format=parquet", &[("data", None, data)], 400, "is damaged, or no parquet file");
    one("name=n&atomicity=skipRow&format=arrow", &[("data", None, data)], 400, "taken as a whole");
    one("name=n", &[("data", None, &[0x28, 0xb5, 0x2f, 0xfd, 0])], 415, "zstd");
    let (status, answer) = served.ask("http_port", "POST /imp?name=t&fmt=xml", data);
    assert!(status == 400 && answer.contains("tabular or json"), "{answer}");
    let form = "POST /imp?name=t\nContent-Type: multipart/form-data";
    assert_eq!(served.ask("http_port", form, data).0, 400);
    assert_eq!(served.ask("http_port", &format!("{form}; boundary=XX"), b"--XX\r\nContent-Disp").0, 400);
    assert_eq!(served.ask("http_port", "POST /imp?name=t\nContent-Encoding: br", data).0, 415);
    assert_eq!(served.ask("http_port", "POST /imp?name=t\nContent-Encoding: gzip", data).0, 400);
    assert_eq!(served.number("SELECT count(*) FROM t"), Some(0));
    assert_eq!(served.rows("SHOW TABLES").as_array().map(Vec::len), Some(1));
    nothing_is_kept();
}

#[test]
fn an_array_of_json() {
    let served = Served::new(&[]);
    let array = b"[{\"ts\": \"2024-08-08\", \"px\": 1},\n{\"ts\": \"2024-08-09\",\n\"px\": 2.5}]\n";
    let (status, report) = served.upload("name=t", &[("data", Some("t.json"), array)]);
    assert!(status == 200 && report["rowsImported"] == 2, "{report}");
    // One that was cut off is not taken.
    let (status, report) = served.upload("name=t", &[("data", Some("t.json"), &array[..40])]);
    assert!(status == 400 && report.to_string().contains("ends within element 2"), "{report}");
    assert_eq!(served.number("SELECT count(*) FROM t"), Some(2));
}

#[test]
fn formats_that_are_not_taken() {
    let served = Served::new(&[]);
    let noise: Vec<u8> = (0..5000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for (bytes, what) in [
        (b"PK\x03\x04\x14\0\0\0".as_slice(), "zip"),
        (b"BZh91AY&SY\xab\x01", "bzip2"),
        (&noise, "binary"),
        (&[0; 100], "binary"),
    ] {
        for wishes in ["name=t", "name=t&create=true&fmt=json"] {
            let (status, answer) = served.ask("http_port", &format!("POST /imp?{wishes}"), bytes);
            assert!(status == 415 && answer.contains(what), "{what}: {status} {answer}");
        }
        let (status, report) = served.upload("name=t", &[("data", Some("t.csv"), bytes)]);
        let told = report["status"].as_str().is_some_and(|told| told.contains(what));
        assert!(status == 415 && told, "{what}: {report}");
    }
    let (status, answer) = served.ask("http_port", "POST /imp?name=t\nContent-Type: text/csv", &noise);
    assert!(status == 415 && answer.contains("binary"), "{status} {answer}");
    assert_eq!(served.rows("SHOW TABLES").as_array().map(Vec::len), Some(0));
    // A text may have characters of control, and brackets.
    let odd = b"[a],note\n1,\"\x01 and \0 in a text that is longer than these\"\n";
    assert_eq!(served.upload("name=odd", &[("data", None, odd)]).1["rowsImported"], 1);
    assert_eq!(served.metric("upload_rows_total"), 1);
    nothing_is_kept();
}

#[test]
fn uploads_share_a_limit() {
    let served = Served::new(&[("requests_bytes_max", "1MB")]);
    let (status, report) = served.upload("name=t", &[("data", None, &b"1,2\n".repeat(300_000))]);
    assert!(
        status == 503 && report["status"].as_str().is_some_and(|what| what.contains("requests_bytes_max")),
        "{report}"
    );
    assert_eq!(
        served.upload("name=t", &[("data", None, &b"1,2\n".repeat(100_000))]).1["rowsImported"],
        100_000
    );
}
