//! `tickstone sql` with a text.

use super::{Place, trades_csv};
use std::io::Write;
use std::process::Stdio;

fn with_trades() -> Place {
    let place = Place::new();
    place.file("trades.csv", trades_csv(200)).ok(&["import", "--table", "trades", "trades.csv"]);
    place
}

const SUMS: &str =
    "SELECT symbol, sum(amount) AS amount, NULL AS nothing FROM trades GROUP BY symbol ORDER BY symbol";

#[test]
fn tables_for_people() {
    let place = with_trades();
    let out = place.ok(&["sql", "--quiet", "-c", SUMS]).out;
    let expect = "\
┌─────────┬────────┬─────────┐
│ symbol  ┆ amount ┆ nothing │
╞═════════╪════════╪═════════╡
│ BTC-USD ┆     50 ┆ NULL    │
│ ETH-USD ┆     50 ┆ NULL    │
└─────────┴────────┴─────────┘
";
    assert_eq!(out, expect);
    let out = place.ok(&["sql", "-c", "SELECT * FROM trades"]).out;
    assert!(out.contains("first 100 of 200 rows") && out.contains("200 rows in "), "{out}");
    let out = place.ok(&["sql", "--max-rows", "0", "-c", "SELECT * FROM trades"]).out;
    assert!(!out.contains("first"), "{out}");
}

#[test]
fn formats_for_machines() {
    let place = with_trades();
    let shown = |format| place.ok(&["sql", "--format", format, "-c", SUMS]).out;
    assert_eq!(shown("csv"), "symbol,amount,nothing\nBTC-USD,50,\nETH-USD,50,\n");
    assert_eq!(
        shown("ndjson"),
        "{\"symbol\":\"BTC-USD\",\"amount\":50.0,\"nothing\":null}\n{\"symbol\":\"ETH-USD\",\"amount\":50.0,\"nothing\":null}\n"
    );
    assert!(shown("json").starts_with("[{\"symbol\":\"BTC-USD\""));
    place.ok(&["sql", "-c", "SELECT * FROM trades", "--output", "t.parquet"]);
    place.ok(&["sql", "-c", "SELECT * FROM trades", "--format", "arrow", "--output", "t.ipc"]);
    assert!(std::fs::read(place.path("t.parquet")).expect("read").starts_with(b"PAR1"));
    assert!(std::fs::read(place.path("t.ipc")).expect("read").starts_with(b"ARROW1"));
}

#[test]
fn statements_of_a_file_and_of_standard_input() {
    let place = Place::new();
    place.file("make.sql", "CREATE TABLE t (ts TIMESTAMP, x DOUBLE) TIMESTAMP(ts);\n-- two rows\nINSERT INTO t VALUES ('2024-08-08T00:00:00Z', 1.5), ('2024-08-09T00:00:00Z', 2);");
    let out = place.ok(&["sql", "-f", "make.sql"]).out;
    assert!(out.contains("CREATE TABLE") && out.contains("INSERT: 2 rows"), "{out}");
    let mut child = place.command(&["sql", "--format", "csv"]);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts");
    let mut input = child.stdin.take().expect("piped");
    input.write_all(b"SELECT sum(x) AS x FROM t;").expect("written");
    drop(input);
    let output = child.wait_with_output().expect("ends");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "x\n3.5\n");
}

#[test]
fn errors_point_at_the_text() {
    let place = with_trades();
    let said = place.error(&["sql", "-c", "SELECT symbol,\n  prise FROM trades"]);
    assert!(
        said.contains("error: column 'prise' does not exist\n 2 |   prise FROM trades\n   |   ^"),
        "{said}"
    );
    assert!(said.contains("hint: did you mean 'price'?"), "{said}");
    let said = place.error(&["sql", "-c", "SELECT 1; SELECT * FROM nowhere"]);
    assert!(said.contains("nowhere"), "{said}");
    assert_eq!(place.run(&["sql", "-c", "SELECT 1", "-f", "x.sql"]).code, 2);
    assert_eq!(place.run(&["sql", "--format", "xml", "-c", "SELECT 1"]).code, 2);
}

#[test]
fn copy_is_import_and_export() {
    let place = with_trades();
    let out = place
        .ok(&[
            "sql",
            "-c",
            "COPY trades TO 'all.parquet'; COPY (SELECT * FROM trades WHERE id < 10) TO 'some.csv.gz'",
        ])
        .out;
    assert!(out.contains("COPY: 200 rows") && out.contains("COPY: 10 rows"), "{out}");
    place.ok(&["sql", "-c", "TRUNCATE trades; COPY trades FROM 'some.csv.gz'"]);
    assert_eq!(place.query("SELECT count(*), sum(id) FROM trades"), "10,45\n");
    let said = place.error(&["sql", "-c", "COPY trades FROM 'some.csv.gz'"]);
    assert!(said.contains("already imported"), "{said}");
    let said = place.error(&["sql", "-c", "COPY nowhere FROM 'some.csv.gz'"]);
    assert!(said.contains("nowhere"), "{said}");
}

#[test]
fn reading_only_refuses_to_write() {
    let place = with_trades();
    let said = place.error(&["sql", "--read-only", "-c", "DROP TABLE trades"]);
    assert!(said.contains("read-only"), "{said}");
}

#[test]
fn help_and_version() {
    let place = Place::new();
    assert_eq!(place.ok(&["--version"]).out, format!("tickstone {}\n", env!("CARGO_PKG_VERSION")));
    for args in [&["--help"][..], &["sql", "--help"], &["import", "--help"], &["export", "--help"]] {
        assert!(place.ok(args).out.contains("Examples:"), "{args:?}");
    }
    assert_eq!(place.run(&[]).code, 2);
    assert_eq!(place.run(&["frobnicate"]).code, 2);
}
