use super::*;
use crate::{Database, DatabaseOptions, QueryError, Result};
use datafusion::arrow::array::{Array, AsArray, Float64Array, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::Float64Type;
use datafusion::arrow::util::pretty::pretty_format_batches;
use std::error::Error as _;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Six rows of two symbols, `x` NULL in one; how many rows make a query wide.
fn database(wide_rows_min: u64) -> Database {
    let options = DatabaseOptions { query_threads: Some(2), wide_rows_min, ..DatabaseOptions::default() };
    let database = Database::in_memory(options).unwrap();
    let setup = "CREATE TABLE t (ts TIMESTAMP, symbol SYMBOL, x DOUBLE, n BIGINT) TIMESTAMP(ts);
        INSERT INTO t VALUES ('2024-01-01T00:00', 'A', 1, 6), ('2024-01-01T00:01', 'B', 10, 5),
        ('2024-01-01T00:02', 'A', 2, 4), ('2024-01-01T00:03', 'B', NULL, 3), ('2024-01-01T01:00', 'A', 4, 2),
        ('2024-01-01T01:01', 'B', 30, 1)";
    let mut session = database.session();
    for statement in session.parse(setup).unwrap() {
        database.runtime().block_on(session.run(statement)).unwrap();
    }
    database
}

fn query(database: &Database, sql: &str) -> Result<Vec<RecordBatch>> {
    database.runtime().block_on(database.session().query(sql))
}

/// The cells of a query's rows, a line a row.
fn rows(database: &Database, sql: &str) -> Vec<String> {
    let batches = query(database, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let shown = pretty_format_batches(&batches).unwrap().to_string();
    let cells = |line: &str| line.split('|').map(str::trim).collect::<Vec<_>>().join(" ").trim().to_string();
    shown.lines().filter(|line| line.starts_with("| ")).skip(1).map(cells).collect()
}

fn failure(database: &Database, sql: &str) -> QueryError {
    query(database, sql).map(|_| ()).expect_err(sql)
}

fn doubles() -> FunctionSignature {
    FunctionSignature::parse(&["DOUBLE"], "DOUBLE").unwrap()
}

fn double(arguments: &[ArrayRef]) -> &Float64Array {
    arguments[0].as_primitive::<Float64Type>()
}

/// `twice(x)`; a NULL would be 0.
fn twice() -> Function {
    Function::scalar("Twice", doubles(), |arguments| {
        let values = double(arguments).iter().map(|x| 2.0 * x.unwrap_or(0.0));
        Ok(Arc::new(values.collect::<Float64Array>()))
    })
}

/// The values of a group from the first to the last, as text.
fn joined() -> Function {
    let signature = FunctionSignature::parse(&["double"], "symbol").unwrap();
    Function::aggregate("joined", signature, |arguments| {
        let texts: Vec<String> = double(arguments).iter().map(|x| format!("{x:?}")).collect();
        Ok(Arc::new(StringArray::from(vec![texts.join(",").replace("Some", "")])))
    })
}

/// Σ x and how often states were merged, in a state.
#[derive(Default)]
struct Total(f64);

impl AggregateState for Total {
    fn update(&mut self, arguments: &[ArrayRef]) -> FunctionResult<()> {
        self.0 += double(arguments)
            .iter()
            .map(|x| x.ok_or("a NULL came through"))
            .sum::<std::result::Result<f64, _>>()?;
        Ok(())
    }

    fn state(&self) -> FunctionResult<Vec<ArrayRef>> {
        Ok(vec![Arc::new(Float64Array::from(vec![self.0]))])
    }

    fn merge(&mut self, states: &[ArrayRef]) -> FunctionResult<()> {
        self.0 += double(states).values().iter().sum::<f64>();
        Ok(())
    }

    fn finish(&self) -> FunctionResult<ArrayRef> {
        Ok(Arc::new(Float64Array::from(vec![self.0])))
    }
}

fn total() -> Function {
    Function::aggregate_with_state("total", doubles(), vec![DataType::Float64], || Box::<Total>::default())
}

/// The difference from the row before, 0 in the first.
fn steps() -> Function {
    Function::window("steps", doubles(), |arguments| {
        let x = double(arguments).values();
        let steps = (0..x.len()).map(|row| x[row] - x[row.saturating_sub(1)]);
        Ok(Arc::new(Float64Array::from_iter_values(steps)))
    })
}

#[test]
fn a_scalar_function_never_sees_nulls_unless_it_asks() {
    let database = database(1);
    database.create_function(twice()).unwrap();
    assert_eq!(
        rows(&database, "SELECT twice(x) AS x FROM t ORDER BY ts"),
        ["2.0", "20.0", "4.0", "", "8.0", "60.0"]
    );
    assert_eq!(
        rows(&database, "SELECT TWICE(n) AS x FROM t WHERE twice(x) > 5 ORDER BY ts"),
        ["10.0", "4.0", "2.0"]
    );
    assert_eq!(
        rows(&database, "SELECT twice(NULL) AS a, twice(2) AS b, twice(x) AS c FROM t WHERE false"),
        [""; 0]
    );
    assert_eq!(rows(&database, "SELECT twice(NULL) AS a, twice(2) AS b"), ["4.0"]);
    assert!(database.create_function(twice()).is_err());
    database.create_or_replace_function(twice().nulls(NullHandling::Special)).unwrap();
    assert_eq!(rows(&database, "SELECT twice(x) AS x FROM t WHERE x IS NULL"), ["0.0"]);
}

#[test]
fn a_call_of_constants_with_side_effects_is_no_constant() {
    let database = database(u64::MAX);
    let given = |name, values: &'static [f64]| {
        let next = AtomicUsize::new(0);
        let function = Function::scalar(name, doubles(), move |arguments| {
            let value = |_| values[next.fetch_add(1, Ordering::Relaxed) % values.len()];
            Ok(Arc::new((0..arguments[0].len()).map(value).collect::<Float64Array>()))
        });
        database.create_function(function.side_effects(true)).unwrap();
    };
    given("less", &[6.0, 5.0, 4.0, 3.0, 2.0, 1.0]);
    assert_eq!(rows(&database, "SELECT n FROM t ORDER BY less(1.0)"), ["1", "2", "3", "4", "5", "6"]);
    assert_eq!(rows(&database, "SELECT n FROM t ORDER BY abs(less(1.0))"), ["1", "2", "3", "4", "5", "6"]);
    // The columns that equal one are not of one value either.
    given("x_of_t", &[1.0, 10.0, 2.0, 0.0, 4.0, 30.0]);
    let equal = rows(&database, "SELECT x FROM t WHERE x = x_of_t(1.0) ORDER BY x");
    assert_eq!(equal, ["1.0", "2.0", "4.0", "10.0", "30.0"]);
}

#[test]
fn constants_are_called_once_unless_there_are_side_effects() {
    let database = database(1);
    let seen = Arc::new(AtomicUsize::new(0));
    let counting = |side_effects| {
        let seen = Arc::clone(&seen);
        let count = move |arguments: &[ArrayRef]| -> FunctionResult<ArrayRef> {
            seen.fetch_add(arguments[0].len(), Ordering::Relaxed);
            Ok(Arc::clone(&arguments[0]))
        };
        Function::scalar("seen", doubles(), count).side_effects(side_effects)
    };
    database.create_function(counting(false)).unwrap();
    assert_eq!(rows(&database, "SELECT seen(1) AS x FROM t").len(), 6);
    assert!(seen.swap(0, Ordering::Relaxed) <= 2);
    database.create_or_replace_function(counting(true)).unwrap();
    assert_eq!(rows(&database, "SELECT seen(1) AS x FROM t").len(), 6);
    assert_eq!(seen.load(Ordering::Relaxed), 6);
}

#[test]
fn aggregates_work_wherever_aggregates_do() {
    for wide_rows_min in [1, u64::MAX] {
        let database = database(wide_rows_min);
        database.create_function(joined()).unwrap();
        database.create_function(total()).unwrap();
        for seal in [false, true] {
            if seal {
                database.engine().seal(None).unwrap();
            }
            let check = |sql: &str, expected: &[&str]| assert_eq!(rows(&database, sql), expected, "{sql}");
            check(
                "SELECT total(x) AS t, joined(x ORDER BY ts DESC) AS j FROM t",
                &["47.0 (30.0),(4.0),(2.0),(10.0),(1.0)"],
            );
            check(
                "SELECT symbol, total(x) AS t, joined(x ORDER BY n) AS j FROM t GROUP BY symbol ORDER BY symbol",
                &["A 7.0 (4.0),(2.0),(1.0)", "B 40.0 (30.0),(10.0)"],
            );
            check(
                "SELECT n % 2 AS k, total(x) AS t, joined(x ORDER BY ts) AS j FROM t GROUP BY n % 2 ORDER BY k",
                &["0 7.0 (1.0),(2.0),(4.0)", "1 40.0 (10.0),(30.0)"],
            );
            check(
                "SELECT ts, symbol, total(x) AS t, joined(x ORDER BY ts) AS j FROM t SAMPLE BY 1h",
                &[
                    "2024-01-01T00:00:00 A 3.0 (1.0),(2.0)",
                    "2024-01-01T00:00:00 B 10.0 (10.0)",
                    "2024-01-01T01:00:00 A 4.0 (4.0)",
                    "2024-01-01T01:00:00 B 30.0 (30.0)",
                ],
            );
            check(
                "SELECT symbol, total(x) FILTER (WHERE n > 4) AS t FROM t GROUP BY symbol ORDER BY symbol",
                &["A 1.0", "B 10.0"],
            );
            check("SELECT total(x) AS t, joined(x) AS j FROM t WHERE x IS NULL", &[""]);
            check(
                "SELECT ts, count(*) AS c, joined(x) AS j FROM t WHERE symbol = 'B' SAMPLE BY 3m",
                &["2024-01-01T00:00:00 1 (10.0)", "2024-01-01T00:03:00 1", "2024-01-01T01:00:00 1 (30.0)"],
            );
        }
    }
}

#[test]
fn aggregates_move_over_frames() {
    let database = database(1);
    database.create_function(joined()).unwrap();
    database.create_function(total()).unwrap();
    for over in ["(ORDER BY ts ROWS 1 PRECEDING)", "(PARTITION BY true ORDER BY ts ROWS 1 PRECEDING)"] {
        let sql = format!("SELECT joined(x) OVER {over} AS j, total(x) OVER {over} AS t FROM t ORDER BY ts");
        let expected = [
            "(1.0) 1.0",
            "(1.0),(10.0) 11.0",
            "(10.0),(2.0) 12.0",
            "(2.0) 2.0",
            "(4.0) 4.0",
            "(4.0),(30.0) 34.0",
        ];
        assert_eq!(rows(&database, &sql), expected, "{sql}");
    }
    let by_series =
        "SELECT total(x) OVER (PARTITION BY symbol ORDER BY ts ROWS 1 PRECEDING) AS t FROM t ORDER BY ts";
    assert_eq!(rows(&database, by_series), ["1.0", "10.0", "3.0", "10.0", "6.0", "30.0"]);
    let so_far = "SELECT total(x) OVER (PARTITION BY symbol ORDER BY ts) AS t FROM t ORDER BY ts";
    assert_eq!(rows(&database, so_far), ["1.0", "10.0", "3.0", "10.0", "7.0", "40.0"]);
}

#[test]
fn a_window_function_has_the_rows_of_a_partition_in_order() {
    let database = database(1);
    database.create_function(steps()).unwrap();
    for over in ["PARTITION BY symbol ORDER BY ts", "PARTITION BY upper(symbol) ORDER BY ts"] {
        let sql = format!("SELECT symbol, steps(x) OVER ({over}) AS s FROM t ORDER BY ts");
        assert_eq!(rows(&database, &sql), ["A 0.0", "B 0.0", "A 1.0", "B", "A 2.0", "B 20.0"], "{sql}");
    }
    let backwards = "SELECT steps(n) OVER (ORDER BY ts DESC) AS s FROM t ORDER BY ts";
    assert_eq!(rows(&database, backwards), ["1.0", "1.0", "1.0", "1.0", "1.0", "0.0"]);
    let hint = failure(&database, "SELECT steps(x) FROM t").to_string();
    assert!(hint.contains("OVER"), "{hint}");
}

#[test]
fn what_a_function_does_wrong_is_said() {
    let database = database(1);
    let one =
        |name: &str, array: ArrayRef| Function::scalar(name, doubles(), move |_| Ok(Arc::clone(&array)));
    database.create_function(one("short", Arc::new(Float64Array::from(vec![1.0])))).unwrap();
    database.create_function(one("whole", Arc::new(Int64Array::from(vec![1; 5])))).unwrap();
    database.create_function(Function::scalar("broken", doubles(), |_| Err("out of luck".into()))).unwrap();
    let two = |_: &[ArrayRef]| Ok(Arc::new(Float64Array::from(vec![1.0, 2.0])) as ArrayRef);
    database.create_function(Function::aggregate("two", doubles(), two)).unwrap();
    for (sql, said) in [
        ("SELECT short(x) FROM t", "function 'short' gave 1 values where 5 were asked for"),
        ("SELECT whole(x) FROM t", "function 'whole' gave BIGINT, not DOUBLE"),
        ("SELECT two(x) FROM t GROUP BY symbol", "function 'two' failed: it gave 2 values for one group"),
        ("SELECT two(DISTINCT x), two(DISTINCT n) FROM t", "function 'two' takes no DISTINCT"),
        ("SELECT broken(symbol) FROM t", "broken does not take (SYMBOL)\nhint: it takes (DOUBLE)"),
        ("SELECT broken(x, x) FROM t", "hint: it takes (DOUBLE)"),
        ("SELECT broken(x) FROM t", "function 'broken' failed: out of luck"),
        ("SELECT n % 2, sum(broken(x)) FROM t GROUP BY n % 2", "function 'broken' failed: out of luck"),
        (
            "SELECT count(*) FROM t a JOIN t b ON a.n = b.n WHERE broken(a.x) < b.x",
            "'broken' failed: out of luck",
        ),
    ] {
        let error = failure(&database, sql);
        assert!(error.to_string().contains(said), "{sql}: {error}");
        assert_eq!(error.kind, crate::ErrorKind::FixRequest, "{sql}");
        if said.contains("luck") {
            assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("out of luck"), "{sql}");
        }
    }
}

#[test]
fn names_are_checked() {
    let database = database(1);
    let named = |name: &str| Function::scalar(name, doubles(), |arguments| Ok(Arc::clone(&arguments[0])));
    for name in ["", "a b", "1st", "x(1), y", "\"q\"", "a.b", "interval"] {
        let error = database.create_function(named(name)).expect_err(name).to_string();
        assert!(error.contains("is no name of a function"), "{name}: {error}");
    }
    for name in ["sum", "ABS", "vwap", "row_number", "time_bucket", "quantile"] {
        let error = database.create_or_replace_function(named(name)).expect_err(name).to_string();
        assert!(error.contains("is a function of the database"), "{name}: {error}");
    }
    let none = FunctionSignature::parse(&[], "DOUBLE").unwrap();
    let constant = Function::scalar("f", none, |_| Err("never called".into()));
    assert!(database.create_function(constant).unwrap_err().message.contains("takes no argument"));
    assert!(FunctionSignature::parse(&["MONEY"], "DOUBLE").is_err());
    assert!(database.remove_function("f").is_err());
}

#[test]
fn another_function_of_the_name_is_in_the_next_statement() {
    let database = database(1);
    let constant = |value: f64| {
        Function::scalar("c", doubles(), move |arguments| {
            Ok(Arc::new(Float64Array::from(vec![value; arguments[0].len()])))
        })
    };
    let mut session = database.session();
    // The same statement: its plan is kept after it has come twice.
    let mut ask = || {
        let sql = "SELECT c(x) AS c FROM t WHERE symbol = 'A' AND ts < '2024-01-01T00:01'";
        let rows = database
            .runtime()
            .block_on(session.query(sql))
            .map(|rows| pretty_format_batches(&rows).unwrap().to_string());
        rows.map_err(|error| error.to_string())
    };
    assert!(ask().unwrap_err().contains("function 'c' does not exist"));
    for value in [1.5, 2.5] {
        database.create_or_replace_function(constant(value)).unwrap();
        for _ in 0..3 {
            assert!(ask().unwrap().contains(&value.to_string()));
        }
    }
    database.remove_function("C").unwrap();
    assert!(ask().unwrap_err().contains("function 'c' does not exist"));
    database.create_function(total()).unwrap();
    let sum = Function::scalar("total", doubles(), |arguments| Ok(Arc::clone(&arguments[0])));
    database.create_or_replace_function(sum).unwrap();
    assert_eq!(rows(&database, "SELECT total(x) AS x FROM t WHERE n > 4 ORDER BY ts"), ["1.0", "10.0"]);
}

#[test]
fn they_are_shown() {
    let database = database(1);
    database.create_function(twice()).unwrap();
    database.create_function(joined()).unwrap();
    let shown = rows(&database, "SHOW FUNCTIONS");
    assert_eq!(shown[0], "joined aggregate user (DOUBLE) VARCHAR");
    assert_eq!(shown[1], "twice scalar user (DOUBLE) DOUBLE");
    assert!(shown.iter().any(|row| row.starts_with("vwap aggregate built-in")));
    assert_eq!(rows(&database, "SHOW FUNCTIONS LIKE 'twi%'"), [shown[1].as_str()]);
}

#[test]
fn what_is_gathered_counts_against_the_memory_of_queries() {
    let options = DatabaseOptions { query_memory_bytes: Some(1 << 20), ..DatabaseOptions::default() };
    let database = Database::in_memory(options).unwrap();
    database.create_function(joined()).unwrap();
    let sql = "SELECT joined(value) FROM generate_series(1, 1000000)";
    let error = failure(&database, sql);
    assert_eq!(error.kind, crate::ErrorKind::FreeSpace, "{error}");
    let grouped = "SELECT value % 3, joined(value) FROM generate_series(1, 1000000) GROUP BY value % 3";
    assert_eq!(failure(&database, grouped).kind, crate::ErrorKind::FreeSpace);
}
