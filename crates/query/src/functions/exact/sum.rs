//! [`ExactSum`]: doubles added up without rounding, so that neither their order nor where they were cut into parts
//! changes the sum.
//!
//! A double is a whole number times a power of two, 2^-1074 at least. The sum is kept as one long whole number of
//! those: limbs of 32 bits in 64, each with a sign and room to carry, only as far as its values reach. It is rounded
//! once, when it is asked for. The idea is Kulisch's ("Computer Arithmetic and Validity", 2008).

/// Bits of a limb that are its own; what is above is carried to the next.
const LIMB_BITS: usize = 32;
const LIMB_MAX: i64 = (1 << LIMB_BITS) - 1;
/// Additions after which limbs are carried: each adds less than 2^32 to one, of 2^63.
const CARRY_AFTER: u32 = 1 << 30;
/// The limbs that one double reaches.
const LIMBS_OF_ONE: usize = 3;
const FRACTION_BITS: usize = f64::MANTISSA_DIGITS as usize - 1;
/// The exponent, as it is stored, of what is no number.
const NOT_FINITE: u64 = 0x7ff;

/// A sum of doubles that has lost nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ExactSum {
    /// The lowest limb first.
    limbs: Vec<i64>,
    /// Which limb of the longest number the first one is.
    base: usize,
    additions: u32,
    /// How many values are NaN, and how many infinite.
    nans: i64,
    infinities: [i64; 2],
}

impl ExactSum {
    /// Adds a value.
    pub(super) fn add(&mut self, value: f64) {
        self.take(value, 1);
    }

    /// Takes a value away that was added.
    pub(super) fn subtract(&mut self, value: f64) {
        self.take(value, -1);
    }

    #[inline]
    fn take(&mut self, value: f64, times: i64) {
        let bits = value.to_bits();
        let (exponent, fraction) = ((bits >> FRACTION_BITS) & NOT_FINITE, bits & ((1 << FRACTION_BITS) - 1));
        if exponent == NOT_FINITE {
            match fraction {
                0 => self.infinities[usize::from(value < 0.0)] += times,
                _ => self.nans += times,
            }
            return;
        }
        let mantissa = if exponent == 0 { fraction } else { fraction | (1 << FRACTION_BITS) };
        let place = exponent.max(1) as usize - 1;
        let (limb, shift) = (place / LIMB_BITS, place % LIMB_BITS);
        let wide = u128::from(mantissa) << shift;
        let sign = if value.is_sign_negative() { -times } else { times };
        let limbs = self.limbs_from(limb);
        limbs[0] += sign * i64::from(wide as u32);
        limbs[1] += sign * i64::from((wide >> LIMB_BITS) as u32);
        limbs[2] += sign * i64::from((wide >> (2 * LIMB_BITS)) as u32);
        self.additions += 1;
        if self.additions == CARRY_AFTER {
            self.carry();
        }
    }

    /// The limbs that a value reaches whose lowest bit is in this one.
    #[inline]
    fn limbs_from(&mut self, limb: usize) -> &mut [i64] {
        if self.base > limb || self.base + self.limbs.len() < limb + LIMBS_OF_ONE {
            self.reach(limb, limb + LIMBS_OF_ONE);
        }
        let at = limb - self.base;
        &mut self.limbs[at..at + LIMBS_OF_ONE]
    }

    /// Makes room for the limbs up to before `end`.
    #[cold]
    fn reach(&mut self, first: usize, end: usize) {
        if self.limbs.is_empty() {
            self.base = first;
        }
        if first < self.base {
            self.limbs.splice(0..0, std::iter::repeat_n(0, self.base - first));
            self.base = first;
        }
        if self.base + self.limbs.len() < end {
            self.limbs.resize(end - self.base, 0);
        }
    }

    /// Leaves 32 bits in each limb, and in the highest those and the sign.
    fn carry(&mut self) {
        // As much as one addition to each limb.
        self.additions = 1;
        let Some((highest, limbs)) = self.limbs.split_last_mut() else { return };
        let mut carried = 0;
        for limb in limbs {
            let value = *limb + carried;
            carried = value >> LIMB_BITS;
            *limb = value & LIMB_MAX;
        }
        *highest += carried;
        if !(-LIMB_MAX..=LIMB_MAX).contains(highest) {
            let above = *highest >> LIMB_BITS;
            *highest &= LIMB_MAX;
            self.limbs.push(above);
        }
    }

    /// Adds what another has.
    pub(super) fn merge(&mut self, other: &Self) {
        let mut other = other.clone();
        other.carry();
        self.carry();
        if !other.limbs.is_empty() {
            self.reach(other.base, other.base + other.limbs.len());
            let from = other.base - self.base;
            for (ours, theirs) in self.limbs[from..].iter_mut().zip(&other.limbs) {
                *ours += theirs;
            }
        }
        self.additions += 1;
        self.nans += other.nans;
        for (ours, theirs) in self.infinities.iter_mut().zip(other.infinities) {
            *ours += theirs;
        }
    }

    /// The double nearest to the sum; NaN where a value is one, or infinities of both signs are there.
    pub(super) fn value(&self) -> f64 {
        match (self.nans, self.infinities) {
            (0, [0, 0]) => {}
            (0, [_, 0]) => return f64::INFINITY,
            (0, [0, _]) => return f64::NEG_INFINITY,
            _ => return f64::NAN,
        }
        let mut sum = self.clone();
        sum.carry();
        let negative = sum.limbs.last().is_some_and(|limb| *limb < 0);
        if negative {
            sum.limbs.iter_mut().for_each(|limb| *limb = -*limb);
            sum.carry();
        }
        let value = sum.magnitude();
        if negative { -value } else { value }
    }

    /// Doubles that add up to it, each the nearest to what those before it leave; `None` where it is not finite.
    pub(super) fn parts(&self) -> Option<Vec<f64>> {
        let (mut rest, mut parts) = (self.clone(), Vec::new());
        loop {
            let value = rest.value();
            if !value.is_finite() {
                return None;
            }
            if value == 0.0 {
                return Some(parts);
            }
            rest.subtract(value);
            parts.push(value);
        }
    }

    /// The nearest double where all limbs are carried and none is below 0.
    fn magnitude(&self) -> f64 {
        let Some(top) = self.limbs.iter().rposition(|limb| *limb != 0) else { return 0.0 };
        let highest = (self.base + top) * LIMB_BITS + 63 - self.limbs[top].leading_zeros() as usize;
        let Some(lowest) = highest.checked_sub(FRACTION_BITS) else {
            // Every bit has a place in a double, whose bits these are.
            return f64::from_bits(self.bits(0));
        };
        let mantissa = self.bits(lowest);
        let half = lowest.checked_sub(1).is_some_and(|place| self.bits(place) & 1 == 1);
        let more = half && self.is_any_below(lowest - 1);
        let up = half && (more || mantissa & 1 == 1);
        // The leading bit of the mantissa adds one to the exponent, and so does a carry out of it.
        let exponent = lowest as u64;
        let bits = (exponent << FRACTION_BITS) + mantissa + u64::from(up);
        if bits >> FRACTION_BITS >= NOT_FINITE { f64::INFINITY } else { f64::from_bits(bits) }
    }

    /// 64 bits from this place on, of which those of limbs past the last are 0.
    fn bits(&self, place: usize) -> u64 {
        let limb = |at: usize| {
            let limb = at.checked_sub(self.base).and_then(|at| self.limbs.get(at));
            limb.map_or(0, |limb| u128::from(limb.cast_unsigned()))
        };
        let (first, shift) = (place / LIMB_BITS, place % LIMB_BITS);
        let wide = limb(first) + (limb(first + 1) << LIMB_BITS) + (limb(first + 2) << (2 * LIMB_BITS));
        (wide >> shift) as u64
    }

    /// Whether any bit below this place is set.
    fn is_any_below(&self, place: usize) -> bool {
        let (limb, shift) = (place / LIMB_BITS, place % LIMB_BITS);
        self.limbs.iter().enumerate().any(|(at, value)| match (self.base + at).cmp(&limb) {
            std::cmp::Ordering::Less => *value != 0,
            std::cmp::Ordering::Equal => value & ((1 << shift) - 1) != 0,
            std::cmp::Ordering::Greater => false,
        })
    }

    /// Bytes it holds beside itself.
    pub(super) fn size(&self) -> usize {
        self.limbs.capacity() * size_of::<i64>()
    }

    /// Its bytes, for [`Self::read`].
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let mut sum = self.clone();
        sum.carry();
        let head = [sum.limbs.len() as i64, sum.base as i64, sum.nans, sum.infinities[0], sum.infinities[1]];
        head.iter().chain(&sum.limbs).for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
    }

    /// The sum that [`Self::write`] wrote; what follows it stays in `bytes`. `None` where it is none.
    pub(super) fn read(bytes: &mut &[u8]) -> Option<Self> {
        let mut next = || {
            let (number, rest) = bytes.split_first_chunk()?;
            *bytes = rest;
            Some(i64::from_le_bytes(*number))
        };
        let (limbs, base) = (next()?, usize::try_from(next()?).ok()?);
        let (nans, infinities) = (next()?, [next()?, next()?]);
        let limbs = (0..limbs).map(|_| next()).collect::<Option<Vec<i64>>>()?;
        Some(Self { limbs, base, additions: 1, nans, infinities })
    }
}

/// The exact product of two doubles as two that add up to it, unless it leaves their range; what is not finite is one
/// of them alone.
pub(super) fn product(a: f64, b: f64) -> [f64; 2] {
    let high = a * b;
    let low = a.mul_add(b, -high);
    [high, if high.is_finite() { low } else { 0.0 }]
}

#[cfg(test)]
mod tests;
