//! Streams in SQL, and tables that are parsed from them: each document once, whatever is closed and opened between.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tickstone_query::arrow::util::pretty::pretty_format_batches;
use tickstone_query::{Database, DatabaseOptions};

/// How long anything may take that has an end.
const PATIENCE: Duration = Duration::from_secs(30);

fn memory() -> Database {
    Database::in_memory(DatabaseOptions::default()).unwrap()
}

/// The rows of a query as text, without the table's frame.
fn rows(database: &Database, sql: &str) -> Result<Vec<String>, String> {
    let mut session = database.session();
    let batches = database.runtime().block_on(session.query(sql)).map_err(|error| error.to_string())?;
    let text = pretty_format_batches(&batches).unwrap().to_string();
    let lines = text.lines().filter(|line| line.starts_with('|')).skip(1);
    let cells = |line: &str| {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        cells.join(" ").trim_end().to_string()
    };
    Ok(lines.map(cells).collect())
}

fn done(database: &Database, sql: &str) {
    let mut session = database.session();
    let outcome = database.runtime().block_on(session.query(sql));
    outcome.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn append(database: &Database, documents: &[&[u8]]) {
    let stream = database.engine().streams().get("raw").unwrap();
    let last = stream.append(documents.iter().copied()).unwrap();
    stream.wait(last).unwrap();
}

#[track_caller]
fn wait_for(database: &Database, sql: &str, wanted: &[&str]) {
    let began = Instant::now();
    loop {
        let found = rows(database, sql);
        if found.as_ref().is_ok_and(|found| found == wanted) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{sql} gives {found:?}, not {wanted:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn documents_are_rows_of_a_table() {
    let database = memory();
    done(&database, "CREATE STREAM raw WITH (index_documents = 2)");
    append(&database, &[b"one", b"", b"\xff\x00", b"four"]);
    let all = rows(&database, "SELECT seq, document FROM stream('raw')").unwrap();
    assert_eq!(all, ["1 6f6e65", "2", "3 ff00", "4 666f7572"]);
    // The order is known, the limits are the same as those of WHERE.
    let plan = rows(&database, "EXPLAIN SELECT ts FROM stream('raw') ORDER BY ts").unwrap().join("\n");
    assert!(!plan.contains("SortExec"), "{plan}");
    let times = rows(&database, "SELECT ts FROM stream('raw')").unwrap();
    assert_eq!(times.len(), 4);
    for (from, to) in [(0, 3), (1, 2), (2, 1), (3, 3)] {
        let (from, to) = (&times[from], &times[to]);
        let function = format!("SELECT seq FROM stream('raw', '{from}', '{to}')");
        let condition = format!("SELECT seq FROM stream('raw') WHERE ts BETWEEN '{from}' AND '{to}'");
        let both = format!("SELECT seq FROM stream('raw') WHERE '{from}' <= ts AND NOT ts > '{to}'");
        let found = rows(&database, &function).unwrap();
        assert_eq!(found, rows(&database, &condition).unwrap(), "{condition}");
        assert_eq!(found, rows(&database, &both).unwrap(), "{both}");
    }
    // A text that comes again sees what came meanwhile, also once the stream is another.
    let count = "SELECT count(*) FROM stream('raw') CROSS JOIN (SELECT 1)";
    assert_eq!(rows(&database, count).unwrap(), ["4"]);
    append(&database, &[b"five"]);
    assert_eq!(rows(&database, count).unwrap(), ["5"]);
    done(&database, "DROP STREAM raw");
    done(&database, "CREATE STREAM raw");
    assert_eq!(rows(&database, count).unwrap(), ["0"]);
    let bars = "SELECT ts, count(*) FROM stream('raw') SAMPLE BY 1h";
    append(&database, &[b"a", b"b"]);
    assert_eq!(rows(&database, bars).unwrap().len(), 1);
}

#[test]
fn large_documents_come_alone() {
    let database = memory();
    done(&database, "CREATE STREAM raw");
    let large = vec![b'x'; 9 << 20];
    append(&database, &[b"a", &large, b"b", &large]);
    let found =
        rows(&database, "SELECT seq, length(encode(document, 'hex')) / 2 FROM stream('raw')").unwrap();
    assert_eq!(found, ["1 1", "2 9437184", "3 1", "4 9437184"]);
}

#[test]
fn json_becomes_rows_and_what_does_not_stands_apart() {
    let database = memory();
    done(&database, "CREATE STREAM raw");
    append(&database, &[b"{\"ts\":\"2024-08-08T09:30:00Z\",\"sym\":\"BTC\",\"px\":1.5}"]);
    done(
        &database,
        "CREATE TABLE t AS STREAM 'raw' FORMAT json (ts TIMESTAMP, sym SYMBOL, px DOUBLE) TIMESTAMP(ts)",
    );
    let pretty = b"{\n  \"ts\": \"2024-08-08T09:30:01Z\",\n  \"sym\": \"ETH\",\n  \"px\": 2\n}";
    let lines =
        b"{\"ts\":\"2024-08-08T09:30:02Z\",\"sym\":\"A\"}\n{\"ts\":\"2024-08-08T09:30:03Z\",\"px\":\"x\"}\n";
    append(&database, &[pretty, b"not json", lines, b"", b"{\"sym\":\"now\",\"more\":[1]}"]);
    wait_for(&database, "SELECT sym, px FROM t ORDER BY ts", &["BTC 1.5", "ETH 2.0", "A", "now"]);
    wait_for(&database, "SELECT seq FROM t_rejected ORDER BY seq", &["3", "4"]);
    let kept = rows(&database, "SELECT CAST(document AS VARCHAR) FROM t_rejected ORDER BY seq").unwrap();
    assert_eq!(kept, ["not json", "{\"ts\":\"2024-08-08T09:30:03Z\",\"px\":\"x\"}"]);
    // A row without a time has its document's.
    let own =
        "SELECT count(*) FROM t JOIN stream('raw') AS s ON t.ts = s.ts WHERE t.sym = 'now' AND s.seq = 6";
    assert_eq!(rows(&database, own).unwrap(), ["1"]);
    assert_eq!(rows(&database, "SELECT tables FROM streams()").unwrap(), ["t (6)"]);
    let refused = rows(&database, "DROP STREAM raw").unwrap_err();
    assert!(refused.contains("stream 'raw' is read by table 't'"), "{refused}");
    // A column that is added is filled from then on; a table of another name goes on.
    done(&database, "ALTER TABLE t ADD COLUMN more BIGINT");
    done(&database, "ALTER TABLE t RENAME TO u");
    append(&database, &[b"{\"ts\":\"2024-08-09\",\"sym\":\"B\",\"more\":7}", b"bad"]);
    wait_for(&database, "SELECT sym, more FROM u WHERE more IS NOT NULL", &["B 7"]);
    wait_for(&database, "SELECT seq FROM u_rejected", &["8"]);
    // Each time while the parser waits for documents of the table as it was.
    for round in 0..20 {
        done(&database, &format!("ALTER TABLE u ADD COLUMN c{round} BIGINT"));
        append(&database, &[format!("{{\"sym\":\"C\",\"c{round}\":{round}}}").as_bytes()]);
        wait_for(
            &database,
            &format!("SELECT c{round} FROM u WHERE c{round} IS NOT NULL"),
            &[&round.to_string()],
        );
    }
    done(&database, "DROP TABLE u");
    done(&database, "DROP STREAM raw");
}

#[test]
fn csv_and_lines_become_rows() {
    let database = memory();
    done(&database, "CREATE STREAM raw");
    done(
        &database,
        "CREATE TABLE c AS STREAM 'raw' FORMAT csv EPOCH ms (ts TIMESTAMP, note VARCHAR, n INT) TIMESTAMP(ts)",
    );
    done(
        &database,
        "CREATE TABLE IF NOT EXISTS quotes AS STREAM 'raw' FORMAT ilp (ts TIMESTAMP, sym SYMBOL, bid DOUBLE) TIMESTAMP(ts)",
    );
    append(
        &database,
        &[
            b"1723109400000,\"a\nb\",1\n1723109401000,c,2",
            b"1723109402000,\"open,3",
            b"quotes,sym=X bid=1.5,ask=2 1723109400000000000\ntrades,sym=X px=1 1\nquotes,sym=Y bid=oops\n",
            b"1723109403000,d,x",
            b"quotes,sym=Z bid=3",
        ],
    );
    let found = "SELECT replace(note, chr(10), '/') AS note, n FROM c WHERE n IS NOT NULL ORDER BY ts";
    wait_for(&database, found, &["a/b 1", "c 2"]);
    // Lines of another format are no records of this one.
    wait_for(&database, "SELECT seq FROM c_rejected ORDER BY seq", &["2", "3", "3", "3", "4", "5"]);
    wait_for(&database, "SELECT sym, bid FROM quotes ORDER BY sym", &["X 1.5", "Z 3.0"]);
    let rejected = rows(&database, "SELECT DISTINCT seq FROM quotes_rejected ORDER BY seq").unwrap();
    // Others are lines of other tables.
    assert_eq!(rejected, ["3"]);
}

#[test]
fn each_document_is_parsed_once_whatever_is_closed_between() {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    println!("seed {seed}");
    let mut state = seed | 1;
    let mut below = |most: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % most
    };
    for _ in 0..4 {
        let dir = tempfile::tempdir().unwrap();
        let open = || Database::open(dir.path(), DatabaseOptions::default()).unwrap();
        let mut database = open();
        done(&database, "CREATE STREAM raw WITH (segment_bytes = 4096)");
        done(&database, "CREATE TABLE t AS STREAM 'raw' FORMAT json (ts TIMESTAMP, n BIGINT) TIMESTAMP(ts)");
        let (mut good, mut bad) = (0, 0);
        let mut next = 0;
        for _ in 0..12 {
            let mut documents = Vec::new();
            for _ in 0..below(300) {
                next += 1;
                if below(10) == 0 {
                    bad += 1;
                    documents.push(format!("bad {next}"));
                } else {
                    good += 1;
                    documents.push(format!("{{\"ts\":\"2024-08-08T09:30:00Z\",\"n\":{next}}}"));
                }
            }
            append(&database, &documents.iter().map(String::as_bytes).collect::<Vec<_>>());
            match below(3) {
                0 => {
                    assert!(database.close(Duration::from_secs(20)));
                    database = open();
                }
                1 => std::thread::sleep(Duration::from_millis(below(30))),
                _ => {}
            }
        }
        let counts = format!("{good} {good}");
        wait_for(&database, "SELECT count(*), count(DISTINCT n) FROM t", &[&counts]);
        let counts = format!("{bad} {bad}");
        wait_for(&database, "SELECT count(*), count(DISTINCT seq) FROM t_rejected", &[&counts]);
        std::thread::sleep(Duration::from_millis(60));
        assert_eq!(rows(&database, "SELECT count(*) FROM t").unwrap(), [good.to_string()]);
    }
}

/// Tables of users that have the names of those beside a table which is parsed from a stream.
#[test]
fn tables_that_are_in_the_way_are_named() {
    let database = memory();
    done(&database, "CREATE STREAM raw");
    let create = "CREATE TABLE t AS STREAM 'raw' FORMAT json (ts TIMESTAMP, x INT) TIMESTAMP(ts)";
    for (name, columns) in [
        ("stream_progress", "(x INT)"),
        ("stream_progress", "(ts TIMESTAMP, key SYMBOL, seq DOUBLE) TIMESTAMP(ts)"),
        ("stream_progress", "(ts TIMESTAMP, key SYMBOL, seq BIGINT) TIMESTAMP(ts)"),
        ("t_rejected", "(ts TIMESTAMP, seq BIGINT) TIMESTAMP(ts)"),
    ] {
        done(&database, &format!("CREATE TABLE {name} {columns}"));
        let refused = rows(&database, create).unwrap_err();
        assert!(refused.contains(&format!("'{name}' is in the way")), "{refused}");
        assert_eq!(rows(&database, "SELECT stream FROM streams()").unwrap(), ["raw"]);
        done(&database, &format!("DROP TABLE {name}"));
    }
    done(&database, create);
    append(&database, &[br#"{"ts": "2024-08-08", "x": 1}"#]);
    wait_for(&database, "SELECT x FROM t", &["1"]);
    // One that comes later stops the table, which says so, and goes on once it is gone.
    done(&database, "DROP TABLE t_rejected");
    done(&database, "CREATE TABLE t_rejected (x INT)");
    append(&database, &[b"none"]);
    let failure = "SELECT failure LIKE '%t_rejected%in the way%' FROM streams()";
    wait_for(&database, failure, &["true"]);
    done(&database, "DROP TABLE t_rejected");
    wait_for(&database, "SELECT seq FROM t_rejected", &["2"]);
}

/// Keys that differ in case only are two columns, under names that the statement gives them.
#[test]
fn keys_that_differ_in_case_are_columns_of_their_own() {
    let database = memory();
    done(&database, "CREATE STREAM raw");
    done(
        &database,
        "CREATE TABLE trades AS STREAM 'raw' FORMAT json EPOCH ms RENAME 'E=event_time, e=kind, data.P=high' \
         (event_time TIMESTAMP, kind SYMBOL, p DOUBLE, high DOUBLE) TIMESTAMP(event_time)",
    );
    append(&database, &[br#"{"e":"trade","E":1000,"p":1.5,"data":{"P":2.5}}"#]);
    let all = "SELECT CAST(event_time AS BIGINT) AS at, kind, p, high FROM trades ORDER BY 1";
    wait_for(&database, all, &["1000000000 trade 1.5 2.5"]);
    // A column keeps its key under another name.
    done(&database, "ALTER TABLE trades RENAME COLUMN kind TO what");
    append(&database, &[br#"{"e":"quote","what":"no","E":2000,"p":1.5}"#]);
    let all = "SELECT CAST(event_time AS BIGINT) AS at, what, p, high FROM trades ORDER BY 1";
    wait_for(&database, all, &["1000000000 trade 1.5 2.5", "2000000000 quote 1.5"]);
    for (clause, wanted) in [
        ("FORMAT csv RENAME 'E=x'", "RENAME is of json"),
        ("FORMAT json RENAME 'E'", "RENAME takes keys and the columns they fill"),
        ("FORMAT json RENAME 'E=nosuch'", "names column 'nosuch', which the table does not have"),
        ("FORMAT json RENAME 'E=x,e=X'", "names key 'e' or column 'X' twice"),
    ] {
        let sql = format!("CREATE TABLE t AS STREAM 'raw' {clause} (ts TIMESTAMP, x INT) TIMESTAMP(ts)");
        let error = rows(&database, &sql).unwrap_err();
        assert!(error.contains(wanted), "{sql}: {error}");
    }
}

/// Documents that are parsed for a table go to that table alone, whatever is done to it meanwhile.
#[test]
fn a_table_of_its_name_gets_no_rows_of_another() {
    const DOCUMENTS: usize = 30_000;
    let from = "CREATE TABLE t AS STREAM 'raw' FORMAT json (ts TIMESTAMP, n BIGINT) TIMESTAMP(ts)";
    let plain = "CREATE TABLE t (ts TIMESTAMP, n BIGINT) TIMESTAMP(ts)";
    let replaced = "CREATE OR REPLACE TABLE t (ts TIMESTAMP, n BIGINT) TIMESTAMP(ts)";
    let rename = "ALTER TABLE t RENAME TO u";
    let (all, none) = (format!("{DOCUMENTS} {DOCUMENTS}"), "0 0".to_string());
    let cases: [(&[&str], &str, Option<&str>); 6] = [
        (&["DROP TABLE t", from], &all, None),
        (&["DROP TABLE t", plain], &none, None),
        (&[replaced], &none, None),
        (&[rename, plain], &none, Some(&all)),
        (&[rename, from], &all, Some(&all)),
        (&["DROP TABLE t", "DROP STREAM raw", "CREATE STREAM raw", from], &none, None),
    ];
    let documents: Vec<String> = (0..DOCUMENTS).map(|n| format!("{{\"n\": {n}}}")).collect();
    let documents: Vec<&[u8]> = documents.iter().map(String::as_bytes).collect();
    for (round, (statements, of_t, of_u)) in cases.iter().cycle().take(12).enumerate() {
        let database = memory();
        done(&database, "CREATE STREAM raw");
        append(&database, &documents);
        done(&database, from);
        // While the first documents are parsed: this takes a while longer than a statement.
        std::thread::sleep(Duration::from_millis(round as u64 * 7));
        statements.iter().for_each(|sql| done(&database, sql));
        let counted = |table: &str| format!("SELECT count(*), count(DISTINCT n) FROM {table}");
        if let Some(of_u) = of_u {
            wait_for(&database, &counted("u"), &[of_u]);
        }
        wait_for(&database, &counted("t"), &[of_t]);
        // What is not to come would have come by now.
        std::thread::sleep(Duration::from_millis(150));
        assert_eq!(rows(&database, &counted("t")).unwrap(), [*of_t], "round {round}: {statements:?}");
    }
}

/// Rows that a statement read from one table never go into another that took its name.
#[test]
fn a_table_that_is_replaced_gets_no_rows_of_the_one_before() {
    let database = memory();
    let replaced = "CREATE OR REPLACE TABLE t (ts TIMESTAMP, n BIGINT) TIMESTAMP(ts)";
    for round in 0..16_u64 {
        done(&database, replaced);
        done(
            &database,
            "INSERT INTO t SELECT '2024-01-01'::TIMESTAMP + value * INTERVAL '1 second', value FROM range(0, 60000)",
        );
        std::thread::scope(|scope| {
            // Either may be first.
            scope.spawn(|| {
                let refused = rows(&database, "INSERT INTO t SELECT ts, n FROM t").err();
                assert!(refused.is_none_or(|error| error.contains("dropped, or replaced by another")));
            });
            std::thread::sleep(Duration::from_millis(round * 4));
            done(&database, replaced);
        });
        assert_eq!(rows(&database, "SELECT count(*) FROM t").unwrap(), ["0"], "round {round}");
    }
}
