//! Each encoding by itself: what goes in comes out, and random bytes never panic.

use super::value::{Plan, Value, decode, encode};
use super::*;
use proptest::prelude::*;
use std::fmt::Debug;

/// Encodes, decodes, and gives the kind chosen and the size.
fn check<V: Value + Debug>(values: &[V]) -> (u8, usize) {
    let mut bytes = Vec::new();
    encode(values, Plan::of(&[values.to_vec()]), &mut bytes);
    let mut read = vec![V::default(); values.len()];
    decode(&bytes, &mut read).unwrap();
    for (row, (read, written)) in read.iter().zip(values).enumerate() {
        assert!(read.same(*written), "row {row}: {read:?} for {written:?}");
    }
    (bytes[0], bytes.len())
}

#[test]
fn constants_take_one_word() {
    assert_eq!(check(&[7_i64; 1_024]), (kind::INTS, 24));
    assert_eq!(check(&[f64::NAN; 1_024]), (kind::INTS, 24));
    assert_eq!(check(&[-0.0_f32; 5]), (kind::INTS, 24));
}

#[test]
fn prices_and_sizes_are_decimals() {
    let prices: Vec<f64> = (0..1_024).map(|i| 61_234.5 + f64::from(i * 7 % 100) / 100.0).collect();
    let (kind, size) = check(&prices);
    assert_eq!(kind, kind::ALP);
    assert!(size < 1_100, "{size} bytes for 7 bits a value");
    let sizes: Vec<f64> = (0..1_024_u64).map(|i| (i * 982_451_653 % 1_000_000_000) as f64 / 1e8).collect();
    let (kind, size) = check(&sizes);
    assert_eq!(kind, kind::ALP);
    assert!(size < 4_100, "{size} bytes for 30 bits a value");
    let floats: Vec<f32> = (0..1_024_u16).map(|i| f32::from(i % 500) / 100.0).collect();
    assert_eq!(check(&floats).0, kind::ALP);
}

#[test]
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
    assert_eq!(kind, kind::RUNS);
    assert!(size < 150, "{size}");
    let often: Vec<f64> = (0..1_024).map(|i| f64::from(i / 3 * 7_919 % 1_013) / 8.0).collect();
    check(&often);
}

#[test]
fn values_that_recur_are_numbered() {
    let reals: Vec<f64> = (0..1_024).map(|i| f64::from(i * 7 % 13).sqrt()).collect();
    let (kind, size) = check(&reals);
    assert_eq!(kind, kind::DICTIONARY);
    assert!(size < 700, "{size}");
    let far: Vec<u32> = (0..1_000_u32).map(|i| (i * i % 10) * 400_000_000).collect();
    check(&far);
}

#[test]
fn true_reals_stay_raw() {
    let reals: Vec<f64> = (1..1_025).map(|i| f64::from(i).sqrt().sin()).collect();
    assert_eq!(check(&reals), (kind::RAW, 8 + 8 * 1_024));
}

fn styled(style: u8, words: &[u64]) -> Vec<u64> {
    words
        .iter()
        .enumerate()
        .map(|(row, &word)| match style % 6 {
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
            _ => words[row / 20 * 20 % words.len()],
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_values_come_back(words in prop::collection::vec(any::<u64>(), 1..1_100), style: u8, full: bool) {
        let mut words = styled(style, &words);
        words.resize(if full { 1_024 } else { words.len().min(1_024) }, 77);
        check(&words);
        check(&words.iter().map(|&w| w as i64).collect::<Vec<_>>());
        check(&words.iter().map(|&w| w as u32).collect::<Vec<_>>());
        check(&words.iter().map(|&w| w as i32).collect::<Vec<_>>());
        check(&words.iter().map(|&w| w as i16).collect::<Vec<_>>());
        check(&words.iter().map(|&w| w as u8).collect::<Vec<_>>());
        check(&words.iter().map(|&w| i128::from(w as i64)).collect::<Vec<_>>());
        check(&words.iter().map(|&w| i128::from(w) << 40).collect::<Vec<_>>());
        check(&words.iter().map(|&w| f64::from_bits(w)).collect::<Vec<_>>());
        check(&words.iter().map(|&w| (w % 1_000_000) as f64 / 1e3).collect::<Vec<_>>());
        check(&words.iter().map(|&w| f32::from_bits(w as u32)).collect::<Vec<_>>());
        check(&words.iter().map(|&w| u128::from(w).to_le_bytes()).collect::<Vec<_>>());
    }

    #[test]
    fn random_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..600), kind in 0_u8..10, rows in 1_usize..1_025) {
        if let Some(first) = bytes.first_mut() {
            *first = kind;
        }
        let _ = decode(&bytes, &mut vec![0_i64; rows]);
        let _ = decode(&bytes, &mut vec![0_u32; rows]);
        let _ = decode(&bytes, &mut vec![0_f64; rows]);
        let _ = decode(&bytes, &mut vec![0_i128; rows]);
        let _ = text::decode(kind, &bytes, &mut vec![0; rows], &mut Vec::new());
    }

    #[test]
    fn text_comes_back(values in prop::collection::vec(".{0,40}", 1..300)) {
        let lengths: Vec<u32> = values.iter().map(|value| value.len() as u32).collect();
        let mut bytes = Vec::new();
        let code = text::encode(&lengths, values.concat().as_bytes(), &mut bytes);
        let (mut read, mut data) = (vec![0; values.len()], Vec::new());
        text::decode(code, &bytes, &mut read, &mut data).unwrap();
        prop_assert_eq!(read, lengths);
        prop_assert_eq!(data, values.concat().into_bytes());
    }
}
