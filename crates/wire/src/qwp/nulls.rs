//! Which rows of a column are NULL.
//!
//! A column begins with a byte: 0 where a value stands for every row, NULLs as the value that QuestDB keeps for them;
//! anything else where bits of the rows follow (1 for NULL, the lowest first) and only the values of the others.

use super::read::{Read, Reader};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};

/// The NULLs of a column, and how many values follow.
#[derive(Debug)]
pub(super) struct Nulls {
    rows: usize,
    /// Values that follow.
    pub(super) values: usize,
    /// Whether bits say which rows are NULL.
    marked: bool,
    nulls: Option<NullBuffer>,
}

impl Nulls {
    pub(super) fn read(reader: &mut Reader<'_>, rows: usize) -> Read<Self> {
        if reader.byte()? == 0 {
            return Ok(Self { rows, values: rows, marked: false, nulls: None });
        }
        let valid: Vec<u8> = reader.take(rows.div_ceil(8))?.iter().map(|bits| !bits).collect();
        let nulls = NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(valid), 0, rows));
        let values = rows - nulls.null_count();
        Ok(Self { rows, values, marked: true, nulls: (values < rows).then_some(nulls) })
    }

    /// Whether bits say that there are any.
    pub(super) fn any(&self) -> bool {
        self.nulls.is_some()
    }

    /// The values with a filler at each NULL: one a row.
    pub(super) fn spread<T: Copy + Default>(&self, values: impl Iterator<Item = T>) -> Vec<T> {
        let Some(nulls) = &self.nulls else { return values.collect() };
        let mut spread = vec![T::default(); self.rows];
        nulls.valid_indices().zip(values).for_each(|(row, value)| spread[row] = value);
        spread
    }

    /// Where texts begin and end, one a row: those of a NULL are the same.
    pub(super) fn spread_ends(&self, ends: impl Iterator<Item = i32>) -> Vec<i32> {
        let mut spread = Vec::with_capacity(self.rows + 1);
        spread.push(0);
        match &self.nulls {
            None => spread.extend(ends),
            Some(nulls) => {
                let (mut ends, mut last) = (ends, 0);
                spread.extend(nulls.iter().map(|valid| {
                    last = if valid { ends.next().unwrap_or(last) } else { last };
                    last
                }));
            }
        }
        spread
    }

    /// The row of a value.
    pub(super) fn row_of(&self, value: usize) -> usize {
        match &self.nulls {
            None => value,
            Some(nulls) => nulls.valid_indices().nth(value).unwrap_or(value),
        }
    }

    /// The NULLs, where bits alone say them.
    pub(super) fn marked(self) -> Option<NullBuffer> {
        self.nulls
    }

    /// The NULLs, where one of `values` can stand for them: one a row.
    pub(super) fn or_values<T>(self, values: &[T], is_null: impl Fn(&T) -> bool) -> Option<NullBuffer> {
        if self.marked {
            return self.nulls;
        }
        // Without an end before the last value: a branch for each would cost more than it spares.
        let any = values.iter().fold(false, |any, value| any | is_null(value));
        let valid = || BooleanBuffer::collect_bool(values.len(), |row| !is_null(&values[row]));
        any.then(|| NullBuffer::new(valid()))
    }
}
