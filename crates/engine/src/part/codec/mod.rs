//! Encodings of one block: at most 1,024 values to bytes and back.
//!
//! A block is a validity bitmap where some but not all values are NULL, a header that begins with its kind, and
//! the payload of that kind (see docs/formats/part.md). Kinds below 16 are of format 1, of which raw values, bits,
//! text and NULLs are written to this day. The number of values is known
//! from the block's place and stands nowhere in it. What is decoded is untrusted: a decoder checks
//! every length and reports [`Damage`]; it never panics and never reads past its block.
//!
//! - `lane`: bit packing of 32- and 64-bit words; - `ints`: constant, frame of reference, delta;
//! - `alp`: doubles that are decimals at heart; - `value`: which of them a type uses, runs, raw;
//! - `words`: integers of format 2; - `bins`, `prefix`: words coded by how frequent they are;
//! - `shape`: what a block is made of, and coding of blocks together; - `varint`: small numbers;
//! - `text`: strings and binary; - `slots`: memory to be filled; - `simd`: the processor's vectors;
//! - `marks`: values placed by one bit a row; - `plain`: work on packed words without decoding them;
//! - `steps`: sums of differences; - `measure`: sums and ranges of decoded values.

pub(super) mod alp;
mod bins;
pub(super) mod ints;
pub(super) mod lane;
mod marks;
mod measure;
pub(super) mod plain;
mod prefix;
pub(super) mod runs;
pub(super) mod shape;
pub(super) mod simd;
pub(super) mod slots;
pub(super) mod steps;
pub(super) mod text;
pub(super) mod value;
pub(super) mod varint;
pub(super) mod words;

/// What does not hold in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Damage(pub(super) &'static str);

/// The result of decoding.
pub(super) type Decoded<T> = std::result::Result<T, Damage>;

/// Bytes of a block's header.
pub(super) const HEADER_BYTES: usize = 8;

/// The kinds of block, the first byte of a header.
pub(super) mod kind {
    /// Values as they are.
    pub(in crate::part) const RAW: u8 = 0;
    /// Integers: constant, frame of reference or delta (see `ints`).
    pub(in crate::part) const INTS: u8 = 1;
    /// Doubles as decimal integers (see `alp`).
    pub(in crate::part) const ALP: u8 = 2;
    /// One value for each run of equal values.
    pub(in crate::part) const RUNS: u8 = 3;
    /// Booleans, one bit each.
    pub(in crate::part) const BITS: u8 = 4;
    /// Strings or binary, bytes as they are.
    pub(in crate::part) const TEXT: u8 = 5;
    /// Strings or binary, bytes compressed by zstd.
    pub(in crate::part) const TEXT_ZSTD: u8 = 6;
    /// Every value is NULL: no bitmap, no payload.
    pub(in crate::part) const NULLS: u8 = 7;
    /// Each distinct value once, and its number for each value.
    pub(in crate::part) const DICTIONARY: u8 = 8;
    /// Format 2: integers (see `words`).
    pub(in crate::part) const WORDS: u8 = 16;
    /// Format 2: doubles as decimal integers (see `alp`).
    pub(in crate::part) const DECIMALS: u8 = 17;
    /// Format 2: lengths of runs, then one value for each.
    pub(in crate::part) const RUN_LENGTHS: u8 = 18;
    /// Format 2: numbers of values, then each distinct value once.
    pub(in crate::part) const NUMBERED: u8 = 19;
    /// Format 2: strings or binary, bytes as they are.
    pub(in crate::part) const STRINGS: u8 = 20;
    /// Format 2: strings or binary, bytes compressed by zstd.
    pub(in crate::part) const STRINGS_ZSTD: u8 = 21;
    /// Format 2: one bit a row, set where a run begins, then one value for each.
    pub(in crate::part) const RUN_MARKS: u8 = 23;
    /// Format 2: distances from the designated timestamps of the same rows; a body of these follows.
    pub(in crate::part) const SINCE: u8 = 22;

    /// Format 4: lengths of arrays, then blocks of their elements (see `part/arrays`).
    pub(in crate::part) const ARRAYS: u8 = 24;

    /// Whether a kind is one of text.
    pub(in crate::part) fn is_text(kind: u8) -> bool {
        matches!(kind, TEXT | TEXT_ZSTD | STRINGS | STRINGS_ZSTD)
    }
}

/// Splits `bytes` at `at`; an error where it is shorter.
pub(super) fn split(bytes: &[u8], at: usize) -> Decoded<(&[u8], &[u8])> {
    bytes.split_at_checked(at).ok_or(Damage("a block ends before its values do"))
}

/// Bit `index` of a bitmap, least significant first; false past its end.
pub(super) fn bit(bitmap: &[u8], index: usize) -> bool {
    bitmap.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1)
}

#[cfg(test)]
mod tests;
