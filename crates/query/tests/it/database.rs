//! The facade: directories, sessions, plans and statistics.

use crate::states::open;
use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::pretty::pretty_format_batches;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tickstone_engine::Engine;
use tickstone_engine::disk::MemoryDisk;
use tickstone_model::{ColumnType, TableSchema};
use tickstone_query::append::{AppendRequest, append};
use tickstone_query::import::{ImportRequest, import};
use tickstone_query::{
    Access, Database, DatabaseOptions, ErrorKind, Function, FunctionSignature, Outcome, Session,
};

fn query(database: &Database, session: &mut Session, sql: &str) -> Vec<RecordBatch> {
    database.runtime().block_on(session.query(sql)).unwrap_or_else(|error| panic!("{sql}\n{error}"))
}

fn number(database: &Database, session: &mut Session, sql: &str) -> i64 {
    query(database, session, sql)[0].column(0).as_primitive::<Int64Type>().value(0)
}

fn explain(database: &Database, session: &mut Session, sql: &str) -> String {
    let batches = query(database, session, sql);
    let texts = batches.iter().flat_map(|batch| {
        let column = batch.column(1).as_string::<i32>();
        let texts: Vec<String> = column.iter().flatten().map(str::to_string).collect();
        texts
    });
    texts.collect::<Vec<_>>().join("\n")
}

const CREATE: &str = "CREATE TABLE t (ts TIMESTAMP, sym SYMBOL, x DOUBLE) TIMESTAMP(ts) PARTITION BY DAY";

/// Three days of two symbols, sealed, the last row in memory.
fn filled(database: &Database) -> Session {
    let mut session = database.session();
    query(database, &mut session, CREATE);
    for day in 1..=3 {
        for hour in 0..24 {
            let at = format!("2024-01-{day:02}T{hour:02}:00:00");
            let insert = format!("INSERT INTO t VALUES ('{at}', 'A', {hour}), ('{at}', 'B', {})", hour * 10);
            query(database, &mut session, &insert);
        }
    }
    database.engine().seal(None).unwrap();
    query(database, &mut session, "INSERT INTO t VALUES ('2024-01-03T23:30:00', 'A', 99)");
    session
}

#[test]
fn what_an_insert_returns() {
    let database = open(&MemoryDisk::new());
    let mut session = filled(&database);
    let texts = |session: &mut Session, sql: &str| {
        let format =
            |batch: &RecordBatch| pretty_format_batches(std::slice::from_ref(batch)).unwrap().to_string();
        let rows: Vec<String> = query(&database, session, sql).iter().map(format).collect();
        let lines = rows.iter().flat_map(|rows| rows.lines().skip(3)).filter(|line| line.starts_with('|'));
        lines.map(|line| line.replace([' ', '|'], "")).collect::<Vec<String>>()
    };
    let count = "SELECT count(*) FROM t";
    let before = number(&database, &mut session, count);
    for (sql, rows) in [
        (
            "INSERT INTO t (x, ts) VALUES (1, '2024-01-05'), (2, '2024-01-06') RETURNING x * 10, sym",
            vec!["10.0", "20.0"],
        ),
        ("INSERT INTO T SELECT * FROM t WHERE x >= 230 RETURNING T.X + 1 AS y", vec!["231.0"; 3]),
        ("INSERT INTO t SELECT * FROM t WHERE false RETURNING count(*)", vec!["0"]),
        ("INSERT INTO t (ts) VALUES ('2024-01-07') RETURNING *", vec!["2024-01-07T00:00:00"]),
    ] {
        assert_eq!(texts(&mut session, sql), rows, "{sql}");
    }
    assert_eq!(number(&database, &mut session, count), before + 6);
    for (sql, said) in [
        ("INSERT INTO t (ts, x) VALUES ('2024-01-05', 0) RETURNING 1 / (x::bigint)", "division by zero"),
        ("INSERT INTO t (ts, x) VALUES ('2024-01-05', 0) RETURNING price", "'price'"),
        ("INSERT INTO t (ts, x) VALUES ('2024-01-05', 'much') RETURNING x", "no DOUBLE"),
    ] {
        let error = database.runtime().block_on(session.query(sql)).unwrap_err().to_string().to_lowercase();
        assert!(error.contains(&said.to_lowercase()), "{sql}: {error}");
    }
    assert_eq!(number(&database, &mut session, count), before + 6, "what failed stored nothing");
    query(&database, &mut session, "BEGIN");
    assert_eq!(texts(&mut session, "INSERT INTO t (ts, x) VALUES ('2024-01-08', 7) RETURNING x"), ["7.0"]);
    query(&database, &mut session, "ROLLBACK");
    assert_eq!(number(&database, &mut session, count), before + 6);
}

#[test]
fn rows_of_changes() {
    let database = open(&MemoryDisk::new());
    let mut session = database.session();
    let run = |session: &mut Session, sql: &str| drop(query(&database, session, sql));
    let texts = |session: &mut Session, sql: &str| {
        let format =
            |batch: &RecordBatch| pretty_format_batches(std::slice::from_ref(batch)).unwrap().to_string();
        let rows: Vec<String> = query(&database, session, sql).iter().map(format).collect();
        let lines = rows.iter().flat_map(|rows| rows.lines().skip(3)).filter(|line| line.starts_with('|'));
        lines.map(|line| line.replace([' ', '|'], "")).collect::<Vec<String>>()
    };
    run(
        &mut session,
        "CREATE TABLE c (ts TIMESTAMP, s SYMBOL, x BIGINT, \"Y z\" DECIMAL(9,2)) TIMESTAMP(ts)",
    );
    run(&mut session, "CREATE TABLE o (ts TIMESTAMP, s SYMBOL, f BIGINT) TIMESTAMP(ts)");
    run(
        &mut session,
        "INSERT INTO c VALUES ('2024-01-01', 'a', 1, 1.5), ('2024-01-02', 'b', 2, 2.5), ('2024-01-03', 'c', 3, NULL)",
    );
    run(
        &mut session,
        "INSERT INTO o VALUES ('2024-01-01', 'a', 10), ('2024-01-01', 'b', 20), ('2024-01-02', 'b', 20)",
    );
    let mut check = |sql: &str, rows: &[&str]| assert_eq!(texts(&mut session, sql), rows, "{sql}");
    // New values, as their columns have them; of columns that are not set, what is there.
    check(
        "UPDATE c SET x = x + 1, \"Y z\" = 7.125 WHERE s >= 'b' RETURNING s, x, \"Y z\"",
        &["b37.13", "c47.13"],
    );
    check(
        "UPDATE c AS a SET x = a.x * o.f FROM o WHERE o.s = a.s AND o.f = 10 RETURNING a.x, upper(s)",
        &["10A"],
    );
    check("UPDATE c SET x = 0 WHERE false RETURNING count(*)", &["0"]);
    // A row that several of the others meet goes once.
    check("DELETE FROM C USING o WHERE o.s = C.s AND o.f = 20 RETURNING *", &["2024-01-02T00:00:00b37.13"]);
    check("SELECT s, x FROM c ORDER BY s", &["a10", "c4"]);
    for (sql, said) in [
        ("DELETE FROM c RETURNING 1 / (x - 4)", "division by zero"),
        ("UPDATE c SET x = 4 RETURNING nope", "'nope'"),
        ("UPDATE c SET x = 4.5 RETURNING x", "no BIGINT"),
    ] {
        let error = database.runtime().block_on(session.query(sql)).unwrap_err().to_string();
        assert!(error.to_lowercase().contains(&said.to_lowercase()), "{sql}: {error}");
    }
    let mut check = |sql: &str, rows: &[&str]| assert_eq!(texts(&mut session, sql), rows, "{sql}");
    check("SELECT s, x FROM c ORDER BY s", &["a10", "c4"]);
    check("DELETE FROM c RETURNING sum(x) AS n", &["14"]);
    check("SELECT count(*) FROM c", &["0"]);
}

#[test]
fn results_and_errors_say_what_the_text_says() {
    let database = open(&MemoryDisk::new());
    let mut session = database.session();
    query(&database, &mut session, "CREATE TABLE n (ts TIMESTAMP, a VARCHAR, x BIGINT) TIMESTAMP(ts)");
    query(&database, &mut session, "INSERT INTO n VALUES ('2024-01-01', 'a', 1)");
    for (sql, wanted) in [
        (
            "SELECT substr(a, 1), max(n.x) OVER (), x + 1, ts AT TIME ZONE 'UTC' FROM n",
            vec!["substr(a, 1)", "max(n.x) OVER ()", "x + 1", "ts AT TIME ZONE 'UTC'"],
        ),
        ("SELECT ts, sum(x + 1), n.x FROM n SAMPLE BY 1h", vec!["ts", "sum(x + 1)", "x"]),
        ("SELECT * FROM (SELECT trim(a), btrim(a), (x) FROM n)", vec!["trim(a)", "btrim(a)", "x"]),
        ("SELECT count(*), count(*) FROM n", vec!["count(*)", "count(*)_1"]),
    ] {
        let schema = query(&database, &mut session, sql)[0].schema();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, wanted, "{sql}");
    }
    for (sql, said) in [
        ("SELECT quantile(a, 0.5) FROM n", "quantile does not take (VARCHAR, DOUBLE)"),
        ("SELECT list_slice(x, 1, 2) FROM n", "list_slice does not take (BIGINT, BIGINT, BIGINT)"),
        ("SELECT x[1:2] FROM n", "x[from:to] is not of a BIGINT"),
        ("SELECT extract(hour FROM x) FROM n", "extract does not take (VARCHAR, BIGINT)"),
    ] {
        let error = database.runtime().block_on(session.query(sql)).unwrap_err().to_string();
        assert!(error.contains(said), "{sql}: {error}");
    }
}

#[test]
fn tables_of_one_session() {
    let database = open(&MemoryDisk::new());
    let (mut one, mut other) = (filled(&database), database.session());
    let count = "SELECT count(*) FROM mine";
    query(&database, &mut one, "CREATE TEMP TABLE mine AS SELECT * FROM t WHERE sym = 'A'");
    for _ in 0..3 {
        assert_eq!(number(&database, &mut one, count), 73);
    }
    // Nobody else has it, and another's of its name is another: by texts that both know.
    let missing = database.runtime().block_on(other.query(count)).unwrap_err().to_string();
    assert!(missing.contains("mine"), "{missing}");
    query(&database, &mut other, "CREATE TEMPORARY TABLE MINE (x DOUBLE, n BIGINT)");
    for _ in 0..3 {
        assert_eq!(number(&database, &mut other, count), 0);
        assert_eq!(number(&database, &mut one, count), 73);
    }
    // It comes before a table of its name.
    let all = number(&database, &mut other, "SELECT count(*) FROM t");
    for _ in 0..3 {
        query(
            &database,
            &mut one,
            "CREATE OR REPLACE TEMP TABLE t AS SELECT ts, x, 'C' AS sym FROM mine LIMIT 5",
        );
        assert_eq!(number(&database, &mut one, "SELECT count(*) FROM t"), 5);
        assert_eq!(number(&database, &mut other, "SELECT count(*) FROM t"), all);
    }
    query(&database, &mut one, "UPDATE T SET x = x + 1 WHERE t.x >= 0");
    query(&database, &mut one, "DELETE FROM t WHERE x = 1");
    query(&database, &mut one, "INSERT INTO t (ts, x) VALUES ('2024-01-01', 7)");
    query(&database, &mut one, "CHECKPOINT t");
    assert_eq!(number(&database, &mut one, "SELECT count(*) FROM t WHERE x > 1"), 5);
    query(&database, &mut one, "DROP TABLE t");
    assert_eq!(number(&database, &mut one, "SELECT count(*) FROM t"), all);
    let error = |session: &mut Session, sql: &str| {
        database.runtime().block_on(session.query(sql)).unwrap_err().to_string()
    };
    for (sql, said) in [
        ("CREATE TEMP TABLE mine (x DOUBLE)", "table 'mine' already exists"),
        ("CREATE TEMPORARY TABLE Mine (x DOUBLE)", "already exists"),
        (
            "CREATE MATERIALIZED VIEW v AS SELECT ts, count(*) AS n FROM mine SAMPLE BY 1h",
            "a view is of all sessions, and table 'mine' of this one alone",
        ),
        ("ALTER TABLE mine RENAME TO yours", "'mine' is a table of this session"),
        (
            "CREATE VIEW v AS SELECT * FROM mine",
            "a view is of all sessions, and table 'mine' of this one alone",
        ),
        ("INSERT INTO mine (y) VALUES (1)", "'mine' has no column 'y'"),
        ("SELECT * FROM mina", "did you mean 'mine'?"),
    ] {
        let error = error(&mut one, sql);
        assert!(error.contains(said), "{sql}: {error}");
    }
    let shown = query(&database, &mut one, "SHOW TABLES");
    assert_eq!(shown[0].column(0).as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["mine", "t"]);
    // A view reads what everybody has, whatever its reader calls its own; so does a name of WITH.
    query(&database, &mut other, "CREATE VIEW all_rows AS SELECT * FROM t");
    query(&database, &mut one, "CREATE TEMP TABLE t AS SELECT * FROM mine WHERE x > 3 ORDER BY ts LIMIT 3");
    assert_eq!(number(&database, &mut one, "SELECT count(*) FROM all_rows"), all);
    assert_eq!(number(&database, &mut one, "WITH t AS (SELECT 1 AS a) SELECT count(*) FROM t"), 1);
    assert_eq!(number(&database, &mut one, "WITH t AS (SELECT * FROM t LIMIT 2) SELECT count(*) FROM t"), 2);
    for (sql, expected) in [
        ("SELECT count(T.x) FROM T", 3),
        ("SELECT count(*) FROM (SELECT t.* FROM t ASOF JOIN mine ON (sym))", 3),
        ("SELECT count(*) FROM t AS a WHERE a.x IN (SELECT mine.x FROM mine)", 3),
        ("SELECT count(*) FROM (SELECT ts, count(*) FROM t SAMPLE BY 1000d)", 1),
        ("INSERT INTO t (ts, sym) VALUES ('2024-01-01', 'A') RETURNING CAST(t.x IS NULL AS BIGINT)", 1),
    ] {
        assert_eq!(number(&database, &mut one, sql), expected, "{sql}");
    }
    query(&database, &mut one, "ALTER TABLE t ADD COLUMN note VARCHAR");
    query(&database, &mut one, "PREPARE p AS SELECT count(*) FROM t WHERE note IS NULL");
    assert_eq!(number(&database, &mut one, "EXECUTE p"), 4);
    let described = database.runtime().block_on(async {
        let statement = one.parse("SELECT note, t.x FROM t WHERE x > $1").unwrap().remove(0);
        one.describe(&statement, &[]).await.unwrap()
    });
    assert_eq!(described.rows.unwrap().field(0).name(), "note");
    assert_eq!(described.parameters, [DataType::Float64]);
    query(&database, &mut one, "ALTER TABLE t DROP PARTITION WHERE ts < '2030-01-01'");
    assert_eq!(number(&database, &mut one, "SELECT count(*) FROM t"), 0);
    query(&database, &mut one, "TRUNCATE TABLE t");
    query(&database, &mut one, "DROP TABLE t, mine");
    assert_eq!(number(&database, &mut one, "SELECT count(*) FROM t"), all);
    query(&database, &mut one, "CREATE TEMP TABLE mine AS SELECT * FROM t");
    query(&database, &mut other, "DROP VIEW all_rows");
    // They go with their sessions, and with DISCARD ALL.
    let tables = || database.engine().snapshot().tables().count();
    assert_eq!(tables(), 3);
    query(&database, &mut other, "DISCARD ALL");
    assert_eq!(tables(), 2);
    drop(one);
    assert_eq!(tables(), 1);
    assert_eq!(number(&database, &mut other, "SELECT count(*) FROM t"), all);
}

#[test]
fn a_directory_keeps_its_rows_and_has_one_writer() {
    let folder = std::env::temp_dir().join(format!("tickstone-query-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let database = Database::open(&folder, DatabaseOptions::default()).unwrap();
    let mut session = filled(&database);
    assert_eq!(number(&database, &mut session, "SELECT count(*) FROM t"), 145);
    let second = Database::open(&folder, DatabaseOptions::default()).unwrap_err();
    assert_eq!(second.kind, ErrorKind::Retry);
    let reader = Database::open_read_only(&folder, DatabaseOptions::default()).unwrap();
    let mut reading = reader.session();
    assert_eq!(number(&reader, &mut reading, "SELECT count(*) FROM t"), 145);
    let refused = reader.runtime().block_on(reading.query("INSERT INTO t VALUES ('2024-01-01', 'A', 1)"));
    assert!(refused.unwrap_err().to_string().contains("read-only"));
    drop((session, reading, reader));
    assert!(database.close(std::time::Duration::from_secs(10)), "nothing refers to the files any more");
    let database = Database::open(&folder, DatabaseOptions::default()).unwrap();
    assert_eq!(number(&database, &mut database.session(), "SELECT count(*) FROM t"), 145);
    drop(database);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_session_opened_for_reading_follows_the_writer() {
    let folder = std::env::temp_dir().join(format!("tickstone-follow-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let writer = Database::open(&folder, DatabaseOptions::default()).unwrap();
    let mut writing = filled(&writer);
    let reader = Database::open_read_only(&folder, DatabaseOptions::default()).unwrap();
    let (mut reading, mut late) = (reader.session(), reader.session());
    let count = "SELECT count(*) FROM t WHERE x > -1";
    assert_eq!(number(&reader, &mut reading, count), 145);
    for round in 1..=4 {
        for statement in [
            "INSERT INTO t VALUES ('2024-01-03T23:45:00', 'B', 7)",
            "OPTIMIZE TABLE t",
            "UPDATE t SET x = x + 1",
            "CHECKPOINT",
        ] {
            query(&writer, &mut writing, statement);
            assert_eq!(number(&reader, &mut reading, count), 145 + round, "after {statement}");
        }
        let total = "SELECT sum(x) FROM t";
        let (expected, found) = (query(&writer, &mut writing, total), query(&reader, &mut late, total));
        assert_eq!(expected, found);
    }
    query(&writer, &mut writing, "DROP TABLE t");
    query(&writer, &mut writing, "CREATE TABLE t (ts TIMESTAMP, x BIGINT) TIMESTAMP(ts)");
    query(&writer, &mut writing, "INSERT INTO t VALUES ('2024-01-01', 5)");
    assert_eq!(number(&reader, &mut reading, count), 1);
    assert_eq!(number(&reader, &mut reading, "SELECT max(x) FROM t"), 5);
    drop((writing, writer));
    std::fs::remove_dir_all(&folder).unwrap();
    let gone = reader.runtime().block_on(reading.query(count)).unwrap_err();
    assert_eq!(gone.kind, ErrorKind::FixRequest, "{gone}");
}

#[test]
fn explain_shows_what_a_scan_reads() {
    let database = open(&MemoryDisk::new());
    let mut session = filled(&database);
    let sql = "EXPLAIN SELECT sum(x) FROM t WHERE sym = 'A' AND ts >= '2024-01-02' AND ts < '2024-01-03'";
    let plan = explain(&database, &mut session, sql);
    assert!(plan.contains("time=[2024-01-02T00:00:00Z, 2024-01-03T00:00:00Z)"), "{plan}");
    assert!(plan.contains("sym=[A]"), "{plan}");
    assert!(plan.contains("rows=24 of 145"), "{plan}");
    assert!(!plan.contains("FilterExec"), "{plan}");
    let analyzed = explain(&database, &mut session, &sql.replace("EXPLAIN", "EXPLAIN ANALYZE"));
    assert!(analyzed.contains("partitions_skipped=2"), "{analyzed}");
    assert!(analyzed.contains("rows_skipped=121"), "{analyzed}");
    assert!(analyzed.contains("ms"), "{analyzed}");
}

#[test]
fn values_are_read_where_a_session_does_not_go_by_statistics() {
    let database = open(&MemoryDisk::new());
    let mut session = database.session();
    query(&database, &mut session, CREATE);
    let rows = "SELECT timestamp_s(1704067200 + value), 'A', value FROM generate_series(1, 5000)";
    query(&database, &mut session, &format!("INSERT INTO t {rows}"));
    database.engine().seal(None).unwrap();
    let sql = "EXPLAIN ANALYZE SELECT sum(x), max(x) FROM t GROUP BY sym";
    let plan = explain(&database, &mut session, sql);
    assert!(plan.contains("rows_not_read=5.00 K") && plan.contains("bytes_read=0"), "{plan}");
    query(&database, &mut session, "SET block_statistics = false");
    let plan = explain(&database, &mut session, sql);
    assert!(plan.contains("rows_not_read=0") && plan.contains("bytes_read=40.00 K"), "{plan}");
    let plan = explain(&database, &mut session, "EXPLAIN SELECT min(x) FROM t");
    assert!(plan.contains("ScanExec"), "{plan}");
    query(&database, &mut session, "SET block_statistics = true");
    let plan = explain(&database, &mut session, "EXPLAIN SELECT min(x) FROM t");
    assert!(!plan.contains("ScanExec"), "{plan}");
}

#[test]
fn order_by_time_needs_no_sort() {
    let database = open(&MemoryDisk::new());
    let mut session = filled(&database);
    for sql in [
        "EXPLAIN SELECT * FROM t ORDER BY ts",
        "EXPLAIN SELECT * FROM t ORDER BY ts DESC LIMIT 3",
        "EXPLAIN SELECT x FROM t WHERE sym = 'A' ORDER BY ts LIMIT 3",
        "EXPLAIN SELECT ts, x + 1 FROM t ORDER BY ts",
        "EXPLAIN SELECT ts FROM (SELECT * FROM t WHERE sym = 'A' AND ts < '2024-01-03') ORDER BY ts",
    ] {
        let plan = explain(&database, &mut session, sql);
        assert!(!plan.contains("SortExec"), "{sql}\n{plan}");
    }
}

#[test]
fn questions_by_series_take_the_ways_made_for_them() {
    let database = open(&MemoryDisk::new());
    let mut session = filled(&database);
    for (sql, way, never) in [
        ("SELECT ts, sym, avg(x) FROM t SAMPLE BY 1h", "by ranges", "by rows"),
        ("SELECT sym, max(x), last(x) FROM t GROUP BY sym", "GroupByExec", "AggregateExec"),
        ("SELECT nth_value(x, 2 ORDER BY x) FROM t GROUP BY sym", "AggregateExec", "by ranges"),
        ("SELECT ts, nth_value(x, 2 ORDER BY x) FROM t SAMPLE BY 1d", "SortExec", "by ranges"),
        ("SELECT sum(x) FROM t WHERE sym = 'A' AND ts < '2024-01-02'", "by ranges", "AggregateExec"),
        ("SELECT ts, avg(x) FROM t WHERE x > 3 SAMPLE BY 1h", "by ranges", "FilterExec"),
        ("SELECT ts, avg(x) FROM (SELECT * FROM t LIMIT 9) SAMPLE BY 1h", "by rows", "by ranges"),
        ("SELECT ts FROM t WHERE x > 3 ORDER BY ts LIMIT 5", "order=time", "SortExec"),
        ("SELECT ts FROM t WHERE x > 3 ORDER BY ts DESC", "order=time descending", "SortExec"),
        ("SELECT sum(x) OVER (PARTITION BY sym ORDER BY ts) FROM t", "SeriesWindowExec", "SortExec"),
        ("SELECT count(*) FROM t a ASOF JOIN t b ON (sym)", "by series", "SortExec"),
    ] {
        let plan = explain(&database, &mut session, &format!("EXPLAIN {sql}"));
        assert!(plan.contains(way) && !plan.contains(never), "{sql}\n{plan}");
    }
    // Three whole days of one symbol, 24 rows each: first and last look at two rows of every day.
    let plan = explain(
        &database,
        &mut session,
        "EXPLAIN ANALYZE SELECT ts, last(x) FROM t WHERE sym = 'B' SAMPLE BY 1d",
    );
    assert!(plan.contains("rows_not_read=72") && plan.contains("bytes_read="), "{plan}");
}

#[test]
fn whole_table_aggregates_come_from_statistics() {
    let database = open(&MemoryDisk::new());
    let mut session = filled(&database);
    let plan =
        explain(&database, &mut session, "EXPLAIN SELECT max(x), min(ts), count(*), count(sym) FROM t");
    assert!(!plan.contains("ScanExec"), "{plan}");
    let batches = query(&database, &mut session, "SELECT max(x) FROM t");
    assert_eq!(format!("{:?}", batches[0].column(0)), "PrimitiveArray<Float64>\n[\n  230.0,\n]");
}

#[test]
fn each_statement_reads_one_snapshot() {
    let database = open(&MemoryDisk::new());
    let mut session = filled(&database);
    let statement = session.parse("SELECT count(*) AS n FROM t WHERE x >= 0").unwrap().remove(0);
    let outcome = database.runtime().block_on(session.run(statement)).unwrap();
    let mut other = database.session();
    query(&database, &mut other, "INSERT INTO t VALUES ('2024-01-01', 'A', 5)");
    query(&database, &mut other, "DROP TABLE t");
    let Outcome::Rows { stream, .. } = outcome else { panic!("no rows") };
    let batches: Vec<RecordBatch> =
        database.runtime().block_on(futures::TryStreamExt::try_collect(stream)).unwrap();
    assert_eq!(batches[0].column(0).as_primitive::<Int64Type>().value(0), 145);
}

#[test]
fn a_server_can_move_sessions_between_threads() {
    fn sends<T: Send>(value: T) -> T {
        value
    }
    let database = open(&MemoryDisk::new());
    let mut session = sends(database.session());
    let rows = database.runtime().block_on(sends(session.query("SELECT 1")));
    assert_eq!(rows.unwrap().len(), 1);
}

#[test]
fn a_big_insert_is_one_commit() {
    let database = open(&MemoryDisk::new());
    let mut session = database.session();
    query(&database, &mut session, CREATE);
    let rows = "SELECT to_timestamp_nanos(v * 1000000000) AS ts, 'A' AS sym, v * 0.5 AS x FROM range(0, 300000) AS r(v)";
    query(&database, &mut session, &format!("INSERT INTO t {rows}"));
    assert_eq!(number(&database, &mut session, "SELECT count(*) FROM t"), 300_000);
    assert_eq!(number(&database, &mut session, "SELECT sum(runs)::BIGINT FROM table_partitions('t')"), 0);
    let failing = format!("INSERT INTO t {rows} UNION ALL SELECT NULL, 'A', 1");
    assert!(database.runtime().block_on(session.query(&failing)).is_err());
    assert_eq!(number(&database, &mut session, "SELECT count(*) FROM t"), 300_000);
}

/// Has somebody else make the table `made` and store a row in it, which is acknowledged.
fn made_meanwhile(engine: &Engine) {
    let schema = TableSchema::builder("made").column("x", ColumnType::Int64).build().unwrap();
    engine.create_table(schema).unwrap();
    let row = RecordBatch::try_from_iter([("x", Arc::new(Int64Array::from(vec![42])) as ArrayRef)]).unwrap();
    engine.append("made", &row, None).unwrap();
}

/// A function that fails on its second batch, and has somebody else make the table before.
fn failing(database: &Database) -> Function {
    let (engine, calls) = (database.engine().clone(), AtomicUsize::new(0));
    let signature = FunctionSignature::new(vec![DataType::Int64], DataType::Int64);
    let function = Function::scalar("failing", signature, move |arrays| {
        match calls.fetch_add(1, Ordering::Relaxed) {
            0 => Ok(Arc::clone(&arrays[0])),
            _ => {
                // Nobody sees what is being filled.
                assert!(engine.snapshot().table("made").is_none());
                made_meanwhile(&engine);
                Err("the fill fails".into())
            }
        }
    });
    function.side_effects(true)
}

#[test]
fn a_fill_that_fails_takes_nobody_elses_rows_away() {
    let database = open(&MemoryDisk::new());
    let mut session = database.session();
    let rows = "SELECT x FROM made";
    // A statement.
    database.create_function(failing(&database)).unwrap();
    for create in ["CREATE TABLE made", "CREATE OR REPLACE TABLE made", "CREATE TABLE IF NOT EXISTS made"] {
        let sql = format!("{create} AS SELECT failing(value) AS x FROM range(0, 20000)");
        let failed = database.runtime().block_on(session.query(&sql)).unwrap_err();
        assert!(failed.to_string().contains("the fill fails"), "{failed}");
        assert!(!failed.to_string().contains('~'), "{failed}");
        assert_eq!(number(&database, &mut session, rows), 42, "{create}");
        query(&database, &mut session, "DROP TABLE made");
        database.create_or_replace_function(failing(&database)).unwrap();
    }
    // Batches of a program.
    let batch = RecordBatch::try_from_iter([("x", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]).unwrap();
    let request = AppendRequest { create: true, ..AppendRequest::new("made") };
    let engine = database.engine().clone();
    let batches = [true, false].into_iter().map(|first| match first {
        true => Ok(batch.clone()),
        false => {
            made_meanwhile(&engine);
            Err(ArrowError::ComputeError("the fill fails".into()))
        }
    });
    append(&Access::of_owner(&database), &request, &batch.schema(), batches).unwrap_err();
    assert_eq!(number(&database, &mut session, rows), 42);
    // One that is whole comes too late, and takes nothing away either.
    query(&database, &mut session, "DROP TABLE made");
    let late = std::iter::once_with(|| {
        made_meanwhile(&engine);
        Ok(batch.clone())
    });
    append(&Access::of_owner(&database), &request, &batch.schema(), late).unwrap_err();
    assert_eq!(number(&database, &mut session, rows), 42);
    // A file.
    query(&database, &mut session, "DROP TABLE made");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made.csv");
    let lines = (0..200_000).map(|line| format!("2024-08-08T09:30:00Z,{line}\n")).collect::<String>();
    std::fs::write(&path, format!("ts,x\n{lines}2024-08-08,no number\n")).unwrap();
    let mut request = ImportRequest::new("made", [&path]);
    request.types = vec![("x".to_string(), ColumnType::Int64)];
    let once = AtomicUsize::new(0);
    let failed = import(&database, &request, &mut |_| {
        if once.fetch_add(1, Ordering::Relaxed) == 0 {
            assert!(engine.snapshot().table("made").is_none());
            made_meanwhile(&engine);
        }
    });
    failed.unwrap_err();
    assert_eq!(number(&database, &mut session, rows), 42);
    // What is left aside is gone.
    assert_eq!(engine.snapshot().tables().count(), 1);
}

#[test]
fn names_of_tables_aside_are_nobodys() {
    let database = open(&MemoryDisk::new());
    let (mut one, mut other) = (database.session(), database.session());
    for name in ["upload~77", "UPLOAD~1"] {
        let schema = TableSchema::builder(name).column("x", ColumnType::Int64).build().unwrap();
        assert_eq!(database.engine().create_table(schema).unwrap_err().kind(), ErrorKind::FixRequest);
        let batch =
            RecordBatch::try_from_iter([("x", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]).unwrap();
        let request = AppendRequest { create: true, ..AppendRequest::new(name) };
        append(&Access::of_owner(&database), &request, &batch.schema(), std::iter::once(Ok(batch.clone())))
            .unwrap_err();
    }
    // Tables of many sessions and fills at once are each their own.
    for number in 0..20 {
        query(&database, &mut one, &format!("CREATE TEMP TABLE t{number} AS SELECT {number} AS x"));
        query(&database, &mut other, &format!("CREATE TEMP TABLE t{number} AS SELECT {number} + 100 AS x"));
        query(&database, &mut one, &format!("CREATE OR REPLACE TABLE all_of AS SELECT {number} AS x"));
    }
    for at in 0..20 {
        assert_eq!(number(&database, &mut one, &format!("SELECT x FROM t{at}")), at);
        assert_eq!(number(&database, &mut other, &format!("SELECT x FROM t{at}")), at + 100);
    }
    assert_eq!(number(&database, &mut other, "SELECT x FROM all_of"), 19);
    drop((one, other));
    assert_eq!(database.engine().snapshot().tables().count(), 1);
}

/// What a client may simply do again is told so, whichever statement meets a changed table.
#[test]
fn changes_of_rows_beside_changes_of_columns_may_be_tried_again() {
    let database = Database::in_memory(DatabaseOptions::default()).unwrap();
    let run = |sql: &str| database.runtime().block_on(database.session().query(sql)).map(drop);
    run("CREATE TABLE t (ts TIMESTAMP, x INT) TIMESTAMP(ts)").unwrap();
    run("INSERT INTO t VALUES ('2024-01-01', 1), ('2024-01-02', 2)").unwrap();
    std::thread::scope(|scope| {
        for sql in [
            "UPDATE t SET x = x + 1",
            "DELETE FROM t WHERE x < 0",
            "INSERT INTO t (ts, x) VALUES ('2024-01-03', 3)",
        ] {
            scope.spawn(move || {
                for _ in 0..60 {
                    if let Err(error) = run(sql) {
                        assert_eq!(error.kind, ErrorKind::Retry, "{sql}: {error}");
                    }
                }
            });
        }
        for _ in 0..60 {
            run("ALTER TABLE t ADD COLUMN y INT").unwrap();
            run("ALTER TABLE t DROP COLUMN y").unwrap();
        }
    });
}
