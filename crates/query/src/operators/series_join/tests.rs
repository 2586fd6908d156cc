//! The joins against naive versions of them, over rows in memory and in parts, by series and in chunks.

use crate::operators::asof::by_series::tests::{Row, Tables, any_rows};
use crate::testing::{Row as Tick, SECOND, TestSession, row};
use proptest::prelude::*;

const LEFT: [Option<&str>; 4] = [Some("A"), Some("B"), Some("C"), None];
const RIGHT: [Option<&str>; 4] = [Some("B"), Some("A"), Some("D"), None];

/// A unit of time of the rows, in seconds.
const UNIT: i64 = 600;

fn or_null<T: ToString>(value: Option<T>) -> String {
    value.map_or("-".to_string(), |value| value.to_string())
}

/// The rows of a key in order of time, equal times in order of arrival: time and number.
fn of_key(rows: &[Row], key: Option<&str>) -> Vec<(i64, usize)> {
    let mut found: Vec<(i64, usize)> = rows
        .iter()
        .enumerate()
        .filter(|(_, row)| row.1 == key && key.is_some())
        .map(|(x, row)| (row.0, x))
        .collect();
    found.sort_by_key(|(ts, _)| *ts);
    found
}

/// For each left row, by its number: the numbers of the right rows in its window.
fn naive_window(left: &[Row], right: &[Row], low: i64, high: i64, prevailing: bool) -> Vec<Vec<usize>> {
    let window = |l: &Row| {
        let rows = of_key(right, l.1);
        let (from, to) = (l.0 + low, l.0 + high);
        let mut held: Vec<usize> =
            rows.iter().filter(|(ts, _)| (from..=to).contains(ts)).map(|(_, x)| *x).collect();
        // At the window's start a row is the last at or before it already.
        let last = rows.iter().rfind(|(ts, _)| *ts <= from).filter(|(ts, _)| *ts < from);
        if let (true, Some((_, x))) = (prevailing, last) {
            held.insert(0, *x);
        }
        held
    };
    left.iter().map(window).collect()
}

fn bound(units: i64) -> String {
    let side = if units <= 0 { "PRECEDING" } else { "FOLLOWING" };
    format!("{} seconds {side}", units.abs() * UNIT)
}

/// The results of a query whose rows begin with the number of a left row, in four ways: in order of time, in
/// any order (by series), with a condition that the scan works out, and in chunks.
fn in_every_way(tables: &mut Tables, select: &str) -> [Vec<String>; 4] {
    let by_series = format!("{select} ORDER BY 1, 2");
    let filtered = select.replace("FROM l ", "FROM (SELECT * FROM l WHERE x > -1) l ");
    for sql in [&by_series, &filtered] {
        assert!(tables.plan(sql).contains("by series"), "{sql}");
    }
    let mut chunks = tables.merged(select);
    chunks.sort();
    [tables.sorted(select), tables.sorted(&by_series), tables.sorted(&filtered), chunks]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn windows_equal_naive_ones(
        left in any_rows(LEFT, 40),
        right in any_rows(RIGHT, 90),
        (low, width, prevailing) in (-12_i64..8, 0_i64..14, any::<bool>()),
    ) {
        let mut tables = Tables::new().in_small_tasks().table("l", &left).table("r", &right);
        let high = low + width;
        let word = if prevailing { "INCLUDE" } else { "EXCLUDE" };
        let select = format!(
            "SELECT l.x, count(*), sum(r.x), min(r.x), max(r.x), first(r.x), last(r.x), avg(r.x * 2.0), \
             sum(r.x - l.x), array_agg(r.x), count(*) FILTER (WHERE r.x > 5) \
             FROM l WINDOW JOIN r ON (s) RANGE BETWEEN {} AND {} {word} PREVAILING",
            bound(low), bound(high)
        );
        let line = |(l, rows): (usize, Vec<usize>)| {
            let sum: usize = rows.iter().sum();
            let some = |value: i64| or_null((!rows.is_empty()).then_some(value));
            let edge = |row: Option<&usize>| or_null(row);
            let average = (!rows.is_empty()).then(|| format!("{:?}", sum as f64 * 2.0 / rows.len() as f64));
            let list: Vec<String> = rows.iter().map(usize::to_string).collect();
            [
                l.to_string(), rows.len().to_string(), some(sum as i64),
                edge(rows.iter().min()), edge(rows.iter().max()), edge(rows.first()), edge(rows.last()),
                or_null(average), some(sum as i64 - (l * rows.len()) as i64),
                or_null((!rows.is_empty()).then(|| format!("[{}]", list.join(", ")))),
                rows.iter().filter(|x| **x > 5).count().to_string(),
            ].join(" ")
        };
        let mut expected: Vec<String> =
            naive_window(&left, &right, low, high, prevailing).into_iter().enumerate().map(line).collect();
        expected.sort();
        for found in in_every_way(&mut tables, &select) {
            prop_assert_eq!(&found, &expected);
        }
    }

    #[test]
    fn horizons_equal_naive_ones(
        left in any_rows(LEFT, 40),
        right in any_rows(RIGHT, 90),
        (from, steps, step) in (-20_i64..20, 0_i64..5, 1_i64..9),
    ) {
        let mut tables = Tables::new().in_small_tasks().table("l", &left).table("r", &right);
        let time = |units: i64| format!("{}{}s", if units < 0 { "-" } else { "" }, units.abs() * UNIT);
        let signed = |units: i64| if units == 0 { "0".to_string() } else { time(units) };
        let select = format!(
            "SELECT l.x, h.offset, r.x \
             FROM l HORIZON JOIN r ON l.s = r.s RANGE FROM {} TO {} STEP {} AS h",
            signed(from), signed(from + steps * step), time(step)
        );
        let mut expected = Vec::new();
        for (x, l) in left.iter().enumerate() {
            let rows = of_key(&right, l.1);
            for at in 0..=steps {
                let offset = from + at * step;
                let found = rows.iter().rfind(|(ts, _)| *ts <= l.0 + offset).map(|(_, x)| *x);
                expected.push(format!("{x} {} {}", offset * UNIT * SECOND, or_null(found)));
            }
        }
        expected.sort();
        for found in in_every_way(&mut tables, &select) {
            prop_assert_eq!(&found, &expected);
        }
    }

    #[test]
    fn splices_equal_naive_ones(left in any_rows(LEFT, 40), right in any_rows(RIGHT, 90), merged in any::<bool>()) {
        let mut tables = Tables::new().in_small_tasks().table("l", &left).table("r", &right);
        let (key, on) = if merged { ("s", "(s)") } else { ("coalesce(l.s, r.s)", "l.s = r.s") };
        let select = format!("SELECT l.x, r.x, {key} AS k FROM l SPLICE JOIN r ON {on}");
        let mut expected = Vec::new();
        for key in ["A", "B", "C", "D"] {
            let (l, r) = (of_key(&left, Some(key)), of_key(&right, Some(key)));
            let (mut i, mut j) = (0, 0);
            while i < l.len() || j < r.len() {
                let (time, other) = (l.get(i).map_or(i64::MAX, |l| l.0), r.get(j).map_or(i64::MAX, |r| r.0));
                i += usize::from(time <= other);
                j += usize::from(other <= time);
                let before = |at: usize, rows: &[(i64, usize)]| or_null(at.checked_sub(1).map(|at| rows[at].1));
                expected.push(format!("{} {} {key}", before(i, &l), before(j, &r)));
            }
        }
        let unkeyed = |rows: &[Row]| rows.iter().enumerate().filter(|(_, row)| row.1.is_none()).map(|(x, _)| x).collect::<Vec<_>>();
        expected.extend(unkeyed(&left).into_iter().map(|x| format!("{x} - -")));
        expected.extend(unkeyed(&right).into_iter().map(|x| format!("- {x} -")));
        expected.sort();
        for found in in_every_way(&mut tables, &select) {
            prop_assert_eq!(&found, &expected);
        }
    }
}

fn trades() -> Vec<Tick> {
    vec![
        row(SECOND, "A", 1.0, 0.0),
        row(2 * SECOND, "B", 2.0, 0.0),
        row(3 * SECOND, "A", 3.0, 0.0),
        row(9 * SECOND, "C", 4.0, 0.0),
        row(9 * SECOND, "A", 5.0, 0.0),
        Tick { ts: 9 * SECOND, symbol: None, x: Some(6.0), y: None },
    ]
}

fn quotes() -> Vec<Tick> {
    vec![
        row(0, "B", 20.0, 1.0),
        row(2 * SECOND, "A", 10.0, 2.0),
        row(2 * SECOND, "B", 21.0, 3.0),
        row(3 * SECOND, "A", 11.0, 4.0),
        Tick { ts: 3 * SECOND, symbol: Some("A"), x: None, y: Some(5.0) },
        Tick { ts: 8 * SECOND, symbol: None, x: Some(9.0), y: None },
    ]
}

fn session() -> TestSession {
    TestSession::new().table("trades", &trades(), (2, 1)).table("quotes", &quotes(), (4, 1))
}

const NEAR: &str = "WINDOW JOIN quotes q ON (symbol) RANGE BETWEEN 1s PRECEDING AND 1s FOLLOWING";

#[test]
fn windows_of_every_spelling() {
    let s = session();
    let expected = ["1.0 1", "2.0 2", "3.0 3", "4.0 0", "5.0 1", "6.0 0"];
    for join in [
        NEAR,
        "WINDOW JOIN quotes q ON t.symbol = q.symbol RANGE BETWEEN 1 second PRECEDING AND 1 seconds FOLLOWING",
        "WINDOW JOIN quotes q USING (symbol) RANGE BETWEEN '1000T' PRECEDING AND INTERVAL '1 second' FOLLOWING INCLUDE PREVAILING",
        "window join (SELECT * FROM quotes) q on (symbol) range between 1s preceding and 1s following",
    ] {
        s.check(&format!("SELECT t.x, count(*) FROM trades t {join}"), &expected);
    }
    let exclude = format!("SELECT t.x, count(*), count(q.x) FROM trades t {NEAR} EXCLUDE PREVAILING");
    s.check(&exclude, &["1.0 1 1", "2.0 1 1", "3.0 3 2", "4.0 0 0", "5.0 0 0", "6.0 0 0"]);
    let all = "WINDOW JOIN quotes q RANGE BETWEEN 1s PRECEDING AND CURRENT ROW EXCLUDE PREVAILING";
    s.check(
        &format!("SELECT t.x, count(*) FROM trades t {all}"),
        &["1.0 1", "2.0 2", "3.0 4", "4.0 1", "5.0 1", "6.0 1"],
    );
    let later =
        "WINDOW JOIN quotes q ON (symbol) RANGE BETWEEN 1s FOLLOWING AND 2s FOLLOWING EXCLUDE PREVAILING";
    s.check(
        &format!("SELECT t.x, count(*) FROM trades t {later}"),
        &["1.0 3", "2.0 0", "3.0 0", "4.0 0", "5.0 0", "6.0 0"],
    );
}

#[test]
fn aggregates_are_expressions_like_any_other() {
    let s = session();
    let check = |select: &str, expected: &[&str]| {
        s.check(&select.replace("NEAR", NEAR), expected);
    };
    check(
        "SELECT t.x - avg(q.x) AS edge, sum(q.x + q.y) FROM trades t NEAR WHERE t.symbol = 'A' ORDER BY t.ts",
        &["-9.0 12.0", "-7.5 27.0", "- -"],
    );
    check(
        "SELECT t.symbol, vwap(q.x, q.y), stddev(q.x) > 0 AS s, count(DISTINCT q.y) AS n FROM trades t NEAR HAVING count(*) > 1",
        &["B 20.75 true 2", "A 10.666666666666666 true 3"],
    );
    check(
        "SELECT t.x, first(q.x), last(q.x), last_not_null(q.x), max(q.y - t.x) FROM trades t NEAR LIMIT 3",
        &["1.0 10.0 10.0 10.0 1.0", "2.0 20.0 21.0 21.0 1.0", "3.0 10.0 - 11.0 2.0"],
    );
    check(
        "SELECT symbol, sum(n) FROM (SELECT symbol, count(q.x) AS n FROM trades t NEAR) GROUP BY symbol ORDER BY symbol NULLS LAST",
        &["A 3", "B 2", "C 0", "- 0"],
    );
    check("SELECT count(*) FROM (SELECT t.* FROM trades t NEAR WHERE t.x > 2)", &["4"]);
    check("SELECT sum(sum(q.y)) OVER (ORDER BY t.ts) FROM trades t NEAR WHERE t.symbol = 'B'", &["4.0"]);
    check(
        "WITH w AS (SELECT t.ts, t.symbol, max(q.x) AS high FROM trades t NEAR) SELECT w.symbol, high, q.x FROM w ASOF JOIN quotes q ON (symbol) WHERE w.symbol = 'B'",
        &["B 21.0 21.0"],
    );
}

#[test]
fn horizons_and_splices() {
    let s = session();
    s.check(
        "SELECT t.x, H.offset / 1000000000, q.x, h.timestamp > t.ts FROM trades t HORIZON JOIN quotes q ON (symbol) LIST (0, 1s, -1s) AS h WHERE t.symbol = 'A' AND t.x < 3",
        &["1.0 0 - false", "1.0 1 10.0 true", "1.0 -1 - false"],
    );
    s.check(
        "SELECT h.offset, count(q.y), avg(q.y - t.x) FROM trades t HORIZON JOIN quotes q ON (symbol) RANGE FROM -1s TO 1s STEP 1s AS h GROUP BY h.offset ORDER BY 1",
        &["-1000000000 3 -0.6666666666666666", "0 3 1.0", "1000000000 4 1.0"],
    );
    s.check(
        "SELECT t.x, q.y, symbol FROM trades t SPLICE JOIN quotes q ON (symbol) WHERE symbol = 'B'",
        &["- 1.0 B", "2.0 3.0 B"],
    );
    s.check("SELECT t.x, q.y FROM trades t SPLICE JOIN quotes q WHERE q.y > 4", &["3.0 5.0"]);
}

#[test]
fn mistakes_say_what_to_write() {
    let s = session();
    // Some are found in the text, others when it is planned.
    let refused = |sql: &str, part: &str| match crate::dialect::parse(sql) {
        Err(error) => assert!(error.to_string().contains(part), "{sql}: {error}"),
        Ok(_) => s.check_error(sql, part),
    };
    let check = |sql: &str, part: &str| refused(&sql.replace("NEAR", NEAR), part);
    check("SELECT t.x, q.x FROM trades t NEAR", "q.x is of the right side");
    check(
        "SELECT y FROM (SELECT x, symbol FROM trades) t NEAR",
        "the left side of WINDOW JOIN needs a designated timestamp",
    );
    check("SELECT * FROM trades t NEAR", "* holds the columns of both sides");
    check("SELECT q.* FROM trades t NEAR", "q.* is of the right side");
    check("SELECT t.x FROM trades t NEAR WHERE q.x > 1", "WHERE filters the left one");
    check("SELECT t.x, sum(q.x) FROM trades t NEAR ORDER BY q.x", "q.x is of the right side");
    check("SELECT t.symbol, sum(q.x) FROM trades t NEAR GROUP BY t.symbol", "exclude each other");
    check("SELECT t.symbol, sum(q.x) FROM trades t NEAR SAMPLE BY 1m", "exclude each other");
    check("SELECT t.x FROM trades t NEAR JOIN quotes z ON true", "the last join of its FROM");
    check("SELECT count(*) FROM trades t WINDOW JOIN quotes q ON (symbol)", "expected RANGE BETWEEN");
    let window = |bounds: &str, part: &str| {
        let join =
            format!("SELECT count(*) FROM trades t WINDOW JOIN quotes q ON (symbol) RANGE BETWEEN {bounds}");
        refused(&join, part);
    };
    window("1s FOLLOWING AND 1s PRECEDING", "ends before it begins");
    window("UNBOUNDED PRECEDING AND 1s FOLLOWING", "has two ends");
    window("-1s PRECEDING AND 1s FOLLOWING", "has no sign");
    window("1M PRECEDING AND 1s FOLLOWING", "fixed length");
    window("1s AND 2s", "expected PRECEDING or FOLLOWING");
    window("1s PRECEDING AND 1s FOLLOWING EXCLUDE", "expected PREVAILING");
    window("1s PRECEDING AND 1s FOLLOWING TOLERANCE 1s", "takes no TOLERANCE");
    let horizon = |tail: &str, part: &str| {
        refused(&format!("SELECT count(*) FROM trades t HORIZON JOIN quotes q ON (symbol) {tail}"), part);
    };
    horizon("RANGE FROM 1s TO 0 STEP 1s AS h", "ends before it begins");
    horizon("RANGE FROM 0 TO 1d STEP 1s AS h", "86401 offsets are more than a horizon has");
    horizon("RANGE FROM 0 TO 1d STEP 0 AS h", "STEP is longer than nothing");
    horizon("LIST (1s, 5) AS h", "an offset has a unit");
    horizon("LIST (1s)", "expected AS");
    horizon("", "RANGE FROM or LIST");
    horizon("LIST (0) AS h WHERE nope = 1", "nope");
    refused("SELECT 1 FROM trades t SPLICE JOIN quotes q ON t.symbol > q.symbol", "cannot match on");
    refused("SELECT 1 FROM trades t SPLICE JOIN quotes q ON t.ts >= q.ts", "cannot match on");
    refused(
        "SELECT 1 FROM trades t HORIZON JOIN quotes q ON (nope) LIST (0) AS h",
        "HORIZON JOIN has no column nope",
    );
}
