use super::with_one_nan;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, Float32Array, Float64Array, ListArray};
use std::sync::Arc;

const NAN: u64 = 0x7ff8_0000_0000_0000;

fn of(bits: &[u64]) -> ArrayRef {
    Arc::new(bits.iter().map(|&bits| Some(f64::from_bits(bits))).collect::<Float64Array>())
}

#[test]
fn every_nan_becomes_the_one_and_nothing_else_changes() {
    let kept = [
        0,
        1 << 63,
        0x7ff0 << 48,
        0xfff0 << 48,
        1,
        u64::MAX >> 12,
        1.5_f64.to_bits(),
        (-1.5_f64).to_bits(),
        NAN,
    ];
    let others = [NAN | 1 << 63, NAN | 1, 0x7ff0 << 48 | 1, u64::MAX, u64::MAX >> 1, 0xfff0 << 48 | 1];
    let array = of(&[&kept[..], &others[..]].concat());
    let found: Vec<u64> =
        with_one_nan(&array).as_primitive::<Float64Type>().values().iter().map(|v| v.to_bits()).collect();
    assert_eq!(found, [&kept[..], &[NAN; 6][..]].concat());
    let kept = of(&kept);
    assert!(Arc::ptr_eq(&kept, &with_one_nan(&kept)), "no copy where nothing changes");
}

#[test]
fn floats_and_elements_of_arrays_too_and_nulls_stay() {
    let floats: ArrayRef = Arc::new(Float32Array::from(vec![Some(-f32::NAN), None, Some(-0.0)]));
    let found = with_one_nan(&floats);
    let found = found.as_primitive::<Float32Type>();
    assert_eq!(found.value(0).to_bits(), 0x7fc0_0000);
    assert!(found.is_null(1) && found.value(2).to_bits() == 1 << 31);
    let lists = ListArray::from_iter_primitive::<Float64Type, _, _>([
        Some(vec![Some(1.0), Some(-f64::NAN)]),
        None,
        Some(vec![None]),
    ]);
    let found = with_one_nan(&(Arc::new(lists) as ArrayRef));
    let found = found.as_list::<i32>();
    assert_eq!(found.value(0).as_primitive::<Float64Type>().value(1).to_bits(), NAN);
    assert!(found.is_null(1) && found.value(2).is_null(0));
}
