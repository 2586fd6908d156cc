use crate::operators::window::tests::{any_commits, by_number, database, plan, run, run_plainly, same, some};
use proptest::prelude::*;

/// Conditions on windows that say which rows are kept.
const KEPT: [&str; 14] = [
    "x = max(x) OVER (PARTITION BY v)",
    "k = min(k) OVER (PARTITION BY v, s)",
    "x >= avg(x) OVER ()",
    "k = max(k) OVER (PARTITION BY k % 3)",
    "row_number() OVER (PARTITION BY s ORDER BY x DESC, n) <= 2",
    "rank() OVER (PARTITION BY v, date_trunc('minute', ts) ORDER BY k DESC) = 1",
    "count(*) OVER (PARTITION BY w) > 0 AND n > 3",
    "sum(k) OVER (PARTITION BY s ORDER BY ts, n) > 0",
    "n = max(n) OVER (PARTITION BY s) OR x = min(x) OVER (PARTITION BY v)",
    "lag(k) OVER (ORDER BY n) < k",
    "median(x) OVER (PARTITION BY v) < x",
    "false AND count(*) OVER (PARTITION BY v) > 1",
    "lag(k) OVER (ORDER BY ts, n) < k",
    "count(*) OVER (ORDER BY ts) > 3",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn kept_rows_are_whole(
        commits in any_commits(),
        ties in any::<bool>(),
        kept in prop::sample::select(&KEPT[..]),
        rows in prop::sample::select(&["t", "t WHERE ts >= '2024-01-01T00:00:10'", "t WHERE s = 'A'", "t WHERE k > 0"][..]),
        columns in prop::sample::select(&[
            "*", "n, w, z", "n, k + 1, w AS other, s", "n, upper(w), ts", "n, ts, v, x, z, max(k) OVER (PARTITION BY s)",
        ][..]),
    ) {
        let database = database(&commits, ties);
        let sql = format!("SELECT {columns} FROM {rows} QUALIFY {kept}");
        check(&database, &sql);
        let sql = format!("SELECT {columns} FROM (SELECT *, n AS m FROM (SELECT * FROM {rows}) a) b QUALIFY {kept}");
        check(&database, &sql.replace('*', "n, ts, s, v, x, k, z, w"));
    }

    #[test]
    fn first_rows_are_whole(
        commits in any_commits(),
        ties in any::<bool>(),
        order in prop::sample::select(&["x DESC, n", "k, n", "w, n", "v, s DESC, n", "abs(k) DESC NULLS LAST, n", "n"][..]),
        limit in prop::sample::select(&["LIMIT 5", "LIMIT 1", "LIMIT 3 OFFSET 2", "LIMIT 0", "LIMIT 1000"][..]),
        rows in prop::sample::select(&["t", "t WHERE k > 0", "t WHERE s IN ('A', 'C')", "t WHERE x IS NOT NULL"][..]),
        columns in prop::sample::select(&["*", "n, w, z", "n, k + 1, w AS other, s"][..]),
    ) {
        let database = database(&commits, ties);
        let sql = format!("SELECT {columns} FROM {rows} ORDER BY {order} {limit}");
        assert_eq!(run(&database, &sql), run_plainly(&database, &sql), "{sql}");
        check(&database, &format!("SELECT n, count(*) FROM ({sql}) GROUP BY n"));
    }

    #[test]
    fn newest_rows_are_whole(
        commits in any_commits(),
        keys in prop::sample::select(&["s", "v, s", "s, k", "k", "w", "v, x"][..]),
        rows in prop::sample::select(&["t", "t WHERE k > 0", "t WHERE s IN ('A', 'C')"][..]),
    ) {
        let database = database(&commits, false);
        let (first, rest) = rows.split_once(" WHERE").map_or((rows, String::new()), |(t, of)| (t, format!("WHERE{of}")));
        check(&database, &format!("SELECT n, ts, s, v, x, k, z, w FROM {first} {rest} LATEST ON ts PARTITION BY {keys}"));
    }
}

fn check(database: &crate::Database, sql: &str) {
    // The first column is the number of the row.
    let sql = &sql.replacen("SELECT *", "SELECT n, *", 1);
    let (found, expected) = (by_number(run(database, sql)), by_number(run_plainly(database, sql)));
    assert_eq!(found.len(), expected.len(), "{sql}\n{}", plan(database, sql));
    for (found, expected) in found.iter().zip(&expected) {
        let same = found.iter().zip(expected).all(|(a, b)| same(a, b));
        assert!(same, "{sql}\n{found:?}\n{expected:?}\n{}", plan(database, sql));
    }
}

#[test]
fn columns_that_decide_nothing_are_read_last() {
    let database = some();
    for (sql, late) in [
        ("SELECT * FROM t QUALIFY x = max(x) OVER (PARTITION BY v)", "LateColumnsExec: [n, ts, s, k, z, w]"),
        ("SELECT w, n FROM t ORDER BY x DESC LIMIT 3", "LateColumnsExec: [w, n]"),
        (
            "SELECT w AS text FROM (SELECT * FROM t) QUALIFY row_number() OVER (PARTITION BY s ORDER BY k) = 1",
            "LateColumnsExec: [w]",
        ),
        ("SELECT * FROM t LATEST ON ts PARTITION BY k", "LateColumnsExec: [n, s, v, x, z, w]"),
    ] {
        let text = plan(&database, sql);
        assert!(text.contains(late), "{sql}: {text}");
        assert_eq!(text.matches("LateColumnsExec").count(), 1, "{text}");
    }
    for sql in [
        "SELECT x FROM t QUALIFY x = max(x) OVER (PARTITION BY v)",
        "SELECT v, count(*) FROM t GROUP BY v ORDER BY v LIMIT 1",
        "SELECT * FROM t LATEST ON ts PARTITION BY v, s",
        "SELECT * FROM t ORDER BY ts DESC LIMIT 3",
        "SELECT * FROM t ORDER BY s, v, ts LIMIT 3",
        "SELECT a.w FROM t a JOIN t b ON a.n = b.n ORDER BY a.x LIMIT 1",
    ] {
        assert!(!plan(&database, sql).contains("LateColumnsExec"), "{sql}");
    }
}

#[test]
fn rows_in_order_of_time_have_the_numbers_they_lie_by() {
    let commit = |first: i64| -> Vec<_> {
        let row = |at: i64| {
            ((first + at * 7) % 40, Some(["A", "B"][at as usize % 2]), Some(at as f64), Some(at), None)
        };
        (0..39).map(row).collect()
    };
    let database =
        database(&[(commit(0), true), (commit(3), false), (commit(11), true), (commit(5), false)], false);
    for kept in ["lag(k) OVER (ORDER BY ts) < k", "sum(k) OVER (ORDER BY ts DESC) % 3 = 1"] {
        let sql = format!("SELECT * FROM t QUALIFY {kept}");
        assert!(!plan(&database, &sql).contains("order=time"), "{}", plan(&database, &sql));
        check(&database, &sql);
    }
}

#[test]
fn a_statement_that_changes_rows_is_as_it_was() {
    let database = some();
    run(&database, "DELETE FROM t WHERE n IN (SELECT n FROM t QUALIFY x = max(x) OVER (PARTITION BY v))");
    run(&database, "UPDATE t SET w = 'first' WHERE n IN (SELECT n FROM t ORDER BY x LIMIT 3)");
    assert_eq!(run(&database, "SELECT count(*), count(*) FILTER (WHERE w = 'first') FROM t"), [["38", "3"]]);
}
