//! The rows of one table while lines are read.
//!
//! Invariant between lines: every column holds `rows` values, and so do the times where the table has them.

use super::value::Value;
use crate::column::ColumnBuilder;
use crate::rows::{check_name, is_new_time};
use crate::{ColumnPlan, Fault, RowsColumn, TableRows, TimeFormat};
use arrow_array::{ArrayRef, TimestampNanosecondArray};
use std::collections::HashMap;
use std::sync::Arc;
use tickstone_model::{ColumnType, MAX_COLUMNS, TableSchema, folded_name};

pub(super) struct Table {
    pub(super) name: String,
    /// The name as the last line wrote it.
    pub(super) raw: Vec<u8>,
    pub(super) schema: Option<Arc<TableSchema>>,
    pub(super) columns: Vec<Column>,
    places: HashMap<Vec<u8>, Place>,
    /// The columns by [`Self::key`].
    by_name: HashMap<String, usize>,
    times: Vec<i64>,
    pub(super) rows: usize,
}

pub(super) struct Column {
    name: String,
    /// The name as the line that last filled the column writes it.
    pub(super) raw: Vec<u8>,
    is_tag: bool,
    place: Option<usize>,
    pub(super) builder: ColumnBuilder,
}

/// What a name of a line means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Column(usize),
    /// The designated timestamp.
    Time,
}

impl Table {
    pub(super) fn new(name: String, raw: Vec<u8>, schema: Option<Arc<TableSchema>>) -> Self {
        Self {
            name,
            raw,
            schema,
            columns: Vec::new(),
            places: HashMap::new(),
            by_name: HashMap::new(),
            times: Vec::new(),
            rows: 0,
        }
    }

    /// Whether rows can come at all.
    pub(super) fn check(&self) -> Result<(), Fault> {
        match self.schema.as_ref().is_some_and(|schema| schema.view().is_some()) {
            true => Err(Fault::View),
            false => Ok(()),
        }
    }

    /// Whether there is a designated timestamp, as every table has that rows make.
    pub(super) fn has_times(&self) -> bool {
        self.schema.as_ref().is_none_or(|schema| schema.timestamp().is_some())
    }

    /// What a name means that stands in a line like this; `None` for one that no line had before.
    pub(super) fn place(&self, raw: &[u8]) -> Option<Place> {
        self.places.get(raw).copied()
    }

    /// What a name means that stands in a line like this for the first time, `of` the type that its first value makes.
    pub(super) fn new_place(
        &mut self,
        raw: &[u8],
        name: &[u8],
        of: ColumnType,
        is_tag: bool,
    ) -> Result<Place, Fault> {
        let name = std::str::from_utf8(name).map_err(|_| Fault::NotUtf8)?;
        let place = match self.known(name, of) {
            Some(place) => place,
            None => self.add(name, raw, of, is_tag)?,
        };
        self.places.insert(raw.to_vec(), place);
        Ok(place)
    }

    /// The name of the table's column that a name means, else what spellings of a new one have in common.
    fn key(&self, name: &str) -> String {
        let schema = self.schema.as_ref();
        let known = schema.and_then(|schema| Some(&schema.columns()[schema.column_index(name)?].name));
        known.cloned().unwrap_or_else(|| folded_name(name))
    }

    /// What a name means that lines have written otherwise, or that is the designated timestamp's.
    fn known(&self, name: &str, of: ColumnType) -> Option<Place> {
        if let Some(&column) = self.by_name.get(&self.key(name)) {
            return Some(Place::Column(column));
        }
        let is_time = match &self.schema {
            Some(schema) => schema.timestamp().is_some_and(|place| schema.column_index(name) == Some(place)),
            None => is_new_time(name, of),
        };
        is_time.then_some(Place::Time)
    }

    fn add(&mut self, name: &str, raw: &[u8], of: ColumnType, is_tag: bool) -> Result<Place, Fault> {
        // One of them is the designated timestamp of a new table.
        if self.columns.len() >= MAX_COLUMNS - 1 {
            return Err(Fault::TooManyColumns);
        }
        let place = self.schema.as_ref().and_then(|schema| schema.column_index(name));
        let column_type = match (&self.schema, place) {
            (Some(schema), Some(place)) => schema.columns()[place].column_type,
            _ => {
                check_name(name)?;
                of
            }
        };
        let plan = ColumnPlan {
            source: name.to_string(),
            column_type,
            time: TimeFormat::Iso,
            required: false,
            inferred: false,
        };
        let mut builder = ColumnBuilder::new(&plan);
        for _ in 0..self.rows {
            builder.push_null()?;
        }
        self.by_name.insert(self.key(name), self.columns.len());
        self.columns.push(Column { name: name.to_string(), raw: raw.to_vec(), is_tag, place, builder });
        Ok(Place::Column(self.columns.len() - 1))
    }

    /// Ends a row: NULL where it has no value.
    #[inline]
    pub(super) fn end_row(&mut self, filled: usize, time: Option<i64>, now: i64) -> Result<(), Fault> {
        if self.has_times() {
            self.times.push(time.unwrap_or(now));
        }
        let rows = self.rows;
        if filled < self.columns.len() {
            for column in self.columns.iter_mut().filter(|column| column.builder.len() == rows) {
                column.builder.push_null()?;
            }
        }
        self.rows += 1;
        Ok(())
    }

    /// Takes back what a line added that is not to count: to as many rows as before, and so many columns.
    pub(super) fn undo(&mut self, columns: usize) {
        if columns < self.columns.len() {
            self.columns.truncate(columns);
            self.places.retain(|_, place| !matches!(place, Place::Column(at) if *at >= columns));
            self.by_name.retain(|_, at| *at < columns);
        }
        let rows = self.rows;
        self.columns.iter_mut().for_each(|column| column.builder.truncate(rows));
        self.times.truncate(rows);
    }

    /// The rows, where there are any.
    pub(super) fn finish(mut self) -> Option<TableRows> {
        if self.rows == 0 {
            return None;
        }
        let has_times = self.has_times();
        let times: ArrayRef = Arc::new(TimestampNanosecondArray::from(std::mem::take(&mut self.times)));
        let column = |mut column: Column| RowsColumn {
            name: column.name,
            column_type: column.builder.column_type(),
            is_tag: column.is_tag,
            place: column.place,
            values: column.builder.finish(),
        };
        Some(TableRows {
            name: self.name,
            table: self.schema,
            columns: self.columns.into_iter().map(column).collect(),
            times: has_times.then_some(times),
            rows: self.rows,
        })
    }
}

impl Column {
    /// Adds a tag.
    #[inline]
    pub(super) fn push_tag(&mut self, text: &[u8]) -> Result<(), Fault> {
        match self.builder.column_type() {
            ColumnType::Symbol | ColumnType::Varchar => self.builder.push(text),
            wanted => Err(Fault::Conflict { sent: "a tag", wanted }),
        }
    }

    /// Whether a line fills the column under a name, in the row after so many: not where it has done so under the same
    /// name.
    ///
    /// # Errors
    /// Where it has done so under a name that differs in case.
    pub(super) fn fills(&mut self, raw: &[u8], rows: usize) -> Result<bool, Fault> {
        if self.builder.len() == rows {
            if self.raw != raw {
                self.raw = raw.to_vec();
            }
            return Ok(true);
        }
        match self.raw == raw {
            true => Ok(false),
            false => Err(Fault::Alike { other: String::from_utf8_lossy(&self.raw).into_owned() }),
        }
    }

    /// Adds the value of a field.
    pub(super) fn push(&mut self, value: &Value<'_>) -> Result<(), Fault> {
        self.builder.push_value(value)
    }
}
