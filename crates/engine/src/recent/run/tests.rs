use super::*;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{BooleanArray, Int64Array, ListArray, TimestampNanosecondArray};
use arrow_buffer::OffsetBuffer;
use proptest::prelude::*;
use tickstone_model::{ColumnType, ElementType, PartitionBy, TableSchema};

fn batch(rows: &[(i64, i64)]) -> RowBatch {
    let schema = TableSchema::builder("t")
        .column("ts", ColumnType::Timestamp)
        .column("symbol", ColumnType::Symbol)
        .column("id", ColumnType::Int64)
        .column("levels", ColumnType::Array(ElementType::Int64));
    let schema = Arc::new(schema.timestamp("ts").partition_by(PartitionBy::Hour).build().unwrap());
    let columns: Vec<arrow_array::ArrayRef> = vec![
        Arc::new(TimestampNanosecondArray::from_iter_values(rows.iter().map(|(ts, _)| *ts))),
        Arc::new(UInt32Array::from_iter(
            rows.iter().map(|(_, id)| u32::try_from(id % 3).ok().filter(|s| *s < 2)),
        )),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|(_, id)| *id))),
        Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(rows.iter().map(|(_, id)| levels(*id)))),
    ];
    RowBatch::new(schema, columns).unwrap()
}

/// The array of a row: none, of no elements, or of some, the first one NULL.
fn levels(id: i64) -> Option<Vec<Option<i64>>> {
    (id % 5 != 0).then(|| (0..id % 4).map(|level| (level > 0).then_some(id)).collect())
}

fn pairs(batch: &RowBatch) -> Vec<(i64, i64)> {
    let ids = batch.columns()[2].as_primitive::<Int64Type>().values();
    let wanted = ListArray::from_iter_primitive::<Int64Type, _, _>(ids.iter().map(|id| levels(*id)));
    assert_eq!(batch.columns()[3].as_list::<i32>(), &wanted, "arrays go with their rows");
    batch.times().unwrap().iter().copied().zip(ids.iter().copied()).collect()
}

const AT: PositionRange = PositionRange { first: 1, last: 1 };
const HOUR: i64 = 3_600_000_000_000;

proptest! {
    #[test]
    fn splitting_keeps_every_row_in_time_and_arrival_order(times in proptest::collection::vec(-3 * HOUR..3 * HOUR, 0..60)) {
        let rows: Vec<(i64, i64)> = times.iter().map(|ts| ts / (HOUR / 4) * (HOUR / 4)).zip(0..).collect();
        let mut expected = rows.clone();
        expected.sort_by_key(|(ts, _)| *ts);
        let pieces = split_by_partition(batch(&rows)).unwrap();
        for (partition, piece) in &pieces {
            prop_assert!(piece.times().unwrap().iter().all(|ts| partition.contains(*ts)));
        }
        let found: Vec<_> = pieces.iter().flat_map(|(_, piece)| pairs(piece)).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn merging_is_a_stable_sort_of_all(sizes in proptest::collection::vec(1_usize..9, 1..6), seed in 0_i64..50) {
        let mut all = Vec::new();
        let mut runs = Vec::new();
        for (n, size) in sizes.iter().enumerate() {
            let mut rows: Vec<(i64, i64)> =
                (0..*size).map(|i| ((i as i64 * seed + n as i64) % 7, (n * 100 + i) as i64)).collect();
            rows.sort_by_key(|(ts, _)| *ts);
            all.extend(rows.iter().copied());
            let at = n as u64 + 5;
            runs.push(Arc::new(Run::new(batch(&rows), PositionRange { first: at, last: at })));
        }
        let merged = merge_runs(&runs).unwrap();
        all.sort_by_key(|(ts, _)| *ts);
        prop_assert_eq!(pairs(merged.batch()), all);
        prop_assert_eq!(merged.positions(), PositionRange { first: 5, last: sizes.len() as u64 + 4 });
    }

    #[test]
    fn repeated_merging_leaves_few_runs(sizes in proptest::collection::vec(1_usize..40, 1..200)) {
        let mut runs: Vec<usize> = Vec::new();
        for size in &sizes {
            runs.push(*size);
            let count = runs_to_merge(&runs, usize::MAX);
            let merged: usize = runs.drain(runs.len() - count..).sum();
            if count > 0 {
                runs.push(merged);
            }
        }
        let total: usize = sizes.iter().sum();
        prop_assert_eq!(runs.iter().sum::<usize>(), total);
        prop_assert!(runs.len() <= total.ilog2() as usize + 2, "{:?}", runs);
    }
}

#[test]
fn rows_of_a_symbol_are_found_once_and_null_is_one() {
    let run = Run::new(batch(&[(1, 0), (2, 1), (3, 2), (4, 3), (5, 5)]), AT);
    assert_eq!(*run.rows_of_symbol(0), [0, 3]);
    assert_eq!(*run.rows_of_symbol(1), [1]);
    assert_eq!(*run.rows_of_symbol(NULL_SYMBOL), [2, 4]);
    assert!(run.rows_of_symbol(7).is_empty());
}

/// A row at each of `times`, with an array of as many flags.
fn flags(times: std::ops::Range<i64>, count: usize) -> RowBatch {
    let schema = TableSchema::builder("t").column("ts", ColumnType::Timestamp);
    let schema = schema.column("flags", ColumnType::Array(ElementType::Boolean)).timestamp("ts");
    let rows = times.clone().count();
    let values = Arc::new(BooleanArray::from(vec![true; rows * count]));
    let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(count, rows));
    let columns: Vec<arrow_array::ArrayRef> = vec![
        Arc::new(TimestampNanosecondArray::from_iter_values(times)),
        Arc::new(ListArray::new(ElementType::Boolean.field(), offsets, values, None)),
    ];
    RowBatch::new(Arc::new(schema.build().unwrap()), columns).unwrap()
}

#[test]
fn runs_whose_elements_no_offset_reaches_stay_apart() {
    let run = Arc::new(Run::new(flags(0..1, 1 << 20), AT));
    assert!(fit_together(&vec![Arc::clone(&run); 2_047]));
    assert!(!fit_together(&vec![run; 2_048]));
}

#[test]
fn runs_of_one_batch_share_its_bytes() {
    let batch = flags(0..4, 8_000);
    let bytes = |from: usize, rows: usize| Run::new(batch.slice(from, rows), AT).bytes();
    assert_eq!(bytes(1, 1), bytes(3, 1));
    assert!(bytes(0, 1) < 1_100 && bytes(0, 4) > 4_000);
}

#[test]
fn the_ends_of_time_have_runs() {
    let pieces = split_by_partition(batch(&[(i64::MAX - 2, 0), (i64::MIN, 1), (i64::MAX - 1, 2)])).unwrap();
    assert_eq!(pieces.iter().map(|(_, piece)| piece.rows()).sum::<usize>(), 3);
}
