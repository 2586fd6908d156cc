//! The PostgreSQL port, byte by byte: what clients of good faith do is in tests/clients.

use super::{PATIENCE, Served};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// A connection whose startup is done.
pub(super) struct Client(TcpStream);

impl Client {
    pub(super) fn new(served: &Served) -> Self {
        let mut stream = served.connect("pg_port");
        stream.write_all(&startup(&[("user", "admin"), ("database", "qdb")])).expect("it is sent");
        let mut client = Self(stream);
        let messages = client.until_ready();
        assert!(messages.iter().any(|(kind, _)| *kind == b'K'), "{messages:?}");
        client
    }

    pub(super) fn send(&mut self, kind: u8, body: &[u8]) {
        self.0.write_all(&message(kind, body)).expect("it is sent");
    }

    /// The next message: its kind and its body; `None` where the server has closed.
    fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.0.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let mut body = vec![0; length - 4];
        self.0.read_exact(&mut body).ok()?;
        Some((head[0], body))
    }

    fn until_ready(&mut self) -> Vec<(u8, Vec<u8>)> {
        let mut found = Vec::new();
        while let Some(message) = self.next() {
            let ready = message.0 == b'Z';
            found.push(message);
            if ready {
                return found;
            }
        }
        panic!("the server closed: {found:?}");
    }

    /// The kinds of the messages that answer a text.
    pub(super) fn query(&mut self, sql: &str) -> String {
        self.send(b'Q', &text(sql));
        self.until_ready().iter().map(|(kind, _)| char::from(*kind)).collect()
    }

    /// The one value of a query.
    fn value(&mut self, sql: &str) -> String {
        self.send(b'Q', &text(sql));
        let messages = self.until_ready();
        let row = messages.iter().find(|(kind, _)| *kind == b'D').expect("a row");
        String::from_utf8(row.1[6..].to_vec()).expect("text")
    }

    /// Whether the server closes within the patience.
    fn closes(mut self) -> bool {
        loop {
            match self.0.read(&mut [0; 4096]) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
            }
        }
    }
}

pub(super) fn text(text: &str) -> Vec<u8> {
    [text.as_bytes(), b"\0"].concat()
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).expect("short");
    [&[kind][..], &length.to_be_bytes(), body].concat()
}

fn startup(parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = 196_608_u32.to_be_bytes().to_vec();
    for (name, value) in parameters {
        body.extend([text(name), text(value)].concat());
    }
    body.push(0);
    let length = u32::try_from(body.len() + 4).expect("short");
    [&length.to_be_bytes()[..], &body].concat()
}

fn parse(name: &str, sql: &str) -> Vec<u8> {
    [text(name), text(sql), vec![0, 0]].concat()
}

fn bind(portal: &str, name: &str) -> Vec<u8> {
    [text(portal), text(name), vec![0, 0, 0, 0, 0, 0]].concat()
}

fn execute(portal: &str, most: u32) -> Vec<u8> {
    [text(portal), most.to_be_bytes().to_vec()].concat()
}

fn seed() -> u64 {
    let seed = RandomState::new().build_hasher().finish();
    println!("seed {seed}");
    seed
}

/// Numbers that look random (xorshift64, G. Marsaglia, "Xorshift RNGs").
fn numbers(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

/// Instants and what clocks showed are announced as one type, whose digits are those that the database shows.
#[test]
fn instants_and_clocks_are_timestamps() {
    let served = Served::new(&[]);
    let mut client = Client::new(&served);
    client.send(b'Q', &text("SELECT ts, ts AT TIME ZONE 'Asia/Tokyo' AS clock FROM (SELECT TIMESTAMP '2024-01-01 12:00' AS ts)"));
    let messages = client.until_ready();
    let (_, columns) = messages.iter().find(|(kind, _)| *kind == b'T').expect("columns");
    // Behind a name: the table's number, the column's, the type's.
    let types = [&b"ts\0"[..], b"clock\0"].map(|name| {
        let at = columns.windows(name.len()).position(|bytes| bytes == name).expect("a name") + name.len();
        u32::from_be_bytes(columns[at + 6..at + 10].try_into().expect("four"))
    });
    assert_eq!(types, [1114, 1114]);
    let (_, row) = messages.iter().find(|(kind, _)| *kind == b'D').expect("a row");
    let row = String::from_utf8_lossy(row);
    assert!(row.contains("2024-01-01 12:00:00") && row.contains("2024-01-01 21:00:00"), "{row}");
}

#[test]
fn queries_and_their_errors() {
    let served = Served::new(&[]);
    let mut client = Client::new(&served);
    assert_eq!(client.query("SELECT 1; SELECT 2"), "TDCTDCZ");
    assert_eq!(client.query(""), "IZ");
    assert_eq!(client.query("SELECT nope; SELECT 1"), "EZ");
    assert_eq!(client.value("SELECT 41 + 1"), "42");
    assert_eq!(client.query("BEGIN; SELECT nope"), "CEZ");
    assert_eq!(client.query("SELECT 1"), "EZ", "the transaction has failed");
    assert_eq!(client.query("COMMIT"), "CZ");
    assert_eq!(client.query("SELECT 1"), "TDCZ");
}

#[test]
fn an_error_passes_over_all_up_to_sync() {
    let served = Served::new(&[]);
    let mut client = Client::new(&served);
    let all = [
        message(b'P', &parse("", "SELECT nope")),
        message(b'B', &bind("", "")),
        message(b'D', b"P\0"),
        message(b'E', &execute("", 0)),
        message(b'S', b""),
        message(b'P', &parse("", "SELECT 7")),
        message(b'B', &bind("", "")),
        message(b'E', &execute("", 0)),
        message(b'S', b""),
    ];
    client.0.write_all(&all.concat()).expect("it is sent");
    let kinds =
        |messages: Vec<(u8, Vec<u8>)>| messages.iter().map(|(kind, _)| char::from(*kind)).collect::<String>();
    assert_eq!(kinds(client.until_ready()), "12EZ");
    assert_eq!(kinds(client.until_ready()), "12DCZ");
}

#[test]
fn portals_are_read_in_pieces() {
    let served = Served::new(&[]);
    let mut client = Client::new(&served);
    client.query("BEGIN");
    client.send(b'P', &parse("s", "SELECT x FROM generate_series(1, 10) AS g(x)"));
    client.send(b'B', &bind("p", "s"));
    for _ in 0..3 {
        client.send(b'E', &execute("p", 4));
    }
    client.send(b'E', &execute("p", 4));
    client.send(b'S', b"");
    let kinds: String = client.until_ready().iter().map(|(kind, _)| char::from(*kind)).collect();
    assert_eq!(kinds, "12DDDDsDDDDsDDCCZ");
}

#[test]
fn inserts_up_to_a_sync_are_one_transaction() {
    let served = Served::new(&[]);
    let mut client = Client::new(&served);
    client.query("CREATE TABLE t (ts TIMESTAMP, x BIGINT) TIMESTAMP(ts)");
    let insert = |value: &str| run(&format!("INSERT INTO t VALUES ('2024-08-08', {value})"));
    client
        .0
        .write_all(&[insert("1"), insert("2"), insert("'x'"), message(b'S', b"")].concat())
        .expect("sent");
    client.until_ready();
    assert_eq!(client.value("SELECT count(*) FROM t"), "0");
    client.0.write_all(&[insert("1"), insert("2"), message(b'S', b"")].concat()).expect("sent");
    client.until_ready();
    assert_eq!(client.value("SELECT count(*) FROM t"), "2");
}

/// Parse, Bind and Execute of a text.
fn run(sql: &str) -> Vec<u8> {
    [message(b'P', &parse("", sql)), message(b'B', &bind("", "")), message(b'E', &execute("", 0))].concat()
}

fn kinds(messages: &[(u8, Vec<u8>)]) -> String {
    messages.iter().map(|(kind, _)| char::from(*kind)).collect()
}

#[test]
fn an_error_takes_back_the_inserts_that_came_with_it() {
    let served = Served::new(&[]);
    let mut client = Client::new(&served);
    for table in ["t", "u"] {
        client.query(&format!("CREATE TABLE {table} (x BIGINT)"));
    }
    client.query("CREATE VIEW v AS SELECT * FROM t");
    let count = |client: &mut Client| client.value("SELECT count(*) FROM t");
    let insert = "INSERT INTO t VALUES (1)";
    for between in ["SELECT 1", "SELECT count(*) FROM u", "SHOW timezone", "SET application_name = 'x'"] {
        for wrong in [
            "SELECT 1/0",
            "SELECT nope FROM u",
            "SELECT 1 FROM nosuch",
            "INSERT INTO t VALUES ('x')",
            "SELEC 1",
        ] {
            let all = [run(insert), run(between), run(insert), run(wrong), run(insert), message(b'S', b"")];
            client.0.write_all(&all.concat()).expect("sent");
            let kinds = kinds(&client.until_ready());
            assert_eq!(kinds.matches('E').count(), 1, "{between}, {wrong}: {kinds}");
            assert_eq!(count(&mut client), "0", "{between}, {wrong}");
            client.query(&format!("{insert}; {between}; {insert}; {wrong}; {insert}"));
            assert_eq!(count(&mut client), "0", "{between}, {wrong} in a text");
        }
    }
    // What may read the rows finds them.
    for (place, reads) in [
        "t",
        "T",
        "public.t",
        "v",
        "(SELECT * FROM t) AS d",
        "u RIGHT JOIN t ON true",
        "t WHERE 0 IN (SELECT 0 FROM t)",
    ]
    .iter()
    .enumerate()
    {
        let sql = format!("SELECT count(*) FROM {reads}");
        client.0.write_all(&[run(insert), run(&sql), message(b'S', b"")].concat()).expect("sent");
        let messages = client.until_ready();
        let row = messages.iter().find(|(kind, _)| *kind == b'D').expect("a row");
        assert_eq!(String::from_utf8_lossy(&row.1[6..]), (place + 1).to_string(), "{reads}");
    }
    client.query("TRUNCATE TABLE t");
    assert_eq!(client.query(&format!("{insert}; {insert}; SELECT count(*) FROM t; SELECT 1/0")), "CCTDCEZ");
    assert_eq!(count(&mut client), "2", "they were stored for the query that reads them");
}

#[test]
fn texts_that_are_no_utf_8_are_refused() {
    let served = Served::new(&[]);
    let mut client = Client::new(&served);
    client.query("CREATE TABLE t (v VARCHAR)");
    let wrong = b"INSERT INTO t VALUES ('\xff')\0";
    let refused = |client: &mut Client| {
        let messages = client.until_ready();
        assert_eq!(kinds(&messages), "EZ");
        assert!(messages[0].1.windows(6).any(|bytes| bytes == b"C22021"), "{messages:?}");
    };
    client.send(b'Q', wrong);
    refused(&mut client);
    for first in [
        message(b'P', &[b"\0", &wrong[..], &[0, 0]].concat()),
        message(b'P', b"s\xff\0SELECT 1\0\0\0"),
        message(b'B', b"\0s\xfe\0\0\0\0\0\0\0"),
        message(b'D', b"P\xff\0"),
        message(b'E', b"\xc3\0\0\0\0\0"),
        message(b'C', b"S\xff\0"),
    ] {
        // What follows up to Sync is passed over.
        let all = [first, run("INSERT INTO t VALUES ('x')"), message(b'S', b"")];
        client.0.write_all(&all.concat()).expect("sent");
        refused(&mut client);
    }
    assert_eq!(client.value("SELECT count(*) FROM t"), "0");
    assert_eq!(client.value("SELECT 'zwölf 🚀'"), "zwölf 🚀");
    let mut other = served.connect("pg_port");
    let mut startup = startup(&[("user", "admin"), ("application_name", "?")]);
    let place = startup.iter().position(|byte| *byte == b'?').expect("it is there");
    startup[place] = 0xFF;
    other.write_all(&startup).expect("sent");
    let (kind, body) = Client(other).next().expect("an error");
    assert!(kind == b'E' && body.windows(6).any(|bytes| bytes == b"C22021"), "{body:?}");
}

#[test]
fn messages_that_are_none_are_said_in_our_words() {
    let served = Served::new(&[]);
    for (bytes, wanted) in [
        (message(b'?', b""), "there is no message of kind '?'"),
        // A message ends where its length says: what is behind a text is no message of its own.
        (message(b'Q', b"SELECT 1\0Q\0\0\0\x0dSELECT 2\0"), "a message of kind 'Q'"),
        (message(b'B', b"\0\0\xff\xff\0\0"), "a message of kind 'B'"),
        (message(b'P', b"\0SELECT 1\0\0\x02\0\0"), "a message of kind 'P'"),
        (message(b'E', b"\0\0"), "a message of kind 'E'"),
        (message(b'S', b"more"), "a message of kind 'S'"),
    ] {
        let mut client = Client::new(&served);
        client.0.write_all(&bytes).expect("sent");
        let (kind, body) = client.next().expect("an answer");
        let said = String::from_utf8_lossy(&body).into_owned();
        assert!(kind == b'E' && said.contains(wanted) && said.contains("C08P01"), "{said}");
        assert!(client.closes());
    }
}

#[test]
fn a_prepared_statement_gives_what_was_described_or_says_so() {
    let served = Served::new(&[]);
    let mut client = Client::new(&served);
    let recreate = |client: &mut Client, columns: &str, values: &str| {
        client.query("DROP TABLE IF EXISTS pp");
        assert_eq!(client.query(&format!("CREATE TABLE pp ({columns})")), "CZ");
        assert_eq!(client.query(&format!("INSERT INTO pp VALUES {values}")), "CZ");
    };
    let answer = |client: &mut Client, messages: &[Vec<u8>]| {
        client.0.write_all(&[messages.concat(), message(b'S', b"")].concat()).expect("sent");
        client.until_ready()
    };
    for (number, (columns, values, same)) in [
        ("a SMALLINT", "(7), (8)", true),
        ("a TINYINT", "(7), (8)", true),
        ("a BIGINT", "(100000), (3)", false),
        ("a INT", "(1), (3)", false),
        ("a DOUBLE", "(1.5), (3)", false),
        ("a VARCHAR", "('x'), ('3')", false),
        ("a TIMESTAMP", "('2024-08-08'), ('2024-08-09')", false),
        ("a SMALLINT, b INT", "(1, 2), (3, 4)", false),
        ("b SMALLINT", "(1), (3)", false),
    ]
    .into_iter()
    .enumerate()
    {
        for by_portal in [false, true] {
            recreate(&mut client, "a SMALLINT", "(1), (3)");
            let name = format!("s{number}{by_portal}");
            let bound = || message(b'B', &bind("", &name));
            let (ask, run) = (message(b'D', b"P\0"), message(b'E', &execute("", 0)));
            let described = match by_portal {
                true => vec![bound(), ask.clone()],
                false => vec![message(b'D', &[b"S", &text(&name)[..]].concat())],
            };
            let prepared = message(b'P', &parse(&name, "SELECT * FROM pp"));
            answer(&mut client, &[vec![prepared], described].concat());
            recreate(&mut client, columns, values);
            let messages = answer(&mut client, &[bound(), run.clone()]);
            assert_eq!(kinds(&messages), if same { "2DDCZ" } else { "2EZ" }, "{columns}");
            if !same {
                let said = String::from_utf8_lossy(&messages[1].1).into_owned();
                for wanted in ["C0A000", "cached plan must not change result type", "RRevalidateCachedQuery"]
                {
                    assert!(said.contains(wanted), "{columns}: {said}");
                }
            }
            // A client that asks again is told of the columns that there are.
            let messages = answer(&mut client, &[bound(), ask, run]);
            assert_eq!(kinds(&messages), "2TDDCZ", "{columns}");
        }
    }
}

#[test]
fn a_copy_that_is_broken_off_stores_nothing() {
    let served = Served::new(&[]);
    let mut client = Client::new(&served);
    client.query("CREATE TABLE t (ts TIMESTAMP, x BIGINT) TIMESTAMP(ts)");
    let rows = |client: &mut Client| {
        client.send(b'Q', &text("COPY t FROM STDIN"));
        assert_eq!(client.next().map(|(kind, _)| kind), Some(b'G'));
        for _ in 0..1_000 {
            client.send(b'd', "2024-08-08 09:30:00\t1\n".repeat(100).as_bytes());
        }
    };
    rows(&mut client);
    client.send(b'f', &text("enough"));
    assert_eq!(client.until_ready().first().map(|(kind, _)| *kind), Some(b'E'));
    assert_eq!(client.value("SELECT count(*) FROM t"), "0");
    // A client that goes without a word.
    let mut other = Client::new(&served);
    rows(&mut other);
    other.0.shutdown(Shutdown::Both).expect("it goes");
    rows(&mut client);
    client.send(b'c', b"");
    client.until_ready();
    assert_eq!(client.value("SELECT count(*) FROM t"), "100000");
    drop(other);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(client.value("SELECT count(*) FROM t"), "100000");
}

#[test]
fn cancelling_and_going_away_end_a_statement() {
    const ENDLESS: &str =
        "SELECT count(*) FROM generate_series(1, 1000000000) a(x), generate_series(1, 1000000000) b(y)";
    let served = Served::new(&[]);
    let running = || {
        served.number("SELECT count(*) FROM queries() WHERE statement LIKE '%1000000000%' AND statement NOT LIKE '%queries%'")
    };
    let wait_for = |wanted: i64| {
        let begun = Instant::now();
        while running() != Some(wanted) {
            assert!(begun.elapsed() < PATIENCE, "{:?} run", running());
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let mut stream = served.connect("pg_port");
    stream.write_all(&startup(&[("user", "admin")])).expect("sent");
    let mut client = Client(stream);
    let key = client.until_ready().into_iter().find(|(kind, _)| *kind == b'K').expect("a key").1;
    client.send(b'Q', &text(ENDLESS));
    wait_for(1);
    // A key that is wrong cancels nothing.
    for (place, wrong) in [(7, true), (0, false)] {
        let mut request = [&16_u32.to_be_bytes()[..], &80_877_102_u32.to_be_bytes(), &key].concat();
        if wrong {
            request[8 + place] ^= 0x55;
        }
        served.connect("pg_port").write_all(&request).expect("sent");
        if wrong {
            std::thread::sleep(Duration::from_millis(100));
            assert_eq!(running(), Some(1), "a wrong key");
        }
    }
    let error = client.until_ready().remove(0);
    assert_eq!(error.0, b'E');
    assert!(error.1.windows(6).any(|bytes| bytes == b"C57014"));
    assert_eq!(client.query("SELECT 1"), "TDCZ", "the connection goes on");
    client.send(b'Q', &text(ENDLESS));
    wait_for(1);
    // With a word of farewell behind it, which nobody reads.
    client.send(b'X', b"");
    drop(client);
    wait_for(0);
}

#[test]
fn bytes_of_any_kind_harm_nobody() {
    let served = Served::new(&[("request_bytes_max", "1MB")]);
    let mut number = numbers(seed());
    let valid = [
        message(b'P', &parse("s", "SELECT $1::INT")),
        message(
            b'B',
            &[text(""), text("s"), vec![0, 1, 0, 1, 0, 1, 0, 0, 0, 4, 0, 0, 0, 9, 0, 1, 0, 1]].concat(),
        ),
        message(b'D', b"P\0"),
        message(b'E', &execute("", 0)),
        message(b'S', b""),
        message(b'Q', &text("SELECT 1")),
        message(b'Q', &text("COPY (SELECT 1) TO STDOUT (FORMAT binary)")),
    ]
    .concat();
    for case in 0..300 {
        let mut bytes = valid.clone();
        for _ in 0..=number() % 4 {
            let place = usize::try_from(number()).unwrap_or(0) % bytes.len();
            bytes[place] = number().to_le_bytes()[0];
        }
        bytes.truncate(1 + usize::try_from(number()).unwrap_or(0) % bytes.len());
        let begins = if case % 3 == 0 { bytes } else { [startup(&[("user", "x")]), bytes].concat() };
        let mut stream = served.connect("pg_port");
        let _ = stream.write_all(&begins);
        let _ = stream.shutdown(Shutdown::Write);
        assert!(Client(stream).closes(), "{begins:?}");
    }
    assert_eq!(Client::new(&served).query("SELECT 1"), "TDCZ");
}

#[test]
fn a_message_that_is_too_long_is_not_waited_for() {
    let served = Served::new(&[("request_bytes_max", "1MB")]);
    let mut client = Client::new(&served);
    client.0.write_all(b"Q\x7f\xff\xff\xff").expect("sent");
    let error = client.next().expect("an error");
    assert!(String::from_utf8_lossy(&error.1).contains("request_bytes_max"), "{error:?}");
    assert!(client.closes());
}

#[test]
fn a_transaction_that_is_left_idle_is_rolled_back() {
    let served = Served::new(&[]);
    let mut idle = Client::new(&served);
    for sql in ["CREATE TABLE left_idle (x INT)", "SET idle_in_transaction_session_timeout = 200"] {
        idle.query(sql);
    }
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(idle.query("BEGIN"), "CZ", "outside a transaction it may be idle");
    idle.query("INSERT INTO left_idle VALUES (1)");
    let (kind, body) = idle.next().expect("a word of farewell");
    assert_eq!(kind, b'E');
    assert!(body.windows(6).any(|bytes| bytes == b"C25P03"));
    assert!(idle.closes());
    let mut other = Client::new(&served);
    assert_eq!(other.value("SELECT count(*) FROM left_idle"), "0");
}

#[test]
fn an_idle_connection_hears_that_the_server_stops() {
    let mut served = Served::new(&[]);
    let mut client = Client::new(&served);
    let server = served.server.take().expect("it runs");
    assert!(server.stop());
    let (kind, body) = client.next().expect("a word of farewell");
    assert_eq!(kind, b'E');
    assert!(body.windows(6).any(|bytes| bytes == b"C57P01"));
    assert!(client.closes());
}
