//! What tools ask the catalog, and what they get.

use super::Served;
use serde_json::json;
use std::time::{Duration, Instant};
use tickstone_query::arrow::array::{AsArray, RecordBatch};
use tickstone_query::arrow::datatypes::UInt32Type;
use tickstone_query::arrow::util::display::{ArrayFormatter, FormatOptions};
use tickstone_query::{Outcome, ParameterValue, Parameters, QueryError, Session};

/// Statements by the tool that sends them, and by what it is asked for.
const STATEMENTS: &str = include_str!("catalog.sql");

const TABLES: [&str; 5] = [
    "CREATE TABLE trades (ts TIMESTAMP, symbol SYMBOL, price DOUBLE, size BIGINT) TIMESTAMP(ts) PARTITION BY DAY SERIES BY (symbol)",
    "CREATE TABLE keyed (ts TIMESTAMP, symbol SYMBOL, price DOUBLE) TIMESTAMP(ts) PARTITION BY DAY DEDUP UPSERT KEYS(ts, symbol)",
    "CREATE TABLE everything (ts TIMESTAMP, b BOOLEAN, i2 SMALLINT, i4 INT, i8 BIGINT, f4 FLOAT, f8 DOUBLE, n DECIMAL(18, 4), \
     s SYMBOL, t VARCHAR, bin BINARY, u UUID, d DATE, a8 DOUBLE[], at VARCHAR[], \"Odd name\" INT)",
    "INSERT INTO trades VALUES ('2024-08-08T09:30:00', 'BTC', 1.5, 2), ('2024-08-08T09:31:00', 'ETH', 3, 4)",
    "CREATE VIEW v AS SELECT symbol, sum(size) AS total FROM trades GROUP BY symbol",
];

/// A statement of a tool.
struct Asked {
    tool: &'static str,
    what: &'static str,
    sql: String,
    /// The values of `$1`, `$2`, ….
    values: Vec<&'static str>,
}

fn asked() -> Vec<Asked> {
    let (mut tool, mut what) = ("", "");
    let (mut sql, mut values) = (String::new(), Vec::new());
    let mut all = Vec::new();
    for line in STATEMENTS.lines().skip(2) {
        if let Some(name) = line.strip_prefix("-- ======== ") {
            (tool, what) = (name, "");
        } else if let Some(of) = line.strip_prefix("-- with: ") {
            values = of.split(" | ").collect();
        } else if let Some(name) = line.strip_prefix("-- ") {
            what = name;
        } else {
            sql.push_str(line);
            sql.push('\n');
        }
        if line.ends_with(';') {
            let text = std::mem::take(&mut sql).trim().trim_end_matches(';').to_string();
            all.push(Asked { tool, what, sql: text, values: std::mem::take(&mut values) });
        }
    }
    all
}

/// A server with tables and a view, and a session of its database.
struct Catalog {
    served: Served,
    session: Session,
}

impl Catalog {
    fn new() -> Self {
        let served = Served::new(&[]);
        let session = served.database.session();
        let mut catalog = Self { served, session };
        for sql in TABLES {
            catalog.run(sql, &[]).expect(sql);
        }
        catalog
    }

    fn run(&mut self, sql: &str, values: &[String]) -> Result<Vec<RecordBatch>, QueryError> {
        let mut statements = self.session.parse(sql)?;
        let values = values.iter().map(|value| given(value)).collect();
        Parameters::Positional(values).bind(&mut statements)?;
        let statement = statements.pop().expect("a statement");
        let session = &mut self.session;
        self.served.database.runtime().block_on(async {
            match session.run(statement).await? {
                Outcome::Rows { stream, .. } => Ok(futures::TryStreamExt::try_collect(stream).await?),
                Outcome::Done { .. } => Ok(Vec::new()),
            }
        })
    }

    /// The number of a table.
    fn oid(&mut self, table: &str) -> u32 {
        let batches = self.run(&format!("SELECT '{table}'::regclass::oid"), &[]).expect("it runs");
        batches[0].column(0).as_primitive::<UInt32Type>().value(0)
    }

    /// What a statement of a tool gives: its rows, their values with `|` between them, NULL as nothing.
    fn rows_of(&mut self, asked: &Asked) -> Result<Vec<String>, QueryError> {
        let mut numbered = |text: &str| {
            let mut text = text.to_string();
            for table in ["trades", "keyed", "everything", "v"] {
                if text.contains(&format!("{{{table}}}")) {
                    text = text.replace(&format!("{{{table}}}"), &self.oid(table).to_string());
                }
            }
            text
        };
        let sql = numbered(&asked.sql);
        let values: Vec<String> = asked.values.iter().map(|value| numbered(value)).collect();
        Ok(shown(&self.run(&sql, &values)?))
    }

    /// The rows of the statement that a tool sends `nth` for something.
    #[track_caller]
    fn rows(&mut self, tool: &str, what: &str, nth: usize) -> Vec<String> {
        let all = asked();
        let mut found = all.iter().filter(|asked| asked.tool == tool && asked.what == what);
        let asked = found.nth(nth).unwrap_or_else(|| panic!("{tool} {what} {nth}"));
        self.rows_of(asked).unwrap_or_else(|error| panic!("{error}\n{}", asked.sql))
    }

    #[track_caller]
    fn query(&mut self, sql: &str) -> Vec<String> {
        shown(&self.run(sql, &[]).unwrap_or_else(|error| panic!("{error}\n{sql}")))
    }
}

/// A text, or the texts of an array: `{a,b}`.
fn given(value: &str) -> ParameterValue {
    let text = |text: &str| ParameterValue::Text(text.to_string());
    match value.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        Some(elements) => ParameterValue::List(elements.split(',').map(text).collect()),
        None => text(value),
    }
}

fn shown(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default();
    let row = |batch: &RecordBatch, row: usize| {
        let columns = batch.columns().iter();
        let values: Vec<String> = columns
            .map(|column| ArrayFormatter::try_new(column, &options).expect("it shows").value(row).to_string())
            .collect();
        values.join("|")
    };
    batches
        .iter()
        .flat_map(|batch| (0..batch.num_rows()).map(|place| row(batch, place)).collect::<Vec<_>>())
        .collect()
}

#[test]
fn every_statement_of_a_tool_runs() {
    let mut catalog = Catalog::new();
    let mut failed = Vec::new();
    for asked in asked() {
        if let Err(error) = catalog.rows_of(&asked) {
            failed.push(format!("{} {}: {error}\n{}", asked.tool, asked.what, asked.sql));
        }
    }
    assert!(asked().len() > 150, "{}", asked().len());
    assert!(failed.is_empty(), "{} fail:\n{}", failed.len(), failed.join("\n\n"));
}

#[test]
fn psql_lists_what_there_is() {
    let mut catalog = Catalog::new();
    let relations = [
        "public|everything|table|admin",
        "public|keyed|table|admin",
        "public|trades|table|admin",
        "public|v|view|admin",
    ];
    assert_eq!(catalog.rows("psql", r"\d", 0), relations);
    assert_eq!(catalog.rows("psql", r"\dt", 0), relations[..3]);
    assert_eq!(catalog.rows("psql", r"\dv", 0), relations[3..]);
    assert_eq!(catalog.rows("psql", r"\di", 0), ["public|keyed_pkey|index|admin|keyed"]);
    assert_eq!(catalog.rows("psql", r"\dn", 0), ["public|admin"]);
    assert_eq!(catalog.rows("psql", r"\l", 0), ["tickstone|admin|UTF8|C.UTF-8|C.UTF-8||libc|"]);
    assert_eq!(catalog.rows("psql", r"\du", 0), ["admin|true|true|true|true|true|-1||[]|false|false"]);
    assert_eq!(catalog.rows("psql", r"\df vwap", 0), [r#"public|vwap|"any"|price "any", size "any"|agg"#]);
    assert_eq!(catalog.rows("psql", r"\d nosuch", 0), [""; 0]);
    let described = catalog.rows("psql", r"\dt+", 0);
    let size = described[2].split('|').nth(6).expect("a size");
    assert_ne!(size, "0 bytes", "{described:?}");
}

#[test]
fn psql_describes_a_table_and_a_view() {
    let mut catalog = Catalog::new();
    let oid = catalog.oid("trades");
    assert_eq!(catalog.rows("psql", r"\d trades", 0), [format!("{oid}|public|trades")]);
    assert_eq!(
        catalog.rows("psql", r"\d trades", 2),
        [
            "ts|timestamp without time zone||true|||",
            "symbol|character varying||false|||",
            "price|double precision||false|||",
            "size|bigint||false|||",
        ]
    );
    for nothing in 3..8 {
        assert_eq!(catalog.rows("psql", r"\d trades", nothing), [""; 0]);
    }
    assert_eq!(
        catalog.rows("psql", r"\d keyed", 0),
        [
            "keyed_pkey|true|true|false|true|CREATE UNIQUE INDEX keyed_pkey ON public.keyed USING btree (ts, symbol)|\
             PRIMARY KEY (ts, symbol)|p|false|false|false|0"
        ]
    );
    let types = catalog.query(
        "SELECT attname || ' ' || format_type(atttypid, atttypmod) FROM pg_attribute \
         WHERE attrelid = 'everything'::regclass AND attname <> 'at' ORDER BY attnum",
    );
    let wanted = [
        "ts timestamp without time zone",
        "b boolean",
        "i2 smallint",
        "i4 integer",
        "i8 bigint",
        "f4 real",
        "f8 double precision",
        "n numeric(18,4)",
        "s character varying",
        "t character varying",
        "bin bytea",
        "u uuid",
        "d date",
        "a8 double precision[]",
        "Odd name integer",
    ];
    assert_eq!(types, wanted);
    assert_eq!(
        catalog.rows("psql", r"\d+ v", 1),
        ["SELECT symbol, sum(size) AS total FROM trades GROUP BY symbol;"]
    );
    let columns = catalog.query(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute \
         WHERE attrelid = 'v'::regclass ORDER BY attnum",
    );
    assert_eq!(columns, ["symbol|character varying", "total|bigint"]);
}

#[test]
fn tables_change_and_keep_their_numbers() {
    let mut catalog = Catalog::new();
    let oid = catalog.oid("trades");
    let count = "SELECT reltuples FROM pg_class WHERE relname = 'trades'";
    assert_eq!(catalog.query(count), ["2.0"]);
    for sql in [
        "INSERT INTO trades VALUES ('2024-08-08T09:32:00', 'BTC', 5, 6)",
        "ALTER TABLE trades ADD COLUMN venue VARCHAR",
        "CREATE OR REPLACE VIEW v AS SELECT price FROM trades",
        "DROP TABLE everything",
    ] {
        catalog.run(sql, &[]).expect(sql);
    }
    assert_eq!(catalog.oid("trades"), oid);
    assert_eq!(catalog.query(count), ["3.0"]);
    assert_eq!(
        catalog.query("SELECT relnatts FROM pg_class WHERE relname IN ('trades', 'v') ORDER BY 1"),
        ["1", "5"]
    );
    assert_eq!(
        catalog.query("SELECT to_regclass('everything') IS NULL, to_regclass('Trades') IS NULL"),
        ["true|false"]
    );
}

#[test]
fn keys_are_reflected() {
    let mut catalog = Catalog::new();
    let oid = catalog.oid("keyed");
    let key = catalog.rows("SQLAlchemy over psycopg", "inspector.get_pk_constraint", 1);
    assert_eq!(key, [format!("{oid}|[ts, symbol]|keyed_pkey||2|true")]);
    assert_eq!(
        catalog.rows("pgjdbc", "getPrimaryKeys", 0),
        ["tickstone|public|keyed|ts|1|keyed_pkey", "tickstone|public|keyed|symbol|2|keyed_pkey"]
    );
    assert_eq!(
        catalog.rows("pgjdbc", "getIndexInfo", 0),
        [
            "tickstone|public|keyed|false||keyed_pkey|3|1|ts|A|0.0|0||",
            "tickstone|public|keyed|false||keyed_pkey|3|2|symbol|A|0.0|0||"
        ]
    );
    assert_eq!(
        catalog.rows("pgjdbc", "getBestRowIdentifier, getVersionColumns", 0),
        ["ts|1114|-1", "symbol|1043|-1"]
    );
    let constraints = catalog.rows("ADBC", "get_objects", 4);
    assert_eq!(constraints, ["keyed_pkey|PRIMARY KEY|[ts, symbol]|||"]);
}

#[test]
fn drivers_get_their_types() {
    let mut catalog = Catalog::new();
    let tree = catalog.rows("asyncpg", "fetch of every type (introspection)", 1);
    let arrays: Vec<&String> = tree.iter().filter(|row| row.contains("|0|")).collect();
    assert!(tree[0].starts_with("16|pg_catalog|bool|b||0|"), "{tree:?}");
    assert!(arrays.iter().any(|row| row.starts_with("1000|pg_catalog|_bool|b||16|,|")), "{tree:?}");
    let of_adbc = catalog.rows("ADBC", "connect,query", 2);
    assert!(of_adbc.contains(&"701|float8|float8recv|0|0|1022".to_string()), "{of_adbc:?}");
    assert!(!of_adbc.iter().any(|row| row.contains("|array_recv|")), "{of_adbc:?}");
    assert_eq!(catalog.rows("pgjdbc", "getColumns", 1), ["false|b|interval|1186"]);
}

#[test]
fn columns_of_the_standard_schema() {
    let mut catalog = Catalog::new();
    assert_eq!(
        catalog.query(
            "SELECT column_name, data_type, udt_name, is_nullable, numeric_precision, numeric_scale \
             FROM information_schema.columns WHERE table_name = 'everything' AND column_name IN ('ts', 'n', 'a8', 'f8') \
             ORDER BY ordinal_position"
        ),
        [
            "ts|timestamp without time zone|timestamp|YES||",
            "f8|double precision|float8|YES|53|",
            "n|numeric|numeric|YES|18|4",
            "a8|ARRAY|_float8|YES||"
        ]
    );
    assert_eq!(
        catalog.query("SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1"),
        ["everything|BASE TABLE", "keyed|BASE TABLE", "trades|BASE TABLE", "v|VIEW"]
    );
    assert_eq!(catalog.rows("Grafana", "", 5), ["everything", "keyed", "trades", "v"]);
}

#[test]
fn functions_answer_what_is_true() {
    let mut catalog = Catalog::new();
    for (sql, wanted) in [
        ("SELECT current_database(), current_schema(), current_catalog", "tickstone|public|tickstone"),
        ("SELECT quote_ident('a'), quote_ident('A b'), quote_literal('it''s')", r#"a|"A b"|'it''s'"#),
        (
            "SELECT pg_size_pretty(10239), pg_size_pretty(10240), pg_size_pretty(52428800)",
            "10239 bytes|10 kB|50 MB",
        ),
        (
            "SELECT format_type(1700, 1179656), format_type(1016, NULL), format_type(9, 1)",
            "numeric(18,4)|bigint[]|???",
        ),
        (
            "SELECT 'numeric(18,4)'::regtype::oid, 'double precision[]'::regtype::oid, 1184::regtype",
            "1700|1022|timestamp with time zone",
        ),
        (
            "SELECT 'pg_class'::regclass::oid, 'pg_catalog.pg_class'::regclass::text, to_regclass('a.b.c')",
            "1259|pg_class|",
        ),
        ("SELECT has_table_privilege('trades', 'SELECT'), pg_is_in_recovery()", "true|false"),
        ("SELECT parse_ident('public.\"A.b\"'), array_upper(current_schemas(true), 1)", "[public, A.b]|2"),
        (
            "SELECT 'a/_b' LIKE 'a//' || '/_b' ESCAPE '/', 'a_b' LIKE 'a/_' || 'b' ESCAPE '/', 'axb' LIKE 'a/_' || 'b' ESCAPE '/'",
            "true|true|false",
        ),
        (
            "SELECT format('%I.%s = %L', 'A', 1, 'x''y'), 'v'::regclass::text, 'int'::regtype::text",
            r#""A".1 = 'x''y'|v|integer"#,
        ),
        ("SELECT json_build_object('a', 1, 'b', 'x')", r#"{"a" : 1, "b" : "x"}"#),
    ] {
        assert_eq!(catalog.query(sql), [wanted], "{sql}");
    }
    for (sql, state) in [("SELECT 'nosuch'::regclass", "42P01"), ("SELECT 'nosuch'::regtype::oid", "42704")] {
        let error = catalog.run(sql, &[]).expect_err(sql);
        assert_eq!(error.sql_state().code(), state, "{sql}: {error}");
    }
}

#[test]
fn names_of_the_catalog_are_bound_to_it() {
    let catalog = Catalog::new();
    let served = &catalog.served;
    // Somebody's own tables and queries may have any of them.
    served.done("CREATE TABLE pg_quotes (k INT, v INT)");
    served.done("INSERT INTO pg_quotes VALUES (1, 10), (1, 20), (2, 30)");
    served.done("CREATE TABLE mine (k INT, typsend INT)");
    served.done("INSERT INTO mine VALUES (1, 5), (2, 0), (3, 7)");
    for (sql, rows) in [
        (
            "SELECT (WITH RECURSIVE typebases(n) AS (SELECT 5 AS n WHERE 1 = 1 \
             UNION ALL SELECT n + 1 FROM typebases WHERE n < 5) SELECT max(n) FROM typebases)",
            json!([[5]]),
        ),
        (
            "SELECT k, (SELECT max(v) FROM pg_quotes q WHERE q.k = m.k) FROM mine m ORDER BY k",
            json!([[1, 20], [2, 30], [3, null]]),
        ),
        (
            "WITH pg_class AS (SELECT 1 AS oid, 'x' AS relname) \
             SELECT (SELECT c.relname FROM pg_class c WHERE c.oid = m.k) FROM mine m ORDER BY k",
            json!([["x"], [null], [null]]),
        ),
        ("SELECT k FROM mine WHERE typsend <> 0 ORDER BY k", json!([[1], [3]])),
        ("WITH pg_policy AS (SELECT 3 AS n) SELECT (SELECT 4) FROM pg_policy", json!([[4]])),
    ] {
        assert_eq!(served.rows(sql), rows, "{sql}");
    }
    // A look-up that finds several rows is an error, as anywhere.
    let (status, answer) = served.ask(
        "http_port",
        "GET /exec?query=SELECT+k,(SELECT+v+FROM+pg_quotes+q+WHERE+q.k%3Dm.k)+FROM+mine+m",
        b"",
    );
    assert_ne!(status, 200, "{answer}");
}

#[test]
fn who_asks_the_catalog_starts_nothing() {
    let served = Served::new(&[]);
    served.done("CREATE STREAM raw");
    served.done("CREATE TABLE ticks AS STREAM 'raw' FORMAT json (ts TIMESTAMP, n BIGINT) TIMESTAMP(ts)");
    served.done("CREATE TABLE base (ts TIMESTAMP, x DOUBLE) TIMESTAMP(ts)");
    served.done("CREATE VIEW plain AS SELECT x + 1 AS y FROM base");
    served.done("CREATE MATERIALIZED VIEW bars AS SELECT ts, sum(x) AS s FROM base SAMPLE BY 1m");
    let mut session = served.database.session();
    let mut run = |sql: &str| served.database.runtime().block_on(session.query(sql)).expect(sql);
    run("CREATE TEMP TABLE own AS SELECT 7 AS x");
    let stream = served.database.engine().streams().get("raw").expect("it is there");
    for round in 0..20 {
        for number in 0..50 {
            let document = format!(r#"{{"ts": "2024-08-08T09:30:{round:02}Z", "n": {number}}}"#);
            stream.append([document.as_bytes()]).expect("it is taken");
        }
        for asked in ["pg_proc", "pg_class", "pg_attribute", "information_schema.columns"] {
            served.rows(&format!("SELECT count(*) FROM {asked}"));
        }
        run("SELECT x FROM own");
    }
    let begun = Instant::now();
    loop {
        let count = served.rows("SELECT count(*) FROM ticks");
        assert!(count[0][0].as_i64() <= Some(1_000), "{count}");
        let progress = served.rows("SELECT max(seq) FROM stream_progress");
        if progress == json!([[1_000]]) || begun.elapsed() > Duration::from_secs(30) {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(served.rows("SELECT count(*) FROM ticks"), json!([[1_000]]));
}
