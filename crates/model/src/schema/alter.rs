//! How a table's shape can change after it was made.
//!
//! Invariants:
//! - a column's id is its own for the life of its table: a column of the same name added later has another;
//! - the version grows by one with every change of columns, so that equal versions of a table mean the
//!   same ids, names and types in the same places.

use crate::{Column, MAX_COLUMNS, ModelError, PartitionBy, Result, TableAccess, TableSchema, Ttl};

/// One change of a table's shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AlterTable {
    /// A new column after the others; rows that are there have NULL in it.
    AddColumn(Column),
    /// A column goes, with its values.
    DropColumn(String),
    /// A column gets another name.
    RenameColumn {
        /// The name it has.
        from: String,
        /// The name it gets.
        to: String,
    },
    /// How long rows are kept, `None` for always.
    SetTtl(Option<Ttl>),
    /// A column is indexed from here on: parts written later have filters for it.
    AddIndex(String),
    /// A column is indexed no longer.
    DropIndex(String),
    /// The table gets another name.
    RenameTable(String),
    /// A view gets another query.
    SetView(String),
    /// A table or a view gets another owner, or other grants.
    SetAccess(TableAccess),
}

impl TableSchema {
    /// The schema after a change.
    ///
    /// # Errors
    /// A [`ModelError`] that names the rule broken: a column that is there already (in any case) or is not,
    /// the designated timestamp or a series column dropped, the last column dropped, too many columns, a
    /// time to live for a table without partitions by time, [`ModelError::WrongKind`] for a view whose columns are to
    /// change and for the query of a table.
    pub fn altered(&self, change: &AlterTable) -> Result<TableSchema> {
        let mut next = self.clone();
        let of_view = matches!(change, AlterTable::SetView(_));
        let of_any = matches!(change, AlterTable::RenameTable(_) | AlterTable::SetAccess(_));
        if !of_any && of_view != self.view.is_some() {
            return Err(self.wrong_kind());
        }
        let of_columns = matches!(
            change,
            AlterTable::AddColumn(_) | AlterTable::DropColumn(_) | AlterTable::RenameColumn { .. }
        );
        if of_columns && self.materialized().is_some() {
            return Err(self.wrong_kind());
        }
        match change {
            AlterTable::AddColumn(column) => next.add_column(column.clone())?,
            AlterTable::DropColumn(name) => next.drop_column(name)?,
            AlterTable::RenameColumn { from, to } => next.rename_column(from, to)?,
            AlterTable::SetTtl(ttl) => {
                next.ttl = *ttl;
                return next.checked_ttl();
            }
            AlterTable::AddIndex(name) => {
                let index = self.existing("ADD INDEX", name)?;
                self.columns[index].check_scalar("ADD INDEX")?;
                if !next.indexed.contains(&index) {
                    next.indexed.push(index);
                    next.indexed.sort_unstable();
                }
                return Ok(next);
            }
            AlterTable::DropIndex(name) => {
                let index = self.existing("DROP INDEX", name)?;
                next.indexed.retain(|other| *other != index);
                return Ok(next);
            }
            AlterTable::SetView(query) => {
                next.view = Some(query.clone());
                return Ok(next);
            }
            AlterTable::SetAccess(access) => {
                next.access = access.clone();
                return Ok(next);
            }
            AlterTable::RenameTable(name) => {
                crate::schema::check_name("table", name)?;
                next.name.clone_from(name);
                return Ok(next);
            }
        }
        next.version += 1;
        next.rebuild_arrow();
        Ok(next)
    }

    /// That this is no table, or no view.
    pub fn wrong_kind(&self) -> ModelError {
        let found = match (&self.view, self.materialized()) {
            (Some(_), _) => "a view, not a table",
            (None, Some(_)) => "a materialized view, whose rows are those of its query",
            (None, None) => "a table, not a view",
        };
        ModelError::WrongKind { name: self.name.clone(), found }
    }

    fn add_column(&mut self, column: Column) -> Result<()> {
        self.check_new_name(&column.name, None)?;
        if self.columns.len() >= MAX_COLUMNS {
            return Err(ModelError::ColumnCount { count: self.columns.len() + 1, most: MAX_COLUMNS });
        }
        self.columns.push(column);
        self.ids.push(self.next_id);
        self.next_id += 1;
        Ok(())
    }

    fn drop_column(&mut self, name: &str) -> Result<()> {
        let index = self.existing("DROP COLUMN", name)?;
        let in_use = |role| ModelError::ColumnInUse { name: self.columns[index].name.clone(), role };
        if self.timestamp == Some(index) {
            return Err(in_use("the designated timestamp"));
        }
        if self.series.contains(&index) {
            return Err(in_use("a column of the series key"));
        }
        if self.dedup.contains(&index) {
            return Err(in_use("one of the DEDUP UPSERT KEYS"));
        }
        if self.columns.len() == 1 {
            return Err(in_use("the only column"));
        }
        self.columns.remove(index);
        self.ids.remove(index);
        let moved = |place: usize| if place > index { place - 1 } else { place };
        self.timestamp = self.timestamp.map(moved);
        self.series.iter_mut().for_each(|place| *place = moved(*place));
        self.dedup.iter_mut().for_each(|place| *place = moved(*place));
        self.indexed.retain(|place| *place != index);
        self.indexed.iter_mut().for_each(|place| *place = moved(*place));
        Ok(())
    }

    fn rename_column(&mut self, from: &str, to: &str) -> Result<()> {
        let index = self.existing("RENAME COLUMN", from)?;
        self.check_new_name(to, Some(index))?;
        let from = std::mem::replace(&mut self.columns[index].name, to.to_string());
        if let Some(source) = &mut self.source {
            source.rename_column(&from, to);
        }
        Ok(())
    }

    fn existing(&self, clause: &'static str, name: &str) -> Result<usize> {
        self.column_index(name).ok_or_else(|| ModelError::NoSuchColumn { clause, name: name.to_string() })
    }

    fn check_new_name(&self, name: &str, except: Option<usize>) -> Result<()> {
        crate::schema::check_name("column", name)?;
        let mut others = self.columns.iter().enumerate().filter(|(index, _)| Some(*index) != except);
        match others.find(|(_, column)| crate::is_same_name(&column.name, name)) {
            Some((_, column)) => Err(ModelError::DuplicateColumn { name: column.name.clone() }),
            None => Ok(()),
        }
    }

    /// The schema itself, where its time to live can be kept.
    pub(crate) fn checked_ttl(self) -> Result<TableSchema> {
        if self.ttl.is_some() && self.partition_by == PartitionBy::None {
            return Err(ModelError::TtlWithoutPartitions);
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests;
