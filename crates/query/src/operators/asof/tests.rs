use crate::testing::{Row, SECOND, TestSession, row};
use proptest::prelude::*;

fn trades() -> Vec<Row> {
    vec![
        row(SECOND, "A", 1.0, 0.0),
        row(2 * SECOND, "B", 2.0, 0.0),
        row(3 * SECOND, "A", 3.0, 0.0),
        row(9 * SECOND, "C", 4.0, 0.0),
        row(9 * SECOND, "A", 5.0, 0.0),
        Row { ts: 9 * SECOND, symbol: None, x: Some(6.0), y: None },
    ]
}

fn quotes() -> Vec<Row> {
    vec![
        row(0, "B", 20.0, 1.0),
        row(2 * SECOND, "A", 10.0, 2.0),
        row(2 * SECOND, "B", 21.0, 3.0),
        row(3 * SECOND, "A", 11.0, 4.0),
        row(3 * SECOND, "A", 12.0, 5.0),
        Row { ts: 8 * SECOND, symbol: None, x: Some(9.0), y: None },
    ]
}

fn session() -> TestSession {
    TestSession::new().table("trades", &trades(), (2, 1)).table("quotes", &quotes(), (4, 1))
}

#[test]
fn three_spellings_say_the_same() {
    let s = session();
    let expected = ["A 1.0 -", "B 2.0 21.0", "A 3.0 12.0", "C 4.0 -", "A 5.0 12.0", "- 6.0 -"];
    for join in [
        "ASOF JOIN quotes q ON (symbol)",
        "ASOF JOIN quotes q USING (symbol)",
        "ASOF JOIN quotes q ON t.symbol = q.symbol",
        "ASOF LEFT JOIN quotes q MATCH_CONDITION (t.ts >= q.ts) ON t.symbol = q.symbol",
        "ASOF JOIN quotes q MATCH_CONDITION (q.ts <= t.ts) USING (symbol)",
        "ASOF JOIN quotes q ON q.symbol = t.symbol AND t.ts >= q.ts",
        "ASOF JOIN (SELECT * FROM quotes WHERE x > 0) q ON (symbol) TOLERANCE 6s DIRECTION BACKWARD",
    ] {
        s.check(&format!("SELECT t.symbol, t.x, q.x FROM trades t {join}"), &expected);
    }
}

#[test]
fn options_narrow_the_match() {
    let s = session();
    let check = |join: &str, expected: &[&str]| {
        s.check(&format!("SELECT t.x, q.x FROM trades t {join}"), expected);
    };
    check("ASOF INNER JOIN quotes q ON (symbol)", &["2.0 21.0", "3.0 12.0", "5.0 12.0"]);
    check(
        "ASOF JOIN quotes q MATCH_CONDITION (t.ts > q.ts) ON (symbol)",
        &["1.0 -", "2.0 20.0", "3.0 10.0", "4.0 -", "5.0 12.0", "6.0 -"],
    );
    check("ASOF INNER JOIN quotes q ON (symbol) TOLERANCE 5999T", &["2.0 21.0", "3.0 12.0"]);
    check(
        "ASOF INNER JOIN quotes q ON (symbol) TOLERANCE INTERVAL '6 seconds'",
        &["2.0 21.0", "3.0 12.0", "5.0 12.0"],
    );
    check("ASOF JOIN quotes q", &["1.0 20.0", "2.0 21.0", "3.0 12.0", "4.0 9.0", "5.0 9.0", "6.0 9.0"]);
    check(
        "ASOF JOIN quotes q ON t.symbol = q.symbol AND t.y + 5 = q.y",
        &["1.0 -", "2.0 -", "3.0 12.0", "4.0 -", "5.0 12.0", "6.0 -"],
    );
}

#[test]
fn looks_forward_and_both_ways() {
    let s = session();
    let check = |join: &str, expected: &[&str]| {
        s.check(&format!("SELECT t.x, q.x FROM trades t {join}"), expected);
    };
    let first_after = ["1.0 10.0", "2.0 21.0", "3.0 11.0", "4.0 -", "5.0 -", "6.0 -"];
    check("ASOF JOIN quotes q ON (symbol) DIRECTION FORWARD", &first_after);
    check("ASOF JOIN quotes q MATCH_CONDITION (t.ts <= q.ts) ON (symbol)", &first_after);
    check("ASOF JOIN quotes q ON t.symbol = q.symbol AND q.ts >= t.ts", &first_after);
    check(
        "ASOF JOIN quotes q MATCH_CONDITION (t.ts < q.ts) ON (symbol) DIRECTION FORWARD",
        &["1.0 10.0", "2.0 -", "3.0 -", "4.0 -", "5.0 -", "6.0 -"],
    );
    check("ASOF INNER JOIN quotes q ON (symbol) DIRECTION FORWARD TOLERANCE 999T", &["2.0 21.0", "3.0 11.0"]);
    check(
        "ASOF JOIN quotes q ON (symbol) DIRECTION NEAREST",
        &["1.0 10.0", "2.0 21.0", "3.0 12.0", "4.0 -", "5.0 12.0", "6.0 -"],
    );
    // Of equally near ones the earlier.
    check(
        "ASOF JOIN quotes q DIRECTION NEAREST",
        &["1.0 20.0", "2.0 21.0", "3.0 12.0", "4.0 9.0", "5.0 9.0", "6.0 9.0"],
    );
    check("LT JOIN quotes q ON (symbol)", &["1.0 -", "2.0 20.0", "3.0 10.0", "4.0 -", "5.0 12.0", "6.0 -"]);
    check(
        "LT JOIN quotes q ON (symbol) TOLERANCE 1s",
        &["1.0 -", "2.0 -", "3.0 10.0", "4.0 -", "5.0 -", "6.0 -"],
    );
}

#[test]
fn composes_with_the_rest_of_sql() {
    let s = session();
    s.check(
        "SELECT * FROM trades ASOF JOIN quotes ON (symbol) WHERE trades.x = 3",
        &["00:00:03 A 3.0 0.0 00:00:03 12.0 5.0"],
    );
    s.check(
        "SELECT t.ts, avg(t.x - q.x) FROM trades t ASOF JOIN quotes q ON (symbol) SAMPLE BY 5s",
        &["00:00:00 -14.0", "00:00:05 -7.0"],
    );
    s.check(
        "SELECT t.x, a.x, b.x FROM trades t ASOF JOIN quotes a ON (symbol) ASOF JOIN quotes b \
         JOIN (SELECT 3.0 AS k) n ON n.k = t.x",
        &["3.0 12.0 12.0"],
    );
    s.check(
        "WITH m AS (SELECT ts, symbol, last(x) AS mid FROM quotes SAMPLE BY 1s) \
         SELECT t.symbol, t.x, m.mid FROM trades t ASOF INNER JOIN m ON (symbol)",
        &["B 2.0 21.0", "A 3.0 12.0", "A 5.0 12.0"],
    );
    s.check(
        "SELECT x.symbol, y.x FROM (SELECT * FROM trades LATEST BY symbol) x ASOF INNER JOIN quotes y ON (symbol)",
        &["B 21.0", "A 12.0"],
    );
    s.check(
        "SELECT t.x, q.x FROM trades t ASOF JOIN quotes q ON t.symbol = CAST(q.symbol AS VARCHAR) WHERE t.symbol = 'B'",
        &["2.0 21.0"],
    );
}

#[test]
fn conditions_go_to_the_sides_they_concern() {
    let s = session();
    let plan = s.plan(
        "SELECT t.x, q.x FROM trades t ASOF JOIN quotes q ON (symbol) TOLERANCE 1s \
         WHERE t.symbol = 'A' AND t.ts >= '1970-01-01T00:00:02' AND t.ts < '1970-01-01T00:00:05' AND q.x > 0",
    );
    let (above, below) = plan.split_at(plan.find("AsOfJoinExec").expect("in the plan"));
    assert!(above.contains("x@"), "{plan}");
    assert_eq!(below.matches("= A").count(), 2, "{plan}");
    assert!(below.contains(">= 1000000000"), "{plan}");
    assert!(!plan.contains("SortExec"), "{plan}");
    s.check(
        "SELECT t.x, q.x FROM trades t ASOF JOIN quotes q ON (symbol) TOLERANCE 1s \
         WHERE t.symbol = 'A' AND t.ts >= '1970-01-01T00:00:02' AND t.ts < '1970-01-01T00:00:05' AND q.x > 0",
        &["3.0 12.0"],
    );
}

#[test]
fn a_scan_gives_time_order_and_takes_conditions() {
    let database = crate::Database::in_memory(crate::DatabaseOptions::default()).expect("opens");
    let mut session = database.session();
    let mut run = |sql: &str| {
        let batches =
            database.runtime().block_on(session.query(sql)).unwrap_or_else(|e| panic!("{sql}: {e}"));
        datafusion::arrow::util::pretty::pretty_format_batches(&batches).expect("printable").to_string()
    };
    for table in ["trades", "quotes"] {
        run(&format!("CREATE TABLE {table} (ts TIMESTAMP, symbol SYMBOL, x DOUBLE) TIMESTAMP(ts)"));
        run(&format!(
            "INSERT INTO {table} VALUES ('2024-01-01T00:00:02', 'A', 2), ('2024-01-01T00:00:01', 'B', 1)"
        ));
    }
    let join = "SELECT t.symbol, t.x, q.x FROM (SELECT * FROM trades) t ASOF JOIN quotes q ON (symbol) \
                WHERE t.symbol = 'A' AND t.ts < '2024-01-02'";
    let plan = run(&format!("EXPLAIN {join}"));
    assert!(!plan.contains("SortExec") && !plan.contains("FilterExec"), "{plan}");
    let rows = run(join);
    assert!(rows.contains("| A      | 2.0 | 2.0 |"), "{rows}");
}

#[test]
fn refuses_with_a_reason() {
    let s = session();
    let check = |join: &str, part: &str| {
        s.check_error(&format!("SELECT t.x FROM trades t {join}"), part);
    };
    check("ASOF JOIN (SELECT x FROM quotes) q", "the right side of ASOF JOIN needs a designated timestamp");
    check("ASOF JOIN quotes q ON (nope)", "has no column nope");
    check("ASOF JOIN quotes q ON t.symbol <> q.symbol", "cannot match on");
    check("ASOF JOIN quotes q MATCH_CONDITION (t.ts <= q.ts) DIRECTION BACKWARD", "contradicts l.ts <= r.ts");
    check("ASOF JOIN quotes q ON t.ts >= q.ts DIRECTION NEAREST", "NEAREST contradicts");
    check("LT JOIN (SELECT x FROM quotes) q", "the right side of LT JOIN needs a designated timestamp");
    check("LT JOIN quotes q MATCH_CONDITION (t.ts > q.ts)", "compares the designated timestamps itself");
    check("ASOF JOIN quotes q MATCH_CONDITION (t.symbol = q.symbol)", "compares the time");
    check("ASOF JOIN quotes q MATCH_CONDITION (t.symbol >= q.symbol)", "compares timestamps");
    check(
        "ASOF JOIN quotes q MATCH_CONDITION (t.x >= q.x) TOLERANCE INTERVAL '1 minute'",
        "compares timestamps",
    );
    check("ASOF JOIN quotes q TOLERANCE INTERVAL '1 month'", "fixed length");
}

/// For each left row the right row of its key that stands, looked for one way or both.
fn naive(left: &[Row], right: &[Row], keyed: bool, way: &str, tolerance: i64) -> Vec<Vec<String>> {
    let of_key = |l: &Row, r: &Row| {
        let key = !keyed || (l.symbol.is_some() && l.symbol == r.symbol);
        key && (l.ts - r.ts).abs() <= tolerance
    };
    let before = |l: &Row, r: &Row| of_key(l, r) && if way == ">" { r.ts < l.ts } else { r.ts <= l.ts };
    let after = |l: &Row, r: &Row| of_key(l, r) && if way == "<" { r.ts > l.ts } else { r.ts >= l.ts };
    let find = |l: &Row| {
        let back = right.iter().rfind(|r| before(l, r));
        let ahead = right.iter().find(|r| after(l, r));
        match (way, back, ahead) {
            (">=" | ">", back, _) => back,
            ("<=" | "<", _, ahead) => ahead,
            (_, Some(back), Some(ahead)) if ahead.ts - l.ts < l.ts - back.ts => Some(ahead),
            (_, back, ahead) => back.or(ahead),
        }
    };
    let shown = |value: Option<f64>| value.map_or(String::new(), |v| format!("{v:?}"));
    let line = |l: &Row| {
        let found = find(l);
        let symbol = found.and_then(|r| r.symbol).unwrap_or_default();
        vec![shown(l.x), shown(found.and_then(|r| r.x)), symbol.to_string()]
    };
    left.iter().map(line).collect()
}

fn any_rows(most: usize) -> impl Strategy<Value = Vec<Row>> {
    let rows = prop::collection::vec((0_i64..40, 0..4_usize), 0..most);
    rows.prop_map(|mut rows| {
        rows.sort_by_key(|(ts, _)| *ts);
        let names = [Some("A"), Some("B"), Some("C"), None];
        let number = |at: usize| Some(f64::from(u32::try_from(at).expect("few rows")));
        let rows = rows.into_iter().enumerate();
        rows.map(|(at, (ts, name))| Row { ts: ts * SECOND, symbol: names[name], x: number(at), y: None })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn equals_a_naive_search(
        left in any_rows(50),
        right in any_rows(90),
        cuts in (1_usize..9, 1_usize..9),
        (keyed, way, tolerance) in (any::<bool>(), 0..5_usize, 0_i64..40),
    ) {
        let s = TestSession::new().table("l", &left, (cuts.0, 1)).table("r", &right, (cuts.1, 1));
        let on = if keyed { "ON l.symbol = r.symbol" } else { "" };
        let way = [">=", ">", "<=", "<", "NEAREST"][way];
        let condition = match way {
            "NEAREST" => "DIRECTION NEAREST".to_string(),
            sign => format!("MATCH_CONDITION (l.ts {sign} r.ts)"),
        };
        let sql = format!(
            "SELECT l.x, r.x, r.symbol FROM l ASOF JOIN r {on} {condition} TOLERANCE {tolerance}000000000n"
        );
        let sql = if tolerance == 0 { sql.replace("TOLERANCE 0000000000n", "TOLERANCE INTERVAL '0 seconds'") } else { sql };
        prop_assert_eq!(s.rows(&sql), naive(&left, &right, keyed, way, tolerance * SECOND));
    }
}
