//! Every operator within a small memory of queries: it streams, goes to disk, or fails with an error that says what
//! to raise; the database answers the next query, and nothing stays reserved.

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Float64Type;
use futures::{StreamExt, TryStreamExt};
use std::time::{Duration, Instant};
use tickstone_query::{Database, DatabaseOptions, ErrorKind, Outcome, QueryError, Session};

const ROWS: u64 = 120_000;

/// How long memory may stay reserved after its query.
const PATIENCE: Duration = Duration::from_secs(10);

/// Trades and quotes of 50 symbols, each stored in two commits that overlap in time.
const TABLES: [&str; 6] = [
    "CREATE TABLE trades (ts TIMESTAMP, symbol SYMBOL, venue SYMBOL, price DOUBLE, size DOUBLE, id BIGINT) TIMESTAMP(ts) SERIES BY (symbol)",
    "CREATE TABLE quotes (ts TIMESTAMP, symbol SYMBOL, venue SYMBOL, bid DOUBLE, ask DOUBLE, id BIGINT) TIMESTAMP(ts) SERIES BY (symbol)",
    "INSERT INTO trades SELECT timestamp_s(1704067200 + value * 2 % 86000), 'S' || (value % 50), 'V' || (value % 3), value % 97, value % 11, value FROM generate_series(1, 60000)",
    "INSERT INTO trades SELECT timestamp_s(1704067200 + value * 3 % 86000), 'S' || (value % 50), 'V' || (value % 3), value % 97, value % 11, value FROM generate_series(60001, 120000)",
    "INSERT INTO quotes SELECT timestamp_s(1704067200 + value * 2 % 86000), 'S' || (value % 50), 'V' || (value % 3), value % 97, value % 89 + 97, value FROM generate_series(1, 60000)",
    "INSERT INTO quotes SELECT timestamp_s(1704067200 + value * 3 % 86000), 'S' || (value % 50), 'V' || (value % 3), value % 97, value % 89 + 97, value FROM generate_series(60001, 120000)",
];

/// Each operator, and how many rows it gives.
const OPERATORS: [(&str, u64); 25] = [
    // The scan: as rows lie, by time forwards and backwards, by series and time.
    ("SELECT * FROM trades", ROWS),
    ("SELECT * FROM trades ORDER BY ts", ROWS),
    ("SELECT * FROM trades ORDER BY ts DESC", ROWS),
    ("SELECT * FROM trades ORDER BY symbol, ts", ROWS),
    ("SELECT * FROM trades ORDER BY symbol DESC, ts DESC", ROWS),
    // Sorting by anything else, and grouping by it.
    ("SELECT * FROM trades ORDER BY price, id", ROWS),
    ("SELECT id, count(*), sum(price) FROM trades GROUP BY id", ROWS),
    ("SELECT DISTINCT id, price FROM trades", ROWS),
    // Bars by ranges and by rows, filled, of a size.
    ("SELECT ts, symbol, vwap(price, size) FROM trades SAMPLE BY 1h", 24 * 50),
    ("SELECT ts, id, max(price), first(size) FROM trades SAMPLE BY 1s", ROWS),
    ("SELECT ts, symbol, median(price), count(DISTINCT id) FROM trades SAMPLE BY 12h", 2 * 50),
    ("SELECT ts, symbol, max(price) FROM trades SAMPLE BY 5m FILL(PREV)", 287 * 50),
    ("SELECT ts, symbol, max(price) FROM (SELECT * FROM trades WHERE id > 0) SAMPLE BY 1h", 24 * 50),
    ("SELECT ts, symbol, count(*) FROM trades SAMPLE BY TICKS 1", ROWS),
    ("SELECT ts, count(*) FROM trades SAMPLE BY TICKS 2", ROWS / 2),
    // The newest rows, by the series key and by another.
    ("SELECT * FROM trades LATEST ON ts PARTITION BY symbol", 50),
    ("SELECT * FROM trades LATEST ON ts PARTITION BY id", ROWS),
    // Joins by time, by series and by other keys, and by none.
    ("SELECT * FROM trades ASOF JOIN quotes ON (symbol)", ROWS),
    ("SELECT t.id, q.id FROM trades t ASOF JOIN quotes q ON (symbol, venue) DIRECTION FORWARD", ROWS),
    (
        "SELECT t.id, count(*) FROM trades t WINDOW JOIN quotes q ON (symbol) RANGE BETWEEN 1m PRECEDING AND 1m FOLLOWING",
        ROWS,
    ),
    ("SELECT t.id, h.offset FROM trades t HORIZON JOIN quotes q ON (symbol) LIST(0, 1m) AS h", 2 * ROWS),
    // Each trade has a quote of its time: they are one row.
    ("SELECT * FROM trades SPLICE JOIN quotes ON (symbol)", ROWS),
    ("SELECT * FROM nbbo(TABLE quotes, series => symbol, venue => venue, bid => bid, ask => ask)", ROWS),
    // Windows by series, and over all rows.
    ("SELECT id, avg(price) OVER (PARTITION BY symbol ORDER BY ts ROWS 9 PRECEDING) FROM trades", ROWS),
    ("SELECT id, rank() OVER (ORDER BY price) FROM trades", ROWS),
];

/// What must go through however little memory there is, as it holds a few blocks or groups, or goes to disk.
const STREAMS: [&str; 4] = [
    "SELECT * FROM trades",
    "SELECT * FROM trades ORDER BY ts",
    "SELECT ts, symbol, vwap(price, size) FROM trades SAMPLE BY 1h",
    "SELECT * FROM trades LATEST ON ts PARTITION BY symbol",
];

struct Small {
    database: Database,
    session: Session,
}

impl Small {
    /// The tables in a database whose queries may hold so many bytes; rows in memory, or in parts.
    fn new(bytes: usize, sealed: bool, threads: usize) -> Self {
        let options = DatabaseOptions {
            query_memory_bytes: Some(bytes),
            query_threads: Some(threads),
            wide_rows_min: if threads > 1 { 1 } else { u64::MAX },
            ..DatabaseOptions::default()
        };
        let database = Database::in_memory(options).unwrap();
        let session = database.session();
        let mut small = Self { database, session };
        for sql in TABLES {
            small.rows(sql).unwrap();
        }
        if sealed {
            small.database.engine().seal(None).unwrap();
        }
        small
    }

    /// Reads a query to its end; how many rows.
    fn rows(&mut self, sql: &str) -> Result<u64, QueryError> {
        let session = &mut self.session;
        self.database.runtime().block_on(async {
            let statement = session.parse(sql)?.remove(0);
            match session.run(statement).await? {
                Outcome::Rows { stream, .. } => {
                    let rows = stream.map_ok(|batch| batch.num_rows() as u64);
                    Ok(rows.try_fold(0, |all, rows| std::future::ready(Ok(all + rows))).await?)
                }
                Outcome::Done { rows, .. } => Ok(rows.unwrap_or(0)),
            }
        })
    }

    /// Bytes that queries have reserved.
    fn reserved(&mut self) -> f64 {
        let sql = "SELECT value FROM metrics() WHERE metric = 'query_memory_bytes'";
        let batches = self.database.runtime().block_on(self.session.query(sql)).unwrap();
        batches[0].column(0).as_primitive::<Float64Type>().value(0)
    }

    /// Asserts that nothing stays behind and the database answers.
    fn answers(&mut self, after: &str) {
        assert_eq!(self.rows("SELECT * FROM trades WHERE id = 7").unwrap(), 1, "after {after}");
        // Tasks on other threads let go a little after the stream that they worked for.
        let begun = Instant::now();
        while self.reserved() > 0.0 {
            assert!(begun.elapsed() < PATIENCE, "{} bytes stay reserved after {after}", self.reserved());
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Asserts that an error is about memory and says what to raise.
fn is_about_memory(error: &QueryError, sql: &str) {
    assert_eq!(error.kind, ErrorKind::FreeSpace, "{sql}: {error}");
    assert!(error.message.contains("query_memory"), "{sql}: {error}");
    assert!(error.hint.as_deref().is_some_and(|hint| hint.contains("query_memory")), "{sql}: {error}");
}

#[test]
fn every_operator_keeps_to_its_memory_or_says_so() {
    let mut failed = 0;
    for (bytes, sealed, threads) in [(1 << 20, false, 1), (1 << 20, true, 2), (4 << 20, false, 2)] {
        let mut small = Small::new(bytes, sealed, threads);
        for (sql, rows) in OPERATORS {
            match small.rows(sql) {
                Ok(found) => assert_eq!(found, rows, "{sql}"),
                Err(error) => {
                    assert!(!STREAMS.contains(&sql), "{sql}: {error}");
                    is_about_memory(&error, sql);
                    failed += 1;
                }
            }
            small.answers(sql);
        }
    }
    assert!(failed > 0, "the budgets are too large to show anything");
}

#[test]
fn every_operator_gives_all_its_rows_where_there_is_memory() {
    for (sealed, threads) in [(false, 1), (true, 2)] {
        let mut large = Small::new(1 << 30, sealed, threads);
        for (sql, rows) in OPERATORS {
            assert_eq!(large.rows(sql).unwrap(), rows, "{sql}");
            large.answers(sql);
        }
    }
}

#[test]
fn a_table_that_is_hashed_for_a_join_must_fit() {
    let mut small = Small::new(1 << 20, true, 1);
    let sql = "SELECT count(*) FROM trades t JOIN quotes q ON t.id = q.id";
    is_about_memory(&small.rows(sql).unwrap_err(), sql);
    small.answers(sql);
}

#[test]
fn a_billion_rows_stream() {
    let mut small = Small::new(64 << 20, true, 1);
    for sql in [
        "SELECT t.*, q.* FROM trades t CROSS JOIN quotes q",
        "SELECT t.id, q.id FROM trades t JOIN quotes q ON t.venue = q.venue",
        "SELECT t.id, q.id FROM trades t JOIN quotes q ON t.price < q.ask",
    ] {
        let session = &mut small.session;
        let taken = small.database.runtime().block_on(async {
            let statement = session.parse(sql).unwrap().remove(0);
            let Outcome::Rows { mut stream, .. } = session.run(statement).await.unwrap() else {
                panic!("a query gives rows");
            };
            let mut taken = 0;
            for _ in 0..50 {
                taken += stream.next().await.unwrap().unwrap().num_rows();
            }
            taken
        });
        assert!(taken > 50_000, "{sql}: {taken} rows");
        small.answers(sql);
    }
}

/// A statement of millions of values is refused before anybody makes a tree, a plan or a set of it; one that fits runs.
/// A list of whole numbers alone is a set and takes far less than any other.
#[test]
fn long_lists_count() {
    let mut small = Small::new(64 << 20, false, 2);
    let query = |small: &mut Small, count: u64, last: &str| {
        let numbers: Vec<String> = (0..count).map(|number| (number * 3).to_string()).collect();
        let sql = format!("SELECT * FROM trades WHERE id IN ({}, {last})", numbers.join(", "));
        let batches = small.database.runtime().block_on(small.session.query(&sql))?;
        Ok::<_, QueryError>(batches.iter().map(|batch| batch.num_rows()).sum::<usize>())
    };
    for (count, last) in [(20_000, "NULL"), (20_000, "-1"), (200_000, "-1")] {
        assert_eq!(query(&mut small, count, last).unwrap(), (count * 3 - 1).min(ROWS) as usize / 3);
    }
    // There is room for the syntax tree, and none for the plan; then for neither.
    for (count, last) in [(40_000, "NULL"), (400_000, "NULL"), (4_000_000, "NULL"), (4_000_000, "-1")] {
        let error = query(&mut small, count, last).unwrap_err();
        is_about_memory(&error, "a long list");
        assert!(error.message.starts_with("the text of the statement"), "{error}");
        small.answers("a long list");
    }
}
