//! Messages as DataFusion writes them, and as users read them.

use super::{our_types, reworded};
use crate::error::{QueryError, SqlState};

fn check(message: &str, wanted: &str) {
    assert_eq!(reworded(message).to_string(), wanted, "{message}");
}

#[test]
fn functions_of_other_systems_are_answered_with_ours() {
    check(
        "Invalid function 'tostartofminute'.\nDid you mean 'starts_with'?",
        "function 'tostartofminute' does not exist\nhint: write time_bucket('1m', ts)",
    );
    check(
        "Invalid function 'frobnicate'.\nDid you mean 'translate'?",
        "function 'frobnicate' does not exist\nhint: SHOW FUNCTIONS lists them",
    );
    check(
        "Invalid function 'lag'.\nDid you mean 'log'?",
        "lag works over a window\nhint: write lag(…) OVER (PARTITION BY symbol ORDER BY ts)",
    );
    let past = "the texts or lists of a batch of rows hold more than 2 GiB\nhint: make each shorter, or take fewer rows: \
                LIMIT in a sub-query";
    check("byte array offset overflow: output size exceeds 2147483647 bytes", past);
    assert_eq!(QueryError::of_defect("offset overflow", None).to_string(), past);
    check("table function 'nope' not found", "table function 'nope' does not exist");
    check(
        "table function 'query_activity' not found",
        "table function 'query_activity' does not exist\nhint: write SHOW QUERIES, or SELECT … FROM queries()",
    );
}

#[test]
fn arguments_are_shown_with_our_types() {
    check(
        "Failed to coerce arguments. No function matches the given name and argument types 'vwap(Float64)'. You might \
         need to add explicit type casts.\n\tCandidate functions:\n\tvwap(Float64, Float64)",
        "vwap does not take (DOUBLE)\nhint: it takes vwap(DOUBLE, DOUBLE)",
    );
    check(
        "Function 'ema' user-defined coercion failed with: Error during planning: ema takes a value. No function \
         matches the given name and argument types 'ema(Float64, Int64)'. You might need to add explicit type \
         casts.\n\tCandidate functions:\n\tema(UserDefined)",
        "ema does not take (DOUBLE, BIGINT)\nhint: ema takes a value",
    );
}

#[test]
fn comparisons_and_casts_name_our_types() {
    let compared =
        reworded("Cannot infer common argument type for comparison operation Timestamp(ns) > Int64");
    assert_eq!(compared.message, "TIMESTAMP and BIGINT cannot be compared");
    assert!(compared.hint.is_some_and(|hint| hint.contains("timestamp_ms")));
    assert_eq!(reworded("Cannot cast string 'abc' to value of Float64 type").message, "'abc' is no DOUBLE");
}

#[test]
fn digits_past_a_decimal_name_it() {
    for (words, end) in [("large", "Max is 99"), ("small", "Min is -99")] {
        let told = format!("-1234 is too {words} to store in a Decimal256 of precision 2. {end}");
        let made = reworded(&told);
        assert_eq!(made.message, "the digits -1234 are more than the 2 of a DECIMAL(2, …)");
        assert_eq!(made.sql_state(), SqlState::OutOfRange);
    }
}

#[test]
fn what_is_in_quotes_and_what_is_longer_stays() {
    assert_eq!(our_types("q.bid > Int64(3) AND s = Utf8(\"x\")"), "q.bid > 3 AND s = 'x'");
    assert_eq!(our_types("'Int64' is Dictionary(UInt32, Utf8)"), "'Int64' is SYMBOL");
    assert_eq!(our_types("Decimal128(10, 2) and myInt64"), "DECIMAL(10, 2) and myInt64");
    assert_eq!(our_types("UInt8, Date32"), "TINYINT UNSIGNED, DATE");
    assert_eq!(our_types("avg(Duration), IntervalMonthDayNano"), "avg(INTERVAL), IntervalMonthDayNano");
}

#[test]
fn a_message_that_is_not_known_stays() {
    check("something else", "something else");
}

#[test]
fn classes_of_arrow_are_types_too() {
    assert_eq!(our_types("could not cast to Int64Array"), "could not cast to BIGINT");
    assert_eq!(our_types("an arrow_array::types::Int32Type, PrimitiveArray<Float64Type>"), "an INT, DOUBLE");
    assert_eq!(our_types("Can't cast value 300 to type Int8"), "Can't cast value 300 to type TINYINT");
    assert_eq!(
        our_types("Can't cast string 'Int8' to type Int8"),
        "Can't cast string 'Int8' to type TINYINT"
    );
    assert_eq!(our_types("MyArray, Array, Typed"), "MyArray, Array, Typed");
}

#[test]
fn a_pattern_that_is_none_is_shown() {
    check(
        "regex parse error:\n    [\n    ^\nerror: unclosed character class",
        "'[' is no regular expression: unclosed character class\n\
         hint: a character that means something in patterns stands after a backslash",
    );
}
