//! `ORDER BY … LIMIT` of rows by symbols: what stands between the two gives what it gives of the same texts in a table.
//!
//! A failure prints its seed; `SEED=n cargo test` runs that one alone.

use crate::asked::Asked;
use crate::numbers::{Numbers, each_seed};
use crate::states::open_wide;
use tickstone_engine::EngineOptions;
use tickstone_engine::disk::MemoryDisk;

/// Rows of a symbol `s` and a number `x`.
const SOURCES: &[&str] = &[
    "SELECT s, x FROM t",
    "SELECT v AS s, x FROM t",
    "SELECT s, x FROM w",
    "SELECT a.s, a.x FROM t a JOIN t b ON a.n = b.n",
    "SELECT b.s, a.x FROM t a LEFT JOIN q b ON a.v = b.v AND a.x > 3",
    "SELECT b.v AS s, a.x FROM t a FULL JOIN (SELECT * FROM q WHERE x < 3) b ON a.n = b.n",
    "SELECT CASE WHEN x > 2 THEN s ELSE v END AS s, x FROM t",
    "SELECT CASE WHEN x > 2 THEN s ELSE 'e' END AS s, x FROM t",
    "SELECT coalesce(s, v) AS s, x FROM t",
    "SELECT nullif(s, v) AS s, x FROM t",
    "SELECT last(s) AS s, n % 7 AS x FROM t GROUP BY n % 7",
    "SELECT first(s) AS s, x FROM t GROUP BY x",
    "SELECT max(s) AS s, n % 11 AS x FROM t GROUP BY n % 11",
    "SELECT arg_max(s, n) AS s, x FROM t GROUP BY x",
    "SELECT unnest([s, v]) AS s, x FROM t",
    "SELECT b.s, a.x FROM t a ASOF JOIN q b ON (v)",
    "SELECT a.s, b.x FROM t a LT JOIN q b",
    "SELECT s, x FROM t LATEST ON ts PARTITION BY s",
    "SELECT s, x FROM t LATEST ON ts PARTITION BY v",
    "SELECT s, max(x) AS x FROM t SAMPLE BY 1h",
    "SELECT v AS s, max(x) AS x FROM t SAMPLE BY 1h FILL(PREV)",
    "SELECT last(s) AS s, max(x) AS x FROM t SAMPLE BY 30m",
    "SELECT s, x FROM t UNION SELECT v, x FROM t",
    "SELECT s, x FROM t UNION ALL SELECT v, x FROM q",
    "SELECT DISTINCT s, x FROM t",
    "SELECT first_value(s) OVER (PARTITION BY v ORDER BY ts) AS s, x FROM t",
    "SELECT lag(s) OVER (ORDER BY ts) AS s, x FROM t",
    "SELECT s, row_number() OVER (PARTITION BY s ORDER BY ts) AS x FROM t",
    "SELECT s, x FROM t ORDER BY ts DESC LIMIT 50",
    "SELECT s, x FROM t WHERE s > 'b' OR x = 2",
    "SELECT (SELECT max(v) FROM q WHERE q.n = t.n) AS s, x FROM t",
    "SELECT s, sum(x) AS x FROM t GROUP BY ROLLUP (s)",
];

/// Statements over rows `$S` and others `$T`; `$O` is how they are ordered, and how many are wanted.
const STATEMENTS: &[&str] = &[
    "SELECT DISTINCT s FROM $S ORDER BY s $O",
    "SELECT s FROM $S GROUP BY s ORDER BY s $O",
    "SELECT s, count(*) FROM $S GROUP BY s ORDER BY s $O",
    "SELECT s, x, count(*) FROM $S GROUP BY s, x ORDER BY x, s $O",
    "SELECT DISTINCT x, s FROM $S ORDER BY s, x $O",
    "SELECT s FROM $S UNION SELECT s FROM $T ORDER BY s $O",
    "SELECT s FROM $S INTERSECT SELECT s FROM $T ORDER BY s $O",
    "SELECT s FROM $S EXCEPT SELECT s FROM $T ORDER BY s $O",
    "SELECT s FROM (SELECT DISTINCT s FROM $S) UNION ALL SELECT reverse(s) AS r FROM (SELECT DISTINCT s FROM $T) ORDER BY s $O",
    "SELECT s, row_number() OVER (ORDER BY s DESC) FROM (SELECT DISTINCT s FROM $S) ORDER BY s $O",
    "SELECT s, count(*) OVER (ORDER BY s) FROM (SELECT s FROM $S GROUP BY s) ORDER BY s $O",
    "SELECT s, sum(m) OVER () FROM (SELECT s, max(x) AS m FROM $S GROUP BY s) ORDER BY s $O",
    "SELECT m FROM (SELECT s, max(x) AS m FROM $S GROUP BY s) ORDER BY m $O",
    "SELECT -m AS m FROM (SELECT s, max(x) AS m FROM $S GROUP BY s) ORDER BY m $O",
    "SELECT m, rank() OVER (ORDER BY m DESC) FROM (SELECT x, min(s) AS m FROM $S GROUP BY x) ORDER BY m $O",
    "SELECT m FROM (SELECT x, max(s) AS m FROM $S GROUP BY x) ORDER BY m $O",
    "SELECT reverse(s) AS s FROM (SELECT DISTINCT s FROM $S) ORDER BY s $O",
    "SELECT -x AS x FROM (SELECT DISTINCT x FROM $S) ORDER BY x $O",
    "SELECT s FROM (SELECT x AS s, s AS x FROM (SELECT x, max(s) AS s FROM $S GROUP BY x)) ORDER BY s $O",
    "SELECT DISTINCT s FROM (SELECT DISTINCT s FROM $S ORDER BY s $O) ORDER BY s DESC LIMIT 2",
    "SELECT min(s), max(s), count(*) FROM (SELECT DISTINCT s FROM $S ORDER BY s $O)",
    "SELECT DISTINCT s FROM $S WHERE s > 'b' ORDER BY s $O",
    "SELECT s FROM (SELECT s, count(*) AS n FROM $S GROUP BY s) WHERE n > 3 ORDER BY s $O",
    "SELECT s, count(*) FROM $S GROUP BY s HAVING max(x) > 3 ORDER BY s $O",
    "SELECT DISTINCT ON (s) s, x FROM $S ORDER BY s, x LIMIT 4",
    "SELECT a.s FROM (SELECT DISTINCT s FROM $S) a JOIN (SELECT DISTINCT s FROM $T) b ON a.s = b.s ORDER BY a.s $O",
    "SELECT a.s, b.s FROM (SELECT DISTINCT s FROM $S) a CROSS JOIN (SELECT DISTINCT s FROM $T) b ORDER BY b.s, a.s $O",
    "SELECT s FROM $S ORDER BY s $O",
    "SELECT s, x FROM $S ORDER BY s, x $O",
    "SELECT s, x FROM (SELECT s, x, row_number() OVER (PARTITION BY s ORDER BY x) AS r FROM $S) WHERE r <= 1 ORDER BY s $O",
    "SELECT CASE WHEN s > 'c' THEN 'z' ELSE s END AS s FROM (SELECT DISTINCT s FROM $S) ORDER BY s $O",
    "SELECT DISTINCT s || '!' AS s FROM $S ORDER BY s $O",
    "SELECT s, list FROM (SELECT s, count(DISTINCT x) AS list FROM $S GROUP BY s) ORDER BY s $O",
];

const ORDERS: &[&str] = &["", "DESC", "NULLS FIRST", "DESC NULLS LAST"];

fn inserted(numbers: &mut Numbers, table: &str, rows: u64) -> String {
    let mut names = ["d", "b", "e", "a", "c", "ab", "", "ba", "zz"];
    for at in 0..names.len() {
        let other = numbers.below(names.len() as u64) as usize;
        names.swap(at, other);
    }
    let values = (0..rows).map(|n| {
        let mut name = || match numbers.one_in(15) {
            true => "NULL".to_string(),
            false => format!("'{}'", numbers.pick(&names)),
        };
        let (s, v) = (name(), name());
        let x = if numbers.one_in(15) { "NULL".to_string() } else { numbers.below(9).to_string() };
        // No two rows have one time.
        let ts = format!(
            "'2024-01-01'::TIMESTAMP + INTERVAL '{} milliseconds'",
            numbers.below(9_999) + n * 10_000
        );
        format!("({ts}, {s}, {v}, {x}, {n})")
    });
    format!("INSERT INTO {table} VALUES {}", values.collect::<Vec<_>>().join(", "))
}

fn check(seed: u64) {
    let mut numbers = Numbers(seed | 1);
    let options = EngineOptions { background: false, threads: 2, ..EngineOptions::default() };
    // On one thread, or on two.
    let mut run = Asked::new(open_wide(&MemoryDisk::new(), options, *numbers.pick(&[1, 1 << 40])));
    for table in ["t", "q"] {
        let series = *numbers.pick(&["", " SERIES BY (s)", " SERIES BY (s, v)"]);
        let columns = "ts TIMESTAMP, s SYMBOL, v SYMBOL, x BIGINT, n BIGINT";
        run.done(&format!("CREATE TABLE {table} ({columns}) TIMESTAMP(ts) PARTITION BY HOUR{series}"));
        let rows = 5 + numbers.below(900);
        run.done(&inserted(&mut numbers, table, rows));
        if numbers.one_in(2) {
            run.done("CHECKPOINT");
            let rows = 1 + numbers.below(50);
            run.done(&inserted(&mut numbers, table, rows));
        }
    }
    run.done("CREATE VIEW w AS SELECT s, x, v FROM t WHERE x <> 1");
    for _ in 0..30 {
        let (one, two) = (*numbers.pick(SOURCES), *numbers.pick(SOURCES));
        for (table, source) in [("u1", one), ("u2", two)] {
            run.done(&format!(
                "CREATE OR REPLACE TABLE {table} AS SELECT s::VARCHAR AS s, x FROM ({source}) AS o"
            ));
        }
        for _ in 0..4 {
            let mut order = format!("{} LIMIT {}", numbers.pick(ORDERS), 1 + numbers.below(5));
            if numbers.one_in(3) {
                order.push_str(&format!(" OFFSET {}", numbers.below(4)));
            }
            let statement = numbers.pick(STATEMENTS).replace("$O", &order);
            let asked =
                statement.replace("$S", &format!("({one}) AS o")).replace("$T", &format!("({two}) AS p"));
            let truth = statement.replace("$S", "u1").replace("$T", "u2");
            run.same(&asked, &truth);
        }
    }
}

#[test]
fn the_first_rows_by_symbols_are_those_by_their_texts() {
    each_seed(5, check);
}
