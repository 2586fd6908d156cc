//! Filters never deny a value that is there, deny almost all others, and are under checksums like everything else.

use super::table::{Random, Shape, batches, schema};
use super::*;
use crate::EngineError;
use crate::part::bloom::{filter_bytes, filtered};
use arrow_array::{Array, Float64Array, Int64Array, StringArray, UInt64Array};
use proptest::prelude::*;
use tickstone_model::{AlterTable, ColumnType, PartitionBy};

/// The same table with every column indexed that can be.
pub(super) fn indexed(schema: &TableSchema) -> Arc<TableSchema> {
    let scalars = schema.columns().iter().filter(|column| !column.column_type.is_array());
    let names = scalars.map(|column| AlterTable::AddIndex(column.name.clone()));
    Arc::new(names.fold(schema.clone(), |schema, change| schema.altered(&change).unwrap()))
}

fn shape(seed: u64, rows: usize) -> Shape {
    Shape { seed, rows, batches: 2, symbols: 5, timestamp: true, shuffled: true, series: 1, nulls: true }
}

/// A part with one column of these values, looked up.
fn part_of(values: ArrayRef, column_type: ColumnType, slice_rows: usize) -> Part {
    let schema = TableSchema::builder("t").column("id", column_type).series::<&str>([]).indexed(["id"]);
    let schema = Arc::new(schema.build().unwrap());
    let batch = RowBatch::new(Arc::clone(&schema), vec![values]).unwrap();
    open(write(&schema, &[batch], slice_rows, 1), &schema).unwrap()
}

/// Rows of all slices that a look-up of `values` leaves.
fn found(part: &Part, column_type: ColumnType, values: ArrayRef) -> Vec<Range<usize>> {
    let points = ColumnPoints::new(0, column_type, &values).unwrap();
    (0..part.slices().len()).flat_map(|slice| part.point_rows(slice, 0, &points).unwrap().unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_value_that_is_there_is_never_denied(
        seed: u64, rows in prop_oneof![0_usize..40, 900..1_200_usize, 0..40_000_usize],
        timestamp: bool, series in 0_usize..3, nulls: bool,
        slice_rows in prop_oneof![Just(1_000_000_usize), 500..20_000_usize], threads in 1_usize..3, dense: bool,
    ) {
        let shape = Shape { timestamp, series, nulls, ..shape(seed, rows) };
        let schema = indexed(&schema(&shape));
        let density = if dense { Density::Dense } else { Density::Fast };
        let bytes = write_as(density, &schema, &batches(&shape, &schema), slice_rows, threads);
        let part = open(bytes, &schema).unwrap();
        part.check().unwrap();
        let filtered: Vec<usize> = filtered(&schema).collect();
        prop_assert_eq!(filtered.len(), schema.columns().len() - series - usize::from(timestamp));
        let mut random = Random(seed);
        for (column, known) in schema.columns().iter().enumerate() {
            for (slice, held) in part.slices().iter().enumerate() {
                let values = part.read(column, held.rows.clone()).unwrap();
                let picks: Vec<usize> = (0..30).map(|_| random.below(values.len() as u64) as usize).collect();
                for (first, second) in picks.iter().zip(&picks[1..]) {
                    let picked = [*first, *second].map(|row| values.slice(row, 1));
                    let picked = arrow_select::concat::concat(&[&picked[0], &picked[1]]).unwrap();
                    let points = ColumnPoints::new(column, known.column_type, &picked).unwrap();
                    let Some(kept) = part.point_rows(slice, column, &points).unwrap() else {
                        prop_assert!(!filtered.contains(&column));
                        continue;
                    };
                    prop_assert!(filtered.contains(&column));
                    prop_assert!(kept.windows(2).all(|pair| pair[0].end < pair[1].start));
                    prop_assert!(kept.iter().all(|r| held.rows.start <= r.start && r.end <= held.rows.end));
                    for row in [*first, *second].into_iter().filter(|row| values.is_valid(*row)) {
                        let row = held.rows.start + row;
                        prop_assert!(kept.iter().any(|range| range.contains(&row)), "{} row {row}", known.name);
                    }
                }
            }
        }
    }
}

#[test]
fn others_are_denied_but_for_one_in_a_hundred() {
    let mut random = Random(4);
    let ids: Vec<u64> = (0..200_000).map(|_| random.next() | 1).collect();
    let part = part_of(Arc::new(UInt64Array::from(ids.clone())), ColumnType::UInt64, 150_000);
    let size = part.bloom_bytes(0) as f64 / ids.len() as f64;
    assert!(size < 1.3, "{size} bytes a value");
    let groups: usize = 150_000_usize.div_ceil(16_384) + 50_000_usize.div_ceil(16_384);
    let mut hits = 0;
    for _ in 0..5_000 {
        let none: ArrayRef = Arc::new(UInt64Array::from(vec![random.next() & !1]));
        let rows: usize = found(&part, ColumnType::UInt64, none).iter().map(ExactSizeIterator::len).sum();
        hits += rows.div_ceil(16_384);
    }
    let rate = hits as f64 / (5_000 * groups) as f64;
    assert!(rate > 0.001 && rate < 0.015, "{rate} of look-ups of other values find a group");
    for (row, id) in ids.iter().enumerate().step_by(997) {
        let kept = found(&part, ColumnType::UInt64, Arc::new(UInt64Array::from(vec![*id])));
        assert!(kept.iter().any(|range| range.contains(&row)));
        assert!(kept.iter().map(ExactSizeIterator::len).sum::<usize>() <= 4 * 16_384, "{kept:?}");
    }
}

#[test]
fn few_values_take_few_bytes() {
    let same = part_of(Arc::new(Int64Array::from(vec![Some(7); 100_000])), ColumnType::Int64, 100_000);
    assert_eq!(same.bloom_bytes(0), 7 * 32 + 8);
    let none = part_of(Arc::new(Int64Array::new_null(100_000)), ColumnType::Int64, 100_000);
    assert_eq!(none.bloom_bytes(0), 0);
    assert_eq!(found(&none, ColumnType::Int64, Arc::new(Int64Array::from(vec![Some(7), None]))), []);
    assert_eq!(found(&same, ColumnType::Int64, Arc::new(Int64Array::new_null(1))), []);
}

#[test]
fn numbers_that_are_equal_are_one() {
    let zeros = part_of(Arc::new(Float64Array::from(vec![0.0, f64::NAN])), ColumnType::Float64, 10);
    for value in [0.0, -0.0, -f64::NAN] {
        let value: ArrayRef = Arc::new(Float64Array::from(vec![value]));
        assert_eq!(found(&zeros, ColumnType::Float64, value), std::slice::from_ref(&(0..2)));
    }
    let text: ArrayRef = Arc::new(StringArray::from(vec!["7"]));
    assert!(ColumnPoints::new(0, ColumnType::Int64, &text).is_err(), "a value of another type is refused");
}

#[test]
fn hashes_stay_as_they_are() {
    // What a file of format 3 says: any other row or bit would deny values that are there.
    let part = part_of(Arc::new(Int64Array::from(vec![42, 43])), ColumnType::Int64, 10);
    let at = layout::HEADER_BYTES..part.bytes.len();
    let bytes = &part.bytes[at];
    let hash = |n: i64| xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes());
    let word = |word: usize| [42, 43].iter().fold(0_u32, |bits, n| bits | 1 << (hash(*n) >> (5 * word) & 31));
    let cell: Vec<u8> = (0..8).flat_map(|at| word(at).to_le_bytes()).collect();
    assert!(bytes.windows(32).any(|window| window == cell));
    assert_eq!(filter_bytes(2, 1), Some(40));
    assert_eq!(filter_bytes(17 * 1_024, 640), Some(2 * 640 * 32 + 40));
    assert_eq!(filter_bytes(17 * 1_024, usize::MAX), None);
}

#[test]
fn a_filter_that_denies_a_value_is_a_flaw() {
    let shape = shape(21, 3_000);
    let schema = indexed(&schema(&shape));
    let bytes = write(&schema, &batches(&shape, &schema), 2_000, 1);
    let whole = open(bytes.clone(), &schema).unwrap();
    assert_eq!(whole.inspect(&|_| None, &mut |_| {}).flaws, []);
    let (slice, column) = (0, 8);
    let place = whole.bloom_columns().iter().position(|other| *other == column).unwrap();
    let record = whole.layout.blooms + (slice * whole.bloom_columns().len() + place) * layout::BLOOM_BYTES;
    let offset = layout::BloomRecord::read(&whole.bytes[record..]).offset as usize;
    let mut changed = bytes;
    changed[offset..offset + 32].fill(0);
    let damaged = open(changed.clone(), &schema).unwrap();
    let error = damaged.check().unwrap_err();
    assert!(matches!(error, EngineError::Damaged { offset: at, .. } if at == offset as u64), "{error}");
    let found = damaged.inspect(&|_| None, &mut |_| {});
    assert_eq!(found.good_rows(), 3_000, "no row is lost with a filter");
    assert!(found.flaws.iter().all(|flaw| flaw.what.contains("filter")) && !found.flaws.is_empty());
    // Under right checksums it is found by its values.
    let found = checksum_passed(|| open(changed, &schema).unwrap().inspect(&|_| None, &mut |_| {}));
    assert!(found.flaws.iter().any(|flaw| flaw.what.contains("denies a value")), "{found:?}");
}

fn checksum_passed<T>(work: impl FnOnce() -> T) -> T {
    crate::checksum::passed_over(work)
}

#[test]
fn parts_without_filters_are_as_before() {
    let shape = shape(5, 500);
    let plain = schema(&shape);
    let bytes = write(&plain, &batches(&shape, &plain), 400, 1);
    assert_eq!(bytes[8], 2);
    // A table that is indexed later reads them, and passes over nothing.
    let later = indexed(&plain);
    let part = open(bytes, &later).unwrap();
    let points = ColumnPoints::new(7, ColumnType::Int64, &part.read(7, 0..1).unwrap()).unwrap();
    assert_eq!(part.point_rows(0, 7, &points).unwrap(), None);
    let bytes = write(&later, &batches(&shape, &later), 400, 1);
    assert_eq!(bytes[8], 3);
    assert!(open(bytes.clone(), &plain).is_ok(), "an index that was dropped is no obstacle");
    let alone = Part::open_alone(FileBytes::new(bytes), Path::new("p"), "lost", PartitionBy::Day).unwrap();
    let expected: Vec<usize> = filtered(&later).collect();
    assert_eq!(alone.schema().indexed(), expected);
}
