//! Decoding for the processor at hand: which vectors it has, and the steps that plain loops do not get from
//! the compiler.
//!
//! A [`Kernel`] is a plain loop. [`run`] compiles it once for each [`Simd`] and takes the best that the
//! processor has, so that the same source becomes code for 16, 32 and 64 bytes at once. A `Simd` is a token:
//! having one proves that the processor has its instructions. The portable one is what the others must equal.

use super::slots::{Plain, Slot};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Words that are unpacked or summed up in one go.
pub(in crate::part) const STEP: usize = 64;

/// Bytes of a row of packed words in a full block: as many words as there are lanes.
pub(in crate::part) const ROW_BYTES: usize = 128;

/// Widest words of which each lies within eight bytes, wherever it begins.
pub(super) const SHIFTED_BITS: usize = 57;

/// Rows of a step that marks place values in: those of a byte of marks.
pub(super) const MARKED_ROWS: usize = 8;

/// Values to be read past the last one that marks place.
pub(super) const PADDING: usize = MARKED_ROWS;

/// What a processor has, from little to much. That of another kind has one level: what every processor of its kind has,
/// NEON on aarch64, the compiler uses in plain loops unasked.
#[cfg(any(target_arch = "x86_64", test))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// What every processor of its kind has.
    Portable,
    /// Vectors of 32 bytes.
    Avx2,
    /// Vectors of 64 bytes, permuted by bytes.
    Avx512,
}

#[cfg(any(target_arch = "x86_64", test))]
static DETECTED: std::sync::LazyLock<Level> = std::sync::LazyLock::new(detect);

#[cfg(target_arch = "x86_64")]
fn detect() -> Level {
    let avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("popcnt");
    let avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vbmi");
    match (avx2, avx512) {
        (true, true) => Level::Avx512,
        (true, false) => Level::Avx2,
        _ => Level::Portable,
    }
}

#[cfg(all(not(target_arch = "x86_64"), test))]
fn detect() -> Level {
    Level::Portable
}

#[cfg(test)]
thread_local! {
    static FORCED: std::cell::Cell<Option<Level>> = const { std::cell::Cell::new(None) };
}

/// Runs `work` once with each level that the processor has.
#[cfg(test)]
pub(super) fn with_each_level(mut work: impl FnMut(Level)) {
    for level in [Level::Portable, Level::Avx2, Level::Avx512] {
        if level as u8 <= *DETECTED as u8 {
            FORCED.set(Some(level));
            work(level);
            FORCED.set(None);
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn level() -> Level {
    #[cfg(test)]
    if let Some(level) = FORCED.get() {
        return level;
    }
    *DETECTED
}

/// A loop that is compiled for each [`Simd`].
pub(super) trait Kernel {
    type Output;
    /// Must be `#[inline(always)]`: it becomes part of the function that is compiled for `simd`.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// Runs a kernel with the best that the processor has.
#[inline]
pub(super) fn run<K: Kernel>(kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    match level() {
        // SAFETY: the level says that the processor has AVX2, BMI and POPCNT, and the AVX-512 named.
        Level::Avx512 => return unsafe { run_avx512(kernel) },
        // SAFETY: the level says that the processor has AVX2, BMI and POPCNT.
        Level::Avx2 => return unsafe { run_avx2(kernel) },
        Level::Portable => {}
    }
    kernel.run(Portable(()))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,avx512f,avx512dq,avx512vl,avx512bw,avx512vbmi")]
fn run_avx512<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Avx512(()))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn run_avx2<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Avx2(()))
}

/// Bytes that a processor fetches at once.
const LINE_BYTES: usize = 64;

/// Asks for bytes before they are read.
#[inline(always)]
pub(in crate::part) fn prefetch(bytes: &[u8]) {
    for line in bytes.chunks(LINE_BYTES) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a hint, which reads nothing; every processor of this kind has it.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line;
    }
}

/// Two rows of packed words of a full block.
pub(in crate::part) type Rows<'a> = [&'a [u8; ROW_BYTES]; 2];

/// The steps that a compiler does not find by itself; what is given here is the portable way.
pub(in crate::part) trait Simd: Copy {
    /// Unpacks one word of each lane: what begins `shift` bits from the right in a word of the first row, and
    /// goes on in the second one. Where it does not, the second row is the first.
    #[inline(always)]
    fn unpack_row_u64(self, packed: Rows<'_>, shift: usize, mask: u64, words: &mut [u64; ROW_BYTES / 8]) {
        let [low, high] = packed.map(|row| row.as_chunks::<8>().0);
        let (right, left) = (shift as u32, (64 - shift) as u32);
        for ((word, low), high) in words.iter_mut().zip(low).zip(high) {
            let (low, high) = (u64::from_le_bytes(*low), u64::from_le_bytes(*high));
            *word = (low.wrapping_shr(right) | high.wrapping_shl(left)) & mask;
        }
    }

    /// As [`Self::unpack_row_u64`].
    #[inline(always)]
    fn unpack_row_u32(self, packed: Rows<'_>, shift: usize, mask: u32, words: &mut [u32; ROW_BYTES / 4]) {
        let [low, high] = packed.map(|row| row.as_chunks::<4>().0);
        let (right, left) = (shift as u32, (32 - shift) as u32);
        for ((word, low), high) in words.iter_mut().zip(low).zip(high) {
            let (low, high) = (u32::from_le_bytes(*low), u32::from_le_bytes(*high));
            *word = (low.wrapping_shr(right) | high.wrapping_shl(left)) & mask;
        }
    }

    /// Unpacks `count` (at most [`STEP`]) words of `width` (1 to [`SHIFTED_BITS`]) bits, packed one after the
    /// other from the first bit of `packed` on; past its end are zeros. Higher bits of the words are not
    /// cleared.
    #[inline(always)]
    fn unpack_step(self, width: usize, packed: &[u8], _count: usize, words: &mut [u64; STEP]) {
        let mut copy = [0; STEP * SHIFTED_BITS / 8 + 8];
        let held = packed.len().min(copy.len());
        let source = if held < width * (STEP / 8) + 8 {
            copy[..held].copy_from_slice(&packed[..held]);
            &copy
        } else {
            packed
        };
        for (index, word) in words.iter_mut().enumerate() {
            let at = index * width;
            let bytes = source.get(at / 8..at / 8 + 8).and_then(|bytes| bytes.try_into().ok());
            *word = bytes.map_or(0, u64::from_le_bytes) >> (at % 8);
        }
    }

    /// Makes each word the sum of itself, those before it and `before`; returns the last.
    #[inline(always)]
    fn sums_u64(self, before: u64, words: &mut [u64; STEP]) -> u64 {
        let mut sum = before;
        for four in words.as_chunks_mut::<4>().0 {
            // Three of the sums do not wait for the words before these.
            let (two, three) = (four[0].wrapping_add(four[1]), four[2].wrapping_add(four[3]));
            let third = two.wrapping_add(four[2]);
            let all = two.wrapping_add(three);
            *four = [four[0], two, third, all].map(|part| sum.wrapping_add(part));
            sum = four[3];
        }
        sum
    }

    /// As [`Self::sums_u64`].
    #[inline(always)]
    fn sums_u32(self, before: u32, words: &mut [u32; STEP]) -> u32 {
        let mut sum = before;
        for word in words {
            sum = sum.wrapping_add(*word);
            *word = sum;
        }
        sum
    }

    /// The values of a window that rows with these marks have: the first row the first value, and each marked
    /// row after it the next one.
    #[inline(always)]
    fn spread<T: Plain>(self, marks: u8, window: &[T; MARKED_ROWS], rows: &mut [Slot<T>; MARKED_ROWS]) {
        for (row, &place) in rows.iter_mut().zip(&MARKS_AFTER_FIRST[usize::from(marks)]) {
            row.write(window[usize::from(place) % MARKED_ROWS]);
        }
    }

    /// The word itself, in a register of its own: keeps the compiler from gathering in vectors what chains of
    /// look-ups do faster one by one.
    #[inline(always)]
    fn scalar(self, word: u64) -> u64 {
        word
    }

    /// Puts the first values of a window, one after the other, in the marked rows.
    #[inline(always)]
    fn expand<T: Plain>(self, marks: u8, window: &[T; MARKED_ROWS], rows: &mut [T; MARKED_ROWS]) {
        let mut left = marks;
        for &value in window.iter().take(marks.count_ones() as usize) {
            rows[left.trailing_zeros() as usize % MARKED_ROWS] = value;
            left &= left.wrapping_sub(1);
        }
    }
}

/// For each byte of marks: how many are set after the first bit, up to and including each bit.
static MARKS_AFTER_FIRST: [[u8; MARKED_ROWS]; 256] = marks_after_first();

const fn marks_after_first() -> [[u8; MARKED_ROWS]; 256] {
    let mut table = [[0; MARKED_ROWS]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut place, mut count) = (1, 0);
        while place < MARKED_ROWS {
            count += (byte >> place & 1) as u8;
            table[byte][place] = count;
            place += 1;
        }
        byte += 1;
    }
    table
}

/// Nothing special.
#[derive(Debug, Clone, Copy)]
pub(super) struct Portable(());

impl Simd for Portable {}

/// The processor has AVX2, BMI and POPCNT.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy)]
pub(super) struct Avx2(());

#[cfg(target_arch = "x86_64")]
impl Simd for Avx2 {
    #[inline(always)]
    fn scalar(self, word: u64) -> u64 {
        in_register(word)
    }

    #[inline(always)]
    fn unpack_row_u64(self, packed: Rows<'_>, shift: usize, mask: u64, words: &mut [u64; ROW_BYTES / 8]) {
        // SAFETY: the token says that the processor has these.
        unsafe { unpack_row_u64_avx2(packed, shift, mask, words) }
    }

    #[inline(always)]
    fn unpack_row_u32(self, packed: Rows<'_>, shift: usize, mask: u32, words: &mut [u32; ROW_BYTES / 4]) {
        // SAFETY: the token says that the processor has these.
        unsafe { unpack_row_u32_avx2(packed, shift, mask, words) }
    }

    #[inline(always)]
    fn spread<T: Plain>(self, marks: u8, window: &[T; MARKED_ROWS], rows: &mut [Slot<T>; MARKED_ROWS]) {
        match size_of::<T>() {
            // SAFETY: the token says that the processor has AVX2; both sides are eight values of eight bytes.
            8 => unsafe { spread_eight_bytes_avx2(marks, window.as_ptr().cast(), rows.as_mut_ptr().cast()) },
            // SAFETY: the token says that the processor has AVX2; both sides are eight values of four bytes.
            4 => unsafe { spread_four_bytes_avx2(marks, window.as_ptr().cast(), rows.as_mut_ptr().cast()) },
            _ => Portable(()).spread(marks, window, rows),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn in_register(word: u64) -> u64 {
    let mut word = word;
    // SAFETY: no instruction at all; it only names a register.
    unsafe {
        std::arch::asm!("/* {0} */", inout(reg) word, options(pure, nomem, nostack, preserves_flags));
    }
    word
}

/// The processor has what [`Avx2`] says, and AVX-512 with words, bytes, shorter vectors and byte permutes.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy)]
pub(super) struct Avx512(());

#[cfg(target_arch = "x86_64")]
impl Simd for Avx512 {
    #[inline(always)]
    fn scalar(self, word: u64) -> u64 {
        in_register(word)
    }

    #[inline(always)]
    fn unpack_row_u64(self, packed: Rows<'_>, shift: usize, mask: u64, words: &mut [u64; ROW_BYTES / 8]) {
        // SAFETY: the token says that the processor has these.
        unsafe { unpack_row_u64_avx512(packed, shift, mask, words) }
    }

    #[inline(always)]
    fn unpack_row_u32(self, packed: Rows<'_>, shift: usize, mask: u32, words: &mut [u32; ROW_BYTES / 4]) {
        // SAFETY: the token says that the processor has these.
        unsafe { unpack_row_u32_avx512(packed, shift, mask, words) }
    }

    #[inline(always)]
    fn unpack_step(self, width: usize, packed: &[u8], count: usize, words: &mut [u64; STEP]) {
        // SAFETY: the token says that the processor has these.
        unsafe { unpack_step_avx512(width, packed, count, words) }
    }

    #[inline(always)]
    fn sums_u64(self, before: u64, words: &mut [u64; STEP]) -> u64 {
        // SAFETY: the token says that the processor has these.
        unsafe { sums_u64_avx512(before, words) }
    }

    #[inline(always)]
    fn spread<T: Plain>(self, marks: u8, window: &[T; MARKED_ROWS], rows: &mut [Slot<T>; MARKED_ROWS]) {
        match size_of::<T>() {
            // SAFETY: the token says that the processor has AVX-512; both sides are eight values of eight bytes.
            8 => unsafe {
                spread_eight_bytes_avx512(marks, window.as_ptr().cast(), rows.as_mut_ptr().cast())
            },
            _ => Avx2(()).spread(marks, window, rows),
        }
    }

    #[inline(always)]
    fn expand<T: Plain>(self, marks: u8, window: &[T; MARKED_ROWS], rows: &mut [T; MARKED_ROWS]) {
        match size_of::<T>() {
            // SAFETY: the token says that the processor has AVX-512; both sides are eight values of eight bytes.
            8 => unsafe {
                expand_eight_bytes_avx512(marks, window.as_ptr().cast(), rows.as_mut_ptr().cast())
            },
            // SAFETY: the token says that the processor has AVX-512; both sides are eight values of four bytes.
            4 => unsafe { expand_four_bytes_avx512(marks, window.as_ptr().cast(), rows.as_mut_ptr().cast()) },
            _ => Portable(()).expand(marks, window, rows),
        }
    }
}

/// Eight words are as many bytes as one has bits, so each eight begin at a byte and lie alike: one permute by
/// bytes brings each to its place, one shift to its first bit.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,avx512f,avx512dq,avx512vl,avx512bw,avx512vbmi")]
fn unpack_step_avx512(width: usize, packed: &[u8], count: usize, words: &mut [u64; STEP]) {
    let bits = _mm512_mullo_epi64(_mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7), _mm512_set1_epi64(width as i64));
    // The number of the first byte in each byte of a word, plus 0 to 7: at most 7 * 57 / 8 + 7 = 56.
    let each_byte = _mm512_set1_epi64(0x0101_0101_0101_0101);
    let bytes = _mm512_mullo_epi64(_mm512_srli_epi64::<3>(bits), each_byte);
    let bytes = _mm512_add_epi64(bytes, _mm512_set1_epi64(0x0706_0504_0302_0100));
    let shifts = _mm512_and_si512(bits, _mm512_set1_epi64(7));
    for (group, target) in words.as_chunks_mut::<8>().0.iter_mut().take(count.div_ceil(8)).enumerate() {
        let rest = packed.get(group * width..).unwrap_or_default();
        let held = if rest.len() < 64 { (1 << rest.len()) - 1 } else { u64::MAX };
        // SAFETY: only the bytes that `rest` has are read, the others are masked.
        let source = unsafe { _mm512_maskz_loadu_epi8(held, rest.as_ptr().cast()) };
        let found = _mm512_srlv_epi64(_mm512_permutexvar_epi8(bytes, source), shifts);
        // SAFETY: `target` has eight words.
        unsafe { _mm512_storeu_si512(target.as_mut_ptr().cast(), found) };
    }
}

/// Sums in a vector by three shifts, then on top the last of the sums before: what each vector waits for is one
/// addition.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
fn sums_u64_avx512(before: u64, words: &mut [u64; STEP]) -> u64 {
    let mut sum = _mm512_set1_epi64(before.cast_signed());
    let (zero, last) = (_mm512_setzero_si512(), _mm512_set1_epi64(7));
    for eight in words.as_chunks_mut::<8>().0 {
        // SAFETY: `eight` are eight words.
        let mut part = unsafe { _mm512_loadu_si512(eight.as_ptr().cast()) };
        part = _mm512_add_epi64(part, _mm512_alignr_epi64::<7>(part, zero));
        part = _mm512_add_epi64(part, _mm512_alignr_epi64::<6>(part, zero));
        part = _mm512_add_epi64(part, _mm512_alignr_epi64::<4>(part, zero));
        // SAFETY: `eight` are eight words.
        unsafe { _mm512_storeu_si512(eight.as_mut_ptr().cast(), _mm512_add_epi64(sum, part)) };
        sum = _mm512_add_epi64(sum, _mm512_permutexvar_epi64(last, part));
    }
    words[STEP - 1]
}

/// # Safety
/// `window` is eight words, `rows` room for eight.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn spread_eight_bytes_avx512(marks: u8, window: *const __m512i, rows: *mut __m512i) {
    let places = &MARKS_AFTER_FIRST[usize::from(marks)];
    // SAFETY: `places` are eight bytes; the rest the caller says.
    unsafe {
        let places = _mm512_cvtepu8_epi64(_mm_loadl_epi64(places.as_ptr().cast()));
        _mm512_storeu_si512(rows, _mm512_permutexvar_epi64(places, _mm512_loadu_si512(window)));
    }
}

/// # Safety
/// `window` is eight words, `rows` room for eight.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn spread_four_bytes_avx2(marks: u8, window: *const __m256i, rows: *mut __m256i) {
    let places = &MARKS_AFTER_FIRST[usize::from(marks)];
    // SAFETY: `places` are eight bytes; the rest the caller says.
    unsafe {
        let places = _mm256_cvtepu8_epi32(_mm_loadl_epi64(places.as_ptr().cast()));
        _mm256_storeu_si256(rows, _mm256_permutevar8x32_epi32(_mm256_loadu_si256(window), places));
    }
}

/// For each four marks: the halves of the words that four rows have, the first row the first word.
#[cfg(target_arch = "x86_64")]
static HALVES_AFTER_FIRST: [[u32; 8]; 16] = halves_after_first();

#[cfg(target_arch = "x86_64")]
const fn halves_after_first() -> [[u32; 8]; 16] {
    let (mut table, counts) = ([[0; 8]; 16], marks_after_first());
    let mut marks = 0;
    while marks < 16 {
        let mut half = 0;
        while half < 8 {
            table[marks][half] = counts[marks][half / 2] as u32 * 2 + half as u32 % 2;
            half += 1;
        }
        marks += 1;
    }
    table
}

/// # Safety
/// `window` is eight words, `rows` room for eight.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn spread_eight_bytes_avx2(marks: u8, window: *const u64, rows: *mut __m256i) {
    let marks = usize::from(marks);
    // The word that the fifth row has: the last of four at most, so that four more begin there.
    let fifth = usize::from(MARKS_AFTER_FIRST[marks][4]);
    let (low, high) = (&HALVES_AFTER_FIRST[marks % 16], &HALVES_AFTER_FIRST[marks / 16]);
    // SAFETY: the tables' rows are eight halves, `fifth` is at most 4; the rest the caller says.
    unsafe {
        let four = _mm256_loadu_si256(window.cast());
        let places = _mm256_loadu_si256(low.as_ptr().cast());
        _mm256_storeu_si256(rows, _mm256_permutevar8x32_epi32(four, places));
        let four = _mm256_loadu_si256(window.add(fifth).cast());
        let places = _mm256_loadu_si256(high.as_ptr().cast());
        _mm256_storeu_si256(rows.add(1), _mm256_permutevar8x32_epi32(four, places));
    }
}

/// # Safety
/// `window` and `rows` are eight words each.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn expand_eight_bytes_avx512(marks: u8, window: *const __m512i, rows: *mut __m512i) {
    // SAFETY: the caller says it.
    unsafe {
        let found = _mm512_mask_expand_epi64(_mm512_loadu_si512(rows), marks, _mm512_loadu_si512(window));
        _mm512_storeu_si512(rows, found);
    }
}

/// # Safety
/// `window` and `rows` are eight words each.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
unsafe fn expand_four_bytes_avx512(marks: u8, window: *const __m256i, rows: *mut __m256i) {
    // SAFETY: the caller says it.
    unsafe {
        let found = _mm256_mask_expand_epi32(_mm256_loadu_si256(rows), marks, _mm256_loadu_si256(window));
        _mm256_storeu_si256(rows, found);
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn unpack_row_u64_avx2(packed: Rows<'_>, shift: usize, mask: u64, words: &mut [u64; ROW_BYTES / 8]) {
    let mask = _mm256_set1_epi64x(mask.cast_signed());
    // Shifts by all bits of a word leave nothing of it.
    let (right, left) = (_mm_cvtsi64_si128(shift as i64), _mm_cvtsi64_si128(64 - shift as i64));
    for at in (0..ROW_BYTES).step_by(32) {
        // SAFETY: both rows and the words are a whole number of vectors.
        unsafe {
            let low = _mm256_loadu_si256(packed[0].as_ptr().add(at).cast());
            let high = _mm256_loadu_si256(packed[1].as_ptr().add(at).cast());
            let both = _mm256_or_si256(_mm256_srl_epi64(low, right), _mm256_sll_epi64(high, left));
            let target = words.as_mut_ptr().cast::<u8>().add(at).cast();
            _mm256_storeu_si256(target, _mm256_and_si256(both, mask));
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn unpack_row_u32_avx2(packed: Rows<'_>, shift: usize, mask: u32, words: &mut [u32; ROW_BYTES / 4]) {
    let mask = _mm256_set1_epi32(mask.cast_signed());
    // Shifts by all bits of a word leave nothing of it.
    let (right, left) = (_mm_cvtsi64_si128(shift as i64), _mm_cvtsi64_si128(32 - shift as i64));
    for at in (0..ROW_BYTES).step_by(32) {
        // SAFETY: both rows and the words are a whole number of vectors.
        unsafe {
            let low = _mm256_loadu_si256(packed[0].as_ptr().add(at).cast());
            let high = _mm256_loadu_si256(packed[1].as_ptr().add(at).cast());
            let both = _mm256_or_si256(_mm256_srl_epi32(low, right), _mm256_sll_epi32(high, left));
            let target = words.as_mut_ptr().cast::<u8>().add(at).cast();
            _mm256_storeu_si256(target, _mm256_and_si256(both, mask));
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
fn unpack_row_u64_avx512(packed: Rows<'_>, shift: usize, mask: u64, words: &mut [u64; ROW_BYTES / 8]) {
    let mask = _mm512_set1_epi64(mask.cast_signed());
    // Shifts by all bits of a word leave nothing of it.
    let (right, left) = (_mm_cvtsi64_si128(shift as i64), _mm_cvtsi64_si128(64 - shift as i64));
    for at in (0..ROW_BYTES).step_by(64) {
        // SAFETY: both rows and the words are a whole number of vectors.
        unsafe {
            let low = _mm512_loadu_si512(packed[0].as_ptr().add(at).cast());
            let high = _mm512_loadu_si512(packed[1].as_ptr().add(at).cast());
            let both = _mm512_or_si512(_mm512_srl_epi64(low, right), _mm512_sll_epi64(high, left));
            let target = words.as_mut_ptr().cast::<u8>().add(at).cast();
            _mm512_storeu_si512(target, _mm512_and_si512(both, mask));
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
fn unpack_row_u32_avx512(packed: Rows<'_>, shift: usize, mask: u32, words: &mut [u32; ROW_BYTES / 4]) {
    let mask = _mm512_set1_epi32(mask.cast_signed());
    // Shifts by all bits of a word leave nothing of it.
    let (right, left) = (_mm_cvtsi64_si128(shift as i64), _mm_cvtsi64_si128(32 - shift as i64));
    for at in (0..ROW_BYTES).step_by(64) {
        // SAFETY: both rows and the words are a whole number of vectors.
        unsafe {
            let low = _mm512_loadu_si512(packed[0].as_ptr().add(at).cast());
            let high = _mm512_loadu_si512(packed[1].as_ptr().add(at).cast());
            let both = _mm512_or_si512(_mm512_srl_epi32(low, right), _mm512_sll_epi32(high, left));
            let target = words.as_mut_ptr().cast::<u8>().add(at).cast();
            _mm512_storeu_si512(target, _mm512_and_si512(both, mask));
        }
    }
}
