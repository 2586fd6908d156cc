use crate::{Database, DatabaseOptions};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use proptest::prelude::*;

type Row = (i64, Option<i64>);

/// Frames by rows: from so many before (negative) or after to the same, `None` without end.
type Frame = (Option<i64>, Option<i64>);

fn bound(at: Option<i64>, open: &str) -> String {
    match at {
        None => format!("UNBOUNDED {open}"),
        Some(0) => "CURRENT ROW".to_string(),
        Some(rows) if rows < 0 => format!("{} PRECEDING", -rows),
        Some(rows) => format!("{rows} FOLLOWING"),
    }
}

/// The definition, row by row.
fn naive(rows: &[Row], (from, to): Frame, nth: i64) -> Vec<Option<i64>> {
    let place = |row: usize, key: i64| {
        let of: Vec<usize> = (0..rows.len()).filter(|at| rows[*at].0 == key).collect();
        (of.iter().position(|at| *at == row).unwrap(), of)
    };
    let each = (0..rows.len()).map(|row| {
        let (at, of) = place(row, rows[row].0);
        let at = i64::try_from(at).unwrap();
        let inside = |other: &usize| {
            let other = i64::try_from(*other).unwrap() - at;
            from.is_none_or(|from| other >= from) && to.is_none_or(|to| other <= to)
        };
        let values: Vec<i64> = (0..of.len()).filter(inside).filter_map(|other| rows[of[other]].1).collect();
        let found = match nth > 0 {
            true => usize::try_from(nth - 1).ok(),
            false => values.len().checked_sub(usize::try_from(-nth).unwrap()),
        };
        found.and_then(|at| values.get(at).copied())
    });
    each.collect()
}

fn asked(rows: &[Row], (from, to): Frame, nth: i64) -> Vec<Option<i64>> {
    let database = Database::in_memory(DatabaseOptions::default()).unwrap();
    let mut session = database.session();
    let values = rows.iter().enumerate().map(|(id, (key, value))| {
        let value = value.map_or("NULL::BIGINT".to_string(), |value| value.to_string());
        format!("({id}, {key}, {value})")
    });
    let values: Vec<String> = values.collect();
    let call = match nth {
        1 => "first_value(v)".to_string(),
        -1 => "last_value(v)".to_string(),
        nth => format!("nth_value(v, {nth})"),
    };
    let frame = format!("ROWS BETWEEN {} AND {}", bound(from, "PRECEDING"), bound(to, "FOLLOWING"));
    let sql = format!(
        "SELECT x FROM (SELECT id, {call} IGNORE NULLS OVER (PARTITION BY k ORDER BY id {frame}) AS x \
         FROM (VALUES {}) AS t(id, k, v)) ORDER BY id",
        values.join(", ")
    );
    let run = async {
        session.query("SET datafusion.execution.batch_size = 3").await?;
        session.query(&sql).await
    };
    let batches = database.runtime().block_on(run).unwrap_or_else(|error| panic!("{sql}: {error}"));
    batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>()).collect()
}

fn frames() -> impl Strategy<Value = Frame> {
    let edge = || proptest::option::of(-4_i64..=4);
    (edge(), edge()).prop_map(|(a, b)| match (a, b) {
        (Some(a), Some(b)) => (Some(a.min(b)), Some(a.max(b))),
        other => other,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn the_values_are_those_of_the_definition(
        rows in proptest::collection::vec((0_i64..2, proptest::option::weighted(0.4, 0_i64..100)), 1..30),
        frame in frames(),
        nth in prop_oneof![Just(1_i64), Just(-1), Just(2), Just(-2), Just(5)],
    ) {
        prop_assert_eq!(asked(&rows, frame, nth), naive(&rows, frame, nth));
    }
}

#[test]
fn frames_that_only_grow_keep_what_they_came_to() {
    let rows: Vec<Row> = (0..40).map(|at| (0, (at % 11 == 5).then_some(at))).collect();
    for nth in [1, -1, 2, -2] {
        for frame in [(None, Some(0)), (None, Some(3)), (None, Some(-3)), (None, None), (Some(0), None)] {
            assert_eq!(asked(&rows, frame, nth), naive(&rows, frame, nth), "{nth} over {frame:?}");
        }
    }
}
