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

/// Ten prices a second apart of symbol P, with sizes.
fn prices() -> TestSession {
    let prices = [10.0, 11.0, 9.0, 9.0, 12.0, 13.0, 12.0, 10.0, 11.0, 14.0];
    let rows = prices.iter().enumerate();
    let rows: Vec<Row> = rows.map(|(at, x)| row(at as i64 * SECOND, "P", *x, (at + 1) as f64)).collect();
    TestSession::new().table("p", &rows, (2, 1))
}

#[test]
fn neighbouring_rows() {
    let s = session();
    let over = "OVER (PARTITION BY symbol ORDER BY ts)";
    s.check(
        &format!("SELECT x, prev(x) {over}, fills(x) {over}, delta(x) {over}, ratio(y) {over}, prev(symbol) {over} \
         FROM t WHERE symbol = 'A' ORDER BY ts"),
        &["10.0 - 10.0 - - -", "8.0 10.0 8.0 -2.0 0.0 A", "12.0 8.0 12.0 4.0 - A", "- 12.0 12.0 - 2.0 A"],
    );
}

#[test]
fn indicators() {
    let s = prices();
    let over = "OVER (ORDER BY ts)";
    let check =
        |expr: &str, expected: &[&str]| s.check(&format!("SELECT {expr} FROM p ORDER BY ts"), expected);
    check(
        &format!("round(drawdown(x) {over}, 4)"),
        &["0.0", "0.0", "-0.1818", "-0.1818", "0.0", "0.0", "-0.0769", "-0.2308", "-0.1538", "0.0"],
    );
    check(
        &format!("obv(x, y) {over}"),
        &["0.0", "2.0", "-1.0", "-1.0", "4.0", "10.0", "3.0", "-5.0", "4.0", "14.0"],
    );
    // alpha 1/2; by time with tau = 1/ln 2 seconds alpha is 1/2 as well, rows being a second apart.
    let halves =
        ["10.0", "10.5", "9.75", "9.375", "10.6875", "11.8438", "11.9219", "10.9609", "10.9805", "12.4902"];
    check(&format!("round(ema(x, 'period', 3) {over}, 4)"), &halves);
    check(&format!("round(ema(x, 'alpha', 0.5) {over}, 4)"), &halves);
    check(&format!("round(ema(x, 'second', 1 / ln(2.0)) {over}, 4)"), &halves);
    check(&format!("round(ema(x, 'milliseconds', 1000 / ln(2.0), ts) {over}, 4)"), &halves);
    // Gains and losses of 2: (1, 0), (0, 2), (0, 0), (3, 0), …
    check(
        &format!("round(rsi(x, 2) {over}, 3)"),
        &["-", "-", "33.333", "33.333", "86.667", "91.304", "53.846", "20.388", "50.898", "85.118"],
    );
    check(
        &format!("round(atr(x + 1, x - 1, x, 3) {over}, 4)"),
        &["-", "-", "2.3333", "2.2222", "2.8148", "2.5432", "2.3621", "2.5748", "2.3832", "2.9221"],
    );
    check(
        &format!("round(bollinger(x, 4, 1) {over}['middle'], 4)"),
        &["-", "-", "-", "9.75", "10.25", "10.75", "11.5", "11.75", "11.5", "11.75"],
    );
    check(
        &format!("round(bollinger(x, 4, 1) {over}['upper'] - bollinger(x, 4, 1) {over}['lower'], 4)"),
        &["-", "-", "-", "1.6583", "2.5981", "3.5707", "3.0", "2.1794", "2.2361", "2.9580"]
            .map(|v| if v == "2.9580" { "2.958" } else { v }),
    );
    check(
        &format!("round(macd(x, 1, 3, 1) {over}['macd'], 4), macd(x, 1, 3, 1) {over}['histogram']"),
        &[
            "0.0 0.0",
            "0.5 0.0",
            "-0.75 0.0",
            "-0.375 0.0",
            "1.3125 0.0",
            "1.1563 0.0",
            "0.0781 0.0",
            "-0.9609 0.0",
            "0.0195 0.0",
            "1.5098 0.0",
        ],
    );
    s.check_error(&format!("SELECT ema(x, 'fortnight', 3) {over} FROM p"), "a unit of time");
    s.check_error(&format!("SELECT ema(x, 'alpha', 3) {over} FROM p"), "between 0 and 1");
    s.check_error(&format!("SELECT rsi(x, 2.5) {over} FROM p"), "whole number of rows");
    s.check_error(&format!("SELECT rsi(x, -1) {over} FROM p"), "a positive number");
    s.check_error(&format!("SELECT atr(x) {over} FROM p"), "takes 3 to 4 arguments");
    s.check_error(
        "SELECT ema(x, 'second', 3) OVER (ORDER BY x) FROM (SELECT x FROM p)",
        "designated timestamp",
    );
}

#[test]
fn aggregates_that_keep_more() {
    let s = prices();
    // As DuckDB has them.
    s.check(
        "SELECT round(skewness(x), 9), round(kurtosis(x), 9), mode(x) FROM p",
        &["0.347684017 -0.721025237 9.0"],
    );
    s.check("SELECT skewness(x), kurtosis(x) FROM p WHERE x = 12", &["- -"]);
    s.check(
        "SELECT arg_max(ts, x), arg_min(ts, x), max_by(y, x), arg_max(y, NULLIF(x, 14)) FROM p",
        &["00:00:09 00:00:02 10.0 6.0"],
    );
    s.check("SELECT ksum(v) FROM (SELECT CAST(unnest([1, 1e100, 1, -1e100]) AS DOUBLE) AS v)", &["2.0"]);
    s.check("SELECT ksum(x) FROM p WHERE x < 0", &["-"]);
    // Nine seconds: 10, 11, 9, 9, 12, 13, 12, 10 and 11 stood one each.
    s.check("SELECT round(twap(x, ts), 6), twap(x, TIMESTAMP '2024-01-01') FROM p", &["10.777778 11.1"]);
    s.check("SELECT round(realized_vol(x), 6) FROM p WHERE ts < '1970-01-01T00:00:03'", &["0.222155"]);
    s.check("SELECT realized_vol(x) FROM p WHERE ts < '1970-01-01T00:00:01'", &["-"]);
    s.check(
        "SELECT ts, round(twap(x, ts), 4), mode(x) FROM p SAMPLE BY 5s",
        &["00:00:00 9.75 9.0", "00:00:05 11.5 10.0"],
    );
    let s = session();
    s.check(
        "SELECT last(x), last_not_null(x), first_not_null(x) FILTER (WHERE x < 10) FROM t WHERE symbol = 'A'",
        &["- 12.0 8.0"],
    );
    s.check(
        "SELECT symbol, last_not_null(x) FROM t GROUP BY symbol ORDER BY symbol",
        &["A 12.0", "B 5.0", "C -"],
    );
}

#[test]
fn instants() {
    let s = session();
    s.check(
        "SELECT timestamp_s(1), timestamp_ms(1000), timestamp_us(2000000), timestamp_ns(-1000000000), timestamp_s(NULL)",
        &["00:00:01 00:00:01 00:00:02 1969-12-31T23:59:59 -"],
    );
    s.check(
        "SELECT dateadd('M', 1, TIMESTAMP '2024-01-31'), dateadd('y', -1, TIMESTAMP '2024-02-29'), \
         dateadd('h', 36, TIMESTAMP '2024-01-01'), dateadd('w', -1, TIMESTAMP '2024-01-08')",
        &["2024-02-29T00:00:00 2023-02-28T00:00:00 2024-01-02T12:00:00 2024-01-01T00:00:00"],
    );
    s.check("SELECT today() <= now(), now() - today() < INTERVAL '24 hours'", &["true true"]);
    s.check("SELECT round(haversine(52.52, 13.405, 48.8566, 2.3522)), haversine(1, 2, 1, 2)", &["877.0 0.0"]);
    s.check_error("SELECT dateadd('q', 1, ts) FROM t", "knows the units");
    s.check_error("SELECT timestamp_s(9223372036854775807)", "1677 to 2262");
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
