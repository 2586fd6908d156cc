//! SQL over the engine: DataFusion, and the tokio it brings, live here only.
//!
//! Owns the dialect, the scan of a snapshot, the time-series operators and functions. Never touches
//! a tape, a part or a socket itself.
//!
//! Flow: text -> [`dialect`] (statements) -> [`Session`] (plan, optimise) -> [`scan`] and operators
//! -> batches.
//!
//! Enter at [`Database`], which the server, the command line and every binding open.

mod aggregates;
pub mod append;
mod approximate;
mod bounds;
mod cast;
mod correlated;
mod database;
mod dates;
pub mod designated;
pub mod dialect;
mod disjoint;
mod error;
pub mod export;
mod floats;
mod frame;
mod functions;
#[doc(hidden)]
pub mod fuzz;
pub mod import;
mod lengths;
mod lists;
mod literals;
mod meanings;
mod membership;
mod multiset;
mod named;
mod null_keys;
mod operators;
mod parameters;
mod patterns;
mod provider;
pub mod scan;
mod session;
mod stack;
mod statements;
mod system;
#[cfg(test)]
mod testing;
mod together;
mod unsigned;
mod uuids;
mod wanted;
mod window_keys;

pub use database::{Database, DatabaseOptions};
/// Arrow, in the version that rows and the arguments of functions are in.
pub use datafusion::arrow;
/// What the functions of a [`SystemCatalog`] are made with.
pub use datafusion::{error::DataFusionError, logical_expr};
pub use error::{ErrorKind, QueryError, Result, SqlState, type_name};
pub use frame::Frame;
pub use functions::user::{
    AggregateState, Function, FunctionError, FunctionKind, FunctionResult, FunctionSignature, NullHandling,
};
pub use literals::{array_elements, parse_bytes, without_exponent};
pub use parameters::{ParameterValue, Parameters, widen_floats};
pub use provider::SnapshotTable;
pub use session::{Description, Outcome, QueryProgress, Session};
pub use statements::ShownSetting;
pub use system::SystemCatalog;
