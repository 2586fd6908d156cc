//! `tickstone import`.

use super::{Place, sample_data, trades_csv};
use std::io::Write;
use std::process::{Command, Stdio};

const TOTALS: &str =
    "SELECT count(*), sum(price), sum(id), count(DISTINCT symbol), min(ts), max(ts) FROM trades";
const TOTALS_1000: &str =
    "1000,104750,499500,2,2024-08-08T23:54:13.000000000Z,2024-08-09T00:10:52.000000000Z\n";

#[test]
fn a_csv_makes_a_table_and_says_what_it_found() {
    let place = Place::new();
    let run = place.file("trades.csv", trades_csv(1_000)).ok(&["import", "--table", "trades", "trades.csv"]);
    for said in [
        "table 'trades' TIMESTAMP(ts) SERIES BY (symbol)",
        "ts      TIMESTAMP (ms since 1970)",
        "side    SYMBOL",
        "price   DOUBLE",
        "id      BIGINT",
        "trades.csv: 1,000 rows",
    ] {
        assert!(run.out.contains(said), "{said} in {}", run.out);
    }
    assert_eq!(place.query(TOTALS), TOTALS_1000);
}

#[test]
fn the_same_file_is_refused_unless_asked_for() {
    let place = Place::new();
    place.file("trades.csv", trades_csv(1_000)).file("copy.csv", trades_csv(1_000));
    place.ok(&["import", "--table", "trades", "trades.csv"]);
    let said = place.error(&["import", "--table", "TRADES", "copy.csv"]);
    assert!(said.contains("already imported into 'trades' (1000 rows, as trades.csv)"), "{said}");
    assert!(said.contains("--again"), "{said}");
    assert_eq!(place.query(TOTALS), TOTALS_1000);
    place.ok(&["import", "--table", "trades", "--again", "copy.csv"]);
    assert_eq!(place.query("SELECT count(*) FROM trades"), "2000\n");
    // Another file of the same size is another file.
    place.file("other.csv", trades_csv(1_000).replace("BTC-USD", "BTC-EUR"));
    place.ok(&["import", "--table", "trades", "other.csv"]);
    assert_eq!(place.query("SELECT count(*) FROM trades"), "3000\n");
}

const BAD: &str = "ts,symbol,price\n2024-08-08T00:00:00Z,A,1\nnoon,A,2\n2024-08-08T00:00:01Z,A,1.5x\n\
                   2024-08-08T00:00:02Z,A\n2024-08-08T00:00:03Z,B,4.5\n";

#[test]
fn a_bad_row_fails_the_file_and_leaves_nothing() {
    let place = Place::new();
    let said = place.file("bad.csv", BAD).error(&[
        "import",
        "--table",
        "t",
        "--type",
        "ts=TIMESTAMP",
        "--type",
        "price=DOUBLE",
        "bad.csv",
    ]);
    assert!(said.contains("bad.csv, line 3, column 1 'ts': 'noon' is not a TIMESTAMP"), "{said}");
    assert!(said.contains("--on-bad-row skip"), "{said}");
    assert_eq!(place.query("SHOW TABLES"), "");
}

#[test]
fn bad_rows_are_skipped_or_collected_by_choice() {
    let place = Place::new();
    place.file("bad.csv", BAD);
    let import = |table, how| {
        let types = ["--type", "ts=TIMESTAMP", "--type", "price=DOUBLE"];
        let args = [&["import", "--table", table, "--on-bad-row", how][..], &types, &["bad.csv"]].concat();
        place.ok(&args).out
    };
    let said = import("skipped", "skip");
    assert!(said.contains("3 bad rows left out"), "{said}");
    assert!(said.contains("line 4, column 3 'price': '1.5x' is not a DOUBLE"), "{said}");
    assert!(said.contains("line 5: '2024-08-08T00:00:02Z,A' has 2 fields where 3 are expected"), "{said}");
    assert_eq!(place.query("SELECT symbol, price FROM skipped ORDER BY price"), "A,1\nB,4.5\n");
    import("collected", "collect=rest.csv");
    assert_eq!(
        place.read("rest.csv"),
        "ts,symbol,price\nnoon,A,2\n2024-08-08T00:00:01Z,A,1.5x\n2024-08-08T00:00:02Z,A\n"
    );
}

#[test]
fn a_value_past_the_inferred_type_says_which_type_to_give() {
    let place = Place::new();
    let mut text = "ts,count\n".to_string();
    // More rows than the sample has, so that the type is BIGINT by then.
    for row in 0..20_000 {
        text.push_str(&format!("{},{row}\n", 1_723_161_253_000_i64 + row));
    }
    text.push_str("1723161300000,1.5\n");
    let said = place.file("t.csv", text).error(&["import", "--table", "t", "t.csv"]);
    assert!(said.contains("t.csv, line 20002, column 2 'count': '1.5' is not a BIGINT"), "{said}");
    assert!(said.contains("--type count=\"DOUBLE\""), "{said}");
    place.ok(&["import", "--table", "t", "--type", "count=DOUBLE", "t.csv"]);
    assert_eq!(place.query("SELECT count(*), max(count) FROM t"), "20001,19999\n");
}

#[test]
fn packed_and_other_formats_give_the_same_rows() {
    let place = Place::new();
    place.file("trades.csv", trades_csv(1_000)).ok(&["import", "--table", "trades", "trades.csv"]);
    for name in ["t.csv.gz", "t.csv.zst", "t.ndjson", "t.ndjson.gz", "t.ndjson.zst", "t.parquet", "t.arrow"] {
        place.ok(&["export", "--table", "trades", name]);
        let data = format!("data-{name}");
        place.ok(&["import", "--data", &data, "--table", "trades", name]);
        let found = place.ok(&["sql", "--data", &data, "--format", "csv", "-c", TOTALS]).out;
        assert_eq!(found.split_once('\n').map(|(_, rows)| rows), Some(TOTALS_1000), "{name}");
        let shape = "DESCRIBE trades";
        let found = place.ok(&["sql", "--data", &data, "--format", "csv", "-c", shape]).out;
        assert_eq!(found, place.ok(&["sql", "--format", "csv", "-c", shape]).out, "{name}");
    }
}

#[test]
fn a_file_larger_than_the_memory_budget_is_imported() {
    let place = Place::new();
    let rows = 60_000;
    place.file("trades.csv", trades_csv(rows));
    place.ok(&["import", "--table", "trades", "--memory-budget", "1MB", "trades.csv"]);
    let expect = format!("{rows},{}\n", (rows - 1) * rows / 2);
    assert_eq!(place.query("SELECT count(*), sum(id) FROM trades"), expect);
}

#[test]
fn quotes_delimiters_and_missing_headers() {
    let place = Place::new();
    place.file(
        "q.csv",
        "\u{feff}ts;symbol;note\r\n2024-08-08;A;\"x;\"\"y\"\"\nz\"\r\n2024-08-09;B;\r\n2024-08-10;B;\"\"\r\n",
    );
    place.ok(&["import", "--table", "q", "--type", "note=VARCHAR", "q.csv"]);
    let found = place.query("SELECT note, note IS NULL FROM q ORDER BY ts");
    assert_eq!(found, "\"x;\"\"y\"\"\nz\",false\n,true\n\"\",false\n");
    place.file("n.csv", "2024-08-08,A,1\n2024-08-09,B,2\n");
    place.ok(&["import", "--table", "n", "--timestamp", "column1", "n.csv"]);
    let first = place.query("SELECT column1, column3 FROM n ORDER BY 1 LIMIT 1");
    assert_eq!(first, "2024-08-08T00:00:00.000000000Z,1\n");
    place.file("n2.csv", "2024-08-10,C,3\n");
    place.ok(&["import", "--table", "n", "--no-header", "n2.csv"]);
    assert_eq!(place.query("SELECT count(*) FROM n"), "3\n");
}

#[test]
fn columns_are_matched_by_name_in_any_case() {
    let place = Place::new();
    place.file("trades.csv", trades_csv(10)).ok(&["import", "--table", "trades", "trades.csv"]);
    place.file("more.csv", "ID,Price,TS,Symbol\n77,5,1723161253,X\n");
    place.ok(&["import", "--table", "trades", "more.csv"]);
    let found = place.query("SELECT ts, symbol, side, price, amount FROM trades WHERE id = 77");
    assert_eq!(found, "2024-08-08T23:54:13.000000000Z,X,,5,\n");
    place.file("odd.csv", "ts,symbol,prise\n1723161253,X,1\n");
    let said = place.error(&["import", "--table", "trades", "odd.csv"]);
    assert!(said.contains("a column 'prise' that table 'trades' does not have"), "{said}");
    place.file("late.csv", "symbol,price\nX,1\n");
    let said = place.error(&["import", "--table", "trades", "late.csv"]);
    assert!(said.contains("no column 'ts', the designated timestamp"), "{said}");
    place.file("other.csv", "ts,id\n1723161253,1\n");
    let said = place.error(&["import", "--table", "trades", "--timestamp", "id", "other.csv"]);
    assert!(said.contains("its designated timestamp is ts, not id"), "{said}");
}

#[test]
fn what_cannot_be_read_is_said() {
    let place = Place::new();
    place.file("x.bin", "x").file("empty.csv", "").file("bad.parquet", "PAR1").file("bad.csv.gz", "no gzip");
    for (file, said) in [
        ("missing.csv", "cannot read missing.csv"),
        ("x.bin", "cannot tell the format of x.bin"),
        ("empty.csv", "empty.csv is empty"),
        ("bad.parquet", "bad.parquet"),
        ("bad.csv.gz", "cannot read bad.csv.gz"),
    ] {
        let found = place.error(&["import", "--table", "t", file]);
        assert!(found.contains(said), "{said} in {found}");
    }
    assert_eq!(place.query("SHOW TABLES"), "");
    assert_eq!(place.run(&["import", "--table", "t"]).code, 2);
    assert_eq!(place.run(&["import", "--table", "t", "--type", "x=NOTHING", "f.csv"]).code, 2);
}

#[test]
fn a_second_writer_is_refused() {
    let place = Place::new();
    place.file("trades.csv", trades_csv(10)).ok(&["import", "--table", "trades", "trades.csv"]);
    // The first writer waits for the other end of a pipe it imports from.
    let pipe = place.path("pipe.csv");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    let mut first = place
        .command(&["import", "--table", "trades", "--again", "pipe.csv"])
        .stdout(Stdio::null())
        .spawn()
        .expect("the program starts");
    let mut other_end =
        std::fs::OpenOptions::new().write(true).open(&pipe).expect("the first writer has it open");
    let run = place.run(&["sql", "-c", "CREATE TABLE x (a INT)"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("open for writing in another process"), "{}", run.err);
    let rows = place.ok(&["sql", "--read-only", "--format", "csv", "-c", "SELECT count(*) FROM trades"]).out;
    assert_eq!(rows, "count(*)\n10\n");
    other_end.write_all(trades_csv(5).as_bytes()).expect("written");
    drop(other_end);
    assert!(first.wait().expect("ends").success());
    assert_eq!(place.query("SELECT count(*) FROM trades"), "15\n");
}

#[test]
fn a_killed_import_left_all_or_nothing() {
    let place = Place::new();
    let rows = 40_000;
    place.file("trades.csv", trades_csv(rows));
    for attempt in 0..12_u64 {
        let data = format!("data-{attempt}");
        let args = ["import", "--quiet", "--data", &data, "--table", "trades", "trades.csv"];
        let mut child = place.command(&args).spawn().expect("the program starts");
        std::thread::sleep(std::time::Duration::from_millis(attempt * 25));
        let _ = child.kill();
        let _ = child.wait();
        let again = place.run(&["import", "--data", &data, "--table", "trades", "trades.csv"]);
        let was_whole = again.err.contains("already imported");
        assert!(again.code == 0 || was_whole, "{attempt}: {again:?}");
        let count = ["sql", "--data", &data, "--format", "csv", "-c", "SELECT count(*), sum(id) FROM trades"];
        let found = place.ok(&count).out;
        assert!(found.ends_with(&format!("\n{rows},{}\n", (rows - 1) * rows / 2)), "{attempt}: {found}");
    }
}

#[test]
fn the_recorded_feeds() {
    let Some(data) = sample_data() else {
        println!("skipped: the sample data is not beside the repository");
        return;
    };
    let place = Place::new();
    let tidied = Command::new("python3").arg(data.join("tidy.py")).arg(place.dir.path()).status();
    assert!(tidied.expect("python3 runs").success());
    place.ok(&["import", "--table", "trades", "trades.csv"]);
    place.ok(&["import", "--table", "quotes", "quotes.csv"]);
    assert_eq!(place.query("SELECT count(*) FROM trades"), "34419\n");
    assert_eq!(place.query("SELECT count(*) FROM quotes"), "131932\n");
}

#[test]
fn a_guess_that_does_not_hold_is_told_of() {
    let place = Place::new();
    let import = |file: &str, content: &str| {
        place.file(file, content);
        place.error(&["import", "--table", "t", file])
    };
    let error = import("units.csv", "ts,px\n1723161253000,1\n1723161254,2\n1723161255000,3\n");
    assert!(error.contains("units.csv, line 3, column 1 'ts': '1723161254' is no time from 1980"), "{error}");
    assert!(!error.contains("--type"), "no unit holds for all of them: {error}");
    let error = import("time.csv", "trade_time,px\n2024-08-08,1\noops,2\n2024-08-08T09:30,3\n");
    assert!(error.contains("line 3, column 1 'trade_time': 'oops' is not a TIMESTAMP"), "{error}");
    let error = import("twice.csv", "ts,px,PX\n2024-08-08,1,2\n");
    assert!(error.contains("has the columns 'px' and 'PX'") && error.contains("--rename PX="), "{error}");
    let error = import("header.csv", "ts,px\n");
    assert!(error.contains("has no rows") && error.contains("CREATE TABLE first"), "{error}");
    let error = import("array.json", "[{\"ts\": \"2024-08-08\"}, {\"ts\": \"2024-08-09\"");
    assert!(error.contains("the file ends within element 2 of the JSON array"), "{error}");
    let error = import("wrong.json", "[{\"ts\": \"2024-08-08\"},\n 7]");
    assert!(error.contains("wrong.json, line 2"), "{error}");
    assert_eq!(place.query("SHOW TABLES"), "", "no table stays behind");
    place.file("array.json", "[\n  {\"ts\": \"2024-08-08\", \"note\": \"], {\"},\n  {\"ts\": \"2024-08-09\",\n   \"px\": [1.5, 2]}\n]\n");
    assert_eq!(place.query("SELECT note, px[2] AS px FROM 'array.json'"), "\"], {\",\n,2\n");
    place.ok(&["import", "--table", "objects", "array.json"]);
    assert_eq!(place.query("SELECT count(*), count(note) FROM objects"), "2,1\n");
    place.file("unnamed.csv", ",ts,id\n0,2024-08-08,99999999999999999999\n");
    place.ok(&["import", "--table", "t", "unnamed.csv"]);
    assert_eq!(place.query("SELECT column1, id FROM t"), "0,99999999999999999999\n");
}

/// What the types that are found make of a file: its own fields, or a refusal that names the row.
#[test]
fn types_that_are_found_change_no_value() {
    let place = Place::new();
    let rows = |number: &str, last: &str| {
        let rows = (0..12_000).map(|row| format!("{},{number}\n", 1_723_161_253_000_i64 + row));
        format!("ts,x\n{}1723161300000,{last}\n", rows.collect::<String>())
    };
    for (number, last, fits) in [
        ("7", "007", true),
        ("7", "+7", true),
        ("1.5", "1E3", true),
        ("1.5", "INF", true),
        ("1.5", "0.1234567890123456789", true),
        ("true", "T", true),
        ("1.5", "1.50", false),
        ("7", "-7", false),
    ] {
        place.file("x.csv", rows(number, last));
        let run = place.run(&["import", "--table", "t", "x.csv"]);
        assert_eq!(run.code, i32::from(fits), "{number} {last}: {}", run.err);
        if fits {
            let said =
                format!("x.csv, line 12002, column 2 'x': '{last}' would not be kept as it is written");
            assert!(run.err.contains(&said) && run.err.contains("--type x=\"VARCHAR\""), "{}", run.err);
        } else {
            place.ok(&["sql", "-c", "DROP TABLE t"]);
        }
    }
    place.file("x.csv", rows("7", "007"));
    place.ok(&["import", "--table", "t", "--type", "x=BIGINT", "x.csv"]);
    assert_eq!(place.query("SELECT x, count(*) FROM t GROUP BY x"), "7,12001\n");
}

#[test]
fn names_that_differ_in_case_are_kept_apart_by_other_names() {
    let place = Place::new();
    place.file("b.ndjson", "{\"e\":\"trade\",\"E\":1723161253123,\"p\":\"1.5\"}\n");
    let said = place.error(&["import", "--table", "t", "b.ndjson"]);
    assert!(said.contains("has the columns 'e' and 'E'") && said.contains("--rename E=OTHER"), "{said}");
    place.ok(&["import", "--table", "t", "--rename", "E=event_time", "--rename", "e=kind", "b.ndjson"]);
    assert_eq!(
        place.query("SELECT event_time, kind, p FROM t"),
        "2024-08-08T23:54:13.123000000Z,trade,1.5\n"
    );
    place.file("b.csv", "e,E,p\ntrade,1723161253124,2.5\n");
    place.ok(&["sql", "-c", "COPY t FROM 'b.csv' (RENAME 'E=event_time,e=kind')"]);
    assert_eq!(place.query("SELECT count(*), count(DISTINCT event_time) FROM t"), "2,2\n");
    let read = "SELECT event_time, e FROM read_json('b.ndjson', rename => {'E': 'event_time'})";
    assert_eq!(place.query(read), "2024-08-08T23:54:13.123000000Z,trade\n");
    // Of a file that is longer than what is looked at a type may name a key that comes later: this is none.
    let line = |at: u64| format!("{{\"e\":\"trade\",\"E\":{},\"p\":\"1.5\"}}\n", 1_723_161_253_123 + at);
    place.file("long.ndjson", (0..40_000).map(line).collect::<String>());
    let types = ["--type", "event_time=TIMESTAMP_MS", "--timestamp", "event_time"];
    let renamed = ["import", "--table", "long", "--rename", "E=event_time", "long.ndjson"];
    place.ok(&[&renamed[..], &types].concat());
    assert_eq!(place.query("SELECT count(DISTINCT event_time) FROM long"), "40000\n");
    let said = place.error(&["import", "--table", "u", "--rename", "X=y", "b.csv"]);
    assert!(said.contains("--rename names column 'X'"), "{said}");
    // A key that comes after what is looked at is no key of nobody.
    let line = |row: i64| format!("{{\"ts\":{},\"pad\":\"{}\"}}\n", 1_723_161_253_000 + row, "x".repeat(200));
    let text: String =
        (0..8_000).map(line).chain(["{\"ts\":1723161300000,\"late\":1}\n".to_string()]).collect();
    place.file("late.ndjson", text);
    let said = place.error(&["import", "--table", "late", "late.ndjson"]);
    assert!(
        said.contains("line 8001") && said.contains("has the key 'late', which no column takes"),
        "{said}"
    );
    assert!(said.contains("--type late="), "{said}");
    place.ok(&["import", "--table", "late", "--type", "late=BIGINT", "late.ndjson"]);
    assert_eq!(place.query("SELECT count(*), sum(late) FROM late"), "8001,1\n");
}

#[test]
fn what_is_not_found_is_asked_for() {
    let place = Place::new();
    place.file("latin.csv", b"ts,K\xfcrzel\n2024-08-08,A\n");
    let said = place.error(&["import", "--table", "t", "latin.csv"]);
    assert!(said.contains("header of latin.csv is not UTF-8") && said.contains("iconv"), "{said}");
    place.file("german.csv", "Datum;Kurs\n08.08.2024;1\n09.08.2024;2\n");
    let said = place.error(&["import", "--table", "t", "german.csv"]);
    assert!(said.contains("column 'Datum' holds dates such as '08.08.2024'"), "{said}");
    assert!(said.contains("--timestamp none"), "{said}");
    place.ok(&["import", "--table", "t", "--timestamp", "none", "german.csv"]);
    let said = place.ok(&["sql", "--format", "csv", "-c", "DESCRIBE t"]).out;
    assert!(said.contains("Datum,VARCHAR,false,false"), "{said}");
    place.file("wide.csv", "date,600519,300750\n2024-01-02,1700.5,180.1\n");
    place.ok(&["import", "--table", "wide", "wide.csv"]);
    assert_eq!(place.query("SELECT \"600519\", \"300750\" FROM wide"), "1700.5,180.1\n");
    place.file("numbers.csv", "1,2\n2024-01-02,3\n");
    place.ok(&["import", "--table", "numbers", "--header", "--timestamp", "1", "numbers.csv"]);
    assert_eq!(place.query("SELECT \"2\" FROM numbers"), "3\n");
}

#[test]
fn files_of_one_pattern_count_in_one_unit() {
    let place = Place::new();
    place.file("a.csv", "1723161253123,1.5\n").file("b.csv", "1735689600123456,1.5\n");
    let said = place.error(&["import", "--table", "t", "--timestamp", "column1", "?.csv"]);
    assert!(said.contains("b.csv: the numbers of column 'column1' are us since 1970"), "{said}");
    assert!(said.contains("those of a.csv are ms") && !said.contains("--type"), "{said}");
    assert_eq!(place.query("SHOW TABLES"), "");
    place.ok(&["import", "--table", "t", "--timestamp", "column1", "a.csv", "b.csv"]);
    let found = place.query("SELECT column1 FROM t ORDER BY 1");
    assert_eq!(found, "2024-08-08T23:54:13.123000000Z\n2025-01-01T00:00:00.123456000Z\n");
}

#[test]
fn reading_makes_no_database() {
    let place = Place::new();
    let said = place.error(&["sql", "--data", "typo", "-c", "SHOW TABLES"]);
    assert!(said.contains("there is no database in typo"), "{said}");
    let said = place.error(&["sql", "--data", "typo", "-c", "CREATE TABLE t (i INTERVAL)"]);
    assert!(said.contains("unknown column type 'INTERVAL'"), "{said}");
    place.error(&["export", "--data", "typo", "--table", "t", "t.csv"]);
    place.error(&["stream", "drop", "s", "--data", "typo"]);
    assert!(!place.path("typo").exists());
    assert_eq!(place.query("SELECT 1 AS x"), "1\n");
    assert!(!place.path("tickstone-data").exists());
    place.ok(&["sql", "--data", "made", "-c", "CREATE TABLE t (ts TIMESTAMP) TIMESTAMP(ts)"]);
    place.ok(&["sql", "--data", "made", "-c", "SHOW TABLES"]);
}
