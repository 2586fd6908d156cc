//! Columns from outside as columns of a table.

use crate::error::{QueryError, Result};
use arrow_cast::{CastOptions, cast_with_options};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, MutableArrayData, RecordBatch, RecordBatchOptions, make_array,
};
use datafusion::arrow::datatypes::{DataType, Field, Float64Type, Schema, SchemaRef};
use std::sync::Arc;
use tickstone_model::{Column, ColumnType, TableSchema};

/// A value that does not fit is an error, never a NULL.
const STRICT: CastOptions<'static> =
    CastOptions { safe: false, format_options: datafusion::arrow::util::display::FormatOptions::new() };

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
            let cast =
                cast(array, target).map_err(|reason| not_castable(array, target, column, before, reason))?;
            if table.timestamp() == Some(*place) {
                check_times(&cast, column, before)?;
            }
            Ok(cast)
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

fn no_such_column(table: &TableSchema, name: &str) -> QueryError {
    let names: Vec<&str> = table.columns().iter().map(|column| column.name.as_str()).collect();
    QueryError::request(format!("table '{}' has no column '{name}'", table.name()))
        .hint(format!("its columns are {}", names.join(", ")))
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
        (ColumnType::Uuid, found) if !matches!(found, DataType::Binary | DataType::LargeBinary) => {
            refuse("hand it over as 16 bytes")
        }
        _ if arrow_cast::can_cast_types(found, &wanted) => Ok(wanted),
        _ => refuse("convert it first"),
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// The values in another type, exactly.
fn cast(array: &ArrayRef, target: &DataType) -> std::result::Result<ArrayRef, String> {
    if array.data_type() == target {
        return Ok(Arc::clone(array));
    }
    if array.data_type().is_floating() && target.is_integer() {
        check_whole(array)?;
    }
    cast_with_options(array, target, &STRICT).map_err(|error| error.to_string())
}

/// A number with a fraction is no whole number: it is not cut off.
fn check_whole(array: &ArrayRef) -> std::result::Result<(), String> {
    let doubles = cast_with_options(array, &DataType::Float64, &STRICT).map_err(|error| error.to_string())?;
    match doubles.as_primitive::<Float64Type>().iter().flatten().find(|value| value.fract() != 0.0) {
        Some(value) => Err(format!("{value} is no whole number")),
        None => Ok(()),
    }
}

/// Says which row of a column cannot be cast: the first that fails alone.
fn not_castable(
    array: &ArrayRef,
    target: &DataType,
    column: &Column,
    before: u64,
    reason: String,
) -> QueryError {
    let place = match (0..array.len()).find(|row| cast(&array.slice(*row, 1), target).is_err()) {
        Some(row) => format!("row {}: ", before + row as u64 + 1),
        None => String::new(),
    };
    let (name, wanted, found) = (&column.name, column.column_type, array.data_type());
    QueryError::request(format!("{place}the value for column '{name}' ({found}) is no {wanted}"))
        .detail(reason)
}

fn check_times(times: &ArrayRef, column: &Column, before: u64) -> Result<()> {
    if times.null_count() == 0 {
        return Ok(());
    }
    let row = (0..times.len()).find(|&row| times.is_null(row)).unwrap_or_default();
    let (row, name) = (before + row as u64 + 1, &column.name);
    Err(QueryError::request(format!("row {row}: the designated timestamp '{name}' is NULL"))
        .hint("every row of this table needs a time"))
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
