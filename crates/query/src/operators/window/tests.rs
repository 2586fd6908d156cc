use crate::{Database, DatabaseOptions, Outcome, Session};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::TryStreamExt;
use proptest::prelude::*;
use tickstone_engine::EngineOptions;

/// One row of a table: seconds, symbol, a double, a whole number, a double that may be NaN.
pub(in crate::operators) type Row = (i64, Option<&'static str>, Option<f64>, Option<i64>, Option<f64>);

fn any_row() -> impl Strategy<Value = Row> {
    let symbol =
        prop_oneof![6 => Just(Some("A")), 2 => Just(Some("B")), 1 => Just(Some("C")), 1 => Just(None)];
    let some = |x: i32| Some(f64::from(x) / 10.0);
    let number = prop_oneof![5 => (1_i32..900).prop_map(some), 1 => Just(None)];
    let whole = prop_oneof![5 => (-50_i64..50).prop_map(Some), 1 => Just(None)];
    let any = prop_oneof![4 => (1_i32..900).prop_map(some), 1 => Just(Some(f64::NAN)), 1 => Just(None)];
    (0_i64..40, symbol, number, whole, any)
}

/// Commits, and whether all is sealed after each.
pub(in crate::operators) fn any_commits() -> impl Strategy<Value = Vec<(Vec<Row>, bool)>> {
    prop::collection::vec((prop::collection::vec(any_row(), 0..40), any::<bool>()), 0..4)
}

/// A table `t` of these rows, in slices of a few; `n` counts them as they arrive. Without `ties` no two times are equal.
pub(in crate::operators) fn database(commits: &[(Vec<Row>, bool)], ties: bool) -> Database {
    database_with(commits, ties, None)
}

pub(in crate::operators) fn database_with(
    commits: &[(Vec<Row>, bool)],
    ties: bool,
    query_memory_bytes: Option<usize>,
) -> Database {
    let engine = EngineOptions { background: false, threads: 1, slice_rows: 16, ..EngineOptions::default() };
    let options = DatabaseOptions { query_threads: Some(2), wide_rows_min: 1, engine, query_memory_bytes };
    let database = Database::in_memory(options).unwrap();
    run(
        &database,
        "CREATE TABLE t (n BIGINT, ts TIMESTAMP, s SYMBOL, v SYMBOL, x DOUBLE, k BIGINT, z DOUBLE, w VARCHAR)
         TIMESTAMP(ts) SERIES BY (s, v)",
    );
    let mut n = 0;
    for (rows, seal) in commits {
        let values = rows.iter().map(|(second, symbol, x, k, z)| {
            n += 1;
            let symbol = symbol.map_or("NULL".to_string(), |symbol| format!("'{symbol}'"));
            let double = |x: &Option<f64>| x.map_or("NULL".to_string(), |x| format!("'{x}'::double"));
            let k = k.map_or("NULL".to_string(), |k| k.to_string());
            let (venue, x, z) = (["p", "q"][n % 2], double(x), double(z));
            let nanos = if ties { 0 } else { n };
            format!(
                "({n}, '2024-01-01T00:00:{second:02}.{nanos:09}', {symbol}, '{venue}', {x}, {k}, {z}, 'w{n}')"
            )
        });
        let values: Vec<String> = values.collect();
        if !values.is_empty() {
            run(&database, &format!("INSERT INTO t VALUES {}", values.join(", ")));
        }
        if *seal {
            database.engine().seal(None).unwrap();
        }
    }
    database
}

/// The rows of a statement, values as text.
pub(in crate::operators) fn run(database: &Database, sql: &str) -> Vec<Vec<String>> {
    let mut session = database.session();
    // Enough rows for several partitions, and for stretches of time that are cut.
    run_in(&mut session, database, &format!("SET execution.batch_size = {}", 1 + sql.len() % 3));
    run_in(&mut session, database, sql)
}

/// The same by DataFusion's own operators.
pub(in crate::operators) fn run_plainly(database: &Database, sql: &str) -> Vec<Vec<String>> {
    let mut session = database.session();
    run_in(&mut session, database, "SET pipeline = false");
    run_in(&mut session, database, sql)
}

pub(in crate::operators) fn run_in(
    session: &mut Session,
    database: &Database,
    sql: &str,
) -> Vec<Vec<String>> {
    let batches: Vec<RecordBatch> = database.runtime().block_on(async {
        let statement = session.parse(sql).unwrap().remove(0);
        match session.run(statement).await.unwrap_or_else(|error| panic!("{sql}: {error}")) {
            Outcome::Rows { stream, .. } => {
                stream.try_collect().await.unwrap_or_else(|e| panic!("{sql}: {e}"))
            }
            Outcome::Done { .. } => Vec::new(),
        }
    });
    texts(&batches)
}

/// Values as text.
pub(in crate::operators) fn texts(batches: &[RecordBatch]) -> Vec<Vec<String>> {
    let options = FormatOptions::default().with_null("-");
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap());
        let columns: Vec<_> = columns.collect();
        rows.extend(
            (0..batch.num_rows())
                .map(|row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>()),
        );
    }
    rows
}

pub(in crate::operators) fn plan(database: &Database, sql: &str) -> String {
    run(database, &format!("EXPLAIN {sql}")).concat().concat()
}

/// Rows in order of their first value, which is a number.
pub(in crate::operators) fn by_number(mut rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    rows.sort_by_key(|row| row[0].parse::<i64>().unwrap());
    rows
}

/// Whether two values are the same, doubles but for their last digits.
pub(in crate::operators) fn same(a: &str, b: &str) -> bool {
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-12 * a.abs().max(b.abs()).max(1.0);
    a == b || matches!((a.parse::<f64>(), b.parse::<f64>()), (Ok(a), Ok(b)) if a.is_finite() && close(a, b))
}

/// Compares windows over series with DataFusion's.
fn check(commits: &[(Vec<Row>, bool)], ties: bool, function: &str, frame: &str, rest: &str) {
    let database = &database(commits, ties);
    let sql = |partition: &str, order: &str| {
        format!("SELECT n, {function} OVER (PARTITION BY {partition} {order} {frame}) AS r FROM t {rest}")
    };
    // Among equal times the order of arrival.
    let by_rows = frame.starts_with("ROWS");
    let order = if by_rows { "ORDER BY ts, n" } else { "ORDER BY ts" };
    // Among equal times of several series there is no order.
    for keys in &["v, s", "s", "v"][..if by_rows && ties { 1 } else { 3 }] {
        compare(database, &sql(keys, "ORDER BY ts"), &sql(keys, order));
    }
}

/// Compares what windows over series give with what DataFusion's do for another statement.
fn compare(database: &Database, ours: &str, theirs: &str) {
    assert!(plan(database, ours).contains("SeriesWindowExec"), "{ours}");
    let (found, expected) = (by_number(run(database, ours)), by_number(run_plainly(database, theirs)));
    assert_eq!(found.len(), expected.len(), "{ours}");
    for (found, expected) in found.iter().zip(&expected) {
        let same = found.iter().zip(expected).all(|(a, b)| same(a, b));
        assert!(same, "{ours}\n{found:?}\n{expected:?}\n{}", plan(database, ours));
    }
}

/// The same for windows over rows that were sorted for them.
fn compare_sorted(database: &Database, sql: &str) {
    let (found, expected) = (by_number(run(database, sql)), by_number(run_plainly(database, sql)));
    assert_eq!(found.len(), expected.len(), "{sql}");
    for (found, expected) in found.iter().zip(&expected) {
        let same = found.iter().zip(expected).all(|(a, b)| same(a, b));
        assert!(same, "{sql}\n{found:?}\n{expected:?}\n{}", plan(database, sql));
    }
}

const ROWS: [&str; 10] = [
    "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 4 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 20 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 2 PRECEDING AND 3 FOLLOWING",
    "ROWS BETWEEN 5 PRECEDING AND 2 PRECEDING",
    "ROWS BETWEEN 1 FOLLOWING AND 30 FOLLOWING",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN CURRENT ROW AND CURRENT ROW",
];

const TIMES: [&str; 5] = [
    "",
    "RANGE BETWEEN INTERVAL '5 seconds' PRECEDING AND CURRENT ROW",
    "RANGE BETWEEN INTERVAL '9 seconds' PRECEDING AND INTERVAL '2 seconds' PRECEDING",
    "RANGE BETWEEN CURRENT ROW AND INTERVAL '4 seconds' FOLLOWING",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
];

/// Functions whose results do not hang on which of two rows of one time comes first.
const FUNCTIONS: [&str; 14] = [
    "sum(x)",
    "avg(x)",
    "count(x)",
    "count(*)",
    "sum(k)",
    "avg(k)",
    "min(k)",
    "max(k)",
    "min(z)",
    "max(z)",
    "max(ts)",
    "vwap(k, k * k + 1)",
    "count(x) FILTER (WHERE k > 0)",
    "sum(DISTINCT k)",
];

/// Other functions, of rows in one order.
const MORE: [&str; 16] = [
    "stddev(x)",
    "var_pop(k)",
    "corr(x, k)",
    "covar_samp(x, k)",
    "regr_slope(x, k)",
    "skewness(k)",
    "median(x)",
    "median(k)",
    "min(x::REAL)",
    "max(k::SMALLINT)",
    "min(ts::DATE)",
    "max(x::DECIMAL(10, 2))",
    "lag(k, 2)",
    "row_number()",
    "nth_value(w, 2)",
    "last_value(x)",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn aggregates_over_rows(
        commits in any_commits(), ties in any::<bool>(), function in prop::sample::select(&FUNCTIONS[..]),
        frame in prop::sample::select(&ROWS[..]),
    ) {
        check(&commits, ties, function, frame, "");
    }

    #[test]
    fn aggregates_over_times(
        commits in any_commits(), ties in any::<bool>(), function in prop::sample::select(&FUNCTIONS[..13]),
        frame in prop::sample::select(&TIMES[..]),
    ) {
        check(&commits, ties, function, frame, "");
    }

    #[test]
    fn values_at_places(
        commits in any_commits(), ties in any::<bool>(),
        function in prop::sample::select(&[
            "first_value(x)", "last_value(w)", "nth_value(k, 2)", "nth_value(x, 1)", "nth_value(w, -2)", "nth_value(k, 0)",
            "nth_value(k, 3) IGNORE NULLS", "nth_value(x, -1) IGNORE NULLS", "nth_value(z, -2) IGNORE NULLS",
            "nth_value(x, 200)", "ntile(1)", "ntile(3)", "ntile(7)", "ntile(5000)", "first_value(z) IGNORE NULLS", "lag(x)",
            "lead(w, 3, 'none')", "lag(k, 2) IGNORE NULLS", "lag(w) IGNORE NULLS", "lead(k, 2) IGNORE NULLS",
            "lag(x, -1) IGNORE NULLS", "last_value(x) IGNORE NULLS", "first_value(w) IGNORE NULLS", "last_value(v) IGNORE NULLS", "lag(k, 0)", "lead(w, 0)", "lead(x, 0, 1.0)", "lag(x, -2)", "row_number()", "log_return(x)",
            "stddev(x)",
        ][..]),
        frame in prop::sample::select(&ROWS[..]),
    ) {
        check(&commits, ties, function, frame, "");
    }

    #[test]
    fn finer_partitions_and_other_orders(
        commits in any_commits(),
        ties in any::<bool>(),
        function in prop::sample::select(&FUNCTIONS[..]),
        more in prop::sample::select(&MORE[..]),
        keys in prop::sample::select(&[
            "s", "s, k", "k % 2, s, v", "s, date_trunc('minute', ts)", "v, z", "s, w LIKE '%1%'", "extract(second FROM ts) < 20, v",
        ][..]),
        order in prop::sample::select(&[
            "ts, n", "n", "k, n", "x DESC, n", "k DESC NULLS LAST, ts, n", "ts, k DESC, n", "ts DESC, n", "w, n", "z, n",
        ][..]),
        frame in prop::sample::select(&ROWS[..]),
    ) {
        let database = database(&commits, ties);
        let sql = |function: &str| format!("SELECT n, {function} OVER (PARTITION BY {keys} ORDER BY {order} {frame}) FROM t");
        compare(&database, &sql(function), &sql(function));
        compare(&database, &sql(more), &sql(more));
        let windows = format!(
            "SELECT n, r, sum(r) OVER (PARTITION BY s, v ORDER BY n) FROM ({}) WHERE r > 0",
            sql("count(*)").trim_end_matches(" FROM t").to_string() + " AS r, s, v FROM t"
        );
        compare(&database, &windows, &windows);
    }

    #[test]
    fn in_order_of_series_and_time(
        commits in any_commits(),
        (keys, order) in prop::sample::select(&[
            ("s, v", "s, v, ts"), ("s, v", "v DESC, s, ts"), ("s", "s DESC NULLS FIRST, ts"), ("v", "v, ts"), ("s, v", "s, v"),
            ("s, v", "v"), ("s", "s NULLS FIRST"), ("s, k", "s, ts"),
        ][..]),
        rest in prop::sample::select(&["", "WHERE k > 0", "WHERE s = 'A'", "QUALIFY count(*) OVER (PARTITION BY s, v) > 2"][..]),
    ) {
        let database = database(&commits, false);
        let sql = format!("SELECT s, v, ts, n, sum(k) OVER (PARTITION BY {keys} ORDER BY ts) FROM t {rest} ORDER BY {order}");
        let text = plan(&database, &sql);
        assert!(text.contains("order=series") && !text.contains("SortExec"), "{text}");
        let (found, expected) = (run(&database, &sql), run_plainly(&database, &format!("{sql}, ts, n")));
        if order.ends_with("ts") {
            assert_eq!(found, expected, "{sql}");
        } else {
            let of = |row: &Vec<String>| if order == "v" { row[1].clone() } else { row[0].clone() };
            assert_eq!(found.iter().map(of).collect::<Vec<_>>(), expected.iter().map(of).collect::<Vec<_>>(), "{sql}");
        }
    }

    #[test]
    fn peers(
        commits in any_commits(),
        function in prop::sample::select(&FUNCTIONS[..13]),
        keys in prop::sample::select(&["s", "s, k", "v, s, k % 3"][..]),
        order in prop::sample::select(&["ts, k", "k", "k DESC, ts", "w", "z, v"][..]),
        frame in prop::sample::select(&[
            "", "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", "GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW",
            "RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
        ][..]),
    ) {
        let database = database(&commits, true);
        for function in [function, "rank()", "dense_rank()"] {
            let frame = if function.ends_with("rank()") { "" } else { frame };
            let sql = format!("SELECT n, {function} OVER (PARTITION BY {keys} ORDER BY {order} {frame}) FROM t");
            compare(&database, &sql, &sql);
        }
    }

    #[test]
    fn sorted_by_anything(
        commits in any_commits(),
        ties in any::<bool>(),
        (function, more) in (prop::sample::select(&FUNCTIONS[..]), prop::sample::select(&MORE[..])),
        keys in prop::sample::select(&["", "PARTITION BY k % 3", "PARTITION BY z", "PARTITION BY w < 'w3', k"][..]),
        order in prop::sample::select(&[
            "ts, n", "n", "n DESC", "k, n", "x DESC, n", "k DESC NULLS LAST, ts, n", "w", "s, ts, n", "z, n",
        ][..]),
        frame in prop::sample::select(&ROWS[..]),
        rows in prop::sample::select(&[
            "t", "(SELECT * FROM t WHERE k > 0)", "(SELECT * FROM t ORDER BY ts, n LIMIT 20)",
        ][..]),
    ) {
        let database = database(&commits, ties);
        let sql = format!(
            "SELECT n, {function} OVER w, {more} OVER w, lag(x, 3) OVER w, lead(w) OVER w, lag(k, 0) OVER w, lead(k, 0) OVER w, lead(k, 1) OVER w, lag(k, -1) OVER w, rank() OVER w, dense_rank() OVER w
             FROM {rows} WINDOW w AS ({keys} ORDER BY {order} {frame})"
        );
        compare_sorted(&database, &sql);
        let peers = order.split(", n").next().unwrap();
        for frame in ["", "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"] {
            let over = format!("({keys} ORDER BY {peers} {frame})");
            let function = if function.contains("DISTINCT") { "count(k)" } else { function };
            compare_sorted(&database, &format!("SELECT n, {function} OVER {over}, max(k) OVER {over} FROM {rows}"));
            compare_sorted(
                &database,
                &format!("SELECT n, rank() OVER {over}, dense_rank() OVER {over}, count(*) OVER {over} FROM {rows}"),
            );
        }
        let first = format!(
            "SELECT n, sum(k) OVER (ORDER BY ts, n), avg(k) OVER (ORDER BY ts, n ROWS 3 PRECEDING) FROM {rows} ORDER BY ts, n LIMIT 7"
        );
        prop_assert_eq!(run(&database, &first), run_plainly(&database, &first), "{}", first);
    }

    #[test]
    fn groups_of_windows(
        commits in any_commits(),
        ties in any::<bool>(),
        window in prop::sample::select(&[
            "sum(CASE WHEN x > 40 THEN 1 END) OVER (PARTITION BY s, v ORDER BY ts, n)",
            "row_number() OVER (PARTITION BY s ORDER BY ts, n) / 3",
            "lag(k) OVER (PARTITION BY v, s ORDER BY ts, n)",
            "max(k) OVER (PARTITION BY s)",
        ][..]),
        rest in prop::sample::select(&["", "WHERE k > 0", "WHERE r IS NOT NULL"][..]),
        keys in prop::sample::select(&["s, v, r", "v, s", "r, s", "s, r % 2, v"][..]),
    ) {
        let database = database(&commits, ties);
        let aggregates = "count(*), sum(k), min(x), max(w), count(DISTINCT k), avg(x) FILTER (WHERE v = 'p')";
        let sql = format!(
            "SELECT row_number() OVER (ORDER BY {keys}), {keys}, {aggregates}
             FROM (SELECT *, {window} AS r FROM t) {rest} GROUP BY {keys}"
        );
        let text = plan(&database, &sql);
        // Where no key is by windows, nothing is made of them; columns that are read last stand between.
        let by_series = rest.is_empty() && keys.contains('r') && (!window.contains('v') || keys.contains('v'));
        prop_assert!(!by_series || text.contains("grouped by") || text.contains("EmptyExec"), "{}\n{}", sql, text);
        let (found, expected) = (by_number(run(&database, &sql)), by_number(run_plainly(&database, &sql)));
        prop_assert_eq!(found.len(), expected.len(), "{}", sql);
        for (found, expected) in found.iter().zip(&expected) {
            prop_assert!(found.iter().zip(expected).all(|(a, b)| same(a, b)), "{}\n{:?}\n{:?}", sql, found, expected);
        }
    }

    #[test]
    fn only_some_rows(
        commits in any_commits(), ties in any::<bool>(), function in prop::sample::select(&FUNCTIONS[..]),
        rest in prop::sample::select(&[
            "WHERE s = 'A'", "WHERE s IN ('A', 'C')", "WHERE ts >= '2024-01-01T00:00:20'", "WHERE k > 0",
            "WHERE s IS NULL", "WHERE x + k > 20 AND s <> 'B'", "WHERE ts < '2020-01-01'",
        ][..]),
    ) {
        check(&commits, ties, function, ROWS[1], rest);
        check(&commits, ties, function, ROWS[2], rest);
    }
}

/// Rows of two symbols, late ones in a run.
pub(in crate::operators) fn some() -> Database {
    let row =
        |second: i64, symbol: &'static str, x: f64| (second, Some(symbol), Some(x), Some(second), Some(x));
    let first = (0..30).map(|at| row(at, ["A", "B"][at as usize % 2], at as f64)).collect();
    let second = (0..10).map(|at| row(at * 4, "A", 100.0 + at as f64)).collect();
    database(&[(first, true), (second, false)], false)
}

#[test]
fn composes_with_the_rest_of_sql() {
    let database = some();
    let window = "OVER (PARTITION BY s ORDER BY ts ROWS 2 PRECEDING)";
    let sorted = format!("SELECT s, ts, n, sum(k) {window} AS r FROM t ORDER BY s, ts, n");
    let text = plan(&database, &sorted);
    assert!(text.find("SortExec") < text.find("SeriesWindowExec") && text.contains("SortExec"), "{text}");
    assert!(run(&database, &sorted).is_sorted_by_key(|row| (row[0].clone(), row[1].clone())));
    assert_eq!(run(&database, &format!("SELECT sum(k) {window} AS r FROM t LIMIT 3")).len(), 3);
    let filtered = format!("SELECT n FROM (SELECT n, s, row_number() {window} AS r FROM t) WHERE r <= 2");
    assert_eq!(run(&database, &filtered).len(), 4);
    let both = "SELECT n, sum(x * 2 + 1) OVER w, avg(x * 2 + 1) OVER w, max(k) OVER (PARTITION BY s), \
                count(*) OVER (PARTITION BY s ORDER BY ts DESC) FROM t \
                WINDOW w AS (PARTITION BY s ORDER BY ts ROWS 2 PRECEDING)";
    let text = plan(&database, both);
    assert_eq!(text.matches("SeriesWindowExec:").count(), 1, "{text}");
    let in_order = both.replace("ORDER BY ts ROWS", "ORDER BY ts, n ROWS");
    compare(&database, both, &in_order);
}

#[test]
fn one_series_is_in_order_of_time() {
    let database = some();
    let sql = "SELECT ts, sum(k) OVER (PARTITION BY s ORDER BY ts ROWS 2 PRECEDING) AS r FROM t \
               WHERE s = 'A' AND v = 'p' ORDER BY ts";
    let text = plan(&database, sql);
    assert!(text.contains("SeriesWindowExec") && !text.contains("SortExec"), "{text}");
    assert!(run(&database, sql).is_sorted_by_key(|row| row[0].clone()));
}

#[test]
fn what_is_not_by_series_is_sorted_first() {
    let database = some();
    for over in ["PARTITION BY k ORDER BY ts", "ORDER BY ts", "ORDER BY s, ts"] {
        let text = plan(&database, &format!("SELECT count(*) OVER ({over}) FROM t"));
        assert!(!text.contains("SeriesWindowExec") && text.contains("SortedWindowExec"), "{text}");
    }
    let other = "SELECT percent_rank() OVER (ORDER BY ts) FROM t";
    assert!(plan(&database, other).contains("WindowAggExec"));
}

#[test]
fn explain_counts_the_rows_read() {
    let sql = "EXPLAIN ANALYZE SELECT sum(k) OVER (PARTITION BY s ORDER BY ts) FROM t";
    let text = run(&some(), sql).concat().concat();
    assert!(text.contains("rows_selected=40") && text.matches("output_rows=40").count() >= 2, "{text}");
}

#[test]
fn descending_windows_are_turned_round() {
    let database = some();
    for (function, frame) in [
        ("sum(k)", "ROWS 2 PRECEDING"),
        ("lag(k, 2, -1)", ""),
        ("lead(k)", ""),
        ("first_value(k)", "ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING"),
        ("max(k)", "RANGE BETWEEN INTERVAL '5 seconds' PRECEDING AND CURRENT ROW"),
        ("count(*)", ""),
    ] {
        let sql = |keys: &str| {
            format!("SELECT n, {function} OVER (PARTITION BY {keys} ORDER BY ts DESC {frame}) FROM t")
        };
        assert!(plan(&database, &sql("s")).contains("SeriesWindowExec"), "{function}");
        let expected = by_number(run_plainly(&database, &sql("s")));
        assert_eq!(by_number(run(&database, &sql("s"))), expected, "{function} {frame}");
    }
    let sql = "SELECT n, row_number() OVER (PARTITION BY s ORDER BY ts DESC) FROM t";
    assert!(plan(&database, sql).contains("sorted by"));
    compare(&database, sql, sql);
}

#[test]
fn what_leaves_a_frame_is_gone() {
    let values = [1e300, f64::INFINITY, 2.0, f64::NAN, -1e300, 3.0];
    let rows: Vec<Row> = (0..60)
        .map(|at| (at, Some("A"), Some(values.get(at as usize).copied().unwrap_or(0.1)), Some(1), None))
        .collect();
    let database = database(&[(rows, true)], false);
    for rows in [3, 30] {
        let sql = format!(
            "SELECT n, sum(x) OVER w, avg(x) OVER w, vwap(x, k) OVER w FROM t \
             WINDOW w AS (PARTITION BY s ORDER BY ts ROWS {rows} PRECEDING)"
        );
        let last = by_number(run(&database, &sql)).pop().unwrap();
        let expected = 0.1 * f64::from(rows + 1);
        assert!(same(&last[1], &expected.to_string()), "{last:?}");
        assert!(same(&last[2], "0.1") && same(&last[3], "0.1"), "{last:?}");
    }
}

#[test]
fn too_little_memory_is_an_error() {
    let rows: Vec<Row> = (0..60).map(|at| (at, Some("A"), Some(0.5), Some(at), None)).collect();
    let database = database_with(&[(rows, true)], false, Some(1_000));
    let mut session = database.session();
    let sql = "SELECT sum(x) OVER (PARTITION BY s, v ORDER BY ts) FROM t";
    let error = database.runtime().block_on(async {
        match session.run(session.parse(sql).unwrap().remove(0)).await.unwrap() {
            Outcome::Rows { stream, .. } => stream.try_collect::<Vec<_>>().await.unwrap_err().to_string(),
            Outcome::Done { .. } => String::new(),
        }
    });
    assert!(error.contains("memory"), "{error}");
}
