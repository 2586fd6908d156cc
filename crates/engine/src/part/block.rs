//! Columns to chunks: blocks of 1,024 values, their statistics, their checksums.

use super::codec::shape::{Coder, SEGMENT_BLOCKS, pieces};
use super::codec::{HEADER_BYTES, kind, text, value};
use super::gather::{self, Gathered, Lists};
use super::layout::{GROUP_BLOCKS, pad};
use super::order::Order;
use super::stats::{BlockStats, FIRST_NULL, HAS_SUM, LAST_NULL, Measured, NO_RANGE, StatKind, TotalStats};
use super::{BLOCK_ROWS, Density, PartOptions, Slice, arrays, index};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time64NanosecondType, TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use tickstone_model::ColumnType;

/// Rows a segment's encodings are chosen by: so many stretches of so many neighbours.
const STRETCHES: usize = 3;
const STRETCH_ROWS: usize = 512;

/// One column of one slice, encoded.
pub(super) struct Chunk {
    /// The blocks.
    pub(super) data: Vec<u8>,
    /// Their index: totals, block records, group checksums.
    pub(super) page: Vec<u8>,
    pub(super) total: TotalStats,
}

/// Encodes one column, whose rows in arrival order are those of `arrays`: a chunk a slice. `times` are the
/// designated timestamps of the same rows, for a timestamp that may be stored as the distance from them.
pub(super) fn encode_column(
    column_type: ColumnType,
    arrays: &[ArrayRef],
    times: Option<&[ArrayRef]>,
    order: &Order,
    options: PartOptions,
) -> Vec<Chunk> {
    let PartOptions { density, threads, .. } = options;
    let kind = StatKind::of(column_type);
    let Some(element) = column_type.element() else {
        let to = Target { order, density, threads, kind, lists: None };
        return encode_values_of(column_type, arrays, times, &to);
    };
    let (lists, elements) = gather::lists(arrays);
    let to = Target { order, density, threads, kind, lists: Some(&lists) };
    encode_values_of(element.into(), &elements, None, &to)
}

/// What values are encoded for.
struct Target<'o> {
    order: &'o Order,
    density: Density,
    /// For segments that share nothing, and take long: those of texts.
    threads: usize,
    kind: StatKind,
    /// The rows, where values are the elements of arrays.
    lists: Option<&'o Lists>,
}

/// Encodes the values of a column, or the elements of one of arrays.
fn encode_values_of(
    column_type: ColumnType,
    arrays: &[ArrayRef],
    times: Option<&[ArrayRef]>,
    to: &Target<'_>,
) -> Vec<Chunk> {
    macro_rules! numbers {
        ($arrow:ty) => {
            to.chunks(&gather::primitive::<$arrow>(arrays), |rows, blocks, coder| {
                encode_values(rows, None, blocks, coder)
            })
        };
    }
    match column_type {
        ColumnType::Boolean => to.chunks(&gather::booleans(arrays), encode_bits),
        ColumnType::Int8 => numbers!(Int8Type),
        ColumnType::Int16 => numbers!(Int16Type),
        ColumnType::Int32 => numbers!(Int32Type),
        ColumnType::Int64 => numbers!(Int64Type),
        ColumnType::UInt8 => numbers!(UInt8Type),
        ColumnType::UInt16 => numbers!(UInt16Type),
        ColumnType::UInt32 | ColumnType::Symbol => numbers!(UInt32Type),
        ColumnType::UInt64 => numbers!(UInt64Type),
        ColumnType::Float32 => numbers!(Float32Type),
        ColumnType::Float64 => numbers!(Float64Type),
        ColumnType::Decimal { .. } => numbers!(Decimal128Type),
        ColumnType::Date => numbers!(Date32Type),
        ColumnType::Time => numbers!(Time64NanosecondType),
        ColumnType::Timestamp => {
            let times = times.map(gather::primitive::<TimestampNanosecondType>);
            let permutation = to.order.permutation.as_deref();
            let times = times.as_ref().map(|column| Rows { column, permutation });
            let values = gather::primitive::<TimestampNanosecondType>(arrays);
            to.chunks(&values, |rows, blocks, coder| encode_values(rows, times.as_ref(), blocks, coder))
        }
        ColumnType::Uuid => {
            let values = gather::sixteen_bytes(arrays);
            to.chunks(&values, |rows, blocks, coder| encode_values(rows, None, blocks, coder))
        }
        ColumnType::Varchar | ColumnType::Binary => to.chunks_of_texts(&gather::bytes(arrays)),
        ColumnType::Array(_) => unreachable!("an array's elements are scalars: their type says so"),
    }
}

impl Target<'_> {
    /// One chunk a slice. `encode` makes blocks of neighbours, which share a plan and tables.
    fn chunks<'a, T: Copy>(
        &self,
        column: &Gathered<'a, T>,
        encode: impl for<'r> Fn(&Rows<'r, 'a, T>, &[Range<usize>], &mut Coder) -> Vec<EncodedBlock>,
    ) -> Vec<Chunk> {
        let permutation = self.order.permutation.as_deref();
        let rows = Rows { column, permutation };
        let chunk = |slice: &Slice| {
            let mut builder = ChunkBuilder::new(self.kind);
            let mut coder = Coder::new(self.density);
            let mut add = |blocks: Vec<EncodedBlock>| blocks.iter().for_each(|block| builder.add(block));
            let blocks: Vec<Range<usize>> = blocks(&slice.rows).collect();
            match self.lists {
                None => {
                    blocks.chunks(SEGMENT_BLOCKS).for_each(|blocks| add(encode(&rows, blocks, &mut coder)))
                }
                Some(lists) => {
                    let lists = arrays::Elements { lists, permutation, values: column };
                    lists.encode(&blocks, &mut coder, &encode, add);
                }
            }
            builder.tables = coder.tables;
            builder.finish()
        };
        self.order.slices.iter().map(|sorted| chunk(&sorted.slice)).collect()
    }

    /// The same of texts, whose segments are encoded side by side: a column of them takes as long as all others together.
    fn chunks_of_texts(&self, column: &Gathered<'_, &[u8]>) -> Vec<Chunk> {
        if self.threads == 1 || self.lists.is_some() {
            return self.chunks(column, encode_text);
        }
        let rows = Rows { column, permutation: self.order.permutation.as_deref() };
        let chunk = |slice: &Slice| {
            let blocks: Vec<Range<usize>> = blocks(&slice.rows).collect();
            let segments: Vec<&[Range<usize>]> = blocks.chunks(SEGMENT_BLOCKS).collect();
            let next = AtomicUsize::new(0);
            let encode_all = || {
                let mut made = Vec::new();
                while let Some((at, segment)) = take_turn(&next, &segments) {
                    made.push((at, encode_text(&rows, segment, &mut Coder::new(self.density))));
                }
                made
            };
            let mut made = thread::scope(|scope| {
                let helpers = (1..self.threads.min(segments.len())).map(|_| scope.spawn(encode_all));
                let helpers: Vec<_> = helpers.collect();
                let mut made = encode_all();
                for helper in helpers {
                    made.extend(helper.join().unwrap_or_else(|panic| resume_unwind(panic)));
                }
                made
            });
            made.sort_unstable_by_key(|(at, _)| *at);
            let mut builder = ChunkBuilder::new(self.kind);
            made.iter().flat_map(|(_, blocks)| blocks).for_each(|block| builder.add(block));
            builder.finish()
        };
        self.order.slices.iter().map(|sorted| chunk(&sorted.slice)).collect()
    }
}

/// What is next to be done of a list, and its place.
fn take_turn<'t, T: ?Sized>(next: &AtomicUsize, all: &[&'t T]) -> Option<(usize, &'t T)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    Some((at, *all.get(at)?))
}

/// A block of a column, or of the elements of one.
pub(super) struct EncodedBlock {
    pub(super) rows: usize,
    pub(super) stats: BlockStats,
    /// `None` where every value is there.
    pub(super) valid: Option<Vec<bool>>,
    /// Header and payload; of no meaning where every value is NULL.
    pub(super) body: Vec<u8>,
}

impl EncodedBlock {
    /// Appends the block as it stands in a part.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        if usize::from(self.stats.nulls) == self.rows {
            out.push(kind::NULLS);
            return;
        }
        if let Some(valid) = &self.valid {
            write_bitmap(valid, out);
        }
        out.extend_from_slice(&self.body);
    }
}

/// A column in the part's order.
pub(super) struct Rows<'r, 'a, T: Clone> {
    pub(super) column: &'r Gathered<'a, T>,
    pub(super) permutation: Option<&'r [u32]>,
}

impl<T: Copy> Rows<'_, '_, T> {
    /// Copies rows of the part; the validity is `None` where all are there.
    fn copy(&self, rows: Range<usize>, values: &mut Vec<T>) -> Option<Vec<bool>> {
        values.clear();
        let source = &self.column.values;
        match self.permutation {
            None => values.extend_from_slice(&source[rows.clone()]),
            Some(order) => values.extend(order[rows.clone()].iter().map(|&row| source[row as usize])),
        }
        let valid = self.column.valid.as_ref()?;
        let block: Vec<bool> = match self.permutation {
            None => valid[rows].to_vec(),
            Some(order) => order[rows].iter().map(|&row| valid[row as usize]).collect(),
        };
        block.contains(&false).then_some(block)
    }
}

pub(super) fn blocks(rows: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
    let end = rows.end;
    rows.clone().step_by(BLOCK_ROWS).map(move |start| start..end.min(start + BLOCK_ROWS))
}

/// Stretches of neighbours, spread over rows of the part, without NULLs; as distances from `times`, if given.
fn stretches<V: value::Value>(
    rows: &Rows<'_, '_, V>,
    times: Option<&Rows<'_, '_, i64>>,
    held: &Range<usize>,
) -> Vec<Vec<V>> {
    let step = (held.len() / STRETCHES).max(STRETCH_ROWS);
    let mut found = Vec::with_capacity(STRETCHES);
    let mut since = Vec::new();
    for start in held.clone().step_by(step) {
        let stretch = start..held.end.min(start + STRETCH_ROWS);
        let mut values = Vec::with_capacity(STRETCH_ROWS);
        let valid = rows.copy(stretch.clone(), &mut values);
        if let Some(times) = times {
            times.copy(stretch, &mut since);
            values.iter_mut().zip(&since).for_each(|(value, time)| *value = value.since(*time));
        }
        if let Some(valid) = valid {
            let mut keep = valid.iter();
            values.retain(|_| keep.next() == Some(&true));
        }
        found.push(values);
    }
    found
}

/// The blocks of a segment: they share a plan and tables.
fn encode_values<V: value::Value>(
    rows: &Rows<'_, '_, V>,
    times: Option<&Rows<'_, '_, i64>>,
    segment: &[Range<usize>],
    coder: &mut Coder,
) -> Vec<EncodedBlock> {
    let Some((first, last)) = segment.first().zip(segment.last()) else { return Vec::new() };
    let held = first.start..last.end;
    let density = coder.density();
    let sample = stretches(rows, None, &held);
    let mut plan = value::Plan::of(&sample, held.len(), density);
    let mut related = None;
    if let Some(times) = times {
        let distances = value::Plan::of(&stretches(rows, Some(times), &held), held.len(), density);
        // Two blocks are read for one: it must earn its place.
        if distances.sample_bytes * 8 < plan.sample_bytes * 7 {
            (plan, related) = (distances, Some(times));
        }
    }
    let (mut values, mut since) = (Vec::with_capacity(BLOCK_ROWS), Vec::new());
    let (mut known, mut made) = (Vec::new(), Vec::new());
    for block in segment {
        let valid = rows.copy(block.clone(), &mut values);
        let stats = block_stats(&values, valid.as_deref());
        if let Some(times) = related {
            times.copy(block.clone(), &mut since);
            values.iter_mut().zip(&since).for_each(|(value, time)| *value = value.since(*time));
        }
        if let Some(valid) = &valid {
            fill_nulls(&mut values, valid);
        }
        // A block of NULLs has no body.
        let is_empty = usize::from(stats.nulls) == values.len();
        made.push(if is_empty { Vec::new() } else { pieces(&values, plan) });
        known.push((values.len(), stats, valid));
    }
    let encoded = |((rows, stats, valid), coded): (KnownBlock, Vec<u8>)| {
        let mut body = Vec::with_capacity(coded.len() + 1);
        body.extend(related.map(|_| kind::SINCE));
        body.extend_from_slice(&coded);
        EncodedBlock { rows, stats, valid, body }
    };
    known.into_iter().zip(coder.encode(&made)).map(encoded).collect()
}

/// Rows, statistics and validity of a block that is to be coded.
type KnownBlock = (usize, BlockStats, Option<Vec<bool>>);

/// Statistics of a block.
fn block_stats<V: Measured>(values: &[V], valid: Option<&[bool]>) -> BlockStats {
    let measure = match valid {
        None => V::measure(values.iter().copied()),
        Some(valid) => {
            V::measure(values.iter().zip(valid).filter(|(_, valid)| **valid).map(|(value, _)| *value))
        }
    };
    let mut stats = null_stats(valid);
    stats.flags |= measure.flags;
    (stats.min, stats.max, stats.sum) = (measure.min, measure.max, measure.sum);
    let kept = |value: Option<&V>, null: u16, stats: &BlockStats| match value {
        Some(value) if !stats.has(null | NO_RANGE) => value.stat_bits(),
        _ => 0,
    };
    stats.first = kept(values.first(), FIRST_NULL, &stats);
    stats.last = kept(values.last(), LAST_NULL, &stats);
    stats
}

/// The statistics that the block of these values, in stored types, must have.
pub(super) fn block_stats_of(column_type: ColumnType, values: &ArrayRef) -> BlockStats {
    let valid: Option<Vec<bool>> =
        values.nulls().filter(|nulls| nulls.null_count() > 0).map(|nulls| nulls.iter().collect());
    let valid = valid.as_deref();
    macro_rules! numbers {
        ($arrow:ty) => {
            values
                .as_primitive_opt::<$arrow>()
                .map_or_else(BlockStats::default, |array| block_stats(&array.values()[..], valid))
        };
    }
    let mut stats = match column_type {
        ColumnType::Boolean => {
            let bits = values.as_boolean_opt().into_iter().flat_map(|array| array.values().iter());
            block_stats(&bits.map(u8::from).collect::<Vec<_>>(), valid)
        }
        ColumnType::Int8 => numbers!(Int8Type),
        ColumnType::Int16 => numbers!(Int16Type),
        ColumnType::Int32 => numbers!(Int32Type),
        ColumnType::Int64 => numbers!(Int64Type),
        ColumnType::UInt8 => numbers!(UInt8Type),
        ColumnType::UInt16 => numbers!(UInt16Type),
        ColumnType::UInt32 | ColumnType::Symbol => numbers!(UInt32Type),
        ColumnType::UInt64 => numbers!(UInt64Type),
        ColumnType::Float32 => numbers!(Float32Type),
        ColumnType::Float64 => numbers!(Float64Type),
        ColumnType::Decimal { .. } => numbers!(Decimal128Type),
        ColumnType::Date => numbers!(Date32Type),
        ColumnType::Time => numbers!(Time64NanosecondType),
        ColumnType::Timestamp => numbers!(TimestampNanosecondType),
        ColumnType::Uuid => {
            let rows = vec![[0_u8; 16]; values.len()];
            block_stats(&rows, valid)
        }
        ColumnType::Varchar | ColumnType::Binary | ColumnType::Array(_) => {
            unranged_stats(values.len(), valid)
        }
    };
    if StatKind::of(column_type) == StatKind::Nothing {
        stats.flags &= !HAS_SUM;
    }
    stats
}

/// What is known from validity alone.
fn null_stats(valid: Option<&[bool]>) -> BlockStats {
    let mut stats = BlockStats::default();
    if let Some(valid) = valid {
        let nulls = valid.iter().filter(|&&valid| !valid).count();
        stats.nulls = u16::try_from(nulls).expect("a block has at most 1,024 rows");
        if valid.first() == Some(&false) {
            stats.flags |= FIRST_NULL;
        }
        if valid.last() == Some(&false) {
            stats.flags |= LAST_NULL;
        }
    }
    stats
}

/// Gives NULLs the value before them (the first one after, at the beginning): it costs least.
fn fill_nulls<V: Copy>(values: &mut [V], valid: &[bool]) {
    let Some(first) = valid.iter().position(|&valid| valid) else { return };
    let mut previous = values[first];
    for (value, &valid) in values.iter_mut().zip(valid) {
        if valid {
            previous = *value;
        } else {
            *value = previous;
        }
    }
}

fn encode_bits(rows: &Rows<'_, '_, bool>, segment: &[Range<usize>], _: &mut Coder) -> Vec<EncodedBlock> {
    let mut values = Vec::with_capacity(BLOCK_ROWS);
    let encoded = |block: &Range<usize>| {
        let valid = rows.copy(block.clone(), &mut values);
        let bytes: Vec<u8> = values.iter().map(|&value| u8::from(value)).collect();
        let stats = block_stats(&bytes, valid.as_deref());
        let mut body = vec![kind::BITS, 0, 0, 0, 0, 0, 0, 0];
        write_bitmap(&values, &mut body);
        EncodedBlock { rows: values.len(), stats, valid, body }
    };
    segment.iter().map(encoded).collect()
}

fn encode_text(rows: &Rows<'_, '_, &[u8]>, segment: &[Range<usize>], _: &mut Coder) -> Vec<EncodedBlock> {
    let mut values: Vec<&[u8]> = Vec::with_capacity(BLOCK_ROWS);
    let encoded = |block: &Range<usize>| {
        let valid = rows.copy(block.clone(), &mut values);
        let stats = unranged_stats(values.len(), valid.as_deref());
        let lengths: Vec<u32> =
            values.iter().map(|v| u32::try_from(v.len()).expect("an Arrow string is under 2 GiB")).collect();
        let mut body = vec![0; HEADER_BYTES];
        body[0] = text::encode(&lengths, &values.concat(), &mut body);
        EncodedBlock { rows: values.len(), stats, valid, body }
    };
    segment.iter().map(encoded).collect()
}

/// Statistics of a block of a type that keeps no range.
pub(super) fn unranged_stats(rows: usize, valid: Option<&[bool]>) -> BlockStats {
    let mut stats = null_stats(valid);
    if usize::from(stats.nulls) < rows {
        stats.flags |= NO_RANGE;
    }
    stats
}

/// Appends one bit a value, least significant first, in whole 64-bit words.
fn write_bitmap(bits: &[bool], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + bits.len().div_ceil(64) * 8, 0);
    for (index, _) in bits.iter().enumerate().filter(|(_, bit)| **bit) {
        out[start + index / 8] |= 1 << (index % 8);
    }
}

/// Collects the blocks of one chunk.
struct ChunkBuilder {
    kind: StatKind,
    data: Vec<u8>,
    blocks: Vec<(usize, BlockStats)>,
    total: TotalStats,
    /// The tables that the blocks name.
    tables: Vec<u8>,
}

impl ChunkBuilder {
    fn new(kind: StatKind) -> Self {
        let (data, blocks, tables) = (Vec::new(), Vec::new(), Vec::new());
        Self { kind, data, blocks, total: TotalStats::empty(), tables }
    }

    /// Adds a block.
    fn add(&mut self, block: &EncodedBlock) {
        let mut stats = block.stats;
        if self.kind == StatKind::Nothing {
            stats.flags &= !HAS_SUM;
        }
        self.total.add(self.kind, &TotalStats::of_block(self.kind, block.rows, &stats));
        self.blocks.push((self.data.len(), stats));
        block.write(&mut self.data);
    }

    fn finish(mut self) -> Chunk {
        pad(&mut self.data);
        let mut page = Vec::new();
        self.total.write(&mut page);
        index::write(self.kind, &self.blocks, self.data.len(), &self.tables, &mut page);
        let starts: Vec<usize> =
            self.blocks.iter().map(|(offset, _)| *offset).step_by(GROUP_BLOCKS).collect();
        let ends = starts.iter().skip(1).copied().chain([self.data.len()]);
        for (&start, end) in starts.iter().zip(ends) {
            page.extend_from_slice(&crc32c::crc32c(&self.data[start..end]).to_le_bytes());
        }
        pad(&mut page);
        Chunk { data: self.data, page, total: self.total }
    }
}
