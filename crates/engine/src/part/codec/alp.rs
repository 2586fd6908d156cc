//! Doubles that are decimals at heart (ALP: Afroozeh, Kuffo, Boncz, SIGMOD 2024).
//!
//! A value is an integer of the `ints` codec and a pair of powers of ten the chunk shares:
//! `value = integer * 10^f * 10^-e`, or, where products lose the last bit, `integer / 10^e`. Each value is
//! encoded only if decoding gives back the very same bits; others (NaN, infinities, -0.0, true reals) are
//! exceptions, stored whole with their place.

use super::ints::{self, IntPlan};
use super::lane::Finish;
use super::shape::{Piece, Role};
use super::slots::{Plain, Slot};
use super::varint::{put_varint, take_byte, take_bytes, take_varint};
use super::{Damage, Decoded, kind, split, words};
use crate::part::BLOCK_ROWS;
use crate::part::layout::{u16_at, u64_at};
use std::marker::PhantomData;

/// `f` of a plan that divides.
const DIVIDE: u8 = 0xff;
/// Most digits after the point.
const MAX_POWER: usize = 18;
/// Integers stay below 2^51, where adding [`MAGIC`] rounds to the nearest integer.
const MAX_INTEGER: f64 = 2_251_799_813_685_248.0;
/// 1.5 * 2^52: a double this large has no fraction bits.
const MAGIC: f64 = 6_755_399_441_055_744.0;

const POWERS: [f64; MAX_POWER + 1] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18];
const INVERSES: [f64; MAX_POWER + 1] = [
    1e0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13, 1e-14, 1e-15,
    1e-16, 1e-17, 1e-18,
];

/// The powers of ten a chunk's doubles are scaled by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::part) struct AlpPlan {
    e: u8,
    f: u8,
}

/// A float column's native type; a FLOAT is computed as a double and rounded.
pub(in crate::part) trait Real: Plain {
    /// Bytes of the type.
    const BYTES: usize;
    fn to_f64(self) -> f64;
    fn from_f64(value: f64) -> Self;
    /// The bits, in the low ones.
    fn bits(self) -> u64;
    /// The value of bits that were stored; NaN is the one of [`tickstone_model::with_one_nan`], whichever was written
    /// by versions that kept their bits.
    fn from_bits64(bits: u64) -> Self;
}

impl Real for f64 {
    const BYTES: usize = 8;
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value
    }
    fn bits(self) -> u64 {
        self.to_bits()
    }
    #[inline(always)]
    fn from_bits64(bits: u64) -> Self {
        let value = f64::from_bits(bits);
        if value.is_nan() { f64::NAN } else { value }
    }
}

impl Real for f32 {
    const BYTES: usize = 4;
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value as f32
    }
    fn bits(self) -> u64 {
        u64::from(self.to_bits())
    }
    #[inline(always)]
    fn from_bits64(bits: u64) -> Self {
        let value = f32::from_bits(bits as u32);
        if value.is_nan() { f32::NAN } else { value }
    }
}

impl AlpPlan {
    /// The plan of these parameters, where there is one.
    pub(in crate::part) fn of_powers(e: u8, f: u8) -> Option<Self> {
        is_known(e, f).then_some(Self { e, f })
    }

    /// The parameters.
    pub(in crate::part) fn powers(self) -> (u8, u8) {
        (self.e, self.f)
    }

    /// The decimal digits kept after the point.
    #[inline(always)]
    fn digits(self) -> usize {
        if self.f == DIVIDE { usize::from(self.e) } else { usize::from(self.e - self.f) }
    }

    /// The nearest integer, which may not decode to the same value.
    #[inline(always)]
    fn integer(self, value: f64) -> f64 {
        (value * POWERS[self.digits()] + MAGIC) - MAGIC
    }

    /// The value of an integer.
    #[inline(always)]
    pub(in crate::part) fn decimal(self, integer: f64) -> f64 {
        if self.f == DIVIDE {
            integer / POWERS[usize::from(self.e)]
        } else {
            integer * POWERS[usize::from(self.f)] * INVERSES[usize::from(self.e)]
        }
    }

    /// The sum of the values of integers whose sum is `sum`: rounded once where that is exact.
    pub(in crate::part) fn sum(self, sum: i128) -> f64 {
        sum as f64 / POWERS[self.digits()]
    }

    /// The least integer whose value is at least `value`, as far as plain integers go.
    pub(in crate::part) fn least_from(self, value: f64) -> i64 {
        let near = (value * POWERS[self.digits()]).clamp(-MAX_INTEGER, MAX_INTEGER) as i64;
        // Products round: the right one is next to it.
        let mut least = near + 4;
        while least > near - 4 && self.decimal((least - 1) as f64) >= value {
            least -= 1;
        }
        least
    }

    /// Whether the nearest integer decodes to exactly `value`.
    #[inline(always)]
    fn is_exact<R: Real>(self, value: R) -> bool {
        let integer = self.integer(value.to_f64());
        (integer.abs() < MAX_INTEGER) & (R::from_f64(self.decimal(integer)).bits() == value.bits())
    }

    /// The integer that decodes to exactly `value`.
    pub(in crate::part) fn exact<R: Real>(self, value: R) -> Option<i64> {
        self.is_exact(value).then(|| self.integer(value.to_f64()) as i64)
    }
}

/// The powers that suit each of some values; `None` where there are none that do.
pub(in crate::part) fn suit_all(values: &[f64]) -> Option<AlpPlan> {
    choose(values).filter(|plan| values.iter().all(|&value| plan.is_exact(value)))
}

/// The powers that suit a sample, `None` where too few of its values are decimals.
pub(in crate::part) fn choose<R: Real>(sample: &[R]) -> Option<AlpPlan> {
    let misses = |plan: AlpPlan| sample.iter().filter(|&&value| plan.exact(value).is_none()).count();
    let mut best: Option<(usize, AlpPlan)> = None;
    for e in 0..=MAX_POWER {
        let plan = AlpPlan { e: e as u8, f: DIVIDE };
        let missed = misses(plan);
        // Another digit costs more than three bits a value, an exception eighty.
        if best.is_none_or(|(least, _)| missed + sample.len() / 24 < least) {
            best = Some((missed, plan));
        }
        if missed == 0 {
            break;
        }
    }
    let (missed, divide) = best?;
    if missed > sample.len() * 2 / 3 {
        return None;
    }
    // A product decodes faster than a quotient: take the first that loses nothing.
    let digits = usize::from(divide.e);
    (digits..=MAX_POWER)
        .map(|e| AlpPlan { e: e as u8, f: (e - digits) as u8 })
        .find(|&plan| misses(plan) <= missed)
        .or(Some(divide))
}

/// The powers proposed for a chunk, or others where too many of these values are no such decimals.
pub(in crate::part) fn suit<R: Real>(proposed: Option<AlpPlan>, values: &[R]) -> Option<AlpPlan> {
    let proposed = proposed?;
    let misses = |plan: AlpPlan| values.iter().filter(|&&value| !plan.is_exact(value)).count();
    let missed = misses(proposed);
    if missed * 32 < values.len() {
        return Some(proposed);
    }
    let sample: Vec<R> = values.iter().copied().step_by(4).collect();
    let own = choose(&sample)?;
    Some(if misses(own) * 2 < missed { own } else { proposed })
}

/// The integers of a sample, for [`ints::sample`].
pub(in crate::part) fn integers<R: Real>(plan: AlpPlan, values: &[R]) -> Vec<u64> {
    values.iter().filter_map(|&value| plan.exact(value)).map(i64::cast_unsigned).collect()
}

/// Appends the pieces of `values` (1 to 1,024).
pub(in crate::part) fn push<R: Real>(plan: AlpPlan, hint: IntPlan, values: &[R], pieces: &mut Vec<Piece>) {
    let mut integers: Vec<u64> = Vec::with_capacity(values.len());
    // Two passes, so that the first one, which is all there is to most blocks, has no branch.
    integers.extend(values.iter().map(|&value| (plan.integer(value.to_f64()) as i64).cast_unsigned()));
    let (mut places, mut whole) = (Vec::new(), Vec::new());
    let misses = values.iter().filter(|&&value| !plan.is_exact(value)).count();
    if misses > 0 {
        let mut previous = values.iter().find_map(|&value| plan.exact(value)).unwrap_or(0).cast_unsigned();
        for (place, (&value, integer)) in values.iter().zip(&mut integers).enumerate() {
            if plan.is_exact(value) {
                previous = *integer;
            } else {
                *integer = previous;
                places.extend_from_slice(&(place as u16).to_le_bytes());
                whole.extend_from_slice(&value.bits().to_le_bytes()[..R::BYTES]);
            }
        }
    }
    let mut head = vec![kind::DECIMALS, plan.e, plan.f];
    put_varint(misses as u64, &mut head);
    head.extend_from_slice(&places);
    head.extend_from_slice(&whole);
    pieces.push(Piece::Bytes(head));
    pieces.push(Piece::Wide(Role::Values, integers, hint));
}

/// The powers of what [`push`] wrote, past the first byte, and the words of it; `None` where there are exceptions.
pub(super) fn without_exceptions(mut bytes: &[u8]) -> Decoded<Option<(AlpPlan, &[u8])>> {
    let (e, f) = (take_byte(&mut bytes)?, take_byte(&mut bytes)?);
    let exceptions = take_varint(&mut bytes)?;
    Ok(AlpPlan::of_powers(e, f).filter(|_| exceptions == 0).map(|powers| (powers, bytes)))
}

/// Decodes what [`push`] wrote, past the first byte.
pub(in crate::part) fn decode_words<'s, R: Real>(
    bytes: &mut &[u8],
    tables: &[u8],
    slots: &'s mut [Slot<R>],
) -> Decoded<&'s mut [R]> {
    let (e, f) = (take_byte(bytes)?, take_byte(bytes)?);
    let exceptions = usize::try_from(take_varint(bytes)?).unwrap_or(usize::MAX);
    check_powers(e, f, exceptions, slots.len())?;
    let places = take_bytes(bytes, exceptions * 2)?;
    let whole = take_bytes(bytes, exceptions * R::BYTES)?;
    let values = if f == DIVIDE {
        let quotient = Quotient { divisor: POWERS[usize::from(e)], real: PhantomData };
        words::decode(bytes, tables, quotient, slots)?
    } else {
        let (up, down) = (POWERS[usize::from(f)], INVERSES[usize::from(e)]);
        words::decode(bytes, tables, Product { up, down, real: PhantomData }, slots)?
    };
    patch(places, whole, exceptions, values)?;
    Ok(values)
}

fn is_known(e: u8, f: u8) -> bool {
    usize::from(e) <= MAX_POWER && (f == DIVIDE || f <= e)
}

fn check_powers(e: u8, f: u8, exceptions: usize, rows: usize) -> Decoded<()> {
    if !is_known(e, f) || exceptions > BLOCK_ROWS || rows > BLOCK_ROWS {
        return Err(Damage("an unknown decimal encoding"));
    }
    Ok(())
}

/// Puts exceptions in their places.
fn patch<R: Real>(places: &[u8], whole: &[u8], exceptions: usize, values: &mut [R]) -> Decoded<()> {
    for (place, bytes) in places.chunks_exact(2).zip(whole.chunks_exact(R::BYTES)).take(exceptions) {
        let value =
            values.get_mut(usize::from(u16_at(place, 0))).ok_or(Damage("an exception past its block"))?;
        let mut wide = [0; 8];
        wide[..R::BYTES].copy_from_slice(bytes);
        *value = R::from_bits64(u64::from_le_bytes(wide));
    }
    Ok(())
}

/// Decodes exactly `slots.len()` values (at most 1,024) of format 1.
pub(in crate::part) fn decode<'s, R: Real>(
    parameters: [u8; 2],
    bytes: &[u8],
    slots: &'s mut [Slot<R>],
) -> Decoded<&'s mut [R]> {
    let [e, f] = parameters;
    let (count, rest) = split(bytes, 8)?;
    let exceptions = usize::try_from(u64_at(count, 0)).unwrap_or(usize::MAX);
    check_powers(e, f, exceptions, slots.len())?;
    let (places, rest) = split(rest, (exceptions * 2).next_multiple_of(8))?;
    let (whole, rest) = split(rest, (exceptions * R::BYTES).next_multiple_of(8))?;
    let values = if f == DIVIDE {
        ints::decode(rest, Quotient { divisor: POWERS[usize::from(e)], real: PhantomData }, slots)?
    } else {
        let (up, down) = (POWERS[usize::from(f)], INVERSES[usize::from(e)]);
        ints::decode(rest, Product { up, down, real: PhantomData }, slots)?
    };
    patch(places, whole, exceptions, values)?;
    Ok(values)
}

/// The double of an integer below 2^51: adding [`MAGIC`]'s bits makes MAGIC + integer, without a conversion that
/// has no vector form.
#[inline(always)]
fn real(word: u64) -> f64 {
    f64::from_bits(word.wrapping_add(MAGIC.to_bits())) - MAGIC
}

/// An integer becomes a decimal by two products.
#[derive(Debug, Clone, Copy)]
struct Product<R> {
    up: f64,
    down: f64,
    real: PhantomData<R>,
}

impl<R: Real> Finish<u64> for Product<R> {
    type Value = R;

    #[inline(always)]
    fn finish(self, word: u64) -> R {
        R::from_f64(real(word) * self.up * self.down)
    }
}

/// An integer becomes a decimal by division.
#[derive(Debug, Clone, Copy)]
struct Quotient<R> {
    divisor: f64,
    real: PhantomData<R>,
}

impl<R: Real> Finish<u64> for Quotient<R> {
    type Value = R;

    #[inline(always)]
    fn finish(self, word: u64) -> R {
        R::from_f64(real(word) / self.divisor)
    }
}
