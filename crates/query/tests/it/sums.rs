//! Whole numbers near the ends of their range, and sums of doubles that must not depend on how rows are read: by
//! statistics, kernels, windows, bars and DataFusion's ways, in every state of storage, on one thread and on two.
//!
//! Whole numbers go against a naive version in 128 bits: the same values, or an error. A failure prints its seed;
//! `SEED=n cargo test` runs that one alone.

use crate::numbers::{Numbers, each_seed};
use crate::states::open_wide;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use std::collections::BTreeMap;
use tickstone_engine::EngineOptions;
use tickstone_engine::disk::MemoryDisk;
use tickstone_query::Database;

/// Names, SQL types and ends of the whole numbers.
const TYPES: [(&str, &str, i128, i128); 8] = [
    ("a", "TINYINT", i8::MIN as i128, i8::MAX as i128),
    ("b", "SMALLINT", i16::MIN as i128, i16::MAX as i128),
    ("c", "INT", i32::MIN as i128, i32::MAX as i128),
    ("d", "BIGINT", i64::MIN as i128, i64::MAX as i128),
    ("e", "TINYINT UNSIGNED", 0, u8::MAX as i128),
    ("f", "SMALLINT UNSIGNED", 0, u16::MAX as i128),
    ("g", "INT UNSIGNED", 0, u32::MAX as i128),
    ("h", "BIGINT UNSIGNED", 0, u64::MAX as i128),
];

struct Row {
    n: i128,
    symbol: &'static str,
    side: &'static str,
    whole: [Option<i128>; 8],
    double: Option<f64>,
}

fn whole(numbers: &mut Numbers, least: i128, most: i128, wild: bool) -> i128 {
    let small = numbers.below(100) as i128 - 50;
    match numbers.below(8) {
        0 if wild => most - numbers.below(3) as i128,
        1 if wild => least + numbers.below(3) as i128,
        2 if wild => most / 2 + numbers.below(3) as i128,
        3 if wild => least / 3,
        _ => small.clamp(least, most),
    }
}

fn double(numbers: &mut Numbers) -> f64 {
    let cents = (numbers.below(20_000_000) as f64 - 10_000_000.0) / 100.0;
    match numbers.below(10) {
        0 => cents * 1e15,
        1 => cents * 1e-12,
        2 => 0.1,
        _ => cents,
    }
}

fn rows(numbers: &mut Numbers, count: usize) -> Vec<Row> {
    let wild = numbers.below(3) > 0;
    let row = |n: usize| {
        let (symbol, side) = (*numbers.pick(&["A", "B", "C"]), *numbers.pick(&["buy", "sell"]));
        let whole = TYPES.map(|(_, _, least, most)| {
            (numbers.below(10) > 0).then(|| whole(numbers, least, most, wild && n % 7 < 2))
        });
        let double = (numbers.below(12) > 0).then(|| double(numbers));
        Row { n: n as i128, symbol, side, whole, double }
    };
    (0..count).map(row).collect()
}

fn literal(value: Option<i128>) -> String {
    value.map_or("NULL".to_string(), |value| format!("'{value}'"))
}

/// A row as VALUES has it: one a second, none at the time of another.
fn written(row: &Row) -> String {
    let whole: Vec<String> = row.whole.iter().map(|value| literal(*value)).collect();
    let double = row.double.map_or("NULL".to_string(), |double| format!("'{double:e}'"));
    let time = tickstone_model::format_nanos((1_704_067_200 + row.n as i64) * 1_000_000_000);
    format!("({}, '{time}', '{}', '{}', {}, {double})", row.n, row.symbol, row.side, whole.join(", "))
}

#[derive(Debug, Clone, Copy)]
enum Stored {
    Memory,
    Parts,
    Half,
    Archived,
}

const STORED: [Stored; 4] = [Stored::Memory, Stored::Parts, Stored::Half, Stored::Archived];

/// The rows in a table `t`, stored so, read on one thread or on two.
fn database(rows: &[Row], stored: Stored, two_threads: bool, slice_rows: usize) -> Database {
    let options = EngineOptions { background: false, threads: 1, slice_rows, ..EngineOptions::default() };
    let first = open_wide(&MemoryDisk::new(), options, if two_threads { 0 } else { 1 << 40 });
    let columns: Vec<String> = TYPES.iter().map(|(name, sql, ..)| format!("{name} {sql}")).collect();
    let create = format!(
        "CREATE TABLE t (n BIGINT, ts TIMESTAMP, symbol SYMBOL, side VARCHAR, {}, x DOUBLE)
         TIMESTAMP(ts) SERIES BY (symbol) PARTITION BY DAY",
        columns.join(", ")
    );
    ask(&first, &[], &create).unwrap();
    for (at, some) in rows.chunks(rows.len().div_ceil(3).max(1)).enumerate() {
        let values: Vec<String> = some.iter().map(written).collect();
        ask(&first, &[], &format!("INSERT INTO t VALUES {}", values.join(", "))).unwrap();
        let seals = match stored {
            Stored::Memory => false,
            Stored::Parts | Stored::Archived => true,
            Stored::Half => at == 0,
        };
        if seals {
            first.engine().seal(None).unwrap();
        }
    }
    if matches!(stored, Stored::Archived) {
        first.engine().archive(None).unwrap();
    }
    first
}

/// The rows of a statement in a session with these settings, values as text.
fn ask(database: &Database, settings: &[&str], sql: &str) -> Result<Vec<Vec<String>>, String> {
    let mut session = database.session();
    let run = async {
        for setting in settings {
            session.query(setting).await?;
        }
        let first = session.query(sql).await.map(|batches| shown(&batches));
        if sql.starts_with("SELECT") {
            // By the plan that was kept.
            let second = session.query(sql).await.map(|batches| shown(&batches));
            match (&first, &second) {
                (Ok(first), Ok(second)) => assert_eq!(first, second, "{sql}"),
                (first, second) => assert_eq!(first.is_err(), second.is_err(), "{sql}"),
            }
        }
        first
    };
    database.runtime().block_on(run).map_err(|error| error.to_string())
}

fn shown(batches: &[RecordBatch]) -> Vec<Vec<String>> {
    let options = FormatOptions::new().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<ArrayFormatter> =
            batch.columns().iter().map(|c| ArrayFormatter::try_new(c, &options).unwrap()).collect();
        let row = |row: usize| columns.iter().map(|column| column.value(row).to_string()).collect();
        rows.extend((0..batch.num_rows()).map(row));
    }
    rows.sort();
    rows
}

/// What a sum and its count are to the user; `None` where the sum does not fit.
fn result(values: &[i128], mean: bool, unsigned: bool) -> Option<String> {
    let sum: i128 = values.iter().sum();
    if values.is_empty() {
        return Some("NULL".to_string());
    }
    if mean {
        // Exact enough to compare: the test of the function itself is beside it.
        return Some(format!("{:.9e}", sum as f64 / values.len() as f64));
    }
    let fits = if unsigned { u64::try_from(sum).is_ok() } else { i64::try_from(sum).is_ok() };
    fits.then(|| sum.to_string())
}

/// Compares a query's groups with naive sums of the values of each.
fn check_groups(
    database: &Database,
    settings: &[&str],
    sql: &str,
    groups: &BTreeMap<String, Vec<i128>>,
    (mean, unsigned): (bool, bool),
) {
    let expected: Option<Vec<Vec<String>>> =
        groups.iter().map(|(key, values)| Some(vec![key.clone(), result(values, mean, unsigned)?])).collect();
    match (ask(database, settings, sql), expected) {
        (Ok(mut found), Some(mut expected)) => {
            if mean {
                let round = |row: &mut Vec<String>| {
                    if let Ok(value) = row[1].parse::<f64>() {
                        row[1] = format!("{value:.9e}");
                    }
                };
                found.iter_mut().for_each(round);
            }
            found.sort();
            expected.sort();
            assert_eq!(found, expected, "{sql}");
        }
        (Err(error), None) => assert!(error.contains("does not fit"), "{sql}: {error}"),
        (Ok(found), None) => panic!("{sql}: a sum does not fit, and this came: {found:?}"),
        (Err(error), Some(_)) => panic!("{sql}: {error}"),
    }
}

fn by(
    rows: &[Row],
    at: usize,
    key: impl Fn(&Row) -> String,
    keep: impl Fn(&Row) -> bool,
) -> BTreeMap<String, Vec<i128>> {
    let mut groups: BTreeMap<String, Vec<i128>> = BTreeMap::new();
    for row in rows {
        let values = groups.entry(key(row)).or_default();
        values.extend(row.whole[at].filter(|_| keep(row)));
    }
    groups
}

/// The values of each row's frame of `before` rows and itself, among the rows of its key.
fn frames(
    rows: &[Row],
    at: usize,
    key: fn(&Row) -> &'static str,
    before: usize,
) -> BTreeMap<String, Vec<i128>> {
    let frame = |of: usize| {
        let same: Vec<&Row> = rows[..=of].iter().filter(|row| key(row) == key(&rows[of])).collect();
        let from = same.len().saturating_sub(before + 1);
        (rows[of].n.to_string(), same[from..].iter().filter_map(|row| row.whole[at]).collect())
    };
    (0..rows.len()).map(frame).collect()
}

fn check_sums(rows: &[Row], database: &Database, settings: &[&str], numbers: &mut Numbers) {
    let at = numbers.below(8) as usize;
    let (name, ..) = TYPES[at];
    let unsigned = at >= 4;
    let mean = numbers.below(4) == 0;
    let f = if mean { "avg" } else { "sum" };
    let all = |_: &Row| true;
    let check = |sql: String, groups: &BTreeMap<String, Vec<i128>>| {
        check_groups(database, settings, &sql, groups, (mean, unsigned));
    };
    check(format!("SELECT 'all', {f}({name}) FROM t"), &by(rows, at, |_| "all".into(), all));
    check(
        format!("SELECT symbol, {f}({name}) FROM t GROUP BY symbol"),
        &by(rows, at, |row| row.symbol.into(), all),
    );
    check(
        format!("SELECT side, {f}({name}) FROM t GROUP BY side"),
        &by(rows, at, |row| row.side.into(), all),
    );
    check(
        format!("SELECT symbol, {f}({name}) FILTER (WHERE n % 3 = 0) FROM t GROUP BY symbol"),
        &by(rows, at, |row| row.symbol.into(), |row| row.n % 3 == 0),
    );
    let mut distinct = by(rows, at, |row| row.side.into(), all);
    distinct.values_mut().for_each(|values| {
        values.sort_unstable();
        values.dedup();
    });
    check(format!("SELECT side, {f}(DISTINCT {name}) FROM t GROUP BY side"), &distinct);
    let minute = |row: &Row| format!("2024-01-01T{:02}:{:02}:00", row.n / 3_600, row.n / 60 % 60);
    check(format!("SELECT ts, {f}({name}) FROM t SAMPLE BY 1m"), &by(rows, at, minute, all));
    let by_minute = format!("SELECT ts, {f}({name}) FROM t WHERE side = 'buy' SAMPLE BY 1m");
    let mut buys = by(rows, at, minute, |row| row.side == "buy");
    buys.retain(|key, _| rows.iter().any(|row| row.side == "buy" && minute(row) == *key));
    check(by_minute, &buys);
    let bar = |row: &Row| (row.n / 10).to_string();
    check(format!("SELECT first(n) / 10, {f}({name}) FROM t SAMPLE BY TICKS 10"), &by(rows, at, bar, all));
    let before = *numbers.pick(&[0, 3, 40]);
    let symbol: fn(&Row) -> &'static str = |row| row.symbol;
    let side: fn(&Row) -> &'static str = |row| row.side;
    for (key, of) in [("symbol", symbol), ("side", side)] {
        let over = format!("PARTITION BY {key} ORDER BY ts ROWS BETWEEN {before} PRECEDING AND CURRENT ROW");
        check(format!("SELECT n, {f}({name}) OVER ({over}) FROM t"), &frames(rows, at, of, before));
        let running = format!("PARTITION BY {key} ORDER BY ts ROWS UNBOUNDED PRECEDING");
        check(format!("SELECT n, {f}({name}) OVER ({running}) FROM t"), &frames(rows, at, of, rows.len()));
    }
}

/// Operators on two columns of one type, or on one and a constant.
fn check_arithmetic(rows: &[Row], database: &Database, settings: &[&str], numbers: &mut Numbers) {
    let at = numbers.below(8) as usize;
    let (name, sql_type, least, most) = TYPES[at];
    let constant = whole(numbers, least, most, true);
    let constant_sql = format!("'{constant}'::{sql_type}");
    let sign = *numbers.pick(&["+", "-", "*"]);
    let exact = |a: i128, b: i128| match sign {
        "+" => a + b,
        "-" => a - b,
        _ => a.saturating_mul(b),
    };
    // The difference of two unsigned numbers is a BIGINT.
    let is_signed_by_it = at >= 4 && sign == "-";
    let (least, most) = match is_signed_by_it {
        true => (i128::from(i64::MIN), i128::from(i64::MAX)),
        false => (least, most),
    };
    let fit = |value: i128| (least..=most).contains(&value).then_some(value);
    type Naive<'a> = Box<dyn Fn(i128) -> Option<i128> + 'a>;
    let mut cases: Vec<(String, Naive<'_>)> = vec![
        (format!("{name} {sign} {name}"), Box::new(|value| fit(exact(value, value)))),
        (format!("{name} {sign} {constant_sql}"), Box::new(|value| fit(exact(value, constant)))),
        (format!("{constant_sql} {sign} {name}"), Box::new(|value| fit(exact(constant, value)))),
    ];
    if !is_signed_by_it {
        cases.push((
            format!("({name} {sign} {name}) {sign} {name}"),
            Box::new(|value| fit(exact(fit(exact(value, value))?, value))),
        ));
    }
    if at < 4 {
        cases.push((format!("-{name}"), Box::new(|value| fit(-value))));
        cases.push((format!("abs({name})"), Box::new(|value| fit(value.abs()))));
        let halved = move |value: i128| fit(value / -1);
        cases.push((format!("{name} / '-1'::{sql_type}"), Box::new(halved)));
    }
    for (expr, naive) in cases {
        for condition in ["", "WHERE symbol = 'A'", "WHERE side = 'buy'"] {
            let kept = |row: &&Row| match condition {
                "" => true,
                "WHERE side = 'buy'" => row.side == "buy",
                _ => row.symbol == "A",
            };
            let kept: Vec<&Row> = rows.iter().filter(kept).collect();
            let value = |row: &&Row| row.whole[at].map(&naive);
            let sql = format!("SELECT n, {expr} FROM t {condition}");
            let fits = kept.iter().all(|row| value(row) != Some(None));
            match ask(database, settings, &sql) {
                Ok(found) => {
                    assert!(fits, "{sql}: one does not fit, and this came: {found:?}");
                    let shown =
                        |row: &&Row| value(row).flatten().map_or("NULL".into(), |value| value.to_string());
                    let mut expected: Vec<_> =
                        kept.iter().map(|row| vec![row.n.to_string(), shown(row)]).collect();
                    expected.sort();
                    assert_eq!(found, expected, "{sql}");
                }
                Err(error) => {
                    assert!(!fits, "{sql}: {error}");
                    let says = ["does not fit", "verflow"].iter().any(|part| error.contains(part));
                    assert!(says, "{sql}: {error}");
                }
            }
        }
    }
}

fn whole_numbers(seed: u64) {
    let mut numbers = Numbers(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let count = *numbers.pick(&[20, 120, 400]);
    let rows = rows(&mut numbers, count);
    let stored = *numbers.pick(&STORED);
    let database = database(&rows, stored, numbers.below(2) == 0, *numbers.pick(&[64, 1 << 20]));
    for _ in 0..4 {
        let statistics = format!("SET block_statistics = {}", numbers.below(2) == 0);
        check_sums(&rows, &database, &[&statistics], &mut numbers);
        check_arithmetic(&rows, &database, &[&statistics], &mut numbers);
    }
}

#[test]
fn whole_numbers_are_right_or_refused() {
    each_seed(24, whole_numbers);
}

/// Whole blocks, of which statistics and sums of packed values take the place.
#[test]
fn whole_numbers_by_blocks() {
    each_seed(2, |seed| {
        let mut numbers = Numbers(seed | 1);
        let rows = rows(&mut numbers, 6_000);
        for stored in [Stored::Parts, Stored::Archived] {
            let database = database(&rows, stored, true, 1 << 20);
            for (at, (name, ..)) in TYPES.into_iter().enumerate() {
                let groups = by(&rows, at, |row| row.symbol.into(), |_| true);
                for (f, mean) in [("sum", false), ("avg", true)] {
                    let sql = format!("SELECT symbol, {f}({name}) FROM t GROUP BY symbol");
                    for statistics in ["SET block_statistics = true", "SET block_statistics = false"] {
                        check_groups(&database, &[statistics], &sql, &groups, (mean, at >= 4));
                    }
                }
            }
        }
    });
}

const DETERMINISTIC: &str = "SET deterministic_sums = true";

/// Questions whose answers are made of sums of doubles.
const OF_SUMS: [&str; 10] = [
    "SELECT sum(x), avg(x), ksum(x), var(x), var_pop(x), stddev(x), stddev_pop(x) FROM t",
    "SELECT symbol, sum(x), avg(x), vwap(x, n), corr(x, n), covar_samp(x, n), covar_pop(n, x) FROM t GROUP BY symbol",
    "SELECT side, sum(x), avg(x), stddev(x), vwap(x, n) FROM t GROUP BY side",
    "SELECT side, sum(DISTINCT x), avg(x) FILTER (WHERE n % 3 = 1) FROM t GROUP BY side",
    "SELECT ts, sum(x), avg(x), vwap(x, n), var_pop(x) FROM t SAMPLE BY 1m",
    "SELECT ts, symbol, sum(x * n), sum(x - n) FROM t WHERE side = 'buy' SAMPLE BY 5m",
    "SELECT first(n), sum(x), stddev(x) FROM t SAMPLE BY TICKS 10",
    "SELECT n, sum(x) OVER w, avg(x) OVER w, vwap(x, n) OVER w, stddev(x) OVER w FROM t
     WINDOW w AS (PARTITION BY symbol ORDER BY ts ROWS BETWEEN 7 PRECEDING AND CURRENT ROW)",
    "SELECT n, sum(x) OVER w, corr(x, n) OVER w FROM t
     WINDOW w AS (PARTITION BY side ORDER BY ts ROWS UNBOUNDED PRECEDING)",
    "SELECT sum(s) FROM (SELECT symbol, sum(x) AS s FROM t GROUP BY symbol)",
];

/// Every way of reading gives the same to the last digit.
fn deterministic(seed: u64) {
    let mut numbers = Numbers(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let count = *numbers.pick(&[30, 300, 3_000]);
    let rows = rows(&mut numbers, count);
    let mut expected: Vec<Option<Vec<Vec<String>>>> = vec![None; OF_SUMS.len()];
    for stored in STORED {
        let slice_rows = *numbers.pick(&[64, 1 << 20]);
        let database = database(&rows, stored, numbers.below(2) == 0, slice_rows);
        for statistics in ["SET block_statistics = true", "SET block_statistics = false"] {
            let batch = format!("SET execution.batch_size = {}", numbers.pick(&[8_192, 17]));
            for (sql, expected) in OF_SUMS.iter().zip(&mut expected) {
                let found = ask(&database, &[DETERMINISTIC, statistics, &batch], sql).unwrap();
                let first = expected.get_or_insert_with(|| found.clone());
                assert_eq!(&found, first, "{sql}, {stored:?}, {statistics}, {batch}");
            }
        }
    }
    // The sum itself is the nearest double: in 2^-200 all of these are whole.
    let database = database(&rows, Stored::Parts, true, 64);
    let exact = ask(&database, &[DETERMINISTIC], "SELECT 'all', sum(x) FROM t").unwrap();
    let sorted =
        ask(&database, &[DETERMINISTIC], "SELECT 'all', sum(x) FROM (SELECT x FROM t ORDER BY x)").unwrap();
    assert_eq!(exact, sorted);
    let usual = database.runtime().block_on(database.session().query("SELECT 'all', sum(x) FROM t"));
    let usual = shown(&usual.unwrap());
    let [exact, usual] = [exact, usual].map(|rows| rows[0][1].parse::<f64>().unwrap_or(0.0));
    let size: f64 = rows.iter().filter_map(|row| row.double).map(f64::abs).sum();
    assert!((exact - usual).abs() <= 1e-12 * size, "{exact} is far from {usual}");
}

#[test]
fn deterministic_sums_do_not_depend_on_how_rows_are_read() {
    each_seed(6, deterministic);
}
