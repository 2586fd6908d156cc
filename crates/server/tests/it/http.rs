//! Statements over HTTP, and who may ask.

use crate::Served;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

#[test]
fn exec_answers_as_questdb() {
    let served = Served::new(&[]);
    assert_eq!(
        served.exec("CREATE TABLE t (ts TIMESTAMP, sym SYMBOL, px DOUBLE, n BIGINT, up BOOLEAN, note VARCHAR, l DOUBLE[]) TIMESTAMP(ts)"),
        (200, "{\"ddl\":\"OK\"}".to_string())
    );
    assert_eq!(
        served.exec("INSERT INTO t VALUES ('2024-08-08T09:30:00.000000001', 'BTC', 1.5, -7, true, 'a \"b\"\n\\', [1, 2.5]), ('2024-08-09', NULL, 'NaN', NULL, NULL, '', NULL)"),
        (200, "{\"dml\":\"OK\",\"updated\":2}".to_string())
    );
    let (status, answer) = served.exec("SELECT * FROM t ORDER BY ts");
    assert_eq!(status, 200);
    assert_eq!(
        answer,
        "{\"query\":\"SELECT * FROM t ORDER BY ts\",\"columns\":[{\"name\":\"ts\",\"type\":\"TIMESTAMP_NS\"},\
         {\"name\":\"sym\",\"type\":\"SYMBOL\"},{\"name\":\"px\",\"type\":\"DOUBLE\"},{\"name\":\"n\",\"type\":\"LONG\"},\
         {\"name\":\"up\",\"type\":\"BOOLEAN\"},{\"name\":\"note\",\"type\":\"VARCHAR\"},\
         {\"name\":\"l\",\"type\":\"ARRAY\",\"dim\":1,\"elemType\":\"DOUBLE\"}],\"timestamp\":0,\"dataset\":[\
         [\"2024-08-08T09:30:00.000000001Z\",\"BTC\",1.5,-7,true,\"a \\\"b\\\"\\n\\\\\",[1.0,2.5]],\
         [\"2024-08-09T00:00:00.000000000Z\",null,null,null,null,\"\",null]],\"count\":2}"
    );
    let (_, answer) =
        served.ask("http_port", "GET /exec?query=SELECT+n+FROM+t&nm=true&limit=1&timings=true", b"");
    assert!(answer.starts_with("{\"dataset\":[[-7]],\"count\":1,\"timings\":{"), "{answer}");
    let (_, answer) = served.ask(
        "http_port",
        "GET /exec?query=SELECT+value+FROM+range(1,+11)&nm=true&limit=3,5&count=true",
        b"",
    );
    assert_eq!(answer, "{\"dataset\":[[3],[4],[5]],\"count\":10}");
    let (_, answer) = served.ask(
        "http_port",
        "POST /exec\nContent-Type: application/x-www-form-urlencoded",
        b"query=SELECT+1+AS+x&nm=true",
    );
    assert_eq!(answer, "{\"dataset\":[[1]],\"count\":1}");
    assert!(served.ask("http_port", "GET /exec?query=SELECT+1&explain=true", b"").1.contains("logical_plan"));
}

#[test]
fn errors_have_their_place() {
    let served = Served::new(&[]);
    let (status, answer) = served.exec("SELECT 1,\n  oops");
    assert!(status == 400 && answer.contains("\"position\":12"), "{answer}");
    assert_eq!(served.ask("http_port", "GET /exec", b"").0, 400);
    assert_eq!(served.exec("SELECT 1; SELECT 2").0, 400);
    for sql in ["BEGIN", "SET deterministic_sums = true", "PREPARE p AS SELECT 1"] {
        let (status, answer) = served.exec(sql);
        assert!(status == 400 && answer.contains("a session"), "{sql}: {answer}");
    }
    assert_eq!(served.ask("http_port", "HEAD /exec?query=CREATE+TABLE+hd+(a+INT)", b"").0, 405);
    assert_eq!(served.number("SELECT count(*) FROM hd"), None);
    assert_eq!(served.ask("http_port", "POST /exec\nContent-Type: application/json", b"{}").0, 400);
    assert_eq!(served.ask("http_port", "POST /exec\nContent-Type: multipart/form-data", b"x").0, 415);
    assert_eq!(served.ask("http_port", "GET /exec?query=SELECT+1&limit=x", b"").0, 400);
    assert_eq!(served.ask("http_port", "GET /nothing", b"").0, 404);
    // What names a file of the server.
    served.exec("CREATE TABLE t (a INT)");
    for sql in [
        "COPY t TO '/tmp/x.csv'",
        "COPY t FROM '/etc/passwd'",
        "COPY (SELECT 1) TO 'x.csv'",
        "SELECT * FROM '/etc/passwd'",
        "FROM '*.csv'",
        "SELECT * FROM (SELECT * FROM read_csv('/etc/passwd'))",
        "INSERT INTO t FROM read_csv(['/etc/passwd'])",
        "CREATE VIEW v AS SELECT * FROM 'x.parquet'",
        "DESCRIBE 'x.csv'",
        "EXPLAIN SELECT * FROM 'x.csv'",
    ] {
        let (status, answer) = served.exec(sql);
        assert!(status == 400 && answer.contains("names a file of the server"), "{sql}: {answer}");
    }
    // Past the first rows an error can only break the answer off.
    let (_, answer) = served.exec("SELECT 1000000 / (900000 - value) FROM range(0, 1000000)");
    assert!(
        answer.ends_with("(cut off)") || answer.contains("error"),
        "{}",
        &answer[answer.len().saturating_sub(200)..]
    );
    assert_eq!(served.exec("SELECT 1").0, 200);
}

#[test]
fn every_answer_is_json() {
    let served = Served::new(&[]);
    let sql = "SELECT [1.5, 'NaN'::DOUBLE, '-inf'::DOUBLE, NULL] AS a, ['x\"', NULL] AS b, [[1], []] AS c, 'inf'::REAL AS d, INTERVAL '1 day' AS e, TIME '10:00:00' AS f, {'k': 1} AS g, NULL AS h";
    let (status, answer) = served.exec(sql);
    let parsed: serde_json::Value = serde_json::from_str(&answer).expect(&answer);
    assert_eq!(status, 200, "{answer}");
    let row = &parsed["dataset"][0];
    assert_eq!(row[0], serde_json::json!([1.5, null, null, null]));
    assert_eq!(row[1], serde_json::json!(["x\"", null]));
    assert_eq!(row[2], serde_json::json!([[1], []]));
    assert!(row[3].is_null() && row[4].is_string() && row[5].is_string() && row[7].is_null());
}

#[test]
fn rows_as_csv() {
    let served = Served::new(&[]);
    let path = "GET /exp?query=SELECT+value,+'a,\"b'+AS+s,+''+AS+e,+NULL+AS+n+FROM+range(1,3)";
    let (status, answer) = served.ask("http_port", &path.replace('"', "%22").replace('\'', "%27"), b"");
    assert_eq!(
        (status, answer.as_str()),
        (200, "\"value\",\"s\",\"e\",\"n\"\r\n1,\"a,\"\"b\",\"\",\r\n2,\"a,\"\"b\",\"\",\r\n")
    );
    assert_eq!(served.ask("http_port", "GET /exp?query=CREATE+TABLE+x+(a+INT)", b"").0, 400);
}

#[test]
fn other_web_pages_may_not_ask() {
    let served = Served::new(&[]);
    let port = served.address("http_port").port();
    let ask = |head: &str| {
        let mut stream = served.connect("http_port");
        let request = format!("GET /exec?query=SELECT+1 HTTP/1.1\r\nConnection: close\r\n{head}\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok()).expect("a status")
    };
    assert_eq!(ask(&format!("Host: localhost:{port}")), 200);
    assert_eq!(ask(&format!("Host: localhost:{port}\r\nOrigin: http://localhost:{port}")), 200);
    assert_eq!(ask(&format!("Host: localhost:{port}\r\nOrigin: http://evil.example")), 403);
    assert_eq!(ask(&format!("Host: localhost:{port}\r\nOrigin: null")), 403);
    assert_eq!(ask(&format!("Host: rebound.example:{port}")), 403);
    assert_eq!(
        ask(&format!("Host: localhost:{port}\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors")),
        403
    );
    assert_eq!(ask(&format!("Host: localhost:{port}\r\nSec-Fetch-Site: none")), 200);
    assert_eq!(served.metric("http_forbidden_total"), 4);
}

#[test]
fn a_client_that_goes_cancels_its_statement() {
    let served = Served::new(&[]);
    for sql in [
        "SELECT+value+FROM+range(0,+100000000000)",
        "SELECT+count(*)+FROM+range(0,+100000000)+a+JOIN+range(0,+100000000)+b+ON+a.value%2B1%3Cb.value",
    ] {
        let mut stream = served.connect("http_port");
        stream
            .write_all(format!("GET /exec?query={sql} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())
            .expect("it reads");
        std::thread::sleep(Duration::from_millis(300));
        let running = || {
            let (_, answer) = served.exec("SHOW QUERIES");
            answer.matches("range(0").count()
        };
        assert!(running() > 0, "{sql}");
        drop(stream);
        let begun = Instant::now();
        while running() > 0 {
            assert!(begun.elapsed() < crate::PATIENCE, "{sql} goes on");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn a_statement_has_its_time() {
    let served = Served::new(&[("statement_timeout", "100ms")]);
    let begun = Instant::now();
    let (status, answer) = served.exec(
        "SELECT count(*) FROM range(0, 100000000) a JOIN range(0, 100000000) b ON a.value + 1 < b.value",
    );
    assert!(status == 400 && answer.contains("statement_timeout"), "{status} {answer}");
    assert!(begun.elapsed() < crate::PATIENCE);
    assert_eq!(served.exec("SELECT 1").0, 200);
}

#[test]
fn a_client_that_dribbles_is_not_waited_for() {
    let served = Served::new(&[("idle_timeout", "200ms")]);
    for (sent, wanted) in [
        ("POST /write HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\na x=1", "HTTP/1.1 408"),
        ("GET /health HTTP/1.1\r\nHost: loc", ""),
        ("", ""),
        ("PRI * HT", ""),
    ] {
        let mut stream = served.connect("http_port");
        stream.write_all(sent.as_bytes()).expect("it reads");
        let begun = Instant::now();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it ends");
        assert!(answer.starts_with(wanted), "{answer}");
        assert!(begun.elapsed() < crate::PATIENCE);
    }
    assert_eq!(served.number("SELECT count(*) FROM a"), None);
}

#[test]
fn connections_have_a_limit() {
    let served = Served::new(&[("connections_max", "3")]);
    let held: Vec<_> = (0..3).map(|_| served.connect("ilp_port")).collect();
    std::thread::sleep(Duration::from_millis(100));
    let mut refused = served.connect("ilp_port");
    let mut rest = Vec::new();
    assert_eq!(refused.read_to_end(&mut rest).unwrap_or(0), 0);
    drop(held);
    let begun = Instant::now();
    loop {
        let mut stream = served.connect("http_port");
        let _ = stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let mut answer = String::new();
        if stream.read_to_string(&mut answer).is_ok() && answer.starts_with("HTTP/1.1 200") {
            break;
        }
        assert!(begun.elapsed() < crate::PATIENCE);
    }
}

#[test]
fn it_stops_when_all_is_stored() {
    let mut served = Served::new(&[]);
    let mut stream = served.connect("ilp_port");
    stream.write_all(b"t a=1i 1\n").expect("it reads");
    served.wait_for("SELECT count(*) FROM t", 1);
    stream.write_all(b"t a=2i 2\nt a=3i 3\n").expect("it reads");
    std::thread::sleep(Duration::from_millis(50));
    assert!(served.server.take().expect("it runs").stop());
    assert_eq!(served.number("SELECT count(*) FROM t"), Some(3));
}

/// What a connection answers to bytes; the server must not wait for more.
fn raw(served: &Served, request: &str) -> String {
    let mut stream = served.connect("http_port");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn a_request_has_one_host() {
    let served = Served::new(&[]);
    let status = |line: &str, head: &str| {
        let answer = raw(&served, &format!("{line}\r\nConnection: close\r\n{head}\r\n"));
        answer.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok()).expect("a status")
    };
    for path in ["/exec?query=SELECT+1", "/ping", "/nothing", "/metrics", "/mcp"] {
        let line = format!("GET {path} HTTP/1.1");
        assert_eq!(status(&line, ""), 400, "{path}");
        assert_eq!(status(&line, "Host: localhost\r\nHost: localhost\r\n"), 400, "{path}");
        assert_eq!(status(&line, "Host: localhost\r\nHost: evil.example\r\n"), 400, "{path}");
        assert_eq!(status(&line, "Host: \u{e9}\r\n"), 400, "{path}");
        assert_eq!(status(&line, "Host:\r\n"), 403, "{path}");
    }
    assert_eq!(status("GET /exec?query=SELECT+1 HTTP/1.0", ""), 200);
    for (url, wanted) in [
        ("http://evil.example/exec?query=SELECT+1", 403),
        ("http://evil.example:9000/exec?query=SELECT+1", 403),
        ("http://evil.example@localhost/exec?query=SELECT+1", 403),
        ("http://127.0.0.1:9/exec?query=SELECT+1", 200),
        ("http://localhost/exec?query=SELECT+1", 200),
    ] {
        assert_eq!(status(&format!("GET {url} HTTP/1.1"), "Host: localhost\r\n"), wanted, "{url}");
    }
    let origin = "Host: localhost\r\nOrigin: http://localhost\r\n";
    assert_eq!(status("GET http://127.0.0.1/exec?query=SELECT+1 HTTP/1.1", origin), 403);
}

#[test]
fn words_are_utf8() {
    let served = Served::new(&[]);
    served.done("CREATE TABLE t (s VARCHAR)");
    for port in ["http_port", "influx_port"] {
        for path in
            ["/exec", "/query", "/exp", "/imp", "/chk", "/write", "/api/v3/write_lp", "/ping", "/metrics"]
        {
            for bad in ["%FF", "%C3", "%ZZ", "%2", "%"] {
                for method in ["GET", "POST"] {
                    let (status, answer) = served.ask(
                        port,
                        &format!("{method} {path}?query=INSERT+INTO+t+VALUES('{bad}')"),
                        b"t x=1",
                    );
                    assert!(
                        status == 400 && answer.contains("percent-encoded"),
                        "{path} {bad}: {status} {answer}"
                    );
                }
            }
        }
    }
    let form = "Content-Type: application/x-www-form-urlencoded";
    for (port, path, body) in [
        ("http_port", "/exec", "query=INSERT INTO t VALUES('%FF')"),
        ("http_port", "/query", "query=SELECT 1&limit=%ZZ"),
        ("influx_port", "/query", "q=CREATE DATABASE %FF"),
    ] {
        let (status, answer) = served.ask(port, &format!("POST {path}\n{form}"), body.as_bytes());
        assert!(status == 400 && answer.contains("percent-encoded"), "{body}: {status} {answer}");
    }
    // A statement as it is, which curl sends as a form.
    let (_, answer) =
        served.ask("http_port", &format!("POST /exec?nm=true\n{form}"), b"SELECT '50%', 7 % 4 AS x");
    assert_eq!(answer, "{\"dataset\":[[\"50%\",3]],\"count\":1}");
    let (_, answer) = served.ask("http_port", "GET /exec?query=SELECT+'%C3%A9%25'+AS+s&nm=true", b"");
    assert_eq!(answer, "{\"dataset\":[[\"\u{e9}%\"]],\"count\":1}");
    assert_eq!(served.number("SELECT count(*) FROM t"), Some(0));
}

#[test]
fn values_keep_their_digits() {
    let served = Served::new(&[]);
    served.done("CREATE TABLE t (d DECIMAL(38,20), w DECIMAL(38,0), x DOUBLE)");
    let ask = |path: &str, body: &str| {
        served.ask("http_port", &format!("POST {path}\nContent-Type: application/json"), body.as_bytes())
    };
    let values = "[0.12345678901234567890, -123456789012345678901234567890, 0.1]";
    let insert = format!("{{\"query\": \"INSERT INTO t VALUES ($1, $2, $3)\", \"params\": {values}}}");
    assert_eq!(ask("/exec", &insert).0, 200);
    let named = "{\"d\": 1.2345678901234567890e-1, \"w\": -123456789012345678901234567890}";
    let select =
        format!("{{\"query\": \"SELECT * FROM t WHERE d = :d AND w IN (:w)\", \"params\": {named}}}");
    assert_eq!(
        ask("/query", &select),
        (
            200,
            "{\"d\":\"0.12345678901234567890\",\"w\":\"-123456789012345678901234567890\",\"x\":0.1}\n"
                .to_string()
        )
    );
    let answer = ask("/exec", "{\"query\": \"SELECT $1 AS x\", \"params\": [1.5], \"nm\": true}").1;
    assert_eq!(answer, "{\"dataset\":[[1.5]],\"count\":1}");
    let answer = ask(
        "/exec",
        "{\"query\": \"SELECT $1 + 0.5::DOUBLE AS x\", \"params\": [18446744073709551616], \"nm\": true}",
    );
    assert_eq!(answer, (200, "{\"dataset\":[[1.8446744073709552e+19]],\"count\":1}".to_string()));
    for body in [
        "{\"query\": \"SELECT 1\", \"query\": \"DROP TABLE t\"}",
        "{\"query\": null, \"query\": \"DROP TABLE t\"}",
        "{\"query\": \"DROP TABLE t\", \"\\u0071uery\": \"SELECT 1\"}",
        "{\"query\": \"SELECT :a\", \"params\": {\"a\": 1, \"a\": 2}}",
    ] {
        let (status, answer) = ask("/exec", body);
        assert!(status == 400 && answer.contains("is given twice"), "{body}: {answer}");
    }
    assert_eq!(served.number("SELECT count(*) FROM t"), Some(1));
}

#[test]
fn bodies_that_say_they_are_too_long_are_not_waited_for() {
    let served = Served::new(&[("request_bytes_max", "1MB")]);
    for path in ["/exec", "/query", "/exp", "/imp?name=t", "/write", "/api/v3/write_lp", "/mcp"] {
        for (length, more) in
            [("2097153", ""), ("99999999999999", ""), ("2097153", "Content-Encoding: gzip\r\n")]
        {
            let begun = Instant::now();
            let head = format!(
                "Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{more}"
            );
            let answer = raw(&served, &format!("POST {path} HTTP/1.1\r\nConnection: close\r\n{head}\r\n"));
            assert!(answer.starts_with("HTTP/1.1 413"), "{path}: {answer}");
            assert!(answer.contains("request_bytes_max"), "{path}: {answer}");
            assert!(begun.elapsed() < Duration::from_secs(5), "{path}");
        }
    }
}

#[test]
fn intervals_are_not_in_parquet() {
    let served = Served::new(&[]);
    let ask = |column: &str, fmt: &str| {
        let sql =
            format!("SELECT 1 AS a, {column} AS b").replace(' ', "+").replace('{', "%7B").replace('}', "%7D");
        let mut stream = served.connect("http_port");
        let head = "Host: localhost\r\nConnection: close\r\n\r\n";
        write!(stream, "GET /exp?query={sql}&fmt={fmt} HTTP/1.1\r\n{head}").expect("it reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("it answers");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        (answer.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok()).expect("a status"), answer)
    };
    for column in ["INTERVAL '1 day'", "[INTERVAL '1 day']", "{'k': INTERVAL '1 month'}"] {
        let (status, answer) = ask(column, "parquet");
        assert!(
            status == 400 && answer.contains("column 'b'") && answer.contains("CAST"),
            "{status} {answer}"
        );
        for fmt in ["csv", "ndjson", "arrow"] {
            assert_eq!(ask(column, fmt).0, 200, "{column} {fmt}");
        }
    }
    for column in ["CAST(INTERVAL '1 day' AS VARCHAR)", "TIME '10:00:00'", "NULL", "[1.5]", "{'k': 1}"] {
        assert_eq!(ask(column, "parquet").0, 200, "{column}");
    }
}

/// `nc -N` and the like: they close their side after the request, and wait.
#[test]
fn a_client_that_closed_its_side_is_answered() {
    let served = Served::new(&[]);
    let ask = |request: &str| {
        let mut socket = served.connect("http_port");
        socket.write_all(request.as_bytes()).expect("it reads");
        socket.shutdown(std::net::Shutdown::Write).expect("it closes");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("it answers");
        answer
    };
    let slow = "SELECT%20sum(a.value*b.value)%20FROM%20range(0,1000)%20a,range(0,1000)%20b";
    for query in ["SELECT%201", slow, "SELECT%20value%20FROM%20range(0,300000)"] {
        for close in ["Connection: close\r\n", ""] {
            let answer = ask(&format!("GET /exec?query={query} HTTP/1.1\r\nHost: 127.0.0.1\r\n{close}\r\n"));
            assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("dataset"), "{query}: {answer}");
        }
    }
    let lines = "POST /write HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\nt a=1i 1\n";
    let answer = ask(lines);
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    // One that closed within its request is none.
    let part = ask("POST /write HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99\r\n\r\nt a=1i 1\n");
    assert!(!part.contains("204"), "{part}");
    assert_eq!(served.number("SELECT count(*) FROM t"), Some(1));
    served.wait_for_metric("connections_open", 1);
}
