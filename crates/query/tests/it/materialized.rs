//! Materialized views: at every moment the rows of their queries, whatever is stored of them.

use futures::StreamExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tickstone_query::arrow::array::{Array, RecordBatch};
use tickstone_query::arrow::util::display::{ArrayFormatter, FormatOptions};
use tickstone_query::{Database, DatabaseOptions, ErrorKind, Outcome};

/// How long anything may take that is to come.
const PATIENCE: Duration = Duration::from_secs(20);

fn memory() -> Database {
    Database::in_memory(DatabaseOptions::default()).unwrap()
}

fn asked(database: &Database, sql: &str) -> Result<Vec<RecordBatch>, String> {
    let mut session = database.session();
    database.runtime().block_on(session.query(sql)).map_err(|error| error.to_string())
}

fn done(database: &Database, sql: &str) {
    asked(database, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn rows(database: &Database, sql: &str) -> Vec<String> {
    let options = FormatOptions::default().with_null("-");
    let cell =
        |column: &dyn Array, row| ArrayFormatter::try_new(column, &options).unwrap().value(row).to_string();
    let batches = asked(database, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let row = |batch: &RecordBatch, row| {
        let cells: Vec<String> = batch.columns().iter().map(|column| cell(column, row)).collect();
        cells.join(" ")
    };
    batches
        .iter()
        .flat_map(|batch| (0..batch.num_rows()).map(|at| row(batch, at)).collect::<Vec<_>>())
        .collect()
}

fn refused(database: &Database, sql: &str, why: &str) {
    let error = asked(database, sql).map(|_| ()).expect_err(sql);
    assert!(error.contains(why), "{sql}: {error}");
}

const TRADES: &str =
    "CREATE TABLE trades (ts TIMESTAMP, sym SYMBOL, px DOUBLE, id BIGINT) TIMESTAMP(ts) PARTITION BY DAY";
const BARS: &str = "SELECT ts, sym, first(px) AS o, max(px) AS h, min(px) AS l, last(px) AS c, sum(id) AS v, count(*) AS n \
                    FROM trades SAMPLE BY 1m";

/// Names and queries of views, each over what is before it.
const VIEWS: [(&str, &str); 6] = [
    ("bars", BARS),
    ("hours", "SELECT ts, sym, first(o) AS o, max(h) AS h, last(c) AS c, sum(v) AS v FROM bars SAMPLE BY 1h"),
    ("days", "SELECT ts, sum(v) AS v FROM hours SAMPLE BY 1d"),
    (
        "zoned",
        "SELECT sym, ts, avg(px) AS a FROM trades WHERE id % 3 <> 0 SAMPLE BY 1d ALIGN TO CALENDAR TIME ZONE 'America/New_York'",
    ),
    ("uniques", "SELECT ts, count(DISTINCT sym) AS s, round(stddev(id), 6) AS d FROM Trades t SAMPLE BY 7m"),
    (
        "keyed",
        "SELECT ts, id % 4 AS k, sym, count(px) AS n FROM trades SAMPLE BY 2h ALIGN TO CALENDAR WITH OFFSET '00:30'",
    ),
];

/// What a view stands for, with those below it written out.
fn query_of(name: &str) -> String {
    let (_, query) = VIEWS.iter().find(|(view, _)| *view == name).unwrap();
    let mut query = query.to_string();
    for (below, _) in VIEWS {
        query = query.replace(
            &format!("FROM {below} "),
            &format!(
                "FROM ({}) {below} ",
                if query.contains(&format!("FROM {below} ")) { query_of(below) } else { String::new() }
            ),
        );
    }
    query
}

fn compare(database: &Database, done: &[String]) {
    for (name, _) in VIEWS {
        let mut found = rows(database, &format!("SELECT * FROM {name}"));
        let mut expected = rows(database, &format!("SELECT * FROM ({})", query_of(name)));
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{name} after {done:?}: {:?}", rows(database, "SHOW VIEWS"));
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// Random changes of the table, with the views refreshed now and then, by the thread and by statements, and the database
/// opened anew.
fn run(seed: u64, steps: usize) {
    let mut random = Random(seed);
    let dedup = random.below(3) == 0;
    let folder = tempfile::tempdir().unwrap();
    let open = || Database::open(folder.path(), DatabaseOptions::default()).unwrap();
    let mut database = open();
    done(&database, &format!("{TRADES}{}", if dedup { " DEDUP UPSERT KEYS(ts, sym)" } else { "" }));
    for (name, query) in VIEWS {
        done(&database, &format!("CREATE MATERIALIZED VIEW {name} AS {query}"));
    }
    let (mut said, mut newest, mut id) = (Vec::new(), 0_u64, 0);
    for _ in 0..steps {
        let view = VIEWS[random.below(VIEWS.len() as u64) as usize].0;
        let sql = match random.below(16) {
            0..=6 => {
                let late = random.below(3) == 0;
                let values: Vec<String> = (0..1 + random.below(30))
                    .map(|_| {
                        newest += random.below(90);
                        let second = if late { random.below(newest + 1) } else { newest };
                        let sym = ["NULL", "'A'", "'B'", "'C'"][random.below(4) as usize];
                        let px = if random.below(6) == 0 {
                            "NULL".to_string()
                        } else {
                            format!("{}.25", random.below(100))
                        };
                        id += 1;
                        let day = 1 + second / 86_400;
                        let (h, m, s) = (second / 3_600 % 24, second / 60 % 60, second % 60);
                        format!("('2024-08-0{day}T{h:02}:{m:02}:{s:02}', {sym}, {px}, {id})")
                    })
                    .collect();
                format!("INSERT INTO trades VALUES {}", values.join(", "))
            }
            7 => {
                newest = (newest + random.below(40_000)).min(600_000);
                "SELECT 1".to_string()
            }
            8 => format!("DELETE FROM trades WHERE id % 7 = {} AND sym = 'A'", random.below(7)),
            9 => format!(
                "DELETE FROM trades WHERE ts < '2024-08-01T{:02}:00:00' AND ts > '2024-08-01T0{}:30:00'",
                random.below(24),
                random.below(9)
            ),
            10 => format!("UPDATE trades SET px = px + 1, id = id + 1 WHERE id % 5 = {}", random.below(5)),
            11 if random.below(6) == 0 => "TRUNCATE TABLE trades".to_string(),
            11 => "CHECKPOINT".to_string(),
            12 => format!("REFRESH MATERIALIZED VIEW {view} FULL"),
            13 => format!("REFRESH MATERIALIZED VIEW {view}"),
            14 => {
                // The thread takes in what is quiet.
                std::thread::sleep(Duration::from_millis(random.below(900)));
                "SELECT 1".to_string()
            }
            _ => {
                assert!(database.close(PATIENCE));
                database = open();
                "SELECT 1".to_string()
            }
        };
        done(&database, &sql);
        if random.below(6) == 0 {
            // One who reads beside the writer sees the same.
            let reader = Database::open_read_only(folder.path(), DatabaseOptions::default()).unwrap();
            compare(&reader, &said);
        }
        said.push(sql.chars().take(60).collect());
        compare(&database, &said);
    }
}

/// `MATERIALIZED_SEEDS` for more.
#[test]
fn views_have_the_rows_of_their_queries() {
    let seeds = std::env::var("MATERIALIZED_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(3);
    let first = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    for seed in first..first + seeds {
        std::panic::catch_unwind(|| run(seed, 30)).unwrap_or_else(|panic| {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic)
        });
    }
}

fn stale(database: &Database, view: &str) -> String {
    rows(database, &format!("SELECT stale FROM views() WHERE view = '{view}'")).join("")
}

fn wait_until_current(database: &Database, view: &str) {
    let begun = Instant::now();
    while stale(database, view) != "0" {
        assert!(begun.elapsed() < PATIENCE, "{:?}", rows(database, "SHOW VIEWS"));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_is_current_is_read_as_it_is_stored() {
    let database = memory();
    done(&database, TRADES);
    done(&database, &format!("CREATE MATERIALIZED VIEW bars AS ({BARS}) PARTITION BY WEEK TTL 10 YEARS"));
    done(
        &database,
        "INSERT INTO trades VALUES ('2024-08-01T10:00:01', 'A', 1, 1), ('2024-08-01T10:01:01', 'B', 2, 2)",
    );
    wait_until_current(&database, "bars");
    let plan = rows(&database, "EXPLAIN SELECT * FROM bars WHERE sym = 'A'").join("\n");
    assert!(plan.contains("bars (stored)") && !plan.contains("SampleBy"), "{plan}");
    let refreshes = || rows(&database, "SELECT refreshes, refreshed_rows FROM views()").join("");
    // A refresh is counted once it is stored, when the view is current already.
    let refreshed = |before: &str| {
        let begun = Instant::now();
        loop {
            match refreshes() {
                now if now != before => return now,
                _ => assert!(begun.elapsed() < PATIENCE, "{before}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let before = refreshes();
    // One late row touches one bucket.
    done(&database, "INSERT INTO trades VALUES ('2024-08-01T10:00:00', 'A', 3, 3)");
    assert_eq!(stale(&database, "bars"), "1");
    assert_eq!(
        rows(&database, "SELECT * FROM bars WHERE sym = 'A'"),
        ["2024-08-01T10:00:00 A 3.0 3.0 1.0 1.0 4 2"]
    );
    let plan = rows(&database, "EXPLAIN SELECT * FROM bars WHERE sym = 'A'").join("\n");
    assert!(plan.contains("SampleBy"), "{plan}");
    wait_until_current(&database, "bars");
    let number = |text: &str| text.split(' ').map(|n| n.parse::<u64>().unwrap()).collect::<Vec<_>>();
    let (before, after) = (number(&before), number(&refreshed(&before)));
    assert_eq!((after[0] - before[0], after[1] - before[1]), (1, 1));
    assert_eq!(
        rows(&database, "SELECT * FROM bars ORDER BY ts"),
        ["2024-08-01T10:00:00 A 3.0 3.0 1.0 1.0 4 2", "2024-08-01T10:01:00 B 2.0 2.0 2.0 2.0 2 1"]
    );
    assert_eq!(
        rows(&database, "SELECT partition_by, ttl, dedup FROM tables() WHERE \"table\" = 'bars'"),
        ["WEEK 10y ts, sym"]
    );
    // The newest of each input of the union is found as it lies there, and a condition on the time reaches all of them.
    let before = refreshes();
    done(&database, "INSERT INTO trades VALUES ('2024-08-01T10:05:00', 'A', 3, 4)");
    let plan = rows(&database, "EXPLAIN SELECT * FROM bars LATEST ON ts PARTITION BY sym").join("\n");
    assert_eq!(plan.matches("LatestOnExec").count(), 3, "{plan}");
    let early = "SELECT ts, n FROM bars WHERE ts >= '2024-08-01T10:00:30' AND ts < '2024-08-01T10:01:30'";
    let plan = rows(&database, &format!("EXPLAIN {early}")).join("\n");
    assert!(!plan.contains("FilterExec"), "{plan}");
    assert_eq!(rows(&database, early), ["2024-08-01T10:01:00 1"]);
    wait_until_current(&database, "bars");
    refreshed(&before);
    // A row that is updated, or deleted, too.
    for sql in ["UPDATE trades SET px = px + 0.5 WHERE id = 2", "DELETE FROM trades WHERE id = 1"] {
        let at = refreshes();
        done(&database, sql);
        assert_eq!(stale(&database, "bars"), "1");
        wait_until_current(&database, "bars");
        let number = |text: &str| text.split(' ').next().unwrap().parse::<u64>().unwrap();
        assert_eq!(number(&refreshed(&at)) - number(&at), 1, "{sql}");
    }
}

/// Names and types of columns are the same, whatever is stored.
#[test]
fn columns_do_not_depend_on_what_is_stored() {
    let database = memory();
    done(&database, TRADES);
    let query = "SELECT ts, sym, first(px), count(*), sym || 'x' AS \"a \"\"b\"\"\" FROM trades SAMPLE BY 1m";
    done(&database, &format!("CREATE MATERIALIZED VIEW bars AS {query}"));
    let columns = |state: &str| {
        let batches = asked(&database, "SELECT * FROM bars").unwrap();
        let found = batches.iter().find(|batch| batch.num_rows() > 0).unwrap().schema();
        let found: Vec<_> =
            found.fields().iter().map(|f| (f.name().clone(), f.data_type().clone())).collect();
        let expected = asked(&database, query).unwrap()[0].schema();
        let expected: Vec<_> =
            expected.fields().iter().map(|f| (f.name().clone(), f.data_type().clone())).collect();
        assert_eq!(found, expected, "{state}");
    };
    done(&database, "INSERT INTO trades VALUES ('2024-08-01T10:00:01', 'A', 1, 1)");
    columns("nothing is stored");
    wait_until_current(&database, "bars");
    columns("all is stored");
    done(&database, "INSERT INTO trades VALUES ('2024-08-01T10:02:01', 'A', 1, 1)");
    columns("some is stored");
    assert_eq!(rows(&database, "SELECT \"a \"\"b\"\"\" FROM bars ORDER BY ts"), ["Ax", "Ax"]);
}

#[test]
fn bars_outlive_the_rows_below() {
    let database = memory();
    done(&database, TRADES);
    done(&database, &format!("CREATE MATERIALIZED VIEW bars AS {BARS}"));
    done(&database, "CREATE MATERIALIZED VIEW days AS SELECT ts, sum(v) AS v FROM bars SAMPLE BY 1d");
    done(
        &database,
        "INSERT INTO trades VALUES ('2024-08-01T10:00:01', 'A', 1, 1), ('2024-08-02T10:00:01', 'A', 2, 2), ('2024-08-03T10:00:01', 'A', 2, 2)",
    );
    done(&database, "ALTER TABLE trades DROP PARTITION WHERE ts < '2024-08-02'");
    assert_eq!(rows(&database, "SELECT count(*) FROM trades"), ["2"]);
    assert_eq!(rows(&database, "SELECT ts, n FROM bars ORDER BY ts").len(), 3);
    refused(
        &database,
        "INSERT INTO trades VALUES ('2024-08-01T12:00:00', 'A', 1, 1)",
        "late for materialized view 'bars'",
    );
    done(&database, "ALTER TABLE trades SET TTL 1d");
    done(&database, "REFRESH MATERIALIZED VIEW bars");
    done(&database, "INSERT INTO trades VALUES ('2024-08-04T10:00:01', 'A', 2, 2)");
    assert_eq!(rows(&database, "SELECT count(*) FROM trades"), ["2"]);
    for view in ["bars", "days"] {
        done(&database, &format!("REFRESH MATERIALIZED VIEW {view} FULL"));
        assert_eq!(rows(&database, &format!("SELECT ts FROM {view}")).len(), 4, "{view}");
    }
    assert_eq!(rows(&database, "SELECT frozen_to FROM views() WHERE view = 'bars'"), ["2024-08-03T00:00:00"]);
    // A bar that is not current keeps its rows from being dropped, whatever is asked.
    done(&database, "ALTER TABLE trades SET TTL NONE");
    done(&database, "INSERT INTO trades VALUES ('2024-08-03T11:00:01', 'A', 2, 2)");
    done(&database, "ALTER TABLE trades DROP PARTITION LIST '2024-08-03'");
    assert_eq!(rows(&database, "SELECT ts, n FROM bars ORDER BY ts").len(), 5);
}

/// Buckets that do not end where partitions do: those that lost rows are frozen, their neighbours go on.
#[test]
fn only_buckets_that_lost_rows_are_frozen() {
    let zoned = "1d ALIGN TO CALENDAR TIME ZONE 'America/New_York'";
    for stride in ["1d", "7h", "1w", "3d", "1d ALIGN TO CALENDAR WITH OFFSET '09:30'", zoned, "1M"] {
        let database = memory();
        done(&database, TRADES);
        let query = format!("SELECT ts, sum(id) AS v, count(*) AS n FROM trades SAMPLE BY {stride}");
        done(&database, &format!("CREATE MATERIALIZED VIEW v AS {query}"));
        let days: Vec<String> = (0..70)
            .flat_map(|day| (0..4).map(move |n| (day, 6 * n)))
            .map(|(day, hour)| format!("('{}T{hour:02}:30:00', 'A', 1, 1)", date(day)))
            .collect();
        done(&database, &format!("INSERT INTO trades VALUES {}", days.join(", ")));
        let whole = rows(&database, "SELECT * FROM v ORDER BY ts");
        done(&database, "ALTER TABLE trades DROP PARTITION LIST '2024-01-20'");
        // Changes of what is left, one by one: a bar that lost no row is the query's.
        let lost: Vec<String> = {
            let left = rows(&database, &format!("SELECT * FROM ({query}) ORDER BY ts"));
            let at = |row: &String| row.split(' ').next().unwrap().to_string();
            let kept: Vec<&String> = whole.iter().filter(|row| left.contains(row)).collect();
            whole.iter().filter(|row| !kept.contains(row)).map(at).collect()
        };
        assert!(!lost.is_empty() && lost.len() <= 5, "{stride}: {lost:?}");
        for day in (10..32).chain([50, 69]) {
            done(&database, &format!("UPDATE trades SET id = id + 1 WHERE ts = '{}T06:30:00'", date(day)));
            if day != 19 {
                let late = asked(
                    &database,
                    &format!("INSERT INTO trades VALUES ('{}T07:00:00', 'B', 1, 5)", date(day)),
                );
                let frozen = lost.iter().any(|at| late.is_err() && near(at, day, stride));
                assert!(late.is_ok() || frozen, "{stride}: {day} {:?}", late.err());
            }
            let pick = |sql: &str| {
                let all = rows(&database, sql).into_iter();
                all.filter(|row| !lost.iter().any(|at| row.starts_with(at.as_str()))).collect::<Vec<_>>()
            };
            let found = pick("SELECT * FROM v ORDER BY ts");
            assert_eq!(found, pick(&format!("SELECT * FROM ({query}) ORDER BY ts")), "{stride}, day {day}");
        }
        done(&database, "REFRESH MATERIALIZED VIEW v FULL");
        wait_until_current(&database, "v");
        let of_lost = |rows: Vec<String>| {
            rows.into_iter()
                .filter(|row| lost.iter().any(|at| row.starts_with(at.as_str())))
                .collect::<Vec<_>>()
        };
        assert_eq!(of_lost(rows(&database, "SELECT * FROM v ORDER BY ts")), of_lost(whole), "{stride}");
    }
}

/// The date of a day of 2024, from 0.
fn date(day: u32) -> String {
    let (month, of_month) =
        [(1, 0), (2, 31), (3, 60)].into_iter().rev().find(|(_, before)| day >= *before).unwrap();
    format!("2024-{month:02}-{:02}", day - of_month + 1)
}

/// Whether a day may be in a bucket that begins on a date.
fn near(at: &str, day: u32, stride: &str) -> bool {
    let begins = (0..70).find(|other| at.starts_with(&date(*other))).unwrap_or(0);
    let days = match stride {
        "1w" => 7,
        "3d" => 3,
        _ => 2,
    };
    (begins..begins + days).contains(&day)
}

/// A time to live of a view below another one: a late row stops neither.
#[test]
fn views_over_views_with_a_time_to_live() {
    let database = memory();
    done(&database, TRADES);
    done(
        &database,
        "CREATE MATERIALIZED VIEW hours AS SELECT ts, sym, sum(id) AS v FROM trades SAMPLE BY 1h PARTITION BY DAY TTL 2 DAYS",
    );
    done(&database, "CREATE MATERIALIZED VIEW days AS SELECT ts, sym, sum(v) AS v FROM hours SAMPLE BY 1d");
    for day in [1, 2, 3, 9, 10] {
        done(&database, &format!("INSERT INTO trades VALUES ('2024-01-{day:02}T01:00:00', 'A', 1, {day})"));
        done(&database, "REFRESH MATERIALIZED VIEW days");
    }
    done(&database, "INSERT INTO trades VALUES ('2024-01-01T05:00:00', 'A', 1, 5)");
    done(&database, "REFRESH MATERIALIZED VIEW hours");
    done(&database, "INSERT INTO trades VALUES ('2024-01-11T01:00:00', 'A', 1, 11)");
    done(&database, "REFRESH MATERIALIZED VIEW days FULL");
    done(&database, "REFRESH MATERIALIZED VIEW hours FULL");
    let days = rows(&database, "SELECT v FROM days ORDER BY ts");
    assert_eq!(days, ["1", "2", "3", "9", "10", "11"]);
    assert_eq!(rows(&database, "SELECT count(*) FROM views() WHERE failure IS NOT NULL"), ["0"]);
}

#[test]
fn what_a_view_cannot_be_is_told() {
    let database = memory();
    done(&database, TRADES);
    done(&database, "CREATE TABLE plain (x BIGINT)");
    done(&database, "CREATE VIEW some AS SELECT * FROM trades WHERE px > 1");
    done(
        &database,
        "CREATE MATERIALIZED VIEW sevens AS SELECT ts, sym, count(*) AS n FROM trades SAMPLE BY 7s",
    );
    for (query, why) in [
        ("SELECT * FROM trades", "without SAMPLE BY"),
        ("SELECT sym, count(*) AS n FROM trades SAMPLE BY 1m", "does not select the designated timestamp"),
        ("SELECT ts, count(*) AS n FROM trades SAMPLE BY 1m LIMIT 3", "LIMIT"),
        ("SELECT ts, count(*) AS n FROM trades SAMPLE BY 1m FILL(NULL)", "FILL"),
        ("SELECT ts, count(*) AS n FROM trades WHERE ts < now() SAMPLE BY 1m", "cannot have now:"),
        ("SELECT ts, px, count(*) AS n FROM trades SAMPLE BY 1m", "a key of type DOUBLE"),
        ("SELECT ts, count(*) AS n FROM some SAMPLE BY 1m", "a view that is not materialized"),
        (
            "SELECT ts, count(*) AS n FROM (SELECT * FROM trades LATEST ON ts PARTITION BY sym) SAMPLE BY 1m",
            "LATEST ON",
        ),
        ("WITH t AS (SELECT * FROM trades) SELECT ts, count(*) AS n FROM t SAMPLE BY 1m", "WITH"),
        (
            "SELECT ts, count(*) AS n FROM trades t JOIN plain ON x = id SAMPLE BY 1m",
            "anything but one table",
        ),
        (
            "SELECT ts, count(*) AS n FROM trades WHERE id IN (SELECT x FROM plain) SAMPLE BY 1m",
            "anything but one table",
        ),
        ("SELECT ts, sum(n) AS n FROM sevens SAMPLE BY 1m", "whole buckets of the view below"),
        ("SELECT ts, count(*) AS n FROM trades SAMPLE BY 1m ALIGN TO FIRST OBSERVATION", "count from 1970"),
        ("SELECT ts, nosuch FROM trades SAMPLE BY 1m", "nosuch"),
        ("SELECT ts, count(*) AS n FROM trades WHERE id = $1 SAMPLE BY 1m", "cannot have $1"),
        ("SELECT ts, sum(id) AS a, max(id) AS A FROM trades SAMPLE BY 1m", "two columns of one name"),
        ("SELECT ts, count(*) AS n FROM v SAMPLE BY 1m", "'v'"),
    ] {
        refused(&database, &format!("CREATE MATERIALIZED VIEW v AS {query}"), why);
    }
    // An order of the query is one of whoever reads the view.
    done(
        &database,
        "CREATE MATERIALIZED VIEW uppers AS SELECT ts, upper(sym) AS u FROM trades SAMPLE BY 1m ORDER BY u",
    );
    done(&database, "DROP MATERIALIZED VIEW uppers");
    refused(&database, "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT 1", "is not replaced");
    refused(
        &database,
        "CREATE MATERIALIZED VIEW sevens AS SELECT ts, count(*) AS n FROM trades SAMPLE BY 1m",
        "already exists",
    );
    done(
        &database,
        "CREATE MATERIALIZED VIEW IF NOT EXISTS sevens AS SELECT ts, count(*) AS n FROM trades SAMPLE BY 1m",
    );
    for (sql, why) in [
        ("INSERT INTO sevens VALUES ('2024-08-01', 'A', 1)", "a materialized view"),
        ("DELETE FROM sevens", "a materialized view"),
        ("UPDATE sevens SET n = 1", "a materialized view"),
        ("TRUNCATE TABLE sevens", "a materialized view"),
        ("DROP TABLE sevens", "a materialized view"),
        ("DROP VIEW sevens", "a materialized view"),
        ("DROP MATERIALIZED VIEW some", "a view"),
        ("DROP MATERIALIZED VIEW nosuch", "does not exist"),
        ("DROP TABLE trades", "'sevens' reads 'trades'"),
        ("ALTER TABLE trades RENAME TO other", "'sevens' reads 'trades'"),
        ("ALTER TABLE trades DROP COLUMN sym", "'sevens' reads column 'sym'"),
        ("ALTER TABLE trades RENAME COLUMN sym TO s", "'sevens' reads column 'sym'"),
        ("ALTER TABLE sevens ADD COLUMN x INT", "a materialized view"),
        ("ALTER MATERIALIZED VIEW sevens DROP PARTITION LIST '2024-08-01'", "a materialized view"),
        ("ALTER MATERIALIZED VIEW trades SET TTL 1d", "a table, not a view"),
        ("REFRESH MATERIALIZED VIEW trades", "a table"),
        ("REFRESH MATERIALIZED VIEW nosuch", "does not exist"),
    ] {
        refused(&database, sql, why);
    }
    done(&database, "ALTER TABLE trades DROP COLUMN px");
    done(&database, "ALTER MATERIALIZED VIEW sevens SET TTL 30 DAYS");
    done(&database, "ALTER MATERIALIZED VIEW sevens RENAME TO bars7");
    done(&database, "INSERT INTO trades VALUES ('2024-08-01T00:00:08', 'A', 1)");
    assert_eq!(rows(&database, "SELECT * FROM bars7"), ["2024-08-01T00:00:07 A 1"]);
    assert_eq!(rows(&database, "SHOW COLUMNS FROM bars7").len(), 3);
    done(&database, "DROP MATERIALIZED VIEW IF EXISTS nosuch, bars7");
    done(&database, "DROP TABLE trades");
}

/// Bars of a view are heard as those of its query, and told again in order of time.
#[test]
fn subscriptions_and_replays_of_views() {
    let database = memory();
    done(&database, TRADES);
    done(&database, "CREATE MATERIALIZED VIEW bars AS SELECT ts, count(*) AS n FROM trades SAMPLE BY 1m");
    done(
        &database,
        "INSERT INTO trades VALUES ('2024-08-01T10:01:01', 'A', 1, 1), ('2024-08-01T10:00:01', 'B', 2, 2)",
    );
    let told = rows(&database, "REPLAY bars SPEED MAX");
    let bars: Vec<&String> = told.iter().filter(|row| row.contains("insert")).collect();
    assert!(bars.len() == 2 && bars[0].contains("10:00:00") && bars[1].contains("10:01:00"), "{told:?}");
    let mut session = database.session();
    let statement = session.parse("SUBSCRIBE TO bars FROM BEGINNING").unwrap().remove(0);
    let outcome = database.runtime().block_on(session.run(statement)).unwrap();
    let Outcome::Rows { mut stream, .. } = outcome else { panic!("no rows") };
    done(&database, "INSERT INTO trades VALUES ('2024-08-01T10:02:01', 'A', 1, 1)");
    let mut heard = 0;
    while heard < 2 {
        let batch = database.runtime().block_on(stream.next()).unwrap().unwrap();
        heard += batch.column(3).len() - batch.column(3).null_count();
    }
    done(&database, "CREATE MATERIALIZED VIEW hours AS SELECT ts, sum(n) AS n FROM bars SAMPLE BY 1h");
    refused(&database, "SUBSCRIBE TO hours", "anything but one table, once");
}

/// Readers beside a writer, and a thread that stores: each query is of one moment.
#[test]
fn views_are_of_one_moment_while_rows_come() {
    let database = memory();
    done(&database, TRADES);
    done(
        &database,
        "CREATE MATERIALIZED VIEW bars AS SELECT ts, count(*) AS n, max(id) AS id FROM trades SAMPLE BY 1s",
    );
    done(
        &database,
        "CREATE MATERIALIZED VIEW tens AS SELECT ts, sum(n) AS n, max(id) AS id FROM bars SAMPLE BY 10s",
    );
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let begun = Instant::now();
            for id in 1_u64.. {
                if begun.elapsed() > Duration::from_secs(3) {
                    break;
                }
                let (m, s) = (id / 20 / 60 % 60, id / 20 % 60);
                done(
                    &database,
                    &format!("INSERT INTO trades VALUES ('2024-08-01T10:{m:02}:{s:02}', 'A', 1, {id})"),
                );
            }
            over.store(true, Ordering::Relaxed);
        });
        while !over.load(Ordering::Relaxed) {
            for view in ["bars", "tens"] {
                let found =
                    rows(&database, &format!("SELECT sum(n) = max(id), count(*) FROM {view}")).join("");
                assert!(found.starts_with("true") || found == "- 0", "{view}: {found}");
            }
        }
    });
    wait_until_current(&database, "tens");
    assert_eq!(rows(&database, "SELECT sum(n) = max(id) FROM tens"), ["true"]);
}

/// Whether a statement went through; it may have been refused since another changed the same.
fn tried(database: &Database, sql: &str) -> bool {
    let mut session = database.session();
    match database.runtime().block_on(session.query(sql)) {
        Ok(_) => true,
        Err(error) if error.kind == ErrorKind::Retry => false,
        Err(error) => panic!("{sql}: {error}"),
    }
}

/// DELETE, UPDATE, INSERT and REFRESH from several threads: each minute keeps its rows of two symbols, so that no reader
/// ever misses a bar, whatever is stored of the view.
#[test]
fn no_bar_is_missing_beside_changes() {
    const MINUTES: u64 = 240;
    const SYMBOLS: u64 = 2;
    let database = memory();
    done(&database, TRADES);
    let at = "timestamp_s(1722470400 + (value / 2) * 60 + value % 2)";
    let rows_of_all = MINUTES * SYMBOLS;
    done(
        &database,
        &format!(
            "INSERT INTO trades SELECT {at}, CASE WHEN value % 2 = 0 THEN 'A' ELSE 'B' END, 1.0, value \
             FROM range(0, {rows_of_all})"
        ),
    );
    done(&database, &format!("CREATE MATERIALIZED VIEW bars AS {BARS}"));
    done(
        &database,
        "CREATE MATERIALIZED VIEW hours AS SELECT ts, sym, sum(n) AS n, max(h) AS h FROM bars SAMPLE BY 1h",
    );
    wait_until_current(&database, "hours");
    let over = AtomicBool::new(false);
    let stretch = |random: &mut Random| {
        let from = random.below(MINUTES);
        let to = from + 1 + random.below(MINUTES / 4);
        let time = |minute: u64| format!("timestamp_s({})", 1_722_470_400 + minute * 60);
        format!("ts >= {} AND ts < {}", time(from), time(to))
    };
    std::thread::scope(|scope| {
        let (database, over) = (&database, &over);
        for writer in 0..6_u64 {
            scope.spawn(move || {
                let mut random = Random(writer + 1);
                let mut id = 1_000_000 * (writer + 1);
                while !over.load(Ordering::Relaxed) {
                    let within = stretch(&mut random);
                    let sql = match writer {
                        0 | 1 => format!(
                            "UPDATE trades SET px = px + 1 WHERE id % 7 = {} AND {within}",
                            random.below(7)
                        ),
                        // Rows beside those that stay.
                        2 => {
                            id += 1;
                            let second = 1_722_470_400 + random.below(MINUTES * 60);
                            format!("INSERT INTO trades VALUES (timestamp_s({second}), 'A', 2.0, {id})")
                        }
                        3 => format!("DELETE FROM trades WHERE id >= 1000000 AND {within}"),
                        4 => "REFRESH MATERIALIZED VIEW bars".to_string(),
                        _ => format!(
                            "REFRESH MATERIALIZED VIEW hours{}",
                            if random.below(4) == 0 { " FULL" } else { "" }
                        ),
                    };
                    tried(database, &sql);
                }
            });
        }
        let mut told_current = 0;
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(4) {
            // One statement is of one moment: what it is told of the view, and what it reads of it.
            let sql = "SELECT (SELECT count(*) FROM bars), (SELECT count(*) FROM hours), (SELECT sum(n) FROM hours) = (SELECT \
                       count(*) FROM trades), (SELECT min(stale) FROM views())";
            let found = rows(database, sql).join("");
            let wanted = format!("{rows_of_all} {} true ", MINUTES / 60 * SYMBOLS);
            assert!(found.starts_with(&wanted), "{found}, not {wanted}: {:?}", rows(database, "SHOW VIEWS"));
            told_current += u32::from(found.ends_with(" 0"));
        }
        over.store(true, Ordering::Relaxed);
        assert!(told_current > 0, "the views were never current");
    });
    wait_until_current(&database, "hours");
    assert_eq!(rows(&database, "SELECT count(*) FROM bars"), [rows_of_all.to_string()]);
}

/// What is stored of a view goes into commits that are small beside the memory budget, and INSERTs into other tables go on
/// meanwhile.
#[test]
fn a_large_view_is_stored_within_the_memory_budget() {
    const BUDGET: usize = 8 << 20;
    const ROWS: u64 = 400_000;
    let folder = tempfile::tempdir().unwrap();
    let mut options = DatabaseOptions::default();
    options.engine.memory_budget_bytes = BUDGET;
    let database = Database::open(folder.path(), options).unwrap();
    done(&database, TRADES);
    done(&database, "CREATE TABLE other (ts TIMESTAMP, n BIGINT) TIMESTAMP(ts)");
    done(
        &database,
        &format!(
            "INSERT INTO trades SELECT timestamp_s(1722470400 + value), 'A', 1.0, value FROM range(0, {ROWS})"
        ),
    );
    // A bar a row: some 70 bytes each, four times the budget.
    done(
        &database,
        "CREATE MATERIALIZED VIEW bars AS SELECT ts, sym, first(px) AS o, max(px) AS h, min(px) AS l, last(px) AS c, \
         sum(id) AS v, count(*) AS n FROM trades SAMPLE BY 1s",
    );
    let over = AtomicBool::new(false);
    let (mut most, mut inserted) = (0, 0);
    std::thread::scope(|scope| {
        let refreshed = scope.spawn(|| {
            done(&database, "REFRESH MATERIALIZED VIEW bars FULL");
            over.store(true, Ordering::Relaxed);
        });
        while !over.load(Ordering::Relaxed) && !refreshed.is_finished() {
            done(&database, &format!("INSERT INTO other VALUES (timestamp_s({inserted}), {inserted})"));
            inserted += 1;
            most = most.max(database.engine().memory_bytes());
        }
        refreshed.join().unwrap();
    });
    // The commit under way is beside it.
    let most_allowed = BUDGET + BUDGET / 4;
    assert!(inserted > 0 && most <= most_allowed, "{inserted} rows went in, and {most} bytes were held");
    assert_eq!(rows(&database, "SELECT count(*), sum(n) FROM bars"), [format!("{ROWS} {ROWS}")]);
    assert_eq!(rows(&database, "SELECT count(*) FROM other"), [inserted.to_string()]);
}
