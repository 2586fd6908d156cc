use super::*;
use crate::format_nanos;

fn check(unit: PartitionBy, ts: i64, from: &str, to: &str, label: &str) {
    let range = unit.partition_of(ts);
    assert_eq!((format_nanos(range.from), format_nanos(range.to)), (from.into(), to.into()));
    assert_eq!(unit.label(range.from), label);
    assert!(range.contains(ts));
}

/// 2024-02-29T13:14:15.5Z, a Thursday in a leap year.
const LEAP: i64 = 1_709_212_455_500_000_000;

#[test]
fn partitions_of_a_leap_day() {
    check(PartitionBy::Hour, LEAP, "2024-02-29T13:00:00Z", "2024-02-29T14:00:00Z", "2024-02-29T13");
    check(PartitionBy::Day, LEAP, "2024-02-29T00:00:00Z", "2024-03-01T00:00:00Z", "2024-02-29");
    check(PartitionBy::Week, LEAP, "2024-02-26T00:00:00Z", "2024-03-04T00:00:00Z", "2024-02-26");
    check(PartitionBy::Month, LEAP, "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z", "2024-02");
    check(PartitionBy::Year, LEAP, "2024-01-01T00:00:00Z", "2025-01-01T00:00:00Z", "2024");
}

#[test]
fn partitions_before_the_epoch() {
    check(PartitionBy::Week, 0, "1969-12-29T00:00:00Z", "1970-01-05T00:00:00Z", "1969-12-29");
    check(PartitionBy::Day, -1, "1969-12-31T00:00:00Z", "1970-01-01T00:00:00Z", "1969-12-31");
    check(PartitionBy::Month, -1, "1969-12-01T00:00:00Z", "1970-01-01T00:00:00Z", "1969-12");
}

#[test]
fn every_partition_meets_its_neighbour() {
    for unit in PartitionBy::ALL {
        if unit == PartitionBy::None {
            continue;
        }
        let mut range = unit.partition_of(LEAP);
        for _ in 0..200 {
            let next = unit.partition_of(range.to);
            assert_eq!(range.to, next.from, "{unit}");
            assert_eq!(unit.partition_of(next.to - 1), next, "{unit}");
            range = next;
        }
    }
}

#[test]
fn the_ends_of_time_have_partitions() {
    for unit in PartitionBy::ALL {
        assert!(unit.partition_of(i64::MAX - 1).contains(i64::MAX - 1), "{unit}");
        assert!(unit.partition_of(i64::MIN).contains(i64::MIN), "{unit}");
    }
}
