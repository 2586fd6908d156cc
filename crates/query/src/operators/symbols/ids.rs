//! Numbers for symbols of any dictionaries, and the expression that is the number of a row's.

use crate::arrays::dictionaries::OfDictionaries;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, RecordBatch, StringBuilder, UInt32Array,
};
use datafusion::arrow::datatypes::{DataType, Schema, UInt32Type};
use datafusion::common::{HashMap, Result, internal_datafusion_err, resources_datafusion_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A symbol of a dictionary that has not been looked up yet.
const UNSEEN: u32 = u32::MAX;
/// A value of a dictionary that is NULL.
const NULL: u32 = u32::MAX - 1;

/// Bytes of a symbol beside its text, twice.
const SYMBOL_BYTES: usize = 64;

/// Gives equal symbols equal numbers, from 0 in the order they are first met, whichever dictionary they stand in. It is
/// asked from many threads.
#[derive(Debug)]
pub(super) struct SymbolIds(Mutex<Known>);

#[derive(Debug)]
struct Known {
    ids: HashMap<Box<str>, u32>,
    texts: StringBuilder,
    /// The texts, as far as they were asked for.
    built: ArrayRef,
    /// The number of each symbol of a dictionary.
    dictionaries: OfDictionaries<Arc<[AtomicU32]>>,
    memory: MemoryReservation,
}

impl SymbolIds {
    pub(super) fn new(memory: MemoryReservation) -> Self {
        Self(Mutex::new(Known {
            ids: HashMap::new(),
            texts: StringBuilder::new(),
            built: Arc::new(StringBuilder::new().finish()),
            dictionaries: OfDictionaries::default(),
            memory,
        }))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of each row's symbol.
    ///
    /// # Errors
    /// Where there is no memory for more symbols.
    pub(super) fn of(&self, symbols: &DictionaryArray<UInt32Type>) -> Result<UInt32Array> {
        let (keys, texts) = (symbols.keys(), symbols.values());
        let numbers = self.known().numbers(texts)?;
        let nulls = keys.nulls().filter(|nulls| nulls.null_count() > 0);
        let mut any_null = false;
        let mut ids = Vec::with_capacity(keys.len());
        for (row, key) in keys.values().iter().enumerate() {
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                ids.push(NULL);
                any_null = true;
                continue;
            }
            // Relaxed: a number says nothing of other memory.
            let number = match numbers[*key as usize].load(Ordering::Relaxed) {
                UNSEEN => {
                    let number = self.known().number(texts, *key as usize)?;
                    numbers[*key as usize].store(number, Ordering::Relaxed);
                    number
                }
                number => number,
            };
            any_null |= number == NULL;
            ids.push(number);
        }
        Ok(match any_null {
            true => ids.into_iter().map(|id| (id != NULL).then_some(id)).collect(),
            false => ids.into(),
        })
    }

    /// The symbols that have these numbers.
    ///
    /// # Errors
    /// Where one has been given to none.
    pub(super) fn symbols(&self, ids: &UInt32Array) -> Result<ArrayRef> {
        let mut known = self.known();
        if known.built.len() < known.ids.len() {
            known.built = Arc::new(known.texts.finish_cloned());
        }
        let texts = Arc::clone(&known.built);
        drop(known);
        Ok(Arc::new(DictionaryArray::<UInt32Type>::try_new(ids.clone(), texts)?))
    }
}

impl Known {
    /// The numbers of a dictionary's symbols, as far as they are known.
    fn numbers(&mut self, texts: &ArrayRef) -> Result<Arc<[AtomicU32]>> {
        if let Some(numbers) = self.dictionaries.get(texts) {
            return Ok(Arc::clone(numbers));
        }
        self.memory.try_grow(texts.len() * size_of::<AtomicU32>())?;
        let numbers: Arc<[AtomicU32]> = (0..texts.len()).map(|_| AtomicU32::new(UNSEEN)).collect();
        if let Some(forgotten) = self.dictionaries.insert(texts, Arc::clone(&numbers)) {
            self.memory.shrink(size_of_val(&*forgotten));
        }
        Ok(numbers)
    }

    /// The number of one symbol.
    fn number(&mut self, texts: &ArrayRef, at: usize) -> Result<u32> {
        if texts.is_null(at) {
            return Ok(NULL);
        }
        let text = texts.as_string::<i32>().value(at);
        if let Some(known) = self.ids.get(text) {
            return Ok(*known);
        }
        self.memory.try_grow(2 * text.len() + SYMBOL_BYTES)?;
        let number = u32::try_from(self.ids.len()).ok().filter(|number| *number < NULL);
        let fits = self.texts.values_slice().len() + text.len() <= i32::MAX as usize;
        let Some(number) = number.filter(|_| fits) else {
            return Err(resources_datafusion_err!("symbols to group by take more than 2 GiB"));
        };
        self.ids.insert(text.into(), number);
        self.texts.append_value(text);
        Ok(number)
    }
}

/// Where the expressions of a plan find the numbers of its execution.
#[derive(Debug, Clone, Default)]
pub(super) struct Slot(Arc<Mutex<Weak<SymbolIds>>>);

impl Slot {
    /// The numbers of the executions that are under way, where there is one, and else new ones.
    pub(super) fn join(&self, begin: impl FnOnce() -> SymbolIds) -> Arc<SymbolIds> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        slot.upgrade().unwrap_or_else(|| {
            let ids = Arc::new(begin());
            *slot = Arc::downgrade(&ids);
            ids
        })
    }

    pub(super) fn ids(&self) -> Result<Arc<SymbolIds>> {
        let slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        slot.upgrade()
            .ok_or_else(|| internal_datafusion_err!("rows are grouped by symbols that nobody numbers"))
    }
}

/// The number of a symbol.
#[derive(Debug, Clone)]
pub(super) struct SymbolId {
    symbol: Arc<dyn PhysicalExpr>,
    slot: Slot,
}

impl SymbolId {
    pub(super) fn new(symbol: Arc<dyn PhysicalExpr>, slot: Slot) -> Self {
        Self { symbol, slot }
    }
}

impl PartialEq for SymbolId {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.slot.0, &other.slot.0) && self.symbol.eq(&other.symbol)
    }
}

impl Eq for SymbolId {}

impl Hash for SymbolId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.symbol.hash(state);
    }
}

impl fmt::Display for SymbolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "id({})", self.symbol)
    }
}

impl PhysicalExpr for SymbolId {
    fn data_type(&self, _schema: &Schema) -> Result<DataType> {
        Ok(DataType::UInt32)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.symbol.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let symbols = self.symbol.evaluate(batch)?.into_array(batch.num_rows())?;
        let Some(symbols) = symbols.as_dictionary_opt::<UInt32Type>() else {
            return Err(internal_datafusion_err!("{} is no symbol", self.symbol));
        };
        Ok(ColumnarValue::Array(Arc::new(self.slot.ids()?.of(symbols)?)))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.symbol]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Self::new(children.swap_remove(0), self.slot.clone())))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.symbol.fmt_sql(f)
    }
}
