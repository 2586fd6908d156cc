//! Where slices end.

use super::*;

fn ends(times: &[i64], slice_rows: usize) -> Vec<usize> {
    let permutation: Vec<u32> = (0..times.len() as u32).collect();
    let (mut start, mut ends) = (0, Vec::new());
    while start < times.len() {
        start = slice_end(&permutation, Some(times), start, slice_rows);
        ends.push(start);
    }
    ends
}

#[test]
fn slices_are_about_equal() {
    let times: Vec<i64> = (0..10).collect();
    assert_eq!(ends(&times, 9), [5, 10]);
    assert_eq!(ends(&times, 4), [4, 7, 10]);
    assert_eq!(ends(&times, 100), [10]);
}

#[test]
fn one_instant_stays_together_where_it_fits() {
    assert_eq!(ends(&[1, 1, 2, 2, 2, 3], 4), [2, 6]);
    assert_eq!(ends(&[1, 1, 1, 1, 2, 3], 4), [4, 6]);
    assert_eq!(ends(&[1, 1, 1, 1, 1, 1, 2], 3), [3, 6, 7]);
}

#[test]
fn sparse_and_null_ids_sort_as_others() {
    let ids: Vec<SymbolId> = vec![NULL_SYMBOL, 4_000_000_000, 3, 3, 4_000_000_000, NULL_SYMBOL, 0];
    let mut rows: Vec<u32> = (0..7).collect();
    sort_by_id(&mut rows, &ids, &mut Vec::new());
    assert_eq!(rows, [6, 2, 3, 1, 4, 0, 5]);
    let ids: Vec<SymbolId> = ids.iter().map(|&id| if id == 4_000_000_000 { 9 } else { id }).collect();
    let mut rows: Vec<u32> = (0..7).collect();
    sort_by_id(&mut rows, &ids, &mut Vec::new());
    assert_eq!(rows, [6, 2, 3, 1, 4, 0, 5]);
}
