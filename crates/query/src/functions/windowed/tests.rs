use super::ranks::Ranks;
use crate::{Database, DatabaseOptions};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Float64Type;
use proptest::prelude::*;

/// A value that comes, or one that goes: that of this place of those that are there.
type Change = (f64, Option<prop::sample::Index>);

proptest! {
    #[test]
    fn ranks_are_those_of_a_sorted_list(
        changes in prop::collection::vec((-40_i32..40, proptest::option::of(any::<prop::sample::Index>())), 0..1500),
        spread in 1_i32..50,
        distinct in any::<bool>(),
    ) {
        let changes: Vec<Change> = changes.into_iter().enumerate()
            .map(|(at, (value, goes))| (f64::from(value * spread + (at % 7) as i32), goes)).collect();
        let (mut ranks, mut held) = (Ranks::new(distinct), Vec::new());
        for (value, goes) in changes {
            match goes.filter(|_| !held.is_empty()) {
                Some(goes) => prop_assert!(ranks.remove(held.swap_remove(goes.index(held.len())))),
                None => {
                    ranks.insert(value);
                    held.push(value);
                }
            }
        }
        prop_assert!(!ranks.remove(0.5));
        let mut sorted = held.clone();
        sorted.sort_by(f64::total_cmp);
        if distinct {
            sorted.dedup();
        }
        prop_assert_eq!(ranks.len(), sorted.len() as u64);
        prop_assert_eq!(ranks.is_empty(), sorted.is_empty());
        let found: Vec<Option<f64>> = (0..=ranks.len()).map(|rank| ranks.at(rank)).collect();
        let wanted: Vec<Option<f64>> = sorted.into_iter().map(Some).chain([None]).collect();
        prop_assert_eq!(found, wanted);
        held.into_iter().for_each(|value| assert!(ranks.remove(value)));
        prop_assert!(ranks.is_empty() && ranks.at(0).is_none());
    }
}

/// What is asked of frames, and whether the answers are the same to the last digit. Of `f` all values are finite.
const CALLS: [(&str, bool); 38] = [
    ("median({v})", true),
    ("median(DISTINCT {v})", true),
    ("median({c})", true),
    ("median({s})", true),
    ("median({d})", true),
    ("quantile_cont({v}, 0.3)", true),
    ("quantile_cont({f}, 0.9)", true),
    ("quantile_cont({s}, 0.25)", true),
    ("quantile_cont(DISTINCT {v}, 0.6)", true),
    ("quantile_cont({v}, 0.5)", true),
    ("sum(DISTINCT {v})", false),
    ("avg(DISTINCT {v})", false),
    ("count(DISTINCT {v})", true),
    ("var(DISTINCT {f})", false),
    ("var_pop(DISTINCT {f})", false),
    ("sum(DISTINCT {c})", true),
    ("avg(DISTINCT {c})", true),
    ("sum(DISTINCT {i})", true),
    ("avg(DISTINCT {i})", true),
    ("sum({v})", false),
    ("avg({v})", false),
    ("sum({s})", false),
    ("var({f})", false),
    ("stddev_pop({f})", false),
    ("skewness({f})", false),
    ("kurtosis({f})", false),
    ("vwap({f}, {i})", false),
    ("vwap({v}, {i})", false),
    ("corr({f}, {i})", false),
    ("covar_samp({f}, {i})", false),
    ("covar_pop({f}, {i})", false),
    ("regr_slope({f}, {i})", false),
    ("regr_intercept({f}, {i})", false),
    ("regr_r2({f}, {i})", false),
    ("regr_avgx({f}, {i})", false),
    ("regr_avgy({v}, {i})", false),
    ("regr_sxy({f}, {i})", false),
    ("regr_sxx({f}, {i}) - regr_syy({f}, {i})", false),
];

/// The call for columns of this table, over a frame, as a number.
fn of_table(call: &str, table: &str, over: &str) -> String {
    let named = call.replace('{', &format!("{table}.")).replace('}', "");
    let named = named.split(" - ").map(|call| call.to_string() + over).collect::<Vec<_>>().join(" - ");
    if call.contains("{d}") { format!("({named})::BIGINT") } else { named }
}

/// A row: how far its key is from the one before, and what its values are made of.
type Row = (i64, Option<i64>, Option<i64>);

fn table(rows: &[Row]) -> String {
    let mut key = 0;
    let rows = rows.iter().enumerate().map(|(place, (step, value, other))| {
        key += step;
        let number = |of: Option<i64>| of.map_or("NULL".to_string(), |of| of.to_string());
        let (finite, whole) = (value.map(|of| of % 5), number(*other));
        let v = match value {
            Some(17) => "'NaN'::DOUBLE".to_string(),
            Some(18) => "0.0::DOUBLE / -1".to_string(),
            Some(19) => "'inf'::DOUBLE".to_string(),
            _ => format!("{}::DOUBLE / 4", number(*value)),
        };
        let f = number(finite);
        format!(
            "({key}, {place}, {v}, {f}::DOUBLE / 3, {whole}::DECIMAL(12, 3), ({whole}::DOUBLE / 7)::REAL, \
             to_timestamp({whole}) - to_timestamp(2), {whole}::BIGINT)"
        )
    });
    format!("(VALUES {}) AS t(k, n, v, f, c, s, d, i)", rows.collect::<Vec<_>>().join(", "))
}

fn bound(at: Option<i64>, open: &str) -> String {
    match at {
        None => format!("UNBOUNDED {open}"),
        Some(0) => "CURRENT ROW".to_string(),
        Some(rows) if rows < 0 => format!("{} PRECEDING", -rows),
        Some(rows) => format!("{rows} FOLLOWING"),
    }
}

fn answers(rows: &[Row], asked: &str) -> Vec<Vec<Option<f64>>> {
    let database = Database::in_memory(DatabaseOptions::default()).unwrap();
    let mut session = database.session();
    let columns: Vec<String> =
        (0..CALLS.len()).map(|at| format!("CASE WHEN x{at} = 0 THEN 0 ELSE x{at} END::DOUBLE")).collect();
    let sql = format!("SELECT {} FROM ({asked}) ORDER BY n", columns.join(", "));
    let run = async {
        session.query("SET datafusion.execution.batch_size = 3").await?;
        session.query(&format!("CREATE VIEW t AS SELECT * FROM {}", table(rows))).await?;
        session.query(&sql).await
    };
    let batches = database.runtime().block_on(run).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let column = |at: usize| {
        batches.iter().flat_map(move |batch| batch.column(at).as_primitive::<Float64Type>().iter()).collect()
    };
    (0..CALLS.len()).map(column).collect()
}

fn same(a: Option<f64>, b: Option<f64>, exact: bool) -> bool {
    match (a, b) {
        (Some(a), Some(b)) if exact => a == b || (a.is_nan() && b.is_nan()),
        (Some(a), Some(b)) => {
            a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-9 * a.abs().max(1.0)
        }
        (a, b) => a.is_none() && b.is_none(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// As aggregates of the rows that a join finds for each.
    #[test]
    fn frames_are_groups(
        rows in prop::collection::vec(
            (1_i64..4, proptest::option::weighted(0.8, 0_i64..20), proptest::option::weighted(0.9, -6_i64..9)), 1..25),
        by_range in any::<bool>(),
        from in proptest::option::of(-5_i64..=5),
        to in proptest::option::of(-5_i64..=5),
    ) {
        let (from, to) = match (from, to) {
            (Some(a), Some(b)) => (Some(a.min(b)), Some(a.max(b))),
            open => open,
        };
        let (unit, by) = if by_range { ("RANGE", "k") } else { ("ROWS", "n") };
        let frame = format!("{unit} BETWEEN {} AND {}", bound(from, "PRECEDING"), bound(to, "FOLLOWING"));
        let calls = |each: &dyn Fn(&str) -> String| {
            let calls = CALLS.iter().enumerate();
            calls.map(|(at, (call, _))| format!("{} AS x{at}", each(call))).collect::<Vec<_>>().join(", ")
        };
        let over = format!(" OVER (ORDER BY {by} {frame})");
        let asked = format!("SELECT n, {} FROM t", calls(&|call| of_table(call, "t", &over)));
        let edge = |at: Option<i64>, sign: &str| {
            at.map_or("TRUE".to_string(), |at| format!("y.{by} {sign} x.{by} + ({at})"))
        };
        let join = format!("{} AND {}", edge(from, ">="), edge(to, "<="));
        let naive = format!(
            "SELECT x.n AS n, {} FROM t x LEFT JOIN t y ON {join} GROUP BY x.n",
            calls(&|call| of_table(call, "y", ""))
        );
        let (found, wanted) = (answers(&rows, &asked), answers(&rows, &naive));
        for (at, (call, exact)) in CALLS.iter().enumerate() {
            for (row, (found, wanted)) in found[at].iter().zip(&wanted[at]).enumerate() {
                prop_assert!(same(*found, *wanted, *exact), "{call}, row {row}: {found:?}, not {wanted:?}; {frame}");
            }
        }
    }
}

fn doubles(sql: &str) -> Vec<Option<f64>> {
    let database = Database::in_memory(DatabaseOptions::default()).unwrap();
    let mut session = database.session();
    let batches = database.runtime().block_on(session.query(sql)).unwrap();
    batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Float64Type>().iter()).collect()
}

/// Nothing is left of a row that has gone: of an outlier no digits, of a NaN or an infinity no NaN.
#[test]
fn rows_that_have_gone_leave_nothing() {
    let gone = |call: &str| {
        doubles(&format!(
            "SELECT {call} OVER (ORDER BY n ROWS 2 PRECEDING)::DOUBLE FROM (VALUES (1, 1e200, 3.0), \
             (2, 1e-3, 'NaN'::DOUBLE), (3, 'inf'::DOUBLE, -1e300), (4, 0.25, 0.5), (5, 0.5, 1.0), (6, 1.0, 2.0)) AS t(n, x, y) \
             ORDER BY n"
        ))[5]
    };
    for (call, wanted) in [
        ("sum(x)", 1.75),
        ("avg(y)", 3.5 / 3.0),
        ("vwap(x, y)", 2.625 / 3.5),
        ("corr(x, y)", 1.0),
        ("covar_pop(y, x)", 7.0 / 36.0),
        ("covar_samp(y, x)", 7.0 / 24.0),
        ("regr_slope(y, x)", 2.0),
        ("regr_intercept(y, x)", 0.0),
        ("regr_r2(y, x)", 1.0),
        ("regr_avgx(y, x)", 1.75 / 3.0),
        ("regr_sxx(y, x)", 7.0 / 24.0),
        ("regr_sxy(y, x)", 7.0 / 12.0),
        ("stddev_pop(x)", (7.0_f64 / 72.0).sqrt()),
        ("skewness(x)", 0.935_219_529_582_825),
    ] {
        assert!(same(gone(call), Some(wanted), false), "{call}: {:?}, not {wanted}", gone(call));
    }
}

#[test]
fn the_mode_of_a_growing_frame() {
    let found = doubles(
        "SELECT mode(v) OVER (ORDER BY n)::DOUBLE FROM \
         (VALUES (1, NULL), (2, 5.0), (3, 7.0), (4, 3.0), (5, 7.0), (6, 3.0)) AS t(n, v) ORDER BY n",
    );
    assert_eq!(found, [None, Some(5.0), Some(5.0), Some(3.0), Some(7.0), Some(3.0)]);
}

/// In groups with other aggregates DataFusion's `bit_xor` takes every value.
#[test]
fn different_bits_of_a_moving_frame() {
    let found = doubles(
        "SELECT bit_xor(DISTINCT v) OVER (ORDER BY n ROWS 2 PRECEDING)::DOUBLE FROM \
         (VALUES (1, NULL), (2, 5), (3, 3), (4, 5), (5, 6), (6, 6)) AS t(n, v) ORDER BY n",
    );
    assert_eq!(found, [None, Some(5.0), Some(6.0), Some(6.0), Some(0.0), Some(3.0)]);
}

/// The least of all counts a NaN as the largest number.
#[test]
fn ends_of_a_moving_frame() {
    let ends = |part: &str| {
        doubles(&format!(
            "SELECT quantile_cont(v, {part}) OVER (ORDER BY n ROWS 1 PRECEDING) FROM \
             (VALUES (1, 2.0::DOUBLE), (2, 'NaN'::DOUBLE), (3, 1.5), (4, -4.0)) AS t(n, v) ORDER BY n"
        ))
    };
    assert_eq!(ends("0.0"), [Some(2.0), Some(2.0), Some(1.5), Some(-4.0)]);
    let most: Vec<f64> = ends("1.0").into_iter().flatten().collect();
    assert!(most[0] == 2.0 && most[1].is_nan() && most[2].is_nan() && most[3] == 1.5, "{most:?}");
}
