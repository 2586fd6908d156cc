use crate::operators::window::tests::{by_number, plan, run, run_plainly, same};
use crate::{Database, DatabaseOptions};
use proptest::prelude::*;
use tickstone_engine::EngineOptions;

/// Seconds, symbol, flag, price, size, a double.
pub(in crate::operators) type Row =
    (i64, Option<&'static str>, Option<&'static str>, Option<i32>, Option<i32>, Option<f64>);

fn any_row() -> impl Strategy<Value = Row> {
    let symbol =
        prop_oneof![5 => Just(Some("A")), 2 => Just(Some("B")), 1 => Just(Some("C")), 1 => Just(None)];
    let flag = prop_oneof![
        6 => Just(Some("x")), 2 => Just(Some("y")), 1 => Just(Some("10")), 1 => Just(Some("")), 3 => Just(None),
    ];
    let number = || prop_oneof![6 => (-20_i32..60).prop_map(Some), 1 => Just(None)];
    let double = prop_oneof![
        6 => (-20_i32..60).prop_map(|x| Some(f64::from(x) / 4.0)),
        1 => Just(Some(f64::NAN)), 1 => Just(Some(-0.0)), 1 => Just(Some(f64::INFINITY)), 1 => Just(None),
    ];
    (0_i64..60, symbol, flag, number(), number(), double)
}

pub(in crate::operators) fn any_commits() -> impl Strategy<Value = Vec<(Vec<Row>, bool)>> {
    prop::collection::vec((prop::collection::vec(any_row(), 0..60), any::<bool>()), 1..4)
}

/// A table `f`, in slices of a few rows.
pub(in crate::operators) fn database(commits: &[(Vec<Row>, bool)]) -> Database {
    let engine = EngineOptions { background: false, threads: 1, slice_rows: 24, ..EngineOptions::default() };
    let options =
        DatabaseOptions { query_threads: Some(2), wide_rows_min: 1, engine, query_memory_bytes: None };
    let database = Database::in_memory(options).unwrap();
    run(
        &database,
        "CREATE TABLE f (n BIGINT, ts TIMESTAMP, s SYMBOL, flag SYMBOL, px FLOAT, sz INT, d DECIMAL(10, 2), day DATE,
         up BOOLEAN, w VARCHAR, x DOUBLE, u BIGINT UNSIGNED) TIMESTAMP(ts) SERIES BY (s)",
    );
    let mut n = 0;
    for (rows, seal) in commits {
        let values = rows.iter().map(|(second, symbol, flag, px, sz, x)| {
            n += 1;
            let text = |of: &Option<&str>| of.map_or("NULL".to_string(), |of| format!("'{of}'"));
            let number = |of: Option<i32>| of.map_or("NULL".to_string(), |of| of.to_string());
            let x = x.map_or("NULL".to_string(), |x| format!("'{x}'::double"));
            let day =
                sz.map_or("NULL".to_string(), |sz| format!("DATE '2024-01-{:02}'", sz.rem_euclid(28) + 1));
            format!(
                "({n}, '2024-01-01T00:00:{second:02}', {}, {}, {}, {}, {}, {day}, {}, {}, {x}, {})",
                text(symbol),
                text(flag),
                number(*px),
                number(*sz),
                number(*px),
                px.map_or("NULL", |px| if px > 7 { "true" } else { "false" }),
                sz.map_or("NULL".to_string(), |sz| format!("'w{}'", sz % 5)),
                number(sz.map(i32::abs)),
            )
        });
        let values: Vec<String> = values.collect();
        if !values.is_empty() {
            run(&database, &format!("INSERT INTO f VALUES {}", values.join(", ")));
        }
        if *seal {
            database.engine().seal(None).unwrap();
        }
    }
    database
}

const LEAVES: [&str; 46] = [
    "flag = 'x'",
    "flag <> 'x'",
    "flag IS NULL",
    "flag IS NOT NULL",
    "flag IN ('x', '10')",
    "flag NOT IN ('y', '')",
    "flag LIKE '%x%'",
    "flag = 'never'",
    "flag <> 'never'",
    "flag > 'm'",
    "length(flag) = 1",
    "coalesce(flag, 'z') = 'z'",
    "flag = s",
    "s <> 'A'",
    "s IS NULL",
    "px > 7",
    "px >= 7.5",
    "px < 3",
    "px <= 0",
    "px = 5",
    "px <> 5",
    "7 < px",
    "px BETWEEN 2 AND 30",
    "px::DOUBLE > 7",
    "sz > 7",
    "sz >= 7",
    "sz < -3",
    "sz = 4",
    "sz % 2 = 0",
    "sz > 2147483646",
    "d > 7.5",
    "d = 3",
    "day >= DATE '2024-01-09'",
    "day = '2024-01-04'",
    "up",
    "NOT up",
    "w = 'w3'",
    "w IS NULL",
    "x > 0",
    "x > 'Infinity'::double",
    "x < '-Infinity'::double",
    "x = 0",
    "x <= 'Infinity'::double",
    "x = 'NaN'::double",
    "u > 5",
    "ts >= '2024-01-01T00:00:31'",
];

pub(in crate::operators) fn any_condition() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(&LEAVES[..]).prop_map(str::to_string);
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            3 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} AND {b})")),
            3 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} OR {b})")),
            1 => inner.clone().prop_map(|a| format!("NOT ({a})")),
            1 => inner.prop_map(|a| format!("CASE WHEN {a} THEN sz > 3 ELSE px > 3 END")),
        ]
    })
}

/// Statements whose first column is a number that no other row has.
const SHAPES: [&str; 21] = [
    "SELECT * FROM f WHERE {}",
    "SELECT n, w FROM f WHERE {}",
    "SELECT n, flag, sz + 1, upper(w) FROM f WHERE {}",
    "SELECT n, ts FROM (SELECT * FROM f WHERE {}) WHERE sz IS NOT NULL",
    "SELECT row_number() OVER (ORDER BY s), s, count(*), sum(sz), avg(px::DOUBLE), max(day) FROM f WHERE {} GROUP BY s",
    "SELECT row_number() OVER (ORDER BY flag, s), s, flag, count(*), min(d), count(px) FROM f WHERE {} GROUP BY s, flag",
    "SELECT row_number() OVER (ORDER BY up), up, count(*), sum(u) FROM f WHERE {} GROUP BY up",
    "SELECT row_number() OVER (ORDER BY s, flag), s, flag, sum(d), avg(d), sum(d::DECIMAL(28, 5)), avg(-d) FROM f WHERE {} GROUP BY s, flag",
    "SELECT row_number() OVER (ORDER BY ts), ts, sum(d) FILTER (WHERE sz > 3), avg(d::DECIMAL(36, 3)), sum(d) FROM f WHERE {} SAMPLE BY 9s",
    "SELECT 1, sum(d), avg(d), sum(d::DECIMAL(38, 2)) FROM f WHERE {}",
    "SELECT count(*), sum(sz), max(px), min(x) FROM f WHERE {}",
    "SELECT row_number() OVER (ORDER BY ts, s), ts, s, count(*), max(px), sum(sz) FROM f WHERE {} SAMPLE BY 7s",
    "SELECT row_number() OVER (ORDER BY s), s FROM f WHERE {} GROUP BY s",
    "SELECT n, sum(sz) OVER (PARTITION BY s ORDER BY ts, n), lag(n) OVER (PARTITION BY s ORDER BY ts, n) FROM f WHERE {}",
    "SELECT n, count(*) OVER (PARTITION BY flag) FROM f WHERE {}",
    "SELECT n, px FROM f WHERE {} QUALIFY sz = max(sz) OVER (PARTITION BY s, up)",
    "SELECT n, a.w FROM f a WHERE {} AND EXISTS (SELECT 1 FROM f b WHERE b.n = a.n AND b.sz > 0)",
    "SELECT n, s, w FROM (SELECT * FROM f WHERE {}) ORDER BY px DESC, n LIMIT 4",
    "SELECT row_number() OVER (ORDER BY m, up, s), * FROM (SELECT extract(second FROM ts) % 7 AS m, up, s, count(*), avg(sz), min(w) FROM f WHERE {} GROUP BY m, up, s)",
    "SELECT row_number() OVER (ORDER BY a, b), * FROM (SELECT ts::DATE AS a, flag IS NULL AS b, sum(u), max(px) FROM f WHERE {} GROUP BY a, b)",
    "SELECT row_number() OVER (ORDER BY ts, a), * FROM (SELECT ts, upper(flag) AS a, count(*), sum(sz) FROM f WHERE {} SAMPLE BY 20s)",
];

const ORDERED: [&str; 6] = [
    "SELECT ts, n, w FROM f WHERE {} ORDER BY ts, n",
    "SELECT ts, n FROM f WHERE {} ORDER BY ts DESC, n",
    "SELECT s, ts, n, px FROM f WHERE {} ORDER BY s, ts, n",
    "SELECT n, sum(sz) OVER (ORDER BY ts, n) FROM f WHERE {} ORDER BY ts, n",
    "SELECT ts, count(*) FROM (SELECT ts FROM f WHERE {} ORDER BY ts) GROUP BY ts ORDER BY ts",
    "SELECT ts FROM f WHERE {} ORDER BY ts LIMIT 5",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn conditions_in_scans(commits in any_commits(), condition in any_condition()) {
        let database = database(&commits);
        for shape in SHAPES {
            let sql = shape.replace("{}", &condition);
            let (found, expected) = (run(&database, &sql), run_plainly(&database, &sql));
            let (found, expected) = (by_number(found), by_number(expected));
            assert_eq!(found.len(), expected.len(), "{sql}\n{}", plan(&database, &sql));
            for (found, expected) in found.iter().zip(&expected) {
                let same = found.iter().zip(expected).all(|(a, b)| same(a, b));
                assert!(same, "{sql}\n{found:?}\n{expected:?}\n{}", plan(&database, &sql));
            }
        }
        for shape in ORDERED {
            let sql = shape.replace("{}", &condition);
            assert_eq!(run(&database, &sql), run_plainly(&database, &sql), "{sql}\n{}", plan(&database, &sql));
        }
        let limited = format!("SELECT n FROM f WHERE {condition} LIMIT 3");
        let all = run(&database, &format!("SELECT n FROM f WHERE {condition}"));
        let some = run(&database, &limited);
        assert_eq!(some.len(), all.len().min(3), "{limited}");
        assert!(some.iter().all(|row| all.contains(row)), "{limited}");
    }
}

#[test]
fn rows_of_several_series_in_a_run() {
    // Of the first series no row is left when the second condition is looked at.
    let row = |at: i64| {
        let symbol = Some(["A", "B", "C"][at as usize % 3]);
        (at, symbol, Some("x"), Some((59 - at) as i32), Some(at as i32 % 3), None)
    };
    let database = database(&[((0..60).map(row).collect(), false)]);
    for condition in [
        "sz <> 0 AND px % 7 <> 3",
        "sz = 2 AND px % 7 <> 3 AND w LIKE 'w%'",
        "px > 40 AND s <> 'A' AND sz % 2 = 1",
    ] {
        for shape in SHAPES {
            let sql = shape.replace("{}", condition);
            let (found, expected) = (run(&database, &sql), run_plainly(&database, &sql));
            assert_eq!(by_number(found), by_number(expected), "{sql}");
        }
    }
}

#[test]
fn explain_shows_where_a_condition_is_worked_out() {
    let rows: Vec<Row> =
        (0..40).map(|at| (at, Some("A"), Some("x"), Some(at as i32), Some(1), None)).collect();
    let database = database(&[(rows, true)]);
    let text = plan(&database, "SELECT n FROM f WHERE flag = 'x' AND sz > 0");
    assert!(text.contains(", where=flag") && !text.contains("FilterExec"), "{text}");
    assert!(text.contains("columns=[n]"), "{text}");
    let text = plan(&database, "SELECT s, count(*) FROM f WHERE px > 3 GROUP BY s");
    assert!(text.contains("by ranges") && text.contains("where="), "{text}");
    // A filter is not worked out where its rows would be too large at once.
    let text = plan(&database, "SELECT n FROM f WHERE repeat(w, 1000000) LIKE '%x'");
    assert!(text.contains("FilterExec"), "{text}");
}
