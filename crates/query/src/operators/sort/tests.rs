//! Sorts against DataFusion's, over rows in every state.

use super::radix;
use crate::operators::window::tests::{
    any_commits, by_number, database, database_with, plan, run, run_plainly, texts,
};
use proptest::prelude::*;

/// Keys whose first is a number, a date or a time.
const ORDERS: [&str; 16] = [
    "n",
    "n DESC",
    "x, n",
    "x DESC NULLS LAST, n",
    "x NULLS FIRST, n",
    "z DESC, n",
    "z NULLS FIRST, k DESC, n",
    "k, w",
    "k DESC, s, w",
    "k % 3, v DESC, x, n",
    "ts DESC, n",
    "ts::DATE, n DESC",
    "x::REAL DESC, n",
    "k::SMALLINT, n",
    "abs(k)::BIGINT UNSIGNED DESC, n",
    "-z, s NULLS FIRST, n",
];

const ROWS: [&str; 4] = [
    "t",
    "(SELECT * FROM t WHERE k > 0)",
    "(SELECT *, count(*) OVER (PARTITION BY s) AS c FROM t)",
    "(SELECT n, ts, s, v, x + 1 AS x, k, z, w FROM t UNION ALL SELECT * FROM t WHERE n > 20)",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn equals_the_other_sort(
        commits in any_commits(), order in prop::sample::select(&ORDERS[..]), rows in prop::sample::select(&ROWS[..]),
    ) {
        let database = database(&commits, true);
        // Rows of the union that are there twice differ by x.
        let sql = format!("SELECT n, s, w, x, z FROM {rows} ORDER BY {order}, x");
        let text = plan(&database, &sql);
        prop_assert!(text.contains("RadixSortExec") || !text.contains("SortExec"), "{sql}\n{text}");
        prop_assert_eq!(run(&database, &sql), run_plainly(&database, &sql), "{}\n{}", sql, text);
    }

    #[test]
    fn equal_times_of_a_series_stay_as_they_arrived(commits in any_commits()) {
        let database = database(&commits, true);
        for rows in ["t", "(SELECT * FROM t WHERE k IS NOT NULL)", "(SELECT n, ts, s, v, x + 1 FROM t)"] {
            let rows = run(&database, &format!("SELECT ts, s, v, n FROM {rows} ORDER BY ts"));
            let mut last = std::collections::HashMap::new();
            for row in rows {
                let place = (row[0].clone(), row[3].parse::<u64>().unwrap());
                let before = last.insert((row[1].clone(), row[2].clone()), place.clone());
                prop_assert!(before.is_none_or(|before| before < place), "{row:?}");
            }
        }
    }

    #[test]
    fn sorts_by_every_digit(keys in prop::collection::vec(any::<u64>(), 0..3_000), bits in 0_u32..64) {
        let rows: Vec<(u64, u32)> = keys.iter().map(|key| key >> bits).zip(0..).collect();
        let mut expected = rows.clone();
        expected.sort_by_key(|(key, _)| *key);
        prop_assert_eq!(radix::sort(rows), expected);
    }
}

#[test]
fn what_is_left_alone() {
    let database = database(&[], true);
    for order in ["n LIMIT 3", "s, n", "w"] {
        let text = plan(&database, &format!("SELECT n FROM t ORDER BY {order}"));
        assert!(!text.contains("RadixSortExec"), "{order}\n{text}");
    }
}

#[test]
fn little_memory_is_enough_or_an_error() {
    let row =
        |at: i64| (at % 40, Some(["A", "B"][at as usize % 2]), Some(0.5), Some(at * 7_919 % 1_000), None);
    let commits: Vec<_> =
        (0..4).map(|of| ((of * 500..of * 500 + 500).map(row).collect(), of % 2 == 0)).collect();
    // Rows that are sorted, and rows that come in order.
    for sql in ["SELECT n, k FROM t ORDER BY k, n", "SELECT n, sum(k) OVER (ORDER BY ts), w FROM t"] {
        let sorted = |mut rows: Vec<Vec<String>>| {
            if !sql.contains("BY k") {
                rows = by_number(rows);
            }
            rows
        };
        let expected = sorted(run_plainly(&database(&commits, true), sql));
        let mut enough = 0;
        for kilobytes in [4, 16, 32, 64, 96, 128, 192, 256, 512, 1_024, 16_384] {
            let database = database_with(&commits, true, Some(kilobytes * 1_000));
            let mut session = database.session();
            match database.runtime().block_on(session.query(sql)) {
                Ok(batches) => {
                    enough += 1;
                    assert_eq!(sorted(texts(&batches)), expected, "{kilobytes} KB, {sql}");
                }
                Err(error) => assert!(error.to_string().contains("memory"), "{error}"),
            }
        }
        assert!(enough > 1, "{enough}");
    }
}
