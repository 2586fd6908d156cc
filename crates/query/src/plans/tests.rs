use super::*;
use crate::{Database, DatabaseOptions, Outcome, Session};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches;
use futures::TryStreamExt;

/// A database of two symbols over three days, and how many rows make a query wide.
fn database(wide_rows_min: u64) -> Database {
    let options = DatabaseOptions { query_threads: Some(2), wide_rows_min, ..DatabaseOptions::default() };
    let database = Database::in_memory(options).unwrap();
    let mut session = database.session();
    let setup = "CREATE TABLE t (ts TIMESTAMP, s SYMBOL, px DOUBLE, n BIGINT) TIMESTAMP(ts) SERIES BY (s);
        INSERT INTO t SELECT '2024-01-01'::timestamp + make_interval(i), CASE WHEN i % 3 = 0 THEN 'A' ELSE 'B' END,
        i / 7.0, i FROM (SELECT value AS i FROM generate_series(0, 999))";
    let setup = setup.replace("make_interval(i)", "(i || ' minutes')::interval");
    for statement in session.parse(&setup).unwrap() {
        database.runtime().block_on(session.run(statement)).unwrap();
    }
    database
}

fn rows(session: &mut Session, sql: &str) -> String {
    let database = session.database().clone();
    let batches: Vec<RecordBatch> = database.runtime().block_on(async {
        let statement = session.parse(sql).unwrap().remove(0);
        match session.run(statement).await.unwrap() {
            Outcome::Rows { stream, .. } => stream.try_collect().await.unwrap(),
            Outcome::Done { .. } => Vec::new(),
        }
    });
    let mut rows: Vec<String> =
        pretty_format_batches(&batches).unwrap().to_string().lines().map(String::from).collect();
    if !sql.contains("ORDER BY") {
        rows.sort();
    }
    rows.join("\n")
}

/// How many statements have a plan that is kept.
fn kept(database: &Database) -> usize {
    let known = database.plans().known();
    known.values().filter(|(known, _)| matches!(known, Known::Kept(_))).count()
}

/// The statement with each literal in turn, on a session that keeps plans and on new databases; whether one was kept.
fn is_kept(sql: &str, literals: &[&str]) -> [bool; 2] {
    [1, u64::MAX].map(|wide_rows_min| {
        let database = database(wide_rows_min);
        let mut session = database.session();
        for literal in literals.iter().chain(literals) {
            let sql = sql.replace('?', literal);
            let fresh = self::database(wide_rows_min);
            assert_eq!(rows(&mut session, &sql), rows(&mut fresh.session(), &sql), "{sql}");
        }
        kept(&database) > 0
    })
}

fn check(sql: &str, literals: &[&str], expect_kept: bool) {
    assert_eq!(is_kept(sql, literals), [expect_kept; 2], "{sql}");
}

#[test]
fn kept_plans_answer_as_new_ones() {
    let symbols = ["'A'", "'B'", "'C'", "'A' OR s = 'B'"];
    let times = ["'2024-01-01'", "'2024-01-01T05:00'", "'2024-02'", "TIMESTAMP '1999-12-31'"];
    check("SELECT * FROM t WHERE s = ? ORDER BY ts", &symbols[..3], true);
    check("SELECT ts, px FROM t WHERE ts >= ? ORDER BY ts DESC LIMIT 3", &times, true);
    check("SELECT count(*), sum(n), max(px) FROM t WHERE s = ?", &symbols, true);
    check("SELECT ts, s, count(*), round(vwap(px, n), 9) FROM t WHERE ts < ? SAMPLE BY 1h", &times, true);
    check("SELECT ts, last(px) FROM t WHERE s = ? SAMPLE BY 2h FILL(PREV)", &symbols[..3], true);
    check("SELECT ts, s, sum(n), last(px) FROM t WHERE s = ? SAMPLE BY VOLUME(n) 900", &symbols[..3], true);
    check("SELECT ts, count(*) FROM t WHERE ts >= ? SAMPLE BY TICKS 70 ORDER BY ts", &times, true);
    let nbbo =
        "SELECT * FROM nbbo((SELECT * FROM t WHERE ts >= ?), series => s, venue => s, bid => px, ask => px)";
    check(nbbo, &times, true);
    check("SELECT * FROM t WHERE ts < ? LATEST ON ts PARTITION BY s", &times, true);
    check("SELECT a.ts, b.px FROM t a ASOF JOIN t b ON (s) WHERE a.ts >= ? ORDER BY a.ts, a.n", &times, true);
    check("SELECT s, avg(n) FROM t WHERE ts >= ? AND s IN ('A', 'B') GROUP BY s ORDER BY s", &times, true);
    check(
        "SELECT n, sum(n) OVER (PARTITION BY s ORDER BY ts ROWS 3 PRECEDING) FROM t WHERE ts >= ? ORDER BY n",
        &times,
        true,
    );
    check(
        "SELECT n, max(px) OVER (PARTITION BY s ORDER BY ts) FROM t WHERE s IN (?, 'A') ORDER BY n",
        &symbols[..3],
        true,
    );
    check("SELECT ts, lag(px) OVER (ORDER BY ts, n) FROM t WHERE s = ? ORDER BY ts", &symbols[..3], true);
    check(&on_grid("TIMESTAMP '2024-01-03'"), &symbols[..3], true);
}

/// The prices of a symbol every seven hours.
fn on_grid(end: &str) -> String {
    format!(
        "SELECT g.ts, t.px FROM (SELECT value AS ts FROM generate_series(TIMESTAMP '2024-01-01', {end}, \
         INTERVAL '7 hours')) g ASOF LEFT JOIN (SELECT ts, px FROM t WHERE s = ?) t ON g.ts >= t.ts ORDER BY g.ts"
    )
}

#[test]
fn conditions_that_select_no_rows_stay_in_kept_plans() {
    let symbols = ["'A'", "'B'", "'C'"];
    check("SELECT n, px FROM t WHERE s = ? AND n > 40 AND px < 120.5 ORDER BY n", &symbols, true);
    check("SELECT count(*), sum(n) FROM t WHERE n % 2 = 0 AND n < ?", &["100", "7", "-1"], true);
    check("SELECT ts, max(px) FROM t WHERE px > ? AND s = 'A' SAMPLE BY 1h", &["3", "99.5"], true);
    check("SELECT * FROM t WHERE s = ? AND n > 5 QUALIFY px = max(px) OVER (PARTITION BY s)", &symbols, true);
    check(
        "SELECT n, count(*) OVER (PARTITION BY n % 3) FROM t WHERE s = ? AND n <> 4 ORDER BY n",
        &symbols,
        true,
    );
    check("SELECT * FROM t WHERE s <> ? ORDER BY px DESC, n LIMIT 2", &symbols, true);
    check(
        "SELECT * FROM t WHERE ts >= ? AND n < 9 LATEST ON ts PARTITION BY n",
        &["'2024-01-01'", "'2024-01-02'"],
        true,
    );
    // With two literals of each kind: what one statement keeps is not another's.
    let database = database(1);
    let mut session = database.session();
    for _ in 0..4 {
        for (symbol, above) in [("A", 10), ("B", 10), ("A", 20), ("B", 990)] {
            let sql = format!("SELECT n FROM t WHERE s = '{symbol}' AND n > {above} ORDER BY n");
            assert_eq!(rows(&mut session, &sql), rows(&mut self::database(1).session(), &sql), "{sql}");
        }
    }
    assert_eq!(kept(&database), 3);
    assert!(database.plans().counts().reused >= 9);
}

#[test]
fn what_depends_on_more_is_planned_each_time() {
    check("SELECT max(px) FROM t", &[""], false);
    check("SELECT count(*) FROM t WHERE ts < now() AND s = ?", &["'A'", "'B'"], false);
    check("SELECT count(*) FROM t WHERE px > ?", &["5", "100"], false);
    check("SELECT count(*) FROM t a JOIN t b ON a.n = b.n WHERE a.s = ?", &["'A'", "'B'"], false);
    check(&on_grid("least(TIMESTAMP '2024-01-03', now())"), &["'A'", "'B'"], false);
}

#[test]
fn a_list_of_any_length_comes_by_one_plan() {
    let names = ["'A'", "'X'", "'B'", "'Y'", "'A'", "'Z'", "'C'", "'W'", "7"];
    let numbers = ["3", "900", "17", "17", "-4", "250", "77", "78", "79"];
    let times = [
        "'2024-01-01'",
        "'2024-01-01T05:00'",
        "'2024-02-01'",
        "'1999-01-01'",
        "'2024-01-02'",
        "'2024-01-03'",
    ];
    let forms: [(&str, &[&str]); 6] = [
        ("s IN (?)", &names),
        ("s NOT IN (?)", &names),
        ("(s IN (?) OR s = 'C')", &names),
        ("n IN (?) AND s = 'A'", &numbers),
        ("ts IN (?)", &times),
        ("NOT (s IN (?) AND n > 40)", &names),
    ];
    for (form, items) in forms {
        let database = database(1);
        let mut session = database.session();
        let lengths = (1..=items.len()).rev().chain(4..=items.len());
        for length in lengths {
            let condition = form.replace('?', &items[..length].join(", "));
            let sql = format!("SELECT n, s FROM t WHERE {condition} ORDER BY n");
            assert_eq!(rows(&mut session, &sql), rows(&mut self::database(1).session(), &sql), "{sql}");
        }
    }
    let database = database(1);
    let mut session = database.session();
    for length in 4..=names.len() {
        rows(
            &mut session,
            &format!("SELECT n FROM t WHERE s IN ({}) ORDER BY n", names[..length].join(", ")),
        );
    }
    assert_eq!((kept(&database), database.plans().counts().reused), (1, 5));
}

#[test]
fn lists_that_have_something_in_common() {
    let (a, b) = ("s IN ('A', 'X', 'Y', ?)", "s IN ('X', ?, 'Y', 'B')");
    let conditions = [
        format!("({a} AND {b}) OR n < 3"),
        format!("{a} AND NOT {b}"),
        format!("{a} AND NOT (s = 'X' OR s = ? OR s = 'Y')"),
        format!("{a} OR NOT {b}"),
        format!("NOT {a} OR NOT {b}"),
        format!("{a} AND {b} AND s = ?"),
        format!("{a} OR {b}"),
    ];
    for condition in conditions {
        is_kept(&format!("SELECT n, px FROM t WHERE {condition}"), &["'B'", "'A'", "'C'"]);
        // Conditions that come together when the optimizer pushes them down.
        is_kept(&format!("SELECT n FROM (SELECT * FROM t WHERE {a}) WHERE {condition}"), &["'B'", "'A'"]);
    }
    is_kept(
        &format!("SELECT a.n FROM t a JOIN t b ON a.s = b.s AND a.n = b.n WHERE a.{a} AND b.{b}"),
        &["'B'", "'A'"],
    );
    check(&format!("SELECT n FROM t WHERE {a}"), &["'B'", "'A'"], true);
    check(&format!("SELECT n FROM t WHERE {a} AND n = 9"), &["'B'", "'A'"], true);
    // With their lists in them these are kept too.
    check(&format!("SELECT n FROM t WHERE {a} OR {b}"), &["'B'", "'A'", "'B'"], true);
    let of = |condition: &str| format!("(SELECT * FROM t WHERE {condition})");
    check(&format!("SELECT a.n FROM {} a ASOF JOIN {} b ON (s)", of(a), of(b)), &["'B'", "'A'", "'B'"], true);
}

#[test]
fn joins_by_hash_of_few_rows_are_kept() {
    for join in ["JOIN", "LEFT JOIN", "FULL JOIN"] {
        let sql = format!("SELECT a.n, b.px FROM t a {join} t b ON a.n = b.n AND b.s = ? ORDER BY a.n, b.px");
        check(&sql, &["'A'", "'B'", "'C'"], true);
    }
    check(
        "SELECT a.s, count(*) FROM t a JOIN t b ON a.n = b.n WHERE a.s = ? GROUP BY a.s",
        &["'A'", "'B'"],
        true,
    );
    check("SELECT n FROM t WHERE n IN (SELECT n / 2 FROM t WHERE s = ?)", &["'A'", "'B'", "'C'"], true);
    check("SELECT n FROM t WHERE s = ? AND n NOT IN (SELECT n / 2 FROM t)", &["'A'", "'B'", "'C'"], true);
}

#[test]
fn kept_plans_see_new_rows_and_new_tables() {
    let database = database(u64::MAX);
    let mut session = database.session();
    let sql = "SELECT count(*) AS n FROM t WHERE s = 'C'";
    let count = |session: &mut Session| rows(session, sql).matches("| 1 ").count();
    for _ in 0..3 {
        assert_eq!(count(&mut session), 0);
    }
    assert_eq!(kept(&database), 1);
    rows(&mut session, "INSERT INTO t VALUES ('2024-01-01', 'C', 1, 1)");
    assert_eq!(count(&mut session), 1, "a symbol that was not there when the plan was made");
    rows(&mut session, "DROP TABLE t");
    rows(&mut session, "CREATE TABLE t (s SYMBOL, ts TIMESTAMP) TIMESTAMP(ts)");
    assert_eq!(count(&mut session), 0);
}

#[test]
fn settings_are_a_session_s_own() {
    let database = database(u64::MAX);
    let (mut one, mut other) = (database.session(), database.session());
    let sql = "SELECT ts, px FROM t WHERE s = 'A' ORDER BY ts";
    let plain = rows(&mut one, sql);
    rows(&mut other, "SET datafusion.execution.batch_size = 3");
    for _ in 0..3 {
        assert_eq!(rows(&mut other, sql), plain);
        assert_eq!(rows(&mut one, sql), plain);
    }
    assert_eq!(kept(&database), 2);
}

#[test]
fn the_longest_unused_are_forgotten() {
    let database = database(u64::MAX);
    let mut session = database.session();
    for limit in 0..STATEMENTS_MAX + 10 {
        rows(&mut session, &format!("SELECT 1 FROM t LIMIT {limit}"));
    }
    assert_eq!(database.plans().known().len(), STATEMENTS_MAX);
}
