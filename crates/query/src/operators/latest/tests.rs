use crate::testing::{Row, SECOND, TestSession, row};
use proptest::prelude::*;
use std::collections::HashMap;

fn session() -> TestSession {
    let rows = [
        row(3 * SECOND, "A", 1.0, 10.0),
        row(SECOND, "B", 2.0, 10.0),
        row(3 * SECOND, "A", 3.0, 10.0),
        row(2 * SECOND, "A", 4.0, 20.0),
        row(4 * SECOND, "B", 5.0, 20.0),
        Row { ts: 5 * SECOND, symbol: None, x: None, y: Some(20.0) },
    ];
    TestSession::new().table("t", &rows, (2, 1))
}

#[test]
fn keeps_the_newest_row_of_each_key() {
    let s = session();
    s.check(
        "SELECT * FROM t LATEST ON ts PARTITION BY symbol",
        &["00:00:03 A 3.0 10.0", "00:00:04 B 5.0 20.0", "00:00:05 - - 20.0"],
    );
    s.check("SELECT t.x FROM t WHERE x < 3 LATEST ON ts PARTITION BY symbol ORDER BY x", &["1.0", "2.0"]);
    s.check("SELECT symbol, x FROM (SELECT * FROM t LATEST BY symbol) WHERE symbol = 'A'", &["A 3.0"]);
    s.check(
        "SELECT q.y, q.x FROM t q LATEST ON q.ts PARTITION BY q.symbol, q.y ORDER BY 1, 2",
        &["10.0 2.0", "10.0 3.0", "20.0 4.0", "20.0 5.0", "20.0 -"],
    );
    s.check("SELECT count(*) FROM t LATEST BY symbol", &["3"]);
    s.check_error("SELECT * FROM t LATEST ON x PARTITION BY symbol", "LATEST ON needs a timestamp");
    s.check_error("SELECT * FROM (SELECT x, symbol FROM t) LATEST BY symbol", "needs a designated timestamp");
}

#[test]
fn conditions_on_keys_go_below() {
    let plan =
        session().plan("SELECT * FROM (SELECT * FROM t LATEST BY symbol) WHERE symbol = 'A' AND x > 0");
    let latest = plan.find("LatestOnExec").expect("in the plan");
    let (above, below) = plan.split_at(latest);
    assert!(below.contains("symbol@1 = A") && !above.contains("symbol@1"), "{plan}");
    assert!(above.contains("x@2 > 0"), "{plan}");
}

#[test]
fn each_input_of_a_union_gives_its_newest() {
    let s = session().table("u", &[row(6 * SECOND, "A", 6.0, 1.0), row(SECOND, "C", 7.0, 1.0)], (1, 1));
    let query = "SELECT * FROM (SELECT * FROM t UNION ALL SELECT * FROM u WHERE x > 0) LATEST ON ts PARTITION BY symbol";
    s.check(query, &["00:00:01 C 7.0 1.0", "00:00:04 B 5.0 20.0", "00:00:05 - - 20.0", "00:00:06 A 6.0 1.0"]);
    assert_eq!(s.plan(query).matches("LatestOnExec").count(), 3, "{}", s.plan(query));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn equals_a_naive_search(
        rows in prop::collection::vec((-9_i64..9, 0..4_usize, -5_i32..5), 0..80),
        batch in 1_usize..9,
    ) {
        let names = [Some("A"), Some("B"), Some("C"), None];
        let rows: Vec<Row> = rows.into_iter().map(|(ts, symbol, x)| {
            Row { ts: ts * SECOND, symbol: names[symbol], x: Some(f64::from(x)), y: None }
        }).collect();
        let mut newest: HashMap<_, &Row> = HashMap::new();
        for row in &rows {
            let kept = newest.entry(row.symbol).or_insert(row);
            if row.ts >= kept.ts {
                *kept = row;
            }
        }
        let mut expected: Vec<Vec<String>> = newest.values().map(|row| {
            vec![row.symbol.unwrap_or_default().to_string(), format!("{:?}", row.x.unwrap_or_default()), row.ts.to_string()]
        }).collect();
        expected.sort();
        let s = TestSession::new().table("t", &rows, (batch, 1));
        let mut found = s.rows("SELECT symbol, x, CAST(ts AS BIGINT) FROM t LATEST ON ts PARTITION BY symbol");
        found.sort();
        prop_assert_eq!(found, expected);
    }
}
