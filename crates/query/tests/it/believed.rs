//! What is believed of expressions: a statement over an expression of sorted rows gives what it gives over a column that
//! holds its values, in a table that has them in no order.
//!
//! A failure prints its seed; `SEED=n cargo test` runs that one alone.

use crate::asked::Asked;
use crate::numbers::{Numbers, each_seed};
use crate::states::open_wide;
use tickstone_engine::EngineOptions;
use tickstone_engine::disk::MemoryDisk;

/// Expressions of a column, and the type of a literal that they are compared with.
type Expressions = (&'static str, &'static [(&'static str, &'static str)]);

const EXPRESSIONS: &[Expressions] = &[
    (
        "ts",
        &[
            ("ts::TIME", "TIME"),
            ("ts::DATE", "DATE"),
            ("date_trunc('hour', ts)", "TIMESTAMP"),
            ("date_trunc('day', ts)::TIME", "TIME"),
            ("time_bucket('7h', ts)", "TIMESTAMP"),
            ("date_bin(INTERVAL '3 hours', ts)", "TIMESTAMP"),
            ("year(ts)", "BIGINT"),
            ("extract(hour FROM ts)", "BIGINT"),
            ("ts AT TIME ZONE 'America/New_York'", "TIMESTAMP"),
            ("(ts AT TIME ZONE 'America/New_York')::DATE", "DATE"),
            ("(ts AT TIME ZONE 'America/New_York')::TIME", "TIME"),
            ("date_trunc('day', ts AT TIME ZONE 'America/New_York')", "TIMESTAMP"),
            ("ts::VARCHAR", "VARCHAR"),
            ("(ts + INTERVAL '1 month')", "TIMESTAMP"),
            ("(ts - INTERVAL '1 month')::DATE", "DATE"),
            ("(ts + INTERVAL '1 hour')::TIME", "TIME"),
            ("ts::DATE::TIMESTAMP", "TIMESTAMP"),
            ("(CASE WHEN qty > 2 THEN ts::TIME ELSE NULL END)", "TIME"),
        ],
    ),
    (
        "px",
        &[
            ("px::BIGINT", "BIGINT"),
            ("px::INT", "INT"),
            ("px::REAL", "REAL"),
            ("px::DECIMAL(18, 1)", "DECIMAL(18, 1)"),
            ("px::DECIMAL(18, 0)", "DECIMAL(18, 0)"),
            ("px::BOOLEAN", "BOOLEAN"),
            ("px::VARCHAR", "VARCHAR"),
            ("round(px)", "DOUBLE"),
            ("round(px, -1)", "DOUBLE"),
            ("trunc(px)", "DOUBLE"),
            ("floor(px / 2)", "DOUBLE"),
            ("ceil(px)", "DOUBLE"),
            ("(-px)", "DOUBLE"),
            ("abs(px)", "DOUBLE"),
            ("sign(px)", "DOUBLE"),
            ("(px * 0.5)", "DOUBLE"),
            ("(px + 1)::INT", "INT"),
            ("coalesce(px, 0)::BIGINT", "BIGINT"),
        ],
    ),
    (
        "r",
        &[
            ("(-r)", "DOUBLE"),
            ("r::REAL", "REAL"),
            ("round(r, 1)", "DOUBLE"),
            ("abs(r)", "DOUBLE"),
            ("(r > 1)", "BOOLEAN"),
        ],
    ),
    (
        "qty",
        &[
            ("qty::BOOLEAN", "BOOLEAN"),
            ("qty::VARCHAR", "VARCHAR"),
            ("qty::DOUBLE", "DOUBLE"),
            ("qty::SMALLINT", "SMALLINT"),
            ("(qty / 2)", "DOUBLE"),
            ("(qty // 2)", "BIGINT"),
            ("(qty % 3)", "BIGINT"),
            ("(qty * 0)", "BIGINT"),
            ("(-qty)", "BIGINT"),
            ("(qty > 2)", "BOOLEAN"),
            ("(qty > 2 OR NULL)", "BOOLEAN"),
            ("(qty > 2 AND NULL)", "BOOLEAN"),
            ("(qty > 2 OR px > 0)", "BOOLEAN"),
            ("sqrt(qty + 100)", "DOUBLE"),
        ],
    ),
    ("sym", &[("sym::VARCHAR", "VARCHAR"), ("upper(sym)", "VARCHAR"), ("(sym > 'b')", "BOOLEAN")]),
    (
        "d",
        &[
            ("d::TIMESTAMP", "TIMESTAMP"),
            ("(d + INTERVAL '1 month')", "TIMESTAMP"),
            ("d::TIMESTAMP::TIME", "TIME"),
        ],
    ),
    ("tm", &[("tm::VARCHAR", "VARCHAR")]),
];

/// Statements: `$F` is the rows, `$E` the expression of a column `$K`, `$W` the rows where it has one of its values.
const STATEMENTS: &[&str] = &[
    "SELECT $E AS g, count(*), sum(id), min(ts) FROM $F GROUP BY 1",
    "SELECT $E AS g, sym, count(*) FROM $F GROUP BY 1, 2",
    "SELECT count(DISTINCT $E), count($E), max($E), min($E) FROM $F",
    "SELECT sym, count(DISTINCT $E) FROM $F GROUP BY sym",
    "SELECT DISTINCT $E AS g, sym FROM $F",
    "SELECT DISTINCT $E AS g FROM $F ORDER BY 1 LIMIT 5",
    "SELECT DISTINCT $E AS g FROM $F ORDER BY 1 DESC NULLS LAST LIMIT 5",
    "SELECT $E AS g, max(id) AS m FROM $F GROUP BY 1 ORDER BY m DESC LIMIT 5",
    "SELECT id, row_number() OVER (PARTITION BY $E ORDER BY ts, id), lag(id) OVER (PARTITION BY $E ORDER BY ts, id) FROM $F",
    "SELECT id, count(*) OVER (PARTITION BY $E), sum(id) OVER (PARTITION BY $E, sym) FROM $F",
    "SELECT id, rank() OVER (ORDER BY $E), count(*) OVER (ORDER BY $E DESC) FROM $F",
    "SELECT id FROM $F ORDER BY $E, id LIMIT 20",
    "SELECT id FROM $F ORDER BY $E DESC, ts, id LIMIT 20",
    "SELECT id FROM $F ORDER BY $E NULLS FIRST, px, id LIMIT 20",
    "SELECT id FROM (SELECT id, $E AS g FROM $F ORDER BY $K) ORDER BY g, id LIMIT 20",
    "SELECT id FROM (SELECT id, $E AS g FROM $F ORDER BY $K DESC) ORDER BY g DESC, id LIMIT 20",
    "SELECT id FROM (SELECT id, $E AS g FROM $F ORDER BY $K DESC) ORDER BY g, id LIMIT 20",
    "SELECT id FROM (SELECT id, $E AS g FROM $F ORDER BY $K NULLS FIRST) ORDER BY g NULLS FIRST, id LIMIT 20",
    "SELECT $E AS g, count(*) FROM (SELECT * FROM $F ORDER BY $K DESC) GROUP BY 1",
    "SELECT a.id, b.id FROM (SELECT id, $E AS g FROM $F WHERE id < 60) a JOIN (SELECT id, $E AS g FROM $F WHERE id > 40) b ON a.g = b.g",
    "SELECT id FROM $W ORDER BY $K, id LIMIT 3",
    "SELECT id FROM $W ORDER BY $K DESC, id LIMIT 3",
    "SELECT id FROM $W ORDER BY $K NULLS FIRST, ts DESC, id LIMIT 3",
    "SELECT id FROM $W ORDER BY sym, $K, id LIMIT 3",
    "SELECT DISTINCT $K FROM $W ORDER BY 1 LIMIT 4",
    "SELECT min($K), max($K), count(DISTINCT $K), count(*) FROM $W",
    "SELECT $K, count(*) FROM $W GROUP BY 1",
    "SELECT $K, qty, count(*) FROM $W GROUP BY 1, 2",
    "SELECT id, rank() OVER (ORDER BY $K), row_number() OVER (ORDER BY $K DESC, id) FROM $W",
    "SELECT id, sum(id) OVER (ORDER BY $K, id), count(*) OVER (PARTITION BY $K), lag(id) OVER (ORDER BY $K, id) FROM $W",
    "SELECT a.id, b.id FROM $W a LT JOIN t b ON (sym)",
    "SELECT a.id, b.id FROM $W a ASOF JOIN t b ON (sym)",
    "SELECT a.id, b.id FROM $W a JOIN t b ON a.ts = b.ts AND a.$K = b.$K",
];

/// Conditions of `$W`.
const CONDITIONS: &[&str] = &[
    "$E = $C",
    "$C = $E",
    "$E IN ($C)",
    "$E BETWEEN $C AND $C",
    "$E >= $C AND $E <= $C",
    "$E >= $C",
    "$E = $C AND qty > 1",
    "$E = $C AND ts > '2024-03-10T12:00:00'",
    "$E <= $C AND px < 3",
    "$E IS NOT DISTINCT FROM $C",
    "NOT ($E <> $C)",
];

fn inserted(numbers: &mut Numbers, rows: u64) -> String {
    let null =
        |numbers: &mut Numbers, value: String| if numbers.one_in(12) { "NULL".to_string() } else { value };
    let (ascend, minutes) = (numbers.one_in(2), 60 * 24 * 75);
    let values = (0..rows).map(|id| {
        let minute = if ascend { id * minutes / rows } else { numbers.below(minutes) };
        let ts = format!("'2024-01-20'::TIMESTAMP + INTERVAL '{} minutes'", minute / 5 * 5);
        let sym = format!("'{}'", numbers.pick(&["b", "a", "d", "c"]));
        let px = format!("{}", numbers.below(41) as f64 / 4.0 - 5.0);
        let qty = format!("{}", numbers.below(9) as i64 - 3);
        let day = format!("'2024-01-{:02}'", 25 + numbers.below(7));
        let hour = format!("'{:02}:30:00'", numbers.below(24));
        let real = match numbers.below(8) {
            0 => "'NaN'".to_string(),
            1 => "'-inf'".to_string(),
            _ => format!("{}", numbers.below(13) as f64 / 3.0 - 2.0),
        };
        let [sym, px, qty, day, hour, real] = [sym, px, qty, day, hour, real].map(|of| null(numbers, of));
        format!("({ts}, {sym}, {px}, {qty}, {day}, {hour}, {real}, {id})")
    });
    format!("INSERT INTO t VALUES {}", values.collect::<Vec<_>>().join(", "))
}

fn check(seed: u64) {
    let mut numbers = Numbers(seed | 1);
    let engine = EngineOptions { background: false, threads: 2, ..EngineOptions::default() };
    let mut run = Asked::new(open_wide(&MemoryDisk::new(), engine, 1 << 18));
    let series = *numbers.pick(&["", " SERIES BY (sym)"]);
    let columns = "ts TIMESTAMP, sym SYMBOL, px DOUBLE, qty BIGINT, d DATE, tm TIME, r DOUBLE, id BIGINT";
    run.done(&format!("CREATE TABLE t ({columns}) TIMESTAMP(ts) PARTITION BY MONTH{series}"));
    let rows = 200 + numbers.below(3_000);
    run.done(&inserted(&mut numbers, rows));
    if numbers.one_in(2) {
        run.done("CHECKPOINT");
    }
    let folder = std::env::temp_dir().join(format!("tickstone-believed-{}-{seed}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = |name: &str| folder.join(name).to_string_lossy().to_string();
    let (parquet, csv) = (file("t.parquet"), file("t.csv"));
    run.done(&format!("COPY (SELECT * FROM t ORDER BY ts) TO '{parquet}'"));
    run.done(&format!("COPY (SELECT * FROM t ORDER BY ts) TO '{csv}'"));
    for _ in 0..40 {
        let (column, expressions) = *numbers.pick(EXPRESSIONS);
        let expression = *numbers.pick(expressions);
        let from = match numbers.below(4) {
            0 => format!("'{parquet}'"),
            1 => format!("'{csv}'"),
            _ => "t".to_string(),
        };
        compare(&mut run, &mut numbers, (column, expression), &from);
    }
    drop(run);
    let _ = std::fs::remove_dir_all(folder);
}

/// Asks some statements about an expression of the rows of `from`.
fn compare(run: &mut Asked, numbers: &mut Numbers, (column, (expr, of)): (&str, (&str, &str)), from: &str) {
    run.done(&format!(
        "CREATE OR REPLACE TABLE u AS SELECT {expr} AS k, * FROM {from} ORDER BY id * 7919 % 1009, id"
    ));
    let some = run.rows("SELECT k::VARCHAR FROM u WHERE k IS NOT NULL ORDER BY id").unwrap();
    if some.is_empty() {
        return;
    }
    for _ in 0..6 {
        let value = format!("'{}'::{of}", numbers.pick(&some).replace('\'', "''"));
        let condition = numbers.pick(CONDITIONS).replace("$C", &value);
        let statement = numbers.pick(STATEMENTS).replace("$K", column);
        let found = format!("(SELECT * FROM {from} WHERE {})", condition.replace("$E", expr));
        let ids = format!("(SELECT id FROM u WHERE {})", condition.replace("$E", "k"));
        let wanted = format!("(SELECT * FROM {from} WHERE id IN {ids})");
        let asked = statement.replace("$W", &found).replace("$F", from).replace("$E", expr);
        let truth = statement.replace("$W", &wanted).replace("$F", "u").replace("$E", "k");
        run.same(&asked, &truth);
    }
}

#[test]
fn an_expression_is_believed_what_its_values_are() {
    each_seed(6, check);
}
