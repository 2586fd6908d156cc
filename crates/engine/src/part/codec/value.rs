//! Blocks of fixed-size values: which encodings a type knows, and runs and raw values for all of them.
//!
//! A block's body is its header and payload; the body of RUNS holds, past the marks, the body of one value
//! a run, which like any other may be a dictionary: numbers, then the body of the distinct values. Bodies are
//! chosen by size, block by block, within what the chunk's sample proposed.

use super::alp::{self, AlpPlan, Real};
use super::ints::{self, IntPlan, PLACE_BITS};
use super::lane::{self, Finish, Lane, Same};
use super::simd::PADDING;
use super::slots::{Plain, Slot, first, padded, scratch, write_all};
use super::{Damage, Decoded, HEADER_BYTES, kind, marks, split};
use crate::part::BLOCK_ROWS;
use crate::part::layout::{pad, u16_at};
use crate::part::stats::Measured;
use std::marker::PhantomData;

/// Most runs marked by places: one bit a row takes no more than places of more runs.
const MOST_PLACES: usize = BLOCK_ROWS / PLACE_BITS + 1;

/// Up to so many runs are filled one by one.
const FILLED_RUNS: usize = 32;

/// Below this many values a dictionary is not tried.
const MIN_DICTIONARY_VALUES: usize = 32;

/// Runs of this length on average are surely smaller than packed words, and spare the attempt.
const SURE_RUN: usize = 16;

/// What a sample proposes for a chunk.
#[derive(Debug, Clone, Copy)]
pub(in crate::part) struct Plan {
    ints: IntPlan,
    alp: Option<AlpPlan>,
    /// Whether few values make up the sample.
    recurs: bool,
}

impl Plan {
    /// The plan that a sample's stretches propose.
    pub(in crate::part) fn of<V: Value>(stretches: &[Vec<V>]) -> Self {
        let recurs = stretches.iter().any(|stretch| {
            let mut keys: Vec<u64> = stretch.iter().map(|&value| value.key()).collect();
            keys.sort_unstable();
            keys.dedup();
            keys.len() >= 2 && keys.len() * 4 < stretch.len()
        });
        Self { recurs, ..V::plan(stretches) }
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self { ints: IntPlan { scale: 1, delta: true }, alp: None, recurs: false }
    }
}

/// A fixed-size value of a column.
pub(in crate::part) trait Value: Measured + Plain {
    /// Bytes of a raw value.
    const BYTES: usize;

    /// Whether the bits are the same.
    fn same(self, other: Self) -> bool;
    /// The bits, where the type has at most 64: equal where the values are the same.
    fn key(self) -> u64;
    /// Appends the value as it is, little-endian.
    fn write_raw(self, out: &mut Vec<u8>);
    /// The value of [`Self::BYTES`] bytes.
    fn read_raw(bytes: &[u8]) -> Self;
    /// Proposes encodings from stretches of neighbours.
    fn plan(stretches: &[Vec<Self>]) -> Plan;
    /// Appends a packed payload and returns kind and parameters, `None` where the type has none for these.
    fn pack(values: &[Self], plan: Plan, out: &mut Vec<u8>) -> Option<[u8; 3]>;
    /// Decodes what [`Self::pack`] wrote.
    fn unpack<'s>(header: [u8; 3], bytes: &[u8], slots: &'s mut [Slot<Self>]) -> Decoded<&'s mut [Self]>;
}

/// Appends the body of `values` (1 to 1,024).
pub(in crate::part) fn encode<V: Value>(values: &[V], plan: Plan, out: &mut Vec<u8>) {
    let start = out.len();
    let runs = 1 + values.windows(2).filter(|pair| !pair[0].same(pair[1])).count();
    if runs == 1 || runs * 2 > values.len() {
        return encode_flat(values, plan, plan.recurs, out);
    }
    encode_runs(values, runs, plan, out);
    if runs * SURE_RUN < values.len() {
        return;
    }
    let mut flat = Vec::new();
    encode_flat(values, plan, plan.recurs, &mut flat);
    // Runs decode no faster than packed words: they must earn their place.
    if out.len() - start >= flat.len() * 9 / 10 {
        out.truncate(start);
        out.extend_from_slice(&flat);
    }
}

/// Packed or raw, or by a dictionary where `try_dictionary` says that values recur.
fn encode_flat<V: Value>(values: &[V], plan: Plan, try_dictionary: bool, out: &mut Vec<u8>) {
    let start = out.len();
    encode_plain(values, plan, out);
    // Finding the distinct values takes longer than packing: only where there is much to gain.
    let wide_bits = if values.len() < BLOCK_ROWS / 2 { 12 } else { 16 };
    let worth = (out.len() - start) * 8 > values.len() * wide_bits;
    if !try_dictionary || !worth || V::BYTES > 8 || values.len() < MIN_DICTIONARY_VALUES {
        return;
    }
    let mut numbered = Vec::new();
    encode_dictionary(values, plan, &mut numbered);
    // One more look-up a value: it must earn its place.
    if !numbered.is_empty() && numbered.len() < (out.len() - start) * 4 / 5 {
        out.truncate(start);
        out.extend_from_slice(&numbered);
    }
}

fn encode_plain<V: Value>(values: &[V], plan: Plan, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    let header = V::pack(values, plan, out);
    if let Some(header) = header.filter(|_| out.len() - start - HEADER_BYTES < values.len() * V::BYTES) {
        out[start..start + 3].copy_from_slice(&header);
        pad(out);
        return;
    }
    out.truncate(start);
    out.extend_from_slice(&[kind::RAW, 0, 0, 0, 0, 0, 0, 0]);
    for value in values {
        value.write_raw(out);
    }
    pad(out);
}

/// Distinct values in the order of their bits, then the place of each value among them; nothing where most
/// values are distinct.
fn encode_dictionary<V: Value>(values: &[V], plan: Plan, out: &mut Vec<u8>) {
    let mut distinct: Vec<(u64, V)> = values.iter().map(|&value| (value.key(), value)).collect();
    distinct.sort_unstable_by_key(|(key, _)| *key);
    distinct.dedup_by_key(|(key, _)| *key);
    if distinct.len() * 4 > values.len() * 3 || distinct.len() < 2 {
        return;
    }
    let width = (usize::BITS - (distinct.len() - 1).leading_zeros()) as usize;
    let place = |value: &V| distinct.partition_point(|(key, _)| *key < value.key()) as u32;
    let numbers: Vec<u32> = values.iter().map(place).collect();
    let [low, high] = u16::try_from(distinct.len()).expect("at most 1,024 values").to_le_bytes();
    out.extend_from_slice(&[kind::DICTIONARY, width as u8, 0, 0, low, high, 0, 0]);
    lane::pack(width, &numbers, out);
    let distinct: Vec<V> = distinct.into_iter().map(|(_, value)| value).collect();
    encode_plain(&distinct, plan, out);
}

/// Run marks are places (10 bits each) where there are few, else one bit a row.
fn encode_runs<V: Value>(values: &[V], runs: usize, plan: Plan, out: &mut Vec<u8>) {
    let as_places = lane::packed_bytes(PLACE_BITS, runs) < values.len().div_ceil(64) * 8;
    let [low, high] = u16::try_from(runs).expect("at most 1,024 runs").to_le_bytes();
    out.extend_from_slice(&[kind::RUNS, u8::from(as_places), 0, 0, low, high, 0, 0]);
    let mut starts = Vec::with_capacity(runs);
    let mut marks = [0_u8; BLOCK_ROWS / 8];
    for row in 0..values.len() {
        if row == 0 || !values[row - 1].same(values[row]) {
            starts.push(row as u32);
            marks[row / 8] |= 1 << (row % 8);
        }
    }
    if as_places {
        lane::pack(PLACE_BITS, &starts, out);
    } else {
        out.extend_from_slice(&marks[..values.len().div_ceil(64) * 8]);
    }
    let heads: Vec<V> = starts.iter().map(|&row| values[row as usize]).collect();
    encode_flat(&heads, plan, true, out);
}

/// Decodes exactly `slots.len()` values (1 to 1,024) from what [`encode`] wrote.
pub(in crate::part) fn decode<'s, V: Value>(bytes: &[u8], slots: &'s mut [Slot<V>]) -> Decoded<&'s mut [V]> {
    let (header, rest) = split(bytes, HEADER_BYTES)?;
    if header[0] != kind::RUNS {
        return decode_flat(bytes, slots);
    }
    let (as_places, runs) = (header[1] == 1, usize::from(u16_at(header, 4)));
    if runs == 0 || runs > slots.len() || slots.len() > BLOCK_ROWS {
        return Err(Damage("more runs than values"));
    }
    let mark_bytes =
        if as_places { lane::packed_bytes(PLACE_BITS, runs) } else { slots.len().div_ceil(64) * 8 };
    let (marks, rest) = split(rest, mark_bytes)?;
    let mut heads = scratch::<V, { BLOCK_ROWS + PADDING }>();
    let heads = padded(first(&mut heads, runs + PADDING)?, PADDING, |slots| decode_flat(rest, slots))?;
    if as_places {
        spread_places(marks, runs, heads, slots)
    } else {
        marks::spread(marks, runs, heads, slots)
    }
}

/// Few runs are filled one by one; more become bits first.
fn spread_places<'s, V: Value>(
    places: &[u8],
    runs: usize,
    heads: &[V],
    slots: &'s mut [Slot<V>],
) -> Decoded<&'s mut [V]> {
    let mut starts = scratch::<u32, MOST_PLACES>();
    let starts = starts.get_mut(..runs).ok_or(Damage("more run marks than places are used for"))?;
    let starts = lane::unpack(PLACE_BITS, places, Same, starts)?;
    if runs > FILLED_RUNS {
        let mut bits = [0_u8; BLOCK_ROWS / 8];
        for &start in starts.iter() {
            bits[start as usize / 8 % (BLOCK_ROWS / 8)] |= 1 << (start % 8);
        }
        return marks::spread(&bits, runs, heads, slots);
    }
    marks::fill_runs(starts, heads, slots)
}

fn decode_flat<'s, V: Value>(bytes: &[u8], slots: &'s mut [Slot<V>]) -> Decoded<&'s mut [V]> {
    let (header, rest) = split(bytes, HEADER_BYTES)?;
    if header[0] != kind::DICTIONARY {
        return decode_plain(bytes, slots);
    }
    let (width, count) = (usize::from(header[1]), usize::from(u16_at(header, 4)));
    let (packed, rest) = split(rest, lane::packed_bytes(width, slots.len()))?;
    let mut distinct = scratch::<V, BLOCK_ROWS>();
    let distinct = distinct.get_mut(..count).ok_or(Damage("a dictionary of too many values"))?;
    let distinct: &[V] = decode_plain(rest, distinct)?;
    let mut numbers = scratch::<u32, BLOCK_ROWS>();
    let numbers = lane::unpack(width, packed, Same, first(&mut numbers, slots.len())?)?;
    let most = numbers.iter().max().map_or(0, |&most| most as usize);
    if most >= count {
        return Err(Damage("a number past its dictionary"));
    }
    write_all(slots, numbers.iter().map(|&number| distinct[(number as usize).min(most)]))
}

fn decode_plain<'s, V: Value>(bytes: &[u8], slots: &'s mut [Slot<V>]) -> Decoded<&'s mut [V]> {
    let (header, rest) = split(bytes, HEADER_BYTES)?;
    if header[0] != kind::RAW {
        return V::unpack([header[0], header[1], header[2]], rest, slots);
    }
    let (raw, _) = split(rest, slots.len() * V::BYTES)?;
    write_all(slots, raw.chunks_exact(V::BYTES).map(V::read_raw))
}

macro_rules! raw_number {
    ($native:ty) => {
        const BYTES: usize = size_of::<$native>();

        fn write_raw(self, out: &mut Vec<u8>) {
            out.extend_from_slice(&self.to_le_bytes());
        }

        fn read_raw(bytes: &[u8]) -> Self {
            bytes.try_into().map_or(Self::default(), <$native>::from_le_bytes)
        }
    };
}

/// A word is cut to the type that it was widened from.
#[derive(Debug, Clone, Copy)]
struct Cut<V>(PhantomData<V>);

/// Decodes integers of `L` that are widened `V`.
fn unpack_words<'s, L: Lane, V: Value>(
    header: [u8; 3],
    bytes: &[u8],
    slots: &'s mut [Slot<V>],
) -> Decoded<&'s mut [V]>
where
    Cut<V>: Finish<L, Value = V>,
{
    if header[0] != kind::INTS {
        return Err(Damage("an encoding this type does not have"));
    }
    ints::decode::<L, _>(bytes, Cut(PhantomData), slots)
}

macro_rules! integer_value {
    ($lane:ty, $wide:ty: $($native:ty),*) => {$(
        impl Value for $native {
            raw_number!($native);

            fn same(self, other: Self) -> bool {
                self == other
            }

            fn key(self) -> u64 {
                <$wide>::from(self) as u64
            }

            fn plan(stretches: &[Vec<Self>]) -> Plan {
                let words: Vec<Vec<$lane>> = stretches
                    .iter()
                    .map(|stretch| stretch.iter().map(|&value| <$wide>::from(value) as $lane).collect())
                    .collect();
                Plan { ints: ints::sample(&words), ..Plan::default() }
            }

            fn pack(values: &[Self], plan: Plan, out: &mut Vec<u8>) -> Option<[u8; 3]> {
                let words: Vec<$lane> = values.iter().map(|&value| <$wide>::from(value) as $lane).collect();
                ints::encode(&words, plan.ints, out);
                Some([kind::INTS, 0, 0])
            }

            fn unpack<'s>(header: [u8; 3], bytes: &[u8], slots: &'s mut [Slot<Self>]) -> Decoded<&'s mut [Self]> {
                unpack_words::<$lane, _>(header, bytes, slots)
            }
        }

        impl Finish<$lane> for Cut<$native> {
            type Value = $native;

            #[inline(always)]
            fn finish(self, word: $lane) -> $native {
                word as $native
            }
        }
    )*};
}
integer_value!(u32, i32: i8, i16, i32);
integer_value!(u32, u32: u8, u16, u32);
integer_value!(u64, i64: i64);
integer_value!(u64, u64: u64);

macro_rules! real_value {
    ($($native:ty),*) => {$(
        impl Value for $native {
            raw_number!($native);

            fn same(self, other: Self) -> bool {
                self.to_bits() == other.to_bits()
            }

            fn key(self) -> u64 {
                self.bits()
            }

            fn plan(stretches: &[Vec<Self>]) -> Plan {
                let sample: Vec<Self> = stretches.iter().flat_map(|s| s.iter().copied().step_by(4)).collect();
                let Some(plan) = alp::choose(&sample) else { return Plan::default() };
                let words: Vec<Vec<u64>> = stretches.iter().map(|s| alp::integers(plan, s)).collect();
                Plan { ints: ints::sample(&words), alp: Some(plan), ..Plan::default() }
            }

            fn pack(values: &[Self], plan: Plan, out: &mut Vec<u8>) -> Option<[u8; 3]> {
                let first = values.first()?;
                // A constant of any bits, NaN too.
                if values.iter().all(|value| value.same(*first)) {
                    let words = vec![first.bits(); values.len()];
                    ints::encode::<u64>(&words, plan.ints, out);
                    return Some([kind::INTS, 0, 0]);
                }
                let [e, f] = alp::encode(plan.alp?, plan.ints, values, out);
                Some([kind::ALP, e, f])
            }

            fn unpack<'s>(header: [u8; 3], bytes: &[u8], slots: &'s mut [Slot<Self>]) -> Decoded<&'s mut [Self]> {
                match header {
                    [kind::ALP, e, f] => alp::decode([e, f], bytes, slots),
                    _ => unpack_words::<u64, _>(header, bytes, slots),
                }
            }
        }

        impl Finish<u64> for Cut<$native> {
            type Value = $native;

            #[inline(always)]
            fn finish(self, word: u64) -> $native {
                <$native>::from_bits64(word)
            }
        }
    )*};
}
real_value!(f32, f64);

impl Value for i128 {
    raw_number!(i128);

    fn same(self, other: Self) -> bool {
        self == other
    }

    fn key(self) -> u64 {
        0
    }

    fn plan(stretches: &[Vec<Self>]) -> Plan {
        let narrow = |stretch: &Vec<i128>| stretch.iter().filter_map(|&v| i64::try_from(v).ok()).collect();
        let narrowed: Vec<Vec<i64>> = stretches.iter().map(narrow).collect();
        i64::plan(&narrowed)
    }

    fn pack(values: &[Self], plan: Plan, out: &mut Vec<u8>) -> Option<[u8; 3]> {
        let words: Option<Vec<u64>> =
            values.iter().map(|&value| i64::try_from(value).ok().map(i64::cast_unsigned)).collect();
        ints::encode(&words?, plan.ints, out);
        Some([kind::INTS, 0, 0])
    }

    fn unpack<'s>(header: [u8; 3], bytes: &[u8], slots: &'s mut [Slot<Self>]) -> Decoded<&'s mut [Self]> {
        unpack_words::<u64, _>(header, bytes, slots)
    }
}

impl Finish<u64> for Cut<i128> {
    type Value = i128;

    #[inline(always)]
    fn finish(self, word: u64) -> i128 {
        i128::from(word.cast_signed())
    }
}

impl Value for [u8; 16] {
    const BYTES: usize = 16;

    fn same(self, other: Self) -> bool {
        self == other
    }

    fn key(self) -> u64 {
        0
    }

    fn write_raw(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self);
    }

    fn read_raw(bytes: &[u8]) -> Self {
        bytes.try_into().unwrap_or_default()
    }

    fn plan(_: &[Vec<Self>]) -> Plan {
        Plan::default()
    }

    fn pack(_: &[Self], _: Plan, _: &mut Vec<u8>) -> Option<[u8; 3]> {
        None
    }

    fn unpack<'s>(_: [u8; 3], _: &[u8], _: &'s mut [Slot<Self>]) -> Decoded<&'s mut [Self]> {
        Err(Damage("an encoding this type does not have"))
    }
}
