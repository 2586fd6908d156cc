//! Rows from Python into tables, without SQL.

use crate::arrow::Batches;
use crate::error::raised;
use crate::wait::check_signals;
use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use pyo3::prelude::*;
use tickstone_model::{ModelError, PartitionBy, SyncPolicy};
use tickstone_query::append::{AppendRequest, append as append_batches};
use tickstone_query::{Access, Database, QueryError};

/// What a caller may say of an append.
pub(crate) struct AppendOptions {
    pub(crate) timestamp: Option<String>,
    pub(crate) series: Option<Vec<String>>,
    pub(crate) partition_by: Option<String>,
    pub(crate) create: bool,
    pub(crate) sync: Option<String>,
}

/// Appends all batches in one commit, durable when it returns; how many rows.
pub(crate) fn append(
    py: Python<'_>,
    database: Database,
    table: String,
    batches: Batches,
    options: AppendOptions,
) -> PyResult<u64> {
    let mut request = AppendRequest::new(table);
    request.create = options.create;
    request.timestamp = options.timestamp;
    request.series = options.series;
    request.partition_by = options.partition_by.map(|unit| partition_by(&unit)).transpose()?;
    request.sync = options.sync.map(|policy| sync_policy(&policy)).transpose()?;
    py.detach(|| {
        let schema = batches.schema();
        let mut batches = Heeding { batches, interrupted: None };
        let appended = append_batches(&Access::of_owner(&database), &request, &schema, &mut batches);
        drop(database);
        match batches.interrupted {
            Some(interrupted) => Err(interrupted),
            None => raised(appended),
        }
    })
}

/// Batches that end with an error once a signal's handler raises.
pub(crate) struct Heeding {
    pub(crate) batches: Batches,
    pub(crate) interrupted: Option<PyErr>,
}

impl Iterator for Heeding {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.batches.next()?;
        // Signals are looked for only between large batches: a small append is over before.
        if next.as_ref().is_ok_and(|batch| batch.num_rows() >= 1 << 16)
            && let Err(interrupted) = check_signals()
        {
            self.interrupted = Some(interrupted);
            return Some(Err(ArrowError::ExternalError("interrupted".into())));
        }
        Some(next)
    }
}

/// The partition length of a name: "hour", "day", ….
pub(crate) fn partition_by(name: &str) -> PyResult<PartitionBy> {
    raised(PartitionBy::parse(name).map_err(QueryError::from))
}

/// The policy of a name; "never" is what SQL calls "none".
pub(crate) fn sync_policy(name: &str) -> PyResult<SyncPolicy> {
    if name.eq_ignore_ascii_case("never") {
        return Ok(SyncPolicy::None);
    }
    let parsed: Result<SyncPolicy, ModelError> = SyncPolicy::parse(name);
    raised(parsed.map_err(QueryError::from))
}
