//! The one leaf a table has in a plan: [`ScanExec`] reads the rows a selection leaves of a snapshot.
//!
//! Flow: filters -> [`Constraint`] -> [`Selected`] (exact row ranges, from the engine) -> [`ScanExec`]
//! -> batches of edge types.
//!
//! A scan works in one of three orders. *Natural*: segment by segment as they lie (partitions in
//! time, inside by series and time); it may be split over several output partitions. *Time*: by the
//! designated timestamp, ties in arrival order within a series; what overlaps is merged, stretch by
//! stretch, so that memory stays bounded. *Series*: by the texts of symbols of the series key, then by
//! time. It claims an order only where the rows truly have it; ids of symbols say nothing about that of
//! their texts.

mod columns;
mod condition;
mod constraint;
mod exec;
mod fetch;
mod found;
mod merge;
mod natural;
mod newest;
mod pieces;
mod ranges;
mod selected;
mod series;
mod series_order;
mod series_reader;
mod statistics;
mod values;

pub(crate) use columns::{numbered_row, row_bytes, row_number, symbols_by_id};
pub(crate) use constraint::Constraint;
pub(crate) use exec::plain_columns;
pub use exec::{ScanExec, ScanOrder};
pub(crate) use fetch::RowFetcher;
pub(crate) use found::{Ids, SeriesFinder, WantedSeries};
pub(crate) use natural::BLOCK_ROWS;
pub(crate) use newest::NewestRows;
pub(crate) use pieces::{PieceReader, PlacedPiece, SegmentRows, by_segment, listed_bounds};
pub(crate) use ranges::{RangeReader, Unit};
pub use selected::Selected;
pub(crate) use series::{Rows, Series, SeriesPiece};
pub(crate) use series_order::SeriesOrder;
pub(crate) use series_reader::{Reach, SeriesReader, SeriesTask};
pub(crate) use statistics::of_columns_too;
pub(crate) use values::with_values;
