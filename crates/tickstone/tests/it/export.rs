//! `tickstone export`.

use super::{Place, trades_csv};

#[test]
fn a_table_comes_back_in_order_of_time() {
    let place = Place::new();
    place.file("trades.csv", trades_csv(20)).ok(&["import", "--table", "trades", "trades.csv"]);
    let run = place.ok(&["export", "--table", "Trades", "out.csv"]);
    assert!(run.err.contains("out.csv: 20 rows"), "{run:?}");
    let out = place.read("out.csv");
    let ids: Vec<&str> = out.lines().skip(1).filter_map(|line| line.rsplit(',').next()).collect();
    assert_eq!(ids, (0..20).map(|id| id.to_string()).collect::<Vec<_>>());
    assert!(out.starts_with(
        "ts,symbol,side,price,amount,id\n2024-08-08T23:54:13.000000000Z,BTC-USD,buy,100.25,0.5,0\n"
    ));
}

#[test]
fn queries_and_standard_output() {
    let place = Place::new();
    place.file("trades.csv", trades_csv(20)).ok(&["import", "--table", "trades", "trades.csv"]);
    let sql = "SELECT symbol, count(*) AS n FROM trades GROUP BY symbol ORDER BY symbol";
    let out = place.ok(&["export", "--query", sql, "--format", "ndjson", "-"]).out;
    assert_eq!(out, "{\"symbol\":\"BTC-USD\",\"n\":10}\n{\"symbol\":\"ETH-USD\",\"n\":10}\n");
    let out = place.ok(&["export", "--query", sql, "--format", "json", "-"]).out;
    assert_eq!(out.trim_end(), "[{\"symbol\":\"BTC-USD\",\"n\":10},{\"symbol\":\"ETH-USD\",\"n\":10}]");
}

#[test]
fn a_failed_export_leaves_the_file_as_it_was() {
    let place = Place::new();
    place.file("trades.csv", trades_csv(20)).ok(&["import", "--table", "trades", "trades.csv"]);
    place.file("out.csv", "before");
    let said = place.error(&["export", "--query", "SELECT nothing FROM trades", "out.csv"]);
    assert!(said.contains("'nothing' does not exist"), "{said}");
    assert_eq!(place.read("out.csv"), "before");
    let said = place.error(&["export", "--table", "trades", "out.xyz"]);
    assert!(said.contains("cannot tell a format"), "{said}");
    assert_eq!(place.run(&["export", "out.csv"]).code, 2);
    assert_eq!(place.run(&["export", "--table", "trades", "-"]).code, 2);
}
