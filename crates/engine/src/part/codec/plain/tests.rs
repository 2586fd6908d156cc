use super::super::ints::IntPlan;
use super::super::tests::{few, widths};
use super::*;
use proptest::prelude::*;

/// What is packed at a width, then each kernel beside the plain loop over the decoded words.
fn check<L: Lane>(width: usize, base: i64, scale: u64, rows: usize, seed: u64) {
    let mask = if width == 0 { 0 } else { u64::MAX >> (64 - width) };
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11 ^ state << 17) & mask
    };
    let word = |packed: u64| L::from_u64(base.cast_unsigned().wrapping_add(scale.wrapping_mul(packed)));
    let mut written: Vec<L> = (0..rows).map(|_| word(next())).collect();
    // The whole width is used, in the first row and in the last.
    written[0] = word(mask);
    written[rows - 1] = word(0);
    let mut bytes = Vec::new();
    words::encode(&written, IntPlan { scale, delta_percent: 0, related: false }, None, &mut bytes);
    let Some(plain) = Plain::<L>::of(&bytes, rows).unwrap() else {
        let fits = base
            .checked_add_unsigned(scale.saturating_mul(mask))
            .is_some_and(|top| L::from_u64(top.cast_unsigned()).to_i64() == top);
        let unusual = !fits || width > MOST_BITS || (rows < BLOCK_ROWS && width > 0);
        assert!(unusual || bytes[0] & 0x0f != 1, "width {width} base {base} scale {scale} rows {rows}");
        return;
    };
    let mut slots = scratch::<L, BLOCK_ROWS>();
    let decoded = words::decode(&mut &bytes[..], &[], Same, &mut slots[..rows]).unwrap();
    let values: Vec<i64> = decoded.iter().map(|word| word.to_i64()).collect();
    let (min, max) = (*values.iter().min().unwrap(), *values.iter().max().unwrap());
    let sum: i128 = values.iter().map(|value| i128::from(*value)).sum();
    simd::with_each_level(|level| assert_eq!(plain.fold::<false>().unwrap().sum, sum, "{level:?} {width}"));
    if !plain.is_whole() {
        return;
    }
    simd::with_each_level(|level| {
        assert_eq!(plain.fold::<true>().unwrap(), Folded { sum, min, max }, "{level:?} width {width}");
        let middle = values[rows / 2];
        for (from, to) in [
            (i64::MIN, i64::MAX),
            (min, max),
            (middle, middle),
            (min.saturating_add(1), middle),
            (middle, max.saturating_sub(1)),
            (max, min),
            (i64::MIN, min.saturating_sub(1)),
            (max.saturating_add(1), i64::MAX),
        ] {
            let mut bits = [0; BLOCK_ROWS / 8];
            plain.within(from, to, &mut bits).unwrap();
            for row in 0..BLOCK_ROWS {
                let wanted = values.get(row).is_some_and(|value| (from..=to).contains(value));
                assert_eq!(
                    super::super::bit(&bits, row),
                    wanted,
                    "{level:?} {width} row {row} {from}..={to}"
                );
            }
        }
    });
    for (row, value) in values.iter().enumerate() {
        assert_eq!(plain.get(row), *value, "width {width} row {row}");
    }
    written.sort_unstable_by_key(|word| word.to_i64());
    bytes.clear();
    words::encode(&written, IntPlan { scale, delta_percent: 0, related: false }, None, &mut bytes);
    let Some(plain) = Plain::<L>::of(&bytes, rows).unwrap().filter(Plain::is_whole) else { return };
    let values: Vec<i64> = written.iter().map(|word| word.to_i64()).collect();
    simd::with_each_level(|level| {
        for (start, end) in [
            (0, rows),
            (rows / 3, rows),
            (rows / 2, rows / 2),
            (rows / 5, rows / 5 + rows / 64),
            (rows - 1, rows),
        ] {
            for near in [0, start, start + (end - start) / 20, end - (end - start) / 3, rows - 1] {
                for word in [-1, 0, 1].map(|by| values[near.min(rows - 1)].saturating_add(by)) {
                    let expected = start + values[start..end].partition_point(|value| *value < word);
                    let found = plain.lower_bound(start..end, word);
                    assert_eq!(found, expected, "{level:?} width {width} {start}..{end} {word}");
                }
            }
            for word in [i64::MIN, i64::MAX] {
                let expected = start + values[start..end].partition_point(|value| *value < word);
                assert_eq!(plain.lower_bound(start..end, word), expected, "{level:?} {width} {word}");
            }
        }
    });
}

#[test]
fn sums_with_exceptions() {
    for far in (1..200).step_by(if cfg!(miri) { 96 } else { 1 }) {
        let word = |row: i64| if row * far % 97 == 0 { 1_000_000 + row * far } else { row % 61 - 30 };
        let written: Vec<u64> = (0..BLOCK_ROWS as i64).map(|row| word(row).cast_unsigned()).collect();
        let mut bytes = Vec::new();
        words::encode(&written, IntPlan { scale: 1, delta_percent: 0, related: false }, None, &mut bytes);
        let plain = Plain::<u64>::of(&bytes, BLOCK_ROWS).unwrap().unwrap();
        assert!(!plain.is_whole() || far % 97 == 0, "{far}");
        let sum: i64 = (0..BLOCK_ROWS as i64).map(word).sum();
        assert_eq!(plain.fold::<false>().unwrap().sum, i128::from(sum));
    }
}

#[test]
fn every_width() {
    for width in widths(64) {
        for (base, scale) in few([(-5_000, 1), (0, 1), (7, 100), (i64::MIN / 2, 3)]) {
            for rows in few([BLOCK_ROWS, 1_000, 1]) {
                check::<u64>(width, base, scale, rows, width as u64 + 1);
            }
        }
    }
    for width in widths(32) {
        for (base, scale) in few([(-5_000, 1), (0, 1), (7, 100), (i64::from(i32::MIN), 1)]) {
            for rows in few([BLOCK_ROWS, 77]) {
                check::<u32>(width, base, scale, rows, width as u64 + 1);
            }
        }
    }
}

proptest! {
    #[test]
    fn any_words(width in 0..54_usize, base: i64, scale in 1..1_000_u64, whole: bool, seed: u64) {
        let rows = if whole { BLOCK_ROWS } else { 1 + seed as usize % BLOCK_ROWS };
        check::<u64>(width, base, scale, rows, seed);
        check::<u32>(width % 33, i64::from(base as i32), scale, rows, seed);
    }
}
