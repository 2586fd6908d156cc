//! Blocks of fixed-size values: which encodings a type knows, and runs and raw values for all of them.
//!
//! A block's body is its header and payload; the body of RUNS holds, past the marks, the body of one value
//! a run, which like any other may be a dictionary: numbers, then the body of the distinct values. Bodies are
//! chosen by size, block by block, within what the chunk's sample proposed.

use super::alp::{self, AlpPlan, Real};
use super::ints::{self, DELTA_PERCENT, IntPlan, PLACE_BITS};
use super::lane::{self, Finish, Lane, Same};
use super::measure::{Reals, Wholes};
use super::plain::{Bounds, Lanes};
use super::shape::{self, Piece, Role};
use super::simd::{self, Kernel, PADDING, Simd};
use super::slots::{Plain, Slot, first, padded, scratch, write_all};
use super::varint::{take_byte, take_bytes, take_u16};
use super::{Damage, Decoded, HEADER_BYTES, kind, marks, split, words};
use crate::part::layout::u16_at;
use crate::part::stats::{Measure, Measured};
use crate::part::{BLOCK_ROWS, Density};
use std::marker::PhantomData;

/// Most runs marked by places: one bit a row takes no more than places of more runs.
const MOST_PLACES: usize = BLOCK_ROWS / PLACE_BITS + 1;

/// Up to so many runs are filled one by one.
const FILLED_RUNS: usize = 32;

/// What a sample proposes for a chunk.
#[derive(Debug, Clone, Copy)]
pub(in crate::part) struct Plan {
    pub(super) ints: IntPlan,
    pub(super) alp: Option<AlpPlan>,
    /// Whether few values make up the sample.
    pub(super) recurs: bool,
    /// Whether values of runs are stored once.
    pub(super) runs: bool,
    /// Whether values are numbered.
    pub(super) dictionary: bool,
    /// Bytes of the sample.
    pub(in crate::part) sample_bytes: usize,
}

impl Plan {
    /// The plan that a sample's stretches propose for a chunk of `rows` rows.
    pub(in crate::part) fn of<V: Value>(stretches: &[Vec<V>], rows: usize, density: Density) -> Self {
        let recurs = V::BYTES <= 8
            && stretches.iter().any(|stretch| {
                let mut keys: Vec<u64> = stretch.iter().map(|&value| value.key()).collect();
                keys.sort_unstable();
                keys.dedup();
                keys.len() >= 2 && keys.len() * 4 < stretch.len()
            });
        let plan = V::plan(stretches);
        shape::choose(stretches, rows, Self { recurs, ints: plan.ints.suit(density), ..plan }, density)
    }
}

impl Default for Plan {
    fn default() -> Self {
        let ints = IntPlan { scale: 1, delta_percent: DELTA_PERCENT, related: true };
        Self { ints, alp: None, recurs: false, runs: false, dictionary: false, sample_bytes: 0 }
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
    /// The distance from a time, where the type has one.
    fn since(self, _time: i64) -> Self {
        self
    }
    /// The value so far from a time; undoes [`Self::since`].
    fn after(self, _time: i64) -> Self {
        self
    }
    /// Appends the pieces of a block.
    fn push(values: &[Self], plan: Plan, pieces: &mut Vec<Piece>);
    /// Decodes integers or decimals of format 2, what is past the first byte.
    fn unpack_words<'s>(
        kind: u8,
        bytes: &mut &[u8],
        tables: &[u8],
        slots: &'s mut [Slot<Self>],
    ) -> Decoded<&'s mut [Self]>;
    /// How plain words of the type lie (see `plain`).
    const PLAIN: Lanes = Lanes::None;
    /// The value of a plain word; of decimals by their powers.
    fn of_plain(_word: i64, _powers: Option<AlpPlan>) -> Self {
        Self::default()
    }
    /// Sum, and with `RANGE` the least and the largest, of values of which none is NULL; doubles are added in any order.
    fn measure_slice<const RANGE: bool>(values: &[Self]) -> Measure {
        Self::measure_all(values)
    }
    /// A bit for each value, least significant first: whether it is within bounds, which a type without order never is.
    fn within(values: &[Self], _bounds: &Bounds) -> Vec<u64> {
        vec![0; values.len().div_ceil(64)]
    }
    /// The value, where it is an integer.
    fn integer(self) -> Option<i128> {
        None
    }
    /// Decodes a payload of format 1.
    fn unpack<'s>(header: [u8; 3], bytes: &[u8], slots: &'s mut [Slot<Self>]) -> Decoded<&'s mut [Self]>;
}

/// A bit for each value, least significant first: whether the test passes.
struct Bits<'a, V, F>(&'a [V], F);

impl<V: Copy, F: Fn(V) -> bool> Kernel for Bits<'_, V, F> {
    type Output = Vec<u64>;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> Vec<u64> {
        let Self(values, test) = self;
        let word = |values: &[V]| {
            values.iter().enumerate().fold(0, |word, (row, value)| word | u64::from(test(*value)) << row)
        };
        let (whole, rest) = values.as_chunks::<64>();
        let whole = whole.iter().map(|values| word(values));
        whole.chain((!rest.is_empty()).then(|| word(rest))).collect()
    }
}

/// Decodes exactly `slots.len()` values (1 to 1,024) of either format; `tables` are those of the chunk.
pub(in crate::part) fn decode<'s, V: Value>(
    bytes: &[u8],
    tables: &[u8],
    slots: &'s mut [Slot<V>],
) -> Decoded<&'s mut [V]> {
    match bytes.first() {
        Some(&kind::RUN_LENGTHS) => decode_run_lengths(bytes, tables, slots),
        Some(&kind::RUN_MARKS) => decode_run_marks(bytes, tables, slots),
        Some(&(kind::WORDS | kind::DECIMALS | kind::NUMBERED)) => decode_words(&mut { bytes }, tables, slots),
        _ => decode_first_format(bytes, slots),
    }
}

/// The number of runs in a block of `rows` rows, past the first byte.
fn take_runs(bytes: &mut &[u8], rows: usize) -> Decoded<usize> {
    let runs = take_u16(bytes)?;
    if runs == 0 || runs > rows || rows > BLOCK_ROWS {
        return Err(Damage("more runs than values"));
    }
    Ok(runs)
}

/// Where runs begin in a block of `rows` rows, and how many there are, past the first byte.
pub(super) fn take_marks<'a>(bytes: &mut &'a [u8], rows: usize) -> Decoded<(&'a [u8], usize)> {
    let runs = take_runs(bytes, rows)?;
    Ok((take_bytes(bytes, rows.div_ceil(8))?, runs))
}

/// The rows where the runs of a block of `rows` rows begin, past the first byte.
pub(super) fn take_starts<'s>(
    bytes: &mut &[u8],
    tables: &[u8],
    rows: usize,
    slots: &'s mut [Slot<u32>; BLOCK_ROWS],
) -> Decoded<&'s mut [u32]> {
    let runs = take_runs(bytes, rows)?;
    let lengths = words::decode::<u32, _>(bytes, tables, Same, first(slots, runs)?)?;
    let mut start = 0_u32;
    for length in lengths.iter_mut() {
        let next = start.saturating_add(*length).saturating_add(1);
        *length = start;
        start = next;
    }
    if start as usize != rows {
        return Err(Damage("runs that are not as long as the block"));
    }
    Ok(lengths)
}

/// Values of runs, each from the row where its mark is set.
fn decode_run_marks<'s, V: Value>(
    bytes: &[u8],
    tables: &[u8],
    slots: &'s mut [Slot<V>],
) -> Decoded<&'s mut [V]> {
    let mut bytes = bytes.get(1..).unwrap_or_default();
    let (marks, runs) = take_marks(&mut bytes, slots.len())?;
    let mut heads = scratch::<V, { BLOCK_ROWS + PADDING }>();
    let heads =
        padded(first(&mut heads, runs + PADDING)?, PADDING, |slots| decode_words(&mut bytes, tables, slots))?;
    marks::spread(marks, runs, heads, slots)
}

/// Values of runs, each as often as its run is long.
fn decode_run_lengths<'s, V: Value>(
    bytes: &[u8],
    tables: &[u8],
    slots: &'s mut [Slot<V>],
) -> Decoded<&'s mut [V]> {
    let mut bytes = bytes.get(1..).unwrap_or_default();
    let mut starts = scratch::<u32, BLOCK_ROWS>();
    let starts = take_starts(&mut bytes, tables, slots.len(), &mut starts)?;
    let runs = starts.len();
    let mut heads = scratch::<V, { BLOCK_ROWS + PADDING }>();
    let heads =
        padded(first(&mut heads, runs + PADDING)?, PADDING, |slots| decode_words(&mut bytes, tables, slots))?;
    if runs <= FILLED_RUNS {
        return marks::fill_runs(starts, heads, slots);
    }
    marks::spread(&marks_at(starts), runs, heads, slots)
}

/// One bit a row, set where runs begin.
fn marks_at(starts: &[u32]) -> [u8; BLOCK_ROWS / 8] {
    // A byte a row first: bits that are set in the same byte would wait for each other.
    let mut rows = [0_u8; BLOCK_ROWS];
    for &start in starts {
        rows[start as usize % BLOCK_ROWS] = 1;
    }
    let mut marks = [0; BLOCK_ROWS / 8];
    for (mark, eight) in marks.iter_mut().zip(rows.as_chunks::<8>().0) {
        // The product brings the lowest bit of byte `n` to bit 56 + n, and no two to the same place.
        *mark = (u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8;
    }
    marks
}

/// Integers, decimals or numbers of format 2.
fn decode_words<'s, V: Value>(
    bytes: &mut &[u8],
    tables: &[u8],
    slots: &'s mut [Slot<V>],
) -> Decoded<&'s mut [V]> {
    let code = take_byte(bytes)?;
    match code {
        kind::WORDS | kind::DECIMALS => V::unpack_words(code, bytes, tables, slots),
        kind::NUMBERED => {
            let count = take_u16(bytes)?;
            let mut numbers = scratch::<u32, BLOCK_ROWS>();
            let numbers = words::decode::<u32, _>(bytes, tables, Same, first(&mut numbers, slots.len())?)?;
            let mut distinct = scratch::<V, BLOCK_ROWS>();
            let distinct = distinct.get_mut(..count).ok_or(Damage("a dictionary of too many values"))?;
            let kind = take_byte(bytes)?;
            let distinct: &[V] = match kind {
                kind::WORDS | kind::DECIMALS => V::unpack_words(kind, bytes, tables, distinct)?,
                _ => decode_raw(bytes, distinct)?,
            };
            pick(distinct, numbers, slots)
        }
        _ => decode_raw(bytes, slots),
    }
}

/// The values of numbers.
fn pick<'s, V: Value>(distinct: &[V], numbers: &[u32], slots: &'s mut [Slot<V>]) -> Decoded<&'s mut [V]> {
    let most = numbers.iter().max().map_or(0, |&most| most as usize);
    if most >= distinct.len() {
        return Err(Damage("a number past its dictionary"));
    }
    write_all(slots, numbers.iter().map(|&number| distinct[(number as usize).min(most)]))
}

/// Values as they are, past the first byte of their header.
fn decode_raw<'s, V: Value>(bytes: &[u8], slots: &'s mut [Slot<V>]) -> Decoded<&'s mut [V]> {
    let (_, rest) = split(bytes, HEADER_BYTES - 1)?;
    let (raw, _) = split(rest, slots.len() * V::BYTES)?;
    write_all(slots, raw.chunks_exact(V::BYTES).map(V::read_raw))
}

/// Decodes a block of format 1.
fn decode_first_format<'s, V: Value>(bytes: &[u8], slots: &'s mut [Slot<V>]) -> Decoded<&'s mut [V]> {
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
        return marks::spread(&marks_at(starts), runs, heads, slots);
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
    pick(distinct, numbers, slots)
}

fn decode_plain<'s, V: Value>(bytes: &[u8], slots: &'s mut [Slot<V>]) -> Decoded<&'s mut [V]> {
    let (header, rest) = split(bytes, HEADER_BYTES)?;
    if header[0] != kind::RAW {
        return V::unpack([header[0], header[1], header[2]], rest, slots);
    }
    decode_raw(&bytes[1..], slots)
}

const FOREIGN: Damage = Damage("an encoding this type does not have");

macro_rules! raw_number {
    ($native:ty) => {
        raw_number!($native, std::convert::identity);
    };
    ($native:ty, $settle:expr) => {
        const BYTES: usize = size_of::<$native>();

        fn write_raw(self, out: &mut Vec<u8>) {
            out.extend_from_slice(&self.to_le_bytes());
        }

        fn read_raw(bytes: &[u8]) -> Self {
            let value = bytes.try_into().map_or(Self::default(), <$native>::from_le_bytes);
            $settle(value)
        }
    };
}

/// A word is cut to the type that it was widened from.
#[derive(Debug, Clone, Copy)]
struct Cut<V>(PhantomData<V>);

/// Decodes integers of `L` that are widened `V`.
fn unpack_first<'s, L: Lane, V: Value>(
    header: [u8; 3],
    bytes: &[u8],
    slots: &'s mut [Slot<V>],
) -> Decoded<&'s mut [V]>
where
    Cut<V>: Finish<L, Value = V>,
{
    if header[0] != kind::INTS {
        return Err(FOREIGN);
    }
    ints::decode::<L, _>(bytes, Cut(PhantomData), slots)
}

macro_rules! integer_value {
    (@related unrelated) => {};
    (@related times) => {
        fn since(self, time: i64) -> Self {
            self.wrapping_sub(time)
        }

        fn after(self, time: i64) -> Self {
            self.wrapping_add(time)
        }
    };
    ($piece:ident $lane:ty, $wide:ty: $($native:ident $related:tt),*) => {$(
        impl Value for $native {
            raw_number!($native);
            integer_value!(@related $related);
            const PLAIN: Lanes = Lanes::$piece { signed: <$native>::MIN != 0 };

            fn of_plain(word: i64, _: Option<AlpPlan>) -> Self {
                word as $native
            }

            fn measure_slice<const RANGE: bool>(values: &[Self]) -> Measure {
                simd::run(Wholes::<Self, RANGE>(values))
            }

            fn within(values: &[Self], bounds: &Bounds) -> Vec<u64> {
                let Bounds::Integers(from, to) = *bounds else { return vec![0; values.len().div_ceil(64)] };
                let from = from.max(i128::from(<$native>::MIN));
                let to = to.min(i128::from(<$native>::MAX));
                if from > to {
                    return vec![0; values.len().div_ceil(64)];
                }
                let (low, high) = (from as $native, to as $native);
                simd::run(Bits(values, |value| low <= value && value <= high))
            }

            fn integer(self) -> Option<i128> {
                Some(i128::from(self))
            }

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

            fn push(values: &[Self], plan: Plan, pieces: &mut Vec<Piece>) {
                let words: Vec<$lane> = values.iter().map(|&value| <$wide>::from(value) as $lane).collect();
                pieces.push(Piece::Bytes(vec![kind::WORDS]));
                pieces.push(Piece::$piece(Role::Values, words, plan.ints));
            }

            fn unpack_words<'s>(
                kind: u8,
                bytes: &mut &[u8],
                tables: &[u8],
                slots: &'s mut [Slot<Self>],
            ) -> Decoded<&'s mut [Self]> {
                if kind != kind::WORDS {
                    return Err(FOREIGN);
                }
                words::decode::<$lane, _>(bytes, tables, Cut::<Self>(PhantomData), slots)
            }

            fn unpack<'s>(header: [u8; 3], bytes: &[u8], slots: &'s mut [Slot<Self>]) -> Decoded<&'s mut [Self]> {
                unpack_first::<$lane, _>(header, bytes, slots)
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
integer_value!(Narrow u32, i32: i8 unrelated, i16 unrelated, i32 unrelated);
integer_value!(Narrow u32, u32: u8 unrelated, u16 unrelated, u32 unrelated);
integer_value!(Wide u64, i64: i64 times);
integer_value!(Wide u64, u64: u64 unrelated);

macro_rules! real_value {
    ($($native:ty: $plain:expr),*) => {$(
        impl Value for $native {
            raw_number!($native, |value: $native| <$native>::from_bits64(value.bits()));
            const PLAIN: Lanes = $plain;

            fn of_plain(word: i64, powers: Option<AlpPlan>) -> Self {
                Self::from_f64(powers.map_or(f64::NAN, |powers| powers.decimal(word as f64)))
            }

            fn measure_slice<const RANGE: bool>(values: &[Self]) -> Measure {
                simd::run(Reals::<Self, RANGE>(values))
            }

            fn within(values: &[Self], bounds: &Bounds) -> Vec<u64> {
                let Bounds::Reals(from, to) = *bounds else { return vec![0; values.len().div_ceil(64)] };
                // NaN is above every number.
                let (with_nan, high) = match to {
                    Some(to) if !to.is_nan() => (false, to),
                    _ => (true, f64::INFINITY),
                };
                let low = from.unwrap_or(f64::NEG_INFINITY);
                simd::run(Bits(values, |value: Self| {
                    let value = value.to_f64();
                    (low <= value) & (value <= high) | (with_nan & value.is_nan())
                }))
            }

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

            fn push(values: &[Self], plan: Plan, pieces: &mut Vec<Piece>) {
                let constant = values.iter().all(|value| value.same(values[0]));
                let alp = if constant { None } else { alp::suit(plan.alp, values) };
                match alp {
                    Some(alp) => alp::push(alp, plan.ints, values, pieces),
                    // Bits of any kind, NaN too: their first ones are often alike.
                    None => {
                        let bits = values.iter().map(|value| value.bits()).collect();
                        pieces.push(Piece::Bytes(vec![kind::WORDS]));
                        pieces.push(Piece::Wide(Role::Values, bits, shape::UNRELATED));
                    }
                }
            }

            fn unpack_words<'s>(
                kind: u8,
                bytes: &mut &[u8],
                tables: &[u8],
                slots: &'s mut [Slot<Self>],
            ) -> Decoded<&'s mut [Self]> {
                match kind {
                    kind::DECIMALS => alp::decode_words(bytes, tables, slots),
                    _ => words::decode::<u64, _>(bytes, tables, Cut::<Self>(PhantomData), slots),
                }
            }

            fn unpack<'s>(header: [u8; 3], bytes: &[u8], slots: &'s mut [Slot<Self>]) -> Decoded<&'s mut [Self]> {
                match header {
                    [kind::ALP, e, f] => alp::decode([e, f], bytes, slots),
                    _ => unpack_first::<u64, _>(header, bytes, slots),
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
real_value!(f32: Lanes::None, f64: Lanes::Decimals);

impl Value for i128 {
    raw_number!(i128);

    fn within(values: &[Self], bounds: &Bounds) -> Vec<u64> {
        let (from, to) = match *bounds {
            Bounds::Integers(from, to) => (from, to),
            Bounds::Reals(..) => (i128::MAX, i128::MIN),
        };
        simd::run(Bits(values, |value| from <= value && value <= to))
    }

    fn integer(self) -> Option<i128> {
        Some(self)
    }

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

    fn push(values: &[Self], plan: Plan, pieces: &mut Vec<Piece>) {
        let words: Option<Vec<u64>> =
            values.iter().map(|&value| i64::try_from(value).ok().map(i64::cast_unsigned)).collect();
        let Some(words) = words else { return pieces.push(Piece::Bytes(shape::raw(values))) };
        pieces.push(Piece::Bytes(vec![kind::WORDS]));
        pieces.push(Piece::Wide(Role::Values, words, plan.ints));
    }

    fn unpack_words<'s>(
        kind: u8,
        bytes: &mut &[u8],
        tables: &[u8],
        slots: &'s mut [Slot<Self>],
    ) -> Decoded<&'s mut [Self]> {
        if kind != kind::WORDS {
            return Err(FOREIGN);
        }
        words::decode::<u64, _>(bytes, tables, Cut::<Self>(PhantomData), slots)
    }

    fn unpack<'s>(header: [u8; 3], bytes: &[u8], slots: &'s mut [Slot<Self>]) -> Decoded<&'s mut [Self]> {
        unpack_first::<u64, _>(header, bytes, slots)
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

    fn push(values: &[Self], _: Plan, pieces: &mut Vec<Piece>) {
        pieces.push(Piece::Bytes(shape::raw(values)));
    }

    fn unpack_words<'s>(_: u8, _: &mut &[u8], _: &[u8], _: &'s mut [Slot<Self>]) -> Decoded<&'s mut [Self]> {
        Err(FOREIGN)
    }

    fn unpack<'s>(_: [u8; 3], _: &[u8], _: &'s mut [Slot<Self>]) -> Decoded<&'s mut [Self]> {
        Err(FOREIGN)
    }
}
