//! How a scan is shared out.

use super::*;

#[test]
fn shares_cover_all_rows_once() {
    for (rows, count) in [(0, 1), (10, 3), (7, 7), (1_000_003, 8)] {
        let shares = shares(rows, count);
        assert_eq!(shares.len(), count);
        assert_eq!(shares.first().map(|share| share.start), Some(0));
        assert_eq!(shares.last().map(|share| share.end), Some(rows));
        assert!(shares.windows(2).all(|pair| pair[0].end == pair[1].start));
    }
}

#[test]
fn a_block_with_rows_of_two_ranges_counts_once() {
    assert_eq!(blocks(&[0..10, 20..30]), 1);
    assert_eq!(blocks(&[0..1_025, 1_030..1_040, 4_096..4_097]), 3);
    assert_eq!(blocks(&[]), 0);
}
