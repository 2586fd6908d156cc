use super::{GROWING, PIECE_BYTES};
use crate::error::ErrorKind;
use crate::{Database, DatabaseOptions, Outcome};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::execution::SessionStateDefaults;
use futures::TryStreamExt;
use std::time::{Duration, Instant};

const MEMORY: usize = 32 << 20;

fn database(threads: usize) -> Database {
    let options = DatabaseOptions {
        query_memory_bytes: Some(MEMORY),
        query_threads: Some(threads),
        wide_rows_min: if threads == 1 { u64::MAX } else { 1 },
        ..DatabaseOptions::default()
    };
    let database = Database::in_memory(options).unwrap();
    for sql in [
        "CREATE TABLE n (a BIGINT, s VARCHAR, l BIGINT[])",
        "INSERT INTO n SELECT value, 'ab', [1, 2, 3] FROM generate_series(1, 10000) AS g(value)",
    ] {
        database.runtime().block_on(database.session().query(sql)).unwrap();
    }
    database
}

/// Each makes gigabytes of a few bytes.
const TOO_LARGE: [&str; 29] = [
    "repeat('x', 2000000000)",
    "length(repeat('x', 2000000000))",
    "repeat('xy', a + 200000000)",
    "repeat(s, 100000000)",
    "lpad('x', 2000000000)",
    "lpad(s, 200000000, 'yz')",
    "rpad(s, a + 200000000)",
    "array_repeat(1, 2000000000)",
    "array_repeat(s, 100000000)",
    "array_length(range(0, 200000000))",
    "range(200000000)",
    "range(a, a + 100000000)",
    "generate_series(0, 200000000)",
    "generate_series(DATE '1000-01-01', DATE '2200-01-01', INTERVAL '1 second')",
    "generate_series(TIMESTAMP '2000-01-01', TIMESTAMP '2020-01-01', INTERVAL '1 second')",
    "array_resize([1], 200000000, 1)",
    "array_resize(l, 100000000, a)",
    "replace(repeat('a', 1000000), 'a', repeat('b', 10000))",
    "regexp_replace(repeat('a', 1000000), 'a', repeat('b', 10000), 'g')",
    "array_to_string(range(0, 100000), repeat('b', 100000))",
    "string_split(repeat('a', 30000000), '')",
    "regexp_extract_all(repeat('a', 30000000), 'a')",
    "concat(repeat('x', 20000000), repeat('y', 20000000))",
    "len([repeat('x', 20000000), repeat('y', 20000000)])",
    "[repeat('x', a + 20000000), repeat('y', 20000000)]",
    "repeat('x', 20000000) || repeat('y', 20000000)",
    "repeat('a', 9000000) || repeat('b', 9000000) || repeat('c', 9000000) || repeat('d', 9000000)",
    "repeat(s, 4000000 + a) || repeat('y', 30000000)",
    "concat(repeat('a', 9000000), repeat('b', 9000000), repeat('c', 9000000), repeat('d', 9000000))",
];

fn refused(database: &Database, sql: &str) {
    let error = database.runtime().block_on(database.session().query(sql)).expect_err(sql);
    assert_eq!(error.kind, ErrorKind::FreeSpace, "{sql}: {error}");
    assert!(error.message.contains("(query_memory)"), "{sql}: {error}");
}

#[test]
fn every_function_that_grows_is_one() {
    let known =
        SessionStateDefaults::default_scalar_functions().into_iter().chain(crate::functions::rowwise::all());
    let known: Vec<_> = known.collect();
    for (name, _) in GROWING {
        assert!(known.iter().any(|function| function.name() == name), "{name}");
    }
}

#[test]
fn what_does_not_fit_is_refused_before_it_is_made() {
    for threads in [1, 2] {
        let database = database(threads);
        for call in TOO_LARGE {
            let begun = Instant::now();
            let sql = format!("SELECT {call} FROM n");
            refused(&database, &sql);
            let is_text = ["repeat", "lpad", "rpad", "replace", "regexp_replace", "concat"]
                .iter()
                .any(|name| call.starts_with(name));
            if is_text {
                refused(&database, &format!("SELECT a FROM n WHERE {call} <> 'q' AND a > 0"));
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "{sql} took {:?}", begun.elapsed());
        }
        assert_eq!(database.base_state().runtime_env().memory_pool.reserved(), 0);
    }
}

/// Rows and bytes of the first column, and the most rows of a batch.
fn sizes(database: &Database, sql: &str) -> (usize, usize, usize) {
    database.runtime().block_on(async {
        let mut session = database.session();
        let statement = session.parse(sql).unwrap().remove(0);
        let Outcome::Rows { mut stream, .. } = session.run(statement).await.unwrap() else { panic!("{sql}") };
        let (mut rows, mut bytes, mut most) = (0, 0, 0);
        while let Some(batch) = stream.try_next().await.unwrap_or_else(|error| panic!("{sql}: {error}")) {
            rows += batch.num_rows();
            most = most.max(batch.num_rows());
            bytes += batch.column(0).as_string::<i32>().iter().flatten().map(str::len).sum::<usize>();
        }
        (rows, bytes, most)
    })
}

#[test]
fn large_results_go_out_in_pieces() {
    for threads in [1, 2] {
        let database = database(threads);
        for (sql, each) in [
            ("SELECT repeat('x', 20000) AS v FROM n", 20_000),
            ("SELECT repeat(s, 10000) AS v FROM n", 20_000),
            ("SELECT concat(s, repeat('x', 20000)) AS v FROM n", 20_002),
            ("SELECT s || repeat('x', 20000) AS v FROM n", 20_002),
            ("SELECT v || v || 'z' AS v FROM (SELECT repeat(s, 5000) AS v FROM n)", 20_001),
            ("SELECT lpad(s, a - a + 20000) AS v FROM n", 20_000),
            ("SELECT CASE WHEN a % 2 = 0 THEN repeat(s, 10000) ELSE rpad(s, 20000) END AS v FROM n", 20_000),
        ] {
            let (rows, bytes, most) = sizes(&database, sql);
            assert_eq!((rows, bytes), (10_000, 10_000 * each), "{sql}");
            assert!(most <= 2 * PIECE_BYTES as usize / 20_000, "{most} rows at once: {sql}");
        }
        let sql = "SELECT count(*) AS c FROM n WHERE length(repeat(s, 10000)) = 20000 AND a <= 9000";
        let batches = database.runtime().block_on(database.session().query(sql)).unwrap();
        assert_eq!(batches[0].column(0).as_primitive::<Int64Type>().value(0), 9_000);
    }
}

#[test]
fn what_fits_is_what_it_was() {
    let database = database(2);
    let query = |sql: &str| database.runtime().block_on(database.session().query(sql)).unwrap();
    let text = |sql: &str| {
        let batches = query(&format!("SELECT CAST({sql} AS VARCHAR) AS v"));
        let value = batches[0].column(0).as_string::<i32>().iter().next().unwrap();
        value.map(str::to_string)
    };
    for (call, wanted) in [
        ("repeat('ab', 3)", Some("ababab")),
        ("repeat('ab', -1)", Some("")),
        ("repeat(NULL, 3)", None),
        ("lpad('x', 3, 'ab')", Some("abx")),
        ("rpad('x', 3)", Some("x  ")),
        ("replace('aXbX', 'X', '--')", Some("a--b--")),
        ("concat('a', NULL, 'b')", Some("ab")),
        ("concat_ws('-', 'a', NULL, 'b')", Some("a-b")),
        ("array_to_string(range(0, 5, 2), ',')", Some("0,2,4")),
        ("array_to_string(range(5, 0, -2), ',')", Some("5,3,1")),
        ("array_to_string(array_repeat(7, 2), '+')", Some("7+7")),
        ("array_to_string(flatten([[1], [2, 3]]), '')", Some("123")),
        ("array_to_string(array_append([1], 2), '')", Some("12")),
        ("to_char(DATE '2024-01-02', '%Y/%m')", Some("2024/01")),
        ("'a' || 'b' || 'c'", Some("abc")),
        ("'a' || NULL", None),
        ("NULL || 'a' || 'b'", None),
        ("'a' || 1 || 2.5", Some("a12.5")),
        ("array_to_string([1] || 2 || [3], '')", Some("123")),
        ("(SELECT s || 'x' || s FROM n LIMIT 1)", Some("abxab")),
        ("overlay('abc' PLACING 'X' FROM 2 FOR 1)", Some("aXc")),
    ] {
        assert_eq!(text(call).as_deref(), wanted, "{call}");
    }
}

/// Copies of a long constant are claimed wherever an expression makes them.
#[test]
fn copies_of_constants_are_claimed() {
    let database = database(2);
    let case = "CASE WHEN a > 1 THEN repeat('x', 1000000) ELSE s END";
    for sql in [
        format!("SELECT max({case}) FROM n"),
        format!("SELECT count(DISTINCT {case}) FROM n WHERE a < 5000"),
        format!("SELECT {case} AS k, count(*) FROM n GROUP BY k"),
        format!("SELECT a FROM n ORDER BY {case}, a LIMIT 1"),
        format!("SELECT max(l) FROM (SELECT lag({case}) OVER (ORDER BY a) AS l FROM n)"),
        "SELECT count(*) FROM n JOIN n AS b ON CASE WHEN n.a > 1 THEN repeat('x', 1000000) ELSE n.s END = b.s".to_string(),
        "SELECT string_agg(repeat('x', 1000000), '') FROM n".to_string(),
        "SELECT max(coalesce(nullif(s, 'ab'), repeat('x', 1000000))) FROM n".to_string(),
    ] {
        refused(&database, &sql);
    }
    let query = |sql: &str| database.runtime().block_on(database.session().query(sql)).unwrap();
    for (sql, wanted) in [
        (format!("SELECT length(max({case})) FROM n WHERE a < 9"), 1_000_000),
        (format!("SELECT count(*) FROM n WHERE length({case}) > 9"), 9_999),
        ("SELECT length(string_agg(repeat('x', 100000), '-')) FROM n WHERE a < 9".to_string(), 800_007),
    ] {
        let batches = query(&sql);
        assert_eq!(
            cast(batches[0].column(0), &DataType::Int64).unwrap().as_primitive::<Int64Type>().value(0),
            wanted,
            "{sql}"
        );
    }
    let batches = query("SELECT max(CASE WHEN a > 1 THEN 'xyz' ELSE s END) FROM n");
    assert_eq!(batches[0].column(0).as_string::<i32>().value(0), "xyz");
}

/// `||` is a function within, and named as the operator.
#[test]
fn joined_texts_are_called_as_they_were() {
    let database = database(2);
    let query = |sql: &str| database.runtime().block_on(database.session().query(sql)).unwrap();
    for (sql, wanted) in [
        ("SELECT s || 'x' FROM n LIMIT 1", "s || 'x'"),
        ("SELECT s || 'x' FROM n GROUP BY s || 'x'", "s || 'x'"),
        ("SELECT max(s || 'x') FROM n HAVING max(s || 'x') > ''", "max(s || 'x')"),
    ] {
        let batches = query(sql);
        assert_eq!(batches[0].schema().field(0).name(), wanted, "{sql}");
        assert_eq!(batches[0].column(0).as_string::<i32>().value(0), "abx", "{sql}");
    }
    let sql = "SELECT count(*) FROM n AS a JOIN n AS b ON a.s || a.a = b.s || b.a";
    assert_eq!(query(sql)[0].column(0).as_primitive::<Int64Type>().value(0), 10_000);
}
