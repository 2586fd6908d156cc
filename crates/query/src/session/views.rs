//! Views as a snapshot has them.

use crate::dialect::materialized::{StoredView, view_of_stored};
use crate::dialect::{FoundView, ReadsAs};
use crate::functions::bucket::Bucketing;
use std::sync::Arc;
use tickstone_engine::{Snapshot, TableSnapshot};
use tickstone_model::{MaterializedView, TableSchema, TimeRange};

/// Most stretches of a materialized view that a statement works out one by one.
const STRETCHES_MAX: usize = 8;

/// How a statement reads materialized views.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// What is stored, and what it lacks worked out.
    Current,
    /// What is stored alone: for one who wants to know the plan.
    Stored,
}

/// A view by its name, as it is read.
pub(super) fn found(snapshot: &Snapshot, name: &str, reading: Reading) -> Option<FoundView> {
    let table = snapshot.table(name)?;
    let schema = table.schema();
    let name = schema.name().to_string();
    let reads_as = ReadsAs::Owner(schema.access().owner);
    if let Some(query) = schema.view() {
        return Some(FoundView { name, query: query.to_string(), stored: None, reads_as, is_guarded: false });
    }
    let of = schema.materialized()?;
    let query = of.query.clone();
    let base = snapshot.table(&of.base)?.schema();
    let stale = match reading {
        Reading::Current => {
            let free = |gap| table.staleness().frozen_in(gap).is_none();
            beyond_rows(few(stale_buckets(table, of), free), table)
        }
        Reading::Stored => Vec::new(),
    };
    let stored = StoredView {
        view: name.clone(),
        base: (base.name().to_string(), time_of(base)?),
        columns: schema.columns().iter().map(|column| column.name.clone()).collect(),
        time: time_of(schema)?,
        stale: stale.into_iter().map(|range| (range.from, range.to)).collect(),
    };
    Some(FoundView { name, query, stored: Some(stored), reads_as, is_guarded: false })
}

/// What is stored of a view, by the name that stands for that.
pub(super) fn stored<'a>(snapshot: &'a Snapshot, name: &str) -> Option<&'a Arc<TableSnapshot>> {
    snapshot.table(view_of_stored(name)?).filter(|table| table.schema().materialized().is_some())
}

fn time_of(schema: &TableSchema) -> Option<String> {
    schema.timestamp().map(|index| schema.columns()[index].name.clone())
}

/// The stretches of whole buckets of a view whose stored rows are not those of its query: apart, ascending. The first may
/// begin, and the last end, with time.
pub(crate) fn stale_buckets(view: &TableSnapshot, of: &MaterializedView) -> Vec<TimeRange> {
    let stale = view.staleness().stale();
    let Some(bucketing) = Bucketing::of_spelled(&of.buckets) else {
        return stale.iter().map(|_| TimeRange::ALL).take(1).collect();
    };
    let mut stretches: Vec<TimeRange> = Vec::with_capacity(stale.len());
    for stretch in stale {
        let whole = whole_buckets(&bucketing, stretch.range);
        match stretches.last_mut() {
            Some(last) if last.to >= whole.from => last.to = last.to.max(whole.to),
            _ => stretches.push(whole),
        }
    }
    without(stretches, &frozen_buckets(view, &bucketing))
}

/// The stretches of whole buckets some of whose rows were dropped: what is stored of them stays.
pub(crate) fn frozen_buckets(view: &TableSnapshot, bucketing: &Bucketing) -> Vec<TimeRange> {
    view.staleness().frozen().iter().map(|range| whole_buckets(bucketing, *range)).collect()
}

/// What of some stretches is in none of others.
fn without(stretches: Vec<TimeRange>, others: &[TimeRange]) -> Vec<TimeRange> {
    let mut left = Vec::with_capacity(stretches.len());
    for stretch in stretches {
        let mut from = stretch.from;
        for other in others.iter().filter(|other| other.overlaps(&stretch)) {
            left.push(TimeRange::new(from, other.from));
            from = from.max(other.to);
        }
        left.push(TimeRange::new(from, stretch.to));
    }
    left.retain(|range| !range.is_empty());
    left
}

/// The buckets that a stretch is in.
pub(crate) fn whole_buckets(bucketing: &Bucketing, range: TimeRange) -> TimeRange {
    let from = if range.from == i64::MIN { i64::MIN } else { bucketing.start(range.from) };
    let to = if range.to == i64::MAX { i64::MAX } else { bucketing.bucket(range.to - 1).1 };
    TimeRange::new(from, to)
}

/// The same stretches, the last to the end of time where no row is stored after it: no row below is past it then that any
/// bar is of, and what is stored is one stretch.
fn beyond_rows(mut stretches: Vec<TimeRange>, view: &TableSnapshot) -> Vec<TimeRange> {
    let newest = view.partitions().times().map(|(_, newest)| newest);
    if let Some(last) = stretches.last_mut().filter(|last| newest.is_none_or(|newest| newest < last.to)) {
        last.to = i64::MAX;
    }
    stretches
}

/// The same stretches, those with the smallest gaps between them as one where they are many; but not over a gap that is not
/// `free`: what is frozen there is no more in the table below.
fn few(mut stretches: Vec<TimeRange>, free: impl Fn(TimeRange) -> bool) -> Vec<TimeRange> {
    while stretches.len() > STRETCHES_MAX {
        let gap = |pair: &[TimeRange]| TimeRange::new(pair[0].to, pair[1].from);
        let gaps = stretches.windows(2).map(gap).enumerate().filter(|(_, gap)| free(*gap));
        let Some((at, _)) = gaps.min_by_key(|(_, gap)| gap.to.saturating_sub(gap.from)) else { break };
        stretches[at].to = stretches.remove(at + 1).to;
    }
    stretches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frozen_stretches_are_not_joined_over() {
        let stretches: Vec<TimeRange> = (0..40).map(|at| TimeRange::new(10 * at, 10 * at + 5)).collect();
        let frozen = [TimeRange::new(105, 110), TimeRange::new(305, 310)];
        let free = |gap: TimeRange| frozen.iter().all(|frozen| !frozen.overlaps(&gap));
        let joined = few(stretches.clone(), free);
        assert_eq!(joined.len(), STRETCHES_MAX);
        assert!(joined.iter().all(|range| free(*range)), "{joined:?}");
        assert_eq!(few(stretches.clone(), |_| false), stretches);
    }
}
