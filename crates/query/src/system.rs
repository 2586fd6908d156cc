//! Tables and functions that say what there is in the words of another system: PostgreSQL's `pg_catalog`, for its tools.
//!
//! What they hold is a protocol's business; here they are found by name. A table of the database comes first.

use crate::error::Result;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::logical_expr::ScalarUDF;
use std::fmt::Debug;
use std::sync::Arc;
use tickstone_engine::Snapshot;

/// Tables and functions over the tables of a database. [`Database::set_system`](crate::Database::set_system) installs it.
pub trait SystemCatalog: Debug + Send + Sync {
    /// The names of the tables, in lower case; those of the schema `information_schema` with it:
    /// `information_schema.columns`.
    fn tables(&self) -> &[&'static str];

    /// The columns of one of the tables.
    fn schema(&self, name: &str) -> Option<SchemaRef>;

    /// The rows of one of the tables, as things are in a snapshot.
    ///
    /// # Errors
    /// Where they cannot be made: a defect.
    fn table(&self, name: &str, snapshot: &Arc<Snapshot>) -> Result<RecordBatch>;

    /// The functions; they must not fail where an object is not there, but give NULL.
    fn functions(&self) -> Vec<Arc<ScalarUDF>>;
}
