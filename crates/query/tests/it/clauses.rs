//! No clause is parsed and then ignored: each of these changes the result or is an error that names it, at its place.

use crate::states::open;
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::arrow::util::pretty::pretty_format_batches;
use tickstone_engine::disk::MemoryDisk;
use tickstone_query::{Database, ErrorKind, QueryError, Session};

/// Clauses that are refused: the statement, and what the error says. `^` stands before the word it points at.
const REFUSED: &[(&str, &str)] = &[
    ("SELECT x FROM t ^PREWHERE x > 1", "PREWHERE"),
    ("SELECT x FROM t ^FINAL", "FINAL"),
    ("SELECT x FROM t ^FINAL WHERE x > 1", "FINAL"),
    ("SELECT x FROM t ^FOR UPDATE", "FOR UPDATE"),
    ("SELECT x FROM t ^FOR SHARE", "FOR SHARE"),
    ("SELECT sym, sum(x) FROM t GROUP BY sym ^WITH TOTALS", "WITH TOTALS"),
    ("SELECT x FROM t ^CONNECT BY PRIOR x = y", "CONNECT BY"),
    ("SELECT x FROM t ^START WITH x = 1 CONNECT BY PRIOR x = y", "START WITH"),
    ("SELECT x FROM t ^PARTITION (p0)", "PARTITION"),
    ("SELECT x FROM t ^SETTINGS max_threads = 1", "SETTINGS"),
    ("SELECT x FROM t ^FORMAT JSON", "FORMAT"),
    ("SELECT ^TOP 3 x FROM t", "TOP"),
    ("SELECT x ^INTO u FROM t", "INTO"),
    ("SELECT x FROM t ^LATERAL VIEW explode(y) v AS z", "LATERAL VIEW"),
    ("SELECT x FROM t ORDER BY x LIMIT 2 BY sym", "LIMIT BY"),
    ("SELECT x FROM t ORDER BY x FETCH FIRST 2 ROWS ^WITH TIES", "WITH TIES"),
    ("SELECT x FROM t ORDER BY x FETCH FIRST 2 PERCENT ROWS ONLY", "PERCENT"),
    ("SELECT x FROM t ORDER BY ts ^WITH FILL STEP 1", "WITH FILL"),
    ("SELECT x FROM t ORDER BY ts WITH FILL INTERPOLATE (x AS 1)", "INTERPOLATE"),
    ("SELECT x FROM t ^CLUSTER BY x", "CLUSTER BY"),
    ("SELECT x FROM t ^DISTRIBUTE BY x", "DISTRIBUTE BY"),
    ("SELECT x FROM t ^SORT BY x", "SORT BY"),
    ("SELECT a.x FROM t a ^GLOBAL JOIN t b ON a.x = b.x", "GLOBAL"),
    ("SELECT a.x FROM t a CROSS APPLY (SELECT 1)", "CROSS APPLY"),
    ("SELECT x FROM t WITH (NOLOCK)", "WITH (…) after a table"),
    ("SELECT x FROM t USE INDEX (i)", "INDEX"),
    ("SELECT x FROM t FOR SYSTEM_TIME AS OF '2024-01-01'", "SYSTEM_TIME"),
    ("SELECT * FROM range(3) WITH ORDINALITY", "WITH ORDINALITY"),
    ("SELECT * FROM t AS u(a BIGINT)", "a type in the columns of an alias"),
    ("SELECT * FROM generate_series(1, 3) SETTINGS a = 1", "SETTINGS"),
    ("WITH q AS ^MATERIALIZED (SELECT 1) SELECT * FROM q", "MATERIALIZED"),
    ("SELECT * ILIKE 'x%' FROM t", "ILIKE"),
    ("SELECT quantile(0.5)(x) FROM t", "two lists of arguments"),
    ("SELECT string_agg(sym SEPARATOR ',') FROM t", "SEPARATOR"),
    ("SELECT array_agg(x LIMIT 2) FROM t", "LIMIT"),
    ("SELECT sum(x) OVER (w ROWS 2 PRECEDING) FROM t WINDOW v AS (ORDER BY ts)", "another's name"),
    ("SELECT sum(x) OVER (w ORDER BY x) FROM t WINDOW w AS (ORDER BY ts)", "another's name"),
    ("SELECT sum(x) OVER (ORDER BY ts ROWS 2 PRECEDING EXCLUDE TIES) FROM t", "EXCLUDE"),
    ("SELECT CAST(x AS VARCHAR FORMAT 'a') FROM t", "FORMAT"),
    ("SELECT sym COLLATE \"de\" FROM t", "COLLATE"),
    ("SELECT sym RLIKE 'a' FROM t", "RLIKE"),
    ("SELECT CONVERT(x, CHAR) FROM t", "CONVERT"),
    ("SELECT sym LIKE ANY ('a', 'b') FROM t", "ANY"),
    ("SELECT CEIL(ts TO DAY) FROM t", "a unit in ceil"),
    ("SELECT ^INTERVAL '1-2' YEAR TO MONTH", "INTERVAL … TO"),
    ("SELECT x FROM t TABLESAMPLE (BUCKET 1 OUT OF 2)", "BUCKET"),
    ("SELECT x FROM t TABLESAMPLE (10)", "PERCENT"),
    ("SELECT x FROM t TABLESAMPLE (110 PERCENT)", "0 to 100"),
    ("SELECT x FROM t TABLESAMPLE SYSTEM (10 PERCENT) REPEATABLE (1)", "REPEATABLE"),
    ("SELECT x FROM t TABLESAMPLE (2.5 ROWS)", "whole number"),
    // Functions that know nothing of a clause.
    ("SELECT ^abs(DISTINCT x) FROM t", "abs takes no DISTINCT"),
    ("SELECT ^abs(x) FILTER (WHERE x > 1) FROM t", "abs takes no FILTER"),
    ("SELECT ^abs(x) OVER () FROM t", "abs takes no OVER"),
    ("SELECT ^abs(x ORDER BY x) FROM t", "abs takes no ORDER BY"),
    ("SELECT ^abs(x) IGNORE NULLS FROM t", "abs takes no IGNORE NULLS"),
    ("SELECT ^abs(x) WITHIN GROUP (ORDER BY x) FROM t", "abs takes no WITHIN GROUP"),
    ("SELECT ^corr(DISTINCT x, y) FROM t", "corr takes no DISTINCT"),
    ("SELECT ^vwap(DISTINCT x, y) FROM t", "vwap takes no DISTINCT"),
    ("SELECT ^sum(x) RESPECT NULLS OVER (ORDER BY ts) FROM t", "sum takes no IGNORE NULLS"),
    ("SELECT ^rank() IGNORE NULLS OVER (ORDER BY ts) FROM t", "rank takes no IGNORE NULLS"),
    ("SELECT ^row_number() FILTER (WHERE x > 1) OVER (ORDER BY ts) FROM t", "row_number takes no FILTER"),
    ("SELECT ^lag(DISTINCT x) OVER (ORDER BY ts) FROM t", "lag takes no DISTINCT"),
    ("SELECT sum(x) IGNORE NULLS FROM t", "NULLS"),
    ("SELECT sum(x) WITHIN GROUP (ORDER BY x) FROM t", "WITHIN GROUP"),
    // Statements that change rows.
    ("INSERT ^OR IGNORE INTO t VALUES ('2024-01-01', 'A', 1, 2)", "OR IGNORE"),
    ("INSERT OR REPLACE INTO t VALUES ('2024-01-01', 'A', 1, 2)", "DEDUP UPSERT KEYS"),
    ("REPLACE INTO t VALUES ('2024-01-01', 'A', 1, 2)", "DEDUP UPSERT KEYS"),
    ("INSERT INTO t VALUES ('2024-01-01', 'A', 1, 2) ON CONFLICT ^DO NOTHING", "DO NOTHING"),
    ("INSERT INTO t VALUES ('2024-01-01', 'A', 1, 2) ^OUTPUT x", "OUTPUT"),
    ("MERGE INTO d USING t ON d.ts = t.ts WHEN MATCHED THEN ^DELETE", "DELETE"),
    ("MERGE INTO d USING t ON d.ts = t.ts WHEN NOT MATCHED BY SOURCE THEN UPDATE SET x = 1", "BY SOURCE"),
    ("MERGE INTO d USING t ON d.ts = t.ts WHEN NOT MATCHED THEN INSERT ^ROW", "ROW"),
    ("MERGE INTO t USING d ON d.ts = t.ts WHEN MATCHED THEN UPDATE SET x = 1", "DEDUP UPSERT KEYS"),
    ("INSERT INTO t VALUES ('2024-01-01', 'A', 1, 2) ON DUPLICATE KEY UPDATE x = 1", "ON DUPLICATE KEY"),
    ("INSERT ^OVERWRITE t VALUES ('2024-01-01', 'A', 1, 2)", "OVERWRITE"),
    (
        "INSERT INTO d VALUES ('2024-01-01', 'A', 1, 2) ON CONFLICT (ts) DO UPDATE SET x = excluded.x, y = excluded.y",
        "names other columns",
    ),
    (
        "INSERT INTO d VALUES ('2024-01-01', 'A', 1, 2) ON CONFLICT (ts, sym) DO UPDATE SET x = excluded.x",
        "leaves out 'y'",
    ),
    (
        "INSERT INTO d VALUES ('2024-01-01', 'A', 1, 2) ON CONFLICT (ts, sym) DO UPDATE SET x = x + 1, y = excluded.y",
        "x = x + 1",
    ),
    (
        "INSERT INTO d VALUES ('2024-01-01', 'A', 1, 2) ON CONFLICT (ts, sym) DO UPDATE SET x = excluded.x, y = excluded.y WHERE d.x > 1",
        "WHERE after DO UPDATE SET",
    ),
    ("DELETE FROM t WHERE x = 1 ^LIMIT 1", "LIMIT in DELETE"),
    ("UPDATE OR IGNORE t SET x = 1", "OR"),
    ("EXPLAIN QUERY PLAN SELECT 1", "QUERY PLAN"),
    ("EXPLAIN ESTIMATE SELECT 1", "ESTIMATE"),
    ("EXPLAIN (ANALYZE) SELECT 1", "brackets"),
];

/// Clauses that work: the statement, and a statement that gives the same rows.
const SAME: &[(&str, &str)] = &[
    (
        "SELECT sym, sum(x) FROM t GROUP BY sym WITH ROLLUP ORDER BY sym",
        "SELECT sym, sum(x) FROM t GROUP BY ROLLUP (sym) ORDER BY sym",
    ),
    (
        "SELECT sym, y, sum(x) FROM t GROUP BY sym, y WITH ROLLUP ORDER BY 1, 2",
        "SELECT sym, y, sum(x) FROM t GROUP BY ROLLUP (sym, y) ORDER BY 1, 2",
    ),
    (
        "SELECT sym, y, sum(x) FROM t GROUP BY sym, y WITH CUBE ORDER BY 1, 2, 3",
        "SELECT sym, y, sum(x) FROM t GROUP BY CUBE (sym, y) ORDER BY 1, 2, 3",
    ),
    ("SELECT x FROM t ORDER BY x, y FETCH FIRST 2 ROWS ONLY", "SELECT x FROM t ORDER BY x, y LIMIT 2"),
    (
        "SELECT x FROM t ORDER BY x, y OFFSET 1 ROW FETCH NEXT 2 ROWS ONLY",
        "SELECT x FROM t ORDER BY x, y LIMIT 2 OFFSET 1",
    ),
    (
        "SELECT x FROM t QUALIFY row_number() OVER (PARTITION BY sym ORDER BY ts) = 1 ORDER BY x",
        "SELECT x FROM (SELECT x, row_number() OVER (PARTITION BY sym ORDER BY ts) r FROM t) q WHERE r = 1 ORDER BY x",
    ),
    ("SELECT count(*) FROM t TABLESAMPLE (100 PERCENT)", "SELECT count(*) FROM t"),
    ("SELECT count(*) FROM t TABLESAMPLE BERNOULLI (0 PERCENT)", "SELECT 0"),
    (
        "SELECT count(*) FROM t AS u TABLESAMPLE SYSTEM (100) WHERE u.x > 1",
        "SELECT count(*) FROM t WHERE x > 1",
    ),
    ("SELECT count(*) FROM t TABLESAMPLE (3 ROWS)", "SELECT 3"),
    ("SELECT count(*) FROM t TABLESAMPLE reservoir(3 ROWS)", "SELECT 3"),
    ("SELECT count(*) FROM (SELECT * FROM t WHERE x > 2) q TABLESAMPLE (1000 ROWS)", "SELECT 1000"),
    ("SELECT count(*) FROM v TABLESAMPLE (100%)", "SELECT count(*) FROM v"),
    (
        "SELECT sum(x) FROM t TABLESAMPLE (50 PERCENT) REPEATABLE (7)",
        "SELECT sum(x) FROM t TABLESAMPLE (50 PERCENT) REPEATABLE (7)",
    ),
    (
        "SELECT count(DISTINCT sym), sum(DISTINCT y) FROM t",
        "SELECT count_distinct(sym), sum(DISTINCT y) FROM t",
    ),
    (
        "SELECT first_value(x) IGNORE NULLS OVER (ORDER BY ts, sym) FROM t ORDER BY 1 LIMIT 1",
        "SELECT min(x) FROM t",
    ),
    ("SELECT sum(x) FILTER (WHERE x > 2) FROM t", "SELECT sum(x) FROM t WHERE x > 2"),
    ("SELECT final.x FROM t AS final ORDER BY 1", "SELECT x FROM t ORDER BY 1"),
];

struct Tables {
    database: Database,
    session: Session,
}

impl Tables {
    fn new() -> Self {
        let database = open(&MemoryDisk::new());
        let session = database.session();
        let mut tables = Self { database, session };
        for sql in [
            "CREATE TABLE t (ts TIMESTAMP, sym SYMBOL, x BIGINT, y BIGINT) TIMESTAMP(ts) SERIES BY (sym)",
            "CREATE TABLE d (ts TIMESTAMP, sym SYMBOL, x BIGINT, y BIGINT) TIMESTAMP(ts) SERIES BY (sym) DEDUP UPSERT KEYS (ts, sym)",
            "CREATE VIEW v AS SELECT * FROM t WHERE x > 1",
            "INSERT INTO t SELECT timestamp_s(1704067200 + value), 'S' || (value % 3), value, value % 2 FROM generate_series(1, 4000)",
        ] {
            tables.run(sql).unwrap();
        }
        tables
    }

    fn run(&mut self, sql: &str) -> Result<Vec<RecordBatch>, QueryError> {
        self.database.runtime().block_on(self.session.query(sql))
    }

    fn text(&mut self, sql: &str) -> String {
        let batches = self.run(sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        let shown = pretty_format_batches(&batches).unwrap().to_string();
        // Without names: the two statements of a pair may call their columns otherwise.
        let rows: Vec<&str> = shown.lines().skip(3).filter(|line| line.starts_with('|')).collect();
        rows.iter()
            .map(|row| row.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn number(&mut self, sql: &str) -> i64 {
        self.run(sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"))[0]
            .column(0)
            .as_primitive::<Int64Type>()
            .value(0)
    }
}

#[test]
fn clauses_are_heeded_or_refused_by_name_at_their_place() {
    let mut tables = Tables::new();
    for (marked, says) in REFUSED {
        let sql = marked.replacen('^', "", 1);
        let error = match tables.run(&sql) {
            Ok(rows) => panic!("{sql} was let through: {rows:?}"),
            Err(error) => error,
        };
        let message = format!("{error} {:?}", error.hint);
        assert!(message.contains(says), "{sql}: {message}");
        assert_ne!(error.kind, ErrorKind::Report, "{sql}: {message}");
        assert!(!message.contains("Unsupported ast node"), "{sql}: {message}");
        if let Some(at) = marked.find('^') {
            let column = error.position.map(|position| position.column);
            assert_eq!(column, Some(at as u64 + 1), "{sql}: {message}");
        }
    }
    for (sql, same) in SAME {
        assert_eq!(tables.text(sql), tables.text(same), "{sql}");
    }
}

#[test]
fn an_insert_that_replaces_says_what_a_table_with_keys_does() {
    let mut tables = Tables::new();
    let conflict = "ON CONFLICT (ts, sym) DO UPDATE SET x = excluded.x, y = excluded.y";
    for (at, sql) in [
        "INSERT INTO d VALUES ('2024-01-01', 'A', 1, 1)".to_string(),
        format!("INSERT INTO d VALUES ('2024-01-01', 'A', 2, 2) {conflict}"),
        format!("INSERT INTO d (sym, ts, y, x) SELECT 'A', '2024-01-01', 3, 3 FROM generate_series(1, 1) {conflict}"),
        "INSERT INTO d VALUES ('2024-01-01', 'A', 4, 4) ON CONFLICT DO UPDATE SET y = excluded.y, x = excluded.x, sym = excluded.sym".to_string(),
        "INSERT OR REPLACE INTO d VALUES ('2024-01-01', 'A', 5, 5)".to_string(),
        "REPLACE INTO d VALUES ('2024-01-01', 'A', 6, 6)".to_string(),
    ]
    .iter()
    .enumerate()
    {
        tables.run(sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        assert_eq!(tables.number("SELECT count(*) FROM d"), 1, "{sql}");
        assert_eq!(tables.number("SELECT x * 10 + y FROM d"), (at as i64 + 1) * 11, "{sql}");
    }
}

#[test]
fn samples_are_as_large_as_they_say_and_repeat() {
    let mut tables = Tables::new();
    let mut sizes = Vec::new();
    for seed in 0..20 {
        let sql = format!("SELECT count(*) FROM t TABLESAMPLE (10 PERCENT) REPEATABLE ({seed})");
        let size = tables.number(&sql);
        assert_eq!(size, tables.number(&sql), "seed {seed}");
        // 400 rows, and eight standard deviations of 19.
        assert!((250..=550).contains(&size), "seed {seed}: {size}");
        sizes.push(size);
    }
    sizes.dedup();
    assert!(sizes.len() > 1, "seeds choose different rows");
    let blocks = tables.number("SELECT count(*) FROM t TABLESAMPLE SYSTEM (50 PERCENT)");
    assert!(blocks % 1024 == 0 || (blocks - 4000 % 1024) % 1024 == 0, "{blocks} rows are whole blocks");
    let chosen = "SELECT sum(x * y) FROM t TABLESAMPLE (100 ROWS) REPEATABLE (3)";
    let before = tables.number(chosen);
    tables.database.engine().seal(None).unwrap();
    assert_eq!(before, tables.number(chosen), "the same rows wherever they are stored");
    let twice = [(); 2].map(|()| tables.number("SELECT sum(x) FROM t TABLESAMPLE BERNOULLI (50)"));
    assert_ne!(twice[0], twice[1], "without a seed other rows each time");
}
