//! Blocks of fixed-size values: which encodings a type knows, and runs and raw values for all of them.
//!
//! A block's body is its header and payload; the body of RUNS holds, past the marks, the body of one value
//! a run, which like any other may be a dictionary: numbers, then the body of the distinct values. Bodies are
//! chosen by size, block by block, within what the chunk's sample proposed.

use super::alp::{self, AlpPlan, Real};
use super::ints::{self, IntPlan, PLACE_BITS};
use super::lane::{self, Lane, with_words};
use super::{Damage, Decoded, HEADER_BYTES, bit, kind, split};
use crate::part::BLOCK_ROWS;
use crate::part::layout::{pad, u16_at};
use crate::part::stats::Measured;

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
pub(in crate::part) trait Value: Measured + Default + Send + Sync + 'static {
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
    fn unpack(header: [u8; 3], bytes: &[u8], values: &mut [Self]) -> Decoded<()>;
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

/// Decodes exactly `values.len()` values (1 to 1,024) from what [`encode`] wrote.
pub(in crate::part) fn decode<V: Value>(bytes: &[u8], values: &mut [V]) -> Decoded<()> {
    let (header, rest) = split(bytes, HEADER_BYTES)?;
    if header[0] != kind::RUNS {
        return decode_flat(bytes, values);
    }
    let runs = usize::from(u16_at(header, 4));
    if runs == 0 || runs > values.len() || values.len() > BLOCK_ROWS {
        return Err(Damage("more runs than values"));
    }
    // The smallest that holds the runs: clearing it is a good part of the work.
    match runs {
        ..65 => decode_runs::<V, 64>(header[1] == 1, runs, rest, values),
        65..257 => decode_runs::<V, 256>(header[1] == 1, runs, rest, values),
        _ => decode_runs::<V, BLOCK_ROWS>(header[1] == 1, runs, rest, values),
    }
}

/// Decodes at most `N` (a power of two) runs.
fn decode_runs<V: Value, const N: usize>(
    as_places: bool,
    runs: usize,
    bytes: &[u8],
    values: &mut [V],
) -> Decoded<()> {
    let mark_bytes =
        if as_places { lane::packed_bytes(PLACE_BITS, runs) } else { values.len().div_ceil(64) * 8 };
    let (marks, rest) = split(bytes, mark_bytes)?;
    let mut heads = [V::default(); N];
    decode_flat(rest, heads.get_mut(..runs).ok_or(Damage("more runs than values"))?)?;
    if as_places {
        spread_places(marks, &heads, runs, values)
    } else {
        spread_bits(marks, &heads, runs, values)
    }
}

/// Few runs are filled one by one; more become bits first.
fn spread_places<V: Value, const N: usize>(
    marks: &[u8],
    heads: &[V; N],
    runs: usize,
    values: &mut [V],
) -> Decoded<()> {
    let mut starts = [0_u32; MOST_PLACES];
    let starts = starts.get_mut(..runs).ok_or(Damage("more run marks than places are used for"))?;
    lane::unpack(PLACE_BITS, marks, 0, starts)?;
    if runs > FILLED_RUNS {
        let mut bits = [0_u8; BLOCK_ROWS / 8];
        for &start in starts.iter() {
            bits[start as usize / 8 % (BLOCK_ROWS / 8)] |= 1 << (start % 8);
        }
        return spread_bits(&bits[..values.len().div_ceil(64) * 8], heads, runs, values);
    }
    let ends = starts.iter().skip(1).map(|&start| start as usize).chain([values.len()]);
    for ((&start, end), &head) in starts.iter().zip(ends).zip(heads) {
        values.get_mut(start as usize..end).ok_or(Damage("runs out of order"))?.fill(head);
    }
    if starts.first() != Some(&0) {
        return Err(Damage("runs that do not begin at the first row"));
    }
    Ok(())
}

/// For each byte of marks: how many are set up to and including each bit.
static MARKS_UP_TO: [[u8; 8]; 256] = marks_up_to();

const fn marks_up_to() -> [[u8; 8]; 256] {
    let mut table = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut place, mut count) = (0, 0);
        while place < 8 {
            count += (byte >> place & 1) as u8;
            table[byte][place] = count;
            place += 1;
        }
        byte += 1;
    }
    table
}

/// Eight rows a step: one addition between steps, and no branch to mispredict whatever the runs.
fn spread_bits<V: Value, const N: usize>(
    marks: &[u8],
    heads: &[V; N],
    runs: usize,
    values: &mut [V],
) -> Decoded<()> {
    let mut before = N - 1;
    for (stretch, &byte) in values.chunks_mut(8).zip(marks) {
        let counts = &MARKS_UP_TO[usize::from(byte)];
        for (value, &count) in stretch.iter_mut().zip(counts) {
            *value = heads[(before + usize::from(count)) % N];
        }
        before += usize::from(counts[7]);
    }
    if !bit(marks, 0) || before + 1 - N != runs {
        return Err(Damage("run marks that do not match the runs"));
    }
    Ok(())
}

fn decode_flat<V: Value>(bytes: &[u8], values: &mut [V]) -> Decoded<()> {
    let (header, rest) = split(bytes, HEADER_BYTES)?;
    if header[0] != kind::DICTIONARY {
        return decode_plain(bytes, values);
    }
    let (width, count) = (usize::from(header[1]), usize::from(u16_at(header, 4)));
    let (packed, rest) = split(rest, lane::packed_bytes(width, values.len()))?;
    match count {
        ..129 => decode_dictionary::<V, 128>(width, count, packed, rest, values),
        _ => decode_dictionary::<V, BLOCK_ROWS>(width, count, packed, rest, values),
    }
}

/// Decodes values by a dictionary of `count` values, at most `N` (a power of two).
fn decode_dictionary<V: Value, const N: usize>(
    width: usize,
    count: usize,
    packed: &[u8],
    bytes: &[u8],
    values: &mut [V],
) -> Decoded<()> {
    let mut distinct = [V::default(); N];
    decode_plain(bytes, distinct.get_mut(..count).ok_or(Damage("a dictionary of too many values"))?)?;
    with_words::<u32>(values.len(), |numbers| {
        lane::unpack(width, packed, 0, numbers)?;
        let mut most = 0;
        for (value, &number) in values.iter_mut().zip(numbers.iter()) {
            most = most.max(number);
            *value = distinct[number as usize % N];
        }
        if most as usize >= count {
            return Err(Damage("a number past its dictionary"));
        }
        Ok(())
    })
}

fn decode_plain<V: Value>(bytes: &[u8], values: &mut [V]) -> Decoded<()> {
    let (header, rest) = split(bytes, HEADER_BYTES)?;
    if header[0] != kind::RAW {
        return V::unpack([header[0], header[1], header[2]], rest, values);
    }
    let (raw, _) = split(rest, values.len() * V::BYTES)?;
    for (value, bytes) in values.iter_mut().zip(raw.chunks_exact(V::BYTES)) {
        *value = V::read_raw(bytes);
    }
    Ok(())
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

fn unpack_words<L: Lane, V: Copy>(
    header: [u8; 3],
    bytes: &[u8],
    values: &mut [V],
    from: impl Fn(L) -> V,
) -> Decoded<()> {
    if header[0] != kind::INTS || values.len() > BLOCK_ROWS {
        return Err(Damage("an encoding this type does not have"));
    }
    with_words::<L>(values.len(), |words| {
        ints::decode(bytes, words)?;
        for (value, &word) in values.iter_mut().zip(words.iter()) {
            *value = from(word);
        }
        Ok(())
    })
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

            fn unpack(header: [u8; 3], bytes: &[u8], values: &mut [Self]) -> Decoded<()> {
                unpack_words(header, bytes, values, |word: $lane| word as $native)
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

            fn unpack(header: [u8; 3], bytes: &[u8], values: &mut [Self]) -> Decoded<()> {
                match header {
                    [kind::ALP, e, f] => alp::decode([e, f], bytes, values),
                    _ => unpack_words(header, bytes, values, |word: u64| Self::from_bits64(word)),
                }
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

    fn unpack(header: [u8; 3], bytes: &[u8], values: &mut [Self]) -> Decoded<()> {
        unpack_words(header, bytes, values, |word: u64| i128::from(word.cast_signed()))
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

    fn unpack(_: [u8; 3], _: &[u8], _: &mut [Self]) -> Decoded<()> {
        Err(Damage("an encoding this type does not have"))
    }
}
