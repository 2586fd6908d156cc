//! nbbo: the consolidated best bid and offer over the last quote of each venue.
//!
//! ```text
//! marker -> plan -> node -> exec: rows of each series in order of time -> book
//! ```
//!
//! - A row a quote, in which both sides are the best over the venues' last quotes up to and with it.
//! - A bid or ask that is NULL or NaN takes that side of its venue back.
//! - A series and a venue may be NULL: that is one as any other.
//!
//! Where the series tell those of the table apart, rows are read series by series on all cores, and come so;
//! from any other input they are read, and come, in order of time.

mod book;
pub(crate) mod exec;
pub(crate) mod node;
pub(crate) mod plan;

#[cfg(test)]
mod tests;
