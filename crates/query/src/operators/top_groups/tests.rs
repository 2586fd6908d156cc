use crate::testing::{TestSession, row};

fn session() -> TestSession {
    let rows: Vec<_> = (0..40).map(|at| row(at * 1_000, "A", (at % 9) as f64, (at % 13) as f64)).collect();
    TestSession::new().table("t", &rows, (7, 2))
}

/// Whether an aggregation of a query's plan holds few groups.
fn is_limited(sql: &str) -> bool {
    session().plan(sql).contains("lim=[")
}

#[test]
fn an_aggregation_below_the_sort_holds_no_more_groups_than_are_wanted() {
    for sql in [
        "SELECT DISTINCT CAST(x AS BIGINT) AS k FROM t ORDER BY k LIMIT 2",
        "SELECT CAST(x AS BIGINT) AS k FROM t GROUP BY 1 ORDER BY k DESC LIMIT 2",
        "SELECT CAST(x AS BIGINT) AS k, max(CAST(y AS BIGINT)) AS m FROM t GROUP BY 1 ORDER BY m DESC NULLS LAST LIMIT 2",
        "SELECT m FROM (SELECT CAST(x AS BIGINT) AS k, min(CAST(y AS BIGINT)) AS m FROM t GROUP BY 1) ORDER BY m LIMIT 2",
    ] {
        assert!(is_limited(sql), "{sql}\n{}", session().plan(sql));
    }
}

#[test]
fn other_groups_are_needed_where_something_stands_between() {
    for sql in [
        "SELECT -k AS k FROM (SELECT DISTINCT CAST(x AS BIGINT) AS k FROM t) ORDER BY k LIMIT 2",
        "SELECT k, count(*) OVER () FROM (SELECT DISTINCT CAST(x AS BIGINT) AS k FROM t) ORDER BY k LIMIT 2",
        "SELECT k, rank() OVER (ORDER BY k DESC) FROM (SELECT DISTINCT CAST(x AS BIGINT) AS k FROM t) ORDER BY k LIMIT 2",
        "SELECT DISTINCT symbol FROM t ORDER BY symbol LIMIT 2",
        "SELECT CAST(x AS BIGINT) AS k, max(CAST(y AS BIGINT)) AS m FROM t GROUP BY 1 ORDER BY m LIMIT 2",
        "SELECT CAST(x AS BIGINT) AS k, max(CAST(y AS BIGINT)) AS m FROM t GROUP BY 1 ORDER BY m DESC NULLS FIRST LIMIT 2",
    ] {
        assert!(!is_limited(sql), "{sql}\n{}", session().plan(sql));
    }
    let session = session();
    session.check(
        "SELECT -k AS k FROM (SELECT DISTINCT CAST(x AS BIGINT) AS k FROM t) ORDER BY k LIMIT 2",
        &["-8", "-7"],
    );
    session.check(
        "SELECT k, rank() OVER (ORDER BY k DESC) FROM (SELECT DISTINCT CAST(x AS BIGINT) AS k FROM t) ORDER BY k LIMIT 2",
        &["0 9", "1 8"],
    );
}
