//! Names of columns that come twice.

use super::*;
use crate::dialect::{Statement as Parsed, parse, resolve_names};

/// The statement with its names resolved, over `t (ts, price)` and `u (ts, size)`.
fn placed(sql: &str) -> String {
    let catalog = |name: &str| {
        let columns: &[&str] = match name.to_lowercase().as_str() {
            "t" => &["ts", "price"],
            "u" => &["ts", "size"],
            _ => return None,
        };
        Some((name.to_lowercase(), columns.iter().map(|name| (*name).to_string()).collect()))
    };
    let mut statement = parse(sql).expect(sql).remove(0);
    resolve_names(&mut statement, &catalog, &|_| None).expect(sql);
    match statement {
        Parsed::Query(query) => query.to_string(),
        other => panic!("{other:?} is no query"),
    }
}

#[test]
fn a_name_that_is_taken_gets_a_number() {
    let check = |sql: &str, wanted: &str| assert_eq!(placed(sql), wanted, "{sql}");
    check("SELECT price, price FROM t", "SELECT price, price AS \"price_1\" FROM t");
    check(
        "SELECT price, t.price, PRICE FROM t",
        "SELECT price, t.price AS \"price_1\", price AS \"price_2\" FROM t",
    );
    check(
        "SELECT price, price, 1 AS price_1 FROM t",
        "SELECT price, price AS \"price_2\", 1 AS price_1 FROM t",
    );
    check("SELECT *, price FROM t", "SELECT *, price AS \"price_1\" FROM t");
    check("SELECT price, * FROM t", "SELECT price, \"t\".\"ts\", \"t\".\"price\" AS \"price_1\" FROM t");
    check("SELECT t.*, size FROM t JOIN u ON true", "SELECT t.*, size FROM t JOIN u ON true");
    check(
        "SELECT sum(price), SUM(price::INT) FROM t",
        "SELECT sum(price) AS \"sum(price)\", SUM(price::INT) AS \"SUM(price::INT)\" FROM t",
    );
    check("SELECT 1 AS a, 2 AS a", "SELECT 1 AS a, 2 AS a");
    check(
        "SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM u)",
        "SELECT (SELECT count(*) AS \"count(*)\" FROM t), (SELECT count(*) AS \"count(*)\" FROM u) AS \"count(*)_1\"",
    );
    check(
        "SELECT 1 IN (SELECT ts FROM t), 2 IN (SELECT ts FROM u), EXISTS (SELECT 1)",
        "SELECT 1 IN (SELECT ts FROM t), 2 IN (SELECT ts FROM u) AS \"IN_1\", EXISTS (SELECT 1)",
    );
}

#[test]
fn a_star_in_a_sub_query_is_written_out() {
    let check = |sql: &str, wanted: &str| assert_eq!(placed(sql), wanted, "{sql}");
    let written = "SELECT a.\"ts\", a.\"price\", b.\"ts\" AS \"ts_1\", b.\"size\" FROM t a JOIN u b ON true";
    let written = written.replace("a.", "\"a\".").replace("b.", "\"b\".");
    check("SELECT * FROM (SELECT * FROM t a JOIN u b ON true) q", &format!("SELECT * FROM ({written}) q"));
    check(
        "WITH q AS (SELECT * FROM t a JOIN u b ON true) SELECT * FROM q",
        &format!("WITH q AS (SELECT * FROM __unkeyed(query => ({written}))) SELECT * FROM q"),
    );
    check("SELECT * FROM t a JOIN u b ON true", "SELECT * FROM t a JOIN u b ON true");
    let once =
        "SELECT \"t\".\"ts\", \"t\".\"price\", \"u\".\"size\" FROM t JOIN u ON \"t\".\"ts\" = \"u\".\"ts\"";
    check("SELECT * FROM (SELECT * FROM t JOIN u USING (ts)) q", &format!("SELECT * FROM ({once}) q"));
    // A name of WITH is no table.
    let hides = "WITH u AS (SELECT 1 AS x) SELECT * FROM (SELECT * FROM t JOIN u ON true) AS q";
    check(hides, hides);
}

#[test]
fn names_become_unique_and_stay_what_they_were() {
    let check =
        |names: &[&str], is_folded: bool, wanted: &[&str]| assert_eq!(unique(names, is_folded), wanted);
    check(&["a", "b"], false, &["a", "b"]);
    check(&["a", "a", "a_1", "a"], false, &["a", "a_2", "a_1", "a_3"]);
    check(&["a", "A"], false, &["a", "A"]);
    check(&["a", "A"], true, &["a", "A_1"]);
}
