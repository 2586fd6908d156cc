//! Rows that a user may not read are neither quoted in errors nor counted.

use crate::access::{done, memory, of, ran};
use tickstone_query::{Access, Database, DatabaseOptions};

/// Conditions of grants, each true of the rows whose `v` is 'A'.
const OF_THE_ALLOWED: [&str; 12] = [
    "sym = 'A'",
    "v = 'A'",
    "v LIKE 'A%'",
    "length(v) = 1 AND v = 'A'",
    "n = 5",
    "n > 0 AND d < 1.5",
    "b",
    "CASE WHEN v = 'A' THEN true ELSE false END",
    "upper(v) = 'A'",
    "v ~ '^A'",
    "concat(v, sym) = 'AA'",
    "v IN (SELECT 'A') OR v = 'A'",
];

/// What a statement works out of rows that its user may not read fails, and would quote them.
#[test]
fn errors_say_nothing_of_rows_that_are_not_granted() {
    let database = Database::in_memory(DatabaseOptions::default()).unwrap();
    let mut owner = Access::of_owner(&database).session();
    done(
        &mut owner,
        "CREATE TABLE t (ts TIMESTAMP, sym SYMBOL, v VARCHAR, note VARCHAR, n BIGINT, d DOUBLE, b BOOLEAN, num SYMBOL) TIMESTAMP(ts)",
    );
    let row = "TIMESTAMP '2024-01-01' + value * INTERVAL '1 second' AS ts, CASE WHEN a THEN 'A' ELSE 'B' END AS sym, \
               CASE WHEN a THEN 'A' ELSE 'B' END AS v, CASE WHEN a THEN '7' ELSE 'HIDDEN' || value END AS note, \
               CASE WHEN a THEN 5 ELSE 0 END AS n, CASE WHEN a THEN 1.0 ELSE 2.0 END AS d, a AS b, \
               CASE WHEN a THEN '12' ELSE 'HIDDEN' || value END AS num";
    let rows = format!("SELECT {row} FROM (SELECT value, value % 2 = 0 AS a FROM range(0, 6000))");
    let statements = [
        "SELECT count(*) FROM {t} AS t WHERE CAST(note AS INT) = 7",
        "SELECT v, CAST(note AS INT) AS x FROM {t} AS t ORDER BY ts LIMIT 3",
        "SELECT v, n, b, sym, d, 100 / n AS z FROM {t} AS t ORDER BY ts LIMIT 3",
        "SELECT count(*) FROM {t} AS t WHERE 100 / n > 1",
        "SELECT sum(CAST(note AS INT)) FROM {t} AS t",
        "SELECT count(*) FROM {t} AS t WHERE note::INT > 0 AND n > 0 AND sym < 'Z'",
        "SELECT note FROM {t} AS t ORDER BY CAST(note AS INT), ts LIMIT 3",
        "SELECT count(t.note) FROM {t} AS t JOIN (VALUES (7), (3)) k(k) ON CAST(t.note AS INT) = k.k",
        "SELECT count(*) FROM {t} AS t WHERE sym = 'Q' OR CAST(note AS INT) = 7",
        "SELECT max(CAST(note AS INT)) OVER (PARTITION BY sym) AS m FROM {t} AS t LIMIT 3",
        "SELECT sum(x) FROM (SELECT CAST(note AS INT) AS x, sym FROM {t} AS t) WHERE sym = 'A' AND x > 0",
        "SELECT CAST(note AS INT) AS k, count(*) FROM {t} AS t GROUP BY k",
        "SELECT ts, avg(CAST(note AS INT)) AS m FROM {t} AS t SAMPLE BY 1h ORDER BY ts LIMIT 3",
        "SELECT note FROM {t} AS t WHERE CAST(note AS INT) > 0 LATEST ON ts PARTITION BY sym",
        "SELECT count(*) FROM {t} AS t WHERE (SELECT 7) = CAST(note AS INT)",
        "SELECT count(*) FROM {t} AS t WHERE n IN (SELECT 35 / u.n - 2 FROM {t} u)",
        "SELECT CAST(note AS INT) AS c, CAST(note AS INT) + 1 AS e FROM {t} AS t WHERE CAST(note AS INT) > 0 ORDER BY ts DESC LIMIT 1",
        "SELECT first(note::INT) AS a, last(100 / n) AS z FROM {t} AS t",
        "SELECT count(*) FROM {t} AS t WHERE NOT (CAST(note AS INT) <> 7 AND n > 3)",
        "SELECT count(*) FROM {t} a LEFT JOIN {t} u ON a.ts = u.ts AND CAST(u.note AS INT) = 7",
        "WITH w AS (SELECT * FROM {t} AS t WHERE CAST(note AS BIGINT) BETWEEN 1 AND 9) SELECT count(*) FROM w",
        "SELECT num::INT AS x, upper(num)::BIGINT + 1 AS y, [num]::INT[] AS z FROM {t} AS t ORDER BY ts LIMIT 3",
        "SELECT count(*), sum(num::INT) AS s FROM {t} AS t WHERE num::DOUBLE > 3 AND n < num",
    ];
    let mut root = None;
    for state in ["recent", "sealed"] {
        if root.is_none() {
            done(&mut owner, &format!("INSERT INTO t {rows}"));
            done(&mut owner, "CREATE USER root PASSWORD 'r' IN ROLE admin");
            root = Some(of(&database, "root"));
        } else {
            done(&mut owner, "CHECKPOINT");
        }
        let root = root.as_mut().expect("made");
        if state == "recent" {
            let columns = "ts TIMESTAMP, sym SYMBOL, v VARCHAR, note VARCHAR, n BIGINT, d DOUBLE, b BOOLEAN, num SYMBOL";
            done(root, &format!("CREATE TABLE ok ({columns}) TIMESTAMP(ts)"));
            done(root, "INSERT INTO ok SELECT * FROM t WHERE b");
        }
        for (number, condition) in OF_THE_ALLOWED.iter().enumerate() {
            if condition.contains("SELECT") {
                let grant = format!("GRANT SELECT ON t WHERE {condition} TO root");
                assert!(ran(root, &grant).is_err(), "conditions have no sub-queries");
                continue;
            }
            let user = format!("u{state}{number}");
            done(root, &format!("CREATE USER {user} PASSWORD 'x'"));
            done(root, &format!("GRANT SELECT ON t WHERE {condition} TO {user}"));
            // The same by a view of somebody else's.
            done(root, &format!("CREATE OR REPLACE VIEW seen AS SELECT * FROM t WHERE {condition}"));
            done(root, &format!("GRANT SELECT ON seen TO {user}"));
            let mut filtered = of(&database, &user);
            for statement in statements {
                let over = |table: &str| statement.replace("{t}", table);
                let same = done(root, &over("ok"));
                // The second time by the plan that was kept.
                for _ in 0..2 {
                    assert_eq!(done(&mut filtered, &over("t")), same, "{state}, {condition}: {statement}");
                }
                assert_eq!(
                    done(&mut filtered, &over("seen")),
                    same,
                    "{state}, {condition}, view: {statement}"
                );
            }
        }
    }
}

/// A condition of a grant fails on a row that is not granted, and would quote it.
#[test]
fn a_condition_that_fails_quotes_no_row() {
    let database = memory();
    let (mut root, mut ann) = (of(&database, "root"), of(&database, "ann"));
    let columns = "ts TIMESTAMP, sym SYMBOL, note VARCHAR, n BIGINT, px DOUBLE";
    done(&mut root, &format!("CREATE TABLE notes ({columns}) TIMESTAMP(ts)"));
    let rows = "SELECT TIMESTAMP '2024-01-01' + value * INTERVAL '1 second', 'A', CASE value WHEN 4000 THEN 'HIDDEN' ELSE \
                '7' END, CASE value WHEN 4000 THEN 0 ELSE 5 END, 1.0 FROM range(0, 5000)";
    done(&mut root, &format!("INSERT INTO notes {rows}"));
    done(&mut root, "CREATE VIEW above AS SELECT ts, sym, note, n, px FROM notes WHERE px > 0");
    let grants = [
        "ON {t} WHERE CAST(note AS INT) = 7",
        "ON {t} WHERE CAST({t}.note AS INT) = 7 AND sym = 'A'",
        "ON {t} WHERE 100 / n > 1 AND px > 0 AND CAST(note AS BIGINT) < 8",
        "ON {t} WHERE sym = 'Q' OR note::INT > 6",
        "ON {t} (ts, px) WHERE note::INT > 0",
    ];
    let statements = [
        "SELECT ts, px FROM {t}",
        "SELECT count(*) FROM {t}",
        "SELECT max(px) FROM {t} AS x WHERE px < 2",
        "SELECT ts, avg(px) FROM {t} SAMPLE BY 1h",
        "SELECT px FROM {t} ORDER BY ts DESC LIMIT 2000",
        "SELECT a.px FROM {t} a ASOF JOIN {t} b",
        "SELECT px FROM {t} LATEST ON ts PARTITION BY px",
        "SELECT (SELECT max(px) FROM {t}) AS m",
        "SELECT count(*) FROM (SELECT px FROM {t} UNION ALL SELECT px FROM {t})",
    ];
    for state in ["recent", "sealed"] {
        for table in ["notes", "above"] {
            // Columns are granted of tables alone.
            for grant in grants.iter().filter(|grant| table == "notes" || !grant.contains("(ts")) {
                done(&mut root, &format!("GRANT SELECT {} TO ann", grant.replace("{t}", table)));
                for statement in statements {
                    let statement = statement.replace("{t}", table);
                    for _ in 0..2 {
                        let error = ran(&mut ann, &statement).expect_err(&statement).to_string();
                        assert!(
                            error.contains("fails on a row that it reads"),
                            "{state}, {grant}, {statement}: {error}"
                        );
                        assert!(!error.contains("HIDDEN"), "{state}, {grant}, {statement}: {error}");
                    }
                }
                // What fails on a row that may be read says so.
                done(&mut root, &format!("REVOKE ALL ON {table} FROM ann"));
                done(&mut root, &format!("GRANT SELECT ON {table} WHERE TRY_CAST(note AS INT) = 7 TO ann"));
                let own = ran(&mut ann, &format!("SELECT CAST(note || 'x' AS INT) FROM {table}"));
                let own = own.expect_err("no number").to_string();
                assert!(own.contains("7x"), "{own}");
                assert_eq!(done(&mut ann, &format!("SELECT count(*) FROM {table}")), ["4999"]);
                done(&mut root, &format!("REVOKE ALL ON {table} FROM ann"));
            }
        }
        done(&mut root, "CHECKPOINT");
    }
}

/// Whatever shape a view has: what its reader works out meets only rows that it gives, and what it works out itself tells
/// no values of rows that its reader may not read.
#[test]
fn no_shape_of_a_view_quotes_what_it_leaves_out() {
    let database = memory();
    let (mut root, mut ann) = (of(&database, "root"), of(&database, "ann"));
    done(&mut root, "CREATE TABLE notes (ts TIMESTAMP, sym SYMBOL, note VARCHAR, n BIGINT) TIMESTAMP(ts)");
    done(&mut root, "CREATE TABLE own (ts TIMESTAMP, sym SYMBOL) TIMESTAMP(ts)");
    done(&mut root, "INSERT INTO own VALUES ('2024-01-01T00:00:01', 'A')");
    done(
        &mut root,
        "INSERT INTO notes VALUES ('2024-01-01T00:00:01', 'A', '7', 1), ('2024-01-01T00:00:02', 'A', '8', 2), \
         ('2024-01-01T00:00:03', 'B', 'HIDDEN1', 5), ('2024-01-01T00:00:04', 'B', 'HIDDEN2', 5)",
    );
    let leave_out = [
        "SELECT note, n FROM notes EXCEPT SELECT note, n FROM notes WHERE sym = 'B'",
        "SELECT note, n FROM notes INTERSECT SELECT note, n FROM notes WHERE sym = 'A'",
        "SELECT l.note, l.n FROM own, LATERAL (SELECT note, n FROM notes WHERE notes.sym = own.sym) l",
        "SELECT note, n FROM notes WHERE EXISTS (SELECT 1 FROM own WHERE own.sym = notes.sym)",
        "SELECT note, n FROM notes WHERE sym IN (SELECT sym FROM own)",
        "SELECT note, n FROM notes WHERE n = (SELECT min(n) FROM notes m WHERE m.note = notes.note) AND n < 5",
        "SELECT note, n FROM (SELECT * FROM notes ORDER BY ts LIMIT 2)",
        "SELECT DISTINCT note, n FROM notes JOIN own USING (sym)",
        "WITH w AS (SELECT * FROM notes WHERE n < 3) SELECT note, n FROM w UNION ALL SELECT note, n FROM w WHERE n > 9",
        "SELECT last(note) AS note, max(n) AS n FROM notes GROUP BY n HAVING max(n) < 3",
        "SELECT note, n FROM notes QUALIFY row_number() OVER (ORDER BY ts) < 3",
    ];
    let asks = [
        "SELECT note FROM v ORDER BY CAST(note AS INT)",
        "SELECT note FROM v ORDER BY CASE WHEN n = 5 THEN CAST(note AS INT) ELSE n END",
        "SELECT n FROM v WHERE CAST(note AS INT) > 6 ORDER BY n",
        "SELECT CAST(note AS INT) AS i FROM v ORDER BY n",
        "SELECT sum(CAST(note AS INT)) FROM v",
        "SELECT n, row_number() OVER (ORDER BY CAST(note AS INT)) AS r FROM v ORDER BY n",
        "SELECT max(n) FROM v GROUP BY CAST(note AS INT) ORDER BY 1",
        "SELECT n FROM v x JOIN (VALUES (7), (8)) k(k) ON CAST(x.note AS INT) = k.k ORDER BY n",
        "SELECT n FROM v WHERE n IN (SELECT CAST(note AS INT) - 6 FROM v) ORDER BY n",
    ];
    let fail = [
        "SELECT sym, sum(1 / (n - 5)) AS s FROM notes WHERE CAST(note AS INT) < 100 GROUP BY sym",
        "SELECT ts, sum(n) AS s FROM notes WHERE CAST(note AS INT) < 100 SAMPLE BY 1s",
        "SELECT sum(CAST(note AS INT)) AS s FROM notes",
        "SELECT a.n FROM notes a JOIN notes b ON CAST(a.note AS INT) = b.n",
        "SELECT n FROM notes ORDER BY CAST(note AS INT)",
        "SELECT sym, max(n) AS n FROM notes GROUP BY sym HAVING max(CAST(note AS INT)) > 0",
        "SELECT CASE WHEN max(CAST(note AS INT)) > 0 THEN 1 END AS a, sym FROM notes GROUP BY sym",
        "SELECT DISTINCT CAST(note AS INT) > 1 AS a FROM notes",
        "SELECT n, row_number() OVER (ORDER BY CAST(note AS INT)) AS r FROM notes",
        "SELECT n FROM notes UNION SELECT CAST(note AS INT) FROM notes",
        "SELECT ts, CAST(note AS INT) AS i FROM notes LATEST ON ts PARTITION BY sym",
        "SELECT n FROM notes WHERE array_length(range(0, n * 1000000000000)) > 0",
    ];
    for state in ["recent", "sealed"] {
        for query in leave_out {
            done(&mut root, &format!("CREATE OR REPLACE VIEW v AS {query}"));
            done(&mut root, "GRANT SELECT ON v TO ann");
            // A LATERAL query in a view is not read within a sub-query through a barrier.
            for ask in asks.iter().filter(|ask| !(query.contains("LATERAL") && ask.contains("IN (SELECT"))) {
                let wanted = done(&mut root, &ask.replace("CAST(", "TRY_CAST("));
                for explain in ["", "EXPLAIN ANALYZE "] {
                    let found = ran(&mut ann, &format!("{explain}{ask}"));
                    let found =
                        found.unwrap_or_else(|error| panic!("{state}, {query}: {explain}{ask}: {error}"));
                    assert!(!explain.is_empty() || found == wanted, "{state}, {query}: {ask}: {found:?}");
                }
            }
        }
        for query in fail {
            done(&mut root, &format!("CREATE OR REPLACE VIEW v AS {query}"));
            done(&mut root, "GRANT SELECT ON v TO ann");
            // An order that nobody sees is not worked out.
            let error = match ran(&mut ann, "SELECT * FROM v") {
                Ok(rows) if query.contains("FROM notes ORDER BY") => rows.join(" "),
                other => other.expect_err(query).to_string(),
            };
            assert!(!error.contains("HIDDEN") && !error.contains("GB"), "{state}, {query}: {error}");
        }
        done(&mut root, "CHECKPOINT");
    }
}

/// EXPLAIN counts no row that is not granted.
#[test]
fn explain_counts_what_is_granted() {
    let database = memory();
    let (mut root, mut ann) = (of(&database, "root"), of(&database, "ann"));
    done(
        &mut root,
        "INSERT INTO t SELECT TIMESTAMP '2024-01-04' + value * INTERVAL '1 second', 'B', 5.0, 1 FROM range(0, 7779)",
    );
    done(&mut root, "GRANT SELECT ON t (ts, sym, px) WHERE sym = 'A' AND length(sym) = 1 TO ann");
    done(&mut root, "CREATE VIEW some AS SELECT * FROM t WHERE px < 3");
    done(&mut root, "GRANT SELECT ON some TO ann");
    for _ in 0..2 {
        for query in [
            "SELECT * FROM t",
            "SELECT count(*) FROM t",
            "SELECT * FROM t WHERE px > 2 AND CAST(px AS BIGINT) > 1",
            "SELECT sym, max(px) FROM t GROUP BY sym ORDER BY 2",
            "SELECT * FROM t LATEST ON ts PARTITION BY sym",
            "SELECT ts, avg(px) FROM t SAMPLE BY 1h",
            "SELECT a.ts FROM t a JOIN t b ON a.ts = b.ts",
            "SELECT * FROM t a ASOF JOIN some b",
            "SELECT px FROM some ORDER BY px LIMIT 1",
        ] {
            for explain in ["EXPLAIN", "EXPLAIN ANALYZE"] {
                let text = done(&mut ann, &format!("{explain} {query}")).join("\n");
                // 7783 rows, 7781 and 7780 of them of B or from 3 on; times have a point and a unit.
                let mut counts = text.split(|c: char| !c.is_ascii_alphanumeric());
                let hidden = counts.find(|word| ["7783", "7781", "7780", "7779"].contains(word));
                assert_eq!(hidden, None, "{explain} {query}: {text}");
                for hidden in ["7.78 K", "7.8 K", "\u{1}"] {
                    assert!(!text.contains(hidden), "{explain} {query}: {text}");
                }
                assert!(text.contains("ScanExec"), "{explain} {query}: {text}");
            }
        }
        for explain in ["EXPLAIN VERBOSE", "EXPLAIN ANALYZE VERBOSE"] {
            assert!(ran(&mut ann, &format!("{explain} SELECT * FROM t")).is_err(), "{explain}");
            done(&mut root, &format!("{explain} SELECT * FROM t"));
        }
        assert!(done(&mut root, "EXPLAIN ANALYZE SELECT * FROM t").join("\n").contains("7783"));
        done(&mut root, "CHECKPOINT");
    }
}

/// A view leaves rows out in more ways than by WHERE over one table.
#[test]
fn errors_say_nothing_of_rows_that_a_view_leaves_out() {
    let database = memory();
    let (mut root, mut ann) = (of(&database, "root"), of(&database, "ann"));
    for sql in [
        "CREATE TABLE b (ts TIMESTAMP, sym SYMBOL, k BIGINT, n BIGINT, s VARCHAR) TIMESTAMP(ts)",
        "INSERT INTO b SELECT timestamp_s(value), 'A', 7, 5, '5' FROM range(0, 3000)",
        "INSERT INTO b SELECT timestamp_s(value), 'B', 8, 0, 'HIDDEN' || value FROM range(0, 3000)",
        "CREATE TABLE ok (ts TIMESTAMP, k BIGINT, sym SYMBOL) TIMESTAMP(ts)",
        "INSERT INTO ok VALUES ('1970-01-01', 7, 'A')",
    ] {
        done(&mut root, sql);
    }
    for (number, view) in [
        "SELECT b.* FROM b, (VALUES (7)) AS w(x) WHERE b.k = w.x",
        "SELECT b.* FROM b JOIN ok ON b.k = ok.k",
        "SELECT b.* FROM b SEMI JOIN ok ON b.k = ok.k",
        "SELECT * FROM b WHERE EXISTS (SELECT 1 FROM ok WHERE ok.k = b.k)",
        "SELECT * FROM b WHERE NOT EXISTS (SELECT 1 FROM ok WHERE ok.k <> b.k)",
        "SELECT * FROM b WHERE k IN (SELECT k FROM ok)",
        "SELECT b.* FROM b ASOF JOIN ok o ON (sym) WHERE o.k = 7",
        "SELECT * FROM b EXCEPT SELECT * FROM b WHERE k = 8",
        "SELECT * FROM b INTERSECT SELECT * FROM b WHERE k = 7",
        "SELECT * FROM (SELECT * FROM b) WHERE k = 7",
    ]
    .into_iter()
    .enumerate()
    {
        done(&mut root, &format!("CREATE VIEW v{number} AS {view}"));
        done(&mut root, &format!("GRANT SELECT ON v{number} TO ann"));
        for (condition, wanted) in
            [("s::INT > 0", true), ("100 / n > 0", true), ("s::INT = 4", false), ("n < s", false)]
        {
            let sql = format!("SELECT count(*) > 0 FROM v{number} WHERE {condition}");
            for _ in 0..2 {
                assert_eq!(done(&mut ann, &sql), [wanted.to_string()], "{view}: {condition}");
            }
        }
    }
}

/// Rows carry the symbols that they have, and no others.
#[test]
fn dictionaries_have_the_symbols_of_granted_rows() {
    let database = memory();
    let (mut root, mut ann) = (of(&database, "root"), of(&database, "ann"));
    done(&mut root, "GRANT SELECT ON t WHERE sym = 'A' TO ann");
    for sql in [
        "SELECT sym FROM t",
        "SELECT DISTINCT sym FROM t",
        "SELECT sym, count(*) FROM t GROUP BY sym",
        "SELECT array_agg(sym) AS all FROM t",
        "SELECT ts, last(sym) AS s FROM t SAMPLE BY 1d",
        "SELECT a.sym FROM t a ASOF JOIN t b",
    ] {
        for _ in 0..3 {
            let batches = database.runtime().block_on(ann.query(sql)).unwrap();
            let text = format!("{batches:?}");
            assert!(text.contains("\"A\"") && !text.contains("\"B\""), "{sql}: {text}");
        }
    }
}

/// Rows come to the reader of a view in the order in which they come to an admin.
#[test]
fn views_give_readers_their_order() {
    let database = memory();
    let (mut root, mut ann) = (of(&database, "root"), of(&database, "ann"));
    done(
        &mut root,
        "CREATE TABLE m (ts TIMESTAMP, note VARCHAR, n BIGINT, d DOUBLE, own VARCHAR) TIMESTAMP(ts)",
    );
    done(
        &mut root,
        "INSERT INTO m SELECT timestamp_s(1704067200 + value), value::VARCHAR, value, value * 37 % 100 / 3.0, \
         CASE WHEN value % 3 = 0 THEN 'x' ELSE 'y' END FROM range(0, 90)",
    );
    done(&mut root, "GRANT SELECT ON m WHERE own = 'y' TO ann");
    for (number, query) in [
        "SELECT ts, note, n, d FROM m WHERE own = 'y' ORDER BY d DESC, n",
        "SELECT ts, note, n, d FROM m WHERE own = 'y' ORDER BY abs(n - 30), n",
        "SELECT ts, note, n, sqrt(d) AS d FROM m WHERE own = 'y' ORDER BY sqrt(d), n",
        "SELECT ts, last(note) AS note, sum(n) AS n, max(d) AS d FROM m WHERE own = 'y' SAMPLE BY 5s ORDER BY abs(n - 3) DESC, n",
        "SELECT DISTINCT ON (n % 7) ts, note, n, d FROM m WHERE own = 'y' ORDER BY n % 7, d DESC, n",
        "SELECT * FROM v0 WHERE n > 3",
    ]
    .into_iter()
    .enumerate()
    {
        done(&mut root, &format!("CREATE VIEW v{number} AS {query}"));
        done(&mut root, &format!("GRANT SELECT ON v{number} TO ann"));
        for ask in [
            "SELECT * FROM {v}",
            "SELECT n FROM {v} WHERE n > 10 LIMIT 5",
            "SELECT n FROM {v}",
            "SELECT n FROM {v} LIMIT 3 OFFSET 2",
            "SELECT ts, n + 1 AS m FROM {v} WHERE n > 4",
            "SELECT x.n FROM {v} x WHERE x.ts > '2024-01-01T00:00:20'",
            "SELECT n FROM {v} WHERE CAST(note AS INT) > 20",
            "SELECT count(*), sum(n) FROM {v}",
            "WITH w AS (SELECT n, d FROM {v}) SELECT n FROM w",
        ] {
            let ask = ask.replace("{v}", &format!("v{number}"));
            let wanted = done(&mut root, &ask);
            for _ in 0..2 {
                assert_eq!(done(&mut ann, &ask), wanted, "{query}: {ask}");
            }
        }
    }
}
