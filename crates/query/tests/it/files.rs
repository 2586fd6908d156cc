//! Files in the place of tables.

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use tempfile::TempDir;
use tickstone_query::{Database, DatabaseOptions, ErrorKind, QueryError};

/// A file of a folder.
fn file_in(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).display().to_string()
}

fn database() -> Database {
    Database::in_memory(DatabaseOptions::default()).unwrap()
}

fn query(database: &Database, sql: &str) -> Result<Vec<i64>, QueryError> {
    let batches = database.runtime().block_on(database.session().query(sql))?;
    let columns = batches.iter().flat_map(|batch| batch.columns());
    Ok(columns.flat_map(|column| column.as_primitive::<Int64Type>().values().to_vec()).collect())
}

fn done(database: &Database, sql: &str) {
    database
        .runtime()
        .block_on(database.session().query(sql))
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// Whatever is wrong with a file is told as that: it is no defect of the statement.
#[test]
fn a_damaged_parquet_file_is_named() {
    let (database, folder) = (database(), tempfile::tempdir().unwrap());
    let file = file_in(&folder, "t.parquet");
    done(
        &database,
        &format!(
            "COPY (SELECT timestamp_s(value) AS ts, 'S' || (value % 9) AS s, value AS n, value / 7.0 AS x, \
             [value, NULL] AS l, 'text ' || value AS t FROM range(0, 3000)) TO '{file}'"
        ),
    );
    let whole = std::fs::read(&file).unwrap();
    let sql = format!(
        "SELECT count(ts) + sum(length(s)) + sum(n % 10) + CAST(sum(x) AS BIGINT) + sum(array_length(l)) \
         + sum(length(t)) FROM '{file}'"
    );
    query(&database, &sql).unwrap();
    let (mut errors, mut state) = (0, 0x9e37_79b9_7f4a_7c15_u64);
    for at in (4..whole.len()).step_by(whole.len().div_ceil(300)) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let mut bytes = whole.clone();
        bytes[at] ^= ((state >> 33) as u8) | 1;
        std::fs::write(&file, &bytes).unwrap();
        if let Err(error) = query(&database, &sql) {
            assert_ne!(error.kind, ErrorKind::Report, "byte {at}: {error}");
            errors += 1;
        }
    }
    assert!(errors > 20, "{errors}");
}

/// Columns under other names, as import has them: those of files whose names differ in case only, too.
#[test]
fn columns_of_any_file_can_be_renamed() {
    let (database, folder) = (database(), tempfile::tempdir().unwrap());
    done(&database, "CREATE TABLE n (a BIGINT)");
    for format in ["parquet", "arrow", "csv"] {
        let file = file_in(&folder, &format!("e.{format}"));
        let rows = "SELECT value AS \"e\", value * 10 AS \"E\", value % 7 AS other FROM range(0, 100)";
        done(&database, &format!("COPY ({rows}) TO '{file}'"));
        let from = format!("read_{format}('{file}', rename => {{'E': 'event', 'e': 'kind'}})");
        for (sql, wanted) in [
            ("SELECT sum(event) AS a, sum(kind) AS b FROM $", vec![49_500, 4_950]),
            ("SELECT event FROM $ WHERE kind = 17", vec![170]),
            ("SELECT kind FROM $ WHERE event = 170 AND other = 3", vec![17]),
            ("SELECT event FROM $ WHERE event > 970 ORDER BY event DESC", vec![990, 980]),
            ("SELECT max(other) FROM $ WHERE kind BETWEEN 3 AND 4", vec![4]),
        ] {
            let sql = sql.replace('$', &from);
            assert_eq!(
                query(&database, &sql).unwrap_or_else(|error| panic!("{sql}: {error}")),
                wanted,
                "{sql}"
            );
        }
        let missing = format!("SELECT * FROM read_{format}('{file}', rename => {{'F': 'x'}})");
        let error = query(&database, &missing).unwrap_err();
        assert!(error.message.contains("rename names column 'F'"), "{error}");
        assert!(error.hint.as_deref().is_some_and(|hint| hint.contains("e, E, other")), "{error}");
        let twice = format!("SELECT * FROM read_{format}('{file}', rename => {{'E': 'other'}})");
        let error = query(&database, &twice).unwrap_err();
        assert!(error.message.contains("'other'"), "{error}");
    }
}
