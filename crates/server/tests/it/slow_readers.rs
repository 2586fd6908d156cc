//! Clients that read nothing: what was made for them and waits is counted, and bounded, in bytes.

use super::{PATIENCE, Served, pg, qwp};
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};
use tickstone_client::{Answer, Client, Rows};
use tickstone_query::arrow::array::{Array, AsArray};
use tickstone_query::arrow::datatypes::{Float64Type, Int64Type, UInt64Type};
use tickstone_query::{Database, DatabaseOptions};

const MEMORY: usize = 64 << 20;

const ROW_BYTES: u64 = 100_000;

/// As many rows as nobody waits for.
const ENDLESS: &str = "SELECT repeat('x', 100000) AS text FROM range(0, 1000000)";

/// Of four protocols.
const CLIENTS: usize = 60;

/// Bytes that the sockets of a client, and the pieces that are written into them, take at most.
const SOCKET_BYTES: u64 = 16 << 20;

/// Clients that do not read: they are kept for their connections.
#[derive(Default)]
struct Silent {
    postgres: Vec<pg::Client>,
    http: Vec<TcpStream>,
    flight: Vec<(Client, Rows)>,
    websocket: Vec<qwp::Socket>,
}

fn served() -> Served {
    let options = DatabaseOptions { query_memory_bytes: Some(MEMORY), ..DatabaseOptions::default() };
    Served::over(Database::in_memory(options).expect("a database"), &[])
}

/// The number that a query gives, none for NULL.
fn number(served: &Served, sql: &str) -> u64 {
    let batches = served.database.runtime().block_on(served.database.session().query(sql)).expect(sql);
    let column = batches[0].column(0);
    if column.is_null(0) {
        return 0;
    }
    if let Some(numbers) = column.as_primitive_opt::<Float64Type>() {
        return numbers.value(0) as u64;
    }
    match column.as_primitive_opt::<UInt64Type>() {
        Some(numbers) => numbers.value(0),
        None => column.as_primitive::<Int64Type>().value(0) as u64,
    }
}

/// Bytes that count towards `query_memory`.
fn reserved(served: &Served) -> u64 {
    number(served, "SELECT value FROM metrics() WHERE metric = 'query_memory_bytes'")
}

/// How many statements of silent clients there are, and bytes of rows that were made for them.
fn made(served: &Served) -> (u64, u64) {
    let of = "FROM queries() WHERE statement LIKE 'SELECT repeat(%'";
    let count = number(served, &format!("SELECT count(*) {of}"));
    (count, number(served, &format!("SELECT CAST(sum(rows) AS BIGINT) {of}")) * ROW_BYTES)
}

#[test]
fn rows_of_clients_that_read_nothing_count_and_wait() {
    let served = served();
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    let mut silent = Silent::default();
    for _ in 0..CLIENTS / 4 {
        let mut client = pg::Client::new(&served);
        client.send(b'Q', &pg::text(ENDLESS));
        silent.postgres.push(client);
        let mut stream = served.connect("http_port");
        let path = ENDLESS.replace(' ', "%20").replace('\'', "%27");
        let request = format!("GET /exec?query={path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        silent.http.push(stream);
        let mut socket = qwp::reader(&served, "");
        socket.ask(1, ENDLESS);
        silent.websocket.push(socket);
        let url = format!("tickstone://{}", served.address("flight_port"));
        let asked = runtime.block_on(async {
            let client = Client::connect(&url).await.expect("it listens");
            let answer = client.query(ENDLESS, None).await;
            answer.map(|answer| (client, answer))
        });
        // One that has no room any more is told so.
        if let Ok((client, Answer::Rows(rows))) = asked {
            silent.flight.push((client, rows));
        }
    }
    // Until nothing more is made.
    let (begun, mut before, mut still) = (Instant::now(), (0, 0), 0);
    while still < 10 {
        assert!(begun.elapsed() < PATIENCE, "{before:?} bytes are made and it goes on");
        std::thread::sleep(Duration::from_millis(100));
        let (now, held) = (made(&served), reserved(&served));
        assert!(held <= (MEMORY + MEMORY / 8) as u64, "{held} bytes are held");
        still = if now == before { still + 1 } else { 0 };
        before = now;
    }
    let (statements, bytes) = before;
    let held = reserved(&served);
    assert!(statements > 0 && held > 0, "{statements} statements, {held} bytes held");
    let uncounted = bytes.saturating_sub(held);
    assert!(
        uncounted <= statements * SOCKET_BYTES,
        "{statements} statements: {bytes} bytes made, {held} counted"
    );
    // Another client is served, as long as it asks for little.
    assert_eq!(number(&served, "SELECT count(*) FROM range(0, 1000)"), 1_000);
    drop(silent);
    let begun = Instant::now();
    while reserved(&served) > 0 {
        assert!(begun.elapsed() < PATIENCE, "{} bytes stay", reserved(&served));
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Batches that are larger than what may wait come one after the other, and whole.
#[test]
fn a_client_that_reads_gets_large_rows_whole() {
    let served = served();
    let sql = "SELECT repeat('x', 100000) AS text FROM range(0, 700)";
    let (status, answer) = served.exec(sql);
    assert_eq!(status, 200);
    assert_eq!(answer.matches("xxx\"]").count(), 700);
    let mut client = pg::Client::new(&served);
    assert_eq!(client.query(sql).matches('D').count(), 700);
    assert_eq!(reserved(&served), 0);
}
