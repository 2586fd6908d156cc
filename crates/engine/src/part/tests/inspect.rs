//! Looking at a whole part: nothing where nothing is wrong, and never a damaged row among the good ones.

use super::round_trip::cell;
use super::table::{Random, Shape, batches, schema, with_later};
use super::*;
use tickstone_model::PartitionBy;

fn shape(seed: u64, rows: usize) -> Shape {
    Shape {
        seed,
        rows,
        batches: 3,
        symbols: 5,
        timestamp: true,
        shuffled: true,
        series: 1,
        nulls: seed.is_multiple_of(2),
    }
}

fn inspect(part: &Part, symbols: usize) -> Inspection {
    part.inspect(&|_| Some(symbols), &mut |_| {})
}

#[test]
fn whole_parts_have_no_flaws() {
    for (seed, timestamp, series) in [(1, true, 1), (2, true, 2), (3, true, 0), (4, false, 1), (5, false, 0)]
    {
        let shape = Shape { timestamp, series, ..shape(seed, 5_000) };
        let schema = with_later(&schema(&shape));
        let bytes = write(&schema, &batches(&shape, &schema), 1_900, 1);
        let part = open(bytes, &schema).unwrap();
        // Other columns than the series' are symbols too, of any id.
        let mut bytes_seen = 0;
        let found = part.inspect(&|_| None, &mut |bytes| bytes_seen += bytes);
        assert_eq!(found.flaws, []);
        assert_eq!(found.good_rows(), 5_000);
        assert!(bytes_seen > 0 && bytes_seen < part.summary().file_bytes);
    }
}

#[test]
fn an_id_past_the_dictionary_is_a_flaw() {
    let shape = shape(7, 3_000);
    let schema = schema(&shape);
    let part = open(write(&schema, &batches(&shape, &schema), 4_000, 1), &schema).unwrap();
    let column = |c: usize| if c == 1 { Some(4) } else { None };
    let found = part.inspect(&column, &mut |_| {});
    assert!(
        found.flaws.iter().all(|flaw| flaw.what.contains("'s0'") && flaw.what.contains("an id")),
        "{found:?}"
    );
    assert!(!found.flaws.is_empty() && found.good_rows() < 3_000);
    assert!(inspect(&part, usize::MAX).flaws.is_empty());
}

#[test]
fn good_rows_of_a_damaged_part_are_those_written() {
    let shape = shape(11, 60_000);
    let schema = schema(&shape);
    let bytes = write(&schema, &batches(&shape, &schema), 25_000, 1);
    let whole = open(bytes.clone(), &schema).unwrap();
    let columns: Vec<_> = (0..schema.columns().len()).map(|c| whole.read(c, 0..60_000).unwrap()).collect();
    let mut random = Random(5);
    let (mut partly, mut refused) = (0, 0);
    for _ in 0..60 {
        let mut changed = bytes.clone();
        let at = random.below(bytes.len() as u64) as usize;
        let length = 1 + random.below(2_000) as usize;
        let end = bytes.len().min(at + length);
        changed[at..end].iter_mut().for_each(|byte| *byte ^= 1 + random.below(255) as u8);
        let Ok(part) = open(changed, &schema) else {
            refused += 1;
            continue;
        };
        let found = inspect(&part, usize::MAX);
        assert!(!found.flaws.is_empty(), "damage at {at}");
        let lost = 60_000 - found.good_rows();
        // At most the two groups of blocks that the damage can touch, or the slice whose index it is.
        assert!(lost > 0 && lost <= 50_000, "{lost} rows for damage at {at}");
        for good in &found.good {
            for (column, values) in columns.iter().enumerate() {
                let read = part.read(column, good.clone()).unwrap();
                for row in [good.start, (good.start + good.end) / 2, good.end - 1] {
                    assert_eq!(cell(&read, row - good.start), cell(values, row), "column {column} row {row}");
                }
            }
        }
        partly += 1;
    }
    assert!(partly > 40, "{partly} parts with good rows, {refused} refused");
}

#[test]
fn a_part_knows_its_own_columns() {
    let shape = shape(3, 100);
    let schema = schema(&shape);
    let bytes = write(&schema, &batches(&shape, &schema), 1_000, 1);
    let alone = Part::open_alone(FileBytes::new(bytes), Path::new("p"), "lost", PartitionBy::Hour).unwrap();
    let found = alone.schema();
    assert_eq!(found.columns(), schema.columns());
    assert_eq!((found.timestamp(), found.series()), (schema.timestamp(), schema.series()));
    assert_eq!((found.name(), found.partition_by()), ("lost", PartitionBy::Hour));
}
