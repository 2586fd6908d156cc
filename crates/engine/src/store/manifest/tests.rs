use super::*;
use crate::disk::MemoryDisk;
use crate::disk::checked::replace_file;
use crate::part::{PartName, PositionRange};
use crate::tape::change::{Change, PartEntry, encode_change, encode_part};
use tickstone_model::{AlterTable, Column, ColumnType, TimeRange, Ttl};

const DAY: i64 = 86_400_000_000_000;

fn schema() -> TableSchema {
    let builder =
        TableSchema::builder("t").column("ts", ColumnType::Timestamp).column("sym", ColumnType::Symbol);
    builder.timestamp("ts").build().unwrap()
}

fn entry(day: i64, schema_version: u32) -> PartEntry {
    PartEntry {
        partition: day * DAY,
        file: PartName::numbered(3, day.cast_unsigned()),
        positions: PositionRange { first: 1, last: 7 },
        rows: 5,
        times: Some((day * DAY, day * DAY + 4)),
        file_bytes: 99,
        schema_version,
    }
}

fn altered() -> Manifest {
    let first = schema();
    let add = AlterTable::AddColumn(Column::new("px", ColumnType::Float64));
    let second = first.altered(&add).unwrap();
    let second = second.altered(&AlterTable::SetTtl(Some(Ttl::parse("7d").unwrap()))).unwrap();
    let mut history = History::new(Arc::new(first)).altered(20, Arc::new(second.clone()));
    history.retire(22, TimeRange::new(i64::MIN, -DAY));
    Manifest {
        emptied: vec![entry(7, 0).emptied()],
        superseded: vec![SupersededRows {
            partition: entry(0, 0).partition,
            file: entry(0, 0).file,
            rows: vec![0, 1, 2],
        }],
        table: 4,
        schema: second,
        created_at: 1,
        truncated_at: 0,
        saved_at: 30,
        symbol_counts: vec![2],
        parts: pack(vec![entry(0, 0), entry(0, 1), entry(5, 1)]),
        imports: Vec::new(),
        history,
        staleness: Staleness::default(),
    }
}

#[test]
fn what_was_saved_is_loaded() {
    let disk = MemoryDisk::default();
    let manifest = altered();
    manifest.save(&disk).unwrap();
    assert_eq!(Manifest::load(&disk, 4).unwrap(), Some(manifest));
    assert_eq!(Manifest::load(&disk, 5).unwrap(), None);
}

/// As the first format had it: no properties, no history, entries one after the other, in any order; as the
/// second had it: with all that, entries still a list; as the third: emptied positions in the list, and
/// superseded rows.
#[test]
fn earlier_versions_are_read() {
    let disk = MemoryDisk::default();
    let save = |version: u32| {
        let mut out = Encoder::default();
        out.raw(MAGIC);
        out.u32(version);
        if version == 1 {
            out.raw(&encode_change(&Change::Create { table: 4, schema: schema() }).1);
        } else {
            out.u32(4);
            encode_schema(&mut out, &altered().schema);
        }
        [1, 0, 30].into_iter().for_each(|position| out.u64(position));
        out.len(1);
        out.u32(2);
        let parts = [entry(5, 0), entry(-3, 0), entry(7, 0).emptied(), entry(0, 0)];
        let parts = &parts[..if version > 2 { 4 } else { 2 }];
        out.len(parts.len());
        for part in parts {
            encode_part(&mut out, part);
            if version > 1 {
                out.u32(1);
            }
        }
        out.len(0);
        if version > 1 {
            encode_history(&mut out, &altered().history);
        }
        if version > 2 {
            encode_superseded(&mut out, &altered().superseded);
        }
        replace_file(&disk, &Manifest::path(4), out.finish()).unwrap();
        Manifest::load(&disk, 4).unwrap().unwrap()
    };
    let third = save(3);
    assert_eq!(
        third,
        Manifest { parts: pack(vec![entry(-3, 1), entry(0, 1), entry(5, 1)]), ..altered() },
        "the emptied positions leave the list"
    );
    let second = save(2);
    assert_eq!(
        second,
        Manifest {
            parts: pack(vec![entry(-3, 1), entry(5, 1)]),
            emptied: vec![],
            superseded: vec![],
            ..altered()
        }
    );
    let manifest = save(1);
    assert_eq!((manifest.schema.version(), manifest.schema.next_column_id()), (0, 2));
    assert_eq!(manifest.parts, pack(vec![entry(-3, 0), entry(5, 0)]));
    assert_eq!(manifest.history, History::new(Arc::new(schema())));
}

#[test]
fn parts_of_unknown_schemas_and_newer_formats_are_refused() {
    let disk = MemoryDisk::default();
    let check = |manifest: &Manifest, expect: &str| {
        manifest.save(&disk).unwrap();
        let error = Manifest::load(&disk, 4).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    check(&Manifest { parts: pack(vec![entry(0, 2)]), ..altered() }, "a schema that is not there");
    let twice = [pack(vec![entry(0, 0)]), pack(vec![entry(0, 1)])].concat();
    check(&Manifest { parts: twice, ..altered() }, "chunks of parts that do not follow each other");
    let mut out = Encoder::default();
    out.raw(MAGIC);
    out.u32(VERSION + 1);
    replace_file(&disk, &Manifest::path(4), out.finish()).unwrap();
    assert!(matches!(Manifest::load(&disk, 4), Err(EngineError::NewerFormat { .. })));
}

/// Found by fuzzing: two parts whose rows together are more than a number holds.
#[test]
fn more_rows_than_a_number_holds_are_damage() {
    for (rows, file_bytes) in [(1 << 63, 8), (8, 1 << 63)] {
        let part =
            PartEntry { rows, file_bytes, ..PartEntry::emptied_of(0, PositionRange { first: 1, last: 1 }) };
        let part = PartEntry { file: "000001-00000000.part".to_string(), ..part };
        let mut out = Encoder::default();
        out.len(2);
        for _ in 0..2 {
            encode_part(&mut out, &part);
        }
        assert!(decode_parts(&mut Decoder::new(&out.finish()), 1).is_err());
        let mut out = Encoder::default();
        out.len(2);
        (0..2).for_each(|_| PackedChunk::new(std::slice::from_ref(&part)).encode(&mut out));
        assert!(decode_parts(&mut Decoder::new(&out.finish()), VERSION_CHUNKS).is_err());
    }
}
