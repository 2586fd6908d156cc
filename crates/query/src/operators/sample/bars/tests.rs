use crate::testing::{Row, SECOND, TestSession, row};
use crate::{Database, DatabaseOptions, Outcome};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::TryStreamExt;
use proptest::prelude::*;
use std::collections::BTreeMap;
use tickstone_engine::EngineOptions;

fn session() -> TestSession {
    let at = |second: i64| second * SECOND;
    let rows = [
        row(at(0), "A", 10.0, 4.0),
        row(at(1), "B", 99.0, 1.0),
        row(at(1), "A", 11.0, 6.0),
        row(at(2), "A", 12.0, 25.0),
        row(at(2), "A", 13.0, 1.0),
        Row { ts: at(3), symbol: Some("A"), x: Some(14.0), y: None },
        row(at(4), "A", 15.0, f64::NAN),
        row(at(5), "A", 16.0, 2.0),
        row(at(6), "B", 98.0, 9.0),
        Row { ts: at(7), symbol: None, x: None, y: Some(3.0) },
    ];
    TestSession::new().table("t", &rows, (3, 1)).table("empty", &[], (1, 1))
}

#[test]
fn a_bar_closes_with_the_row_that_fills_it() {
    let s = session();
    s.check(
        "SELECT ts, symbol, count(*), sum(y), first(x), last(x) FROM t SAMPLE BY VOLUME(y) 10",
        &[
            "00:00:00 A 2 10.0 10.0 11.0",
            "00:00:01 B 2 10.0 99.0 98.0",
            "00:00:02 A 1 25.0 12.0 12.0",
            "00:00:02 A 4 NaN 13.0 16.0",
            "00:00:07 - 1 3.0 - -",
        ],
    );
    s.check(
        "SELECT ts, symbol, sum(x) FROM t WHERE symbol IS NOT NULL SAMPLE BY TICKS 3",
        &["00:00:00 A 33.0", "00:00:01 B 197.0", "00:00:02 A 42.0", "00:00:05 A 16.0"],
    );
    s.check("SELECT ts, count(*) FROM t SAMPLE BY TICKS 4", &["00:00:00 4", "00:00:02 4", "00:00:06 2"]);
    s.check(
        "SELECT ts, count(*) FROM t WHERE symbol = 'A' SAMPLE BY VALUE(x * y) 1e2",
        &["00:00:00 2", "00:00:02 1", "00:00:02 4"],
    );
    s.check("SELECT count(*) FROM empty SAMPLE BY TICKS 1", &[]);
    s.check("SELECT ts, max(x) FROM t WHERE x = 99 SAMPLE BY VOLUME(y) 1", &["00:00:01 99.0"]);
}

#[test]
fn bars_compose_with_the_rest_of_sql() {
    let s = session();
    s.check(
        "SELECT t.ts AS bar, count(*) n, sum(x) * 2 FROM t WHERE symbol = 'A' SAMPLE BY VOLUME(y) 10 \
         HAVING count(*) < 3 ORDER BY bar DESC LIMIT 1",
        &["00:00:02 1 24.0"],
    );
    s.check(
        "SELECT ts, symbol, max(n) FROM (SELECT ts, symbol, count(*) AS n FROM t SAMPLE BY TICKS 2) SAMPLE BY 1m",
        &["00:00:00 A 2", "00:00:00 B 2", "00:00:00 - 1"],
    );
    s.check(
        "SELECT date_part('second', ts) AS second, symbol, array_agg(x), count(DISTINCT x), \
         sum(x) FILTER (WHERE x > 12) FROM t WHERE symbol = 'A' SAMPLE BY TICKS 5",
        &["0.0 A [10.0, 11.0, 12.0, 13.0, 14.0] 5 27.0", "4.0 A [15.0, 16.0] 2 31.0"],
    );
    s.check(
        "SELECT ts, symbol, delta(last(x)) OVER (PARTITION BY symbol ORDER BY ts) FROM t WHERE symbol = 'B' SAMPLE BY TICKS 1",
        &["00:00:01 B -", "00:00:06 B -1.0"],
    );
    s.check("SELECT sum(y) FROM t WHERE symbol = 'B' SAMPLE BY VOLUME(CAST(y AS BIGINT)) 5", &["10.0"]);
}

#[test]
fn what_bars_do_not_take_is_refused() {
    let s = session();
    for (tail, part) in [
        ("VOLUME(y) 0", "above 0"),
        ("VOLUME(y) -5", "above 0"),
        ("TICKS 2.5", "a whole number of rows above 0"),
        ("VALUE(y) NULL", "expected the size of a bar"),
        ("VOLUME 10", "SAMPLE BY VOLUME(amount) 1000"),
        ("VOLUME(symbol) 10", "VOLUME takes a number"),
        ("TICKS 10 FILL(PREV)", "takes no FILL"),
        ("TICKS 10 FROM '2024' TO '2025'", "takes no FROM"),
        ("VOLUME(y) 10 ALIGN TO CALENDAR TIME ZONE 'Europe/Berlin'", "takes no ALIGN TO"),
        ("VOLUME(y - 5) 10", "negative size, -1"),
    ] {
        let sql = format!("SELECT ts, count(*) FROM t SAMPLE BY {tail}");
        match crate::dialect::parse(&sql) {
            Err(error) => {
                let message = format!("{error} {}", error.hint.as_deref().unwrap_or(""));
                assert!(message.contains(part), "{sql}: {message}");
            }
            Ok(_) => match s.try_rows(&sql) {
                Ok(rows) => panic!("{sql} gave {rows:?}"),
                Err(error) => assert!(format!("{error} {error:?}").contains(part), "{sql}: {error:?}"),
            },
        }
    }
    s.check_error("SELECT nth_value(x, 2 ORDER BY y) FROM t SAMPLE BY TICKS 10", "order of time");
    s.check_error("SELECT count(*) FROM (SELECT x FROM t) SAMPLE BY TICKS 10", "designated timestamp");
}

/// One row: second, symbol, side, price, size.
type Tick = (i64, Option<&'static str>, Option<&'static str>, Option<f64>, Option<f64>);

fn any_tick() -> impl Strategy<Value = Tick> {
    let symbol =
        prop_oneof![5 => Just(Some("A")), 3 => Just(Some("B")), 1 => Just(Some("C")), 1 => Just(None)];
    let side = prop_oneof![3 => Just(Some("buy")), 3 => Just(Some("sell")), 1 => Just(None)];
    let number = || prop_oneof![6 => (0_i32..40).prop_map(|x| Some(f64::from(x) / 4.0)), 1 => Just(None)];
    let size = prop_oneof![8 => number(), 1 => Just(Some(f64::NAN))];
    (0_i64..30, symbol, side, number(), size)
}

/// Commits, and whether all is sealed after each.
fn any_commits() -> impl Strategy<Value = Vec<(Vec<Tick>, bool)>> {
    prop::collection::vec((prop::collection::vec(any_tick(), 0..60), any::<bool>()), 0..4)
}

/// A table `t` of these rows, in slices of a few; `n` counts them as they arrive.
fn database(commits: &[(Vec<Tick>, bool)], memory_bytes: Option<usize>) -> Database {
    let engine = EngineOptions { background: false, threads: 1, slice_rows: 16, ..EngineOptions::default() };
    let options = DatabaseOptions {
        query_threads: Some(2),
        wide_rows_min: 1,
        engine,
        query_memory_bytes: memory_bytes,
    };
    let database = Database::in_memory(options).unwrap();
    let create =
        "CREATE TABLE t (n BIGINT, ts TIMESTAMP, symbol SYMBOL, side SYMBOL, price DOUBLE, size DOUBLE)
                  TIMESTAMP(ts) SERIES BY (symbol)";
    run(&database, create).unwrap();
    let mut n = 0;
    for (rows, seal) in commits {
        let values = rows.iter().map(|(second, symbol, side, price, size)| {
            n += 1;
            let text = |text: &Option<&str>| text.map_or("NULL".to_string(), |text| format!("'{text}'"));
            let double = |x: &Option<f64>| x.map_or("NULL".to_string(), |x| format!("'{x}'::double"));
            let (symbol, side, price, size) = (text(symbol), text(side), double(price), double(size));
            // No two series have equal times: their order would be nobody's.
            let nanos = n;
            let second = if *second % 3 == 0 { 3 } else { *second };
            format!("({n}, '2024-01-01T00:00:{second:02}.{nanos:09}', {symbol}, {side}, {price}, {size})")
        });
        let values: Vec<String> = values.collect();
        if !values.is_empty() {
            run(&database, &format!("INSERT INTO t VALUES {}", values.join(", "))).unwrap();
        }
        if *seal {
            database.engine().seal(None).unwrap();
        }
    }
    database
}

/// The rows of a statement, values as text.
fn run(database: &Database, sql: &str) -> Result<Vec<Vec<String>>, String> {
    let mut session = database.session();
    let batches: Vec<RecordBatch> = database.runtime().block_on(async {
        let statement = session.parse(sql).map_err(|e| e.to_string())?.remove(0);
        match session.run(statement).await.map_err(|error| error.to_string())? {
            Outcome::Rows { stream, .. } => stream.try_collect().await.map_err(|error| error.to_string()),
            Outcome::Done { .. } => Ok(Vec::new()),
        }
    })?;
    let options = FormatOptions::default().with_null("-");
    let mut rows = Vec::new();
    for batch in &batches {
        let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap());
        let columns: Vec<_> = columns.collect();
        let row = |row: usize| columns.iter().map(|column| column.value(row).to_string()).collect();
        rows.extend((0..batch.num_rows()).map(row));
    }
    Ok(rows)
}

/// A row as the naive version sees it: n, ts, symbol, side, price, size.
type Plain = (i64, String, String, String, Option<f64>, Option<f64>);

fn plain(database: &Database) -> Vec<Plain> {
    let rows = run(database, "SELECT n, ts, symbol, side, price, size FROM t ORDER BY ts, n").unwrap();
    let number = |text: &String| (text != "-").then(|| text.parse::<f64>().unwrap());
    let row = |row: Vec<String>| {
        let n = row[0].parse().unwrap();
        (n, row[1].clone(), row[2].clone(), row[3].clone(), number(&row[4]), number(&row[5]))
    };
    rows.into_iter().map(row).collect()
}

/// start, key, count, first n, last n, sum of prices.
type Bar = (String, Vec<String>, usize, i64, i64, Option<f64>);

/// Bars by adding up the sizes of each key's rows, one after the other.
fn naive(
    rows: &[Plain],
    key: impl Fn(&Plain) -> Vec<String>,
    size: impl Fn(&Plain) -> f64,
    limit: f64,
) -> Vec<Bar> {
    let mut bars: Vec<Bar> = Vec::new();
    let mut open: BTreeMap<Vec<String>, (usize, f64)> = BTreeMap::new();
    for row in rows {
        let key = key(row);
        let (bar, mut filled) = open.remove(&key).unwrap_or_else(|| {
            bars.push((row.1.clone(), key.clone(), 0, row.0, row.0, None));
            (bars.len() - 1, 0.0)
        });
        let at = &mut bars[bar];
        (at.2, at.4) = (at.2 + 1, row.0);
        if let Some(price) = row.4 {
            at.5 = Some(at.5.unwrap_or(0.0) + price);
        }
        filled += if size(row).is_nan() { 0.0 } else { size(row) };
        if filled < limit {
            open.insert(key, (bar, filled));
        }
    }
    bars.sort_by(|a, b| (&a.0, a.3).cmp(&(&b.0, b.3)));
    bars
}

fn show(bars: &[Bar]) -> Vec<Vec<String>> {
    let row = |(start, key, count, first, last, sum): &Bar| {
        let sum = sum.map_or("-".to_string(), |sum| format!("{sum:?}"));
        let numbers = [count.to_string(), first.to_string(), last.to_string(), sum];
        [start.clone()].into_iter().chain(key.clone()).chain(numbers).collect()
    };
    bars.iter().map(row).collect()
}

fn check(database: &Database, keys: &str, rest: &str, size: &str, expected: &[Bar], by: &str) {
    // An expression hides the series.
    let hidden = keys.replace("symbol", "symbol || ''");
    let in_order = "by rows in order of time";
    for (keys, by) in [(keys, by), (hidden.as_str(), if hidden == keys { by } else { in_order })] {
        let sql = format!(
            "SELECT ts, {keys} count(*), first(n), last(n), sum(price) FROM t {rest} SAMPLE BY {size}"
        );
        let plan = run(database, &format!("EXPLAIN {sql}")).unwrap().concat().concat();
        assert!(plan.contains(by), "{sql}\n{plan}");
        assert_eq!(run(database, &sql).unwrap(), show(expected), "{sql}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 24 }))]
    #[test]
    fn bars_are_those_of_a_naive_version(commits in any_commits(), limit in 1_u32..60) {
        let database = database(&commits, None);
        let (rows, limit) = (plain(&database), f64::from(limit));
        let symbol = |row: &Plain| vec![row.2.clone()];
        let both = |row: &Plain| vec![row.2.clone(), row.3.clone()];
        let size = |row: &Plain| row.5.unwrap_or(0.0);
        let volume = format!("VOLUME(size) {limit}");
        check(&database, "symbol,", "", &volume, &naive(&rows, symbol, size, limit), "by series");
        check(&database, "symbol, side,", "", &volume, &naive(&rows, both, size, limit), "by series");
        let side = |row: &Plain| vec![row.3.clone()];
        check(&database, "side,", "", &volume, &naive(&rows, side, size, limit), "by rows in order of time");
        check(&database, "", "", &volume, &naive(&rows, |_| vec![], size, limit), "by rows in order of time");
        let ticks = format!("TICKS {limit}");
        check(&database, "symbol,", "", &ticks, &naive(&rows, symbol, |_| 1.0, limit), "by series");
        let value = |row: &Plain| row.4.unwrap_or(f64::NAN) * row.5.unwrap_or(f64::NAN);
        let of_value = format!("VALUE(price * size) {limit}");
        check(&database, "symbol,", "", &of_value, &naive(&rows, symbol, value, limit), "by series");
        let some: Vec<Plain> = rows.iter().filter(|row| row.4.is_some_and(|price| price < 5.0)).cloned().collect();
        let cheap = "WHERE price < 5";
        check(&database, "symbol,", cheap, &volume, &naive(&some, symbol, size, limit), "by series");
        let of_a: Vec<Plain> = rows.iter().filter(|row| row.2 == "A").cloned().collect();
        let only = "WHERE symbol = 'A'";
        check(&database, "", only, &volume, &naive(&of_a, |_| vec![], size, limit), "by series");
        check(&database, "side,", only, &ticks, &naive(&of_a, side, |_| 1.0, limit), "by series");
    }
}

#[test]
fn memory_that_does_not_suffice_is_an_error() {
    let rows =
        |from: i64| (from..from + 400).map(|at| (at % 30, Some("A"), None, Some(1.0), Some(1.0))).collect();
    let commits: Vec<(Vec<Tick>, bool)> = (0..4).map(|at| (rows(at), true)).collect();
    let sql = "SELECT ts, symbol, array_agg(price) FROM t SAMPLE BY TICKS 1";
    assert_eq!(run(&database(&commits, None), sql).unwrap().len(), 1_600);
    let error = run(&database(&commits, Some(20_000)), sql).unwrap_err();
    assert!(error.contains("memory") || error.contains("Resources"), "{error}");
}
