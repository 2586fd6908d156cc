//! Subscriptions: what is heard makes the rows of the query, from wherever it begins and however often it is resumed.

use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tickstone_engine::EngineOptions;
use tickstone_query::arrow::array::{
    Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray,
};
use tickstone_query::arrow::util::display::{ArrayFormatter, FormatOptions};
use tickstone_query::{Access, Database, DatabaseOptions, Outcome};

/// How long anything may take that is to come.
const PATIENCE: Duration = Duration::from_secs(20);

fn memory() -> Database {
    Database::in_memory(DatabaseOptions::default()).unwrap()
}

fn done(database: &Database, sql: &str) {
    let mut session = database.session();
    let outcome = database.runtime().block_on(session.query(sql));
    outcome.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn cells(batch: &RecordBatch, row: usize) -> Vec<String> {
    let options = FormatOptions::default().with_null("-");
    let cell = |column| ArrayFormatter::try_new(column, &options).unwrap().value(row).to_string();
    batch.columns().iter().map(|column| cell(column.as_ref())).collect()
}

fn rows(database: &Database, sql: &str) -> Vec<String> {
    let mut session = database.session();
    let batches =
        database.runtime().block_on(session.query(sql)).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let each = |batch: &RecordBatch| {
        (0..batch.num_rows()).map(|row| cells(batch, row).join(" ")).collect::<Vec<_>>()
    };
    batches.iter().flat_map(each).collect()
}

/// One who listens.
struct Listener<'a> {
    database: &'a Database,
    stream: SendableRecordBatchStream,
}

/// A message: position, event, detail, rows.
#[derive(Debug, Clone, PartialEq)]
struct Told {
    position: String,
    event: String,
    detail: String,
    rows: Vec<Vec<String>>,
}

impl<'a> Listener<'a> {
    fn begin(database: &'a Database, sql: &str) -> Result<Self, String> {
        Self::begin_as(&Access::of_owner(database), database, sql)
    }

    fn begin_as(access: &Access, database: &'a Database, sql: &str) -> Result<Self, String> {
        let mut session = access.session();
        let statement = session.parse(sql).map_err(|error| error.to_string())?.remove(0);
        let outcome =
            database.runtime().block_on(session.run(statement)).map_err(|error| error.to_string())?;
        let Outcome::Rows { stream, .. } = outcome else { panic!("{sql} gives no rows") };
        Ok(Self { database, stream })
    }

    fn new(database: &'a Database, sql: &str) -> Self {
        Self::new_as(&Access::of_owner(database), database, sql)
    }

    fn new_as(access: &Access, database: &'a Database, sql: &str) -> Self {
        let listener = Self::begin_as(access, database, sql);
        let mut listener = listener.unwrap_or_else(|error| panic!("{sql}: {error}"));
        let told = listener.next().unwrap();
        assert_eq!(told.event, "subscribed");
        listener
    }

    fn next(&mut self) -> Result<Told, String> {
        let next = async { tokio::time::timeout(PATIENCE, self.stream.next()).await };
        let batch =
            self.database.runtime().block_on(next).expect("something comes").expect("it does not end");
        let batch = batch.map_err(|error| error.to_string())?;
        let rows: Vec<Vec<String>> = (0..batch.num_rows()).map(|row| cells(&batch, row)).collect();
        let [position, event, detail] = [0, 1, 2].map(|column| rows[0][column].clone());
        let event_alone = batch.columns()[3..].iter().all(|column| column.null_count() == column.len());
        let rows = match event_alone && rows.len() == 1 {
            true => Vec::new(),
            false => rows.into_iter().map(|row| row[3..].to_vec()).collect(),
        };
        Ok(Told { position, event, detail, rows })
    }

    /// The next message of rows, or of what became of them, as one line.
    fn line(&mut self) -> String {
        loop {
            let told = self.next().unwrap();
            if told.event != "heartbeat" && told.event != "sealed" {
                let rows: Vec<String> = told.rows.iter().map(|row| row.join(" ")).collect();
                let line = format!("{} {}", told.event, rows.join(", ")).trim_end().to_string();
                return line;
            }
        }
    }
}

const TRADES: &str =
    "CREATE TABLE trades (ts TIMESTAMP, sym SYMBOL, px DOUBLE, id BIGINT) TIMESTAMP(ts) PARTITION BY DAY";

#[test]
fn rows_are_heard_as_they_are_committed() {
    let database = memory();
    done(&database, TRADES);
    done(&database, "INSERT INTO trades VALUES ('2024-08-08T09:00:00Z', 'A', 1, 1)");
    let mut all = Listener::new(&database, "SUBSCRIBE TO trades");
    let mut some = Listener::new(
        &database,
        "SUBSCRIBE TO (SELECT id, px * 2 AS twice, sym FROM trades WHERE sym = 'A')",
    );
    let mut few = Listener::new(
        &database,
        "SUBSCRIBE TO (SELECT id FROM trades AS t WHERE t.px > 2 AND t.sym IN ('A', 'B'))",
    );
    done(
        &database,
        "INSERT INTO trades VALUES ('2024-08-08T09:00:02Z', 'B', 3, 2), ('2024-08-08T09:00:01Z', 'A', 2, 3)",
    );
    assert_eq!(all.line(), "insert 2024-08-08T09:00:01 A 2.0 3, 2024-08-08T09:00:02 B 3.0 2");
    assert_eq!(some.line(), "insert 3 4.0 A");
    assert_eq!(few.line(), "insert 2");
    // Nothing for who wants none of it.
    done(&database, "INSERT INTO trades VALUES ('2024-08-08T09:00:03Z', 'C', 9, 4)");
    assert_eq!(all.line(), "insert 2024-08-08T09:00:03 C 9.0 4");
    done(&database, "INSERT INTO trades VALUES ('2024-08-08T09:00:04Z', 'A', NULL, 5)");
    assert_eq!(some.line(), "insert 5 - A");
    // A symbol that was never seen before.
    let mut late = Listener::new(&database, "SUBSCRIBE TO (SELECT id FROM trades WHERE 'NEW' = sym)");
    done(&database, "INSERT INTO trades VALUES ('2024-08-08T09:00:05Z', 'NEW', 1, 6)");
    assert_eq!(late.line(), "insert 6");
    // What changes rows.
    done(&database, "UPDATE trades SET px = px + 1 WHERE sym = 'A' AND id = 3");
    assert_eq!(some.line(), "update 3 6.0 A");
    // A row that came within the condition is one that was inserted, one that left it is gone.
    assert_eq!(few.line(), "insert 3");
    done(&database, "UPDATE trades SET px = 0 WHERE id = 3");
    assert_eq!(few.line(), "delete 3");
    assert_eq!(some.line(), "update 3 0.0 A");
    done(&database, "DELETE FROM trades WHERE id = 3");
    assert_eq!(some.line(), "delete 3 0.0 A");
    done(&database, "TRUNCATE TABLE trades");
    assert_eq!(some.line(), "truncate");
    done(&database, "ALTER TABLE trades ADD COLUMN side SYMBOL");
    done(&database, "INSERT INTO trades VALUES ('2024-08-08T09:00:06Z', 'A', 1, 7, 'B')");
    assert_eq!(some.line(), "insert 7 2.0 A");
    done(&database, "ALTER TABLE trades DROP COLUMN px");
    let error = loop {
        if let Err(error) = some.next() {
            break error;
        }
    };
    assert!(error.contains("column 'px' of 'trades' was dropped"), "{error}");
    done(&database, "DROP TABLE trades");
    let error = loop {
        if let Err(error) = late.next() {
            break error;
        }
    };
    assert!(error.contains("table 'trades' was dropped"), "{error}");
}

#[test]
fn it_begins_with_what_is_there_and_goes_on_where_it_ended() {
    let database = memory();
    done(&database, TRADES);
    done(
        &database,
        "INSERT INTO trades VALUES ('2024-08-08T09:00:02Z', 'A', 1, 1), ('2024-08-08T09:00:01Z', 'B', 2, 2)",
    );
    done(&database, "CHECKPOINT");
    done(&database, "INSERT INTO trades VALUES ('2024-08-08T09:00:00Z', 'A', 3, 3)");
    let mut all = Listener::new(&database, "SUBSCRIBE TO (SELECT id FROM trades) FROM BEGINNING");
    let mut beginning = Vec::new();
    loop {
        let told = all.next().unwrap();
        if told.event == "caught_up" {
            break;
        }
        assert_eq!((told.event.as_str(), told.position.as_str()), ("insert", "-"));
        beginning.extend(told.rows.into_iter().flatten());
    }
    assert_eq!(beginning, ["3", "2", "1"]);
    done(&database, "INSERT INTO trades VALUES ('2024-08-08T09:00:03Z', 'A', 4, 4)");
    let told = all.next().unwrap();
    assert_eq!(told.rows, [["4"]]);
    drop(all);
    done(&database, "INSERT INTO trades VALUES ('2024-08-08T09:00:04Z', 'A', 4, 5)");
    let sql = format!("SUBSCRIBE TO (SELECT id FROM trades WHERE sym = 'A') AFTER '{}'", told.position);
    let mut again = Listener::new(&database, &sql);
    done(&database, "INSERT INTO trades VALUES ('2024-08-08T09:00:05Z', 'A', 4, 6)");
    let mut ids = Vec::new();
    while ids.len() < 2 {
        ids.extend(again.next().unwrap().rows.into_iter().flatten());
    }
    assert_eq!(ids, ["5", "6"]);
    for (after, said) in [
        ("99999999999999999", "past the newest"),
        ("x", "is no position"),
        // There was no such table yet, or another one.
        ("0", "was dropped, or replaced by another"),
    ] {
        let error = Listener::begin(&database, &format!("SUBSCRIBE TO trades AFTER '{after}'")).err();
        assert!(error.as_ref().is_some_and(|error| error.contains(said)), "{after}: {error:?}");
    }
}

#[test]
fn bars_are_heard_as_they_close() {
    let database = memory();
    done(&database, TRADES);
    let bars = "SELECT ts, sym, first(px) AS o, count(*) AS n FROM trades WHERE px > 0 SAMPLE BY 1m";
    done(&database, "INSERT INTO trades VALUES ('2024-08-08T09:00:10Z', 'A', 1, 1)");
    let mut heard = Listener::new(&database, &format!("SUBSCRIBE TO ({bars})"));
    done(&database, "INSERT INTO trades VALUES ('2024-08-08T09:00:20Z', 'A', 2, 2)");
    done(&database, "INSERT INTO trades VALUES ('2024-08-08T09:01:10Z', 'B', 3, 3)");
    let told = heard.next().unwrap();
    assert_eq!(told.rows, [["2024-08-08T09:00:00", "A", "1.0", "2"]], "{told:?}");
    // A row that comes late.
    done(&database, "INSERT INTO trades VALUES ('2024-08-08T09:00:05Z', 'A', 5, 4)");
    assert_eq!(heard.line(), "update 2024-08-08T09:00:00 A 5.0 3");
    done(&database, "DELETE FROM trades WHERE id = 4");
    assert_eq!(heard.line(), "update 2024-08-08T09:00:00 A 1.0 2");
    drop(heard);
    done(
        &database,
        "INSERT INTO trades VALUES ('2024-08-08T09:02:10Z', 'B', 3, 5), ('2024-08-08T09:03:10Z', 'B', 3, 6)",
    );
    let mut again = Listener::new(&database, &format!("SUBSCRIBE TO ({bars}) AFTER '{}'", told.position));
    let mut lines = Vec::new();
    while lines.len() < 3 {
        lines.push(again.line());
    }
    // The late row and its deletion, and both buckets that closed meanwhile.
    assert_eq!(
        lines,
        [
            "update 2024-08-08T09:00:00 A 1.0 2",
            "update 2024-08-08T09:00:00 A 1.0 2",
            "insert 2024-08-08T09:01:00 B 3.0 1, 2024-08-08T09:02:00 B 3.0 1",
        ]
    );
    let mut whole = Listener::new(&database, &format!("SUBSCRIBE TO ({bars}) FROM BEGINNING"));
    let told = whole.next().unwrap();
    assert_eq!(told.rows.len(), 3, "{told:?}");
}

#[test]
fn other_events() {
    let database = memory();
    done(&database, TRADES);
    let mut all = Listener::new(&database, "SUBSCRIBE TO trades WITH (heartbeat = '100ms')");
    let told = all.next().unwrap();
    assert_eq!(told.event, "heartbeat");
    done(&database, "INSERT INTO trades VALUES ('2024-08-08T09:00:00Z', 'A', 1, 1)");
    assert_eq!(all.line(), "insert 2024-08-08T09:00:00 A 1.0 1");
    done(&database, "CHECKPOINT");
    let sealed = loop {
        let told = all.next().unwrap();
        if told.event != "heartbeat" {
            break told;
        }
    };
    assert_eq!(sealed.event, "sealed");
    assert_eq!(sealed.detail, r#"{"from":"2024-08-08T00:00:00Z","to":"2024-08-09T00:00:00Z","rows":1}"#);
    done(&database, "INSERT INTO trades VALUES ('2024-08-09T00:00:00Z', 'A', 1, 2)");
    assert_eq!(all.line(), "end_of_day");
    assert_eq!(all.line(), "insert 2024-08-09T00:00:00 A 1.0 2");
    let mut inserts = Listener::new(&database, "SUBSCRIBE TO trades WITH (events = 'inserts')");
    done(&database, "DELETE FROM trades WHERE id = 1");
    done(&database, "ALTER TABLE trades DROP PARTITION LIST '2024-08-09'");
    done(&database, "INSERT INTO trades VALUES ('2024-08-09T00:00:01Z', 'A', 1, 3)");
    assert_eq!(inserts.line(), "insert 2024-08-09T00:00:01 A 1.0 3");
    assert_eq!(all.line(), "delete 2024-08-08T09:00:00 A 1.0 1");
    assert_eq!(all.line(), "drop_partitions");
}

#[test]
fn what_cannot_be_is_refused() {
    let database = memory();
    done(&database, TRADES);
    done(&database, "CREATE VIEW v AS SELECT sym, px FROM trades WHERE px > 1");
    for (sql, said) in [
        ("SUBSCRIBE TO (SELECT * FROM trades ORDER BY ts)", "ORDER BY"),
        ("SUBSCRIBE TO (SELECT * FROM trades LIMIT 1)", "LIMIT"),
        ("SUBSCRIBE TO (SELECT sym, count(*) FROM trades GROUP BY sym)", "aggregates"),
        ("SUBSCRIBE TO (SELECT DISTINCT sym FROM trades)", "DISTINCT"),
        ("SUBSCRIBE TO (SELECT 1)", "a subscription cannot have"),
        ("SUBSCRIBE TO (SELECT a.px FROM trades a JOIN trades b ON a.id = b.id)", "joins"),
        ("SUBSCRIBE TO (SELECT px FROM trades WHERE id IN (SELECT id FROM trades))", "sub-query"),
        ("SUBSCRIBE TO (SELECT ts, count(*) FROM trades SAMPLE BY 1m FILL(0))", "FILL"),
        ("SUBSCRIBE TO (SELECT ts, count(*) FROM trades SAMPLE BY 1m LIMIT 1)", "around SAMPLE BY"),
        (
            "SUBSCRIBE TO (SELECT max(n) FROM (SELECT ts, count(*) AS n FROM trades SAMPLE BY 1m))",
            "around SAMPLE BY",
        ),
        ("SUBSCRIBE TO (SELECT * FROM trades LATEST ON ts PARTITION BY sym)", "a subscription cannot have"),
        ("SUBSCRIBE TO nothing", "nothing"),
        ("SUBSCRIBE TO trades FROM 5", "FROM NOW, FROM BEGINNING or AFTER position"),
        ("SUBSCRIBE TO trades WITH (queue = 0)", "a number of rows"),
        ("SUBSCRIBE TO trades WITH (slow = 'no')", "'cut' or 'conflate'"),
        ("SUBSCRIBE TO trades WITH (what = 1)", "has no option 'what'"),
        ("SUBSCRIBE TO trades WITH (heartbeat = '1ms')", "a duration"),
        ("SUBSCRIBE TO (SELECT px FROM trades WHERE nope = 1)", "nope"),
    ] {
        match Listener::begin(&database, sql) {
            Ok(_) => panic!("{sql} was taken"),
            Err(error) => assert!(error.contains(said), "{sql}: {error}"),
        }
    }
    // Views of one table are no different.
    let mut heard = Listener::new(&database, "SUBSCRIBE TO (SELECT px FROM v WHERE sym = 'A')");
    done(
        &database,
        "INSERT INTO trades VALUES ('2024-08-08T09:00:00Z', 'A', 1, 1), ('2024-08-08T09:00:00Z', 'A', 5, 1)",
    );
    assert_eq!(heard.line(), "insert 5.0");
}

#[test]
fn who_is_slow_is_cut_or_gets_the_newest() {
    let database = memory();
    done(&database, TRADES);
    let mut cut = Listener::new(&database, "SUBSCRIBE TO trades WITH (queue = 5)");
    let mut conflated = Listener::new(
        &database,
        "SUBSCRIBE TO (SELECT sym, id FROM trades) WITH (queue = 5, slow = 'conflate')",
    );
    let mut patient = Listener::new(&database, "SUBSCRIBE TO (SELECT id FROM trades)");
    for id in 0..20 {
        let sym = ["A", "B"][id % 2];
        done(
            &database,
            &format!("INSERT INTO trades VALUES ('2024-08-08T09:00:{id:02}Z', '{sym}', 1, {id})"),
        );
    }
    let mut ids = Vec::new();
    while ids.len() < 20 {
        ids.extend(patient.next().unwrap().rows.into_iter().flatten());
    }
    assert_eq!(ids, (0..20).map(|id| id.to_string()).collect::<Vec<_>>());
    let told = conflated.next().unwrap();
    assert_eq!((told.event.as_str(), told.detail.as_str()), ("conflated", r#"{"rows":18}"#));
    assert_eq!(conflated.line(), "insert A 18, B 19");
    done(&database, "INSERT INTO trades VALUES ('2024-08-08T09:00:30Z', 'A', 1, 30)");
    assert_eq!(conflated.line(), "insert A 30");
    let error = cut.next().unwrap_err();
    assert!(error.contains("21 rows waited for its reader, of at most 5"), "{error}");
    let position = error.split('\'').nth(1).unwrap();
    let mut again =
        Listener::new(&database, &format!("SUBSCRIBE TO (SELECT id FROM trades) AFTER '{position}'"));
    let mut ids = Vec::new();
    while ids.len() < 21 {
        ids.extend(again.next().unwrap().rows.into_iter().flatten());
    }
    assert_eq!(ids.len(), 21);
}

#[test]
fn the_past_comes_again_in_order_of_time_and_at_its_pace() {
    let database = memory();
    done(&database, TRADES);
    done(
        &database,
        "CREATE TABLE quotes (ts TIMESTAMP, sym SYMBOL, bid DOUBLE) TIMESTAMP(ts) PARTITION BY DAY",
    );
    done(
        &database,
        "INSERT INTO trades VALUES ('2024-08-08T23:59:59.9Z', 'A', 1, 1), ('2024-08-09T00:00:00.1Z', 'A', 2, 2), \
         ('2024-08-09T00:00:00.3Z', 'B', 3, 3)",
    );
    done(&database, "CHECKPOINT");
    done(&database, "INSERT INTO trades VALUES ('2024-08-09T00:00:00.2Z', 'A', 4, 4)");
    done(
        &database,
        "INSERT INTO quotes VALUES ('2024-08-09T00:00:00.15Z', 'A', 9), ('2024-08-09T00:00:00.35Z', 'A', 8)",
    );
    let heard = |sql: &str| {
        let mut listener = Listener::begin(&database, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let (mut lines, began) = (Vec::new(), Instant::now());
        while lines.last().map(String::as_str) != Some("caught_up") {
            lines.push(listener.line());
        }
        (lines, began.elapsed())
    };
    let (lines, _) = heard("REPLAY trades SPEED MAX");
    assert_eq!(
        lines,
        [
            "insert 2024-08-08T23:59:59.900 A 1.0 1",
            "end_of_day",
            "insert 2024-08-09T00:00:00.100 A 2.0 2, 2024-08-09T00:00:00.200 A 4.0 4, 2024-08-09T00:00:00.300 B 3.0 3",
            "caught_up"
        ]
    );
    let (lines, _) = heard(
        "REPLAY (SELECT ts, id FROM trades WHERE sym = 'A') FROM '2024-08-09' TO '2024-08-09T00:00:00.2Z' SPEED MAX",
    );
    assert_eq!(lines, ["insert 2024-08-09T00:00:00.100 2", "caught_up"]);
    // Both tables, as they interleaved, at their pace: 250 ms at twice the speed.
    let (lines, took) = heard("REPLAY trades, quotes FROM '2024-08-09' SPEED 2x");
    let rows: Vec<String> = lines.join(", ").split(", ").map(|line| line.replace("insert ", "")).collect();
    assert_eq!(
        rows,
        [
            "trades 2024-08-09T00:00:00.100 A 2.0 2 -",
            "quotes 2024-08-09T00:00:00.150 A - - 9.0",
            "trades 2024-08-09T00:00:00.200 A 4.0 4 -",
            "trades 2024-08-09T00:00:00.300 B 3.0 3 -",
            "quotes 2024-08-09T00:00:00.350 A - - 8.0",
            "caught_up"
        ]
    );
    assert!(took >= Duration::from_millis(120), "it took {took:?}");
    for (sql, said) in [
        ("REPLAY trades SPEED 0", "SPEED is a number above 0"),
        ("REPLAY trades SPEED fast", "SPEED is a number above 0"),
        ("REPLAY trades FROM 'x'", "is no instant"),
        ("REPLAY (SELECT id FROM trades)", "does not give 'ts'"),
        ("REPLAY nothing", "nothing"),
    ] {
        match Listener::begin(&database, sql) {
            Ok(_) => panic!("{sql} was taken"),
            Err(error) => assert!(error.contains(said), "{sql}: {error}"),
        }
    }
}

/// Rows of trades without an order of time, of columns `ts`, `sym`, `px` and `id`.
fn append(database: &Database, ids: std::ops::Range<i64>, symbols: i64, time: fn(i64) -> i64) {
    let ids: Vec<i64> = ids.collect();
    let columns: [(&str, ArrayRef); 4] = [
        ("ts", Arc::new(TimestampNanosecondArray::from_iter_values(ids.iter().map(|id| time(*id))))),
        ("sym", Arc::new(ids.iter().map(|id| Some(format!("S{}", id % symbols))).collect::<StringArray>())),
        ("px", Arc::new(ids.iter().map(|id| Some(-time(*id) as f64)).collect::<Float64Array>())),
        ("id", Arc::new(Int64Array::from(ids))),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)));
    database.engine().append("trades", &batch.unwrap(), None).unwrap();
}

/// A commit is larger than a message: who leaves in its midst hears the rest of it, whatever was committed before it.
#[test]
fn a_large_commit_is_resumed_in_its_midst() {
    let database = memory();
    done(&database, TRADES);
    done(&database, "CREATE TABLE other (ts TIMESTAMP, id BIGINT) TIMESTAMP(ts) PARTITION BY DAY");
    for (query, all) in
        [("SELECT id FROM trades WHERE sym = 'S0'", 70_000), ("SELECT id FROM trades", 140_000)]
    {
        done(&database, "TRUNCATE TABLE trades");
        let mut first = Listener::new(&database, &format!("SUBSCRIBE TO ({query})"));
        // Before it are commits that a listener to a symbol never hears, and one of another table.
        let before = "INSERT INTO trades VALUES ('2024-08-08T09:00:00Z', 'B', 1, -1)";
        (0..3).for_each(|_| done(&database, before));
        done(&database, "INSERT INTO other VALUES ('2024-08-08T09:00:00Z', 1)");
        append(&database, 0..140_000, 2, |id| id);
        let (mut heard, mut position) = (Vec::new(), String::new());
        while !position.contains('+') {
            let told = first.next().unwrap();
            heard.extend(told.rows.into_iter().flatten().filter(|id| id != "-1"));
            position = told.position;
        }
        drop(first);
        assert!(heard.len() < all);
        let mut again = Listener::new(&database, &format!("SUBSCRIBE TO ({query}) AFTER '{position}'"));
        while heard.len() < all {
            heard.extend(again.next().unwrap().rows.into_iter().flatten());
        }
        let mut ids: Vec<i64> = heard.iter().map(|id| id.parse().unwrap()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!((heard.len(), ids.len()), (all, all), "{query}");
    }
}

#[test]
fn a_beginning_is_in_order_of_time_whatever_names_say() {
    let database = memory();
    done(
        &database,
        "CREATE TABLE trades (ts TIMESTAMP, sym SYMBOL, px DOUBLE, id BIGINT) TIMESTAMP(ts) PARTITION BY HOUR \
         SERIES BY (sym)",
    );
    // More rows than are planned for one core, in parts and in memory.
    let time = |id: i64| (id * 7_919 % 400_000) * 30_000_000;
    append(&database, 0..300_000, 9, time);
    done(&database, "CHECKPOINT");
    append(&database, 300_000..400_000, 9, time);
    done(&database, "CREATE VIEW v AS SELECT px AS price FROM trades");
    for query in [
        "SELECT px AS ts FROM trades",
        "SELECT price FROM v",
        "SELECT px FROM trades WHERE ts < now() AND id >= 0",
    ] {
        let mut listener = Listener::new(&database, &format!("SUBSCRIBE TO ({query}) FROM BEGINNING"));
        let mut prices: Vec<f64> = Vec::new();
        loop {
            let told = listener.next().unwrap();
            if told.event == "caught_up" {
                break;
            }
            assert_eq!(told.position, "-");
            prices.extend(told.rows.iter().map(|row| row[0].parse::<f64>().unwrap()));
        }
        assert_eq!(prices.len(), 400_000, "{query}");
        assert!(prices.is_sorted_by(|a, b| a >= b), "{query}");
    }
    // The moment it began is what now() is for rows that come.
    let mut listener = Listener::new(&database, "SUBSCRIBE TO (SELECT id FROM trades WHERE ts < now())");
    append(&database, 400_000..400_001, 9, |_| 1);
    assert_eq!(listener.line(), "insert 400000");
}

/// A small generator of numbers that differ with every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Who keeps the rows of a query by what is heard, and leaves and comes back.
struct Mirror<'a> {
    listener: Option<Listener<'a>>,
    access: Access,
    query: &'static str,
    /// What gives the same rows to one who may read all.
    wanted: String,
    position: String,
    rows: BTreeMap<String, Vec<String>>,
}

impl Mirror<'_> {
    fn hear(&mut self, told: Told) {
        if told.position != "-" {
            self.position = told.position;
        }
        match told.event.as_str() {
            "insert" => {
                for row in told.rows {
                    let before = self.rows.insert(row[0].clone(), row.clone());
                    assert_eq!(before, None, "{row:?} is heard twice");
                }
            }
            "update" => {
                for row in told.rows {
                    let before = self.rows.insert(row[0].clone(), row.clone());
                    assert!(before.is_some(), "{row:?} was not there");
                }
            }
            "delete" => {
                for row in told.rows {
                    assert_eq!(self.rows.remove(&row[0]), Some(row));
                }
            }
            "truncate" => self.rows.clear(),
            _ => {}
        }
    }
}

const QUERIES: [&str; 5] = [
    "SELECT id, ts, sym, px, note FROM trades",
    "SELECT id, px FROM trades WHERE px > 50",
    "SELECT id, px + 1 AS more FROM trades WHERE sym IN ('S1', 'S3')",
    "SELECT id, note FROM trades WHERE note IS NOT NULL AND sym = 'S2'",
    // It fails of notes that the last of these users may not read.
    "SELECT id, CAST(substr(note, 2) AS INT) AS n FROM trades",
];

/// The condition of a grant fails on a row that its user may not read.
#[test]
fn a_condition_of_a_grant_quotes_nothing_in_a_subscription() {
    let database = memory();
    done(&database, "CREATE TABLE notes (ts TIMESTAMP, sym SYMBOL, note VARCHAR) TIMESTAMP(ts)");
    done(&database, "INSERT INTO notes VALUES ('2024-01-01', 'A', '7')");
    done(&database, "CREATE VIEW seen AS SELECT ts, note FROM notes WHERE CAST(note AS INT) = 7");
    done(&database, "CREATE USER root PASSWORD 'r' IN ROLE admin");
    done(&database, "CREATE USER ann PASSWORD 'a'");
    done(&database, "GRANT SELECT, SUBSCRIBE ON notes WHERE CAST(note AS INT) = 7 TO ann");
    done(&database, "GRANT SELECT, SUBSCRIBE ON seen TO ann");
    let ann = database.access_of("ann").unwrap();
    let queries = ["notes", "(SELECT ts FROM notes)", "(SELECT note FROM notes WHERE sym > 'A')", "seen"];
    let mut all: Vec<_> = queries
        .iter()
        .map(|query| Listener::new_as(&ann, &database, &format!("SUBSCRIBE TO {query}")))
        .collect();
    // What is one's own is told.
    let mut own =
        Listener::new_as(&ann, &database, "SUBSCRIBE TO (SELECT CAST(note || 'x' AS INT) AS n FROM notes)");
    done(&database, "INSERT INTO notes VALUES ('2024-01-02', 'A', '7')");
    let error = loop {
        if let Err(error) = own.next() {
            break error;
        }
    };
    assert!(error.contains("7x"), "{error}");
    done(&database, "INSERT INTO notes VALUES ('2024-01-03', 'B', 'HIDDEN')");
    for (query, listener) in queries.iter().zip(&mut all) {
        let error = loop {
            if let Err(error) = listener.next() {
                break error;
            }
        };
        assert!(
            error.contains("fails on a row that it reads") && !error.contains("HIDDEN"),
            "{query}: {error}"
        );
    }
}

/// Bars from the beginning are those of the rows that may be read, and a change of a column that may not is none.
#[test]
fn who_may_read_some_hears_of_that_from_the_beginning() {
    let database = memory();
    done(&database, "CREATE TABLE own (ts TIMESTAMP, sym SYMBOL, px DOUBLE, note VARCHAR) TIMESTAMP(ts)");
    let rows = "SELECT TIMESTAMP '2024-01-01' + value * INTERVAL '1 hour', \
                CASE WHEN value % 2 = 0 THEN 'A' ELSE 'B' END, value, 'n' FROM range(0, 100)";
    done(&database, &format!("INSERT INTO own {rows}"));
    for sql in [
        "CREATE TABLE allowed AS (SELECT * FROM own WHERE sym = 'A')",
        "CREATE USER root PASSWORD 'r' IN ROLE admin",
        "CREATE USER ann PASSWORD 'a'",
        "CREATE USER bob PASSWORD 'b'",
        "GRANT SELECT, SUBSCRIBE ON own WHERE sym = 'A' TO ann",
        "GRANT SELECT, SUBSCRIBE ON own (ts, sym, note) TO bob",
    ] {
        done(&database, sql);
    }
    let bars = |table: &str| {
        format!(
            "SUBSCRIBE TO (SELECT ts, sym, count(*) AS n FROM {table} WHERE sym = 'A' SAMPLE BY 1d) FROM BEGINNING"
        )
    };
    let mut expected = Listener::new(&database, &bars("allowed"));
    let expected: Vec<String> = (0..2).map(|_| expected.line()).collect();
    assert!(expected[0].starts_with("insert 2024-01-01"), "{expected:?}");
    for user in ["ann", "bob"] {
        let access = database.access_of(user).unwrap();
        let mut listener = Listener::new_as(&access, &database, &bars("own"));
        let told: Vec<String> = (0..2).map(|_| listener.line()).collect();
        assert_eq!(told, expected, "{user}");
    }
    let bob = database.access_of("bob").unwrap();
    let mut bob = Listener::new_as(&bob, &database, "SUBSCRIBE TO own");
    done(&database, "UPDATE own SET px = -1 WHERE ts = '2024-01-01T02:00'");
    done(&database, "UPDATE own SET note = 'm', px = 0 WHERE ts = '2024-01-01T03:00'");
    assert_eq!(bob.line(), "update 2024-01-01T03:00:00 B m");
}

/// Users, and the rows that they may read.
const READERS: [(&str, &str); 3] =
    [("ann", "sym = 'S1'"), ("bob", "px > 20 AND upper(sym) <> 'S3'"), ("eve", "note LIKE 'n%'")];

fn mirrors_have_the_rows_of_their_queries(seed: u64, steps: u64) {
    let mut random = Random(seed);
    let engine = EngineOptions {
        follow_memory_bytes: [0, 4_000, 1 << 20][random.below(3) as usize],
        segment_bytes: [4_000, 1 << 20][random.below(2) as usize],
        slice_rows: [16, 4_096][random.below(2) as usize],
        ..EngineOptions::default()
    };
    let database = Database::in_memory(DatabaseOptions { engine, ..DatabaseOptions::default() }).unwrap();
    done(
        &database,
        "CREATE TABLE trades (ts TIMESTAMP, sym SYMBOL, px DOUBLE, id BIGINT, note VARCHAR) TIMESTAMP(ts) \
         PARTITION BY DAY SERIES BY (sym)",
    );
    done(&database, "CREATE USER root PASSWORD 'r' IN ROLE admin");
    for (user, filter) in READERS {
        done(&database, &format!("CREATE USER {user} PASSWORD 'x'"));
        done(&database, &format!("GRANT SELECT, SUBSCRIBE ON trades WHERE {filter} TO {user}"));
    }
    let mut mirrors: Vec<Mirror<'_>> = Vec::new();
    let mut next_id = 0_u64;
    for _ in 0..steps {
        let step = random.below(16);
        match step {
            0..=6 => {
                let rows: Vec<String> = (0..1 + random.below(30))
                    .map(|_| {
                        next_id += 1;
                        let (day, second) = (8 + random.below(2), random.below(60));
                        let sym = random.below(4);
                        let px = if random.below(8) == 0 {
                            "NULL".to_string()
                        } else {
                            random.below(100).to_string()
                        };
                        let note = if random.below(2) == 0 {
                            "NULL".to_string()
                        } else {
                            format!("'n{}'", random.below(9))
                        };
                        format!("('2024-08-{day:02}T09:00:{second:02}Z', 'S{sym}', {px}, {next_id}, {note})")
                    })
                    .collect();
                done(&database, &format!("INSERT INTO trades VALUES {}", rows.join(", ")));
            }
            7 => {
                // A bulk load.
                let first = next_id;
                next_id += 200;
                let path = std::env::temp_dir()
                    .join(format!("tickstone-subscribe-{}-{seed}.csv", std::process::id()));
                let rows: String = (first + 1..=next_id)
                    .map(|id| format!("2024-08-0{}T09:00:00Z,S{},{},{id},x\n", 8 + id % 2, id % 4, id % 100))
                    .collect();
                std::fs::write(&path, format!("ts,sym,px,id,note\n{rows}")).unwrap();
                done(
                    &database,
                    &format!("COPY trades FROM '{}' WITH (format csv, header true)", path.display()),
                );
                std::fs::remove_file(&path).unwrap();
            }
            8 => done(&database, &format!("DELETE FROM trades WHERE id % {} = 0", 2 + random.below(9))),
            9 => done(
                &database,
                &format!("UPDATE trades SET px = px + 30, note = 'u' WHERE id % {} = 1", 2 + random.below(5)),
            ),
            10 => done(&database, "CHECKPOINT"),
            11 => done(&database, "OPTIMIZE TABLE trades"),
            12 if random.below(5) == 0 => done(&database, "TRUNCATE TABLE trades"),
            _ => {}
        }
        if mirrors.len() < 6 && random.below(4) == 0 {
            let reader = READERS.get(random.below(5) as usize);
            let last = if reader == READERS.last() { 5 } else { 4 };
            let query = QUERIES[random.below(last) as usize];
            let access = reader
                .map_or_else(|| Access::of_owner(&database), |(user, _)| database.access_of(user).unwrap());
            let wanted = reader.map_or_else(
                || query.to_string(),
                |(_, filter)| {
                    query.replace("trades", &format!("(SELECT * FROM trades WHERE {filter}) AS trades"))
                },
            );
            let sql = format!("SUBSCRIBE TO ({query}) FROM BEGINNING WITH (heartbeat = '100ms')");
            let listener = Some(Listener::new_as(&access, &database, &sql));
            let rows = BTreeMap::new();
            mirrors.push(Mirror { listener, access, query, wanted, position: String::new(), rows });
        }
        for mirror in &mut mirrors {
            match random.below(5) {
                // He goes, in the midst of whatever.
                0 if !mirror.position.is_empty() => mirror.listener = None,
                1 | 2 => {}
                _ => {
                    let listener = mirror.listener.get_or_insert_with(|| {
                        let (access, query, position) = (&mirror.access, mirror.query, &mirror.position);
                        let sql =
                            format!("SUBSCRIBE TO ({query}) AFTER '{position}' WITH (heartbeat = '100ms')");
                        Listener::new_as(access, &database, &sql)
                    });
                    // Some of what waits, or all: a row that is known to be the last.
                    if random.below(2) == 0 {
                        if let Some(told) = listener.next_now() {
                            mirror.hear(told);
                        }
                        continue;
                    }
                    let to = database.engine().snapshot().position();
                    loop {
                        let told = mirror.listener.as_mut().unwrap().next().unwrap();
                        let at: u64 = told.position.split('+').next().unwrap().parse().unwrap_or(0);
                        let whole = !told.position.contains('+');
                        mirror.hear(told);
                        if at >= to && whole {
                            break;
                        }
                    }
                    let expected: BTreeMap<String, Vec<String>> = rows(&database, &mirror.wanted)
                        .into_iter()
                        .map(|row| {
                            let row: Vec<String> = row.split(' ').map(str::to_string).collect();
                            (row[0].clone(), row)
                        })
                        .collect();
                    assert_eq!(mirror.rows, expected, "{}", mirror.wanted);
                }
            }
        }
    }
}

impl Listener<'_> {
    /// What comes at once, if anything does.
    fn next_now(&mut self) -> Option<Told> {
        let next = async { tokio::time::timeout(Duration::from_millis(3), self.stream.next()).await.ok() };
        let batch = self.database.runtime().block_on(next)?.unwrap().unwrap();
        let rows: Vec<Vec<String>> = (0..batch.num_rows()).map(|row| cells(&batch, row)).collect();
        let [position, event, detail] = [0, 1, 2].map(|column| rows[0][column].clone());
        let event_alone = rows.len() == 1 && rows[0][3..].iter().all(|cell| cell == "-");
        let rows =
            if event_alone { Vec::new() } else { rows.into_iter().map(|row| row[3..].to_vec()).collect() };
        Some(Told { position, event, detail, rows })
    }
}

/// `SUBSCRIBE_SEEDS` for more.
#[test]
fn what_is_heard_makes_the_rows_of_the_query() {
    let first = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let seeds = std::env::var("SUBSCRIBE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(4);
    for seed in first..first + seeds {
        println!("seed {seed}");
        mirrors_have_the_rows_of_their_queries(seed, 60);
    }
}
