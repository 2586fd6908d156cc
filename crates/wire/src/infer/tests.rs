use super::*;

fn check(name: &str, values: &[&str], expect: ColumnType) {
    let mut sample = ColumnSample::new(name);
    values.iter().for_each(|value| sample.see(value.as_bytes()));
    assert_eq!(sample.conclude().column_type, expect, "{name} {values:?}");
}

#[test]
fn types_by_value_and_name() {
    check("id", &["1", "-2"], ColumnType::Int64);
    check("id", &["1", "18446744073709551615"], ColumnType::UInt64);
    check("price", &["1", "2"], ColumnType::Float64);
    check("amount", &["1", "2.5"], ColumnType::Float64);
    check("amount", &["1e-05", "1.5E+16", "nan"], ColumnType::Float64);
    check("timestamp", &["1723161253000000000"], ColumnType::Timestamp);
    check("exchange_time", &["1723161253000"], ColumnType::Timestamp);
    check("update_id", &["1723161253000"], ColumnType::Int64);
    check("time", &["5", "6"], ColumnType::Int64);
    check("when", &["2024-08-08T00:00:00Z"], ColumnType::Timestamp);
    check("expiry", &["2024-08-08"], ColumnType::Date);
    check("date", &["2024-08-08"], ColumnType::Timestamp);
    check("symbol", &["BTC-USD"], ColumnType::Symbol);
    check("sym", &["600519"], ColumnType::Symbol);
    check("base", &["1.5"], ColumnType::Float64);
    check("zip", &["007"], ColumnType::Varchar);
    check("note", &["a", "b"], ColumnType::Varchar);
    check("maker", &["true", "false"], ColumnType::Boolean);
    check("flag", &["1", "0"], ColumnType::Int64);
    check("id", &["99999999999999999999"], ColumnType::Varchar);
    check("timestamp", &["1723161253000", "1723161254", "1723161255000"], ColumnType::Timestamp);
    check("ts", &["2024-08-08T00:00:00Z", "oops", "2024-08-08T00:00:01Z"], ColumnType::Timestamp);
    check("end_time", &["1723161253000", "0"], ColumnType::Int64);
    check("order", &["67e55044-10b1-426f-9247-bb680e5fe0c8"], ColumnType::Uuid);
    check("empty", &[], ColumnType::Varchar);
    check("colour", &["red"; 30], ColumnType::Symbol);
}

/// No type makes another text of a value.
#[test]
fn types_that_give_the_fields_back() {
    let decimal = |scale| ColumnType::Decimal { precision: 38, scale };
    check("x", &["INF", "NAN", "1E3"], ColumnType::Varchar);
    check("x", &["nan", "inf"], ColumnType::Varchar);
    check("x", &["nan", "1.5"], ColumnType::Float64);
    check("x", &["38259E10"], ColumnType::Varchar);
    check("x", &["+1", "2"], ColumnType::Varchar);
    check("x", &["007.5"], ColumnType::Varchar);
    check("x", &["T", "F"], ColumnType::Varchar);
    check("x", &["yes", "no"], ColumnType::Varchar);
    check("x", &["True", "FALSE"], ColumnType::Boolean);
    check("x", &["18446744073709551615", "-1"], ColumnType::Varchar);
    check("x", &["9007199254740993", "1.5"], decimal(1));
    check("x", &["1.234567890123456789", "0.5"], decimal(18));
    check("x", &["0.1000000000000000056", "2.50"], ColumnType::Float64);
    check("x", &["2024-08-08T09:30:00.1234567891Z"], ColumnType::Varchar);
    check("x", &["2024-08-08T09:30:00.1234567890Z"], ColumnType::Timestamp);
    check("price", &["9223372036854775807", "5"], ColumnType::Int64);
}

#[test]
fn keys_and_codes_are_text_or_whole_numbers() {
    check("action", &["T", "F"], ColumnType::Symbol);
    check("flag", &["true", "false"], ColumnType::Symbol);
    check("cusip", &["38259E10", "037833100"], ColumnType::Symbol);
    check("side", &["1", "2"], ColumnType::Int64);
    check("code", &["1.10", "1.2"], ColumnType::Symbol);
    check("cond", &["2024-08-08"], ColumnType::Symbol);
    check("order_id", &["1723161253", "1723161254"], ColumnType::Int64);
    check("order_id", &["1E3"], ColumnType::Varchar);
    check("orderId", &["67e55044-10b1-426f-9247-bb680e5fe0c8"], ColumnType::Uuid);
    check("exchange_time", &["1723161253000"], ColumnType::Timestamp);
}

#[test]
fn numbers_past_today_are_ids_unless_the_name_says_more() {
    check("t", &["4102444700"], ColumnType::Int64);
    check("trade_time", &["4102444700000"], ColumnType::Int64);
    check("expiry_timestamp", &["4102444700000"], ColumnType::Timestamp);
    check("ts_expiry", &["4102444700"], ColumnType::Timestamp);
    check("ts_id", &["1723161253"], ColumnType::Int64);
}

#[test]
fn dates_of_other_forms_are_no_symbols() {
    for date in
        ["08.08.2024", "8/8/2024", "2024/08/08", "2024.08.08", "31-12-2024 09:30", "2024.08.08D09:30:00"]
    {
        let mut sample = ColumnSample::new("day");
        (0..30).for_each(|_| sample.see(date.as_bytes()));
        let found = sample.conclude();
        assert_eq!((found.column_type, found.unread_date.as_deref()), (ColumnType::Varchar, Some(date)));
    }
    for text in ["1.2.3", "08.08.24", "a.b.2024", "2024-08-08"] {
        let mut sample = ColumnSample::new("day");
        (0..30).for_each(|_| sample.see(text.as_bytes()));
        assert_eq!(sample.conclude().unread_date, None, "{text}");
    }
}

/// Whole prices count parts of a unit in all columns of a file, or in none.
#[test]
fn prices_of_one_file_are_alike() {
    let types = |columns: &[(&str, &str)]| {
        let sample = |(name, value): &(&str, &str)| {
            let mut sample = ColumnSample::new(*name);
            sample.see(value.as_bytes());
            sample
        };
        let samples: Vec<_> = columns.iter().map(sample).collect();
        conclude(&samples).into_iter().map(|of| of.column_type).collect::<Vec<_>>()
    };
    use ColumnType::{Float64, Int64};
    let scaled = [("price", "5411750000000"), ("bid_px_00", "541"), ("bid_sz_00", "3"), ("vwap", "1.5")];
    assert_eq!(types(&scaled), [Int64, Int64, Int64, Float64]);
    assert_eq!(types(&[("price", "541"), ("askPrice", "542"), ("size", "3")]), [Float64, Float64, Int64]);
}

#[test]
fn a_word_among_numbers_makes_them_no_text() {
    let with = |name: &str, numbers: usize, step: f64, words: usize| {
        let mut sample = ColumnSample::new(name);
        (0..numbers).for_each(|n| sample.see((n as f64 * step).to_string().as_bytes()));
        (0..words).for_each(|n| sample.see(format!("word {n}").as_bytes()));
        sample.conclude().column_type
    };
    assert_eq!(with("n", 100, 1.0, 1), ColumnType::Int64);
    assert_eq!(with("n", 100, 0.5, 1), ColumnType::Float64);
    assert_eq!(with("price", 100, 1.0, 1), ColumnType::Float64);
    assert_eq!(with("n", 1_000, 1.0, 10), ColumnType::Int64);
    assert_eq!(with("n", 99, 1.0, 1), ColumnType::Varchar);
    assert_eq!(with("n", 1_000, 1.0, 11), ColumnType::Varchar);
    assert_eq!(with("sym", 100, 1.0, 1), ColumnType::Symbol);
}

#[test]
fn arrays_by_their_elements() {
    let check = |values: &[&str], name: &str| check("bids", values, ColumnType::parse(name).unwrap());
    check(&["[1, 2.5]", "[]", "[null]"], "DOUBLE[]");
    check(&["[1]", "[-2, 3]"], "BIGINT[]");
    check(&["[\"a\", null]"], "VARCHAR[]");
    check(&["[]"], "VARCHAR[]");
    check(&["[true,false]"], "BOOLEAN[]");
    check(&["[1]", "7"], "VARCHAR");
    check(&["7", "[1]"], "VARCHAR");
    check(&["[[1,2],[3,4]]"], "VARCHAR");
    check(&["[1", "[1]"], "VARCHAR");
}

#[test]
fn units_by_magnitude() {
    let unit = |values: &[&str]| {
        let mut sample = ColumnSample::new("ts");
        values.iter().for_each(|value| sample.see(value.as_bytes()));
        sample.conclude().time
    };
    assert_eq!(unit(&["1723161253"]), TimeFormat::GuessedEpoch(EpochUnit::Second));
    assert_eq!(unit(&["1633998274.500393"]), TimeFormat::GuessedEpoch(EpochUnit::Second));
    assert_eq!(unit(&["1723161253123"]), TimeFormat::GuessedEpoch(EpochUnit::Millisecond));
    assert_eq!(unit(&["1723161253123456"]), TimeFormat::GuessedEpoch(EpochUnit::Microsecond));
    assert_eq!(unit(&["1723161253123456789"]), TimeFormat::GuessedEpoch(EpochUnit::Nanosecond));
    assert_eq!(unit(&["2024-08-08T00:00:00Z"]), TimeFormat::Iso);
    let mixed = ["1723161253000", "1723161254", "1723161255000"];
    assert_eq!(unit(&mixed), TimeFormat::GuessedEpoch(EpochUnit::Millisecond));
}
