//! Actions that change what is there already: ALTER, DROP PARTITION, DELETE and UPDATE, merging, time that passes.

use super::{Failure, World};
use crate::Random;
use crate::change::Change;
use crate::edit::Edit;
use crate::generate::{HOUR, some_alter, some_range};
use crate::shape::ModelTable;
use std::sync::Arc;
use tickstone_engine::{Engine, EngineError};
use tickstone_model::{AlterTable, SyncPolicy};

impl World {
    pub(super) fn alter(&mut self, names: u64, random: &mut Random) -> Result<(), Failure> {
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

    pub(super) fn drop_partitions(&mut self, random: &mut Random) -> Result<(), Failure> {
        let Some(table) = self.some_table(random) else { return Ok(()) };
        let range = some_range(&table, random);
        self.simple(Change::DropPartitions { table: table.spec.name.clone(), range })
    }

    pub(super) fn rewrite(&mut self, random: &mut Random) -> Result<(), Failure> {
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

    pub(super) fn compact(&mut self, random: &mut Random) -> Result<(), Failure> {
        let table = if random.one_in(2) { None } else { self.some_table(random) };
        let name = table.map(|table| table.spec.name.clone());
        let what = format!("compact {}", name.as_deref().unwrap_or("all"));
        if self.upkeep(&what, |engine: &Engine| engine.compact(name.as_deref()))? && name.is_none() {
            self.model.all_stable();
        }
        Ok(())
    }

    pub(super) fn pass_time(&mut self, random: &mut Random) {
        let hours = [1, 5, 24, 60][random.below(4) as usize];
        self.note(format!("{hours} hours pass"));
        self.clock.advance(hours * HOUR);
    }

    /// The time of a commit that is about to be made: no hour, at which partitions may end, begins within it.
    pub(super) fn commit_time(&mut self) -> i64 {
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
