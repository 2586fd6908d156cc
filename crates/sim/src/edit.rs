//! DELETE and UPDATE: which rows, and how a rewrite of the engine is told.

use crate::Random;
use crate::generate::{some_cell, some_range};
use crate::shape::{Cell, ModelTable, TableSpec};
use crate::table::array;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tickstone_engine::{Result, Rewrite, Selection};

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
    /// Some of a table's rows.
    pub(crate) fn some(table: &ModelTable, random: &mut Random) -> Self {
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
