use crate::operators::window::tests::{any_commits, database, plan, run, run_plainly, same};
use proptest::prelude::*;

/// The values of two plans, whatever the order of their rows; doubles but for their last digits.
fn compare(ours: Vec<Vec<String>>, theirs: Vec<Vec<String>>, keys: usize, sql: &str) {
    let sorted = |mut rows: Vec<Vec<String>>| {
        rows.sort_by(|a, b| a[..keys].cmp(&b[..keys]));
        rows
    };
    let (ours, theirs) = (sorted(ours), sorted(theirs));
    assert_eq!(ours.len(), theirs.len(), "{sql}");
    for (our, their) in ours.iter().zip(&theirs) {
        let alike = our.iter().zip(their).all(|(a, b)| near(a, b));
        assert!(alike, "{sql}\n{our:?}\n{their:?}");
    }
}

/// Covariances of few values are as exact as their differences.
fn near(a: &str, b: &str) -> bool {
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0);
    same(a, b) || matches!((a.parse::<f64>(), b.parse::<f64>()), (Ok(a), Ok(b)) if close(a, b))
}

const MEASURES: [&str; 9] = [
    "corr(a.z, b.z)",
    "corr(a.x, b.x)",
    "corr(b.x, a.k)",
    "covar_samp(a.x, b.z)",
    "covar_pop(a.k, b.x)",
    "count(*)",
    "corr(a.x, b.x), count(*), covar_pop(b.k, a.x)",
    "corr(a.x + a.k, b.x / 2), covar_samp(a.x, b.x)",
    "covar_pop(a.x, b.x), covar_pop(b.x, a.x), count(1)",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn pairs_are_those_of_a_join(
        commits in any_commits(),
        measures in prop::sample::select(&MEASURES[..]),
        groups in prop::sample::select(&["a.s, b.s", "b.s, a.s", "a.v, b.s", "a.s, a.v, b.v", "a.n, b.n", "a.s, b.k"][..]),
        on in prop::sample::select(&["a.ts = b.ts", "a.ts = b.ts AND a.v = b.v", "a.k = b.k", "a.s = b.s", "a.w = b.w"][..]),
        condition in prop::sample::select(&["", " AND a.s < b.s", " AND a.v <> b.v"][..]),
        ties: bool,
    ) {
        let database = database(&commits, ties);
        let keys = groups.split(", ").count();
        let sql = format!("SELECT {groups}, {measures} FROM t a JOIN t b ON {on}{condition} GROUP BY {groups}");
        compare(run(&database, &sql), run_plainly(&database, &sql), keys, &sql);
    }
}

#[test]
fn what_is_of_pairs_is_found() {
    let rows = vec![(1, Some("A"), Some(1.0), Some(1), None), (2, Some("B"), Some(2.0), Some(2), None)];
    let database = database(&[(rows, true)], true);
    let is_found = |sql: &str| plan(&database, sql).contains("PairGroupsExec");
    let of = |select: &str, rest: &str| {
        format!("SELECT a.s, b.s, {select} FROM t a JOIN t b ON a.ts = b.ts{rest} GROUP BY a.s, b.s")
    };
    assert!(is_found(&of("corr(a.x, b.x)", "")));
    assert!(is_found(&of("corr(a.x, b.x) AS c, count(*) AS n", " AND a.s < b.s")));
    assert!(is_found(&format!("{} HAVING covar_pop(a.x, b.x) > 1 ORDER BY 1", of("corr(a.x, b.x)", ""))));
    assert!(is_found(
        "WITH r AS (SELECT s, ts, x - lag(x) OVER (PARTITION BY s ORDER BY ts) AS r FROM t)
        SELECT p.s, q.s AS other, corr(p.r, q.r) FROM r p, r q WHERE p.ts = q.ts GROUP BY p.s, q.s"
    ));
    for (select, rest) in [
        ("count(*)", ""),
        ("corr(a.x, a.k)", ""),
        ("corr(a.x, b.x), sum(a.x)", ""),
        ("corr(a.x, b.x) FILTER (WHERE a.k > 1)", ""),
        ("corr(a.x, b.x)", " AND a.k < b.k"),
        ("corr(a.x + b.x, b.x)", ""),
    ] {
        assert!(!is_found(&of(select, rest)), "{select}{rest}");
    }
    assert!(!is_found("SELECT a.s, corr(a.x, b.x) FROM t a LEFT JOIN t b ON a.ts = b.ts GROUP BY a.s"));
    assert!(!is_found("SELECT a.s, corr(a.x, b.x) FROM t a JOIN t b ON a.ts = b.ts GROUP BY a.s"));
}
