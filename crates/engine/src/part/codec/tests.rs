//! Each encoding by itself: what goes in comes out, and random bytes never panic.
//!
//! Miri takes thousands of times as long: it gets fewer widths and cases, none of the tests whose time goes into
//! choosing encodings, and none of zstd, which is C.

use super::lane::{Lane, Same};
use super::shape::{Coder, Piece, pieces};
use super::slots::{Slot, scratch};
use super::value::{Plan, Value};
use super::*;
use crate::part::{BLOCK_ROWS, Density};
use proptest::prelude::*;
use std::fmt::Debug;

/// Property tests have so many cases, or as many as `PROPTEST_CASES` says under Miri.
fn cases(count: u32) -> ProptestConfig {
    if cfg!(miri) { ProptestConfig::default() } else { ProptestConfig::with_cases(count) }
}

/// Every width up to `most` bits; under Miri those at the edges, and some between.
pub(super) fn widths(most: usize) -> impl Iterator<Item = usize> {
    let edges = [0, 1, 7, 8, 9, 31, 32, 33, 57, 58, 63, 64];
    (0..=most).filter(move |width| !cfg!(miri) || edges.contains(width))
}

/// All of them; the first one under Miri.
pub(super) fn few<T>(all: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    all.into_iter().take(if cfg!(miri) { 1 } else { usize::MAX })
}

/// Slots for the values of a block.
fn slots<T>(rows: usize) -> Vec<Slot<T>> {
    scratch::<T, BLOCK_ROWS>().into_iter().take(rows).collect()
}

/// Encodes blocks of values that share a plan and tables; gives the bodies and the tables.
fn encode<V: Value>(values: &[V]) -> (Vec<Vec<u8>>, Vec<u8>) {
    let plan = Plan::of(&[values[..values.len().min(1_536)].to_vec()], values.len(), Density::Dense);
    let blocks: Vec<Vec<Piece>> = values.chunks(BLOCK_ROWS).map(|block| pieces(block, plan)).collect();
    let mut coder = Coder::new(Density::Dense);
    (coder.encode(&blocks), coder.tables)
}

/// Encodes, decodes at each level, and gives the kind chosen first and the size, tables included.
fn check<V: Value + Debug>(values: &[V]) -> (u8, usize) {
    let (bodies, tables) = encode(values);
    for (body, written) in bodies.iter().zip(values.chunks(BLOCK_ROWS)) {
        simd::with_each_level(|level| {
            let mut slots = slots(written.len());
            let read = value::decode::<V>(body, &tables, &mut slots).unwrap();
            for (row, (read, written)) in read.iter().zip(written).enumerate() {
                assert!(read.same(*written), "{level:?} row {row}: {read:?} for {written:?}");
            }
        });
    }
    (bodies[0][0], bodies.iter().map(Vec::len).sum::<usize>() + tables.len())
}

/// Decodes what may be damaged: the same at each level.
fn check_any<V: Value + Debug>(bytes: &[u8], tables: &[u8], rows: usize) {
    let mut first: Option<Decoded<Vec<V>>> = None;
    simd::with_each_level(|level| {
        let mut slots = slots(rows);
        let read = value::decode::<V>(bytes, tables, &mut slots).map(|values| values.to_vec());
        let Some(first) = &first else { return first = Some(read) };
        let same = match (first, &read) {
            (Ok(first), Ok(read)) => first.iter().zip(read).all(|(first, read)| first.same(*read)),
            (first, read) => first.is_err() && read.is_err(),
        };
        assert!(same, "{level:?}: {read:?} for {first:?}");
    });
}

/// What versions wrote that kept the bits of every NaN.
#[test]
#[cfg_attr(miri, ignore = "chooses encodings for long")]
fn every_nan_that_was_stored_is_read_as_the_one() {
    let others = [u64::MAX, u64::MAX >> 1, 0xfff8 << 48, 0x7ff0 << 48 | 1, 0x7ff8 << 48 | 7];
    let rare =
        |row: usize| if row % 50 == 7 { f64::from_bits(others[row / 50 % 5]) } else { row as f64 / 4.0 };
    let often = |row: usize| if row % 2 == 1 { f64::from_bits(others[row % 5]) } else { (row as f64).sqrt() };
    let blocks: [Vec<f64>; 4] = [
        (0..1_024).map(rare).collect(),
        (0..1_024).map(often).collect(),
        vec![f64::from_bits(u64::MAX); 1_024],
        (0..1_024).map(|row| f64::from_bits(others[row / 300])).collect(),
    ];
    for values in blocks {
        let (bodies, tables) = encode(&values);
        simd::with_each_level(|level| {
            let mut slots = slots(values.len());
            let read = value::decode::<f64>(&bodies[0], &tables, &mut slots).unwrap();
            for (read, written) in read.iter().zip(&values) {
                let wanted = if written.is_nan() { f64::NAN } else { *written };
                assert_eq!(read.to_bits(), wanted.to_bits(), "{level:?}");
            }
        });
    }
    let floats: Vec<f32> =
        (0..1_024_u16).map(|row| if row % 3 == 0 { -f32::NAN } else { f32::from(row) }).collect();
    let (bodies, tables) = encode(&floats);
    let mut slots = slots(floats.len());
    let read = value::decode::<f32>(&bodies[0], &tables, &mut slots).unwrap();
    assert!(read.iter().all(|read| !read.is_nan() || read.to_bits() == f32::NAN.to_bits()));
}

#[test]
fn constants_take_little_more_than_their_value() {
    assert_eq!(check(&[7_i64; 1_024]), (kind::WORDS, 3));
    assert_eq!(check(&[f64::NAN; 1_024]).0, kind::WORDS);
    assert!(check(&[f64::NAN; 1_024]).1 <= 12);
    assert!(check(&[-0.0_f32; 5]).1 <= 12);
}

#[test]
#[cfg_attr(miri, ignore = "chooses encodings for long")]
fn prices_and_sizes_are_decimals() {
    let prices: Vec<f64> = (0..1_024).map(|i| 61_234.5 + f64::from(i * 7 % 100) / 100.0).collect();
    let (kind, size) = check(&prices);
    assert_eq!(kind, kind::DECIMALS);
    assert!(size < 1_100, "{size} bytes for 7 bits a value");
    let sizes: Vec<f64> = (0..1_024_u64).map(|i| (i * 982_451_653 % 1_000_000_000) as f64 / 1e8).collect();
    let (kind, size) = check(&sizes);
    assert_eq!(kind, kind::DECIMALS);
    assert!(size < 4_100, "{size} bytes for 30 bits a value");
    let floats: Vec<f32> = (0..1_024_u16).map(|i| f32::from(i % 500) / 100.0).collect();
    assert_eq!(check(&floats).0, kind::DECIMALS);
}

#[test]
#[cfg_attr(miri, ignore = "chooses encodings for long")]
fn sequence_numbers_and_times_are_differences() {
    let ids: Vec<u64> = (0..1_024).map(|i| 9_000_000_000 + i * 3).collect();
    assert!(check(&ids).1 < 64);
    let times: Vec<i64> =
        (0..1_024).map(|i: i64| 1_700_000_000_000_000_000 + i * 1_000_000_000 + i % 7).collect();
    assert!(check(&times).1 < 700);
    // Whole milliseconds in nanoseconds.
    let millis: Vec<i64> = (0..1_024_i64).map(|i| (1_723_161_241_000 + i * i % 4_000) * 1_000_000).collect();
    assert!(check(&millis).1 < 1_600);
}

#[test]
fn an_outlier_costs_itself_only() {
    let mut values: Vec<i64> = (0..1_024).map(|i| 1_000 + i % 16).collect();
    values[500] = i64::MAX;
    values[501] = i64::MIN;
    assert!(check(&values).1 < 600);
}

#[test]
fn values_that_stay_are_runs() {
    let levels: Vec<f64> = (0..1_024).map(|i| f64::from(i / 100 * 37 % 11) * 1_234.567_8).collect();
    let (kind, size) = check(&levels);
    assert_eq!(kind, kind::RUN_LENGTHS);
    assert!(size < 100, "{size}");
    let often: Vec<f64> = (0..1_024).map(|i| f64::from(i / 3 * 7_919 % 1_013) / 8.0).collect();
    check(&often);
}

#[test]
fn values_that_recur_are_numbered() {
    let reals: Vec<f64> = (0..1_024).map(|i| f64::from(i * 7 % 13).sqrt()).collect();
    let (kind, size) = check(&reals);
    assert_eq!(kind, kind::NUMBERED);
    assert!(size < 700, "{size}");
    let far: Vec<u32> = (0..1_000_u32).map(|i| (i * i % 10) * 400_000_000).collect();
    check(&far);
}

#[test]
#[cfg_attr(miri, ignore = "chooses encodings for long")]
fn true_reals_cost_what_their_bits_differ_in() {
    let reals: Vec<f64> = (1..1_025).map(|i| f64::from(i).sqrt().sin()).collect();
    let (kind, size) = check(&reals);
    assert_eq!(kind, kind::WORDS);
    assert!(size <= 8 * 1_024 + 16, "{size}");
    let near: Vec<f64> = (1..4_097).map(|i| 100.0 + f64::from(i).sqrt().sin()).collect();
    assert!(check(&near).1 < 4_096 * 7, "{}", check(&near).1);
}

/// Distances that are mostly short, as those of events that come when they like.
fn gaps(rows: usize, seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed | 1;
    (0..rows).map(move |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let uniform = ((state >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        (-uniform.ln() * 3_000.0) as u64
    })
}

#[test]
#[cfg_attr(miri, ignore = "chooses encodings for long")]
fn codes_come_close_to_what_a_distribution_allows() {
    let times: Vec<i64> = gaps(40_000, 5)
        .scan(0, |at, gap| {
            Some({
                *at += gap as i64;
                *at
            })
        })
        .collect();
    let (kind, size) = check(&times);
    assert_eq!(kind, kind::WORDS);
    // The entropy of these gaps: log2(3,000 e) = 12.99 bits.
    assert!(size * 8 < 40_000 * 1_340 / 100, "{:.2} bits a value", size as f64 / 5_000.0);
    let sizes: Vec<f64> = gaps(10_000, 9).map(|gap| gap as f64 / 100.0).collect();
    // Codes would save an eighth of these, which is not worth their time: they stay packed.
    assert!(check(&sizes).1 * 8 < 10_000 * 16, "{}", check(&sizes).1);
    let ids: Vec<u32> = gaps(9_000, 3).map(|gap| [0, 0, 0, 1, 0, 2, 0, 7][gap as usize % 8]).collect();
    assert!(check(&ids).1 * 8 < 9_000 * 2, "{}", check(&ids).1);
}

#[test]
#[cfg_attr(miri, ignore = "chooses encodings for long")]
fn words_far_apart_are_coded_too() {
    for far in [1_u64 << 20, 1 << 45, 1 << 54, 1 << 57, 1 << 63] {
        let words: Vec<u64> = gaps(5_000, far)
            .enumerate()
            .map(|(row, gap)| if row % 300 == 7 { gap ^ far } else { gap })
            .collect();
        check(&words);
        check(&words.iter().map(|&word| word as i64).collect::<Vec<_>>());
    }
}

/// Words of `width` bits that look random.
fn words_of<L: Lane>(width: usize, rows: usize) -> Vec<L> {
    let mask = if width == 0 { 0 } else { u64::MAX >> (64 - width) };
    let word = |row: u64| (row + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ row << 17;
    (0..rows as u64).map(|row| L::from_u64(word(row ^ (width as u64) << 32) & mask)).collect()
}

/// Packs words and unpacks them at each level.
fn check_packed<L: Lane>(width: usize, rows: usize) {
    let words = words_of::<L>(width, rows);
    let mut packed = Vec::new();
    lane::pack(width, &words, &mut packed);
    assert_eq!(packed.len(), lane::packed_bytes(width, rows));
    simd::with_each_level(|level| {
        let mut slots = slots(rows);
        let read = lane::unpack::<L, _>(width, &packed, Same, &mut slots).unwrap();
        assert_eq!(read, words, "{level:?}: {rows} words of {width} bits");
    });
}

#[test]
fn words_of_every_width_and_number_are_unpacked() {
    let edges = [1, 2, 7, 8, 9, 15, 63, 64, 65, 127, 128, 129, 500, 1_000, 1_017, 1_023, 1_024];
    let others = (1..=1_024_usize).filter(|_| !cfg!(miri));
    for width in widths(64) {
        for rows in edges.into_iter().chain(others.clone().filter(|rows| rows % 37 == width % 37)) {
            check_packed::<u64>(width, rows);
            if width <= 32 {
                check_packed::<u32>(width, rows);
            }
        }
    }
}

#[test]
fn full_blocks_are_those_of_fastlanes() {
    for width in widths(64) {
        let words = words_of::<u64>(width, BLOCK_ROWS);
        let mut packed = vec![0; width * BLOCK_ROWS / 64];
        // SAFETY: there are 1,024 words, and room for as many of `width` bits.
        unsafe { <u64 as fastlanes::BitPacking>::unchecked_pack(width, &words, &mut packed) };
        let bytes: Vec<u8> = packed.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut theirs = vec![0; BLOCK_ROWS];
        // SAFETY: as above, the other way round.
        unsafe { <u64 as fastlanes::BitPacking>::unchecked_unpack(width, &packed, &mut theirs) };
        simd::with_each_level(|_| {
            let mut slots = slots(BLOCK_ROWS);
            assert_eq!(lane::unpack::<u64, _>(width, &bytes, Same, &mut slots).unwrap(), theirs);
        });
    }
    for width in widths(32) {
        let words = words_of::<u32>(width, BLOCK_ROWS);
        let mut packed = vec![0; width * BLOCK_ROWS / 32];
        // SAFETY: there are 1,024 words, and room for as many of `width` bits.
        unsafe { <u32 as fastlanes::BitPacking>::unchecked_pack(width, &words, &mut packed) };
        let bytes: Vec<u8> = packed.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut theirs = vec![0; BLOCK_ROWS];
        // SAFETY: as above, the other way round.
        unsafe { <u32 as fastlanes::BitPacking>::unchecked_unpack(width, &packed, &mut theirs) };
        simd::with_each_level(|_| {
            let mut slots = slots(BLOCK_ROWS);
            assert_eq!(lane::unpack::<u32, _>(width, &bytes, Same, &mut slots).unwrap(), theirs);
        });
    }
}

#[test]
fn packed_words_of_a_wrong_size_are_damage() {
    for (width, bytes, rows) in [(5, 632, 1_023), (5, 632, 1_024), (65, 8, 1), (3, 0, 1), (3, 16, 8)] {
        assert!(lane::unpack::<u64, _>(width, &vec![0; bytes], Same, &mut slots(rows)).is_err());
    }
    assert!(lane::unpack::<u32, _>(33, &[0; 8], Same, &mut slots(1)).is_err());
    assert!(lane::unpack::<u64, _>(1, &[0; 136], Same, &mut vec![Slot::uninit(); 1_025]).is_err());
}

fn styled(style: u8, words: &[u64]) -> Vec<u64> {
    words
        .iter()
        .enumerate()
        .map(|(row, &word)| match style % 8 {
            0 => word,
            1 => word % 100,
            2 => 5_000_000 + row as u64 * 1_000 + word % 50,
            3 => {
                if word % 50 == 0 {
                    word
                } else {
                    word % 7
                }
            }
            4 => word % 3 * 1_000_000_007,
            // Far and near by turns: exceptions that bits mark, of words and of differences.
            5 => (word % 3).pow(2) * 1_000_003 + word % 5,
            6 => 7_000 * row as u64 + word % 2 * (word % 977_000_000),
            _ => words[row / 20 * 20 % words.len()],
        })
        .collect()
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    #[cfg_attr(miri, ignore = "chooses encodings for long")]
    fn any_values_come_back(words in prop::collection::vec(any::<u64>(), 1..1_100), style: u8, rows in 0_usize..4) {
        let words: Vec<u64> = words.iter().copied().cycle().take(words.len().max(rows * 1_024)).collect();
        let words = styled(style, &words);
        check(&words);
        check(&words.iter().map(|&w| w as i64).collect::<Vec<_>>());
        check(&words.iter().map(|&w| w as u32).collect::<Vec<_>>());
        check(&words.iter().map(|&w| w as i32).collect::<Vec<_>>());
        check(&words.iter().map(|&w| w as i16).collect::<Vec<_>>());
        check(&words.iter().map(|&w| w as u8).collect::<Vec<_>>());
        check(&words.iter().map(|&w| i128::from(w as i64)).collect::<Vec<_>>());
        check(&words.iter().map(|&w| i128::from(w) << 40).collect::<Vec<_>>());
        // As they enter: with one NaN.
        let real = |value: f64| if value.is_nan() { f64::NAN } else { value };
        check(&words.iter().map(|&w| real(f64::from_bits(w))).collect::<Vec<_>>());
        check(&words.iter().map(|&w| (w % 1_000_000) as f64 / 1e3).collect::<Vec<_>>());
        let real = |value: f32| if value.is_nan() { f32::NAN } else { value };
        check(&words.iter().map(|&w| real(f32::from_bits(w as u32))).collect::<Vec<_>>());
        check(&words.iter().map(|&w| u128::from(w).to_le_bytes()).collect::<Vec<_>>());
    }

    #[test]
    #[cfg_attr(miri, ignore = "chooses encodings for long")]
    fn damage_is_the_same_at_each_level(
        words in prop::collection::vec(any::<u64>(), 1..1_100), style: u8, full: bool,
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4), in_header: bool,
    ) {
        let mut words = styled(style, &words);
        words.resize(if full { 1_024 } else { words.len().min(1_024) }, 77);
        let damage = |bytes: &mut Vec<u8>| {
            let length = if in_header { bytes.len().min(40) } else { bytes.len() };
            for (place, byte) in &flips {
                bytes[place.index(length)] ^= byte;
            }
        };
        fn both<V: Value + Debug>(values: Vec<V>, damage: impl Fn(&mut Vec<u8>)) {
            let (mut bodies, mut tables) = encode(&values);
            let whole = bodies[0].clone();
            damage(&mut bodies[0]);
            check_any::<V>(&bodies[0], &tables, values.len());
            if !tables.is_empty() {
                damage(&mut tables);
                check_any::<V>(&whole, &tables, values.len());
            }
        }
        both(words.iter().map(|&w| w as i64).collect(), damage);
        both(words.iter().map(|&w| w as u32).collect(), damage);
        both(words.iter().map(|&w| (w % 1_000_000) as f64 / 1e3).collect(), damage);
        both(words.iter().map(|&w| (w % 1_000_000) as f32 / 1e3).collect(), damage);
        both(words.iter().map(|&w| i128::from(w as i64)).collect(), damage);
    }

    #[test]
    fn random_bytes_never_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..600), kind in 0_u8..24, rows in 1_usize..1_025,
        tables in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        if let Some(first) = bytes.first_mut() {
            *first = kind;
        }
        check_any::<i64>(&bytes, &tables, rows);
        check_any::<u32>(&bytes, &tables, rows);
        check_any::<f64>(&bytes, &tables, rows);
        check_any::<i128>(&bytes, &tables, rows);
        let _ = text::decode(kind, &bytes, &mut slots(rows), &mut Vec::new());
    }

    #[test]
    #[cfg_attr(miri, ignore = "zstd is C")]
    fn text_comes_back(values in prop::collection::vec(".{0,40}", 1..300)) {
        let lengths: Vec<u32> = values.iter().map(|value| value.len() as u32).collect();
        let mut bytes = Vec::new();
        let code = text::encode(&lengths, values.concat().as_bytes(), &mut bytes);
        let (mut read, mut data) = (slots(values.len()), Vec::new());
        let read = text::decode(code, &bytes, &mut read, &mut data).unwrap();
        prop_assert_eq!(read, lengths);
        prop_assert_eq!(data, values.concat().into_bytes());
    }
}

#[test]
#[cfg_attr(miri, ignore = "zstd is C")]
fn damaged_text_cannot_ask_for_memory() {
    let mut bytes = Vec::new();
    let kind = text::encode(&[u32::MAX - 1; 1_000][..2], &[b'x'; 200], &mut bytes);
    assert_eq!(kind, kind::STRINGS_ZSTD);
    // Both the lengths and the size say 8 GiB less two, the frame is that of 200 bytes.
    bytes[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    let (mut lengths, mut data) = (slots::<u32>(2), Vec::new());
    assert!(text::decode(kind, &bytes, &mut lengths, &mut data).is_err());
    let mut bytes = Vec::new();
    let kind = text::encode(&[1 << 31, (1 << 31) - 1], &[b'x'; 200], &mut bytes);
    bytes[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut lengths = slots::<u32>(2);
    let found = text::decode(kind, &bytes, &mut lengths, &mut data);
    assert_eq!(found, Err(Damage("more text than its bytes can hold")));
    assert!(data.capacity() < 1 << 20);
}
