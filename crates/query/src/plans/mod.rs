//! Physical plans kept for statements that come again with other literals.
//!
//! A kept plan is a template: its scans know their table and filters, the filters with placeholders, and no
//! snapshot. [`bind`] gives each scan the rows that the statement's own literals select in the newest
//! snapshot, and rebuilds the nodes above without computing anything about them again.
//!
//! Invariants:
//! - a template holds nothing of a snapshot but which tables there are: its scans declare no statistics and
//!   no order they might not have with other rows, and `now()` is not folded into it;
//! - every filter that a template left to a scan alone is one the scan applies exactly, checked again with
//!   the values at hand.
//!
//! Statements that cannot be kept so (totals that statistics answer) are noted as such, and planned each time; joins by
//! hash, whose sides are chosen by size, are where they read many rows.

mod template;

pub(crate) use template::{Taken, lists_that_may_merge, staying, take_literals};

use crate::error::{Result, external};
use crate::facts::{self, is_in_statistics};
use crate::functions::documents::STREAM_KEY;
use crate::operators::SampleByExec;
use crate::scan::with_values;
use crate::scan::{Constraint, ScanExec, Selected};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::streaming::StreamingTableExec;
use sqlparser::ast::Statement;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use template::{Literal, place_of};
use tickstone_engine::{Snapshot, TableSnapshot};

/// Most statements known at once.
pub(crate) const STATEMENTS_MAX: usize = 512;

/// Collecting so many rows takes less time than planning.
const COLLECTED_ROWS: u64 = 1 << 14;

/// What a plan is kept by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PlanKey {
    /// The statement without its literals.
    pub(crate) statement: Statement,
    /// Who asks; `None` where they may do everything. For somebody else a name may stand for other rows, or for none.
    pub(crate) user: Option<u32>,
    /// Which tables there are.
    pub(crate) catalog_version: u64,
    /// What the session has SET.
    pub(crate) settings: u64,
    /// Which functions of the user's own there are.
    pub(crate) functions: u64,
}

/// What is known of a statement.
#[derive(Debug, Clone)]
pub(crate) enum Known {
    /// It came once; most never come again.
    Once,
    /// It must be planned each time.
    Never,
    /// Its plans.
    Kept(Arc<KeptPlans>),
    /// It is known with some of its literals in it (by place, from 0), beside columns by which rows are not selected.
    With(Arc<BTreeSet<usize>>),
}

/// The templates of one statement.
#[derive(Debug, Default)]
pub(crate) struct KeptPlans {
    /// For few rows, in one partition.
    pub(crate) narrow: OnceLock<Arc<dyn ExecutionPlan>>,
    /// For many, over several.
    pub(crate) wide: OnceLock<Arc<dyn ExecutionPlan>>,
}

/// What is known of a text that is one statement: it need not be parsed again.
#[derive(Debug)]
pub(crate) struct KnownText {
    /// Those of [`PlanKey`].
    pub(crate) catalog_version: u64,
    pub(crate) settings: u64,
    pub(crate) functions: u64,
    pub(crate) kept: Arc<KeptPlans>,
    pub(crate) literals: Vec<Literal>,
}

/// What a text is known by: who asks, as in [`PlanKey`], and itself.
type TextKey = (Option<u32>, Arc<str>);

/// What is known of texts, and when each was last asked for.
type Texts = HashMap<TextKey, (Arc<KnownText>, u64)>;

/// Longer texts are parsed each time.
const TEXT_BYTES_MAX: usize = 1 << 14;

/// The statements of all sessions of a database, the longest unused forgotten first.
#[derive(Debug, Default)]
pub(crate) struct PlanCache {
    known: Mutex<HashMap<PlanKey, (Known, u64)>>,
    texts: Mutex<Texts>,
    uses: AtomicU64,
    reused: AtomicU64,
    made: AtomicU64,
}

/// What the cache of plans was good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlanCounts {
    /// Queries that ran by a plan that was kept.
    pub(crate) reused: u64,
    /// Queries that were planned.
    pub(crate) made: u64,
    /// Statements that are known.
    pub(crate) statements: u64,
}

impl PlanCache {
    fn known(&self) -> MutexGuard<'_, HashMap<PlanKey, (Known, u64)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a query, and whether it ran by a plan that was kept.
    pub(crate) fn count(&self, reused: bool) {
        let counter = if reused { &self.reused } else { &self.made };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// How often plans were kept and made.
    pub(crate) fn counts(&self) -> PlanCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PlanCounts {
            reused: read(&self.reused),
            made: read(&self.made),
            statements: self.known().len() as u64,
        }
    }

    /// What is known of a statement, which is noted as having come.
    pub(crate) fn look_up(&self, key: &PlanKey) -> Option<Known> {
        let use_ = self.uses.fetch_add(1, Ordering::Relaxed);
        let mut known = self.known();
        if let Some((found, used)) = known.get_mut(key) {
            *used = use_;
            return Some(found.clone());
        }
        if known.len() >= STATEMENTS_MAX {
            let oldest = known.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone());
            oldest.and_then(|key| known.remove(&key));
        }
        known.insert(key.clone(), (Known::Once, use_));
        None
    }

    /// What is known of a text.
    pub(crate) fn text(&self, key: &TextKey) -> Option<Arc<KnownText>> {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, used) = texts.get_mut(key)?;
        *used = self.uses.fetch_add(1, Ordering::Relaxed);
        Some(Arc::clone(known))
    }

    /// Notes what became known of a text.
    pub(crate) fn note_text(&self, key: TextKey, known: KnownText) {
        if key.1.len() > TEXT_BYTES_MAX {
            return;
        }
        let use_ = self.uses.fetch_add(1, Ordering::Relaxed);
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        if texts.len() >= STATEMENTS_MAX && !texts.contains_key(&key) {
            let oldest = texts.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone());
            oldest.and_then(|key| texts.remove(&key));
        }
        texts.insert(key, (Arc::new(known), use_));
    }

    /// Forgets what is known of statements that were planned with earlier functions of the user's own.
    pub(crate) fn forget_functions_before(&self, version: u64) {
        let mut known = self.known();
        let earlier: Vec<_> = known.extract_if(|key, _| key.functions < version).collect();
        drop(known);
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        let texts_earlier: Vec<_> = texts.extract_if(|_, (known, _)| known.functions < version).collect();
        drop(texts);
        // A closure of the user's may run code when it goes.
        drop((earlier, texts_earlier));
    }

    /// Notes what became known of a statement.
    pub(crate) fn note(&self, key: &PlanKey, now: Known) {
        if let Some((known, _)) = self.known().get_mut(key) {
            *known = now;
        }
    }
}

/// Whether a logical plan means the same at any other moment.
pub(crate) fn is_timeless(plan: &LogicalPlan) -> Result<bool> {
    let mut timeless = true;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                let stable = matches!(expr, Expr::ScalarFunction(call)
                    if call.func.signature().volatility == Volatility::Stable);
                timeless &= !stable;
                Ok(if stable { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })
    })?;
    Ok(timeless)
}

/// Whether a physical plan can be kept, for many rows where it is `wide`.
pub(crate) fn can_be_kept(plan: &Arc<dyn ExecutionPlan>, wide: bool) -> bool {
    let (mut kept, mut scans, mut totals, mut unfiltered) = (true, 0, false, false);
    // The closure never fails.
    let _ = plan.apply(|node| {
        kept &= facts::node(node.name()).is_some_and(|node| node.is_kept(wide));
        if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
            let mut names = aggregate.aggr_expr().iter().map(|of| of.fun().name());
            totals |= aggregate.group_expr().is_empty() && names.all(is_in_statistics);
        }
        if let Some(sample) = node.downcast_ref::<SampleByExec>() {
            totals |= sample.is_total() && sample.aggregate_names().all(is_in_statistics);
        }
        // It notes something of each execution that ends at a LIMIT of its own.
        // A stream's documents are read by the handle that planning found.
        kept &= node.downcast_ref::<StreamingTableExec>().is_none_or(|series| {
            series.limit().is_none() && !series.partition_schema().metadata().contains_key(STREAM_KEY)
        });
        if let Some(scan) = node.downcast_ref::<ScanExec>() {
            kept &= scan.filters().is_some();
            unfiltered |= scan.filters().is_some_and(<[Expr]>::is_empty);
            scans += 1;
        }
        Ok(TreeNodeRecursion::Continue)
    });
    kept && scans > 0 && !(totals && unfiltered)
}

/// Whether a plan has rows of a function that stands for a table: what its arguments were does not stand in it.
pub(crate) fn has_series(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.downcast_ref::<StreamingTableExec>().is_some() || plan.children().into_iter().any(has_series)
}

/// Whether a plan for few rows is none for many.
pub(crate) fn is_narrow(plan: &Arc<dyn ExecutionPlan>) -> bool {
    facts::node(plan.name()).is_some_and(|node| node.is_narrow())
        || plan.children().into_iter().any(is_narrow)
}

/// What the literals of one statement select in one snapshot, so far: by table and filters.
#[derive(Debug, Default)]
pub(crate) struct Selections(Vec<(Vec<Expr>, Arc<Selected>)>);

impl Selections {
    fn of(&self, table: &TableSnapshot, filters: &[Expr]) -> Option<Arc<Selected>> {
        let same = |(of, selected): &&(Vec<Expr>, Arc<Selected>)| {
            selected.table.id() == table.id() && of.as_slice() == filters
        };
        self.0.iter().find(same).map(|(_, selected)| Arc::clone(selected))
    }
}

/// The scans of a template with the rows that a statement's literals select, in the order of the plan;
/// `None` where the template does not fit them.
pub(crate) fn select(
    plan: &Arc<dyn ExecutionPlan>,
    snapshot: &Snapshot,
    literals: &[Literal],
    selections: &mut Selections,
) -> Result<Option<Vec<Arc<ScanExec>>>> {
    let mut scans = Vec::new();
    let fits = select_below(plan, snapshot, literals, selections, &mut scans)?
        && rows_where_joins_fit(plan, &mut scans.iter()).is_some();
    Ok(fits.then_some(scans))
}

/// Rows that the scans below a node select; `None` where a join by hash would collect many, and more than it asks them
/// for: it is planned anew, and may collect the other side.
fn rows_where_joins_fit<'a>(
    plan: &Arc<dyn ExecutionPlan>,
    scans: &mut impl Iterator<Item = &'a Arc<ScanExec>>,
) -> Option<u64> {
    if plan.downcast_ref::<ScanExec>().is_some() {
        return scans.next().map(|scan| scan.selected().rows);
    }
    let below = plan.children().into_iter().map(|child| rows_where_joins_fit(child, scans));
    let below = below.collect::<Option<Vec<u64>>>()?;
    let fits = match (plan.downcast_ref::<HashJoinExec>(), below.as_slice()) {
        (Some(_), [collected, asked]) => *collected <= (*asked).max(COLLECTED_ROWS),
        _ => true,
    };
    fits.then(|| below.iter().sum())
}

fn select_below(
    plan: &Arc<dyn ExecutionPlan>,
    snapshot: &Snapshot,
    literals: &[Literal],
    selections: &mut Selections,
    scans: &mut Vec<Arc<ScanExec>>,
) -> Result<bool> {
    let Some(scan) = plan.downcast_ref::<ScanExec>() else {
        for child in plan.children() {
            if !select_below(child, snapshot, literals, selections, scans)? {
                return Ok(false);
            }
        }
        return Ok(true);
    };
    let known = &scan.selected().table;
    // What was planned on fewer columns than there are was planned on no rows.
    let is_known = |table: &&Arc<TableSnapshot>| table.id() == known.id() && has_schema_of(table, known);
    let table = snapshot.table(known.schema().name()).filter(is_known);
    let (Some(table), Some(filters)) = (table, scan.filters()) else { return Ok(false) };
    if let Some(selected) = selections.of(table, filters) {
        scans.push(Arc::new(scan.bind(selected)));
        return Ok(true);
    }
    let mut constraint = Constraint::any();
    for filter in filters {
        let Some(bound) = with_values(filter, &|id, data_type| literal_of(literals, id)?.values(data_type))
        else {
            return Ok(false);
        };
        let Some(found) = Constraint::of(table, &bound) else { return Ok(false) };
        let promises = || Constraint::of_template(table, filter).is_none_or(|promised| promised.exact);
        if !found.exact && promises() {
            return Ok(false);
        }
        constraint = constraint.and(found);
    }
    let selected = if constraint.is_empty() {
        Selected::nothing(table, constraint.into_selection())
    } else {
        Selected::new(table, constraint.into_selection()).map_err(external)?
    };
    let selected = Arc::new(selected);
    selections.0.push((filters.to_vec(), Arc::clone(&selected)));
    scans.push(Arc::new(scan.bind(selected)));
    Ok(true)
}

fn has_schema_of(table: &TableSnapshot, other: &TableSnapshot) -> bool {
    Arc::ptr_eq(table.schema(), other.schema()) || table.schema() == other.schema()
}

/// The literal that `$1`, `$2`, … stands for.
fn literal_of<'a>(literals: &'a [Literal], id: &str) -> Option<&'a Literal> {
    literals.get(place_of(id)?)
}

/// A plan like `template` over these scans, with no state of earlier executions.
pub(crate) fn bind(
    template: &Arc<dyn ExecutionPlan>,
    scans: &mut impl Iterator<Item = Arc<ScanExec>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    if template.downcast_ref::<ScanExec>().is_some() {
        let scan = scans.next().expect("one scan was bound for each of the template's");
        return Ok(scan);
    }
    let children = template.children().into_iter().map(|child| bind(child, scans));
    let children = children.collect::<Result<Vec<_>>>()?;
    let keep = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
    Ok(Arc::clone(template).replace_children(children, keep)?.reset_state()?)
}

#[cfg(test)]
mod tests;
