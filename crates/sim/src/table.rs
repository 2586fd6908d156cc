//! Rows between the model and the engine: batches to append, and everything a snapshot holds.

use crate::Random;
use crate::shape::{Cell, ModelTable, Row, State, TableSpec};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal128Type, Float64Type, Int32Type, Int64Type, TimestampNanosecondType, UInt32Type,
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int32Array, Int64Array, ListArray,
    RecordBatch, StringArray, TimestampNanosecondArray, UInt32Array,
};
use arrow_schema::ArrowError;
use std::collections::HashMap;
use std::sync::Arc;
use tickstone_engine::part::{ColumnStats, StatValue};
use tickstone_engine::{ColumnPoints, Dictionary, EngineError, Segment, Selection, Snapshot, TableSnapshot};
use tickstone_model::{ColumnType, TimeRange};

/// Why a check did not come to its end.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The engine said so; right where a fault was planted.
    Engine(EngineError),
    /// The engine is wrong.
    Wrong(String),
}

impl From<EngineError> for Trouble {
    fn from(error: EngineError) -> Self {
        Trouble::Engine(error)
    }
}

fn wrong<T>(what: impl Into<String>) -> Result<T, Trouble> {
    Err(Trouble::Wrong(what.into()))
}

/// Rows as a caller hands them in, SYMBOL as text.
///
/// # Errors
/// Where columns do not fit together; the simulator is at fault then.
pub(crate) fn record_batch(spec: &TableSpec, rows: &[Row]) -> Result<RecordBatch, ArrowError> {
    let columns = spec.columns.iter().enumerate().map(|(index, (name, column_type))| {
        (name.clone(), array(*column_type, rows.iter().map(|row| &row[index])))
    });
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
}

/// Values as a caller hands them in.
pub(crate) fn array<'a>(column_type: ColumnType, cells: impl Iterator<Item = &'a Cell>) -> ArrayRef {
    let int = |cell: &Cell| if let Cell::Int(value) = cell { Some(*value) } else { None };
    match column_type {
        ColumnType::Boolean => Arc::new(
            cells
                .map(|cell| if let Cell::Bool(value) = cell { Some(*value) } else { None })
                .collect::<BooleanArray>(),
        ),
        ColumnType::Decimal { .. } => {
            let wide = |cell: &Cell| if let Cell::Wide(value) = cell { Some(*value) } else { None };
            let array = cells.map(wide).collect::<Decimal128Array>();
            Arc::new(array.with_data_type(column_type.stored_type()))
        }
        ColumnType::Timestamp => Arc::new(cells.map(int).collect::<TimestampNanosecondArray>()),
        ColumnType::Int32 => Arc::new(
            cells.map(|cell| int(cell).and_then(|value| i32::try_from(value).ok())).collect::<Int32Array>(),
        ),
        ColumnType::Float64 => Arc::new(cells.map(double).collect::<Float64Array>()),
        ColumnType::Array(_) => {
            let list = |cell: &'a Cell| {
                if let Cell::List(list) = cell { Some(list.iter().map(double)) } else { None }
            };
            Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(cells.map(list)))
        }
        ColumnType::Symbol | ColumnType::Varchar => Arc::new(
            cells
                .map(|cell| if let Cell::Text(text) = cell { Some(text.as_ref()) } else { None })
                .collect::<StringArray>(),
        ),
        _ => Arc::new(cells.map(int).collect::<Int64Array>()),
    }
}

fn double(cell: &Cell) -> Option<f64> {
    if let Cell::Float(bits) = cell { Some(f64::from_bits(*bits)) } else { None }
}

/// The value of a stored array.
fn cell(array: &ArrayRef, column_type: ColumnType, dictionary: Option<&Arc<Dictionary>>, row: usize) -> Cell {
    if array.is_null(row) {
        return Cell::Null;
    }
    match column_type {
        ColumnType::Boolean => Cell::Bool(array.as_boolean().value(row)),
        ColumnType::Decimal { .. } => Cell::Wide(array.as_primitive::<Decimal128Type>().value(row)),
        ColumnType::Timestamp => Cell::Int(array.as_primitive::<TimestampNanosecondType>().value(row)),
        ColumnType::Int32 => Cell::Int(i64::from(array.as_primitive::<Int32Type>().value(row))),
        ColumnType::Float64 => Cell::Float(array.as_primitive::<Float64Type>().value(row).to_bits()),
        ColumnType::Varchar => Cell::Text(array.as_string::<i32>().value(row).into()),
        ColumnType::Array(element) => {
            let elements = array.as_list::<i32>().value(row);
            Cell::List((0..elements.len()).map(|at| cell(&elements, element.into(), None, at)).collect())
        }
        ColumnType::Symbol => {
            let id = array.as_primitive::<UInt32Type>().value(row);
            let symbol = dictionary.and_then(|dictionary| dictionary.symbol(id));
            symbol.map_or_else(|| Cell::Text(format!("no symbol {id}").into()), Cell::Text)
        }
        _ => Cell::Int(array.as_primitive::<Int64Type>().value(row)),
    }
}

/// Rows of segments, in their order.
fn rows_of(table: &TableSnapshot, segments: &[Segment]) -> Result<Vec<Row>, Trouble> {
    let columns = table.schema().columns();
    let mut found = Vec::new();
    for segment in segments {
        for rows in segment.rows() {
            let mut arrays = Vec::with_capacity(columns.len());
            for index in 0..columns.len() {
                arrays.push(segment.read(index, rows.clone())?);
            }
            for row in 0..rows.len() {
                let cells = arrays.iter().zip(columns).enumerate();
                found.push(
                    cells
                        .map(|(index, (array, column))| {
                            cell(array, column.column_type, table.dictionary(index), row)
                        })
                        .collect::<Row>(),
                );
            }
        }
    }
    Ok(found)
}

/// Whether the tables of a snapshot are those of a state, by name and shape.
pub(crate) fn same_tables(snapshot: &Snapshot, state: &State) -> bool {
    snapshot.tables().map(|table| table.schema().name()).eq(state.keys().map(String::as_str))
        && snapshot.tables().zip(state.values()).all(|(table, model)| same_columns(table, model))
}

fn same_columns(table: &TableSnapshot, model: &ModelTable) -> bool {
    let columns = table.schema().columns().iter().map(|column| (column.name.as_str(), column.column_type));
    columns.eq(model.spec.columns.iter().map(|(name, column_type)| (name.as_str(), *column_type)))
        && table.schema().ttl() == model.spec.ttl
        && *table.schema().access() == model.spec.access
        && table.schema().dedup() == sorted(&model.spec.dedup)
        && table.schema().indexed() == sorted(&model.spec.indexed)
        && table.schema().series() == model.spec.series
        && table.schema().timestamp() == model.spec.timestamp
}

fn sorted(columns: &[usize]) -> Vec<usize> {
    let mut columns = columns.to_vec();
    columns.sort_unstable();
    columns
}

/// All rows of all tables, as the engine gives them.
///
/// # Errors
/// [`Trouble::Engine`] where they cannot be read.
pub(crate) fn read_all(snapshot: &Snapshot) -> Result<Vec<Vec<Row>>, Trouble> {
    snapshot.tables().map(|table| rows_of(table, &table.select(&Selection::default())?)).collect()
}

/// Whether rows that were read are those of a state: each row once, with its values, and rows of one
/// series at one instant in the order of their arrival. What differs, otherwise.
pub(crate) fn compare(state: &State, snapshot: &Snapshot, found: &[Vec<Row>]) -> Result<(), String> {
    if !same_tables(snapshot, state) {
        let names: Vec<_> = snapshot.tables().map(|table| table.schema().name()).collect();
        return Err(format!("tables are {names:?}, expected {:?}", state.keys().collect::<Vec<_>>()));
    }
    for ((table, model), found) in snapshot.tables().zip(state.values()).zip(found) {
        if table.rows() != found.len() as u64 {
            return Err(format!("{} says {} rows, gives {}", model.spec.name, table.rows(), found.len()));
        }
        compare_rows(model, &model.rows, found)?;
    }
    Ok(())
}

/// As [`compare`], for some rows of a table.
fn compare_rows(model: &ModelTable, expected: &[Row], found: &[Row]) -> Result<(), String> {
    let name = &model.spec.name;
    let id = model.spec.column("id").ok_or("a table without id")?;
    let places: HashMap<&Cell, usize> = expected.iter().enumerate().map(|(at, row)| (&row[id], at)).collect();
    let mut seen = vec![false; expected.len()];
    let mut last: HashMap<Vec<&Cell>, usize> = HashMap::new();
    for row in found {
        let Some(&at) = places.get(&row[id]) else {
            return Err(format!("{name} has a row that must not be there: {row:?}"));
        };
        if expected[at] != *row {
            return Err(format!("{name} gives {row:?} for {:?}", expected[at]));
        }
        if std::mem::replace(&mut seen[at], true) {
            return Err(format!("{name} gives a row twice: {row:?}"));
        }
        // Without a series key, and without a time, arrival alone orders rows.
        let key = model.spec.timestamp.iter().chain(&model.spec.series).map(|column| &row[*column]).collect();
        if last.insert(key, at).is_some_and(|before| before > at) {
            return Err(format!("{name} gives a row before one that came earlier: {row:?}"));
        }
    }
    match seen.iter().position(|seen| !seen) {
        Some(at) => {
            let missing = seen.iter().filter(|seen| !**seen).count();
            Err(format!("{name} lacks {missing} of {} rows, the first {:?}", expected.len(), expected[at]))
        }
        None => Ok(()),
    }
}

/// Checks a random selection, and the statistics of every column.
///
/// # Errors
/// [`Trouble`].
pub(crate) fn check_table(
    snapshot: &Snapshot,
    model: &ModelTable,
    random: &mut Random,
) -> Result<(), Trouble> {
    let Some(table) = snapshot.table(&model.spec.name) else {
        return wrong(format!("{} is missing", model.spec.name));
    };
    for column in 0..model.spec.columns.len() {
        check_stats(model, column, &table.column_stats(column)?)?;
    }
    let selection = random_selection(table, model, random);
    let found = rows_of(table, &table.select(&selection)?)?;
    let wanted = |row: &&Row| {
        let inside = model.spec.timestamp.is_none_or(|column| match row[column] {
            // The end of time belongs to the range that has no end.
            Cell::Int(ts) => selection.time.contains(ts) || (selection.time == TimeRange::ALL),
            _ => false,
        });
        let of_series = selection.series.iter().all(|(column, ids)| match &row[*column] {
            Cell::Text(symbol) => {
                table.dictionary(*column).and_then(|d| d.id(symbol)).is_some_and(|id| ids.contains(&id))
            }
            _ => false,
        });
        inside && of_series
    };
    let expected: Vec<Row> = model.rows.iter().filter(wanted).map(Arc::clone).collect();
    compare_rows(model, &expected, &found).or_else(|what| wrong(format!("{what} ({selection:?})")))?;
    check_lookup(table, model, random)
}

/// Looks up the values of some rows in some column: every row that has one of them is found, and among those found
/// no row is twice.
fn check_lookup(table: &TableSnapshot, model: &ModelTable, random: &mut Random) -> Result<(), Trouble> {
    let column = random.below(model.spec.columns.len() as u64) as usize;
    if model.spec.columns[column].1.is_array() {
        return Ok(());
    }
    let mut some =
        |_| model.rows.get(random.below(model.rows.len().max(1) as u64) as usize).map(|row| &row[column]);
    let cells: Vec<&Cell> = (0..2).filter_map(&mut some).collect();
    let column_type = model.spec.columns[column].1;
    let ids = |cell: &&Cell| match (cell, table.dictionary(column)) {
        (Cell::Text(text), Some(dictionary)) => dictionary.id(text),
        _ => None,
    };
    let values: ArrayRef = match column_type {
        ColumnType::Symbol => Arc::new(cells.iter().map(ids).collect::<UInt32Array>()),
        _ => array(column_type, cells.iter().copied()),
    };
    let points = vec![ColumnPoints::new(column, column_type, &values)?];
    let found = rows_of(table, &table.select(&Selection { points, ..Selection::default() })?)?;
    let wanted = |row: &&Row| row[column] != Cell::Null && cells.contains(&&row[column]);
    let expected: Vec<Row> = model.rows.iter().filter(wanted).map(Arc::clone).collect();
    let found: Vec<Row> = found.into_iter().filter(|row| wanted(&row)).collect();
    let looked_up = || format!("looking up {cells:?} in '{}'", model.spec.columns[column].0);
    compare_rows(model, &expected, &found).or_else(|what| wrong(format!("{what} ({})", looked_up())))
}

fn random_selection(table: &TableSnapshot, model: &ModelTable, random: &mut Random) -> Selection {
    let mut selection = Selection::default();
    let some_row = |random: &mut Random| {
        (!model.rows.is_empty()).then(|| &model.rows[random.below(model.rows.len() as u64) as usize])
    };
    if let Some(column) = model.spec.timestamp.filter(|_| random.one_in(2)) {
        let edge = |random: &mut Random| match some_row(random).map(|row| &row[column]) {
            Some(Cell::Int(ts)) => ts.saturating_add(random.below(3) as i64 - 1),
            _ => 0,
        };
        let (a, b) = (edge(random), edge(random));
        selection.time = TimeRange::new(a.min(b), a.max(b));
    }
    for column in &model.spec.series {
        if let Some(dictionary) = table.dictionary(*column).filter(|_| random.one_in(2)) {
            let mut ids: Vec<u32> = (0..dictionary.len() as u32).filter(|_| random.one_in(3)).collect();
            ids.sort_unstable();
            selection.series.push((*column, ids));
        }
    }
    selection
}

/// Compares what statistics say of a column with its values.
fn check_stats(model: &ModelTable, column: usize, stats: &ColumnStats) -> Result<(), Trouble> {
    let (name, column_type) = &model.spec.columns[column];
    let cells = || model.rows.iter().map(|row| &row[column]);
    let nulls = cells().filter(|cell| **cell == Cell::Null).count() as u64;
    let ints = cells().filter_map(|cell| match cell {
        Cell::Int(value) => Some(i128::from(*value)),
        Cell::Bool(value) => Some(i128::from(*value)),
        Cell::Wide(value) => Some(*value),
        _ => None,
    });
    let ints: Vec<i128> = ints.collect();
    let floats = cells()
        .filter_map(|cell| if let Cell::Float(bits) = cell { Some(f64::from_bits(*bits)) } else { None });
    let floats: Vec<f64> = floats.filter(|value| !value.is_nan()).collect();
    let (min, max) = match column_type {
        ColumnType::Symbol | ColumnType::Varchar | ColumnType::Array(_) => (None, None),
        ColumnType::Float64 => (
            floats.iter().copied().min_by(f64::total_cmp).map(StatValue::Float),
            floats.iter().copied().max_by(f64::total_cmp).map(StatValue::Float),
        ),
        _ => (ints.iter().min().copied().map(StatValue::Int), ints.iter().max().copied().map(StatValue::Int)),
    };
    let counts = (stats.rows, stats.nulls) == (model.rows.len() as u64, nulls);
    let sum = match stats.sum {
        Some(StatValue::Int(sum)) => sum == ints.iter().sum::<i128>(),
        _ => true,
    };
    // Parts keep no range of decimals past 64 bits.
    let unknown = ints.iter().any(|value| i64::try_from(*value).is_err()) && stats.min.is_none();
    if unknown && stats.max.is_none() && counts && sum {
        return Ok(());
    }
    if counts && sum && same_value(stats.min, min) && same_value(stats.max, max) {
        return Ok(());
    }
    // Where replaced rows are counted, bounds are those of more rows than there are.
    let replaced = !model.spec.dedup.is_empty() && stats.rows > model.rows.len() as u64;
    if replaced && is_within(stats.min, min) && is_within(max, stats.max) {
        return Ok(());
    }
    wrong(format!(
        "statistics of {}.{name}: {stats:?}, expected min {min:?}, max {max:?}, nulls {nulls}, {} rows, sum {:?}",
        model.spec.name,
        model.rows.len(),
        ints.iter().sum::<i128>()
    ))
}

/// Whether `a` is known to be no more than `b`, or nothing is known.
fn is_within(a: Option<StatValue>, b: Option<StatValue>) -> bool {
    match (a, b) {
        (Some(StatValue::Float(a)), Some(StatValue::Float(b))) => a <= b,
        (Some(StatValue::Int(a)), Some(StatValue::Int(b))) => a <= b,
        _ => true,
    }
}

fn same_value(a: Option<StatValue>, b: Option<StatValue>) -> bool {
    match (a, b) {
        (Some(StatValue::Float(a)), Some(StatValue::Float(b))) => a == b,
        (a, b) => a == b,
    }
}
