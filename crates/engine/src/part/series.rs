//! The series index: which rows of a slice belong to which series key. Read in place.

use super::Part;
use super::layout::u32_at;
use std::ops::Range;
use tickstone_model::{NULL_SYMBOL, SymbolId};

/// The series entries of one slice, in order of their keys (NULL last).
#[derive(Debug, Clone, Copy)]
pub struct SeriesIndex<'a> {
    words: &'a [u8],
    series_columns: usize,
    /// First row of the slice and first row past it, in the part.
    rows: (usize, usize),
}

/// The rows of one series key in one slice; time ascends in them, ties are in arrival order.
#[derive(Debug, Clone, Copy)]
pub struct SeriesEntry<'a> {
    index: SeriesIndex<'a>,
    entry: usize,
}

impl Part {
    /// The series index of a slice; empty past the last slice. A table without series columns has one
    /// entry, of no ids and all rows.
    pub fn series(&self, slice: usize) -> SeriesIndex<'_> {
        let stride = (self.layout.series_columns + 1) * 4;
        let (first, count) = self.layout.slice_series.get(slice).copied().unwrap_or_default();
        let start = self.layout.series + first * stride;
        let words = self.bytes.get(start..start + count * stride).unwrap_or_default();
        let rows = self.slices.get(slice).map_or((0, 0), |slice| (slice.rows.start, slice.rows.end));
        SeriesIndex { words, series_columns: self.layout.series_columns, rows }
    }
}

impl<'a> SeriesIndex<'a> {
    fn stride(&self) -> usize {
        (self.series_columns + 1) * 4
    }

    /// How many entries.
    pub fn len(&self) -> usize {
        self.words.len() / self.stride()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Entry `entry`; past the end one of no rows.
    pub fn entry(&self, entry: usize) -> SeriesEntry<'a> {
        SeriesEntry { index: *self, entry }
    }

    /// All entries in order.
    pub fn iter(&self) -> impl Iterator<Item = SeriesEntry<'a>> + use<'a> {
        let index = *self;
        (0..index.len()).map(move |entry| index.entry(entry))
    }

    /// The entries (numbers for [`Self::entry`]) whose first id is `id`, by binary search;
    /// [`NULL_SYMBOL`] finds those of NULL. Without series columns: none.
    pub fn find(&self, id: SymbolId) -> Range<usize> {
        self.find_from(0, id)
    }

    /// The entries whose first id is one of `ids` (ascending), in order: each is searched for from the one before it, so
    /// that many cost no more than a walk over the index.
    pub fn find_all(&self, ids: &[SymbolId]) -> Vec<usize> {
        let (mut found, mut from) = (Vec::with_capacity(ids.len().min(self.len())), 0);
        for &id in ids {
            let entries = self.find_from(from, id);
            from = entries.start;
            found.extend(entries);
        }
        found
    }

    /// The entries whose first id is `id`, of those from `from` on, before which all ids are smaller.
    fn find_from(&self, from: usize, id: SymbolId) -> Range<usize> {
        if self.series_columns == 0 {
            return 0..0;
        }
        let start = self.gallop(from, |first| first < id);
        start..self.gallop(start, |first| first <= id)
    }

    /// The first entry from `from` on of whose first id `before` does not hold.
    fn gallop(&self, from: usize, before: impl Fn(SymbolId) -> bool) -> usize {
        let (mut low, mut step) = (from, 1);
        while low + step <= self.len() && before(self.entry(low + step - 1).id(0)) {
            low += step;
            step *= 2;
        }
        let mut high = self.len().min(low + step - 1).max(low);
        while low < high {
            let middle = low + (high - low) / 2;
            if before(self.entry(middle).id(0)) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The part's row where an entry starts; the end of the slice past the last.
    fn start(&self, entry: usize) -> usize {
        let at = entry * self.stride() + self.series_columns * 4;
        if at + 4 > self.words.len() {
            return self.rows.1;
        }
        self.rows.1.min(self.rows.0 + u32_at(self.words, at) as usize)
    }
}

impl SeriesEntry<'_> {
    /// The id in series column `column` (0 is the outermost); [`NULL_SYMBOL`] for NULL.
    pub fn id(&self, column: usize) -> SymbolId {
        let at = self.entry * self.index.stride() + column * 4;
        if column >= self.index.series_columns || at + 4 > self.index.words.len() {
            return NULL_SYMBOL;
        }
        u32_at(self.index.words, at)
    }

    /// The ids of all series columns, outermost first.
    pub fn ids(&self) -> impl Iterator<Item = SymbolId> + '_ {
        (0..self.index.series_columns).map(|column| self.id(column))
    }

    /// Its rows in the part.
    pub fn rows(&self) -> Range<usize> {
        let start = self.index.start(self.entry);
        start..self.index.start(self.entry + 1).max(start)
    }
}
