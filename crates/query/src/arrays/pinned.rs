//! One row of each key, kept while batches pass by.
//!
//! Rows are kept as (batch, row) and their batches with them. When the batches hold many more rows than
//! there are keys, the kept rows are copied into one batch and the others go, so that a rare key never
//! holds on to more than that.

use super::gather::{MISSING, gather};
use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;

/// Batches are let go once they hold this many rows, and four times as many as there are keys.
const MAX_PINNED_ROWS: usize = 128 * 1_024;

/// The row of a key: batch and row in it.
pub(crate) type Place = (usize, usize);

/// No row.
pub(crate) const NOWHERE: Place = (MISSING, 0);

/// The kept row of each key, by key id.
#[derive(Debug)]
pub(crate) struct PinnedRows {
    types: Vec<DataType>,
    batches: Vec<Vec<ArrayRef>>,
    pinned_rows: usize,
    /// Rows that the last compaction kept.
    compacted_rows: usize,
    places: Vec<Place>,
    times: Vec<i64>,
}

impl PinnedRows {
    /// Rows of columns of these types.
    pub(crate) fn new(types: Vec<DataType>) -> Self {
        Self {
            types,
            batches: Vec::new(),
            pinned_rows: 0,
            compacted_rows: 0,
            places: Vec::new(),
            times: Vec::new(),
        }
    }

    /// Begins a batch; later rows are of it.
    pub(crate) fn add_batch(&mut self, columns: Vec<ArrayRef>, rows: usize) {
        self.batches.push(columns);
        self.pinned_rows += rows;
    }

    /// Makes room for so many keys.
    pub(crate) fn grow(&mut self, keys: usize) {
        if keys > self.places.len() {
            self.places.resize(keys, NOWHERE);
            self.times.resize(keys, i64::MIN);
        }
    }

    /// Keeps a row of the last batch for a key.
    pub(crate) fn keep(&mut self, key: u32, row: usize, time: i64) {
        self.keep_at(key as usize, row, time);
    }

    /// Where a key's row is, [`NOWHERE`] if it has none, and its time.
    pub(crate) fn get(&self, key: u32) -> (Place, i64) {
        match self.places.get(key as usize) {
            Some(place) => (*place, self.times[key as usize]),
            None => (NOWHERE, i64::MIN),
        }
    }

    /// The time of a key's row, by the key as an index.
    pub(crate) fn time(&self, key: usize) -> Option<i64> {
        (self.places[key] != NOWHERE).then(|| self.times[key])
    }

    /// [`Self::keep`] by the key as an index.
    pub(crate) fn keep_at(&mut self, key: usize, row: usize, time: i64) {
        self.places[key] = (self.batches.len() - 1, row);
        self.times[key] = time;
    }

    /// Takes out every key's place and time, [`NOWHERE`] where it has no row; batches stay.
    pub(crate) fn take_all(&mut self) -> (Vec<Place>, Vec<Option<i64>>) {
        let places = std::mem::take(&mut self.places);
        let times = std::mem::take(&mut self.times);
        let times = times.into_iter().zip(&places);
        let times = times.map(|(time, place)| (*place != NOWHERE).then_some(time)).collect();
        (places, times)
    }

    /// Puts back what [`Self::take_all`] took, or its tail as keys from 0.
    pub(crate) fn restore(&mut self, places: Vec<Place>, times: Vec<Option<i64>>) {
        self.places = places;
        self.times = times.into_iter().map(|time| time.unwrap_or(i64::MIN)).collect();
    }

    /// Forgets every key and batch.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(std::mem::take(&mut self.types));
    }

    /// All keys' rows with their times; keys without a row left out.
    pub(crate) fn all(&self) -> Vec<(i64, Place)> {
        let kept = self.places.iter().zip(&self.times).filter(|(place, _)| **place != NOWHERE);
        kept.map(|(place, time)| (*time, *place)).collect()
    }

    /// The rows at these places, column by column.
    pub(crate) fn rows(&self, places: &[Place]) -> Result<Vec<ArrayRef>> {
        let columns = self.types.iter().enumerate().map(|(index, data_type)| {
            let arrays: Vec<&ArrayRef> = self.batches.iter().map(|batch| &batch[index]).collect();
            gather(&arrays, places, data_type)
        });
        columns.collect()
    }

    /// The place of a row of the last batch.
    pub(crate) fn last(&self, row: usize) -> Place {
        (self.batches.len() - 1, row)
    }

    /// Whether so much is pinned that [`Self::compact`] pays.
    pub(crate) fn is_heavy(&self) -> bool {
        let fair = MAX_PINNED_ROWS.max(4 * self.places.len()).max(4 * self.compacted_rows);
        self.batches.len() > 1 && self.pinned_rows > fair
    }

    /// Copies the kept rows into one batch. Places handed out before are void.
    pub(crate) fn compact(&mut self) -> Result<()> {
        self.compact_with(Vec::new())
    }

    /// [`Self::compact`] where the rows at other places are kept too, which become their new ones.
    pub(crate) fn compact_with(&mut self, others: Vec<&mut Place>) -> Result<()> {
        let mut kept = std::mem::take(&mut self.places);
        let mut moved: Vec<&mut Place> = kept.iter_mut().chain(others).filter(|at| **at != NOWHERE).collect();
        let places: Vec<Place> = moved.iter().map(|place| **place).collect();
        let columns = self.rows(&places)?;
        moved.iter_mut().enumerate().for_each(|(row, place)| **place = (0, row));
        self.places = kept;
        (self.pinned_rows, self.compacted_rows) = (places.len(), places.len());
        self.batches.clear();
        self.batches.push(columns);
        Ok(())
    }

    /// Bytes it holds, roughly.
    pub(crate) fn size(&self) -> usize {
        let arrays = self.batches.iter().flatten().map(|array| array.get_array_memory_size());
        arrays.sum::<usize>() + self.places.capacity() * 24
    }
}
