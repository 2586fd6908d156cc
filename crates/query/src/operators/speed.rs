//! Timings of the operators, printed by `cargo test --release -- --ignored --nocapture speed`.

use crate::testing::{Row, SECOND, TestSession, row};
use std::time::Instant;

/// The best of ten runs, in milliseconds.
fn best(session: &TestSession, sql: &str) -> f64 {
    let runs = (0..10).map(|_| session.execute_ms(sql));
    runs.fold(f64::INFINITY, f64::min)
}

fn day(rows: usize, symbols: &[&'static str], in_time_order: bool) -> Vec<Row> {
    let step = 86_400 * SECOND / i64::try_from(rows).expect("few rows");
    let mut made: Vec<Row> = (0..rows)
        .map(|at| {
            let ts = i64::try_from(at).expect("few rows") * step;
            row(ts, symbols[at % symbols.len()], 100.0 + (at % 97) as f64, 1.0 + (at % 7) as f64)
        })
        .collect();
    if !in_time_order {
        made.sort_by_key(|row| (row.symbol, row.ts));
    }
    made
}

#[test]
#[ignore = "a measurement, not a check"]
fn speed() {
    let all = ["A", "B", "C", "D", "E"];
    let session = TestSession::with_batch_size(8_192)
        .table("one", &day(30_000, &["A"], false), (8_192, 1))
        .table("trades", &day(100_000, &all, true), (8_192, 1))
        .table("quotes", &day(400_000, &all, true), (8_192, 1))
        .table("by_symbol", &day(400_000, &all, false), (8_192, 1));
    for sql in [
        "SELECT ts, vwap(x, y) FROM one SAMPLE BY 1m",
        "SELECT ts, symbol, vwap(x, y) FROM one SAMPLE BY 1m",
        "SELECT ts, first(x), max(x), min(x), last(x), sum(y) FROM one SAMPLE BY 1m",
        "SELECT ts, ohlc(x) FROM one SAMPLE BY 1m",
        "SELECT ts, symbol, vwap(x, y) FROM quotes SAMPLE BY 1m",
        "SELECT ts, symbol, vwap(x, y) FROM by_symbol SAMPLE BY 1m",
        "SELECT symbol, vwap(x, y) FROM quotes GROUP BY symbol",
        "SELECT * FROM quotes LATEST ON ts PARTITION BY symbol",
        "SELECT t.ts, t.x, q.x FROM trades t ASOF JOIN quotes q ON (symbol)",
    ] {
        let start = Instant::now();
        let rows = session.rows(sql).len();
        let cold = start.elapsed().as_secs_f64() * 1_000.0;
        println!("{:8.3} ms (with planning and text {cold:.1}), {rows} rows: {sql}", best(&session, sql));
    }
}
