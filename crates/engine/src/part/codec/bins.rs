//! Bins: which ranges a chunk's words fall into, how often, and the prefix code that names a bin.
//!
//! A word is stored as the code of its bin and its distance from the bin's least word. Frequent words have bins
//! of their own and short codes, rare ones share wide bins: the size comes close to what the words' distribution
//! allows, whatever it is. A [`BinTable`] is made once for a stretch of blocks, stands in the chunk's page, and
//! is named by the blocks that use it.
//!
//! Invariants:
//! - bins ascend and do not overlap; a word outside all of them cannot be coded with the table;
//! - the codes of a table are complete: every sequence of bits is a sequence of codes.

use super::varint::{put_signed, put_varint};

/// Longest code, in bits: what a decoder looks up in one go.
pub(super) const CODE_BITS: usize = 11;
/// Widest distance from the least word of a bin, in bits.
pub(super) const DISTANCE_BITS: usize = 56;
/// Most bins of a table.
pub(super) const MAX_BINS: usize = 255;
/// Words that bins are proposed by.
const SAMPLE: usize = 16_384;
/// Bins proposed, before those in between are added.
const PROPOSED: usize = 200;
/// Fewest words of a sample that propose a bin.
const FEWEST: usize = 32;
/// What a bin costs in a table, in bits.
const BIN_COST: f64 = 32.0;

/// A range of words (as distances from the table's base, in steps of its scale).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bin {
    /// The least word.
    pub(super) lower: u64,
    /// Bits of a word's distance from it.
    pub(super) width: u8,
    /// Bits of the code.
    pub(super) code_bits: u8,
    /// The code, in its low bits.
    pub(super) code: u16,
}

/// The bins of a stretch of blocks.
#[derive(Debug, Clone)]
pub(super) struct BinTable {
    /// What distance 0 stands for.
    pub(super) base: u64,
    /// What a step of 1 stands for, at least 1.
    pub(super) scale: u64,
    pub(super) bins: Vec<Bin>,
    finder: Finder,
    /// Bits of the words that the table was made of, coded.
    pub(super) bits: usize,
}

/// Leading bits of a distance, the first of them included, by which its range is looked for.
const KEY_BITS: u32 = 7;
/// Values of those bits, and of how many bits follow them.
const KEYS: usize = (65 - KEY_BITS as usize) << (KEY_BITS - 1) | 1 << (KEY_BITS - 1);

/// Finds the range that a distance falls into: by its leading bits, then among the few ranges that share them.
#[derive(Debug, Clone)]
struct Finder {
    /// The last word of each range, ascending.
    uppers: Vec<u64>,
    /// For each key, and past the last one: how many ranges end before the least distance that has it.
    firsts: Vec<u16>,
}

impl Finder {
    /// Of ranges that end with these distances, at most 65,535.
    fn new(uppers: Vec<u64>) -> Self {
        let mut firsts = Vec::with_capacity(KEYS + 1);
        let mut place = 0;
        for key in 0..KEYS {
            while uppers.get(place).is_some_and(|upper| *upper < Self::least(key)) {
                place += 1;
            }
            firsts.push(place as u16);
        }
        firsts.push(uppers.len() as u16);
        Self { uppers, firsts }
    }

    /// Grows with the distance.
    #[inline]
    fn key(distance: u64) -> usize {
        let after = (64 - KEY_BITS).saturating_sub((distance | 1).leading_zeros());
        ((after as usize) << (KEY_BITS - 1)) + (distance >> after) as usize
    }

    /// The least distance of a key.
    fn least(key: usize) -> u64 {
        let half = 1 << (KEY_BITS - 1);
        let after = (key / half).saturating_sub(1);
        ((key - after * half) as u64) << after
    }

    /// How many ranges end before a distance.
    #[inline]
    fn place(&self, distance: u64) -> usize {
        let key = Self::key(distance);
        let (first, end) = (usize::from(self.firsts[key]), usize::from(self.firsts[key + 1]));
        first + self.uppers[first..end].partition_point(|upper| *upper < distance)
    }
}

/// A bin while it is being chosen.
#[derive(Debug, Clone, Copy)]
struct Range {
    lower: u64,
    upper: u64,
    count: u64,
}

impl Range {
    fn width(lower: u64, upper: u64) -> u32 {
        64 - (upper - lower).leading_zeros()
    }
}

/// The distance of a word from `base` in steps of `scale`, `None` where it is between two steps.
#[inline]
fn distance(word: u64, base: u64, scale: u64) -> Option<u64> {
    let distance = word.wrapping_sub(base);
    match scale {
        1 => Some(distance),
        _ => distance.is_multiple_of(scale).then(|| distance / scale),
    }
}

/// How words are related to a table's bins: by base and scale, as signed numbers.
pub(super) struct Frame {
    base: u64,
    scale: u64,
    most: u64,
}

impl Frame {
    /// The frame of `words`, which must not be empty; `None` where they are too far apart.
    pub(super) fn of(words: impl Iterator<Item = u64>, scale: u64) -> Option<Self> {
        let bounds = words.map(u64::cast_signed).fold((i64::MAX, i64::MIN), |(a, b), w| (a.min(w), b.max(w)));
        let span = bounds.1.checked_sub(bounds.0)?.cast_unsigned();
        let scale = scale.max(1);
        Some(Self { base: bounds.0.cast_unsigned(), scale, most: span / scale })
    }
}

/// Ranges that a sample of distances proposes: each distance that is frequent alone, others by equal counts.
fn propose(sample: &mut [u64]) -> Vec<Range> {
    sample.sort_unstable();
    // So few words say nothing about others of the same bin.
    let own = (sample.len() / 256).max(FEWEST / 2);
    let share = (sample.len() / PROPOSED).max(FEWEST);
    let mut ranges: Vec<Range> = Vec::new();
    let mut open: Option<Range> = None;
    for same in sample.chunk_by(|a, b| a == b) {
        let (word, count) = (same[0], same.len() as u64);
        if same.len() > own {
            ranges.extend(open.take());
            ranges.push(Range { lower: word, upper: word, count });
            continue;
        }
        let range = open.get_or_insert(Range { lower: word, upper: word, count: 0 });
        range.upper = word;
        range.count += count;
        if range.count as usize >= share {
            ranges.extend(open.take());
        }
    }
    ranges.extend(open);
    ranges
}

/// What words cost by ranges, in bits, the table apart.
fn entropy(ranges: &[Range]) -> f64 {
    let total: u64 = ranges.iter().map(|range| range.count).sum();
    let all = (total as f64).log2();
    let bits = |range: &Range| {
        let count = range.count as f64;
        count * (all - count.log2() + f64::from(Range::width(range.lower, range.upper)))
    };
    ranges.iter().filter(|range| range.count > 0).map(bits).sum()
}

/// A sample of words, spread over all of them.
fn sample_of(words: impl ExactSizeIterator<Item = u64>, frame: &Frame) -> Vec<u64> {
    let step = (words.len() / SAMPLE).max(1);
    words.step_by(step).filter_map(|word| distance(word, frame.base, frame.scale)).collect()
}

/// Ranges that a sample of words proposes.
pub(super) struct Proposal {
    ranges: Vec<Range>,
    /// What a word costs with bins of its own, in bits: an estimate.
    pub(super) cost: f64,
}

impl Proposal {
    /// That for `words`; `None` where none of them is in the frame.
    pub(super) fn of(words: impl ExactSizeIterator<Item = u64>, frame: &Frame) -> Option<Self> {
        let mut sample = sample_of(words, frame);
        if sample.is_empty() {
            return None;
        }
        let ranges = propose(&mut sample);
        let cost = (entropy(&ranges) + ranges.len() as f64) / sample.len() as f64;
        Some(Self { ranges, cost })
    }
}

/// Ranges that leave nothing out from 0 to `most`.
fn cover(proposed: &[Range], most: u64) -> Vec<Range> {
    let mut ranges = Vec::with_capacity(proposed.len() * 2 + 1);
    let mut next = Some(0);
    for (index, range) in proposed.iter().enumerate() {
        if let Some(start) = next.filter(|start| *start < range.lower) {
            ranges.push(Range { lower: start, upper: range.lower - 1, count: 0 });
        }
        // As far as its width reaches anyway.
        let reach = range.lower.saturating_add((1_u64 << Range::width(range.lower, range.upper).min(63)) - 1);
        let end = proposed.get(index + 1).map_or(most, |after| after.lower - 1);
        let upper = range.upper.max(reach.min(end));
        ranges.push(Range { upper, count: 0, ..*range });
        next = upper.checked_add(1);
    }
    if let Some(start) = next.filter(|start| *start <= most) {
        ranges.push(Range { lower: start, upper: most, count: 0 });
    }
    ranges
}

/// Joins neighbours where that costs least over all.
fn join(ranges: &[Range]) -> Vec<Range> {
    let total: u64 = ranges.iter().map(|range| range.count).sum();
    let all = (total as f64).log2();
    // The least cost of the ranges before each, and where its last bin begins.
    let mut best = vec![(0.0_f64, 0_usize)];
    for end in 1..=ranges.len() {
        let (mut least, mut from, mut count) = (f64::INFINITY, end - 1, 0);
        for start in (0..end).rev() {
            count += ranges[start].count;
            let width = Range::width(ranges[start].lower, ranges[end - 1].upper);
            if width as usize > DISTANCE_BITS {
                break;
            }
            let bits = count as f64 * (all - (count as f64).log2() + f64::from(width)) + BIN_COST;
            if best[start].0 + bits < least {
                (least, from) = (best[start].0 + bits, start);
            }
        }
        best.push((least, from));
    }
    let mut joined = Vec::new();
    let mut end = ranges.len();
    while end > 0 {
        let start = best[end].1;
        let count = ranges[start..end].iter().map(|range| range.count).sum();
        joined.push(Range { lower: ranges[start].lower, upper: ranges[end - 1].upper, count });
        end = start;
    }
    joined.reverse();
    joined
}

impl BinTable {
    /// The bins that suit `words`, by what a sample of them proposes; `None` where no table can hold them.
    pub(super) fn of(words: impl Iterator<Item = u64>, frame: &Frame, proposal: &Proposal) -> Option<Self> {
        let mut ranges = cover(&proposal.ranges, frame.most);
        let finder = Finder::new(ranges.iter().map(|range| range.upper).collect());
        for word in words {
            let distance = distance(word, frame.base, frame.scale)?;
            ranges.get_mut(finder.place(distance))?.count += 1;
        }
        ranges.retain(|range| range.count > 0);
        // The first and the last range reach no further than the words do.
        if let Some(last) = ranges.last_mut() {
            last.upper = last.upper.min(frame.most);
        }
        let ranges = join(&ranges);
        let too_wide = |range: &Range| Range::width(range.lower, range.upper) as usize > DISTANCE_BITS;
        if ranges.len() > MAX_BINS || ranges.iter().any(too_wide) {
            return None;
        }
        let counts: Vec<u64> = ranges.iter().map(|range| range.count).collect();
        let mut bins: Vec<Bin> = code_lengths(&counts)
            .into_iter()
            .zip(&ranges)
            .map(|(code_bits, range)| {
                let width = Range::width(range.lower, range.upper) as u8;
                Bin { lower: range.lower, width, code_bits, code: 0 }
            })
            .collect();
        assign_codes(&mut bins);
        let finder = Finder::new(ranges.iter().map(|range| range.upper).collect());
        let bits = bins.iter().zip(&counts).map(|(bin, count)| {
            usize::from(bin.width + bin.code_bits) * usize::try_from(*count).unwrap_or(usize::MAX)
        });
        let bits = bits.sum();
        Some(Self { base: frame.base, scale: frame.scale, bins, finder, bits })
    }

    /// The number of a word's bin and its distance from the bin's least; `None` where the table has none for it.
    #[inline]
    fn place(&self, word: u64) -> Option<(u8, u64)> {
        let distance = distance(word, self.base, self.scale)?;
        let place = self.finder.place(distance);
        let bin = self.bins.get(place).filter(|bin| bin.lower <= distance)?;
        Some((place as u8, distance - bin.lower))
    }

    /// Places words in bins and returns the bits they take coded; `None` where the table does not have all of them.
    pub(super) fn place_all(
        &self,
        words: impl Iterator<Item = u64>,
        places: &mut Vec<(u8, u64)>,
    ) -> Option<usize> {
        places.clear();
        let mut bits = 0;
        for word in words {
            let place = self.place(word)?;
            let bin = &self.bins[usize::from(place.0)];
            bits += usize::from(bin.width + bin.code_bits);
            places.push(place);
        }
        Some(bits)
    }

    /// Bits that a word takes, by a sample of words; `None` where the table does not have them.
    pub(super) fn bits_by_sample(&self, words: impl ExactSizeIterator<Item = u64>) -> Option<f64> {
        let step = (words.len() / (SAMPLE / 4)).max(1);
        let (mut bits, mut count) = (0, 0);
        for word in words.step_by(step) {
            let bin = &self.bins[usize::from(self.place(word)?.0)];
            bits += usize::from(bin.width + bin.code_bits);
            count += 1;
        }
        (count > 0).then(|| bits as f64 / count as f64)
    }

    /// Appends the table: see docs/formats/part.md.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let mut body = Vec::with_capacity(self.bins.len() * 4 + 16);
        put_signed(self.base.cast_signed(), &mut body);
        put_varint(self.scale, &mut body);
        let mut end = 0_u64;
        for bin in &self.bins {
            body.extend_from_slice(&[bin.width, bin.code_bits]);
            put_varint(bin.lower.wrapping_sub(end), &mut body);
            end = bin.lower.wrapping_add(1);
        }
        let size = u16::try_from(body.len()).expect("at most 128 bins of 12 bytes");
        out.extend_from_slice(&size.to_le_bytes());
        out.push(self.bins.len() as u8);
        out.extend_from_slice(&body);
    }
}

/// Lengths of the best prefix codes of at most [`CODE_BITS`] bits for counts, none of which is 0.
fn code_lengths(counts: &[u64]) -> Vec<u8> {
    let mut counts = counts.to_vec();
    loop {
        let lengths = huffman(&counts);
        if lengths.iter().all(|length| usize::from(*length) <= CODE_BITS) {
            return lengths;
        }
        // Flatter counts make shorter codes; in the end all are 1.
        counts.iter_mut().for_each(|count| *count = (*count >> 1) + 1);
    }
}

/// Huffman's code lengths: the two rarest are joined until one is left.
fn huffman(counts: &[u64]) -> Vec<u8> {
    let mut parents = vec![usize::MAX; counts.len() * 2];
    let mut heap: std::collections::BinaryHeap<std::cmp::Reverse<(u64, usize)>> =
        counts.iter().enumerate().map(|(index, count)| std::cmp::Reverse((*count, index))).collect();
    let mut node = counts.len();
    while let (Some(rarest), Some(next)) = (heap.pop(), heap.pop()) {
        let (std::cmp::Reverse((a, left)), std::cmp::Reverse((b, right))) = (rarest, next);
        (parents[left], parents[right]) = (node, node);
        heap.push(std::cmp::Reverse((a.saturating_add(b), node)));
        node += 1;
        if heap.len() == 1 {
            break;
        }
    }
    let depth = |index: usize| {
        let mut at = index;
        let mut depth = 0_u8;
        while parents[at] != usize::MAX {
            at = parents[at];
            depth = depth.saturating_add(1);
        }
        depth
    };
    (0..counts.len()).map(depth).collect()
}

/// Gives the bins their codes: by length, then by place; the first one is all zeros.
pub(super) fn assign_codes(bins: &mut [Bin]) {
    let mut order: Vec<usize> = (0..bins.len()).collect();
    order.sort_by_key(|&index| bins[index].code_bits);
    let (mut code, mut bits) = (0_u32, 0);
    for index in order {
        let bin = &mut bins[index];
        code <<= bin.code_bits - bits;
        bits = bin.code_bits;
        bin.code = code as u16;
        code += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_grow_with_distances() {
        for key in 0..KEYS {
            assert_eq!(Finder::key(Finder::least(key)), key);
            assert!(key == 0 || Finder::key(Finder::least(key) - 1) == key - 1);
        }
        assert_eq!(Finder::key(u64::MAX), KEYS - 1);
    }

    proptest! {
        #[test]
        fn ranges_are_found(shifts in prop::collection::vec(0_u32..64, 1..300), words: [u64; 32]) {
            let mut uppers: Vec<u64> = shifts.iter().enumerate().map(|(n, shift)| words[n % 32] >> shift).collect();
            uppers.sort_unstable();
            uppers.dedup();
            let finder = Finder::new(uppers.clone());
            let near = uppers.iter().flat_map(|upper| [upper.saturating_sub(1), *upper, upper.saturating_add(1)]);
            for distance in near.chain(words).chain([0, u64::MAX]) {
                let wanted = uppers.partition_point(|upper| *upper < distance);
                prop_assert_eq!(finder.place(distance), wanted, "{}", distance);
            }
        }
    }
}
