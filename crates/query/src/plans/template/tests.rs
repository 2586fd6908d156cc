use super::*;
use crate::dialect;

/// The statement without its literals, and these.
fn check(sql: &str, expect: &str, literals: &[&str]) {
    let mut parsed = dialect::parse(sql).unwrap();
    let Some(dialect::Statement::Query(mut statement)) = parsed.pop() else { panic!("{sql}: no query") };
    let taken: Vec<String> = take_literals(&mut statement, &BTreeSet::new())
        .literals
        .into_iter()
        .map(|literal| match literal {
            Literal::Text(text) => format!("'{text}'"),
            Literal::Number(digits) => digits,
            Literal::List(items) => format!("{} of them", items.len()),
            Literal::InList => "of it".to_string(),
        })
        .collect();
    assert_eq!(statement.to_string(), expect, "{sql}");
    assert_eq!(taken, literals, "{sql}");
}

#[test]
fn literals_beside_columns_are_taken_out() {
    check(
        "SELECT a + 1, 'x' FROM t WHERE s = 'A' AND (t.ts >= '2024' OR 5 > n) LIMIT 3",
        "SELECT a + 1, 'x' FROM t WHERE s = $1 AND (t.ts >= $2 OR $3 > n) LIMIT 3",
        &["'A'", "'2024'", "5"],
    );
    check(
        "SELECT 1 FROM t WHERE ts BETWEEN TIMESTAMP '2024-01-01' AND '2025' AND s IN ('A', 'B')",
        "SELECT 1 FROM t WHERE ts BETWEEN $1 AND $2 AND s IN ($3, $4)",
        &["'2024-01-01'", "'2025'", "'A'", "'B'"],
    );
    check(
        "SELECT 1 FROM t WHERE f(s) = 'A' AND s LIKE 'A%' AND n = -1 AND n + 1 = 2 AND s = upper('a')",
        "SELECT 1 FROM t WHERE f(s) = 'A' AND s LIKE 'A%' AND n = -1 AND n + 1 = 2 AND s = upper('a')",
        &[],
    );
    check(
        "WITH c AS (SELECT * FROM t WHERE n > 1) SELECT * FROM (SELECT * FROM c WHERE n < 9) HAVING n > 3",
        "WITH c AS (SELECT * FROM t WHERE n > $1) SELECT * FROM (SELECT * FROM c WHERE n < $2) HAVING n > 3",
        &["1", "9"],
    );
}

#[test]
fn a_long_list_is_one_literal() {
    check(
        "SELECT 1 FROM t WHERE a < 1 AND s IN ('A', 'B', 3, 'C', 'D', 'E') AND n NOT IN (1, 2, 3, 4, 5) AND b > 2",
        "SELECT 1 FROM t WHERE a < $1 AND s IN ($2, $3, $4, $5) AND n NOT IN ($6, $7, $8, $9) AND b > $10",
        &["1", "6 of them", "of it", "of it", "of it", "5 of them", "of it", "of it", "of it", "2"],
    );
    check(
        "SELECT 1 FROM t WHERE s IN ('A', 'B', 'C', 'D') AND n IN (1, 2, 3, 4, NULL)",
        "SELECT 1 FROM t WHERE s IN ($1, $2, $3, $4) AND n IN ($5, $6, $7, $8, NULL)",
        &["'A'", "'B'", "'C'", "'D'", "1", "2", "3", "4"],
    );
}

#[test]
fn values_take_the_type_of_their_column() {
    let symbol = DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Utf8));
    let time = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let text = |text: &str| Literal::Text(text.to_string());
    let number = |digits: &str| Literal::Number(digits.to_string());
    assert_eq!(text("1970").value(&time), Some(ScalarValue::TimestampNanosecond(Some(0), None)));
    assert_eq!(text("soon").value(&time), None);
    assert_eq!(number("5").value(&time), None);
    assert!(number("600519").value(&symbol).is_some());
    assert_eq!(number("007").value(&symbol), None);
    assert_eq!(number("1.5").value(&symbol), None);
    assert_eq!(number("5").value(&DataType::Float64), None);
}
