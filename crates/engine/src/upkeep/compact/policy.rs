//! Which neighbouring parts to merge.
//!
//! A merge at least doubles the part that each of its rows is in, so that a row is rewritten at most
//! log2(partition / smallest part) times; with parts of one size it is log4.

use std::ops::Range;

/// Parts below this count as this large: what a small file costs is not its bytes.
const FLOOR_BYTES: u64 = 64 << 10;

/// Most parts of one merge.
const PARTS_MAX: usize = 32;

/// The parts to merge next among those of a partition (their sizes given, in order of positions; `None`
/// for what cannot be merged, such as runs between parts): at least `parts_min` neighbours, together at
/// least twice as large as the largest of them. The cheapest such stretch, and as much of it as there is.
pub(super) fn choose(sizes: &[Option<u64>], parts_min: usize) -> Option<Range<usize>> {
    let parts_min = parts_min.max(2);
    let mut best: Option<(u64, Range<usize>)> = None;
    for start in 0..sizes.len() {
        let (mut total, mut largest) = (0_u64, 0);
        for (end, size) in sizes.iter().enumerate().skip(start).take(PARTS_MAX) {
            let Some(bytes) = size.map(|bytes| bytes.max(FLOOR_BYTES)) else { break };
            total += bytes;
            largest = largest.max(bytes);
            let stretch = start..end + 1;
            if stretch.len() < parts_min || total < 2 * largest {
                continue;
            }
            let better = best.as_ref().is_none_or(|(most, chosen)| {
                largest < *most || (largest == *most && stretch.len() > chosen.len())
            });
            if better {
                best = Some((largest, stretch));
            }
        }
    }
    best.map(|(_, stretch)| stretch)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn chosen(sizes: &[u64]) -> Option<Range<usize>> {
        choose(&sizes.iter().map(|size| Some(size * MIB)).collect::<Vec<_>>(), 4)
    }

    #[test]
    fn small_neighbours_come_first() {
        assert_eq!(chosen(&[1, 1, 1]), None);
        assert_eq!(chosen(&[1, 1, 1, 1, 1]), Some(0..5));
        assert_eq!(chosen(&[64, 1, 1, 1, 1]), Some(1..5));
        assert_eq!(chosen(&[64, 1, 1, 1]), None, "the large part is not rewritten for three small ones");
        assert_eq!(chosen(&[8, 8, 8, 8, 1, 1, 1, 1]), Some(4..8));
    }

    #[test]
    fn runs_part_neighbours() {
        let sizes = [Some(MIB), Some(MIB), None, Some(MIB), Some(MIB)];
        assert_eq!(choose(&sizes, 4), None);
        assert_eq!(choose(&sizes, 2), Some(0..2));
    }

    #[test]
    fn tiny_parts_count_as_equal() {
        let sizes: Vec<_> = [60_000, 300, 900, 20].into_iter().map(Some).collect();
        assert_eq!(choose(&sizes, 4), Some(0..4));
    }

    #[test]
    fn amplification_is_logarithmic_and_parts_stay_few() {
        for parts_min in [2, 4, 8] {
            let (mut parts, mut written, mut most) = (Vec::new(), 0, 0);
            for _ in 0..4_096 {
                parts.push(Some(MIB));
                while let Some(stretch) = choose(&parts, parts_min) {
                    let total = parts[stretch.clone()].iter().flatten().sum();
                    written += total;
                    parts.splice(stretch, [Some(total)]);
                }
                most = most.max(parts.len());
            }
            assert!(written <= 12 * 4_096 * MIB, "{written} bytes for 4,096 parts of a MiB");
            assert!(most <= 12 * parts_min, "{most} parts at once");
        }
    }
}
