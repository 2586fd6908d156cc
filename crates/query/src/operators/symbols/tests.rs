//! Groups by symbols against DataFusion's, and their numbers.

use super::ids::{Slot, SymbolIds};
use crate::operators::window::tests::{
    any_commits, database, database_with, plan, run, run_in, run_plainly, same,
};
use datafusion::arrow::array::{AsArray, DictionaryArray, StringArray, UInt32Array};
use datafusion::arrow::datatypes::UInt32Type;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};
use proptest::prelude::*;
use std::sync::Arc;

const ROWS: [&str; 6] = [
    "t",
    "(SELECT * FROM t UNION ALL SELECT n + 100, ts, v, s, x, k, z, w FROM t WHERE k > 0)",
    "(SELECT a.n, a.ts, a.s, b.v, a.x, b.k, a.z, b.w FROM t a JOIN t b ON a.s = b.v OR a.k = b.k)",
    "(SELECT a.n, a.ts, a.s, b.s AS v, a.x, b.k, a.z, b.w FROM t a ASOF JOIN t b ON (v))",
    "(SELECT n, ts, CASE WHEN k > 0 THEN s ELSE v END AS s, v, x, k, z, w FROM t)",
    "(SELECT n, ts, s, lag(v) OVER (ORDER BY n) AS v, x, k, z, w FROM t)",
];

const KEYS: [&str; 13] = [
    "s",
    "v",
    "s, v",
    "v, k % 3",
    "s, date_trunc('second', ts)",
    "s, w",
    "s, x",
    "v, n, k IS NULL",
    "upper(s), v",
    "ROLLUP (s, v)",
    "CUBE (s, k % 2)",
    "GROUPING SETS ((s), (v, s), ())",
    "s, z",
];

const AGGREGATES: [&str; 8] = [
    "count(*), sum(k), min(x)",
    "max(s), min(v), count(DISTINCT v)",
    "count(DISTINCT s), avg(x)",
    "count(*) FILTER (WHERE v = 'p'), sum(CASE WHEN s = 'A' THEN k ELSE 0 END)",
    "last(x), first(k, ts)",
    "array_agg(n ORDER BY n)",
    "median(k), stddev(x), count(x) FILTER (WHERE k % 2 = 0), max(w) FILTER (WHERE x > 20)",
    "vwap(x, k), bool_or(k > 0), bit_xor(n), min(w), approx_distinct(w)",
];

/// Rows in no order, doubles but for their last digits.
fn assert_alike(ours: Vec<Vec<String>>, theirs: Vec<Vec<String>>, about: &str) {
    let sorted = |mut rows: Vec<Vec<String>>| {
        rows.sort();
        rows
    };
    let (ours, theirs) = (sorted(ours), sorted(theirs));
    let alike = ours.len() == theirs.len()
        && ours.iter().flatten().zip(theirs.iter().flatten()).all(|(ours, theirs)| same(ours, theirs));
    assert!(alike, "{about}\n{ours:?}\n{theirs:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn equals_the_other_groups(
        commits in any_commits(), rows in prop::sample::select(&ROWS[..]), keys in prop::sample::select(&KEYS[..]),
        aggregates in prop::sample::select(&AGGREGATES[..]), having in any::<bool>(),
    ) {
        let database = database(&commits, false);
        let shown = if keys.contains('(') && !keys.starts_with("upper") { "s" } else { keys };
        let having = if having { format!("HAVING {} <> 'B' OR count(*) > 1", &shown[..1]) } else { String::new() };
        let having = if keys.starts_with("upper") { having.replace("u <>", "upper(s) <>") } else { having };
        let sql = format!("SELECT {shown}, {aggregates} FROM {rows} GROUP BY {keys} {having}");
        let text = plan(&database, &sql);
        assert_alike(run(&database, &sql), run_plainly(&database, &sql), &format!("{sql}\n{text}"));
    }

    #[test]
    fn equals_the_other_distinct_values(commits in any_commits(), rows in prop::sample::select(&ROWS[..])) {
        let database = database(&commits, false);
        for sql in [
            format!("SELECT DISTINCT s FROM {rows}"),
            format!("SELECT DISTINCT v, s, k FROM {rows}"),
            format!("SELECT s, v FROM {rows} UNION SELECT v, s FROM t"),
            format!("SELECT s FROM {rows} INTERSECT SELECT v FROM t"),
            format!("SELECT count(DISTINCT s), count(DISTINCT v) FROM {rows}"),
            format!("SELECT a.s, a.c, b.c FROM (SELECT s, count(*) AS c FROM {rows} GROUP BY s) a \
                     FULL JOIN (SELECT v, sum(k) AS c FROM t GROUP BY v) b ON a.s = b.v"),
        ] {
            assert_alike(run(&database, &sql), run_plainly(&database, &sql), &sql);
        }
    }

    #[test]
    fn equal_symbols_have_one_number(
        parts in prop::collection::vec((prop::collection::vec(prop::option::of("[a-d]{0,2}"), 1..6),
                                        prop::collection::vec(prop::option::of(0_u32..6), 0..40)), 0..100),
    ) {
        let ids = ids(usize::MAX);
        let mut seen: Vec<Option<String>> = Vec::new();
        for (texts, keys) in parts {
            let keys: UInt32Array = keys.into_iter().map(|key| key.map(|key| key % texts.len() as u32)).collect();
            let texts = Arc::new(StringArray::from(texts));
            let symbols = DictionaryArray::<UInt32Type>::new(keys, texts);
            let numbers = ids.of(&symbols).unwrap();
            let back = ids.symbols(&numbers).unwrap();
            let (given, back) = (text_of(&symbols), text_of(back.as_dictionary()));
            prop_assert_eq!(&given, &back);
            for (text, number) in given.iter().zip(&numbers) {
                prop_assert_eq!(text.is_none(), number.is_none());
                let Some(number) = number.map(|number| number as usize) else { continue };
                seen.resize(seen.len().max(number + 1), None);
                let known = seen[number].get_or_insert_with(|| text.clone().unwrap());
                prop_assert_eq!(Some(&*known), text.as_ref());
            }
        }
    }
}

fn ids(bytes: usize) -> SymbolIds {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
    SymbolIds::new(MemoryConsumer::new("symbols").register(&pool))
}

fn text_of(symbols: &DictionaryArray<UInt32Type>) -> Vec<Option<String>> {
    let typed = symbols.downcast_dict::<StringArray>().unwrap();
    typed.into_iter().map(|text| text.map(str::to_string)).collect()
}

#[test]
fn what_is_grouped_so() {
    let database = database(&[(vec![(1, Some("A"), Some(1.0), Some(1), None)], true)], false);
    for (sql, so) in [
        ("SELECT s, count(*) FROM t GROUP BY s, k", true),
        ("SELECT s, count(*) FROM (SELECT * FROM t UNION ALL SELECT * FROM t) GROUP BY s", true),
        ("SELECT DISTINCT s, k FROM t", true),
        // Their rows are known by the index.
        ("SELECT s, count(*) FROM t GROUP BY s", false),
        // The first values that are met do.
        ("SELECT DISTINCT s, k FROM t LIMIT 2", false),
        ("SELECT k, count(*) FROM t GROUP BY k", false),
        ("SELECT upper(s), count(*) FROM t GROUP BY upper(s)", false),
    ] {
        let text = plan(&database, sql);
        assert_eq!(text.contains("SymbolsExec"), so, "{sql}\n{text}");
        assert_eq!(text.contains("PartialGroupsExec"), so, "{sql}\n{text}");
    }
    // The order of rows counts.
    let text = plan(&database, "SELECT s, k, array_agg(n ORDER BY n) FROM t GROUP BY s, k");
    assert!(text.contains("SymbolsExec") && !text.contains("PartialGroupsExec"), "{text}");
}

#[test]
fn a_plan_that_is_kept_numbers_anew() {
    let rows: Vec<_> =
        (0..40).map(|at| (at, Some(["A", "B"][at as usize % 2]), None, Some(at), None)).collect();
    let database = database(&[(rows, true)], false);
    let mut session = database.session();
    for least in 0..6 {
        let sql = format!("SELECT s, k * 0, count(*) FROM t WHERE k >= {least} GROUP BY s, k * 0 ORDER BY s");
        let rows = run_in(&mut session, &database, &sql);
        let counts: Vec<String> = rows.iter().map(|row| format!("{}{}", row[0], row[2])).collect();
        assert_eq!(counts, [format!("A{}", (40 - least) / 2), format!("B{}", (41 - least) / 2)], "{sql}");
    }
}

#[test]
fn numbers_stay_while_an_output_has_them() {
    let slot = Slot::default();
    let (first, again) = (slot.join(|| ids(1 << 20)), slot.join(|| unreachable!("they are there")));
    assert!(Arc::ptr_eq(&first, &again));
    drop((first, again));
    let mut begun = false;
    slot.join(|| {
        begun = true;
        ids(1 << 20)
    });
    assert!(begun);
}

#[test]
fn symbols_claim_memory() {
    let ids = ids(4_096);
    let texts = Arc::new((0..100).map(|at| Some(format!("{at:0>100}"))).collect::<StringArray>());
    let symbols = DictionaryArray::<UInt32Type>::new((0..100).collect(), texts);
    let error = ids.of(&symbols).unwrap_err().to_string();
    assert!(error.contains("symbols"), "{error}");
    let rows: Vec<_> = (0..40).map(|at| (at, Some("A"), None, Some(at), None)).collect();
    let database = database_with(&[(rows, true)], false, Some(64 << 20));
    assert_eq!(run(&database, "SELECT s, count(*) FROM t GROUP BY s, k % 1"), [["A", "40"]]);
}
