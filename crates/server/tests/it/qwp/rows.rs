//! Rows in.

use super::*;
use crate::Served;
use std::time::Duration;

#[test]
fn rows_are_acknowledged_when_they_are_stored() {
    let served = Served::new(&[("qwp_message_bytes_max", "1MB")]);
    for path in ["/write/v4", "/api/v4/write"] {
        let mut socket = Socket::open(&served, path);
        assert!(socket.head.contains("x-qwp-version: 1\r\n"), "{}", socket.head);
        assert!(socket.head.contains("x-qwp-max-batch-size: 1048576\r\n"), "{}", socket.head);
        let stored = served.number("SELECT count(*) FROM t").unwrap_or(0);
        for value in 0..3 {
            socket.rows(&row("t", value));
            assert_eq!(socket.answer(), (OK, value as u64, String::new()));
            assert_eq!(served.number("SELECT count(*) FROM t"), Some(stored + value + 1));
        }
    }
    assert_eq!(served.metric("qwp_rows_total"), 6);
    assert_eq!(served.metric("qwp_messages_total"), 6);
}

#[test]
fn messages_that_wait_are_stored_together() {
    const MESSAGES: i64 = 2_000;
    let served = Served::new(&[]);
    let mut socket = Socket::open(&served, "/write/v4");
    let all: Vec<u8> = (0..MESSAGES).flat_map(|value| frame(BINARY, &row("t", value))).collect();
    socket.stream.write_all(&all).expect("it reads");
    let mut answers = 0;
    loop {
        let (status, sequence, text) = socket.answer();
        assert_eq!(status, OK, "{text}");
        answers += 1;
        let stored = served.number("SELECT count(*) FROM t").expect("a table");
        assert!(stored > sequence as i64, "{sequence} is acknowledged, {stored} rows are stored");
        if sequence as i64 == MESSAGES - 1 {
            break;
        }
    }
    assert!(answers < MESSAGES / 2, "{answers} commits");
    assert_eq!(served.number("SELECT sum(n) FROM t"), Some(MESSAGES * (MESSAGES - 1) / 2));
}

#[test]
fn what_is_deferred_is_stored_with_what_is_not() {
    let served = Served::new(&[]);
    let mut socket = Socket::open(&served, "/write/v4");
    socket.rows(&row("t", 0));
    socket.acknowledged(0);
    socket.rows(&deferred("t", 1));
    socket.rows(&deferred("u", 2));
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(served.number("SELECT count(*) FROM t"), Some(1));
    assert_eq!(served.number("SELECT count(*) FROM u"), None, "no table is made before");
    // A table that is made and changed meanwhile.
    served.done("CREATE TABLE u (n INT, x INT, timestamp TIMESTAMP) TIMESTAMP(timestamp)");
    served.done("ALTER TABLE t ADD COLUMN x INT");
    socket.rows(&message(false, &[]));
    assert_eq!(socket.answer(), (OK, 3, String::new()));
    assert_eq!(served.number("SELECT count(*) + (SELECT sum(n) FROM u) FROM t"), Some(4));
    // What nobody has stored is gone with its connection.
    socket.rows(&deferred("t", 7));
    socket.send(CLOSE, &1000_u16.to_be_bytes());
    assert_eq!(socket.next().map(|(opcode, _)| opcode), Some(CLOSE));
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(served.number("SELECT count(*) FROM t"), Some(2));
}

#[test]
fn nothing_is_stored_behind_a_message_that_is_refused() {
    let served = Served::new(&[]);
    served.done("CREATE TABLE t (n LONG, timestamp TIMESTAMP) TIMESTAMP(timestamp)");
    let wrong = message(
        true,
        &[
            ("u", 1, vec![longs("n", &[1]), times(&[1])]),
            ("t", 2, vec![texts("n", &["1", "x"]), times(&[1, 2])]),
        ],
    );
    let mut socket = Socket::open(&served, "/write/v4");
    let sent = [row("t", 1), deferred("t", 2), deferred("v", 2), wrong, row("t", 3), message(false, &[])];
    let sent: Vec<u8> = sent.iter().flat_map(|message| frame(BINARY, message)).collect();
    socket.stream.write_all(&sent).expect("it reads");
    socket.acknowledged(0);
    let (status, sequence, text) = socket.answer();
    assert_eq!((status, sequence), (SCHEMA_MISMATCH, 3), "{text}");
    assert!(text.contains("table 't', column 'n', row 0: '1' is a text"), "{text}");
    assert_eq!(socket.closed(), 1008);
    assert_eq!(served.number("SELECT sum(n) FROM t"), Some(1));
    assert_eq!(served.number("SELECT count(*) FROM u"), None);
    assert_eq!(served.metric("qwp_refused_total"), 1);
}

#[test]
fn of_messages_that_wait_together_the_good_ones_before_are_stored() {
    // Which messages wait together is not known: each order and length is tried.
    for before in 0..20 {
        let served = Served::new(&[]);
        let mut socket = Socket::open(&served, "/write/v4");
        let mut sent: Vec<_> = (0..before).map(|value| row("t", value)).collect();
        sent.push(row("new", 100));
        sent.push(message(false, &[("new", 1, vec![texts("n", &["no number"]), times(&[101])])]));
        sent.push(row("new", 102));
        let sent: Vec<u8> = sent.iter().flat_map(|message| frame(BINARY, message)).collect();
        socket.stream.write_all(&sent).expect("it reads");
        let (status, sequence, text) = loop {
            let answer = socket.answer();
            if answer.0 != OK {
                break answer;
            }
        };
        assert_eq!((status, sequence), (SCHEMA_MISMATCH, before as u64 + 1), "{text}");
        assert_eq!(served.number("SELECT count(*) FROM new"), Some(1));
        assert_eq!(served.number("SELECT count(*) FROM t").unwrap_or(0), before);
    }
}

#[test]
fn many_connections_make_the_same_tables_and_columns() {
    const WRITERS: i64 = 8;
    const MESSAGES: i64 = 100;
    let served = Served::new(&[]);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let mut socket = Socket::open(&served, "/write/v4");
            scope.spawn(move || {
                for number in 0..MESSAGES {
                    let value = writer * MESSAGES + number;
                    let column = format!("c{}", value % 7);
                    let columns = vec![longs("n", &[value]), longs(&column, &[1]), times(&[value])];
                    socket.rows(&message(number % 5 == 0, &[("m", 1, columns)]));
                }
                socket.acknowledged(MESSAGES as u64 - 1);
            });
        }
    });
    let all = WRITERS * MESSAGES;
    assert_eq!(served.number("SELECT count(*) FROM m"), Some(all));
    assert_eq!(served.number("SELECT sum(n) FROM m"), Some(all * (all - 1) / 2));
    let columns =
        "SELECT count(c0) + count(c1) + count(c2) + count(c3) + count(c4) + count(c5) + count(c6) FROM m";
    assert_eq!(served.number(columns), Some(all));
}

#[test]
fn columns_that_come_and_go_lose_no_row() {
    let served = Served::new(&[]);
    let mut socket = Socket::open(&served, "/write/v4");
    let row = |n: i64| message(false, &[("r", 1, vec![longs("n", &[n]), longs("c", &[1]), times(&[n + 1])])]);
    socket.rows(&row(0));
    socket.acknowledged(0);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let stored = std::thread::scope(|scope| {
        let altering = scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                served.exec("ALTER TABLE r DROP COLUMN c");
            }
        });
        let (mut stored, mut next) = (1, 1);
        for n in 1..150 {
            socket.rows(&row(n));
            let (status, sequence, text) = socket.answer();
            assert_eq!(sequence, next);
            next += 1;
            if status == OK {
                stored += 1;
                continue;
            }
            assert!(status == WRITE_ERROR && text.contains("changed during each"), "{status} {text}");
            (socket, next) = (Socket::open(&served, "/write/v4"), 0);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        altering.join().expect("it ends");
        stored
    });
    assert_eq!(served.number("SELECT count(*) FROM r"), Some(stored));
}

#[test]
fn what_takes_too_much_is_refused() {
    let served = Served::new(&[("qwp_message_bytes_max", "64KB"), ("qwp_deferred_bytes_max", "100KB")]);
    let many = |rows: i64| {
        let values: Vec<i64> = (0..rows).collect();
        message(true, &[("t", rows as u64, vec![longs("n", &values), times(&values)])])
    };
    let mut socket = Socket::open(&served, "/write/v4");
    socket.rows(&many(3_000));
    socket.rows(&many(3_000));
    socket.rows(&many(3_000));
    let (status, sequence, text) = socket.answer();
    assert_eq!((status, sequence), (PARSE_ERROR, 2));
    assert!(text.contains("qwp_deferred_bytes_max, 102400 bytes"), "{text}");
    assert_eq!(socket.closed(), 1008);
    let mut socket = Socket::open(&served, "/write/v4");
    // Refused by its length alone.
    let long = frame(BINARY, &many(5_000));
    socket.stream.write_all(&long[..14]).expect("it reads");
    assert_eq!(socket.next().map(|(_, close)| [close[0], close[1]]), Some(1009_u16.to_be_bytes()));
    // Of all connections together.
    let served = Served::new(&[("requests_bytes_max", "100KB")]);
    let mut sockets: Vec<_> = (0..2).map(|_| Socket::open(&served, "/write/v4")).collect();
    sockets[0].rows(&many(5_000));
    served.wait_for_metric("qwp_messages_total", 1);
    sockets[1].rows(&many(5_000));
    let (status, sequence, text) = sockets[1].answer();
    assert_eq!((status, sequence), (WRITE_ERROR, 0));
    assert!(text.contains("requests_bytes_max"), "{text}");
    assert_eq!(sockets[1].closed(), 1008);
    drop(sockets);
    served.wait_for_metric("connections_open", 1);
    let mut socket = Socket::open(&served, "/write/v4");
    socket.rows(&row("t", 1));
    socket.acknowledged(0);
}
