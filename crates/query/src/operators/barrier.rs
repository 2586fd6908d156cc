//! [`Barrier`]: what a statement works out stays above the condition of a grant, so that it meets no row which its user may
//! not read.
//!
//! A condition of the statement and that of a grant could be worked out in any order, on any rows: `CAST(note AS INT) = 1`
//! on a row that the grant leaves out fails with an error that quotes it. As with PostgreSQL's security barriers, what
//! cannot fail ([`is_leakproof`]) goes below all the same, so that scans select by it; the rest stays above.
//!
//! ```text
//! raised (before rules) -> CarryDown: leakproof conditions go below -> Lowered: gone where nothing else is above
//!                       -> BarrierExec
//! ```
//!
//! A barrier stands in each query of a grant or a view, whose end is told by a name that no user can write, below what
//! sorts its rows at the end. What the query itself works out may fail, too: its barrier *hushes* then. Who reads may not
//! read the row, and is told that one fails, without its values.

use super::node::{Exprs, Node, node};
use crate::dialect::own_of_rightful;
use crate::error::{ErrorKind, QueryError, SqlState};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DFSchemaRef, DataFusionError, Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Distinct, DistinctOn, Expr, ExprSchemable, Extension, Filter, LogicalPlan, Operator,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::TryStreamExt;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// The rows of an input, which nothing that may fail is worked out below.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Barrier {
    input: LogicalPlan,
    /// Whether errors of values below are told without them.
    hushes: bool,
    /// Whether rows come in the order that they have below.
    keeps_order: bool,
}

node!(Barrier);

impl Node<1> for Barrier {
    fn sources(&self) -> [&LogicalPlan; 1] {
        [&self.input]
    }

    fn output(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn exprs(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Barrier")
    }

    fn over(&self, _exprs: Exprs, [input]: [LogicalPlan; 1]) -> Result<Self> {
        Ok(Self { input, ..*self })
    }

    fn reads(&self, output: &[usize]) -> [Vec<usize>; 1] {
        [output.to_vec()]
    }
}

impl Barrier {
    fn above(input: LogicalPlan, hushes: bool, keeps_order: bool) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(Self { input, hushes, keeps_order }) })
    }

    /// The operator that it becomes.
    pub(super) fn lowered(&self, input: Arc<dyn ExecutionPlan>) -> BarrierExec {
        BarrierExec { input, hushes: self.hushes, keeps_order: self.keeps_order }
    }

    fn of(plan: &LogicalPlan) -> Option<&Self> {
        let LogicalPlan::Extension(extension) = plan else { return None };
        extension.node.as_any().downcast_ref::<Self>()
    }
}

/// A plan with a barrier around each query of a grant, or of a view, that reads by its rights. `None` where there is none.
pub(crate) fn raised(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    if !reads_by_right(plan)? {
        return Ok(None);
    }
    let raise = |node: LogicalPlan| match &node {
        LogicalPlan::SubqueryAlias(named)
            if own_of_rightful(named.alias.table()).is_some() && reads_by_right(&named.input)? =>
        {
            let query = named.input.as_ref();
            let mut input = within(query.clone())?;
            // What sorts rows may fail, too, or leave some out: the order goes on through this one.
            let hushes = sorts_may_fail(query);
            if hushes || picks(query) {
                input = Barrier::above(input, hushes, true);
            }
            Ok(Transformed::yes(node.with_new_exprs(Vec::new(), vec![input])?))
        }
        _ => Ok(Transformed::no(node)),
    };
    Ok(Some(plan.clone().transform_up_with_subqueries(raise)?.data))
}

/// Whether a plan scans such a table.
fn is_scan_by_right(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::TableScan(scan) if own_of_rightful(scan.table_name.table()).is_some())
}

/// The query of a grant or a view with a barrier in it. What sorts its rows stays above, and its last columns: nobody needs
/// an order below a barrier, so that a sort there would go.
fn within(query: LogicalPlan) -> Result<LogicalPlan> {
    match query {
        LogicalPlan::Projection(_) | LogicalPlan::Sort(_) if sorts(&query) => {
            let input = within(query.inputs()[0].clone())?;
            query.with_new_exprs(query.expressions(), vec![input])
        }
        LogicalPlan::Distinct(Distinct::On(of)) => {
            let input = Arc::new(within(of.input.as_ref().clone())?);
            Ok(LogicalPlan::Distinct(Distinct::On(DistinctOn { input, ..of })))
        }
        query => {
            let (hushes, keeps_order) = (may_fail(&query)?, is_ordered(&query));
            Ok(Barrier::above(query, hushes, keeps_order))
        }
    }
}

/// Whether a query ends with a sort, whatever columns it takes then.
fn sorts(query: &LogicalPlan) -> bool {
    match query {
        LogicalPlan::Sort(_) | LogicalPlan::Distinct(Distinct::On(_)) => true,
        LogicalPlan::Projection(of) => sorts(&of.input),
        _ => false,
    }
}

/// Whether rows have the order of a sort further down, with nothing between but what no sort is carried through.
fn is_ordered(query: &LogicalPlan) -> bool {
    match query {
        LogicalPlan::Filter(of) => is_ordered(&of.input),
        LogicalPlan::Limit(of) => is_ordered(&of.input),
        LogicalPlan::SubqueryAlias(of) => is_ordered(&of.input),
        LogicalPlan::Projection(of) => is_ordered(&of.input),
        LogicalPlan::Extension(_) => Barrier::of(query).is_some_and(|barrier| is_ordered(&barrier.input)),
        _ => sorts(query),
    }
}

/// Whether a query ends with DISTINCT ON, which sorts and leaves out.
fn picks(query: &LogicalPlan) -> bool {
    match query {
        LogicalPlan::Distinct(Distinct::On(_)) => true,
        LogicalPlan::Sort(of) => picks(&of.input),
        LogicalPlan::Projection(of) => picks(&of.input),
        _ => false,
    }
}

/// Whether such a sort, or what is made of its rows, may fail.
fn sorts_may_fail(query: &LogicalPlan) -> bool {
    match query {
        _ if !sorts(query) => false,
        LogicalPlan::Projection(of) => {
            of.expr.iter().any(|expr| !is_leakproof(expr, of.input.schema())) || sorts_may_fail(&of.input)
        }
        LogicalPlan::Sort(of) => {
            of.expr.iter().any(|key| !is_leakproof(&key.expr, of.input.schema())) || sorts_may_fail(&of.input)
        }
        LogicalPlan::Distinct(Distinct::On(of)) => {
            let keys = of.sort_expr.iter().flatten().map(|key| &key.expr);
            let mut exprs = of.on_expr.iter().chain(&of.select_expr).chain(keys);
            exprs.any(|expr| !is_leakproof(expr, of.input.schema()))
        }
        _ => false,
    }
}

/// Whether anything that a plan works out may fail, for some rows.
fn may_fail(plan: &LogicalPlan) -> Result<bool> {
    let mut may_fail = false;
    plan.apply_with_subqueries(|node| {
        let inputs = node.inputs();
        let schema = match inputs.as_slice() {
            [] => Arc::clone(node.schema()),
            [input, others @ ..] => {
                let mut schema = input.schema().as_ref().clone();
                others.iter().for_each(|other| schema.merge(other.schema()));
                Arc::new(schema)
            }
        };
        node.apply_expressions(|expr| {
            may_fail |= !is_leakproof(expr, &schema);
            Ok(if may_fail { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        Ok(if may_fail { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(may_fail)
}

/// Whether rows of such tables are read.
fn reads_by_right(plan: &LogicalPlan) -> Result<bool> {
    let mut reads = false;
    plan.apply_with_subqueries(|node| {
        reads |= is_scan_by_right(node);
        Ok(if reads { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(reads)
}

/// Conditions over a barrier, those that cannot fail below it; `None` where there is none, or no barrier.
pub(super) fn carried(conditions: &[Expr], input: &LogicalPlan) -> Option<Result<LogicalPlan>> {
    let barrier = Barrier::of(input)?;
    let schema = barrier.output();
    let (below, above): (Vec<Expr>, Vec<Expr>) =
        conditions.iter().cloned().partition(|condition| is_leakproof(condition, schema));
    let below = conjunction(below)?;
    let filter = |condition, input| Ok(LogicalPlan::Filter(Filter::try_new(condition, Arc::new(input))?));
    let made = filter(below, barrier.input.clone())
        .map(|input| Barrier::above(input, barrier.hushes, barrier.keeps_order));
    Some(made.and_then(|made| conjunction(above).map_or(Ok(made.clone()), |above| filter(above, made))))
}

/// Takes barriers out of a plan that works out nothing above them which may fail, but for those that hush.
#[derive(Debug)]
pub(super) struct Lowered;

impl OptimizerRule for Lowered {
    fn name(&self) -> &str {
        "lowered_barriers"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        None
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut seen = Seen::default();
        seen.look(&plan)?;
        if !seen.has_barrier || seen.may_fail {
            return Ok(Transformed::no(plan));
        }
        plan.transform_up_with_subqueries(|node| match Barrier::of(&node) {
            Some(barrier) if !barrier.hushes => Ok(Transformed::yes(barrier.input.clone())),
            _ => Ok(Transformed::no(node)),
        })
    }
}

/// What a plan has.
#[derive(Default)]
struct Seen {
    has_barrier: bool,
    /// Whether something that may fail is worked out above a barrier.
    may_fail: bool,
}

impl Seen {
    /// Whether there is a barrier at a node, or below it.
    fn look(&mut self, node: &LogicalPlan) -> Result<bool> {
        let mut is_above = false;
        for input in node.inputs() {
            is_above |= self.look(input)?;
        }
        node.apply_subqueries(|query| {
            is_above |= self.look(query)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        self.may_fail |= is_above && works_out_what_may_fail(node);
        let is_one = Barrier::of(node).is_some();
        self.has_barrier |= is_one;
        Ok(is_above || is_one)
    }
}

/// Whether a node has an expression that could be worked out further down and may fail there.
fn works_out_what_may_fail(node: &LogicalPlan) -> bool {
    let may_fail = |expr: &Expr, schema: &DFSchema| !is_leakproof(expr, schema);
    match node {
        LogicalPlan::Filter(filter) => may_fail(&filter.predicate, filter.input.schema()),
        LogicalPlan::Projection(projection) => {
            projection.expr.iter().any(|expr| may_fail(expr, projection.input.schema()))
        }
        LogicalPlan::Join(join) => {
            let keys = join.on.iter();
            let mut keys = keys.flat_map(|(left, right)| [(left, &join.left), (right, &join.right)]);
            let of_pairs = |filter: &Expr| match join.left.schema().join(join.right.schema()) {
                Ok(schema) => may_fail(filter, &schema),
                Err(_) => true,
            };
            keys.any(|(key, side)| may_fail(key, side.schema())) || join.filter.as_ref().is_some_and(of_pairs)
        }
        // Rows are put in order below what only leaves some out.
        LogicalPlan::Sort(sort) => sort.expr.iter().any(|key| may_fail(&key.expr, sort.input.schema())),
        LogicalPlan::Window(window) => {
            window.window_expr.iter().any(|expr| may_fail(expr, window.input.schema()))
        }
        _ => false,
    }
}

/// Functions that give a value for whatever they get.
const TOTAL_FUNCTIONS: [&str; 9] = [
    "one_nan",
    "one_zero",
    "coalesce",
    "character_length",
    "lower",
    "upper",
    "starts_with",
    "ends_with",
    "isnan",
];

/// Whether an expression over rows of a schema gives a value for each row, whatever is in it. What says nothing of itself
/// may fail.
fn is_leakproof(expr: &Expr, schema: &DFSchema) -> bool {
    let mut is_it = true;
    // The closure never fails.
    let _ = expr.apply(|part| {
        is_it &= is_total(part, schema);
        Ok(if is_it { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    is_it
}

/// Whether an expression gives a value where its parts do.
fn is_total(expr: &Expr, schema: &DFSchema) -> bool {
    use Operator::{
        And, Divide, Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, Minus, Multiply, NotEq, Or,
        Plus,
    };
    let is_double = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Float64 | DataType::Float32));
    match expr {
        Expr::Column(_)
        | Expr::Literal(..)
        | Expr::Placeholder(_)
        | Expr::Alias(_)
        | Expr::Not(_)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotTrue(_)
        | Expr::IsNotFalse(_)
        | Expr::IsNotUnknown(_)
        | Expr::Between(_)
        | Expr::InList(_)
        | Expr::Case(_)
        // What goes into them is looked at; what they make of it is told without values.
        | Expr::AggregateFunction(_)
        | Expr::WindowFunction(_) => true,
        Expr::Negative(value) => is_double(value),
        Expr::Like(like) => matches!(*like.pattern, Expr::Literal(..)),
        Expr::BinaryExpr(both) => match both.op {
            And | Or | Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom => true,
            Plus | Minus | Multiply | Divide => is_double(&both.left) && is_double(&both.right),
            _ => false,
        },
        Expr::Cast(cast) => {
            let from = cast.expr.get_type(schema);
            from.is_ok_and(|from| takes_all(&from, cast.field.data_type()))
        }
        Expr::ScalarFunction(call) => TOTAL_FUNCTIONS.contains(&call.name()),
        _ => false,
    }
}

/// Whether a type has a value for each of another.
fn takes_all(from: &DataType, to: &DataType) -> bool {
    use DataType::{
        Boolean, Date32, Dictionary, Float32, Float64, Int8, Int16, Int32, Int64, Timestamp, UInt8, UInt16,
        UInt32, UInt64, Utf8,
    };
    match (from, to) {
        (Dictionary(_, from), to) => takes_all(from, to),
        (from, to) if from == to => true,
        (Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 | Float32 | Float64, Float64) => {
            true
        }
        (Int8 | UInt8, Int16) | (Int8 | UInt8 | Int16 | UInt16, Int32) => true,
        (Int8 | UInt8 | Int16 | UInt16 | Int32 | UInt32, Int64) => true,
        (Boolean | Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64, Utf8) => true,
        // The zone is how it is written.
        (Timestamp(from, _), Timestamp(to, _)) => from == to,
        (Timestamp(..), Date32) => true,
        _ => false,
    }
}

/// The rows of an input, which no rule carries anything below.
#[derive(Debug, Clone)]
pub(super) struct BarrierExec {
    input: Arc<dyn ExecutionPlan>,
    hushes: bool,
    keeps_order: bool,
}

/// An error below a barrier that hushes. One that is about no value, such as damage or a full disk, is told as it is.
pub(crate) fn hushed(error: DataFusionError) -> DataFusionError {
    let error = QueryError::from(error);
    if error.sql_state() == SqlState::OutOfMemory {
        // How much is wanted may be a value.
        let what = "what a grant or a view is read by needs more memory than there is";
        let told = QueryError::new(ErrorKind::FreeSpace, what).state(SqlState::OutOfMemory);
        return DataFusionError::External(Box::new(told));
    }
    let is_of_values = matches!(
        error.sql_state(),
        SqlState::InvalidText
            | SqlState::OutOfRange
            | SqlState::DivisionByZero
            | SqlState::DatatypeMismatch
            | SqlState::NotNull
            | SqlState::InvalidRequest
    ) && error.source().is_none();
    if !is_of_values {
        return DataFusionError::External(Box::new(error));
    }
    let what = "the condition of a grant, or the query of a view, fails on a row that it reads";
    let told = QueryError::request(what).state(error.sql_state());
    let told = told
        .hint("an admin who reads the same is told the row's values; TRY_CAST gives NULL where CAST fails");
    DataFusionError::External(Box::new(told))
}

impl DisplayAs for BarrierExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BarrierExec")
    }
}

impl ExecutionPlan for BarrierExec {
    fn name(&self) -> &'static str {
        "BarrierExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    /// A sort is carried below whatever says so, with what it sorts by: as far as a sort or a filter of the view's own.
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![self.keeps_order]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self { input: children.swap_remove(0), ..*self }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, context)?;
        if !self.hushes {
            return Ok(rows);
        }
        let schema = rows.schema();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows.map_err(hushed))))
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&inputs[0]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::datatypes::{Field, Schema, TimeUnit};
    use datafusion::logical_expr::{cast, col, lit, try_cast};

    #[test]
    fn what_cannot_fail() {
        let timestamp = DataType::Timestamp(TimeUnit::Nanosecond, None);
        let fields = [
            ("n", DataType::Int64),
            ("d", DataType::Float64),
            ("v", DataType::Utf8),
            ("ts", timestamp),
            ("s", DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Utf8))),
        ];
        let fields: Vec<Field> = fields.into_iter().map(|(name, of)| Field::new(name, of, true)).collect();
        let schema = DFSchema::try_from(Schema::new(fields)).expect("a schema");
        let double = |expr| cast(expr, DataType::Float64);
        for total in [
            col("n").eq(lit(1_i64)).and(col("v").not_eq(lit("x"))),
            double(col("n")).gt(col("d") * lit(2.0)),
            col("v").like(lit("A%")).or(col("s").is_null()),
            cast(col("s"), DataType::Utf8).in_list(vec![lit("a"), lit("b")], true),
            cast(col("ts"), DataType::Date32).is_not_null(),
            -col("d"),
        ] {
            assert!(is_leakproof(&total, &schema), "{total}");
        }
        for other in [
            cast(col("v"), DataType::Int64).eq(lit(1_i64)),
            try_cast(col("v"), DataType::Int64).eq(lit(1_i64)),
            cast(col("d"), DataType::Int64).eq(lit(1_i64)),
            (lit(100_i64) / col("n")).gt(lit(1_i64)),
            (col("n") + lit(1_i64)).gt(lit(1_i64)),
            -col("n"),
            col("v").like(col("v")),
            col("n").gt(lit(1_i64)).or(cast(col("v"), DataType::Int32).gt(lit(0))),
        ] {
            assert!(!is_leakproof(&other, &schema), "{other}");
        }
    }
}
