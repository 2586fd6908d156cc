//! Columns from outside as columns of a table.

use crate::cast::{cast_exactly, check_times, elements_of, is_text, no_such_column};
use crate::error::{QueryError, Result};
use datafusion::arrow::array::{Array, MutableArrayData, RecordBatch, RecordBatchOptions, make_array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use std::sync::Arc;
use tickstone_model::{Column, ColumnType, TableSchema};

/// Which column of a table each column that comes fills.
#[derive(Debug)]
pub(super) struct Columns {
    /// For each column that comes: its place in the table, and its type there.
    targets: Vec<(usize, DataType)>,
    /// The columns that come, under the table's names and in the types the engine takes.
    schema: SchemaRef,
}

impl Columns {
    /// Matches columns by name, exact case first, then any case.
    ///
    /// # Errors
    /// Where a column is not the table's, comes twice, or is of a type that cannot become the table's;
    /// where the designated timestamp is missing.
    pub(super) fn matched(table: &TableSchema, schema: &Schema) -> Result<Self> {
        let mut targets: Vec<(usize, DataType)> = Vec::with_capacity(schema.fields().len());
        let mut fields = Vec::with_capacity(schema.fields().len());
        for field in schema.fields() {
            let place =
                table.column_index(field.name()).ok_or_else(|| no_such_column(table, field.name()))?;
            let column = &table.columns()[place];
            if targets.iter().any(|(taken, _)| *taken == place) {
                return Err(QueryError::request(format!("column '{}' comes twice", column.name)));
            }
            let target = target(field.data_type(), column)?;
            fields.push(Field::new(&column.name, target.clone(), true));
            targets.push((place, target));
        }
        if let Some(timestamp) = table.timestamp()
            && !targets.iter().any(|(place, _)| *place == timestamp)
        {
            let name = &table.columns()[timestamp].name;
            let message =
                format!("column '{name}', the designated timestamp of '{}', is missing", table.name());
            return Err(QueryError::request(message));
        }
        Ok(Self { targets, schema: Arc::new(Schema::new(fields)) })
    }

    /// One batch; `before` rows came earlier.
    pub(super) fn cast(&self, table: &TableSchema, batch: &RecordBatch, before: u64) -> Result<RecordBatch> {
        let columns = self.targets.iter().zip(batch.columns()).map(|((place, target), array)| {
            let column = &table.columns()[*place];
            let cast = cast_exactly(array, target, column, before)?;
            if table.timestamp() == Some(*place) {
                check_times(&cast, &column.name, before)?;
            }
            Ok(cast)
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

/// The type in which the engine takes a column of type `found`.
fn target(found: &DataType, column: &Column) -> Result<DataType> {
    let wanted = column.column_type.edge_type();
    let refuse = |hint: &str| {
        let (name, wanted) = (&column.name, column.column_type);
        let message = format!("column '{name}' is {wanted}, and what comes is {found}");
        Err(QueryError::request(message).hint(hint))
    };
    match (column.column_type, found) {
        (_, found) if *found == wanted => Ok(wanted),
        (_, DataType::Null) => Ok(wanted),
        (ColumnType::Array(element), found) => match elements_of(found) {
            Some(found) => target(found, &Column::new(&column.name, element.into())).map(|_| wanted),
            None => refuse("hand it over as lists"),
        },
        // The engine takes any text as symbols, and looks each value of a dictionary up once.
        (ColumnType::Symbol, found) if is_text(found) => Ok(found.clone()),
        (ColumnType::Symbol, DataType::Dictionary(_, values)) if is_text(values) => Ok(found.clone()),
        (_, found) if found.is_nested() => refuse("take its values out first"),
        (ColumnType::Symbol, _) => Ok(DataType::Utf8),
        (ColumnType::Timestamp, found) if found.is_numeric() => {
            refuse("convert the numbers to timestamps, so that their unit is said")
        }
        (ColumnType::Boolean, found) if found.is_numeric() => refuse("convert it to booleans first"),
        (_, DataType::Boolean) => refuse("convert it first"),
        (_, DataType::Duration(_) | DataType::Interval(_)) if wanted.is_numeric() => {
            refuse("convert it to numbers, so that their unit is said")
        }
        (ColumnType::Timestamp | ColumnType::Uuid, found) if is_text(found) => Ok(wanted),
        (ColumnType::Uuid, found) if !matches!(found, DataType::Binary | DataType::LargeBinary) => {
            refuse("hand it over as 16 bytes")
        }
        _ if arrow_cast::can_cast_types(found, &wanted) => Ok(wanted),
        _ => refuse("convert it first"),
    }
}

/// The same rows in memory of their own. What stays in memory must not change with what a caller does to
/// the arrays it handed over; symbols are looked up, and so copied, anyway.
pub(super) fn owned(batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(|array| match array.data_type() {
        DataType::Dictionary(_, _) | DataType::LargeUtf8 | DataType::Utf8View => Ok(Arc::clone(array)),
        _ => {
            let data = array.to_data();
            let mut copy = MutableArrayData::new(vec![&data], false, data.len());
            copy.try_extend(0, 0, data.len())?;
            Ok(make_array(copy.freeze()))
        }
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns, &options)?)
}
