//! The tables of a snapshot, in chunks that snapshots share: a commit copies the list of chunks and the one
//! chunk with its table, whatever the number of tables.
//!
//! Invariants:
//! - tables stand by id, names by name, and each table has its name once; `views` are those among them;
//! - `hot` and `recent_bytes` are those of the tables, after every change.

use super::TableSnapshot;
use crate::store::dictionary::Dictionary;
use std::sync::Arc;
use tickstone_model::{Column, ColumnType, TableSchema, is_same_name};

const CHUNK_TABLES: usize = 32;

/// See the module.
#[derive(Debug, Clone, Default)]
pub(super) struct Tables {
    /// By id; no chunk is empty.
    chunks: Vec<Arc<Vec<Arc<TableSnapshot>>>>,
    /// By name. Only a change of the catalog copies it.
    names: Arc<Vec<(String, u32)>>,
    /// The materialized views, by the name of the table below. Only a change of the catalog copies it.
    views: Arc<Vec<(String, u32)>>,
    /// Ids of tables with runs, ascending.
    hot: Vec<u32>,
    recent_bytes: usize,
}

impl Tables {
    /// By name.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<TableSnapshot>> {
        self.names.iter().filter_map(|(_, id)| self.get(*id))
    }

    /// Those with rows in memory.
    pub(super) fn hot(&self) -> impl Iterator<Item = &Arc<TableSnapshot>> {
        self.hot.iter().filter_map(|id| self.get(*id))
    }

    pub(super) fn recent_bytes(&self) -> usize {
        self.recent_bytes
    }

    /// The table of this name: the same spelling first, then any case.
    pub(super) fn named(&self, name: &str) -> Option<&Arc<TableSnapshot>> {
        let id = match self.names.binary_search_by(|(other, _)| other.as_str().cmp(name)) {
            Ok(index) => self.names[index].1,
            Err(_) => self.names.iter().find(|(other, _)| is_same_name(other, name))?.1,
        };
        self.get(id)
    }

    /// The table of this name, spelled so.
    pub(super) fn spelled(&self, name: &str) -> Option<&Arc<TableSnapshot>> {
        let index = self.names.binary_search_by(|(other, _)| other.as_str().cmp(name)).ok()?;
        self.get(self.names[index].1)
    }

    /// The materialized views that read the table of this name.
    pub(super) fn views_of(&self, table: &str) -> &[(String, u32)] {
        let first = self.views.partition_point(|(base, _)| base.as_str() < table);
        let count = self.views[first..].partition_point(|(base, _)| base == table);
        &self.views[first..first + count]
    }

    /// All materialized views, by the name of the table below.
    pub(super) fn views(&self) -> &[(String, u32)] {
        &self.views
    }

    pub(super) fn has_views(&self) -> bool {
        !self.views.is_empty()
    }

    fn chunk_of(&self, id: u32) -> usize {
        self.chunks.partition_point(|chunk| chunk[0].id <= id).saturating_sub(1)
    }

    pub(super) fn get(&self, id: u32) -> Option<&Arc<TableSnapshot>> {
        let chunk = self.chunks.get(self.chunk_of(id))?;
        chunk.get(chunk.binary_search_by_key(&id, |table| table.id).ok()?)
    }

    /// Changes a table, where it is there.
    pub(super) fn change<T>(&mut self, id: u32, change: impl FnOnce(&mut TableSnapshot) -> T) -> Option<T> {
        let at = self.chunk_of(id);
        let chunk = self.chunks.get_mut(at)?;
        let index = chunk.binary_search_by_key(&id, |table| table.id).ok()?;
        let table = Arc::make_mut(&mut Arc::make_mut(chunk)[index]);
        let before = table.recent_bytes();
        let result = change(table);
        let (after, is_hot) = (table.recent_bytes(), table.partitions.is_hot());
        self.count(id, before, after, is_hot);
        Some(result)
    }

    /// Takes the names of tables away; `hidden` is their ids.
    pub(super) fn hide(&mut self, hidden: &[u32]) {
        if !hidden.is_empty() {
            Arc::make_mut(&mut self.names).retain(|(_, id)| !hidden.contains(id));
            Arc::make_mut(&mut self.views).retain(|(_, id)| !hidden.contains(id));
        }
    }

    /// Has a table look like an empty one of another schema.
    pub(super) fn reshape(&mut self, id: u32, schema: Arc<TableSchema>) {
        self.change(id, |table| {
            let is_symbol = |column: &Column| column.column_type == ColumnType::Symbol;
            let empty = |column| is_symbol(column).then(Arc::<Dictionary>::default);
            let dictionaries = schema.columns().iter().map(empty).collect();
            *table = TableSnapshot { schema, dictionaries, ..Arc::unwrap_or_clone(table.without_rows()) };
        });
    }

    fn count(&mut self, id: u32, before: usize, after: usize, is_hot: bool) {
        self.recent_bytes = self.recent_bytes - before + after;
        match self.hot.binary_search(&id) {
            Ok(index) if !is_hot => {
                self.hot.remove(index);
            }
            Err(index) if is_hot => self.hot.insert(index, id),
            _ => {}
        }
    }

    /// Adds a table whose id and name are new.
    pub(super) fn insert(&mut self, table: TableSnapshot) {
        let (id, name) = (table.id, table.schema.name().to_string());
        let (bytes, is_hot) = (table.recent_bytes(), table.partitions.is_hot());
        let at = self.chunk_of(id);
        if let Some(view) = table.schema.materialized() {
            let views = Arc::make_mut(&mut self.views);
            let place = views.partition_point(|(base, other)| (base, *other) < (&view.base, id));
            views.insert(place, (view.base.clone(), id));
        }
        let table = Arc::new(table);
        match self.chunks.get_mut(at) {
            Some(chunk) => {
                let chunk = Arc::make_mut(chunk);
                let index = chunk.partition_point(|other| other.id < id);
                chunk.insert(index, table);
                if chunk.len() > 2 * CHUNK_TABLES {
                    let rest = chunk.split_off(CHUNK_TABLES);
                    self.chunks.insert(at + 1, Arc::new(rest));
                }
            }
            None => self.chunks.push(Arc::new(vec![table])),
        }
        let names = Arc::make_mut(&mut self.names);
        let index = names.partition_point(|(other, _)| *other < name);
        names.insert(index, (name, id));
        self.count(id, 0, bytes, is_hot);
    }

    /// Takes a table out.
    pub(super) fn remove(&mut self, id: u32) -> Option<Arc<TableSnapshot>> {
        let at = self.chunk_of(id);
        let chunk = Arc::make_mut(self.chunks.get_mut(at)?);
        let index = chunk.binary_search_by_key(&id, |table| table.id).ok()?;
        let table = chunk.remove(index);
        if chunk.is_empty() {
            self.chunks.remove(at);
        }
        Arc::make_mut(&mut self.names).retain(|(_, other)| *other != id);
        if table.schema.materialized().is_some() {
            Arc::make_mut(&mut self.views).retain(|(_, other)| *other != id);
        }
        self.count(id, table.recent_bytes(), 0, false);
        Some(table)
    }
}
