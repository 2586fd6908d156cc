//! Joins with conditions, expressions and keys beside the series key against the merge, over rows in every state.

use crate::operators::filters::tests::{Row, any_commits, any_condition, database};
use crate::operators::window::tests::{plan, run, run_plainly};
use proptest::prelude::*;

const WAYS: [&str; 7] = [
    "ON a.s = b.s{} AND a.ts >= b.ts",
    "ON a.s = b.s{} AND a.ts > b.ts",
    "ON a.s = b.s{} AND a.ts <= b.ts",
    "ON a.s = b.s{} AND a.ts < b.ts",
    "ON a.s = b.s{} DIRECTION NEAREST",
    "ON a.s = b.s{} AND a.ts >= b.ts TOLERANCE INTERVAL '9 seconds'",
    "ON a.s = b.s{} TOLERANCE INTERVAL '9 seconds' DIRECTION NEAREST",
];

const KEYS: [&str; 4] =
    ["", " AND a.flag = b.flag", " AND a.s = b.flag", " AND a.flag = b.flag AND b.s = a.flag"];

const RIGHT: [&str; 4] = [
    "SELECT * FROM f WHERE {}",
    "SELECT ts, n, upper(w) AS w, s, flag FROM f WHERE {}",
    "SELECT px::DOUBLE / 2 + sz AS w, n + 1 AS n, flag, ts, s FROM f WHERE {}",
    "SELECT * FROM (SELECT 'one' AS w, n, s, flag, ts FROM f) WHERE {}",
];

const LEFT: [&str; 3] = [
    "SELECT * FROM f WHERE {}",
    "SELECT sz * 2 AS y, ts, n, s, flag FROM f WHERE {}",
    "SELECT n, flag, s, ts FROM f",
];

/// Whether a plan joins by series. A condition that contradicts itself leaves no scan to read.
fn is_by_series(plan: &str) -> bool {
    plan.contains("by series") || plan.contains("EmptyRelation")
}

/// Only what the right side of each shape has.
fn right_condition(shape: usize, condition: String) -> String {
    if shape == 3 { "n % 3 > 0 AND flag IS NOT NULL".to_string() } else { condition }
}

/// What follows the right side of a join around times, and what is asked of it.
const AROUND: [(&str, &str, &str); 4] = [
    (
        "WINDOW",
        "RANGE BETWEEN 9 seconds PRECEDING AND 4 seconds FOLLOWING EXCLUDE PREVAILING",
        "count(*), min(b.w), max(b.n), sum(b.n - a.n)",
    ),
    (
        "WINDOW",
        "RANGE BETWEEN 20 seconds PRECEDING AND 9 seconds PRECEDING",
        "count(*), last(b.w), first(b.n), count(*) FILTER (WHERE b.n > 3)",
    ),
    ("HORIZON", "LIST (0, 9s, -9s) AS h", "h.offset, b.w, b.n"),
    ("SPLICE", "", "b.n, b.w, b.flag, b.s"),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn joins_around_times_equal_those_in_chunks(
        commits in any_commits(),
        (kind, keys, left, right) in (0..AROUND.len(), 0..KEYS.len(), 0..LEFT.len(), 0..RIGHT.len()),
        (of_left, of_right) in (any_condition(), any_condition()),
    ) {
        let database = database(&commits);
        let left = LEFT[left].replace("{}", &of_left);
        let right = RIGHT[right].replace("{}", &right_condition(right, of_right));
        let (word, tail, asked) = AROUND[kind];
        let on = "ON a.s = b.s{}".replace("{}", KEYS[keys]);
        let join = format!("({left}) a {word} JOIN ({right}) b {on} {tail}");

        // As the rows come without ORDER BY: in order of time, and those of a series as they arrived.
        let rows = format!("SELECT a.ts, a.s, a.n, {asked} FROM {join}");
        let ordered = format!("SELECT * FROM ({rows}) ORDER BY 1, 2, 3, 4, 5, 6");
        let text = plan(&database, &ordered);
        prop_assert!(is_by_series(&text), "{ordered}\n{text}");
        let expected = run_plainly(&database, &ordered);
        prop_assert_eq!(run(&database, &ordered), expected.clone(), "{}\n{}", ordered, text);
        let mut found = run(&database, &rows);
        if word != "SPLICE" {
            prop_assert!(found.is_sorted_by_key(|row| &row[0]), "{}", rows);
        }
        let (mut expected, in_chunks) = (expected, run_plainly(&database, &rows));
        for series in ["A", "B", "C", "-"] {
            let of = |rows: &[Vec<String>]| {
                rows.iter().filter(|row| row[1] == series && row[0] != "-").cloned().collect::<Vec<_>>()
            };
            if word != "SPLICE" {
                prop_assert_eq!(of(&found), of(&in_chunks), "{}", rows);
            }
        }
        found.sort();
        expected.sort();
        prop_assert_eq!(found, expected, "{}", rows);
    }

    #[test]
    fn equals_the_merge(
        commits in any_commits(),
        (way, keys, left, right) in (0..WAYS.len(), 0..KEYS.len(), 0..LEFT.len(), 0..RIGHT.len()),
        (of_left, of_right) in (any_condition(), any_condition()),
        inner in any::<bool>(),
    ) {
        let database = database(&commits);
        let left = LEFT[left].replace("{}", &of_left);
        let right = RIGHT[right].replace("{}", &right_condition(right, of_right));
        let kind = if inner { "INNER" } else { "LEFT" };
        let join = format!("({left}) a ASOF {kind} JOIN ({right}) b {}", WAYS[way].replace("{}", KEYS[keys]));
        let ordered = format!("SELECT a.n, b.n AS m, b.w, a.s, a.flag FROM {join} ORDER BY a.ts, a.n, b.n");
        let text = plan(&database, &ordered);
        prop_assert!(is_by_series(&text), "{ordered}\n{text}");
        prop_assert_eq!(run(&database, &ordered), run_plainly(&database, &ordered), "{}\n{}", ordered, text);

        let grouped = format!(
            "SELECT row_number() OVER (ORDER BY s), s, count(*), count(m), sum(m), min(w), max(n)
             FROM (SELECT a.s, a.n, b.n AS m, b.w FROM {join}) GROUP BY s"
        );
        prop_assert_eq!(run(&database, &grouped), run_plainly(&database, &grouped), "{}", grouped);

        // As the rows come without ORDER BY: in order of time, and those of a series as they arrived.
        let plain = format!("SELECT a.ts, a.s, b.n AS m FROM {join}");
        let (found, merged) = (run(&database, &plain), run_plainly(&database, &plain));
        let limited = format!("{plain} LIMIT 100000");
        prop_assert_eq!(run(&database, &limited), run_plainly(&database, &limited), "{}", limited);
        prop_assert!(found.is_sorted_by_key(|row| &row[0]), "{}", plain);
        for series in ["A", "B", "C", "-"] {
            let of = |rows: &[Vec<String>]| rows.iter().filter(|row| row[1] == series).cloned().collect::<Vec<_>>();
            prop_assert_eq!(of(&found), of(&merged), "{}", plain);
        }
    }
}

#[test]
fn what_is_read_and_made() {
    let row = |at: i64| {
        (
            at,
            Some(["A", "B"][at as usize % 2]),
            Some(["x", "y"][at as usize % 3 % 2]),
            Some(at as i32),
            Some(1),
            None,
        )
    };
    let rows: Vec<Row> = (0..40).map(row).collect();
    let database = database(&[(rows, true)]);
    let sql = "SELECT a.n, b.w FROM (SELECT * FROM f WHERE sz > 0) a
               ASOF JOIN (SELECT ts, s, flag, px * 2 AS w FROM f WHERE px > 3) b ON (s, flag)";
    let text = plan(&database, sql);
    assert!(text.contains("by series") && text.contains("where=") && !text.contains("FilterExec"), "{text}");
    // Of the first two rows of each series and flag no right row is there yet.
    let found = run(&database, sql);
    assert_eq!(found.len(), 40);
    let own = |row: &Vec<String>| {
        row[1] == "-" || row[1].parse::<f64>().unwrap() == 2.0 * (row[0].parse::<f64>().unwrap() - 1.0)
    };
    assert!(found.iter().all(own), "{found:?}");
}
