use super::*;

/// The AST of one statement as SQL again.
fn check(sql: &str, expected: &str) {
    let statements = parse(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    let shown = match statements.as_slice() {
        [Statement::Query(s) | Statement::Insert(s)] => s.to_string(),
        other => format!("{other:?}"),
    };
    assert_eq!(shown, expected, "{sql}");
}

fn check_error(sql: &str, line: u64, column: u64, part: &str) {
    let error = parse(sql).expect_err(sql);
    assert_eq!((error.line, error.column), (line, column), "{sql}: {error}");
    let shown = format!("{} {}", error.message, error.hint.unwrap_or_default());
    assert!(shown.contains(part), "{sql}: {shown}");
}

#[test]
fn sample_by_becomes_a_relation() {
    check(
        "SELECT ts, sum(x) FROM t WHERE x > 1 SAMPLE BY 5m FILL(NULL, PREV, 0) ORDER BY ts LIMIT 3",
        "SELECT * FROM __sample_by(query => (SELECT ts, sum(x) FROM t WHERE x > 1 ORDER BY ts LIMIT 3), \
         stride => '5m', fill => NULL, fill => PREV, fill => 0)",
    );
    check(
        "select sum(x) from t sample by 1M from '2024-01-01' to '2025-01-01' align to calendar time zone 'UTC' with offset '-01:00'",
        "SELECT * FROM __sample_by(query => (SELECT sum(x) FROM t), stride => '1M', from => '2024-01-01', \
         to => '2025-01-01', zone => 'UTC', offset => '-01:00')",
    );
    check(
        "SELECT sum(x) FROM t SAMPLE BY volume(x * 2) 1e3 ORDER BY 1",
        "SELECT * FROM __sample_by(query => (SELECT sum(x) FROM t ORDER BY 1), bar => 'VOLUME', of => x * 2, limit => 1e3)",
    );
    check(
        "SELECT sum(x) FROM t SAMPLE BY TICKS 100 UNION ALL SELECT max(x) FROM t SAMPLE BY 1d ALIGN TO FIRST OBSERVATION",
        "SELECT * FROM __sample_by(query => (SELECT sum(x) FROM t), bar => 'TICKS', limit => 100) UNION ALL \
         SELECT * FROM __sample_by(query => (SELECT max(x) FROM t), stride => '1d', align => 'first')",
    );
    check("SELECT a sample FROM by_day", "SELECT a AS sample FROM by_day");
}

#[test]
fn a_table_is_an_argument_of_nbbo() {
    check(
        "SELECT n.bid FROM NBBO(TABLE public.q, venue => v, bid => b, ask => a) n JOIN nbbo((SELECT 1), bid => 2) m ON true",
        "SELECT n.bid FROM nbbo((SELECT * FROM public.q), venue => v, bid => b, ask => a) n \
         JOIN nbbo((SELECT 1), bid => 2) m ON true",
    );
    check_error("SELECT 1 FROM nbbo(TABLE, bid => 2)", 1, 25, "expected the name of a table");
}

#[test]
fn clauses_stand_anywhere_in_a_query() {
    check(
        "WITH c AS (SELECT max(x) FROM t SAMPLE BY 1h) SELECT 1 FROM c UNION ALL SELECT min(y) FROM u SAMPLE BY 2h",
        "WITH c AS (SELECT * FROM __sample_by(query => (SELECT max(x) FROM t), stride => '1h')) SELECT 1 FROM c \
         UNION ALL SELECT * FROM __sample_by(query => (SELECT min(y) FROM u), stride => '2h')",
    );
    check(
        "WITH c AS (SELECT 1) SELECT count(*) FROM t SAMPLE BY 1d",
        "WITH c AS (SELECT 1) SELECT * FROM __sample_by(query => (SELECT count(*) FROM t), stride => '1d')",
    );
    check(
        "INSERT INTO bars SELECT ts, max(x) FROM t SAMPLE BY 1s",
        "INSERT INTO bars SELECT * FROM __sample_by(query => (SELECT ts, max(x) FROM t), stride => '1s')",
    );
    check(
        "EXPLAIN ANALYZE SELECT a FROM (SELECT a FROM t LATEST ON ts PARTITION BY k) WHERE a > 1",
        "EXPLAIN ANALYZE SELECT a FROM (SELECT a FROM __latest_on(query => (SELECT * FROM t), on => ts, key => k)) \
         WHERE a > 1",
    );
}

#[test]
fn latest_on_reads_from_and_where() {
    check(
        "SELECT q.bid FROM quotes q WHERE q.bid > 0 LATEST ON ts PARTITION BY q.symbol, venue ORDER BY 1",
        "SELECT q.bid FROM __latest_on(query => (SELECT * FROM quotes q WHERE q.bid > 0), on => ts, \
         key => q.symbol, key => venue) ORDER BY 1",
    );
    check(
        "SELECT * FROM quotes LATEST BY symbol",
        "SELECT * FROM __latest_on(query => (SELECT * FROM quotes), key => symbol)",
    );
    check(
        "SELECT 1 FROM a JOIN b latest ON latest.x = a.x",
        "SELECT 1 FROM a JOIN b latest ON latest.x = a.x",
    );
}

#[test]
fn asof_joins_nest() {
    check(
        "SELECT * FROM t ASOF JOIN q ON (symbol) TOLERANCE 50T WHERE x > 1",
        "SELECT * FROM (t ASOF JOIN q MATCH_CONDITION (__asof(kind => 'ASOF JOIN', tolerance => '50T')) ON (symbol)) \
         WHERE x > 1",
    );
    check(
        "SELECT * FROM a JOIN b USING (k) ASOF INNER JOIN (SELECT * FROM c LATEST BY k) AS z \
         MATCH_CONDITION (a.ts >= z.ts) USING (k) JOIN d ON d.k = a.k",
        "SELECT * FROM (a JOIN b USING(k) ASOF JOIN (SELECT * FROM __latest_on(query => (SELECT * FROM c), key => k)) \
         AS z MATCH_CONDITION (__asof(kind => 'ASOF INNER JOIN', condition => a.ts >= z.ts)) USING(k)) JOIN d ON d.k = a.k",
    );
    check(
        "SELECT last(p) FROM t ASOF JOIN q ASOF JOIN r tolerance ON (k) DIRECTION BACKWARD SAMPLE BY 1m",
        "SELECT * FROM __sample_by(query => (SELECT last(p) FROM ((t ASOF JOIN q MATCH_CONDITION \
         (__asof(kind => 'ASOF JOIN'))) ASOF JOIN r tolerance MATCH_CONDITION (__asof(kind => 'ASOF JOIN', direction => 'BACKWARD')) ON (k))), \
         stride => '1m')",
    );
    check(
        "SELECT 1 FROM (t ASOF JOIN q ON t.k = q.k AND t.ts >= q.ts TOLERANCE INTERVAL '5 seconds') x, y",
        "SELECT 1 FROM ((t ASOF JOIN q MATCH_CONDITION (__asof(kind => 'ASOF JOIN', tolerance => INTERVAL '5 seconds')) \
         ON t.k = q.k AND t.ts >= q.ts)) x, y",
    );
    // The clause of the inner join ends with the bracket.
    for tail in ["", " TOLERANCE 5s", " WHERE true"] {
        for outer in ["ASOF JOIN", "LT JOIN", "SPLICE JOIN", "JOIN"] {
            let inner = format!("SELECT l.x FROM a l ASOF JOIN a r ON l.s = r.s{tail}");
            let sql = format!("SELECT 1 FROM q {outer} ({inner}) z ON q.s = z.s");
            assert!(parse(&sql).is_ok(), "{sql}: {:?}", parse(&sql).err());
        }
    }
}

#[test]
fn create_table_has_a_tail() {
    let sql = "CREATE TABLE IF NOT EXISTS Trades (ts TIMESTAMP, symbol SYMBOL, \"Px\" DOUBLE PRECISION, n INT UNSIGNED, \
               d DECIMAL(10, 2)) TIMESTAMP(ts) SERIES BY (symbol) PARTITION BY hour TTL 30 DAYS \
               DEDUP UPSERT KEYS(ts, symbol) WITH (sync = 'none');";
    let Ok([Statement::CreateTable(table)]) = parse(sql).as_deref().map(|s| s.to_vec()).map(|s| {
        let [one] = <[Statement; 1]>::try_from(s).expect("one statement");
        [one]
    }) else {
        panic!("{:?}", parse(sql));
    };
    use tickstone_model::{ColumnType, PartitionBy, SyncPolicy};
    assert!(table.if_not_exists);
    assert_eq!(table.name, "Trades");
    assert_eq!(table.columns.len(), 5);
    assert_eq!(table.columns[2], ("Px".to_string(), ColumnType::Float64));
    assert_eq!(table.columns[3].1, ColumnType::UInt32);
    assert_eq!(table.columns[4].1, ColumnType::Decimal { precision: 10, scale: 2 });
    assert_eq!(table.timestamp.as_deref(), Some("ts"));
    assert_eq!(table.series, Some(vec!["symbol".to_string()]));
    assert_eq!(table.partition_by, Some(PartitionBy::Hour));
    assert_eq!(table.ttl.as_deref(), Some("30 DAYS"));
    assert_eq!(table.dedup.map(|d| d.len()), Some(2));
    assert_eq!(table.sync, Some(SyncPolicy::None));
    assert_eq!(table.time_position, Position { line: 1, column: 28 });
}

#[test]
fn create_table_as_takes_our_clauses() {
    let sql =
        "CREATE TABLE bars AS (SELECT ts, max(x) m FROM t SAMPLE BY 1m) TIMESTAMP(ts) PARTITION BY MONTH";
    match parse(sql).expect("valid").as_slice() {
        [Statement::CreateTable(CreateTable { query: Some(query), timestamp: Some(ts), .. })] => {
            assert!(query.to_string().contains("__sample_by"), "{query}");
            assert_eq!(ts, "ts");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn small_statements_are_read() {
    let check = |sql: &str, expected: &str| {
        assert_eq!(format!("{:?}", parse(sql).unwrap_or_else(|e| panic!("{sql}: {e}"))), expected, "{sql}");
    };
    check("BEGIN; commit work ;ROLLBACK;;", "[Begin { read_only: None }, Commit, Rollback]");
    check("START TRANSACTION; END", "[Begin { read_only: None }, Commit]");
    check("SHOW TABLES", "[ShowTables]");
    check("show columns from T", r#"[ShowColumns { table: "T" }]"#);
    check("DESCRIBE \"My table\"", r#"[ShowColumns { table: "My table" }]"#);
    check(
        "DROP TABLE IF EXISTS a, public.b",
        r#"[DropTable { names: ["a", "b"], if_exists: true, cascades: false }]"#,
    );
    check(
        "DROP TABLE cascade CASCADE",
        r#"[DropTable { names: ["cascade"], if_exists: false, cascades: true }]"#,
    );
    check("TRUNCATE TABLE a", r#"[Truncate { names: ["a"] }]"#);
    check("CHECKPOINT", "[Checkpoint { table: None }]");
    check("CHECKPOINT hold; checkpoint RELEASE", "[Hold, Release]");
    check("CHECKPOINT \"hold\"", r#"[Checkpoint { table: Some("hold") }]"#);
    check("OPTIMIZE TABLE t", "[Optimize { table: \"t\", archive: false }]");
    check("optimize table t archive", "[Optimize { table: \"t\", archive: true }]");
    check(
        "SET datafusion.execution.batch_size = 100",
        r#"[Set { name: "datafusion.execution.batch_size", value: "100" }]"#,
    );
    check(
        "COPY t (a, b) FROM '/x.csv' WITH (FORMAT csv, HEADER, DELIMITER ';')",
        r#"[CopyFrom { table: "t", columns: ["a", "b"], end: File("/x.csv"), options: [("format", "csv"), ("header", "true"), ("delimiter", ";")] }]"#,
    );
    check(
        "COPY t TO 'x.parquet'",
        r#"[CopyTo { source: Table { name: "t", columns: [] }, end: File("x.parquet"), options: [] }]"#,
    );
    assert!(matches!(
        parse("COPY (SELECT max(x) FROM t SAMPLE BY 1m) TO 'x.csv' STORED AS CSV").as_deref(),
        Ok([Statement::CopyTo { source: CopySource::Query(_), .. }])
    ));
    assert_eq!(parse(" ; -- nothing\n").expect("empty"), vec![]);
}

#[test]
fn errors_point_into_the_original_text() {
    check_error("SELECT 1 FROM t\n  SAMPLE BY 5x", 2, 13, "no duration");
    check_error("SELECT 1 FROM t SAMPLE BY", 1, 26, "duration");
    check_error("SELECT 1 FROM t SAMPLE BY 1m WHERE x > 1", 1, 30, "WHERE stands before SAMPLE BY");
    check_error("SELECT 1 FROM t SAMPLE BY 1m, x", 1, 29, "expected the end of the statement");
    check_error("SELECT a,\n b FRM t", 2, 8, "");
    check_error("SELECT 1 FROM t LATEST ON ts", 1, 24, "needs PARTITION BY");
    check_error("SELECT 1 FROM t SAMPLE BY TICKS 5 FILL(0)", 1, 35, "no gaps to fill");
    check_error("SELECT 1 FROM t SAMPLE BY VALUE 5", 1, 33, "SAMPLE BY VALUE(price * amount) 1000");
    check_error("SELECT 1 FROM a WINDOW JOIN b ON (k)", 1, 37, "expected RANGE BETWEEN");
    check_error("SELECT 1 FROM a HORIZON JOIN b ON (k) LIST (0)", 1, 47, "expected AS");
    check_error("SELECT 1 FROM a LT JOIN b DIRECTION NEAREST", 1, 27, "takes no DIRECTION");
    check_error("SELECT 1 FROM a ASOF JOIN b ON (k) TOLERANCE 1M", 1, 46, "fixed length");
    check_error("CREATE TABLE t (a WIBBLE)", 1, 19, "WIBBLE");
    check_error("CREATE TABLE t (a INT NOT NULL)", 1, 23, "NULL");
    check_error("CREATE TABLE t (a INT) TIMESTAMP(a) TIMESTAMP(a)", 1, 37, "twice");
    check_error("CREATE TABLE t (a INT", 1, 22, "')'");
    check_error("SELECT 'x", 1, 8, "");
    check_error("ALTER TABLE t ADD COLUMN x", 1, 27, "expected the type of the column");
    check_error("ALTER TABLE t SET WIDTH 3", 1, 15, "expected ADD COLUMN");
    check_error("ALTER TABLE t DROP PARTITION '2024'", 1, 30, "expected LIST and names of partitions");
    check_error("UPDATE t SET (a, b) = (1, 2)", 1, 1, "SET takes column = value");
    check_error("UPDATE t JOIN u ON true SET a = 1", 1, 1, "cannot be joined");
    check_error("MERGE INTO t USING u ON true WHEN MATCHED THEN DELETE", 1, 48, "DELETE is not supported");
    check_error(
        "MERGE INTO t USING u ON true WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)",
        1,
        1,
        "INSERT names 2 columns and brings 1 values",
    );
    check_error("PREPARE p AS INSERT INTO t VALUES (1) RETURNING x", 1, 14, "PREPARE takes no RETURNING");
    check_error("SELECT 1 FROM t SAMPLE BY 1d ALIGN TO CALENDAR TIME ZONE 'Mars/X'", 1, 30, "no time zone");
    check_error("SELECT sum(x) FROM t WHERE x IN (SELECT 1 FROM u SAMPLE BY 1q)", 1, 60, "no duration");
}

#[test]
fn names_take_the_spelling_of_the_catalog() {
    let catalog = |name: &str| {
        let tables = [("Trades", vec!["Ts", "Symbol", "price"]), ("quotes", vec!["ts", "symbol", "Bid"])];
        let found = tables.into_iter().find(|(t, _)| t.eq_ignore_ascii_case(name));
        found.map(|(t, columns)| (t.to_string(), columns.into_iter().map(String::from).collect()))
    };
    let check = |sql: &str, expected: &str| {
        let mut statement = parse(sql).unwrap_or_else(|e| panic!("{sql}: {e}")).remove(0);
        resolve_names(&mut statement, &catalog, &|_| None).unwrap_or_else(|e| panic!("{sql}: {e}"));
        match statement {
            Statement::Query(s) | Statement::Insert(s) => assert_eq!(s.to_string(), expected, "{sql}"),
            other => panic!("{other:?}"),
        }
    };
    check("SELECT PRICE, \"PRICE\" FROM trades", "SELECT price, \"PRICE\" FROM Trades");
    check(
        "SELECT t.TS, Q.TS, q.bid B FROM TRADES T JOIN Quotes q USING (SYMBOL) ORDER BY b",
        "SELECT T.Ts, q.ts, q.Bid AS B FROM Trades T JOIN quotes q ON \"T\".\"Symbol\" = \"q\".\"symbol\" ORDER BY B",
    );
    check(
        "WITH Bars AS (SELECT max(PRICE) AS Peak FROM trades SAMPLE BY 1m) SELECT peak, bars.* FROM bars",
        "WITH Bars AS (SELECT * FROM __sample_by(query => (SELECT max(price) AS Peak FROM Trades), stride => '1m')) \
         SELECT Peak, \"Bars\".\"Peak\" AS \"Peak_1\" FROM Bars",
    );
    check("INSERT INTO TRADES (TS, PRICE) VALUES (1, 2)", "INSERT INTO Trades (Ts, price) VALUES (1, 2)");
}

#[test]
fn statements_about_users_that_others_have() {
    for (sql, column, part) in [
        ("CREATE SERVICE ACCOUNT feed", 1, "CREATE TOKEN name FOR"),
        ("KILL QUERY 7", 1, "CANCEL QUERY 7"),
        ("show full processlist", 1, "SHOW QUERIES"),
        ("SET ROLE desk", 1, "all their roles at once"),
        ("SHOW PERMISSIONS ann", 1, "SHOW GRANTS"),
        ("CREATE POLICY p ON t", 1, "WHERE a condition"),
        ("DROP USER ann CASCADE", 15, "OWNER TO another"),
        ("GRANT SELECT ON t TO ann WITH GRANT OPTION", 26, "OWNER TO ann"),
        ("GRANT desk TO ann WITH ADMIN OPTION", 19, "cannot be granted on"),
        ("CREATE TOKEN k TYPE REST", 21, "every protocol"),
    ] {
        check_error(sql, 1, column, part);
    }
    parse("REVOKE ALL ON t FROM ann CASCADE").unwrap();
}
