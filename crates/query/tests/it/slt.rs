//! Runs `tests/sql/*.slt` in every state.
//!
//! The format is sqllogictest's, as far as these files use it: records of `statement ok`,
//! `statement error TEXT` (the message contains TEXT, and each part of TEXT && TEXT) and
//! `query TYPES [rowsort]` with the expected rows after `----`, values separated by spaces or, where one
//! holds a space, by tabs. `#` starts a comment; `${TMP}` stands for a folder of the run's own.
//! `statement count N` expects N rows stored.

use crate::states::{State, crash_image, open};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::TryStreamExt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tickstone_engine::disk::MemoryDisk;
use tickstone_query::{Database, Outcome, QueryError, Session};

#[derive(Debug)]
enum Expected {
    Ok,
    Count(u64),
    Error(String),
    Rows { sorted: bool, rows: Vec<String> },
}

#[derive(Debug)]
struct Record {
    line: usize,
    sql: String,
    expected: Expected,
}

#[test]
fn sql_files_give_the_same_in_every_state() {
    let only = std::env::var("SLT").ok();
    let mut failures = Vec::new();
    for file in files() {
        let name = file.file_name().unwrap().to_string_lossy().to_string();
        if only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        let records = parse(&fs::read_to_string(&file).unwrap());
        for state in State::ALL {
            failures.extend(run(&records, state).into_iter().map(|f| format!("{name} ({state:?}) {f}")));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The statements of a file: those that make its tables and rows, and its queries.
pub(crate) fn statements_of(text: &str) -> (Vec<String>, Vec<String>) {
    let (mut made, mut asked) = (Vec::new(), Vec::new());
    for record in parse(text) {
        match record.expected {
            Expected::Rows { .. } => asked.push(record.sql),
            Expected::Ok | Expected::Count(_) => made.push(record.sql),
            Expected::Error(_) => {}
        }
    }
    (made, asked)
}

/// The SQL files.
pub(crate) fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sql");
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "slt"));
    files.sort();
    files
}

fn parse(text: &str) -> Vec<Record> {
    let mut records = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    let mut at = 0;
    while at < lines.len() {
        let (line, head) = (at + 1, lines[at].trim());
        at += 1;
        if head.is_empty() || head.starts_with('#') {
            continue;
        }
        let block = |at: &mut usize| {
            let from = *at;
            while *at < lines.len() && !lines[*at].trim().is_empty() && lines[*at].trim() != "----" {
                *at += 1;
            }
            lines[from..*at].join("\n")
        };
        let sql = block(&mut at);
        let expected = if head == "statement ok" {
            Expected::Ok
        } else if let Some(count) = head.strip_prefix("statement count ") {
            Expected::Count(count.parse().unwrap())
        } else if let Some(message) = head.strip_prefix("statement error") {
            Expected::Error(message.trim().to_string())
        } else if head.starts_with("query") {
            assert_eq!(lines.get(at).map(|l| l.trim()), Some("----"), "line {line}: no ---- after the query");
            at += 1;
            let rows = block(&mut at).lines().map(normal).filter(|row| !row.is_empty()).collect();
            Expected::Rows { sorted: head.ends_with("rowsort"), rows }
        } else {
            panic!("line {line}: unknown record '{head}'");
        };
        records.push(Record { line, sql, expected });
    }
    records
}

/// A row with one space between values.
fn normal(row: &str) -> String {
    row.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn run(records: &[Record], state: State) -> Vec<String> {
    let mut disk = MemoryDisk::new();
    let mut database = open(&disk);
    let mut session = database.session();
    let mut failures = Vec::new();
    let mut changed = false;
    let folder = tempfile(state);
    for record in records {
        let query = matches!(record.expected, Expected::Rows { .. });
        if query && changed && !session.in_transaction() {
            changed = false;
            match state {
                State::Recent => {}
                State::Parts => database.engine().seal(None).unwrap(),
                State::Recovered => {
                    disk = crash_image(&disk);
                    database = open(&disk);
                    session = database.session();
                }
            }
        }
        changed |= !query;
        // A query's plan is kept from its second run on: the third takes it as it was kept.
        for time in 1..=if query { 3 } else { 1 } {
            if let Err(failure) = check(&database, &mut session, record, &folder) {
                failures.push(format!("line {}, time {time}: {failure}", record.line));
            }
        }
    }
    let _ = fs::remove_dir_all(folder);
    drop(session);
    if !database.close(Duration::from_secs(10)) {
        failures.push("something still refers to the files after the last statement".to_string());
    }
    failures
}

/// A folder of this run's own.
fn tempfile(state: State) -> String {
    let folder = std::env::temp_dir().join(format!("tickstone-slt-{}-{state:?}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder.to_string_lossy().to_string()
}

fn check(database: &Database, session: &mut Session, record: &Record, folder: &str) -> Result<(), String> {
    let sql = record.sql.replace("${TMP}", folder);
    let result = database.runtime().block_on(execute(session, &sql));
    match (&record.expected, result) {
        (Expected::Ok, Ok(_)) => Ok(()),
        (Expected::Count(wanted), Ok((Some(found), _))) if *wanted == found => Ok(()),
        (Expected::Error(text), Err(error)) => match format!("{error}") {
            message if inner_word(&message).is_some() => {
                Err(format!("{}\nwords of the program's own in the error: {message}", record.sql))
            }
            message if text.split(" && ").all(|part| message.contains(part)) => Ok(()),
            message => Err(format!("expected an error with '{text}', got: {message}")),
        },
        (Expected::Rows { sorted, rows: wanted }, Ok((_, batches))) => {
            let (mut wanted, mut found) = (wanted.clone(), rows(&batches));
            if *sorted {
                wanted.sort();
                found.sort();
            }
            if wanted == found {
                return Ok(());
            }
            Err(format!("{}\nexpected:\n{}\nfound:\n{}", record.sql, wanted.join("\n"), found.join("\n")))
        }
        (_, Err(error)) => Err(format!("{}\n{error}", record.sql)),
        (expected, Ok((count, _))) => Err(format!("expected {expected:?}, got {count:?} rows")),
    }
}

async fn execute(session: &mut Session, sql: &str) -> Result<(Option<u64>, Vec<RecordBatch>), QueryError> {
    let (mut count, mut batches) = (None, Vec::new());
    for statement in session.parse(sql)? {
        match session.run(statement).await? {
            Outcome::Rows { stream, .. } => batches = stream.try_collect().await?,
            Outcome::Done { rows, .. } => count = rows,
        }
    }
    Ok((count, batches))
}

fn rows(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::new().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<ArrayFormatter> =
            batch.columns().iter().map(|c| ArrayFormatter::try_new(c, &options).unwrap()).collect();
        for row in 0..batch.num_rows() {
            let values: Vec<String> = columns.iter().map(|c| c.value(row).to_string()).collect();
            let shown = values.iter().map(|v| if v.is_empty() { "(empty)" } else { v });
            rows.push(normal(&shown.collect::<Vec<_>>().join(" ")));
        }
    }
    rows
}

/// What stands in a message that is how Rust shows a value of the program's own.
fn inner_word(message: &str) -> Option<&'static str> {
    const INNER: [&str; 17] = [
        "Some(",
        "None)",
        "None,",
        " { ",
        "Ident",
        "Span",
        "Location(",
        "IntervalMonthDayNano",
        "Utf8(",
        "Int64(",
        "Float64(",
        "Literal(",
        "BinaryExpr",
        "ScalarValue",
        "TimestampNanosecond(",
        "Expr::",
        "Ok(",
    ];
    INNER.into_iter().find(|inner| message.contains(inner))
}
