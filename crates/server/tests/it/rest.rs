//! Statements and downloads over REST.

use crate::Served;
use serde_json::{Value, json};
use std::io::{Read, Write};
use tickstone_query::arrow::array::AsArray;
use tickstone_query::arrow::datatypes::Int64Type;
use tickstone_query::arrow::ipc::reader::StreamReader;

fn parsed(answer: &str) -> Value {
    serde_json::from_str(answer).expect(answer)
}

/// Sends a request; the head of the answer and its body as bytes.
fn ask_bytes(served: &Served, request: &str) -> (String, Vec<u8>) {
    let mut stream = served.connect("http_port");
    // HTTP/1.0 has no chunks.
    stream.write_all(format!("{request} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes()).expect("it reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it answers");
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let body = answer.split_off(end + 4);
    (String::from_utf8(answer).expect("a head is text").to_ascii_lowercase(), body)
}

#[test]
fn statements_take_parameters() {
    let served = Served::new(&[]);
    let ask = |request: &str, body: &str| served.ask("http_port", request, body.as_bytes());
    let (status, answer) =
        ask("GET /exec?query=SELECT+$1+%2B+1+AS+x,+$2+AS+s&nm=true&params=[41,%22it's%22]", "");
    assert_eq!((status, answer.as_str()), (200, "{\"dataset\":[[42,\"it's\"]],\"count\":1}"));
    let json = "POST /exec\nContent-Type: application/json";
    let body = json!({ "query": "SELECT x FROM (VALUES (1), (2), (3)) AS t(x) WHERE x IN ($1) ORDER BY x", "params": [[1, 3]], "nm": true });
    assert_eq!(ask(json, &body.to_string()).1, "{\"dataset\":[[1],[3]],\"count\":2}");
    let body = json!({ "query": "SELECT :what AS x", "params": { "what": null }, "limit": 1 });
    assert_eq!(parsed(&ask(json, &body.to_string()).1)["dataset"], json!([[null]]));
    for (query, params, wanted) in [
        ("SELECT $1", "[]", "placeholder $1 has no value"),
        ("SELECT 1", "[1]", "a value was given for $1"),
        ("SELECT $1", "{", "params is an array of JSON"),
        ("SELECT $1", "[{}]", "an object is no value"),
    ] {
        let body = json!({ "query": query, "params": params }).to_string();
        let (status, answer) = ask(json, &body);
        assert!(status == 400 && answer.contains(wanted), "{params}: {status} {answer}");
    }
    // A value is never text of the statement.
    let body = json!({ "query": "SELECT $1 AS x", "params": ["' OR 1=1; DROP TABLE t --"], "nm": true });
    assert_eq!(ask(json, &body.to_string()).1, "{\"dataset\":[[\"' OR 1=1; DROP TABLE t --\"]],\"count\":1}");
}

#[test]
fn a_statement_comes_in_any_kind_of_body() {
    let served = Served::new(&[]);
    let wanted = (200, "{\"dataset\":[[1]],\"count\":1}".to_string());
    for (head, body) in [
        ("Content-Type: application/x-www-form-urlencoded", "query=SELECT+1&nm=true"),
        ("Content-Type: application/json; charset=utf-8", "{\"query\": \"SELECT 1\", \"nm\": true}"),
    ] {
        assert_eq!(
            served.ask("http_port", &format!("POST /exec\n{head}"), body.as_bytes()),
            wanted,
            "{head}"
        );
    }
    for head in ["Content-Type: application/x-www-form-urlencoded", "Content-Type: text/plain", "X: y"] {
        assert_eq!(
            served.ask("http_port", &format!("POST /exec?nm=true\n{head}"), b"SELECT 1"),
            wanted,
            "{head}"
        );
    }
    for (request, body, what) in [
        (
            "GET /exec?query=SELECT+1&limt=3",
            "",
            "there is no parameter 'limt'; there are query, params, limit",
        ),
        ("GET /exec?query=SELECT+1&nm=maybe", "", "nm=maybe is neither true nor false"),
        ("GET /exec?query=SELECT+1&limit=20,10", "", "limit=20,10 is no number of rows"),
        ("GET /exec?query=SELECT+1&query=SELECT+2", "", "query is given twice"),
        ("POST /exec?query=SELECT+1", "SELECT 2", "query is given twice"),
        ("GET /exec?query=++", "", "there is no statement"),
        ("POST /exec\nContent-Type: application/json", "[]", "the body is no object of JSON"),
        ("POST /exec", "\u{1}\u{2}", "at line 1, column 1"),
    ] {
        let (status, answer) = served.ask("http_port", request, body.as_bytes());
        let error = parsed(&answer);
        assert!(status == 400 && answer.contains(what), "{request}: {status} {answer}");
        assert!(error["query"].is_string() && error["position"].is_u64(), "{answer}");
    }
    let (status, _) = served.ask("http_port", "POST /exec", b"\xff");
    assert_eq!(status, 400);
}

#[test]
fn limits_cut_where_they_say() {
    let served = Served::new(&[]);
    let ask = |words: &str| {
        let request = format!("GET /exec?query=SELECT+value+FROM+range(1,+20001)&nm=true&{words}");
        let answer = parsed(&served.ask("http_port", &request, b"").1);
        let rows = answer["dataset"].as_array().expect("rows").clone();
        let ends = (rows.first().map(|row| row[0].clone()), rows.last().map(|row| row[0].clone()));
        (rows.len(), ends, answer["count"].clone())
    };
    let ends = |first: u64, last: u64| (Some(json!(first)), Some(json!(last)));
    assert_eq!(ask("limit=3"), (3, ends(1, 3), json!(3)));
    assert_eq!(ask("limit=8190,8200&count=true"), (11, ends(8190, 8200), json!(20_000)));
    assert_eq!(ask("limit=19999,"), (2, ends(19_999, 20_000), json!(2)));
    assert_eq!(ask("limit=0"), (0, (None, None), json!(0)));
    assert_eq!(ask("limit=30000,40000"), (0, (None, None), json!(0)));
    assert_eq!(ask("limit=,2"), (2, ends(1, 2), json!(2)));
}

#[test]
fn types_have_their_names() {
    let served = Served::new(&[]);
    let sql = "SELECT NULL AS a, 1::BIGINT UNSIGNED AS b, INTERVAL '1 day' AS c, {'k': 1.5} AS d, [[1], []] AS e, \
               ['x'] AS f, TIME '10:00:00' AS g, 1.50::DECIMAL(9,2) AS h, 1::TINYINT AS i, 'x'::SYMBOL AS j";
    let sql = sql.replace(", 'x'::SYMBOL AS j", "");
    let (status, answer) = served.exec(&sql);
    let answer = parsed(&answer);
    assert_eq!(status, 200, "{answer}");
    let columns = answer["columns"].as_array().expect("columns");
    let types: Vec<Value> = columns
        .iter()
        .map(|column| match column["dim"].as_u64() {
            Some(dimensions) => json!([column["type"], dimensions, column["elemType"]]),
            None => column["type"].clone(),
        })
        .collect();
    let wanted = json!([
        "NULL",
        "BIGINT UNSIGNED",
        "INTERVAL",
        "STRUCT",
        ["ARRAY", 2, "LONG"],
        ["ARRAY", 1, "VARCHAR"],
        "TIME",
        "DECIMAL(9,2)",
        "BYTE"
    ]);
    assert_eq!(json!(types), wanted);
    let row = &answer["dataset"][0];
    assert_eq!(
        (&row[1], &row[3], &row[4], &row[7]),
        (&json!(1), &json!({"k": 1.5}), &json!([[1], []]), &json!("1.50"))
    );
    let (_, answer) = served.ask(
        "http_port",
        "GET /exec?query=SELECT+9223372036854775807+AS+x,+[1]+AS+l,+1::INT+AS+i&nm=true&quoteLargeNum=true",
        b"",
    );
    assert_eq!(answer, "{\"dataset\":[[\"9223372036854775807\",[\"1\"],1]],\"count\":1}");
}

#[test]
fn errors_stand_where_they_are_also_with_explain() {
    let served = Served::new(&[]);
    for (words, place) in [("", 7), ("&explain=true", 7)] {
        let (status, answer) = served.ask("http_port", &format!("GET /exec?query=SELECT+oops{words}"), b"");
        let error = parsed(&answer);
        assert_eq!(
            (status, &error["position"], &error["query"]),
            (400, &json!(place), &json!("SELECT oops")),
            "{answer}"
        );
        assert!(error["error"].as_str().is_some_and(|what| what.contains("line 1, column 8")), "{answer}");
    }
}

#[test]
fn rows_in_the_form_that_is_accepted() {
    let served = Served::new(&[]);
    let path = "GET /query?query=SELECT+value+AS+n,+'a%22'+AS+%22s%22,+1.5+AS+x+FROM+range(1,3)";
    let lines = "{\"n\":1,\"s\":\"a\\\"\",\"x\":1.5}\n{\"n\":2,\"s\":\"a\\\"\",\"x\":1.5}\n";
    assert_eq!(served.ask("http_port", path, b""), (200, lines.to_string()));
    let csv = "\"n\",\"s\",\"x\"\r\n1,\"a\"\"\",1.5\r\n2,\"a\"\"\",1.5\r\n";
    assert_eq!(served.ask("http_port", &format!("{path}\nAccept: text/csv"), b""), (200, csv.to_string()));
    let (status, answer) = served.ask("http_port", &format!("{path}\nAccept: text/html"), b"");
    assert!(status == 406 && answer.contains("application/x-ndjson"), "{answer}");
    let (status, answer) = served.ask("http_port", "POST /query", b"CREATE TABLE made (a INT)");
    assert_eq!((status, answer.as_str()), (200, "{\"ddl\":\"OK\"}"));
    assert_eq!(served.ask("http_port", "GET /query?query=SELECT+1+WHERE+false", b""), (200, String::new()));
    assert_eq!(served.ask("http_port", "GET /query?query=oops", b"").0, 400);
    assert_eq!(served.ask("http_port", "HEAD /query?query=CREATE+TABLE+hd+(a+INT)", b"").0, 405);
    assert_eq!(served.number("SELECT count(*) FROM hd"), None);
}

#[test]
fn files_of_rows() {
    let served = Served::new(&[]);
    served.done("CREATE TABLE t (ts TIMESTAMP, s SYMBOL, n BIGINT) TIMESTAMP(ts)");
    served.done("INSERT INTO t SELECT to_timestamp(value), 'S' || (value % 3), value FROM range(0, 30000)");
    let (head, body) = ask_bytes(
        &served,
        "GET /exp?query=SELECT+*+FROM+t+ORDER+BY+ts&fmt=arrow&limit=10001,20000&filename=a/b%22c",
    );
    assert!(head.contains("content-type: application/vnd.apache.arrow.stream"), "{head}");
    assert!(head.contains("content-disposition: attachment; filename=\"a_b_c.arrows\""), "{head}");
    let batches: Vec<_> = StreamReader::try_new(&body[..], None)
        .expect("a stream")
        .map(|batch| batch.expect("a batch"))
        .collect();
    let numbers: Vec<i64> = batches
        .iter()
        .flat_map(|batch| batch.column(2).as_primitive::<Int64Type>().values().to_vec())
        .collect();
    assert_eq!(numbers, (10_000..20_000).collect::<Vec<_>>());
    let (head, body) = ask_bytes(&served, "GET /exp?query=SELECT+*+FROM+t&fmt=parquet");
    assert!(
        head.contains("content-type: application/vnd.apache.parquet") && head.contains(".parquet\""),
        "{head}"
    );
    assert!(body.starts_with(b"PAR1") && body.ends_with(b"PAR1"));
    let (head, body) =
        ask_bytes(&served, "GET /exp?query=SELECT+n+FROM+t+LIMIT+2&fmt=ndjson&filename=x.ndjson");
    assert!(head.contains("filename=\"x.ndjson\""), "{head}");
    assert_eq!(body, b"{\"n\":0}\n{\"n\":1}\n");
    let (_, body) = ask_bytes(&served, "GET /exp?query=SELECT+NULL+AS+n+UNION+ALL+SELECT+1&nm=true");
    let mut lines: Vec<_> = body.split(|byte| *byte == b'\n').collect();
    lines.sort_unstable();
    assert_eq!(lines, [&b""[..], b"\r", b"1\r"]);
    for (words, what) in [
        ("fmt=xml", "fmt=xml is not known: csv, ndjson, arrow or parquet"),
        ("fmt=arrow&nm=true", "nm leaves the names"),
        ("fmt=parquet&limit=3", "takes no limit"),
    ] {
        let (status, answer) = served.ask("http_port", &format!("GET /exp?query=SELECT+1&{words}"), b"");
        assert!(status == 400 && answer.contains(what), "{words}: {status} {answer}");
    }
    for format in ["csv", "arrow", "ndjson", "parquet"] {
        for query in
            ["SELECT+oops", "SELECT+1;+SELECT+2", "SELECT+1+/+0", "CREATE+TABLE+made+(a+INT)", "BEGIN"]
        {
            let (status, answer) =
                served.ask("http_port", &format!("GET /exp?query={query}&fmt={format}"), b"");
            assert!(
                status == 400 && parsed(&answer)["error"].is_string(),
                "{format} {query}: {status} {answer}"
            );
        }
    }
    assert_eq!(served.number("SELECT count(*) FROM made"), None);
    assert_eq!(served.ask("http_port", "POST /exp", b"SELECT 1 AS x"), (200, "\"x\"\r\n1\r\n".to_string()));
}

#[test]
fn parquet_ends_with_its_client() {
    let served = Served::new(&[]);
    let mut stream = served.connect("http_port");
    let request = "GET /exp?fmt=parquet&query=SELECT+value+*+value+FROM+range(0,+100000000000) HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut some = [0; 1000];
    stream.read_exact(&mut some).expect("it answers");
    let running = || served.exec("SHOW QUERIES").1.matches("range(0").count();
    assert_eq!(running(), 1);
    drop(stream);
    let begun = std::time::Instant::now();
    while running() > 0 {
        assert!(begun.elapsed() < crate::PATIENCE, "it goes on");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn parquet_has_its_time() {
    let served = Served::new(&[("statement_timeout", "100ms")]);
    let sql =
        "SELECT+count(*)+FROM+range(0,+100000000)+a+JOIN+range(0,+100000000)+b+ON+a.value+%2B+1+%3C+b.value";
    let (status, answer) = served.ask("http_port", &format!("GET /exp?fmt=parquet&query={sql}"), b"");
    assert!(status == 400 && answer.contains("statement_timeout"), "{status} {answer}");
}

#[test]
fn influxdb_makes_databases_and_nothing_else() {
    let served = Served::new(&[]);
    let form = "POST /query\nContent-Type: application/x-www-form-urlencoded";
    let (status, answer) = served.ask("influx_port", form, b"q=CREATE+DATABASE+%22telegraf%22");
    assert_eq!((status, answer.as_str()), (200, "{\"results\":[{\"statement_id\":0}]}"));
    let path = "POST /query?db=x&q=CREATE+DATABASE+%22telegraf%22+WITH+DURATION+1d";
    assert_eq!(served.ask("influx_port", path, b"").0, 200);
    for path in ["GET /query?q=SHOW+DATABASES", "GET /query", "GET /query?q=SELECT+*+FROM+x"] {
        let (status, answer) = served.ask("influx_port", path, b"");
        assert!(status == 400 && answer.contains("InfluxQL and Flux are not read here"), "{path}: {answer}");
    }
}

#[test]
fn methods_and_paths_that_are_not_there() {
    let served = Served::new(&[]);
    for (request, wanted) in [
        ("PUT /exec?query=SELECT+1", 405),
        ("DELETE /imp", 405),
        ("GET /imp", 405),
        ("GET /write", 405),
        ("HEAD /exp?query=SELECT+1", 405),
        ("HEAD /health", 200),
        ("GET /status", 404),
    ] {
        assert_eq!(served.ask("http_port", request, b"").0, wanted, "{request}");
    }
    let (head, body) = ask_bytes(&served, "PUT /exec");
    assert!(
        head.contains("allow: ") && parsed(&String::from_utf8_lossy(&body))["error"].is_string(),
        "{head}"
    );
    let (_, answer) = served.ask("influx_port", "GET /exec", b"");
    assert!(answer.contains("/write") && !answer.contains("/imp"), "{answer}");
    let (status, answer) = served.ask("influx_port", "GET /openapi.json", b"");
    assert_eq!((status, parsed(&answer)["openapi"].as_str()), (200, Some("3.1.0")));
}
