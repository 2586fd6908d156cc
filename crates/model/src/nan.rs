//! One NaN: IEEE 754 has 2^53 of them, which orders and hashes by bits tell apart; a processor makes a negative
//! one of 0/0. SQL has one, larger than every number, and so has every row from where it enters.

use arrow_array::types::{ArrowPrimitiveType, Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, LargeListArray, ListArray, PrimitiveArray};
use arrow_schema::DataType;
use std::sync::Arc;

/// Bits of a float, of its NaN.
trait Bits: ArrowPrimitiveType {
    /// The NaN that stands for all: positive, quiet, nothing else.
    const NAN: Self::Native;
    /// Whether these are the bits of another NaN.
    fn is_other(value: Self::Native) -> bool;
}

macro_rules! bits {
    ($of:ty, $nan:expr, $infinity:expr) => {
        impl Bits for $of {
            const NAN: Self::Native = Self::Native::from_bits($nan);

            // Of integers, so that a loop over it has a vector form.
            #[inline(always)]
            fn is_other(value: Self::Native) -> bool {
                let bits = value.to_bits();
                ((bits << 1) > ($infinity << 1)) & (bits != $nan)
            }
        }
    };
}
bits!(Float64Type, 0x7ff8_0000_0000_0000, 0x7ff0_0000_0000_0000_u64);
bits!(Float32Type, 0x7fc0_0000, 0x7f80_0000_u32);
bits!(Float16Type, 0x7e00, 0x7c00_u16);

/// The same values with the one NaN in the place of every other: the same array where there is none. Elements of
/// arrays too; other types as they are.
#[must_use]
pub fn with_one_nan(array: &ArrayRef) -> ArrayRef {
    let changed = match array.data_type() {
        DataType::Float64 => of_floats::<Float64Type>(array),
        DataType::Float32 => of_floats::<Float32Type>(array),
        DataType::Float16 => of_floats::<Float16Type>(array),
        DataType::List(_) => of_list(array),
        DataType::LargeList(_) => of_large_list(array),
        _ => None,
    };
    changed.unwrap_or_else(|| Arc::clone(array))
}

fn of_floats<T: Bits>(array: &ArrayRef) -> Option<ArrayRef> {
    let floats: &PrimitiveArray<T> = array.as_any().downcast_ref()?;
    // Without an end before the last value: a branch for each would cost more than it spares.
    let found = floats.values().iter().fold(false, |found, &value| found | T::is_other(value));
    let one = |value| if T::is_other(value) { T::NAN } else { value };
    found.then(|| Arc::new(floats.unary::<_, T>(one)) as ArrayRef)
}

fn of_list(array: &ArrayRef) -> Option<ArrayRef> {
    let list: &ListArray = array.as_any().downcast_ref()?;
    let DataType::List(field) = list.data_type() else { return None };
    let values = changed(list.values())?;
    let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
    Some(Arc::new(ListArray::try_new(Arc::clone(field), offsets, values, nulls).ok()?))
}

fn of_large_list(array: &ArrayRef) -> Option<ArrayRef> {
    let list: &LargeListArray = array.as_any().downcast_ref()?;
    let DataType::LargeList(field) = list.data_type() else { return None };
    let values = changed(list.values())?;
    let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
    Some(Arc::new(LargeListArray::try_new(Arc::clone(field), offsets, values, nulls).ok()?))
}

/// The array with one NaN, `None` where that is the array itself.
fn changed(array: &ArrayRef) -> Option<ArrayRef> {
    let one = with_one_nan(array);
    (!Arc::ptr_eq(&one, array)).then_some(one)
}

#[cfg(test)]
mod tests;
