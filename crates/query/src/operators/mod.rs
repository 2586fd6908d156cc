//! Time-series operators inside DataFusion's planner.
//!
//! Owns the relations of the dialect (SAMPLE BY with FILL, LATEST ON, ASOF, WINDOW, HORIZON and SPLICE JOIN, nbbo) from
//! marker to rows, the plans of PIVOT and UNPIVOT, and the window functions over series ([`window`]), which SQL has
//! already:
//!
//! ```text
//! marker relation -> relation (RelationPlanner) -> sample | latest | asof | series_join | nbbo :: node (extension node)
//!                 -> planner (ExtensionPlanner) -> … :: exec (ExecutionPlan); of both kinds of joins, joins :: exec
//! ```
//!
//! Never rewrites results; never touches storage: what an operator needs of its input, such as time
//! order, and how many outputs it has, it says in its properties.
//!
//! What is the same of all is written once, so that each says only what is its own: of operators ([`exec`]), of
//! logical nodes ([`node`]), of rules over physical plans that look at one node ([`rules`]), and of expressions that
//! stand in the place of others ([`expr`]).
//!
//! Those that read rows in a scan's stead find it by [`below`], share what they do by [`shared`] and start [`workers`].
//!
//! Enter at [`install`], which the session calls once.

mod arrival;
mod asof;
mod barrier;
mod below;
mod claims;
mod conditions;
mod eager;
mod embedded;
mod exec;
mod expr;
mod fill;
mod filters;
mod give_way;
mod hidden_time;
mod joins;
mod key;
mod known;
mod late;
mod latest;
mod merged_limits;
mod missing_sorts;
mod nbbo;
mod node;
mod order;
mod ordered_once;
mod paced;
mod pairwise;
mod pieces;
mod pivot;
mod planner;
mod planning;
mod quick;
mod read_twice;
mod reduce;
mod relation;
mod rules;
mod sample;
mod sampling;
mod series;
mod series_join;
mod shared;
mod sort;
#[cfg(test)]
mod speed;
mod symbols;
mod top_groups;
mod totals;
mod unkeyed;
mod window;
mod workers;

pub(crate) use barrier::{hushed, raised};
pub(crate) use fill::exec::MAX_FILLED_ROWS;
pub(crate) use sample::exec::SampleByExec;

use crate::functions::bucket::Bucketing;
use crate::rules::aggregates::RightAggregates;
use crate::rules::bounds::WideFrames;
use crate::rules::clocks::Clocks;
use crate::rules::correlated::Correlated;
use crate::rules::correlated_keys::CorrelatedKeys;
use crate::rules::decoded::Decoded;
use crate::rules::dependent::Dependent;
use crate::rules::disjoint::DisjointLists;
use crate::rules::floats::OneNanOneZero;
use crate::rules::laterals::Laterals;
use crate::rules::meanings::Meanings;
use crate::rules::membership::Membership;
use crate::rules::multiset::Multisets;
use crate::rules::no_row::NoRow;
use crate::rules::null_keys::NullKeys;
use crate::rules::one_row::OneRow;
use crate::rules::rows::Rows;
use crate::rules::spread::SpreadConstants;
use crate::rules::texts::TextsOfCasts;
use crate::rules::volatile::Volatile;
use crate::rules::window_keys::WindowKeys;
use datafusion::arrow::compute::SortOptions;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::decorrelate_lateral_join::DecorrelateLateralJoin;
use datafusion::optimizer::eliminate_join::EliminateJoin;
use datafusion::optimizer::{AnalyzerRule, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::aggregate_statistics::AggregateStatistics;
use datafusion::physical_optimizer::ensure_requirements::EnsureRequirements;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_optimizer::projection_pushdown::ProjectionPushdown;
use datafusion::physical_optimizer::pushdown_sort::PushdownSort;
use datafusion::physical_optimizer::sanity_checker::SanityCheckPlan;
use datafusion::physical_optimizer::topk_aggregation::TopKAggregation;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use fill::node::Fill;
use sample::node::SampleBy;
use std::sync::Arc;

/// How a node of SAMPLE BY has time fall into buckets, and the column that time is, where it is one.
pub(crate) fn bucketing_of(plan: &LogicalPlan) -> Option<(Bucketing, Option<String>)> {
    let LogicalPlan::Extension(extension) = plan else { return None };
    let sampled = extension.node.as_any().downcast_ref::<SampleBy>()?;
    let column = match &sampled.time {
        Expr::Column(column) => Some(column.name.clone()),
        _ => None,
    };
    Some((sampled.bucketing, column))
}

/// Of a node of SAMPLE BY, how many keys it groups by: its columns are the bucket, the keys and the aggregates.
pub(crate) fn keys_of(plan: &LogicalPlan) -> Option<usize> {
    let LogicalPlan::Extension(extension) = plan else { return None };
    extension.node.as_any().downcast_ref::<SampleBy>().map(|sampled| sampled.keys.len())
}

/// Whether a node fills gaps between buckets.
pub(crate) fn is_fill(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Extension(extension) if extension.node.as_any().is::<Fill>())
}

/// Adds the operators and functions to a session.
///
/// Names are compared as they are spelled, so that the session must resolve them first
/// ([`crate::dialect::resolve_names`]). ORDER BY in a sub-query is kept, which the plans of SAMPLE BY
/// rely on. Rows are not dealt round to partitions for the sake of a projection: bars stay in the order
/// of time, and a small answer does not pay for tasks and channels.
pub(crate) fn install(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let config = builder.config().take().unwrap_or_default();
    let config = config
        .set_bool("datafusion.sql_parser.enable_ident_normalization", false)
        .set_bool("datafusion.sql_parser.enable_subquery_sort_elimination", false)
        .set_bool("datafusion.sql_parser.collect_spans", true)
        .set_bool("datafusion.optimizer.enable_round_robin_repartition", false);
    let mut relations = builder.relation_planners().take().unwrap_or_default();
    relations.insert(0, Arc::new(relation::Relations::default()));
    let rules = with_our_rules(builder.optimizer().take().unwrap_or_default().rules);
    let physical = with_our_physical_rules(PhysicalOptimizer::new().rules);
    let mut analysis: Vec<Arc<dyn AnalyzerRule + Send + Sync>> = vec![
        Arc::new(Laterals),
        Arc::new(unkeyed::NoKeys),
        Arc::new(Clocks),
        Arc::new(Rows::new(read_twice::node::common)),
        Arc::new(NoRow),
        Arc::new(Meanings),
        Arc::new(Multisets),
        Arc::new(WideFrames),
        Arc::new(RightAggregates),
        Arc::new(Membership::new(read_twice::node::common)),
        Arc::new(OneRow),
        Arc::new(Dependent::new(read_twice::node::common)),
        Arc::new(Correlated),
        Arc::new(NullKeys),
    ];
    analysis.extend(builder.analyzer().take().unwrap_or_default().rules);
    analysis.push(Arc::new(TextsOfCasts));
    analysis.push(Arc::new(DisjointLists));
    analysis.push(Arc::new(OneNanOneZero));
    analysis.push(Arc::new(CorrelatedKeys));
    analysis.push(Arc::new(Volatile));
    analysis.push(Arc::new(WindowKeys));
    let builder = builder
        .with_analyzer_rules(analysis)
        .with_config(config)
        .with_relation_planners(relations)
        .with_query_planner(Arc::new(planner::TimeSeriesQueryPlanner))
        .with_optimizer_rules(planning::looking(rules))
        .with_physical_optimizer_rules(planning::looking_physical(physical));
    crate::functions::install(builder.with_analyzer_rule(Arc::new(hidden_time::AddHiddenTime)))
}

/// Puts our rules where conditions have come down to the join and columns have not been cut off yet, and theirs where
/// they see what they go by.
fn with_our_rules(
    mut rules: Vec<Arc<dyn OptimizerRule + Send + Sync>>,
) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let carried = conditions::CarryDown::new();
    let at = rules.iter().position(|rule| rule.name() == carried.name());
    if let Some(at) = at {
        rules[at] = Arc::new(carried);
    }
    let place = at.map_or(rules.len(), |at| at + 1);
    rules.insert(place, Arc::new(barrier::Lowered));
    rules.insert(place, Arc::new(joins::pushdown::PushFilterBelowJoin));
    rules.insert(place, Arc::new(sample::pushdown::PushFilterBelowBuckets));
    rules.push(Arc::new(conditions::Balanced));
    rules.push(Arc::new(pairwise::GroupPairs));
    rules.push(Arc::new(eager::GroupBelowJoin));
    rules.push(Arc::new(late::rule::ReadLate));
    rules.push(Arc::new(ordered_once::OrderedOnce));
    rules.push(Arc::new(Decoded));
    rules.push(Arc::new(SpreadConstants));
    // It takes a join away of whose columns only a LATERAL query reads some, which it does not look into.
    let place_of = |name: &str| rules.iter().position(|rule| rule.name() == name);
    let joins = place_of(EliminateJoin::new().name());
    let laterals = place_of(DecorrelateLateralJoin::new().name());
    if let (Some(joins), Some(laterals)) = (joins, laterals)
        && joins < laterals
    {
        rules[joins..=laterals].rotate_left(1);
    }
    rules
}

/// Puts our rules where they must stand: each says itself where that is.
fn with_our_physical_rules(
    mut rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    // They find columns by name, not by place, so that a filter lands on the other side of a join
    // (docs/decisions/0011-filters-of-physical-plans.md); no leaf of ours takes a physical filter.
    let by_name = [FilterPushdown::new(), FilterPushdown::new_post_optimization()];
    rules.retain(|rule| by_name.iter().all(|of| of.name() != rule.name()));
    let totals = rules.iter().position(|rule| rule.name() == AggregateStatistics::new().name());
    if let Some(totals) = totals {
        rules[totals] = Arc::new(totals::TotalsByStatistics::default());
    }
    rules.insert(totals.map_or(0, |at| at + 1), Arc::new(sample::grouping::REDUCE_BY_RANGES));
    rules.insert(0, Arc::new(known::ONLY_WHAT_IS_KNOWN));
    let before = rules.iter().position(|rule| rule.name() == EnsureRequirements::new().name());
    let before = before.unwrap_or(0);
    rules.insert(before, Arc::new(symbols::GroupSymbolsById));
    rules.insert(before, Arc::new(joins::rule::ChooseJoins));
    rules.insert(before, Arc::new(window::rule::WINDOWS_BY_SERIES));
    let after = rules.iter().position(|rule| rule.name() == PushdownSort::new().name());
    let place = after.map_or(rules.len(), |at| at + 1);
    rules.insert(place, Arc::new(order::ORDER_OF_SCAN));
    if let Some(groups) = rules.iter().position(|rule| rule.name() == TopKAggregation::new().name()) {
        rules[groups] = Arc::new(top_groups::TOP_GROUPS);
    }
    let checked = rules.iter().position(|rule| rule.name() == SanityCheckPlan::new().name());
    let before_check = checked.unwrap_or(rules.len());
    rules.insert(before_check, Arc::new(merged_limits::MERGED_LIMITS));
    rules.insert(before_check, Arc::new(missing_sorts::MISSING_SORTS));
    let carries =
        |rule: &Arc<dyn PhysicalOptimizerRule + Send + Sync>| rule.name() == ProjectionPushdown::new().name();
    let places: Vec<usize> = (0..rules.len()).filter(|&at| carries(&rules[at])).collect();
    for place in places.into_iter().rev() {
        rules.insert(place, Arc::new(embedded::FILTERS_YIELD_ALL));
    }
    rules.push(Arc::new(window::alike::KEYS_ALIKE));
    rules.push(Arc::new(window::rule::SORTED_WINDOWS));
    rules.push(Arc::new(arrival::ORDER_OF_ARRIVAL));
    rules.push(Arc::new(filters::FiltersInScans));
    rules.push(Arc::new(sort::RADIX_SORTS));
    rules.push(Arc::new(quick::QUICK_EXPRESSIONS));
    rules.push(Arc::new(pieces::IN_PIECES));
    rules.push(Arc::new(give_way::GIVE_WAY));
    rules
}

/// How operators want time: ascending, rows without one last.
pub(crate) const TIME_ORDER: SortOptions = SortOptions { descending: false, nulls_first: false };

/// For [`datafusion::physical_plan::ExecutionPlan::with_new_children`], which the trait still asks for.
fn recompute() -> ReplaceChildrenOptions {
    ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute)
}
