//! Joins and aggregates by grouping sets (ROLLUP, CUBE), of whose rows less is known than of those they read.
//!
//! DataFusion 55.2 takes over what is known of their inputs: that a column has one value (`WHERE a = 1`), or that two are
//! equal. Where a row of an outer join has no partner, and in a set that leaves a key out, it is NULL: `ORDER BY a` was
//! not sorted by, and windows parted their rows wrong. And of an inner join by hash it says that the rows of one right row
//! after the other, each time in the order of the left ones, are in the order of both: where two right rows are equal
//! in theirs, the left order begins anew, so that `ORDER BY b.ts, a.ts` was not sorted by, and groups by both came twice.
//! Above such a node stands one that keeps what is certain ([`GiveWayExec::bare`]): the orders of columns that are never
//! made NULL, and of the right side.

use super::give_way::GiveWayExec;
use super::rules::NodeRule;
use datafusion::common::JoinType;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use std::sync::Arc;

/// Must run before all rules that look at the order of rows.
pub(super) const ONLY_WHAT_IS_KNOWN: NodeRule = NodeRule::up("only_what_is_known", |plan| {
    let is_wrong = !plan.is::<ProjectionExec>() && columns_kept(plan).is_some();
    Ok(is_wrong.then(|| Arc::new(GiveWayExec::bare(Arc::clone(plan))) as _))
});

/// What is certain of the rows of such a node, or of a projection of them, and how they are parted.
pub(super) fn certain(plan: &Arc<dyn ExecutionPlan>) -> (EquivalenceProperties, Partitioning) {
    let of = plan.properties();
    let Kept { columns, equal } = columns_kept(plan).unwrap_or_default();
    let (mut certain, partitions) = match equal {
        true => (of.equivalence_properties().clone(), of.output_partitioning().clone()),
        false => {
            let unknown = Partitioning::UnknownPartitioning(of.output_partitioning().partition_count());
            (EquivalenceProperties::new(plan.schema()), unknown)
        }
    };
    certain.clear_orderings();
    let equals = of.equivalence_properties().eq_group();
    let holds = |expr: &Arc<dyn PhysicalExpr>| {
        let same = || equals.get_equivalence_class(expr).into_iter().flat_map(|class| class.iter());
        is_kept(expr, &columns) || equal && same().any(|expr| is_kept(expr, &columns))
    };
    for order in of.equivalence_properties().oeq_class().iter() {
        let order = order.iter().take_while(|sort| holds(&sort.expr)).cloned();
        certain.add_orderings(LexOrdering::new(order));
    }
    (certain, partitions)
}

/// What is as it was in what a node reads.
#[derive(Default)]
struct Kept {
    /// The columns whose values and order are.
    columns: Vec<bool>,
    /// Whether columns that are equal, or have one value, are so all the same, and rows stay parted.
    equal: bool,
}

impl Kept {
    /// Some columns, and nothing else.
    fn of(columns: Vec<bool>) -> Self {
        Self { columns, equal: false }
    }
}

/// What such a node keeps; `None` of other nodes.
fn columns_kept(plan: &Arc<dyn ExecutionPlan>) -> Option<Kept> {
    if let Some(below) = plan.downcast_ref::<GiveWayExec>().and_then(GiveWayExec::giving) {
        return columns_kept(below);
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let sets = aggregate.group_expr().has_grouping_set();
        return sets.then(|| Kept::of(vec![false; plan.schema().fields().len()]));
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let kept = columns_kept(projection.input())?;
        let columns = projection.expr().iter().map(|of| is_kept(&of.expr, &kept.columns)).collect();
        return Some(Kept { columns, ..kept });
    }
    let (left, right, join_type, places) = if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        (join.left(), join.right(), *join.join_type(), join.projection.as_ref())
    } else if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        (join.left(), join.right(), *join.join_type(), join.projection().as_ref())
    } else {
        let join = plan.downcast_ref::<SortMergeJoinExec>()?;
        (join.left(), join.right(), join.join_type(), None)
    };
    let (of_left, of_right) = match join_type {
        JoinType::Left => (true, false),
        JoinType::Right => (false, true),
        JoinType::Full => (false, false),
        JoinType::Inner if plan.is::<HashJoinExec>() => (false, true),
        _ => return None,
    };
    let mut kept = vec![of_left; left.schema().fields().len()];
    kept.resize(kept.len() + right.schema().fields().len(), of_right);
    let columns = match places {
        Some(places) => places.iter().map(|&place| kept[place]).collect(),
        None => kept,
    };
    Some(Kept { columns, equal: join_type == JoinType::Inner })
}

fn is_kept(expr: &Arc<dyn PhysicalExpr>, kept: &[bool]) -> bool {
    collect_columns(expr).iter().all(|column| kept.get(column.index()).copied().unwrap_or(false))
}
