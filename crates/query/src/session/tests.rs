use crate::append::{AppendRequest, append};
use crate::{Access, Database, DatabaseOptions, Frame, Outcome, ParameterValue, Parameters, Session};
use datafusion::arrow::array::{
    ArrayRef, AsArray, DictionaryArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use datafusion::arrow::datatypes::{Int8Type, TimestampNanosecondType};
use datafusion::arrow::util::pretty::pretty_format_batches;
use futures::{StreamExt, TryStreamExt};
use std::sync::Arc;

const MICROS: i64 = 1_700_000_000_000_000;

pub(crate) fn database() -> Database {
    Database::in_memory(DatabaseOptions::default()).expect("a database in memory")
}

/// Three rows, two of them at one time, the latest first; times in microseconds, New York.
fn quotes() -> RecordBatch {
    let times = TimestampMicrosecondArray::from(vec![MICROS + 2, MICROS, MICROS]);
    let symbols: DictionaryArray<Int8Type> = vec![Some("B"), Some("A"), None].into_iter().collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("ts", Arc::new(times.with_timezone("America/New_York"))),
        ("symbol", Arc::new(symbols)),
        ("Bid", Arc::new(Float64Array::from(vec![2.0, 1.0, 3.0]))),
    ];
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

fn frame(name: &str) -> Arc<Frame> {
    let batch = quotes();
    Arc::new(Frame::new(name, &batch.schema(), vec![batch], None, &[]).expect("a frame"))
}

fn run(session: &mut Session, sql: &str, parameters: &Parameters) -> crate::Result<Vec<RecordBatch>> {
    let runtime = session.database().runtime().handle().clone();
    let mut statement = session.parse(sql)?.remove(0);
    parameters.bind(std::slice::from_mut(&mut statement))?;
    runtime.block_on(async {
        match session.run(statement).await? {
            Outcome::Rows { stream, .. } => Ok(stream.try_collect().await?),
            Outcome::Done { .. } => Ok(Vec::new()),
        }
    })
}

/// The cells of rows, a line a row.
fn texts(batches: &[RecordBatch]) -> Vec<String> {
    let shown = pretty_format_batches(batches).expect("it can be shown").to_string();
    let lines = shown.lines().filter(|line| line.starts_with("| ")).skip(1);
    let cells = |line: &str| line.split('|').map(str::trim).collect::<Vec<_>>().join(" ").trim().to_string();
    lines.map(cells).collect()
}

/// Checks the cells of a query's rows, a line a row.
fn check(session: &mut Session, sql: &str, expected: &[&str]) {
    let batches = run(session, sql, &Parameters::None).unwrap_or_else(|error| panic!("{sql}: {error}"));
    assert_eq!(texts(&batches), expected, "{sql}");
}

#[test]
fn a_frame_is_a_table_of_its_session() {
    let database = database();
    let mut session = database.session();
    session.set_frames(vec![frame("quotes")]);
    check(&mut session, "SELECT symbol, bid FROM Quotes", &["B 2.0", "A 1.0", "3.0"]);
    check(&mut session, "SELECT bid FROM quotes WHERE symbol = 'A'", &["1.0"]);
    let mut other = database.session();
    let missing = run(&mut other, "SELECT * FROM quotes", &Parameters::None).unwrap_err();
    assert!(missing.to_string().contains("does not exist"), "{missing}");
}

#[test]
fn rows_of_a_frame_come_by_time_equal_ones_as_they_came() {
    let mut session = database().session();
    session.set_frames(vec![frame("quotes")]);
    check(&mut session, "SELECT bid FROM quotes ORDER BY ts", &["1.0", "3.0", "2.0"]);
    check(
        &mut session,
        "SELECT l.bid, r.bid FROM quotes l ASOF JOIN quotes r ORDER BY l.bid",
        &["1.0 3.0", "2.0 2.0", "3.0 3.0"],
    );
    check(&mut session, "SELECT last(bid) FROM quotes SAMPLE BY 1d", &["2.0"]);
}

#[test]
fn a_table_comes_before_a_frame_of_its_name() {
    let mut session = database().session();
    run(&mut session, "CREATE TABLE quotes (n INT)", &Parameters::None).expect("a new table");
    session.set_frames(vec![frame("quotes")]);
    check(&mut session, "SELECT count(*) FROM quotes", &["0"]);
}

#[test]
fn frames_that_cannot_be_are_refused() {
    let batch = quotes();
    let made = |timestamp: &str, series: &[String]| {
        Frame::new("f", &batch.schema(), vec![batch.clone()], Some(timestamp), series)
    };
    assert!(made("bid", &[]).unwrap_err().message.contains("no timestamp"));
    assert!(made("nope", &[]).unwrap_err().hint.is_some_and(|hint| hint.contains("symbol")));
    assert!(made("ts", &["nope".to_string()]).is_err());
    let far = TimestampMicrosecondArray::from(vec![i64::MAX]);
    let far = RecordBatch::try_from_iter([("ts", Arc::new(far) as ArrayRef)]).expect("one column");
    let error = Frame::new("f", &far.schema(), vec![far], None, &[]).unwrap_err();
    assert!(error.message.contains("'ts'"), "{error}");
}

#[test]
fn names_that_nobody_has_are_told() {
    let mut session = database().session();
    run(&mut session, "CREATE TABLE t (n INT)", &Parameters::None).expect("a new table");
    session.set_frames(vec![frame("quotes")]);
    let sql = "WITH c AS (SELECT * FROM a) SELECT * FROM t JOIN quotes USING (n) JOIN c USING (n)
               WHERE n IN (SELECT n FROM \"B b\") AND n > (SELECT max(n) FROM a SAMPLE BY 1m)";
    let statement = session.parse(sql).expect("it is SQL").remove(0);
    let mut missing = session.missing_tables(&statement);
    missing.sort();
    assert_eq!(missing, ["B b", "a", "c"]);
    let statement =
        session.parse("INSERT INTO t SELECT n FROM tables() CROSS JOIN z").expect("it is SQL").remove(0);
    assert_eq!(session.missing_tables(&statement), ["z"]);
}

#[test]
fn queries_that_may_make_many_rows_are_known() {
    let database = database();
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (n INT)", &Parameters::None).expect("a new table");
    run(&mut session, "INSERT INTO t SELECT value FROM generate_series(1, 600)", &Parameters::None)
        .expect("they fit");
    run(&mut session, "CREATE TABLE few AS SELECT * FROM t LIMIT 2", &Parameters::None).expect("a new table");
    let mut may_multiply = |sql: &str| {
        let statement = session.parse(sql).expect("it is SQL").remove(0);
        match database.runtime().block_on(session.run(statement)).expect("it runs") {
            Outcome::Rows { progress, .. } => progress.may_multiply(),
            Outcome::Done { .. } => panic!("{sql} gives no rows"),
        }
    };
    assert!(!may_multiply("SELECT 1") && !may_multiply("SELECT * FROM (SELECT * FROM t) x"));
    assert!(may_multiply("SELECT * FROM t a, t b"));
    assert!(may_multiply("SELECT * FROM t WHERE n IN (SELECT n FROM t)"));
    assert!(may_multiply(
        "WITH RECURSIVE r AS (SELECT n FROM few UNION ALL SELECT n FROM r) SELECT * FROM r"
    ));
    assert!(
        !may_multiply("SELECT * FROM t a, few b")
            && !may_multiply("SELECT * FROM few UNION ALL SELECT 1 FROM few")
    );
    assert!(may_multiply("SELECT * FROM few, few a, t, t b"));
}

#[test]
fn a_text_that_comes_again_is_answered_as_tables_are_then() {
    let database = database();
    let mut session = database.session();
    let mut asked = |sql: &str| -> String {
        let batches = database.runtime().block_on(session.query(sql));
        let rows = |batches: Vec<RecordBatch>| {
            datafusion::arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string()
        };
        batches.map_or_else(|error| error.to_string(), rows)
    };
    let known = |sql: &str| database.session().knows(sql);
    asked("CREATE TABLE t (ts TIMESTAMP, s SYMBOL, x INT) TIMESTAMP(ts) SERIES BY (s)");
    asked("INSERT INTO t VALUES ('2024-01-01', 'A', 1), ('2024-01-02', 'B', 2)");
    let sql = "SELECT s, x FROM t WHERE s = 'A' AND ts < '2024-02-01'";
    let first = asked(sql);
    assert!(first.contains("| A | 1 |"), "{first}");
    assert_eq!((asked(sql), asked(sql)), (first.clone(), first.clone()));
    assert!(known(sql) && !known("SELECT s, x FROM t WHERE s = 'B' AND ts < '2024-02-01'"));
    asked("INSERT INTO t VALUES ('2024-01-03', 'A', 7)");
    assert!(asked(sql).contains("| A | 7 |") && known(sql));

    // Other columns, other settings, a view that becomes another, no table.
    asked("ALTER TABLE t RENAME COLUMN x TO y");
    assert!(!known(sql) && asked(sql).contains("y"), "{}", asked(sql));
    asked("ALTER TABLE t RENAME COLUMN y TO x");
    assert!(asked(sql).contains("| A | 7 |"));
    asked("CREATE VIEW v AS SELECT x FROM t WHERE s = 'A'");
    for _ in 0..3 {
        assert!(asked("SELECT * FROM v").contains("| 7 |"));
    }
    asked("CREATE OR REPLACE VIEW v AS SELECT x FROM t WHERE s = 'B'");
    assert!(asked("SELECT * FROM v").contains("| 2 |") && !asked("SELECT * FROM v").contains("| 7 |"));
    asked("PREPARE q AS SELECT x FROM t WHERE s = 'A'");
    for _ in 0..3 {
        assert!(asked("EXECUTE q").contains("| 7 |"));
    }
    asked("DEALLOCATE q");
    asked("PREPARE q AS SELECT x FROM t WHERE s = 'B'");
    assert!(asked("EXECUTE q").contains("| 2 |") && !known("EXECUTE q"));
    asked("DROP TABLE t");
    assert!(!known(sql) && asked(sql).contains("t"), "{}", asked(sql));
    assert!(!asked(sql).contains("| A |"));
}

#[test]
fn a_text_is_not_taken_for_the_statement_after_it() {
    let database = database();
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (s SYMBOL, x INT)", &Parameters::None).expect("a new table");
    for symbol in ["A", "B", "A"] {
        // As a statement leaves it that is dropped while it is planned.
        session.whole = Some("SELECT x FROM t WHERE s = 'C'".into());
        let values = Parameters::Positional(vec![ParameterValue::Text(symbol.to_string())]);
        run(&mut session, "SELECT x FROM t WHERE s = $1", &values).expect("it runs");
        assert!(!session.knows("SELECT x FROM t WHERE s = 'C'"));
    }
}

#[test]
fn parameters_are_typed_by_what_they_meet() {
    let mut session = database().session();
    let create =
        "CREATE TABLE t (ts TIMESTAMP, s SYMBOL, x DOUBLE, n INT, d DATE, e DECIMAL(10,2)) TIMESTAMP(ts)";
    run(&mut session, create, &Parameters::None).expect("a new table");
    let values = Parameters::Positional(vec![
        ParameterValue::Timestamp(MICROS * 1_000 + 7),
        ParameterValue::Text("it's".to_string()),
        ParameterValue::Float(-0.1),
        ParameterValue::Integer(-3),
        ParameterValue::Date(19_675),
        ParameterValue::Decimal("-12.50".to_string()),
    ]);
    run(&mut session, "INSERT INTO t VALUES ($1, $2, $3, $4, $5, $6)", &values).expect("it fits");
    check(&mut session, "SELECT s, x, n, d, e FROM t", &["it's -0.1 -3 2023-11-14 -12.50"]);
    for condition in ["ts = $1", "s = $2", "x = $3", "n = $4", "d = $5", "e = $6", "n BETWEEN $4 AND $4"] {
        let sql = format!("SELECT ts, $1, $2, $3, $4, $5, $6 FROM t WHERE {condition}");
        let batches = run(&mut session, &sql, &values).unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 1, "{sql}");
        assert_eq!(
            batches[0].column(0).as_primitive::<TimestampNanosecondType>().value(0),
            MICROS * 1_000 + 7
        );
    }
}

#[test]
fn parameters_stand_in_lists_limits_and_intervals() {
    let mut session = database().session();
    session.set_frames(vec![frame("q")]);
    let rows = |session: &mut Session, sql: &str, parameters: Parameters| {
        let batches = run(session, sql, &parameters).unwrap_or_else(|error| panic!("{sql}: {error}"));
        batches.iter().map(RecordBatch::num_rows).sum::<usize>()
    };
    let named = |name: &str, value| Parameters::Named([(name.to_string(), value)].into_iter().collect());
    let list =
        |values: &[f64]| ParameterValue::List(values.iter().map(|x| ParameterValue::Float(*x)).collect());
    assert_eq!(rows(&mut session, "SELECT * FROM q WHERE bid IN (:x)", named("x", list(&[1.0, 2.0]))), 2);
    assert_eq!(rows(&mut session, "SELECT * FROM q WHERE bid IN (:x)", named("x", list(&[]))), 0);
    assert_eq!(rows(&mut session, "SELECT * FROM q LIMIT :n", named("n", ParameterValue::Integer(2))), 2);
    assert_eq!(rows(&mut session, "SELECT * FROM q WHERE bid > $x", named("x", ParameterValue::Null)), 0);
    let late = "SELECT * FROM q WHERE ts - :d >= '2023-11-14T22:13:20'";
    assert_eq!(rows(&mut session, late, named("d", ParameterValue::Duration(2_000))), 1);
    assert_eq!(rows(&mut session, late, named("d", ParameterValue::Duration(2_001))), 0);
    let nan = "SELECT * FROM q WHERE isnan(:x)";
    assert_eq!(rows(&mut session, nan, named("x", ParameterValue::Float(f64::NAN))), 3);
}

#[test]
fn parameters_are_lengths_of_time_and_intervals() {
    let database = database();
    let mut session = database.session();
    run(&mut session, "CREATE TABLE t (ts TIMESTAMP, x BIGINT) TIMESTAMP(ts)", &Parameters::None).unwrap();
    let insert =
        "INSERT INTO t VALUES ('2024-01-01T00:00:30', 1), ('2024-01-01T00:01:10', 2), ('2024-02-01', 4)";
    run(&mut session, insert, &Parameters::None).unwrap();
    let text = |text: &str| ParameterValue::Text(text.to_string());
    let mut check = |sql: &str, value: ParameterValue, wanted: &[&str]| {
        let named = Parameters::Named([("p".to_string(), value.clone())].into_iter().collect());
        for (sql, values) in
            [(sql.replace(":p", "$1"), Parameters::Positional(vec![value])), (sql.into(), named)]
        {
            let batches = run(&mut session, &sql, &values).unwrap_or_else(|error| panic!("{sql}: {error}"));
            assert_eq!(texts(&batches), wanted, "{sql}");
        }
    };
    let by = "SELECT sum(x) AS x FROM t SAMPLE BY :p FROM '2024-01-01' TO '2024-01-02' ORDER BY ts";
    check(by, text("1m"), &["1", "2"]);
    check(by, text("2 minutes"), &["3"]);
    check(by, ParameterValue::Duration(60_000_000_000), &["1", "2"]);
    check("SELECT x FROM t WHERE ts IN :p AND x < 4 ORDER BY x", text("2024-01"), &["1", "2"]);
    check("SELECT x FROM t WHERE ts NOT IN :p", text("2024-01-01"), &["4"]);
    check("SELECT x FROM t WHERE x IN :p", ParameterValue::List(vec![ParameterValue::Integer(2)]), &["2"]);
    let join = "SELECT count(b.x) AS n FROM t a LT JOIN t b TOLERANCE :p";
    check(join, text("45s"), &["1"]);
    check(join, ParameterValue::Duration(30_000_000_000), &["0"]);
    for (sql, value, said) in [
        (by, ParameterValue::Integer(5), "p is no length of time"),
        (by, text("5x"), "p is no length of time"),
        ("SELECT x FROM t WHERE ts IN :p", text("soon"), "'soon' is no interval of time"),
    ] {
        let named = Parameters::Named([("p".to_string(), value)].into_iter().collect());
        let error = run(&mut session, sql, &named).expect_err(sql);
        assert!(error.message.contains(said), "{sql}: {error}");
    }
    let error = run(&mut session, &by.replace(":p", "$1"), &Parameters::None).expect_err("no value");
    assert!(error.message.contains("placeholder $1 has no value"), "{error}");
    // A driver is told of texts, and of the columns.
    for sql in [by, "SELECT x FROM t WHERE ts IN :p", join] {
        let statement = session.parse(&sql.replace(":p", "$1")).unwrap().remove(0);
        let described = database.runtime().block_on(session.describe(&statement, &[None])).unwrap();
        assert_eq!(described.parameters, [datafusion::arrow::datatypes::DataType::Utf8], "{sql}");
        assert_eq!(described.rows.map(|rows| rows.fields().len()), Some(1), "{sql}");
    }
}

#[test]
fn placeholders_without_a_value_are_pointed_at() {
    let mut session = database().session();
    let mut error = |sql: &str, parameters: Parameters| run(&mut session, sql, &parameters).unwrap_err();
    let missing = error("SELECT 1,\n  $2", Parameters::Positional(vec![ParameterValue::Null]));
    assert_eq!(missing.position.map(|at| (at.line, at.column)), Some((2, 3)));
    assert!(error("SELECT $1", Parameters::None).message.contains("$1"));
    assert!(error("SELECT :a", Parameters::Positional(Vec::new())).hint.is_some());
    assert!(error("SELECT $1", Parameters::Named(Default::default())).hint.is_some());
}

#[test]
fn a_stream_that_is_dropped_is_cancelled() {
    let database = database();
    let mut session = database.session();
    let rows = Int64Array::from_iter_values(0..100_000);
    let batch = RecordBatch::try_from_iter([("n", Arc::new(rows) as ArrayRef)]).expect("one column");
    let frame = Frame::new("f", &batch.schema(), vec![batch], None, &[]).expect("a frame");
    session.set_frames(vec![Arc::new(frame)]);
    // Ten thousand million rows: it ends in time only where it is cancelled.
    let statement = session.parse("SELECT a.n FROM f a CROSS JOIN f b").expect("it is SQL").remove(0);
    database.runtime().block_on(async {
        let Ok(Outcome::Rows { mut stream, .. }) = session.run(statement).await else { panic!("no rows") };
        assert!(stream.next().await.is_some());
    });
    check(&mut session, "SELECT 1", &["1"]);
    drop(session);
    assert!(database.close(std::time::Duration::from_secs(10)));
}

#[test]
fn an_open_transaction_takes_batches() {
    let database = database();
    let mut session = database.session();
    let batch = quotes();
    let mut request = AppendRequest::new("t");
    request.create = true;
    append(&Access::of_owner(&database), &request, &batch.schema(), [Ok(batch.clone())].into_iter())
        .expect("it is stored");
    let more =
        RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]).expect("one");
    let mut appender =
        crate::append::Appender::to_table(&session.access(), "t", &batch.schema()).expect("it fits");
    let cast = appender.cast_owned(&batch).expect("it fits");
    assert!(session.append(appender.table(), &more).is_err(), "no transaction is open");
    run(&mut session, "BEGIN", &Parameters::None).expect("none is open");
    session.append(appender.table(), &cast).expect("it is open");
    check(&mut session, "SELECT count(*) FROM t", &["3"]);
    run(&mut session, "COMMIT", &Parameters::None).expect("it is open");
    check(&mut session, "SELECT count(*) FROM t", &["6"]);
}

#[test]
fn texts_of_a_frame_are_texts() {
    let mut session = database().session();
    let batch =
        RecordBatch::try_from_iter([("v", Arc::new(StringArray::from(vec!["x"])) as ArrayRef)]).expect("one");
    let view =
        arrow_cast::cast(batch.column(0), &datafusion::arrow::datatypes::DataType::Utf8View).expect("a view");
    let batch = RecordBatch::try_from_iter([("v", view)]).expect("one");
    session.set_frames(vec![Arc::new(
        Frame::new("f", &batch.schema(), vec![batch], None, &[]).expect("a frame"),
    )]);
    check(&mut session, "SELECT upper(v) FROM f WHERE v = 'x'", &["X"]);
}

#[test]
fn prepared_statements_take_values() {
    let database = database();
    let mut session = database.session();
    let mut done = |sql: &str| run(&mut session, sql, &Parameters::None).map(drop);
    done("CREATE TABLE t (ts TIMESTAMP, symbol SYMBOL, x DOUBLE) TIMESTAMP(ts)").unwrap();
    done("PREPARE add AS INSERT INTO t VALUES ($1, $2, $3)").unwrap();
    done("EXECUTE add ('2024-01-01', 'A', 1)").unwrap();
    done("EXECUTE ADD (TIMESTAMP '2024-01-02', 'B', -2.5)").unwrap();
    done("EXECUTE add ('2024-01-03', NULL, NULL)").unwrap();
    done("PREPARE one (VARCHAR, DOUBLE) AS SELECT count(*) AS n, sum(x) AS x FROM t WHERE symbol = $1 OR x < $2").unwrap();
    for (sql, said) in [
        ("EXECUTE nothing", "there is no prepared statement nothing"),
        ("EXECUTE one ('A')", "placeholder $2 has no value"),
        ("EXECUTE one ('A', 1, 2)", "a value was given for $3"),
        ("EXECUTE one ('A', 1 + 1)", "EXECUTE takes literals"),
        ("PREPARE one AS SELECT 1", "already"),
        ("PREPARE other AS DROP TABLE t", "PREPARE takes a query, an INSERT, an UPDATE, a DELETE or a MERGE"),
        ("EXECUTE add ('never', 'A', 1)", "never"),
        ("DEALLOCATE nothing", "there is no prepared statement"),
    ] {
        let error = done(sql).expect_err(sql);
        assert!(error.to_string().contains(said), "{sql}: {error}");
    }
    check(&mut session, "EXECUTE one ('A', -1.5)", &["2 -1.5"]);
    check(&mut session, "EXECUTE one ('B', -100)", &["1 -2.5"]);
    let named = Parameters::Positional(vec![ParameterValue::Text("A".into()), ParameterValue::Integer(-9)]);
    let rows = run(&mut session, "EXECUTE one ($1, $2)", &named).unwrap();
    assert_eq!(rows[0].num_rows(), 1);
    run(&mut session, "DEALLOCATE PREPARE one", &Parameters::None).unwrap();
    assert!(run(&mut session, "EXECUTE one ('A', 1)", &Parameters::None).is_err());
    run(&mut session, "DEALLOCATE ALL", &Parameters::None).unwrap();
    assert!(run(&mut session, "EXECUTE add ('2024-01-01', 'A', 1)", &Parameters::None).is_err());
}

#[test]
fn a_defect_in_planning_is_an_error() {
    let database = database();
    let mut session = database.session();
    run(
        &mut session,
        "CREATE TABLE t (ts TIMESTAMP, symbol SYMBOL, p DOUBLE) TIMESTAMP(ts)",
        &Parameters::None,
    )
    .unwrap();
    // DataFusion 55 does not expect windows of one partition by an expression that differ in their frames.
    let sql = "SELECT rank() OVER (PARTITION BY upper(symbol) ORDER BY ts), \
               sum(p) OVER (PARTITION BY upper(symbol) ORDER BY ts RANGE INTERVAL '1 hour' PRECEDING) FROM t";
    if let Err(error) = run(&mut session, sql, &Parameters::None) {
        assert_eq!(error.kind, crate::ErrorKind::Report, "{error}");
    }
    check(&mut session, "SELECT count(*) FROM t", &["0"]);
}
