use super::*;
use arrow_cast::{CastOptions, can_cast_types, cast_with_options};
use datafusion::arrow::array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, StringArray, make_comparator,
};
use datafusion::arrow::compute::{SortOptions, filter, is_not_null};
use datafusion::arrow::datatypes::TimeUnit::{Microsecond, Nanosecond, Second};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Names that a session knows and the list does not have, and the other way round.
fn difference<'a>(
    known: impl IntoIterator<Item = &'a str>,
    declared: impl IntoIterator<Item = &'a str>,
) -> (Vec<&'a str>, Vec<&'a str>) {
    let (known, declared): (BTreeSet<_>, BTreeSet<_>) =
        (known.into_iter().collect(), declared.into_iter().collect());
    (known.difference(&declared).copied().collect(), declared.difference(&known).copied().collect())
}

#[test]
fn every_aggregate_and_window_function_declares_what_it_is() {
    let state = crate::state::base(1, usize::MAX).unwrap();
    let aggregates: Vec<_> = state.aggregate_functions().values().collect();
    let declared = AGGREGATES.iter().map(|of| of.name);
    let (undeclared, unknown) = difference(aggregates.iter().map(|of| of.name()), declared);
    assert!(undeclared.is_empty() && unknown.is_empty(), "undeclared {undeclared:?}, unknown {unknown:?}");
    let windows: Vec<_> = state.window_functions().values().collect();
    let both = |name: &&str| !NULLS_IN_WINDOWS.contains(name);
    let known = windows.iter().map(|of| of.name()).filter(both);
    let (undeclared, unknown) = difference(known, WINDOWS.iter().map(|(name, _)| *name));
    assert!(undeclared.is_empty() && unknown.is_empty(), "undeclared {undeclared:?}, unknown {unknown:?}");
}

#[test]
fn every_node_is_declared_once() {
    let names: BTreeSet<_> = NODES.iter().map(|of| of.name).collect();
    assert_eq!(names.len(), NODES.len());
}

const NULL_WHERE_IT_FAILS: CastOptions<'static> =
    CastOptions { safe: true, format_options: datafusion::arrow::util::display::FormatOptions::new() };

/// Those that a cast makes of values, in their order, without what it fails for.
fn cast(values: &ArrayRef, to: &DataType) -> ArrayRef {
    let values = cast_with_options(values, to, &NULL_WHERE_IT_FAILS).unwrap();
    filter(&values, &is_not_null(&values).unwrap()).unwrap()
}

/// Values that ascend, of each type that casts are declared of.
fn ascending() -> Vec<ArrayRef> {
    use DataType::*;
    let whole: Vec<i64> = vec![
        i64::MIN,
        i64::MIN + 1,
        -86_400_000_000_001,
        -4_294_967_296,
        -2_147_483_649,
        -32_769,
        -129,
        -128,
        -2,
        -1,
        0,
        1,
        2,
        3,
        127,
        128,
        255,
        256,
        32_768,
        65_536,
        16_777_216,
        16_777_217,
        2_147_483_647,
        4_294_967_296,
        9_007_199_254_740_992,
        9_007_199_254_740_993,
        i64::MAX - 1,
        i64::MAX,
    ];
    let real = vec![
        f64::NEG_INFINITY,
        -1e300,
        -1e19,
        -2.5e9,
        -129.5,
        -2.5,
        -1.5,
        -0.5,
        0.0,
        0.1,
        0.100_000_001,
        0.5,
        1.5,
        2.5,
        99.4,
        99.5,
        127.5,
        1e10,
        1e19,
        1e300,
        f64::INFINITY,
        f64::NAN,
    ];
    let times = vec![
        -86_400_000_000_001,
        -86_400_000_000_000,
        -1,
        0,
        1,
        43_200_000_000_000,
        86_399_999_999_999,
        86_400_000_000_000,
        1_704_067_200_123_456_789,
    ];
    let days: Vec<i32> = vec![-800_000, -2, -1, 0, 1, 19_723, 100_000, 2_932_896];
    let (whole, real): (ArrayRef, ArrayRef) =
        (Arc::new(Int64Array::from(whole)), Arc::new(Float64Array::from(real)));
    let (times, days): (ArrayRef, ArrayRef) =
        (Arc::new(Int64Array::from(times)), Arc::new(Int32Array::from(days)));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["", "1", "10", "2", "a", "b", "é"]));
    let of =
        |values: &ArrayRef, types: &[DataType]| types.iter().map(|to| cast(values, to)).collect::<Vec<_>>();
    let zone = |unit| Timestamp(unit, Some("UTC".into()));
    let mut all: Vec<ArrayRef> = vec![Arc::new(BooleanArray::from(vec![false, true]))];
    all.extend(of(&whole, &[Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Decimal128(20, 2)]));
    all.extend(of(&real, &[Float32, Float64, Decimal128(38, 10), Decimal128(10, 1), Decimal256(50, 3)]));
    all.extend(of(
        &times,
        &[Timestamp(Nanosecond, None), Timestamp(Microsecond, None), Timestamp(Second, None)],
    ));
    all.extend(of(&times, &[zone(Nanosecond), zone(Microsecond), Date64]));
    all.extend(of(&times, &[Duration(Nanosecond), Duration(Second)]));
    all.extend(of(&days, &[Date32]));
    let of_day = times.slice(3, 4);
    all.extend(of(&of_day, &[Time64(Nanosecond), Time64(Microsecond)]));
    all.extend(of(&texts, &[Utf8, LargeUtf8, Utf8View, Dictionary(Box::new(UInt32), Box::new(Utf8))]));
    all
}

#[test]
fn declared_casts_keep_order_and_tell_values_apart() {
    let all = ascending();
    let mut declared = 0;
    for values in &all {
        let from = values.data_type();
        for to in all.iter().map(|of| of.data_type()).filter(|to| can_cast_types(from, to)) {
            if !cast_keeps_order(from, to) {
                assert!(!cast_tells_apart(from, to), "{from} to {to}");
                continue;
            }
            declared += 1;
            let made = cast(values, to);
            let before = make_comparator(values, values, SortOptions::default()).unwrap();
            let order = make_comparator(&made, &made, SortOptions::default()).unwrap();
            let strict = cast_tells_apart(from, to);
            assert!(!strict || made.len() == values.len(), "{from} to {to} fails");
            for at in 1..made.len() {
                let order = order(at - 1, at);
                assert!(order != Ordering::Greater, "{from} to {to}: {made:?}");
                assert!(!strict || order == before(at - 1, at), "{from} to {to}: {made:?}");
            }
        }
    }
    assert!(declared > 200, "{declared}");
}
