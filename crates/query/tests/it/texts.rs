//! Texts that nobody wrote: the queries of `tests/sql` with tokens left out, doubled, moved and taken from elsewhere. Each
//! is planned or refused; none meets a defect, and none takes the process with it.

use crate::numbers::{Numbers, each_seed};
use crate::slt::{files, statements_of};
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use tickstone_query::fuzz;
use tickstone_query::{Database, DatabaseOptions};

/// Texts of one seed, whose tables are those of one file; `TEXTS=100000` for more.
const TEXTS: usize = 250;

/// What stands for any token now and then.
const ODD: [&str; 24] = [
    "0",
    "-1",
    "9223372036854775807",
    "1e400",
    "''",
    "'x'",
    "NULL",
    "(",
    ")",
    ",",
    "*",
    ".",
    "::",
    "$1",
    "[1]",
    "OVER ()",
    "DISTINCT",
    "NOT",
    "AND",
    "SELECT",
    "FROM",
    "GROUP BY",
    "ORDER BY",
    "'2262'",
];

/// Texts that were planned.
static PLANNED: AtomicUsize = AtomicUsize::new(0);

#[test]
fn no_text_meets_a_defect() {
    each_seed(8, |seed| {
        let mut numbers = Numbers(seed);
        let file = numbers.pick(&files()).clone();
        let (made, asked) = statements_of(&fs::read_to_string(&file).unwrap());
        if asked.is_empty() {
            return;
        }
        let options = DatabaseOptions { query_threads: Some(1), ..DatabaseOptions::default() };
        let database = Database::in_memory(options).unwrap();
        let mut session = database.session();
        for sql in made.iter().filter(|sql| !sql.contains("${TMP}")) {
            // What needs a directory is refused.
            let _ = database.runtime().block_on(session.query(sql));
        }
        let tokens: Vec<&str> = asked.iter().flat_map(|sql| tokens_of(sql)).collect();
        let count = std::env::var("TEXTS").map_or(TEXTS, |texts| texts.parse().unwrap());
        let (mut planned, mut defects) = (0, Vec::new());
        for _ in 0..count {
            let text = mutated(numbers.pick::<String>(&asked), &tokens, &mut numbers);
            match fuzz::sql_in(&database, &text) {
                Ok(queries) => planned += queries,
                Err(defect) => defects.push(format!("{text}\n{defect}")),
            }
        }
        assert!(defects.is_empty(), "{}: {}", file.display(), defects.join("\n\n"));
        PLANNED.fetch_add(planned, Ordering::Relaxed);
    });
    // Some are queries still.
    assert!(PLANNED.load(Ordering::Relaxed) > 0);
}

/// Signs of two characters.
const PAIRS: [&str; 9] = ["::", "<=", ">=", "<>", "!=", "||", "<<", ">>", "->"];

/// A text in words, numbers, quoted texts and signs.
fn tokens_of(sql: &str) -> Vec<&str> {
    let (mut tokens, mut rest) = (Vec::new(), sql.trim());
    while let Some(first) = rest.chars().next() {
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let length = match first {
            '\'' | '"' => rest[1..].find(first).map_or(rest.len(), |at| at + 2),
            _ if PAIRS.iter().any(|pair| rest.starts_with(pair)) => 2,
            _ if is_part(first) => rest.find(|c| !is_part(c)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    tokens
}

fn mutated(sql: &str, others: &[&str], numbers: &mut Numbers) -> String {
    let mut tokens = tokens_of(sql);
    for _ in 0..=numbers.below(3) {
        if tokens.is_empty() {
            break;
        }
        let (at, to) =
            (numbers.below(tokens.len() as u64) as usize, numbers.below(tokens.len() as u64) as usize);
        match numbers.below(20) {
            0 => drop(tokens.remove(at)),
            1 => tokens.insert(to, tokens[at]),
            2 => tokens.swap(at, to),
            3 => tokens[at] = *numbers.pick(others),
            4 => tokens.insert(at, *numbers.pick(others)),
            5 => tokens[at] = *numbers.pick(&ODD),
            6 => tokens.truncate(at + 1),
            // One of its kind, which is often a query still.
            _ => {
                let alike =
                    (0..20).map(|_| *numbers.pick(others)).find(|other| kind(other) == kind(tokens[at]));
                tokens[at] = alike.unwrap_or(tokens[at]);
            }
        }
    }
    tokens.join(" ")
}

/// Whether a token is a name, a number, a text or a sign.
fn kind(token: &str) -> u8 {
    match token.chars().next() {
        Some(first) if first.is_alphabetic() || first == '"' => 0,
        Some(first) if first.is_ascii_digit() => 1,
        Some('\'') => 2,
        _ => 3,
    }
}
