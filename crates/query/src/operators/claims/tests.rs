use crate::facts;
use crate::testing::{TestSession, row};

fn session() -> TestSession {
    let rows: Vec<_> =
        (0..40).map(|at| row(at * 7_000_000_000_000, "A", (at % 9) as f64 / 2.0, 1.0)).collect();
    TestSession::new().table("t", &rows, (7, 1))
}

/// The plan of a query.
fn plan(sql: &str) -> String {
    session().plan(sql)
}

#[test]
fn what_keeps_order_needs_no_sort() {
    for expr in [
        "date_trunc('hour', ts)",
        "date_bin(INTERVAL '3 hours', ts)",
        "time_bucket('3h', ts)",
        "time_bucket('1d', ts, '+00:00', 'America/New_York')",
        "CAST(ts AS DATE)",
    ] {
        let sorted = plan(&format!("SELECT {expr} AS g FROM t ORDER BY g"));
        assert!(!sorted.contains("Sort"), "{expr}\n{sorted}");
        let grouped = plan(&format!("SELECT {expr} AS g, count(*), max(x) FROM t GROUP BY 1"));
        assert!(!grouped.contains("opaque"), "{expr}\n{grouped}");
    }
}

#[test]
fn numbers_are_sorted_as_they_are() {
    let sorted = plan("SELECT x FROM t ORDER BY x");
    assert!(sorted.contains("one_zero") && !sorted.contains("opaque"), "{sorted}");
}

#[test]
fn of_what_is_not_declared_nothing_is_believed() {
    for expr in [
        "CAST(ts AS TIME)",
        "CAST(date_trunc('day', ts) AS TIME)",
        "CAST(ts + INTERVAL '1 hour' AS TIME)",
        "date_trunc('day', ts AT TIME ZONE 'America/New_York')",
        "CAST(ts AT TIME ZONE 'America/New_York' AS DATE)",
        "ts + INTERVAL '1 month'",
        "CAST(ts AS VARCHAR)",
        "ts > '1970-01-01T01:00:00' OR NULL",
    ] {
        let sorted = plan(&format!("SELECT {expr} AS g FROM t ORDER BY g"));
        assert!(sorted.contains("Sort"), "{expr}\n{sorted}");
        let grouped = plan(&format!("SELECT {expr} AS g, count(*) FROM t GROUP BY 1"));
        assert!(!grouped.contains("ordering_mode"), "{expr}\n{grouped}");
    }
}

#[test]
fn a_condition_makes_only_what_it_compares_one_value() {
    for (condition, one) in [
        ("x = 2.5", true),
        ("x >= 2.5 AND x <= 2.5", true),
        ("x BETWEEN 2.5 AND 2.5", true),
        ("CAST(x AS BIGINT) = 2", false),
        ("2 = CAST(x AS BIGINT)", false),
        ("CAST(x AS BIGINT) BETWEEN 2 AND 2", false),
        ("CAST(x AS BIGINT) >= 2 AND CAST(x AS BIGINT) <= 2", false),
        ("CAST(x AS BOOLEAN)", false),
        ("CAST(x AS BOOLEAN) = FALSE", false),
        ("CAST(x AS FLOAT) = 2.5", false),
        ("(CAST(x AS BIGINT) = 2) = TRUE", false),
        ("-CAST(x AS INT) = -2", false),
    ] {
        let sorted = plan(&format!("SELECT x FROM (SELECT x FROM t LIMIT 30) WHERE {condition} ORDER BY x"));
        assert_eq!(!sorted.contains("SortExec"), one, "{condition}\n{sorted}");
    }
}

#[test]
fn declared_functions_are_those_of_a_session() {
    let state = crate::state::base(1, usize::MAX).unwrap();
    // Calls of these two are put where they are needed (`rules::floats`), and have no names in SQL.
    for name in facts::ordered_functions().filter(|name| !["one_nan", "one_zero"].contains(name)) {
        assert!(state.scalar_functions().contains_key(name), "{name}");
    }
}
