//! Batches that come from other libraries.

use crate::error;
use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader, make_array};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods, PyTuple};
use std::ffi::CStr;
use std::sync::Arc;

/// The batches of one object, each handed out once.
pub(crate) enum Batches {
    Stream(ArrowArrayStreamReader),
    /// One batch; `None` once it is out.
    One(SchemaRef, Option<RecordBatch>),
}

impl Batches {
    /// Those of anything with `__arrow_c_stream__` or `__arrow_c_array__`.
    ///
    /// # Errors
    /// `TypeError` for other objects, and what the object raises.
    pub(crate) fn of(source: &Bound<'_, PyAny>) -> PyResult<Self> {
        if source.hasattr("__arrow_c_stream__")? {
            return Self::of_stream(&source.call_method0("__arrow_c_stream__")?);
        }
        if source.hasattr("__arrow_c_array__")? {
            return Self::of_array(&source.call_method0("__arrow_c_array__")?);
        }
        let message =
            format!("{} has neither __arrow_c_stream__ nor __arrow_c_array__", source.get_type().name()?);
        Err(pyo3::exceptions::PyTypeError::new_err(message))
    }

    fn of_stream(capsule: &Bound<'_, PyAny>) -> PyResult<Self> {
        let pointer = pointer::<FFI_ArrowArrayStream>(capsule, c"arrow_array_stream")?;
        // SAFETY: a capsule of this name holds a stream by the C data interface; it is moved out, which
        // leaves the capsule with a released one.
        let reader = unsafe { ArrowArrayStreamReader::from_raw(pointer) };
        let reader = reader.map_err(cannot_read)?;
        // A stream of something else than rows: a column, such as a Polars series.
        Ok(Batches::Stream(reader))
    }

    fn of_array(capsules: &Bound<'_, PyAny>) -> PyResult<Self> {
        let array = moved_out(capsules)?;
        let Some(rows) = array.as_struct_opt() else {
            let message = format!("an array of {} is one column, and rows are wanted", array.data_type());
            return Err(pyo3::exceptions::PyTypeError::new_err(message));
        };
        if rows.null_count() > 0 {
            return Err(error::request("an array of structs has NULL in the place of whole rows", None));
        }
        let batch = RecordBatch::from(rows.clone());
        Ok(Batches::One(batch.schema(), Some(batch)))
    }

    /// The columns.
    pub(crate) fn schema(&self) -> SchemaRef {
        match self {
            Batches::Stream(reader) => reader.schema(),
            Batches::One(schema, _) => Arc::clone(schema),
        }
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Batches::Stream(reader) => reader.next(),
            Batches::One(_, batch) => batch.take().map(Ok),
        }
    }
}

/// The type and values that capsules hold.
fn moved_out(capsules: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    let capsules = capsules.cast::<PyTuple>()?;
    let schema = pointer::<FFI_ArrowSchema>(&capsules.get_item(0)?, c"arrow_schema")?;
    let array = pointer::<FFI_ArrowArray>(&capsules.get_item(1)?, c"arrow_array")?;
    // SAFETY: capsules of these names hold a schema and an array of that schema; both are moved out.
    let mut data = unsafe {
        let (schema, array) = (FFI_ArrowSchema::from_raw(schema), FFI_ArrowArray::from_raw(array));
        from_ffi(array, &schema).map_err(cannot_read)?
    };
    data.align_buffers();
    Ok(make_array(data))
}

/// The values of anything with `__arrow_c_array__`.
///
/// # Errors
/// `TypeError` for other objects, and what the object raises.
pub(crate) fn array_of(source: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    if !source.hasattr("__arrow_c_array__")? {
        let message = format!("{} has no __arrow_c_array__", source.get_type().name()?);
        return Err(pyo3::exceptions::PyTypeError::new_err(message));
    }
    moved_out(&source.call_method0("__arrow_c_array__")?)
}

/// The type that anything with `__arrow_c_schema__` is.
///
/// # Errors
/// What the object raises.
pub(crate) fn data_type_of(source: &Bound<'_, PyAny>) -> PyResult<DataType> {
    let capsule = source.call_method0("__arrow_c_schema__")?;
    let pointer = pointer::<FFI_ArrowSchema>(&capsule, c"arrow_schema")?;
    // SAFETY: a capsule of this name holds a schema, which the capsule keeps.
    let schema = unsafe { &*pointer };
    Ok(Field::try_from(schema).map_err(cannot_read)?.data_type().clone())
}

/// The schema that a consumer would like a stream in.
///
/// # Errors
/// Where the object is no schema capsule.
pub(crate) fn requested_schema(capsule: &Bound<'_, PyAny>) -> PyResult<SchemaRef> {
    let pointer = pointer::<FFI_ArrowSchema>(capsule, c"arrow_schema")?;
    // SAFETY: a capsule of this name holds a schema, which the capsule keeps.
    let schema = unsafe { &*pointer };
    let field = Field::try_from(schema).map_err(cannot_read)?;
    match field.data_type() {
        DataType::Struct(fields) => Ok(Arc::new(Schema::new(fields.clone()))),
        other => Err(error::request(&format!("a stream of rows cannot be {other}"), None)),
    }
}

fn pointer<T>(capsule: &Bound<'_, PyAny>, name: &CStr) -> PyResult<*mut T> {
    let capsule = capsule.cast::<PyCapsule>()?;
    Ok(capsule.pointer_checked(Some(name))?.cast::<T>().as_ptr())
}

fn cannot_read(error: ArrowError) -> PyErr {
    error::request(&format!("Arrow data cannot be read: {error}"), None)
}
