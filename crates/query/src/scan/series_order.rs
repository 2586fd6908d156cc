//! Rows by symbols and time: series after series in order of their symbols' texts, each in order of time.
//!
//! Parts and runs hold rows by series already, so only the series are sorted, not the rows.

use super::columns::row_bytes;
use super::exec::ScanExec;
use super::series_reader::{Reach, SeriesReader, SeriesTask};
use arrow_select::take::take_record_batch;
use datafusion::arrow::array::{RecordBatch, UInt32Array};
use datafusion::arrow::compute::SortOptions;
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::MemoryReservation;
use std::cmp::Ordering;
use std::fmt;
use tickstone_engine::TableSnapshot;
use tickstone_model::{NULL_SYMBOL, SymbolId};

/// Most rows that are read at once, where a series is not spread over segments that overlap in time.
const TASK_ROWS: usize = if cfg!(test) { 16 } else { 65_536 };

/// An order by columns of the series key, and perhaps by time after them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeriesOrder {
    /// Columns of the table, the outermost first.
    pub(super) keys: Vec<(usize, SortOptions)>,
    /// How the rows of one series go.
    pub(super) time: Option<SortOptions>,
}

impl SeriesOrder {
    /// The order by these columns of a table; `None` where they are not of its series key, save for the
    /// designated timestamp at the end.
    pub(crate) fn new(table: &TableSnapshot, columns: &[(usize, SortOptions)]) -> Option<Self> {
        let schema = table.schema();
        let time = columns.last().filter(|(column, _)| schema.timestamp() == Some(*column));
        let keys = &columns[..columns.len() - usize::from(time.is_some())];
        let of_key = keys.iter().all(|(column, _)| schema.series().contains(column));
        let repeats = keys.iter().enumerate().any(|(at, key)| keys[..at].iter().any(|k| k.0 == key.0));
        let fits = !keys.is_empty() && of_key && !repeats && schema.timestamp().is_some();
        fits.then(|| Self { keys: keys.to_vec(), time: time.map(|(_, options)| *options) })
    }

    /// Whether series that these columns make can come so, each in order of time.
    pub(crate) fn goes_forwards_by(&self, keys: &[usize]) -> bool {
        let by_keys = self.keys.iter().all(|(column, _)| keys.contains(column));
        // Time is in order within one series only: the order by its symbols must be that of all of them.
        let whole = self.time.is_none() || keys.iter().all(|key| self.keys.iter().any(|(of, _)| of == key));
        by_keys && whole && !self.is_backwards()
    }

    /// Whether the rows of a series come with the newest first.
    fn is_backwards(&self) -> bool {
        self.time.is_some_and(|options| options.descending)
    }

    /// Where the columns of the order are among some that all of them are of.
    pub(super) fn places_in(&self, keys: &[usize]) -> Vec<usize> {
        self.keys.iter().filter_map(|(column, _)| keys.iter().position(|key| key == column)).collect()
    }

    /// Which of two series comes first, by the ids of their keys in this order.
    pub(super) fn compare(&self, table: &TableSnapshot, a: &[SymbolId], b: &[SymbolId]) -> Ordering {
        for ((column, options), (a, b)) in self.keys.iter().zip(a.iter().zip(b)) {
            let by_text = || {
                let dictionary = table.dictionary(*column);
                let text = |id: SymbolId| dictionary.and_then(|dictionary| dictionary.symbol(id));
                let order = text(*a).cmp(&text(*b));
                if options.descending { order.reverse() } else { order }
            };
            let nulls = |first: bool| if first { Ordering::Less } else { Ordering::Greater };
            let order = match (*a == NULL_SYMBOL, *b == NULL_SYMBOL) {
                _ if a == b => continue,
                (true, _) => nulls(options.nulls_first),
                (_, true) => nulls(!options.nulls_first),
                _ => by_text(),
            };
            if order != Ordering::Equal {
                return order;
            }
        }
        Ordering::Equal
    }
}

impl fmt::Display for SeriesOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let descending = self.keys.iter().any(|(_, options)| options.descending);
        f.write_str(if descending { "series descending" } else { "series" })?;
        match self.time {
            Some(options) if options.descending => f.write_str(", time descending"),
            Some(_) => f.write_str(", time"),
            None => Ok(()),
        }
    }
}

/// Yields rows in the order of their series.
#[derive(Debug)]
pub(super) struct SeriesCursor {
    reader: SeriesReader,
    /// The next one last.
    tasks: Vec<SeriesTask>,
    backwards: bool,
    /// Rows read that have not been yielded.
    ready: Option<RecordBatch>,
    batch_rows: usize,
    remaining: usize,
    /// Bytes of a row on its way, as it is read and as it leaves.
    row_bytes: usize,
    /// Holds what was read and has not been yielded.
    reservation: MemoryReservation,
}

impl SeriesCursor {
    /// The first `fetch` rows that `scan` selects, all where `None`.
    ///
    /// # Errors
    /// Where the engine cannot read the table's files.
    pub(super) fn new(
        scan: &ScanExec,
        order: &SeriesOrder,
        fetch: Option<usize>,
        (batch_rows, reservation): (usize, MemoryReservation),
    ) -> Result<Self> {
        let keys: Vec<usize> = order.keys.iter().map(|(column, _)| *column).collect();
        let mut reader = SeriesReader::new(scan, &keys)?
            .ok_or_else(|| internal_datafusion_err!("an order by columns that make no series"))?;
        let table = &scan.selected().table;
        let backwards = order.is_backwards();
        // With the newest rows first, everything is read as if it were to go the other way round.
        reader.sort_series(|a, b| {
            let order = order.compare(table, a, b);
            if backwards { order.reverse() } else { order }
        });
        let remaining = fetch.unwrap_or(usize::MAX);
        let task_rows = TASK_ROWS.min(remaining.max(batch_rows));
        let mut tasks = reader.tasks(task_rows, Some(Reach::default()));
        if !backwards {
            tasks.reverse();
        }
        let row_bytes = 2 * row_bytes(&scan.row_schema());
        Ok(Self { reader, tasks, backwards, ready: None, batch_rows, remaining, row_bytes, reservation })
    }

    /// The next batch, `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(rows) = self.ready.take().filter(|rows| rows.num_rows() > 0 && self.remaining > 0) {
                let now = self.batch_rows.min(rows.num_rows()).min(self.remaining);
                self.ready = Some(rows.slice(now, rows.num_rows() - now));
                self.remaining -= now;
                return Ok(Some(rows.slice(0, now)));
            }
            let Some(task) = self.tasks.pop().filter(|_| self.remaining > 0) else { return Ok(None) };
            self.reservation.try_resize(task.rows.saturating_mul(self.row_bytes))?;
            let rows = self.reader.read(&task)?.batch;
            self.ready = Some(if self.backwards { reversed(&rows)? } else { rows });
        }
    }
}

/// The rows, the last one first.
fn reversed(rows: &RecordBatch) -> Result<RecordBatch> {
    let last_first: UInt32Array = (0..rows.num_rows() as u32).rev().collect::<Vec<_>>().into();
    take_record_batch(rows, &last_first).map_err(DataFusionError::from)
}
