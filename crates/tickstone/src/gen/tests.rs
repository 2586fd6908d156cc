//! What the generated markets promise.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use super::equities::{EquitiesArgs, write_equities};
use super::rows::{Clock, push_fixed, push_short};
use super::suite::{Part, SuiteArgs, write_suite};
use super::{Compression, OutputArgs, TicksRequest, write_ticks};

/// FNV-1a, 64 bits: enough to notice a changed byte, and written here so that it never changes.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

fn suite(folder: &Path, scale: f64, days: u64, what: &[Part]) -> HashMap<String, String> {
    let output = OutputArgs { out: folder.to_path_buf(), seed: 1, gzip: false, zstd: false };
    write_suite(&SuiteArgs::new(scale, days, what.to_vec(), output)).expect("the suite is written");
    let mut texts = HashMap::new();
    for entry in fs::read_dir(folder).expect("the folder lists") {
        let entry = entry.expect("an entry");
        let text = fs::read_to_string(entry.path()).expect("a text file");
        texts.insert(entry.file_name().into_string().expect("an ASCII name"), text);
    }
    texts
}

const ALL: [Part; 4] = [Part::Trades, Part::Books, Part::Venues, Part::Write];

#[test]
fn a_seed_gives_the_same_bytes_forever() {
    let folder = tempfile::tempdir().expect("a folder");
    let texts = suite(folder.path(), 0.0005, 30, &ALL);
    let mut hashes: Vec<(&str, u64)> =
        texts.iter().map(|(name, text)| (name.as_str(), hash(text.as_bytes()))).collect();
    hashes.sort_unstable();
    assert_eq!(
        hashes,
        [
            ("books.csv", 0xc410_4a59_6e1e_508f),
            ("trades.csv", 0x52d5_2ee6_e159_b313),
            ("venues.csv", 0x2a13_2589_29ac_c739),
            ("write_books.csv", 0x2fad_d85b_3aa0_8888),
            ("write_trades.csv", 0xcf42_ae97_af29_f611),
        ]
    );
}

#[test]
fn row_counts_are_the_suite_s_times_the_scale() {
    let folder = tempfile::tempdir().expect("a folder");
    let texts = suite(folder.path(), 0.001, 30, &ALL);
    let rows = |name: &str, symbol: &str| {
        texts[name].lines().filter(|line| line.contains(&format!(",{symbol},"))).count()
    };
    assert_eq!(rows("trades.csv", "BTC-USD"), 8_810);
    assert_eq!(rows("trades.csv", "ETH-USD"), 10_010);
    assert_eq!(rows("trades.csv", "USDT-USD"), 760);
    assert_eq!(rows("books.csv", "BTC-USD"), 15_660);
    assert_eq!(rows("books.csv", "ETH-USD"), 14_060);
    assert_eq!(rows("books.csv", "USDT-USD"), 920);
    assert_eq!(texts["write_trades.csv"].lines().count(), 1 + 1_000);
    assert_eq!(texts["write_books.csv"].lines().count(), 1 + 1_500);
    assert_eq!(texts["venues.csv"].lines().count(), 1 + 2_760);
}

#[test]
fn a_part_alone_and_more_days_do_not_change_the_rest() {
    let (whole, part) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let whole = suite(whole.path(), 0.0005, 30, &ALL);
    let part = suite(part.path(), 0.0005, 40, &[Part::Trades]);
    assert!(part["trades.csv"].starts_with(whole["trades.csv"].as_str()));
    assert!(part["trades.csv"].len() > whole["trades.csv"].len());
    assert_eq!(part.len(), 1);
}

#[test]
fn trades_happen_inside_the_spread_of_the_standing_book() {
    let folder = tempfile::tempdir().expect("a folder");
    let request = TicksRequest { rows: 20_000, days: 2, levels: 3, seed: 7 };
    write_ticks(request, folder.path(), Compression::None).expect("the ticks are written");
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("a text file");
    let (trades, books) = (read("trades.csv"), read("books.csv"));
    let mut books = books.lines().skip(1).map(fields).peekable();
    let mut touch: HashMap<String, (f64, f64)> = HashMap::new();
    let mut equal_times = 0;
    let mut before = String::new();
    for trade in trades.lines().skip(1).map(fields) {
        while let Some(book) = books.next_if(|book| book[0] <= trade[0]) {
            check_book(&book);
            touch.insert(book[3].clone(), (number(&book[4]), number(&book[10])));
        }
        let (bid, ask) = touch[&trade[3]];
        assert!((bid..=ask).contains(&number(&trade[5])), "{trade:?} outside {bid} to {ask}");
        assert!(number(&trade[6]) > 0.0 && trade[0] < trade[1], "{trade:?}");
        assert!(before <= trade[0], "out of order: {trade:?}");
        equal_times += usize::from(before == trade[0]);
        before.clone_from(&trade[0]);
    }
    assert!(equal_times > 2_000, "{equal_times} trades share the time of the one before");
}

fn fields(line: &str) -> Vec<String> {
    line.split(',').map(String::from).collect()
}

fn number(text: &str) -> f64 {
    text.parse().expect("a number")
}

/// A row of three levels a side: prices in order, sizes positive.
fn check_book(row: &[String]) {
    let value = |at: usize| number(&row[at]);
    assert!(value(4) > value(6) && value(6) > value(8), "bids fall: {row:?}");
    assert!(value(4) < value(10), "crossed: {row:?}");
    assert!(value(10) < value(12) && value(12) < value(14), "asks rise: {row:?}");
    assert!((5..16).step_by(2).all(|at| value(at) > 0.0), "sizes are positive: {row:?}");
}

#[test]
fn decimals_are_written_from_integers() {
    let fixed = |units, decimals| {
        let mut out = Vec::new();
        push_fixed(&mut out, units, decimals);
        String::from_utf8(out).expect("ASCII")
    };
    let short = |units, decimals| {
        let mut out = Vec::new();
        push_short(&mut out, units, decimals);
        String::from_utf8(out).expect("ASCII")
    };
    assert_eq!(fixed(2_153_210, 2), "21532.10");
    assert_eq!(fixed(-5, 2), "-0.05");
    assert_eq!(fixed(99_935, 5), "0.99935");
    assert_eq!(fixed(7, 0), "7");
    assert_eq!(short(100_000_000, 8), "1.0");
    assert_eq!(short(1_234_500, 8), "0.012345");
    assert_eq!(short(0, 2), "0.0");
}

#[test]
fn a_message_may_arrive_on_the_next_day() {
    let clock = Clock::new(19_161);
    let mut out = Vec::new();
    clock.push(&mut out, 3_600_000_001);
    clock.push(&mut out, 86_400_000_000);
    assert_eq!(
        String::from_utf8(out).expect("ASCII"),
        "2022-06-18T01:00:00.000001Z2022-06-19T00:00:00.000000Z"
    );
}

#[test]
fn compressed_files_hold_the_same_text() {
    let request = TicksRequest { rows: 1_000, days: 1, levels: 1, seed: 1 };
    let text = |compression, name: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        write_ticks(request, folder.path(), compression).expect("the ticks are written");
        fs::read(folder.path().join(name)).expect("the file")
    };
    let plain = text(Compression::None, "trades.csv");
    let zstd = text(Compression::Zstd, "trades.csv.zst");
    assert_eq!(zstd::decode_all(zstd.as_slice()).expect("zstd"), plain);
    let mut gunzipped = Vec::new();
    let gzip = text(Compression::Gzip, "trades.csv.gz");
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(gzip.as_slice()), &mut gunzipped)
        .expect("gzip");
    assert_eq!(gunzipped, plain);
}

/// The text of quotes.csv and of trades.csv.
fn equities(scale: f64, seed: u64) -> (String, String) {
    equities_of(scale, seed, false)
}

/// The same, of either form.
fn equities_of(scale: f64, seed: u64, wide: bool) -> (String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let output = OutputArgs { out: folder.path().to_path_buf(), seed, gzip: false, zstd: false };
    let written = write_equities(&EquitiesArgs::new(scale, wide, output)).expect("the equities are written");
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("a text file");
    let (quotes, trades) = (read("quotes.csv"), read("trades.csv"));
    let rows = |text: &str| text.lines().count() as u64 - 1;
    assert_eq!(written.iter().map(|file| file.rows).collect::<Vec<_>>(), [rows(&quotes), rows(&trades)]);
    (quotes, trades)
}

/// Rows by the value of a column, most first.
fn counts(text: &str, column: usize) -> Vec<(String, usize)> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for line in text.lines().skip(1) {
        *counts.entry(line.split(',').nth(column).expect("a field")).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().map(|(value, rows)| (value.to_string(), rows)).collect();
    counts.sort_unstable_by_key(|(_, rows)| std::cmp::Reverse(*rows));
    counts
}

#[test]
fn a_seed_gives_the_same_equities_forever() {
    let (quotes, trades) = equities(0.001, 1);
    assert_eq!(
        (hash(quotes.as_bytes()), hash(trades.as_bytes())),
        (0x4a17_e973_eaa7_0fc5, 0x046e_141a_0da8_f8b7)
    );
    assert_ne!(quotes, equities(0.001, 2).0);
}

#[test]
fn equities_are_as_many_as_the_scale_says() {
    for (scale, quotes, trades) in
        [(0.0001, 1_500, 150), (0.003, 45_000, 4_500), (0.012_345, 185_175, 18_518)]
    {
        let texts = equities(scale, 1);
        assert_eq!((texts.0.lines().count(), texts.1.lines().count()), (1 + quotes, 1 + trades));
    }
}

#[test]
fn few_stocks_are_busy() {
    let (quotes, trades) = equities(0.02, 1);
    for (text, least) in [(&quotes, 20), (&trades, 3)] {
        let rows = text.lines().count() - 1;
        let by_symbol = counts(text, 1);
        assert_eq!(by_symbol.len(), 2_000);
        // Of the harmonic number of 2,000, 8.18, the first has 1, the tenth 0.1, the hundredth 0.01.
        for (rank, share) in [(1, 122.0), (10, 12.2), (100, 1.22)] {
            let found = by_symbol[rank - 1].1 as f64 / rows as f64 * 1_000.0;
            assert!((share * 0.8..share * 1.2).contains(&found), "rank {rank}: {found} in a thousand");
        }
        assert!(by_symbol[1_999].1 >= least, "{:?}", by_symbol[1_999]);
    }
    assert_eq!((counts(&quotes, 2).len(), counts(&trades, 2).len(), counts(&trades, 3).len()), (12, 12, 8));
}

#[test]
fn equities_trade_within_the_quotes_of_one_session() {
    let (quotes, trades) = equities(0.01, 7);
    let mut quotes = quotes.lines().skip(1).map(fields).peekable();
    // By symbol: time, bid and ask of the quote that stands.
    let mut touch: HashMap<String, (String, f64, f64)> = HashMap::new();
    let (mut quoted, mut traded, mut spreads) = (String::new(), String::new(), Vec::new());
    let mut minutes = [0_u32; 24 * 60];
    for trade in trades.lines().skip(1).map(fields) {
        while let Some(quote) = quotes.next_if(|quote| quote[0] <= trade[0]) {
            assert!(quoted <= quote[0], "out of order: {quote:?}");
            let (bid, ask) = (number(&quote[3]), number(&quote[5]));
            assert!(
                0.0 < bid && bid < ask && number(&quote[4]) > 0.0 && number(&quote[6]) > 0.0,
                "{quote:?}"
            );
            spreads.push(((ask - bid) * 100.0).round() as u64);
            minutes[number(&quote[0][11..13]) as usize * 60 + number(&quote[0][14..16]) as usize] += 1;
            let before = touch.insert(quote[1].clone(), (quote[0].clone(), bid, ask));
            assert!(before.is_none_or(|(time, ..)| time < quote[0]), "the same time twice: {quote:?}");
            quoted.clone_from(&quote[0]);
        }
        let (_, bid, ask) = touch[&trade[1]];
        assert!((bid..=ask).contains(&number(&trade[4])), "{trade:?} outside {bid} to {ask}");
        assert!(number(&trade[5]) > 0.0 && traded <= trade[0], "{trade:?}");
        traded.clone_from(&trade[0]);
    }
    assert!(traded.as_str() < "2024-08-08T20:00:00" && minutes[..13 * 60 + 30].iter().all(|rows| *rows == 0));
    let half_hour = |first: usize| minutes[first..first + 30].iter().sum::<u32>();
    let (open, noon, close) = (half_hour(13 * 60 + 30), half_hour(16 * 60 + 30), half_hour(19 * 60 + 30));
    assert!(open > 2 * noon && close > 2 * noon, "{open}, {noon}, {close}");
    spreads.sort_unstable();
    let (narrow, wide) = (spreads[0], spreads[spreads.len() - 1]);
    assert!(narrow == 1 && (10..2_000).contains(&wide), "{narrow} to {wide} ticks");
}

#[test]
fn a_seed_gives_the_same_wide_equities_forever() {
    let (quotes, trades) = equities_of(0.001, 1, true);
    assert_eq!(
        (hash(quotes.as_bytes()), hash(trades.as_bytes())),
        (0x92b3_b11f_d082_c577, 0x1079_6893_1108_62f3)
    );
    assert_ne!(trades, equities_of(0.001, 2, true).1);
}

#[test]
fn wide_equities_are_the_narrow_ones_with_more_columns() {
    let (narrow, wide) = (equities(0.01, 3), equities_of(0.01, 3, true));
    // By file: the columns that both forms have, in the narrow one and in the wide one.
    let files = [
        (&narrow.0, &wide.0, 19, [(0, 0), (1, 1), (3, 3), (4, 4), (5, 5), (6, 6)].as_slice()),
        (&narrow.1, &wide.1, 15, [(0, 0), (1, 1), (3, 3), (4, 4), (5, 5)].as_slice()),
    ];
    for (narrow, wide, columns, both) in files {
        assert_eq!(narrow.lines().count(), wide.lines().count());
        for (narrow, wide) in narrow.lines().zip(wide.lines()).skip(1) {
            let (narrow, wide) = (fields(narrow), fields(wide));
            assert_eq!(wide.len(), columns, "{wide:?}");
            assert!(both.iter().all(|(ours, theirs)| narrow[*ours] == wide[*theirs]), "{narrow:?}, {wide:?}");
        }
    }
}

#[test]
fn wide_equities_have_flags_ids_and_earlier_times() {
    let (quotes, trades) = equities_of(0.02, 1, true);
    let values = |text: &str, name: &str| {
        let place = fields(text.lines().next().expect("a header")).iter().position(|column| column == name);
        counts(text, place.expect("a column")).len()
    };
    let flags = [("venue", 19), ("condition", 5), ("source", 2), ("nbbo", 4), ("retail", 4), ("maker", 6)];
    let flags = flags.into_iter().chain([("short_sale", 2), ("luld", 3), ("halt", 3), ("cancelled", 3)]);
    for (name, different) in flags {
        assert_eq!(values(&quotes, name), different, "{name}");
    }
    for (name, different) in [("venue", 19), ("side", 2), ("exempt", 2), ("retail", 3), ("id", 30_000)] {
        assert_eq!(values(&trades, name), different, "{name}");
    }
    for quote in quotes.lines().skip(1).map(fields) {
        assert!(quote[17] < quote[0] && quote[18] < quote[17], "the times go backwards: {quote:?}");
        assert_eq!((quote[2] == "D", quote[16].is_empty()), (!quote[18].is_empty(), quote[18].is_empty()));
    }
    let halted = |text: &str, place: usize| counts(text, place)[0].1 as f64 / text.lines().count() as f64;
    assert!(halted(&quotes, 14) > 0.99, "most quotes are of no pause");
    assert!(trades.lines().skip(1).map(fields).all(|trade| trade[14] < trade[0]));
}
