//! SQL over the engine: DataFusion, and the tokio it brings, live here only.
//!
//! Owns the dialect, the scan of a snapshot, the time-series operators and functions. Never touches
//! a tape, a part or a socket itself.
//!
//! Flow: text -> [`dialect`] (statements) -> [`Session`] (plan, optimise) -> [`scan`] and operators
//! -> batches.
//!
//! Enter at [`Database`], which the server, the command line and every binding open.

mod access;
pub mod append;
mod arrays;
mod aside;
pub mod audit;
mod cast;
mod database;
mod ddl;
mod derived;
pub mod designated;
pub mod dialect;
mod entrance;
mod error;
pub mod export;
mod facts;
mod frame;
mod functions;
#[doc(hidden)]
pub mod fuzz;
mod host;
pub mod import;
mod in_place;
mod lists;
mod live;
mod named;
mod operators;
mod parameters;
pub mod paths;
mod plans;
mod provider;
mod refresher;
mod rules;
mod run;
mod running;
pub mod scan;
mod session;
mod settings;
mod shares;
mod stack;
mod state;
mod statements;
mod system;
#[cfg(test)]
mod testing;
mod texts;
mod together;
mod wanted;

pub use access::{Limits, Verifier, is_same, random_text};
pub use aside::{Aside, listed};
pub use database::{Database, DatabaseOptions, ShownSetting, WeakDatabase};
/// Arrow, in the version that rows and the arguments of functions are in.
pub use datafusion::arrow;
/// What the functions of a [`SystemCatalog`] are made with.
pub use datafusion::{error::DataFusionError, logical_expr};
pub use entrance::{Access, Part, Privilege, Reached, Role};
pub use error::{ErrorKind, QueryError, Result, SqlState, type_name};
pub use frame::Frame;
pub use functions::CLOCK_KEY;
pub use functions::user::{
    AggregateState, Function, FunctionError, FunctionKind, FunctionResult, FunctionSignature, NullHandling,
};
pub use parameters::{ParameterValue, Parameters, widen_floats};
pub use provider::SnapshotTable;
pub use running::{CancelToken, HeldRows, QueryProgress, WaitingRows};
pub use session::{Description, Entitlement, Outcome, Session};
pub use shares::Threads;
pub use system::SystemCatalog;
pub use texts::{array_elements, parse_bytes, parse_size, without_exponent, without_passwords};
