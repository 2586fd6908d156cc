//! Joins by series against a naive search and against the merge, over rows in every state.

use crate::{Database, DatabaseOptions, Outcome, Session};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::TryStreamExt;
use proptest::prelude::*;

/// A row: time in ten minutes, name of its symbol, whether it ends a commit, whether that is sealed.
pub(in crate::operators) type Row = (i64, Option<&'static str>, bool, bool);

pub(in crate::operators) struct Tables {
    session: Session,
}

impl Tables {
    pub(in crate::operators) fn new() -> Self {
        Self::with_memory(None)
    }

    fn with_memory(query_memory_bytes: Option<usize>) -> Self {
        let few = DatabaseOptions { query_threads: Some(2), wide_rows_min: 1, ..DatabaseOptions::default() };
        let options = DatabaseOptions { query_memory_bytes, ..few };
        Self { session: Database::in_memory(options).expect("opens").session() }
    }

    /// With tiny batches, so that tasks have few rows and series are cut.
    pub(in crate::operators) fn in_small_tasks(mut self) -> Self {
        self.rows("SET datafusion.execution.batch_size = 3");
        self
    }

    /// A table of columns ts, s, x (the number of the row) with these rows.
    pub(in crate::operators) fn table(mut self, name: &str, rows: &[Row]) -> Self {
        let columns = "ts TIMESTAMP, s SYMBOL, x BIGINT";
        self.rows(&format!("CREATE TABLE {name} ({columns}) TIMESTAMP(ts) PARTITION BY HOUR SERIES BY (s)"));
        let mut values = Vec::new();
        for (x, (ts, symbol, ends, sealed)) in rows.iter().enumerate() {
            let symbol = symbol.map_or("NULL".to_string(), |symbol| format!("'{symbol}'"));
            values.push(format!("(to_timestamp({}), {symbol}, {x})", ts * 600));
            if *ends || x + 1 == rows.len() {
                self.rows(&format!("INSERT INTO {name} VALUES {}", values.join(", ")));
                values.clear();
                if *sealed {
                    self.rows("CHECKPOINT");
                }
            }
        }
        self
    }

    /// The rows of a query, a line each, NULL as `-`.
    pub(in crate::operators) fn rows(&mut self, sql: &str) -> Vec<String> {
        let database = self.session.database().clone();
        let batches: Vec<RecordBatch> = database.runtime().block_on(async {
            let statement = self.session.parse(sql).unwrap_or_else(|e| panic!("{sql}: {e}")).remove(0);
            match self.session.run(statement).await.unwrap_or_else(|e| panic!("{sql}: {e}")) {
                Outcome::Rows { stream, .. } => stream.try_collect().await.expect(sql),
                Outcome::Done { .. } => Vec::new(),
            }
        });
        let options = FormatOptions::default().with_null("-");
        let mut rows = Vec::new();
        for batch in &batches {
            let columns =
                batch.columns().iter().map(|c| ArrayFormatter::try_new(c, &options).expect("shown"));
            let columns: Vec<_> = columns.collect();
            let line = |row| columns.iter().map(|c| c.value(row).to_string()).collect::<Vec<_>>().join(" ");
            rows.extend((0..batch.num_rows()).map(line));
        }
        rows
    }

    pub(in crate::operators) fn sorted(&mut self, sql: &str) -> Vec<String> {
        let mut rows = self.rows(sql);
        rows.sort();
        rows
    }

    /// The rows of a query whose joins are merged.
    pub(in crate::operators) fn merged(&mut self, sql: &str) -> Vec<String> {
        self.rows("SET pipeline = false");
        let rows = self.rows(sql);
        self.rows("SET pipeline = true");
        rows
    }

    pub(in crate::operators) fn plan(&mut self, sql: &str) -> String {
        self.rows(&format!("EXPLAIN {sql}")).join("\n")
    }
}

const IN_ORDER: &str = "by series, then in time order";

/// How a plan's join is done.
fn way_of(plan: &str) -> &'static str {
    if plan.contains(IN_ORDER) {
        "in order"
    } else if plan.contains("looked up by series, in time order") {
        "looked up in order"
    } else if plan.contains("looked up by series") {
        "looked up"
    } else if plan.contains("by series") {
        "by series"
    } else {
        "merge"
    }
}

/// The number of the right row for each left row, by its own number.
fn naive(left: &[Row], right: &[Row], way: &str, tolerance: Option<i64>) -> Vec<Option<usize>> {
    let stands = |l: &Row, r: &Row| {
        let in_time = match way {
            ">=" => r.0 <= l.0,
            ">" => r.0 < l.0,
            "<=" => r.0 >= l.0,
            "<" => r.0 > l.0,
            _ => true,
        };
        let near = tolerance.is_none_or(|tolerance| (l.0 - r.0).abs() <= tolerance);
        in_time && near && l.1.is_some() && l.1 == r.1
    };
    // How far away a row is, the later of two first; of equal times the last to arrive back, the first ahead.
    let rank = |l: &Row, at: usize, r: &Row| {
        let ahead = r.0 > l.0 || way == "<=";
        ((l.0 - r.0).abs(), ahead, if ahead { at as i64 } else { -(at as i64) })
    };
    let nearest = |l: &Row| {
        let standing = right.iter().enumerate().filter(|(_, r)| stands(l, r));
        standing.min_by_key(|(at, r)| rank(l, *at, r)).map(|(at, _)| at)
    };
    left.iter().map(nearest).collect()
}

const WAYS: [&str; 5] = [">=", ">", "<=", "<", "NEAREST"];

/// What says so between the two sides and their keys.
fn way_clause(way: &str) -> String {
    match way {
        "NEAREST" => "ON l.s = r.s DIRECTION NEAREST".to_string(),
        sign => format!("MATCH_CONDITION (l.ts {sign} r.ts) ON l.s = r.s"),
    }
}

pub(in crate::operators) fn any_rows(
    names: [Option<&'static str>; 4],
    most: usize,
) -> impl Strategy<Value = Vec<Row>> {
    let row = (0..60_i64, 0..8_usize, 0..6_u8, any::<bool>());
    prop::collection::vec(row, 0..most).prop_map(move |rows| {
        let row = |(ts, name, ends, sealed): (i64, usize, u8, bool)| {
            (ts, names[[0, 0, 0, 0, 1, 1, 2, 3][name]], ends == 0, sealed)
        };
        rows.into_iter().map(row).collect()
    })
}

fn any_left() -> impl Strategy<Value = Vec<Row>> {
    let names = [Some("A"), Some("B"), Some("C"), None];
    prop_oneof![any_rows(names, 5), any_rows(names, 120)]
}

fn any_right() -> impl Strategy<Value = Vec<Row>> {
    let names = [Some("B"), Some("A"), Some("D"), None];
    prop_oneof![any_rows(names, 30), any_rows(names, 300)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn equals_a_naive_search_and_the_merge(
        left in any_left(),
        right in any_right(),
        (way, inner, small) in (0..WAYS.len(), any::<bool>(), any::<bool>()),
        tolerance in prop::option::of(0..40_i64),
    ) {
        let mut tables = Tables::new().table("l", &left).table("r", &right);
        if small {
            tables = tables.in_small_tasks();
        }
        let kind = if inner { "INNER" } else { "LEFT" };
        let tolerated = tolerance.map_or(String::new(), |t| format!("TOLERANCE INTERVAL '{} minutes'", t * 10));
        let way = WAYS[way];
        let join = format!("l ASOF {kind} JOIN r {} {tolerated}", way_clause(way));

        let found = naive(&left, &right, way, tolerance);
        let mut expected: Vec<String> = found.iter().enumerate().filter(|(_, found)| found.is_some() || !inner)
            .map(|(x, found)| format!("{x} {} 1", found.map_or("-".to_string(), |x| x.to_string()))).collect();
        expected.sort();
        let grouped = format!("SELECT l.x, max(r.x) AS m, count(*) AS n FROM {join} GROUP BY l.x");
        prop_assert_eq!(way_of(&tables.plan(&grouped)), "by series");
        prop_assert_eq!(tables.sorted(&grouped), expected.clone());
        // Rows that no table holds, in any order.
        let others = grouped.replacen("FROM l ", "FROM (SELECT DISTINCT ts, s, x FROM l) l ", 1);
        let plan = tables.plan(&others);
        prop_assert!(way_of(&plan) == "looked up" || left.is_empty(), "{}", plan);
        prop_assert_eq!(tables.sorted(&others), expected);

        let all = format!("SELECT l.ts, l.s, l.x, r.ts AS quoted, r.s AS rs, r.x AS rx FROM {join}");
        let first = format!("{all} LIMIT 100000");
        let (plan, of_first) = (tables.plan(&all), tables.plan(&first));
        prop_assert!(plan.contains(IN_ORDER), "{}", plan);
        prop_assert_eq!(way_of(&of_first), "looked up in order", "{}", of_first);
        let merged = tables.merged(&all);
        prop_assert_eq!(tables.rows(&all), merged.clone());
        prop_assert_eq!(tables.rows(&first), merged);

        let aggregates = "first(lx) AS f, last(rx) AS la, count(rx) AS n, sum(lx) AS sum";
        let sampled = |rows: &str| format!("SELECT ts, s, {aggregates} FROM ({rows}) SAMPLE BY 1h");
        let narrow = all.replace("l.x,", "l.x AS lx,");
        let by_series = sampled(&narrow);
        let plan = tables.plan(&by_series);
        prop_assert_eq!(way_of(&plan), "by series", "{}", plan);
        let merged = tables.merged(&by_series);
        prop_assert_eq!(tables.rows(&by_series), merged);
    }
}

fn some_rows(rows: &[(i64, Option<&'static str>)]) -> Vec<Row> {
    rows.iter().map(|(ts, symbol)| (*ts, *symbol, false, true)).collect()
}

fn tables() -> Tables {
    let left = some_rows(&[(1, Some("A")), (2, Some("B")), (3, Some("A")), (3, None)]);
    let right = some_rows(&[(1, Some("B")), (1, Some("A")), (2, Some("A")), (2, Some("A")), (3, None)]);
    Tables::new().table("l", &left).table("r", &right)
}

#[test]
fn of_equal_times_the_last_to_arrive_stands_wherever_it_lies() {
    // The first part reaches past the second, which ends where the third begins.
    let sealed = |rows: &[i64]| -> Vec<Row> {
        let last = rows.len() - 1;
        rows.iter().enumerate().map(|(at, ts)| (*ts, Some("B"), at == last, at == last)).collect()
    };
    let right = [sealed(&[42, 44]), sealed(&[42]), sealed(&[43])].concat();
    let mut tables =
        Tables::new().table("l", &some_rows(&[(42, Some("B")), (43, Some("B"))])).table("r", &right);
    let sql = "SELECT l.x, max(r.x) AS m FROM l ASOF JOIN r MATCH_CONDITION (l.ts SIGN r.ts) ON l.s = r.s GROUP BY l.x";
    assert_eq!(tables.sorted(&sql.replace("SIGN", ">")), ["0 -", "1 2"]);
    assert_eq!(tables.sorted(&sql.replace("SIGN", ">=")), ["0 2", "1 3"]);
}

#[test]
fn what_relies_on_order_gets_it() {
    let mut tables = tables();
    let join = "l ASOF JOIN r ON (s)";
    let mut check = |sql: &str, expected: &str| {
        let sql = sql.replace("JOIN", join);
        let plan = tables.plan(&sql);
        assert_eq!(way_of(&plan), expected, "{sql}\n{plan}");
        tables.rows(&sql);
    };
    check("SELECT l.x, r.x FROM JOIN", "in order");
    check("SELECT l.x, r.x FROM JOIN WHERE r.x > 1", "in order");
    check("SELECT l.ts, r.x FROM JOIN ORDER BY l.ts", "in order");
    check("SELECT l.ts, row_number() OVER () AS n FROM JOIN", "in order");
    check("SELECT array_agg(r.x) AS a FROM JOIN", "in order");
    check("SELECT last(r.x) AS a FROM JOIN SAMPLE BY 1h", "in order");
    check("SELECT l.x FROM JOIN UNION ALL SELECT x FROM r", "in order");
    check("SELECT l.ts, r.x FROM JOIN LIMIT 2", "looked up in order");
    check("SELECT l.ts, r.x FROM JOIN ORDER BY l.ts LIMIT 2", "looked up in order");
    check("SELECT sum(x) AS n FROM (SELECT r.x FROM JOIN LIMIT 2)", "looked up in order");
    check("SELECT l.x, r.x FROM JOIN ORDER BY l.x, r.x", "by series");
    check("SELECT l.ts, r.x FROM JOIN ORDER BY l.ts DESC LIMIT 2", "by series");
    check("SELECT l.s, avg(r.x) AS a FROM JOIN GROUP BY l.s", "by series");
    check("SELECT avg(r.x) AS a FROM JOIN SAMPLE BY 1h", "by series");
    check("SELECT l.s, last(r.x) AS a FROM JOIN SAMPLE BY 1h", "by series");
    check("SELECT DISTINCT l.s FROM JOIN", "by series");
}

#[test]
fn what_is_not_of_the_series_is_looked_up_or_merged() {
    let mut tables = tables();
    tables.rows("CREATE TABLE w (ts TIMESTAMP, s SYMBOL, e SYMBOL, x BIGINT) TIMESTAMP(ts) SERIES BY (s, e)");
    tables.rows("INSERT INTO w VALUES (to_timestamp(600), 'A', 'N', 1), (to_timestamp(600), 'A', 'M', 2)");
    tables.rows("CHECKPOINT");
    let mut check = |join: &str, way: &str, expected: &[&str]| {
        let sql = format!("SELECT l.x, max(r.x) AS m FROM {join} GROUP BY l.x");
        let plan = tables.plan(&sql);
        assert_eq!(way_of(&plan), way, "{plan}");
        assert_eq!(tables.sorted(&sql), expected, "{sql}");
    };
    check("l ASOF JOIN r ON l.s = r.s", "by series", &["0 1", "1 0", "2 3", "3 -"]);
    check("l ASOF JOIN r ON l.s = r.s AND l.x = r.x", "merge", &["0 -", "1 -", "2 2", "3 -"]);
    // These have several series a key, which is found out when they run.
    check("l ASOF JOIN r", "looked up in order", &["0 1", "1 3", "2 4", "3 4"]);
    check("l ASOF JOIN w r ON l.s = r.s", "looked up in order", &["0 2", "1 -", "2 2", "3 -"]);
    check(
        "l ASOF JOIN (SELECT * FROM r WHERE s = 'A') r",
        "looked up in order",
        &["0 1", "1 3", "2 3", "3 3"],
    );
    check(
        "l ASOF JOIN (SELECT * FROM r WHERE x < 3) r ON l.s = r.s",
        "by series",
        &["0 1", "1 0", "2 2", "3 -"],
    );
    check(
        "(SELECT ts, x, s FROM l) l ASOF JOIN (SELECT x, s, ts FROM r) r ON l.s = r.s",
        "by series",
        &["0 1", "1 0", "2 3", "3 -"],
    );
    check("w l ASOF JOIN r ON l.s = r.s", "by series", &["1 1", "2 1"]);
    check("w l ASOF JOIN w r ON l.s = r.s AND l.e = r.e", "by series", &["1 1", "2 2"]);
}

#[test]
fn the_rows_of_both_sides_count_as_read() {
    let mut tables = tables();
    let database = tables.session.database().clone();
    for sql in ["SELECT count(r.x) FROM l ASOF JOIN r ON (s)", "SELECT r.x FROM l ASOF JOIN r ON (s)"] {
        let statement = tables.session.parse(sql).expect("parses").remove(0);
        let progress = database.runtime().block_on(async {
            let Ok(Outcome::Rows { stream, progress, .. }) = tables.session.run(statement).await else {
                panic!("no rows");
            };
            stream.try_collect::<Vec<_>>().await.expect("runs");
            progress
        });
        // The right rows of NULL stand for nobody.
        assert_eq!(progress.rows(), (8, 9), "{sql}");
    }
}

#[test]
fn a_plan_runs_again() {
    let mut tables = tables();
    for x in [1, 2, 0] {
        let sql = format!(
            "SELECT l.s, count(*) AS n, max(r.x) AS m FROM l ASOF JOIN r ON (s) WHERE l.s = '{}' GROUP BY l.s",
            ["A", "B", "C"][x]
        );
        let expected = [vec!["A 2 3"], vec!["B 1 0"], vec![]];
        assert_eq!(tables.rows(&sql), expected[x]);
        assert_eq!(tables.rows(&sql), expected[x]);
    }
}

/// Many left rows and a right row for each tenth of them.
fn many() -> (Vec<Row>, Vec<Row>) {
    let row = |at: i64| (at * 7 % 60, [Some("A"), Some("B")][(at % 2) as usize], at % 100 == 0, true);
    ((0..1_000).map(row).collect(), (0..100).map(row).collect())
}

#[test]
fn a_kept_plan_merges_where_rows_are_too_many_for_order() {
    let (left, right) = many();
    let mut tables = Tables::new().table("l", &left).table("r", &right).in_small_tasks();
    for symbol in ["C", "A", "B", "A"] {
        let sql = format!("SELECT l.ts, l.x, r.x FROM l ASOF JOIN r ON (s) WHERE l.s = '{symbol}'");
        let merged = tables.merged(&sql);
        assert_eq!(tables.rows(&sql), merged);
        assert_eq!(merged.len(), if symbol == "C" { 0 } else { 500 });
    }
    let plan = tables.plan("SELECT l.ts, r.x FROM l ASOF JOIN r ON (s)");
    assert_eq!(way_of(&plan), "looked up in order", "{plan}");
}

#[test]
fn rows_that_memory_does_not_hold_are_merged() {
    let (left, right) = many();
    let mut tables = Tables::with_memory(Some(80_000)).table("l", &left).table("r", &right);
    let sql = "SELECT l.ts, l.x, r.x FROM l ASOF JOIN r ON (s)";
    assert!(tables.plan(sql).contains(IN_ORDER));
    assert_eq!(tables.rows(sql), tables.rows(&format!("{sql} LIMIT 100000")));
}
