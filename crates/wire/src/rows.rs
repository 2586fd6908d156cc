//! Rows as protocols give them: of tables that are named with them, in columns that are.
//!
//! A protocol makes [`TableRows`] of what a client sent: of a table that is there, or of one that is to be made of them
//! ([`TableRows::new_table`]), with columns that it has or is to get ([`TableRows::new_columns`]). They are then one
//! batch in the table's order ([`TableRows::batch`]).

use crate::Fault;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use std::sync::Arc;
use tickstone_model::{Column, ColumnType, ModelError, TableSchema, fault_of_name};

/// The designated timestamp of a table that rows make, as QuestDB names it.
const NEW_TIMESTAMP: &str = "timestamp";

/// Its name where the rows have a column of that one which is no time, as InfluxDB names it.
const NEW_TIME: &str = "time";

/// Whether a name in rows of a new table is that of its designated timestamp, `of` the type of its values.
pub(crate) fn is_new_time(name: &str, of: ColumnType) -> bool {
    name.eq_ignore_ascii_case(NEW_TIMESTAMP) && of == ColumnType::Timestamp
}

/// Rows of one table.
#[derive(Debug, Clone)]
pub struct TableRows {
    /// The table's name, as the client wrote it.
    pub name: String,
    /// The table they were read for; `None` where there was none.
    pub table: Option<Arc<TableSchema>>,
    /// The columns that came, in order of their coming; of a new table without the designated timestamp.
    pub columns: Vec<RowsColumn>,
    /// The designated timestamp, one a row; `None` where the table has none.
    pub times: Option<ArrayRef>,
    /// How many there are.
    pub rows: usize,
}

/// One column of [`TableRows`].
#[derive(Debug, Clone)]
pub struct RowsColumn {
    /// Its name, as the client wrote it.
    pub name: String,
    /// Its type: the table's, or what its first value makes of a new one.
    pub column_type: ColumnType,
    /// Whether it says which series a row belongs to: a tag.
    pub is_tag: bool,
    /// Its place in [`TableRows::table`]; `None` for a new one.
    pub place: Option<usize>,
    /// Its values in the edge type, one a row.
    pub values: ArrayRef,
}

impl TableRows {
    /// The table to make for them: its tags are the series key, its designated timestamp stands last, and is called
    /// `timestamp`, or `time` where they have a column of that name.
    ///
    /// # Errors
    /// [`ModelError`] where no table can have these names, or so many columns.
    pub fn new_table(&self) -> Result<TableSchema, ModelError> {
        let tags = self.columns.iter().filter(|column| column.is_tag).map(|column| column.name.as_str());
        let builder = TableSchema::builder(&self.name).series(tags);
        let named = |builder: tickstone_model::TableSchemaBuilder, column: &RowsColumn| {
            builder.column(&column.name, column.column_type)
        };
        let builder = self.columns.iter().fold(builder, named);
        let is_taken = self.columns.iter().any(|column| column.name.eq_ignore_ascii_case(NEW_TIMESTAMP));
        let time = if is_taken { NEW_TIME } else { NEW_TIMESTAMP };
        builder.column(time, ColumnType::Timestamp).timestamp(time).build()
    }

    /// The columns that the table does not have yet.
    pub fn new_columns(&self) -> impl Iterator<Item = Column> {
        let new = self.columns.iter().filter(|column| column.place.is_none());
        new.map(|column| Column::new(&column.name, column.column_type))
    }

    /// The rows as a batch of a table in its order and edge types: NULL where nothing came.
    ///
    /// `None` where the table is not, or no longer, one that they fit: a column that came is missing in it or has another
    /// type. They are to be read anew then.
    pub fn batch(&self, table: &TableSchema) -> Option<RecordBatch> {
        let mut arrays: Vec<Option<ArrayRef>> = vec![None; table.columns().len()];
        for column in &self.columns {
            let place = table.column_index(&column.name)?;
            if table.columns()[place].column_type != column.column_type {
                return None;
            }
            arrays[place] = Some(Arc::clone(&column.values));
        }
        match (table.timestamp(), &self.times) {
            (Some(place), Some(times)) => arrays[place] = Some(Arc::clone(times)),
            (None, None) => {}
            _ => return None,
        }
        let filled = arrays.into_iter().zip(table.edge().fields());
        let filled = filled
            .map(|(array, field)| array.unwrap_or_else(|| new_null_array(field.data_type(), self.rows)))
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        RecordBatch::try_new_with_options(Arc::clone(table.edge()), filled, &options).ok()
    }
}

/// Refuses what no table or column can be called, so that the client that sent it is told.
pub(crate) fn check_name(name: &str) -> Result<(), Fault> {
    fault_of_name(name).map_or(Ok(()), |reason| Err(Fault::Name { reason }))
}
