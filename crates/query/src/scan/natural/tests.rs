#![allow(clippy::single_range_in_vec_init, reason = "lists of ranges, some with one")]

//! How ranges join into the stretches that are read at once.

use super::*;

#[test]
fn adjacent_ranges_join() {
    assert_eq!(adjacent_end(&[0..10, 10..30, 31..40], 4, 100), 30);
    assert_eq!(adjacent_end(&[0..10], 4, 100), 10);
}

#[test]
fn a_long_stretch_is_cut_on_a_block() {
    assert_eq!(adjacent_end(&[0..100_000], 0, 8_192), 8_192);
    assert_eq!(adjacent_end(&[100..100_000], 100, 8_192), 8_192);
    assert_eq!(adjacent_end(&[0..5_000, 5_000..100_000], 100, 8_192), 8_192);
}

#[test]
fn within_one_block_it_is_cut_where_it_must() {
    assert_eq!(adjacent_end(&[0..1_000], 10, 20), 30);
}
