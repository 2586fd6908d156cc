//! Dense ids for the values of key columns.
//!
//! Grouping and joining compare small integers, never strings: a dictionary array is read by its own
//! ids through a map that is kept as long as batches share the dictionary, and a string is looked at
//! once per dictionary. Two inputs (the sides of a join) may share one [`KeyIds`]; each then has its own
//! [`KeyReader`], which is how their dictionaries are related.
//!
//! - an id, once given, never changes; ids count from 0 in the order keys are first seen;
//! - NULL is a value like others ([`KeyIds::read`]) unless the caller asks for the marks of keys that
//!   hold one ([`KeyIds::is_null`]).

use crate::arrays::same_array;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringArray, new_empty_array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Int8Type, Int16Type, Int32Type, Int64Type, Schema, TimeUnit,
    TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::HashMap;
use datafusion::common::utils::normalize_float_zero;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use std::sync::Arc;

/// The code of NULL in one column.
const NULL_CODE: u32 = 0;
/// A dictionary id that has not been looked up yet.
const UNSEEN: u32 = u32::MAX;

/// Gives equal keys equal ids.
#[derive(Debug)]
pub(crate) struct KeyIds {
    columns: Vec<ColumnCodes>,
    /// For the second and later columns: (id so far, code) to id.
    pairs: Vec<Pairs>,
    /// Id of a one-column key by its code; unused with more columns.
    by_code: Vec<u32>,
    /// For each column but the first (or the only one): whether the key up to there holds a NULL, by id.
    nulls: Vec<Vec<bool>>,
    scratch: Vec<u32>,
}

/// One input's cached view of its dictionaries.
#[derive(Debug)]
pub(crate) struct KeyReader {
    caches: Vec<DictionaryCache>,
}

#[derive(Debug, Default)]
struct DictionaryCache {
    values: Option<ArrayRef>,
    /// Dictionary id to code.
    codes: Vec<u32>,
    /// Dictionary id to id, for a key of one column.
    ids: Vec<u32>,
}

impl DictionaryCache {
    /// Appends the ids of a dictionary's keys where all of them are known.
    fn read_ids(&self, array: &ArrayRef, out: &mut Vec<u32>) -> bool {
        let Some(array) = array.as_dictionary_opt::<UInt32Type>() else { return false };
        let same = self.values.as_ref().is_some_and(|values| same_array(values, array.values()));
        if !same || self.ids.is_empty() || array.keys().null_count() > 0 {
            return false;
        }
        let start = out.len();
        out.extend(array.keys().values().iter().map(|key| self.ids[*key as usize]));
        let known = out[start..].iter().fold(true, |known, id| known & (*id != UNSEEN));
        if !known {
            out.truncate(start);
        }
        known
    }

    /// Dictionaries up to here are mapped to ids at once.
    const MAPPED_MAX: usize = 4_096;

    /// Keeps what is known by now.
    fn keep_ids(&mut self, by_code: &[u32]) {
        if self.codes.len() > Self::MAPPED_MAX {
            return;
        }
        let id = |code: &u32| by_code.get(*code as usize).copied().unwrap_or(UNSEEN);
        self.ids.clear();
        self.ids.extend(self.codes.iter().map(id));
    }
}

impl KeyReader {
    /// A reader of so many key columns.
    pub(crate) fn new(columns: usize) -> Self {
        Self { caches: (0..columns).map(|_| DictionaryCache::default()).collect() }
    }
}

impl KeyIds {
    /// Ids for keys of these column types.
    ///
    /// # Errors
    /// Where a type cannot be compared (it has no row encoding).
    pub(crate) fn try_new(types: &[DataType]) -> Result<Self> {
        let columns = types.iter().map(ColumnCodes::try_new).collect::<Result<Vec<_>>>()?;
        let pairs = columns.iter().skip(1).map(|_| Pairs::default()).collect();
        let levels = types.len().saturating_sub(1).max(1);
        let mut nulls = vec![Vec::new(); levels];
        if types.is_empty() {
            nulls[0].push(false);
        }
        Ok(Self { columns, pairs, by_code: Vec::new(), nulls, scratch: Vec::new() })
    }

    /// Ids for the keys that these expressions make of rows of a schema.
    pub(crate) fn of(keys: &[Arc<dyn PhysicalExpr>], rows: &Schema) -> Result<Self> {
        let types = keys.iter().map(|key| key.data_type(rows));
        Self::try_new(&types.collect::<Result<Vec<_>>>()?)
    }

    /// How many keys have been seen.
    pub(crate) fn len(&self) -> usize {
        self.nulls.last().map_or(0, Vec::len)
    }

    /// Whether the key of this id holds a NULL.
    pub(crate) fn is_null(&self, id: u32) -> bool {
        self.nulls.last().is_some_and(|nulls| nulls[id as usize])
    }

    /// Bytes it holds, roughly.
    pub(crate) fn size(&self) -> usize {
        let pairs: usize = self.pairs.iter().map(Pairs::size).sum();
        let columns: usize = self.columns.iter().map(ColumnCodes::size).sum();
        pairs + columns + self.nulls.iter().map(Vec::capacity).sum::<usize>() + self.by_code.capacity() * 4
    }

    /// Appends the id of each row's key to `out`.
    ///
    /// # Errors
    /// Where a column is not of the type it was announced as.
    pub(crate) fn read(
        &mut self,
        columns: &[ArrayRef],
        rows: usize,
        reader: &mut KeyReader,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        let start = out.len();
        let Some(first) = columns.first() else {
            out.resize(start + rows, 0);
            return Ok(());
        };
        if columns.len() == 1 && reader.caches[0].read_ids(first, out) {
            return Ok(());
        }
        self.columns[0].codes(first, &mut reader.caches[0], out)?;
        if columns.len() == 1 {
            self.number_codes(&mut out[start..]);
            reader.caches[0].keep_ids(&self.by_code);
            return Ok(());
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        for (at, column) in columns.iter().enumerate().skip(1) {
            scratch.clear();
            self.columns[at].codes(column, &mut reader.caches[at], &mut scratch)?;
            self.combine(at, &scratch, &mut out[start..]);
        }
        self.scratch = scratch;
        Ok(())
    }

    /// One column: codes become ids in the order they are first seen.
    fn number_codes(&mut self, rows: &mut [u32]) {
        self.by_code.resize(self.columns[0].count as usize + 1, UNSEEN);
        let (mut code, mut id) = (UNSEEN, UNSEEN);
        for row in rows {
            if *row != code {
                code = *row;
                let known = &mut self.by_code[code as usize];
                if *known == UNSEEN {
                    *known = next_id(self.nulls[0].len());
                    self.nulls[0].push(code == NULL_CODE);
                }
                id = *known;
            }
            *row = id;
        }
    }

    /// Folds the codes of column `at` (from 1) into the ids of the columns before it.
    fn combine(&mut self, at: usize, codes: &[u32], rows: &mut [u32]) {
        let (before, level) = self.nulls.split_at_mut(at - 1);
        let level = &mut level[0];
        let pairs = &mut self.pairs[at - 1];
        let mut previous = None;
        for (row, &code) in rows.iter_mut().zip(codes) {
            let pair = (*row, code);
            *row = match previous {
                Some((same, id)) if same == pair => id,
                _ => {
                    let id = pairs.id(pair);
                    if *id == UNSEEN {
                        *id = next_id(level.len());
                        let left_null = match before.last() {
                            Some(nulls) => nulls[pair.0 as usize],
                            None => pair.0 == NULL_CODE,
                        };
                        level.push(left_null || code == NULL_CODE);
                    }
                    previous = Some((pair, *id));
                    *id
                }
            };
        }
    }
}

/// Ids of pairs of an id and a code.
#[derive(Debug, Default)]
struct Pairs {
    /// Those of small codes (sides, exchanges, conditions), by place.
    small: Vec<u32>,
    rest: HashMap<(u32, u32), u32>,
}

impl Pairs {
    /// Codes below this are small.
    const CODES: usize = 64;
    /// Ids below this have places for their small codes: 4 MiB at most.
    const IDS: usize = 1 << 14;

    /// The id of a pair, [`UNSEEN`] where it has none yet.
    #[inline]
    fn id(&mut self, (id, code): (u32, u32)) -> &mut u32 {
        let (row, column) = (id as usize, code as usize);
        if row >= Self::IDS || column >= Self::CODES {
            return self.rest.entry((id, code)).or_insert(UNSEEN);
        }
        let at = row * Self::CODES + column;
        if at >= self.small.len() {
            self.small.resize((row + 1) * Self::CODES, UNSEEN);
        }
        &mut self.small[at]
    }

    fn size(&self) -> usize {
        self.small.capacity() * 4 + self.rest.capacity() * 16
    }
}

/// The next id: a query that sees four billion keys has run out of memory long before.
fn next_id(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(UNSEEN - 1)
}

/// The distinct values of one column, numbered from 1; 0 is NULL.
#[derive(Debug)]
struct ColumnCodes {
    /// The type the column is read as (values of dictionaries).
    value_type: DataType,
    kind: Kind,
    count: u32,
}

#[derive(Debug)]
enum Kind {
    Strings(HashMap<Box<str>, u32>),
    /// Numbers, dates and times of at most 64 bits, by their bits.
    Words(Words),
    Rows {
        converter: RowConverter,
        codes: HashMap<Box<[u8]>, u32>,
    },
}

/// The codes of words.
#[derive(Debug, Default)]
struct Words {
    /// Those of small words (numbers of rows, hours, sizes), by place.
    small: Vec<u32>,
    rest: HashMap<u64, u32>,
}

impl Words {
    /// Words below this are small: 4 MiB at most.
    const SMALL: u64 = 1 << 20;

    /// The code of a word, [`UNSEEN`] where it has none yet.
    #[inline]
    fn of(&mut self, word: u64) -> &mut u32 {
        if word >= Self::SMALL {
            return self.rest.entry(word).or_insert(UNSEEN);
        }
        let at = word as usize;
        if at >= self.small.len() {
            self.small.resize(at + 1, UNSEEN);
        }
        &mut self.small[at]
    }

    fn size(&self) -> usize {
        self.small.capacity() * 4 + self.rest.capacity() * 16
    }
}

impl ColumnCodes {
    fn try_new(data_type: &DataType) -> Result<Self> {
        let value_type = match data_type {
            DataType::Dictionary(_, value) => value.as_ref(),
            other => other,
        };
        let (value_type, kind) = if is_string(value_type) {
            (DataType::Utf8, Kind::Strings(HashMap::new()))
        } else if words(&new_empty_array(value_type)).is_some() {
            (value_type.clone(), Kind::Words(Words::default()))
        } else {
            let converter = RowConverter::new(vec![SortField::new(value_type.clone())])?;
            (value_type.clone(), Kind::Rows { converter, codes: HashMap::new() })
        };
        Ok(Self { value_type, kind, count: 0 })
    }

    fn size(&self) -> usize {
        match &self.kind {
            Kind::Strings(codes) => codes.capacity() * 48,
            Kind::Words(codes) => codes.size(),
            Kind::Rows { converter, codes } => converter.size() + codes.capacity() * 64,
        }
    }

    /// Appends the code of each row to `out`.
    fn codes(&mut self, array: &ArrayRef, cache: &mut DictionaryCache, out: &mut Vec<u32>) -> Result<()> {
        if let Some(dictionary) = array.as_dictionary_opt::<UInt32Type>() {
            return self.dictionary_codes(dictionary, cache, out);
        }
        let array = if array.data_type() == &self.value_type {
            Arc::clone(array)
        } else {
            cast(array, &self.value_type)?
        };
        match &mut self.kind {
            Kind::Strings(_) => self.string_codes(array.as_string(), out),
            Kind::Words(_) => self.word_codes(&array, out),
            // 0.0 and -0.0 are one key.
            Kind::Rows { .. } => self.row_codes(&normalize_float_zero(&array), out)?,
        }
        Ok(())
    }

    /// Reads a dictionary's ids through the map to codes; each value is looked at once per dictionary.
    fn dictionary_codes(
        &mut self,
        array: &datafusion::arrow::array::DictionaryArray<UInt32Type>,
        cache: &mut DictionaryCache,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        let known = cache.values.as_ref().is_some_and(|v| same_array(v, array.values()));
        if !known {
            cache.values = Some(Arc::clone(array.values()));
            cache.ids.clear();
            cache.codes.clear();
            cache.codes.resize(array.values().len(), UNSEEN);
        }
        let keys = array.keys();
        let ids = keys.values();
        let start = out.len();
        if let Some(nulls) = keys.nulls().filter(|nulls| nulls.null_count() > 0) {
            for (row, &id) in ids.iter().enumerate() {
                let code = match nulls.is_valid(row) {
                    true => self.known_code(array.values(), id as usize, &mut cache.codes)?,
                    false => NULL_CODE,
                };
                out.push(code);
            }
            return Ok(());
        }
        out.extend(ids.iter().map(|id| cache.codes[*id as usize]));
        if out[start..].contains(&UNSEEN) {
            for (code, &id) in out[start..].iter_mut().zip(ids) {
                *code = self.known_code(array.values(), id as usize, &mut cache.codes)?;
            }
        }
        Ok(())
    }

    /// The code of a value of a dictionary, looked up where it is met for the first time.
    fn known_code(&mut self, values: &ArrayRef, at: usize, codes: &mut [u32]) -> Result<u32> {
        if codes[at] == UNSEEN {
            codes[at] = self.value_code(values, at)?;
        }
        Ok(codes[at])
    }

    /// The code of one value of a dictionary.
    fn value_code(&mut self, values: &ArrayRef, at: usize) -> Result<u32> {
        let mut one = Vec::with_capacity(1);
        let value = values.slice(at, 1);
        let value =
            if value.data_type() == &self.value_type { value } else { cast(&value, &self.value_type)? };
        match &self.kind {
            Kind::Strings(_) => self.string_codes(value.as_string(), &mut one),
            Kind::Words(_) => self.word_codes(&value, &mut one),
            Kind::Rows { .. } => self.row_codes(&value, &mut one)?,
        }
        Ok(one[0])
    }

    fn string_codes(&mut self, array: &StringArray, out: &mut Vec<u32>) {
        let Kind::Strings(codes) = &mut self.kind else { return };
        let mut previous: Option<(&str, u32)> = None;
        for value in array {
            let code = match (value, previous) {
                (None, _) => NULL_CODE,
                (Some(text), Some((same, code))) if same == text => code,
                (Some(text), _) => {
                    let code = match codes.get(text) {
                        Some(code) => *code,
                        None => {
                            self.count += 1;
                            codes.insert(text.into(), self.count);
                            self.count
                        }
                    };
                    previous = Some((text, code));
                    code
                }
            };
            out.push(code);
        }
    }

    fn word_codes(&mut self, array: &ArrayRef, out: &mut Vec<u32>) {
        let (Kind::Words(codes), Some(words)) = (&mut self.kind, words(array)) else { return };
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        let mut previous: Option<(u64, u32)> = None;
        for (row, word) in words.iter().enumerate() {
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                out.push(NULL_CODE);
                continue;
            }
            let code = match previous {
                Some((same, code)) if same == *word => code,
                _ => {
                    let next = self.count + 1;
                    let code = codes.of(*word);
                    if *code == UNSEEN {
                        *code = next;
                        self.count = next;
                    }
                    *code
                }
            };
            previous = Some((*word, code));
            out.push(code);
        }
    }

    fn row_codes(&mut self, array: &ArrayRef, out: &mut Vec<u32>) -> Result<()> {
        let Kind::Rows { converter, codes } = &mut self.kind else { return Ok(()) };
        let rows = converter.convert_columns(&[Arc::clone(array)])?;
        for (at, row) in rows.iter().enumerate() {
            if array.is_null(at) {
                out.push(NULL_CODE);
                continue;
            }
            let bytes: &[u8] = row.as_ref();
            let code = match codes.get(bytes) {
                Some(code) => *code,
                None => {
                    self.count += 1;
                    codes.insert(bytes.into(), self.count);
                    self.count
                }
            };
            out.push(code);
        }
        Ok(())
    }
}

/// The bits of numbers, dates and times of at most 64 bits, of which equal ones are equal values; `None` of other types.
fn words(array: &ArrayRef) -> Option<Vec<u64>> {
    macro_rules! of {
        ($of:ty) => {
            array
                .as_primitive::<$of>()
                .values()
                .iter()
                .map(|value| i64::from(*value).cast_unsigned())
                .collect()
        };
    }
    Some(match array.data_type() {
        DataType::Int8 => of!(Int8Type),
        DataType::Int16 => of!(Int16Type),
        DataType::Int32 => of!(Int32Type),
        DataType::Int64 => of!(Int64Type),
        DataType::UInt8 => of!(UInt8Type),
        DataType::UInt16 => of!(UInt16Type),
        DataType::UInt32 => of!(UInt32Type),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().values().to_vec(),
        DataType::Date32 => of!(Date32Type),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => of!(TimestampNanosecondType),
        DataType::Boolean => {
            let booleans = array.as_boolean();
            (0..booleans.len()).map(|row| u64::from(booleans.value(row))).collect()
        }
        _ => return None,
    })
}

fn is_string(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

#[cfg(test)]
mod tests;
