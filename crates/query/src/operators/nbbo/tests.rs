use crate::testing::{SECOND, TestSession, row};
use crate::{Database, DatabaseOptions, Outcome};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::TryStreamExt;
use proptest::prelude::*;
use std::collections::BTreeMap;
use tickstone_engine::EngineOptions;

#[test]
fn needs_its_arguments_and_says_so() {
    let s = TestSession::new().table("t", &[row(SECOND, "A", 10.0, 11.0)], (1, 1));
    s.check("SELECT * FROM nbbo(TABLE t, venue => symbol, bid => x, ask => y)", &["00:00:01 10.0 A 11.0 A"]);
    s.check(
        "SELECT n.bid, n.ask_venues FROM Nbbo((SELECT * FROM t WHERE x > 9), series => symbol, venue => 'v', \
         BID => x, ask => y + 1, bid_size => 1) AS n WHERE n.bid_size = 1",
        &["10.0 v"],
    );
    for (arguments, part) in [
        ("TABLE t, venue => symbol, bid => x", "needs ask"),
        ("TABLE t, bid => x, ask => y", "needs venue"),
        ("TABLE t, venue => symbol, bid => x, ask => y, mid => x", "takes no mid"),
        ("TABLE t, venue => symbol, bid => x, bid => x, ask => y", "bid is given twice"),
        ("TABLE t, venue => symbol, bid => ts, ask => y", "bid of nbbo is a number"),
        ("t, venue => symbol, bid => x, ask => y", "nbbo does not take t"),
        ("venue => symbol, bid => x, ask => y", "nbbo needs the quotes"),
        ("(SELECT symbol, x, y FROM t), venue => symbol, bid => x, ask => y", "designated timestamp"),
    ] {
        s.check_error(&format!("SELECT * FROM nbbo({arguments})"), part);
    }
}

#[test]
fn more_venues_than_are_told_apart_are_refused() {
    let s = TestSession::new().table(
        "t",
        &(0..65).map(|at| row(at, "A", at as f64, 1.0)).collect::<Vec<_>>(),
        (9, 1),
    );
    s.check_error(
        "SELECT count(bid) FROM nbbo(TABLE t, venue => x, bid => x, ask => y)",
        "more than 64 venues",
    );
    s.check(
        "SELECT max(bid) FROM nbbo((SELECT * FROM t WHERE x > 0), venue => x, bid => x, ask => y)",
        &["64.0"],
    );
}

/// One quote: second, symbol, venue, bid, ask, their sizes.
type Quote = (i64, Option<&'static str>, Option<&'static str>, [Option<f64>; 4]);

fn any_quote() -> impl Strategy<Value = Quote> {
    let symbol = prop_oneof![5 => Just(Some("A")), 3 => Just(Some("B")), 1 => Just(None)];
    let venue =
        prop_oneof![4 => Just(Some("X")), 4 => Just(Some("N")), 4 => Just(Some("Q")), 1 => Just(None)];
    let number = || prop_oneof![9 => (0_i32..8).prop_map(|x| Some(f64::from(x))), 1 => Just(None), 1 => Just(Some(f64::NAN))];
    let numbers = [number(), number(), number(), number()];
    (0_i64..40, symbol, venue, numbers)
}

/// Commits, and whether all is sealed after each.
fn any_commits() -> impl Strategy<Value = Vec<(Vec<Quote>, bool)>> {
    prop::collection::vec((prop::collection::vec(any_quote(), 0..60), any::<bool>()), 0..4)
}

fn database(commits: &[(Vec<Quote>, bool)]) -> Database {
    let engine = EngineOptions { background: false, threads: 1, slice_rows: 16, ..EngineOptions::default() };
    let options =
        DatabaseOptions { query_threads: Some(2), wide_rows_min: 1, engine, ..DatabaseOptions::default() };
    let database = Database::in_memory(options).unwrap();
    run(
        &database,
        "CREATE TABLE q (n BIGINT, ts TIMESTAMP, symbol SYMBOL, venue SYMBOL, bid DOUBLE, ask DOUBLE,
         bid_size DOUBLE, ask_size DOUBLE) TIMESTAMP(ts) SERIES BY (symbol)",
    );
    let mut n = 0;
    for (rows, seal) in commits {
        let values = rows.iter().map(|(second, symbol, venue, numbers)| {
            n += 1;
            let text = |text: &Option<&str>| text.map_or("NULL".to_string(), |text| format!("'{text}'"));
            let double = |x: &Option<f64>| x.map_or("NULL".to_string(), |x| format!("'{x}'::double"));
            let numbers: Vec<String> = numbers.iter().map(double).collect();
            let (symbol, venue) = (text(symbol), text(venue));
            // Equal times within a series keep the order of arrival.
            format!("({n}, '2024-01-01T00:00:{second:02}', {symbol}, {venue}, {})", numbers.join(", "))
        });
        let values: Vec<String> = values.collect();
        if !values.is_empty() {
            run(&database, &format!("INSERT INTO q VALUES {}", values.join(", ")));
        }
        if *seal {
            database.engine().seal(None).unwrap();
        }
    }
    database
}

/// The rows of a statement, values as text.
fn run(database: &Database, sql: &str) -> Vec<Vec<String>> {
    let mut session = database.session();
    let batches: Vec<RecordBatch> = database.runtime().block_on(async {
        let statement = session.parse(sql).unwrap().remove(0);
        match session.run(statement).await.unwrap_or_else(|error| panic!("{sql}: {error}")) {
            Outcome::Rows { stream, .. } => {
                stream.try_collect().await.unwrap_or_else(|e| panic!("{sql}: {e}"))
            }
            Outcome::Done { .. } => Vec::new(),
        }
    });
    let options = FormatOptions::default().with_null("-");
    let mut rows = Vec::new();
    for batch in &batches {
        let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap());
        let columns: Vec<_> = columns.collect();
        let row = |row: usize| columns.iter().map(|column| column.value(row).to_string()).collect();
        rows.extend((0..batch.num_rows()).map(row));
    }
    rows
}

/// price, size, venues of the best of some venues' quotes.
fn best(quotes: &BTreeMap<String, [Option<f64>; 4]>, side: usize) -> [String; 3] {
    let price = |of: &[Option<f64>; 4]| of[side].filter(|price| !price.is_nan());
    let better = |a: f64, b: f64| if side == 0 { a.max(b) } else { a.min(b) };
    let Some(best) = quotes.values().filter_map(price).reduce(better) else {
        return ["-", "-", "-"].map(String::from);
    };
    let at_best = || quotes.iter().filter(|(_, of)| price(of) == Some(best));
    let sizes: Vec<f64> =
        at_best().filter_map(|(_, of)| of[2 + side]).filter(|size| !size.is_nan()).collect();
    let size = if sizes.is_empty() { "-".to_string() } else { format!("{:?}", sizes.iter().sum::<f64>()) };
    let venue = |name: &String| if name == "-" { "NULL".to_string() } else { name.clone() };
    let mut venues: Vec<String> = at_best().map(|(name, _)| venue(name)).collect();
    venues.sort_unstable();
    [format!("{best:?}"), size, venues.join(",")]
}

/// ts, series and best of both sides after each quote, in order of series, time and arrival.
fn naive(database: &Database, condition: &str) -> Vec<Vec<String>> {
    let sql = format!("SELECT * FROM q {condition} ORDER BY symbol, ts, n");
    let mut books: BTreeMap<String, BTreeMap<String, [Option<f64>; 4]>> = BTreeMap::new();
    let number = |text: &String| (text != "-").then(|| text.parse::<f64>().unwrap());
    let row = |row: Vec<String>| {
        let book = books.entry(row[2].clone()).or_default();
        book.insert(row[3].clone(), [number(&row[4]), number(&row[5]), number(&row[6]), number(&row[7])]);
        let sides = [0, 1].map(|side| best(book, side)).concat();
        [row[1].clone(), row[2].clone()].into_iter().chain(sides).collect()
    };
    run(database, &sql).into_iter().map(row).collect()
}

/// Of one series after the other, as the rows of each come.
fn by_symbol(mut rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    rows.sort_by(|a, b| a[1].cmp(&b[1]));
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn the_best_is_that_of_a_naive_version(commits in any_commits()) {
        let database = database(&commits);
        let arguments = |series: &str| format!(
            "series => {series}, venue => venue, bid => bid, ask => ask, bid_size => bid_size, ask_size => ask_size"
        );
        // An expression hides the series.
        for (quotes, series, condition, by) in [
            ("TABLE q", "symbol", "", "by series"),
            ("(SELECT * FROM q WHERE bid < 6)", "symbol", "WHERE bid < 6", "by series"),
            ("(SELECT * FROM q WHERE symbol = 'A')", "symbol", "WHERE symbol = 'A'", "by series"),
            ("TABLE q", "symbol || ''", "", "by rows in order of time"),
        ] {
            let sql = format!("SELECT * FROM nbbo({quotes}, {})", arguments(series));
            let plan = run(&database, &format!("EXPLAIN {sql}")).concat().concat();
            prop_assert!(plan.contains(by), "{sql}\n{plan}");
            prop_assert_eq!(by_symbol(run(&database, &sql)), by_symbol(naive(&database, condition)), "{}", sql);
        }
        // A condition on the series goes down to the scan, others stay above.
        let sql = format!("SELECT * FROM nbbo(TABLE q, {}) WHERE symbol = 'B' AND bid > 3", arguments("symbol"));
        let of_b: Vec<_> = naive(&database, "").into_iter()
            .filter(|row| row[1] == "B" && row[2].parse::<f64>().is_ok_and(|bid| bid > 3.0)).collect();
        prop_assert_eq!(run(&database, &sql), of_b);
    }
}
