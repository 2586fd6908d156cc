//! Tables of any types and any values, from a seed.

use arrow_array::*;
use arrow_buffer::{NullBuffer, OffsetBuffer};
use std::sync::Arc;
use tickstone_model::{AlterTable, Column, ColumnType, ElementType, RowBatch, TableSchema};

/// A small generator of numbers (splitmix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

/// How a generated table looks.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub(super) seed: u64,
    pub(super) rows: usize,
    pub(super) batches: usize,
    pub(super) symbols: u64,
    pub(super) timestamp: bool,
    pub(super) shuffled: bool,
    pub(super) series: usize,
    pub(super) nulls: bool,
}

const TYPES: [ColumnType; 18] = [
    ColumnType::Boolean,
    ColumnType::Int8,
    ColumnType::Int16,
    ColumnType::Int32,
    ColumnType::Int64,
    ColumnType::UInt8,
    ColumnType::UInt16,
    ColumnType::UInt32,
    ColumnType::UInt64,
    ColumnType::Float32,
    ColumnType::Float64,
    ColumnType::Decimal { precision: 38, scale: 4 },
    ColumnType::Symbol,
    ColumnType::Varchar,
    ColumnType::Binary,
    ColumnType::Uuid,
    ColumnType::Date,
    ColumnType::Timestamp,
];

pub(super) fn schema(shape: &Shape) -> Arc<TableSchema> {
    let mut builder = TableSchema::builder("t");
    builder = builder.column("ts", ColumnType::Timestamp);
    builder = builder.column("s0", ColumnType::Symbol).column("s1", ColumnType::Symbol);
    for (index, column_type) in TYPES.iter().enumerate() {
        builder = builder.column(format!("c{index}"), *column_type);
    }
    if shape.timestamp {
        builder = builder.timestamp("ts");
    }
    Arc::new(builder.series(["s0", "s1"].into_iter().take(shape.series)).build().unwrap())
}

/// Elements of one of each kind of codec.
const ELEMENTS: [ElementType; 6] = [
    ElementType::Float64,
    ElementType::Int32,
    ElementType::Boolean,
    ElementType::Varchar,
    ElementType::Uuid,
    ElementType::Decimal { precision: 38, scale: 4 },
];

/// The same with columns of arrays.
pub(super) fn with_arrays(schema: &TableSchema) -> Arc<TableSchema> {
    let columns = ELEMENTS.iter().enumerate().map(|(index, element)| {
        AlterTable::AddColumn(Column::new(format!("a{index}"), ColumnType::Array(*element)))
    });
    Arc::new(columns.fold(schema.clone(), |schema, change| schema.altered(&change).unwrap()))
}

/// The same with columns of every type that came after the golden files.
pub(super) fn with_later(schema: &TableSchema) -> Arc<TableSchema> {
    let columns = [("t", ColumnType::Time), ("ts", ColumnType::Array(ElementType::Time))];
    let add = |schema: TableSchema, (name, column_type)| {
        schema.altered(&AlterTable::AddColumn(Column::new(format!("later_{name}"), column_type))).unwrap()
    };
    Arc::new(columns.into_iter().fold(TableSchema::clone(&with_arrays(schema)), add))
}

pub(super) fn batches(shape: &Shape, schema: &Arc<TableSchema>) -> Vec<RowBatch> {
    let mut random = Random(shape.seed);
    let mut rows_left = shape.rows;
    let mut clock = 1_700_000_000_000_000_000_i64;
    let mut batches = Vec::new();
    let styles: Vec<u64> = schema.columns().iter().map(|_| random.next()).collect();
    for index in 0..shape.batches {
        let rows =
            if index + 1 == shape.batches { rows_left } else { random.below(rows_left as u64 + 1) as usize };
        rows_left -= rows;
        let columns = schema
            .columns()
            .iter()
            .enumerate()
            .map(|(at, column)| match at {
                0 => times(shape, rows, &mut clock, &mut random),
                1 | 2 => symbols(shape, rows, &mut random),
                _ => values(column, rows, shape.nulls, styles[at], &mut random),
            })
            .collect();
        batches.push(RowBatch::new(Arc::clone(schema), columns).unwrap());
    }
    batches
}

fn times(shape: &Shape, rows: usize, clock: &mut i64, random: &mut Random) -> ArrayRef {
    let mut step = || {
        *clock += [0, 0, 1, 1_000, 1_000_000, 3_600_000_000_000][random.below(6) as usize];
        if shape.shuffled { *clock - random.below(10_000_000_000) as i64 } else { *clock }
    };
    Arc::new(TimestampNanosecondArray::from_iter_values((0..rows).map(|_| step())))
}

fn symbols(shape: &Shape, rows: usize, random: &mut Random) -> ArrayRef {
    let mut symbol = || {
        let id = random.below(shape.symbols) as u32;
        (!shape.nulls || random.below(10) > 0).then_some(id)
    };
    Arc::new(UInt32Array::from_iter((0..rows).map(|_| symbol())))
}

/// Values in one of several styles: constant, runs, small steps, extremes, anything.
fn values(column: &Column, rows: usize, nulls: bool, style: u64, random: &mut Random) -> ArrayRef {
    let mut walk = 1_000_i128;
    let mut next = |random: &mut Random| -> Option<u64> {
        let word = match style % 6 {
            0 => 42,
            1 => {
                walk += i128::from(random.below(20) == 0);
                walk as u64
            }
            2 => {
                walk += i128::from(random.below(9)) - 4;
                walk as u64
            }
            3 => [0, 1, u64::MAX, i64::MAX as u64, i64::MIN as u64, 1 << 63][random.below(6) as usize],
            4 => random.below(1_000) * 1_000_000,
            _ => random.next(),
        };
        let null = nulls && ((style / 6).is_multiple_of(7) || random.below(style / 6 % 5 + 1) > 0);
        (!null).then_some(word)
    };
    let words: Vec<Option<u64>> = (0..rows).map(|_| next(random)).collect();
    array(column.column_type, &words, style)
}

fn real(word: u64, style: u64) -> f64 {
    match (style / 64 % 4, word % 50) {
        (_, 49) => {
            [f64::NAN, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE][word as usize / 50 % 5]
        }
        (0, _) => (word % 10_000_000) as f64 / 100.0,
        (1, _) => (word as i64 % 1_000_000_000) as f64 / 1e8,
        (2, _) => Some(f64::from_bits(word)).filter(|value| !value.is_nan()).unwrap_or(f64::NAN),
        _ => (word % 1_000) as f64 * 0.5,
    }
}

fn array(column_type: ColumnType, words: &[Option<u64>], style: u64) -> ArrayRef {
    macro_rules! numbers {
        ($array:ty, $native:ty) => {
            Arc::new(<$array>::from_iter(words.iter().map(|word| word.map(|word| word as $native))))
        };
    }
    let text =
        |word: u64| "αβ".repeat((word % 5) as usize) + &(word % 1_000).to_string()[..(word % 2) as usize];
    match column_type {
        ColumnType::Boolean => {
            Arc::new(BooleanArray::from_iter(words.iter().map(|word| word.map(|word| word % 3 == 0))))
        }
        ColumnType::Int8 => numbers!(Int8Array, i8),
        ColumnType::Int16 => numbers!(Int16Array, i16),
        ColumnType::Int32 => numbers!(Int32Array, i32),
        ColumnType::Int64 => numbers!(Int64Array, i64),
        ColumnType::UInt8 => numbers!(UInt8Array, u8),
        ColumnType::UInt16 => numbers!(UInt16Array, u16),
        ColumnType::UInt32 | ColumnType::Symbol => numbers!(UInt32Array, u32),
        ColumnType::UInt64 => numbers!(UInt64Array, u64),
        ColumnType::Float32 => Arc::new(Float32Array::from_iter(
            words.iter().map(|word| word.map(|word| real(word, style) as f32)),
        )),
        ColumnType::Float64 => {
            Arc::new(Float64Array::from_iter(words.iter().map(|word| word.map(|word| real(word, style)))))
        }
        ColumnType::Decimal { precision, scale } => {
            let wide = |word: u64| i128::from(word) * if style.is_multiple_of(2) { 1 } else { 1 << 60 };
            let array = Decimal128Array::from_iter(words.iter().map(|word| word.map(wide)));
            Arc::new(array.with_precision_and_scale(precision, scale).unwrap())
        }
        ColumnType::Varchar => Arc::new(StringArray::from_iter(words.iter().map(|word| word.map(text)))),
        ColumnType::Binary => {
            let bytes = |word: u64| word.to_le_bytes()[..(word % 9) as usize].to_vec();
            Arc::new(BinaryArray::from_iter(words.iter().map(|word| word.map(bytes))))
        }
        ColumnType::Uuid => {
            let uuid = |word: u64| (u128::from(word) << 3).to_le_bytes();
            let values = words.iter().map(|word| word.map(uuid));
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, 16).unwrap())
        }
        ColumnType::Date => numbers!(Date32Array, i32),
        ColumnType::Time => numbers!(Time64NanosecondArray, i64),
        ColumnType::Timestamp => numbers!(TimestampNanosecondArray, i64),
        ColumnType::Array(element) => lists(element, words, style),
    }
}

/// Arrays of one length, of few elements, of many, or long ones now and then; NULLs may have elements behind them.
fn lists(element: ElementType, words: &[Option<u64>], style: u64) -> ArrayRef {
    let length = |word: &Option<u64>| match (word, style / 8 % 4) {
        (None, _) => style as usize % 3,
        (Some(_), 0) => 5,
        (Some(word), 1) => (word % 3) as usize,
        (Some(word), 2) => (word % 30) as usize,
        (Some(word), _) if word % 397 == 7 => 2_500,
        (Some(_), _) => 1,
    };
    let lengths: Vec<usize> = words.iter().map(length).collect();
    let mut elements = Vec::new();
    for (word, length) in words.iter().zip(&lengths) {
        let mut random = Random(word.unwrap_or(style));
        elements.extend((0..*length).map(|_| {
            let value = if style.is_multiple_of(2) { random.below(500) } else { random.next() };
            (style.is_multiple_of(3) || random.below(7) > 0).then_some(value)
        }));
    }
    let values = array(element.into(), &elements, style);
    let nulls = NullBuffer::from_iter(words.iter().map(Option::is_some));
    Arc::new(ListArray::new(element.field(), OffsetBuffer::from_lengths(lengths), values, Some(nulls)))
}
