use crate::testing::{Row, SECOND, TestSession, row};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Ticks of two symbols over five seconds; B has none in seconds 1 and 2.
fn ticks() -> Vec<Row> {
    let at = |tenths: i64| tenths * SECOND / 10;
    vec![
        row(at(1), "A", 10.0, 1.0),
        row(at(5), "A", 12.0, 3.0),
        row(at(25), "A", 14.0, 2.0),
        row(at(44), "A", 11.0, 1.0),
        row(at(0), "B", 100.0, 5.0),
        row(at(31), "B", 103.0, 5.0),
        row(at(39), "B", 101.0, 5.0),
    ]
}

fn session() -> TestSession {
    TestSession::new().table("t", &ticks(), (3, 1)).table("empty", &[], (1, 1))
}

#[test]
fn groups_by_bucket_and_key() {
    let s = session();
    s.check(
        "SELECT ts, symbol, sum(x) FROM t SAMPLE BY 2s",
        &["00:00:00 A 22.0", "00:00:00 B 100.0", "00:00:02 A 14.0", "00:00:02 B 204.0", "00:00:04 A 11.0"],
    );
    s.check("SELECT count(*) FROM t SAMPLE BY 1m", &["7"]);
    s.check("SELECT symbol, max(x) FROM t SAMPLE BY 1d", &["A 14.0", "B 103.0"]);
    s.check("SELECT ts, count(*) FROM empty SAMPLE BY 1s", &[]);
    s.check("SELECT TS, SYMBOL FROM T WHERE X < 12 SAMPLE BY 4s", &["00:00:00 A", "00:00:04 A"]);
}

#[test]
fn composes_with_the_rest_of_sql() {
    let s = session();
    s.check(
        "SELECT t.ts AS bar, sum(x * y) / sum(y) vw, 'k' AS tag FROM t WHERE symbol = 'A' \
         SAMPLE BY 2s HAVING count(*) > 0 AND t.ts < '1970-01-01T00:00:03' ORDER BY bar DESC LIMIT 1",
        &["00:00:02 14.0 k"],
    );
    s.check(
        "SELECT ts, symbol, count(*) AS n FROM t SAMPLE BY 1s ORDER BY n DESC, ts DESC, symbol LIMIT 2",
        &["00:00:03 B 2", "00:00:00 A 2"],
    );
    s.check(
        "SELECT symbol, count(*) FROM (SELECT ts, symbol, last(x) FROM t SAMPLE BY 1s) GROUP BY symbol ORDER BY 1",
        &["A 3", "B 2"],
    );
    s.check(
        "WITH b AS (SELECT ts, symbol, last(x) AS close FROM t SAMPLE BY 1s) \
         SELECT ts, symbol, max(close) FROM b SAMPLE BY 4s",
        &["00:00:00 A 14.0", "00:00:00 B 101.0", "00:00:04 A 11.0"],
    );
    s.check(
        "SELECT a.ts, count(*), sum(b.x) FROM t a JOIN t b ON a.ts = b.ts AND a.symbol = b.symbol SAMPLE BY 5s",
        &["00:00:00 7 351.0"],
    );
    s.check(
        "SELECT ts, sum(x) FROM t WHERE symbol='A' SAMPLE BY 1h UNION ALL SELECT ts, sum(x) FROM t WHERE symbol='B' \
         SAMPLE BY 1h ORDER BY 2",
        &["00:00:00 47.0", "00:00:00 304.0"],
    );
    s.check(
        "SELECT ts, sum(x) s, log_return(last(x)) OVER (ORDER BY ts) IS NULL AS first FROM t WHERE symbol='A' SAMPLE BY 2s",
        &["00:00:00 22.0 true", "00:00:02 14.0 false", "00:00:04 11.0 false"],
    );
    s.check(
        "SELECT date_part('second', ts) AS sec, symbol, array_agg(x ORDER BY x DESC) FROM t SAMPLE BY 3s ORDER BY 1, 2",
        &["0.0 A [14.0, 12.0, 10.0]", "0.0 B [100.0]", "3.0 A [11.0]", "3.0 B [103.0, 101.0]"],
    );
    s.check(
        "SELECT ts, count(DISTINCT y), sum(x) FILTER (WHERE y > 1) FROM t WHERE symbol = 'A' SAMPLE BY 1m",
        &["00:00:00 3 26.0"],
    );
}

#[test]
fn first_and_last_go_by_time() {
    let rows = [
        Row { ts: 5, symbol: Some("A"), x: None, y: Some(5.0) },
        row(1, "A", 1.0, 1.0),
        row(1, "A", 2.0, 2.0),
        row(5, "A", 4.0, 4.0),
        row(3, "B", 3.0, 3.0),
    ];
    let s = TestSession::new().table("t", &rows, (2, 1));
    s.check("SELECT first(x), last(x), last(y) FROM t WHERE symbol = 'A' SAMPLE BY 1s", &["1.0 4.0 4.0"]);
    s.check("SELECT first(x), last(x), first(symbol) FROM t", &["1.0 4.0 A"]);
    s.check(
        "SELECT symbol, first(y), last(x) FROM t GROUP BY symbol ORDER BY symbol",
        &["A 1.0 4.0", "B 3.0 3.0"],
    );
    s.check("SELECT last(x) FROM t WHERE y = 5 SAMPLE BY 1s", &["-"]);
    s.check_error("SELECT last(x) FROM (SELECT x FROM t)", "designated timestamp");
    s.check("SELECT last(x, y) FROM (SELECT x, CAST(y AS BIGINT) y FROM t)", &["-"]);
}

#[test]
fn bounds_cut_and_extend() {
    let s = session();
    s.check(
        "SELECT ts, count(*) FROM t SAMPLE BY 1s FROM '1970-01-01T00:00:02' TO '1970-01-01T00:00:04'",
        &["00:00:02 1", "00:00:03 2"],
    );
    s.check(
        "SELECT ts, count(*) FROM t WHERE symbol = 'B' OR false SAMPLE BY 1s \
         FROM '1970-01-01T00:00:01' TO '1970-01-01T00:00:05' FILL(0)",
        &["00:00:01 0", "00:00:02 0", "00:00:03 2", "00:00:04 0"],
    );
    s.check(
        "SELECT ts, count(*) FROM empty SAMPLE BY 1s FROM '1970-01-01T00:00:01' TO '1970-01-01T00:00:03' FILL(NULL)",
        &["00:00:01 -", "00:00:02 -"],
    );
}

#[test]
fn fill_makes_the_grid() {
    let s = session();
    s.check(
        "SELECT ts, symbol, sum(x) s FROM t SAMPLE BY 1s FILL(NULL)",
        &[
            "00:00:00 A 22.0",
            "00:00:00 B 100.0",
            "00:00:01 A -",
            "00:00:01 B -",
            "00:00:02 A 14.0",
            "00:00:02 B -",
            "00:00:03 A -",
            "00:00:03 B 204.0",
            "00:00:04 A 11.0",
            "00:00:04 B -",
        ],
    );
    s.check(
        "SELECT ts, last(x), avg(x) + 0, count(*), min(x) FROM t WHERE symbol = 'A' SAMPLE BY 1s FILL(PREV, LINEAR, 0, -1.5)",
        &[
            "00:00:00 12.0 11.0 2 10.0", "00:00:01 12.0 12.5 0 -1.5", "00:00:02 14.0 14.0 1 14.0",
            "00:00:03 14.0 12.5 0 -1.5", "00:00:04 11.0 11.0 1 11.0",
        ],
    );
    s.check(
        "SELECT ts, sum(x*y)/sum(y) v FROM t WHERE symbol = 'A' SAMPLE BY 1s FILL(PREV) HAVING max(x) IS NULL",
        &["00:00:01 11.5", "00:00:03 14.0"],
    );
    s.check("SELECT ts, count(*) FROM t SAMPLE BY 4s FILL(NONE)", &["00:00:00 6", "00:00:04 1"]);
    s.check_error(
        "SELECT ts, count(*) FROM t SAMPLE BY 1s FILL(NULL, 0)",
        "FILL has 2 values for 1 aggregates",
    );
    s.check_error("SELECT ts, max(symbol) FROM t SAMPLE BY 1s FILL(LINEAR)", "FILL(LINEAR) fills numbers");
    s.check_error(
        "SELECT ts, count(*) FROM t SAMPLE BY 1n FROM '1970-01-01' TO '1970-01-02' FILL(0)",
        "FILL would make more than 50000000 rows",
    );
}

#[test]
fn calendar_buckets_follow_zone_and_offset() {
    let hour = 3_600 * SECOND;
    let march = 1_711_843_200 * SECOND; // 2024-03-31T00:00Z, clocks forward in Berlin
    let rows: Vec<Row> = (-24..48).map(|h| row(march + h * hour, "A", 1.0, 1.0)).collect();
    let s = TestSession::new().table("t", &rows, (5, 2));
    s.check(
        "SELECT ts, count(*) FROM t SAMPLE BY 1d ALIGN TO CALENDAR TIME ZONE 'Europe/Berlin'",
        &[
            "2024-03-29T23:00:00 23",
            "2024-03-30T23:00:00 23",
            "2024-03-31T22:00:00 24",
            "2024-04-01T22:00:00 2",
        ],
    );
    s.check(
        "SELECT ts, count(*) FROM t SAMPLE BY 1d ALIGN TO CALENDAR WITH OFFSET '06:00' ORDER BY ts LIMIT 2",
        &["2024-03-29T06:00:00 6", "2024-03-30T06:00:00 24"],
    );
    s.check(
        "SELECT time_bucket('1M', ts) m, count(*) FROM t GROUP BY m ORDER BY m",
        &["2024-03-01T00:00:00 48", "2024-04-01T00:00:00 24"],
    );
    s.check(
        "SELECT time_bucket(INTERVAL '12 hours', ts, INTERVAL '6 hours') m, count(*) FROM t GROUP BY m ORDER BY m LIMIT 2",
        &["2024-03-29T18:00:00 6", "2024-03-30T06:00:00 12"],
    );
}

#[test]
fn refuses_with_a_reason() {
    let s = session();
    s.check_error("SELECT * FROM t SAMPLE BY 1s", "SAMPLE BY needs its columns by name");
    s.check_error("SELECT x, count(*) FROM (SELECT x FROM t) SAMPLE BY 1s", "needs a designated timestamp");
    s.check_error("SELECT ts, sum(nope) FROM t SAMPLE BY 1s", "nope");
    s.check_error("SELECT ts, count(*) FROM nowhere SAMPLE BY 1s", "nowhere");
}

#[test]
fn explain_shows_the_operators() {
    let s = session();
    let plan =
        s.plan("SELECT ts, symbol, last(x) FROM t WHERE symbol = 'A' SAMPLE BY 1s FILL(PREV) ORDER BY ts");
    assert!(plan.contains("FillExec: every 1s, keys=1, values=[PREV]"), "{plan}");
    assert!(plan.contains("SampleByExec"), "{plan}");
    assert!(!plan.contains("SortExec"), "{plan}");
    let text = s.text("EXPLAIN SELECT ts, max(x) FROM t SAMPLE BY 1s");
    assert!(text.contains("SampleBy: t.ts every 1s"), "{text}");
    assert!(s.text("EXPLAIN ANALYZE SELECT ts, max(x) FROM t SAMPLE BY 1s").contains("output_rows=4"));
}

fn any_rows() -> impl Strategy<Value = Vec<Row>> {
    let symbol =
        prop_oneof![4 => Just(Some("A")), 2 => Just(Some("B")), 1 => Just(Some("C")), 1 => Just(None)];
    let number = || prop_oneof![5 => (-20_i32..20).prop_map(|n| Some(f64::from(n))), 1 => Just(None)];
    let any_row = (-40_i64..60, symbol, number(), number());
    prop::collection::vec(
        any_row.prop_map(|(ts, symbol, x, y)| Row { ts: ts * SECOND / 2, symbol, x, y }),
        0..60,
    )
}

/// Key (NULL last), then its rows in order of arrival, by bucket of `seconds`.
type Buckets<'a> = BTreeMap<(i64, (bool, Option<&'a str>)), Vec<&'a Row>>;

fn naive(rows: &[Row], seconds: i64) -> Buckets<'_> {
    let mut buckets: Buckets<'_> = BTreeMap::new();
    for row in rows {
        let bucket = row.ts.div_euclid(seconds * SECOND) * seconds;
        buckets.entry((bucket, (row.symbol.is_none(), row.symbol))).or_default().push(row);
    }
    buckets
}

fn shown(value: Option<f64>) -> String {
    value.map_or(String::new(), |v| format!("{v:?}"))
}

fn summary(rows: &[&Row]) -> Vec<String> {
    let xs = || rows.iter().filter_map(|r| r.x);
    let any = xs().next().is_some();
    // min_by_key keeps the first of equals, max_by_key the last.
    let first = rows.iter().min_by_key(|r| r.ts).and_then(|r| r.x);
    let last = rows.iter().max_by_key(|r| r.ts).and_then(|r| r.x);
    vec![
        rows.len().to_string(),
        shown(any.then(|| xs().sum())),
        shown(xs().reduce(f64::max)),
        shown(first),
        shown(last),
    ]
}

const SUMMARY: &str = "count(*), sum(x), max(x), first(x), last(x)";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn equals_a_naive_grouping(rows in any_rows(), seconds in 1_i64..9, batch in 1_usize..9) {
        let s = TestSession::new().table("t", &rows, (batch, 1));
        let expected: Vec<Vec<String>> = naive(&rows, seconds).iter().map(|((bucket, key), rows)| {
            let mut line = vec![bucket.to_string(), key.1.unwrap_or_default().to_string()];
            line.extend(summary(rows));
            line
        }).collect();
        let sql = format!("SELECT CAST(CAST(ts AS BIGINT) / 1000000000 AS BIGINT), symbol, {SUMMARY} FROM t SAMPLE BY {seconds}s");
        prop_assert_eq!(s.rows(&sql), expected);
    }

    #[test]
    fn filling_equals_a_naive_grid(rows in any_rows(), seconds in 1_i64..9, batch in 1_usize..9, prev in any::<bool>()) {
        let s = TestSession::new().table("t", &rows, (batch, 2));
        let buckets = naive(&rows, seconds);
        let mut expected = Vec::new();
        if let (Some(((low, _), _)), Some(((high, _), _))) = (buckets.first_key_value(), buckets.last_key_value()) {
            let keys: std::collections::BTreeSet<_> = buckets.keys().map(|(_, key)| *key).collect();
            let mut before: BTreeMap<_, Vec<String>> = BTreeMap::new();
            for bucket in (*low..=*high).step_by(usize::try_from(seconds).expect("positive")) {
                for key in &keys {
                    let found = buckets.get(&(bucket, *key)).map(|rows| summary(rows)[..3].to_vec());
                    if let Some(found) = &found {
                        before.insert(*key, found.clone());
                    }
                    let filled = found.or_else(|| before.get(key).filter(|_| prev).cloned());
                    let mut line = vec![bucket.to_string(), key.1.unwrap_or_default().to_string()];
                    line.extend(filled.unwrap_or_else(|| vec![String::new(); 3]));
                    expected.push(line);
                }
            }
        }
        let fill = if prev { "PREV" } else { "NULL" };
        let sql = format!("SELECT CAST(CAST(ts AS BIGINT) / 1000000000 AS BIGINT), symbol, count(*), sum(x), max(x) FROM t SAMPLE BY {seconds}s FILL({fill})");
        prop_assert_eq!(s.rows(&sql), expected);
    }
}

#[test]
fn an_aggregate_that_needs_an_order_gets_it() {
    let s = session();
    s.check("SELECT symbol, nth_value(x, 2 ORDER BY x) FROM t SAMPLE BY 1d", &["A 11.0", "B 101.0"]);
    s.check(
        "SELECT symbol, nth_value(x, 2 ORDER BY x DESC), sum(y) FROM t SAMPLE BY 1d",
        &["A 12.0 7.0", "B 101.0 15.0"],
    );
}

#[test]
fn conditions_on_the_bucket_reach_the_rows() {
    let rows: Vec<Row> =
        (0..40).map(|n| row(n * 7 * SECOND, ["A", "B"][n as usize % 2], n as f64, 1.0)).collect();
    let s = TestSession::new().table("t", &rows, (2, 1));
    let bars = "SELECT ts, symbol, count(*) AS n FROM t SAMPLE BY 1m";
    for condition in [
        "ts >= '1970-01-01T00:01:00'",
        "ts > '1970-01-01T00:01:00'",
        "ts < '1970-01-01T00:02:30'",
        "ts <= '1970-01-01T00:02:00'",
        "ts BETWEEN '1970-01-01T00:00:30' AND '1970-01-01T00:03:00'",
    ] {
        let above = format!("SELECT * FROM ({bars}) WHERE {condition} AND symbol = 'A' ORDER BY ts");
        // The same without the rule: the bucket is another column there.
        let other = format!(
            "SELECT * FROM (SELECT ts + INTERVAL '0 second' AS ts, symbol, n FROM ({bars})) WHERE {condition} AND symbol = 'A' ORDER BY ts"
        );
        assert_eq!(s.rows(&above), s.rows(&other), "{condition}");
        let plan = s.plan(&above);
        let (above, below) = plan.split_at(plan.find("SampleByExec").expect("in the plan"));
        assert!(!above.contains("ts@0 >") && !above.contains("ts@0 <") && below.contains("ts@0"), "{plan}");
    }
}
