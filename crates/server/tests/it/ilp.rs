//! Line protocol over both.

use crate::Served;
use std::io::{Read, Write};
use std::net::Shutdown;

#[test]
fn lines_over_tcp_become_rows() {
    let served = Served::new(&[]);
    let mut stream = served.connect("ilp_port");
    stream.write_all(b"trades,symbol=BTC-USD price=1.5 1000\ntrades,symbol=ETH-USD pri").expect("it reads");
    served.wait_for("SELECT count(*) FROM trades", 1);
    stream.write_all(b"ce=2.5,size=3i 2000\n").expect("it reads");
    served.wait_for("SELECT sum(size) FROM trades WHERE price = 2.5 AND symbol = 'ETH-USD'", 3);
    assert_eq!(served.number("SELECT count(*) FROM trades WHERE size IS NULL"), Some(1));
    assert_eq!(
        served.number("SELECT max(timestamp)::BIGINT FROM trades").map(|_| ()),
        served.number("SELECT 1").map(|_| ())
    );
    drop(stream);
    assert_eq!(served.metric("ilp_tcp_rows_total"), 2);
}

#[test]
fn a_bad_line_ends_the_connection_behind_the_rows_before_it() {
    let served = Served::new(&[]);
    let mut stream = served.connect("ilp_port");
    stream.write_all(b"t a=1i 1\nt a=2i 2\nt a=oops 3\nt a=4i 4\n").expect("it reads");
    let mut rest = Vec::new();
    assert_eq!(stream.read_to_end(&mut rest).expect("it closes"), 0);
    served.wait_for("SELECT count(*) FROM t", 2);
    assert_eq!(served.metric("ilp_tcp_bad_lines_total"), 1);
    // A conflict with a table that is there.
    let mut stream = served.connect("ilp_port");
    stream.write_all(b"t a=5i 5\nt a=\"text\" 6\n").expect("it reads");
    assert_eq!(stream.read_to_end(&mut rest).expect("it closes"), 0);
    served.wait_for("SELECT sum(a) FROM t", 8);
}

#[test]
fn many_connections_make_the_same_tables_and_columns() {
    const WRITERS: u64 = 12;
    const ROWS: u64 = 500;
    let served = Served::new(&[]);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let mut stream = served.connect("ilp_port");
            scope.spawn(move || {
                for row in 0..ROWS {
                    let line = format!(
                        "m,w=w{writer} n={row}i,c{}={row} {}\n",
                        (writer + row) % 7,
                        writer * ROWS + row + 1
                    );
                    stream.write_all(line.as_bytes()).expect("it reads");
                }
                stream.shutdown(Shutdown::Write).expect("it ends");
                let mut rest = Vec::new();
                assert_eq!(stream.read_to_end(&mut rest).expect("it closes"), 0);
            });
        }
    });
    let all = i64::try_from(WRITERS * ROWS).expect("few");
    served.wait_for("SELECT count(*) FROM m", all);
    assert_eq!(served.number("SELECT sum(n) FROM m"), Some(all / 500 * (500 * 499 / 2)));
    assert_eq!(
        served.number(
            "SELECT count(c0) + count(c1) + count(c2) + count(c3) + count(c4) + count(c5) + count(c6) FROM m"
        ),
        Some(all)
    );
}

#[test]
fn a_request_is_one_transaction() {
    let served = Served::new(&[]);
    assert_eq!(served.ask("http_port", "POST /write", b"a x=1i 1\nb y=2i 1").0, 204);
    assert_eq!(served.number("SELECT (SELECT sum(x) FROM a) + (SELECT sum(y) FROM b)"), Some(3));
    for (path, body) in [
        ("/write", &b"a x=2i 2\nb y=oops 3\n"[..]),
        ("/api/v2/write?bucket=b&org=o", b"a x=2i 2\nnew z=1i 1\nb y=\"t\" 2\n"),
        ("/api/v3/write_lp?db=d", b"a x=2i 2\nb y=\"unclosed\n"),
    ] {
        let (status, answer) = served.ask("influx_port", &format!("POST {path}"), body);
        assert_eq!(status, 400, "{path}: {answer}");
        assert!(
            answer.contains("line 2") || answer.contains("line 3") || answer.contains("\"line_number\":2"),
            "{answer}"
        );
        assert_eq!(served.number("SELECT count(*) FROM a"), Some(1), "{path}");
    }
    assert_eq!(served.number("SELECT count(*) FROM new"), None, "no table was made");
    assert_eq!(served.metric("ilp_http_refused_total"), 3);
}

#[test]
fn clients_of_influx_3_may_ask_for_the_good_lines() {
    let served = Served::new(&[]);
    let lines =
        b"a x=1i 1700000000\na x=oops 1700000001\n\na x=2i 1700000002\na y=\"1\n\" z= 1\na x=4i 1700000003";
    let (status, answer) = served.ask("http_port", "POST /api/v3/write_lp?accept_partial=true", lines);
    assert_eq!(status, 400);
    assert!(
        answer.contains("partial write") && answer.contains("\"original_line\":\"a x=oops 1700000001\""),
        "{answer}"
    );
    assert!(answer.contains("\"line_number\":2") && answer.contains("\"line_number\":5"), "{answer}");
    assert_eq!(served.number("SELECT sum(x) FROM a"), Some(7));
    assert_eq!(
        served.number("SELECT count(*) FROM a WHERE timestamp >= '2023-11-14' AND timestamp < '2023-11-15'"),
        Some(3)
    );
}

#[test]
fn gzip_precision_and_limits() {
    let served = Served::new(&[("request_bytes_max", "1KB")]);
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(b"a x=1i 5\n").expect("memory");
    let packed = packed.finish().expect("memory");
    let request = "POST /write?precision=ms\nContent-Encoding: gzip";
    assert_eq!(served.ask("http_port", request, &packed).0, 204);
    assert_eq!(served.number("SELECT count(*) FROM a WHERE timestamp = '1970-01-01T00:00:00.005'"), Some(1));
    assert_eq!(served.ask("http_port", request, &packed[..packed.len() - 4]).0, 400, "cut off");
    assert_eq!(served.ask("http_port", request, b"no gzip").0, 400);
    assert_eq!(served.ask("http_port", "POST /write?precision=weeks", b"a x=1i 5\n").0, 400);
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    bomb.write_all(&vec![b'\n'; 1 << 20]).expect("memory");
    assert_eq!(served.ask("http_port", request, &bomb.finish().expect("memory")).0, 413);
    assert_eq!(served.ask("http_port", "POST /write", &vec![b'\n'; 2000]).0, 413);
    assert_eq!(served.ask("http_port", "POST /write\nContent-Encoding: br", b"a").0, 415);
}

#[test]
fn what_may_not_be_made_is_refused() {
    let served = Served::new(&[("auto_create_tables", "false"), ("auto_create_columns", "false")]);
    let (status, answer) = served.ask("http_port", "POST /write", b"a x=1i 1\n");
    assert!(status == 400 && answer.contains("table 'a' does not exist"), "{status} {answer}");
    assert_eq!(served.exec("CREATE TABLE a (ts TIMESTAMP, x BIGINT) TIMESTAMP(ts)").0, 200);
    assert_eq!(served.ask("http_port", "POST /write", b"a x=1i 1\n").0, 204);
    let (status, answer) = served.ask("http_port", "POST /write", b"a x=1i,y=2 1\n");
    assert!(status == 400 && answer.contains("column 'y' of 'a' does not exist"), "{status} {answer}");
}

#[test]
fn a_line_cut_off_is_told_beside_other_bad_ones() {
    let served = Served::new(&[]);
    let lines = b"a x=1i 1\na x=oops 2\na x=2i 3\na y=\"unclosed 4\na x=5i 5\n";
    let (status, answer) =
        served.ask("http_port", "POST /api/v3/write_lp?accept_partial=true&precision=ns", lines);
    assert_eq!(status, 400);
    assert!(answer.contains("\"line_number\":2") && answer.contains("\"line_number\":4"), "{answer}");
    assert_eq!(served.number("SELECT sum(x) FROM a"), Some(3));
}

#[test]
fn lines_have_a_length_and_connections_their_memory() {
    let served = Served::new(&[("ilp_line_bytes_max", "1MB"), ("requests_bytes_max", "1MB")]);
    let mut stream = served.connect("ilp_port");
    stream.write_all(b"t a=1i 1\nt s=\"").expect("it reads");
    let piece = vec![b'x'; 64 << 10];
    let sent = (0..400).take_while(|_| stream.write_all(&piece).is_ok()).count();
    assert!(sent < 400, "a line without an end is read on and on");
    served.wait_for("SELECT count(*) FROM t", 1);
    let (status, answer) = served.ask("http_port", "POST /write", &vec![b'\n'; 2 << 20]);
    assert!(status == 503 && answer.contains("requests_bytes_max"), "{status} {answer}");
    assert_eq!(served.ask("http_port", "POST /write", b"t a=2i 2\n").0, 204, "what was held is given back");
}

#[test]
fn columns_that_come_and_go_lose_no_row() {
    let served = Served::new(&[]);
    assert_eq!(served.ask("http_port", "POST /write", b"r n=0i,c=1 1\n").0, 204);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let stored = std::thread::scope(|scope| {
        let altering = scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                served.exec("ALTER TABLE r DROP COLUMN c");
            }
        });
        let stored = (1..150).filter(|n| {
            let line = format!("r n={n}i,c=1 {}\n", n + 1);
            let (status, answer) = served.ask("http_port", "POST /write", line.as_bytes());
            assert!(status == 204 || status == 503, "{status} {answer}");
            status == 204
        });
        let stored = stored.count();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        altering.join().expect("it ends");
        stored
    });
    assert_eq!(served.number("SELECT count(*) FROM r"), i64::try_from(stored + 1).ok());
}

#[test]
fn what_clients_ask_first() {
    let served = Served::new(&[]);
    let (status, answer) = served.ask("http_port", "GET /settings", b"");
    assert!(status == 200 && answer.contains("\"line.proto.support.versions\":[1,2,3]"), "{answer}");
    assert_eq!(served.ask("influx_port", "GET /ping", b"").0, 204);
    assert!(served.ask("influx_port", "GET /health", b"").1.contains("\"status\":\"pass\""));
    for path in ["/query?q=SELECT+1", "/api/v2/query"] {
        let (status, answer) = served.ask("influx_port", &format!("POST {path}"), b"");
        assert!(status == 400 && answer.contains("InfluxQL and Flux are not read"), "{answer}");
    }
}
