//! The generator's own random numbers: xoshiro256** seeded through SplitMix64.
//!
//! Written out here, from the algorithms' public descriptions (Blackman and Vigna, "Scrambled
//! Linear Pseudorandom Number Generators", 2018; Steele et al., "Fast Splittable Pseudorandom Number
//! Generators", 2014), so that the data of a seed never changes with the version of a crate. Only
//! integer operations are used: the same numbers come out on every machine.

/// The next state and output of SplitMix64.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub(crate) struct Random {
    state: [u64; 4],
}

impl Random {
    /// The stream that belongs to a seed and a path of names ("what", day, …): every part of the
    /// data has a stream of its own, so that leaving one out does not change the others.
    pub(crate) fn new(seed: u64, path: &[u64]) -> Self {
        let mut mixed = seed;
        for step in path {
            let mut next = split_mix(&mut mixed) ^ step;
            mixed = split_mix(&mut next);
        }
        Self { state: std::array::from_fn(|_| split_mix(&mut mixed)) }
    }

    /// 64 random bits.
    #[inline]
    pub(crate) fn bits(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number in `[0, bound)`; 0 when `bound` is 0. The bias of one part in 2^64 / `bound` is
    /// accepted.
    #[inline]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        // The high half of a 128-bit product: no division.
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Whether an event of `per_mille` thousandths happens.
    #[inline]
    pub(crate) fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }

    /// A bell-shaped number with mean 0 and standard deviation 1024 (the sum of four uniform ones:
    /// never past 3.5 standard deviations).
    #[inline]
    pub(crate) fn bell(&mut self) -> i64 {
        let bits = self.bits();
        let sum: i64 = (0..4).map(|lane| ((bits >> (lane * 16)) & 0xFFFF) as i64).sum();
        // Four uniforms on [0, 65535]: mean 131,070, standard deviation 37,837.
        (sum - 131_070) * 1_024 / 37_837
    }

    /// A number with a long tail: mostly below `scale`, halving in probability with each doubling, at
    /// most `32 * scale`, at least 1.
    #[inline]
    pub(crate) fn long_tail(&mut self, scale: u64) -> u64 {
        let bits = self.bits();
        let doublings = (bits >> 32).trailing_zeros().min(5);
        let mantissa = (bits & 0xFFFF_FFFF) + 1;
        (((u128::from(mantissa) * u128::from(scale)) >> 32) as u64).max(1) << doublings
    }
}
