use crate::testing::{Row, SECOND, TestSession, row};

fn session() -> TestSession {
    let rows = [
        row(3 * SECOND, "A", 12.0, 1.0),
        row(SECOND, "A", 10.0, 3.0),
        Row { ts: 4 * SECOND, symbol: Some("A"), x: None, y: Some(2.0) },
        row(2 * SECOND, "A", 8.0, 0.0),
        row(SECOND, "B", 5.0, 0.0),
        Row { ts: 0, symbol: Some("C"), x: None, y: None },
    ];
    TestSession::new().table("t", &rows, (2, 2))
}

#[test]
fn aggregates_of_market_data() {
    let s = session();
    s.check(
        "SELECT symbol, vwap(x, y), weighted_avg(x, y + 1) FROM t GROUP BY symbol ORDER BY symbol",
        &["A 10.5 10.285714285714286", "B - 5.0", "C - -"],
    );
    s.check(
        "SELECT symbol, ohlc(x) FROM t GROUP BY symbol ORDER BY symbol",
        &[
            "A {open: 10.0, high: 12.0, low: 8.0, close: 12.0}",
            "B {open: 5.0, high: 5.0, low: 5.0, close: 5.0}",
            "C -",
        ],
    );
    s.check(
        "SELECT candle(x, y), ohlc(x)['close'] FROM t WHERE symbol = 'A'",
        &["{open: 10.0, high: 12.0, low: 8.0, close: 12.0, volume: 4.0, vwap: 10.5, count: 3} 12.0"],
    );
    s.check("SELECT vwap(x, y) FROM t WHERE symbol = 'B'", &["-"]);
    s.check(
        "SELECT ts, symbol, ohlc(x)['open'] o FROM t SAMPLE BY 2s",
        &["00:00:00 A 10.0", "00:00:00 B 5.0", "00:00:00 C -", "00:00:02 A 8.0", "00:00:04 A -"],
    );
}

#[test]
fn scalars_of_a_quote() {
    let s = session();
    s.check(
        "SELECT mid(1, 2), spread(1.0, 2.5), spread_bps(99, 101), wmid(3, 10, 12, 1), imbalance(3, 1)",
        &["1.5 1.5 200.0 11.5 0.5"],
    );
    s.check("SELECT mid(x, y), spread_bps(0.0, y - y), imbalance(y, -y) FROM t WHERE x = 10", &["6.5 - -"]);
    s.check("SELECT mid(x, 2) FROM t WHERE symbol = 'C'", &["-"]);
}

#[test]
fn returns_over_a_window() {
    let s = session();
    s.check(
        "SELECT ts, simple_return(x) OVER (PARTITION BY symbol ORDER BY ts) r, \
         round(log_return(x) OVER (PARTITION BY symbol ORDER BY ts), 6) l FROM t WHERE symbol = 'A' ORDER BY ts",
        &["00:00:01 - -", "00:00:02 -0.19999999999999996 -0.223144", "00:00:03 0.5 0.405465", "00:00:04 - -"],
    );
    s.check(
        "SELECT last(x) OVER (PARTITION BY symbol ORDER BY ts) FROM t WHERE symbol = 'A' ORDER BY ts",
        &["10.0", "8.0", "12.0", "-"],
    );
}

#[test]
fn time_bucket_refuses_nonsense() {
    let s = session();
    s.check_error("SELECT time_bucket('5x', ts) FROM t", "no stride");
    s.check_error("SELECT time_bucket(INTERVAL '1 month 1 day', ts) FROM t", "no stride");
    s.check_error("SELECT time_bucket('1d', ts, 'Mars') FROM t", "time zone");
    s.check_error("SELECT time_bucket('1d') FROM t", "time_bucket");
    s.check("SELECT time_bucket('1w', TIMESTAMP '2024-08-08T12:00:00')", &["2024-08-05T00:00:00"]);
}
