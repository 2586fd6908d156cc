//! Memory that decoders fill: never cleared first, as clearing takes as long as decoding does.
//!
//! A decoder is lent slots and gives them back as values once each of them is written.

use super::{Damage, Decoded};
use std::mem::MaybeUninit;

/// A place for a value.
pub(in crate::part) type Slot<T> = MaybeUninit<T>;

/// A value that is nothing but its bits.
///
/// # Safety
/// The type has no padding, and every bit pattern is a value of it.
pub(in crate::part) unsafe trait Plain:
    Copy + Default + Send + Sync + 'static
{
}

macro_rules! plain {
    ($($native:ty),*) => {$(
        // SAFETY: numbers and bytes have no padding, and any bits are one.
        unsafe impl Plain for $native {}
    )*};
}
plain!(i8, i16, i32, i64, i128, u8, u16, u32, u64, f32, f64, [u8; 16]);

/// Slots on the stack.
#[inline(always)]
pub(in crate::part) fn scratch<T, const N: usize>() -> [Slot<T>; N] {
    [const { MaybeUninit::uninit() }; N]
}

/// The first `count` slots.
pub(in crate::part) fn first<T>(slots: &mut [Slot<T>], count: usize) -> Decoded<&mut [Slot<T>]> {
    slots.get_mut(..count).ok_or(Damage("a block of too many values"))
}

/// Writes `value` to each slot.
pub(in crate::part) fn fill<T: Copy>(slots: &mut [Slot<T>], value: T) -> &mut [T] {
    for slot in slots.iter_mut() {
        slot.write(value);
    }
    // SAFETY: each slot was written just now.
    unsafe { slots.assume_init_mut() }
}

/// Writes what `values` yields, a value for each slot; an error where it ends early.
#[inline(always)]
pub(in crate::part) fn write_all<T: Copy>(
    slots: &mut [Slot<T>],
    values: impl IntoIterator<Item = T>,
) -> Decoded<&mut [T]> {
    let mut written = 0;
    for (slot, value) in slots.iter_mut().zip(values) {
        slot.write(value);
        written += 1;
    }
    if written != slots.len() {
        return Err(Damage("a block ends before its values do"));
    }
    // SAFETY: as many slots as there are were written, one after the other.
    Ok(unsafe { slots.assume_init_mut() })
}

/// Appends `count` values that `decode` writes straight to their place.
pub(in crate::part) fn append<T>(
    values: &mut Vec<T>,
    count: usize,
    decode: impl FnOnce(&mut [Slot<T>]) -> Decoded<&mut [T]>,
) -> Decoded<()> {
    values.reserve(count);
    write_by(first(values.spare_capacity_mut(), count)?, decode)?;
    // SAFETY: the `count` slots past the length were written just now.
    unsafe { values.set_len(values.len() + count) };
    Ok(())
}

/// Lets `decode` write all slots but the last `padding`, and clears those.
pub(in crate::part) fn padded<T: Plain>(
    slots: &mut [Slot<T>],
    padding: usize,
    decode: impl FnOnce(&mut [Slot<T>]) -> Decoded<&mut [T]>,
) -> Decoded<&mut [T]> {
    let (values, rest) = slots.split_at_mut(slots.len().saturating_sub(padding));
    write_by(values, decode)?;
    fill(rest, T::default());
    // SAFETY: the first slots were written by `decode`, the others were cleared.
    Ok(unsafe { slots.assume_init_mut() })
}

/// Has every slot written: what `decode` gives back must be these slots.
fn write_by<T>(
    slots: &mut [Slot<T>],
    decode: impl FnOnce(&mut [Slot<T>]) -> Decoded<&mut [T]>,
) -> Decoded<()> {
    let (place, count) = (slots.as_ptr().cast::<T>(), slots.len());
    let values = decode(slots)?;
    if values.len() != count || values.as_ptr() != place {
        return Err(Damage("a block ends before its values do"));
    }
    Ok(())
}
