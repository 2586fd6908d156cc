use super::*;
use proptest::prelude::*;

fn entry() -> impl Strategy<Value = PartEntry> {
    let name = prop_oneof![
        3 => (0..5_u64, 0..1_000_u64, proptest::option::of(any::<u32>()), any::<bool>()).prop_map(
            |(epoch, number, written_s, dense)| {
                let density = if dense && written_s.is_some() { Density::Dense } else { Density::Fast };
                PartName { epoch, number, written_s: written_s.map(u64::from), density }.to_string()
            }
        ),
        1 => "[a-z0-9.-]{1,20}",
    ];
    let times = proptest::option::of((any::<i64>(), any::<i64>()));
    let numbers = (any::<i64>(), any::<(u64, u64)>(), any::<u64>(), any::<u32>());
    (numbers, name, times, 0..3_u32).prop_map(
        |((partition, positions, rows, bytes), file, times, version)| PartEntry {
            partition: partition >> (version * 20),
            file,
            positions: PositionRange {
                first: positions.0.min(positions.1),
                last: positions.0.max(positions.1),
            },
            rows: rows >> 8,
            times: times.map(|(a, b)| (a.min(b), a.max(b))),
            file_bytes: u64::from(bytes),
            schema_version: version,
        },
    )
}

proptest! {
    #[test]
    fn entries_come_back(mut entries in proptest::collection::vec(entry(), 0..200)) {
        let chunks = pack(entries.clone());
        entries.sort_by_key(|entry| (entry.partition, entry.positions.first));
        let mut out = Encoder::default();
        chunks.iter().for_each(|chunk| chunk.encode(&mut out));
        let bytes = out.finish();
        let mut input = Decoder::new(&bytes);
        let read: Vec<_> = chunks.iter().map(|_| PackedChunk::decode(&mut input).unwrap()).collect();
        prop_assert!(input.is_empty());
        prop_assert_eq!(&read, &chunks);
        let found: Vec<_> = unpack(&read).collect();
        prop_assert_eq!(found, entries);
    }

    #[test]
    fn bytes_that_are_no_chunk_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(chunk) = PackedChunk::decode(&mut Decoder::new(&bytes)) {
            prop_assert_eq!(chunk.entries().len(), chunk.summary.parts as usize);
        }
    }
}

#[test]
fn a_day_of_a_table_takes_few_bytes() {
    const DAY: i64 = 86_400_000_000_000;
    let entry = |day: i64| PartEntry {
        partition: day * DAY,
        file: PartName::numbered(1, day.cast_unsigned()),
        positions: PositionRange {
            first: (1 << 40) + day.cast_unsigned() * 5_000,
            last: (1 << 40) + day.cast_unsigned() * 5_000 + 4_999,
        },
        rows: 1_000_000 + day.cast_unsigned(),
        times: Some((day * DAY + 13 * 3_600_000_000_123, day * DAY + 20 * 3_600_000_000_000)),
        file_bytes: 12_345_678,
        schema_version: 0,
    };
    let chunks = pack((0..3_650).map(entry).collect());
    let bytes: usize = chunks.iter().map(|chunk| chunk.bytes.len()).sum();
    assert!(bytes < 3_650 * 40, "{bytes} bytes");
    assert_eq!(chunks.len(), 3_650_usize.div_ceil(CHUNK_PARTITIONS));
}
