use super::*;
use crate::disk::{Disk, MemoryDisk};
use crate::part::{PartName, PositionRange};
use crate::store::manifest::pack;
use crate::tape::change::PartEntry;
use tickstone_model::{ColumnType, PartitionBy};

const DAY: i64 = 86_400_000_000_000;

fn unpacking() -> Unpacking {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::default());
    let schema =
        TableSchema::builder("t").column("ts", ColumnType::Timestamp).timestamp("ts").build().unwrap();
    let schema = Arc::new(schema);
    Unpacking {
        dir: Arc::new(TableDir::new(1, &disk)),
        history: Arc::new(History::new(Arc::clone(&schema))),
        schema,
    }
}

fn entry(day: i64, number: u64) -> PartEntry {
    PartEntry {
        partition: day * DAY,
        file: PartName::numbered(1, number),
        positions: PositionRange { first: number, last: number },
        rows: 10,
        times: Some((day * DAY, day * DAY + 9)),
        file_bytes: 100,
        schema_version: 0,
    }
}

fn part(day: i64, number: u64, unpacking: &Unpacking) -> Source {
    let schema = unpacking.history.version(0).unwrap();
    Source::Part(Arc::new(PartFile::new(entry(day, number), schema, &unpacking.dir)))
}

fn days(partitions: &Partitions) -> Vec<(i64, u64)> {
    partitions.iter().map(|partition| (partition.range.from / DAY, partition.rows())).collect()
}

fn check(partitions: &Partitions, expect: &[(i64, u64)]) {
    assert_eq!(days(partitions), expect);
    assert_eq!(partitions.len(), expect.len());
    assert_eq!(partitions.rows(), expect.iter().map(|(_, rows)| rows).sum::<u64>());
    assert_eq!(partitions.disk_bytes(), partitions.rows() * 10);
    assert_eq!(partitions.times().map(|times| times.1 / DAY), expect.last().map(|(day, _)| *day));
    for (index, (day, _)) in expect.iter().enumerate() {
        assert_eq!(partitions[index].range.from, day * DAY);
        assert!(partitions.find(day * DAY).is_some());
    }
    assert!(partitions.chunks.iter().all(|chunk| chunk.sums.partitions > 0));
}

#[test]
fn partitions_come_and_go_in_any_order() {
    let unpacking = unpacking();
    let mut partitions = Partitions::default();
    let mut expect = Vec::new();
    // Every third day, then the days between, from the end on.
    let order = (0..300).step_by(3).chain((0..300).rev().filter(|day| day % 3 != 0));
    for (number, day) in (0..).zip(order) {
        let range = PartitionBy::Day.partition_of(day * DAY);
        partitions.change(range, |partition| partition.sources.push(part(day, number, &unpacking)));
        expect.push((day, 10));
    }
    expect.sort_unstable();
    check(&partitions, &expect);
    let before = partitions.clone();
    let range = |from: i64, to: i64| TimeRange::new(from * DAY, to * DAY);
    assert_eq!(partitions.remove_covered(range(50, 200)).len(), 150);
    assert_eq!(partitions.remove_covered(TimeRange::new(i64::MIN, 10 * DAY + 1)).len(), 10);
    assert!(partitions.remove_covered(TimeRange::new(20 * DAY + 1, 21 * DAY)).is_empty());
    check(&before, &expect);
    expect.retain(|(day, _)| (10..50).contains(day) || *day >= 200);
    check(&partitions, &expect);
    let gone = partitions.remove_covered(TimeRange::ALL);
    assert_eq!(gone.len(), expect.len());
    check(&partitions, &[]);
}

#[test]
fn what_a_manifest_has_is_unpacked_when_it_is_wanted() {
    let entries: Vec<_> = (0..1_000).map(|day| entry(day, day.cast_unsigned())).collect();
    let mut partitions = Partitions::unpacked_later(pack(entries), unpacking());
    let unpacked = |partitions: &Partitions| {
        partitions.chunks.iter().filter(|chunk| chunk.partitions.get().is_some()).count()
    };
    assert_eq!(
        (partitions.len(), partitions.rows(), partitions.times()),
        (1_000, 10_000, Some((0, 999 * DAY + 9)))
    );
    assert_eq!(unpacked(&partitions), 0);
    let found: Vec<_> =
        partitions.within(TimeRange::new(500 * DAY, 502 * DAY)).map(|(index, _)| index).collect();
    assert_eq!(found, [500, 501]);
    assert_eq!(unpacked(&partitions), 1);
    partitions.change(PartitionBy::Day.partition_of(999 * DAY), |partition| {
        partition.sources.push(part(999, 7_000, &super::tests::unpacking()))
    });
    assert_eq!(unpacked(&partitions), 2);
    let again = Partitions::unpacked_later(partitions.packed(), unpacking());
    assert_eq!(unpacked(&again), 0);
    let mut expect: Vec<_> = (0..1_000).map(|day| (day, 10)).collect();
    expect[999].1 = 20;
    check(&again, &expect);
}
