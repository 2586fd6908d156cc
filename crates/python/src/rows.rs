//! Batches as Python tuples and as text, and what their columns are called.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, Time64NanosecondType, TimestampNanosecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, RecordBatch};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType, Field, IntervalUnit, Schema, TimeUnit};
use pyo3::BoundObject;
use pyo3::call::PyCallArgs;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBytes, PyDate, PyDateTime, PyDelta, PyDict, PyList, PyString, PyTime, PyTuple, PyTzInfo,
};
use std::sync::Arc;
use tickstone_model::civil_from_days;
use tickstone_query::CLOCK_KEY;
use tickstone_query::export::{Cells, TimeStyle};
use tickstone_query::type_name;

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;
/// `datetime.date(1970, 1, 1).toordinal()`.
const EPOCH_ORDINAL: i64 = 719_163;

/// The values of one column as Python objects, NULL as `None`.
type Objects<'py> = Vec<Bound<'py, PyAny>>;

/// Names and SQL types; a type that SQL here has no name for is named as Arrow does.
pub(crate) fn columns(schema: &Schema) -> Vec<(String, String)> {
    let fields = schema.fields().iter();
    fields.map(|field| (field.name().clone(), type_name(field.data_type()))).collect()
}

/// Appends the rows of a batch as tuples.
pub(crate) fn append_tuples(list: &Bound<'_, PyList>, batch: &RecordBatch) -> PyResult<()> {
    let py = list.py();
    let schema = batch.schema_ref();
    let columns = batch.columns().iter().zip(schema.fields()).map(|(array, field)| column(py, array, field));
    let columns = columns.collect::<PyResult<Vec<_>>>()?;
    let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
    for _ in 0..batch.num_rows() {
        let row: Objects<'_> = columns.iter_mut().filter_map(Iterator::next).collect();
        list.append(PyTuple::new(py, row)?)?;
    }
    Ok(())
}

/// Appends the rows of a batch as text, NULL as `None`.
pub(crate) fn append_cells(
    rows: &mut Vec<Vec<Option<String>>>,
    batch: &RecordBatch,
) -> Result<(), ArrowError> {
    let columns = batch.columns().iter().map(|array| Cells::new(array, TimeStyle::Short));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    for row in 0..batch.num_rows() {
        let cell = |cells: &Cells<'_>| {
            (!cells.is_null(row)).then(|| {
                let mut text = String::new();
                cells.write(row, &mut text);
                text
            })
        };
        rows.push(columns.iter().map(cell).collect());
    }
    Ok(())
}

/// The values of a column. What clocks showed has no zone.
fn column<'py>(py: Python<'py>, array: &ArrayRef, field: &Field) -> PyResult<Objects<'py>> {
    match array.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, _) if field.metadata().contains_key(CLOCK_KEY) => {
            let values = array.as_primitive::<TimestampNanosecondType>();
            each(py, array, |row| datetime(py, values.value(row), None))
        }
        _ => objects(py, array),
    }
}

fn objects<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Objects<'py>> {
    match array.data_type() {
        DataType::Boolean => {
            let values = array.as_boolean();
            each(py, array, |row| Ok(values.value(row).into_pyobject(py)?.to_owned().into_any()))
        }
        DataType::Int8 => numbers::<Int8Type>(py, array),
        DataType::Int16 => numbers::<Int16Type>(py, array),
        DataType::Int32 => numbers::<Int32Type>(py, array),
        DataType::Int64 => numbers::<Int64Type>(py, array),
        DataType::UInt8 => numbers::<UInt8Type>(py, array),
        DataType::UInt16 => numbers::<UInt16Type>(py, array),
        DataType::UInt32 => numbers::<UInt32Type>(py, array),
        DataType::UInt64 => numbers::<UInt64Type>(py, array),
        DataType::Float32 => numbers::<Float32Type>(py, array),
        DataType::Float64 => numbers::<Float64Type>(py, array),
        DataType::Utf8 => {
            let values = array.as_string::<i32>();
            each(py, array, |row| Ok(PyString::new(py, values.value(row)).into_any()))
        }
        DataType::Binary => {
            let values = array.as_binary::<i32>();
            each(py, array, |row| Ok(PyBytes::new(py, values.value(row)).into_any()))
        }
        DataType::FixedSizeBinary(16) => {
            let values = array.as_fixed_size_binary();
            each(py, array, |row| uuid(py, values.value(row)))
        }
        DataType::Dictionary(_, _) => dictionary(py, array),
        DataType::Date32 => {
            let values = array.as_primitive::<Date32Type>();
            each(py, array, |row| date(py, i64::from(values.value(row))))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            let values = array.as_primitive::<TimestampNanosecondType>();
            each(py, array, |row| datetime(py, values.value(row), Some(PyTzInfo::utc(py)?.to_owned())))
        }
        DataType::Timestamp(_, zone) => {
            let nanos = DataType::Timestamp(TimeUnit::Nanosecond, zone.clone());
            objects(py, &arrow_cast::cast(array, &nanos).map_err(cannot_show)?)
        }
        DataType::Decimal128(_, _) => {
            let values = array.as_primitive::<Decimal128Type>();
            each(py, array, |row| decimal_class(py)?.call1((values.value_as_string(row),)))
        }
        DataType::Duration(_) => {
            let nanos =
                arrow_cast::cast(array, &DataType::Duration(TimeUnit::Nanosecond)).map_err(cannot_show)?;
            let values = nanos.as_primitive::<arrow_array::types::DurationNanosecondType>();
            each(py, array, |row| timedelta(py, values.value(row)))
        }
        DataType::Decimal256(_, _) => {
            let values = array.as_primitive::<Decimal256Type>();
            each(py, array, |row| decimal_class(py)?.call1((values.value_as_string(row),)))
        }
        DataType::Time64(TimeUnit::Nanosecond) => {
            let values = array.as_primitive::<Time64NanosecondType>();
            each(py, array, |row| time(py, values.value(row)))
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let values = array.as_primitive::<IntervalMonthDayNanoType>();
            each(py, array, |row| interval(py, values.value(row)))
        }
        DataType::FixedSizeBinary(_) => {
            let values = array.as_fixed_size_binary();
            each(py, array, |row| Ok(PyBytes::new(py, values.value(row)).into_any()))
        }
        DataType::List(_) => {
            let values = array.as_list::<i32>();
            each(py, array, |row| Ok(PyList::new(py, objects(py, &values.value(row))?)?.into_any()))
        }
        DataType::Struct(_) => structs(py, array),
        DataType::Map(_, _) => maps(py, array),
        DataType::Null => Ok(vec![py.None().into_bound(py); array.len()]),
        other => match plainer(other) {
            Some(plainer) => objects(py, &arrow_cast::cast(array, &plainer).map_err(cannot_show)?),
            None => texts(py, array),
        },
    }
}

/// The type of the same values in the one form of them that [`objects`] reads.
fn plainer(data_type: &DataType) -> Option<DataType> {
    Some(match data_type {
        DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::LargeBinary | DataType::BinaryView => DataType::Binary,
        DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::ListView(field)
        | DataType::LargeListView(field) => DataType::List(Arc::clone(field)),
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Float16 => DataType::Float32,
        DataType::Date64 => DataType::Date32,
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Nanosecond),
        DataType::Interval(_) => DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::RunEndEncoded(_, values) => values.data_type().clone(),
        _ => return None,
    })
}

fn cannot_show(error: ArrowError) -> PyErr {
    crate::error::request(&format!("a column cannot become Python objects: {error}"), None)
}

fn each<'py>(
    py: Python<'py>,
    array: &ArrayRef,
    object: impl Fn(usize) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Objects<'py>> {
    let none = || py.None().into_bound(py);
    (0..array.len()).map(|row| if array.is_null(row) { Ok(none()) } else { object(row) }).collect()
}

fn numbers<'py, T: ArrowPrimitiveType>(py: Python<'py>, array: &ArrayRef) -> PyResult<Objects<'py>>
where
    T::Native: IntoPyObject<'py>,
    PyErr: From<<T::Native as IntoPyObject<'py>>::Error>,
{
    let values = array.as_primitive::<T>();
    each(py, array, |row| {
        let object = values.value(row).into_pyobject(py)?;
        Ok(object.into_any().into_bound())
    })
}

/// Each value of a dictionary becomes one object, which its rows share.
fn dictionary<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Objects<'py>> {
    let dictionary = array.as_any_dictionary();
    if dictionary.values().is_empty() {
        return Ok(vec![py.None().into_bound(py); array.len()]);
    }
    // A table's dictionary may be far longer than a batch: only what rows refer to is made.
    if dictionary.values().len() > array.len() {
        let plain = arrow_cast::cast(array, dictionary.values().data_type()).map_err(cannot_show)?;
        return objects(py, &plain);
    }
    let values = objects(py, dictionary.values())?;
    let keys = dictionary.normalized_keys();
    each(py, array, |row| Ok(values[keys[row]].clone()))
}

fn structs<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Objects<'py>> {
    let values = array.as_struct();
    let columns = values.columns().iter().map(|column| objects(py, column)).collect::<PyResult<Vec<_>>>()?;
    each(py, array, |row| {
        let dict = PyDict::new(py);
        for (field, column) in values.fields().iter().zip(&columns) {
            dict.set_item(field.name(), &column[row])?;
        }
        Ok(dict.into_any())
    })
}

/// Maps as dicts; as lists of pairs where the keys cannot be those of a dict.
fn maps<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Objects<'py>> {
    let maps = array.as_map();
    let hashable = !maps.keys().data_type().is_nested();
    let (keys, values) = (objects(py, maps.keys())?, objects(py, maps.values())?);
    let bounds = |row: usize| -> std::ops::Range<usize> {
        let offset = |at: usize| usize::try_from(maps.value_offsets()[at]).unwrap_or_default();
        offset(row)..offset(row + 1)
    };
    each(py, array, |row| match hashable {
        true => {
            let dict = PyDict::new(py);
            bounds(row).try_for_each(|at| dict.set_item(&keys[at], &values[at]))?;
            Ok(dict.into_any())
        }
        false => {
            let pairs = bounds(row).map(|at| (keys[at].clone(), values[at].clone()));
            Ok(PyList::new(py, pairs)?.into_any())
        }
    })
}

/// Types without a Python counterpart of their own.
fn texts<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Objects<'py>> {
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(array, &options).map_err(cannot_show)?;
    each(py, array, |row| Ok(PyString::new(py, &formatter.value(row).to_string()).into_any()))
}

fn date(py: Python<'_>, days: i64) -> PyResult<Bound<'_, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class =
        CLASS.get_or_try_init(py, || py.get_type::<PyDate>().getattr("fromordinal").map(Bound::unbind))?;
    class.bind(py).call1((days + EPOCH_ORDINAL,))
}

/// A `datetime` of a zone, whose clocks show as much; a `tickstone.Timestamp` where it has nanoseconds below a microsecond.
fn datetime<'py>(
    py: Python<'py>,
    nanos: i64,
    zone: Option<Bound<'py, PyTzInfo>>,
) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let seconds = nanos.div_euclid(NANOS_PER_SECOND);
    let micros = u32::try_from(nanos.rem_euclid(NANOS_PER_SECOND) / 1_000).unwrap_or_default();
    let (days, second) = (seconds.div_euclid(SECONDS_PER_DAY), seconds.rem_euclid(SECONDS_PER_DAY));
    let (year, month, day) = civil_from_days(days);
    let part = |value: i64| u8::try_from(value).unwrap_or_default();
    let (year, month, day) = (i32::try_from(year).unwrap_or(1), part(month), part(day));
    let (hour, minute, second) = (part(second / 3_600), part(second / 60 % 60), part(second % 60));
    let nanosecond = nanos.rem_euclid(1_000);
    if nanosecond != 0 {
        let parts = (year, month, day, hour, minute, second, micros, zone);
        return with_nanoseconds(py, &CLASS, "Timestamp", nanosecond, parts);
    }
    Ok(PyDateTime::new(py, year, month, day, hour, minute, second, micros, zone.as_ref())?.into_any())
}

/// A time of a class of `tickstone.nanoseconds`.
fn with_nanoseconds<'py>(
    py: Python<'py>,
    class: &PyOnceLock<Py<PyAny>>,
    name: &str,
    nanosecond: i64,
    parts: impl PyCallArgs<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let found = || py.import("tickstone.nanoseconds")?.getattr(name).map(Bound::unbind);
    let named = PyDict::new(py);
    named.set_item("nanosecond", nanosecond)?;
    class.get_or_try_init(py, found)?.bind(py).call(parts, Some(&named))
}

/// A `time`; a `tickstone.Time` where it has nanoseconds below a microsecond.
fn time(py: Python<'_>, nanos: i64) -> PyResult<Bound<'_, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let (second, micros) = (nanos / NANOS_PER_SECOND, nanos % NANOS_PER_SECOND / 1_000);
    let part = |value: i64| u8::try_from(value).unwrap_or_default();
    let micros = u32::try_from(micros).unwrap_or_default();
    let (hour, minute, second) = (part(second / 3_600), part(second / 60 % 60), part(second % 60));
    match nanos % 1_000 {
        0 => Ok(PyTime::new(py, hour, minute, second, micros, None)?.into_any()),
        nanosecond => with_nanoseconds(py, &CLASS, "Time", nanosecond, (hour, minute, second, micros)),
    }
}

/// A `timedelta`, its days of 24 hours; with months, which have no length, a `tickstone.Interval`.
fn interval(py: Python<'_>, value: IntervalMonthDayNano) -> PyResult<Bound<'_, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    if value.months == 0 {
        let micros = value.nanoseconds.div_euclid(1_000);
        let (seconds, micros) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
        let days = i64::from(value.days) + seconds.div_euclid(SECONDS_PER_DAY);
        let narrow = |value: i64| i32::try_from(value).unwrap_or_default();
        let seconds = narrow(seconds.rem_euclid(SECONDS_PER_DAY));
        let made = PyDelta::new(py, i32::try_from(days)?, seconds, narrow(micros), false)?;
        return Ok(made.into_any());
    }
    let class = || py.import("tickstone.scalars")?.getattr("Interval").map(Bound::unbind);
    let class = CLASS.get_or_try_init(py, class)?;
    class.bind(py).call1((value.months, value.days, value.nanoseconds))
}

fn timedelta(py: Python<'_>, nanos: i64) -> PyResult<Bound<'_, PyAny>> {
    let (days, rest) = (
        nanos.div_euclid(SECONDS_PER_DAY * NANOS_PER_SECOND),
        nanos.rem_euclid(SECONDS_PER_DAY * NANOS_PER_SECOND),
    );
    let narrow = |value: i64| i32::try_from(value).unwrap_or_default();
    let (seconds, micros) = (rest / NANOS_PER_SECOND, rest % NANOS_PER_SECOND / 1_000);
    let made = PyDelta::new(py, narrow(days), narrow(seconds), narrow(micros), false)?;
    Ok(made.into_any())
}

pub(crate) fn decimal_class(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = CLASS.get_or_try_init(py, || py.import("decimal")?.getattr("Decimal").map(Bound::unbind))?;
    Ok(class.bind(py).clone())
}

pub(crate) fn uuid<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = CLASS.get_or_try_init(py, || py.import("uuid")?.getattr("UUID").map(Bound::unbind))?;
    let fields = PyDict::new(py);
    fields.set_item("bytes", PyBytes::new(py, bytes))?;
    class.bind(py).call((), Some(&fields))
}
