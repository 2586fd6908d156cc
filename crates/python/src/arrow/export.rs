//! Batches that go to other libraries.

use arrow_array::ffi::{FFI_ArrowSchema, to_ffi};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, ArrayRef, RecordBatchReader};
use arrow_schema::Schema;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// A capsule with a stream; the consumer moves it out, and a capsule that nobody asked releases it.
pub(crate) fn stream_capsule<'py>(
    py: Python<'py>,
    reader: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), c"arrow_array_stream")
}

/// A capsule with a schema.
pub(crate) fn schema_capsule<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema);
    let schema =
        schema.map_err(|error| crate::error::request(&format!("a schema cannot leave: {error}"), None))?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}

/// Capsules with the type of an array and with its values.
pub(crate) fn array_capsules<'py>(
    py: Python<'py>,
    array: &ArrayRef,
) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
    let cannot = |error| crate::error::request(&format!("an array cannot leave: {error}"), None);
    let (values, data_type) = to_ffi(&array.to_data()).map_err(cannot)?;
    Ok((
        PyCapsule::new_with_value(py, data_type, c"arrow_schema")?,
        PyCapsule::new_with_value(py, values, c"arrow_array")?,
    ))
}
