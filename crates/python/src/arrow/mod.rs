//! Arrow in and out by its C data interface, as Python's capsules hold it. Nothing is copied either way.

mod export;
mod import;

pub(crate) use export::{schema_capsule, stream_capsule};
pub(crate) use import::{Batches, requested_schema};

use crate::error;
use pyo3::prelude::*;
use std::sync::Arc;
use tickstone_query::Frame as QueryFrame;

/// A table in memory for statements: batches that came over the C data interface.
#[pyclass(frozen, module = "tickstone._tickstone")]
pub(crate) struct Frame {
    frame: Arc<QueryFrame>,
}

impl Frame {
    pub(crate) fn frame(&self) -> &Arc<QueryFrame> {
        &self.frame
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
        let frame = py.detach(|| {
            let schema = batches.schema();
            let failed = |error| error::request(&format!("frame '{name}' cannot be read: {error}"), None);
            let batches = batches.collect::<Result<Vec<_>, _>>().map_err(failed)?;
            let series = series.unwrap_or_default();
            QueryFrame::new(&name, &schema, batches, timestamp.as_deref(), &series)
                .map_err(|error| error::of_query(&error, None))
        })?;
        Ok(Self { frame: Arc::new(frame) })
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
