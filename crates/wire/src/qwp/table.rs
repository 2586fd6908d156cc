//! The block of one table: its name, its columns, their values.

use super::Refused;
use super::column::{Column, Context, Stop, read_column};
use super::fit::{fit, new_type};
use super::kind::WireType;
use super::read::{Malformed, Reader};
use crate::ilp::FindTable;
use crate::rows::{check_name, is_new_time};
use crate::{Fault, RowsColumn, TableRows};
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{Array, ArrayRef, TimestampNanosecondArray};
use std::collections::HashSet;
use std::sync::Arc;
use tickstone_model::{ColumnType, MAX_COLUMNS, TableSchema, folded_name, is_same_name};

/// What a message may still take.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) rows: usize,
    pub(super) values: usize,
}

/// A table while its block is read.
struct Table<'a> {
    name: &'a str,
    schema: Option<Arc<TableSchema>>,
    rows: usize,
    columns: Vec<RowsColumn>,
    times: Option<ArrayRef>,
}

/// Reads a block; `None` where it has no row. `now` is the time of rows without one.
pub(super) fn read_table(
    reader: &mut Reader<'_>,
    context: &mut Context<'_>,
    room: &mut Room,
    now: i64,
    find: FindTable<'_>,
) -> Result<Option<TableRows>, Refused> {
    let name = reader.text()?;
    let of_table = |malformed| Refused::Malformed { table: Some(name.to_string()), column: None, malformed };
    let (rows, defined) = define(reader, room).map_err(of_table)?;
    let refused = |column: Option<&str>, text: &str, fault| Refused::Value {
        table: name.to_string(),
        column: column.map(String::from),
        row: None,
        text: text.to_string(),
        fault,
    };
    check_name(name).map_err(|fault| refused(None, name, fault))?;
    let schema = find(name);
    if schema.as_ref().is_some_and(|schema| schema.view().is_some()) {
        return Err(refused(None, name, Fault::View));
    }
    let mut table = Table { name, schema, rows, columns: Vec::with_capacity(defined.len()), times: None };
    let mut names = HashSet::with_capacity(defined.len());
    for (column, of) in defined {
        if !names.insert(folded_name(column)) {
            let fault = Fault::Field { what: "is the name of two columns of the message" };
            return Err(refused(Some(column), column, fault));
        }
        let read = read_column(reader, of, rows, context);
        let taken = read.and_then(|values| table.take(column, of, values, now));
        taken.map_err(|stop| match stop {
            Stop::Malformed(malformed) => Refused::Malformed {
                table: Some(name.to_string()),
                column: Some(column.to_string()),
                malformed,
            },
            Stop::Column(fault) => refused(Some(column), column, fault),
            Stop::Value { row, text, fault } => Refused::Value {
                table: name.to_string(),
                column: Some(column.to_string()),
                row: Some(row),
                text,
                fault,
            },
        })?;
    }
    Ok(table.finish(now))
}

type Defined<'a> = Vec<(&'a str, WireType)>;

/// How many rows, and which columns.
fn define<'a>(reader: &mut Reader<'a>, room: &mut Room) -> Result<(usize, Defined<'a>), Malformed> {
    let rows = usize::try_from(reader.varint()?).unwrap_or(usize::MAX);
    let columns = reader.count()?;
    if columns > MAX_COLUMNS {
        return Err(reader.malformed("a table has more than 4,096 columns"));
    }
    let values = rows.saturating_mul(columns);
    match (room.rows.checked_sub(rows), room.values.checked_sub(values)) {
        (Some(rows), Some(values)) => *room = Room { rows, values },
        _ => return Err(reader.malformed("the message has more rows, or more values, than it may have")),
    }
    let mut defined = Vec::with_capacity(columns);
    for _ in 0..columns {
        let name = reader.text()?;
        let of =
            WireType::of(reader.byte()?).ok_or(reader.malformed("a column has a type that is not known"))?;
        defined.push((name, of));
    }
    // Each column has a bit for each row at least.
    if rows.div_ceil(8).saturating_mul(columns) > reader.left() || rows > 0 && columns == 0 {
        return Err(reader.malformed("a table has more rows than values"));
    }
    Ok((rows, defined))
}

impl Table<'_> {
    /// Takes a column.
    fn take(&mut self, name: &str, of: WireType, values: Column, now: i64) -> Result<(), Stop> {
        let is_designated = name.is_empty();
        let (has_time, is_time) = match &self.schema {
            Some(schema) => {
                let time = schema.timestamp().map(|place| &schema.columns()[place]);
                (time.is_some(), time.is_some_and(|time| is_same_name(&time.name, name)))
            }
            None => (true, is_new_time(name, new_type(&values, of))),
        };
        if is_designated && !matches!(of, WireType::Timestamp | WireType::TimestampNanos) {
            let what = "is no timestamp, and a column without a name is the designated timestamp";
            return Err(Stop::Column(Fault::Field { what }));
        }
        if is_designated && !has_time {
            return Err(Stop::Column(Fault::NoTime));
        }
        if is_designated || is_time {
            if self.times.is_some() {
                let what = "is the designated timestamp, which the rows have twice";
                return Err(Stop::Column(Fault::Field { what }));
            }
            self.times = Some(with_now(&fit(&values, of, ColumnType::Timestamp)?, now));
            return Ok(());
        }
        let place = self.schema.as_ref().and_then(|schema| schema.column_index(name));
        let column_type = match (&self.schema, place) {
            (Some(schema), Some(place)) => schema.columns()[place].column_type,
            _ => {
                check_name(name).map_err(Stop::Column)?;
                new_type(&values, of)
            }
        };
        let (is_tag, values) = (of == WireType::Symbol, fit(&values, of, column_type)?);
        self.columns.push(RowsColumn { name: name.to_string(), column_type, is_tag, place, values });
        Ok(())
    }

    fn finish(self, now: i64) -> Option<TableRows> {
        let rows = self.rows;
        let has_times = self.schema.as_ref().is_none_or(|schema| schema.timestamp().is_some());
        let server_times = || Arc::new(TimestampNanosecondArray::from(vec![now; rows])) as ArrayRef;
        let times = has_times.then(|| self.times.unwrap_or_else(server_times));
        let table =
            TableRows { name: self.name.to_string(), table: self.schema, columns: self.columns, times, rows };
        (rows > 0).then_some(table)
    }
}

/// The times, with `now` for those that a client leaves to the server.
fn with_now(times: &ArrayRef, now: i64) -> ArrayRef {
    if times.null_count() == 0 {
        return Arc::clone(times);
    }
    let times = times.as_primitive::<TimestampNanosecondType>();
    let filled: Vec<i64> = times.iter().map(|time| time.unwrap_or(now)).collect();
    Arc::new(TimestampNanosecondArray::from(filled))
}
