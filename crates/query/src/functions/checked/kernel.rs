//! Operations on arrays: a wrapping loop without branches, and one bit that says whether any result has wrapped.

use super::Operation;
use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::DataType;
use std::fmt::Display;
use std::sync::Arc;

/// Two values whose result does not fit, as text.
#[derive(Debug)]
pub(super) struct Overflow {
    pub(super) values: Vec<String>,
}

/// A number whose operations wrap: each gives the result, and a number whose highest bit says whether it has.
pub(super) trait Whole: Copy + Default + Display {
    fn add(self, other: Self) -> (Self, Self);
    fn subtract(self, other: Self) -> (Self, Self);
    fn multiply(self, other: Self) -> (Self, Self);
    fn shift_left(self, other: Self) -> (Self, Self);
    fn shift_right(self, other: Self) -> (Self, Self);
    fn or(self, other: Self) -> Self;
    fn exclusive_or(self, other: Self) -> Self;
    fn highest_bit(self) -> bool;
}

macro_rules! whole {
    ($($native:ty, |$a:ident, $b:ident, $r:ident| $added:expr, $subtracted:expr;)*) => {$(
        impl Whole for $native {
            #[inline(always)]
            fn add(self, other: Self) -> (Self, Self) {
                let ($a, $b, $r) = (self, other, self.wrapping_add(other));
                ($r, $added)
            }

            #[inline(always)]
            fn subtract(self, other: Self) -> (Self, Self) {
                let ($a, $b, $r) = (self, other, self.wrapping_sub(other));
                ($r, $subtracted)
            }

            #[inline(always)]
            fn multiply(self, other: Self) -> (Self, Self) {
                let (result, wrapped) = self.overflowing_mul(other);
                (result, Self::from(wrapped) << (Self::BITS - 1))
            }

            #[inline(always)]
            fn shift_left(self, other: Self) -> (Self, Self) {
                let by = u32::try_from(other).unwrap_or(u32::MAX);
                let result = self.checked_shl(by).unwrap_or_default();
                let back = result.checked_shr(by).unwrap_or_default();
                (result, Self::from(back != self || i128::from(other) < 0) << (Self::BITS - 1))
            }

            #[inline(always)]
            fn shift_right(self, other: Self) -> (Self, Self) {
                let by = u32::try_from(other).unwrap_or(u32::MAX);
                // Past all bits the sign is left, where there is one.
                let result = self.checked_shr(by).unwrap_or((self >> (Self::BITS - 1)) >> 1);
                (result, Self::from(i128::from(other) < 0) << (Self::BITS - 1))
            }

            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }

            #[inline(always)]
            fn exclusive_or(self, other: Self) -> Self {
                self ^ other
            }

            fn highest_bit(self) -> bool {
                self.leading_zeros() == 0
            }
        }
    )*};
}
// The sign of a sum is wrong where it is neither side's; a carry out of the highest bit has left an unsigned sum.
whole!(
    i8, |a, b, r| (a ^ r) & (b ^ r), (a ^ b) & (a ^ r);
    i16, |a, b, r| (a ^ r) & (b ^ r), (a ^ b) & (a ^ r);
    i32, |a, b, r| (a ^ r) & (b ^ r), (a ^ b) & (a ^ r);
    i64, |a, b, r| (a ^ r) & (b ^ r), (a ^ b) & (a ^ r);
    u8, |a, b, r| (a & b) | ((a | b) & !r), (!a & b) | ((!a | b) & r);
    u16, |a, b, r| (a & b) | ((a | b) & !r), (!a & b) | ((!a | b) & r);
    u32, |a, b, r| (a & b) | ((a | b) & !r), (!a & b) | ((!a | b) & r);
    u64, |a, b, r| (a & b) | ((a | b) & !r), (!a & b) | ((!a | b) & r);
);

/// The results of `operation`, as an array of `data_type`; a side of one row is that value for all rows.
///
/// # Errors
/// The first values whose result does not fit. What stands where a side is NULL does not count.
pub(super) fn compute<A: ArrowPrimitiveType>(
    operation: Operation,
    (left, right): (&ArrayRef, Option<&ArrayRef>),
    data_type: &DataType,
) -> Result<ArrayRef, Overflow>
where
    A::Native: Whole,
{
    let left = left.as_primitive::<A>();
    let right = right.map(|right| right.as_primitive::<A>());
    match operation {
        Operation::Add => run(left, right, Whole::add, data_type),
        Operation::Subtract => run(left, right, Whole::subtract, data_type),
        Operation::Multiply => run(left, right, Whole::multiply, data_type),
        Operation::ShiftLeft => run(left, right, Whole::shift_left, data_type),
        Operation::ShiftRight => run(left, right, Whole::shift_right, data_type),
        Operation::Difference => run(left, right, signed_difference, data_type),
        Operation::Negate => run(left, None, |value, _| A::Native::default().subtract(value), data_type),
    }
}

/// The bits of the difference of two unsigned numbers as a signed one, which fits where its sign says which is less.
#[inline(always)]
fn signed_difference<N: Whole>(a: N, b: N) -> (N, N) {
    let (result, borrow) = a.subtract(b);
    (result, result.exclusive_or(borrow))
}

fn run<A: ArrowPrimitiveType>(
    left: &PrimitiveArray<A>,
    right: Option<&PrimitiveArray<A>>,
    operation: impl Fn(A::Native, A::Native) -> (A::Native, A::Native),
    data_type: &DataType,
) -> Result<ArrayRef, Overflow>
where
    A::Native: Whole,
{
    let of_right = right.unwrap_or(left);
    let (a, b) = (&left.values()[..], &of_right.values()[..]);
    let mut flags = A::Native::default();
    let mut one = |a: A::Native, b: A::Native| {
        let (result, flag) = operation(a, b);
        flags = flags.or(flag);
        result
    };
    let values: Vec<A::Native> = match (a, b) {
        (a, [b]) if a.len() != 1 => a.iter().map(|a| one(*a, *b)).collect(),
        ([a], b) => b.iter().map(|b| one(*a, *b)).collect(),
        (a, b) => a.iter().zip(b).map(|(a, b)| one(*a, *b)).collect(),
    };
    // One value for all rows is never NULL.
    let nulls_of =
        |side: &PrimitiveArray<A>| side.nulls().filter(|nulls| nulls.len() == values.len()).cloned();
    let nulls = NullBuffer::union(nulls_of(left).as_ref(), nulls_of(of_right).as_ref());
    if flags.highest_bit() {
        let at = |values: &[A::Native], row: usize| if let [only] = values { *only } else { values[row] };
        let wraps = |row: &usize| operation(at(a, *row), at(b, *row)).1.highest_bit();
        let valid = |row: &usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row));
        if let Some(row) = (0..values.len()).filter(valid).find(wraps) {
            let sides = [Some(at(a, row)), right.map(|_| at(b, row))];
            return Err(Overflow {
                values: sides.into_iter().flatten().map(|side| side.to_string()).collect(),
            });
        }
    }
    Ok(Arc::new(PrimitiveArray::<A>::new(values.into(), nulls).with_data_type(data_type.clone())))
}
