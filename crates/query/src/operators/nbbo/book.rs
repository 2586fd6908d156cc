//! The last quotes of the venues of each series, and the best of them.

use crate::operators::key::{KeyIds, KeyReader};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, DictionaryArray, Float64Array, StringArray, UInt32Array,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::{cast, take};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{HashMap, exec_err};
use datafusion::error::Result;
use std::sync::Arc;

/// The most venues one call tells apart: a bit each.
pub(super) const MAX_VENUES: usize = 64;

/// The venues met so far, and sets of them.
#[derive(Debug)]
pub(super) struct Venues {
    ids: KeyIds,
    reader: KeyReader,
    /// By id.
    names: Vec<String>,
    /// Numbers of the sets met: of small ones by place, [`NONE`] where it was not met.
    small: Vec<u32>,
    rest: HashMap<u64, u32>,
    /// By number: its venues, in order of their names.
    texts: Vec<String>,
    /// As many of them as there were when it was made.
    dictionary: ArrayRef,
}

/// No number yet.
const NONE: u32 = u32::MAX;
/// Sets below this have places.
const SMALL: u64 = 1 << 12;

impl Venues {
    pub(super) fn try_new(data_type: &DataType) -> Result<Self> {
        Ok(Self {
            ids: KeyIds::try_new(std::slice::from_ref(data_type))?,
            reader: KeyReader::new(1),
            names: Vec::new(),
            small: Vec::new(),
            rest: HashMap::new(),
            texts: Vec::new(),
            dictionary: Arc::new(StringArray::new_null(0)),
        })
    }

    /// Appends the id of each row's venue.
    ///
    /// # Errors
    /// Where there are more than [`MAX_VENUES`].
    pub(super) fn read(&mut self, venues: &ArrayRef, ids: &mut Vec<u32>) -> Result<()> {
        self.ids.read(std::slice::from_ref(venues), venues.len(), &mut self.reader, ids)?;
        if self.ids.len() > MAX_VENUES {
            return exec_err!(
                "nbbo met more than {MAX_VENUES} venues, the most it tells apart: is the venue => … the right column?"
            );
        }
        for id in self.names.len()..self.ids.len() {
            let row = ids.iter().position(|of| *of as usize == id).unwrap_or(0);
            let name = take(venues, &UInt32Array::from(vec![row as u32]), None)?;
            let name = cast(&name, &DataType::Utf8)?;
            let name = name.as_string::<i32>();
            self.names.push(if name.is_null(0) { "NULL".to_string() } else { name.value(0).to_string() });
        }
        Ok(())
    }

    /// The number of a set of venues, a bit each; `None` of no venue.
    fn number(&mut self, set: u64) -> Option<u32> {
        if set == 0 {
            return None;
        }
        let next = u32::try_from(self.texts.len()).unwrap_or(NONE - 1);
        let known = if set < SMALL {
            let place = set as usize;
            if place >= self.small.len() {
                self.small.resize(place + 1, NONE);
            }
            &mut self.small[place]
        } else {
            self.rest.entry(set).or_insert(NONE)
        };
        if *known == NONE {
            *known = next;
            let of = (0..self.names.len()).filter(|id| set >> id & 1 == 1);
            let mut names: Vec<&str> = of.map(|id| self.names[id].as_str()).collect();
            names.sort_unstable();
            self.texts.push(names.join(","));
        }
        Some(*known)
    }

    /// The sets by their numbers; those of equal content are the same array.
    fn dictionary(&mut self) -> ArrayRef {
        if self.dictionary.len() < self.texts.len() {
            self.dictionary = Arc::new(StringArray::from_iter_values(&self.texts));
        }
        Arc::clone(&self.dictionary)
    }

    pub(super) fn size(&self) -> usize {
        let texts: usize = self.texts.iter().map(|text| 2 * text.len() + 48).sum();
        self.ids.size() + self.small.capacity() * 4 + self.rest.capacity() * 16 + texts
    }
}

/// One side of the book of one series.
#[derive(Debug, Clone)]
struct Side {
    /// By venue; NaN where it has none.
    prices: Vec<f64>,
    sizes: Vec<f64>,
    /// The best price, and the venues that make it, a bit each.
    best: f64,
    venues: u64,
}

impl Side {
    const EMPTY: Self = Self { prices: Vec::new(), sizes: Vec::new(), best: f64::NAN, venues: 0 };

    /// A venue's new quote; NaN takes the last one back.
    #[inline]
    fn set(&mut self, venue: usize, price: f64, size: f64, highest: bool) {
        if venue >= self.prices.len() {
            self.prices.resize(venue + 1, f64::NAN);
            self.sizes.resize(venue + 1, f64::NAN);
        }
        (self.prices[venue], self.sizes[venue]) = (price, size);
        let bit = 1 << venue;
        let beats = if highest { price > self.best } else { price < self.best };
        if beats || (self.venues == 0 && !price.is_nan()) {
            (self.best, self.venues) = (price, bit);
        } else if price == self.best && self.venues != 0 {
            self.venues |= bit;
        } else if self.venues & bit != 0 {
            self.venues &= !bit;
            if self.venues == 0 {
                self.look(highest);
            }
        }
    }

    /// Finds the best again.
    fn look(&mut self, highest: bool) {
        (self.best, self.venues) = (f64::NAN, 0);
        for (venue, &price) in self.prices.iter().enumerate().filter(|(_, price)| !price.is_nan()) {
            let beats = if highest { price > self.best } else { price < self.best };
            if self.venues == 0 || beats {
                (self.best, self.venues) = (price, 1 << venue);
            } else if price == self.best {
                self.venues |= 1 << venue;
            }
        }
    }

    /// What the venues at the best price offer together; NaN where none says.
    fn size(&self) -> f64 {
        let (mut left, mut sum) = (self.venues, f64::NAN);
        while left != 0 {
            let size = self.sizes[left.trailing_zeros() as usize];
            if !size.is_nan() {
                sum = if sum.is_nan() { size } else { sum + size };
            }
            left &= left - 1;
        }
        sum
    }
}

/// One side of all series, and what it yields of a batch.
pub(super) struct Sides {
    highest: bool,
    /// By series.
    sides: Vec<Side>,
}

impl Sides {
    /// Bids, of which the highest is best, or asks.
    pub(super) fn new(highest: bool) -> Self {
        Self { highest, sides: Vec::new() }
    }

    /// Takes in the quotes of a batch; the columns of the best after each: price, size where there are sizes,
    /// and venues.
    pub(super) fn update(
        &mut self,
        series: &[u32],
        venue_ids: &[u32],
        prices: &ArrayRef,
        sizes: Option<&ArrayRef>,
        venues: &mut Venues,
    ) -> Result<Vec<ArrayRef>> {
        let prices = plain(prices);
        let sizes = sizes.map(plain);
        let rows = series.len();
        let mut best = Vec::with_capacity(rows);
        let mut total = Vec::with_capacity(if sizes.is_some() { rows } else { 0 });
        let mut sets = Vec::with_capacity(rows);
        let (mut last_set, mut last_number) = (0, None);
        let quotes = series.iter().zip(venue_ids).zip(prices.iter());
        for (row, ((&at, &venue), &price)) in quotes.enumerate() {
            let at = at as usize;
            if at >= self.sides.len() {
                self.sides.resize(at + 1, Side::EMPTY);
            }
            let side = &mut self.sides[at];
            let size = sizes.as_ref().map_or(f64::NAN, |sizes| sizes[row]);
            side.set(venue as usize, price, size, self.highest);
            if side.venues != last_set {
                (last_set, last_number) = (side.venues, venues.number(side.venues));
            }
            best.push(side.best);
            sets.push(last_number);
            if sizes.is_some() {
                total.push(side.size());
            }
        }
        let numbers: UInt32Array = sets.into_iter().collect();
        let mut columns: Vec<ArrayRef> = vec![without_nan(best)];
        columns.extend(sizes.is_some().then(|| without_nan(total)));
        columns.push(Arc::new(DictionaryArray::try_new(numbers, venues.dictionary())?));
        Ok(columns)
    }

    pub(super) fn size(&self) -> usize {
        let of = |side: &Side| size_of::<Side>() + 8 * (side.prices.capacity() + side.sizes.capacity());
        self.sides.iter().map(of).sum()
    }
}

/// Doubles with NaN in the place of NULL.
fn plain(values: &ArrayRef) -> std::borrow::Cow<'_, [f64]> {
    let values = values.as_primitive::<Float64Type>();
    match values.null_count() {
        0 => values.values()[..].into(),
        _ => values.iter().map(|value| value.unwrap_or(f64::NAN)).collect::<Vec<f64>>().into(),
    }
}

/// Doubles with NULL in the place of NaN.
fn without_nan(values: Vec<f64>) -> ArrayRef {
    let held: BooleanArray = values.iter().map(|value| Some(!value.is_nan())).collect();
    let nulls = Some(NullBuffer::new(held.values().clone())).filter(|nulls| nulls.null_count() > 0);
    Arc::new(Float64Array::new(values.into(), nulls))
}
