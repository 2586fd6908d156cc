//! The symbols that a client of results has been sent, or is to be.

use crate::qwp::write::{put_bytes, put_varint};
use arrow_array::cast::AsArray;
use arrow_array::types::ArrowDictionaryKeyType;
use arrow_array::{Array, ArrayRef, DictionaryArray, downcast_dictionary_array};
use arrow_buffer::ArrowNativeType;
use std::collections::HashMap;
use std::sync::Arc;

/// Symbols by their ids, which the server gives.
#[derive(Debug, Default)]
pub(super) struct SentSymbols {
    ids: HashMap<Arc<str>, u32>,
    symbols: Vec<Arc<str>>,
    bytes: usize,
    /// How many the client has.
    sent: usize,
    /// The dictionary of each column of the latest batch, with the ids of its symbols.
    columns: Vec<Known>,
}

/// The ids of a dictionary's symbols; [`NO_ID`] for one that no row had yet, and for NULL.
#[derive(Debug, Default)]
struct Known {
    dictionary: Option<ArrayRef>,
    ids: Vec<u32>,
}

const NO_ID: u32 = u32::MAX;

impl SentSymbols {
    pub(super) fn len(&self) -> usize {
        self.symbols.len()
    }

    /// Bytes of all of them.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives ids to the symbols that the rows of a column have.
    pub(super) fn give(&mut self, place: usize, array: &ArrayRef) {
        downcast_dictionary_array!(
            array => self.give_dictionary(place, array),
            _ => {}
        );
    }

    fn give_dictionary<K: ArrowDictionaryKeyType>(&mut self, place: usize, array: &DictionaryArray<K>) {
        if self.columns.len() <= place {
            self.columns.resize_with(place + 1, Known::default);
        }
        let values = array.values();
        let mut known = std::mem::take(&mut self.columns[place]);
        let is_same = known.dictionary.as_ref().is_some_and(|dictionary| Arc::ptr_eq(dictionary, values));
        if !is_same {
            known.ids.clear();
            known.ids.resize(values.len(), NO_ID);
            known.dictionary = Some(Arc::clone(values));
        }
        let ids = &mut known.ids;
        let mut give = |key: K::Native| {
            if let Some(id) = ids.get_mut(key.as_usize())
                && *id == NO_ID
            {
                *id = text_at(values, key.as_usize()).map_or(NO_ID, |text| self.id(text));
            }
        };
        match array.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => array.keys().values().iter().for_each(|key| give(*key)),
            Some(nulls) => nulls.valid_indices().for_each(|row| give(array.keys().value(row))),
        }
        self.columns[place] = known;
    }

    /// The ids of a dictionary's symbols, after [`Self::give`].
    pub(super) fn ids(&self, place: usize) -> &[u32] {
        self.columns.get(place).map_or(&[], |known| &known.ids)
    }

    fn id(&mut self, symbol: &str) -> u32 {
        if let Some(id) = self.ids.get(symbol) {
            return *id;
        }
        let (id, symbol): (u32, Arc<str>) = (self.symbols.len() as u32, symbol.into());
        self.bytes += symbol.len();
        self.symbols.push(Arc::clone(&symbol));
        self.ids.insert(symbol, id);
        id
    }

    /// Appends those that the client does not have: the id of the first, their count, each with its length.
    pub(super) fn put_new(&self, out: &mut Vec<u8>) {
        let new = &self.symbols[self.sent..];
        put_varint(out, self.sent as u64);
        put_varint(out, new.len() as u64);
        new.iter().for_each(|symbol| put_bytes(out, symbol.as_bytes()));
    }

    /// Notes that the client has all of them.
    pub(super) fn note_sent(&mut self) {
        self.sent = self.symbols.len();
    }

    /// Forgets which arrays the symbols came in, and lets go of these.
    pub(super) fn forget_columns(&mut self) {
        self.columns.clear();
    }
}

/// The text of a dictionary's value; `None` for NULL.
fn text_at(values: &ArrayRef, index: usize) -> Option<&str> {
    if values.is_null(index) {
        return None;
    }
    let small = values.as_string_opt::<i32>().map(|values| values.value(index));
    small
        .or_else(|| values.as_string_opt::<i64>().map(|values| values.value(index)))
        .or_else(|| values.as_string_view_opt().map(|values| values.value(index)))
}
