//! Actions that change what is there already: ALTER, DROP PARTITION, DELETE and UPDATE, merging, time that passes.

use crate::Random;
use crate::change::Change;
use crate::generate::{HOUR, some_alter, some_cell};
use crate::model::{Cell, ModelTable, TableSpec};
use crate::table::array;
use crate::world::{Failure, World};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tickstone_engine::{Engine, EngineError, Result, Rewrite, Selection};
use tickstone_model::{AlterTable, SyncPolicy, TimeRange};

/// Rows that go, and rows that get another value in one column.
#[derive(Debug, Clone)]
pub(crate) struct Edit {
    /// By id.
    pub(crate) deleted: HashSet<i64>,
    pub(crate) column: usize,
    /// By id, none of those deleted.
    pub(crate) updated: HashMap<i64, Cell>,
}

impl Edit {
    fn some(table: &ModelTable, random: &mut Random) -> Self {
        let spec = &table.spec;
        let open = |place: &usize| !spec.is_key(*place) && spec.columns[*place].0 != "id";
        let open: Vec<usize> = (0..spec.columns.len()).filter(open).collect();
        let column = open.get(random.below(open.len().max(1) as u64) as usize).copied();
        let mut edit =
            Self { deleted: HashSet::new(), column: column.unwrap_or_default(), updated: HashMap::new() };
        let (deletes, updates) = [(1, 0), (0, 1), (1, 1)][random.below(3) as usize];
        let one_in = [1, 2, 10, 60][random.below(4) as usize];
        // Some take whole stretches of time, others rows here and there.
        let ranged = random.one_in(3).then(|| some_range(table, random));
        let id = spec.column("id").unwrap_or_default();
        for row in &table.rows {
            let Cell::Int(number) = row[id] else { continue };
            let inside = match (ranged, spec.time_of(row)) {
                (Some(range), Some(ts)) => range.contains(ts),
                _ => random.one_in(one_in),
            };
            if !inside {
                continue;
            }
            match column {
                Some(column) if updates == 1 && (deletes == 0 || random.one_in(2)) => {
                    let (name, column_type) = &spec.columns[column];
                    edit.updated.insert(number, some_cell(name, *column_type, 20, random));
                }
                _ if deletes == 1 => {
                    edit.deleted.insert(number);
                }
                _ => {}
            }
        }
        edit
    }

    /// Hands the changes to a rewrite, segment by segment.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn stage(&self, rewrite: &mut Rewrite, spec: &TableSpec) -> Result<()> {
        let (table, id) = (Arc::clone(rewrite.table()), spec.column("id").unwrap_or_default());
        for segment in table.select(&Selection::default())? {
            let ids = segment.read_ranges(id, segment.rows())?;
            let ids = ids.as_primitive::<Int64Type>().values().to_vec();
            let numbered: Vec<(usize, i64)> = segment.rows().iter().cloned().flatten().zip(ids).collect();
            let deleted = numbered.iter().filter(|(_, id)| self.deleted.contains(id));
            rewrite.delete(&segment, &deleted.map(|(row, _)| *row).collect::<Vec<_>>())?;
            let updated: Vec<_> =
                numbered.iter().filter_map(|(row, id)| Some((*row, self.updated.get(id)?))).collect();
            let rows: Vec<usize> = updated.iter().map(|(row, _)| *row).collect();
            let values = array(spec.columns[self.column].1, updated.iter().map(|(_, cell)| *cell));
            if !rows.is_empty() {
                rewrite.update(&segment, &rows, self.column, &values)?;
            }
        }
        Ok(())
    }
}

/// A range of time that begins and ends at partitions of rows, or next to them.
fn some_range(table: &ModelTable, random: &mut Random) -> TimeRange {
    if random.one_in(8) || table.rows.is_empty() {
        return TimeRange::ALL;
    }
    let mut edge = || {
        let row = &table.rows[random.below(table.rows.len() as u64) as usize];
        let partition = table.spec.partition_by.partition_of(table.spec.time_of(row).unwrap_or_default());
        let nudge = if random.one_in(4) { random.below(3) as i64 - 1 } else { 0 };
        (partition.from.saturating_add(nudge), partition.to.saturating_add(nudge))
    };
    let (a, b) = (edge(), edge());
    TimeRange::new(a.0.min(b.0), a.1.max(b.1))
}

impl World {
    pub(crate) fn alter(&mut self, names: u64, random: &mut Random) -> std::result::Result<(), Failure> {
        let Some(table) = self.some_table(random) else { return Ok(()) };
        let change = some_alter(&table.spec, names, random);
        let taken = |name: &String| *name != table.spec.name && self.model.live().contains_key(name);
        let exists = matches!(&change, AlterTable::RenameTable(name) if taken(name));
        let refused = |error: &EngineError| exists && matches!(error, EngineError::TableExists { .. });
        let changes = ModelTable::clone(&table).alter(&change);
        let name = table.spec.name.clone();
        if !changes {
            // Nothing is written, and nothing made stable.
            let what = format!("alter {name}: nothing");
            return self.upkeep(&what, |engine| engine.alter_table(&name, &change)).map(|_| ());
        }
        let change = Change::Alter { table: name, change };
        let run = |engine: &Engine, state: &_| change.run(engine, state, None);
        self.change(change.clone(), SyncPolicy::Always, refused, exists, run)
    }

    pub(crate) fn drop_partitions(&mut self, random: &mut Random) -> std::result::Result<(), Failure> {
        let Some(table) = self.some_table(random) else { return Ok(()) };
        let range = some_range(&table, random);
        self.simple(Change::DropPartitions { table: table.spec.name.clone(), range })
    }

    pub(crate) fn rewrite(&mut self, random: &mut Random) -> std::result::Result<(), Failure> {
        let Some(table) = self.some_table(random) else { return Ok(()) };
        let edit = Edit::some(&table, random);
        let name = table.spec.name.clone();
        let nothing = edit.deleted.is_empty() && edit.updated.is_empty();
        if nothing || random.one_in(6) {
            let what = format!("give up a rewrite of {name}");
            let stage = |engine: &Engine| {
                let mut rewrite = engine.rewrite(&name)?;
                edit.stage(&mut rewrite, &table.spec)?;
                if nothing { rewrite.commit().map(|_| ()) } else { Ok(()) }
            };
            return self.upkeep(&what, stage).map(|_| ());
        }
        self.simple(Change::Rewrite { table: name, edit: Arc::new(edit) })
    }

    pub(crate) fn compact(&mut self, random: &mut Random) -> std::result::Result<(), Failure> {
        let table = if random.one_in(2) { None } else { self.some_table(random) };
        let name = table.map(|table| table.spec.name.clone());
        let what = format!("compact {}", name.as_deref().unwrap_or("all"));
        if self.upkeep(&what, |engine: &Engine| engine.compact(name.as_deref()))? && name.is_none() {
            self.model.all_stable();
        }
        Ok(())
    }

    pub(crate) fn pass_time(&mut self, random: &mut Random) {
        let hours = [1, 5, 24, 60][random.below(4) as usize];
        self.note(format!("{hours} hours pass"));
        self.clock.advance(hours * HOUR);
    }

    /// The time of a commit that is about to be made: no hour, at which partitions may end, begins within it.
    pub(crate) fn commit_time(&mut self) -> i64 {
        const CALLS_NS_MAX: i64 = 60_000_000_000;
        let now = tickstone_engine::Clock::now_ns(self.clock.as_ref());
        let left = HOUR - now.rem_euclid(HOUR);
        if left < CALLS_NS_MAX {
            self.clock.advance(left);
            return now + left;
        }
        now
    }
}
