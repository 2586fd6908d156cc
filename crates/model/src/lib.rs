//! The words of the domain: what a table is, before anything is stored or asked.
//!
//! Owns the names of `ARCHITECTURE.md`'s glossary as types: [`ColumnType`], [`ElementType`], [`Column`],
//! [`TableSchema`], [`AlterTable`], [`PartitionBy`], [`Ttl`], [`TimeRange`], [`SymbolId`], [`RowBatch`], [`TableAccess`].
//! Never does I/O, never knows of async, SQL or a file format.
//!
//! Enter at [`TableSchema`], then [`RowBatch`], which is rows of such a table in memory.

mod access;
mod batch;
mod column;
mod error;
mod materialized;
mod names;
mod nan;
mod partition;
mod schema;
mod source;
mod time;
mod ttl;

pub use access::{Grant, Rights, TableAccess};
pub use batch::{RowBatch, values_bytes};
pub use column::{Column, ColumnType, ElementType};
pub use error::{ModelError, Result};
pub use materialized::MaterializedView;
pub use names::{folded_name, is_same_name};
pub use nan::with_one_nan;
pub use partition::PartitionBy;
pub use schema::{AlterTable, MAX_COLUMNS, SyncPolicy, TableSchema, TableSchemaBuilder, fault_of_name};
pub use source::{StreamFormat, StreamSource};
pub use time::{TimeRange, civil_from_days, days_from_civil, format_nanos};
pub use ttl::{Ttl, TtlUnit};

/// A SYMBOL value inside the engine: its place in the column's dictionary, from 0.
///
/// Ids are per table and column, never change and are never used twice.
pub type SymbolId = u32;

/// The id that stands for a NULL symbol where a nullable id cannot (sort keys, series index).
/// It sorts after every real symbol; a dictionary holds at most `u32::MAX` symbols.
pub const NULL_SYMBOL: SymbolId = SymbolId::MAX;
