//! What is known of dictionaries of symbols: rows come with the same one again and again.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::DataType;
use std::collections::VecDeque;

/// Something of each of the last dictionaries. They stay where they are as long as they are held.
#[derive(Debug)]
pub(crate) struct OfDictionaries<T> {
    known: VecDeque<(ArrayRef, T)>,
}

/// Dictionaries that are remembered: those of the files that are read at once, and of what joined them.
const DICTIONARIES_MAX: usize = 64;

impl<T> Default for OfDictionaries<T> {
    fn default() -> Self {
        Self { known: VecDeque::new() }
    }
}

impl<T> OfDictionaries<T> {
    /// What is known of the one with these symbols.
    pub(crate) fn get(&self, symbols: &ArrayRef) -> Option<&T> {
        self.known.iter().rev().find(|(known, _)| same(known, symbols)).map(|(_, of)| of)
    }

    /// Remembers something of another; what it had to forget for that.
    pub(crate) fn insert(&mut self, symbols: &ArrayRef, of: T) -> Option<T> {
        let full = self.known.len() == DICTIONARIES_MAX;
        let forgotten = full.then(|| self.known.pop_front()).flatten();
        self.known.push_back((ArrayRef::clone(symbols), of));
        forgotten.map(|(_, of)| of)
    }
}

/// Whether a type is that of symbols.
pub(crate) fn is_symbol(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Dictionary(key, values)
        if **key == DataType::UInt32 && **values == DataType::Utf8)
}

/// Whether two arrays of symbols are one.
fn same(a: &ArrayRef, b: &ArrayRef) -> bool {
    let (a, b) = (a.as_string::<i32>(), b.as_string::<i32>());
    let nulls = |of: &dyn Array| of.nulls().map(|nulls| nulls.buffer().as_ptr());
    a.len() == b.len()
        && a.value_offsets().as_ptr() == b.value_offsets().as_ptr()
        && a.values().as_ptr() == b.values().as_ptr()
        && nulls(a) == nulls(b)
}
