use super::*;
use crate::error::ErrorKind;
use crate::{Database, DatabaseOptions, Outcome, Session};
use datafusion::arrow::array::{AsArray, Int64Array, StringArray};
use datafusion::arrow::datatypes::Int64Type;
use futures::TryStreamExt;

/// From CANCEL QUERY to the end of the query, on a slow machine in a dev build.
const PROMPT: Duration = Duration::from_secs(5);

/// Rows without end, or nearly: each makes its thread busy in another operator.
const ENDLESS: [&str; 6] = [
    "SELECT sum(x.a * y.a % 7) FROM n x CROSS JOIN n y",
    "SELECT count(*) FROM n x JOIN n y ON x.a < y.a + 1000000",
    "SELECT count(*) FROM n x JOIN n y ON x.one = y.one",
    "SELECT sum(v) FROM (SELECT unnest(range(0, 100)) AS v FROM n x CROSS JOIN n y)",
    "WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM r WHERE a < 1000000000) SELECT max(a) FROM r",
    "SELECT x.a FROM n x CROSS JOIN n y",
];

fn database(threads: usize, wide_rows_min: u64) -> Database {
    let options =
        DatabaseOptions { query_threads: Some(threads), wide_rows_min, ..DatabaseOptions::default() };
    let database = Database::in_memory(options).unwrap();
    let mut session = database.session();
    for sql in [
        "CREATE TABLE n (a BIGINT, one BIGINT)",
        "INSERT INTO n SELECT value, 1 FROM generate_series(1, 100000)",
    ] {
        database.runtime().block_on(session.query(sql)).unwrap();
    }
    database
}

/// Runs a statement to its end, all rows read.
fn read(database: &Database, session: &mut Session, sql: &str) -> Result<u64> {
    database.runtime().block_on(async {
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

/// What SHOW QUERIES gives: number, state and text.
fn shown(database: &Database) -> Vec<(u64, String, String)> {
    let batches = database.runtime().block_on(database.session().query("SHOW QUERIES")).unwrap();
    let batch = &batches[0];
    let ids: &Int64Array = batch.column_by_name("id").unwrap().as_primitive::<Int64Type>();
    let text = |name: &str| -> StringArray { batch.column_by_name(name).unwrap().as_string::<i32>().clone() };
    let (states, texts) = (text("state"), text("statement"));
    let row = |at: usize| {
        (ids.value(at).cast_unsigned(), states.value(at).to_string(), texts.value(at).to_string())
    };
    (0..batch.num_rows()).map(row).collect()
}

/// Waits until a statement of this text is listed; its number.
fn listed(database: &Database, sql: &str) -> u64 {
    let begun = Instant::now();
    loop {
        if let Some((id, _, _)) = shown(database).into_iter().find(|(_, _, text)| text == sql) {
            return id;
        }
        assert!(begun.elapsed() < PROMPT, "{sql} is not listed");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn cancels(database: &Database, sql: &str) {
    std::thread::scope(|scope| {
        let running = scope.spawn(|| read(database, &mut database.session(), sql));
        let id = listed(database, sql);
        // It is in the midst of it.
        std::thread::sleep(Duration::from_millis(50));
        let told = Instant::now();
        database.runtime().block_on(database.session().query(&format!("CANCEL QUERY {id}"))).unwrap();
        let error = running.join().unwrap().unwrap_err();
        assert!(told.elapsed() < PROMPT, "{sql} took {:?} to end", told.elapsed());
        assert_eq!(error.message, format!("cancelled by CANCEL QUERY {id}"), "{sql}");
        assert_eq!(error.kind, ErrorKind::Retry);
    });
    assert_eq!(shown(database), []);
}

#[test]
fn every_query_can_be_cancelled_in_the_midst_of_it() {
    for (threads, wide_rows_min) in [(1, u64::MAX), (2, 1)] {
        let database = database(threads, wide_rows_min);
        for sql in ENDLESS {
            cancels(&database, sql);
        }
        let counts = database.running().counts();
        assert_eq!((counts.cancelled, counts.failed, counts.running), (ENDLESS.len() as u64, 0, 0));
    }
}

#[test]
fn a_prepared_statement_is_cancelled_too() {
    let database = database(1, u64::MAX);
    let mut session = database.session();
    read(&database, &mut session, &format!("PREPARE endless AS {}", ENDLESS[0])).unwrap();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| read(&database, &mut session, "EXECUTE endless"));
        let id = listed(&database, "EXECUTE endless");
        database.runtime().block_on(database.session().query(&format!("CANCEL QUERY {id}"))).unwrap();
        assert!(running.join().unwrap().unwrap_err().message.starts_with("cancelled by CANCEL QUERY"));
    });
}

#[test]
fn a_statement_that_stores_rows_stores_none_when_cancelled() {
    let database = database(2, 1);
    for sql in [
        "INSERT INTO n SELECT sum(x.a * y.a % 7), 1 FROM n x CROSS JOIN n y",
        "CREATE TABLE made AS (SELECT sum(x.a * y.a % 7) AS s FROM n x CROSS JOIN n y)",
        "DELETE FROM n WHERE a IN (SELECT max(x.a * y.a % 7) FROM n x CROSS JOIN n y)",
        "EXPLAIN ANALYZE SELECT sum(x.a * y.a % 7) FROM n x CROSS JOIN n y",
    ] {
        cancels(&database, sql);
    }
    let mut session = database.session();
    assert_eq!(read(&database, &mut session, "SELECT * FROM n").unwrap(), 100_000);
    assert_eq!(read(&database, &mut session, "SHOW TABLES").unwrap(), 1);
}

#[test]
fn a_statement_is_listed_from_its_beginning_to_the_end_of_its_rows() {
    let database = database(1, u64::MAX);
    let (runtime, mut session) = (database.runtime(), database.session());
    let sql = "SELECT * FROM n";
    let statement = session.parse(sql).unwrap().remove(0);
    let outcome = runtime.block_on(session.run_text(statement, Some(sql.into()))).unwrap();
    let Outcome::Rows { mut stream, .. } = outcome else { panic!("a query gives rows") };
    assert_eq!(shown(&database), [], "nobody has asked for its rows");
    runtime.block_on(stream.try_next()).unwrap();
    let [(id, state, text)] = <[_; 1]>::try_from(shown(&database)).unwrap();
    assert_eq!((state.as_str(), text.as_str()), ("waiting", sql));
    while runtime.block_on(stream.try_next()).unwrap().is_some() {}
    assert_eq!(shown(&database), [], "its rows have ended");

    let statement = session.parse(sql).unwrap().remove(0);
    let outcome = runtime.block_on(session.run(statement)).unwrap();
    let Outcome::Rows { mut stream, .. } = outcome else { panic!("a query gives rows") };
    runtime.block_on(stream.try_next()).unwrap();
    assert_eq!(shown(&database), [(id + 1, "waiting".to_string(), "SELECT".to_string())]);
    drop(stream);
    assert_eq!(shown(&database), [], "its rows were dropped");

    read(&database, &mut session, "SELECT 1 / (a - a) FROM n").unwrap_err();
    read(&database, &mut session, "SELECT nothing FROM n").unwrap_err();
    assert_eq!(shown(&database), [], "they failed");
    assert_eq!(database.running().counts().failed, 2);
}

#[test]
fn a_query_whose_rows_nobody_waits_for_ends_when_it_is_asked_again() {
    let database = database(1, u64::MAX);
    let (runtime, mut session) = (database.runtime(), database.session());
    let statement = session.parse("SELECT * FROM n").unwrap().remove(0);
    let outcome = runtime.block_on(session.run(statement)).unwrap();
    let Outcome::Rows { mut stream, .. } = outcome else { panic!("a query gives rows") };
    assert!(runtime.block_on(stream.try_next()).unwrap().is_some());
    let id = shown(&database)[0].0;
    runtime.block_on(session.query(&format!("CANCEL QUERY {id}"))).unwrap();
    let error = QueryError::from(runtime.block_on(stream.try_next()).unwrap_err());
    assert_eq!(error.message, format!("cancelled by CANCEL QUERY {id}"));
    assert!(runtime.block_on(stream.try_next()).unwrap().is_none());
    assert_eq!(shown(&database), []);
}

#[test]
fn what_does_not_run_cannot_be_cancelled() {
    let database = database(1, u64::MAX);
    let mut session = database.session();
    let mut message = |sql: &str| {
        let error = database.runtime().block_on(session.query(sql)).unwrap_err();
        (error.message, error.hint.unwrap())
    };
    let listed = "SHOW QUERIES lists what runs".to_string();
    assert_eq!(message("CANCEL QUERY 1"), ("query 1 has ended".to_string(), listed.clone()));
    assert_eq!(message("CANCEL QUERY 1000"), ("there was no query 1000 yet".to_string(), listed));
    assert_eq!(message("CANCEL QUERY now").0, "CANCEL QUERY takes the number of a query");
}

#[test]
fn a_flag_made_before_or_after_is_set() {
    let all = Arc::new(RunningStatements::default());
    let memory = Arc::clone(&database(1, 1).session().memory);
    let statement = Statement::CopyTo {
        source: crate::dialect::CopySource::Table { name: "n".to_string(), columns: Vec::new() },
        end: crate::dialect::CopyEnd::Client,
        options: Vec::new(),
    };
    let entered = all.enter(&statement, None, &memory).unwrap();
    let before = entered.one().wanted().flag();
    assert!(!before.load(Ordering::SeqCst));
    all.cancel(entered.one().id, None).unwrap();
    assert!(before.load(Ordering::SeqCst));
    assert!(entered.one().wanted().flag().load(Ordering::SeqCst));
    drop(entered);
    let entered = all.enter(&statement, None, &memory).unwrap();
    all.cancel(entered.one().id, None).unwrap();
    assert!(entered.one().wanted().flag().load(Ordering::SeqCst));
    drop(entered);
    assert!(all.list().is_empty());
    let sealing = all.enter(&Statement::Checkpoint { table: None }, None, &memory).unwrap();
    let error = all.cancel(sealing.one().id, None).unwrap_err();
    assert_eq!(error.message, format!("query {} cannot be cancelled: it is CHECKPOINT", sealing.one().id));
}
