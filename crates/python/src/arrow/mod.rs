//! Arrow in and out by its C data interface, as Python's capsules hold it. Nothing is copied either way.

mod export;
mod import;

pub(crate) use export::{schema_capsule, stream_capsule};
pub(crate) use import::{Batches, array_of, data_type_of, requested_schema};

use crate::error;
use arrow_array::{ArrayRef, RecordBatch, new_empty_array};
use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::Arc;
use tickstone_query::{Frame as QueryFrame, FunctionSignature};

/// A table in memory for statements: batches that came over the C data interface.
#[pyclass(frozen, module = "tickstone._tickstone")]
pub(crate) struct Frame {
    frame: Arc<QueryFrame>,
    /// What it was made of, for a server that makes one of its own.
    source: Arc<Source>,
}

/// The batches of a frame, and what was said of them.
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
    pub(crate) timestamp: Option<String>,
    pub(crate) series: Option<Vec<String>>,
}

impl Frame {
    pub(crate) fn frame(&self) -> &Arc<QueryFrame> {
        &self.frame
    }

    pub(crate) fn source(&self) -> &Arc<Source> {
        &self.source
    }
}

#[pymethods]
impl Frame {
    #[new]
    #[pyo3(signature = (name, source, timestamp=None, series=None))]
    fn new(
        py: Python<'_>,
        name: String,
        source: &Bound<'_, PyAny>,
        timestamp: Option<String>,
        series: Option<Vec<String>>,
    ) -> PyResult<Self> {
        let batches = Batches::of(source)?;
        py.detach(|| {
            let schema = batches.schema();
            let failed = |error| error::request(&format!("frame '{name}' cannot be read: {error}"), None);
            let batches = batches.collect::<Result<Vec<_>, _>>().map_err(failed)?;
            let names = series.clone().unwrap_or_default();
            let frame = QueryFrame::new(&name, &schema, batches.clone(), timestamp.as_deref(), &names);
            let frame = frame.map_err(|error| error::of_query(&error, None))?;
            let source = Source { name, schema, batches, timestamp, series };
            Ok(Self { frame: Arc::new(frame), source: Arc::new(source) })
        })
    }

    /// The name statements find it by.
    #[getter]
    fn name(&self) -> &str {
        self.frame.name()
    }

    /// Names of its columns.
    fn columns(&self) -> Vec<String> {
        self.frame.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// How many rows it has.
    fn __len__(&self) -> usize {
        self.frame.rows()
    }
}

/// The values of a column on their way to a function of the user's.
#[pyclass(frozen, module = "tickstone._tickstone")]
pub(crate) struct Column {
    values: ArrayRef,
}

impl Column {
    pub(crate) fn of(values: &ArrayRef) -> Self {
        Self { values: Arc::clone(values) }
    }
}

#[pymethods]
impl Column {
    /// No values, of a type as SQL calls it.
    #[staticmethod]
    fn of_type(name: &str) -> PyResult<Self> {
        let data_type = FunctionSignature::data_type(name).map_err(|error| error::of_query(&error, None))?;
        Ok(Self { values: new_empty_array(&data_type) })
    }

    /// Type and values by Arrow's C data interface, without a copy.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        // A consumer that would like another type casts: the interface leaves it to the producer.
        let _ = requested_schema;
        export::array_capsules(py, &self.values)
    }
}
