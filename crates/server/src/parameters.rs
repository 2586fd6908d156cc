//! Rows of Arrow as values of placeholders.

use std::sync::Arc;
use tickstone_query::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use tickstone_query::arrow::compute::cast;
use tickstone_query::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, DurationNanosecondType, Float64Type, Int64Type,
    IntervalMonthDayNanoType, IntervalUnit, Time64NanosecondType, TimeUnit, TimestampNanosecondType,
    UInt64Type,
};
use tickstone_query::dialect::Statement;
use tickstone_query::{ParameterValue, Parameters, QueryError};

const NANOS_PER_DAY: i64 = 86_400_000_000_000;

/// The names of the placeholders of a statement, `1` for `$1`, `name` for `:name`; in order, those with numbers
/// first.
pub(crate) fn names(statement: &Statement) -> Vec<String> {
    // Nothing is bound, so nothing can be wrong.
    let names = Parameters::Unbound.bind_some(&mut [statement.clone()]).unwrap_or_default();
    let mut names: Vec<String> = names.into_iter().collect();
    names.sort_unstable_by_key(|name| (name.parse::<usize>().unwrap_or(usize::MAX), name.clone()));
    names
}

/// Whether the placeholders of a statement have names, not numbers.
pub(crate) fn are_named(names: &[String]) -> bool {
    names.iter().any(|name| name.parse::<usize>().is_err())
}

/// Whether the name of a column says which placeholder it is for: `$2`.
fn is_number(name: &str) -> bool {
    name.strip_prefix('$').is_some_and(|number| number.parse::<usize>().is_ok())
}

/// A statement with the values of each row, one after the other.
pub(crate) struct Bound {
    statement: Statement,
    is_named: bool,
    batches: std::vec::IntoIter<RecordBatch>,
    /// The batch that is read: its columns' names and values.
    names: Vec<String>,
    columns: Vec<std::vec::IntoIter<ParameterValue>>,
    rows_left: usize,
    /// Whether it is run once without any.
    bare: bool,
}

impl Bound {
    /// A statement with values, or with none where it is given no batches.
    pub(crate) fn new(statement: Statement, batches: Option<Vec<RecordBatch>>) -> Self {
        let numbered =
            |batch: &RecordBatch| batch.schema().fields().iter().all(|field| is_number(field.name()));
        let all_numbered = |all: &Vec<RecordBatch>| all.iter().all(numbered);
        let is_named = batches.as_ref().is_some_and(|all| all_numbered(all) || are_named(&names(&statement)));
        let bare = batches.is_none();
        let batches = batches.unwrap_or_default().into_iter();
        Self { statement, is_named, batches, names: Vec::new(), columns: Vec::new(), rows_left: 0, bare }
    }

    /// The statement with the values of the next row; `None` after the last.
    ///
    /// # Errors
    /// Where a value cannot be one of a placeholder, and where they are not those of the statement.
    pub(crate) fn next(&mut self) -> Result<Option<Statement>, QueryError> {
        if std::mem::take(&mut self.bare) {
            return self.with(&Parameters::None).map(Some);
        }
        while self.rows_left == 0 {
            let Some(batch) = self.batches.next() else { return Ok(None) };
            self.rows_left = batch.num_rows();
            let name = |name: &String| name.trim_start_matches(['$', ':']).to_string();
            self.names = batch.schema().fields().iter().map(|field| name(field.name())).collect();
            let columns = self.names.iter().zip(batch.columns()).map(|(name, column)| {
                values(column).map(Vec::into_iter).map_err(|what| cannot(name, column.data_type(), &what))
            });
            self.columns = columns.collect::<Result<_, _>>()?;
        }
        self.rows_left -= 1;
        let row = self.columns.iter_mut().map(|column| column.next().unwrap_or(ParameterValue::Null));
        let parameters = match self.is_named {
            true => Parameters::Named(self.names.iter().cloned().zip(row).collect()),
            false => Parameters::Positional(row.collect()),
        };
        self.with(&parameters).map(Some)
    }

    fn with(&self, parameters: &Parameters) -> Result<Statement, QueryError> {
        let mut statement = [self.statement.clone()];
        parameters.bind(&mut statement)?;
        let [statement] = statement;
        Ok(statement)
    }
}

fn cannot(name: &str, data_type: &DataType, what: &str) -> QueryError {
    let message = format!("parameter '{name}' is {data_type}, which no placeholder takes");
    let error = QueryError::request(message).hint("bind a number, a text, bytes, a time or a list of these");
    if what.is_empty() { error } else { error.detail(what) }
}

/// Values for `$1`, `$2`, …, each an array of one.
///
/// # Errors
/// Where one is of a type that no placeholder takes.
pub(crate) fn of_arrays(arrays: &[ArrayRef]) -> Result<Parameters, QueryError> {
    if arrays.is_empty() {
        return Ok(Parameters::None);
    }
    let one = |(place, array): (usize, &ArrayRef)| match values(array) {
        Ok(mut values) => Ok(values.pop().unwrap_or(ParameterValue::Null)),
        Err(what) => Err(cannot(&(place + 1).to_string(), array.data_type(), &what)),
    };
    Ok(Parameters::Positional(arrays.iter().enumerate().map(one).collect::<Result<_, _>>()?))
}

/// The values of a column, NULLs too.
fn values(column: &ArrayRef) -> Result<Vec<ParameterValue>, String> {
    let cast_to = |to: DataType| cast(column, &to).map_err(|error| error.to_string());
    let each = |value: &dyn Fn(usize) -> ParameterValue| {
        let of = |row| if column.is_null(row) { ParameterValue::Null } else { value(row) };
        Ok((0..column.len()).map(of).collect())
    };
    match column.data_type() {
        DataType::Null => Ok(vec![ParameterValue::Null; column.len()]),
        DataType::Boolean => each(&|row| ParameterValue::Boolean(column.as_boolean().value(row))),
        DataType::UInt64 => {
            let numbers = column.as_primitive::<UInt64Type>();
            each(&|row| ParameterValue::Integer(i128::from(numbers.value(row))))
        }
        of if of.is_integer() => {
            let numbers = cast_to(DataType::Int64)?;
            let numbers = numbers.as_primitive::<Int64Type>();
            each(&|row| ParameterValue::Integer(i128::from(numbers.value(row))))
        }
        of if of.is_floating() => {
            let numbers = cast_to(DataType::Float64)?;
            let numbers = numbers.as_primitive::<Float64Type>();
            each(&|row| ParameterValue::Float(numbers.value(row)))
        }
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            values(&cast_to(DataType::Decimal128(*precision, *scale))?)
        }
        DataType::Decimal128(..) => {
            let numbers = column.as_primitive::<Decimal128Type>();
            each(&|row| ParameterValue::Decimal(numbers.value_as_string(row)))
        }
        DataType::Decimal256(..) => {
            let numbers = column.as_primitive::<Decimal256Type>();
            each(&|row| ParameterValue::Decimal(numbers.value_as_string(row)))
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let texts = cast_to(DataType::LargeUtf8)?;
            let texts = texts.as_string::<i64>();
            each(&|row| ParameterValue::Text(texts.value(row).to_string()))
        }
        DataType::FixedSizeBinary(16) => {
            let bytes = column.as_fixed_size_binary();
            each(&|row| ParameterValue::Text(uuid(bytes.value(row))))
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            let bytes = cast_to(DataType::LargeBinary)?;
            let bytes = bytes.as_binary::<i64>();
            each(&|row| ParameterValue::Bytes(bytes.value(row).to_vec()))
        }
        DataType::Date32 | DataType::Date64 => {
            let days = cast_to(DataType::Date32)?;
            let days = days.as_primitive::<Date32Type>();
            each(&|row| ParameterValue::Date(days.value(row)))
        }
        DataType::Time32(_) | DataType::Time64(_) => {
            let nanos = cast_to(DataType::Time64(TimeUnit::Nanosecond))?;
            let nanos = nanos.as_primitive::<Time64NanosecondType>();
            each(&|row| ParameterValue::Time(nanos.value(row)))
        }
        DataType::Timestamp(..) => {
            let nanos = in_nanoseconds(column, &cast_to(DataType::Timestamp(TimeUnit::Nanosecond, None))?)?;
            let nanos = nanos.as_primitive::<TimestampNanosecondType>();
            each(&|row| ParameterValue::Timestamp(nanos.value(row)))
        }
        DataType::Duration(_) => {
            let nanos = in_nanoseconds(column, &cast_to(DataType::Duration(TimeUnit::Nanosecond))?)?;
            let nanos = nanos.as_primitive::<DurationNanosecondType>();
            each(&|row| ParameterValue::Duration(nanos.value(row)))
        }
        DataType::Interval(_) => lengths(&cast_to(DataType::Interval(IntervalUnit::MonthDayNano))?),
        DataType::Dictionary(_, of) => values(&cast_to(of.as_ref().clone())?),
        DataType::List(of)
        | DataType::LargeList(of)
        | DataType::FixedSizeList(of, _)
        | DataType::ListView(of) => {
            let lists = cast_to(DataType::List(Arc::clone(of)))?;
            let lists = lists.as_list::<i32>();
            let of = |row| match lists.is_null(row) {
                true => Ok(ParameterValue::Null),
                false => values(&lists.value(row)).map(ParameterValue::List),
            };
            (0..lists.len()).map(of).collect()
        }
        _ => Err(String::new()),
    }
}

/// A value past 292 years from 1970 has no nanoseconds: a cast makes it NULL.
fn in_nanoseconds(from: &ArrayRef, to: &ArrayRef) -> Result<ArrayRef, String> {
    match from.null_count() == to.null_count() {
        true => Ok(ArrayRef::clone(to)),
        false => Err("a value is past 292 years, which nanoseconds do not hold".to_string()),
    }
}

fn lengths(intervals: &ArrayRef) -> Result<Vec<ParameterValue>, String> {
    let of = intervals.as_primitive::<IntervalMonthDayNanoType>();
    let one = |row: usize| {
        if of.is_null(row) {
            return Ok(ParameterValue::Null);
        }
        let value = of.value(row);
        if value.months != 0 {
            return Err("a value has months, which have no length".to_string());
        }
        let days = i64::from(value.days).checked_mul(NANOS_PER_DAY);
        let nanos = days.and_then(|days| days.checked_add(value.nanoseconds));
        nanos.map(ParameterValue::Duration).ok_or_else(|| "a value is past 292 years".to_string())
    };
    (0..of.len()).map(one).collect()
}

/// Sixteen bytes as hexadecimal digits in groups (RFC 9562).
pub(crate) fn uuid(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (place, byte) in bytes.iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests;
