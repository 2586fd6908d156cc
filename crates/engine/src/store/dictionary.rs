//! Dictionaries: the strings of a SYMBOL column and their ids.
//!
//! Invariants:
//! - ids are given out from 0 without a gap and never change;
//! - a dictionary only grows, so that one instance serves every snapshot: ids of visible rows are
//!   always there, and later ones do no harm.

use crate::codec::{Decoder, Encoder};
use crate::disk::Disk;
use crate::tape::change::NewSymbols;
use crate::{EngineError, Result};
use arrow_array::StringArray;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tickstone_model::{NULL_SYMBOL, SymbolId};

/// First bytes of a symbol file.
const MAGIC: &[u8; 8] = b"TKSYMB\0\0";
/// The format version this build writes, and the newest it reads.
const VERSION: u32 = 1;

/// Most placeholders given at once: a wild count is not to fill the memory.
const PLACEHOLDERS_MAX: usize = 1 << 24;

/// The strings of one SYMBOL column, by id and by value.
#[derive(Debug, Default)]
pub struct Dictionary {
    inner: RwLock<Inner>,
    /// The Arrow array of the first symbols, kept until there are more.
    values: Mutex<Option<Arc<StringArray>>>,
}

#[derive(Debug, Default)]
struct Inner {
    ids: HashMap<Arc<str>, SymbolId>,
    symbols: Vec<Arc<str>>,
    /// Ids whose text was lost, found out while a damaged database is looked at.
    placeholders: Vec<Range<SymbolId>>,
}

impl Dictionary {
    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many symbols there are.
    pub fn len(&self) -> usize {
        self.read().symbols.len()
    }

    /// Whether there is no symbol.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The id of a string, `None` where no row ever had it.
    pub fn id(&self, symbol: &str) -> Option<SymbolId> {
        self.read().ids.get(symbol).copied()
    }

    /// The string of an id.
    pub fn symbol(&self, id: SymbolId) -> Option<Arc<str>> {
        self.read().symbols.get(id as usize).map(Arc::clone)
    }

    /// All strings by id, as the values of an Arrow dictionary array; shared until symbols are added.
    pub fn values(&self) -> Arc<StringArray> {
        let inner = self.read();
        let mut cached = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        match &*cached {
            Some(values) if arrow_array::Array::len(values.as_ref()) == inner.symbols.len() => {
                Arc::clone(values)
            }
            _ => {
                let values = Arc::new(StringArray::from_iter_values(&inner.symbols));
                *cached = Some(Arc::clone(&values));
                values
            }
        }
    }

    /// The ids of strings, new ones for those not seen before; `None` stays `None`.
    /// Returns `Err` with the limit where the dictionary is full; symbols before it stay.
    pub(crate) fn intern<'a>(
        &self,
        symbols: impl Iterator<Item = Option<&'a str>>,
    ) -> std::result::Result<Vec<Option<SymbolId>>, u32> {
        let mut inner = self.write();
        symbols.map(|symbol| symbol.map(|symbol| inner.intern(symbol)).transpose()).collect()
    }

    /// Symbols from `first` on, for a frame.
    pub(crate) fn since(&self, first: usize) -> Vec<String> {
        self.read().symbols[first..].iter().map(|symbol| symbol.to_string()).collect()
    }

    /// Adds the symbols of a frame; those already there (from the symbol file) must agree.
    ///
    /// # Errors
    /// What does not fit, in words.
    pub(crate) fn replay(&self, new: &NewSymbols) -> std::result::Result<(), String> {
        let mut inner = self.write();
        for (id, symbol) in (new.first_id..).zip(&new.symbols) {
            match inner.symbols.get(id as usize) {
                Some(known) if **known == **symbol => {}
                Some(known) => return Err(format!("symbol {id} is '{known}' and '{symbol}' at once")),
                None if id as usize == inner.symbols.len() => {
                    inner.intern(symbol).map_err(|most| format!("more than {most} symbols"))?;
                }
                None => return Err(format!("symbols {} to {id} are missing", inner.symbols.len())),
            }
        }
        Ok(())
    }

    /// Writes the first `count` symbols to a file (docs/formats/manifest.md), under a temporary name first. Whether
    /// its copy was written, too.
    ///
    /// # Errors
    /// [`EngineError::Io`]; the file before it stays.
    pub(crate) fn save(&self, disk: &dyn Disk, path: &Path, count: usize) -> Result<bool> {
        crate::disk::checked::replace_with_copy(disk, path, self.encode(count))
    }

    /// The bytes of a symbol file of the first `count` symbols, without the checksum at their end.
    pub(crate) fn encode(&self, count: usize) -> Vec<u8> {
        let mut out = Encoder::default();
        out.raw(MAGIC);
        out.u32(VERSION);
        out.len(count);
        self.read().symbols[..count].iter().for_each(|symbol| out.text(symbol));
        out.finish()
    }

    /// Gives the ids up to `count` that no symbol is known for a placeholder each: `?17`, with more
    /// question marks where that is a symbol already. Returns those ids: none where there would be
    /// more than anybody has lost.
    pub(crate) fn fill_to(&self, count: usize) -> Range<SymbolId> {
        let mut inner = self.write();
        let first = inner.symbols.len();
        let count = if count - first.min(count) > PLACEHOLDERS_MAX { first } else { count };
        while inner.symbols.len() < count {
            let mut placeholder = format!("?{}", inner.symbols.len());
            while inner.ids.contains_key(placeholder.as_str()) {
                placeholder.insert(0, '?');
            }
            if inner.intern(&placeholder).is_err() {
                break;
            }
        }
        let id = |place: usize| SymbolId::try_from(place).expect("ids are u32");
        let filled = id(first)..id(inner.symbols.len());
        if !filled.is_empty() {
            inner.placeholders.push(filled.clone());
        }
        filled
    }

    /// The ids that [`Self::fill_to`] gave placeholders.
    pub(crate) fn placeholders(&self) -> Vec<Range<SymbolId>> {
        self.read().placeholders.clone()
    }

    /// Reads a symbol file; it holds at least `count` symbols.
    ///
    /// # Errors
    /// [`EngineError::Io`], [`EngineError::Damaged`] or [`EngineError::NewerFormat`].
    pub(crate) fn load(disk: &dyn Disk, path: &Path, count: usize) -> Result<Self> {
        let (_, bytes) = crate::disk::checked::read_checked(disk, path, MAGIC, VERSION)?;
        let damaged = |what: String| EngineError::damaged(path, 0, what);
        let mut input = Decoder::new(&bytes);
        let mut inner = Inner::default();
        let total = input.count(4).map_err(damaged)?;
        for _ in 0..total {
            let symbol = input.text().map_err(damaged)?;
            inner.intern(symbol).map_err(|most| damaged(format!("more than {most} symbols")))?;
        }
        input.finish().map_err(damaged)?;
        if inner.symbols.len() != total || total < count {
            return Err(damaged(format!(
                "{count} different symbols expected, {} found",
                inner.symbols.len()
            )));
        }
        Ok(Self { inner: RwLock::new(inner), values: Mutex::default() })
    }
}

impl Inner {
    fn intern(&mut self, symbol: &str) -> std::result::Result<SymbolId, u32> {
        if let Some(id) = self.ids.get(symbol) {
            return Ok(*id);
        }
        let id = u32::try_from(self.symbols.len()).ok().filter(|id| *id < NULL_SYMBOL).ok_or(NULL_SYMBOL)?;
        let symbol: Arc<str> = symbol.into();
        self.symbols.push(Arc::clone(&symbol));
        self.ids.insert(symbol, id);
        Ok(id)
    }
}
