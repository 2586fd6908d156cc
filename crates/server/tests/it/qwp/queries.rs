//! Statements and their results.

use super::*;
use crate::PATIENCE;
use crate::Served;
use std::time::{Duration, Instant};

#[test]
fn queries_have_rows_and_an_end() {
    let served = Served::new(&[]);
    let mut socket = reader(&served, "X-QWP-Max-Batch-Rows: 1000\r\n");
    socket.ask(1, "CREATE TABLE t (n LONG, timestamp TIMESTAMP) TIMESTAMP(timestamp)");
    let (kind, id, rest) = socket.result();
    assert_eq!((kind, id, &rest[..]), (DONE, 1, &[9, 0][..]));
    socket.ask(2, "INSERT INTO t SELECT value, to_timestamp(value) FROM range(0, 5000)");
    let (kind, id, rest) = socket.result();
    assert_eq!((kind, id), (DONE, 2), "{}", String::from_utf8_lossy(&rest));
    assert_eq!((rest[0], varint(&rest[1..])), (2, 5_000));
    socket.ask(3, "SELECT * FROM t");
    let (rows, batches) = socket.rows_of(3);
    assert_eq!(rows, 5_000);
    assert!(batches.len() >= 5, "{batches:?}");
    // The columns come where there is no row.
    socket.ask(4, "SELECT n, timestamp FROM t WHERE n < 0");
    let (rows, batches) = socket.rows_of(4);
    assert_eq!((rows, batches.len()), (0, 1));
    for (id, sql, status, wanted) in [
        (5, "SELECT", PARSE_ERROR, "expected an expression"),
        (6, "SELECT x FROM t", PARSE_ERROR, "x"),
        (7, "BEGIN", PARSE_ERROR, "each request has one of its own"),
        (8, "SELECT 1; SELECT 2", PARSE_ERROR, "exactly one statement"),
        (9, "SELECT $1", PARSE_ERROR, "has no value"),
        (10, "SELECT (-1)::BIGINT UNSIGNED", PARSE_ERROR, "-1"),
    ] {
        socket.ask(id, sql);
        let (got, text) = socket.error(id);
        assert!(got == status && text.contains(wanted), "{sql}: {got} {text}");
    }
    // Types that QWP has not are texts.
    socket.ask(11, "SELECT INTERVAL '1 day' AS a, ['x', NULL, 'z'] AS b, TIME '12:30:00' AS c");
    let (kind, _, rest) = socket.result();
    let text = String::from_utf8_lossy(&rest).into_owned();
    assert!(kind == BATCH && text.contains("[\"x\",null,\"z\"]") && text.contains("12:30:00"), "{text}");
}

#[test]
fn queries_wait_for_each_other() {
    let served = Served::new(&[]);
    let mut socket = reader(&served, "");
    let sent: Vec<u8> = [
        query(1, "SELECT * FROM range(0, 100000)", 0, None),
        query(2, LONG, 0, None),
        query(3, "SELECT 1", 0, None),
        query(4, "SELECT 2", 0, None),
        cancel(3),
        cancel(99),
    ]
    .iter()
    .flat_map(|message| frame(BINARY, message))
    .collect();
    socket.stream.write_all(&sent).expect("it reads");
    assert_eq!(socket.rows_of(1).0, 100_000);
    socket.send(BINARY, &cancel(2));
    assert_eq!(socket.error(2).0, CANCELLED);
    assert_eq!(socket.error(3).0, CANCELLED);
    assert_eq!(socket.rows_of(4).0, 1);
    // Not without end.
    let many: Vec<u8> = (0..30).flat_map(|id| frame(BINARY, &query(id, LONG, 0, None))).collect();
    socket.stream.write_all(&many).expect("it reads");
    assert_eq!(socket.closed(), 1002);
    let begun = Instant::now();
    while served.exec("SHOW QUERIES").1.matches("range(0").count() > 0 {
        assert!(begun.elapsed() < PATIENCE, "a query goes on without its client");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn credit_is_honoured() {
    let served = Served::new(&[]);
    let mut socket = reader(&served, "X-QWP-Max-Batch-Rows: 1000\r\n");
    socket.send(BINARY, &query(1, "SELECT value FROM range(0, 100000)", 10_000, None));
    // 8,000 bytes of rows each: two, and no more before there is credit.
    assert_eq!((socket.result().0, socket.result().0), (BATCH, BATCH));
    socket.stream.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    assert!(socket.next().is_none(), "a batch came that there was no credit for");
    socket.stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    socket.send(BINARY, &credit(7, 1 << 40));
    socket.send(BINARY, &credit(1, 8_000));
    assert_eq!(socket.result().0, BATCH);
    // Cancelled where it waits for credit.
    socket.send(BINARY, &cancel(1));
    assert_eq!(socket.error(1).0, CANCELLED);
    socket.send(BINARY, &query(2, "SELECT value FROM range(0, 100000)", 1, None));
    assert_eq!(socket.result().0, BATCH);
    socket.send(BINARY, &credit(2, u64::MAX));
    assert_eq!(socket.rows_of(2).0, 100_000);
}

#[test]
fn queries_have_their_time() {
    let served = Served::new(&[("statement_timeout", "300ms")]);
    let mut socket = reader(&served, "");
    socket.send(BINARY, &query(1, LONG, 0, Some(100)));
    let (status, text) = socket.error(1);
    assert!(status == QUERY_TIMEOUT && text.contains("100ms"), "{status} {text}");
    socket.send(BINARY, &query(2, LONG, 0, Some(u64::MAX)));
    let (status, text) = socket.error(2);
    assert!(status == 11 && text.contains("statement_timeout"), "{status} {text}");
    // Also one that its client gives no credit.
    socket.send(BINARY, &query(3, "SELECT * FROM range(0, 1000000000)", 1, Some(100)));
    assert_eq!(socket.error(3).0, QUERY_TIMEOUT);
    socket.ask(4, "SELECT 1");
    assert_eq!(socket.rows_of(4).0, 1);
}

#[test]
fn a_client_that_goes_cancels_its_query() {
    let served = Served::new(&[]);
    for (sql, credit) in [
        (LONG, 0),
        ("SELECT value FROM range(0, 100000000000)", 0),
        ("SELECT * FROM range(0, 100000000000)", 1),
    ] {
        let mut socket = reader(&served, "");
        socket.send(BINARY, &query(1, sql, credit, None));
        let running = || served.exec("SHOW QUERIES").1.matches("range(0").count();
        let begun = Instant::now();
        while running() == 0 {
            assert!(begun.elapsed() < PATIENCE, "{sql}");
        }
        drop(socket);
        let begun = Instant::now();
        while running() > 0 {
            assert!(begun.elapsed() < PATIENCE, "{sql} goes on");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn a_client_that_never_reads_is_cut_off() {
    let served = Served::new(&[("send_timeout", "500ms")]);
    let mut socket = reader(&served, "");
    socket.ask(1, "SELECT value FROM range(0, 100000000000)");
    served.wait_for_metric("connections_open", 2);
    served.wait_for_metric("connections_open", 1);
    drop(socket);
}
