use crate::{Database, DatabaseOptions};
use datafusion::arrow::util::pretty::pretty_format_batches;

fn answer(sql: &str) -> String {
    let database = Database::in_memory(DatabaseOptions::default()).unwrap();
    let batches = database.runtime().block_on(database.session().query(sql));
    pretty_format_batches(&batches.unwrap_or_else(|error| panic!("{sql}: {error}"))).unwrap().to_string()
}

/// Long texts are taken in pieces, their heads at once.
#[test]
fn pieces_are_put_together_in_order() {
    let of = |text: &str, list: &str, less: usize| {
        format!(
            "SELECT value, levenshtein({text}, 'b' || value) - {less}, \
             regexp_match({text}, '[0-9]+'), regexp_count({text}, '[0-9]'), \
             array_remove_all({list}, 0), array_has_any({list}, [value, 200]) \
             FROM generate_series(1, 300) AS g(value) WHERE value % 7 <> 0 OR value IS NULL"
        )
    };
    let long = of("repeat('x', 2000) || value", "array_concat(array_repeat(0, 500), [value])", 2000);
    let short = of("value::TEXT || ''", "[0, value]", 0);
    let (long, short) = (answer(&long), answer(&short));
    let rows = |text: &str| text.lines().skip(3).map(str::to_string).collect::<Vec<_>>();
    assert_eq!(rows(&long).len(), rows(&short).len());
    for (long, short) in rows(&long).iter().zip(rows(&short)) {
        let cells = |row: &str| row.split('|').map(|cell| cell.trim().to_string()).collect::<Vec<_>>();
        let (long, short) = (cells(long), cells(&short));
        assert_eq!(long.get(1), short.get(1));
        assert_eq!(long.get(3..), short.get(3..));
    }
}
