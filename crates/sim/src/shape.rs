//! Tables' shapes and rows as the model has them: what ALTER, upserts, time to live and rewrites do to them.
//!
//! Invariant: nothing here is taken from the engine but the words of its model (types, ranges, `Ttl::before`).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use tickstone_model::{
    AlterTable, ColumnType, Grant, PartitionBy, SyncPolicy, TableAccess, TableSchema, TimeRange, Ttl,
};

/// One value; doubles by their bits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Cell {
    /// No value.
    Null,
    /// BOOLEAN.
    Bool(bool),
    /// Integers, dates and timestamps (ns since the Unix epoch).
    Int(i64),
    /// DECIMAL, unscaled.
    Wide(i128),
    /// DOUBLE, its bits.
    Float(u64),
    /// SYMBOL and VARCHAR.
    Text(Arc<str>),
    /// DOUBLE[].
    List(Arc<[Cell]>),
}

/// The values of a row, by column.
pub(crate) type Row = Arc<[Cell]>;

/// A table's shape, and how it is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableSpec {
    /// Name.
    pub(crate) name: String,
    /// Names and types; `id`, a BIGINT, is unique to each row of a run.
    pub(crate) columns: Vec<(String, ColumnType)>,
    /// What tells columns of one name apart that came one after the other.
    pub(crate) ids: Vec<u32>,
    pub(crate) next_id: u32,
    /// Grows with each change of columns.
    pub(crate) version: u32,
    /// The designated timestamp.
    pub(crate) timestamp: Option<usize>,
    /// The series key.
    pub(crate) series: Vec<usize>,
    /// DEDUP UPSERT KEYS; empty without.
    pub(crate) dedup: Vec<usize>,
    /// Columns whose values are looked up, in any order.
    pub(crate) indexed: Vec<usize>,
    /// How long rows are kept.
    pub(crate) ttl: Option<Ttl>,
    /// The unit of partitions.
    pub(crate) partition_by: PartitionBy,
    /// The table's policy.
    pub(crate) sync: SyncPolicy,
    /// Who owns it, and who else may do what with it.
    pub(crate) access: TableAccess,
}

impl TableSpec {
    /// The schema as the engine wants it.
    ///
    /// # Errors
    /// What the engine's model says of a spec that breaks its rules.
    pub(crate) fn schema(&self) -> Result<TableSchema, String> {
        let mut builder = TableSchema::builder(&self.name);
        for (name, column_type) in &self.columns {
            builder = builder.column(name, *column_type);
        }
        if let Some(index) = self.timestamp {
            builder = builder.timestamp(&self.columns[index].0);
        }
        let names = |places: &[usize]| -> Vec<String> {
            places.iter().map(|index| self.columns[*index].0.clone()).collect()
        };
        let builder = builder.series(names(&self.series)).dedup(names(&self.dedup)).ttl(self.ttl);
        let builder = builder.partition_by(self.partition_by).sync(self.sync).indexed(names(&self.indexed));
        builder.build().map_err(|error| error.to_string())
    }

    /// Who may do what with this table once it has taken the place of another: as with that one, the columns of grants
    /// by their names. A grant of which no column is left ends.
    pub(crate) fn access_of_replaced(&self, replaced: &TableSpec) -> TableAccess {
        let mut grants = Vec::new();
        for grant in &replaced.access.grants {
            let granted = |ids: &Vec<u32>| -> Vec<u32> {
                let was_granted = |name: &str| {
                    replaced.column(name).is_some_and(|column| ids.contains(&replaced.ids[column]))
                };
                let kept = self.columns.iter().zip(&self.ids).filter(|((name, _), _)| was_granted(name));
                let mut kept: Vec<u32> = kept.map(|(_, id)| *id).collect();
                kept.sort_unstable();
                kept
            };
            let columns = grant.columns.as_ref().map(granted);
            if columns.as_ref().is_none_or(|columns| !columns.is_empty()) {
                grants.push(Grant { columns, ..grant.clone() });
            }
        }
        TableAccess { owner: replaced.access.owner, grants }
    }

    /// The column of this name.
    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|(other, _)| other == name)
    }

    /// Whether a column cannot be dropped or updated.
    pub(crate) fn is_key(&self, column: usize) -> bool {
        self.timestamp == Some(column) || self.series.contains(&column) || self.dedup.contains(&column)
    }

    /// The partition of a row.
    fn partition_of(&self, row: &Row) -> TimeRange {
        self.time_of(row).map_or(TimeRange::ALL, |ts| self.partition_by.partition_of(ts))
    }

    /// Its designated timestamp.
    pub(crate) fn time_of(&self, row: &Row) -> Option<i64> {
        match self.timestamp.map(|column| &row[column]) {
            Some(Cell::Int(ts)) => Some(*ts),
            _ => None,
        }
    }
}

/// A table as it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelTable {
    /// Its shape.
    pub(crate) spec: TableSpec,
    /// Which making of a table it is: a commit begun on another one is refused.
    pub(crate) made: u64,
    /// Rows in the order of their commits.
    pub(crate) rows: Vec<Row>,
}

/// All tables, by name. Cheap to clone.
pub(crate) type State = BTreeMap<String, Arc<ModelTable>>;

impl ModelTable {
    /// Rows of one commit, received at `at_ns`, with what they replace and what is too old after them.
    pub(crate) fn commit(&mut self, rows: &[Row], at_ns: i64) {
        if self.spec.dedup.is_empty() {
            self.rows.extend(rows.iter().map(Arc::clone));
        } else {
            let key = |row: &Row| -> Vec<Cell> {
                self.spec.dedup.iter().map(|column| row[*column].clone()).collect()
            };
            let mut last: HashMap<Vec<Cell>, usize> = HashMap::new();
            last.extend(rows.iter().enumerate().map(|(place, row)| (key(row), place)));
            self.rows.retain(|row| !last.contains_key(&key(row)));
            let kept = rows.iter().enumerate().filter(|(place, row)| last[&key(row)] == *place);
            let kept: Vec<Row> = kept.map(|(_, row)| Arc::clone(row)).collect();
            self.rows.extend(kept);
        }
        self.expire(at_ns);
    }

    /// Partitions go that end a time to live before the newest row, or before now, whichever is earlier.
    fn expire(&mut self, at_ns: i64) {
        let newest = self.rows.iter().filter_map(|row| self.spec.time_of(row)).max();
        if let (Some(ttl), Some(newest)) = (self.spec.ttl, newest) {
            let horizon = ttl.before(newest.min(at_ns));
            let Self { spec, rows, .. } = self;
            rows.retain(|row| spec.partition_of(row).to > horizon);
        }
    }

    /// Rows of partitions that lie whole in `range` go.
    pub(crate) fn drop_partitions(&mut self, range: TimeRange) {
        let Self { spec, rows, .. } = self;
        rows.retain(|row| !range.covers(&spec.partition_of(row)));
    }

    /// Rows go, and others get new values in a column.
    pub(crate) fn rewrite(&mut self, deleted: &HashSet<i64>, updated: &HashMap<i64, Cell>, column: usize) {
        let Some(id) = self.spec.column("id") else { return };
        let id_of = |row: &Row| if let Cell::Int(id) = row[id] { id } else { -1 };
        self.rows.retain(|row| !deleted.contains(&id_of(row)));
        for row in &mut self.rows {
            if let Some(value) = updated.get(&id_of(row)) {
                let mut cells = row.to_vec();
                cells[column] = value.clone();
                *row = cells.into();
            }
        }
    }

    /// Another shape; `false` where the change changes nothing.
    pub(crate) fn alter(&mut self, change: &AlterTable) -> bool {
        let spec = &mut self.spec;
        match change {
            AlterTable::AddColumn(column) => {
                spec.columns.push((column.name.clone(), column.column_type));
                spec.ids.push(spec.next_id);
                spec.next_id += 1;
                let with_null = |row: &Row| row.iter().cloned().chain([Cell::Null]).collect::<Row>();
                self.rows.iter_mut().for_each(|row| *row = with_null(row));
            }
            AlterTable::DropColumn(name) => {
                let Some(place) = spec.column(name) else { return false };
                spec.columns.remove(place);
                spec.ids.remove(place);
                let moved = |column: &mut usize| *column -= usize::from(*column > place);
                spec.timestamp.iter_mut().for_each(moved);
                spec.series.iter_mut().for_each(moved);
                spec.dedup.iter_mut().for_each(moved);
                spec.indexed.retain(|column| *column != place);
                spec.indexed.iter_mut().for_each(moved);
                for row in &mut self.rows {
                    let mut cells = row.to_vec();
                    cells.remove(place);
                    *row = cells.into();
                }
            }
            AlterTable::RenameColumn { from, to } => {
                let Some(place) = spec.column(from) else { return false };
                spec.columns[place].0.clone_from(to);
            }
            AlterTable::AddIndex(name) => {
                let added = spec.column(name).filter(|column| !spec.indexed.contains(column));
                spec.indexed.extend(added);
                return added.is_some();
            }
            AlterTable::DropIndex(name) => {
                let (before, gone) = (spec.indexed.len(), spec.column(name));
                spec.indexed.retain(|column| Some(*column) != gone);
                return spec.indexed.len() < before;
            }
            AlterTable::SetTtl(ttl) => return std::mem::replace(&mut spec.ttl, *ttl) != *ttl,
            AlterTable::SetAccess(access) => {
                return std::mem::replace(&mut spec.access, access.clone()) != *access;
            }
            // The simulator has no views.
            AlterTable::SetView(_) => return false,
            AlterTable::RenameTable(name) => return std::mem::replace(&mut spec.name, name.clone()) != *name,
        }
        spec.version += 1;
        true
    }
}
