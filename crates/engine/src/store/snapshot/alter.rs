//! How a table's shape changes, and how partitions leave it: the same code for commits and recovery.
//!
//! Nothing on disk is rewritten: parts keep the schema they were written with (`view`), runs are given the
//! new one at once (`fit_rows`), files of partitions that left go once the manifest is without them.

use super::{PartitionSnapshot, Snapshot, Source, TableSnapshot};
use crate::recent::Run;
use crate::store::dictionary::Dictionary;
use crate::store::history::{History, fit_rows};
use std::sync::{Arc, OnceLock};
use tickstone_model::{ColumnType, TableSchema, TimeRange};

/// What left a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dropped {
    /// Partitions.
    pub partitions: u64,
    /// Rows in them.
    pub rows: u64,
}

/// Where the one who drops partitions learns what went.
pub(crate) type DroppedCell = Arc<OnceLock<Dropped>>;

impl Snapshot {
    /// Gives a table another schema; the frame is at `position`.
    pub(super) fn alter_table(&mut self, position: u64, id: u32, schema: Arc<TableSchema>) {
        let Some(table) = self.tables.remove(id) else { return };
        let mut table = Arc::unwrap_or_clone(table);
        table.alter(position, schema);
        self.add_table(table);
    }

    /// Replaces a table's history, where it is still `before`.
    pub(crate) fn set_history(&mut self, id: u32, before: &Arc<History>, history: History) {
        self.tables.change(id, |table| {
            if Arc::ptr_eq(&table.history, before) {
                table.history = Arc::new(history);
            }
        });
    }

    /// Drops the partitions of a table that lie whole in `range`.
    pub(super) fn drop_partitions(&mut self, position: u64, id: u32, range: TimeRange) -> Dropped {
        let gone = self.tables.change(id, |table| {
            let gone = table.covered(range);
            (table.retire_partitions(position, range), gone)
        });
        let (dropped, gone) = gone.unwrap_or_default();
        gone.into_iter().for_each(|range| self.freeze_views_of(id, range));
        dropped
    }
}

impl TableSnapshot {
    fn alter(&mut self, position: u64, schema: Arc<TableSchema>) {
        let before = Arc::clone(&self.schema);
        self.history = Arc::new(self.history.altered(position, Arc::clone(&schema)));
        let dictionary = |(index, column): (usize, &tickstone_model::Column)| match column.column_type {
            ColumnType::Symbol => match before.column_of_id(schema.column_id(index)) {
                Some(place) => self.dictionaries[place].clone(),
                None => Some(Arc::<Dictionary>::default()),
            },
            _ => None,
        };
        self.dictionaries = schema.columns().iter().enumerate().map(dictionary).collect();
        let gone = before.symbol_columns().map(|column| before.column_id(column));
        self.retired_columns.extend(gone.filter(|id| schema.column_of_id(*id).is_none()));
        if before.version() != schema.version() {
            let ranges: Vec<_> = self.partitions.hot().map(|partition| partition.range).collect();
            for range in ranges {
                self.partitions.change(range, |partition| partition.fit_runs(&schema));
            }
        }
        self.schema = schema;
        self.revision += 1;
    }

    /// Lets go of the partitions that lie whole in `range`, and of later frames' claims to them up to
    /// `position`.
    fn retire_partitions(&mut self, position: u64, range: TimeRange) -> Dropped {
        let gone = self.partitions.remove_covered(range);
        self.retired.extend(gone.iter().flat_map(|partition| partition.part_sources()).map(Arc::clone));
        Arc::make_mut(&mut self.history).retire(position, range);
        self.revision += 1;
        Dropped { partitions: gone.len() as u64, rows: gone.iter().map(|partition| partition.rows()).sum() }
    }

    /// Lets go of the partitions past the table's time to live, after the commit at `position`: those that
    /// end that long before the newest row, or before the commit was received, whichever is earlier, and whose rows
    /// these views have taken in. The stretch that went.
    pub(super) fn expire(
        &mut self,
        position: u64,
        received_ns: i64,
        views: &[Arc<TableSnapshot>],
    ) -> Option<TimeRange> {
        let ttl = self.schema.ttl()?;
        // What the manifest was told of went before; later rows in it say nothing about this commit.
        if position <= self.opened_at {
            return None;
        }
        let (_, newest) = self.partitions.times()?;
        let horizon = ttl.before(newest.min(received_ns));
        let horizon = views.iter().fold(horizon, |horizon, view| horizon.min(view.settled_before(horizon)));
        if self.partitions.get(0).is_none_or(|first| first.range.to > horizon) {
            return None;
        }
        let range = TimeRange::new(i64::MIN, horizon);
        let last = self.covered(range).last().map_or(horizon, |last| last.to);
        self.retire_partitions(position, range);
        Some(TimeRange::new(i64::MIN, last))
    }

    /// The windows of the partitions that lie whole in `range`.
    pub(crate) fn covered(&self, range: TimeRange) -> Vec<TimeRange> {
        let windows = self.partitions.iter().map(|partition| partition.range);
        windows.filter(|window| range.covers(window)).collect()
    }
}

impl PartitionSnapshot {
    fn fit_runs(&mut self, schema: &Arc<TableSchema>) {
        for source in &mut self.sources {
            if let Source::Run(run) = source {
                *run = Arc::new(Run::new(fit_rows(run.batch(), schema), run.positions()));
            }
        }
    }
}
