//! What a change of a table does to the materialized views over it, and over these.

use super::{Effect, Snapshot, TableSnapshot};
use crate::store::staleness::{Staleness, marked_by_times};
use crate::{EngineError, Result};
use std::sync::Arc;
use tickstone_model::{MaterializedView, TimeRange};

/// The stretches of a view that a change touches.
type Marks<'a> = dyn Fn(&MaterializedView) -> Vec<TimeRange> + 'a;

impl Snapshot {
    /// Marks what a change that is about to be applied touches of the views over its tables.
    pub(super) fn mark_views(&mut self, position: u64, effect: &Effect) {
        match effect {
            Effect::Rows(tables) => {
                for rows in tables {
                    let times = || rows.pieces.iter().map(|(_, batch)| batch.times().unwrap_or_default());
                    self.mark_views_of(rows.table, position, &|view| {
                        times().flat_map(|times| marked_by_times(view, times)).collect()
                    });
                }
            }
            Effect::Load { table, load } => {
                let of_parts: Vec<_> = load.parts.iter().filter_map(|part| part.times).collect();
                self.mark_ranges(*table, position, &of_parts);
            }
            Effect::Rewrite { table, touched, .. } if !touched.is_empty() => {
                self.mark_views_of(*table, position, &|view| {
                    touched.iter().map(|range| view.marked_by(*range)).collect()
                });
            }
            Effect::Rewrite { table, parts, .. } => {
                let Some(found) = self.tables.get(*table) else { return };
                let gone = parts.iter().filter_map(|part| found.part_named(part.partition, &part.gone));
                let of_parts: Vec<_> = gone.filter_map(|part| part.entry.times).collect();
                self.mark_ranges(*table, position, &of_parts);
            }
            Effect::Truncate { table } => self.empty_views_of(*table, position),
            _ => {}
        }
    }

    /// Marks all of every view: nobody knows what changed.
    pub(crate) fn mark_all_views(&mut self, position: u64) {
        let views: Vec<u32> = self.tables.views().iter().map(|(_, id)| *id).collect();
        for id in views {
            self.change_view(id, position, |view| {
                Arc::make_mut(&mut view.staleness).mark(TimeRange::ALL, position);
            });
        }
    }

    /// Marks stretches, both ends inside.
    fn mark_ranges(&mut self, table: u32, position: u64, ranges: &[(i64, i64)]) {
        self.mark_views_of(table, position, &|view| {
            let range = |(from, to): &(i64, i64)| TimeRange::new(*from, to.saturating_add(1));
            ranges.iter().map(|times| view.marked_by(range(times))).collect()
        });
    }

    fn mark_views_of(&mut self, table: u32, position: u64, marks: &Marks<'_>) {
        // What a view stores are the rows that its query had anyway.
        if self.tables.get(table).is_none_or(|table| table.schema.materialized().is_some()) {
            return;
        }
        for id in self.views_above(table) {
            self.change_view(id, position, |view| {
                let Some(of) = view.schema.materialized() else { return };
                let ranges = marks(of);
                let staleness = Arc::make_mut(&mut view.staleness);
                ranges.into_iter().for_each(|range| staleness.mark(range, position));
            });
        }
    }

    fn empty_views_of(&mut self, table: u32, position: u64) {
        if self.tables.get(table).is_none_or(|table| table.schema.materialized().is_some()) {
            return;
        }
        for id in self.views_above(table) {
            self.change_view(id, position, |view| {
                view.staleness = Arc::new(Staleness::all(position));
            });
        }
    }

    /// The shortest stretch that changes of a table mark of a view over it, or over these (ns); `None` where there is none.
    pub(crate) fn finest_grain_above(&self, table: u32) -> Option<i64> {
        let above = self.views_above(table).into_iter().filter_map(|id| self.tables.get(id));
        above.filter_map(|view| Some(view.schema.materialized()?.grain_ns())).min()
    }

    /// Numbers of the materialized views over a table, and over these, each after what it reads.
    pub fn views_above(&self, table: u32) -> Vec<u32> {
        let direct = |id: u32| {
            let name = self.tables.get(id).map(|table| table.schema.name());
            name.map_or(&[][..], |name| self.tables.views_of(name)).iter().map(|(_, id)| *id)
        };
        let mut above: Vec<u32> = direct(table).collect();
        let mut at = 0;
        while let Some(id) = above.get(at).copied() {
            let more: Vec<u32> = direct(id).filter(|id| !above.contains(id)).collect();
            above.extend(more);
            at += 1;
        }
        above
    }

    /// Changes what a view is known to lack, unless its manifest was told of the change at `position`.
    fn change_view(&mut self, id: u32, position: u64, change: impl FnOnce(&mut TableSnapshot)) {
        self.tables.change(id, |view| {
            if !view.holds(position) {
                change(view);
                view.revision += 1;
            }
        });
    }

    /// Notes which stretches of a view hold the rows of its query as of a position, and which do not.
    pub(super) fn refresh_view(
        &mut self,
        id: u32,
        position: u64,
        as_of: u64,
        current: &[TimeRange],
        stale: &[TimeRange],
    ) {
        self.change_view(id, position, |view| {
            let staleness = Arc::make_mut(&mut view.staleness);
            current.iter().for_each(|range| staleness.settle(*range, as_of));
            stale.iter().for_each(|range| staleness.mark(*range, position));
        });
    }

    /// Notes that the rows below a stretch were dropped: the views of that table keep theirs.
    pub(super) fn freeze_views_of(&mut self, table: u32, range: TimeRange) {
        let Some(name) = self.tables.get(table).map(|table| table.schema.name()) else { return };
        let views: Vec<u32> = self.tables.views_of(name).iter().map(|(_, id)| *id).collect();
        for id in views {
            self.tables.change(id, |view| {
                let Some(of) = view.schema.materialized() else { return };
                let frozen = of.frozen_by(range);
                Arc::make_mut(&mut view.staleness).freeze(frozen);
                view.revision += 1;
            });
        }
    }

    /// Lets go of the partitions past a table's time to live, after the commit at `position`.
    pub(super) fn expire(&mut self, table: u32, position: u64, received_ns: i64) {
        let Some(found) = self.tables.get(table).filter(|table| table.schema.ttl().is_some()) else { return };
        let views: Vec<_> = self.views_of(found.schema.name()).map(Arc::clone).collect();
        let gone = self.tables.change(table, |table| table.expire(position, received_ns, &views)).flatten();
        if let Some(gone) = gone {
            self.freeze_views_of(table, gone);
        }
    }
}

impl Snapshot {
    /// # Errors
    /// [`EngineError::Frozen`] where some of the rows for a table, of which `has_rows` knows whether a stretch of time has
    /// any, are within what a view over it keeps of rows that were dropped.
    pub(crate) fn check_not_frozen(&self, table: &str, has_rows: impl Fn(&TimeRange) -> bool) -> Result<()> {
        // What a view stores is of rows that are there.
        if self.table(table).is_some_and(|table| table.schema.materialized().is_some()) {
            return Ok(());
        }
        for view in self.views_of(table) {
            if let Some(range) = view.staleness.frozen().iter().find(|frozen| has_rows(frozen)).copied() {
                let (table, view) = (table.to_string(), view.schema.name().to_string());
                return Err(EngineError::Frozen { table, view, range });
            }
        }
        Ok(())
    }

    /// # Errors
    /// [`EngineError::NotTakenIn`] where a view over a table would lack rows of partitions in `range` that are dropped.
    pub(crate) fn check_taken_in(&self, table: &TableSnapshot, range: TimeRange) -> Result<()> {
        let Some(table) = self.tables.get(table.id) else { return Ok(()) };
        let newest = table.partitions.times().map_or(i64::MIN, |(_, newest)| newest);
        for view in self.views_of(table.schema.name()) {
            let Some(of) = view.schema.materialized() else { continue };
            let refuse = |why| {
                let (table, view) = (table.schema.name().to_string(), view.schema.name().to_string());
                Err(EngineError::NotTakenIn { table, view, why })
            };
            for gone in table.covered(range) {
                let buckets = of.frozen_by(gone);
                if view.staleness.is_stale_in(buckets) {
                    return refuse(
                        "has not taken in their rows; REFRESH MATERIALIZED VIEW waits until it has",
                    );
                }
                if buckets.to > gone.to && !range.covers(&buckets) && newest < buckets.to {
                    return refuse("has buckets of theirs that are not over yet");
                }
            }
        }
        Ok(())
    }
}

impl TableSnapshot {
    /// Of a view: the latest time, no later than `horizon`, before which it has taken in all rows of the table below, in
    /// whole buckets.
    pub(super) fn settled_before(&self, horizon: i64) -> i64 {
        let Some(of) = self.schema.materialized() else { return horizon };
        let stale = self.staleness.stale().first().map_or(i64::MAX, |stretch| stretch.range.from);
        of.buckets_of(TimeRange::new(horizon.min(stale), i64::MAX)).from
    }
}
