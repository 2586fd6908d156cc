//! What statements take and give, before they are run; and which errors they end with.

use tickstone_query::arrow::datatypes::{DataType, Field, TimeUnit};
use tickstone_query::{Database, DatabaseOptions, Session, SqlState};

fn session() -> (Database, Session) {
    let database = Database::in_memory(DatabaseOptions::default()).unwrap();
    let mut session = database.session();
    let made = "CREATE TABLE t (ts TIMESTAMP, s SYMBOL, p DOUBLE, n BIGINT, i INT) TIMESTAMP(ts)";
    run(&database, &mut session, made);
    (database, session)
}

fn run(database: &Database, session: &mut Session, sql: &str) {
    database.runtime().block_on(session.query(sql)).unwrap();
}

/// The types of a statement's parameters and of its columns.
fn described(sql: &str, given: &[Option<DataType>]) -> (Vec<DataType>, Option<Vec<DataType>>) {
    let (database, mut session) = session();
    let statement = session.parse(sql).unwrap().remove(0);
    let found = database.runtime().block_on(session.describe(&statement, given)).unwrap();
    let rows = found.rows.map(|rows| rows.fields().iter().map(|field| field.data_type().clone()).collect());
    (found.parameters, rows)
}

const TIME: DataType = DataType::Timestamp(TimeUnit::Nanosecond, None);

fn symbol() -> DataType {
    DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Utf8))
}

fn list(of: DataType) -> DataType {
    DataType::List(Field::new_list_field(of, true).into())
}

#[test]
fn parameters_have_the_type_of_what_they_stand_beside() {
    let (long, double, text) = (DataType::Int64, DataType::Float64, DataType::Utf8);
    for (sql, wanted) in [
        (
            "SELECT * FROM t WHERE s = $1 AND ts >= $2 AND p > $3 LIMIT $4",
            vec![text.clone(), TIME, double.clone(), long.clone()],
        ),
        (
            "SELECT * FROM t WHERE n BETWEEN $1 AND $2 OR i IN ($3, $4)",
            vec![long.clone(), long.clone(), DataType::Int32, DataType::Int32],
        ),
        (
            "SELECT $1::INT, p * $2 FROM t WHERE s LIKE $3",
            vec![DataType::Int32, double.clone(), text.clone()],
        ),
        ("SELECT * FROM t WHERE s = ANY($1) AND n = ANY($2)", vec![list(text.clone()), list(long.clone())]),
        ("SELECT $1", vec![text.clone()]),
        ("SELECT coalesce($1, n) FROM t", vec![long.clone()]),
        (
            "INSERT INTO t VALUES ($1, $2, $3, $4, $5)",
            vec![TIME, symbol(), double.clone(), long.clone(), DataType::Int32],
        ),
        ("INSERT INTO t (n, ts) VALUES ($1, $2), ($3, now())", vec![long.clone(), TIME, long.clone()]),
        ("INSERT INTO t (ts, p) SELECT $1, $2", vec![TIME, double.clone()]),
        ("UPDATE t SET p = $1, n = $2 WHERE s = $3", vec![double.clone(), long.clone(), text.clone()]),
        ("DELETE FROM t WHERE ts < $1", vec![TIME]),
        ("SELECT x FROM generate_series(1, $1::BIGINT) g(x)", vec![long.clone()]),
        ("DECLARE c CURSOR FOR SELECT * FROM t WHERE n > $1", vec![long]),
    ] {
        assert_eq!(described(sql, &[]).0, wanted, "{sql}");
    }
}

#[test]
fn what_the_caller_knows_stands() {
    let given = [Some(DataType::Int16)];
    assert_eq!(described("SELECT $1", &given), (vec![DataType::Int16], Some(vec![DataType::Int16])));
}

#[test]
fn columns_are_told_without_running() {
    for (sql, wanted) in [
        ("SELECT ts, s, p, n + 1 FROM t", Some(vec![TIME, symbol(), DataType::Float64, DataType::Int64])),
        ("SELECT $1 AS a, NULL", Some(vec![DataType::Utf8, DataType::Utf8])),
        ("SELECT ts, avg(p) FROM t WHERE n > $1 SAMPLE BY 1m", Some(vec![TIME, DataType::Float64])),
        ("EXPLAIN SELECT 1", Some(vec![DataType::Utf8, DataType::Utf8])),
        ("INSERT INTO t VALUES ($1, $2, $3, $4, $5)", None),
        ("CREATE TABLE u (x BIGINT)", None),
        ("DECLARE c CURSOR FOR SELECT 1", None),
    ] {
        assert_eq!(described(sql, &[]).1, wanted, "{sql}");
    }
    let (database, mut session) = session();
    let statement = session.parse("SELECT * FROM nosuch WHERE x = $1").unwrap().remove(0);
    let error = database.runtime().block_on(session.describe(&statement, &[])).unwrap_err();
    assert_eq!(error.sql_state(), SqlState::UndefinedTable);
}

#[test]
fn errors_say_what_kind_they_are() {
    let (database, mut session) = session();
    run(&database, &mut session, "INSERT INTO t VALUES ('2024-01-01', 'A', 1, 9223372036854775807, 1)");
    for (sql, wanted) in [
        ("SELEC 1", SqlState::SyntaxError),
        ("SELECT * FROM nosuch", SqlState::UndefinedTable),
        ("DROP TABLE nosuch", SqlState::UndefinedTable),
        ("SELECT nosuch FROM t", SqlState::UndefinedColumn),
        ("INSERT INTO t (ts, nosuch) VALUES (now(), 1)", SqlState::UndefinedColumn),
        ("UPDATE t SET nosuch = 1", SqlState::UndefinedColumn),
        ("SELECT nosuch(1)", SqlState::UndefinedFunction),
        ("SELECT p FROM t GROUP BY n", SqlState::GroupingError),
        ("CREATE TABLE t (x BIGINT)", SqlState::DuplicateTable),
        ("CREATE TABLE u (x NOSUCH)", SqlState::UndefinedObject),
        ("SELECT CAST('x' AS INT)", SqlState::InvalidText),
        ("SELECT CAST('x' AS UUID)", SqlState::InvalidText),
        ("INSERT INTO t VALUES ('2024-01-01', 'A', 'dear', 1, 1)", SqlState::InvalidText),
        ("INSERT INTO t VALUES (NULL, 'A', 1, 1, 1)", SqlState::NotNull),
        ("SELECT 1 / 0", SqlState::DivisionByZero),
        ("SELECT n + 1 FROM t", SqlState::OutOfRange),
        ("COMMIT", SqlState::NoActiveTransaction),
        ("EXECUTE nosuch", SqlState::UndefinedStatement),
        ("SAVEPOINT a", SqlState::NotSupported),
    ] {
        let error = database.runtime().block_on(session.query(sql)).unwrap_err();
        assert_eq!(error.sql_state(), wanted, "{sql}: {error}");
    }
}

#[test]
fn changes_at_once_come_before_no_insert() {
    let (database, mut session) = session();
    session.changes_at_once = true;
    run(&database, &mut session, "BEGIN");
    run(&database, &mut session, "CREATE TABLE u (ts TIMESTAMP, x BIGINT) TIMESTAMP(ts)");
    run(&database, &mut session, "INSERT INTO u VALUES ('2024-01-01', 1)");
    let error = database.runtime().block_on(session.query("DELETE FROM u")).unwrap_err();
    assert_eq!(error.sql_state(), SqlState::ActiveTransaction);
    run(&database, &mut session, "ROLLBACK");
    let rows = database.runtime().block_on(session.query("SELECT * FROM u")).unwrap();
    assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 0);
}
