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
    check("amount", &["1e5", "nan"], ColumnType::Float64);
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
