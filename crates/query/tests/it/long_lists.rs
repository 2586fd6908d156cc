//! `IN` of lists that are one value (`dialect::long_lists`) against the same lists in pieces that are not.

use crate::numbers::{Numbers, each_seed};
use datafusion::arrow::util::pretty::pretty_format_batches;
use tickstone_query::{Database, DatabaseOptions, Session};

const ITEMS: usize = 5_000;
/// Shorter than what is one value.
const PIECE: usize = 3_000;
const ROWS: u64 = 400;

/// Makes an item of a list.
type Item = fn(&mut Numbers) -> String;

/// What is tested, and the items of its lists.
const TESTED: [(&str, Item); 32] = [
    ("i", number),
    ("i + 1", number),
    ("u", number),
    ("tiny", number),
    ("key", number),
    ("i::DECIMAL(20, 2)", number),
    ("px", number),
    ("m", number),
    ("s", text),
    ("plain", text),
    ("note", text),
    ("upper(note)", text),
    ("s", number),
    ("note", number),
    ("i", |numbers| format!("'{}'", number(numbers))),
    ("ts", |numbers| format!("'2024-08-08T00:00:0{}Z'", numbers.below(9))),
    ("ts::DATE", |numbers| format!("'2024-08-0{}'", numbers.below(9) + 1)),
    ("NULL", number),
    ("5", number),
    ("'S7'", text),
    ("px", fraction),
    ("px * 0.5", fraction),
    ("m", fraction),
    ("m + 0.001", fraction),
    ("i", fraction),
    ("u", fraction),
    ("key", fraction),
    ("fl", fraction),
    ("dk", fraction),
    ("mk", fraction),
    ("s", fraction),
    ("5", fraction),
];

/// Where the list stands.
const AROUND: [&str; 9] = [
    "SELECT count(*), min(id), sum(id) FROM t WHERE {}",
    "SELECT count(*), min(id), sum(id) FROM t WHERE NOT ({})",
    "SELECT count(*), min(id), sum(id) FROM t WHERE ({}) IS NULL OR id < 5",
    "SELECT id, {} AS found FROM t ORDER BY id",
    "SELECT {} AS found, count(*) FROM t GROUP BY {} ORDER BY 1",
    "SELECT id, CASE WHEN {} THEN 'in' ELSE 'out' END AS c FROM t WHERE id % 2 = 0 OR {} ORDER BY id DESC LIMIT 7",
    "SELECT t.id FROM t LEFT JOIN (SELECT id FROM t WHERE {}) AS o ON o.id = t.id WHERE o.id IS NULL ORDER BY 1",
    "SELECT s, count(*) FILTER (WHERE {}) AS n, row_number() OVER (ORDER BY s) FROM t GROUP BY s ORDER BY s",
    "SELECT id FROM t AS o WHERE EXISTS (SELECT 1 FROM t WHERE t.id = o.id AND {}) ORDER BY 1",
];

fn number(numbers: &mut Numbers) -> String {
    let number = numbers.below(300) as i64 - 100;
    match numbers.below(40) {
        0 => format!("{}", number * 10_000_000_000),
        _ => number.to_string(),
    }
}

/// Numbers with a point and without, some of more digits than a double has.
fn fraction(numbers: &mut Numbers) -> String {
    let whole = numbers.below(300) as i64 - 100;
    match numbers.below(12) {
        0 => whole.to_string(),
        1 => "-0.0".to_string(),
        2 => format!("{whole}.12500000000000000001"),
        3 => format!("{whole}.1000000000000000055"),
        4 => format!("{whole}.0"),
        5 => format!("{}.5", whole * 10_000_000_000),
        _ => format!("{whole}.{}", numbers.pick(&["25", "5", "50", "1", "125", "001"])),
    }
}

fn text(numbers: &mut Numbers) -> String {
    match numbers.below(20) {
        0 => "'it''s, ('".to_string(),
        1 => "''".to_string(),
        _ => format!("'S{}'", numbers.below(30)),
    }
}

fn or_null(numbers: &mut Numbers, value: String) -> String {
    if numbers.one_in(8) { "NULL".to_string() } else { value }
}

fn run(database: &Database, session: &mut Session, sql: &str) -> Result<String, String> {
    match database.runtime().block_on(session.query(sql)) {
        Ok(batches) => Ok(pretty_format_batches(&batches).unwrap().to_string()),
        Err(error) => Err(error.to_string().chars().take(200).collect()),
    }
}

#[test]
fn a_long_list_is_what_its_pieces_are() {
    each_seed(2, |seed| {
        let mut numbers = Numbers(seed);
        let database = Database::in_memory(DatabaseOptions::default()).unwrap();
        let session = &mut database.session();
        let created = "CREATE TABLE t (ts TIMESTAMP, s SYMBOL, id BIGINT, i INT, u BIGINT UNSIGNED, tiny TINYINT, \
            key BIGINT, px DOUBLE, m DECIMAL(12, 2), fl FLOAT, dk DOUBLE, mk DECIMAL(8, 1), plain SYMBOL, note VARCHAR) \
            TIMESTAMP(ts) SERIES BY (s) INDEX (key, dk, mk, plain)";
        run(&database, session, created).unwrap();
        for part in 0..2 {
            let rows = (0..ROWS / 2).map(|row| {
                let numbers = &mut numbers;
                let whole = [200, 200, 100, 300].map(|below| {
                    let value = numbers.below(below);
                    or_null(numbers, value.to_string())
                });
                let parts = [(); 5].map(|()| {
                    let value = numbers.below(200);
                    let part = *numbers.pick(&["", ".0", ".5", ".25", ".1"]);
                    let value =
                        if numbers.one_in(20) { "-0.0".to_string() } else { format!("{value}{part}") };
                    or_null(numbers, value)
                });
                let words = [(); 3].map(|()| {
                    let value = text(numbers);
                    or_null(numbers, value)
                });
                let (second, id) = (row % 20, part * ROWS + row);
                let [s, plain, note] = words;
                format!(
                    "('2024-08-08T00:00:{second:02}', {s}, {id}, {}, {}, {plain}, {note})",
                    whole.join(", "),
                    parts.join(", ")
                )
            });
            let rows: Vec<String> = rows.collect();
            run(&database, session, &format!("INSERT INTO t VALUES {}", rows.join(", "))).unwrap();
            if part == 0 {
                database.engine().seal(None).unwrap();
            }
        }
        for (tested, item) in TESTED {
            let items: Vec<String> = (0..ITEMS).map(|_| item(&mut numbers)).collect();
            let (negated, both) = match numbers.below(2) {
                0 => ("IN", "OR"),
                _ => ("NOT IN", "AND"),
            };
            let whole = format!("{tested} {negated} ({})", items.join(", "));
            let (first, second) = items.split_at(PIECE);
            let pieces = format!(
                "({tested} {negated} ({}) {both} {tested} {negated} ({}))",
                first.join(", "),
                second.join(", ")
            );
            for _ in 0..3 {
                let around = *numbers.pick(&AROUND);
                let [whole, pieces] =
                    [&whole, &pieces].map(|list| run(&database, session, &around.replace("{}", list)));
                match (&whole, &pieces) {
                    (Err(_), Err(_)) => {}
                    _ => assert_eq!(
                        whole,
                        pieces,
                        "seed {seed}: {around} of {tested} {negated} {:?}",
                        &items[..3]
                    ),
                }
            }
        }
    });
}
