use crate::operators::window::tests::{plan, run, run_plainly, same};
use crate::{Database, DatabaseOptions};
use proptest::prelude::*;
use tickstone_engine::EngineOptions;

/// A table `q` of rows by venue and side, and a small one, `v`, of names of venues, some of them twice or missing.
fn database(rows: &[(u8, Option<u8>, Option<i32>)], names: &[(u8, u8)], sealed: bool) -> Database {
    let engine = EngineOptions { background: false, threads: 1, slice_rows: 64, ..EngineOptions::default() };
    let options =
        DatabaseOptions { query_threads: Some(2), wide_rows_min: 1, engine, query_memory_bytes: None };
    let database = Database::in_memory(options).unwrap();
    run(
        &database,
        "CREATE TABLE q (ts TIMESTAMP, s SYMBOL, venue SYMBOL, side SYMBOL, px FLOAT, sz INT, big BIGINT) TIMESTAMP(ts)
         SERIES BY (s)",
    );
    run(&database, "CREATE TABLE v (code SYMBOL, name VARCHAR, kind INT)");
    let text =
        |of: Option<u8>| of.map_or("NULL".to_string(), |of| format!("'{}'", char::from(b'A' + of % 4)));
    let values = rows.iter().enumerate().map(|(at, (symbol, venue, size))| {
        let size = size.map_or("NULL".to_string(), |size| size.to_string());
        let symbol = char::from(b'X' + symbol % 2);
        let side = ["'b'", "'s'"][at % 2];
        format!(
            "('2024-01-01T00:{:02}:{:02}', '{symbol}', {}, {side}, {size}, {size}, {size})",
            at / 60,
            at % 60,
            text(*venue)
        )
    });
    run(&database, &format!("INSERT INTO q VALUES {}", values.collect::<Vec<_>>().join(", ")));
    for (code, name) in names {
        run(
            &database,
            &format!("INSERT INTO v VALUES ({}, 'n{}', {})", text(Some(*code)), name % 3, name % 2),
        );
    }
    if sealed {
        database.engine().seal(None).unwrap();
    }
    database
}

const AGGREGATES: [&str; 9] = [
    "count(*)",
    "count(px)",
    "sum(sz)",
    "avg(px)",
    "min(px), max(sz)",
    "avg(px * sz), count(*), sum(px)",
    "sum(px::DOUBLE)",
    "max(ts), min(side)",
    "sum(sz) / count(*), avg(px) + 1",
];

/// Groups, and what they are of.
const GROUPS: [(&str, &str); 7] = [
    ("name", "q JOIN v ON q.venue = v.code"),
    ("kind", "v JOIN q ON q.venue = v.code"),
    ("name, side", "q JOIN v ON q.venue = v.code"),
    ("upper(name)", "(SELECT * FROM q WHERE sz > 2) q JOIN v ON v.code = q.venue"),
    ("kind + 1, s", "q JOIN v ON q.venue = v.code"),
    ("code", "q JOIN (SELECT * FROM v WHERE kind = 0) v ON q.venue = v.code"),
    ("name", "q JOIN (SELECT code::VARCHAR AS code, name FROM v) v ON q.venue = v.code"),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn groups_below_joins(
        rows in prop::collection::vec((any::<u8>(), prop::option::weighted(0.9, any::<u8>()), prop::option::weighted(0.9, -9_i32..9)), 200..300),
        names in prop::collection::vec((any::<u8>(), any::<u8>()), 0..6),
        sealed in any::<bool>(),
    ) {
        let database = database(&rows, &names, sealed);
        for (group, from) in GROUPS {
            for aggregates in AGGREGATES {
                let sql = format!("SELECT {group}, {aggregates} FROM {from} GROUP BY {group}");
                let (mut found, mut expected) = (run(&database, &sql), run_plainly(&database, &sql));
                // Groups come first, each once.
                found.sort();
                expected.sort();
                assert_eq!(found.len(), expected.len(), "{sql}");
                for (found, expected) in found.iter().zip(&expected) {
                    let same = found.iter().zip(expected).all(|(a, b)| same(a, b));
                    assert!(same, "{sql}\n{found:?}\n{expected:?}\n{}", plan(&database, &sql));
                }
            }
        }
    }
}

#[test]
fn what_can_be_grouped_below_a_join_is() {
    let rows: Vec<_> = (0..=250).map(|at| (at, Some(at), Some(i32::from(at) % 7))).collect();
    let database = database(&rows, &[(0, 0), (1, 1), (1, 2)], true);
    let below = |sql: &str| {
        let text = plan(&database, sql);
        text.rfind("GroupByExec").is_some_and(|at| text.find("HashJoinExec").is_some_and(|join| join < at))
    };
    assert!(below("SELECT name, count(*), avg(px) FROM q JOIN v ON q.venue = v.code GROUP BY name"));
    assert!(below("SELECT kind, side, sum(sz) FROM q JOIN v ON q.venue = v.code GROUP BY kind, side"));
    for sql in [
        // The sum of some BIGINTs may be past them where that of all is not.
        "SELECT name, sum(big) FROM q JOIN v ON q.venue = v.code GROUP BY name",
        "SELECT name, median(px) FROM q JOIN v ON q.venue = v.code GROUP BY name",
        "SELECT name, count(DISTINCT sz) FROM q JOIN v ON q.venue = v.code GROUP BY name",
        "SELECT name, count(*) FROM q LEFT JOIN v ON q.venue = v.code GROUP BY name",
        "SELECT name, count(*) FROM q JOIN v ON q.venue = v.code AND q.sz > v.kind GROUP BY name",
        "SELECT name, sum(kind * sz) FROM q JOIN v ON q.venue = v.code GROUP BY name",
        "SELECT count(*) FROM q JOIN v ON q.venue = v.code",
    ] {
        assert!(!below(sql), "{sql}: {}", plan(&database, sql));
    }
}
