//! Words coded by bins: four streams of bits that are read side by side, so that no look-up waits for the one
//! before it.
//!
//! Word `i` is in stream `i % 4`: the code of its bin, then its distance from the bin's least word, most significant
//! bit first. Two streams share a stretch of bytes: one is read from its front, the other from its back, so that
//! only the stretches' sizes need to be stored. See docs/formats/part.md.
//!
//! Tables are read into look-up tables of 2^`bits` entries; each thread keeps the last few that it used.

use super::bins::{Bin, BinTable, CODE_BITS, DISTANCE_BITS, MAX_BINS, assign_codes};
use super::lane::{Finish, Lane};
use super::simd::{self, Kernel, Simd};
use super::slots::Slot;
use super::varint::{take_byte, take_bytes, take_signed, take_u16, take_varint};
use super::{Damage, Decoded};
use std::cell::RefCell;

/// Streams of a block.
const STREAMS: usize = 4;
/// Bits that a window holds at least after it was filled.
const FILLED: usize = 56;
/// Look-up tables that a thread keeps.
const KEPT: usize = 16;

/// Bits, most significant first.
#[derive(Default)]
struct BitWriter {
    bytes: Vec<u8>,
    pending: u128,
    used: usize,
}

impl BitWriter {
    fn put(&mut self, value: u64, bits: usize) {
        self.pending = self.pending << bits | u128::from(value);
        self.used += bits;
        if self.used >= 64 {
            self.used -= 64;
            let word = (self.pending >> self.used) as u64;
            self.bytes.extend_from_slice(&word.to_be_bytes());
        }
    }

    fn finish(mut self) -> Vec<u8> {
        let bytes = self.used.div_ceil(8);
        let last = (self.pending << (128 - self.used).min(127)) << usize::from(self.used == 0);
        self.bytes.extend_from_slice(&last.to_be_bytes()[..bytes]);
        self.bytes
    }
}

/// Appends words coded by `table`: of each the number of its bin and the distance from that.
pub(super) fn encode(table: &BinTable, words: &[(u8, u64)], out: &mut Vec<u8>) {
    let mut streams: [BitWriter; STREAMS] = Default::default();
    for four in words.chunks(STREAMS) {
        for (stream, (number, distance)) in streams.iter_mut().zip(four) {
            let bin = &table.bins[usize::from(*number)];
            // 66 bits at most: a code and a distance of a word, in two steps where one does not hold them.
            if bin.code_bits + bin.width <= 64 {
                let both = u64::from(bin.code).unbounded_shl(u32::from(bin.width)) | distance;
                stream.put(both, usize::from(bin.code_bits + bin.width));
            } else {
                stream.put(u64::from(bin.code), usize::from(bin.code_bits));
                stream.put(*distance, usize::from(bin.width));
            }
        }
    }
    let [a, b, c, d] = streams.map(BitWriter::finish);
    for stretch in [a.len() + b.len(), c.len() + d.len()] {
        let size = u16::try_from(stretch).expect("512 words of at most 66 bits");
        out.extend_from_slice(&size.to_le_bytes());
    }
    for (front, back) in [(a, b), (c, d)] {
        out.extend_from_slice(&front);
        out.extend(back.iter().rev());
    }
}

/// A table as a decoder uses it.
struct LookUp {
    /// Bits of a stream that are looked up.
    bits: u32,
    /// Most bits of a word.
    most: usize,
    scale: u64,
    /// From the lowest byte: bits of the word, bits of its code, 63 less bits of its distance, its bin.
    entries: [u32; 1 << CODE_BITS],
    /// The least word of each bin.
    lowers: [u64; 256],
}

impl LookUp {
    /// Reads the table at the front of `bytes`.
    fn read(bytes: &[u8]) -> Decoded<Self> {
        let mut bytes = bytes;
        let count = usize::from(take_byte(&mut bytes)?);
        let base = take_signed(&mut bytes)?.cast_unsigned();
        let scale = take_varint(&mut bytes)?;
        if count == 0 || count > MAX_BINS {
            return Err(UNSOUND);
        }
        let mut bins = Vec::with_capacity(count);
        let mut end = 0_u64;
        for _ in 0..count {
            let (width, code_bits) = (take_byte(&mut bytes)?, take_byte(&mut bytes)?);
            let lower = end.wrapping_add(take_varint(&mut bytes)?);
            if usize::from(width) > DISTANCE_BITS || usize::from(code_bits) > CODE_BITS {
                return Err(UNSOUND);
            }
            bins.push(Bin { lower, width, code_bits, code: 0 });
            end = lower.wrapping_add(1);
        }
        let longest = bins.iter().map(|bin| u32::from(bin.code_bits)).max().unwrap_or(0).max(1);
        let codes: u32 = bins.iter().map(|bin| (1 << longest) >> bin.code_bits).sum();
        // A single bin needs no code.
        if codes != 1 << longest && !(count == 1 && codes == 2) {
            return Err(UNSOUND);
        }
        assign_codes(&mut bins);
        let mut found =
            Self { bits: longest, most: 0, scale, entries: [0; 1 << CODE_BITS], lowers: [0; 256] };
        for (number, bin) in bins.iter().enumerate() {
            let word_bits = u32::from(bin.width + bin.code_bits);
            found.most = found.most.max(word_bits as usize);
            found.lowers[number] = base.wrapping_add(bin.lower.wrapping_mul(scale));
            let rest = 63 - u32::from(bin.width);
            let entry = word_bits | u32::from(bin.code_bits) << 8 | rest << 16 | (number as u32) << 24;
            let each = 1_usize << (longest - u32::from(bin.code_bits));
            let first = usize::from(bin.code) * each;
            found.entries.get_mut(first..first + each).ok_or(UNSOUND)?.fill(entry);
        }
        Ok(found)
    }

    #[inline(always)]
    fn entry(&self, window: u64) -> u32 {
        self.entries[(window >> (64 - self.bits)) as usize % (1 << CODE_BITS)]
    }

    /// The word whose distance is at the front of `window`.
    #[inline(always)]
    fn at(&self, entry: u32, window: u64) -> u64 {
        self.above(entry, window >> 1 >> (entry >> 16 & 0x3f))
    }

    /// The word so far above the least of a bin.
    #[inline(always)]
    fn above(&self, entry: u32, distance: u64) -> u64 {
        self.lowers[usize::from((entry >> 24) as u8)].wrapping_add(distance.wrapping_mul(self.scale))
    }
}

const UNSOUND: Damage = Damage("a table of codes that is no such table");

/// A table's bytes, and what they were read into.
struct Kept {
    bytes: Vec<u8>,
    table: LookUp,
}

thread_local! {
    static TABLES: RefCell<[Option<Box<Kept>>; KEPT]> = const { RefCell::new([const { None }; KEPT]) };
}

/// Lends the table at `at` of a chunk's tables. Where the bytes are those of a table that the thread keeps, it is
/// the same table, whatever file they come from.
fn with_table<T>(tables: &[u8], at: usize, work: impl FnOnce(&LookUp) -> Decoded<T>) -> Decoded<T> {
    let mut rest = tables.get(at..).ok_or(UNSOUND)?;
    let size = take_u16(&mut rest)?;
    let bytes = take_bytes(&mut rest, size + 1)?;
    let place = (bytes.as_ptr().addr() / 4) % KEPT;
    TABLES.with_borrow_mut(|kept| {
        let slot = &mut kept[place];
        if let Some(kept) = slot.as_ref().filter(|kept| kept.bytes == bytes) {
            return work(&kept.table);
        }
        let fresh = Box::new(Kept { bytes: bytes.to_vec(), table: LookUp::read(bytes)? });
        work(&slot.insert(fresh).table)
    })
}

/// Decodes as many words as there are slots from the front of `bytes` with the table at `at` of `tables`.
pub(super) fn decode<'s, L: Lane, F: Finish<L>>(
    (tables, at): (&[u8], usize),
    bytes: &mut &[u8],
    finish: F,
    slots: &'s mut [Slot<F::Value>],
) -> Decoded<&'s mut [F::Value]> {
    let sizes = [take_u16(bytes)?, take_u16(bytes)?];
    let stretches = [take_bytes(bytes, sizes[0])?, take_bytes(bytes, sizes[1])?];
    with_table(tables, at, |table| {
        simd::run(Decode { table, stretches, finish, slots, lane: std::marker::PhantomData })
    })
}

/// A stream being read: from the front of its stretch, or from the back.
#[derive(Clone, Copy)]
struct Stream<'a, const BACK: bool> {
    bytes: &'a [u8],
    /// Bits read.
    at: usize,
}

impl<const BACK: bool> Stream<'_, BACK> {
    /// The eight bytes past the first `byte`, the first one uppermost; `None` where there are not as many.
    #[inline(always)]
    fn load(&self, byte: usize) -> Option<u64> {
        if BACK {
            let start = self.bytes.len().wrapping_sub(8 + byte);
            let bytes = self.bytes.get(start..start.wrapping_add(8))?.first_chunk()?;
            Some(u64::from_le_bytes(*bytes))
        } else {
            let bytes = self.bytes.get(byte..byte.wrapping_add(8))?.first_chunk()?;
            Some(u64::from_be_bytes(*bytes))
        }
    }

    /// At least 57 bits from where the stream stands, then others; zeros past its stretch.
    #[inline(always)]
    fn window(&self) -> u64 {
        let byte = self.at / 8;
        self.load(byte).unwrap_or_else(|| self.edge(byte)) << (self.at % 8)
    }

    /// The next word, however wide.
    #[inline(always)]
    fn word(&mut self, table: &LookUp) -> u64 {
        let entry = table.entry(self.window());
        self.at += (entry >> 8 & 0xff) as usize;
        let word = table.at(entry, self.window());
        self.at += (entry & 0xff) as usize - (entry >> 8 & 0xff) as usize;
        word
    }

    /// The last bytes of a stretch.
    #[cold]
    #[inline(never)]
    fn edge(&self, byte: usize) -> u64 {
        let mut last = [0; 8];
        for (number, target) in last.iter_mut().enumerate() {
            let place = byte + number;
            let place = if BACK { self.bytes.len().wrapping_sub(place + 1) } else { place };
            *target = self.bytes.get(place).copied().unwrap_or(0);
        }
        u64::from_be_bytes(last)
    }
}

/// Decodes the words of a block.
struct Decode<'a, 's, L, F: Finish<L>> {
    table: &'a LookUp,
    stretches: [&'a [u8]; 2],
    finish: F,
    slots: &'s mut [Slot<F::Value>],
    lane: std::marker::PhantomData<L>,
}

/// Where the streams of a block stand.
struct Streams<'a> {
    fronts: [Stream<'a, false>; 2],
    backs: [Stream<'a, true>; 2],
}

/// A word off the front of a window, written to a slot; what was read of the window goes.
macro_rules! word {
    ($simd:ident, $table:ident, $finish:ident, $lane:ty, $slot:expr, $window:ident) => {{
        let entry = $simd.scalar(u64::from($table.entry($window))) as u32;
        let distance = $simd.scalar($window << (entry >> 8 & 0xff) >> 1 >> (entry >> 16 & 0x3f));
        $slot.write($finish.finish(<$lane>::from_u64($table.above(entry, distance))));
        $window = $simd.scalar($window << (entry & 0x3f));
    }};
}

/// A word off the front of each window.
macro_rules! four_words {
    ($simd:ident, $table:ident, $finish:ident, $lane:ty, $four:expr, $windows:tt) => {{
        let four = $four;
        four_words!(@each $simd, $table, $finish, $lane, four, $windows);
    }};
    (@each $simd:ident, $table:ident, $finish:ident, $lane:ty, $four:ident, ($a:ident, $b:ident, $c:ident, $d:ident)) => {
        word!($simd, $table, $finish, $lane, $four[0], $a);
        word!($simd, $table, $finish, $lane, $four[1], $b);
        word!($simd, $table, $finish, $lane, $four[2], $c);
        word!($simd, $table, $finish, $lane, $four[3], $d);
    };
}

impl<'a> Streams<'a> {
    fn new(stretches: [&'a [u8]; 2]) -> Self {
        Self {
            fronts: stretches.map(|bytes| Stream { bytes, at: 0 }),
            backs: stretches.map(|bytes| Stream { bytes, at: 0 }),
        }
    }

    /// Writes slots in steps of `STEP`, that is `STEP` / 4 words of each stream without filling in between, until
    /// fewer are left or a stream comes to the last bytes of its stretch; returns how many.
    ///
    /// The lowest bit of a window that was filled is set: how far it has moved up tells how much was read, so
    /// that a stream needs no counter.
    #[inline(always)]
    fn whole<S: Simd, L: Lane, F: Finish<L>, const STEP: usize>(
        &mut self,
        simd: S,
        table: &LookUp,
        finish: F,
        slots: &mut [Slot<F::Value>],
    ) -> usize {
        let ([a, c], [b, d]) = (self.fronts, self.backs);
        let (mut wa, mut wb, mut wc, mut wd) = (1_u64, 1_u64, 1_u64, 1_u64);
        let (mut at_a, mut at_b, mut at_c, mut at_d) = (0, 0, 0, 0);
        let mut done = 0;
        for step in slots.as_chunks_mut::<STEP>().0 {
            let read = |window: u64| window.trailing_zeros() as usize;
            let (ra, rb, rc, rd) = (read(wa), read(wb), read(wc), read(wd));
            let words =
                (a.load(at_a + ra / 8), b.load(at_b + rb / 8), c.load(at_c + rc / 8), d.load(at_d + rd / 8));
            let (Some(na), Some(nb), Some(nc), Some(nd)) = words else { break };
            (at_a, at_b, at_c, at_d) = (at_a + ra / 8, at_b + rb / 8, at_c + rc / 8, at_d + rd / 8);
            wa = simd.scalar((na | 1) << (ra % 8));
            wb = simd.scalar((nb | 1) << (rb % 8));
            wc = simd.scalar((nc | 1) << (rc % 8));
            wd = simd.scalar((nd | 1) << (rd % 8));
            let fours = step.as_chunks_mut::<STREAMS>().0;
            four_words!(simd, table, finish, L, &mut fours[0], (wa, wb, wc, wd));
            if STEP >= 8 {
                four_words!(simd, table, finish, L, &mut fours[1], (wa, wb, wc, wd));
            }
            if STEP >= 16 {
                four_words!(simd, table, finish, L, &mut fours[2], (wa, wb, wc, wd));
                four_words!(simd, table, finish, L, &mut fours[3], (wa, wb, wc, wd));
            }
            done += STEP;
        }
        let read = |at: usize, window: u64| at * 8 + window.trailing_zeros() as usize;
        (self.fronts[0].at, self.fronts[1].at) = (read(at_a, wa), read(at_c, wc));
        (self.backs[0].at, self.backs[1].at) = (read(at_b, wb), read(at_d, wd));
        done
    }

    /// One word of each stream, however wide; of the last few as many as there are slots.
    #[inline(always)]
    fn last<L: Lane, F: Finish<L>>(&mut self, table: &LookUp, finish: F, slots: &mut [Slot<F::Value>]) {
        for (number, slot) in slots.iter_mut().enumerate().take(STREAMS) {
            let word = match number {
                0 => self.fronts[0].word(table),
                1 => self.backs[0].word(table),
                2 => self.fronts[1].word(table),
                _ => self.backs[1].word(table),
            };
            slot.write(finish.finish(L::from_u64(word)));
        }
    }
}

impl<'s, L: Lane, F: Finish<L>> Kernel for Decode<'_, 's, L, F> {
    type Output = Decoded<&'s mut [F::Value]>;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Self::Output {
        let Self { table, stretches, finish, slots, .. } = self;
        let mut streams = Streams::new(stretches);
        let done = if table.most * 4 <= FILLED {
            streams.whole::<S, L, F, 16>(simd, table, finish, slots)
        } else if table.most * 2 <= FILLED {
            streams.whole::<S, L, F, 8>(simd, table, finish, slots)
        } else if table.most <= FILLED {
            streams.whole::<S, L, F, 4>(simd, table, finish, slots)
        } else {
            0
        };
        for four in slots.get_mut(done..).unwrap_or_default().chunks_mut(STREAMS) {
            streams.last::<L, F>(table, finish, four);
        }
        for ((front, back), bytes) in streams.fronts.iter().zip(&streams.backs).zip(stretches) {
            if front.at.div_ceil(8) + back.at.div_ceil(8) != bytes.len() {
                return Err(Damage("coded words that do not fill their bytes"));
            }
        }
        // SAFETY: the first `done` slots were written by `whole`, the others four by four.
        Ok(unsafe { slots.assume_init_mut() })
    }
}
