//! What a table was: the schemas that its parts and its frames were written with, and the stretches of
//! time whose partitions went.
//!
//! Invariants:
//! - versions stand in order of their positions, and the last one is the table's schema;
//! - every version that a part was written with is kept, and every one that a frame of the tape may be;
//! - what the tape no longer has to be told of is forgotten: a frame before the first version known was
//!   sealed, or is of no effect.

use arrow_array::new_null_array;
use std::sync::Arc;
use tickstone_model::{RowBatch, TableSchema, TimeRange};

/// For each column of a schema, its place in an earlier one; `None` where it was not there.
pub(crate) type ColumnMap = Arc<[Option<usize>]>;

/// A schema, and the position of the frame after which rows had it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SchemaVersion {
    pub(crate) since: u64,
    pub(crate) schema: Arc<TableSchema>,
}

/// Rows of frames up to `position` in partitions that lie whole in `range` are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retirement {
    pub(crate) position: u64,
    pub(crate) range: TimeRange,
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct History {
    pub(crate) versions: Vec<SchemaVersion>,
    pub(crate) retirements: Vec<Retirement>,
    /// One a version, from the current columns to its own; `None` where they are the same.
    maps: Vec<Option<ColumnMap>>,
}

impl History {
    /// Of a table made with `schema`.
    pub(crate) fn new(schema: Arc<TableSchema>) -> Self {
        Self::of(vec![SchemaVersion { since: 0, schema }], Vec::new())
    }

    /// Versions in order, the current one last.
    pub(crate) fn of(versions: Vec<SchemaVersion>, retirements: Vec<Retirement>) -> Self {
        let current = versions.last().map(|version| Arc::clone(&version.schema));
        let map = |version: &SchemaVersion| {
            let current = current.as_ref()?;
            column_map(&version.schema, current)
        };
        let maps = versions.iter().map(map).collect();
        Self { versions, retirements, maps }
    }

    /// The schema of the frame at `position`; `None` before the first one known.
    pub(crate) fn at(&self, position: u64) -> Option<&Arc<TableSchema>> {
        let found = self.versions.iter().rev().find(|version| version.since < position)?;
        Some(&found.schema)
    }

    /// The schema of this version.
    pub(crate) fn version(&self, version: u32) -> Option<&Arc<TableSchema>> {
        self.place(version).map(|place| &self.versions[place].schema)
    }

    /// From the current columns to those of a version; `None` where they are the same.
    pub(crate) fn columns_of(&self, version: u32) -> Option<&ColumnMap> {
        self.maps[self.place(version)?].as_ref()
    }

    fn place(&self, version: u32) -> Option<usize> {
        self.versions.iter().position(|known| known.schema.version() == version)
    }

    /// The table has `schema` from the frame at `position` on.
    #[must_use]
    pub(crate) fn altered(&self, position: u64, schema: Arc<TableSchema>) -> Self {
        let mut versions = self.versions.clone();
        match versions.last_mut() {
            Some(last) if last.schema.version() == schema.version() => last.schema = schema,
            _ => versions.push(SchemaVersion { since: position, schema }),
        }
        Self::of(versions, self.retirements.clone())
    }

    /// Rows up to `position` in partitions that lie whole in `range` go.
    pub(crate) fn retire(&mut self, position: u64, range: TimeRange) {
        self.retirements.retain(|earlier| !range.covers(&earlier.range));
        self.retirements.push(Retirement { position, range });
    }

    /// Whether the rows that the frame at `position` brought to a partition are gone.
    pub(crate) fn is_retired(&self, partition: &TimeRange, position: u64) -> bool {
        self.retirements.iter().any(|gone| position <= gone.position && gone.range.covers(partition))
    }

    /// Without what neither a frame from `tape_from` on nor a part of version `used_from` or later needs;
    /// `None` where that is nothing.
    pub(crate) fn pruned(&self, tape_from: u64, used_from: u32) -> Option<Self> {
        let needless =
            |pair: &&[SchemaVersion]| pair[1].since < tape_from && pair[0].schema.version() < used_from;
        let count = self.versions.windows(2).take_while(needless).count();
        let retirements: Vec<_> =
            self.retirements.iter().filter(|gone| gone.position >= tape_from).copied().collect();
        let less = count > 0 || retirements.len() < self.retirements.len();
        less.then(|| Self::of(self.versions[count..].to_vec(), retirements))
    }
}

/// For each column of `to`, its place in `from`; `None` where all are in their places.
pub(crate) fn column_map(from: &TableSchema, to: &TableSchema) -> Option<ColumnMap> {
    let map: ColumnMap =
        (0..to.columns().len()).map(|column| from.column_of_id(to.column_id(column))).collect();
    let same = from.columns().len() == to.columns().len()
        && map.iter().enumerate().all(|(column, place)| *place == Some(column));
    (!same).then_some(map)
}

/// The same rows in the columns of a later schema: buffers are shared, columns that were not there are NULL.
pub(crate) fn fit_rows(batch: &RowBatch, schema: &Arc<TableSchema>) -> RowBatch {
    let map = column_map(batch.schema(), schema);
    let columns = schema.columns().iter().enumerate().map(|(index, column)| {
        match map.as_ref().map_or(Some(index), |map| map[index]) {
            Some(place) => Arc::clone(&batch.columns()[place]),
            None => new_null_array(&column.column_type.stored_type(), batch.rows()),
        }
    });
    RowBatch::new(Arc::clone(schema), columns.collect())
        .expect("a column of an id has its type for ever, and the designated timestamp is never new")
}

#[cfg(test)]
mod tests;
