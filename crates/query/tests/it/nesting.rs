//! Texts that are long or deep: each is answered or refused, on a thread with little stack, and never takes the process
//! with it.

use std::time::Instant;
use tickstone_query::{Database, DatabaseOptions, ErrorKind, QueryError};

/// The stack of the threads that ask: what Python and others give theirs, and less.
const STACK_BYTES: usize = 512 << 10;

/// Each makes a text of so many terms.
type Shape = (&'static str, fn(usize) -> String);

fn joined(terms: usize, term: &str, between: &str) -> String {
    vec![term; terms].join(between)
}

fn nested(terms: usize, before: &str, inner: &str, after: &str) -> String {
    format!("{}{inner}{}", before.repeat(terms), after.repeat(terms))
}

/// Every kind of expression, relation and set operation that can hold another of its kind.
const SHAPES: &[Shape] = &[
    ("sum", |n| format!("SELECT {}", joined(n, "1", "+"))),
    ("sum of columns", |n| format!("SELECT {} FROM t", joined(n, "x", "+"))),
    ("sum of doubles", |n| format!("SELECT {} FROM t", joined(n, "d", " - "))),
    ("product in WHERE", |n| format!("SELECT 1 FROM t WHERE {} > 1", joined(n, "x", "*"))),
    ("texts", |n| format!("SELECT {} FROM t", joined(n, "s", "||"))),
    ("OR", |n| format!("SELECT 1 FROM t WHERE {}", joined(n, "x = 1", " OR "))),
    ("AND", |n| format!("SELECT 1 FROM t WHERE {}", joined(n, "x <> 1", " AND "))),
    ("AND and OR", |n| format!("SELECT 1 FROM t WHERE {}", joined(n, "x <> 1 AND d = 2", " OR "))),
    ("casts after", |n| format!("SELECT x{} FROM t", "::DOUBLE::BIGINT".repeat(n))),
    ("casts of text", |n| format!("SELECT x{} FROM t", "::VARCHAR".repeat(n))),
    ("casts around", |n| format!("SELECT {} FROM t", nested(n, "CAST(", "x", " AS BIGINT)"))),
    ("NOT", |n| format!("SELECT {} (x > 1) FROM t", "NOT ".repeat(n))),
    ("minus", |n| format!("SELECT {} x FROM t", "- ".repeat(n))),
    ("IS NULL", |n| format!("SELECT x {} FROM t", "IS NULL ".repeat(n))),
    ("LIKE", |n| format!("SELECT s {} FROM t", "LIKE 'a' ".repeat(n))),
    ("BETWEEN", |n| format!("SELECT (x > 1) {} FROM t", "BETWEEN false AND true ".repeat(n))),
    ("IN", |n| format!("SELECT x {} FROM t", "IN (1, 2) ".repeat(n))),
    ("equals", |n| format!("SELECT {} FROM t", joined(n, "x", " = "))),
    ("AT TIME ZONE", |n| format!("SELECT ts {} FROM t", "AT TIME ZONE 'UTC' ".repeat(n))),
    ("CASE in THEN", |n| format!("SELECT {} FROM t", nested(n, "CASE WHEN x > 1 THEN ", "1", " ELSE 2 END"))),
    ("CASE in ELSE", |n| format!("SELECT {} FROM t", nested(n, "CASE WHEN x > 1 THEN 2 ELSE ", "1", " END"))),
    ("CASE in WHEN", |n| {
        format!("SELECT {} FROM t", nested(n, "CASE WHEN ", "x > 1", " THEN true ELSE false END"))
    }),
    ("WHEN", |n| format!("SELECT CASE {} END FROM t", "WHEN x = 1 THEN 2 ".repeat(n))),
    ("brackets", |n| format!("SELECT {}", nested(n, "(", "1", ")"))),
    ("arrays", |n| format!("SELECT {}", nested(n, "[", "1", "]"))),
    ("array types", |n| format!("SELECT NULL::BIGINT{}", "[]".repeat(n))),
    ("subscripts", |n| format!("SELECT array_agg(x){} FROM t", "[1]".repeat(n))),
    ("calls", |n| format!("SELECT {} FROM t", nested(n, "abs(", "x", ")"))),
    ("coalesce", |n| format!("SELECT {} FROM t", nested(n, "coalesce(", "x", ", d)"))),
    ("coalesce at the end", |n| format!("SELECT {} FROM t", nested(n, "coalesce(x, ", "d", ")"))),
    ("nullif", |n| format!("SELECT {} FROM t", nested(n, "nullif(", "x", ", 3)"))),
    ("sub-queries in FROM", |n| nested(n, "SELECT x FROM (", "SELECT x FROM t", ") q")),
    ("sub-queries with conditions", |n| {
        nested(n, "SELECT x + 1 AS x FROM (", "SELECT x FROM t", ") q WHERE x > 1")
    }),
    ("scalar sub-queries", |n| nested(n, "SELECT (", "SELECT 1", ")")),
    ("IN sub-queries", |n| nested(n, "SELECT x FROM t WHERE x IN (", "SELECT x FROM t", ")")),
    ("EXISTS", |n| nested(n, "SELECT x FROM t WHERE EXISTS (", "SELECT x FROM t", ")")),
    ("UNION ALL", |n| joined(n, "SELECT 1 AS a", " UNION ALL ")),
    ("UNION ALL of tables", |n| joined(n, "SELECT x FROM t", " UNION ALL ")),
    ("UNION", |n| joined(n, "SELECT 1 AS a", " UNION ")),
    ("EXCEPT", |n| joined(n, "SELECT 1 AS a", " EXCEPT ")),
    ("set operations", |n| joined(n, "SELECT 1 AS a UNION SELECT 2 AS a", " INTERSECT ")),
    ("sets in brackets", |n| nested(n, "(", "SELECT 1", " UNION SELECT 2)")),
    ("joins", |n| {
        format!(
            "SELECT 1 FROM t {}",
            (0..n).map(|i| format!("JOIN t t{i} ON t{i}.x = t.x ")).collect::<String>()
        )
    }),
    ("tables", |n| {
        format!(
            "SELECT 1 FROM {} WHERE false",
            (0..n).map(|i| format!("t t{i}")).collect::<Vec<_>>().join(", ")
        )
    }),
    ("joins in brackets", |n| format!("SELECT 1 FROM {}", nested(n, "(", "t a CROSS JOIN t b", ")"))),
    ("joins of queries in brackets", |n| {
        format!("SELECT 1 FROM {}", nested(n, "((SELECT 1 FROM ", "t", ") a CROSS JOIN t b)"))
    }),
    ("WITH", |n| {
        let next = |i: usize| format!(", c{} AS (SELECT x + 1 AS x FROM c{i} WHERE x > 1)", i + 1);
        format!("WITH c0 AS (SELECT x FROM t){} SELECT x FROM c{n}", (0..n).map(next).collect::<String>())
    }),
    ("WITH read twice", |n| {
        let next = |i: usize| format!(", c{} AS (SELECT a.x FROM c{i} a JOIN c{i} b ON a.x = b.x)", i + 1);
        format!("WITH c0 AS (SELECT x FROM t){} SELECT x FROM c{n}", (0..n).map(next).collect::<String>())
    }),
    ("SAMPLE BY", |n| nested(n, "SELECT ts, max(x) AS x FROM (", "SELECT ts, x FROM t", ") SAMPLE BY 1m")),
    ("ASOF JOIN", |n| {
        format!("SELECT 1 FROM t {}", (0..n).map(|i| format!("ASOF JOIN t t{i} ")).collect::<String>())
    }),
    ("pipes", |n| format!("FROM t {}", "|> WHERE x > 1 ".repeat(n))),
    ("aggregates", |n| {
        format!("SELECT {} FROM t", (0..n).map(|i| format!("sum(x + {i})")).collect::<Vec<_>>().join(", "))
    }),
    ("windows", |n| {
        format!(
            "SELECT {} FROM t",
            (0..n).map(|i| format!("sum(x + {i}) OVER (ORDER BY ts)")).collect::<Vec<_>>().join(", ")
        )
    }),
    ("columns", |n| {
        format!("SELECT {} FROM t", (0..n).map(|i| format!("x + {i} AS c{i}")).collect::<Vec<_>>().join(", "))
    }),
    ("values", |n| format!("SELECT count(*) FROM (VALUES {}) v", joined(n, "(1, 'a', -2)", ", "))),
    ("IN list", |n| format!("SELECT 1 FROM t WHERE x IN ({})", joined(n, "1", ", "))),
    ("statements", |n| joined(n, "SELECT 1", "; ")),
    ("brackets left open", |n| format!("SELECT {}", "(".repeat(n))),
    ("a sum left open", |n| format!("SELECT {}", "1 + ".repeat(n))),
    ("EXECUTE", |n| format!("EXECUTE q ({})", joined(n, "1 + 2", ", "))),
];

/// Reads and runs every statement of a text as far as it goes.
fn ask(database: &Database, sql: &str) -> Result<(), QueryError> {
    let mut session = database.session();
    let statements = session.parse(sql)?;
    // Statements of one text are run one after the other: a few of them stand for all.
    for statement in statements.into_iter().take(3) {
        database.runtime().block_on(async {
            if let tickstone_query::Outcome::Rows { mut stream, .. } = session.run(statement).await? {
                while let Some(batch) = futures::StreamExt::next(&mut stream).await {
                    batch?;
                }
            }
            Ok::<_, QueryError>(())
        })?;
    }
    Ok(())
}

fn database() -> Database {
    let options = DatabaseOptions { query_threads: Some(1), ..DatabaseOptions::default() };
    let database = Database::in_memory(options).unwrap();
    let mut session = database.session();
    for sql in [
        "CREATE TABLE t (ts TIMESTAMP, s VARCHAR, x BIGINT, d DOUBLE) TIMESTAMP(ts)",
        "INSERT INTO t VALUES ('2024-01-01', 'a', 1, 1.5), ('2024-01-02', 'b', 2, 2.5)",
    ] {
        database.runtime().block_on(session.query(sql)).unwrap();
    }
    database
}

/// Asks on a thread with little stack; each text of at most so many bytes.
fn ask_all(lengths: &'static [usize], bytes_max: usize, told: fn(&str, &str, f64, &Result<(), QueryError>)) {
    let database = database();
    let asking = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
        for (name, shape) in SHAPES {
            for terms in lengths {
                let mut terms = *terms;
                let mut sql = shape(terms);
                while sql.len() > bytes_max {
                    terms /= 2;
                    sql = shape(terms);
                }
                let begun = Instant::now();
                let answered = ask(&database, &sql);
                told(name, &sql, begun.elapsed().as_secs_f64(), &answered);
                if let Err(error) = answered {
                    assert_ne!(error.kind, ErrorKind::Report, "{name} × {terms}: {error}");
                }
            }
        }
    });
    asking.unwrap().join().unwrap();
}

#[test]
fn texts_of_any_depth_are_answered_or_refused() {
    // Names the shape, for a text that takes the process with it.
    ask_all(&[1, 10, 45, 200, 10_000], 30_000, |name, sql, seconds, _| {
        println!("{name}: {} bytes, {seconds:.3} s", sql.len());
    });
}

/// `cargo test --release -p tickstone-query --test it times_of_long_texts -- --ignored --nocapture`
#[test]
#[ignore = "a benchmark: texts of up to a megabyte"]
fn times_of_long_texts() {
    ask_all(&[10, 100, 1_000, 10_000, 100_000, 1_000_000], 1 << 20, |name, sql, seconds, answered| {
        let told = match answered {
            Ok(()) => "answered".to_string(),
            Err(error) => error.message.chars().take(70).collect(),
        };
        println!("{:>9.1} ms {:>9} bytes  {name}: {told}", seconds * 1e3, sql.len());
    });
}

/// Terms that differ.
fn counted(count: usize, term: &str, between: &str) -> String {
    let terms: Vec<String> = (0..count).map(|number| format!("{term}{}", number + 5)).collect();
    terms.join(between)
}

#[test]
fn chains_that_mean_the_same_in_any_brackets_have_no_limit_of_depth() {
    let database = database();
    for sql in [
        format!("SELECT 1 FROM t WHERE {}", joined(2_000, "x = 1", " OR ")),
        format!("SELECT 1 FROM t WHERE {}", joined(2_000, "x <> 5", " AND ")),
        format!("SELECT 1 FROM t WHERE {}", counted(20_000, "x <> ", " AND ")),
        format!("SELECT 1 FROM t a JOIN t b ON {}", counted(5_000, "a.x + b.x <> ", " AND ")),
        joined(400, "SELECT x FROM t", " UNION ALL "),
        joined(400, "SELECT x FROM t", " UNION "),
    ] {
        ask(&database, &sql).unwrap_or_else(|error| panic!("{}…: {error}", &sql[..60]));
    }
}

#[test]
fn limits_say_their_name_and_value() {
    let database = database();
    for (sql, name) in [
        (format!("SELECT {}", joined(10_000, "1", "+")), "256 deep (statement_depth_max)"),
        (format!("SELECT {}", nested(200, "(", "1", ")")), "50 deep (nesting_max)"),
        (format!("SELECT {} FROM t", nested(20, "coalesce(", "x", ", d)")), "2000000 (planning_steps_max)"),
        (format!("SELECT {}", joined(20_000, "x AS y", ", ")), "2000000 (planning_steps_max)"),
        (
            format!("SELECT CASE {} END", joined(40_000, "WHEN x = 1 THEN 2", " ")),
            "2000000 (planning_steps_max)",
        ),
        (format!("SELECT greatest({})", joined(100_000, "x", ", ")), "2000000 (planning_steps_max)"),
        (format!("SELECT {}", nested(40, "CAST(", "1 1", " AS BIGINT)")), "20000 ways (parser_steps_max)"),
    ] {
        let error = ask(&database, &sql).unwrap_err();
        assert!(error.to_string().contains(name), "{}…: {error}", &sql[..40]);
        assert_eq!(error.kind, ErrorKind::FixRequest);
    }
}
