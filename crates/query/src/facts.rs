//! What planning must know of functions and of nodes of physical plans, beside what DataFusion says of them: declared
//! once, here, by name.
//!
//! A test fails for a function of a session, and for a node of ours or of a plan that a test makes, which declares
//! nothing. What an expression keeps of the order of what it reads is declared here, too: DataFusion's own claims hold
//! only where these agree (`operators::claims`).

use datafusion::arrow::datatypes::{DataType, TimeUnit};

/// An aggregate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Aggregate {
    name: &'static str,
    heeds_distinct: bool,
    any_order: bool,
    in_statistics: bool,
    /// How many arguments it has where its time, which it goes by, is not written.
    untimed: Option<usize>,
}

impl Aggregate {
    const fn new(name: &'static str) -> Self {
        Self { name, heeds_distinct: false, any_order: false, in_statistics: false, untimed: None }
    }

    /// It takes each value once with DISTINCT, or gives the same with and without.
    const fn distinct(self) -> Self {
        Self { heeds_distinct: true, ..self }
    }

    /// Its value does not depend on the order of rows, but for rounding.
    const fn any_order(self) -> Self {
        Self { any_order: true, ..self }
    }

    /// Statistics of a table answer it over all rows, and a plan reads none of them then.
    const fn in_statistics(self) -> Self {
        Self { in_statistics: true, ..self }
    }

    /// It goes by time, which follows so many arguments.
    const fn by_time_after(self, arguments: usize) -> Self {
        Self { untimed: Some(arguments), ..self }
    }
}

const fn of(name: &'static str) -> Aggregate {
    Aggregate::new(name)
}

/// All aggregates of a session.
const AGGREGATES: &[Aggregate] = &[
    of("any_value"),
    of("approx_distinct").distinct().any_order(),
    of("approx_median").distinct().any_order(),
    of("approx_percentile_cont").any_order(),
    of("approx_percentile_cont_with_weight"),
    of("arg_max"),
    of("arg_min"),
    of("array_agg").distinct(),
    of("avg").distinct().any_order(),
    of("bit_and").distinct().any_order(),
    of("bit_or").distinct().any_order(),
    of("bit_xor").distinct().any_order(),
    of("bool_and").distinct().any_order(),
    of("bool_or").distinct().any_order(),
    of("candle").by_time_after(2),
    of("corr").any_order(),
    of("count").distinct().any_order().in_statistics(),
    of("count_distinct").distinct(),
    of("covar_pop").any_order(),
    of("covar_samp").any_order(),
    of("entropy").any_order(),
    of("first").by_time_after(1),
    of("first_not_null").by_time_after(1),
    of("first_value"),
    of("grouping"),
    of("histogram").any_order(),
    of("ksum"),
    of("kurtosis"),
    of("last").by_time_after(1),
    of("last_not_null").by_time_after(1),
    of("last_value"),
    of("mad").any_order(),
    of("max").distinct().any_order().in_statistics(),
    of("median").distinct().any_order(),
    of("min").distinct().any_order().in_statistics(),
    of("mode").any_order(),
    of("nth_value"),
    of("ohlc").by_time_after(1),
    of("percentile_cont").distinct().any_order(),
    of("product").any_order(),
    of("quantile_disc").any_order(),
    of("realized_vol").by_time_after(1),
    of("regr_avgx"),
    of("regr_avgy"),
    of("regr_count"),
    of("regr_intercept"),
    of("regr_r2"),
    of("regr_slope"),
    of("regr_sxx"),
    of("regr_sxy"),
    of("regr_syy"),
    of("skewness"),
    of("stddev").distinct().any_order(),
    of("stddev_pop").distinct().any_order(),
    of("string_agg").distinct(),
    of("sum").distinct().any_order(),
    of("twap"),
    of("var").distinct().any_order(),
    of("var_pop").distinct().any_order(),
    of("vwap").any_order(),
];

/// Functions that only windows have, and whether they heed IGNORE NULLS.
const WINDOWS: &[(&str, bool)] = &[
    ("atr", false),
    ("bollinger", false),
    ("cume_dist", false),
    ("delta", false),
    ("dense_rank", false),
    ("drawdown", false),
    ("ema", false),
    ("fills", false),
    ("lag", true),
    ("lead", true),
    ("log_return", false),
    ("macd", false),
    ("ntile", false),
    ("obv", false),
    ("percent_rank", false),
    ("prev", false),
    ("rank", false),
    ("ratio", false),
    ("row_number", false),
    ("rsi", false),
    ("simple_return", false),
    ("vpin", false),
];

/// Functions that are aggregates, too, and heed IGNORE NULLS in windows.
const NULLS_IN_WINDOWS: &[&str] = &["first_value", "last_value", "nth_value"];

fn aggregate(name: &str) -> Option<&'static Aggregate> {
    AGGREGATES.iter().find(|of| of.name == name)
}

/// Whether an aggregate takes each value once with DISTINCT, or gives the same with and without.
pub(crate) fn heeds_distinct(name: &str) -> bool {
    aggregate(name).is_some_and(|of| of.heeds_distinct)
}

/// Whether the value of an aggregate does not depend on the order of rows, but for rounding.
pub(crate) fn takes_any_order(name: &str) -> bool {
    aggregate(name).is_some_and(|of| of.any_order)
}

/// Whether statistics of a table answer an aggregate over all its rows, and a plan reads none of them then.
pub(crate) fn is_in_statistics(name: &str) -> bool {
    aggregate(name).is_some_and(|of| of.in_statistics)
}

/// How many arguments an aggregate that goes by time has when its time is not written.
pub(crate) fn untimed_arguments(name: &str) -> Option<usize> {
    aggregate(name)?.untimed
}

/// Whether only windows have a function, which is no aggregate; the name in any case.
pub(crate) fn is_of_windows(name: &str) -> bool {
    WINDOWS.iter().any(|(of, _)| name.eq_ignore_ascii_case(of))
}

/// Whether a function of windows heeds IGNORE NULLS.
pub(crate) fn heeds_nulls(name: &str) -> bool {
    WINDOWS.contains(&(name, true)) || NULLS_IN_WINDOWS.contains(&name)
}

/// Functions of one row that give values in the order of one argument where the others are constants, and NULL for NULL;
/// and whether they do so of times with a zone, too.
const ORDERED: &[(&str, bool)] = &[
    ("ceil", true),
    ("date_bin", false),
    ("date_trunc", false),
    ("floor", true),
    // Ours: the one NaN, which comes last, and the one zero.
    ("one_nan", true),
    ("one_zero", true),
    ("round", true),
    ("time_bucket", true),
    ("trunc", true),
];

/// Whether a function of arguments of these types keeps order. Of one that is not declared, nothing is believed.
pub(crate) fn keeps_order<'a>(name: &str, mut arguments: impl Iterator<Item = &'a DataType>) -> bool {
    let declared = ORDERED.iter().find(|(of, _)| *of == name);
    declared.is_some_and(|(_, zoned)| *zoned || arguments.all(|of| !is_zoned(of)))
}

/// The functions of which that is declared.
#[cfg(test)]
pub(crate) fn ordered_functions() -> impl Iterator<Item = &'static str> {
    ORDERED.iter().map(|(name, _)| *name)
}

/// Whether values come in the order of those they are cast from, NULL for NULL. Of a cast that is not declared, nothing is
/// believed.
pub(crate) fn cast_keeps_order(from: &DataType, to: &DataType) -> bool {
    use DataType::{Boolean, Date32, Duration, Time32, Time64, Timestamp};
    match (from, to) {
        (from, to) if from == to => true,
        (Boolean, to) => to.is_integer(),
        // The days of coarser times do not fit a date.
        (Timestamp(TimeUnit::Nanosecond | TimeUnit::Microsecond, _), Date32) => !is_zoned(from),
        (Date32 | Timestamp(..), Timestamp(..)) => !is_zoned(from) && !is_zoned(to),
        (Time32(_) | Time64(_), Time32(_) | Time64(_)) | (Duration(_), Duration(_)) => true,
        (from, to) => from.is_numeric() && to.is_numeric() || is_text(from) && is_text(to),
    }
}

/// Whether different values are cast to different ones, all in the same order: where the values of such a cast are one, so
/// are those that it casts.
pub(crate) fn cast_tells_apart(from: &DataType, to: &DataType) -> bool {
    use DataType::{
        Float32, Float64, Int8, Int16, Int32, Int64, LargeUtf8, UInt8, UInt16, UInt32, UInt64, Utf8,
    };
    match (from, to) {
        (from, to) if from == to => true,
        (Int8, Int16 | Int32 | Int64) | (Int16, Int32 | Int64) | (Int32, Int64) => true,
        (UInt8, UInt16 | UInt32 | UInt64) | (UInt16, UInt32 | UInt64) | (UInt32, UInt64) => true,
        (Int8 | Int16 | UInt8 | UInt16, Float32 | Float64) | (Int32 | UInt32 | Float32, Float64) => true,
        _ => matches!((from, to), (Utf8, LargeUtf8)),
    }
}

/// Whether times are counted in a zone whose clocks may go back.
fn is_zoned(data_type: &DataType) -> bool {
    let DataType::Timestamp(_, Some(zone)) = data_type else { return false };
    !["UTC", "+00:00", "Z"].contains(&zone.as_ref())
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_text(values),
        other => matches!(other, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View),
    }
}

/// Whether the plan of a node is kept for a statement that comes again with other literals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// It does not depend on how many rows there are.
    Yes,
    /// It is planned by how many rows there are, which matters little where they are few: in narrow plans.
    Narrow,
    No,
}

/// A node of a physical plan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node {
    name: &'static str,
    kept: Kept,
    /// It may yield any number of batches for one it reads, or after the last, or reads a table in its scan's stead: it
    /// must look whether its statement is wanted.
    tireless: bool,
}

impl Node {
    /// Whether its plan is kept for a statement that comes again with other literals, among nodes for many rows where
    /// these are `wide`.
    pub(crate) fn is_kept(&self, wide: bool) -> bool {
        self.kept == Kept::Yes || self.is_narrow() && !wide
    }

    /// Whether its plan is one for few rows and none for many.
    pub(crate) fn is_narrow(&self) -> bool {
        self.kept == Kept::Narrow
    }

    /// Whether it must be made to look whether its statement is wanted.
    pub(crate) fn is_tireless(&self) -> bool {
        self.tireless
    }
}

const fn kept(name: &'static str) -> Node {
    Node { name, kept: Kept::Yes, tireless: false }
}

const fn passing(name: &'static str) -> Node {
    Node { name, kept: Kept::No, tireless: false }
}

const fn tireless(node: Node) -> Node {
    Node { tireless: true, ..node }
}

/// Our nodes, then DataFusion's.
const NODES: &[Node] = &[
    tireless(kept("AsOfJoinExec")),
    kept("BarrierExec"),
    kept("BarsExec"),
    passing("CommonRowsExec"),
    tireless(kept("FillExec")),
    passing("FilesExec"),
    passing("FrameExec"),
    kept("GiveWayExec"),
    kept("GroupByExec"),
    kept("LateColumnsExec"),
    kept("LatestOnExec"),
    tireless(kept("NbboExec")),
    kept("NumberedExec"),
    passing("OnceExec"),
    kept("PacedExec"),
    tireless(kept("PairGroupsExec")),
    tireless(kept("PartialGroupsExec")),
    tireless(kept("PartitionAggregatesExec")),
    kept("PiecesExec"),
    tireless(kept("RadixSortExec")),
    kept("SampleByExec"),
    kept("ScanExec"),
    tireless(kept("SeriesJoinExec")),
    tireless(kept("SeriesWindowExec")),
    tireless(kept("SortedWindowExec")),
    kept("SymbolsExec"),
    tireless(kept("AggregateExec")),
    passing("AnalyzeExec"),
    tireless(kept("BoundedWindowAggExec")),
    kept("BufferExec"),
    kept("CoalesceBatchesExec"),
    kept("CoalescePartitionsExec"),
    kept("CooperativeExec"),
    tireless(passing("CrossJoinExec")),
    passing("DataSourceExec"),
    passing("EmptyExec"),
    passing("ExplainExec"),
    kept("FilterExec"),
    kept("GlobalLimitExec"),
    tireless(Node { name: "HashJoinExec", kept: Kept::Narrow, tireless: false }),
    passing("InterleaveExec"),
    passing("LazyMemoryExec"),
    kept("LocalLimitExec"),
    tireless(passing("NestedLoopJoinExec")),
    tireless(passing("PiecewiseMergeJoinExec")),
    passing("PlaceholderRowExec"),
    kept("ProjectionExec"),
    passing("RecursiveQueryExec"),
    kept("RepartitionExec"),
    passing("ScalarSubqueryExec"),
    tireless(kept("SortExec")),
    kept("SortExec(TopK)"),
    tireless(passing("SortMergeJoinExec")),
    tireless(kept("SortPreservingMergeExec")),
    kept("StreamingTableExec"),
    passing("SymmetricHashJoinExec"),
    kept("UnionExec"),
    tireless(kept("UnnestExec")),
    tireless(kept("WindowAggExec")),
    passing("WorkTableExec"),
];

/// What is declared of a node; `None` where nothing is: its plan is not kept, and it is left alone.
pub(crate) fn node(name: &str) -> Option<&'static Node> {
    let found = NODES.iter().find(|of| of.name == name);
    #[cfg(test)]
    assert!(found.is_some(), "facts.rs declares nothing of {name}");
    found
}

#[cfg(test)]
mod tests;
