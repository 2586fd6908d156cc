use super::*;
use crate::{Database, DatabaseOptions, Function, FunctionSignature, Outcome, Session};
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::Int64Type;
use futures::{TryStream, TryStreamExt};
use std::path::Path;
use std::sync::atomic::AtomicU64;

/// From the end of a statement to the next one's answer, on a slow machine in a dev build.
const PROMPT: Duration = Duration::from_secs(5);

/// Batches that each thread may still work on once the statement is told to end.
const LATE_PER_THREAD: u64 = 4;

/// A database whose functions `slow` and `crawl` count the batches they are given, each of which takes a while, and whose
/// functions `boom`, `boom_sum` and `boom_all` panic at the value 70,000.
struct Planted {
    database: Database,
    batches: Arc<AtomicU64>,
}

fn planted(threads: usize) -> Planted {
    let wide_rows_min = if threads == 1 { u64::MAX } else { 1 };
    let options = DatabaseOptions {
        query_threads: Some(threads),
        wide_rows_min,
        query_memory_bytes: Some(512 << 20),
        ..DatabaseOptions::default()
    };
    let database = Database::in_memory(options).unwrap();
    let batches = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&batches);
    let of = || FunctionSignature::parse(&["BIGINT"], "BIGINT").unwrap();
    for (name, millis) in [("slow", 2), ("crawl", 60)] {
        let counted = Arc::clone(&counted);
        let slow = Function::scalar(name, of(), move |arguments| {
            counted.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(millis));
            Ok(Arc::clone(&arguments[0]))
        });
        database.create_function(slow.side_effects(true)).unwrap();
    }
    let boom = |arguments: &[ArrayRef]| {
        let hit = arguments[0].as_primitive::<Int64Type>().iter().flatten().any(|value| value == 70_000);
        assert!(!hit, "a planted defect");
    };
    let scalar = Function::scalar("boom", of(), move |arguments| {
        boom(arguments);
        Ok(Arc::clone(&arguments[0]))
    });
    database.create_function(scalar).unwrap();
    let aggregate = Function::aggregate("boom_sum", of(), move |arguments| {
        boom(arguments);
        Ok(arguments[0].slice(0, 1))
    });
    database.create_function(aggregate).unwrap();
    let window = Function::window("boom_all", of(), move |arguments| {
        boom(arguments);
        Ok(Arc::clone(&arguments[0]))
    });
    database.create_function(window).unwrap();
    let mut session = database.session();
    for sql in [
        "CREATE TABLE n (ts TIMESTAMP, sym SYMBOL, a BIGINT, one BIGINT) TIMESTAMP(ts) SERIES BY (sym)",
        "INSERT INTO n SELECT to_timestamp(value), CASE WHEN value % 2 = 0 THEN 'A' ELSE 'B' END, value, 1 \
         FROM generate_series(1, 100000) AS g(value)",
        "CREATE TABLE into_here (a BIGINT)",
    ] {
        database.runtime().block_on(session.query(sql)).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    Planted { database, batches }
}

impl Planted {
    fn read(&self, session: &mut Session, sql: &str) -> std::result::Result<u64, QueryError> {
        self.database.runtime().block_on(async {
            let statement = session.parse(sql)?.remove(0);
            match session.run_text(statement, Some(sql.into())).await? {
                Outcome::Rows { stream, .. } => {
                    let rows = stream.map_ok(|batch| batch.num_rows() as u64);
                    Ok(rows.try_fold(0, |all, rows| std::future::ready(Ok(all + rows))).await?)
                }
                Outcome::Done { rows, .. } => Ok(rows.unwrap_or(0)),
            }
        })
    }

    /// The number of the statement under way; `None` where it is done already.
    fn running(&self, done: impl Fn() -> bool) -> Option<u64> {
        let begun = Instant::now();
        loop {
            if let Some(one) = self.database.running().list().first() {
                return Some(one.id);
            }
            if done() {
                return None;
            }
            assert!(begun.elapsed() < PROMPT, "nothing runs");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The next statement answers, of a session of its own, and nothing is held that should not be.
    fn answers(&self, after: &str) {
        let begun = Instant::now();
        assert_eq!(self.read(&mut self.database.session(), "SELECT a FROM n LIMIT 5").unwrap(), 5, "{after}");
        assert!(begun.elapsed() < PROMPT, "after {after}: {:?}", begun.elapsed());
    }

    /// Waits until tasks that were aborted have let go of what they held.
    fn holds_nothing(&self, after: &str) {
        let pool = &self.database.base_state().runtime_env().memory_pool;
        let begun = Instant::now();
        while pool.reserved() > 0 {
            assert!(begun.elapsed() < PROMPT, "{} bytes are held after {after}", pool.reserved());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn cancels(&self, sql: &str, threads: u64) {
        let ended = self.cancelled(sql, threads);
        ended.unwrap_or_else(|by_itself| panic!("{sql} ended before it was cancelled: {by_itself:?}"));
    }

    /// Cancels a statement after a while.
    ///
    /// # Errors
    /// What it gave where it had ended by then.
    fn cancelled(
        &self,
        sql: &str,
        threads: u64,
    ) -> std::result::Result<(), std::result::Result<u64, QueryError>> {
        std::thread::scope(|scope| {
            let running = scope.spawn(|| self.read(&mut self.database.session(), sql));
            let id = self.running(|| running.is_finished());
            std::thread::sleep(Duration::from_millis(40));
            let before = self.batches.load(Ordering::SeqCst);
            let Some(id) = id.filter(|id| self.database.running().cancel(*id, None).is_ok()) else {
                return Err(running.join().unwrap());
            };
            let told = Instant::now();
            let ended = running.join().unwrap();
            let error = ended.err().unwrap_or_else(|| panic!("it ended before it was cancelled: {sql}"));
            if error.sql_state() != SqlState::Cancelled {
                // On a busy machine what is wrong with it may be found out no earlier.
                return Err(Err(error));
            }
            assert_eq!(error.message, format!("cancelled by CANCEL QUERY {id}"), "{sql}");
            assert!(told.elapsed() < PROMPT, "{sql} took {:?} to end", told.elapsed());
            self.answers(sql);
            let late = self.batches.load(Ordering::SeqCst) - before;
            assert!(late <= threads * LATE_PER_THREAD, "{late} batches after it was cancelled: {sql}");
            Ok(())
        })?;
        self.holds_nothing(sql);
        Ok(())
    }
}

/// Rows of which each batch takes a while, nearly without end.
const BIG: &str = "(SELECT slow(x.a) AS v, x.a AS a, x.ts AS ts, x.sym AS sym FROM n x CROSS JOIN n y) big";

/// Each has another operator at work for long, over slow rows (`{BIG}`) or over rows of its own.
const OPERATORS: [&str; 69] = [
    "SELECT v + 1 FROM {BIG}",
    "SELECT a FROM {BIG} WHERE v < 0",
    "SELECT a FROM {BIG} WHERE v < 0 LIMIT 5",
    "SELECT a FROM {BIG} ORDER BY v",
    "SELECT a FROM {BIG} ORDER BY v LIMIT 5",
    "SELECT a FROM {BIG} WHERE v > 0 LIMIT 5 OFFSET 1000000000",
    "SELECT count(v) FROM {BIG}",
    "SELECT sum(v), min(v), max(v), avg(v) FROM {BIG}",
    "SELECT a, sum(v) FROM {BIG} GROUP BY a",
    "SELECT sym, sum(v) FROM {BIG} GROUP BY sym",
    "SELECT count(DISTINCT v) FROM {BIG}",
    "SELECT median(v), approx_percentile_cont(v, 0.5) FROM {BIG}",
    "SELECT DISTINCT v FROM {BIG}",
    "SELECT a, sum(v) FROM {BIG} GROUP BY ROLLUP (a)",
    "SELECT sum(v) OVER (ORDER BY a) FROM {BIG}",
    "SELECT row_number() OVER (PARTITION BY a ORDER BY v) FROM {BIG}",
    "SELECT sum(v) OVER (ORDER BY v ROWS BETWEEN 5 PRECEDING AND CURRENT ROW) FROM {BIG}",
    "SELECT v FROM {BIG} UNION ALL SELECT a FROM n",
    "SELECT v FROM {BIG} UNION SELECT a FROM n",
    "SELECT v FROM {BIG} INTERSECT SELECT a FROM n",
    "SELECT v FROM {BIG} EXCEPT SELECT a FROM n",
    "SELECT count(*) FROM {BIG} JOIN n ON big.v = n.a",
    "SELECT count(*) FROM n JOIN {BIG} ON big.v = n.a",
    // On two threads both sides are dealt out by their keys.
    "SELECT count(*) FROM {BIG} JOIN (SELECT slow(x.a) AS w FROM n x CROSS JOIN n y) other ON big.v = other.w",
    "SELECT count(*) FROM n LEFT JOIN {BIG} ON big.v = n.a AND big.a < n.one",
    "SELECT count(*) FROM n WHERE a IN (SELECT v FROM {BIG})",
    "SELECT count(*) FROM n WHERE NOT EXISTS (SELECT 1 FROM {BIG} WHERE big.v = n.a)",
    "SELECT (SELECT max(v) FROM {BIG})",
    "SELECT unnest(range(0, v)) FROM {BIG}",
    "SELECT ts, sum(crawl(a)) FROM n SAMPLE BY 1h",
    "SELECT ts, sym, sum(crawl(a)) FROM n SAMPLE BY 1h",
    "SELECT sym, sum(crawl(a)) FROM n GROUP BY sym",
    "SELECT sum(crawl(a)) OVER (PARTITION BY sym ORDER BY ts) FROM n",
    "SELECT crawl(a) FROM n ORDER BY ts DESC",
    "INSERT INTO into_here SELECT v FROM {BIG}",
    "CREATE TABLE made AS SELECT v FROM {BIG}",
    "EXPLAIN ANALYZE SELECT sum(v) FROM {BIG}",
    "DELETE FROM n WHERE a IN (SELECT v FROM {BIG})",
    "UPDATE n SET a = 1 WHERE a IN (SELECT v FROM {BIG})",
    // Joins whose pairs fulfil no condition, or are not yielded.
    "SELECT count(*) FROM n x JOIN n y ON x.a + y.a < 0",
    "SELECT count(*) FROM n x LEFT JOIN n y ON x.a + y.a < 0",
    "SELECT count(*) FROM n x FULL JOIN n y ON x.a + y.a < 0",
    "SELECT count(*) FROM n x JOIN n y ON x.one = y.one AND x.a + y.a < 0",
    "SELECT count(*) FROM n x WHERE EXISTS (SELECT 1 FROM n y WHERE x.one = y.one AND x.a + y.a < 0)",
    "SELECT count(*) FROM n x WHERE x.one IN (SELECT one FROM n y WHERE y.a + x.a < 0)",
    // Those of time series: by series, and of other inputs in order of time.
    "SELECT x.a, crawl(y.a) FROM n x ASOF JOIN n y ON (sym)",
    "SELECT count(y.a) FROM n x ASOF JOIN n y ON (sym) WHERE crawl(x.a) > 0",
    "SELECT count(*) FROM {BIG} ASOF JOIN n y MATCH_CONDITION (big.ts >= y.ts) ON big.sym = y.sym",
    "SELECT count(*) FROM n y ASOF JOIN {BIG} MATCH_CONDITION (y.ts > big.ts) ON big.sym = y.sym",
    "SELECT x.a, sum(crawl(y.a)) AS s FROM n x WINDOW JOIN n y ON (sym) RANGE BETWEEN 9s PRECEDING AND 9s FOLLOWING",
    "SELECT x.a, sum(y.c) AS s FROM n x WINDOW JOIN (SELECT ts, sym, crawl(a) AS c FROM n) y ON (sym) \
     RANGE BETWEEN 9s PRECEDING AND 9s FOLLOWING",
    "SELECT crawl(h.offset + y.a) FROM n x HORIZON JOIN n y ON (sym) LIST (0, 1s, 5s) AS h",
    "SELECT h.offset, avg(y.a) FROM (SELECT ts, sym, crawl(a) AS c FROM n) x HORIZON JOIN n y ON (sym) \
     RANGE FROM 0s TO 5000s STEP 1s AS h GROUP BY h.offset",
    "SELECT crawl(coalesce(x.a, y.a)) FROM n x SPLICE JOIN n y ON (sym)",
    "SELECT count(*) FROM n x SPLICE JOIN (SELECT ts, sym, crawl(a) AS c FROM n) y ON (sym) WHERE y.c > 0",
    "SELECT crawl(bid::BIGINT) FROM nbbo((SELECT ts, sym, sym AS venue, a::DOUBLE AS bid, a::DOUBLE AS ask FROM n), \
     venue => venue, bid => bid, ask => ask)",
    "SELECT max(bid) FROM nbbo((SELECT ts, sym, sym AS venue, crawl(a)::DOUBLE AS bid, a::DOUBLE AS ask FROM n), \
     venue => venue, bid => bid, ask => ask)",
    "SELECT * FROM (SELECT ts, sym, crawl(a) AS c FROM n) LATEST ON ts PARTITION BY sym",
    "SELECT ts, sum(crawl(a)) FROM n SAMPLE BY 1s FILL(PREV)",
    "SELECT sum(slow(s)) FROM (SELECT ts, sum(a) AS s FROM n SAMPLE BY 10T FILL(0))",
    "SELECT ts, sym, crawl(s::BIGINT) FROM (SELECT ts, sym, avg(a) AS s FROM n SAMPLE BY 10T FILL(LINEAR))",
    "SELECT ts, sum(crawl(a)) FROM n SAMPLE BY TICKS 10",
    "SELECT * FROM (SELECT slow(x.a) AS v, x.a AS a, x.sym AS sym FROM n x CROSS JOIN n y) \
     PIVOT (sum(v) FOR sym IN ('A', 'B') GROUP BY a)",
    "SELECT max(value) FROM (SELECT slow(x.a) AS v, x.one AS w FROM n x CROSS JOIN n y) UNPIVOT (value FOR name IN (v, w))",
    // What goes on for long once all rows are there: a partition, the table of a join, what is grouped or in order.
    "SELECT approx_distinct(a) OVER (ORDER BY a ROWS BETWEEN UNBOUNDED PRECEDING AND 90000 FOLLOWING) FROM n",
    "SELECT crawl(a) FROM n ORDER BY a % 1000",
    "SELECT sum(crawl(s)) FROM (SELECT a, sum(one) AS s FROM n GROUP BY a)",
    // Rows that no table has.
    "SELECT sum(slow(value)) FROM generate_series(1, 1000000000000)",
    "WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT slow(a) + 1 FROM r WHERE a < 1000000000) SELECT max(a) FROM r",
];

fn operators_end(threads: usize) {
    let planted = planted(threads);
    for sql in OPERATORS {
        planted.cancels(&sql.replace("{BIG}", BIG), threads as u64);
    }
}

#[test]
fn every_operator_ends_when_it_is_cancelled_on_one_thread() {
    operators_end(1);
}

#[test]
fn every_operator_ends_when_it_is_cancelled_on_two_threads() {
    operators_end(2);
}

/// Arguments to try with a function, of rows that are slow.
const ARGUMENTS: [&str; 18] = [
    "v",
    "v::DOUBLE",
    "v::TEXT",
    "v > 0",
    "v::DOUBLE, 0.5",
    "v, 3",
    "v::DOUBLE, v::DOUBLE",
    "v::TEXT, '1'",
    "v::TEXT, 3",
    "v::TEXT, '1', '2'",
    "v::TEXT, 1, 2",
    "make_array(v)",
    "make_array(v), v",
    "make_array(v), make_array(v)",
    "make_array(v), 1, 1",
    "ts",
    "'day', ts",
    "",
];

/// The statement with a call, with the arguments that the function takes. `None` where none of those is.
fn with_function(planted: &Planted, session: &mut Session, name: &str, query: &str) -> Option<String> {
    let quoted = format!("\"{name}\"");
    ARGUMENTS.iter().find_map(|arguments| {
        let sql = query.replace("CALL", &format!("{quoted}({arguments})")).replace("{BIG}", BIG);
        planted.read(session, &format!("EXPLAIN {sql}")).is_ok().then_some(sql)
    })
}

fn functions_end(threads: usize) {
    let planted = planted(threads);
    let state = planted.database.base_state();
    let planned =
        |name: &&String| !["slow", "crawl", "boom", "boom_sum", "boom_all"].contains(&name.as_str());
    let mut names: Vec<(String, &str)> = Vec::new();
    let mut with = |some: Vec<&String>, query| {
        names.extend(some.into_iter().filter(planned).map(|name| (name.clone(), query)));
    };
    with(state.scalar_functions().keys().collect(), "SELECT CALL FROM {BIG}");
    with(state.aggregate_functions().keys().collect(), "SELECT CALL FROM {BIG}");
    with(state.aggregate_functions().keys().collect(), "SELECT CALL OVER (ORDER BY a) FROM {BIG}");
    with(state.window_functions().keys().collect(), "SELECT CALL OVER (ORDER BY a) FROM {BIG}");
    names.sort();
    let (mut session, mut count) = (planted.database.session(), 0);
    for (name, query) in &names {
        if let Some(sql) = with_function(&planted, &mut session, name, query) {
            // Some take other values than these: they fail by themselves.
            count += usize::from(planted.cancelled(&sql, threads as u64).is_ok());
        }
    }
    assert!(count * 2 > names.len(), "only {count} of {} functions were called", names.len());
}

#[test]
fn every_function_ends_when_it_is_cancelled_on_one_thread() {
    functions_end(1);
}

#[test]
fn every_function_ends_when_it_is_cancelled_on_two_threads() {
    functions_end(2);
}

#[test]
fn rows_that_are_dropped_end_their_statement_in_every_thread() {
    for threads in [1, 2] {
        let planted = planted(threads);
        let runtime = planted.database.runtime();
        let sql = format!("SELECT a, sum(v) FROM {BIG} GROUP BY a");
        let mut session = planted.database.session();
        let statement = session.parse(&sql).unwrap().remove(0);
        let outcome = runtime.block_on(session.run(statement)).unwrap();
        let Outcome::Rows { mut stream, progress, .. } = outcome else { panic!("a query gives rows") };
        let read = async { tokio::time::timeout(Duration::from_millis(60), stream.try_next()).await };
        assert!(runtime.block_on(read).is_err(), "it has no row yet");
        // The plan, which the progress is of, holds what joins collect.
        drop((stream, progress));
        std::thread::sleep(Duration::from_millis(20));
        let before = planted.batches.load(Ordering::SeqCst);
        planted.answers(&sql);
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(planted.batches.load(Ordering::SeqCst), before, "nothing works on after its end");
        planted.holds_nothing(&sql);
    }
}

/// Polls a statement some times, none of which may take long.
fn takes_turns(planted: &Planted, sql: &str) {
    let runtime = planted.database.runtime();
    let mut session = planted.database.session();
    let statement = session.parse(sql).unwrap().remove(0);
    let outcome = runtime.block_on(session.run(statement)).unwrap();
    let Outcome::Rows { mut stream, .. } = outcome else { panic!("a query gives rows") };
    for _ in 0..20 {
        let begun = Instant::now();
        let turn = futures::future::poll_fn(|context| {
            Poll::Ready(Pin::new(&mut stream).try_poll_next(context).is_pending())
        });
        assert!(runtime.block_on(turn), "{sql} is done");
        assert!(begun.elapsed() < 50 * TURN, "a turn of {sql} took {:?}", begun.elapsed());
    }
}

#[test]
fn a_thread_that_waits_for_rows_gets_its_turns() {
    let planted = planted(1);
    takes_turns(&planted, &format!("SELECT sum(v) FROM {BIG}"));
}

#[test]
fn joins_that_find_nothing_take_turns() {
    let planted = planted(1);
    let of = "FROM range(0, 30000) x, range(0, 100000) y";
    for sql in [
        format!("SELECT count(*) {of} WHERE x.value * y.value = -1"),
        format!("SELECT count(*) {of} WHERE x.value > y.value + 1000000"),
        "SELECT count(*) FROM n x LEFT JOIN n y ON x.a * y.a < 0".to_string(),
        "SELECT count(*) FROM n x JOIN n y ON x.one = y.one AND x.a * y.a < 0".to_string(),
        "SELECT count(*) FROM n x WHERE NOT EXISTS (SELECT 1 FROM n y WHERE x.one = y.one AND x.a * y.a < 0)"
            .to_string(),
    ] {
        takes_turns(&planted, &sql);
    }
}

/// Each panics in another place.
fn defects(folder: &Path) -> Vec<String> {
    let file = folder.join("out.csv");
    let statements = [
        "SELECT boom(70000)",
        "SELECT a FROM n WHERE a = boom(70000)",
        "SELECT boom(a) FROM n",
        "SELECT a FROM n WHERE boom(a) > 5",
        "SELECT boom(a) AS b, count(*) FROM n GROUP BY boom(a)",
        "SELECT sum(boom(a)) FROM n",
        "SELECT one, boom_sum(a) FROM n GROUP BY one",
        "SELECT boom_sum(a) FROM n",
        "SELECT boom_all(a) OVER (ORDER BY a) FROM n",
        "SELECT boom_all(a) OVER (PARTITION BY one ORDER BY a) FROM n",
        "SELECT sum(boom(a)) OVER (PARTITION BY sym ORDER BY ts) FROM n",
        "SELECT a FROM n ORDER BY boom(a)",
        "SELECT a FROM n ORDER BY boom(a) LIMIT 5",
        "SELECT x.a FROM n x JOIN n y ON boom(x.a) = y.a",
        "SELECT x.a FROM n x JOIN n y ON x.a = y.a AND boom(x.a + y.a - y.a) > 0",
        "SELECT a FROM n WHERE a IN (SELECT boom(a) FROM n)",
        "SELECT boom(a) FROM n UNION SELECT one FROM n",
        "SELECT ts, sum(boom(a)) FROM n SAMPLE BY 1h",
        "SELECT ts, sym, sum(boom(a)) FROM n SAMPLE BY 1h",
        "SELECT boom(value) FROM generate_series(1, 100000) AS g(value)",
        "SELECT unnest(range(0, boom(a) % 3)) FROM n",
        "SELECT * FROM (VALUES (boom(70000))) AS v(a)",
        "EXPLAIN ANALYZE SELECT boom(a) FROM n",
        "INSERT INTO into_here SELECT boom(a) FROM n",
        "INSERT INTO into_here VALUES (boom(70000))",
        "CREATE TABLE made AS SELECT boom(a) AS a FROM n",
        "DELETE FROM n WHERE boom(a) > 0",
        "UPDATE n SET a = boom(a)",
        "COPY (SELECT boom(a) AS a FROM n) TO 'FILE'",
    ];
    statements.iter().map(|sql| sql.replace("FILE", &file.display().to_string())).collect()
}

#[test]
fn a_panic_is_an_error_of_its_statement_and_of_nothing_else() {
    let folder = std::env::temp_dir().join(format!("tickstone-defects-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for threads in [1, 2] {
        let planted = planted(threads);
        let mut session = planted.database.session();
        for sql in defects(&folder) {
            let error = planted.read(&mut session, &sql).expect_err(&sql);
            assert_eq!(error.kind, ErrorKind::Report, "{sql}: {error}");
            assert_eq!(error.message, "the statement met a defect: a planted defect", "{sql}");
            let told = error.detail.unwrap_or_default();
            assert_eq!(told, format!("statement: {sql}"));
            assert_eq!(planted.read(&mut session, "SELECT a FROM n").unwrap(), 100_000, "after {sql}");
            planted.answers(&sql);
            planted.holds_nothing(&sql);
        }
        assert_eq!(planted.read(&mut session, "SELECT * FROM into_here").unwrap(), 0);
        assert_eq!(planted.database.running().counts().running, 0);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_turn_is_not_over_before_it_has_moved() {
    let wanted = Arc::new(Wanted::default());
    let _inside = wanted.enter();
    let context = &Context::from_waker(futures::task::noop_waker_ref());
    assert!(matches!(give_way(context), Poll::Ready(Ok(()))));
    std::thread::sleep(TURN);
    assert!(give_way(context).is_pending());
    let again = wanted.enter();
    std::thread::sleep(TURN);
    assert!(matches!(give_way(context), Poll::Ready(Ok(()))), "the first batch of a turn");
    drop(again);
    wanted.leave();
    assert!(look().is_err());
    assert!(matches!(give_way(context), Poll::Ready(Err(_))));
}

#[test]
fn one_statement_inside_another_puts_it_back() {
    assert!(current().is_none());
    let (outer, inner) = (Arc::new(Wanted::default()), Arc::new(Wanted::default()));
    caught(Some(&outer), || {
        let panicked: std::result::Result<(), _> = caught(Some(&inner), || panic!("inside"));
        assert!(panicked.is_err());
        assert!(Arc::ptr_eq(&current().unwrap(), &outer));
    })
    .unwrap();
    assert!(current().is_none());
    assert!(outer.defect().is_none());
    assert_eq!(inner.defect().unwrap().message, "the statement met a defect: inside");
}
